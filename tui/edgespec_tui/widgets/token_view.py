"""A token view with a cursor that walks from token to token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from edgespec.types import Origin
from edgespec_tui.flow import Flow
from edgespec_tui.tokens import REJECTED, Place
from edgespec_tui.widgets.token_flow import TokenFlow

BORDER = "▏"
"""Stands between rounds while the cursor is here."""
NO_TEXT = "◦"
"""Stands for a token that draws nothing: one that ends the reply, or is part of a character."""
LINE_END = "⏎"
BORDER_KEY = -1


class TokenView(TokenFlow):
    """While the cursor is here, rounds are parted by a thin mark and every token is to be seen, line ends too."""

    HELP = "The tokens of a reply. **Arrows** move the cursor; the line below tells about the token. **Esc** goes back."
    COMPONENT_CLASSES: ClassVar[set[str]] = {"token--border"}

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "step(-1)", "Token", key_display="←→"),
        Binding("right", "step(1)", "Next token", show=False),
        Binding("up", "line(-1)", "Line", key_display="↑↓"),
        Binding("down", "line(1)", "Next line", show=False),
        Binding("escape", "back", "Back", key_display="esc"),
        Binding("home", "edge(0)", "First token", show=False),
        Binding("end", "edge(-1)", "Last token", show=False),
    ]

    @dataclass
    class Moved(Message):
        """The cursor is on another token."""

        view: TokenView
        place: Place
        line: int

    @dataclass
    class Left(Message):
        """The cursor wants to go beyond the first line (-1) or the last one (1), or away (0)."""

        view: TokenView
        way: int

    def __init__(self) -> None:
        super().__init__()
        self._cursor: int | None = None

    @property
    def walkable(self) -> bool:
        """Are there tokens to walk on, to be seen?"""
        return self.display and any(mark.place is not None for mark in self._marks)

    def enter(self, *, at_end: bool) -> None:
        """Put the cursor on the first token or the last one."""
        keys = self._keys
        self._cursor = keys[-1 if at_end else 0]
        self._flow_again()
        self.can_focus = True
        self.focus(scroll_visible=False)
        self.call_after_refresh(self._tell)

    def leave(self) -> None:
        """Take the cursor away."""
        self._cursor = None
        self.can_focus = False
        self._flow_again()

    def set_text(self, text: str) -> None:
        self._cursor = None
        super().set_text(text)

    # Keys

    def action_step(self, way: int) -> None:
        """To the token before or behind this one."""
        keys = self._keys
        if self._cursor in keys and 0 <= (i := keys.index(self._cursor) + way) < len(keys):
            self._go(keys[i])

    def action_edge(self, which: int) -> None:
        """To the first token or the last one."""
        if keys := self._keys:
            self._go(keys[which])

    def action_line(self, way: int) -> None:
        """To the token above or below."""
        if self._cursor is None:
            return
        lines = self._lines_of(self._cursor)
        y, x = lines[0 if way < 0 else -1], self._column(lines[0])
        while 0 <= (y := y + way) < self._flow.height:
            if (key := self._at(x, y)) is not None:
                self._go(key)
                return
        self.post_message(self.Left(self, way))

    def action_back(self) -> None:
        """Enough seen."""
        self.post_message(self.Left(self, 0))

    def on_click(self, event: events.Click) -> None:
        """While the cursor is here, a click moves it."""
        if self._cursor is not None and (key := self._at(event.x, event.y)) is not None:
            event.stop()
            self._go(key)

    def _go(self, key: int) -> None:
        for y in (*self._lines_of(self._cursor), *self._lines_of(key)):
            self._strips.pop(y, None)
        self._cursor = key
        self.refresh()
        self._tell()

    def _tell(self) -> None:
        if self._cursor is not None and (place := self._marks[self._cursor].place) is not None:
            self.post_message(self.Moved(self, place, self._lines_of(self._cursor)[0]))

    # Where tokens are

    @property
    def _keys(self) -> list[int]:
        """The marks that the cursor can stand on."""
        return [key for key, mark in enumerate(self._marks) if mark.place is not None]

    def _lines_of(self, key: int | None) -> list[int]:
        """The lines that a mark is on; the first one if there is nothing of it to be seen."""
        lines = [y for y in range(self._flow.height) if any(each == key for _, each in self._flow.line(y))]
        return lines or [0]

    def _column(self, y: int) -> int:
        """Where in this line the cursor's token begins."""
        x = 0
        for text, key in self._flow.line(y):
            if key == self._cursor:
                return x
            x += cell_len(text)
        return 0

    def _at(self, x: int, y: int) -> int | None:
        """The token at this place, or the last one before it in the line; None if there is none."""
        found, end = None, 0
        for text, key in self._flow.line(y):
            if key != BORDER_KEY and self._marks[key].place is not None and (end <= x or found is None):
                found = key
            end += cell_len(text)
        return found

    # Drawing

    def _flow_again(self) -> None:
        self._flow = Flow(self._flow.width)
        self._strips.clear()
        for key in range(len(self._marks)):
            self._draw_mark(key)
        self.refresh(layout=True)

    def _draw_mark(self, key: int) -> None:
        mark = self._marks[key]
        if self._cursor is None or mark.place is None:
            super()._draw_mark(key)
            return
        if self._begins_round(key):
            self._flow.append(BORDER, BORDER_KEY)
        if mark.style == REJECTED:
            self._flow.append(mark.whole or NO_TEXT, key)
        else:
            self._flow.append(mark.text.replace("\n", f"{LINE_END}\n") or NO_TEXT, key)

    def _begins_round(self, key: int) -> bool:
        """Is there a border before this token? Not between rounds without drafts: each of them is one token."""
        here, before = self._marks[key], self._marks[key - 1] if key else None
        if before is None or before.place is None or here.place is None or before.place.round == here.place.round:
            return False
        return here.style != Origin.PLAIN or before.style != Origin.PLAIN

    def _style_of(self, key: int) -> Style:
        if key == BORDER_KEY:
            return self.get_visual_style("token--border").rich_style
        style = super()._style_of(key)
        return style + Style(reverse=True, dim=False) if key == self._cursor else style
