"""What repeated measurements allow to say: a median with its spread, and whether a ratio means anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

FEWEST_REPEATS = 3
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


def conclude(ratios: Sequence[float]) -> Conclusion:
    """What these paired ratios (each from two runs of one repeat) say about faster or slower.

    Faster or slower needs two things: every ratio lies on the same side of 1, and the nearest of them is at least half
    the distance from lowest to highest away from it. Noise alone passes this test in one case of 12 with three repeats,
    in one of 45 with four and one of 160 with five; unlike a t-test it survives a single wild repeat.
    """
    if len(ratios) < FEWEST_REPEATS:
        return Conclusion.TOO_FEW
    if all(abs(ratio - 1) <= ALIKE for ratio in ratios):
        return Conclusion.EQUAL
    low, high = min(ratios), max(ratios)
    if low > 1 and low - 1 >= (high - low) / 2:
        return Conclusion.FASTER
    if high < 1 and 1 - high >= (high - low) / 2:
        return Conclusion.SLOWER
    return Conclusion.UNCLEAR


def in_words(name: str, ratio: Spread, conclusion: Conclusion) -> str:
    """The conclusion as a sentence, with a warning where the figure is less sure than the direction."""
    times, span = f"{ratio.median:.2f}x", f"{ratio.low:.2f}x to {ratio.high:.2f}x"
    wide = f"; the repeats differ widely ({span}), so trust the direction more than the figure"
    match conclusion:
        case Conclusion.FASTER | Conclusion.SLOWER:
            return f"{name} is {conclusion} than plain: {times}{wide if ratio.width > WIDE else ''}."
        case Conclusion.EQUAL:
            return f"{name} is as fast as plain, within {ALIKE:.0%}."
        case Conclusion.TOO_FEW:
            repeats = "1 repeat" if ratio.count == 1 else f"{ratio.count} repeats"
            return (
                f"{name}: {times} in {repeats}, too few to conclude anything; {FEWEST_REPEATS} or more show the noise."
            )
        case Conclusion.UNCLEAR:
            return (
                f"{name}: the repeats spread too widely ({span}) to tell whether it is faster than plain; "
                "measure on a quieter machine or with more repeats."
            )
