"""What the loop needs of a model: a cache of tokens, a pass over more of them, and a way back."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Protocol

from edgespec.types import Prefilling

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Session(Protocol):
    """One model context and the tokens in its cache."""

    @property
    def tokens(self) -> Sequence[int]:
        """The tokens in the cache, in order. Not to be changed by the caller."""

    @property
    def length(self) -> int:
        """Number of tokens in the cache."""

    @property
    def n_ctx(self) -> int:
        """Number of tokens the cache can hold."""

    @property
    def n_vocab(self) -> int:
        """Width of a row of logits."""

    @property
    def max_batch(self) -> int:
        """Most tokens that one `decode` may take."""

    @property
    def chunk(self) -> int:
        """Most tokens that one `prefill` may take."""

    def decode(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """Append tokens to the cache; return their logits, shape (len(tokens), n_vocab).

        The array is a view that the next call overwrites.
        """

    def prefill(self, tokens: Sequence[int]) -> None:
        """Append tokens to the cache without computing logits."""

    def reusable(self, length: int) -> int:
        """How much of the first `length` cached tokens can be kept if the rest is dropped: `length`, or less."""

    def truncate(self, length: int) -> None:
        """Drop every token from position `length` on. Raises DecodeError if this memory cannot go back that far."""

    def close(self) -> None:
        """Free the context."""


class Vocabulary(Protocol):
    """What the loop needs to know about tokens."""

    def is_eog(self, token: int) -> bool:
        """Does this token end the reply?"""

    def piece(self, token: int) -> bytes:
        """The bytes this token adds to the text; empty for control tokens."""


class Interrupted(Exception):
    """Prompt processing was cancelled between two chunks; the cache holds what was done."""


def rewind(session: Session, length: int) -> None:
    """Leave at most the first `length` tokens in the cache, fewer where the memory cannot stop there."""
    if session.length > length:
        session.truncate(session.reusable(length))


def prefill(session: Session, tokens: Sequence[int], cancelled: Callable[[], bool]) -> Generator[Prefilling, None, int]:
    """Make the cache hold exactly `tokens`; yield after every chunk; return how many were there already.

    Keeps the longest prefix that the cache has in common with `tokens`. Raises Interrupted when `cancelled()` turns
    true between two chunks.
    """
    rewind(session, common_prefix(session.tokens, tokens))
    start = session.length
    while session.length < len(tokens):
        if cancelled():
            raise Interrupted
        session.prefill(tokens[session.length : session.length + session.chunk])
        yield Prefilling(done=session.length - start, total=len(tokens) - start)
    return start


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the longest common prefix."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
