"""Estimates of how often something happens: quick to follow a change in this reply, slow to forget earlier ones."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import exp

SLOW = 0.998
"""How much what was observed still counts at the next observation, for what is usual."""
PRIOR_WEIGHT = 4.0
"""Observations that a first guess counts for."""

SPREAD = 0.7
"""How far a reply's odds lie from the usual ones, typically, as a difference of logarithms: a factor of two."""
KEPT = 0.97
"""How much of that is still so at the next token: a kind of text lasts some thirty tokens."""

FAST = 0.95
"""How much a reply's earlier observations still count at the next one, for shares."""
LONG_RUN_WEIGHT = 3.0
"""Observations of this reply that what was learned in earlier ones counts for."""


class LongRun:
    """The chance of something that happens or not, over many replies.

    Attributes:
        tries: observations it rests on, old ones for less.
        value: the chance.
    """

    __slots__ = ("_hits", "_prior", "tries", "value")

    def __init__(self, prior: float) -> None:
        self._prior = self.value = prior
        self._hits = self.tries = 0.0

    def record(self, hit: bool) -> None:
        """It happened, or it did not."""
        self._set(self._hits * SLOW + hit, self.tries * SLOW + 1)

    def to_json(self) -> list[float]:
        """What is kept across starts."""
        return [round(self._hits, 3), round(self.tries, 3)]

    def restore(self, data: Sequence[float]) -> None:
        """Take over what `to_json` gave. Raises ValueError for numbers that are no counts."""
        hits, tries = map(float, data)
        if not 0 <= hits <= tries < float("inf"):
            raise ValueError(f"not a chance: {data}")
        self._set(hits, tries)

    def _set(self, hits: float, tries: float) -> None:
        self._hits, self.tries = hits, tries
        self.value = (hits + PRIOR_WEIGHT * self._prior) / (tries + PRIOR_WEIGHT)


class Trend:
    """Whether things go better or worse in this reply than they usually do, as a factor to their odds.

    One factor for all chances of a kind: a reply is too short to learn each of them anew. The logarithm of the factor
    is taken to wander about 0, and is followed by a Kalman filter, linearised at every observation: a miss of
    something that was all but certain tells a lot, a hit hardly anything.
    """

    __slots__ = ("_log_odds", "_variance", "odds")

    def __init__(self) -> None:
        self.forget_reply()

    def forget_reply(self) -> None:
        """Another reply begins: all is as usual."""
        self._log_odds, self._variance, self.odds = 0.0, SPREAD**2, 1.0

    def record(self, usual: float, hit: bool) -> None:
        """Something of this usual chance happened, or it did not."""
        self.fade(1)
        chance = self.apply(usual)
        self._variance /= 1 + self._variance * chance * (1 - chance)
        self._log_odds += self._variance * (hit - chance)
        self.odds = exp(self._log_odds)

    def fade(self, tokens: int) -> None:
        """Nothing was observed for so many tokens: what this reply showed says less and less about now."""
        kept = KEPT**tokens
        self._log_odds *= kept
        self._variance = kept**2 * self._variance + (1 - kept**2) * SPREAD**2
        self.odds = exp(self._log_odds)

    def apply(self, usual: float) -> float:
        """The chance here and now of something that usually has this one."""
        odds = usual * self.odds
        return odds / (1 - usual + odds)


class Rate:
    """The chance of something that happens or not: what is usual, and the trend of this reply."""

    __slots__ = ("_trend", "usual")

    def __init__(self, prior: float) -> None:
        self.usual = LongRun(prior)
        self._trend = Trend()

    @property
    def value(self) -> float:
        """The chance now."""
        return self._trend.apply(self.usual.value)

    def forget_reply(self) -> None:
        """Another reply begins."""
        self._trend.forget_reply()

    def record(self, hit: bool) -> None:
        """It happened, or it did not."""
        self._trend.record(self.usual.value, hit)
        self.usual.record(hit)

    def fade(self, tokens: int) -> None:
        """Nothing was observed for so many tokens."""
        self._trend.fade(tokens)

    def to_json(self) -> list[float]:
        """What is kept across starts."""
        return self.usual.to_json()

    def restore(self, data: Sequence[float]) -> None:
        """Take over what `to_json` gave. Raises ValueError for numbers that are no counts."""
        self.usual.restore(data)


