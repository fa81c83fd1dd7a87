"""What a comparison says, in words and cells: the same for terminal, Markdown and app."""

from __future__ import annotations

import json

from edgespec import conclusion, conditions
from edgespec.comparison import Comparison, Overall, Score
from edgespec.conclusion import FEWEST_FOR_RATE, FEWEST_REPEATS, Conclusion, Spread
from edgespec.contestants import PLAIN
from edgespec.decoding.auto_report import AutoReport
from edgespec.terminal import printable

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
        f"Library: {loaded.library}, {_count(loaded.threads, 'thread')}{safe}",
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
        if score.typical.auto is not None:
            found.append(_auto(score.typical.auto))
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
    if any(run.auto is not None for run in comparison.runs):
        found.append("auto keeps what it learnt about machine and models between runs, as it does in daily use.")
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
            lines.append([one_line(prompt.id), *map(_ratio, scores)])
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


def _auto(report: AutoReport) -> str:
    uses = ", ".join(
        f"{use.source} in {_count(use.rounds, 'round')}"
        + (f" ({use.accepted}/{use.drafted} accepted)" if use.drafted else "")
        for use in report.uses
    )
    predicted = "" if report.predicted_speedup is None else f"; {report.predicted_speedup:.2f}x plain was predicted"
    return f"auto used {uses or 'nothing'}{predicted}."


def cost_lines(report: AutoReport) -> tuple[list[str], list[list[str]], str]:
    """What passes cost here, as a table (heads, lines) and a sentence."""
    heads = ["tokens in a pass", *(str(width) for width, _ in report.curve)]
    lines = [
        ["cost, in plain steps", *(f"{cost:.2f}" for _, cost in report.curve)],
        ["per token", *(f"{cost / width:.2f}" for width, cost in report.curve)],
    ]
    parts = []
    if report.plain_step_seconds is not None:
        parts.append(f"A plain step takes {1000 * report.plain_step_seconds:.1f} ms.")
    if report.draft_step is not None:
        parts.append(f"A draft step costs {report.draft_step:.2f} plain steps.")
    return heads, lines, " ".join(parts)


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


def title(comparison: Comparison, prompt: str) -> str:
    """A prompt's heading: id, title, kind."""
    entry = next(entry for entry in comparison.prompts if entry.id == prompt)
    return one_line(f"{entry.id}: {entry.title} ({entry.kind})")


def one_line(text: str) -> str:
    """The text without line breaks and without power over a terminal."""
    return " ".join(printable(text).split())


def has_matrix(comparison: Comparison) -> bool:
    """Is there more than one prompt to sum up?"""
    return len(comparison.prompts) > 1 and bool(comparison.overall())
