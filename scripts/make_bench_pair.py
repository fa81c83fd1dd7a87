"""Widen a small GGUF into a costly target that computes the same function: the small model is a true draft for it.

Benchmarks need a target that is much slower than its draft and mostly agrees with it, on any machine and without a
download. From any GGUF of architecture `llama` this makes one, `factor` times as wide and about `factor`^2 as costly:

    residual stream   the small model's, `factor` times side by side; RMS norms see the same mean square as before
    heads, FFN units  `factor` copies of the small model's, all computed from the stream
    what they read    the small model's weights on the first part of the stream; on the other parts, what rounding to
                      the target's type lost, rounded once more
    what they write   likewise: the originals write the vector, the copies add what rounding lost
    extra layers      copies of the small model's layers that write nothing back

So the target is close to its source although its weights have four bits: in Q4_0 (the default, a type that llama.cpp
repacks on CPUs) as well as with `--type keep`, where every block of weights is the small model's, bit for bit, and
the rest is zero. `--noise X` lets the copies write random vectors too, about X as large as what is written anyway
(0.1 is a tenth); the draws do not depend on X, so that more noise means less agreement. With the demo model, 0.05,
0.1 and 0.2 make the small model guess about 0.9, 0.8 and 0.6 of the tokens.
"""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import click
import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
"""A matrix as it lies in the file, shape (rows, bytes a row)."""

Matrix = NDArray[np.float32]

TERMS = 3
"""Most parts that one matrix is split into: three times four bits are more than activations are rounded to."""
TYPES = {"q4_0": Type.Q4_0, "q8_0": Type.Q8_0, "f16": Type.F16, "f32": Type.F32, "keep": None}
FILE_TYPES = {Type.F32: 0, Type.F16: 1, Type.Q4_0: 2, Type.Q8_0: 7}


class Unsuitable(Exception):
    """The source cannot be widened; the message says why."""


class Role(StrEnum):
    """What a tensor does to the residual stream, which decides how it grows."""

    EMBED = "embed"
    """One row a token: writes or reads every part of the stream."""
    NORM = "norm"
    """Scales the stream."""
    READ = "read"
    """From the stream to heads or FFN units."""
    WRITE = "write"
    """From heads or FFN units to the stream."""
    SHARED = "shared"
    """Per rotary dimension, the same for every head."""


ROLES = {
    "token_embd.weight": Role.EMBED,
    "output.weight": Role.EMBED,
    "output_norm.weight": Role.NORM,
    "rope_freqs.weight": Role.SHARED,
    "rope_factors_long.weight": Role.SHARED,
    "rope_factors_short.weight": Role.SHARED,
    "attn_norm.weight": Role.NORM,
    "ffn_norm.weight": Role.NORM,
    "attn_q.weight": Role.READ,
    "attn_k.weight": Role.READ,
    "attn_v.weight": Role.READ,
    "attn_q.bias": Role.READ,
    "attn_k.bias": Role.READ,
    "attn_v.bias": Role.READ,
    "ffn_gate.weight": Role.READ,
    "ffn_up.weight": Role.READ,
    "ffn_gate.bias": Role.READ,
    "ffn_up.bias": Role.READ,
    "attn_output.weight": Role.WRITE,
    "ffn_down.weight": Role.WRITE,
    "attn_output.bias": Role.WRITE,
    "ffn_down.bias": Role.WRITE,
}


@dataclass(frozen=True, slots=True)
class Options:
    """How the target differs from its source."""

    factor: int = 3
    extra_layers: int = 0
    noise: float = 0.0
    seed: int = 0
    type: Type | None = Type.Q4_0


@dataclass(frozen=True, slots=True)
class Plan:
    """One tensor of the target: where it comes from, and its size."""

    name: str
    source: gguf.ReaderTensor
    role: Role
    silent: bool
    type: Type
    shape: tuple[int, ...]

    @property
    def row_bytes(self) -> int:
        block, size = gguf.GGML_QUANT_SIZES[self.type]
        return self.shape[-1] // block * size

    @property
    def n_bytes(self) -> int:
        return math.prod(self.shape[:-1]) * self.row_bytes


def widen(source: str | Path, target: str | Path, options: Options) -> Path:
    """Write the widened model, one tensor at a time; nothing is left behind under `target` if it fails."""
    source, target = Path(source), Path(target)
    reader = gguf.GGUFReader(source)
    refuse_unsuitable(reader)
    plans = list(plan(reader, options))
    partial = target.with_name(target.name + ".part")
    writer = gguf.GGUFWriter(partial, "llama")
    copy_metadata(reader, writer, options)
    for item in plans:
        writer.add_tensor_info(item.name, item.shape, np.dtype(np.float32), item.n_bytes, item.type)
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for item in plans:
            writer.write_tensor_data(build(item, options))
        writer.close()
        partial.replace(target)
    finally:
        writer.close()
        partial.unlink(missing_ok=True)
    return target


