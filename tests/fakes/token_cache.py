"""What sessions without a model have in common: a cache of tokens, and no more."""

from __future__ import annotations

from collections.abc import Sequence


class TokenCache:
    """The tokens in the cache, and how they come and go; a subclass adds what its passes do."""

    tokens: list[int]

    @property
    def length(self) -> int:
        return len(self.tokens)

    def prefill(self, tokens: Sequence[int]) -> None:
        self.tokens += tokens

    def reusable(self, length: int) -> int:
        return length

    def truncate(self, length: int) -> None:
        del self.tokens[length:]

    def close(self) -> None: ...
