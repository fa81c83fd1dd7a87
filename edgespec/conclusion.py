"""What repeated measurements allow to say: a median with its spread, and whether a ratio means anything."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

FEWEST_REPEATS = 3
FEW = 5
"""With fewer repeats than this the sign test alone says too little."""

FEWEST_FOR_RATE = 20
"""Below this many drafted tokens an acceptance rate says more than is known."""

DOUBT = 0.07
"""How often the interval of a median may miss it."""

ALIKE = 0.02
"""Ratios all this near to 1 differ by nothing that anybody would notice."""

WIDE = 0.10
"""Repeats that differ by more than this share of their median give a direction, not a figure."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Repeated measurements of one thing."""

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread | None:
        """Of these values; None if there are none."""
        known = sorted(values)
        return cls(median(known), known[0], known[-1], len(known)) if known else None

    @property
    def width(self) -> float:
        """(high - low) / median."""
        return (self.high - self.low) / self.median if self.median else 0.0


class Conclusion(StrEnum):
    """What paired ratios to plain say."""

    FASTER = "faster"
    SLOWER = "slower"
    EQUAL = "equal"
    UNCLEAR = "unclear"
    """The repeats disagree by more than there is to see."""
    TOO_FEW = "too few repeats"


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Where the median lies with 93 % confidence, whatever the noise looks like: the interval of the sign test.

    Lowest to highest of up to eight values (three or four are too few for such confidence); of more, the extremes on
    both sides are left out as far as that confidence allows, so that more repeats say more, not less.
    """
    ordered = sorted(values)
    count = len(ordered)
    left_out, chance = 0, 2.0 ** (1 - count)
    while count > FEW and left_out + 1 < count - left_out - 1:
        chance += 2.0 ** (1 - count) * math.comb(count, left_out + 1)
        if chance > DOUBT:
            break
        left_out += 1
    return ordered[left_out], ordered[count - 1 - left_out]


def conclude(ratios: Sequence[float]) -> Conclusion:
    """What these paired ratios (each from two runs of one repeat) say about faster or slower.

    The interval of their median must lie on one side of 1. With three or four repeats it must also be away from 1 by
    half its own width: without that, noise alone would decide one case of four. With it, it decides about one in 12
    with three repeats, one in 45 with four, and one in 15 or fewer with more, by the interval alone.
    """
    if len(ratios) < FEWEST_REPEATS:
        return Conclusion.TOO_FEW
    low, high = interval(ratios)
    if max(abs(low - 1), abs(high - 1)) <= ALIKE:
        return Conclusion.EQUAL
    margin = (high - low) / 2 if len(ratios) < FEW else 0.0
    if low > 1 and low - 1 >= margin:
        return Conclusion.FASTER
    if high < 1 and 1 - high >= margin:
        return Conclusion.SLOWER
    return Conclusion.UNCLEAR


def in_words(name: str, ratios: Sequence[float], conclusion: Conclusion) -> str:
    """The conclusion as a sentence, with a warning where the figure is less sure than the direction."""
    low, high = interval(ratios)
    middle = median(ratios)
    times, span = f"{middle:.2f}x", f"{low:.2f}x to {high:.2f}x"
    match conclusion:
        case Conclusion.FASTER | Conclusion.SLOWER:
            wide = f"; repeats differ widely ({span}), so trust the direction more than the figure"
            return f"{name} is {conclusion} than plain: {times}{wide if high - low > WIDE * middle else ''}."
        case Conclusion.EQUAL:
            return f"{name} is as fast as plain, within {ALIKE:.0%}."
        case Conclusion.TOO_FEW:
            repeats = "1 repeat" if len(ratios) == 1 else f"{len(ratios)} repeats"
            return (
                f"{name}: {times} in {repeats}, too few to conclude anything; {FEWEST_REPEATS} or more show the noise."
            )
        case Conclusion.UNCLEAR:
            return (
                f"{name}: the repeats spread too widely ({span}) to tell whether it is faster than plain; "
                "measure on a quieter machine or with more repeats."
            )
