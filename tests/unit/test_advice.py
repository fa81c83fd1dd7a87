"""Advice follows the formula where nothing was measured and the measurement where something was."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.advice import (
    Case,
    Chance,
    Costs,
    Source,
    advise,
    assumed_chances,
    assumed_costs,
    best_choice,
    break_even,
    expected_tokens,
    speedup,
)
from edgespec.cli.advice_text import as_object, grounds, several
from edgespec.cli.advice_text import one as one_kind
from edgespec.cli.advise import KINDS, better
from edgespec.curves import ALPHAS, draw, panels
from edgespec.curves_svg import to_svg
from edgespec.evidence import observed
from edgespec.types import Draft, Mode, Origin, Round, Verdict
from edgespec.work import WORKS, at_temperature

STEPS = Costs(((1, 1.0), (2, 1.25), (3, 1.63), (4, 1.48), (5, 1.9), (6, 2.4), (8, 2.6), (9, 3.1)), 0.1, 0.07,
              Source.STORED)  # fmt: skip
"""A processor that works in groups of four."""


def ideal(width: int) -> float:
    return 1.0


@pytest.mark.parametrize(
    ("alpha", "length", "tokens"), [(0.5, 1, 1.5), (0.5, 3, 1.875), (0.8, 4, 3.3616), (0.0, 7, 1.0), (1.0, 7, 8.0)]
)
def test_tokens_of_a_pass(alpha: float, length: int, tokens: float) -> None:
    assert expected_tokens(alpha, length) == pytest.approx(tokens)


@given(st.floats(0, 1), st.integers(0, 32))
def test_a_pass_brings_at_least_one_token_and_at_most_the_draft_and_one(alpha: float, length: int) -> None:
    assert 1 <= expected_tokens(alpha, length) <= length + 1 + 1e-9


@pytest.mark.parametrize(
    ("alpha", "length", "step", "gain"),
    [(0.8, 5, 0.05, 3.68928 / 1.25), (0.8, 5, 0.0, 3.68928), (0.5, 2, 0.1, 1.75 / 1.2)],
)
def test_where_wide_passes_are_free_it_is_the_formula_of_the_paper(
    alpha: float, length: int, step: float, gain: float
) -> None:
    assert speedup(Chance(alpha), length, step, ideal) == pytest.approx(gain)


def test_passes_without_a_draft_are_plain_steps() -> None:
    v = STEPS.curve()
    assert speedup(Chance(0.9, share=0.0), 3, 0.0, v) == 1.0
    half = (0.5 * expected_tokens(0.9, 3) + 0.5) / (0.5 * 1.48 + 0.5)
    assert speedup(Chance(0.9, share=0.5), 3, 0.0, v) == pytest.approx(half)


@pytest.mark.parametrize(("length", "step"), [(1, 0.0), (3, 0.0), (3, 0.1), (7, 0.1)])
def test_from_the_break_even_rate_on_a_draft_gains(length: int, step: float) -> None:
    v = STEPS.curve()
    rate = break_even(length, step, v)
    assert rate is not None
    assert speedup(Chance(rate), length, step, v) == pytest.approx(1, abs=1e-3)
    assert speedup(Chance(rate - 0.05), length, step, v) < 1 < speedup(Chance(rate + 0.05), length, step, v)


def test_a_draft_that_costs_more_than_it_could_bring_never_gains_and_a_free_one_always_does() -> None:
    assert break_even(2, 1.0, STEPS.curve()) is None
    assert break_even(4, 0.0, ideal) == pytest.approx(0, abs=1e-3)


def test_the_best_length_lies_before_a_step_in_the_curve() -> None:
    found = best_choice(Mode.DRAFT, Chance(0.75), STEPS.step, STEPS.curve())
    assert found.length == 3
    assert found.speedup == pytest.approx(expected_tokens(0.75, 3) / (0.3 + 1.48))
    assert best_choice(Mode.DRAFT, Chance(0.1), STEPS.step, STEPS.curve()).length == 1
    assert best_choice(Mode.LOOKUP, Chance(0.95), 0.0, ideal).length == 16


def case(**changes: object) -> Case:
    lookup, draft = assumed_chances(WORKS["code"], 0.0)
    return replace(Case(WORKS["code"], STEPS, lookup, draft, 0.1), **changes)  # type: ignore[arg-type]


def test_the_mode_that_gains_most_is_advised_with_its_length_and_reason() -> None:
    found = advise(case())
    assert (found.best.mode, found.best.length) == (Mode.DRAFT, 3)
    assert [choice.mode for choice in found.choices] == [Mode.PLAIN, Mode.LOOKUP, Mode.DRAFT]
    assert found.why == (
        "75% of the draft model's tokens are right, so 3 of them bring 2.73 tokens a pass; "
        "drafting and checking them costs 1.78 plain steps.",
    )
    assert found.against == ()


def test_copies_win_where_most_of_the_reply_is_in_the_prompt() -> None:
    found = advise(case(lookup=Chance(0.95, 0.9)))
    assert found.best.mode is Mode.LOOKUP
    assert "In 90% of the passes" in found.why[0]


def test_nothing_is_advised_where_nothing_pays() -> None:
    found = advise(case(lookup=Chance(0.3, 0.1), draft=Chance(0.2)))
    assert (found.best.mode, found.best.length, found.best.speedup) == (Mode.PLAIN, 0, 1.0)
    assert "The best that drafting promises is 1.0" in found.why[0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"reply_tokens": 5}, "Replies of fewer than 16 tokens"),
        ({"temperature": 1.2}, "Temperature 1.2"),
        ({"no_room": "This needs 9 GB."}, "No memory for the draft model. This needs 9 GB."),
        ({"draft_share": 0.3, "costs": replace(STEPS, source=Source.ASSUMED)}, "30% of the target's size; above about"),
        ({"draft_share": 0.3, "costs": replace(STEPS, step=0.31)}, "A draft step costs 0.31 plain steps here"),
    ],
)
def test_what_speaks_against_it_is_said(changes: dict[str, object], words: str) -> None:
    assert any(words in sentence for sentence in advise(case(**changes)).against)


def test_nothing_is_said_against_a_large_draft_model_whose_steps_were_measured_to_be_cheap() -> None:
    assert advise(case(draft_share=0.3)).against == ()


def test_short_replies_are_answered_plainly_and_a_draft_without_room_is_not_advised() -> None:
    assert advise(case(reply_tokens=5)).best.mode is Mode.PLAIN
    assert advise(case(no_room="This needs 9 GB.")).best.mode is not Mode.DRAFT


def test_assumptions_are_lower_the_hotter_it_is() -> None:
    values = [at_temperature(0.8, temperature) for temperature in (0.0, 0.5, 1.0, 1.2, 1.5, 9.0)]
    assert values == pytest.approx([0.8, 0.7, 0.6, 0.36, 0.0, 0.0])


def test_without_measured_costs_a_device_makes_wide_passes_cheap() -> None:
    assert assumed_costs(0.1, device=False).curve()(5) == pytest.approx(2.2)
    assert assumed_costs(0.1, device=True).curve()(5) == pytest.approx(1.2)
    assert assumed_costs(0.1, device=True).step == 0.1


def test_earlier_replies_do_not_say_how_often_this_kind_of_work_can_be_copied() -> None:
    assumed = Chance(0.6, 0.2)
    assert better(None, assumed) is assumed
    seen = Chance(0.9, 1.0, Source.STORED, examined=80)
    assert better(seen, assumed) == Chance(0.9, 0.2, Source.STORED, examined=80)
    measured = Chance(0.9, 0.7, Source.MEASURED, Source.MEASURED, 80)
    assert better(measured, assumed) is measured


def test_a_rate_of_two_tokens_says_nothing_but_the_share_of_passes_does() -> None:
    few = Chance(0.5, 0.04, Source.MEASURED, Source.MEASURED, 2)
    assert better(few, Chance(0.7, 0.2)) == Chance(0.7, 0.04, share_source=Source.MEASURED)


def round_of(drafted: int, accepted: int) -> Round:
    kind = Origin.PLAIN if not drafted else Origin.BONUS if accepted == drafted else Origin.CORRECTED
    draft = Draft(tuple(range(drafted)), None, Origin.PLAIN) if drafted else Draft((), None, Origin.PLAIN)
    return Round(0, draft, Verdict(accepted, 1, kind), (1,) * (accepted + 1), (b"",) * (accepted + 1), 0.0, 0.1, 0.0)


def test_what_replies_show_is_counted_by_what_was_examined() -> None:
    found = observed([round_of(4, 4), round_of(4, 1), round_of(0, 0), round_of(0, 0)])
    assert found == Chance(5 / 6, 0.5, Source.MEASURED, Source.MEASURED, 6)
    assert observed([]) is None
    assert observed([round_of(0, 0)]) == Chance(0.0, 0.0, Source.MEASURED, Source.MEASURED, 0)


# Shown


def test_every_number_says_where_it_comes_from() -> None:
    text = "\n".join(grounds(advise(case(draft=Chance(0.8, 1.0, Source.STORED, examined=1234)))))
    assert "Costs (measured in earlier replies): passes of 2, 4 and 8 tokens cost 1.25, 1.48 and 2.60" in text
    assert "a draft step 0.10; a plain step takes 70.0 ms." in text
    assert "Copies: 70% right (assumed), in 20% of the passes (assumed)." in text
    assert "Draft model: 80% of its tokens right (measured in earlier replies, 1,234 tokens)." in text
    assert "`--measure` replaces what is assumed." in text


def test_one_kind_is_explained_and_several_are_a_table() -> None:
    found = [advise(case(work=work)) for work in WORKS.values()]
    assert "For code (writing new code): --mode draft --draft-length 3" in one_kind(found[1])[0]
    long = replace(found[0], best=replace(found[0].best, mode=Mode.LOOKUP, length=16))
    assert len({len(line) for line in several([long, *found])[:8]}) == 1  # the columns stay below their heads
    table = several(found)
    assert [line.split()[0] for line in table[1:7]] == list(KINDS) == list(WORKS)


def test_advice_is_one_plain_object_in_json() -> None:
    found = json.loads(json.dumps(as_object(advise(case()))))
    assert (found["mode"], found["draft_length"]) == ("draft", 3)
    assert found["costs"]["verify"]["4"] == 1.48
    assert found["draft"]["source"] == "assumed"


# Curves


def test_curves_begin_at_plain_speed_and_the_ideal_one_is_never_below() -> None:
    tokens, gains = panels(STEPS)
    assert [line.alpha for line in tokens.lines] == list(ALPHAS)
    assert tokens.lines[1].values[3] == pytest.approx(2.533)
    ideal_lines, here = gains.lines[:3], gains.lines[3:]
    assert all(line.values[0] == 1 for line in gains.lines)
    for best, real in zip(ideal_lines, here, strict=True):
        assert all(a >= b for a, b in zip(best.values, real.values, strict=True))
    assert here[1].values[3] == pytest.approx(2.533 / 1.78)


SMALL = """\
Predicted speed-up

    2 |            c
      |        c
      |
      |    c   b   b
      |    b
      |    C   C   C
      |    B   B   a
    1 |C . A . . . B
      |        A
      |            A
      |
      |
      |
      |
    0 |
      +-------------
       0   1   2   3  draft length
       this machine: A alpha 0.5  B alpha 0.7  C alpha 0.85
       ideal: a alpha 0.5  b alpha 0.7  c alpha 0.85"""


def test_a_terminal_without_unicode_gets_letters() -> None:
    costs = Costs(((1, 1.0), (4, 1.9)), 0.2)
    assert draw(panels(costs, longest=3)[1], unicode=False) == SMALL


def test_a_terminal_with_unicode_gets_signs_and_no_line_is_wide() -> None:
    for panel in panels(STEPS):
        text = draw(panel)
        assert {"▲", "◆", "●"} < set(text)
        assert max(map(len, text.splitlines())) < 80


def test_the_picture_is_well_formed_and_holds_every_curve() -> None:
    tree = ElementTree.fromstring(to_svg(panels(STEPS), "A & <B>", "note"))
    curves = list(tree.iter("{http://www.w3.org/2000/svg}polyline"))
    assert len(curves) == 9
    assert sum(curve.get("class") == "ideal" for curve in curves) == 3
    numbers = [float(n) for curve in curves for pair in curve.get("points", "").split() for n in pair.split(",")]
    assert all(0 <= number <= 380 for number in numbers)
    texts = "".join(tree.itertext())
    assert "A & <B>" in texts
    assert texts.count("0.85") == 3
