"""What a pass costs on this machine, in units of one plain step, learned from calibration and from every round.

Decisions need ratios only: v(n), an n-token target pass relative to a one-token pass, and c, a draft step relative to
the same. So the model keeps one absolute number, the *unit* (seconds of a plain step now), and ratios beside it. A
machine that throttles, or does something else for a while, moves the unit; the ratios stay.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from edgespec.types import Round

RECENT = 9
"""Rounds whose median says how fast the machine is just now."""
SAMPLES = 15
"""Latest samples of a width whose median is its cost."""
FRESH = 48
"""A plain pass this many rounds ago still says what one costs, for comparison with wider ones."""
WIDTHS_A_SWEEP = 11
"""Widths that a calibration has time for on an idle machine."""
WEIGHT = 5
"""How many samples a known cost counts for against new ones."""
ASSUMED_SLOPE = 0.3
"""Cost of every further token of a pass as long as nothing was measured; usual on CPUs for a short draft."""
ASSUMED_STEP = 0.15
"""Cost of a draft step as long as nothing was measured."""
ASSUMED_PROMPT_TOKEN = 0.4
"""Cost of a token that the draft model only reads, in draft steps."""
SMALLEST_BUCKET = 1024
"""Contexts up to this long share their ratios, then those up to twice as long, and so on."""


class CostModel:
    """Seconds of target passes and draft steps, from medians, for decisions and for the eye.

    Attributes:
        unit: seconds of a one-token target pass now; None as long as nothing was measured.
        step: one draft step, in units.
        prompt_token: one token that the draft model catches up on, in draft steps.
        measurements: passes that were timed on purpose, of all widths together.
    """

    def __init__(self) -> None:
        self.unit: float | None = None
        self.step = ASSUMED_STEP
        self.prompt_token = ASSUMED_PROMPT_TOKEN
        self.measurements = 0
        self._buckets: dict[int, Curve] = {0: Curve()}
        self._current = 0
        self._recent: deque[float] = deque(maxlen=RECENT)
        """Seconds of the latest rounds, each divided by its v(n): all of them say what a plain step costs."""
        self._plain: deque[tuple[int, float]] = deque(maxlen=RECENT)
        """Round and seconds of the latest plain passes."""
        self._steps: deque[float] = deque(maxlen=SAMPLES)
        self._rounds = 0

    def at(self, position: int) -> None:
        """Decisions from here on are about a context of this length."""
        bucket = (position // SMALLEST_BUCKET).bit_length()
        if bucket != self._current:
            if bucket not in self._buckets:
                nearest = min(self._buckets, key=lambda known: abs(known - bucket))
                self._buckets[bucket] = self._buckets[nearest].copy()
            self._current = bucket

    @property
    def curve(self) -> Curve:
        """v(n) at the current length of the context."""
        return self._buckets[self._current]

    def v(self, width: int) -> float:
        """A target pass over `width` tokens, in units."""
        return self.curve.v(width)

    def catch_up(self, behind: int) -> float:
        """What the draft model's next draft costs beyond its steps if its cache lacks `behind` tokens, in units."""
        return max(0, behind - 1) * self.prompt_token * self.step

    @property
    def calibrated(self) -> bool:
        """Are there measured widths, or assumptions only?"""
        return self.measurements > 0

    def calibrate(
        self, sweeps: Sequence[Mapping[int, float]], step: float | None = None, prompt_token: float | None = None
    ) -> None:
        """Add measured passes to what is known.

        Args:
            sweeps: seconds by width, width 1 always among them. Only passes of one sweep are compared with each other.
            step: seconds of a draft step.
            prompt_token: seconds of a token that the draft model catches up on.
        """
        curve = self.curve
        for sweep in sweeps:
            for width, seconds in sweep.items():
                curve.add(width, seconds / sweep[1])
        self.measurements += sum(map(len, sweeps))
        self.unit = median(sweep[1] for sweep in sweeps)
        if step is not None:
            self.step = step / self.unit
            if prompt_token is not None:
                self.prompt_token = min(1.0, prompt_token / step)

    def observe(self, round_: Round, steps: int, behind: int) -> None:
        """Learn from a round in which the draft model made `steps` steps after it had lacked `behind` tokens."""
        width, seconds = len(round_.draft.tokens) + 1, round_.verify_seconds
        if seconds <= 0:
            return
        self._rounds += 1
        self._recent.append(seconds / self.v(width))
        self.unit = median(self._recent)
        if width == 1:
            self._plain.append((self._rounds, seconds))
        else:
            plain = [value for when, value in self._plain if when > self._rounds - FRESH]
            if plain:
                self.curve.learn(width, seconds / median(plain))
        if steps and round_.draft_seconds > 0:
            spent = steps + max(0, behind - 1) * self.prompt_token
            self._steps.append(round_.draft_seconds / spent / self.unit)
            if len(self._steps) >= WEIGHT:
                self.step = median(self._steps)

    @property
    def plain_age(self) -> int:
        """Rounds since the latest plain pass."""
        return self._rounds - self._plain[-1][0] if self._plain else self._rounds

    @property
    def plain_seconds(self) -> float | None:
        """Seconds of a plain step at this context: of recent plain passes if there are enough, else from all rounds."""
        plain = [value for when, value in self._plain if when > self._rounds - FRESH]
        return median(plain) if len(plain) >= 3 else self.unit if len(self._recent) >= 3 else None

    def to_json(self) -> dict[str, Any]:
        """Everything worth keeping for the next start."""
        return {
            "unit": self.unit,
            "measurements": self.measurements,
            "step": self.step,
            "prompt_token": self.prompt_token,
            "curves": {str(bucket): curve.to_json() for bucket, curve in self._buckets.items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CostModel:
        """The model that `to_json` described. Raises ValueError if it describes none."""
        costs = cls()
        try:
            costs.unit = _positive(data["unit"])
            costs.step = _positive(data["step"])
            costs.prompt_token = _positive(data["prompt_token"])
            costs.measurements = int(_positive(data["measurements"]))
            weight = max(1, min(WEIGHT, costs.measurements // WIDTHS_A_SWEEP))
            costs._buckets = {int(bucket): Curve.from_json(curve, weight) for bucket, curve in data["curves"].items()}
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a cost model: {error!r}") from None
        if 0 not in costs._buckets:
            raise ValueError("not a cost model: no curve for short contexts")
        return costs


class Curve:
    """v(n): cost of an n-token pass relative to a one-token pass.

    Widths that were never measured lie on the line between their neighbours, and beyond the widest on the last
    slope; so a step in the curve survives where it was seen.
    """

    def __init__(self, known: Mapping[int, float] | None = None, weight: int = WEIGHT) -> None:
        self._known = {**(known or {}), 1: 1.0}
        self._samples = {width: deque([value] * weight, maxlen=SAMPLES) for width, value in self._known.items()}
        self._table: list[float] = []

    def v(self, width: int) -> float:
        """The cost of a pass over `width` tokens, at least 1 of them."""
        table = self._table
        while len(table) < width:
            table.append(self._interpolate(len(table) + 1))
        return table[width - 1]

    def learn(self, width: int, value: float) -> None:
        """One more sample of a width."""
        if width not in self._samples:
            # What the neighbours say is worth something, but less than what was measured here.
            self._samples[width] = deque([self.v(width)], maxlen=SAMPLES)
        self.add(width, value)

    def add(self, width: int, value: float) -> None:
        """The same, where a width that is new is known by this sample alone."""
        if width == 1:
            return
        self._samples.setdefault(width, deque(maxlen=SAMPLES)).append(value)
        self._known[width] = max(1.0, median(self._samples[width]))  # less is a disturbed measurement
        self._table.clear()

    def copy(self) -> Curve:
        """A curve that starts from this one's costs."""
        return Curve(self._known)

    def points(self) -> tuple[tuple[int, float], ...]:
        """Measured widths and their costs, in order."""
        return tuple(sorted(self._known.items()))

    def to_json(self) -> dict[str, float]:
        """Measured widths and their costs."""
        return {str(width): value for width, value in self.points()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], weight: int = WEIGHT) -> Curve:
        """The curve that `to_json` described; each cost counts for `weight` samples. Raises ValueError."""
        known = {int(width): _positive(value) for width, value in data.items()}
        if any(width < 1 for width in known):
            raise ValueError("not a curve: a pass has at least one token")
        return cls(known, weight)

    def _interpolate(self, width: int) -> float:
        known, widths = self._known, sorted(self._known)
        if width in known:
            return known[width]
        right = bisect_left(widths, width)
        if right < len(widths):
            low, high = widths[right - 1], widths[right]
            share = (width - low) / (high - low)
            return known[low] + share * (known[high] - known[low])
        last = widths[-1]
        slope = _slope((width, known[width]) for width in widths)
        return known[last] + (width - last) * slope


def _slope(points: Iterable[tuple[int, float]]) -> float:
    """Cost of one more token beyond all measured widths: the mean so far, since the last step may be a jump."""
    points = list(points)
    if len(points) < 2:
        return ASSUMED_SLOPE
    (first, low), (last, high) = points[0], points[-1]
    return max(0.0, (high - low) / (last - first))


def _positive(value: Any) -> float:
    number = float(value)
    if not 0 < number < float("inf"):
        raise ValueError(f"not a cost: {value}")
    return number
