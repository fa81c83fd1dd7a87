"""Which drafter and length pay, by what passes cost and how often drafts are right.

With the acceptance rate alpha a draft of k tokens brings (1 - alpha^(k+1)) / (1 - alpha) tokens a pass. It costs k
draft steps, c each, and a pass of k + 1 tokens, v(k + 1), all in plain steps. Tokens over cost is the speed-up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from edgespec.decoding.cost import ASSUMED_SLOPE, Curve
from edgespec.types import LARGEST_DRAFT_SHARE, Mode
from edgespec.work import WARM, Work, at_temperature

LONGEST = 16
"""Longest draft that is considered."""
WORTH_IT = 1.05
"""Speed-up below which advice is not to bother."""
SHORT_REPLY = 16
"""Replies below this many tokens are over before drafting has paid."""
DEVICE_SLOPE = 0.05
"""Assumed cost of every further token of a pass on a graphics device, which has arithmetic to spare."""

Cost = Callable[[int], float]


class Source(StrEnum):
    """Where a number comes from."""

    MEASURED = "measured now"
    STORED = "measured in earlier replies"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class Costs:
    """What passes cost here, in plain steps.

    Attributes:
        points: v(n) for some n, 1 among them.
        step: a draft step, c.
        plain_seconds: a plain step; None if unknown.
    """

    points: tuple[tuple[int, float], ...]
    step: float
    plain_seconds: float | None = None
    source: Source = Source.ASSUMED

    def curve(self) -> Cost:
        """v(n) for every n."""
        return Curve(dict(self.points)).v


@dataclass(frozen=True, slots=True)
class Chance:
    """How often drafts are right.

    Attributes:
        alpha: accepted tokens over examined ones.
        share: share of the passes in which there is a draft at all.
        source, share_source: where the two come from.
        examined: how many tokens the rate was measured with; 0 if it is assumed.
    """

    alpha: float
    share: float = 1.0
    source: Source = Source.ASSUMED
    share_source: Source = Source.ASSUMED
    examined: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """A mode, its best length, and what that brings: tokens a pass, and speed relative to plain decoding."""

    mode: Mode
    length: int
    tokens: float
    speedup: float


@dataclass(frozen=True, slots=True)
class Case:
    """What advice is asked for.

    Attributes:
        lookup: chances of copies from the text; they cost nothing to make.
        draft: chances of the draft model's tokens; None without a draft model.
        draft_share: its size over the target's.
        reply_tokens: longest reply; None if unknown.
        no_room: why there is no memory for the draft model, "" if there is.
    """

    work: Work
    costs: Costs
    lookup: Chance
    draft: Chance | None
    draft_share: float | None = None
    temperature: float = 0.0
    reply_tokens: int | None = None
    no_room: str = ""


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do.

    Attributes:
        best: the choice that is advised.
        choices: plain, lookup and, with a draft model, draft, each at its best length.
        why: sentences on the choice.
        against: sentences on what speaks against speculating, or against the draft model.
    """

    case: Case
    best: Choice
    choices: tuple[Choice, ...]
    why: tuple[str, ...]
    against: tuple[str, ...]


def expected_tokens(alpha: float, length: int) -> float:
    """Tokens that a pass brings with a draft of `length` tokens, the target's own included."""
    if alpha >= 1:
        return length + 1.0
    return float((1 - alpha ** (length + 1)) / (1 - alpha))


def speedup(chance: Chance, length: int, step: float, v: Cost) -> float:
    """Speed relative to plain decoding; passes without a draft are plain steps."""
    tokens = chance.share * expected_tokens(chance.alpha, length) + 1 - chance.share
    cost = chance.share * (length * step + v(length + 1)) + 1 - chance.share
    return tokens / cost


def best_choice(mode: Mode, chance: Chance, step: float, v: Cost, longest: int = LONGEST) -> Choice:
    """The length that gains most, at least 1; the shortest among equals."""
    lengths = range(1, longest + 1)
    length = max(lengths, key=lambda k: speedup(chance, k, step, v))
    tokens = chance.share * expected_tokens(chance.alpha, length) + 1 - chance.share
    return Choice(mode, length, tokens, speedup(chance, length, step, v))


