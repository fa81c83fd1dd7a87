"""What passes cost here, as it was learned in earlier replies or measured on purpose, read from what is kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from edgespec.advice import Costs, Source
from edgespec.decoding.cost import SMALLEST_BUCKET, Curve
from edgespec.engine.knowledge import Knowledge, knowledge_path
from edgespec.engine.messages import LoadOptions


@dataclass(frozen=True, slots=True)
class Learned:
    """What is known about a set of models on this machine.

    Attributes:
        file: where it is kept.
        updated: when it was last written, local time.
        passes: how many passes were timed on purpose; the rounds of replies come on top.
        plain_seconds: a plain step.
        step: a draft step, in plain steps.
        prompt_token: a token that the draft model only reads, in draft steps.
        curves: longest context, and v(n) there for the widths that were measured.
    """

    file: Path
    updated: datetime
    passes: int
    plain_seconds: float
    step: float
    prompt_token: float
    curves: tuple[tuple[int, tuple[tuple[int, float], ...]], ...]

    @property
    def costs(self) -> Costs:
        """The same for short contexts, as advice and curves take it."""
        return Costs(self.curves[0][1], self.step, self.plain_seconds, Source.STORED)


def learned(options: LoadOptions, threads: int) -> Learned | None:
    """What is kept for these models, loaded in this way; None if nothing was measured yet."""
    file = knowledge_path(options, threads)
    costs = Knowledge.load(file).costs
    if not costs.calibrated or costs.unit is None:
        return None
    kept = costs.to_json()["curves"]
    curves = [(SMALLEST_BUCKET << int(bucket), Curve.from_json(curve).points()) for bucket, curve in kept.items()]
    updated = datetime.fromtimestamp(file.stat().st_mtime).astimezone()
    return Learned(file, updated, costs.measurements, costs.unit, costs.step, costs.prompt_token, tuple(sorted(curves)))
