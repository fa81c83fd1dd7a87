"""Drafts copied from the context itself: what followed the last time these words came up."""

from __future__ import annotations

from collections.abc import Sequence

from edgespec.decoding.drafters.none import NO_DRAFT
from edgespec.types import Draft, Origin, Verdict

TOKEN_BITS = 24
"""Token ids are smaller than 2 to this."""


class LookupDrafter:
    """Proposes what followed the most recent of the longest earlier occurrences of the context's last tokens.

    Text that does not repeat must not pay for text that does, so two things are learnt as the reply goes:

    - a draft is at most half as long as the match that suggests it (a match of `max_ngram` tokens suggests as much as
      is wanted): three common words prove little, half a line proves a copy;
    - a draft of which nothing is accepted raises the match length asked for by one, up to `max_ngram`; one that is
      wholly accepted sets it back to `min_ngram`. So chance matches soon stop costing anything.

    Replayed on 30,000 tokens of prose and replies, at a quarter of a plain step for every token verified beyond the
    first, this lost nothing (naive lookup with 7 tokens: up to 8 %); edits of code ran 2.0 to 2.6 times as fast, with
    4 to 16 tokens a draft.
    """

    name = "lookup"

    def __init__(self, min_ngram: int = 3, max_ngram: int = 16) -> None:
        if not 1 <= min_ngram <= max_ngram:
            raise ValueError(f"1 <= min_ngram <= max_ngram must hold, got {min_ngram} and {max_ngram}")
        self._min_ngram, self._max_ngram = min_ngram, max_ngram
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
        match = index.match_length
        if match < self._max_ngram:
            limit = min(limit, match // 2)
        if match < self._needed or limit < 1:
            return NO_DRAFT
        self._drafted = limit
        return Draft(index.continuation(limit), None, self.name)

    def observe(self, verdict: Verdict) -> None:
        if self._drafted and verdict.accepted == 0:
            self._needed = min(self._needed + 1, self._max_ngram)
        elif self._drafted and verdict.kind is Origin.BONUS:
            self._needed = self._min_ngram
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
        self._children: dict[int, int] = {}
        """Node and token, packed into one integer, to the child node; node 0 is the root."""
        self._last = [0]
        """Where each node's n-gram ended last; the complement (a negative number) for a node without children."""
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

    def predicted(self) -> int:
        """The token that followed the match; only where there is one."""
        return self._history[self.match_end + 1]

    def continuation(self, limit: int) -> tuple[int, ...]:
        """What followed the match, up to `limit` tokens; a match that reaches the end goes on in circles."""
        source = self._history[self.match_end + 1 : self.match_end + 1 + limit]
        rounds = -(-limit // len(source))
        return tuple((source * rounds)[:limit])

    def _add_last(self) -> None:
        history, children, last = self._history, self._children, self._last
        end = len(history) - 1
        length, match, node = 0, -1, 0
        for depth, token in enumerate(history[: -self._max - 1 : -1], start=1):
            key = node << TOKEN_BITS | token
            child = children.get(key)
            if child is None:
                children[key] = len(last)
                last.append(~end)
                break
            length, match = depth, last[child]
            last[child] = end
            if match < 0:  # a leaf until now
                match = ~match
                if match >= depth < self._max:
                    children[child << TOKEN_BITS | history[match - depth]] = len(last)
                    last.append(~match)
            node = child
        self.match_length, self.match_end = length, match
