"""What is known about a pair on this machine: from earlier replies, or measured now on prompts of a kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgespec.advice import Chance, Costs, Source
from edgespec.engine.client import describe
from edgespec.engine.messages import (
    EngineLost,
    Failed,
    GenerateOptions,
    GenerationDone,
    LoadOptions,
    Message,
    RoundDone,
)
from edgespec.errors import EngineError
from edgespec.prompts import built_in_prompts, select
from edgespec.types import Mode, Origin, Round
from edgespec.work import Work

if TYPE_CHECKING:
    from edgespec.decoding.auto_report import AutoReport
    from edgespec.engine.client import Engine

ENOUGH = 40
"""Examined tokens from which on a rate is worth more than an assumption."""
SHORTEST_MATCH = 3
"""Matches below this length are not used for drafts."""
MEASURED_LENGTH = 4
MEASURED_TOKENS = 96


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was measured; None where nothing was, or too little."""

    costs: Costs | None = None
    lookup: Chance | None = None
    draft: Chance | None = None


def stored(options: LoadOptions, threads: int, temperature: float) -> Evidence:
    """What earlier replies in mode auto left in the cache folder, for models loaded as `options` says."""
    from edgespec.engine.knowledge import Knowledge, knowledge_path

    knowledge = Knowledge.load(knowledge_path(options, threads))
    if not knowledge.costs.calibrated:
        return Evidence()
    costs = knowledge.costs
    seen = knowledge.acceptance(f"temperature {temperature:.1f}, likeliest")
    return Evidence(
        Costs(costs.curve.points(), costs.step, costs.unit, Source.STORED),
        _rate(counts for counts in seen.lookup.to_json()[SHORTEST_MATCH:]),
        _rate(seen.confidence.to_json()),
    )


def _rate(counts: Iterable[Sequence[float]]) -> Chance | None:
    """Hits over tries, if there are enough of them."""
    pairs = [(hits, tries) for hits, tries in counts]
    hits, tries = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
    return Chance(hits / tries, source=Source.STORED, examined=round(tries)) if tries >= ENOUGH else None


def measure(engine: Engine, work: Work, options: GenerateOptions) -> Iterator[str | Evidence]:
    """Answer prompts of this kind in every mode: names of what is being done, then what it showed.

    Raises the EdgeSpecError that says why a reply failed.
    """
    rounds: dict[Mode, list[Round]] = {Mode.LOOKUP: [], Mode.DRAFT: []}
    report: AutoReport | None = None
    modes = [mode for mode in (Mode.AUTO, Mode.LOOKUP, Mode.DRAFT) if engine.loaded.modes.get(mode) is None]
    tokens = min(options.max_tokens or MEASURED_TOKENS, MEASURED_TOKENS)
    for prompt in select(built_in_prompts(), work.prompts):
        for mode in modes:
            yield f"{work.name}: {prompt.title}, mode {mode}"
            asked = replace(options, mode=mode, draft_length=MEASURED_LENGTH, max_tokens=tokens, fresh=True)
            for event in engine.generate((Message("user", prompt.text),), asked):
                match event:
                    case RoundDone(round=done) if mode in rounds:
                        rounds[mode].append(done)
                    case GenerationDone(auto=auto) if auto is not None:
                        report = auto
                    case Failed():
                        raise event.to_error()
                    case EngineLost():
                        raise EngineError(f"{describe(event)} while it measured.")
    yield Evidence(_costs(report), observed(rounds[Mode.LOOKUP]), observed(rounds[Mode.DRAFT]))


def _costs(report: AutoReport | None) -> Costs | None:
    if report is None or len(report.curve) < 2:
        return None
    return Costs(report.curve, report.draft_step or 0.0, report.plain_step_seconds, Source.MEASURED)


def observed(rounds: Sequence[Round]) -> Chance | None:
    """The acceptance rate in these rounds, and the share of them that had a draft; None without rounds."""
    if not rounds:
        return None
    drafted = [round_ for round_ in rounds if round_.draft.tokens]
    accepted = sum(round_.verdict.accepted for round_ in drafted)
    examined = accepted + sum(round_.verdict.kind is Origin.CORRECTED for round_ in drafted)
    alpha = accepted / examined if examined else 0.0
    return Chance(alpha, len(drafted) / len(rounds), Source.MEASURED, Source.MEASURED, examined)
