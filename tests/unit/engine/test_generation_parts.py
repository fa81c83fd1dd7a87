"""The parts of loading and generating that need no model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from token_cache import TokenCache

from edgespec.engine import messages as m
from edgespec.engine.generation import PLAIN_ROUNDS, check_options, time_plain_step
from edgespec.engine.open_model import SHORTEST_CHUNK, chunk_length
from edgespec.errors import SettingsError

CONTEXT = [5, 6, 7, 8]


class CountingSession(TokenCache):
    """A cache of tokens that counts passes and may be unable to go back."""

    n_vocab = 10
    max_batch = chunk = 8

    def __init__(self, tokens: Sequence[int], n_ctx: int = 100, rewinds: bool = True) -> None:
        self.tokens = list(tokens)
        self.n_ctx = n_ctx
        self.rewinds = rewinds
        self.passes = 0

    def decode(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        self.passes += 1
        self.prefill(tokens)
        return np.zeros((len(tokens), self.n_vocab), dtype=np.float32)

    def reusable(self, length: int) -> int:
        return length if self.rewinds else 0


def never() -> bool:
    return False


def test_a_plain_step_is_measured_behind_the_context_and_taken_back() -> None:
    session = CountingSession(CONTEXT[:-1])
    seconds = time_plain_step(session, CONTEXT, never)
    assert seconds is not None and seconds > 0
    assert session.passes == 1 + PLAIN_ROUNDS
    assert session.tokens == CONTEXT[:-1]


def test_nothing_is_measured_when_cancelled_full_or_out_of_step() -> None:
    for session, cancelled in (
        (CountingSession(CONTEXT[:-1]), lambda: True),
        (CountingSession(CONTEXT[:-1], n_ctx=3), never),
        (CountingSession([]), never),
    ):
        before = list(session.tokens)
        assert time_plain_step(session, CONTEXT, cancelled) is None
        assert session.passes == 0 and session.tokens == before


def test_a_pass_that_cannot_be_taken_back_leaves_only_the_context() -> None:
    session = CountingSession(CONTEXT[:-1], rewinds=False)
    assert time_plain_step(session, CONTEXT, never) is None
    assert session.tokens == CONTEXT


@pytest.mark.parametrize(
    "changes",
    [
        {"draft_length": -1},
        {"draft_length": m.MAX_DRAFT_LENGTH + 1},
        {"max_tokens": 0},
        {"min_ngram": 0},
        {"min_ngram": 5, "max_ngram": 4},
        {"stop": ("a", "")},
    ],
)
def test_options_without_meaning_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        check_options(m.GenerateOptions(**changes))


def test_options_at_their_bounds_are_accepted() -> None:
    check_options(m.GenerateOptions())
    for length in (0, m.MAX_DRAFT_LENGTH):
        check_options(m.GenerateOptions(draft_length=length, max_tokens=1, min_ngram=1, max_ngram=1, stop=("a",)))


def test_prompt_passes_shrink_with_the_model_on_a_cpu_only() -> None:
    lengths = [chunk_length(n, 512, 0) for n in (0, 10**6, 135 * 10**6, 500 * 10**6, 10**9, 70 * 10**9)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] == 512 and lengths[-1] == SHORTEST_CHUNK
    assert chunk_length(70 * 10**9, 512, -1) == 512
    assert chunk_length(1, 16, 0) == 16
