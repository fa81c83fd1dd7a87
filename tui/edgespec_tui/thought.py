"""Finds where a model's thinking ends and its answer begins: between `<think>` and `</think>`.

Some templates write `<think>` into the prompt, so that a reply may begin with thoughts and show only their end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from edgespec.engine.messages import RoundDone
from edgespec.types import Origin

OPEN, CLOSE = "<think>", "</think>"
Part = tuple[int, tuple[Origin, ...], tuple[str, ...], tuple[str, ...], int]
"""Index of a round, and of some of its tokens: origins, texts; what the round threw away; the first one's place."""


class Thought:
    """Follows a growing reply.

    Attributes:
        open: is it thinking now?
        end: how many characters of the reply are thoughts, marks included; 0 while none are known.
    """

    def __init__(self) -> None:
        self.open = False
        self.end = 0
        self._text = ""

    def feed(self, text: str) -> bool:
        """Add text; has anything changed about what is thought and what is answer?"""
        seen = len(self._text)
        self._text += text
        if self.end:
            return False
        if (close := self._text.find(CLOSE, max(0, seen - len(CLOSE)))) >= 0:
            self.end, self.open = close + len(CLOSE), False
            return True
        if not self.open and seen < 64 and self._text.lstrip().startswith(OPEN):
            self.open = True
            return True
        return False

    @property
    def answer(self) -> str:
        """The reply without thoughts."""
        return "" if self.open else self._text[self.end :].lstrip("\n") if self.end else self._text

    def split(self, rounds: Sequence[RoundDone]) -> Iterator[tuple[bool, Part]]:
        """All rounds, in parts that are thought (True) or answer (False)."""
        offset = 0
        for event in rounds:
            count = 0
            for text in event.texts:
                if not self.open and offset >= self.end:
                    break
                offset += len(text)
                count += 1
            index, origins, texts = event.round.index, event.round.origins, event.texts
            if count:
                yield True, (index, origins[:count], texts[:count], event.rejected, 0)
            if count < len(texts):
                yield False, (index, origins[count:], texts[count:], event.rejected, count)
