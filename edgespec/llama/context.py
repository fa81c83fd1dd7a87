"""Opening a llama.cpp context: options checked in Python, failures turned into sentences."""

from __future__ import annotations

import os
from dataclasses import dataclass

import psutil

from edgespec.errors import ModelLoadError, SettingsError
from edgespec.llama.library import Library
from edgespec.llama.model import LlamaModel

_CACHE_TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "bf16": 30}
_BITS = {"f32": 32, "f16": 16, "bf16": 16, "q8_0": 8, "q5_0": 5, "q5_1": 5, "q4_0": 4, "q4_1": 4}
_FULL_WIDTH = ("f32", "f16", "bf16")
_FLASH = {"auto": -1, "off": 0, "on": 1}
_CACHE_STEP = 256
_LARGEST_CONTEXT = 2**31 - _CACHE_STEP  # positions are 32-bit numbers
DEFAULT_SNAPSHOTS = 8
"""States kept for recurrent models that can go back: enough for useful drafts, each costs a whole state of memory."""


@dataclass(frozen=True, slots=True)
class ContextOptions:
    """What a context is made with; see LlamaSession for the meanings. Raises SettingsError."""

    n_ctx: int
    n_batch: int
    n_ubatch: int
    max_draft: int
    threads: int
    type_k: str
    type_v: str
    flash_attention: str
    n_rs_seq: int | None

    def __post_init__(self) -> None:
        for name, value, least in (
            ("context length", self.n_ctx, 1),
            ("batch size", min(self.n_batch, self.n_ubatch), 1),
            ("draft length", self.max_draft, 0),
            ("number of threads", self.threads, 0),
            ("number of snapshots", self.n_rs_seq or 0, 0),
        ):
            if value < least:
                raise SettingsError(f"The {name} must be at least {least}, got {value}.")
        if self.n_ctx > _LARGEST_CONTEXT:
            raise SettingsError(f"A context of {self.n_ctx:,} tokens is more than llama.cpp can count.")
        for name in (self.type_k, self.type_v):
            if name not in _CACHE_TYPES:
                raise SettingsError(f"Unknown cache type {name!r}.", f"Use one of {', '.join(_CACHE_TYPES)}.")
        if self.flash_attention not in _FLASH:
            raise SettingsError(f"Unknown flash attention setting {self.flash_attention!r}.", "Use auto, on or off.")
        if self.type_v not in _FULL_WIDTH and self.flash_attention == "off":
            raise SettingsError(
                f"A {self.type_v} cache for V needs flash attention, which is switched off.",
                "Set flash attention to auto or on, or the V cache type to f16.",
            )

    @property
    def max_rows(self) -> int:
        """Rows of logits a pass may ask for."""
        return min(1 + self.max_draft, self.n_ctx)

    @property
    def chunk(self) -> int:
        """Most tokens of one prefill pass, as the user limits it."""
        return min(self.n_batch, self.n_ubatch, self.n_ctx)

    @property
    def cells(self) -> int:
        """Size of the cache: llama.cpp rounds up to this anyway, but limits passes before it does."""
        return -(-self.n_ctx // _CACHE_STEP) * _CACHE_STEP

    @property
    def snapshots(self) -> int:
        """States of a recurrent model to keep: never more than a rejected draft needs."""
        wanted = DEFAULT_SNAPSHOTS if self.n_rs_seq is None else self.n_rs_seq
        return min(wanted, self.max_rows - 1, self.cells - 2)

    @property
    def llama_batch(self) -> int:
        """Most tokens of any pass: a chunk, or a whole draft although the user's batch size is smaller.

        llama.cpp aborts unless a pass has room for more than the tokens whose states it keeps.
        """
        return max(self.chunk, self.max_rows, self.snapshots + 2)

    @property
    def n_threads(self) -> int:
        return self.threads or physical_cores()


def open_context(lib: Library, model: LlamaModel, options: ContextOptions) -> int:
    """A new context. Raises ModelLoadError with what the log says."""
    if model.closed or model.vocab_only:
        raise ModelLoadError(f"The weights of {model.path.name} are not loaded.", "Load the model again.")
    _check_memory(lib, model, options)
    params = lib.llama_context_default_params()
    params.n_ctx = options.cells
    params.n_batch = params.n_ubatch = options.llama_batch
    params.n_seq_max = 1
    params.n_outputs_max = options.max_rows  # the default reserves n_batch rows of logits
    params.n_threads = params.n_threads_batch = options.n_threads  # passes of more than one token use the second
    params.type_k, params.type_v = _CACHE_TYPES[options.type_k], _CACHE_TYPES[options.type_v]
    params.flash_attn_type = _FLASH[options.flash_attention]
    params.swa_full = False
    params.no_perf = True
    if model.is_recurrent or model.is_hybrid:
        params.n_rs_seq = options.snapshots
    lib.log.take_errors()  # of earlier calls
    handle = lib.llama_init_from_model(model.handle, params)
    if not handle:
        reason = lib.explain("it does not say why")
        raise ModelLoadError(
            f"llama.cpp cannot make a context of {options.n_ctx:,} tokens for {model.path.name}: {reason}.",
            "Choose a smaller context (--ctx), or the f16 cache types.",
        )
    return int(handle)


def _check_memory(lib: Library, model: LlamaModel, options: ContextOptions) -> None:
    """Refuse a cache that cannot fit into this machine's memory by any reckoning.

    Where the system promises more memory than it has, llama.cpp would get its buffer and then be killed filling it.
    Layers with a sliding window or a recurrent state keep less; one layer in eight is taken to keep everything.
    """
    arch, handle = model.architecture, model.handle
    heads = max(1, lib.llama_model_n_head_kv(handle))  # 0 if the first layer has no attention
    width = lib.llama_model_n_embd(handle)
    per_head = width // max(1, lib.llama_model_n_head(handle))
    key = int(model.meta(f"{arch}.attention.key_length") or per_head)
    value = int(model.meta(f"{arch}.attention.value_length") or per_head)
    layers = lib.llama_model_n_layer(handle)
    if model.n_swa or model.is_hybrid:
        layers = -(-layers // 8)
    sizes = _BITS[options.type_k] * key + _BITS[options.type_v] * value
    needed = 0 if model.is_recurrent else options.cells * layers * heads * sizes // 8
    total = psutil.virtual_memory().total
    if needed > total and not model.gpu_layers:
        raise ModelLoadError(
            f"A context of {options.n_ctx:,} tokens needs at least {needed / 2**30:,.1f} GiB of memory; "
            f"this machine has {total / 2**30:,.1f} GiB.",
            "Choose a smaller context (--ctx), or a q8_0 cache.",
        )


def physical_cores() -> int:
    """Cores that this process may use, hyper-threads not counted: more threads slow a memory-bound model down."""
    cores = psutil.cpu_count(logical=False) or os.cpu_count() or 1
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores
    return max(1, min(cores, allowed))
