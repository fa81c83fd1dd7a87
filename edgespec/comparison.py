"""What a comparison of modes has measured: every run as it went, and what the runs add up to."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from edgespec.conclusion import Conclusion, Spread, conclude
from edgespec.conditions import Conditions
from edgespec.contestants import PLAIN, Contestant
from edgespec.decoding.auto_report import AutoReport
from edgespec.decoding.stats import GenerationStats
from edgespec.engine.messages import GenerateOptions, Loaded
from edgespec.prompts import Prompt
from edgespec.types import FinishReason, Mode, Origin

NEAR_TIE = 1e-3
"""Two logits nearer than this may swap places when passes of another width round differently."""

_EXCERPT_TOKENS = 12


@dataclass(frozen=True, slots=True)
class Step:
    """One round of a recorded run.

    Attributes:
        seconds: when its text was there, counted from the request, by the engine's clock.
        tokens, texts, origins: what it brought, token by token.
        drafted: how many tokens were drafted, and `source` by whom.
        rejected: texts of the drafted tokens that were thrown away.
    """

    seconds: float
    tokens: tuple[int, ...]
    texts: tuple[str, ...]
    origins: tuple[Origin, ...]
    drafted: int
    source: str
    rejected: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """One measured reply, recorded so that it can be replayed at its own speed.

    Attributes:
        prompt, contestant: id of the one, name of the other.
        repeat: 0 for the first.
        seed: of the random numbers; the same for all contestants of a repeat.
        steps: its rounds, in order.
        others: share of the processor that other programs used meanwhile; None if unknown.
        auto: how mode auto decided; None in other modes.
    """

    prompt: str
    contestant: str
    repeat: int
    seed: int
    reason: FinishReason
    text: str
    tokens: tuple[int, ...]
    stats: GenerationStats
    steps: tuple[Step, ...]
    others: float | None = None
    auto: AutoReport | None = None

    @property
    def seconds(self) -> float:
        """From the request to the last token."""
        return self.stats.prompt_seconds + self.stats.decode_seconds

    def steps_at(self, seconds: float) -> int:
        """How many steps were there this long after the request."""
        return bisect_right(self.steps, seconds, key=lambda step: step.seconds)


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a reply first leaves plain's.

    Attributes:
        repeat: in which repeat.
        position: how many tokens of the reply agree.
        plain, other: what the two say from there on, a few tokens each; empty where a reply ends.
    """

    repeat: int
    position: int
    plain: str
    other: str


@dataclass(frozen=True, slots=True)
class Gap:
    """How near the target's two best tokens were, in logits, where a contestant's reply left plain's."""

    prompt: str
    contestant: str
    gap: float

    @property
    def near_tie(self) -> bool:
        """Too near for rounding to leave them in order: the difference says nothing about correctness."""
        return self.gap < NEAR_TIE


@dataclass(frozen=True, slots=True)
class Score:
    """One contestant on one prompt.

    Attributes:
        decode: tokens per second of the replies.
        prefill: prompt tokens per second; bringing a draft model up to date counts.
        first_token: seconds until the first token.
        ratios: decode speed over plain's, pair by pair: two runs of the same repeat.
        ratio: the same, as median and spread.
        conclusion: what the ratios allow to say; None for plain itself and where nothing was paired.
        expected_same: must the reply be plain's? With drafts drawn at random only its distribution is.
        same: is it, in every repeat? None where nothing was paired.
        difference: the first one found.
        typical: the run of median speed; counts (drafted, accepted, passes) are quoted from it.
    """

    prompt: str
    contestant: Contestant
    decode: Spread | None
    prefill: Spread | None
    first_token: Spread | None
    ratios: tuple[float, ...]
    ratio: Spread | None
    conclusion: Conclusion | None
    expected_same: bool
    same: bool | None
    difference: Difference | None
    gap: Gap | None
    typical: Run


