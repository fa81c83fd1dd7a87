"""Modes raced side by side: measured one after another, replayed together at their own speed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.timer import Timer

from edgespec.comparison import Score
from edgespec.conclusion import Conclusion
from edgespec.contestants import PLAIN
from edgespec.errors import EdgeSpecError
from edgespec_tui.export import export_comparison
from edgespec_tui.race import Race, scores_of
from edgespec_tui.screens.compare_measuring import CompareMeasuring
from edgespec_tui.text import one_line
from edgespec_tui.widgets.race_bar import RaceBar

SCRUB = 1 / 20
"""Share of the race that an arrow key moves."""


@dataclass
class Tick(Message):
    """Time to draw the replay again."""

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, Tick)


class CompareScreen(CompareMeasuring):
    """The replay, and what the keys do."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "play", "Play", key_display="␣", tooltip="Play, pause, or play again"),
        Binding("left", "scrub(-1)", "Seek", key_display="←→", priority=True, tooltip="Earlier in the replay"),
        Binding("right", "scrub(1)", "Forward", show=False, priority=True, tooltip="Later in the replay"),
        Binding("home", "scrub(-100)", "To the start", show=False, priority=True, tooltip="To the start of the replay"),
        Binding("end", "scrub(100)", "To the end", show=False, priority=True, tooltip="To the end of the replay"),
        Binding("s", "speed", "Speed", tooltip="Replay slower or faster"),
        Binding("r", "run", "Again", tooltip="Measure the same once more"),
        Binding("p,f4", "setup", "Pick", key_display="p", tooltip="Choose another prompt or other modes"),
        Binding("e", "export", "Export", tooltip="Write JSON and Markdown into the current folder"),
        Binding("f1", "app.help", "Help", tooltip="Keys, marks and figures explained"),
        Binding("escape", "back", "Back", key_display="esc", tooltip="Stop measuring, or go back to the chat"),
    ]

    _ticker: Timer | None = None
    _scores: Sequence[Score] = ()

    def on_mount(self) -> None:
        self._ticker = self.set_interval(1 / 15, lambda: self.post_message(Tick()), pause=True)

    # Replay

    def on_tick(self) -> None:
        """Move the playhead on."""
        if (race := self._race) is not None:
            race.tick()
            self._draw_race(race)
            if not race.playing:
                self.pause_replay()

    def _draw_race(self, race: Race) -> None:
        panes = self._panes()
        for score in self._scores:
            pane, run = panes[score.contestant], score.typical
            place = race.place(run)
            # The last round's time and that of the whole run are two sums: rounded, either may be the larger one.
            count = len(run.steps) if place is not None else run.steps_at(race.position)
            pane.show(run.steps, count)
            pane.running(place is None)
            done = "" if place is None else f" · {run.seconds:.1f} s" + (" · first" if place == 1 else "")
            rate = "" if score.decode is None else f"{score.decode.median:.1f} tok/s · "
            gain = f"  {score.ratio.median:.2f}x plain" if score.ratio is not None and score.contestant != PLAIN else ""
            pane.say(f"{rate}{pane.tokens} tokens", f"{_count(count, 'pass', 'passes')}{done}", gain)
            pane.set_class(score.conclusion is Conclusion.FASTER, "-faster")
        self.query_one(RaceBar).show(race)

    def pause_replay(self) -> None:
        if self._ticker is not None:
            self._ticker.pause()
        if self._race is not None:
            self._race.playing = False
            self.query_one(RaceBar).show(self._race)

    def start_replay(self) -> None:
        """Play what was measured; the figures are worked out once."""
        self._scores = scores_of(self._comparison) if self._comparison is not None else []
        self.action_play()

    def action_play(self) -> None:
        """Play or pause."""
        if self._race is not None and self._ticker is not None:
            self._race.toggle()
            self._draw_race(self._race)
            if self._race.playing:
                self._ticker.resume()
            else:
                self._ticker.pause()

    def action_scrub(self, steps: int) -> None:
        """Go back or forth."""
        if self._race is not None:
            self._race.seek(self._race.position + steps * SCRUB * self._race.duration)
            self._draw_race(self._race)

    def on_race_bar_sought(self, message: RaceBar.Sought) -> None:
        """Go where was clicked."""
        if self._race is not None:
            self._race.seek(message.share * self._race.duration)
            self._draw_race(self._race)

    def action_speed(self) -> None:
        """Replay slower or faster."""
        if self._race is not None:
            self._race.change_speed()
            self.query_one(RaceBar).show(self._race)

    # Leaving

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave out what would do nothing now."""
        if action in ("play", "scrub", "speed"):
            return self._race is not None
        if action == "export":
            return self._comparison is not None
        if action in ("run", "setup"):
            return not self.measuring
        return True

    def action_export(self) -> None:
        """Write what was measured."""
        if self._comparison is not None:
            try:
                paths = export_comparison(self._comparison, Path.cwd())
                self._say(f"Written: {' and '.join(one_line(str(path)) for path in paths)}")
            except EdgeSpecError as error:
                self._say(f"x {error.message}")

    def action_back(self) -> None:
        """Stop measuring; else back to the chat."""
        if self.measuring:
            self.stop_measuring()
        else:
            self.dismiss()


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
