"""The figures of a reply in progress: the engine's own arithmetic, fed round by round, and the pace of the moment."""

from __future__ import annotations

from collections import deque

from edgespec.decoding.stats import GenerationStats, StatsBuilder
from edgespec.types import Prefilled, Round

ENOUGH_DRAFTED = 20
"""Below this many drafted tokens a percentage says nothing; counts are shown alone."""


class LiveFigures:
    """Figures of a reply in progress. Each round costs the same to count, whatever came before."""

    def __init__(self, plain_step_seconds: float | None = None) -> None:
        self._plain_step_seconds = plain_step_seconds
        self._builder = StatsBuilder()
        self.pace = Pace()

    def prefilled(self, prefilled: Prefilled) -> None:
        """The prompt is in the cache."""
        self._builder.prefilled(prefilled)

    def observe(self, done: Round) -> None:
        """Count a round."""
        self._builder.add(done)
        self.pace.add(len(done.tokens), done.draft_seconds + done.verify_seconds + done.overhead_seconds)

    @property
    def stats(self) -> GenerationStats:
        """The figures so far; the price of a plain step is this reply's own where it has one, else the last known."""
        stats = self._builder.result()
        return self._builder.result(self._plain_step_seconds) if stats.plain_step_seconds is None else stats


class Pace:
    """Tokens per second over the engine's own clock: the last moments, and a short history to draw."""

    def __init__(self, step: float = 0.5, steps: int = 20) -> None:
        self.step = step
        self.history: deque[float] = deque(maxlen=steps)
        self._recent: deque[tuple[float, int]] = deque()
        self._now = 0.0
        self._tokens = 0.0
        self._until = step

    def add(self, tokens: int, seconds: float) -> None:
        """Count a round's tokens, which came after this many seconds."""
        self._now += seconds
        self._recent.append((self._now, tokens))
        while self._recent[0][0] < self._now - 4 * self.step:
            self._recent.popleft()
        if self._now >= self._until:
            steps = int((self._now - self._until) / self.step) + 1
            rate = (self._tokens + tokens) / (steps * self.step)
            self.history.extend([rate] * min(steps, 20))
            self._until += steps * self.step
            self._tokens = 0.0
        else:
            self._tokens += tokens

    @property
    def now(self) -> float | None:
        """Tokens per second over about the last two seconds."""
        if len(self._recent) < 2:
            return None
        (start, _), (end, _) = self._recent[0], self._recent[-1]
        tokens = sum(count for _, count in self._recent) - self._recent[0][1]
        return tokens / (end - start) if end > start else None
