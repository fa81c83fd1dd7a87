"""What repeated measurements allow to say."""

from __future__ import annotations

from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.conclusion import Conclusion, Spread, conclude, in_words, interval


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


@given(st.lists(st.floats(0.1, 10), min_size=3, max_size=30))
def test_a_direction_needs_most_ratios_on_its_side_and_all_of_a_few(ratios: list[float]) -> None:
    found = conclude(ratios)
    low, high = interval(ratios)
    assert min(ratios) <= low <= median(ratios) <= high <= max(ratios)
    if len(ratios) <= 8:
        assert (low, high) == (min(ratios), max(ratios))
    if found is Conclusion.FASTER:
        assert low > 1
    if found is Conclusion.SLOWER:
        assert high < 1


@pytest.mark.parametrize(("count", "left_out"), [(3, 0), (5, 0), (8, 0), (9, 1), (12, 2), (20, 5), (25, 7)])
def test_the_interval_is_that_of_the_sign_test(count: int, left_out: int) -> None:
    assert interval([float(n) for n in range(count)]) == (left_out, count - 1 - left_out)


def test_more_repeats_say_more() -> None:
    noisy = (0.97, 1.04, 1.06, 1.08, 1.2)
    assert conclude(noisy) is Conclusion.UNCLEAR
    assert conclude(noisy * 2) is Conclusion.UNCLEAR
    assert conclude(noisy * 4) is Conclusion.FASTER


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
    assert in_words("lookup", ratios, conclude(ratios)) == sentence


def test_a_wide_spread_is_said() -> None:
    for ratios, words in (((1.5, 1.6, 1.9), "direction"), ((0.8, 1.0, 1.3), "spread too widely (0.80x to 1.30x)")):
        assert words in in_words("draft:3", ratios, conclude(ratios))