@dataclass(frozen=True, slots=True)
class Overall:
    """One contestant over all prompts: in each repeat the geometric mean of its ratios, then median and spread."""

    contestant: Contestant
    prompts: int
    ratios: tuple[float, ...]
    ratio: Spread
    conclusion: Conclusion


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that was measured, complete or not.

    Attributes:
        loaded: models, library and threads.
        options: how was answered; mode, draft length, seed and `fresh` are the runs' own.
        repeats: how many were asked for.
        processor: its name and number of cores.
        before, after: the machine at both ends.
        others: share of the processor that other programs used meanwhile.
        notices: sentences that belong to the result: what was left out, what the engine said.
        complete: was everything measured that was asked for?
    """

    loaded: Loaded
    options: GenerateOptions
    system: str | None
    prompts: tuple[Prompt, ...]
    contestants: tuple[Contestant, ...]
    repeats: int
    runs: tuple[Run, ...]
    processor: str
    before: Conditions
    after: Conditions
    others: float | None = None
    notices: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()
    complete: bool = True

    @property
    def costs(self) -> AutoReport | None:
        """What passes cost on this machine, as mode auto knew it in its last run; None if it did not run."""
        known = (run.auto for run in reversed(self.runs) if run.auto is not None and run.auto.curve)
        return next(known, None)

    def runs_of(self, prompt: str, contestant: Contestant) -> list[Run]:
        """The runs of one contestant on one prompt, by repeat."""
        found = [run for run in self.runs if (run.prompt, run.contestant) == (prompt, contestant.name)]
        return sorted(found, key=lambda run: run.repeat)

    def score(self, prompt: str, contestant: Contestant) -> Score | None:
        """How a contestant did on one prompt; None if it was not measured."""
        runs = self.runs_of(prompt, contestant)
        if not runs:
            return None
        plain = {run.repeat: run for run in self.runs_of(prompt, PLAIN)}
        pairs = [(plain[run.repeat], run) for run in runs if run.repeat in plain] if contestant != PLAIN else []
        ratios = tuple(ratio for pair in pairs if (ratio := speed_ratio(*pair)) is not None)
        difference = next((found for pair in pairs if (found := first_difference(*pair)) is not None), None)
        gap = next((gap for gap in self.gaps if (gap.prompt, gap.contestant) == (prompt, contestant.name)), None)
        return Score(
            prompt=prompt,
            contestant=contestant,
            decode=Spread.of(known(run.stats.decode_tokens_per_second for run in runs)),
            prefill=Spread.of(known(run.stats.prompt_tokens_per_second for run in runs)),
            first_token=Spread.of(known(run.stats.seconds_to_first_token for run in runs)),
            ratios=ratios,
            ratio=Spread.of(ratios),
            conclusion=conclude(ratios) if ratios else None,
            expected_same=self.expects_same(contestant),
            same=difference is None if pairs else None,
            difference=difference,
            gap=gap,
            typical=typical(runs),
        )

    def scores(self, prompt: str) -> list[Score]:
        """Every contestant that was measured on this prompt, in the order they were given."""
        found = (self.score(prompt, contestant) for contestant in self.contestants)
        return [score for score in found if score is not None]

    def overall(self) -> list[Overall]:
        """Every contestant but plain, over the prompts; a repeat counts if it has as many of them as any other."""
        found = []
        for contestant in self.contestants:
            by_repeat: dict[int, list[float]] = {}
            for prompt in self.prompts:
                for repeat, value in self._ratios(prompt.id, contestant):
                    by_repeat.setdefault(repeat, []).append(value)
            most = max(map(len, by_repeat.values()), default=0)
            means = tuple(geometric_mean(values) for values in by_repeat.values() if len(values) == most)
            if contestant != PLAIN and (ratio := Spread.of(means)) is not None:
                found.append(Overall(contestant, most, means, ratio, conclude(means)))
        return found

    def expects_same(self, contestant: Contestant) -> bool:
        """Must this contestant say what plain says, token by token?"""
        drawn = self.options.draft_sampling and self.options.sampling.temperature > 0
        return not (drawn and contestant.mode in (Mode.DRAFT, Mode.AUTO))

    def _ratios(self, prompt: str, contestant: Contestant) -> Iterable[tuple[int, float]]:
        plain = {run.repeat: run for run in self.runs_of(prompt, PLAIN)}
        for run in self.runs_of(prompt, contestant):
            if run.repeat in plain and (ratio := speed_ratio(plain[run.repeat], run)) is not None:
                yield run.repeat, ratio


def speed_ratio(plain: Run, other: Run) -> float | None:
    """Decode speed of the one over the other's; None where either is unknown."""
    slow, fast = plain.stats.decode_tokens_per_second, other.stats.decode_tokens_per_second
    return fast / slow if slow and fast is not None else None


def first_difference(plain: Run, other: Run) -> Difference | None:
    """Where the replies part; None if they are the same."""
    pairs = zip_longest(plain.tokens, other.tokens)
    position = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
    if position is None:
        return None
    return Difference(plain.repeat, position, _excerpt(plain, position), _excerpt(other, position))


def _excerpt(run: Run, position: int) -> str:
    texts = [text for step in run.steps for text in step.texts]
    return "".join(texts[position : position + _EXCERPT_TOKENS])


def typical(runs: Sequence[Run]) -> Run:
    """The run of median speed, the slower of the two in the middle."""
    ordered = sorted(runs, key=lambda run: run.stats.decode_tokens_per_second or 0.0)
    return ordered[(len(ordered) - 1) // 2]


def known(values: Iterable[float | None]) -> list[float]:
    """Those that are not None."""
    return [value for value in values if value is not None]


def geometric_mean(values: Sequence[float]) -> float:
    """The mean of ratios: 2.0 and 0.5 cancel out."""
    return math.exp(sum(map(math.log, values)) / len(values))
