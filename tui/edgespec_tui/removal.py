"""Taking models off the disk: what `edgespec models remove` does, with what is in use left alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgespec.errors import ModelFileError
from edgespec.models.cache import cache_root
from edgespec.models.registry import Registry
from edgespec.models.removal import RemovalPlan, plan_removal, remove
from edgespec.models.units import format_size
from edgespec_tui.text import one_line


@dataclass(frozen=True, slots=True)
class Removal:
    """What would go, to be said yes to."""

    name: str
    plan: RemovalPlan
    root: Path

    @property
    def sentences(self) -> tuple[str, ...]:
        """What a person should know before they say yes."""
        files = " and ".join(one_line(path.name) for path in self.plan.paths)
        kept = [f"{one_line(file)} stays: the pair {user} uses it." for file, user in self.plan.kept]
        freed = f"Remove {self.name}? {files} would go, {format_size(self.plan.freed)}."
        return (freed, *kept, "Other programs share this folder: they lose these files too.")


def plan(name: str, registry: Registry, used: Sequence[str]) -> Removal:
    """What removing a pair or a model means. Raises ModelFileError if nothing can go, or if it is loaded."""
    root = cache_root()
    found = plan_removal(name, registry, root)
    loaded = {Path(path).resolve() for path in used}
    if any(path.resolve() in loaded for path in found.paths):
        raise ModelFileError(f"{name} is loaded.", "Load another model first.")
    if not found.paths:
        kept = " and ".join(f"{one_line(file)} for {user}" for file, user in found.kept)
        raise ModelFileError(f"Nothing of {name} can go: other pairs need it ({kept}).")
    return Removal(one_line(name), found, root)


def carry_out(removal: Removal) -> None:
    """Take the files away."""
    remove(removal.plan, removal.root)
