"""Tables that fit: columns give way one after another where the window is too narrow for all of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.cells import cell_len

GAP = 2
RANGES = "(ranges)"
"""In `give_way`: shorten `1.0 (0.9..1.1)` to `1.0` before columns go that are named behind it."""
_RANGE = re.compile(r" \(.*\)")


def fitting(
    lines: Sequence[Sequence[str]], width: int, give_way: Sequence[str], left: Sequence[str] = ()
) -> list[list[str]]:
    """The cells of a table, padded, in as many columns as fit into this width. The first line is the head.

    Args:
        give_way: heads of the columns that may go, the first one first.
        left: heads of columns that begin at the left, as the very first one does; the others are figures.
    """
    shown = [list(line) for line in lines]
    for name in give_way:
        if not shown or _width(shown) <= width:
            break
        if name == RANGES:
            shown = [[_RANGE.sub("", cell) for cell in line] for line in shown]
        elif name in shown[0]:
            place = shown[0].index(name)
            shown = [line[:place] + line[place + 1 :] for line in shown]
    if not shown:
        return []
    wide, heads = _widths(shown), shown[0]
    return [
        [_padded(cell, wide[i], right=i > 0 and heads[i] not in left) for i, cell in enumerate(line)] for line in shown
    ]


def _padded(cell: str, width: int, *, right: bool) -> str:
    space = " " * (width - cell_len(cell))
    return space + cell if right else cell + space


def _widths(lines: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(cell_len, column)) for column in zip(*lines, strict=True)]


def _width(lines: Sequence[Sequence[str]]) -> int:
    return sum(_widths(lines)) + GAP * (len(lines[0]) - 1)
