"""Which modes can run, which comes next, and how the app names them."""

from __future__ import annotations

from edgespec.engine.messages import Loaded
from edgespec.types import Mode


def label(mode: Mode, draft_length: int) -> str:
    """A mode as the app names it; plain drafts nothing, and auto chooses lengths itself."""
    return f"{mode} k={draft_length}" if mode in (Mode.LOOKUP, Mode.DRAFT) else str(mode)


def runnable(loaded: Loaded) -> list[Mode]:
    """The modes that these models can run."""
    return [mode for mode in Mode if loaded.modes.get(mode, "unknown") is None]


def following(loaded: Loaded, mode: Mode) -> Mode | None:
    """The next mode that can run; None if there is no other."""
    can_run = runnable(loaded)
    others = [*can_run[can_run.index(mode) + 1 :], *can_run] if mode in can_run else can_run
    return next((other for other in others if other is not mode), None)


def fallback(loaded: Loaded, mode: Mode) -> tuple[Mode, str] | None:
    """What runs in place of a mode that cannot, and the sentence that says so; None if it can."""
    if (reason := loaded.modes.get(mode)) is None:
        return None
    instead = Mode.LOOKUP if Mode.LOOKUP in runnable(loaded) else Mode.PLAIN
    return instead, f"{mode} cannot run: {reason} Using {instead} instead."


def refusals(loaded: Loaded) -> str:
    """Why the other modes cannot run."""
    return "; ".join(f"{mode}: {why}" for mode, why in loaded.modes.items() if why) or "no other mode can run"