def refuse_unsuitable(reader: gguf.GGUFReader) -> None:
    """Raise Unsuitable for anything but a whole, dense `llama`."""
    arch = value(reader, "general.architecture")
    if arch != "llama":
        raise Unsuitable(f"its architecture is {arch!r}; only 'llama' can be widened")
    if value(reader, "split.count", 1) > 1:
        raise Unsuitable("it is one part of a split model; merge the parts first (llama-gguf-split --merge)")
    if not reader.tensors:
        raise Unsuitable("it holds a vocabulary only, no weights")
    for tensor in reader.tensors:
        if suffix(tensor.name) not in ROLES:
            raise Unsuitable(f"this script does not know how tensor {tensor.name!r} grows")


def value(reader: gguf.GGUFReader, key: str, default: Any = None) -> Any:
    field = reader.fields.get(key)
    return default if field is None else field.contents()


def suffix(name: str) -> str:
    """A tensor's name without its layer: `blk.3.attn_q.weight` is `attn_q.weight`."""
    return name.split(".", 2)[2] if name.startswith("blk.") else name


def plan(reader: gguf.GGUFReader, options: Options) -> Iterator[Plan]:
    """The target's tensors, in the source's order, extra layers last."""
    for tensor in reader.tensors:
        yield plan_one(tensor.name, tensor, options, silent=False)
    layers = value(reader, "llama.block_count")
    for i in range(options.extra_layers):
        prefix = f"blk.{i % layers}."
        for tensor in reader.tensors:
            if tensor.name.startswith(prefix):
                yield plan_one(f"blk.{layers + i}.{suffix(tensor.name)}", tensor, options, silent=True)


def plan_one(name: str, tensor: gguf.ReaderTensor, options: Options, *, silent: bool) -> Plan:
    role = ROLES[suffix(name)]
    k = options.factor
    *rows, columns = (int(n) for n in reversed(tensor.shape))
    if role is Role.SHARED:
        shape: tuple[int, ...] = (*rows, columns)
    elif not rows:
        shape = (k * columns,)
    else:
        shape = (rows[0] if role is Role.EMBED else k * rows[0], k * columns)
    return Plan(name, tensor, role, silent, target_type(tensor, role, options), shape)


def target_type(tensor: gguf.ReaderTensor, role: Role, options: Options) -> Type:
    """Vectors stay as they are; embeddings are never squeezed below 8 bits, as in published Q4_0 files."""
    own = Type(tensor.tensor_type)
    wanted = options.type
    if len(tensor.shape) < 2 or wanted is None:
        return own
    if role is Role.EMBED and wanted is Type.Q4_0:
        return own if gguf.GGML_QUANT_SIZES[own][0] > 1 else Type.Q8_0
    block = gguf.GGML_QUANT_SIZES[wanted][0]
    if tensor.shape[0] % block:
        raise Unsuitable(f"rows of {tensor.name!r} have {tensor.shape[0]} values, not a multiple of {block}; try f16")
    return wanted


def build(item: Plan, options: Options) -> NDArray[Any]:
    """The bytes of one tensor of the target."""
    k = options.factor
    if item.role is Role.SHARED:
        return np.ascontiguousarray(item.source.data)
    if len(item.shape) == 1:
        return build_vector(item, k)
    parts = terms(item, options)
    small = np.hstack([*parts, np.zeros((len(parts[0]), (k - len(parts)) * parts[0].shape[1]), dtype=np.uint8)])
    return small if item.role is Role.EMBED else np.tile(small, (k, 1))


def build_vector(item: Plan, k: int) -> NDArray[Any]:
    """Norm weights and biases, once for every part; the output norm makes up for embeddings that add up."""
    small = np.asarray(gguf.dequantize(item.source.data, item.source.tensor_type), dtype=np.float32)
    if item.name == "output_norm.weight":
        small = small / np.float32(k)
    if item.silent and item.role is Role.WRITE:
        small = np.zeros_like(small)
    return gguf.quantize(np.tile(small, k), item.type)


