"""`edgespec advise`: which mode and draft length pay, for a model, this machine and a kind of work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgespec.cli.advice_text import as_object, draw_curves, show, svg_of
from edgespec.cli.options import Plan, make_plan, open_engine, some_options
from edgespec.cli.output import print_json, say
from edgespec.surroundings import Here, as_loaded, look_around

if TYPE_CHECKING:
    from edgespec.advice import Advice, Chance
    from edgespec.engine.messages import LoadOptions
    from edgespec.evidence import Evidence
    from edgespec.work import Work

SVG_NAME = "curves.svg"
KINDS = ("chat", "code", "edit", "summary", "extraction", "creative")


@click.command("advise")
@click.argument("kind", type=click.Choice(KINDS), required=False)
@click.option(
    "--measure",
    "measuring",
    is_flag=True,
    help="Load the models and answer prompts of that kind to measure; a minute or so.",
)
@click.option("--plot", is_flag=True, help="Draw tokens a pass and speed-up by draft length, here and as an SVG file.")
@click.option("--svg", metavar="FILE", help="Where the SVG file goes. Default: curves.svg in the cache folder.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
@some_options(
    "model", "draft", "pair", "ctx", "gpu_layers", "draft_ctx", "draft_cache_type", "draft_gpu_layers", "threads",
    "temperature", "max_tokens", "cache_type_k", "cache_type_v", "flash_attention", "kernels", "safe_mode",
)  # fmt: skip
def command(kind: str | None, measuring: bool, plot: bool, svg: str | None, as_json: bool, **flags: Any) -> int:
    """Say which mode and draft length pay for a KIND of work, and why; without KIND, for each of them.

    What was measured counts: now with --measure, or in earlier replies in mode auto. The rest is assumed, and the
    output says so. --max-tokens is the length of the replies you expect.
    """
    from edgespec.work import WORKS

    if plot and as_json:
        raise click.UsageError("--plot draws and --json prints an object; give one.")
    path = check_svg(svg)
    plan = make_plan({**flags, "mode": "auto"})
    works = [WORKS[kind]] if kind else list(WORKS.values())
    here = look_around(plan.load)
    for notice in (*plan.notices, *here.notices):
        say(notice)
    found = advise_all(plan, here, works, measuring=measuring)
    costs = found[0].case.costs
    if path is not None or plot:
        say(f"The curves as a picture: {write_svg(path, svg_of(costs))}")
    if as_json:
        print_json({"model": plan.load.target, "draft": plan.load.draft, "advice": [as_object(one) for one in found]})
        return 0
    show(plan, found)
    if plot:
        draw_curves(costs)
    return 0


def check_svg(name: str | None) -> Path | None:
    """Where the picture is to go; refused before anything is measured if that cannot work."""
    if name is None:
        return None
    path = Path(name)
    if path.is_dir() or not path.parent.is_dir():
        raise click.UsageError(f"--svg {name}: no file can be written there.")
    return path


def write_svg(path: Path | None, picture: str) -> Path:
    """Write the picture where the user wants it, or into the cache folder; where it is."""
    from edgespec.engine.safemode import cache_folder

    if path is None:
        path = cache_folder() / SVG_NAME
        path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(picture, encoding="utf-8")
    return path.absolute()


# What is known


def advise_all(plan: Plan, here: Here, works: Sequence[Work], *, measuring: bool) -> list[Advice]:
    """Advice for every kind, by what is measured, else stored, else assumed."""
    from edgespec.advice import Case, advise, assumed_chances, assumed_costs

    temperature = plan.generate.sampling.temperature
    evidence = measure_all(plan, here, works) if measuring else [known(here.load, temperature)] * len(works)
    found = []
    for work, seen in zip(works, evidence, strict=True):
        lookup, draft = assumed_chances(work, temperature)
        costs = seen.costs or assumed_costs(here.draft_share, device=here.device)
        case = Case(
            work=work,
            costs=costs if plan.load.draft is not None else replace(costs, step=0.0),
            lookup=better(seen.lookup, lookup),
            draft=None if plan.load.draft is None else better(seen.draft, draft),
            draft_share=here.draft_share,
            temperature=temperature,
            reply_tokens=plan.generate.max_tokens,
            no_room=here.no_room,
        )
        found.append(advise(case))
    return found


def better(seen: Chance | None, assumed: Chance) -> Chance:
    """What was seen, as far as it says enough.

    A rate of a few tokens says nothing. Earlier replies were of all kinds, so they do not say how often there is
    something to copy in this one.
    """
    from edgespec.advice import Source
    from edgespec.evidence import ENOUGH

    if seen is None:
        return assumed
    if seen.share_source is Source.ASSUMED:
        seen = replace(seen, share=assumed.share)
    return seen if seen.examined >= ENOUGH else replace(seen, alpha=assumed.alpha, source=Source.ASSUMED, examined=0)


def known(load: LoadOptions, temperature: float) -> Evidence:
    """What earlier replies left behind."""
    from edgespec.evidence import stored

    return stored(*as_loaded(load), temperature)


def measure_all(plan: Plan, here: Here, works: Sequence[Work]) -> list[Evidence]:
    """Load the models and answer prompts of every kind."""
    from edgespec.diagnosis import threads_finding
    from edgespec.evidence import Evidence, measure
    from edgespec.hardware import processor

    if busy := threads_finding(processor()).advice:
        say(busy)
    load = replace(plan.load, draft=None) if here.no_room else plan.load
    engine, plan = open_engine(replace(plan, load=load, told=here.notices))
    found = []
    with engine:
        for work in works:
            for event in measure(engine, work, plan.generate):
                if isinstance(event, Evidence):
                    found.append(event)
                else:
                    say(event)
    return found
