"""One llama.cpp context and the tokens in its cache."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import numpy as np

from edgespec.errors import ContextFullError, DecodeError, ModelLoadError
from edgespec.llama.batch import TokenBatch
from edgespec.llama.context import ContextOptions, open_context
from edgespec.llama.model import LlamaModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SEQ = 0
_DECODE_FAILURES = {
    1: "found no room in its cache",
    2: "was interrupted",
    -1: "refused the batch",
    -2: "ran out of memory",
    -3: "failed to compute",
}


class LlamaSession:
    """A context for one sequence of tokens. Implements `decoding.session.Session`. One thread at a time.

    Misuse of llama.cpp ends the process, so everything it would abort on is refused here.

    Attributes:
        max_rewind: how many tokens `truncate` can take back: None for any number, 0 for none (recurrent models keep
            no history; only emptying the cache works), else a bound within the latest pass.
        threads: threads in use.
        n_ctx_train: context length the model was trained for; `n_ctx` may be larger, at the user's risk.
    """

    def __init__(
        self,
        model: LlamaModel,
        *,
        n_ctx: int,
        n_batch: int = 512,
        n_ubatch: int = 512,
        max_draft: int = 32,
        threads: int = 0,
        type_k: str = "f16",
        type_v: str = "f16",
        flash_attention: str = "auto",
        n_rs_seq: int | None = None,
    ) -> None:
        """Make a context. Raises ModelLoadError with the reason, SettingsError for options that cannot work.

        Args:
            n_ctx: tokens the cache can hold; 0 takes the model's own context length.
            n_batch, n_ubatch: most tokens in one prefill chunk; the smaller one counts.
            max_draft: longest draft that `decode` must be able to check; bounds the memory for logits.
            threads: 0 takes the physical cores.
            type_k, type_v: element types of the cache. A quantised V needs flash attention.
            flash_attention: auto, on or off.
            n_rs_seq: for recurrent and hybrid models, how many tokens back their state is kept, where the
                architecture can do it; None chooses a small number.
        """
        self._lib = lib = model.library
        self._model = model
        options = ContextOptions(
            n_ctx=n_ctx or model.n_ctx_train, n_batch=n_batch, n_ubatch=n_ubatch, max_draft=max_draft, threads=threads,
            type_k=type_k, type_v=type_v, flash_attention=flash_attention, n_rs_seq=n_rs_seq,
        )  # fmt: skip
        self._handle: int = open_context(lib, model, options)
        model.sessions.add(self)
        self.n_ctx = options.n_ctx
        self.n_vocab = model.n_vocab
        self.n_ctx_train = model.n_ctx_train
        self.threads = options.n_threads
        self.chunk = options.chunk
        self._tokens: list[int] = []
        self._last_pass = 0  # tokens of the latest pass, 0 once a rewind has used its snapshots
        self._decode_c, self._logits_c = lib.llama_decode, lib.llama_get_logits
        self._address = 0
        self._views: dict[int, tuple[NDArray[np.float32], ctypes.c_float]] = {}
        self._memory = self._find_memory()
        self._prompt = TokenBatch(self.chunk, self.n_ctx, self.n_vocab, outputs=False)
        self.max_rewind = self._probe_rewind()
        self.max_batch = options.max_rows if self.max_rewind is None else min(options.max_rows, self.max_rewind + 1)
        self._round = TokenBatch(self.max_batch, self.n_ctx, self.n_vocab, outputs=True)

    @property
    def tokens(self) -> Sequence[int]:
        """The tokens in the cache, in order. Not to be changed by the caller."""
        return self._tokens

    @property
    def length(self) -> int:
        """Number of tokens in the cache."""
        return len(self._tokens)

    @property
    def can_rewind(self) -> bool:
        """Can at least one token be taken back? Without that only plain decoding works."""
        return self.max_rewind != 0

    def decode(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """Append tokens; return their logits, shape (len(tokens), n_vocab), as a view that the next call overwrites.

        Raises ContextFullError, or DecodeError; after either, `tokens` is what the cache really holds.
        """
        count = len(tokens)
        start = len(self._tokens)
        if not 0 < count <= self.max_batch or count > self.n_ctx - start:
            self._refuse(count, self.max_batch)
        code = self._decode_c(self._handle, self._round.fill(tokens, start))
        if code:
            self._failed(code, tokens)
        self._tokens += tokens
        self._last_pass = count
        address: int = self._logits_c(self._handle)
        if address != self._address or count not in self._views:
            self._look_at(address, count)
        rows, first = self._views[count]
        if first.value != first.value:  # NaN spreads over its row and all later ones: the last row shows it
            raise DecodeError(
                "The model computed numbers that are no numbers (NaN).",
                "The file may be damaged, or this device's kernels faulty: try --gpu-layers 0, or another file.",
            )
        return rows

    def prefill(self, tokens: Sequence[int]) -> None:
        """Append at most `chunk` tokens without computing logits. Raises as `decode` does."""
        count = len(tokens)
        start = len(self._tokens)
        if not 0 < count <= self.chunk or count > self.n_ctx - start:
            self._refuse(count, self.chunk)
        code = self._decode_c(self._handle, self._prompt.fill(tokens, start))
        if code:
            self._failed(code, tokens)
        self._tokens += tokens
        self._last_pass = count

    def reusable(self, length: int) -> int:
        """How much of the first `length` cached tokens can be kept if the rest is dropped: all of them, or none.

        None is the answer where a recurrent state cannot go back that far, and where a sliding window has already
        dropped what the tokens before position `length` must see.
        """
        have = len(self._tokens)
        if length >= have:
            return have
        if length <= 0 or not self._snapshot_reaches(have - length):
            return 0
        window = self._model.n_swa
        if window:
            oldest = self._lib.llama_memory_seq_pos_min(self._memory, _SEQ)
            if oldest and oldest >= max(0, length - window):
                return 0
        return length

    def truncate(self, length: int) -> None:
        """Drop every token from position `length` on. Raises DecodeError if this memory cannot go back that far."""
        have = len(self._tokens)
        if length >= have:
            return
        if length <= 0:
            self._clear()
            return
        if self.reusable(length) != length:
            raise DecodeError(
                f"This model's memory cannot go back from {have:,} to {length:,} tokens.", "Use --mode plain for it."
            )
        if not self._lib.llama_memory_seq_rm(self._memory, _SEQ, length, -1):
            self._resync([])
            raise DecodeError(f"llama.cpp could not drop the tokens behind {length:,}.", "Use --mode plain.")
        del self._tokens[length:]
        self._last_pass = 0

    def warm_up(self) -> None:
        """Run a wide pass, a narrow one and a single token once, then forget them.

        A processor that announces instructions which it cannot execute dies here, not in the first reply. Kernels
        are chosen by width: the wide pass is one that takes matrix extensions such as AMX.
        """
        self._clear()
        token = self._model.vocab.bos if self._model.vocab.bos >= 0 else 0
        self.prefill([token] * min(32, self.chunk))
        for width in (1, 4):
            self._clear()
            self.decode([token] * min(width, self.max_batch))
        self._clear()
        self._lib.llama_synchronize(self._handle)

    def close(self) -> None:
        """Free the context. Views of logits must not be read any more."""
        handle, self._handle = self._handle, 0
        self._views = {}
        self._tokens = []
        self.max_batch = self.chunk = 0
        if handle:
            self._lib.llama_free(handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", 0):
            self.close()

    def _look_at(self, address: int, count: int) -> None:
        """Make a view of `count` rows of logits where llama.cpp keeps them. The buffer moves when it grows."""
        if not address:
            raise DecodeError("llama.cpp computed no logits.", "Load the model again.")
        if address != self._address:
            self._views.clear()
            self._address = address
        memory = (ctypes.c_float * (count * self.n_vocab)).from_address(address)
        rows = np.ctypeslib.as_array(memory).reshape(count, self.n_vocab)
        self._views[count] = rows, ctypes.c_float.from_address(address + rows[count - 1].nbytes * (count - 1))

    def _refuse(self, count: int, most: int) -> None:
        if not self._handle:
            raise DecodeError("The session is closed.", "Load the model again.")
        if count > self.n_ctx - len(self._tokens):
            raise ContextFullError(
                f"The context holds {len(self._tokens):,} of {self.n_ctx:,} tokens; {count:,} more do not fit.",
                "Choose a larger context with --ctx.",
            )
        raise ValueError(f"a pass takes 1 to {most} tokens, got {count}")

    def _failed(self, code: int, tokens: Sequence[int]) -> None:
        """Make `tokens` true again after a failed pass, then say what happened."""
        self._resync([] if code in (1, -1) else tokens)
        what = _DECODE_FAILURES.get(code, f"failed with code {code}")
        reason = self._lib.explain("")
        raise DecodeError(
            f"llama.cpp {what}{f' ({reason})' if reason else ''}.",
            "Use a smaller context (--ctx) or fewer --gpu-layers." if code == -2 else "Start the reply again.",
        )

    def _resync(self, added: Sequence[int]) -> None:
        """Read back how much of the old and the added tokens the cache holds; empty it if that is uncertain."""
        self._last_pass = 0
        held = self._lib.llama_memory_seq_pos_max(self._memory, _SEQ) + 1
        known = [*self._tokens, *added]
        whole_state = self._model.is_recurrent or self._model.is_hybrid
        if held > len(known) or (whole_state and held != len(self._tokens)):
            self._clear()
        else:
            self._tokens = known[:held]

    def _clear(self) -> None:
        """Empty the cache. This works for every kind of memory."""
        if not self._lib.llama_memory_seq_rm(self._memory, _SEQ, -1, -1):
            self._lib.llama_memory_clear(self._memory, True)
        self._tokens = []
        self._last_pass = 0

    def _snapshot_reaches(self, back: int) -> bool:
        """Does the recurrent part, if there is one, still know its state this many tokens ago?

        Snapshots come from the latest pass only, one a token, and are good for one rewind. llama.cpp restores a stale
        one without complaint when asked for more than the latest pass had.
        """
        return self.max_rewind is None or back <= min(self.max_rewind, self._last_pass - 1)

    def _find_memory(self) -> int:
        memory: int | None = self._lib.llama_get_memory(self._handle)
        if not memory:
            self.close()
            raise ModelLoadError(
                f"{self._model.path.name} keeps no memory of a text, so it cannot generate one.",
                "Choose a model that generates text from left to right.",
            )
        return memory

    def _probe_rewind(self) -> int | None:
        """Find out by trying how far back this memory can go."""
        bound: int = self._lib.llama_n_rs_seq(self._handle)
        if bound:
            return bound
        if self.n_ctx < 2:
            return 0
        for part in ([0, 0],) if self.chunk > 1 else ([0], [0]):
            self.prefill(part)
        whole = bool(self._lib.llama_memory_seq_rm(self._memory, _SEQ, 1, -1))
        self._clear()
        return None if whole else 0
