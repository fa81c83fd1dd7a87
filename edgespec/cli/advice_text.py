"""Advice and curves as text, JSON and a picture."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from edgespec.advice import Advice, Chance, Costs
    from edgespec.cli.options import Plan


def show(plan: Plan, found: Sequence[Advice]) -> None:
    """Advice as text: in full for one kind, a line each for several."""
    from edgespec.terminal import printable

    names = [Path(path).name for path in (plan.load.target, plan.load.draft) if path is not None]
    click.echo(printable(" with ".join(names) + (" drafting" if len(names) > 1 else "")))
    click.echo("")
    for line in one(found[0]) if len(found) == 1 else several(found):
        click.echo(fitting(printable(line)))


def fitting(text: str) -> str:
    """A line that a terminal would break in the middle of a word, broken between words; in a pipe a line is a line."""
    width = shutil.get_terminal_size().columns
    if not sys.stdout.isatty() or len(text) <= width:
        return text
    return "\n".join(textwrap.wrap(text, max(20, width), break_long_words=False, break_on_hyphens=False))


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
    lines = [f"kind        {'do':31}  tokens a pass  speed-up"]
    for advice in found:
        best = advice.best
        lines.append(f"{advice.case.work.name:10}  {flags_of(advice):31}  {best.tokens:13.2f}  {best.speedup:8.2f}")
    against = dict.fromkeys(sentence for advice in found for sentence in advice.against)
    lines += ["", *(f"Against it: {sentence}" for sentence in against)]
    return [*lines, costs_text(found[0].case.costs), "`edgespec advise KIND` explains one of them.", AUTO]


def flags_of(advice: Advice) -> str:
    """The advice as options."""
    best = advice.best
    return f"--mode {best.mode}" + (f" --draft-length {best.length}" if best.length else "")


def grounds(advice: Advice) -> list[str]:
    """Where every number comes from."""
    from edgespec.advice import Source
    from edgespec.evidence import ENOUGH

    case = advice.case
    copies = case.lookup
    lines = [
        costs_text(case.costs),
        f"Copies: {copies.alpha:.0%} right ({origin(copies)}), in {copies.share:.0%} of the passes "
        f"({copies.share_source}).",
    ]
    if case.draft is not None:
        lines.append(f"Draft model: {case.draft.alpha:.0%} of its tokens right ({origin(case.draft)}).")
    if not (case.lookup.examined and (case.draft is None or case.draft.examined)):
        lines.append(
            f"Fewer than {ENOUGH} tokens were examined, so a rate was assumed: longer replies (--max-tokens) say more."
            if case.costs.source is Source.MEASURED
            else "`--measure` replaces what is assumed."
        )
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
    click.echo(fitting(caption(costs, "Filled", "Hollow")))


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
