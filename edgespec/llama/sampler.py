"""llama.cpp's samplers behind the Sampler protocol."""

from __future__ import annotations

import ctypes
import weakref
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Self

import numpy as np

from edgespec.decoding.sampling import PENALTY_WINDOW, GreedySampler, Sampler, SamplingParams
from edgespec.errors import DecodeError
from edgespec.llama.candidates import Candidates, Preselection
from edgespec.llama.library import Library, library
from edgespec.llama.vocab import LlamaVocab
from edgespec.types import Distribution

if TYPE_CHECKING:
    from numpy.typing import NDArray

_COLDEST = 1e-6
"""Temperatures below this make no difference but overflow 32-bit logits."""


def make_sampler(vocab: LlamaVocab, params: SamplingParams) -> Sampler:
    """The sampler for these parameters: argmax if nothing else is asked for, else a llama.cpp chain."""
    penalised = params.repeat_penalty != 1.0
    if not penalised and (params.temperature == 0 or params.top_k == 1):
        return GreedySampler()
    return ChainSampler(library(), vocab.n_tokens, params)


class ChainSampler:
    """llama.cpp's chain: penalties, top-k, top-p, min-p, temperature, then a draw.

    The filters and the draw are kept apart, so that reading the law out spends no random number: the draws are one a
    `sample`, and a seed gives the same reply whatever was drafted. With temperature 0 the draw is the likeliest token
    after penalties.
    """

    greedy = False

    def __init__(self, lib: Library, n_vocab: int, params: SamplingParams) -> None:
        self._preselection = Preselection(params)
        self._own(lib, _filters(lib, n_vocab, params), _draw(lib, params), Candidates(n_vocab), ())

    def _own(self, lib: Library, filters: int, draw: int, candidates: Candidates, recent: Iterable[int]) -> None:
        self._lib = lib
        self._filters, self._draw = filters, draw
        self._candidates = candidates
        self._recent: deque[int] = deque(recent, maxlen=PENALTY_WINDOW if self._preselection.penalised else 0)
        self._free = weakref.finalize(self, _free, lib, filters, draw)

    def distribution(self, row: NDArray[np.float32]) -> Distribution:
        """The law after the whole chain, for one row of logits of shape (n_vocab,)."""
        self._filter(row)
        if self._preselection.greedy:
            return Distribution(np.array([self._choose()], dtype=np.int32), np.ones(1))
        ids, logits = self._candidates.survivors()
        weights = np.exp(logits - logits.max())
        return Distribution(ids, weights / weights.sum())

    def sample(self, row: NDArray[np.float32]) -> int:
        """Draw a token from that law; one random number a call."""
        self._filter(row)
        return self._choose()

    def accept(self, token: int) -> None:
        """Advance the penalties' window by a token that is kept."""
        self._recent.append(token)
        self._lib.llama_sampler_accept(self._filters, token)

    def clone(self) -> Self:
        """A copy whose penalties and random numbers move on their own. Both belong to the same thread."""
        copy = type(self).__new__(type(self))
        copy._preselection = self._preselection
        clone = self._lib.llama_sampler_clone
        copy._own(self._lib, clone(self._filters), clone(self._draw), self._candidates, self._recent)
        return copy

    def close(self) -> None:
        """Free the native samplers; happens by itself when the object goes."""
        self._free()

    def _filter(self, row: NDArray[np.float32]) -> None:
        if not self._free.alive:
            raise ValueError("the sampler is closed")
        ids = self._preselection.choose(row, self._recent)
        self._candidates.fill(row, ids)
        if self._candidates.array.size:
            self._lib.llama_sampler_apply(self._filters, ctypes.byref(self._candidates.array))

    def _choose(self) -> int:
        candidates = self._candidates
        if candidates.array.size:
            self._lib.llama_sampler_apply(self._draw, ctypes.byref(candidates.array))
        token = candidates.selected()
        if token is None:
            raise DecodeError(
                "The model computed numbers that are no numbers (NaN).",
                "The file may be damaged, or this device's kernels faulty: try --gpu-layers 0, or another file.",
            )
        return token


def _filters(lib: Library, n_vocab: int, params: SamplingParams) -> int:
    chain: int = lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params())
    add = lib.llama_sampler_chain_add
    if params.repeat_penalty != 1.0:
        add(chain, lib.llama_sampler_init_penalties(n_vocab, PENALTY_WINDOW, params.repeat_penalty, 0.0, 0.0))
    if params.temperature == 0:
        return chain
    if params.top_k > 0:
        add(chain, lib.llama_sampler_init_top_k(min(params.top_k, n_vocab)))
    if params.top_p < 1:
        add(chain, lib.llama_sampler_init_top_p(params.top_p, 1))
    if params.min_p > 0:
        add(chain, lib.llama_sampler_init_min_p(params.min_p, 1))
    add(chain, lib.llama_sampler_init_temp(max(params.temperature, _COLDEST)))
    return chain


def _draw(lib: Library, params: SamplingParams) -> int:
    seed = params.seed
    sampler: int = lib.llama_sampler_init_greedy() if params.temperature == 0 else lib.llama_sampler_init_dist(seed)
    return sampler


def _free(lib: Library, *samplers: int) -> None:
    for sampler in samplers:
        lib.llama_sampler_free(sampler)
