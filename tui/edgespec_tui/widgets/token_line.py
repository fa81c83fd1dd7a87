"""The line that tells about the token under the cursor."""

from __future__ import annotations

from rich.cells import cell_len
from textual.content import Content
from textual.widgets import Static

from edgespec_tui.tokens import Token, in_short, in_words


class TokenLine(Static):
    """One line; in full words where they fit."""

    def __init__(self) -> None:
        super().__init__("")
        self._token: Token | None = None

    def show(self, token: Token | None) -> None:
        """Tell about this token; about none, take no place."""
        self._token = token
        self.display = token is not None
        self._say()

    def on_mount(self) -> None:
        self.display = self._token is not None

    def on_resize(self) -> None:
        self._say()

    def _say(self) -> None:
        if (token := self._token) is not None:
            words = in_words(token)
            room = self.size.width or self.screen.size.width - 2
            self.update(Content(words if cell_len(words) <= room else in_short(token)), layout=False)
