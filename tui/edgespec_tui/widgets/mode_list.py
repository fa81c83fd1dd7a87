"""Modes to switch on and off; a mark says which are on, with or without colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from edgespec.contestants import PLAIN, Contestant
from edgespec.types import Mode
from edgespec_tui.text import one_line
from edgespec_tui.widgets.race_pane import name_of


class ModeList(OptionList):
    """Plain is always on: the others are measured against it. What cannot run says why."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space,enter", "switch", "On/off", key_display="space", tooltip="Take this mode in, or leave it out"),
    ]

    def __init__(
        self, offered: Sequence[Contestant], chosen: set[Contestant], reasons: Mapping[Mode, str | None]
    ) -> None:
        self._offered = tuple(offered)
        self._reasons = reasons
        self._chosen = {PLAIN, *(one for one in chosen if reasons.get(one.mode) is None)}
        super().__init__(*map(self._option, self._offered), id="modes", markup=False, compact=True)

    @property
    def chosen(self) -> tuple[Contestant, ...]:
        """Modes that are on, in their order."""
        return tuple(one for one in self._offered if one in self._chosen)

    def _option(self, one: Contestant) -> Option:
        return Option(self._line(one), disabled=one == PLAIN or self._reasons.get(one.mode) is not None)

    def _line(self, one: Contestant) -> Content:
        on = one in self._chosen
        reason = self._reasons.get(one.mode) or ""
        words = "always on" if one == PLAIN else one_line(reason)
        mark = ("[x] ", "bold $text-success") if on else ("[ ] ", "$foreground-muted")
        return Content.assemble(mark, f"{name_of(one):<12} ", (words, "$foreground-muted"))

    def action_switch(self) -> None:
        """Switch the highlighted mode on or off."""
        if (place := self.highlighted) is not None and not self.get_option_at_index(place).disabled:
            one = self._offered[place]
            self._chosen ^= {one}
            self.replace_option_prompt_at_index(place, self._line(one))
