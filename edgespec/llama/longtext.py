"""Texts that llama.cpp's pre-tokeniser cannot take in one piece.

Many BPE vocabularies are split by regular expressions that recurse once a character. A run of some 25,000 letters, or
blank lines, overflows an 8 MB stack and kills the process; 1,500 are enough for the stack of a thread on macOS.
"""

from __future__ import annotations

import re
from bisect import bisect_right

MAX_RUN = 1000
_LOOK_BACK = 200
_LONG_RUN = re.compile(rf"\S{{{MAX_RUN + 1},}}|\s{{{MAX_RUN + 1},}}")
_BEFORE_PUNCTUATION = re.compile(r"(?<=\w)(?=[^\w\s])")


def safe_parts(text: str, special: re.Pattern[str] | None) -> list[str]:
    """The text in pieces without a run of more than 1,000 spaces or 1,000 other characters.

    Cuts fall in front of punctuation where there is some, since tokens end there anyway, and never inside a match of
    `special`, the texts of control tokens.
    """
    if len(text) <= MAX_RUN:
        return [text]
    cuts = [cut for run in _LONG_RUN.finditer(text) for cut in _cuts(text, *run.span())]
    if cuts and special is not None:
        spans = [match.span() for match in special.finditer(text)]
        starts = [start for start, _ in spans]
        cuts = sorted({_clear_of(cut, spans, starts) for cut in cuts} - {0})
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def _cuts(text: str, start: int, end: int) -> list[int]:
    cuts = []
    while end - start > MAX_RUN:
        latest = start + MAX_RUN
        nicer = [match.start() for match in _BEFORE_PUNCTUATION.finditer(text, latest - _LOOK_BACK, latest)]
        start = nicer[-1] if nicer else latest
        cuts.append(start)
    return cuts


def _clear_of(cut: int, spans: list[tuple[int, int]], starts: list[int]) -> int:
    """The start of the special text that this cut would split, or the cut."""
    index = bisect_right(starts, cut) - 1
    return starts[index] if index >= 0 and cut < spans[index][1] else cut
