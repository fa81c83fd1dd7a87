"""`edgespec doctor`: what works here, what does not, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from edgespec.cli.options import some_options
from edgespec.cli.output import print_json

if TYPE_CHECKING:
    from edgespec.finding import Finding

MARKS = {"good": "ok", "note": "note", "warning": "WARN", "broken": "FAIL"}


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
@click.option("--quick", is_flag=True, help="Do not run the demo model.")
@click.option("--costs", is_flag=True, help="Show instead what passes and draft steps cost with a set of models here.")
@click.option("--measure", is_flag=True, help="With --costs: load the models and measure anew; ten seconds or so.")
@some_options(
    "model", "draft", "pair", "ctx", "gpu_layers", "draft_ctx", "draft_cache_type", "draft_gpu_layers", "threads",
    "cache_type_k", "cache_type_v", "flash_attention", "kernels", "safe_mode",
)  # fmt: skip
def command(as_json: bool, quick: bool, costs: bool, measure: bool, **flags: Any) -> int:
    """Look at this machine and this installation, and say what to do about what is wrong.

    The exit code is 1 if something is broken, also where everything else could still be looked at.

    With --costs: what is known about the models that a chat would load, or those that the options name. What a pass
    costs depends on all of these options; what was learned is kept for each way to load apart.
    """
    if costs:
        from edgespec.cli.doctor_costs import show_costs

        if quick:
            raise click.UsageError("--quick leaves out the demo model, which --costs does not run; give one.")
        return show_costs(flags, measure=measure, as_json=as_json)
    refuse_without_costs({**flags, "measure": measure or None})
    return examine(as_json=as_json, measure=not quick)


def refuse_without_costs(flags: dict[str, Any]) -> None:
    """Options that would have no effect are wrong usage."""
    given = next((name for name, value in flags.items() if value is not None), None)
    if given is not None:
        raise click.UsageError(f"--{given.replace('_', '-')} belongs to --costs.")


def examine(*, as_json: bool, measure: bool) -> int:
    """Every finding as soon as it is made; the exit code."""
    from edgespec.diagnosis import diagnose

    found: list[Finding] = []
    for finding in diagnose(measure=measure):
        found.append(finding)
        if not as_json:
            show(finding)
    broken = any(finding.status == "broken" for finding in found)
    if as_json:
        print_json({"ok": not broken, "findings": [as_object(finding) for finding in found]})
    return 1 if broken else 0


def show(finding: Finding) -> None:
    """One finding: mark, name, what was found; below it what to do."""
    from edgespec.terminal import printable

    click.echo(f"{MARKS[finding.status]:>4}  {finding.name:12}  {printable(finding.value)}")
    if finding.advice:
        click.echo(f"{'':20}-> {printable(finding.advice)}")


def as_object(finding: Finding) -> dict[str, object]:
    """One finding as JSON."""
    return {
        "name": finding.name, "status": str(finding.status), "value": finding.value, "advice": finding.advice,
        "facts": dict(finding.facts),
    }  # fmt: skip
