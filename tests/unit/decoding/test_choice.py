"""The best length of a draft, and when to go on with one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.decoding.choice import PLAIN, DraftPlan, Risk, best_copy

STEPS = {1: 1.0, 2: 1.28, 3: 1.63, 4: 1.48, 5: 1.87, 6: 2.3, 7: 2.4, 8: 2.6}


def stepped(width):
    return STEPS.get(width, 2.6 + 0.5 * (width - 8))


def plan(later=0.8, limit=8, step=0.1, rate=1.0, caution=10.0, can_drop=True, v=stepped):
    return DraftPlan(later, limit, v, step, rate, Risk(caution), can_drop=can_drop)


def test_a_cheap_width_behind_a_dear_one_is_preferred():
    assert best_copy([0.5] * 3, stepped, Risk(10)).length == 3
    assert best_copy([0.5] * 2, stepped, Risk(10)).length == 1


def test_a_copy_that_does_not_pay_is_none():
    assert best_copy([0.2] * 8, stepped, Risk(10)) is PLAIN
    assert best_copy([], stepped, Risk(10)) is PLAIN


def test_no_copy_is_dearer_than_what_may_be_lost():
    def length(loss, limit=7):
        return best_copy([0.99] * limit, stepped, Risk(10, loss=loss)).length

    assert length(9) == 7
    assert length(0.5) == 3  # a pass of three tokens is too dear, one of four is not
    assert length(0.3) == 1
    assert length(0.2, limit=8) == 0


@given(st.lists(st.floats(0.05, 0.99), min_size=1, max_size=8))
def test_no_other_length_of_a_copy_is_better(chances):
    def speedup(length):
        tokens = path = 1.0
        for chance in chances[:length]:
            path *= chance
            tokens += path
        return tokens / stepped(length + 1) if path >= 0.01 else 0.0

    best = best_copy(chances, stepped, Risk(100))
    assert best.speedup == pytest.approx(max(1.0, *(speedup(n) for n in range(1, len(chances) + 1))))


def test_a_model_that_knows_what_it_does_not_know_costs_a_step_when_it_is_wrong():
    option = plan().expect([(1.0, 0.02)], 0.0)
    assert option.length == 0
    assert (option.tokens, option.cost) == pytest.approx((1.0, 1.1))


def test_drawn_tokens_cannot_be_dropped():
    option = plan(can_drop=False).expect([(1.0, 0.02)], 0.0)
    assert option.length >= 1 and option.cost >= 1.38


def test_expectation_weighs_the_kinds_of_first_tokens():
    one, other = plan().expect([(1.0, 0.9)], 0.0), plan().expect([(1.0, 0.1)], 0.0)
    both = plan().expect([(0.5, 0.9), (0.5, 0.1)], 0.0)
    assert both.tokens == pytest.approx((one.tokens + other.tokens) / 2)
    assert both.cost == pytest.approx((one.cost + other.cost) / 2)
    assert plan().expect([(1.0, 0.9)], 0.5).cost == pytest.approx(one.cost + 0.5)


@given(
    st.lists(st.floats(0.01, 0.99), min_size=1, max_size=12), st.floats(0.1, 0.98), st.floats(1.0, 2.5),
    st.booleans(), st.lists(st.floats(0.01, 1.0), min_size=8, max_size=8),
)  # fmt: skip
def test_for_every_first_token_the_best_length_is_expected(chances, later, rate, can_drop, steps):
    def v(width):
        return 1.0 + sum(steps[: width - 1]) - (0.3 if width == 4 else 0.0)

    def value(chance, length):
        gain = sum(later**i for i in range(length))
        return 1 + chance * gain - rate * (v(length + 1) + max(0, length - 1) * 0.1)

    shares = [(1 / len(chances), chance) for chance in chances]
    option = plan(later=later, limit=6, rate=rate, caution=100.0, can_drop=can_drop, v=v).expect(shares, 0.0)
    lengths = range(0 if can_drop else 1, 7)
    best = sum(share * max(value(chance, length) for length in lengths) for share, chance in shares)
    assert option.tokens - rate * (option.cost - 0.1) == pytest.approx(best, abs=0.02)


def test_what_a_draft_may_lose_depends_on_how_likely_it_is_to_fail():
    risky, safe = [(1.0, 0.7)], [(1.0, 0.99)]
    assert plan(caution=0.05).expect(risky, 0.0).length == 0
    assert plan(caution=0.05).expect(safe, 0.0).length > plan(caution=0.3).expect(risky, 0.0).length > 0


def test_a_draft_goes_on_while_it_is_sure_and_ends_where_it_is_not():
    draft = plan().start()
    for _ in range(3):
        draft.add(0.95)
    assert draft.pays() and draft.length == 3
    draft.add(0.1)
    assert draft.length == 3 and not draft.pays()


def test_a_dear_width_is_crossed_if_a_cheap_one_lies_behind_it():
    draft = plan(step=0.05, limit=3).start()
    draft.add(0.8)
    assert draft.pays()
    draft.add(0.3)
    assert draft.length == 1, "a pass of three costs more than its token is worth"


def test_a_draft_ends_at_its_limit():
    draft = plan(limit=2).start()
    for _ in range(2):
        draft.add(1.0)
    assert not draft.pays()


def test_time_that_is_worth_more_makes_drafts_shorter():
    def length(rate):
        draft = plan(rate=rate, v=lambda n: 1 + 0.1 * n).start()
        while draft.pays():
            draft.add(0.8)
        return draft.length

    lengths = [length(rate) for rate in (1.0, 1.5, 2.0, 3.0)]
    assert lengths == sorted(lengths, reverse=True) and lengths[0] > lengths[-1]
