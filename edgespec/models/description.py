"""A model file in the words of its header: what it is, what it brings, and what it needs."""

from __future__ import annotations

from typing import Any

from edgespec.models.fit import Setup, estimate
from edgespec.models.gguf import CheckedModel
from edgespec.models.shape import shape_of
from edgespec.models.units import format_size, printable


def describe(found: CheckedModel, n_ctx: int) -> dict[str, Any]:
    """Everything the header tells that a person might ask."""
    header = found.header
    vocabulary = header.vocabulary
    needs = estimate(shape_of(header, found.weight_bytes), None, Setup(n_ctx=n_ctx))
    return {
        "path": str(found.path), "parts": len(found.parts), "size": found.size, "name": header.name,
        "architecture": header.architecture, "parameters": header.parameters, "quantisation": header.quantisation,
        "bytes_by_type": header.bytes_by_type, "layers": header.layers, "context_length": header.context_length,
        "sliding_window": header.number("attention.sliding_window") or None, "head": header.head,
        "vocabulary": vocabulary.kind if vocabulary else None, "tokens": len(vocabulary) if vocabulary else 0,
        "bos": vocabulary.bos if vocabulary else None, "eos": vocabulary.eos if vocabulary else None,
        "adds_bos": vocabulary.add_bos if vocabulary else None, "adds_eos": vocabulary.add_eos if vocabulary else None,
        "chat_template": header.chat_template is not None, "licence": header.text("general.license") or None,
        "memory_context": n_ctx, "memory_needed": needs.total,
    }  # fmt: skip


def in_words(description: dict[str, Any]) -> list[tuple[str, str]]:
    """A description as names and values that people read."""
    return [(key.replace("_", " "), _shown(key, value)) for key, value in description.items()]


def _shown(key: str, value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(key, item)}" for name, item in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and key in ("size", "memory_needed", "bytes_by_type"):
        return format_size(value)
    if isinstance(value, int):
        return f"{value:,}"
    return printable(value)
