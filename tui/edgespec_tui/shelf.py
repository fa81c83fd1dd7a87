"""What the models screen lists: the registry's pairs and the models on this disk, as this machine sees them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgespec.errors import EdgeSpecError
from edgespec.hardware import machine
from edgespec.models.aftercheck import examine, why_not
from edgespec.models.cache import cache_root
from edgespec.models.catalogue import Here, Row, catalogue
from edgespec.models.fit import Machine, Setup, estimate, verdict
from edgespec.models.inventory import LocalModel, inventory
from edgespec.models.registry import Registry, load_registry
from edgespec.models.resolve import resolve
from edgespec.models.shape import shape_of
from edgespec.models.units import format_size
from edgespec_tui.text import one_line

HEADS = ("name", "for", "size", "needs", "fits", "here", "licence", "drafts with")
CONTEXT = 4096
"""Tokens of context that the memory needed is estimated for."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Files to load."""

    target: Path
    draft: Path | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the list: a pair of the registry, or a model on this disk.

    Attributes:
        cells: under HEADS.
        detail: what else is known, in a sentence or two.
    """

    cells: tuple[str, ...]
    detail: str
    row: Row | None = None
    local: LocalModel | None = None

    @property
    def name(self) -> str:
        """What it is called."""
        return self.cells[0]

    @property
    def usable(self) -> bool:
        """Is all of it here, and whole?"""
        if self.row is not None:
            return self.row.here is Here.ALL
        return self.local is not None and self.local.problem is None

    @property
    def removable(self) -> bool:
        """Does it lie in the cache, at least in part?"""
        if self.row is not None:
            return self.row.here is not Here.NONE and self.row.pair.package is None
        return self.local is not None and self.local.source == "hub"

    @property
    def removal_name(self) -> str:
        """What to call it when it is to be removed."""
        return self.row.pair.id if self.row is not None else self.local.spec if self.local is not None else ""

    @property
    def searched(self) -> str:
        """What a filter looks at."""
        return " ".join((*self.cells, self.detail)).casefold()

    def files(self, registry: Registry) -> Choice:
        """Its files. Raises EdgeSpecError where they are not here or not whole."""
        if self.row is not None:
            found = resolve(self.row.pair.id, registry=registry)
            return Choice(found.target, found.draft)
        if self.local is None or self.local.problem is not None:
            raise EdgeSpecError(self.local.problem or "" if self.local else "Nothing is chosen.")
        return Choice(self.local.path)


@dataclass(frozen=True, slots=True)
class Shelf:
    """Everything there is to choose from."""

    machine: Machine
    registry: Registry
    pairs: tuple[Entry, ...]
    local: tuple[Entry, ...]


def look() -> Shelf:
    """Look at registry and disk; reads the headers of all models, so not on the app's own thread."""
    registry, here = load_registry(), machine()
    pairs = tuple(pair_entry(row, registry) for row in catalogue(registry, here, cache_root()))
    return Shelf(here, registry, pairs, tuple(local_entry(found, here) for found in inventory()))


def pair_entry(row: Row, registry: Registry) -> Entry:
    """A pair as a line of the list."""
    pair = row.pair
    licences = [registry.licence(name) for name in pair.licences]
    licence = ", ".join(f"{found.id}{' (ask)' if found.ask else ''}" for found in licences)
    sizes = [format_size(size) if size else "?" for size in (pair.size, row.needs)]
    cells = (pair.id, " ".join(pair.task), *sizes, str(row.fits), str(row.here), licence, row.drafts_with)
    status = {"recommended": " Recommended.", "experimental": " Experimental."}.get(pair.status, "")
    terms = ", ".join(found.title for found in licences)
    detail = f"{pair.title.rstrip('.')}.{status} Licence: {terms}. {pair.note}"
    return Entry(tuple(map(one_line, cells)), one_line(detail.strip()), row=row)


def local_entry(found: LocalModel, here: Machine) -> Entry:
    """A model on this disk as a line of the list."""
    name = Path(found.spec).name if found.source not in ("hub", "package") else found.spec
    if found.model is None:
        cells = (name, "", format_size(found.size), "-", "-", "broken", "", "")
        return Entry(tuple(map(one_line, cells)), one_line(f"{found.problem} {found.path}"), local=found)
    header = found.model.header
    needs = estimate(shape_of(header, found.model.weight_bytes), None, Setup(n_ctx=CONTEXT))
    licence = header.text("general.license")
    cells = (
        name, found.source, format_size(found.size), format_size(needs.total), str(verdict(needs, here)), "yes",
        licence or "?", header.head or "",
    )  # fmt: skip
    facts = f"{header.name or found.path.name}, {header.architecture}, {header.quantisation}. {found.path}"
    return Entry(tuple(map(one_line, cells)), one_line(facts), local=found)


@dataclass(frozen=True, slots=True)
class Opinion:
    """Can these go together? `sentences` say why, either way."""

    possible: bool
    sentences: tuple[str, ...]


def judge(choice: Choice, registry: Registry) -> Opinion:
    """Read the headers of a choice and say whether it can be loaded. Raises EdgeSpecError for a file that is broken."""
    found = examine(choice.target, choice.draft, CONTEXT)
    if found.problem is not None and found.draft is not None:
        known = why_not(registry, found.target, found.draft)
        why = f"Known: {known}." if known else ""
        return Opinion(False, (found.problem.message, why, "Drafts can be looked up instead: no draft model needed."))
    if found.other_kind is not None:
        return Opinion(False, (f"{choice.target.name} is no language model: {found.other_kind}.",))
    sentences = list(found.good)
    if found.draft is not None and (share := found.draft.size / max(1, found.target.size)) > 1 / 8:
        sentences.append(f"The draft model has {share:.0%} of the target's size; drafting rarely pays above 13 %.")
    return Opinion(True, tuple(sentences))
