"""Before a model is loaded: will it fit this machine, and how many of its layers go on a device?"""

from __future__ import annotations

from dataclasses import replace

from edgespec.engine.messages import LoadOptions
from edgespec.models.fit import Machine, Remedy, Setup, Verdict, estimate, remedies, verdict
from edgespec.models.gguf import check_file
from edgespec.models.shape import MemoryShape, shape_of
from edgespec.models.units import format_size

LARGEST_DEFAULT_CONTEXT = 8192
"""What the engine takes where no context is asked for and the model could do more."""


def shapes(options: LoadOptions) -> tuple[MemoryShape, MemoryShape | None]:
    """Memory shapes of the models to load. Raises ModelFileError where one is not whole."""
    files = [check_file(path) for path in (options.target, options.draft) if path is not None]
    found = [shape_of(file.header, file.weight_bytes) for file in files]
    return found[0], found[1] if len(found) > 1 else None


def setup_of(options: LoadOptions, target: MemoryShape) -> Setup:
    """How the engine will load them: both models share the number of device layers."""
    trained = target.context_length or LARGEST_DEFAULT_CONTEXT
    return Setup(
        n_ctx=options.n_ctx or min(trained, LARGEST_DEFAULT_CONTEXT),
        n_batch=options.n_batch,
        cache_type_k=options.cache_type_k,
        cache_type_v=options.cache_type_v,
        gpu_layers=options.gpu_layers,
        draft_gpu_layers=options.gpu_layers if options.draft is not None else 0,
    )


def choose_layers(options: LoadOptions, machine: Machine) -> LoadOptions:
    """`--gpu-layers auto`: as many layers as fit the device, none without one."""
    if machine.device_free is None:
        return replace(options, gpu_layers=0)
    target, draft = shapes(options)
    setup = setup_of(options, target)
    most = max(target.layers, draft.layers if draft is not None else 0) + 1
    for layers in range(most, 0, -1):
        tried = replace(setup, gpu_layers=layers, draft_gpu_layers=layers if draft is not None else 0)
        if estimate(target, draft, tried).device <= machine.device_budget:
            return replace(options, gpu_layers=layers)
    return replace(options, gpu_layers=0)


def memory_notices(options: LoadOptions, machine: Machine) -> tuple[str, ...]:
    """Sentences for a person whose machine is too small or nearly so; none where everything fits.

    `machine.device_free` is None where there is no device, and the layers asked for then stay in main memory.
    """
    target, draft = shapes(options)
    setup = setup_of(options, target)
    if machine.device_free is None:
        setup = replace(setup, gpu_layers=0, draft_gpu_layers=0)
    found = estimate(target, draft, setup)
    fits = verdict(found, machine)
    if fits is Verdict.FITS:
        return ()
    need = f"about {format_size(found.total)} of memory at {setup.n_ctx:,} tokens of context"
    have = f"this machine has {format_size(machine.memory)}"
    if machine.device_free is not None:
        have += f", its device {format_size(machine.device_free)} free"
    if fits is Verdict.TIGHT:
        return (f"This needs {need}; {have}. It is tight: close what else uses memory.",)
    return (
        f"This needs {need}, and {have}: it may fail or become very slow.",
        *_advice(remedies(target, draft, setup, machine)),
    )


def _advice(steps: list[Remedy]) -> tuple[str, ...]:
    if not steps:
        return ()
    return ("What helps, each step after the ones before: " + "; ".join(step.sentence for step in steps) + ".",)
