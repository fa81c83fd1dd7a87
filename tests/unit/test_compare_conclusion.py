"""What repeated measurements allow to say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.conclusion import Conclusion, Spread, conclude, in_words


def test_a_spread_is_median_and_range() -> None:
    assert Spread.of([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0, 3)
    assert Spread.of([]) is None
    assert Spread(2.0, 1.0, 3.0, 3).width == 1.0


@pytest.mark.parametrize(
    ("ratios", "conclusion"),
    [
        ((1.5,), Conclusion.TOO_FEW),
        ((1.5, 1.5), Conclusion.TOO_FEW),
        ((1.5, 1.51, 1.49), Conclusion.FASTER),
        ((0.7, 0.72, 0.71), Conclusion.SLOWER),
        ((0.99, 1.0, 1.015), Conclusion.EQUAL),
        ((0.9, 1.1, 1.2), Conclusion.UNCLEAR),
        ((1.01, 1.03, 1.2), Conclusion.UNCLEAR),
        ((0.8, 0.97, 0.99), Conclusion.UNCLEAR),
        ((1.5, 1.52, 2.5), Conclusion.FASTER),
    ],
)
def test_a_conclusion_needs_repeats_that_agree(ratios: tuple[float, ...], conclusion: Conclusion) -> None:
    assert conclude(ratios) is conclusion


@given(st.lists(st.floats(0.1, 10), min_size=3, max_size=9))
def test_ratios_on_both_sides_never_decide(ratios: list[float]) -> None:
    found = conclude(ratios)
    if min(ratios) < 1 < max(ratios):
        assert found in (Conclusion.EQUAL, Conclusion.UNCLEAR)
    if found is Conclusion.FASTER:
        assert min(ratios) > 1
    if found is Conclusion.SLOWER:
        assert max(ratios) < 1


@pytest.mark.parametrize(
    ("ratios", "sentence"),
    [
        ((1.5, 1.51, 1.49), "lookup is faster than plain: 1.50x."),
        ((0.7, 0.72, 0.71), "lookup is slower than plain: 0.71x."),
        ((0.99, 1.0, 1.015), "lookup is as fast as plain, within 2%."),
        ((1.3,), "lookup: 1.30x in 1 repeat, too few to conclude anything; 3 or more show the noise."),
    ],
)
def test_a_conclusion_is_a_sentence(ratios: tuple[float, ...], sentence: str) -> None:
    spread = Spread.of(ratios)
    assert spread is not None
    assert in_words("lookup", spread, conclude(ratios)) == sentence


def test_a_wide_spread_is_said() -> None:
    for ratios, words in (((1.5, 1.6, 1.9), "direction"), ((0.8, 1.0, 1.3), "spread too widely (0.80x to 1.30x)")):
        spread = Spread.of(ratios)
        assert spread is not None
        assert words in in_words("draft:3", spread, conclude(ratios))