def break_even(length: int, step: float, v: Cost) -> float | None:
    """The acceptance rate from which on drafts of this length gain; None if not even one of 1 would do."""
    cost = length * step + v(length + 1)
    if cost > length + 1:
        return None
    low, high = 0.0, 1.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if expected_tokens(middle, length) >= cost else (middle, high)
    return high


def assumed_costs(draft_share: float | None, *, device: bool) -> Costs:
    """Costs as long as nothing was measured: a draft step costs what there is to read, relative to the target."""
    slope = DEVICE_SLOPE if device else ASSUMED_SLOPE
    return Costs(((1, 1.0), (LONGEST + 1, 1 + LONGEST * slope)), draft_share or 0.0)


def assumed_chances(work: Work, temperature: float) -> tuple[Chance, Chance]:
    """What is usual for this kind of work: copies from the text, tokens of a draft model."""
    lookup = Chance(at_temperature(work.copy_alpha, temperature), work.copy_share)
    return lookup, Chance(at_temperature(work.draft_alpha, temperature))


def advise(case: Case) -> Advice:
    """The best choice for a case, with reasons."""
    v = case.costs.curve()
    plain = Choice(Mode.PLAIN, 0, 1.0, 1.0)
    choices = [plain, best_choice(Mode.LOOKUP, case.lookup, 0.0, v)]
    if case.draft is not None:
        choices.append(best_choice(Mode.DRAFT, case.draft, case.costs.step, v))
    possible = [choice for choice in choices if not (choice.mode is Mode.DRAFT and case.no_room)]
    best = max(possible, key=lambda choice: choice.speedup)
    against = _against(case)
    if best.speedup < WORTH_IT or _too_short(case):
        best = plain
    return Advice(case, best, tuple(choices), tuple(_why(case, best, choices, v)), tuple(against))


def _too_short(case: Case) -> bool:
    return case.reply_tokens is not None and case.reply_tokens < SHORT_REPLY


def _why(case: Case, best: Choice, choices: list[Choice], v: Cost) -> list[str]:
    if best.mode is Mode.PLAIN:
        if _too_short(case):
            return [f"Replies of {case.reply_tokens} tokens are over before drafting has paid."]
        top = max(choices[1:], key=lambda choice: choice.speedup)
        return [f"The best that drafting promises is {top.speedup:.2f} times plain speed, with mode {top.mode}."]
    if best.mode is Mode.LOOKUP:
        found = case.lookup
        return [
            f"In {found.share:.0%} of the passes something can be copied from the text, and {found.alpha:.0%} of what "
            f"is copied is right; making the copy costs nothing, checking it a pass of {v(best.length + 1):.2f} "
            "plain steps."
        ]
    alpha = case.draft.alpha if case.draft is not None else 0.0
    cost = best.length * case.costs.step + v(best.length + 1)
    return [
        f"{alpha:.0%} of the draft model's tokens are right, so {best.length} of them bring {best.tokens:.2f} tokens a "
        f"pass; drafting and checking them costs {cost:.2f} plain steps."
    ]


def _against(case: Case) -> list[str]:
    found = []
    if _too_short(case):
        found.append(f"Replies of fewer than {SHORT_REPLY} tokens: reading the prompt is what takes the time there.")
    if case.temperature > WARM:
        found.append(
            f"Temperature {case.temperature:g}: the target's choice is hard to guess above {WARM:g}; lower it, or "
            "expect little."
        )
    if case.draft is not None and case.no_room:
        found.append(f"No memory for the draft model. {case.no_room}")
    return [*found, *_too_large(case)]


def _too_large(case: Case) -> list[str]:
    """Is the draft model too large? What its steps were measured to cost says more than its size."""
    if case.draft is None or case.draft_share is None:
        return []
    if case.costs.source is not Source.ASSUMED:
        if case.costs.step <= LARGEST_DRAFT_SHARE:
            return []
        return [
            f"A draft step costs {case.costs.step:.2f} plain steps here; above about an eighth only good guesses gain. "
            "Look for a smaller draft model."
        ]
    if case.draft_share <= LARGEST_DRAFT_SHARE:
        return []
    return [
        f"The draft model has {case.draft_share:.0%} of the target's size; above about an eighth its steps tend to "
        "cost more than they bring. Look for a smaller one."
    ]
