"""What a model thought before it answered: one line, until it is asked for."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from edgespec_tui.text import count
from edgespec_tui.thought import Part
from edgespec_tui.widgets.token_view import TokenView


class ThoughtView(Vertical):
    """Collapsed by default; a click opens it too."""

    class Toggled(Message):
        """It was clicked."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = 0
        self._flow = TokenView()
        self._running = False
        self._shown = False

    def compose(self) -> ComposeResult:
        yield Static("", classes="line")
        yield self._flow

    def on_mount(self) -> None:
        self.display = self.tokens > 0
        self._flow.display = self._shown
        self._label()

    def reset(self) -> None:
        """Forget all thoughts."""
        self.tokens = 0
        self._flow.set_text("")
        self.display = False

    def add(self, parts: list[Part], *, running: bool) -> None:
        """Add thoughts; `running` while there may be more."""
        before = self._flow.lines
        for part in parts:
            self._flow.add_tokens(*part)
            self.tokens += len(part[1])
        self._running = running
        self.display = self.tokens > 0
        self._flow.draw(before)
        self._label()

    def show(self, shown: bool) -> None:
        """Open or close it."""
        self._shown = shown
        self._flow.display = shown
        self._flow.refresh(layout=True)
        self._label()

    def on_click(self) -> None:
        self.post_message(self.Toggled())

    def _label(self) -> None:
        if self.is_mounted:
            verb = "thinking" if self._running else "thought"
            glyph, key = ("▾", "hides") if self._shown else ("▸", "shows")
            line = f"{glyph} {verb}: {count(self.tokens, 'token')}, F10 {key} them"
            self.query_one(".line", Static).update(Content(line))
