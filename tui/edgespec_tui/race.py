"""A measured comparison as a race: the typical run of every mode, all started together, played at their own speed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic

from edgespec.comparison import Comparison, Run, Score

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0)


class Race:
    """A playhead over several runs. Time is that of the measurement, from the request on."""

    def __init__(self, runs: Sequence[Run], clock: Callable[[], float] = monotonic) -> None:
        self.runs = tuple(runs)
        self.playing = False
        self.speed = 1.0
        self._clock = clock
        self._at = 0.0
        self._seen = clock()

    @property
    def duration(self) -> float:
        """When the last one is done."""
        return max((run.seconds for run in self.runs), default=0.0)

    @property
    def position(self) -> float:
        """Seconds since the start."""
        return self._at

    def tick(self) -> None:
        """Move on by the time that went by; stop at the end."""
        now = self._clock()
        if self.playing:
            self._at = min(self._at + (now - self._seen) * self.speed, self.duration)
            self.playing = self._at < self.duration
        self._seen = now

    def toggle(self) -> None:
        """Play or pause; at the end, play again from the start."""
        if not self.playing and self._at >= self.duration:
            self._at = 0.0
        self._seen = self._clock()
        self.playing = not self.playing and self.duration > 0

    def seek(self, seconds: float) -> None:
        """Go to a moment."""
        self._at = min(max(seconds, 0.0), self.duration)
        self._seen = self._clock()

    def change_speed(self) -> None:
        """Go to the next speed; after the fastest comes the slowest."""
        self.tick()
        self.speed = SPEEDS[(SPEEDS.index(self.speed) + 1) % len(SPEEDS)]

    def place(self, run: Run) -> int | None:
        """1 for the run that finished first; None as long as it runs."""
        if self._at < run.seconds:
            return None
        return 1 + sum(other.seconds < run.seconds for other in self.runs)


def scores_of(comparison: Comparison) -> list[Score]:
    """What was measured on the comparison's only prompt, in the order of the modes."""
    return comparison.scores(comparison.prompts[0].id)
