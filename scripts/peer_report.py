"""What measurements of scripts/bench_peers.py add up to: ratios, means and tables. Pure arithmetic on values.

A ratio is formed within one repeat of one prompt, where both sides ran minutes apart at most, and the median over the
repeats is taken of these ratios: a machine that slows down in the course of a run slows both sides. A mean over prompts
is geometric.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peer_settings import AUTO, EDGESPEC, PLAIN, SERVER_NONE, Setting

from edgespec.conclusion import FEWEST_FOR_RATE

WIDE_SPREAD = 0.10
"""A middle half of the repeats wider than this, relative to its median, is too wide for small differences."""

APART = 20 * 60.0
"""Seconds: what lies further apart, because a run was interrupted, says little about each other."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One reply, or why there is none.

    Attributes:
        setting, prompt, repeat: which way to decode, which prompt, which time.
        failure: why there are no numbers; "" if there are.
        prompt_tokens: length of the prompt as this program counted it, 0 if it does not tell.
        tokens: length of the reply.
        rate: decode tokens per second by the program's own clock; the prompt's time is not in it.
        wall_rate: the same by the clock of whoever waited for it; None where the wait includes loading.
        drafted, accepted: draft tokens, None if the program does not tell.
        text: the reply.
        at: when it began, in seconds since 1970.
    """

    setting: str
    prompt: str
    repeat: int
    failure: str = ""
    prompt_tokens: int = 0
    tokens: int = 0
    rate: float = 0.0
    wall_rate: float | None = None
    drafted: int | None = None
    accepted: int | None = None
    text: str = ""
    at: float = 0.0

    @property
    def key(self) -> tuple[str, str, int]:
        return self.setting, self.prompt, self.repeat


class Results:
    """Measurements, ready to be asked. Those that failed are kept apart."""

    def __init__(self, measurements: Iterable[Measurement]) -> None:
        self.failures: dict[str, list[str]] = defaultdict(list)
        self._found: dict[tuple[str, str], dict[int, Measurement]] = defaultdict(dict)
        for m in measurements:
            if m.failure:
                self.failures[m.setting].append(m.failure)
            else:
                self._found[m.setting, m.prompt][m.repeat] = m

    def of(self, setting: str, prompt: str) -> list[Measurement]:
        return [m for _, m in sorted(self._found.get((setting, prompt), {}).items())]

    def rate(self, setting: str, prompt: str) -> float | None:
        """Median tokens per second."""
        rates = [m.rate for m in self.of(setting, prompt)]
        return statistics.median(rates) if rates else None

    def spread(self, setting: str, prompt: str) -> float | None:
        """Width of the middle half of the rates, relative to their median; None for fewer than three."""
        rates = [m.rate for m in self.of(setting, prompt)]
        if len(rates) < 3:
            return None
        low, _, high = statistics.quantiles(rates, n=4, method="inclusive")
        return (high - low) / statistics.median(rates)

    def ratio(self, setting: str, reference: str, prompt: str) -> float | None:
        """Median of the ratios of repeats that both have and made at about the same time."""
        mine, theirs = self._found.get((setting, prompt), {}), self._found.get((reference, prompt), {})
        ratios = [
            one.rate / other.rate
            for repeat, one in mine.items()
            if (other := theirs.get(repeat)) and other.rate > 0 and abs(one.at - other.at) <= APART
        ]
        return statistics.median(ratios) if ratios else None

    def best(self, settings: Iterable[str], prompt: str) -> str | None:
        """The fastest of these settings on this prompt, in hindsight."""
        rates = {name: rate for name in settings if (rate := self.rate(name, prompt)) is not None}
        return max(rates, key=lambda name: rates[name]) if rates else None

    def drafts(self, setting: str, prompts: Iterable[str]) -> tuple[int, int] | None:
        """Drafted and accepted over all of these prompts' repeats; None if the program does not tell."""
        known = [
            (m.drafted, m.accepted)
            for prompt in prompts
            for m in self.of(setting, prompt)
            if m.drafted is not None and m.accepted is not None
        ]
        return (sum(d for d, _ in known), sum(a for _, a in known)) if known else None

    def sameness(self, setting: str, prompt: str, reference: str = PLAIN) -> str:
        """Is the text the reference's? `same`, or the first character that differs."""
        mine, theirs = self.of(setting, prompt), self.of(reference, prompt)
        if not mine or not theirs:
            return ""
        places = [place for m in mine if (place := first_difference(m.text, theirs[0].text)) is not None]
        return f"differs from character {min(places)} on" if places else "same"


