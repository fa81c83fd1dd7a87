"""Which draft length gains most, given the chance of every token and the price of every pass.

All times are in plain steps. What counts is tokens over time, so 1 is what plain decoding brings. Lengths are compared
one by one, so a curve with steps needs no special care: a length behind a dear one is found as well.

A draft that gains on average may still lose much more than one reply should, so lengths are bounded by a Risk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf
from operator import itemgetter

NEGLIGIBLE = 0.01
"""A path this unlikely is not followed any further."""


@dataclass(frozen=True, slots=True)
class Option:
    """What a round is expected to bring.

    Attributes:
        length: tokens to draft; 0 is a plain step.
        tokens: expected tokens of the round, the target's own included.
        cost: its expected time in plain steps.
    """

    length: int
    tokens: float
    cost: float

    @property
    def speedup(self) -> float:
        """Tokens over time, relative to plain decoding."""
        return self.tokens / self.cost


PLAIN = Option(0, 1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Risk:
    """How dear a round may be, should its draft be all wrong.

    Attributes:
        caution: most plain steps to lose that way, times the chance that it happens.
        loss: most plain steps to lose that way, however unlikely it is.
    """

    caution: float
    loss: float = inf

    def dearest(self, first: float) -> float:
        """The dearest round that may be risked for a draft whose first token has this chance."""
        return 1.0 + min(self.loss, self.caution / max(1.0 - first, 1e-9))


def best_copy(chances: Iterable[float], v: Callable[[int], float], risk: Risk) -> Option:
    """The best length for a draft that costs nothing to make; PLAIN if none is better than a plain step.

    Args:
        chances: for each position, the chance of its token if all before it are right; their number is the limit.
        v: cost of a target pass by its number of tokens.
        risk: what may be lost.
    """
    best, best_speedup = PLAIN, 1.0
    tokens = path = 1.0
    dearest = 0.0
    for length, chance in enumerate(chances, start=1):
        path *= chance
        if length == 1:
            dearest = risk.dearest(chance)
        tokens += path
        cost = v(length + 1)
        if path < NEGLIGIBLE:
            break
        if cost <= dearest and tokens / cost > best_speedup:
            best, best_speedup = Option(length, tokens, cost), tokens / cost
    return best


class DraftPlan:
    """What asking a draft model would bring, and for how long it should go on.

    Decisions within a draft need a price for time: `rate` tokens a plain step, what drafting brings here in the end.
    To maximise tokens over time, maximise tokens - rate * time with the rate that results.

    Args:
        later: the chance of a token whose predecessors were right, before it is drafted.
        limit: longest draft.
        v: cost of a target pass by its number of tokens.
        step: cost of drafting one token.
        rate: tokens that a plain step's time brings.
        risk: what may be lost.
        can_drop: may drafted tokens be left out? Not if they were drawn at random: whether a drawn token is judged must
            not depend on which one it is.
    """

    def __init__(
        self, later: float, limit: int, v: Callable[[int], float], step: float, rate: float, risk: Risk,
        *, can_drop: bool,
    ) -> None:  # fmt: skip
        self.rate, self.step, self.limit = rate, step, limit
        self._later, self._can_drop, self._risk = later, can_drop, risk
        self._passes = [v(length + 1) for length in range(limit + 1)]

    def expect(self, shares: Iterable[tuple[float, float]], extra: float) -> Option:
        """The option of asking the model for a first token and then doing what is best; PLAIN if that is forbidden.

        Args:
            shares: how often the first token is of a certain kind, and the chance that it is right then.
            extra: cost of asking at all.
        """
        if not self.limit:
            return PLAIN
        rate, hull = self.rate, self._hull()
        tokens, cost, place = 0.0, self.step + extra, 0
        for share, chance in sorted(shares, key=itemgetter(1)):  # the surer, the longer: the place only moves on
            dearest = self._risk.dearest(chance)
            while place + 1 < len(hull):
                (gain, time, _), (more, longer, _) = hull[place], hull[place + 1]
                if longer + self.step > dearest or chance * (more - gain) <= rate * (longer - time):
                    break
                place += 1
            tokens += share * (1.0 + chance * hull[place][0])
            cost += share * hull[place][1]
        return Option(hull[place][2], tokens, cost)

    def _hull(self) -> list[tuple[float, float, int]]:
        """By draft length what comes with a first token that is right, and the time, without those never best.

        A length is best for some chance only if it lies on the upper hull of gain over time; so a dear width with a
        cheap one behind it drops out.
        """
        gain, path = 0.0, 1.0
        hull: list[tuple[float, float, int]] = [(0.0, self._passes[0], 0)] if self._can_drop else []
        for length in range(1, self.limit + 1):
            gain += path
            path *= self._later
            time = self._passes[length] + (length - 1) * self.step
            while hull and _inside(hull, gain, time):
                hull.pop()
            hull.append((gain, time, length))
            if path < NEGLIGIBLE:
                break
        return hull

    def start(self) -> Extension:
        """Begin a draft."""
        return Extension(self._later, self._passes, self.step, self.rate, self._risk, can_drop=self._can_drop)


def _inside(hull: list[tuple[float, float, int]], gain: float, time: float) -> bool:
    """Is the hull's last point worse than a new one, or below the line from the one before it to the new one?"""
    last_gain, last_time, _ = hull[-1]
    if time <= last_time:
        return True
    if len(hull) == 1:
        return False
    first_gain, first_time, _ = hull[-2]
    return (last_gain - first_gain) * (time - last_time) <= (gain - last_gain) * (last_time - first_time)


class Extension:
    """A draft in the making: decides token by token whether to go on, and where to cut it in the end.

    Attributes:
        length: how many of the drafted tokens to submit.
    """

    def __init__(
        self, later: float, passes: list[float], step: float, rate: float, risk: Risk, *, can_drop: bool
    ) -> None:
        self._later, self._passes, self._step, self._rate = later, passes, step, rate
        self._risk, self._dearest = risk, inf
        self._can_drop = can_drop
        self._path = self._tokens = 1.0
        self._drafted = self.length = 0
        self._value = 1.0 - rate * passes[0]

    def add(self, chance: float) -> None:
        """One more token was drafted, with this chance of being right if all before it are."""
        if not self._drafted:
            self._dearest = self._risk.dearest(chance)
        self._drafted += 1
        self._path *= chance
        self._tokens += self._path
        value = self._tokens - self._rate * self._passes[self._drafted]
        allowed = self._passes[self._drafted] + self._drafted * self._step <= self._dearest
        if (value >= self._value and allowed) or not self._can_drop:
            self.length, self._value = self._drafted, value

    def pays(self) -> bool:
        """Is it worth drafting another token, or several more?"""
        path, tokens, drafted = self._path, self._tokens, self._drafted
        for more, time in enumerate(self._passes[drafted + 1 :], start=1):
            if time + (drafted + more) * self._step > self._dearest:
                continue
            path *= self._later
            tokens += path
            if tokens - self._rate * (more * self._step + time) > self._value:
                return True
            if path < NEGLIGIBLE:
                break
        return False
