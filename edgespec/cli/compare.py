"""`edgespec compare`: the same prompts through several modes, and what that says."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

import click

from edgespec.cli.compare_progress import shown
from edgespec.cli.options import Plan, make_plan, model_options, open_engine
from edgespec.cli.output import cancel_on_interrupt, print_json, say

if TYPE_CHECKING:
    from edgespec.compare import CompareDone, ComparePlan
    from edgespec.comparison import Comparison
    from edgespec.contestants import Contestant
    from edgespec.engine.client import Engine
    from edgespec.prompts import Prompt

CANCELLED = 130
MAX_TOKENS = 128
"""Of a reply, unless the user says otherwise: enough for a speed, and a set of prompts stays a matter of minutes."""

SUFFIXES = (".json", ".md", ".txt")
PIPE_WIDTH = 120
"""Columns of a table that does not go to a terminal, unless COLUMNS says otherwise."""


@click.command("compare")
@click.option(
    "--modes",
    metavar="MODE,MODE,...",
    help="plain, lookup, lookup:N, draft, draft:N, auto; N is the longest draft. Default: every mode that can run.",
)
@click.option(
    "--prompts", "prompt_file", metavar="FILE", help="Prompts from a TOML file, or blocks between blank lines."
)
@click.option(
    "--prompt", "texts", metavar="TEXT", multiple=True, help="A prompt of your own. May be given several times."
)
@click.option("--only", metavar="ID", multiple=True, help="Only the prompt with this id. May be given several times.")
@click.option(
    "--repeats", type=click.IntRange(1, 1000), default=3, show_default=True, help="Runs of each mode and prompt."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown instead of tables.")
@click.option("--costs", is_flag=True, help="Also show what passes of several tokens cost here; needs mode auto.")
@click.option("--trace", is_flag=True, help="In JSON: add the text, tokens and rounds of every run.")
@click.option("--output", metavar="FILE", help="Also write the result to FILE: .json, .md or .txt.")
@model_options
def command(
    modes: str | None,
    prompt_file: str | None,
    texts: tuple[str, ...],
    only: tuple[str, ...],
    repeats: int,
    as_json: bool,
    as_markdown: bool,
    costs: bool,
    trace: bool,
    output: str | None,
    **flags: Any,
) -> int:
    """Measure modes against each other on this machine: each alone, from empty caches, in turns.

    The built-in prompts are eight kinds of work: code-edit, new-code, story, summary, json, list, translation,
    arithmetic. Speeds are medians with their range; every ratio compares two runs of the same repeat.
    """
    if as_json and as_markdown:
        raise click.UsageError("--json and --markdown are two ways to print; give one.")
    path = check_output(output)
    if trace and not as_json and (path is None or path.suffix != ".json"):
        raise click.UsageError("--trace adds to JSON; give --json or an --output that ends in .json.")
    prompts = choose_prompts(prompt_file, texts, only)
    plan = make_plan({**flags, "mode": "plain"})
    contestants = parse_modes(modes, plan.generate.draft_length)
    if costs and contestants is not None and all(contestant.name != "auto" for contestant in contestants):
        raise click.UsageError("--costs shows what mode auto knows; name auto among the --modes.")
    engine, plan = open_engine(plan)
    with engine:
        done = measure(engine, compare_plan(engine, plan, prompts, contestants, repeats), plan)
    if path is not None:
        write_file(path, done.comparison, costs=costs, trace=trace)
    show(done.comparison, as_json=as_json, as_markdown=as_markdown, costs=costs, trace=trace)
    if done.error is not None:
        raise done.error
    return 0 if done.comparison.complete else CANCELLED


def adapt_options(made: click.Command) -> None:
    """The shared options as they are here: --modes takes the place of --mode, and replies are short by default."""
    made.params = [param for param in made.params if param.name != "mode"]
    for param in made.params:
        if isinstance(param, click.Option) and param.name == "max_tokens":
            param.help = f"Longest reply. [default: {MAX_TOKENS}]"


adapt_options(command)


# Before


def check_output(name: str | None) -> Path | None:
    """Where the result is to go, refused before anything is measured if that cannot work."""
    if name is None:
        return None
    path = Path(name)
    if path.suffix not in SUFFIXES:
        raise click.UsageError(f"--output must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}, got {name!r}.")
    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise click.UsageError(f"--output {name}: no file can be written there.")
    return path


def choose_prompts(file: str | None, texts: tuple[str, ...], only: tuple[str, ...]) -> tuple[Prompt, ...]:
    """The user's own prompts, or the built-in ones; of these those that are wanted."""
    from edgespec.chat import refuse_blank
    from edgespec.prompts import built_in_prompts, own_prompts, read_prompts, refuse_twins, select

    for text in texts:
        refuse_blank(text)
    given = (*(read_prompts(file) if file is not None else ()), *own_prompts(texts))
    refuse_twins(given)
    prompts = given or built_in_prompts()
    return select(prompts, only) if only else prompts


