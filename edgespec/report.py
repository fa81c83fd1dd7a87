"""A comparison as people and programs read it: tables for the terminal, Markdown, JSON, all from the same value.

Model and user text never becomes markup here, nor anything that steers a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from edgespec.comparison import Comparison, Overall, Run, Score
from edgespec.conclusion import Spread
from edgespec.report_words import (
    COLUMNS,
    cells,
    cost_lines,
    findings,
    has_matrix,
    heading,
    overall_findings,
    ratio_matrix,
    title,
)
from edgespec.terminal import printable

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

    from edgespec.decoding.auto_report import AutoReport

FORMAT = 1
GAP = 2
"""Blanks between two columns."""


# Terminal


def renderables(comparison: Comparison, *, costs: bool = False) -> list[RenderableType]:
    """For a rich console, in order; with `costs` also what passes cost here."""
    from rich.text import Text

    parts: list[RenderableType] = [Text(printable("\n".join(heading(comparison)))), Text()]
    for prompt in comparison.prompts:
        if scores := comparison.scores(prompt.id):
            parts += [Text(title(comparison, prompt.id), style="bold"), table(COLUMNS, map(cells, scores))]
            parts += [bullets(findings(comparison, prompt.id)), Text()]
    if has_matrix(comparison):
        parts += [WideTable(*ratio_matrix(comparison)), Text()]
    if costs and comparison.costs is not None:
        heads, lines, sentence = cost_lines(comparison.costs)
        parts += [table(heads, lines), Text(sentence), Text()]
    return [*parts, bullets(overall_findings(comparison))]


def table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> RenderableType:
    """Lines of cells; the first column is text, the others are figures."""
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False)
    for number, head in enumerate(heads):
        grid.add_column(Text(head), justify="right" if number else "left", overflow="fold")
    for line in lines:
        grid.add_row(*map(Text, line))
    return grid


class WideTable:
    """A table with any number of columns: what does not fit beside the others stands below them, with the first column
    again, so that no figure is cut in two."""

    def __init__(self, heads: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
        self._rows = [tuple(heads), *map(tuple, lines)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        for number, columns in enumerate(self._blocks(options.max_width)):
            if number:
                yield Text()
            heads, *lines = ([row[column] for column in columns] for row in self._rows)
            yield table(heads, lines)

    def _blocks(self, width: int) -> Iterator[list[int]]:
        """Columns that fit side by side, at least one beside the first."""
        from rich.cells import cell_len

        widths = [max(map(cell_len, column)) + GAP for column in zip(*self._rows, strict=True)]
        block, used = [0], widths[0]
        for number, needed in enumerate(widths[1:], start=1):
            if used + needed - GAP > width and len(block) > 1:
                yield block
                block, used = [0], widths[0]
            block.append(number)
            used += needed
        yield block


def bullets(sentences: Iterable[str]) -> RenderableType:
    """Sentences below each other, each behind a dot."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    for sentence in sentences:
        grid.add_row(Text("·"), Text(printable(sentence)))
    return grid


# Markdown


