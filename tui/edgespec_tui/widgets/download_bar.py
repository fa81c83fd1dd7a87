"""A download's progress: how far, how fast, how long still."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic

from textual.content import Content
from textual.widgets import Static

from edgespec.models.units import format_size
from edgespec_tui.text import one_line

WINDOW = 5.0
"""Seconds over which the speed is taken."""


class Rate:
    """Bytes per second over the last moments."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, int]] = deque()

    def add(self, done: int) -> float | None:
        """Note how many bytes are there; the speed, None while unknown."""
        now = self._clock()
        if self._seen and done < self._seen[-1][1]:
            self._seen.clear()
        self._seen.append((now, done))
        while len(self._seen) > 2 and self._seen[1][0] < now - WINDOW:
            self._seen.popleft()
        then, before = self._seen[0]
        return (done - before) / (now - then) if now > then else None


class DownloadBar(Static):
    """One line; hidden while nothing is downloaded."""

    def show(self, title: str, done: int, total: int | None, rate: float | None) -> None:
        """Draw it."""
        share = min(1.0, done / total) if total else 0.0
        length = max(8, min(40, self.size.width - 60))
        full = round(share * length)
        speed = f"{format_size(rate)}/s" if rate else ""
        left = f"{(total - done) / rate:.0f} s" if rate and total and total > done else ""
        of = f" of {format_size(total)}" if total else ""
        text = f" {one_line(title)}  {format_size(done)}{of}  {speed}  {left}"
        self.update(Content.assemble(("█" * full, "$text-success"), ("░" * (length - full), "$foreground-muted"), text))