class Binned:
    """A chance that depends on one number: what is usual for every interval of it, and the trend of this reply.

    Args:
        edges: lower ends of all intervals but the first, in order.
        priors: first guesses, one an interval.
    """

    def __init__(self, edges: Sequence[float], priors: Sequence[float]) -> None:
        if len(priors) != len(edges) + 1:
            raise ValueError("there is one interval more than there are edges")
        self._edges = list(edges)
        self._usual = [LongRun(prior) for prior in priors]
        self._trend = Trend()

    def index(self, key: float) -> int:
        """The number of the interval that `key` lies in."""
        return bisect_right(self._edges, key)

    def record(self, key: float, hit: bool) -> None:
        """Something with this key happened, or it did not."""
        usual = self._usual[self.index(key)]
        self._trend.record(usual.value, hit)
        usual.record(hit)

    def chance(self, key: float) -> float:
        """The chance at `key`."""
        return self._trend.apply(self._usual[self.index(key)].value)

    def values(self) -> list[float]:
        """The chance in every interval."""
        return [self._trend.apply(usual.value) for usual in self._usual]

    @property
    def tries(self) -> float:
        """Observations that all of it rests on."""
        return sum(usual.tries for usual in self._usual)

    def forget_reply(self) -> None:
        """Another reply begins."""
        self._trend.forget_reply()

    def to_json(self) -> list[list[float]]:
        """What is kept across starts."""
        return [usual.to_json() for usual in self._usual]

    def restore(self, data: Sequence[Sequence[float]]) -> None:
        """Take over what `to_json` gave. Raises ValueError if it does not fit."""
        for usual, counts in zip(self._usual, data, strict=True):
            usual.restore(counts)


class Shares:
    """How often each of several kinds comes up, in this reply, which begins as usual."""

    def __init__(self, priors: Sequence[float]) -> None:
        total = sum(priors)
        self._prior = [PRIOR_WEIGHT * prior / total for prior in priors]
        self._long = [0.0] * len(priors)
        self.forget_reply()

    def forget_reply(self) -> None:
        """Another reply begins."""
        self._counts = [0.0] * len(self._prior)
        self._update()

    def record(self, kind: int) -> None:
        """This kind came up."""
        self._counts = [FAST * count for count in self._counts]
        self._counts[kind] += 1
        self._long = [SLOW * count for count in self._long]
        self._long[kind] += 1
        self._update()

    def fade(self, tokens: int) -> None:
        """Nothing was observed for so many tokens."""
        kept = KEPT**tokens
        self._counts = [kept * count for count in self._counts]
        self._update()

    def to_json(self) -> list[float]:
        """What is kept across starts."""
        return [round(count, 3) for count in self._long]

    def restore(self, data: Sequence[float]) -> None:
        """Take over what `to_json` gave. Raises ValueError if it does not fit."""
        counts = [float(count) for count in data]
        if len(counts) != len(self._long) or not all(0 <= count < float("inf") for count in counts):
            raise ValueError(f"not shares: {data}")
        self._long = counts
        self._update()

    def _update(self) -> None:
        total = sum(self._long) + PRIOR_WEIGHT
        usual = [LONG_RUN_WEIGHT * (long + prior) / total for long, prior in zip(self._long, self._prior, strict=True)]
        weight = sum(self._counts) + LONG_RUN_WEIGHT
        self.values = [(count + share) / weight for count, share in zip(self._counts, usual, strict=True)]
