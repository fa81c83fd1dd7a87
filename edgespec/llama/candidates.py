"""Candidates for a llama.cpp sampler chain: the memory they are in, and which ones are worth handing over.

A chain walks over all candidates several times. With a vocabulary of 262,144 that costs more than a small model's
pass, so where the outcome is provably the same, only a superset of the possible survivors is handed over.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from edgespec.decoding.sampling import SamplingParams
from edgespec.llama.prototypes import TokenDataArray

if TYPE_CHECKING:
    from numpy.typing import NDArray

_RECORD = np.dtype([("id", "<i4"), ("logit", "<f4"), ("p", "<f4")])
_BLOCK = 64


class Candidates:
    """An array of (id, logit, p) that a chain works on in place.

    Attributes:
        array: what the chain gets; it may move the start, shrink the size and permute the elements.
    """

    def __init__(self, n_vocab: int) -> None:
        self._records = np.empty(n_vocab, dtype=_RECORD)
        self._ids, self._logits, self._p = (self._records[name] for name in ("id", "logit", "p"))
        self._all = np.arange(n_vocab, dtype=np.int32)
        self._address = self._records.ctypes.data
        self.array = TokenDataArray(self._address, 0, -1, False)

    def fill(self, row: NDArray[np.float32], ids: NDArray[np.intp] | None) -> None:
        """Take these ids, ascending, with their logits; all of them for None."""
        count = len(row) if ids is None else len(ids)
        self._ids[:count] = self._all if ids is None else ids
        self._logits[:count] = row if ids is None else row[ids]
        array = self.array
        array.data, array.size, array.selected, array.sorted = self._address, count, -1, False

    def survivors(self) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Copies of what the chain left: ids and logits."""
        start = self._start()
        part = slice(start, start + self.array.size)
        return self._ids[part].copy(), self._logits[part].astype(np.float64)

    def selected(self) -> int | None:
        """The id that the chain chose; None if the logits were no numbers."""
        if self.array.selected < 0:
            return None
        index = self._start() + self.array.selected
        return None if math.isnan(self._logits[index]) else int(self._ids[index])

    def _start(self) -> int:
        return int((self.array.data - self._address) // _RECORD.itemsize)


class Preselection:
    """Which candidates the chain must see for the same outcome as with all of them.

    With top-k first, no token below the k-th largest logit survives; the k-th largest of the maxima of disjoint
    blocks is a lower bound of that, found without sorting. With min-p first, none survives below the maximum plus
    ln(min-p). Penalties change the logits of the recent tokens before that: these are always handed over, and as
    all others keep their logits, counting that many ranks further down makes up for those that fall.
    """

    def __init__(self, params: SamplingParams) -> None:
        self.greedy = params.temperature == 0
        self.penalised = params.repeat_penalty != 1.0
        self._top_k = 1 if self.greedy else params.top_k
        only_min_p = not self.greedy and params.top_k == 0 and params.top_p >= 1 and params.min_p > 0
        self._below_max = math.log(params.min_p) - 1e-3 if only_min_p else None

    def choose(self, row: NDArray[np.float32], recent: Collection[int]) -> NDArray[np.intp] | None:
        """Ids to hand over, ascending; None for all."""
        rank = self._top_k or (1 if self._below_max is not None else 0)
        if not rank:
            return None
        least = _lower_bound(row, rank + len(recent))
        if least is None:
            return None
        if self._below_max is not None:
            least += self._below_max
        ids = np.flatnonzero(row >= least)
        if recent:
            ids = np.union1d(ids, np.fromiter(recent, dtype=np.intp))
        return ids


def _lower_bound(row: NDArray[np.float32], rank: int) -> float | None:
    """A number that at least `rank` logits reach, close below the rank-th largest; None if that is not cheap."""
    blocks = len(row) // _BLOCK
    if rank * 2 > blocks:
        return None
    maxima = row[: blocks * _BLOCK].reshape(blocks, _BLOCK).max(axis=1)
    if rank == 1:
        return float(maxima.max())
    return float(np.partition(maxima, blocks - rank)[blocks - rank])
