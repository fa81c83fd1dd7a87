"""Does it fit? Memory that a target and its draft model need, before a weight is loaded, and what to do if not.

The numbers follow llama.cpp: weights as large as the file; a cache per layer, padded to 256 tokens, of a window where
the layer sees a window; logits only for the rows a round needs; scratch memory for one batch. Weights count once: where
llama.cpp repacks them for the processor, the file's own pages stay in memory only as long as nothing else wants it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from edgespec.models.shape import LayerCache, MemoryShape
from edgespec.models.units import format_size

CACHE_TYPE_BYTES = {"f32": 4.0, "f16": 2.0, "bf16": 2.0, "q8_0": 34 / 32, "q5_1": 24 / 32, "q5_0": 22 / 32,
                    "q4_1": 20 / 32, "q4_0": 18 / 32}  # fmt: skip
FULL_WIDTH = ("f16", "bf16")
"""Cache types that q8_0 would halve."""
TARGET_ROWS = 33
"""Rows of logits a target reserves: the longest draft and one more."""
PROCESS = 66_000_000
"""The engine process without a model: Python, numpy, llama.cpp."""
VOCABULARY_BYTES_PER_TOKEN = 120
"""llama.cpp's tables for one token: texts, merges, hash maps."""
FITS_SHARE, TIGHT_SHARE = 0.60, 0.75
"""Shares of main memory: below the first it fits, up to the second it is tight."""
DEVICE_SHARE, DEVICE_RESERVE = 0.90, 500_000_000
"""Of a graphics card's free memory, less what the desktop may want."""


class Verdict(StrEnum):
    """Whether something fits."""

    FITS = "yes"
    TIGHT = "tight"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Setup:
    """How models are loaded. `gpu_layers` counts from the end, the output head last, as llama.cpp counts."""

    n_ctx: int = 4096
    draft_n_ctx: int | None = None
    n_batch: int = 512
    cache_type_k: str = "f16"
    cache_type_v: str = "f16"
    draft_cache_type: str | None = None
    gpu_layers: int = 0
    draft_gpu_layers: int = 0


