"""What the loop takes off a draft before the target sees it."""

from __future__ import annotations

from collections.abc import Callable

from edgespec.types import Distribution, Draft


def trim(draft: Draft, limit: int, n_vocab: int, is_eog: Callable[[int], bool]) -> Draft:
    """The draft up to `limit` tokens, and up to the first one that ends the reply or that the target does not have.

    A sampled draft remembers that token as withheld: whether it was drawn depends on chance, so that to leave it out
    of the verdict would distort the law of what is emitted. Cutting at `limit` depends on nothing drawn.
    """
    tokens = draft.tokens
    for i, token in enumerate(tokens):
        if i == limit:
            return _first(draft, i)
        if not 0 <= token < n_vocab or is_eog(token):
            withheld = None if draft.probs is None else (token, draft.probs[i])
            return _first(draft, i, withheld)
    return draft


def _first(draft: Draft, count: int, withheld: tuple[int, Distribution] | None = None) -> Draft:
    probs = None if draft.probs is None else draft.probs[:count]
    return Draft(draft.tokens[:count], probs, draft.source, withheld)
