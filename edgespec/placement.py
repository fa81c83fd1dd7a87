"""Before a model is loaded: will it fit this machine, and how many of its layers go on a device?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from edgespec.engine.messages import LoadOptions
from edgespec.errors import ModelLoadError, SettingsError
from edgespec.models import fit
from edgespec.models.fit import Estimate, Machine, Setup, Verdict, estimate, remedies, verdict
from edgespec.models.gguf import check_file
from edgespec.models.shape import MemoryShape, shape_of
from edgespec.models.units import format_size
from edgespec.types import ALL_LAYERS, AUTO_LAYERS

LARGEST_DEFAULT_CONTEXT = 8192
"""What the engine takes where no context is asked for and the model could do more."""
ESTIMATE_ERROR = 1.15
"""An estimate may be off by this much: what exceeds all memory by more cannot fit."""


@dataclass(frozen=True, slots=True)
class Placement:
    """How to load, nothing left to decide, whether that fits, and what the user should read about it."""

    options: LoadOptions
    fits: Verdict
    notices: tuple[str, ...]


def shapes(options: LoadOptions) -> tuple[MemoryShape, MemoryShape | None]:
    """Memory shapes of the models to load. Raises ModelFileError where one is not whole."""
    files = [check_file(path) for path in (options.target, options.draft) if path is not None]
    found = [shape_of(file.header, file.weight_bytes) for file in files]
    return found[0], found[1] if len(found) > 1 else None


def setup_of(options: LoadOptions, target: MemoryShape) -> Setup:
    """How the engine will load them, as the estimate wants it; AUTO_LAYERS count as all. Raises SettingsError."""
    for kind in (options.cache_type_k, options.cache_type_v, options.draft_cache_type):
        if kind and kind not in fit.CACHE_TYPE_BYTES:
            raise SettingsError(f"There is no cache type {kind!r}.", "Use f16, bf16, q8_0 or q4_0.")
    trained = target.context_length or LARGEST_DEFAULT_CONTEXT
    layers = ALL_LAYERS if options.gpu_layers == AUTO_LAYERS else options.gpu_layers
    own = options.draft_gpu_layers
    return Setup(
        n_ctx=options.n_ctx or min(trained, LARGEST_DEFAULT_CONTEXT),
        draft_n_ctx=options.draft_n_ctx or None,
        n_batch=options.n_batch,
        cache_type_k=options.cache_type_k,
        cache_type_v=options.cache_type_v,
        draft_cache_type=options.draft_cache_type or None,
        gpu_layers=layers,
        draft_gpu_layers=0 if options.draft is None else layers if own is None else own,
    )


def place(options: LoadOptions, target: MemoryShape, draft: MemoryShape | None, machine: Machine) -> Placement:
    """Decide what is left to `auto`, and say what fits badly. Raises ModelLoadError if it cannot fit at all."""
    auto = options.gpu_layers == AUTO_LAYERS
    placed, changes = _auto(options, target, draft, machine) if auto else (options, ())
    fits, notices = _memory(placed, target, draft, machine)
    return Placement(placed, fits, (*changes, *notices))


class Device(Protocol):
    """What is asked of a device."""

    @property
    def kind(self) -> str: ...
    @property
    def free_bytes(self) -> int: ...


def place_on(
    options: LoadOptions, target: MemoryShape, draft: MemoryShape | None, memory: int, devices: Sequence[Device]
) -> Placement:
    """The same for a machine with so much main memory and these devices. Raises ModelLoadError."""
    free = sum(device.free_bytes for device in devices if device.kind == "gpu")
    shared = any(device.kind == "integrated gpu" for device in devices)
    if shared and not free and options.gpu_layers == AUTO_LAYERS:
        options = replace(options, gpu_layers=ALL_LAYERS)  # its memory is main memory
    found = place(options, target, draft, Machine(memory, free or None))
    if any(device.kind in ("gpu", "integrated gpu") for device in devices):
        return found
    return replace(found, notices=(*_in_vain(options), *found.notices))


def _in_vain(options: LoadOptions) -> tuple[str, ...]:
    """A sentence on layers that were asked for by number where there is no device to put them on."""
    asked = {"--gpu-layers": options.gpu_layers, "--draft-gpu-layers": options.draft_gpu_layers}
    said = [
        f"{flag} {'all' if layers == ALL_LAYERS else layers}"
        for flag, layers in asked.items()
        if layers == ALL_LAYERS or (layers or 0) > 0
    ]
    if not said:
        return ()
    verb = "changes" if len(said) == 1 else "change"
    return (
        f"{' and '.join(said)} {verb} nothing: llama.cpp finds no GPU here, so everything runs on the processor. "
        "`edgespec doctor` says what it finds.",
    )


def choose_layers(options: LoadOptions, machine: Machine) -> LoadOptions:
    """`--gpu-layers auto`: as many layers as fit the device, none without one. Raises ModelFileError."""
    return _auto(options, *shapes(options), machine)[0]


def memory_notices(options: LoadOptions, machine: Machine) -> tuple[str, ...]:
    """Sentences for a person whose machine is too small or nearly so; none where everything fits.

    Raises ModelLoadError if it cannot fit at all, ModelFileError for a file that is not whole.
    """
    return _memory(options, *shapes(options), machine)[1]


def _auto(
    options: LoadOptions, target: MemoryShape, draft: MemoryShape | None, machine: Machine
) -> tuple[LoadOptions, tuple[str, ...]]:
    """Options without AUTO_LAYERS, and a sentence on what was changed to put more on the device."""
    found = fit.place(target, draft, setup_of(options, target), machine, draft_layers=options.draft_gpu_layers)
    cache = found.setup.draft_cache_type or ""
    if options.flash_attention == "off":
        cache = options.draft_cache_type  # quantised values need flash attention
    placed = replace(
        options,
        gpu_layers=found.setup.gpu_layers,
        draft_n_ctx=found.setup.draft_n_ctx or 0,
        draft_cache_type=cache,
        draft_gpu_layers=None if draft is None else found.setup.draft_gpu_layers,
    )
    if not found.changes:
        return placed, ()
    return placed, (f"To fit the device ({format_size(machine.device_free or 0)} free): {'; '.join(found.changes)}.",)


def _memory(
    options: LoadOptions, target: MemoryShape, draft: MemoryShape | None, machine: Machine
) -> tuple[Verdict, tuple[str, ...]]:
    setup = setup_of(options, target)
    if machine.device_free is None:  # layers asked for stay in main memory then
        setup = replace(setup, gpu_layers=0, draft_gpu_layers=0)
    found = estimate(target, draft, setup)
    fits = verdict(found, machine)
    if fits is Verdict.FITS:
        return fits, ()
    need = f"about {format_size(found.total)} of memory at {setup.n_ctx:,} tokens of context"
    have = f"this machine has {format_size(machine.memory)}"
    if machine.device_free is not None:
        need += f", {format_size(found.device)} of it on the device"
        have += f", its device {format_size(machine.device_free)} free"
    if fits is Verdict.TIGHT:
        return fits, (f"This needs {need}; {have}. It is tight: close what else uses memory.",)
    helps = _advice(target, draft, setup, machine)
    if _cannot_fit(found, machine):
        raise ModelLoadError(f"This needs {need}; {have}.", helps)
    return fits, (f"This needs {need}; {have}: it may fail or become very slow.", helps)


def _cannot_fit(found: Estimate, machine: Machine) -> bool:
    device = machine.device_free
    return found.main_memory > ESTIMATE_ERROR * machine.memory or (
        device is not None and found.device > ESTIMATE_ERROR * device
    )


def _advice(target: MemoryShape, draft: MemoryShape | None, setup: Setup, machine: Machine) -> str:
    steps = remedies(target, draft, setup, machine)
    smaller = "Choose a smaller model or quantisation."
    if not steps:
        return smaller
    sentence = "What helps, each step after the ones before: " + "; ".join(step.sentence for step in steps) + "."
    if verdict(steps[-1].estimate, machine) is Verdict.NO:
        sentence += f" That is still too much. {smaller}"
    return sentence
