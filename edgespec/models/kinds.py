"""GGUFs that are whole and well-formed, and still no language model: heads, projectors, adapters, bare vocabularies."""

from __future__ import annotations

from edgespec.errors import ModelFileError
from edgespec.models.header import GgufHeader
from edgespec.models.units import printable

_GET_MODEL = "Name the language model itself; `edgespec models` lists what is here."


def require_language_model(header: GgufHeader) -> None:
    """Raises ModelFileError saying what the file is instead."""
    what = other_kind(header)
    if what is not None:
        raise ModelFileError(f"{printable(header.path.name)} is {what}, not a language model.", _GET_MODEL)


def other_kind(header: GgufHeader) -> str | None:
    """What the file is if it is no language model, None if it may be one."""
    kind = header.text("general.type")
    if header.architecture == "clip" or kind == "mmproj":
        return "a projector for images or sound (mmproj)"
    if kind == "adapter":
        return "an adapter (LoRA) for a model"
    if kind == "imatrix" or header.architecture == "imatrix":
        return "an importance matrix for quantising"
    if header.is_head_only:
        return f"a drafting head ({header.head}) for another model"
    if header.architecture and not header.tensors and header.split[1] == 1:
        return "a vocabulary without weights"
    return None
