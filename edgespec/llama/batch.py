"""Tokens on their way into a pass, in memory that llama.cpp reads in place."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from edgespec.llama.prototypes import Batch


class TokenBatch:
    """A llama_batch over numpy memory for one sequence.

    Made once; a pass writes its tokens and moves one pointer. Positions are given although llama.cpp could count
    them: it compares them with its cache, so that a slip in bookkeeping is an error and not a wrong reply. They are a
    window into 0, 1, 2, ..., so nothing is copied. Tokens are written through ctypes, not numpy: between two passes
    all caches are cold, and what counts is how little code a round touches.
    """

    def __init__(self, size: int, n_ctx: int, n_vocab: int, *, outputs: bool) -> None:
        self._n_vocab = n_vocab
        self._token = np.zeros(size, dtype=np.int32)
        self._positions = np.arange(n_ctx, dtype=np.int32)
        self._count = np.ones(size, dtype=np.int32)
        self._sequence = np.zeros(1, dtype=np.int32)
        self._sequences = np.full(size, self._sequence.ctypes.data, dtype=np.uintp)
        self._outputs = np.full(size, outputs, dtype=np.int8)
        self._slots: Any = (ctypes.c_int32 * size).from_buffer(self._token.data)
        self._first_position = self._positions.ctypes.data
        self._struct = Batch(
            0,
            self._token.ctypes.data,
            None,
            self._first_position,
            self._count.ctypes.data,
            self._sequences.ctypes.data,
            self._outputs.ctypes.data,
        )

    def fill(self, tokens: Sequence[int], start: int) -> Batch:
        """These tokens, at most `size`, from position `start` on. Raises ValueError for ids outside the vocabulary."""
        if min(tokens) < 0 or max(tokens) >= self._n_vocab:
            raise ValueError(f"token ids must be from 0 to {self._n_vocab - 1}")
        count = len(tokens)
        struct = self._struct
        self._slots[:count] = tokens
        struct.n_tokens = count
        struct.pos = self._first_position + 4 * start
        return struct
