"""Where the models of a Load go, and what devices hold: asked in the engine process, the one that sees them."""

from __future__ import annotations

from edgespec.engine.messages import DeviceMemory, LoadOptions
from edgespec.hardware import memory_bytes
from edgespec.llama.devices import devices, supports_gpu_offload
from edgespec.models.shape import shape_of
from edgespec.models.shards import CheckedModel
from edgespec.placement import Placement, place_on


def decide_placement(options: LoadOptions, target: CheckedModel, draft: CheckedModel | None) -> Placement:
    """How many layers go on a device, and what fits badly. Raises ModelLoadError if it cannot fit at all."""
    small = None if draft is None else shape_of(draft.header, draft.weight_bytes)
    found = devices() if supports_gpu_offload() else []
    return place_on(options, shape_of(target.header, target.weight_bytes), small, memory_bytes()[0], found)


def device_memory() -> tuple[DeviceMemory, ...]:
    """Memory of the devices that layers can be on, where they tell it."""
    if not supports_gpu_offload():
        return ()
    return tuple(
        DeviceMemory(each.name, each.total_bytes - each.free_bytes, each.total_bytes)
        for each in devices()
        if each.kind in ("gpu", "integrated gpu") and each.total_bytes
    )
