"""Where the models of a Load go: asked in the engine process, which is the one that sees the devices."""

from __future__ import annotations

from dataclasses import replace

from edgespec.engine.messages import LoadOptions
from edgespec.hardware import memory_bytes
from edgespec.llama.devices import devices, supports_gpu_offload
from edgespec.models.fit import Machine
from edgespec.models.shape import shape_of
from edgespec.models.shards import CheckedModel
from edgespec.placement import Placement, place
from edgespec.types import ALL_LAYERS, AUTO_LAYERS


def decide_placement(options: LoadOptions, target: CheckedModel, draft: CheckedModel | None) -> Placement:
    """How many layers go on a device, and what fits badly. Raises ModelLoadError if it cannot fit at all."""
    found = devices() if supports_gpu_offload() else []
    memory = memory_bytes()[0]
    free = sum(device.free_bytes for device in found if device.kind == "gpu")
    if not free and options.gpu_layers == AUTO_LAYERS and any(device.kind == "integrated gpu" for device in found):
        options = replace(options, gpu_layers=ALL_LAYERS)  # its memory is main memory
    small = None if draft is None else shape_of(draft.header, draft.weight_bytes)
    return place(options, shape_of(target.header, target.weight_bytes), small, Machine(memory, free or None))