def first_difference(one: str, other: str) -> int | None:
    """Where two replies part, as far as the shorter goes: programs count the last token differently.

    White space at the end does not count, nor do the characters behind it: some programs strip it, and one may have
    stopped within a character.
    """
    one, other = one.rstrip("\ufffd \n\t\r"), other.rstrip("\ufffd \n\t\r")
    for at, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return at
    return None


def geometric_mean(values: Iterable[float | None]) -> float | None:
    """Of those that are known; None if none is."""
    known = [value for value in values if value is not None and value > 0]
    return math.exp(sum(map(math.log, known)) / len(known)) if known else None


@dataclass(frozen=True, slots=True)
class Contest:
    """One of ours against the best of theirs, prompt by prompt.

    Attributes:
        against: who.
        ratios: prompt: ratio, None where one side has no numbers.
        opponents: prompt: the setting that was their best.
    """

    against: str
    ratios: Mapping[str, float | None]
    opponents: Mapping[str, str | None]

    @property
    def mean(self) -> float | None:
        return geometric_mean(self.ratios.values())

    @property
    def worst(self) -> float | None:
        known = [ratio for ratio in self.ratios.values() if ratio is not None]
        return min(known) if known else None


def contest(results: Results, mine: str, against: str, theirs: Sequence[str], prompts: Sequence[str]) -> Contest:
    opponents = {prompt: results.best(theirs, prompt) for prompt in prompts}
    ratios = {
        prompt: results.ratio(mine, opponent, prompt) if opponent is not None else None
        for prompt, opponent in opponents.items()
    }
    return Contest(against, ratios, opponents)


def contests(results: Results, settings: Sequence[Setting], prompts: Sequence[str]) -> list[Contest]:
    """`auto` against plain, our own best fixed setting, every program's best, and the best of all programs."""
    fixed = [s.name for s in settings if s.program == EDGESPEC and s.method in ("lookup", "draft")]
    rounds = [("EdgeSpec plain", [PLAIN]), ("EdgeSpec's best fixed mode and length", fixed)]
    peers = [s for s in settings if s.program != EDGESPEC]
    for program in dict.fromkeys(s.program for s in peers):
        rounds.append((f"{program}, best setting", [s.name for s in peers if s.program == program]))
    rounds.append(("best setting of any peer", [s.name for s in peers]))
    found = [contest(results, AUTO, against, theirs, prompts) for against, theirs in rounds if theirs]
    return [c for c in found if c.mean is not None]


def same_length(results: Results, settings: Sequence[Setting], prompts: Sequence[str]) -> list[Contest]:
    """Our draft-model mode against every program's, at the same draft length."""
    ours = {s.length: s.name for s in settings if s.program == EDGESPEC and s.method == "draft"}
    pairs = [
        (ours[s.length], s) for s in settings if s.program != EDGESPEC and s.method == "draft" and s.length in ours
    ]
    found = [contest(results, mine, s.name, [s.name], prompts) for mine, s in pairs]
    return [c for c in found if c.mean is not None]


# Tables


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """As Markdown, the first column left, the others right."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, rule, *rows))


def number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def acceptance(drafts: tuple[int, int] | None) -> str:
    if drafts is None:
        return "–"
    drafted, accepted = drafts
    share = f" ({accepted / drafted:.0%})" if drafted >= FEWEST_FOR_RATE else ""
    return f"{accepted}/{drafted}{share}"


def markdown(record: Mapping[str, Any], settings: Sequence[Setting], results: Results) -> str:
    """The whole report on one run. `record` is the run's JSON: `run`, `machine`, `prompts`, `commands`."""
    kinds: dict[str, list[str]] = defaultdict(list)
    for prompt in record["prompts"]:
        kinds[prompt["kind"]].append(prompt["name"])
    names = [name for group in kinds.values() for name in group]
    shown = [s for s in settings if any(results.of(s.name, name) for name in names)]
    parts = [
        _preamble(record, results, names),
        "## Auto mode against the others",
        _contest_table(results, shown, names),
    ]
    if rows := same_length(results, shown, names):
        parts += ["## Draft model, same draft length", _contest_rows(rows, names, "EdgeSpec draft against")]
    parts += ["## Geometric means by kind of work", _kind_table(results, shown, kinds)]
    for kind, group in kinds.items():
        for name in group:
            title = kind if name == kind else f"{kind}: {name}"
            parts += [f"## {title}", _prompt_table(results, shown, name)]
    if any(results.failures.values()):
        rows_failed = [(name, str(len(why)), why[-1]) for name, why in results.failures.items()]
        parts += ["## Failures", table(("setting", "times", "last reason"), rows_failed)]
    commands = "\n".join(f"{name:28} {line}" for name, line in record["commands"].items())
    parts += ["## Commands", f"```\n{commands}\n```"]
    return "\n\n".join(parts) + "\n"


