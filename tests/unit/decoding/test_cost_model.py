"""What passes cost: learned from medians, steps and all."""

from __future__ import annotations

import json

import pytest

from edgespec.decoding.cost import FRESH, RECENT, CostModel, Curve
from edgespec.types import Draft, Origin, Round, Verdict


def round_of(width, seconds, draft_seconds=0.0):
    drafted = tuple(range(width - 1))
    verdict = Verdict(0, 0, Origin.CORRECTED if drafted else Origin.PLAIN)
    return Round(0, Draft(drafted), verdict, (0,), (b"",), draft_seconds, seconds, 0.0)


def calibrated():
    costs = CostModel()
    costs.calibrate([{1: 0.1, 2: 0.13, 4: 0.15, 8: 0.27}] * 5, 0.01, 0.004)
    return costs


def test_measured_widths_are_kept_and_those_between_lie_on_the_line():
    curve = Curve({1: 1.0, 2: 1.3, 4: 1.5, 8: 2.7})
    assert [curve.v(n) for n in (1, 2, 4, 8)] == [1.0, 1.3, 1.5, 2.7]
    assert curve.v(3) == pytest.approx(1.4)
    assert curve.v(6) == pytest.approx(2.1)


def test_a_step_downwards_survives():
    curve = Curve({1: 1.0, 3: 1.63, 4: 1.48})
    assert curve.v(3) > curve.v(4)


def test_beyond_the_widest_the_mean_slope_goes_on():
    assert Curve({1: 1.0, 5: 2.0}).v(9) == pytest.approx(3.0)
    assert Curve().v(2) > 1


def test_calibration_gives_ratios():
    costs = calibrated()
    assert costs.unit == 0.1 and costs.v(4) == pytest.approx(1.5)
    assert costs.step == pytest.approx(0.1)
    assert costs.catch_up(1) == 0 and costs.catch_up(11) == pytest.approx(10 * 0.4 * 0.1)


def test_a_measurement_on_a_busy_machine_is_outvoted_by_later_ones_even_after_a_restart():
    costs = CostModel()
    costs.calibrate([{1: 0.1, 2: 0.68, 4: 0.69}])
    assert costs.v(4) == pytest.approx(6.9)
    costs = CostModel.from_json(costs.to_json())
    costs.calibrate([{1: 0.1, 2: 0.13, 4: 0.15}, {1: 0.2, 2: 0.26, 4: 0.30}])
    assert costs.v(4) == pytest.approx(1.5) and costs.measurements == 9


def test_a_machine_that_slows_down_moves_the_unit_and_no_ratio():
    costs = calibrated()
    before = costs.v(4)
    for _ in range(RECENT):
        costs.observe(round_of(4, 0.3), 0, 1)
    assert costs.unit == pytest.approx(0.2)
    assert costs.v(4) == pytest.approx(before)


def test_a_single_hiccup_moves_nothing():
    costs = calibrated()
    for width, seconds in [(1, 0.1), (4, 0.15)] * 10 + [(4, 3.0)]:
        costs.observe(round_of(width, seconds), 0, 1)
    assert costs.unit == pytest.approx(0.1) and costs.v(4) == pytest.approx(1.5)


def test_a_width_that_costs_something_else_than_thought_is_learned_beside_plain_passes():
    costs = calibrated()
    for _ in range(20):
        costs.observe(round_of(1, 0.1), 0, 1)
        costs.observe(round_of(4, 0.25), 0, 1)
    assert costs.v(4) == pytest.approx(2.5)
    assert costs.v(2) == pytest.approx(1.3)


def test_plain_passes_of_long_ago_are_not_compared_with():
    costs = calibrated()
    costs.observe(round_of(1, 0.1), 0, 1)
    for _ in range(FRESH):
        costs.observe(round_of(2, 0.26), 0, 1)
    value = costs.v(2)
    costs.observe(round_of(2, 26.0), 0, 1)
    assert costs.v(2) == value and costs.plain_age == FRESH + 1


def test_draft_steps_are_learned_and_catching_up_is_not_held_against_them():
    costs = calibrated()
    for _ in range(10):
        costs.observe(round_of(4, 0.15, draft_seconds=0.06 + 10 * 0.4 * 0.02), steps=3, behind=11)
    assert costs.step == pytest.approx(0.2)


def test_long_contexts_have_ratios_of_their_own():
    costs = calibrated()
    costs.at(5000)
    for _ in range(20):
        costs.observe(round_of(1, 0.2), 0, 1)
        costs.observe(round_of(4, 0.4), 0, 1)
    assert costs.v(4) == pytest.approx(2.0)
    costs.at(10)
    assert costs.v(4) == pytest.approx(1.5)
    costs.at(20_000)
    assert costs.v(4) == pytest.approx(2.0)  # the nearest length that is known


def test_the_price_of_a_plain_step_is_known_without_plain_rounds():
    costs = calibrated()
    assert costs.plain_seconds is None
    for _ in range(3):
        costs.observe(round_of(4, 0.3), 0, 1)
    assert costs.plain_seconds == pytest.approx(0.2)


def test_rounds_without_a_time_teach_nothing():
    costs = calibrated()
    costs.observe(round_of(4, 0.0), 0, 1)
    assert costs.unit == 0.1


def test_what_was_learned_survives_in_json():
    costs = calibrated()
    costs.at(3000)
    for _ in range(20):
        costs.observe(round_of(1, 0.1), 0, 1)
        costs.observe(round_of(3, 0.2, draft_seconds=0.04), 2, 1)
    again = CostModel.from_json(json.loads(json.dumps(costs.to_json())))
    again.at(3000)
    assert again.calibrated and again.unit == costs.unit and again.step == costs.step
    assert [again.v(n) for n in range(1, 20)] == [costs.v(n) for n in range(1, 20)]


@pytest.mark.parametrize(
    "change",
    [
        {"unit": 0}, {"measurements": 0}, {"unit": "x"}, {"unit": None}, {"step": -1}, {"curves": {}}, {"curves": []},
        {"curves": {"0": {"2": float("nan")}}}, {"curves": {"0": {"0": 1.0}}}, {"curves": {"0": None}},
    ],
)  # fmt: skip
def test_a_description_that_makes_no_sense_is_refused(change):
    with pytest.raises(ValueError):
        CostModel.from_json(calibrated().to_json() | change)
