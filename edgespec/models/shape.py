"""What of a model takes memory: its weights by layer, and the cache each layer keeps of the context."""

from __future__ import annotations

import re
from dataclasses import dataclass

from edgespec.models.header import GgufHeader
from edgespec.models.registry import Pair, Shape

_BLOCK = re.compile(r"^blk\.(\d+)\.")
_RECURRENT_ARCHITECTURES = frozenset(("mamba", "mamba2", "rwkv6", "rwkv7", "arwkv7"))

SLIDING_PATTERNS = {
    "gemma2": 2, "gemma3": 6, "gemma3n": 5, "gpt-oss": 2, "cohere2": 4, "exaone4": 4, "exaone-moe": 4, "olmo2": 4,
    "afmoe": 4, "llama4": 4, "plamo3": 8, "mellum": 4,
}  # fmt: skip
"""Architectures that see a window in all but every n-th layer, where the file does not say so itself."""


@dataclass(frozen=True, slots=True)
class LayerCache:
    """What one layer keeps per token: widths of key and value; `window` tokens of it, 0 for all. Width 0 keeps none."""

    key: int
    value: int
    window: int = 0


@dataclass(frozen=True, slots=True)
class MemoryShape:
    """A model as far as memory goes.

    Attributes:
        layer_weights: bytes of each layer.
        output_weights: bytes of the output head; part of no layer, of the embedding where the two are one.
        other_weights: bytes of everything else, which stays in main memory.
        caches: what each layer keeps.
        recurrent: bytes of state that does not grow with the context.
        vocab, embedding, feed_forward: sizes that decide the scratch memory.
        context_length: what the model was trained for; 0 if unknown.
        exact: read from a file's header, not from a table.
    """

    layer_weights: tuple[int, ...]
    output_weights: int
    other_weights: int
    caches: tuple[LayerCache, ...]
    recurrent: int
    vocab: int
    embedding: int
    feed_forward: int
    context_length: int
    exact: bool

    @property
    def weights(self) -> int:
        return sum(self.layer_weights) + self.other_weights

    @property
    def layers(self) -> int:
        return len(self.layer_weights)


def shape_of(header: GgufHeader, weights: int | None = None) -> MemoryShape:
    """From a file's header; `weights` is the size of all parts where the model is split."""
    layers = header.layers
    by_layer = [0] * layers
    output = 0
    other = 0
    for tensor in header.tensors:
        block = _BLOCK.match(tensor.name)
        if block is not None and int(block[1]) < layers:
            by_layer[int(block[1])] += tensor.size
        else:
            other += tensor.size
            if tensor.name == "output.weight" or (tensor.name == "token_embd.weight" and not output):
                output = tensor.size
    missing = max(0, (weights or 0) - sum(by_layer) - other)
    by_layer = [size + missing // max(1, layers) for size in by_layer]
    return MemoryShape(
        layer_weights=tuple(by_layer),
        output_weights=output,
        other_weights=other,
        caches=_caches(header, layers),
        recurrent=_recurrent(header, layers),
        vocab=len(header.vocabulary) if header.vocabulary else 0,
        embedding=header.embedding_length,
        feed_forward=header.number("feed_forward_length"),
        context_length=header.context_length,
        exact=True,
    )


def _caches(header: GgufHeader, layers: int) -> tuple[LayerCache, ...]:
    heads = header.numbers("attention.head_count", layers)
    kv_heads = header.numbers("attention.head_count_kv", layers, header.number("attention.head_count"))
    head_dim = header.embedding_length // max(1, max(heads, default=1))
    key, value = header.number("attention.key_length", head_dim), header.number("attention.value_length", head_dim)
    key_swa = header.number("attention.key_length_swa", key)
    value_swa = header.number("attention.value_length_swa", value)
    window = header.number("attention.sliding_window")
    slides = _sliding(header, layers) if window else (False,) * layers
    grows = _growing(header, layers)
    caches = []
    for i in range(layers):
        if not grows[i]:
            caches.append(LayerCache(0, 0))
        elif slides[i]:
            caches.append(LayerCache(kv_heads[i] * key_swa, kv_heads[i] * value_swa, window))
        else:
            caches.append(LayerCache(kv_heads[i] * key, kv_heads[i] * value))
    return tuple(caches)


def _sliding(header: GgufHeader, layers: int) -> tuple[bool, ...]:
    """Which layers see only a window: as the file lists them, else every layer but each n-th."""
    stored = header.metadata.get(f"{header.architecture}.attention.sliding_window_pattern")
    if isinstance(stored, tuple):
        return tuple(bool(flag) for flag in stored[:layers]) + (False,) * (layers - len(stored))
    every = stored if isinstance(stored, int) else SLIDING_PATTERNS.get(header.architecture, 1)
    return tuple(every == 0 or i % every < every - 1 for i in range(layers))


def _growing(header: GgufHeader, layers: int) -> tuple[bool, ...]:
    """Which layers keep a cache that grows with the context; the others are recurrent or share one."""
    if header.architecture in _RECURRENT_ARCHITECTURES:
        return (False,) * layers
    every = header.number("full_attention_interval")
    shared = header.number("attention.shared_kv_layers")
    return tuple((not every or i % every == every - 1) and i < layers - shared for i in range(layers))


def _recurrent(header: GgufHeader, layers: int) -> int:
    """Bytes of state in the layers that keep no cache (state-space models)."""
    inner, state = header.number("ssm.inner_size"), header.number("ssm.state_size")
    if not inner:
        return 0
    groups, conv = header.number("ssm.group_count"), header.number("ssm.conv_kernel")
    count = sum(not grows for grows in _growing(header, layers))
    return count * 4 * (max(0, conv - 1) * (inner + 2 * groups * state) + state * inner)


def shape_from_registry(shape: Shape, weights: int) -> MemoryShape:
    """An estimate from a registry entry, for files that are not here; weights are taken as spread evenly."""
    width = shape.kv_heads * shape.head_dim
    grows = shape.layers if shape.kv_layers is None else shape.kv_layers
    caches = []
    for i in range(shape.layers):
        slides = bool(shape.window) and not (shape.global_every and i % shape.global_every == shape.global_every - 1)
        caches.append(LayerCache(width, width, shape.window if slides else 0) if i < grows else LayerCache(0, 0))
    caches.extend(LayerCache(width, width) for _ in range(shape.mtp_layers))
    layers = len(caches)
    each = weights // (layers + 1) if layers else 0
    return MemoryShape((each,) * layers, 0, weights - each * layers, tuple(caches), 0, shape.vocab, 0, 0, 0, False)


def shapes_of_pair(pair: Pair) -> tuple[MemoryShape, MemoryShape | None] | None:
    """What a pair's entry says before any file is here; None where it says too little for an estimate."""
    target_size = pair.package.size if pair.package else pair.target.size if pair.target else None
    if pair.shape is None or not pair.shape.layers or target_size is None:
        return None
    target = shape_from_registry(pair.shape, target_size)
    if pair.draft is None:
        return target, None
    if pair.draft.size is None:
        return None
    return target, shape_from_registry(pair.draft_shape or Shape(), pair.draft.size)
