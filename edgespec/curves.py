"""What drafting brings by its length: tokens a pass and speed-up, here and where wide passes cost nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgespec.advice import Chance, Costs, expected_tokens, speedup

ALPHAS = (0.5, 0.7, 0.85)
"""Acceptance rates that are drawn: free writing, a usual pair, code and edits."""
LONGEST = 12
ROWS = 14
"""About how many rows a picture has; every whole number gets as many."""
COLUMN = 4
MARKS = {True: ("●◆▲", "○◇△"), False: ("ABC", "abc")}
"""Marks of this machine's curves and of the ideal ones, with Unicode and without."""


@dataclass(frozen=True, slots=True)
class Line:
    """One curve: a value for each draft length from 0 on. `alpha` is the acceptance rate it is drawn for."""

    alpha: float
    ideal: bool
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """A picture: a title and curves."""

    title: str
    lines: tuple[Line, ...]

    @property
    def top(self) -> float:
        """Where the scale ends."""
        return float(int(max(max(line.values) for line in self.lines)) + 1)


def panels(costs: Costs, longest: int = LONGEST) -> tuple[Panel, Panel]:
    """Tokens a target pass, which no machine changes, and predicted speed-up, here and ideally."""
    lengths, v = range(longest + 1), costs.curve()
    tokens = [Line(alpha, False, tuple(expected_tokens(alpha, k) for k in lengths)) for alpha in ALPHAS]
    gains = [
        Line(alpha, ideal, tuple(speedup(Chance(alpha), k, costs.step, cost) for k in lengths))
        for ideal, cost in ((True, _free), (False, v))
        for alpha in ALPHAS
    ]
    return Panel("Tokens per target pass", tuple(tokens)), Panel("Predicted speed-up", tuple(gains))


def _free(width: int) -> float:
    """A pass of any width costs what one of a single token costs: the ideal that papers assume."""
    return 1.0


def draw(panel: Panel, *, unicode: bool = True) -> str:
    """The picture in characters. Where two curves meet, this machine's covers the ideal one."""
    longest = len(panel.lines[0].values) - 1
    width = COLUMN * longest + 1
    unit = max(2, round(ROWS / panel.top))
    height = unit * round(panel.top)
    grid = [[" "] * width for _ in range(height + 1)]
    grid[height - unit] = list(("· " if unicode else ". ") * width)[:width]
    for line in panel.lines:
        mark = _mark(line, unicode)
        for length, value in enumerate(line.values):
            grid[height - round(unit * value)][COLUMN * length] = mark
    wall, floor, corner = "│─└" if unicode else "|-+"
    rows = [panel.title, ""]
    for number, cells in enumerate(grid):
        label = f"{(height - number) // unit}" if (height - number) % unit == 0 else ""
        rows.append(f"{label:>5} {wall}{''.join(cells)}".rstrip())
    rows.append(f"{'':6}{corner}{floor * width}")
    rows.append(f"{'':7}" + "".join(f"{length:<{COLUMN}}" for length in range(longest + 1)).rstrip() + "  draft length")
    rows.append(_legend(panel.lines, unicode))
    return "\n".join(rows)


def _mark(line: Line, unicode: bool) -> str:
    return MARKS[unicode][line.ideal][ALPHAS.index(line.alpha)]


def _legend(lines: Sequence[Line], unicode: bool) -> str:
    """Which mark is which; one line for this machine, one for the ideal."""
    found = []
    for ideal, name in ((False, "this machine"), (True, "ideal")):
        marks = [f"{_mark(line, unicode)} alpha {line.alpha:g}" for line in lines if line.ideal is ideal]
        if marks:
            everywhere = not any(line.ideal for line in lines)
            found.append(f"{'':7}{'any machine' if everywhere else name}: {'  '.join(marks)}")
    return "\n".join(found)
