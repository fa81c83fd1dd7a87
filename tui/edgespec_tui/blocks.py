"""Finds where Markdown that is still being written is safe to format: behind a blank line outside a code fence.

To format an unfinished block again with every token costs more the longer it gets, most of all in a code fence. So what
is complete is handed out once, and the rest stays plain until it is complete too.
"""

from __future__ import annotations

import re

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


class BlockSplitter:
    """Takes text as it comes; hands out whole blocks and keeps the rest. Each character is looked at once."""

    def __init__(self) -> None:
        self._held: list[str] = []
        self._line = ""
        self._fence = ""

    def feed(self, text: str) -> str:
        """Add text; return the blocks that are complete now, "" if there is none."""
        complete: list[str] = []
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._held.append(line + "\n")
            self._note_fence(line)
            if not self._fence and not line.strip():
                complete += self._held
                self._held = []
        return "".join(complete)

    @property
    def rest(self) -> str:
        """What is not complete yet."""
        return "".join(self._held) + self._line

    def _note_fence(self, line: str) -> None:
        found = _FENCE.match(line)
        if found is None:
            return
        if not self._fence:
            self._fence = found[1]
        elif found[1].startswith(self._fence) and not line.strip(f" {self._fence[0]}"):
            self._fence = ""


def code_blocks(text: str) -> list[str]:
    """The contents of the code fences of a text, an unfinished one at its end included."""
    blocks: list[str] = []
    fence, lines = "", list[str]()
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if fence and found is not None and found[1].startswith(fence) and not line.strip(f" {fence[0]}"):
            blocks.append("\n".join(lines))
            fence, lines = "", []
        elif fence:
            lines.append(line)
        elif found is not None:
            fence = found[1]
    return [*blocks, "\n".join(lines)] if fence else blocks
