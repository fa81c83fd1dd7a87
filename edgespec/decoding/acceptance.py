"""How often drafts are right: estimated from what was examined.

A token behind a rejected one was never examined and counts for nothing; a wholly accepted draft says "right" for each
of its tokens and nothing about the next one. Tokens that were predicted but not submitted can still be compared with
what the target said, which is how a lookup learns for free, and a draft model whenever it catches up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgespec.decoding.chances import Binned, Rate, Shares

ENOUGH = 16
"""Observations after which a pair counts as known."""


class Acceptance:
    """Everything known about how often this pair's drafts are right.

    Attributes:
        lookup: by the length of the match, the chance that the token which followed it then follows now.
        confidence: by the draft model's own probability of a token, the chance that the target agrees.
        first: how often a draft's first token is in each interval of `confidence`.
        later: the chance of a token whose predecessors were right, before it is drafted.
    """

    def __init__(self) -> None:
        self.lookup = Binned((1, 2, 3, 4, 6, 10, 16), (0.01, 0.2, 0.45, 0.5, 0.65, 0.7, 0.85, 0.85))
        self.confidence = Binned(
            (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97),
            (0.02, 0.06, 0.14, 0.24, 0.33, 0.42, 0.52, 0.62, 0.72, 0.81, 0.9, 0.97),
        )
        self.first = Shares((1, 2, 4, 4, 4, 5, 5, 5, 6, 8, 10, 20))
        self.later = Rate(0.7)

    @property
    def pair_known(self) -> bool:
        """Has the draft model been compared with the target often enough to judge it?"""
        return self.confidence.tries >= ENOUGH

    def first_chances(self) -> list[tuple[float, float]]:
        """How often a draft's first token is of a kind, and the chance that it is right then."""
        return list(zip(self.first.values, self.confidence.values(), strict=True))

    def examined(self, position: int, confidence: float, hit: bool) -> None:
        """The token at this place of a model's draft was compared with the target's."""
        self.confidence.record(confidence, hit)
        if position:
            self.later.record(hit)
        else:
            self.first.record(self.confidence.index(confidence))

    def heard(self, confidence: float, hit: bool, after_hit: bool) -> None:
        """What the draft model would have said, had it been asked, was compared with what the target said.

        Args:
            confidence: the model's own probability of it.
            hit: were they the same?
            after_hit: were they for the token before?
        """
        self.confidence.record(confidence, hit)
        self.first.record(self.confidence.index(confidence))
        if after_hit:
            self.later.record(hit)

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