def to_markdown(comparison: Comparison, *, costs: bool = False) -> str:
    """The comparison as a Markdown page; with `costs` also what passes cost here."""
    lines = ["# Modes compared", "", *(f"- {_escape(line)}" for line in heading(comparison))]
    for prompt in comparison.prompts:
        if scores := comparison.scores(prompt.id):
            lines += ["", f"## {_escape(title(comparison, prompt.id))}", "", *_grid(COLUMNS, map(cells, scores))]
            lines += ["", *(f"- {_escape(sentence)}" for sentence in findings(comparison, prompt.id))]
    if costs and comparison.costs is not None:
        heads, costs_of, sentence = cost_lines(comparison.costs)
        lines += ["", "## What passes cost", "", *_grid(heads, costs_of), "", sentence]
    lines += ["", "## Overall", ""]
    if has_matrix(comparison):
        lines += [*_grid(*ratio_matrix(comparison)), ""]
    lines += [f"- {_escape(sentence)}" for sentence in overall_findings(comparison)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _grid(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> list[str]:
    rule = ["---", *["---:"] * (len(heads) - 1)]
    return [_row(map(_escape, heads)), _row(rule), *(_row(map(_escape, line)) for line in lines)]


def _row(texts: Iterable[str]) -> str:
    return "| " + " | ".join(texts) + " |"


def _escape(text: str) -> str:
    """The text as Markdown shows it literally, on one line."""
    return re.sub(r"([\\`*_\[\]<>|#&~])", r"\\\1", " ".join(printable(text).split()))


# JSON


def to_object(comparison: Comparison, *, trace: bool = False) -> dict[str, Any]:
    """The comparison as JSON holds it; with `trace` every run carries its text, tokens and rounds, for a replay."""
    loaded = comparison.loaded
    options = asdict(comparison.options)
    for name in ("mode", "draft_length", "fresh"):  # these are the runs' own
        del options[name]
    return {
        "format": FORMAT,
        "complete": comparison.complete,
        "model": {"name": loaded.target.name, "path": loaded.target.path},
        "draft": None if loaded.draft is None else {"name": loaded.draft.name, "path": loaded.draft.path},
        "library": loaded.library,
        "threads": loaded.threads,
        "safe_mode": loaded.safe_mode,
        "options": options,
        "system": comparison.system,
        "repeats": comparison.repeats,
        "machine": {
            "processor": comparison.processor,
            "before": asdict(comparison.before),
            "after": asdict(comparison.after),
            "used_by_others": comparison.others,
        },
        "prompts": [asdict(prompt) for prompt in comparison.prompts],
        "modes": [contestant.name for contestant in comparison.contestants],
        "results": [_score_object(score) for prompt in comparison.prompts for score in comparison.scores(prompt.id)],
        "overall": [_overall_object(entry) for entry in comparison.overall()],
        "costs": None if comparison.costs is None else _costs_object(comparison.costs),
        "notices": overall_findings(comparison),
        "runs": [_run_object(run, trace) for run in comparison.runs],
    }


def _score_object(score: Score) -> dict[str, Any]:
    stats = score.typical.stats
    return {
        "prompt": score.prompt,
        "mode": score.contestant.name,
        "decode_tokens_per_second": _spread_object(score.decode),
        "prompt_tokens_per_second": _spread_object(score.prefill),
        "seconds_to_first_token": _spread_object(score.first_token),
        "ratio_to_plain": _spread_object(score.ratio),
        "paired_ratios": list(score.ratios),
        "conclusion": None if score.conclusion is None else str(score.conclusion),
        "emitted_tokens": stats.emitted_tokens,
        "rounds": stats.rounds,
        "drafted": stats.drafted,
        "accepted": stats.accepted,
        "alpha": stats.alpha,
        "mean_acceptance_length": stats.mean_acceptance_length,
        "expected_same_text": score.expected_same,
        "same_text": score.same,
        "difference": None if score.difference is None else asdict(score.difference),
        "top_two_gap": None if score.gap is None else score.gap.gap,
        "text": score.typical.text,
    }


def _overall_object(entry: Overall) -> dict[str, Any]:
    return {
        "mode": entry.contestant.name,
        "prompts": entry.prompts,
        "ratio_to_plain": _spread_object(entry.ratio),
        "paired_ratios": list(entry.ratios),
        "conclusion": str(entry.conclusion),
    }


def _costs_object(report: AutoReport) -> dict[str, Any]:
    return {
        "plain_step_seconds": report.plain_step_seconds,
        "pass_cost": {str(width): cost for width, cost in report.curve},
        "draft_step_cost": report.draft_step,
    }


def _spread_object(spread: Spread | None) -> dict[str, float] | None:
    if spread is None:
        return None
    return {"median": spread.median, "min": spread.low, "max": spread.high, "repeats": spread.count}


def _run_object(run: Run, trace: bool) -> dict[str, Any]:
    made: dict[str, Any] = {
        "prompt": run.prompt,
        "mode": run.contestant,
        "repeat": run.repeat,
        "seed": run.seed,
        "finish_reason": str(run.reason),
        "used_by_others": run.others,
        "stats": asdict(run.stats),
        "auto": None if run.auto is None else asdict(run.auto),
    }
    if trace:
        made |= {"text": run.text, "tokens": list(run.tokens), "rounds_trace": [asdict(step) for step in run.steps]}
    return made
