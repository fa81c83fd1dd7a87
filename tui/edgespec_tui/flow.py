"""Wraps a growing text into lines of cells; adding to it touches the last line only.

A reply of thousands of tokens must cost as much to extend as one of ten. So finished lines are kept as they are,
and only a change of width wraps everything again.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import split_graphemes

Glyph = tuple[str, int, int]
"""One character as drawn: its text, its width in cells, and the key of the part it belongs to."""
Run = tuple[str, int]
"""Consecutive characters of one part: their text and the part's key."""


class Flow:
    """Lines of a growing text. Every part is appended with a key, which its characters keep."""

    def __init__(self, width: int) -> None:
        self.width = max(1, width)
        self._parts: list[Run] = []
        self._done: list[tuple[Run, ...]] = []
        self._tail: list[Glyph] = []
        self._tail_width = 0

    def append(self, text: str, key: int) -> None:
        """Add a part at the end."""
        self._parts.append((text, key))
        self._place(text, key)

    def resize(self, width: int) -> None:
        """Wrap everything to another width."""
        if (width := max(1, width)) == self.width:
            return
        self.width = width
        self._done, self._tail, self._tail_width = [], [], 0
        for text, key in self._parts:
            self._place(text, key)

    @property
    def height(self) -> int:
        """Number of lines, the unfinished one included."""
        return len(self._done) + 1

    def line(self, y: int) -> tuple[Run, ...]:
        """The runs of one line."""
        return self._done[y] if y < len(self._done) else _runs(self._tail)

    @property
    def text(self) -> str:
        """All lines as they are wrapped, for text selection."""
        return "\n".join("".join(text for text, _ in self.line(y)) for y in range(self.height))

    def _place(self, text: str, key: int) -> None:
        for piece, width in _glyphs(text):
            if piece == "\n":
                self._finish(len(self._tail))
            elif width == 0 and self._tail:
                last, last_width, last_key = self._tail[-1]
                self._tail[-1] = (last + piece, last_width, last_key)
            else:
                self._put(piece, width, key)

    def _put(self, piece: str, width: int, key: int) -> None:
        while self._tail and self._tail_width + width > self.width:
            if piece == " ":
                self._finish(len(self._tail))
                return
            self._finish(self._break())
        self._tail.append((piece, width, key))
        self._tail_width += width

    def _break(self) -> int:
        """Where to break the full last line: behind its last space, unless only indentation stands before it."""
        for i in range(len(self._tail) - 1, -1, -1):
            if self._tail[i][0] == " ":
                return i + 1 if any(glyph[0] != " " for glyph in self._tail[:i]) else len(self._tail)
        return len(self._tail)

    def _finish(self, length: int) -> None:
        self._done.append(_runs(self._tail[:length]))
        del self._tail[:length]
        self._tail_width = sum(glyph[1] for glyph in self._tail)


def _glyphs(text: str) -> Iterator[tuple[str, int]]:
    if text.isascii():
        for char in text:
            yield char, 1
        return
    for i, line in enumerate(text.split("\n")):
        if i:
            yield "\n", 0
        for start, end, width in split_graphemes(line)[0]:
            yield line[start:end], width


def _runs(glyphs: list[Glyph]) -> tuple[Run, ...]:
    runs: list[Run] = []
    for piece, _, key in glyphs:
        if runs and runs[-1][1] == key:
            runs[-1] = (runs[-1][0] + piece, key)
        else:
            runs.append((piece, key))
    return tuple(runs)
