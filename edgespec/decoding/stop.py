"""Stop texts: found in the stream of bytes, however they are spread over tokens and rounds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from edgespec.types import Draft, Origin, Round, Verdict


class StopTexts:
    """Searches a growing stream for several texts at once (Knuth, Morris and Pratt), a constant amount of work a byte.

    The first text to be complete wins, the longer one if two end at the same byte; so what is found does not depend
    on how the stream was cut into pieces, which is what makes replies equal in all modes.

    Attributes:
        held: how many bytes at the end of the stream may be the beginning of a stop text.
    """

    def __init__(self, stops: Iterable[bytes]) -> None:
        # Longest first: among texts that end together it is the one found.
        self._stops = sorted(set(stops), key=len, reverse=True)
        if any(not stop for stop in self._stops):
            raise ValueError("a stop text must not be empty")
        self._borders = [_borders(stop) for stop in self._stops]
        self._matched = [0] * len(self._stops)
        self._length = 0
        self._first = {stop[0] for stop in self._stops}
        self.held = 0

    def feed(self, data: bytes) -> int | None:
        """Append to the stream; return where in the whole stream a stop text begins, once one is complete."""
        if self.held == 0 and self._first.isdisjoint(data):
            self._length += len(data)
            return None
        for byte in data:
            self._length += 1
            for i, stop in enumerate(self._stops):
                matched = self._matched[i]
                while matched and stop[matched] != byte:
                    matched = self._borders[i][matched - 1]
                if stop[matched] == byte:
                    matched += 1
                if matched == len(stop):
                    return self._length - matched
                self._matched[i] = matched
        self.held = max(self._matched)
        return None


def _borders(text: bytes) -> list[int]:
    """For every prefix of `text`, the length of its longest proper prefix that is also its suffix."""
    borders = [0] * len(text)
    for i in range(1, len(text)):
        n = borders[i - 1]
        while n and text[n] != text[i]:
            n = borders[n - 1]
        borders[i] = n + 1 if text[n] == text[i] else 0
    return borders


class StopGate:
    """Lets rounds through once no stop text can begin in them, and cuts the one in which a stop text does begin.

    Attributes:
        stopped: has a stop text been found? Nothing comes through after that.
        shown: how many tokens came through, those of a round that is being yielded included.
    """

    def __init__(self, stops: Sequence[bytes]) -> None:
        self._texts = StopTexts(stops)
        self._waiting: deque[tuple[int, Round]] = deque()
        """Rounds held back, each with the length of the stream at its end."""
        self._length = 0
        self.stopped = False
        self.shown = 0

    def push(self, round_: Round) -> Iterator[Round]:
        """Take the next round; yield those that may be shown now."""
        data = b"".join(round_.pieces)
        start = self._texts.feed(data)
        self._length += len(data)
        self._waiting.append((self._length, round_))
        if start is not None:
            self.stopped = True
            yield from self._up_to(start)
            return
        safe = self._length - self._texts.held
        while self._waiting and self._waiting[0][0] <= safe:
            yield self._show(self._waiting.popleft()[1])

    def flush(self) -> Iterator[Round]:
        """The reply is over: yield what was held back, unless it was a stop text."""
        while self._waiting:
            yield self._show(self._waiting.popleft()[1])

    def _up_to(self, start: int) -> Iterator[Round]:
        waiting = list(self._waiting)
        self._waiting.clear()
        for end, round_ in waiting:
            begin = end - sum(map(len, round_.pieces))
            cut = cut_round(round_, start - begin)
            if cut is not None:
                yield self._show(cut)

    def _show(self, round_: Round) -> Round:
        self.shown += len(round_.tokens)
        return round_


def cut_round(round_: Round, size: int) -> Round | None:
    """The round without what lies behind its first `size` bytes; None if nothing is left of it.

    A token that begins before the cut stays, with a shorter piece. Draft tokens behind the cut go too; a round that
    loses the target's own token counts as one whose draft, as far as it still exists, was accepted.
    """
    pieces: list[bytes] = []
    for piece in round_.pieces:
        if size <= 0 and (piece or size < 0):
            break
        pieces.append(piece[:size])
        size -= len(piece)
    kept = len(pieces)
    if kept == 0:
        return None
    if kept == len(round_.tokens):
        return replace(round_, pieces=tuple(pieces))
    return replace(
        round_,
        draft=Draft(round_.draft.tokens[:kept], None, round_.draft.source),
        verdict=Verdict(kept, round_.verdict.next_token, Origin.BONUS),
        tokens=round_.tokens[:kept],
        pieces=tuple(pieces),
    )
