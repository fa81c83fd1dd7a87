"""What the target and the draft model thought of every token of a reply, written down while the loop runs.

The loop knows nothing of it: it is given a session and a drafter that pass everything on to the real ones. They look at
logits that are there anyway and change nothing, so the reply is the same with and without. What it costs is a softmax
over the vocabulary for every token that the target examined, in the time between two passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from edgespec.decoding.drafters.base import Drafter
from edgespec.decoding.drafters.model import ModelDrafter
from edgespec.decoding.session import Session
from edgespec.types import Draft, Judged, Round, RoundDetails, Verdict

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T")


class Details:
    """Collects the details of one reply.

    Attributes:
        target, drafter: what the loop must be given in place of the real ones.

    Args:
        model: the drafter that asks the draft model, if this reply may use one; its `go_on` is listened to.
    """

    def __init__(self, target: Session, drafter: Drafter, model: ModelDrafter | None = None) -> None:
        self.target = WatchedSession(target)
        self.drafter = WatchedDrafter(drafter, self)
        self._rounds: dict[int, RoundDetails] = {}
        self._seen = 0
        self._proposed: list[float] = []
        self._scratch = np.empty(target.n_vocab, dtype=np.float32)
        if model is not None:
            self._listen(model)

    def take(self, round_: Round) -> RoundDetails:
        """The details of a round that the loop has yielded, as far as the round goes: a stop may have cut it."""
        whole = self._rounds.pop(round_.index)
        drafted = len(round_.draft.tokens)
        return RoundDetails(whole.emitted[: len(round_.tokens)], whole.drafted[:drafted], whole.proposed[:drafted])

    def drafting(self) -> None:
        """A new draft begins."""
        self._proposed.clear()

    def judged(self, verdict: Verdict) -> None:
        """A round is decided and the logits of its pass are still there: read them."""
        draft, rows = self.target.drafted, self.target.rows
        emitted, drafted = [], []
        for i in range(verdict.accepted + 1):
            guess = draft[i : i + 1]
            own = () if i < verdict.accepted else (verdict.next_token,)
            found = judge(rows[i], (*guess, *own), self._scratch)
            drafted += found[: len(guess)]
            emitted.append(found[-1])
        proposed = self._proposed[: len(draft)]
        self._rounds[self._seen] = RoundDetails(
            tuple(emitted), _filled(drafted, len(draft)), _filled(proposed, len(draft))
        )
        self._seen += 1

    def _listen(self, model: ModelDrafter) -> None:
        """Note how sure the draft model was of each token; whoever decides on the length is asked as before."""
        ask = model.go_on

        def go_on(token: int, probability: float) -> bool:
            self._proposed.append(probability)
            return ask is None or ask(token, probability)

        model.go_on = go_on


class WatchedSession:
    """A target session whose latest draft and logits can be looked at until its next pass."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.drafted: tuple[int, ...] = ()
        self.rows: NDArray[np.float32] = np.empty((0, session.n_vocab), dtype=np.float32)

    @property
    def tokens(self) -> Sequence[int]:
        return self._session.tokens

    @property
    def length(self) -> int:
        return self._session.length

    @property
    def n_ctx(self) -> int:
        return self._session.n_ctx

    @property
    def n_vocab(self) -> int:
        return self._session.n_vocab

    @property
    def max_batch(self) -> int:
        return self._session.max_batch

    @property
    def chunk(self) -> int:
        return self._session.chunk

    def decode(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        self.rows = self._session.decode(tokens)
        self.drafted = tuple(tokens[1:])
        return self.rows

    def prefill(self, tokens: Sequence[int]) -> None:
        self._session.prefill(tokens)

    def reusable(self, length: int) -> int:
        return self._session.reusable(length)

    def truncate(self, length: int) -> None:
        self._session.truncate(length)

    def close(self) -> None:
        self._session.close()


class WatchedDrafter:
    """A drafter that tells when a draft begins and what became of it."""

    def __init__(self, drafter: Drafter, details: Details) -> None:
        self._drafter, self._details = drafter, details

    @property
    def name(self) -> str:
        return self._drafter.name

    def begin(self, context: Sequence[int]) -> None:
        self._drafter.begin(context)

    def propose(self, context: Sequence[int], limit: int) -> Draft:
        self._details.drafting()
        return self._drafter.propose(context, limit)

    def observe(self, verdict: Verdict) -> None:
        self._details.judged(verdict)
        self._drafter.observe(verdict)

    def finish(self, length: int) -> None:
        self._drafter.finish(length)

    def close(self) -> None:
        self._drafter.close()


def judge(row: NDArray[np.float32], tokens: Sequence[int], scratch: NDArray[np.float32]) -> list[Judged]:
    """Probability and rank of tokens in one row of logits, before any sampler; `scratch` is as wide as the row.

    The tokens of a row mostly agree with each other and with the likeliest one, whose rank needs no search.
    """
    best = row.max()
    np.subtract(row, best, out=scratch)
    np.exp(scratch, out=scratch)
    total = float(scratch.sum())
    known: dict[int, Judged] = {}
    for token in tokens:
        if token not in known:
            logit = row[token]
            rank = 1 if logit == best else 1 + int(np.count_nonzero(row > logit))
            known[token] = Judged(float(scratch[token]) / total, rank)
    return [known[token] for token in tokens]


def _filled(known: Sequence[T], length: int) -> tuple[T | None, ...]:
    """With None for the rest."""
    return (*known, *[None] * (length - len(known)))
