"""Drafts from a small model that keeps its own cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from edgespec.decoding.distributions import draw, probability
from edgespec.decoding.drafters.none import NO_DRAFT
from edgespec.decoding.sampling import Sampler
from edgespec.decoding.session import Session, prefill, rewind
from edgespec.types import Distribution, Draft, Verdict

if TYPE_CHECKING:
    from numpy.typing import NDArray

GoOn = Callable[[int, float], bool]
"""Asked after every drafted token, with the probability it had: shall another one be drafted?"""

Heard = Callable[[float, bool, bool], None]
"""Told about a token caught up on: the probability of what the model would have said in its place, whether that is
what was said, and the same for the token before."""

CATCH_UP = 2
"""Most tokens that a round's first step takes along: the last draft token, never evaluated, and the target's own."""


class ModelDrafter:
    """Proposes what a small model would say, and evaluates no token twice.

    After a round the cache holds the accepted tokens but for the last drafted one, which nobody has evaluated; the
    next round takes it along in its first step. Where somebody else added more (a chain of drafters, rounds without a
    draft), the cache catches up from `context`.

    Args:
        session: the draft model. Its context and its vocabulary may be smaller than the target's; beyond
            them nothing is proposed.
        sampler: the chain to draw drafts from; without one, or with a greedy one, the likeliest token is proposed.
        rng: random numbers of the drafts, of their own so that drafting does not move the target's.
        cancelled: looked at while catching up on a long context.
        n_vocab: size of the target's vocabulary; a draft ends with the first token beyond it.
        is_eog: does a token end a reply? It ends a draft too: nothing behind it could be accepted.
    """

    name = "draft"
    go_on: GoOn | None = None
    """Asked after every token of a draft; without it drafts are as long as the limit."""
    heard: Heard | None = None
    """Told what the model would have said when it was not asked, as far as one pass has rows for it."""

    def __init__(
        self,
        session: Session,
        *,
        sampler: Sampler | None = None,
        rng: np.random.Generator | None = None,
        cancelled: Callable[[], bool] = lambda: False,
        n_vocab: int | None = None,
        is_eog: Callable[[int], bool] = lambda token: False,
    ) -> None:
        if sampler is not None and not sampler.greedy and rng is None:
            raise ValueError("sampled drafts need a random number generator")
        self._session = session
        self._sampler = None if sampler is None or sampler.greedy else sampler
        self._rng = rng
        self._cancelled = cancelled
        self._n_vocab = session.n_vocab if n_vocab is None else n_vocab
        self._is_eog = is_eog
        self._base = 0
        self._drafted = 0
        self._accepted = 0
        self._mute = False

    def begin(self, context: Sequence[int]) -> None:
        self._drafted = 0
        self._accepted = len(context)
        self._mute = len(context) > self._session.n_ctx or not self._can_read(context)
        if not self._mute:
            for _ in prefill(self._session, context[:-1], self._cancelled):
                pass

    @property
    def sampled(self) -> bool:
        """Are drafts drawn, rather than the likeliest tokens?"""
        return self._sampler is not None

    def room(self, context: Sequence[int]) -> int:
        """Most tokens that can be drafted behind `context`; 0 if this model cannot read it."""
        self._mute = self._mute or not self._can_read(context[self._session.length :])
        return 0 if self._mute else max(0, self._session.n_ctx - len(context) + 1)

    def behind(self, context: Sequence[int]) -> int:
        """How many tokens of `context` this model has not evaluated; at least one, its last."""
        return len(context) - self._session.length

    def propose(self, context: Sequence[int], limit: int) -> Draft:
        limit = min(limit, self.room(context))
        if limit < 1:
            return NO_DRAFT
        self._base, self._drafted = len(context), limit
        row = self._catch_up(context)
        tokens, laws = self._draw(row, limit) if self._sampler is not None else self._likeliest(row, limit)
        self._drafted = len(tokens)
        return Draft(tuple(tokens), laws, self.name)

    def observe(self, verdict: Verdict) -> None:
        if self._drafted:
            rewind(self._session, self._base + verdict.accepted)
            self._drafted = 0

    def finish(self, length: int) -> None:
        self._drafted = 0
        rewind(self._session, max(length - 1, 0))

    def close(self) -> None:
        self._session.close()

    def _can_read(self, tokens: Sequence[int]) -> bool:
        """The target may have a few tokens more than the draft model; behind one of them nothing can be drafted."""
        return max(tokens, default=0) < self._session.n_vocab

    def _is_last(self, token: int) -> bool:
        """Can nothing follow this token in a draft?"""
        return token >= self._n_vocab or self._is_eog(token)

    def _catch_up(self, context: Sequence[int]) -> NDArray[np.float32]:
        """Evaluate what the cache lacks of `context`; return the logits behind its last token."""
        session = self._session
        if self._sampler is not None:
            for token in context[self._accepted :]:
                self._sampler.accept(token)
            self._accepted = len(context)
        most = min(session.max_batch, CATCH_UP if self.heard is None else len(context))
        if not 1 <= len(context) - session.length <= most:
            for _ in prefill(session, context[:-most], self._cancelled):
                pass
        rows = session.decode(context[session.length :])
        if len(rows) > CATCH_UP:
            self._listen(rows[:-1], context[1 - len(rows) :])
        last: NDArray[np.float32] = rows[-1]
        return last

    def _listen(self, rows: NDArray[np.float32], said: Sequence[int]) -> None:
        """Tell what this model would have said instead."""
        if self.heard is None:
            return
        after_hit = False
        for row, token in zip(rows, said, strict=True):
            best = int(row.argmax())
            self.heard(top_probability(row, best), best == token, after_hit)
            after_hit = best == token

    def _likeliest(self, row: NDArray[np.float32], limit: int) -> tuple[list[int], None]:
        decode, go_on = self._session.decode, self.go_on
        tokens: list[int] = []
        while True:
            token = int(row.argmax())
            tokens.append(token)
            more = go_on is None or go_on(token, top_probability(row, token))
            if not more or len(tokens) == limit or self._is_last(token):
                return tokens, None
            row = decode([token])[-1]

    def _draw(self, row: NDArray[np.float32], limit: int) -> tuple[list[int], tuple[Distribution, ...]]:
        if self._sampler is None or self._rng is None:
            raise ValueError("sampled drafts need a sampler and a random number generator")
        # The penalties of a provisional draft must not stay when it is rejected.
        sampler = self._sampler.clone()
        tokens: list[int] = []
        laws: list[Distribution] = []
        while True:
            laws.append(sampler.distribution(row))
            token = draw(laws[-1], self._rng)
            tokens.append(token)
            more = self.go_on is None or self.go_on(token, probability(laws[-1], token))
            if not more or len(tokens) == limit or self._is_last(token):
                return tokens, tuple(laws)
            sampler.accept(token)
            row = self._session.decode([token])[-1]


def top_probability(row: NDArray[np.float32], best: int) -> float:
    """Probability of the likeliest token, before any sampler."""
    return 1.0 / float(np.exp(row - row[best]).sum())
