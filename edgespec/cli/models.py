"""`edgespec models`: what is on this disk, what a file is, whether two go together, and taking them off again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgespec.cli.output import print_json, say

if TYPE_CHECKING:
    from edgespec.models.inventory import LocalModel

_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")


@click.group("models", invoke_without_command=True)
@click.option(
    "--dir", "folders", multiple=True, type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Look here too (repeatable).",
)  # fmt: skip
@_JSON
@click.pass_context
def command(context: click.Context, folders: tuple[Path, ...], as_json: bool) -> None:
    """List models on this disk; with a subcommand, look at one, check a pair, or remove.

    The Hugging Face cache, folders given by --dir, and the stores of Ollama and LM Studio are searched.
    """
    if context.invoked_subcommand is None:
        list_models(folders, as_json)
    elif folders or as_json:
        raise click.UsageError("--dir and --json belong to the list; give --json behind the subcommand.")


@command.command("list")
@click.option(
    "--dir", "folders", multiple=True, type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Look here too (repeatable).",
)  # fmt: skip
@_JSON
def list_command(folders: tuple[Path, ...], as_json: bool) -> None:
    """List models on this disk."""
    list_models(folders, as_json)


def list_models(folders: tuple[Path, ...], as_json: bool) -> None:
    """Prints everything found, and what cannot be used with the reason."""
    from edgespec.models.inventory import inventory

    found = inventory(folders=folders)
    if as_json:
        print_json({"models": [_object(model) for model in found]})
        return
    if not found:
        click.echo("No models were found. `edgespec download` lists what can be fetched.")
        return
    _print_models(found)


def _object(found: LocalModel) -> dict[str, Any]:
    header = found.model.header if found.model else None
    return {
        "spec": found.spec, "path": str(found.path), "source": found.source, "size": found.size,
        "architecture": header.architecture if header else None, "name": header.name if header else None,
        "quantisation": header.quantisation if header else None,
        "context_length": header.context_length if header else None, "head": header.head if header else None,
        "problem": found.problem,
    }  # fmt: skip


def _print_models(found: list[LocalModel]) -> None:
    from rich.console import Console
    from rich.table import Table

    from edgespec.models.units import format_size, printable

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("model", "size", "quantisation", "architecture", "context", "from"):
        table.add_column(name, justify="right" if name in ("size", "context") else "left", overflow="fold")
    for model in found:
        if model.model is not None:
            header = model.model.header
            table.add_row(
                printable(model.spec), format_size(model.size), header.quantisation, header.architecture,
                f"{header.context_length:,}" if header.context_length else "?", model.source,
            )  # fmt: skip
    console = Console(markup=False, highlight=False, width=None if sys.stdout.isatty() else 160)
    console.print(table)
    for model in found:
        if model.problem is not None:
            click.echo(f"Unusable: {printable(model.spec)}: {model.problem}")


@command.command("inspect")
@click.argument("model")
@click.option("--ctx", default=4096, type=click.IntRange(1), show_default=True, help="Context for the memory needed.")
@_JSON
def inspect_command(model: str, ctx: int, as_json: bool) -> None:
    """Say what a model file is: architecture, quantisation, vocabulary, head, memory needed."""
    from edgespec.models.description import describe, in_words
    from edgespec.models.gguf import check_gguf
    from edgespec.models.resolve import resolve

    found = describe(check_gguf(resolve(model).target), ctx)
    if as_json:
        print_json(found)
        return
    width = max(map(len, found))
    for name, value in in_words(found):
        click.echo(f"{name:{width}}  {value}")


@command.command("check")
@click.argument("target")
@click.argument("draft")
@click.option("--ctx", default=4096, type=click.IntRange(1), show_default=True, help="Context for the memory needed.")
@_JSON
def check_command(target: str, draft: str, ctx: int, as_json: bool) -> None:
    """Check whether DRAFT can draft for TARGET, and whether both fit."""
    from edgespec.errors import PairError
    from edgespec.hardware import machine
    from edgespec.models.aftercheck import examine, why_not
    from edgespec.models.fit import Setup, Verdict, remedies, verdict
    from edgespec.models.registry import load_registry
    from edgespec.models.resolve import resolve
    from edgespec.models.shape import shape_of
    from edgespec.models.units import format_size

    found = examine(resolve(target).target, resolve(draft).target, ctx)
    if found.draft is None:
        raise click.UsageError("A pair needs two models.")
    here = machine()
    fits = verdict(found.estimate, here)
    share = found.draft.size / max(1, found.target.size)
    reason = why_not(load_registry(), found.target, found.draft) if found.problem else None
    if as_json:
        print_json(
            {
                "pair": found.problem is None, "problem": found.problem.message if found.problem else None,
                "known_reason": reason, "needs": found.estimate.total, "fits": str(fits), "draft_share": share,
            }
        )  # fmt: skip
    if found.problem is not None:
        hint = f"Known: {reason}. {found.problem.hint}" if reason else found.problem.hint
        raise PairError(found.problem.message, hint)
    if as_json:
        return
    click.echo(f"{found.draft.path.name} can draft for {found.target.path.name}.")
    for sentence in found.good:
        click.echo(sentence)
    if share > 1 / 8:
        click.echo(f"The draft model has {share:.0%} of the target's size; drafting rarely pays above 13 %.")
    click.echo(f"Fits this machine ({format_size(here.memory)}): {fits}.")
    if fits is Verdict.NO:
        shapes = shape_of(found.target.header, found.target.weight_bytes), shape_of(found.draft.header)
        for remedy in remedies(*shapes, Setup(n_ctx=ctx), here):
            click.echo(f"  {remedy.sentence}")


@command.command("remove")
@click.argument("what", metavar="PAIR | USER/REPO:QUANT | USER/REPO/FILE.gguf")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Say what would go and stop.")
@_JSON
def remove_command(what: str, yes: bool, dry_run: bool, as_json: bool) -> None:
    """Remove a pair or a model from the cache, but no file that another pair here uses."""
    from edgespec.models.cache import cache_root
    from edgespec.models.registry import load_registry
    from edgespec.models.removal import plan_removal, remove
    from edgespec.models.units import format_size

    root = cache_root()
    plan = plan_removal(what, load_registry(), root)
    for path in plan.paths:
        say(f"Remove {path}")
    for name, user in plan.kept:
        say(f"Keep {name}: the pair {user} uses it.")
    if plan.paths and not dry_run:
        say("Other programs share this cache: they lose these files too.")
        if not yes and not click.confirm(f"Free {format_size(plan.freed)}?", default=False, err=True):
            raise click.Abort
        remove(plan, root)
    if as_json:
        print_json(
            {
                "removed": [str(path) for path in plan.paths],
                "kept": dict(plan.kept),
                "freed": plan.freed,
                "dry_run": dry_run,
            }
        )
    elif not dry_run:
        click.echo(f"Freed {format_size(plan.freed)}." if plan.paths else "Nothing was removed.")
