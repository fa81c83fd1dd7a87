"""A comparison as people and programs read it: tables for the terminal, Markdown, JSON, all from the same value.

Model and user text never becomes markup here, nor anything that steers a terminal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from edgespec import conclusion, conditions
from edgespec.comparison import Comparison, Overall, Run, Score
from edgespec.conclusion import FEWEST_REPEATS, Conclusion, Spread
from edgespec.contestants import PLAIN
from edgespec.terminal import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

FORMAT = 1
FEWEST_FOR_RATE = 20
"""Below this many drafted tokens an acceptance rate says more than is known."""

SHORT_REPLY = 32
"""Replies with fewer tokens than this say little about speed."""

_OPEN = (Conclusion.UNCLEAR, Conclusion.TOO_FEW)

# Short heads: a line fits 90 columns, and at 80 only the ranges move to a second line.
COLUMNS = (
    "mode",
    "tok/s (min..max)",
    "vs plain (min..max)",
    "accepted",
    "α",
    "τ",
    "passes",
    "first",
    "same",
)


# Words and cells, shared by terminal and Markdown


def heading(comparison: Comparison) -> list[str]:
    """What was measured, with what, on which machine: one line each."""
    loaded, options = comparison.loaded, comparison.options
    models = f"{loaded.target.name} ({loaded.target.path})"
    if loaded.draft is not None:
        models += f", draft model {loaded.draft.name} ({loaded.draft.path})"
    sampling = options.sampling
    manner = "greedy" if sampling.temperature == 0 else f"temperature {sampling.temperature:g}, seed {sampling.seed}"
    safe = ", safe mode" if loaded.safe_mode else ""
    return [
        f"Models: {models}",
        f"Library: {loaded.library}, {loaded.threads} threads{safe}",
        f"Replies: {manner}, up to {options.max_tokens} tokens, {_count(comparison.repeats, 'repeat')}, caches empty",
        f"Machine: {comparison.processor}",
        f"Before:  {conditions.in_words(comparison.before)} ({comparison.before.time})",
        f"After:   {conditions.in_words(comparison.after)} ({comparison.after.time})",
    ]


def cells(score: Score) -> tuple[str, ...]:
    """One contestant's line, under COLUMNS."""
    stats = score.typical.stats
    enough = stats.drafted >= FEWEST_FOR_RATE
    return (
        score.contestant.name,
        _spread(score.decode, 0 if score.decode is not None and score.decode.median >= 100 else 1),
        "1.00" if score.contestant == PLAIN else _spread(score.ratio, 2),
        f"{stats.accepted}/{stats.drafted}" if stats.drafted else "-",
        _number(stats.alpha if enough else None, 2),
        _number(stats.mean_acceptance_length, 2),
        str(stats.rounds),
        _seconds(score.first_token),
        _same(score),
    )


def findings(comparison: Comparison, prompt: str) -> list[str]:
    """What the figures of one prompt say, and where they say less than they seem to."""
    scores = comparison.scores(prompt)
    found = []
    for score in scores:
        if score.conclusion and score.conclusion is not Conclusion.TOO_FEW:
            found.append(conclusion.in_words(score.contestant.name, score.ratios, score.conclusion))
        found += _difference(score)
    if scores and (tokens := min(score.typical.stats.emitted_tokens for score in scores)) < SHORT_REPLY:
        found.append(f"The reply has only {_count(tokens, 'token')}: too short for its speed to say much.")
    return found


def overall_findings(comparison: Comparison) -> list[str]:
    """What all prompts together say, what went wrong, and what may have spoilt the figures."""
    overall = comparison.overall()
    found = []
    if any(entry.conclusion is Conclusion.TOO_FEW for entry in overall):
        found.append(f"Too few repeats to conclude anything; {FEWEST_REPEATS} or more show the noise.")
    elif len(comparison.prompts) > 1:
        found += [_overall(entry) for entry in overall]
        if any("?" in line for lines in ratio_matrix(comparison)[1] for line in lines[1:]):
            found.append("A question mark stands behind ratios whose repeats spread too widely to conclude anything.")
    if not comparison.complete:
        wanted = len(comparison.prompts) * len(comparison.contestants) * comparison.repeats
        found.append(f"Not complete: {len(comparison.runs)} of {wanted} runs were measured.")
    found += conditions.warnings(comparison.before, comparison.after, comparison.others)
    found += comparison.notices
    return found


def _overall(entry: Overall) -> str:
    where = "" if entry.prompts == 1 else f" over {entry.prompts} prompts (geometric mean)"
    return conclusion.in_words(f"{entry.contestant.name}{where}", entry.ratios, entry.conclusion)


