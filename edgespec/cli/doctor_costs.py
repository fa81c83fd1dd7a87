"""`edgespec doctor --costs`: what passes cost with a set of models here, and from which acceptance drafts pay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgespec.cli.options import make_plan, open_engine
from edgespec.cli.output import cancel_on_interrupt, print_json, say

if TYPE_CHECKING:
    from edgespec.cli.options import Plan
    from edgespec.engine.messages import LoadOptions
    from edgespec.learned import Learned
    from edgespec.surroundings import Here

UNKNOWN = (
    "Nothing was measured yet with these models on this machine, loaded in this way.\n"
    "`edgespec doctor --costs --measure` does it now; the first reply in mode auto does it too."
)


def show_costs(flags: dict[str, Any], *, measure: bool, as_json: bool) -> int:
    """Print what is known about these models, after measuring it anew if that is wanted; the exit code."""
    from edgespec.learned import learned
    from edgespec.surroundings import as_loaded, look_around

    plan = make_plan({**flags, "mode": "auto"})
    here = look_around(plan.load)
    for notice in (*plan.notices, *here.notices):
        say(notice)
    load, threads = measured_anew(plan, here) if measure else as_loaded(here.load)
    found = learned(load, threads)
    if as_json:
        print_json(as_object(found, load, threads))
    else:
        for line in lines(found, load, threads):
            click.echo(line)
    return 0


def measured_anew(plan: Plan, here: Here) -> tuple[LoadOptions, int]:
    """Load the models and measure; the options and threads that the result is kept by."""
    from edgespec.diagnosis import threads_finding
    from edgespec.hardware import processor
    from edgespec.surroundings import as_loaded

    if busy := threads_finding(processor()).advice:
        say(busy)
    load = here.load
    if here.no_room:
        plan, load = replace(plan, load=replace(plan.load, draft=None)), replace(load, draft=None)
    engine, _ = open_engine(replace(plan, told=here.notices))
    with engine, cancel_on_interrupt(engine.cancel):
        if not engine.measure_costs():
            raise click.Abort
        return replace(as_loaded(load)[0], safe_mode=engine.loaded.safe_mode), engine.loaded.threads


# Text


def lines(found: Learned | None, load: LoadOptions, threads: int) -> Iterator[str]:
    """What is known, as text that fits 80 columns."""
    from edgespec.terminal import printable

    names = [Path(path).name for path in (load.target, load.draft) if path is not None]
    models = printable(" with ".join(names) + (" drafting" if len(names) > 1 else ""))
    yield f"{models}, {threads} thread{'s' if threads != 1 else ''}{', safe mode' if load.safe_mode else ''}"
    yield ""
    if found is None:
        yield UNKNOWN
        return
    yield f"A plain step, a pass of one token, takes {1000 * found.plain_seconds:.1f} ms."
    if load.draft is not None:
        yield f"A draft step costs {found.step:.2f} plain steps (c)."
        yield f"A token that the draft model only reads costs {found.prompt_token * found.step:.2f}."
    yield ""
    yield from table(found, with_draft=load.draft is not None)
    yield "Pays from: the share of drafted tokens, of those examined, that must be right."
    yield ""
    if len(found.curves) > 1:
        yield from by_context(found)
        yield ""
    yield f"From {found.passes:,} timed passes, and the rounds of every reply in mode auto since."
    yield f"Last changed {found.updated:%Y-%m-%d %H:%M}."
    yield f"Kept in {printable(str(found.file))}"


def table(found: Learned, *, with_draft: bool) -> list[str]:
    """A line for each width: its cost, and how many of the draft's tokens must be right for it to gain."""
    from edgespec.advice import break_even

    v = found.costs.curve()
    rows = [["tokens in a pass", "plain steps", "per token", "copies pay from", *["drafts pay from"] * with_draft]]
    for width, cost in found.curves[0][1]:
        steps = (0.0, found.step) if with_draft else (0.0,)
        pays = [share(break_even(width - 1, step, v)) if width > 1 else "" for step in steps]
        rows.append([str(width), f"{cost:.2f}", f"{cost / width:.2f}", *pays])
    return aligned(rows)


def by_context(found: Learned) -> list[str]:
    """Costs in plain steps, a column for each length of context in which they were learned."""
    curves = [dict(points) for _, points in found.curves]
    rows = [["context up to", *(f"{longest:,}" for longest, _ in found.curves)]]
    for width in sorted(set().union(*curves) - {1}):
        rows.append([f"pass of {width}", *(f"{curve[width]:.2f}" if width in curve else "-" for curve in curves)])
    return aligned(rows)


def share(rate: float | None) -> str:
    """An acceptance rate."""
    return "never" if rate is None else f"{rate:.0%}"


def aligned(rows: list[list[str]]) -> list[str]:
    """Columns two blanks apart, flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.rjust, row, widths)).rstrip() for row in rows]


# JSON


def as_object(found: Learned | None, load: LoadOptions, threads: int) -> dict[str, Any]:
    """The same as JSON; what is unknown is null."""
    made: dict[str, Any] = {
        "model": load.target, "draft": load.draft, "threads": threads, "safe_mode": load.safe_mode, "measured": None,
    }  # fmt: skip
    if found is not None:
        made["measured"] = {
            "updated": found.updated.isoformat(timespec="seconds"),
            "timed_passes": found.passes,
            "plain_step_seconds": found.plain_seconds,
            "draft_step_cost": found.step if load.draft is not None else None,
            "draft_prompt_token_cost": found.prompt_token * found.step if load.draft is not None else None,
            "pass_cost": [
                {"longest_context": longest, "cost": {str(width): cost for width, cost in points}}
                for longest, points in found.curves
            ],
            "file": str(found.file),
        }
    return made
