"""Chances of drafts: quick to follow, slow to forget, kept across starts."""

from __future__ import annotations

import json

import pytest

from edgespec.decoding.acceptance import ENOUGH, Acceptance
from edgespec.decoding.chances import Binned, Rate, Shares, Trend


def test_a_rate_starts_from_its_prior_and_follows_what_it_sees():
    rate = Rate(0.6)
    assert rate.value == pytest.approx(0.6)
    for _ in range(30):
        rate.record(False)
    assert rate.value < 0.1
    for _ in range(20):
        rate.record(True)
    assert rate.value > 0.5


def test_another_reply_starts_from_the_long_run():
    rate = Rate(0.5)
    for i in range(1000):
        rate.record(i % 4 != 0)
    for _ in range(25):
        rate.record(False)
    assert rate.value < 0.4
    rate.forget_reply()
    assert rate.value == pytest.approx(rate.usual.value) and 0.65 < rate.value < 0.8


def test_what_a_reply_showed_fades_while_nothing_is_observed():
    rate = Rate(0.7)
    for _ in range(10):
        rate.record(False)
    low = rate.value
    rate.fade(200)
    assert low < rate.value == pytest.approx(rate.usual.value, abs=0.01)


def test_intervals_keep_chances_of_their_own():
    binned = Binned((1, 5), (0.1, 0.5, 0.9))
    assert [binned.chance(key) for key in (0, 1, 4.9, 5, 99)] == pytest.approx([0.1, 0.5, 0.5, 0.9, 0.9])
    for _ in range(20):
        binned.record(3, True)
    binned.forget_reply()
    assert binned.chance(1) > 0.9 and binned.chance(0) == pytest.approx(0.1)


def test_intervals_and_priors_must_fit():
    with pytest.raises(ValueError, match="interval"):
        Binned((1, 2), (0.5,))


def test_shares_add_up_to_one_and_follow():
    shares = Shares((1, 1, 2))
    assert shares.values == pytest.approx([0.25, 0.25, 0.5])
    for _ in range(30):
        shares.record(0)
    assert shares.values[0] > 0.8 and sum(shares.values) == pytest.approx(1)
    shares.fade(1000)
    assert sum(shares.values) == pytest.approx(1)


def learned():
    acceptance = Acceptance()
    for i in range(40):
        acceptance.examined(i % 3, 0.01 * i, i % 2 == 0)
        acceptance.lookup.record(i, i > 20)
    return acceptance


def test_what_was_learned_survives_in_json():
    acceptance = learned()
    again = Acceptance.from_json(json.loads(json.dumps(acceptance.to_json())))
    acceptance.forget_reply()
    assert again.first_chances() == [pytest.approx(pair, abs=1e-3) for pair in acceptance.first_chances()]
    assert again.lookup.values() == pytest.approx(acceptance.lookup.values(), abs=1e-3)
    assert again.later.value == pytest.approx(acceptance.later.value, abs=1e-3)


@pytest.mark.parametrize(
    "change",
    [
        {"later": [2, 1]}, {"later": [-1, 1]}, {"later": "x"}, {"later": None}, {"lookup": []}, {"first": [1]},
        {"first": [-1.0] * 12}, {"confidence": [[1, float("nan")]] * 12},
    ],
)  # fmt: skip
def test_a_description_that_makes_no_sense_is_refused(change):
    with pytest.raises(ValueError):
        Acceptance.from_json(learned().to_json() | change)


def test_a_missing_part_is_refused():
    with pytest.raises(ValueError):
        Acceptance.from_json({})


def test_a_trend_moves_all_chances_of_a_kind_together_for_one_reply():
    binned = Binned((1,), (0.5, 0.8))
    for _ in range(12):
        binned.record(0, False)
    assert binned.chance(1) < 0.7
    binned.forget_reply()
    assert binned.chance(1) == pytest.approx(0.8)


def test_a_trend_that_is_as_usual_changes_nothing():
    trend = Trend()
    for hit in (True, True, False, True) * 10:
        trend.record(0.75, hit)
    assert trend.apply(0.75) == pytest.approx(0.75, abs=0.02)
    assert trend.apply(0.0) == 0.0 and trend.apply(1.0) == 1.0


def test_a_pair_is_known_after_enough_comparisons_also_ones_that_cost_no_draft():
    acceptance = Acceptance()
    acceptance.examined(0, 0.9, True)
    assert not acceptance.pair_known
    for i in range(ENOUGH):
        acceptance.heard(0.9, True, after_hit=i > 0)
    assert acceptance.pair_known and acceptance.later.value > 0.9
