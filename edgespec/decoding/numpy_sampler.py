"""The sampler chain in numpy: a reference to read and to test against, and the sampler of the fakes."""

from __future__ import annotations

import copy
import math
from collections import deque
from collections.abc import Iterable
from typing import Self

import numpy as np
from numpy.typing import NDArray

from edgespec.decoding.distributions import draw
from edgespec.decoding.sampling import PENALTY_WINDOW, SamplingParams
from edgespec.types import Distribution


class NumpySampler:
    """Penalty, top-k, top-p, min-p, temperature, draw: the order and meanings of llama.cpp's sampler chain.

    Spends one random number per `sample`, none elsewhere. `history` is what the repeat penalty sees at the start.
    """

    def __init__(self, params: SamplingParams, n_vocab: int, history: Iterable[int] = ()) -> None:
        self._params = params
        self._ids = np.arange(n_vocab, dtype=np.int32)
        self._recent = deque(history, maxlen=PENALTY_WINDOW)
        self._rng = np.random.default_rng(params.seed)

    @property
    def greedy(self) -> bool:
        return self._params.temperature == 0 and self._params.repeat_penalty == 1

    def distribution(self, row: NDArray[np.float32]) -> Distribution:
        params = self._params
        logits = self._penalised(row[: len(self._ids)].astype(np.float64))
        if params.temperature == 0:
            return Distribution(self._ids[[logits.argmax()]], np.ones(1))
        ids = self._ids
        if 0 < params.top_k < len(ids) or params.top_p < 1:
            # Stable, so that the lower id wins among equals.
            ids = (-logits).argsort(kind="stable").astype(np.int32)
            ids = ids[: params.top_k or None]
        if params.top_p < 1:
            reached = _softmax(logits[ids]).cumsum()
            ids = ids[: 1 + int(reached.searchsorted(params.top_p))]
        if params.min_p > 0:
            ids = ids[logits[ids] >= logits[ids].max() + math.log(params.min_p)]
        return Distribution(ids, _softmax(logits[ids] / params.temperature))

    def sample(self, row: NDArray[np.float32]) -> int:
        return draw(self.distribution(row), self._rng)

    def accept(self, token: int) -> None:
        self._recent.append(token)

    def clone(self) -> Self:
        twin = copy.copy(self)
        twin._recent = self._recent.copy()
        twin._rng = copy.deepcopy(self._rng)
        return twin

    def _penalised(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        if self._params.repeat_penalty != 1 and self._recent:
            recent = list(set(self._recent))
            seen = logits[recent]
            logits[recent] = np.where(seen > 0, seen / self._params.repeat_penalty, seen * self._params.repeat_penalty)
        return logits


def _softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    weights: NDArray[np.float64] = np.exp(logits - logits.max())
    weights /= weights.sum()
    return weights
