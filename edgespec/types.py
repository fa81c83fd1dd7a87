"""Values that cross rooms: what a drafter proposes, what the target decides, what a round brought.

Frozen and free of behaviour, so that they can be compared in tests, sent over a pipe and kept in a trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


ALL_LAYERS = -1
"""Every layer on the device."""
AUTO_LAYERS = -2
"""As many layers on the device as fit there."""
LARGEST_DRAFT_SHARE = 1 / 8
"""A draft model that costs more than this share of its target, or has more than this of its size, rarely gains."""


class Mode(StrEnum):
    """How drafts are made."""

    PLAIN = "plain"
    LOOKUP = "lookup"
    DRAFT = "draft"
    AUTO = "auto"


class FinishReason(StrEnum):
    """Why a reply ended."""

    STOP = "stop"
    """The model ended its turn, or a stop text appeared."""
    LENGTH = "length"
    """The reply reached its token budget."""
    CONTEXT = "context"
    """Prompt and reply fill the context."""
    CANCELLED = "cancelled"


class Origin(StrEnum):
    """Where one emitted token came from."""

    ACCEPTED = "accepted"
    """Proposed by the drafter and confirmed by the target."""
    CORRECTED = "corrected"
    """The target's own token in place of a rejected draft token."""
    BONUS = "bonus"
    """The target's own token after a wholly accepted draft."""
    PLAIN = "plain"
    """The target's own token in a round without a draft."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """A probability law over tokens, after the sampler chain; tokens not listed have probability 0.

    Attributes:
        ids: token ids, shape (n,), each at most once.
        probs: their probabilities, shape (n,), summing to 1.
    """

    ids: NDArray[np.int32]
    probs: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Draft:
    """What a drafter proposes for one round.

    Attributes:
        tokens: proposed continuation of the context, possibly empty.
        probs: the law q each token was drawn from, one per token; None for a deterministic proposal.
        source: name of the drafter that made it.
        withheld: set by the loop when a sampled draft had one more token, which the target must not or cannot evaluate
            (one that ends the reply, or that it does not have), and the law q it was drawn from. The target's own
            token is then chosen by judging this one: to forget that it was drawn would distort the target's law.
    """

    tokens: tuple[int, ...]
    probs: tuple[Distribution, ...] | None = None
    source: str = ""
    withheld: tuple[int, Distribution] | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The target's answer to a draft.

    Attributes:
        accepted: length of the draft's accepted prefix.
        next_token: the one token that the target adds of its own; in a round that a stop text cut, it may be gone.
        kind: what that token is: CORRECTED, BONUS, or PLAIN when the draft was empty.
    """

    accepted: int
    next_token: int
    kind: Origin


@dataclass(frozen=True, slots=True)
class Prefilling:
    """Prompt processing under way: `done` of `total` tokens that were not in the cache."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Prefilled:
    """The prompt is in the cache, all but its last token.

    Attributes:
        prompt_tokens: length of the prompt.
        cached_tokens: how many of them were still in the cache from an earlier turn.
        seconds: what bringing target and drafter up to date took.
    """

    prompt_tokens: int
    cached_tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Round:
    """One draft and one target pass. All that lies behind a stop is already cut off, from draft and verdict too.

    Attributes:
        index: 0 for the reply's first round.
        draft: what was proposed; its `probs` are dropped.
        verdict: what became of it.
        tokens: emitted tokens, at least one: the accepted prefix, then the target's own token.
        pieces: bytes of each emitted token; empty for control tokens, the last one cut where a stop text begins.
        draft_seconds, verify_seconds: time in the drafter and in the target's pass.
        overhead_seconds: everything else since the previous round, the consumer's time included.
    """

    index: int
    draft: Draft
    verdict: Verdict
    tokens: tuple[int, ...]
    pieces: tuple[bytes, ...]
    draft_seconds: float
    verify_seconds: float
    overhead_seconds: float

    @property
    def origins(self) -> tuple[Origin, ...]:
        """Origin of each emitted token; a round cut by a stop may lack the target's own token."""
        own = len(self.tokens) - self.verdict.accepted
        return (Origin.ACCEPTED,) * self.verdict.accepted + (self.verdict.kind,) * own


@dataclass(frozen=True, slots=True)
class Judged:
    """What the target thought of one token where it stands: its probability and rank among all, before any sampler."""

    probability: float
    rank: int


@dataclass(frozen=True, slots=True)
class RoundDetails:
    """What the models thought of a round's tokens.

    Attributes:
        emitted: the target's opinion of each emitted token.
        drafted: its opinion of each draft token; None behind the first rejected one, where the target was not asked.
        proposed: how probable the draft model found each draft token; None if no model made it.
    """

    emitted: tuple[Judged, ...]
    drafted: tuple[Judged | None, ...] = ()
    proposed: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Finished:
    """The reply is over."""

    reason: FinishReason
