"""How often drafts are right: estimated from what was examined, quick to follow a change, slow to forget a pair.

A token behind a rejected one was never examined and counts for nothing; a wholly accepted draft says "right" for each
of its tokens and nothing about the next one. Tokens that were predicted but not submitted can still be compared with
what the target said, which is how a lookup learns for free.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

FAST = 0.95
"""How much a reply's earlier observations still count at the next one: a kind of text lasts about twenty tokens."""
SLOW = 0.998
"""The same for what is kept across replies."""
FADE = 0.97
"""How much they count after a token about which nothing is known."""
PRIOR_WEIGHT = 4.0
"""Observations that a first guess counts for."""
LONG_RUN_WEIGHT = 3.0
"""Observations of this reply that what was learned in earlier ones counts for."""


class Rate:
    """The chance of something that happens or not, on two time scales: this reply, and everything before it."""

    __slots__ = ("_hits", "_long_hits", "_long_tries", "_prior", "_tries", "value")

    def __init__(self, prior: float) -> None:
        self._prior = prior
        self._long_hits = self._long_tries = 0.0
        self.forget_reply()

    def forget_reply(self) -> None:
        """Another reply begins: expect what was usual in the long run."""
        self._hits = self._tries = 0.0
        self._update()

    def record(self, hit: bool) -> None:
        """It happened, or it did not."""
        self._hits = self._hits * FAST + hit
        self._tries = self._tries * FAST + 1
        self._long_hits = self._long_hits * SLOW + hit
        self._long_tries = self._long_tries * SLOW + 1
        self._update()

    def fade(self, tokens: int) -> None:
        """Nothing was observed for so many tokens: what this reply showed says less and less about now."""
        kept = FADE**tokens
        self._hits *= kept
        self._tries *= kept
        self._update()

    @property
    def long_run(self) -> float:
        """The chance over many replies."""
        return (self._long_hits + PRIOR_WEIGHT * self._prior) / (self._long_tries + PRIOR_WEIGHT)

    def _update(self) -> None:
        self.value = (self._hits + LONG_RUN_WEIGHT * self.long_run) / (self._tries + LONG_RUN_WEIGHT)

    def to_json(self) -> list[float]:
        """What is kept across starts."""
        return [round(self._long_hits, 3), round(self._long_tries, 3)]

    def restore(self, data: Sequence[float]) -> None:
        """Take over what `to_json` gave. Raises ValueError for numbers that are no counts."""
        hits, tries = map(float, data)
        if not 0 <= hits <= tries < float("inf"):
            raise ValueError(f"not a rate: {data}")
        self._long_hits, self._long_tries = hits, tries
        self._update()


class Binned:
    """A chance that depends on one number, with a rate for every interval of it.

    Args:
        edges: lower ends of all intervals but the first, in order.
        priors: first guesses, one an interval.
    """

    def __init__(self, edges: Sequence[float], priors: Sequence[float]) -> None:
        if len(priors) != len(edges) + 1:
            raise ValueError("there is one interval more than there are edges")
        self._edges = list(edges)
        self._rates = [Rate(prior) for prior in priors]

    def index(self, key: float) -> int:
        """The number of the interval that `key` lies in."""
        return bisect_right(self._edges, key)

    def rate(self, key: float) -> Rate:
        """The rate of that interval."""
        return self._rates[bisect_right(self._edges, key)]

    def values(self) -> list[float]:
        """The chance in every interval."""
        return [rate.value for rate in self._rates]

    def chance(self, key: float) -> float:
        """The chance at `key`."""
        return self.rate(key).value

    def forget_reply(self) -> None:
        """Another reply begins."""
        for rate in self._rates:
            rate.forget_reply()

    def to_json(self) -> list[list[float]]:
        """What is kept across starts."""
        return [rate.to_json() for rate in self._rates]

    def restore(self, data: Sequence[Sequence[float]]) -> None:
        """Take over what `to_json` gave. Raises ValueError if it does not fit."""
        for rate, counts in zip(self._rates, data, strict=True):
            rate.restore(counts)


class Shares:
    """How often each of several kinds comes up, on the same two time scales."""

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
        kept = FADE**tokens
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


class Acceptance:
    """Everything known about how often this pair's drafts are right.

    Attributes:
        lookup: by the length of the match, the chance that the token which followed it then follows now.
        confidence: by the draft model's own probability of a token, the chance that the target agrees.
        first: how often a draft's first token is in each interval of `confidence`.
        later: the chance of a token whose predecessors were right, before it is drafted.
    """

    def __init__(self) -> None:
        self.lookup = Binned((1, 2, 3, 4, 5, 6, 8, 12, 16), (0.01, 0.15, 0.25, 0.35, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9))
        self.confidence = Binned(
            (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97),
            (0.02, 0.06, 0.14, 0.24, 0.33, 0.42, 0.52, 0.62, 0.72, 0.81, 0.9, 0.97),
        )
        self.first = Shares((1, 2, 4, 4, 4, 5, 5, 5, 6, 8, 10, 20))
        self.later = Rate(0.7)

    def first_chances(self) -> list[tuple[float, float]]:
        """How often a draft's first token is of a kind, and the chance that it is right then."""
        return list(zip(self.first.values, self.confidence.values(), strict=True))

    def examined(self, position: int, confidence: float, hit: bool) -> None:
        """The token at this place of a model's draft was compared with the target's."""
        rate = self.confidence.rate(confidence)
        rate.record(hit)
        if position:
            self.later.record(hit)
        else:
            self.first.record(self.confidence.index(confidence))

    def fade(self, tokens: int) -> None:
        """The draft model was not asked for so many tokens."""
        self.first.fade(tokens)
        self.later.fade(tokens)

    def forget_reply(self) -> None:
        """Another reply begins: keep only what is true in the long run."""
        for part in self._parts().values():
            part.forget_reply()

    def to_json(self) -> dict[str, Any]:
        """What is kept across starts."""
        return {name: part.to_json() for name, part in self._parts().items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Acceptance:
        """What `to_json` described. Raises ValueError if it describes none."""
        acceptance = cls()
        try:
            for name, part in acceptance._parts().items():
                part.restore(data[name])
        except (KeyError, TypeError) as error:
            raise ValueError(f"not an acceptance: {error!r}") from None
        return acceptance

    def _parts(self) -> dict[str, Rate | Binned | Shares]:
        return {"lookup": self.lookup, "confidence": self.confidence, "first": self.first, "later": self.later}
