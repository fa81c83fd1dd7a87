"""The playhead of a race: state, speed, place, length; a click goes there."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events
from textual.app import RenderResult
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from edgespec_tui.race import Race


class RaceBar(Widget, can_focus=False):
    """One line."""

    @dataclass
    class Sought(Message):
        """A place was clicked, as a share of the whole."""

        share: float

    def __init__(self) -> None:
        super().__init__()
        self._race: Race | None = None

    def show(self, race: Race | None) -> None:
        """Draw this race's playhead."""
        self._race = race
        self.refresh()

    def render(self) -> RenderResult:
        race = self._race
        if race is None:
            return Content("")
        state = "▶ playing" if race.playing else "■ end    " if race.position >= race.duration else "‖ paused "
        _, line = self._parts()
        done = round(race.position / race.duration * (line - 1)) if race.duration else 0
        return Content.assemble(
            (f" {state} {race.speed:>4g}x ", "bold $text-accent"),
            ("━" * done, "$text-success"), ("●", "bold $text-success"), ("─" * (line - 1 - done), "$foreground-muted"),
            f" {race.position:>5.1f} of {race.duration:.1f} s",
        )  # fmt: skip

    def _parts(self) -> tuple[int, int]:
        """Where the line begins, and its length."""
        return 17, max(8, self.size.width - 17 - 18)

    def on_click(self, event: events.Click) -> None:
        """Go there."""
        before, line = self._parts()
        if self._race is not None and before <= event.x < before + line:
            self.post_message(self.Sought((event.x - before) / max(1, line - 1)))
