"""What the user said."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Static

from edgespec_tui.text import clean, count

LONGEST_SHOWN = 4_000
"""Characters of a message that are drawn; the model gets all of it."""


class UserMessage(Horizontal):
    """A message as it was sent, cut on the screen if it is very long."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def compose(self) -> ComposeResult:
        yield Static("you", classes="who")
        shown = clean(self.text)
        cut = ""
        if len(shown) > LONGEST_SHOWN:
            cut = f"\n… {count(len(shown) - LONGEST_SHOWN, 'more character')}, all sent"
            shown = shown[:LONGEST_SHOWN]
        yield Static(Content.assemble(shown, (cut, "$foreground-muted italic")), classes="said")
