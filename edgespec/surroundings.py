"""How models would be loaded on this machine, found out without loading them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgespec.errors import ModelLoadError

if TYPE_CHECKING:
    from edgespec.engine.messages import LoadOptions


@dataclass(frozen=True, slots=True)
class Here:
    """These models on this machine, without loading them.

    Attributes:
        load: how they would be loaded, nothing left to decide.
        device: are layers on a graphics device?
        draft_share: weights of the draft model over those of the target.
        no_room: why there is no memory for the draft model, "" if there is.
    """

    load: LoadOptions
    device: bool
    draft_share: float | None
    no_room: str
    notices: tuple[str, ...]


def look_around(load: LoadOptions) -> Here:
    """Sizes, memory and devices. Raises ModelFileError, or ModelLoadError if the target alone does not fit."""
    from edgespec.hardware import LibraryFacts, ask_library, may_have_device, memory_bytes
    from edgespec.models.fit import Verdict
    from edgespec.placement import place_on, shapes

    library = ask_library() if may_have_device() else None
    devices = library.devices if isinstance(library, LibraryFacts) and library.gpu_offload else ()
    target, draft = shapes(load)
    memory, no_room = memory_bytes()[0], ""
    try:
        placed = place_on(load, target, draft, memory, devices)
        if placed.fits is Verdict.NO:
            no_room = placed.notices[-2]
    except ModelLoadError as error:
        if draft is None:
            raise
        no_room = error.message
    if no_room:
        placed = place_on(replace(load, draft=None), target, None, memory, devices)
    return Here(
        load=replace(placed.options, draft=load.draft),
        device=bool(devices) and placed.options.gpu_layers != 0,
        draft_share=None if draft is None else draft.weights / max(1, target.weights),
        no_room=no_room if draft is not None else "",
        notices=placed.notices,
    )


def as_loaded(load: LoadOptions) -> tuple[LoadOptions, int]:
    """The options and threads that the engine would run with: what it learned about the models is kept by them."""
    from edgespec.engine.safemode import SafeModeMemory
    from edgespec.llama.context import physical_cores

    safe = load.safe_mode or SafeModeMemory().applies()
    return replace(load, safe_mode=safe), load.threads or physical_cores()
