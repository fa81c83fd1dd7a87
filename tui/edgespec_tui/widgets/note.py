"""A line in the conversation that is not part of it: a notice, a failure, what the app is doing."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from edgespec_tui.text import clean

GLYPHS = {"info": "i", "warning": "!", "error": "x", "busy": "…"}


class Note(Static):
    """One or two sentences with a glyph that says how bad it is."""

    def __init__(self, text: str, kind: str = "info", hint: str = "") -> None:
        super().__init__(classes=f"-{kind}")
        self._kind = kind
        self.say(text, hint)

    def say(self, text: str, hint: str = "") -> None:
        """Replace what it says."""
        parts: list[str | tuple[str, str]] = [(f"{GLYPHS[self._kind]} ", "bold"), clean(text)]
        if hint:
            parts += ["\n  ", (clean(hint), "italic")]
        self.update(Content.assemble(*parts))
