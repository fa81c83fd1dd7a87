"""A model, a vocabulary and drafters made of plain Python, strict about everything llama.cpp would abort on."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgespec.decoding.auto import AutoDrafter
from edgespec.decoding.drafters.base import Drafter
from edgespec.decoding.drafters.none import NoDraft
from edgespec.decoding.length import FixedLength
from edgespec.decoding.sampling import GreedySampler, Sampler
from edgespec.decoding.speculate import speculate
from edgespec.decoding.stats import GenerationStats, StatsBuilder
from edgespec.errors import DecodeError
from edgespec.types import Draft, Finished, FinishReason, Prefilled, Prefilling, Round, Verdict

Logits = Callable[[Sequence[int]], NDArray[np.float32]]
"""Logits of the next token, given all tokens so far."""


def hashed_logits(n_vocab: int, order: int = 3, seed: int = 0, scale: float = 3.0) -> Logits:
    """A random function of the last `order` tokens: deterministic, without ties, and never repeating by design."""
    rows: dict[tuple[int, ...], NDArray[np.float32]] = {}

    def logits(tokens: Sequence[int]) -> NDArray[np.float32]:
        key = tuple(tokens[-order:])
        if key not in rows:
            rng = np.random.default_rng(zlib.crc32(repr((seed, key)).encode()))
            rows[key] = (scale * rng.standard_normal(n_vocab)).astype(np.float32)
        return rows[key]

    return logits


def scripted_logits(script: Sequence[int], start: int, n_vocab: int) -> Logits:
    """The token at position `start + i` is script[i], whatever came before; behind the script it is 0."""

    def logits(tokens: Sequence[int]) -> NDArray[np.float32]:
        row = np.zeros(n_vocab, dtype=np.float32)
        i = len(tokens) - start
        row[script[i] if 0 <= i < len(script) else 0] = 1
        return row

    return logits


class FakeSession:
    """A Session over a function of the tokens in its cache. Names everything it evaluates."""

    def __init__(
        self, logits: Logits, n_vocab: int, *, n_ctx: int = 4096, max_batch: int = 64, chunk: int = 16,
        can_rewind: bool = True,
    ) -> None:  # fmt: skip
        self._logits = logits
        self._cache: list[int] = []
        self._n_ctx, self._n_vocab, self._max_batch, self._chunk = n_ctx, n_vocab, max_batch, chunk
        self._can_rewind = can_rewind
        self.decoded: list[tuple[int, ...]] = []
        self.prefilled: list[tuple[int, ...]] = []
        self.truncations: list[int] = []
        self.evaluated: list[int] = []
        """A name for each evaluated token and all before it: the same twice means the same work twice."""
        self._names = [0]
        self.closed = False
        self.fail_at: int | None = None

    tokens = property(lambda self: self._cache)
    length = property(lambda self: len(self._cache))
    n_ctx = property(lambda self: self._n_ctx)
    n_vocab = property(lambda self: self._n_vocab)
    max_batch = property(lambda self: self._max_batch)
    chunk = property(lambda self: self._chunk)

    def decode(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        if not 1 <= len(tokens) <= self._max_batch:
            raise AssertionError(f"a batch of {len(tokens)} tokens")
        self.decoded.append(tuple(tokens))
        if self.fail_at is not None and len(self.decoded) > self.fail_at:
            raise DecodeError("The fake failed.")
        rows = np.empty((len(tokens), self._n_vocab), dtype=np.float32)
        for i, token in enumerate(tokens):
            self._append(token)
            rows[i] = self._logits(self._cache)
        return rows

    def prefill(self, tokens: Sequence[int]) -> None:
        if not 1 <= len(tokens) <= self._chunk:
            raise AssertionError(f"a chunk of {len(tokens)} tokens")
        self.prefilled.append(tuple(tokens))
        for token in tokens:
            self._append(token)

    def reusable(self, length: int) -> int:
        return length if self._can_rewind or length == len(self._cache) else 0

    def truncate(self, length: int) -> None:
        if not 0 <= length <= len(self._cache):
            raise AssertionError(f"truncate({length}) of {len(self._cache)}")
        if not self._can_rewind and 0 < length < len(self._cache):
            raise DecodeError("This memory cannot go back.")
        self.truncations.append(length)
        del self._cache[length:]
        del self._names[length + 1 :]

    def close(self) -> None:
        self.closed = True

    def _append(self, token: int) -> None:
        if not 0 <= token < self._n_vocab:
            raise AssertionError(f"token {token} is not in the vocabulary")
        if len(self._cache) >= self._n_ctx:
            raise AssertionError("the cache is full")
        self._cache.append(token)
        self._names.append(hash((self._names[-1], token)))
        self.evaluated.append(self._names[-1])


class FakeVocabulary:
    """Token i reads `pieces[i]`, or one letter; tokens in `eog` end the reply and read nothing."""

    def __init__(self, pieces: Sequence[bytes] = (), eog: Iterable[int] = ()) -> None:
        self._pieces = list(pieces)
        self._eog = frozenset(eog)

    def is_eog(self, token: int) -> bool:
        return token in self._eog

    def piece(self, token: int) -> bytes:
        if token in self._eog:
            return b""
        return self._pieces[token] if token < len(self._pieces) else bytes([97 + token % 26])


class ScriptedDrafter:
    """Proposes whatever `proposals(context, limit)` returns, however wrong, and writes down what it is told."""

    name = "scripted"

    def __init__(self, proposals: Callable[[Sequence[int], int], Sequence[int]]) -> None:
        self._proposals = proposals
        self.limits: list[int] = []
        self.verdicts: list[Verdict] = []
        self.finished: list[int] = []

    def begin(self, context: Sequence[int]) -> None: ...

    def propose(self, context: Sequence[int], limit: int) -> Draft:
        self.limits.append(limit)
        return Draft(tuple(self._proposals(context, limit)), None, self.name)

    def observe(self, verdict: Verdict) -> None:
        self.verdicts.append(verdict)

    def finish(self, length: int) -> None:
        self.finished.append(length)

    def close(self) -> None: ...


@dataclass
class Reply:
    """Everything one run of the loop brought."""

    prompt: list[int]
    rounds: list[Round]
    prefilled: Prefilled | None
    progress: list[Prefilling]
    reason: FinishReason | None
    stats: GenerationStats

    @property
    def tokens(self) -> list[int]:
        return [token for round_ in self.rounds for token in round_.tokens]

    @property
    def text(self) -> bytes:
        return b"".join(piece for round_ in self.rounds for piece in round_.pieces)

    @property
    def cached(self) -> list[int]:
        """What a target's cache must hold after this reply."""
        return (self.prompt + self.tokens)[:-1]