def _preamble(record: Mapping[str, Any], results: Results, names: Sequence[str]) -> str:
    run, machine = record["run"], record["machine"]
    spreads = [s for name in names if (s := results.spread(PLAIN, name)) is not None]
    spread = statistics.median(spreads) if spreads else None
    lines = [
        f"Date: {run['started']} to {run['ended']} (UTC).",
        f"Machine: {machine['processor']}, {machine['physical_cores']} physical and {machine['logical_cores']} logical "
        f"cores, {machine['memory_gib']} GiB, {machine['system']}; power: {machine['power']}.",
        f"Library of every program: {run['library']}. Target {run['target']}, draft {run['draft'] or 'none'}; "
        f"{run['threads']} threads, context {run['ctx']}, greedy, at most {run['tokens']} tokens, "
        f"{run['repeats']} interleaved repeats; {run['done']} of {run['planned']} measurements.",
        "Rates are decode tokens per second without the prompt, medians over the repeats; ratios are medians of the "
        "ratios within each repeat.",
    ]
    if spread is not None:
        lines.append(
            f"Spread of EdgeSpec plain (middle half of the repeats over their median, median of the prompts): "
            f"{spread:.1%}" + (": **too wide to tell small differences**." if spread > WIDE_SPREAD else ".")
        )
    return "\n\n".join(lines)


def _contest_table(results: Results, settings: Sequence[Setting], names: Sequence[str]) -> str:
    rows = contests(results, settings, names)
    return _contest_rows(rows, names, "EdgeSpec auto against") if rows else "No measurements of auto mode."


def _contest_rows(rows: Sequence[Contest], names: Sequence[str], title: str) -> str:
    header = (title, "mean", "worst", *names)
    return table(header, [(c.against, number(c.mean), number(c.worst), *_ratio_cells(c, names)) for c in rows])


def _ratio_cells(c: Contest, names: Sequence[str]) -> list[str]:
    single = len({opponent for opponent in c.opponents.values() if opponent}) <= 1
    return [
        number(c.ratios[name]) + ("" if single or not c.opponents[name] else f" ({c.opponents[name]})")
        for name in names
    ]


def _kind_table(results: Results, settings: Sequence[Setting], kinds: Mapping[str, Sequence[str]]) -> str:
    names = [name for group in kinds.values() for name in group]

    def mean(setting: str, reference: str, group: Sequence[str]) -> str:
        return number(geometric_mean(results.ratio(setting, reference, name) for name in group))

    rows = [
        (
            s.name, mean(s.name, PLAIN, names), mean(s.name, SERVER_NONE, names),
            *(mean(s.name, PLAIN, group) for group in kinds.values()),
            acceptance(results.drafts(s.name, names)),
        )
        for s in settings
    ]  # fmt: skip
    header = ("setting", "x EdgeSpec plain", "x server none", *kinds, "accepted/drafted")
    return table(header, rows)


def _prompt_table(results: Results, settings: Sequence[Setting], name: str) -> str:
    rows = []
    for s in settings:
        found = results.of(s.name, name)
        if not found:
            continue
        walls = [m.wall_rate for m in found if m.wall_rate is not None]
        spread = results.spread(s.name, name)
        rows.append((
            s.name, number(results.rate(s.name, name)), number(statistics.median(walls) if walls else None),
            "–" if spread is None else f"{spread:.0%}", number(results.ratio(s.name, PLAIN, name)),
            number(results.ratio(s.name, SERVER_NONE, name)), acceptance(results.drafts(s.name, [name])),
            str(found[-1].tokens), results.sameness(s.name, name),
        ))  # fmt: skip
    header = (
        "setting", "tokens/s", "by wall clock", "spread", "x EdgeSpec plain", "x server none", "accepted/drafted",
        "tokens", "text",
    )  # fmt: skip
    return table(header, rows)
