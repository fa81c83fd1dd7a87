"""A comparison must not flatter: what it says where a figure would mislead."""

from __future__ import annotations

import pytest
from compare_fakes import ASK, DRAFT, LOOKUP, TOKENS, ScriptedEngine, outcome

from edgespec.compare import ComparePlan
from edgespec.comparison import Comparison
from edgespec.contestants import PLAIN
from edgespec.engine import messages as m
from edgespec.report import to_object
from edgespec.report_words import cells, findings, overall_findings
from edgespec.types import Mode

OPTIONS = m.GenerateOptions(max_tokens=40)
PLAN = ComparePlan((ASK,), (PLAIN, DRAFT), options=OPTIONS)


def measured(engine: ScriptedEngine, plan: ComparePlan = PLAN) -> Comparison:
    comparison, error = outcome(engine, plan)
    assert error is None and comparison.complete
    return comparison


def test_a_draft_model_as_dear_as_its_target_is_called_slower() -> None:
    """All its tokens are right, three a pass, and it loses all the same: what counts is time."""
    seconds = {Mode.PLAIN: 0.1, Mode.DRAFT: 0.5}
    comparison = measured(ScriptedEngine(seconds=lambda mode, number: seconds[mode], accepted=3))
    assert "draft:3 is slower than plain: 0.80x." in findings(comparison, "ask")
    score = comparison.score("ask", DRAFT)
    assert score is not None
    assert score.typical.stats.mean_acceptance_length == 4.0
    assert to_object(comparison)["results"][1]["conclusion"] == "slower"


def test_the_slow_first_reply_of_a_mode_counts_nowhere() -> None:
    engine = ScriptedEngine(seconds=lambda mode, number: 9.0 if number == 0 else 0.1)
    comparison = measured(engine)
    for score in comparison.scores("ask"):
        assert score.decode is not None
        assert score.decode.low == pytest.approx(10)
    assert len(comparison.runs) == 2 * 3


def test_repeats_that_disagree_allow_no_verdict() -> None:
    """Twice a little faster and once much slower: no mean, no best of three."""
    draft = (0.1, 0.08, 0.09, 0.25)
    comparison = measured(ScriptedEngine(seconds=lambda mode, number: 0.1 if mode is Mode.PLAIN else draft[number]))
    (sentence,) = findings(comparison, "ask")
    assert sentence.startswith("draft:3: the repeats spread too widely")
    assert "quieter machine" in sentence
    assert "(0.40..1.25)" in cells(comparison.scores("ask")[1])[2]


def test_one_lucky_repeat_is_not_a_result() -> None:
    engine = ScriptedEngine(seconds=lambda mode, number: 0.1 if mode is Mode.PLAIN else 0.02)
    comparison = measured(engine, ComparePlan((ASK,), (PLAIN, DRAFT), repeats=1, options=OPTIONS))
    assert findings(comparison, "ask") == []
    assert overall_findings(comparison)[0].startswith("Too few repeats to conclude anything")
    assert to_object(comparison)["overall"][0]["conclusion"] == "too few repeats"


def test_two_drafted_tokens_make_no_percentage() -> None:
    """Each mode says one token that was drafted, in one round, beside one that was thrown away."""
    engine = ScriptedEngine(tokens=lambda mode: TOKENS[:2], accepted=1)
    comparison = measured(engine, ComparePlan((ASK,), (PLAIN, LOOKUP), options=OPTIONS))
    line = cells(comparison.scores("ask")[1])
    assert line[3:5] == ("1/2", "-")
    assert not any("%" in cell for cell in line)
    assert any("too short for its speed to say much" in sentence for sentence in findings(comparison, "ask"))


def test_a_faster_mode_that_says_something_else_is_found_out() -> None:
    engine = ScriptedEngine(
        seconds=lambda mode, number: 0.1 if mode is Mode.PLAIN else 0.05,
        tokens=lambda mode: TOKENS if mode is Mode.PLAIN else (*TOKENS[:9], 1, 2, 3),
    )
    engine.gap = 2.5
    comparison = measured(engine)
    line = cells(comparison.scores("ask")[1])
    assert line[-1] == "NO"
    assert any("too much for a tie of rounding" in sentence for sentence in findings(comparison, "ask"))
    assert to_object(comparison)["results"][1]["same_text"] is False


def test_replies_that_differ_in_one_repeat_only_are_not_the_same() -> None:
    class Wavering(ScriptedEngine):
        """Says something else in the second measured reply of mode draft."""

        def generate(self, *arguments, **more):  # type: ignore[no-untyped-def]
            before = sum(options.mode is Mode.DRAFT for _, options in self.asked)
            self._tokens = lambda mode: TOKENS[1:] if mode is Mode.DRAFT and before == 2 else TOKENS
            yield from super().generate(*arguments, **more)

    score = measured(Wavering()).score("ask", DRAFT)
    assert score is not None and score.same is False
    assert score.difference is not None and score.difference.repeat == 1
