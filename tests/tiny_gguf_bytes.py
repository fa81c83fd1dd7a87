"""GGUF files of a few kilobytes as bytes, made by hand: nothing here is loadable, everything is well-formed."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

ALIGNMENT = 32
F32, Q4_0 = 0, 2


def string(text: str | bytes) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data)) + data


def value(item: object) -> bytes:
    """A typed metadata value: bool, int (u32), float, str, or a list of one of them."""
    if isinstance(item, bool):
        return struct.pack("<IB", 7, item)
    if isinstance(item, int):
        return struct.pack("<II", 4, item)
    if isinstance(item, float):
        return struct.pack("<If", 6, item)
    if isinstance(item, str):
        return struct.pack("<I", 8) + string(item)
    if isinstance(item, list | tuple):
        if item and isinstance(item[0], str | bytes):
            return struct.pack("<IIQ", 9, 8, len(item)) + b"".join(string(element) for element in item)
        return struct.pack("<IIQ", 9, 5, len(item)) + struct.pack(f"<{len(item)}i", *item)
    raise TypeError(item)


def metadata_bytes(metadata: dict[str, object]) -> bytes:
    return b"".join(string(key) + value(item) for key, item in metadata.items())


def padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % ALIGNMENT)


@dataclass
class TinyGguf:
    """What goes into the file: metadata, and F32 tensors by name and length."""

    metadata: dict[str, object] = field(default_factory=dict)
    tensors: dict[str, int] = field(default_factory=lambda: {"a.weight": 64, "b.weight": 100})
    fill: int = 1

    def header(self, version: int = 3) -> bytes:
        infos, offset = b"", 0
        for name, length in self.tensors.items():
            infos += string(name) + struct.pack("<IQIQ", 1, length, F32, offset)
            offset += -(-4 * length // ALIGNMENT) * ALIGNMENT
        counts = struct.pack("<IQQ", version, len(self.tensors), len(self.metadata))
        return padded(b"GGUF" + counts + metadata_bytes(self.metadata) + infos)

    def data(self) -> bytes:
        lengths = list(self.tensors.values())
        parts = [bytes([self.fill]) * (4 * length) for length in lengths]
        return b"".join(padded(part) for part in parts[:-1]) + (parts[-1] if parts else b"")

    def bytes(self) -> bytes:
        return self.header() + self.data()


def model(
    tokens: Sequence[str | bytes] = tuple(f"t{i}" for i in range(40)),
    *,
    kind: str = "gpt2",
    architecture: str = "llama",
    size: int = 2000,
    fill: int = 1,
    **more: object,
) -> TinyGguf:
    """A file that passes for a small model: vocabulary, shape and `size` numbers of weights."""
    metadata: dict[str, object] = {
        "general.architecture": architecture,
        "general.name": "Tiny",
        f"{architecture}.block_count": 2,
        f"{architecture}.context_length": 256,
        f"{architecture}.embedding_length": 32,
        f"{architecture}.attention.head_count": 4,
        f"{architecture}.attention.head_count_kv": 2,
        "tokenizer.ggml.model": kind,
        "tokenizer.ggml.tokens": list(tokens),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }
    metadata.update({key.replace("__", "."): item for key, item in more.items()})
    return TinyGguf(metadata, {"token_embd.weight": size}, fill)


def split(whole: TinyGguf, parts: int) -> list[bytes]:
    """The files of a split model: tensors dealt out in order, all metadata in the first."""
    names = list(whole.tensors)
    per_part = -(-len(names) // parts)
    files = []
    for number in range(parts):
        chosen = names[number * per_part : (number + 1) * per_part]
        keys: dict[str, object] = dict(whole.metadata) if number == 0 else {}
        keys |= {"split.no": number, "split.count": parts, "split.tensors.count": len(names)}
        files.append(TinyGguf(keys, {name: whole.tensors[name] for name in chosen}, whole.fill).bytes())
    return files
