"""Tokens on their way into a pass, in memory that llama.cpp reads in place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgespec.llama.library import Batch


class TokenBatch:
    """A llama_batch over numpy memory for one sequence.

    Made once; a pass only writes tokens and positions. Positions are given although llama.cpp could count them: it
    compares them with its cache, so that a slip in bookkeeping is an error and not a wrong reply.
    """

    def __init__(self, size: int, n_ctx: int, *, outputs: bool) -> None:
        self._count = np.ones(size, dtype=np.int32)
        self._token = np.zeros(size, dtype=np.int32)
        self._pos = np.zeros(size, dtype=np.int32)
        self._positions = np.arange(n_ctx, dtype=np.int32)
        self._sequence = np.zeros(1, dtype=np.int32)
        self._sequences = np.full(size, self._sequence.ctypes.data, dtype=np.uintp)
        self._outputs = np.full(size, outputs, dtype=np.int8)
        self._struct = Batch(
            0,
            self._token.ctypes.data,
            None,
            self._pos.ctypes.data,
            self._count.ctypes.data,
            self._sequences.ctypes.data,
            self._outputs.ctypes.data,
        )

    def fill(self, tokens: Sequence[int], start: int, n_vocab: int) -> Batch:
        """These tokens, from position `start` on. Raises ValueError for an id outside the vocabulary."""
        if min(tokens) < 0 or max(tokens) >= n_vocab:
            raise ValueError(f"token ids must be between 0 and {n_vocab - 1}")
        count = len(tokens)
        self._token[:count] = tokens
        self._pos[:count] = self._positions[start : start + count]
        self._struct.n_tokens = count
        return self._struct
