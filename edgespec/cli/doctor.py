"""`edgespec doctor`: what works here, what does not, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from edgespec.cli.output import print_json

if TYPE_CHECKING:
    from edgespec.finding import Finding

MARKS = {"good": "ok", "note": "note", "warning": "WARN", "broken": "FAIL"}


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
@click.option("--quick", is_flag=True, help="Do not run the demo model.")
def command(as_json: bool, quick: bool) -> int:
    """Look at this machine and this installation, and say what to do about what is wrong.

    The exit code is 1 if something is broken, also where everything else could still be looked at.
    """
    from edgespec.diagnosis import diagnose

    found: list[Finding] = []
    for finding in diagnose(measure=not quick):
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