def ratio_matrix(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Median ratios to plain, a line for each prompt and one for all of them; column heads, then lines.

    A ratio from which nothing can be concluded has a question mark behind it.
    """
    contestants = [contestant for contestant in comparison.contestants if contestant != PLAIN]
    lines = []
    for prompt in comparison.prompts:
        scores = [comparison.score(prompt.id, contestant) for contestant in contestants]
        if any(score is not None and score.ratio is not None for score in scores):
            lines.append([_one_line(prompt.id), *map(_ratio, scores)])
    means = {entry.contestant: entry for entry in comparison.overall()}
    lines.append(["geometric mean", *(_ratio(means.get(contestant)) for contestant in contestants)])
    return ["x plain", *(contestant.name for contestant in contestants)], lines


def _ratio(entry: Score | Overall | None) -> str:
    if entry is None or entry.ratio is None:
        return "-"
    return f"{entry.ratio.median:.2f}{'?' if entry.conclusion in _OPEN else ' '}"


def _difference(score: Score) -> list[str]:
    found = score.difference
    if found is None or not score.expected_same:
        return []
    name = score.contestant.name
    texts = f"{_quote(found.plain)} against {_quote(found.other)}"
    sentence = f"{name} leaves plain's text after {_count(found.position, 'token')}: {texts}."
    if score.gap is None:
        return [sentence]
    apart = f"the target's two best tokens are {score.gap.gap:.2g} apart there"
    verdict = "a tie that rounding decides" if score.gap.near_tie else "too much for a tie of rounding: report it"
    return [f"{sentence[:-1]}; {apart}, {verdict}."]


def _quote(text: str) -> str:
    return json.dumps(printable(text), ensure_ascii=False) if text else "the end of the reply"


def _same(score: Score) -> str:
    if score.contestant == PLAIN:
        return "-"
    if not score.expected_same:
        return "drawn"
    if score.same is None:
        return "?"
    if score.same:
        return "yes"
    return "tie" if score.gap is not None and score.gap.near_tie else "NO"


def _spread(spread: Spread | None, digits: int) -> str:
    if spread is None:
        return "-"
    if spread.count == 1:
        return f"{spread.median:.{digits}f}"
    return f"{spread.median:.{digits}f} ({spread.low:.{digits}f}..{spread.high:.{digits}f})"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _seconds(spread: Spread | None) -> str:
    if spread is None:
        return "-"
    return f"{spread.median:.2f} s" if spread.median >= 0.1 else f"{1000 * spread.median:.0f} ms"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number:,} {noun}s"


def _title(comparison: Comparison, prompt: str) -> str:
    entry = next(entry for entry in comparison.prompts if entry.id == prompt)
    return _one_line(f"{entry.id}: {entry.title} ({entry.kind})")


def _one_line(text: str) -> str:
    return " ".join(printable(text).split())


def _has_matrix(comparison: Comparison) -> bool:
    return len(comparison.prompts) > 1 and bool(comparison.overall())


# Terminal


def renderables(comparison: Comparison) -> list[RenderableType]:
    """For a rich console, in order."""
    from rich.text import Text

    parts: list[RenderableType] = [Text(printable("\n".join(heading(comparison)))), Text()]
    for prompt in comparison.prompts:
        if scores := comparison.scores(prompt.id):
            parts += [Text(_title(comparison, prompt.id), style="bold"), table(COLUMNS, map(cells, scores))]
            parts += [bullets(findings(comparison, prompt.id)), Text()]
    if _has_matrix(comparison):
        parts += [table(*ratio_matrix(comparison)), Text()]
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


def bullets(sentences: Iterable[str]) -> RenderableType:
    """Sentences below each other, each behind a dot."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    for sentence in sentences:
        grid.add_row(Text("·"), Text(printable(sentence)))
    return grid


# Markdown


def to_markdown(comparison: Comparison) -> str:
    """The comparison as a Markdown page."""
    lines = ["# Modes compared", "", *(f"- {_escape(line)}" for line in heading(comparison))]
    for prompt in comparison.prompts:
        if scores := comparison.scores(prompt.id):
            lines += ["", f"## {_escape(_title(comparison, prompt.id))}", "", *_grid(COLUMNS, map(cells, scores))]
            lines += ["", *(f"- {_escape(sentence)}" for sentence in findings(comparison, prompt.id))]
    lines += ["", "## Overall", ""]
    if _has_matrix(comparison):
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
    }
    if trace:
        made |= {"text": run.text, "tokens": list(run.tokens), "rounds_trace": [asdict(step) for step in run.steps]}
    return made