def parse_modes(text: str | None, draft_length: int) -> tuple[Contestant, ...] | None:
    """What `--modes` says; None if it is not given."""
    from edgespec.contestants import parse_contestant
    from edgespec.errors import SettingsError

    if text is None:
        return None
    try:
        return tuple(parse_contestant(part, draft_length) for part in text.split(","))
    except SettingsError as error:
        raise click.BadParameter(f"{error.message} {error.hint}", param_hint="--modes") from None


def compare_plan(
    engine: Engine, plan: Plan, prompts: tuple[Prompt, ...], contestants: tuple[Contestant, ...] | None, repeats: int
) -> ComparePlan:
    """The plan in the words of the measuring code."""
    from edgespec.compare import ComparePlan
    from edgespec.contestants import default_contestants

    options = replace(plan.generate, max_tokens=plan.generate.max_tokens or MAX_TOKENS)
    return ComparePlan(
        prompts=prompts,
        contestants=contestants or default_contestants(engine.loaded, options.draft_length),
        repeats=repeats,
        options=options,
        system=plan.system,
        allow_fallback=plan.allow_fallback,
    )


# Meanwhile


def measure(engine: Engine, wanted: ComparePlan, plan: Plan) -> CompareDone:
    """Measure, with progress on stderr; the first Ctrl-C ends it with what there is."""
    from edgespec.compare import CompareDone, compare

    pressed = False

    def cancel() -> None:
        nonlocal pressed
        pressed = True
        engine.cancel()

    for notice in plan.notices:
        say(notice)
    with cancel_on_interrupt(cancel):
        for event in shown(compare(engine, wanted, cancelled=lambda: pressed), (*plan.told, *plan.notices)):
            if isinstance(event, CompareDone):
                return event
    raise RuntimeError("the comparison ended without a last event")


# Afterwards


def show(comparison: Comparison, *, as_json: bool, as_markdown: bool, costs: bool, trace: bool) -> None:
    """The result on stdout."""
    from edgespec.report import to_markdown, to_object

    if as_json:
        print_json(to_object(comparison, trace=trace))
    elif not comparison.runs:
        say("Nothing was measured.")
    elif as_markdown:
        click.echo(to_markdown(comparison, costs=costs), nl=False)
    else:
        if sys.stdout.isatty() and sys.stderr.isatty():
            comparison = replace(comparison, notices=())  # they stand above it already
        draw(comparison, costs=costs)


def draw(comparison: Comparison, file: TextIO | None = None, *, costs: bool) -> None:
    """Tables for a terminal, or as plain text of a fixed width without the blanks that rich leaves at line ends."""
    from rich.console import Console

    from edgespec.report import renderables

    console = Console(highlight=False)
    if file is None and console.is_terminal:
        for part in renderables(comparison, costs=costs):
            console.print(part, markup=False)
        return
    width = PIPE_WIDTH if file is not None else shutil.get_terminal_size((PIPE_WIDTH, 0)).columns
    plain = Console(file=io.StringIO(), highlight=False, width=width, color_system=None)
    with plain.capture() as captured:
        for part in renderables(comparison, costs=costs):
            plain.print(part, markup=False)
    stream = sys.stdout if file is None else file
    stream.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def write_file(path: Path, comparison: Comparison, *, costs: bool, trace: bool) -> None:
    """The result as a file, whole or not at all."""
    from edgespec.report import to_markdown, to_object

    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, suffix=path.suffix, delete=False) as file:
        try:
            if path.suffix == ".json":
                json.dump(to_object(comparison, trace=trace), file, indent=1, allow_nan=False)
                file.write("\n")
            elif path.suffix == ".md":
                file.write(to_markdown(comparison, costs=costs))
            else:
                draw(comparison, cast(TextIO, file), costs=costs)
            file.close()
            os.chmod(file.name, 0o644)
            os.replace(file.name, path)
        except BaseException:
            file.close()
            Path(file.name).unlink(missing_ok=True)
            raise