def terms(item: Plan, options: Options) -> list[Bytes]:
    """What a matrix holds for each part of its input, as far as it is not zero.

    The first term is the source rounded to the target's type, every further one what the terms before it miss.
    """
    source, k = item.source, options.factor
    if item.silent and item.role is Role.WRITE:
        return [np.zeros((int(source.shape[1]), item.row_bytes // k), dtype=np.uint8)]
    noisy = item.role is Role.WRITE and options.noise > 0
    own_type = item.type == source.tensor_type
    if own_type and not noisy:
        return [as_bytes(source.data)] * (k if item.role is Role.EMBED else 1)
    weights = np.asarray(gguf.dequantize(source.data, source.tensor_type), dtype=np.float32)
    parts = [as_bytes(source.data) if own_type else as_bytes(gguf.quantize(weights, item.type))]
    if item.role is Role.EMBED:
        return parts * k
    missing = weights - gguf.dequantize(parts[0], item.type)
    if noisy:
        missing += noise(item, weights, options)
    while len(parts) < min(k, TERMS):
        parts.append(rounded(missing, item.type))
        missing = missing - gguf.dequantize(parts[-1], item.type)  # not in place: float parts are views of it
    return parts


def noise(item: Plan, weights: Matrix, options: Options) -> Matrix:
    """Random weights, `noise` times as large as the matrix's own."""
    generator = np.random.default_rng([options.seed, zlib.crc32(item.name.encode())])
    size = options.noise * float(np.sqrt(np.mean(weights**2)))
    return generator.standard_normal(weights.shape, dtype=np.float32) * np.float32(size)


def rounded(weights: Matrix, wanted: Type) -> Bytes:
    try:
        return as_bytes(gguf.quantize(weights, wanted))
    except NotImplementedError as error:
        raise Unsuitable(f"noise cannot be written as {wanted.name}; choose --type q4_0 or q8_0") from error


def as_bytes(matrix: NDArray[Any]) -> Bytes:
    return np.ascontiguousarray(matrix).view(np.uint8)


def copy_metadata(reader: gguf.GGUFReader, writer: gguf.GGUFWriter, options: Options) -> None:
    """Everything the source says, tokenizer included, with the shape corrected."""
    k, extra = options.factor, options.extra_layers
    changes: dict[str, Any] = {
        f"llama.{key}": grown(value(reader, f"llama.{key}"), k, extra)
        for key in ("embedding_length", "feed_forward_length", "attention.head_count", "attention.head_count_kv")
        if f"llama.{key}" in reader.fields
    }
    changes["llama.block_count"] = value(reader, "llama.block_count") + extra
    changes["general.name"] = f"{value(reader, 'general.name', 'model')} widened x{k}"
    if options.type is not None:
        changes["general.file_type"] = FILE_TYPES[options.type]
    skipped = {"general.architecture", "general.size_label"}
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key in skipped:
            continue
        content = changes.pop(key) if key in changes else field.contents()
        if field.types[0] is gguf.GGUFValueType.ARRAY and not content:
            continue
        writer.add_key_value(key, content, field.types[0], field.types[-1] if len(field.types) > 1 else None)
    if "general.name" in changes:
        writer.add_name(changes["general.name"])
    writer.data_alignment = reader.alignment


def grown(size: int | Sequence[int], k: int, extra: int) -> int | list[int]:
    """A size, or one a layer, times k; extra layers repeat the first ones."""
    if isinstance(size, int):
        return k * size
    return [k * size[i % len(size)] for i in range(len(size) + extra)]


@click.command(help=__doc__, context_settings={"show_default": True})
@click.argument("source", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--factor", type=click.IntRange(1), default=3, help="How many times as wide.")
@click.option("--extra-layers", type=click.IntRange(0), default=0, help="Layers that write nothing back.")
@click.option("--noise", type=click.FloatRange(0), default=0.0, help="Share of noise in what every layer writes.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Of the noise.")
@click.option("--type", "type_", type=click.Choice(list(TYPES)), default="q4_0", help="Of the target's matrices.")
def main(source: Path, target: Path, factor: int, extra_layers: int, noise: float, seed: int, type_: str) -> None:
    if target.exists() and target.samefile(source):
        raise click.BadParameter("would overwrite the source", param_hint="TARGET")
    if noise and factor == 1:
        raise click.BadParameter("needs the copies that a factor of 2 or more brings", param_hint="--noise")
    start = time.perf_counter()
    try:
        widen(source, target, Options(factor, extra_layers, noise, seed, TYPES[type_]))
    except Unsuitable as reason:
        raise click.ClickException(f"{source} cannot be widened: {reason}") from reason
    seconds = time.perf_counter() - start
    click.echo(f"{target}: {target.stat().st_size / 1e6:.0f} MB in {seconds:.1f} s; draft model: {source}")


if __name__ == "__main__":
    main()
