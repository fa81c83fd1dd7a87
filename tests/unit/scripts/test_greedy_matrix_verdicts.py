"""What the matrix calls a tie, a difference, and a failure."""

from __future__ import annotations

from bench_common import Reply
from greedy_matrix import Cell, Difference, differences


def cell(*found: Difference, drafted: int = 100, accepted: int = 100, self_draft: bool = True) -> Cell:
    return Cell("m", "d", "draft", 3, 1, 10, drafted, accepted, found, self_draft)


def test_only_the_first_difference_counts_and_a_close_call_is_a_tie() -> None:
    plain = [Reply((1, 2, 3), 0, 0), Reply((1, 2, 3), 0, 0), Reply((1, 2, 3), 0, 0)]
    found = [Reply((1, 2, 3), 9, 9), Reply((1, 9, 8), 9, 9), Reply((1, 2, 9), 9, 9)]
    gaps = [[1.0, 1.0, 1.0], [1.0, 1e-4, 1.0], [1.0, 1e-4, 0.5]]
    assert list(differences(plain, found, gaps, 1e-3)) == [
        Difference(1, 1, 1e-4, 2, 9, True),
        Difference(2, 2, 0.5, 3, 9, False),
    ]


def test_a_reply_that_is_cut_short_is_a_difference() -> None:
    found = list(differences([Reply((1, 2, 3), 0, 0)], [Reply((1, 2), 0, 0)], [[1e-9] * 3], 1e-3))
    assert [(d.position, d.tie) for d in found] == [(2, False)]


def test_a_real_difference_or_a_disloyal_self_draft_fails() -> None:
    assert cell().ok
    assert cell(Difference(0, 0, 1e-4, 1, 2, True)).ok
    assert not cell(Difference(0, 0, 0.5, 1, 2, False)).ok
    assert not cell(accepted=97).ok
    assert cell(accepted=97, self_draft=False).ok
    assert cell(drafted=0, accepted=0).ok
