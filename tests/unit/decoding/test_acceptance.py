"""Chances of drafts: quick to follow, slow to forget, kept across starts."""

from __future__ import annotations

import json

import pytest

from edgespec.decoding.acceptance import Acceptance, Binned, Rate, Shares


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
    assert rate.value == pytest.approx(rate.long_run) and 0.65 < rate.value < 0.8


def test_what_a_reply_showed_fades_while_nothing_is_observed():
    rate = Rate(0.7)
    for _ in range(10):
        rate.record(False)
    low = rate.value
    rate.fade(200)
    assert low < rate.value == pytest.approx(rate.long_run, abs=0.01)


def test_intervals_keep_chances_of_their_own():
    binned = Binned((1, 5), (0.1, 0.5, 0.9))
    assert [binned.chance(key) for key in (0, 1, 4.9, 5, 99)] == pytest.approx([0.1, 0.5, 0.5, 0.9, 0.9])
    for _ in range(20):
        binned.rate(3).record(True)
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
        acceptance.lookup.rate(i).record(i > 20)
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