def generate(
    target: FakeSession,
    drafter: Drafter | None = None,
    sampler: Sampler | None = None,
    prompt: Sequence[int] = (1, 2, 3),
    *,
    k: int = 4,
    vocabulary: FakeVocabulary | None = None,
    max_tokens: int | None = None,
    stop: Sequence[bytes] = (),
    cancelled: Callable[[], bool] = lambda: False,
    seed: int = 0,
    close_after: int | None = None,
) -> Reply:
    """Run the loop to its end, or close it after `close_after` rounds."""
    reply = Reply(list(prompt), [], None, [], None, GenerationStats())
    builder = StatsBuilder()
    events = speculate(
        target, drafter or NoDraft(), sampler or GreedySampler(), prompt,
        length=drafter.policy if isinstance(drafter, AutoDrafter) else FixedLength(k),
        vocabulary=vocabulary or FakeVocabulary(), rng=np.random.default_rng(seed), max_tokens=max_tokens, stop=stop,
        cancelled=cancelled,
    )  # fmt: skip
    with closing(events):
        for event in events:
            match event:
                case Round():
                    reply.rounds.append(event)
                    builder.add(event)
                case Prefilled():
                    reply.prefilled = event
                    builder.prefilled(event)
                case Prefilling():
                    reply.progress.append(event)
                case Finished(reason):
                    reply.reason = reason
            if close_after is not None and len(reply.rounds) == close_after:
                break
    reply.stats = builder.result()
    return reply
