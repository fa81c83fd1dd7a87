"""Sampling: the parameters users set, the protocol the loop asks for, and greedy choice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

from edgespec.errors import SettingsError
from edgespec.types import Distribution

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


PENALTY_WINDOW = 64
"""How many of the latest tokens the repeat penalty looks at, as in llama.cpp."""

MAX_SEED = 2**32 - 2
"""Largest seed; llama.cpp reads the next number as a wish for a random one."""


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """What users set, with llama.cpp's meanings and order: penalty, top-k, top-p, min-p, temperature, draw.

    Raises SettingsError for a value out of range: a clamped value would be a wish that is silently ignored.

    Attributes:
        temperature: 0 is greedy.
        top_k: keep the k most likely tokens; 0 keeps all.
        top_p: keep the smallest set with this much probability; 1 keeps all.
        min_p: drop tokens less likely than this share of the likeliest; 0 keeps all.
        repeat_penalty: divide the logits of recent tokens by this; 1 is off.
        seed: of the random numbers; the same seed gives the same reply.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repeat_penalty: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        # Comparisons are written so that NaN fails them.
        _require(0 <= self.temperature < math.inf, "temperature", self.temperature, "0 or more")
        _require(self.top_k >= 0, "top-k", self.top_k, "0 (all tokens) or more")
        _require(0 < self.top_p <= 1, "top-p", self.top_p, "above 0 and at most 1")
        _require(0 <= self.min_p <= 1, "min-p", self.min_p, "between 0 and 1")
        _require(0 < self.repeat_penalty < math.inf, "repeat penalty", self.repeat_penalty, "above 0 (1 is off)")
        _require(0 <= self.seed <= MAX_SEED, "seed", self.seed, f"between 0 and {MAX_SEED}")


def _require(holds: bool, name: str, value: float, allowed: str) -> None:
    if not holds:
        raise SettingsError(f"The {name} is {value}, but it must be {allowed}.", "Give another value, or leave it out.")


class Sampler(Protocol):
    """The sampler chain: from a row of logits to the law the reply is drawn from, and a draw from it."""

    @property
    def greedy(self) -> bool:
        """Is every choice the argmax of the bare logits, whatever came before?"""

    def distribution(self, row: NDArray[np.float32]) -> Distribution:
        """The law after the whole chain, for one row of logits of shape (n_vocab,)."""

    def sample(self, row: NDArray[np.float32]) -> int:
        """Draw a token from that law."""

    def accept(self, token: int) -> None:
        """Advance the state (penalties, grammar) by a token that is kept; never by one that is only drafted."""

    def clone(self) -> Self:
        """A copy whose state moves on its own."""


def prime(sampler: Sampler, prompt: Sequence[int]) -> None:
    """Show a sampler the end of the prompt: what was just said counts as said, as in llama.cpp's server."""
    if not sampler.greedy:
        for token in prompt[-PENALTY_WINDOW:]:
            sampler.accept(token)


class GreedySampler:
    """Always the likeliest token; the lowest id among equals. Stateless."""

    greedy = True

    def distribution(self, row: NDArray[np.float32]) -> Distribution:
        import numpy as np

        return Distribution(np.array([row.argmax()], dtype=np.int32), np.ones(1))

    def sample(self, row: NDArray[np.float32]) -> int:
        return int(row.argmax())

    def accept(self, token: int) -> None: ...

    def clone(self) -> Self:
        return self
