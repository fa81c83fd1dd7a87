"""Who takes part in a comparison: modes with their draft lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgespec.engine.messages import MAX_DRAFT_LENGTH, Loaded
from edgespec.errors import ModeError, SettingsError
from edgespec.types import Mode

WITH_LENGTH = (Mode.LOOKUP, Mode.DRAFT)
"""Modes that take a draft length; auto chooses its own."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """A mode, and the longest draft it may make; None where the mode has none or chooses for itself."""

    mode: Mode
    draft_length: int | None = None

    @property
    def name(self) -> str:
        """As `--modes` writes it."""
        return str(self.mode) if self.draft_length is None else f"{self.mode}:{self.draft_length}"


PLAIN = Contestant(Mode.PLAIN)
"""The one that the others are compared with."""


def parse_contestant(text: str, default_length: int = 4) -> Contestant:
    """`plain`, `lookup`, `draft:7`, `auto`. Raises SettingsError."""
    hint = "Write plain, lookup, lookup:7, draft, draft:3 or auto, with commas between them."
    name, colon, length = text.strip().partition(":")
    try:
        mode = Mode(name.strip())
    except ValueError:
        raise SettingsError(f"{text.strip()!r} is not a mode.", hint) from None
    if mode not in WITH_LENGTH:
        if colon:
            raise SettingsError(f"Mode {mode} takes no draft length.", hint)
        return Contestant(mode)
    if not colon:
        if default_length < 1:
            raise SettingsError(f"With a draft length of 0, {mode} would be plain.", "Give --draft-length 1 or more.")
        return Contestant(mode, default_length)
    if not (length.strip().isascii() and length.strip().isdigit()) or not 1 <= int(length) <= MAX_DRAFT_LENGTH:
        raise SettingsError(
            f"The draft length in {text.strip()!r} must be a number from 1 to {MAX_DRAFT_LENGTH}.", hint
        )
    return Contestant(mode, int(length))


def default_contestants(loaded: Loaded, draft_length: int = 4) -> tuple[Contestant, ...]:
    """Every mode that these models can run, once. Raises SettingsError for a draft length of 0."""
    able = [mode for mode in Mode if loaded.modes.get(mode, "unknown") is None]
    return tuple(parse_contestant(mode, draft_length) for mode in able)


def settle_contestants(
    contestants: Sequence[Contestant], loaded: Loaded, *, allow_fallback: bool = False
) -> tuple[tuple[Contestant, ...], list[str]]:
    """Those that can run, plain among them, and sentences on what was added or left out. Raises ModeError."""
    notices = []
    able = []
    for contestant in contestants:
        reason = loaded.modes.get(contestant.mode)
        if reason is None:
            able.append(contestant)
        elif allow_fallback:
            notices.append(f"{contestant.name} is left out: {reason}")
        else:
            raise ModeError(
                f"{contestant.name} cannot run: {reason}", "Leave it out of --modes, or add --allow-fallback."
            )
    if PLAIN not in able:
        able.insert(0, PLAIN)
        notices.append("plain was added: the others are compared with it.")
    return tuple(able), notices


def order(contestants: Sequence[Contestant], turn: int) -> list[Contestant]:
    """The contestants, beginning with another one each turn."""
    shift = turn % len(contestants)
    return [*contestants[shift:], *contestants[:shift]]
