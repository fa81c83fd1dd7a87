"""What is known of one line of the models screen: the headers of its files, or else the registry's word."""

from __future__ import annotations

from dataclasses import dataclass

from edgespec.errors import EdgeSpecError
from edgespec.models.description import describe, in_words
from edgespec.models.fit import Setup, Verdict, estimate, remedies, verdict
from edgespec.models.gguf import CheckedModel, check_file
from edgespec.models.shape import shape_of
from edgespec.models.units import format_size
from edgespec_tui.shelf import CONTEXT, HEADS, Entry, Shelf

_BRIEF = {"path", "parts", "memory context", "memory needed"}
"""Said elsewhere, or only where there is something to say."""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with names and values below it."""

    heading: str
    rows: tuple[tuple[str, str], ...]


def inspect(entry: Entry, shelf: Shelf) -> list[Section]:
    """Everything worth knowing about it; reads headers, so not on the app's own thread."""
    try:
        files = entry.files(shelf.registry)
        target = check_file(files.target)
        draft = check_file(files.draft) if files.draft is not None else None
    except EdgeSpecError as error:
        return [Section("Not here, or not whole", (("", f"{error.message} {error.hint}"),)), _listed(entry)]
    sections = [_fit(target, draft, shelf), _header("Target" if draft else "The file", target)]
    if draft is not None:
        sections.append(_header("Draft model", draft))
    return [*sections, _listed(entry)] if entry.row is not None else sections


def _fit(target: CheckedModel, draft: CheckedModel | None, shelf: Shelf) -> Section:
    shapes = shape_of(target.header, target.weight_bytes), None if draft is None else shape_of(draft.header)
    setup = Setup(n_ctx=CONTEXT)
    needs, here = estimate(*shapes, setup), shelf.machine
    fits = verdict(needs, here)
    rows = [
        ("needs", f"about {format_size(needs.total)} of memory at {CONTEXT:,} tokens of context"),
        ("fits", f"{fits}; this machine has {format_size(here.memory)}"),
    ]
    if draft is not None:
        rows.append(("draft's share", f"{draft.size / max(1, target.size):.0%} of the target's size"))
    if fits is Verdict.NO:
        rows += [("what helps", step.sentence) for step in remedies(*shapes, setup, here)]
    return Section("Here", tuple(rows))


def _header(heading: str, model: CheckedModel) -> Section:
    rows = [(name, value) for name, value in in_words(describe(model, CONTEXT)) if name not in _BRIEF]
    parts = [("parts", str(len(model.parts)))] if len(model.parts) > 1 else []
    return Section(heading, (*rows, *parts, ("path", str(model.path))))


def _listed(entry: Entry) -> Section:
    rows = tuple((head, cell) for head, cell in zip(HEADS, entry.cells, strict=True) if cell and head != "name")
    return Section("In the list", (*rows, ("about", entry.detail)))
