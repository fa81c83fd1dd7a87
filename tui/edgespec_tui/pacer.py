"""When to draw: often while that is cheap, less often where it would take time from the engine."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, thread_time


class Pacer:
    """Spaces drawings out so that the thread that draws stays below its share of a core.

    The share is measured, not guessed: what this thread used since the last drawing over the time that went by. On a
    machine whose cores are all busy with the engine, every percent spent here is missing there.
    """

    def __init__(
        self,
        *,
        share: float = 0.05,
        fastest: float = 1 / 8,
        slowest: float = 2.0,
        clock: Callable[[], float] = monotonic,
        used: Callable[[], float] = thread_time,
    ) -> None:
        self._share, self._fastest, self._slowest = share, fastest, slowest
        self._clock, self._used = clock, used
        self.interval = fastest
        self._drawn_at = clock() - slowest
        self._used_then = used()

    def wait(self) -> float:
        """Seconds until the next drawing is due; 0 for now."""
        return max(0.0, self._drawn_at + self.interval - self._clock())

    def drawn(self) -> None:
        """Note a drawing, and learn from what the last one cost."""
        now, used = self._clock(), self._used()
        elapsed = max(now - self._drawn_at, 1e-6)
        wanted = (used - self._used_then) / self._share
        if elapsed < 2 * self._slowest:
            target = min(max(wanted, self._fastest), self._slowest)
            self.interval += (target - self.interval) / 2
        self._drawn_at, self._used_then = now, used
