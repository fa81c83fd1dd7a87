"""The loop: draft, verify in one target pass, keep what agrees, go on."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from time import perf_counter
from typing import TYPE_CHECKING

from edgespec.decoding.drafters.base import Drafter
from edgespec.decoding.drafters.none import NO_DRAFT
from edgespec.decoding.length import LengthPolicy
from edgespec.decoding.sampling import Sampler
from edgespec.decoding.session import Interrupted, Session, Vocabulary, prefill, rewind
from edgespec.decoding.stop import StopGate
from edgespec.decoding.trim import trim
from edgespec.decoding.verify import verify
from edgespec.errors import ContextFullError
from edgespec.types import Draft, Finished, FinishReason, Prefilled, Prefilling, Round

if TYPE_CHECKING:
    import numpy as np

Event = Prefilling | Prefilled | Round | Finished


def speculate(
    target: Session,
    drafter: Drafter,
    sampler: Sampler,
    prompt: Sequence[int],
    *,
    length: LengthPolicy,
    vocabulary: Vocabulary,
    rng: np.random.Generator,
    max_tokens: int | None = None,
    stop: Sequence[bytes] = (),
    cancelled: Callable[[], bool] = lambda: False,
) -> Generator[Event, None, None]:
    """Continue `prompt`, yielding one Round per target pass and at last Finished.

    Between rounds the target's cache holds all of the context but its last token. The same holds when the generator
    ends, is closed, or raises: nothing behind a stop text, an end-of-generation token or a cancel stays in a cache
    (less than that stays where a memory cannot go back exactly there). The caches are in order before Finished comes.

    `sampler` advances by the tokens of the reply; what it should know of the prompt is the caller's choice.
    `max_tokens=0` fills the cache and ends with LENGTH. Raises ValueError for an empty prompt, ContextFullError for
    one that does not fit.
    """
    end, at_end = last_length(target, prompt, max_tokens)
    context = list(prompt)
    gate = StopGate(stop)
    try:
        try:
            yield from bring_up_to_date(target, drafter, context, cancelled)
            reason = yield from rounds(
                target, drafter, sampler, context, gate, length, vocabulary, rng, end, at_end, cancelled
            )
        except Interrupted:
            reason = FinishReason.CANCELLED
        yield from gate.flush()
    finally:
        settle(target, drafter, len(prompt) + gate.shown)
    yield Finished(reason)


def rounds(
    target: Session,
    drafter: Drafter,
    sampler: Sampler,
    context: list[int],
    gate: StopGate,
    length: LengthPolicy,
    vocabulary: Vocabulary,
    rng: np.random.Generator,
    end: int,
    at_end: FinishReason,
    cancelled: Callable[[], bool],
) -> Generator[Round, None, FinishReason]:
    """Round after round until the reply is over; return why. `context` grows to at most `end` tokens."""
    n_vocab, is_eog, piece = target.n_vocab, vocabulary.is_eog, vocabulary.piece
    mark = perf_counter()
    index = 0
    while True:
        if len(context) >= end:
            return at_end
        if cancelled():
            return FinishReason.CANCELLED
        limit = min(length.next(), end - len(context) - 1, target.max_batch - 1)

        started = perf_counter()
        draft = trim(drafter.propose(context, limit), limit, n_vocab, is_eog) if limit > 0 else NO_DRAFT
        drafted = perf_counter()
        rows = target.decode([context[-1], *draft.tokens])
        decoded = perf_counter()

        verdict = verify(rows, draft, sampler, rng)
        tokens = (*draft.tokens[: verdict.accepted], verdict.next_token)
        context += tokens
        if verdict.accepted < len(draft.tokens):
            target.truncate(len(context) - 1)
        drafter.observe(verdict)

        pieces = tuple(map(piece, tokens))
        now = perf_counter()
        overhead = (now - mark) - (decoded - started)
        mark = now
        round_ = Round(
            index, without_laws(draft), verdict, tokens, pieces, drafted - started, decoded - drafted, overhead
        )
        length.observe(round_)
        yield from gate.push(round_)
        if gate.stopped or is_eog(verdict.next_token):
            return FinishReason.STOP
        index += 1


def last_length(target: Session, prompt: Sequence[int], max_tokens: int | None) -> tuple[int, FinishReason]:
    """Length at which the context must end, and the reason that is given then."""
    if not prompt:
        raise ValueError("the prompt is empty; a model needs at least one token to continue")
    if max_tokens is not None and max_tokens < 0:
        raise ValueError(f"max_tokens must not be negative, got {max_tokens}")
    if len(prompt) > target.n_ctx:
        raise ContextFullError(
            f"The prompt has {len(prompt):,} tokens, but the context holds {target.n_ctx:,}.",
            "Shorten it, or load the model with a larger context (--ctx).",
        )
    if max_tokens is not None and len(prompt) + max_tokens <= target.n_ctx:
        return len(prompt) + max_tokens, FinishReason.LENGTH
    return target.n_ctx, FinishReason.CONTEXT


def bring_up_to_date(
    target: Session, drafter: Drafter, context: Sequence[int], cancelled: Callable[[], bool]
) -> Iterator[Prefilling | Prefilled]:
    """Fill the target's cache with all of the context but its last token, then let the drafter do its part."""
    started = perf_counter()
    cached = yield from prefill(target, context[:-1], cancelled)
    drafter.begin(context)
    yield Prefilled(len(context), cached, perf_counter() - started)


def settle(target: Session, drafter: Drafter, kept: int) -> None:
    """Forget whatever lies behind the first `kept` tokens, of which the last one is never in a cache."""
    try:
        rewind(target, kept - 1)
    finally:
        drafter.finish(kept)


def without_laws(draft: Draft) -> Draft:
    """The draft as others may see it: a law is as wide as the vocabulary and serves nobody after the verdict."""
    return draft if draft.probs is None else Draft(draft.tokens, None, draft.source)
