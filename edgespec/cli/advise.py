"""`edgespec advise`: which mode and draft length pay, for a model, this machine and a kind of work."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgespec.cli.options import Plan, make_plan, open_engine, some_options
from edgespec.cli.output import print_json, say

if TYPE_CHECKING:
    from edgespec.advice import Advice, Chance, Costs
    from edgespec.engine.messages import LoadOptions
    from edgespec.evidence import Evidence
    from edgespec.work import Work

KINDS = ("chat", "code", "edit", "summary", "extraction", "creative")


@click.command("advise")
@click.argument("kind", type=click.Choice(KINDS), required=False)
@click.option("--measure", "measuring", is_flag=True, help="Load the models and measure, about a minute a kind.")
@click.option("--plot", is_flag=True, help="Draw tokens a pass and speed-up by draft length.")
@click.option("--svg", metavar="FILE", help="Write the same curves to an SVG file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
@some_options(
    "model", "draft", "pair", "ctx", "gpu_layers", "draft_ctx", "draft_cache_type", "draft_gpu_layers", "threads",
    "temperature", "max_tokens", "cache_type_k", "cache_type_v", "flash_attention", "safe_mode",
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
    if path is not None:
        path.write_text(svg_of(costs), encoding="utf-8")
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


# What is known


@dataclass(frozen=True, slots=True)
class Here:
    """These models on this machine, without loading them.

    Attributes:
        load: how they would be loaded, nothing left to decide.
        device: are layers on a graphics device?
        draft_share: weights of the draft model over those of the target.
        no_room: why there is no memory for the draft model, "" if there is.
    """

    load: LoadOptions
    device: bool
    draft_share: float | None
    no_room: str
    notices: tuple[str, ...]


def look_around(load: LoadOptions) -> Here:
    """Sizes, memory and devices. Raises ModelFileError, or ModelLoadError if the target alone does not fit."""
    from edgespec.errors import ModelLoadError
    from edgespec.hardware import LibraryFacts, ask_library, may_have_device, memory_bytes
    from edgespec.models.fit import Verdict
    from edgespec.placement import place_on, shapes

    library = ask_library() if may_have_device() else None
    devices = library.devices if isinstance(library, LibraryFacts) and library.gpu_offload else ()
    target, draft = shapes(load)
    memory, no_room = memory_bytes()[0], ""
    try:
        placed = place_on(load, target, draft, memory, devices)
        if placed.fits is Verdict.NO:
            no_room = placed.notices[-2]
    except ModelLoadError as error:
        if draft is None:
            raise
        no_room = error.message
    if no_room:
        placed = place_on(replace(load, draft=None), target, None, memory, devices)
    return Here(
        load=replace(placed.options, draft=load.draft),
        device=bool(devices) and placed.options.gpu_layers != 0,
        draft_share=None if draft is None else draft.weights / max(1, target.weights),
        no_room=no_room if draft is not None else "",
        notices=placed.notices,
    )


def advise_all(plan: Plan, here: Here, works: Sequence[Work], *, measuring: bool) -> list[Advice]:
    """Advice for every kind, by what is measured, else stored, else assumed."""
    from edgespec.advice import Case, advise, assumed_chances, assumed_costs

    temperature = plan.generate.sampling.temperature
    evidence = measure_all(plan, here, works) if measuring else [known(here.load, temperature)] * len(works)
    found = []
    for work, seen in zip(works, evidence, strict=True):
        lookup, draft = assumed_chances(work, temperature)
        case = Case(
            work=work,
            costs=seen.costs or assumed_costs(here.draft_share, device=here.device),
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
    """What was seen. Earlier replies were of all kinds, so how often text can be copied is still assumed for them."""
    from edgespec.advice import Source

    if seen is None:
        return assumed
    return replace(seen, share=assumed.share) if seen.source is Source.STORED else seen


def known(load: LoadOptions, temperature: float) -> Evidence:
    """What earlier replies left behind."""
    from edgespec.engine.safemode import SafeModeMemory
    from edgespec.evidence import stored
    from edgespec.llama.context import physical_cores

    safe = load.safe_mode or SafeModeMemory().applies()
    return stored(replace(load, safe_mode=safe), load.threads or physical_cores(), temperature)


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


# What is shown


def show(plan: Plan, found: Sequence[Advice]) -> None:
    """Advice as text: in full for one kind, a line each for several."""
    from edgespec.terminal import printable

    names = [Path(path).name for path in (plan.load.target, plan.load.draft) if path is not None]
    click.echo(printable(" with ".join(names) + (" drafting" if len(names) > 1 else "")))
    click.echo("")
    for line in one(found[0]) if len(found) == 1 else several(found):
        click.echo(printable(line))


def one(advice: Advice) -> list[str]:
    """Everything about one kind."""
    work = advice.case.work
    lines = [f"For {work.name} ({work.what}): {flags_of(advice)}", "", "          length  tokens a pass  speed-up"]
    for choice in advice.choices:
        lines.append(f"{choice.mode:8}  {choice.length:6}  {choice.tokens:13.2f}  {choice.speedup:8.2f}")
    lines += ["", *advice.why]
    lines += [f"Against it: {sentence}" for sentence in advice.against]
    lines += ["", *grounds(advice), "", AUTO]
    return lines


AUTO = "Mode auto, the default, goes by the same reckoning with what it measures, anew in every round."


def several(found: Sequence[Advice]) -> list[str]:
    """A line for each kind, and what holds for all."""
    lines = ["kind        do                             tokens a pass  speed-up"]
    for advice in found:
        best = advice.best
        lines.append(f"{advice.case.work.name:10}  {flags_of(advice):29}  {best.tokens:13.2f}  {best.speedup:8.2f}")
    lines += [""] + [f"Against it: {sentence}" for sentence in found[0].against]
    return [*lines, costs_text(found[0].case.costs), "`edgespec advise KIND` explains one of them.", AUTO]


def flags_of(advice: Advice) -> str:
    """The advice as options."""
    best = advice.best
    return f"--mode {best.mode}" + (f" --draft-length {best.length}" if best.length else "")


def grounds(advice: Advice) -> list[str]:
    """Where every number comes from."""
    from edgespec.advice import Source

    case = advice.case
    lines = [costs_text(case.costs)]
    share = ", their share of the passes is assumed" if case.lookup.source is Source.STORED else ""
    where = f"in {case.lookup.share:.0%} of the passes"
    lines.append(f"Copies: {case.lookup.alpha:.0%} right, {where} ({origin(case.lookup)}{share}).")
    if case.draft is not None:
        lines.append(f"Draft model: {case.draft.alpha:.0%} of its tokens right ({origin(case.draft)}).")
    if not (case.lookup.examined and (case.draft is None or case.draft.examined)):
        lines.append("`--measure` replaces what is assumed.")
    return lines


def origin(chance: Chance) -> str:
    """Where a rate comes from, with its denominator."""
    return f"{chance.source}, {chance.examined:,} tokens" if chance.examined else str(chance.source)


def costs_text(costs: Costs) -> str:
    """What passes cost."""
    v = costs.curve()
    text = f"Costs ({costs.source}): passes of 2, 4 and 8 tokens cost {v(2):.2f}, {v(4):.2f} and {v(8):.2f} plain steps"
    if costs.step:
        text += f", a draft step {costs.step:.2f}"
    return text + (f"; a plain step takes {1000 * costs.plain_seconds:.1f} ms." if costs.plain_seconds else ".")


def as_object(advice: Advice) -> dict[str, Any]:
    """Advice as JSON."""
    from dataclasses import asdict

    case = advice.case
    v = case.costs.curve()
    return {
        "kind": case.work.name,
        "mode": advice.best.mode,
        "draft_length": advice.best.length,
        "tokens_per_pass": advice.best.tokens,
        "predicted_speedup": advice.best.speedup,
        "choices": [asdict(choice) for choice in advice.choices],
        "why": advice.why,
        "against": advice.against,
        "costs": {
            "source": case.costs.source, "verify": {str(n): v(n) for n in range(1, 18)}, "draft_step": case.costs.step,
            "plain_step_seconds": case.costs.plain_seconds,
        },
        "lookup": asdict(case.lookup),
        "draft": None if case.draft is None else asdict(case.draft),
        "draft_share": case.draft_share,
        "temperature": case.temperature,
    }  # fmt: skip


def draw_curves(costs: Costs) -> None:
    """The curves in characters that this terminal has."""
    from edgespec.curves import draw, panels

    unicode = "utf" in (sys.stdout.encoding or "").lower()
    for panel in panels(costs):
        click.echo("")
        click.echo(draw(panel, unicode=unicode))
    click.echo("")
    click.echo(caption(costs, "Filled", "Hollow"))


def svg_of(costs: Costs) -> str:
    """The curves as a picture."""
    from edgespec.curves import panels
    from edgespec.curves_svg import to_svg

    title = "Speculative decoding: what a draft length brings, by acceptance rate"
    return to_svg(panels(costs), title, caption(costs, "Solid", "Dashed"))


def caption(costs: Costs, here: str, ideal: str) -> str:
    """What the curves mean."""
    made = f"a draft step costs {costs.step:.2f} plain steps" if costs.step else "drafts cost nothing to make"
    return f"{here}: this machine, costs {costs.source}. {ideal}: wide passes are free. In both {made}."
