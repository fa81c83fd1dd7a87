"""Drafts copied from the context itself: what followed the last time these words came up."""

from __future__ import annotations

from collections.abc import Sequence

from edgespec.decoding.drafters.none import NO_DRAFT
from edgespec.types import Draft, Verdict


class LookupDrafter:
    """Proposes what followed the most recent of the longest earlier occurrences of the context's last tokens."""

    name = "lookup"

    def __init__(self, min_ngram: int = 3, max_ngram: int = 16) -> None:
        if not 1 <= min_ngram <= max_ngram:
            raise ValueError(f"1 <= min_ngram <= max_ngram must hold, got {min_ngram} and {max_ngram}")
        self._min_ngram = min_ngram
        self._needed = min_ngram
        self._drafted = 0
        self._index = SuffixIndex(max_ngram)

    def begin(self, context: Sequence[int]) -> None:
        self._index.follow(context)
        self._needed = self._min_ngram
        self._drafted = 0

    def propose(self, context: Sequence[int], limit: int) -> Draft:
        index = self._index
        index.extend(context[len(index) :])
        if index.match_length < self._needed:
            return NO_DRAFT
        tokens = index.continuation(limit)
        self._drafted = len(tokens)
        return Draft(tokens, None, self.name)

    def observe(self, verdict: Verdict) -> None:
        self._drafted = 0

    def finish(self, length: int) -> None:
        self._index.forget(length)
        self._drafted = 0

    def close(self) -> None: ...


class SuffixIndex:
    """A history of tokens and the latest earlier occurrence of its longest suffix, kept up to date token by token.

    The index is a tree over the history read backwards: the node reached by the tokens x, y, z stands for the n-gram
    z y x, and knows where it occurred last. A node gets children only when its n-gram occurs a second time (the first
    occurrence is then added below it too), so that text without repetition costs a node a token, and no token costs
    more than `max_ngram` steps.

    Attributes:
        match_length: length of the longest suffix, up to max_ngram, that also ended earlier; 0 if there is none.
        match_end: position of the last token of the latest such earlier occurrence.
    """

    def __init__(self, max_ngram: int) -> None:
        self._max = max_ngram
        self._clear()

    def __len__(self) -> int:
        return len(self._history)

    def _clear(self) -> None:
        self._history: list[int] = []
        self._children: dict[tuple[int, int], int] = {}
        self._last = [-1]
        self._leaf = [False]
        self.match_length = 0
        self.match_end = -1

    def follow(self, context: Sequence[int]) -> None:
        """Make the history equal to `context`; cheap if the context goes on from the history."""
        known = len(self._history)
        if list(context[:known]) != self._history:
            self._clear()
        self.extend(context[len(self._history) :])

    def forget(self, length: int) -> None:
        """Keep the first `length` tokens. An index cannot shrink: if it must, it is built anew."""
        if length < len(self._history):
            self.follow(self._history[:length])

    def extend(self, tokens: Sequence[int]) -> None:
        """Append tokens to the history."""
        for token in tokens:
            self._history.append(token)
            self._add_last()

    def continuation(self, limit: int) -> tuple[int, ...]:
        """What followed the match, up to `limit` tokens; a match that reaches the end goes on in circles."""
        source = self._history[self.match_end + 1 : self.match_end + 1 + limit]
        rounds = -(-limit // len(source))
        return tuple((source * rounds)[:limit])

    def _add_last(self) -> None:
        history, children, last, leaf = self._history, self._children, self._last, self._leaf
        end = len(history) - 1
        self.match_length, self.match_end = 0, -1
        node = 0
        for depth in range(min(self._max, len(history))):
            key = (node, history[end - depth])
            child = children.get(key)
            if child is None:
                children[key] = len(last)
                last.append(end)
                leaf.append(True)
                return
            earlier = last[child]
            self.match_length, self.match_end = depth + 1, earlier
            last[child] = end
            if leaf[child]:
                leaf[child] = False
                before = earlier - depth - 1
                if before >= 0 and depth + 1 < self._max:
                    children[child, history[before]] = len(last)
                    last.append(earlier)
                    leaf.append(True)
            node = child
