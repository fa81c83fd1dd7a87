"""Where models can run: the devices llama.cpp found, and their memory."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from edgespec.llama.library import library

_KINDS = ("cpu", "gpu", "integrated gpu", "accelerator", "other")


@dataclass(frozen=True, slots=True)
class Device:
    """One device as llama.cpp sees it.

    Attributes:
        name: short name, such as CUDA0 or CPU.
        description: what the maker calls it.
        backend: the part of llama.cpp that drives it.
        kind: cpu, gpu, integrated gpu, accelerator or other.
        free_bytes, total_bytes: its memory, 0 where unknown.
    """

    name: str
    description: str
    backend: str
    kind: str
    free_bytes: int
    total_bytes: int


def devices() -> list[Device]:
    """Every device, in llama.cpp's order."""
    lib = library()
    return [_device(lib.ggml_backend_dev_get(index)) for index in range(lib.ggml_backend_dev_count())]


def supports_gpu_offload() -> bool:
    """Was the library built with a backend that layers can be moved to, and is such a device here?"""
    return library().supports_gpu_offload


def _device(handle: int) -> Device:
    lib = library()
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    lib.ggml_backend_dev_memory(handle, ctypes.byref(free), ctypes.byref(total))
    return Device(
        name=_text(lib.ggml_backend_dev_name(handle)),
        description=_text(lib.ggml_backend_dev_description(handle)),
        backend=_text(lib.ggml_backend_reg_name(lib.ggml_backend_dev_backend_reg(handle))),
        kind=_KINDS[min(lib.ggml_backend_dev_type(handle), len(_KINDS) - 1)],
        free_bytes=free.value,
        total_bytes=total.value,
    )


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace").strip()
