"""`edgespec download`: the pairs there are, or one of them onto this disk."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgespec.cli.output import print_json, say
from edgespec.cli.progress import progress
from edgespec.errors import DownloadError

if TYPE_CHECKING:
    from edgespec.models.aftercheck import Findings
    from edgespec.models.catalogue import Row
    from edgespec.models.download import DownloadPlan
    from edgespec.models.hub import Hub
    from edgespec.models.registry import Pair, Registry

TASKS = ("chat", "code", "reasoning", "test")
WIDE = 110
"""Columns of a terminal from which the table names licences too; whoever downloads is told in any case."""


@click.command("download")
@click.argument("what", required=False, metavar="[PAIR | USER/REPO:QUANT | USER/REPO/FILE.gguf]")
@click.option("--yes", "-y", is_flag=True, help="Ask nothing: agree to the licence and fetch.")
@click.option("--dry-run", is_flag=True, help="Say what would be fetched and stop.")
@click.option("--task", type=click.Choice(TASKS), help="Without an argument: only pairs for this.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def command(what: str | None, yes: bool, dry_run: bool, task: str | None, as_json: bool) -> None:
    """Fetch a model or a pair of models, checked and ready to use.

    Without an argument: a table of all pairs, what they need, and which one suits this machine. An interrupted
    download continues when the same command is run again.
    """
    from edgespec.models.registry import load_registry

    registry = load_registry()
    if what is None:
        show_catalogue(registry, task, as_json)
    elif task is not None:
        raise click.UsageError("--task chooses among pairs; give it without naming one.")
    else:
        fetch_one(what, registry, yes, dry_run, as_json)


def show_catalogue(registry: Registry, task: str | None, as_json: bool) -> None:
    """The table of pairs."""
    from edgespec.hardware import machine
    from edgespec.models.cache import cache_root
    from edgespec.models.catalogue import catalogue, pick
    from edgespec.models.units import format_size

    here = machine()
    rows = [row for row in catalogue(registry, here, cache_root()) if task is None or task in row.pair.task]
    best = {wanted: pick(rows, wanted) for wanted in ((task,) if task else ("chat", "code"))}
    if as_json:
        print_json(
            {
                "memory": here.memory,
                "pick": {wanted: row.pair.id if row else None for wanted, row in best.items()},
                "pairs": [row_object(row, registry) for row in rows],
            }
        )
        return
    _print_table(rows, registry)
    click.echo(f"\nThis machine has {format_size(here.memory)} of memory; needs are for 4,096 tokens of context.")
    for wanted, row in best.items():
        choice = f"edgespec download {row.pair.id}" if row else "no pair fits; try `edgespec chat` with the demo model"
        click.echo(f"For {wanted}: {choice}")


def row_object(row: Row, registry: Registry) -> dict[str, Any]:
    """A pair as JSON."""
    pair = row.pair
    return {
        "id": pair.id, "title": pair.title, "status": pair.status, "task": list(pair.task), "size": pair.size,
        "needs": row.needs, "fits": str(row.fits), "here": str(row.here), "spec_type": pair.spec_type,
        "licences": [registry.licence(name).title for name in pair.licences], "evidence": pair.evidence,
        "pinned": all(file.pinned for file in pair.files), "note": pair.note,
    }  # fmt: skip


def _print_table(rows: Sequence[Row], registry: Registry) -> None:
    from rich.console import Console
    from rich.table import Table

    from edgespec.models.units import format_size

    console = Console(markup=False, highlight=False, width=None if sys.stdout.isatty() else 140)
    wide = console.width >= WIDE
    table = Table(box=None, pad_edge=False, header_style="bold")
    # Ids are there to be copied: no line ends inside one.
    for name in ("pair", "for", "size", "needs"):
        table.add_column(name, justify="right" if name in ("size", "needs") else "left", no_wrap=True)
    for name in ("fits", "here", *(["licence"] if wide else []), "drafts with"):
        table.add_column(name, overflow="fold")
    for row in rows:
        pair = row.pair
        licences = [registry.licence(name) for name in pair.licences]
        licence = ", ".join(f"{found.id}{' (ask)' if found.ask else ''}" for found in licences)
        sizes = [format_size(size) if size else "?" for size in (pair.size, row.needs)]
        fits = f"{row.fits}" if pair.status != "experimental" else f"{row.fits} (experimental)"
        shown = [licence] if wide else []
        table.add_row(pair.id, " ".join(pair.task), *sizes, fits, str(row.here), *shown, row.drafts_with)
    console.print(table)


def fetch_one(what: str, registry: Registry, yes: bool, dry_run: bool, as_json: bool) -> None:
    """Plan, agree, fetch, check."""
    from edgespec.models.download import fetch, require_space
    from edgespec.models.hub import Hub, HubOptions

    hub = Hub(HubOptions.from_environment(), on_wait=lambda seconds, why: say(f"{why} Waiting {seconds:.0f} s."))
    pair = registry.find(what)
    if pair is not None and pair.package is not None:
        _packaged(pair, as_json)
        return
    plan = _plan(what, pair, registry, hub)
    _describe(plan, registry)
    if dry_run:
        require_space(plan, hub.options.cache)
        if as_json:
            print_json(plan_object(plan))
        return
    if not plan.complete:
        require_space(plan, hub.options.cache)
        _agree(plan, registry, yes)
    try:
        with progress(sys.stderr.isatty()) as report:
            paths = fetch(plan, hub, report)
    except KeyboardInterrupt:
        say("Stopped; what was fetched is kept. Run the same command again to continue.")
        raise
    _conclude(plan, paths, registry, as_json)


def _packaged(pair: Pair, as_json: bool) -> None:
    from edgespec.models.resolve import resolve

    path = resolve(pair.id).target
    if as_json:
        print_json({"what": pair.id, "target": str(path), "draft": None, "fetched": 0})
    else:
        click.echo(f"{pair.id} is installed with its package: {path}")


def _plan(what: str, pair: Pair | None, registry: Registry, hub: Hub) -> DownloadPlan:
    from edgespec.models.download import plan_pair, plan_reference
    from edgespec.models.quant import parse_reference

    if pair is not None:
        return plan_pair(pair, hub)
    reference = parse_reference(what)
    if reference is None:
        near = registry.suggestions(what)
        hint = f"Did you mean {' or '.join(near)}? " if near else ""
        raise DownloadError(
            f"{what} is neither a pair nor user/repo:QUANT.", f"{hint}`edgespec download` lists the pairs."
        )
    return plan_reference(reference, hub)


def _describe(plan: DownloadPlan, registry: Registry) -> None:
    """What is about to happen, on stderr."""
    from edgespec.models.units import format_size

    for file in plan.files:
        state = "is here" if file.cached else f"{format_size(file.held)} of it are here" if file.held else "to fetch"
        size = format_size(file.size) if file.size is not None else "size unknown"
        say(f"{file.wanted.repo}/{file.wanted.file}  {size}  {state}")
    if plan.to_fetch:
        say(f"To fetch: {format_size(plan.to_fetch)}.")
    for notice in plan.notices:
        say(notice)
    if plan.pair is not None and plan.pair.note:
        say(plan.pair.note)
    if plan.pair is not None and not plan.pair.runnable:
        kind = plan.pair.spec_type.removeprefix("draft-").upper()
        say(f"This version does not draft with {kind} heads yet; the target runs in the modes plain and lookup.")
    if plan.licence:
        say(f"Licence, as the repository says: {plan.licence}.")


def _agree(plan: DownloadPlan, registry: Registry, yes: bool) -> None:
    """Shows terms that a person should have seen, once; asks whether to go on where someone can answer."""
    from edgespec.models.consent import agreed, remember

    asking = [licence for licence in registry.to_ask(plan.pair) if plan.pair] if plan.pair else []
    new = [licence for licence in asking if licence.id not in agreed()]
    for licence in new:
        say(f"{plan.title} comes under: {licence.title}. {licence.url}".rstrip())
    if yes:
        return
    if not sys.stdin.isatty():
        if new:
            raise DownloadError(f"{plan.title} wants its licence agreed to.", "Read it, then add --yes.")
        return
    question = "Do you agree to these terms, and fetch now?" if new else "Fetch now?"
    if not click.confirm(question, default=not new, err=True):
        raise click.Abort
    if new:
        remember(licence.id for licence in new)


def plan_object(plan: DownloadPlan) -> dict[str, Any]:
    """A plan as JSON."""
    return {
        "what": plan.title,
        "size": plan.size,
        "to_fetch": plan.to_fetch,
        "files": [
            {
                "repo": file.wanted.repo, "file": file.wanted.file, "size": file.size, "held": file.held,
                "here": str(file.cached) if file.cached else None, "pinned": file.wanted.pinned,
            }
            for file in plan.files
        ],
        "notices": list(plan.notices),
    }  # fmt: skip


def _conclude(plan: DownloadPlan, paths: Sequence[Path], registry: Registry, as_json: bool) -> None:
    """Reads what arrived and says whether it holds what it promised, and how to use it."""
    from edgespec.models.aftercheck import examine

    pair = plan.pair
    count = len(pair.target.parts) if pair and pair.target else len(paths)
    draft = paths[count] if len(paths) > count else None
    found: Findings = examine(paths[0], draft, registry.defaults.n_ctx, pair)
    if as_json:
        done = plan_object(plan) | {
            "target": str(paths[0]), "draft": str(draft) if draft else None, "needs": found.estimate.total,
            "problem": found.problem.message if found.problem else None,
        }  # fmt: skip
        print_json(done)
    for sentence in found.good:
        say(sentence)
    if found.problem is not None:
        raise found.problem
    if found.other_kind is not None:
        say(f"{paths[0].name} is {found.other_kind}, not a model to chat with.")
    elif not as_json:
        flag = "--pair" if pair is not None and pair.draft is not None else "--model"
        click.echo(f"Ready: edgespec chat {flag} {plan.title}")
