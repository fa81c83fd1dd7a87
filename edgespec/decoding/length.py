"""How many tokens to draft in the next round."""

from __future__ import annotations

from typing import Protocol

from edgespec.types import Round


class LengthPolicy(Protocol):
    """Chooses the draft length k, round by round."""

    def next(self) -> int:
        """Most tokens to draft in the coming round; 0 for none."""

    def observe(self, round_: Round) -> None:
        """Learn from a finished round."""


class FixedLength:
    """The same draft length in every round."""

    def __init__(self, length: int) -> None:
        if length < 0:
            raise ValueError(f"draft length must not be negative, got {length}")
        self.length = length

    def next(self) -> int:
        return self.length

    def observe(self, round_: Round) -> None: ...
