"""What a window shows that is too small for a chat."""

from __future__ import annotations

from textual.app import RenderResult
from textual.content import Content
from textual.widget import Widget


class TooSmall(Widget):
    """Covers everything; what lies under it goes on."""

    def render(self) -> RenderResult:
        return Content(f"Too small: {self.app.size.width}x{self.app.size.height}. Needs 40x10.")