@dataclass(frozen=True, slots=True)
class Needs:
    """Bytes one model takes."""

    weights: int
    cache: int
    logits: int
    scratch: int

    @property
    def total(self) -> int:
        return self.weights + self.cache + self.logits + self.scratch


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes everything takes: in all, and of that on a device."""

    target: Needs
    draft: Needs | None
    process: int
    device: int

    @property
    def total(self) -> int:
        return self.target.total + (self.draft.total if self.draft else 0) + self.process

    @property
    def main_memory(self) -> int:
        """What is left for main memory once the device has its share."""
        return self.total - self.device


@dataclass(frozen=True, slots=True)
class Machine:
    """Memory there is. `device_free` is None without a graphics device of its own memory."""

    memory: int
    device_free: int | None = None

    @property
    def budget(self) -> int:
        return int(FITS_SHARE * self.memory)

    @property
    def limit(self) -> int:
        return int(TIGHT_SHARE * self.memory)

    @property
    def device_budget(self) -> int:
        return int(DEVICE_SHARE * max(0, (self.device_free or 0) - DEVICE_RESERVE))


@dataclass(frozen=True, slots=True)
class Remedy:
    """One change and what it comes to, all earlier changes included."""

    sentence: str
    setup: Setup
    with_draft: bool
    estimate: Estimate


def cache_bytes(caches: tuple[LayerCache, ...], n_ctx: int, n_batch: int, type_k: str, type_v: str) -> int:
    """Bytes of the cache for `n_ctx` tokens of one sequence."""
    key, value = CACHE_TYPE_BYTES[type_k], CACHE_TYPE_BYTES[type_v]
    total = 0.0
    for layer in caches:
        cells = _padded(min(n_ctx, layer.window + n_batch) if layer.window else n_ctx)
        total += cells * (layer.key * key + layer.value * value)
    return int(total)


def _padded(cells: int) -> int:
    return -(-cells // 256) * 256


def needs(shape: MemoryShape, n_ctx: int, n_batch: int, type_k: str, type_v: str, rows: int) -> Needs:
    """Bytes of one model with one context."""
    scratch = 4 * n_batch * (6 * shape.embedding + 3 * shape.feed_forward) + 2 * n_batch * _padded(n_ctx)
    return Needs(
        weights=shape.weights + VOCABULARY_BYTES_PER_TOKEN * shape.vocab,
        cache=cache_bytes(shape.caches, n_ctx, n_batch, type_k, type_v) + shape.recurrent,
        logits=4 * rows * shape.vocab,
        scratch=scratch,
    )


def estimate(target: MemoryShape, draft: MemoryShape | None, setup: Setup) -> Estimate:
    """Bytes that loading this way takes."""
    target_needs = needs(target, setup.n_ctx, setup.n_batch, setup.cache_type_k, setup.cache_type_v, TARGET_ROWS)
    device = _on_device(target, target_needs, setup.gpu_layers)
    draft_needs = None
    if draft is not None:
        n_ctx = min(setup.draft_n_ctx or setup.n_ctx, draft.context_length or setup.n_ctx)
        kind_k, kind_v = (setup.draft_cache_type or kind for kind in (setup.cache_type_k, setup.cache_type_v))
        draft_needs = needs(draft, n_ctx, setup.n_batch, kind_k, kind_v, 1)
        device += _on_device(draft, draft_needs, setup.draft_gpu_layers)
    return Estimate(target_needs, draft_needs, PROCESS, device)


def _on_device(shape: MemoryShape, found: Needs, gpu_layers: int) -> int:
    """Bytes on the device: the last layers, their caches, and scratch memory once anything is there."""
    if gpu_layers == 0:
        return 0
    wanted = shape.layers + 1 if gpu_layers < 0 else gpu_layers
    moved = min(wanted, shape.layers)
    weights = sum(shape.layer_weights[shape.layers - moved :])
    if wanted > shape.layers:
        weights += shape.output_weights or shape.other_weights // 2
    cache = found.cache * moved // max(1, shape.layers)
    return weights + cache + found.scratch + found.logits


def verdict(found: Estimate, machine: Machine) -> Verdict:
    """Whether an estimate fits main memory, and the device if one is used."""
    if found.device > machine.device_budget:
        return Verdict.NO
    if found.main_memory <= machine.budget:
        return Verdict.FITS
    return Verdict.TIGHT if found.main_memory <= machine.limit else Verdict.NO


def remedies(target: MemoryShape, draft: MemoryShape | None, setup: Setup, machine: Machine) -> list[Remedy]:
    """What to change, in the order that costs least, until it fits; empty if it fits as it is.

    Each step keeps the earlier ones. The last one may still not fit: then nothing does on this machine.
    """
    found: list[Remedy] = []
    if verdict(estimate(target, draft, setup), machine) is not Verdict.NO:
        return found
    for sentence, changed, with_draft in _steps(target, draft, setup, machine):
        now = estimate(target, draft if with_draft else None, changed)
        found.append(Remedy(f"{sentence}: {format_size(now.total)}", changed, with_draft, now))
        if verdict(now, machine) is not Verdict.NO:
            break
    return found


def _steps(
    target: MemoryShape, draft: MemoryShape | None, setup: Setup, machine: Machine
) -> Iterator[tuple[str, Setup, bool]]:
    if draft is not None:
        short = max(1024, setup.n_ctx // 4)
        if short < (setup.draft_n_ctx or setup.n_ctx):
            setup = replace(setup, draft_n_ctx=short)
            yield f"A context of {short:,} tokens for the draft model (`--draft-ctx {short}`)", setup, True
        if (setup.draft_cache_type or setup.cache_type_k) in FULL_WIDTH:
            setup = replace(setup, draft_cache_type="q8_0")
            yield "A q8_0 cache for the draft model (`--draft-cache-type q8_0`)", setup, True
        if setup.draft_gpu_layers:
            setup = replace(setup, draft_gpu_layers=0)
            yield "The draft model on the CPU (`--draft-gpu-layers 0`)", setup, True
    if setup.gpu_layers:
        fewer = most_layers(target, draft, setup, machine)
        setup = replace(setup, gpu_layers=fewer)
        yield f"{fewer} of {target.layers} layers on the device (`--gpu-layers {fewer}`)", setup, draft is not None
    if draft is not None:
        yield "No draft model (`--mode lookup`)", setup, False
    for n_ctx in (4096, 2048):
        if n_ctx < setup.n_ctx:
            setup = replace(setup, n_ctx=n_ctx)
            yield f"A context of {n_ctx:,} tokens (`--ctx {n_ctx}`)", setup, False
    if setup.cache_type_k in FULL_WIDTH:
        setup = replace(setup, cache_type_k="q8_0", cache_type_v="q8_0")
        yield "A q8_0 cache (`--cache-type-k q8_0 --cache-type-v q8_0`)", setup, False


def most_layers(target: MemoryShape, draft: MemoryShape | None, setup: Setup, machine: Machine) -> int:
    """The most target layers, the output head counted as one more, that fit the device; 0 if none do."""
    for layers in range(target.layers + 1, 0, -1):
        if estimate(target, draft, replace(setup, gpu_layers=layers)).device <= machine.device_budget:
            return layers
    return 0


@dataclass(frozen=True, slots=True)
class Placement:
    """What `--gpu-layers auto` decided, and what was changed for it."""

    setup: Setup
    changes: tuple[str, ...]


def place(
    target: MemoryShape, draft: MemoryShape | None, setup: Setup, machine: Machine, *, draft_layers: int | None = None
) -> Placement:
    """`--gpu-layers auto`: all on the device if that fits, else the remedies in order; without a device the CPU.

    Only remedies that take nothing away from the target are applied, and none that undoes what `setup` or
    `draft_layers` asks for the draft model. What is left may still not fit.
    """
    if machine.device_free is None:
        return Placement(replace(setup, gpu_layers=0, draft_gpu_layers=0), ())
    wanted = replace(setup, gpu_layers=target.layers + 1, draft_gpu_layers=0)
    if draft is not None:
        wanted = replace(wanted, draft_gpu_layers=draft.layers + 1 if draft_layers is None else draft_layers)
    changes: tuple[str, ...] = ()
    best = wanted
    for step in remedies(target, draft, wanted, machine):
        kept = (step.with_draft, step.setup.n_ctx, step.setup.cache_type_k)
        if kept != (draft is not None, wanted.n_ctx, wanted.cache_type_k):
            break
        tried = replace(
            step.setup,
            draft_n_ctx=setup.draft_n_ctx or step.setup.draft_n_ctx,
            draft_cache_type=setup.draft_cache_type or step.setup.draft_cache_type,
            draft_gpu_layers=step.setup.draft_gpu_layers if draft_layers is None else draft_layers,
        )
        if tried.gpu_layers != wanted.gpu_layers:
            tried = replace(tried, gpu_layers=most_layers(target, draft, tried, machine))
        if tried != best:
            best, changes = tried, (*changes, step.sentence)
    if estimate(target, draft, best).device > machine.device_budget:
        best = replace(best, gpu_layers=most_layers(target, draft, best, machine))
    return Placement(best, changes)
