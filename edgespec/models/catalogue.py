"""The registry seen from this machine: which pairs fit, which are here, which to take."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from edgespec.models.fit import Machine, Setup, Verdict, estimate, verdict
from edgespec.models.registry import Pair, Registry
from edgespec.models.resolve import default_model, find_file
from edgespec.models.shape import shapes_of_pair


class Here(StrEnum):
    """How much of a pair is on this disk."""

    ALL = "yes"
    PART = "part"
    NONE = "-"


@dataclass(frozen=True, slots=True)
class Row:
    """One pair, as this machine sees it. `needs` is None where the entry says too little for an estimate."""

    pair: Pair
    needs: int | None
    fits: Verdict
    here: Here

    @property
    def drafts_with(self) -> str:
        """What drafts for it, in a few words."""
        pair = self.pair
        if pair.embedded:
            return f"{pair.spec_type.removeprefix('draft-').upper()} head inside (not used yet)"
        if pair.draft is None:
            return "lookup only"
        if not pair.runnable:
            return f"{pair.spec_type.removeprefix('draft-').upper()} head (not used yet)"
        return f"draft model {pair.draft.quant}".strip()


def catalogue(registry: Registry, machine: Machine, root: Path) -> list[Row]:
    """Every pair of the registry, in its order."""
    return [row_for(pair, machine, root, registry.defaults.n_ctx) for pair in registry.pairs]


def row_for(pair: Pair, machine: Machine, root: Path, n_ctx: int) -> Row:
    """One pair at a context of `n_ctx` tokens."""
    shapes = shapes_of_pair(pair)
    if shapes is None:
        return Row(pair, None, _by_class(pair, machine), presence(pair, root))
    found = estimate(*shapes, Setup(n_ctx=n_ctx))
    return Row(pair, found.total, verdict(found, machine), presence(pair, root))


def _by_class(pair: Pair, machine: Machine) -> Verdict:
    """Where the entry has no numbers: the class of machine it is for, less what sellers round up."""
    if pair.min_ram_gb is None:
        return Verdict.UNKNOWN
    return Verdict.FITS if machine.memory >= 0.93 * pair.min_ram_gb * 10**9 else Verdict.NO


def presence(pair: Pair, root: Path) -> Here:
    """How much of a pair is here."""
    if pair.package is not None:
        return Here.ALL if default_model() is not None else Here.NONE
    found = [find_file(file, root) is not None for file in pair.files]
    return Here.ALL if all(found) else Here.PART if any(found) else Here.NONE


def pick(rows: list[Row], task: str | None = None) -> Row | None:
    """The pair to take on this machine: recommended, able to draft here, and the largest that fits."""
    candidates = [
        row
        for row in rows
        if row.fits is Verdict.FITS
        and row.pair.status in ("recommended", "ok")
        and row.pair.spec_type == "draft-simple"
        and (task is None or task in row.pair.task)
    ]
    return max(candidates, key=lambda row: (row.pair.status == "recommended", row.pair.size or 0), default=None)
