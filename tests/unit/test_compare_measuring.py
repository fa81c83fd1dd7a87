"""How modes are measured: alone, cold, in turns, and what is told about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from threading import Event

import pytest
from compare_fakes import ASK, DRAFT, EVERY_MODE, LOOKUP, SUM, TOKENS, ScriptedEngine, events_of, outcome

from edgespec.compare import (
    CompareDone,
    CompareNotice,
    ComparePlan,
    CompareStarted,
    RunFinished,
    RunRound,
    RunStarted,
    compare,
)
from edgespec.contestants import PLAIN, Contestant, default_contestants, order, parse_contestant
from edgespec.decoding.sampling import SamplingParams
from edgespec.engine import messages as m
from edgespec.errors import EngineError, ModeError, SettingsError
from edgespec.types import Mode

PLAN = ComparePlan((ASK, SUM), (PLAIN, LOOKUP, DRAFT), options=m.GenerateOptions(max_tokens=24))


def measured(engine: ScriptedEngine) -> list[m.GenerateOptions]:
    """The options of the replies that count."""
    return [options for _, options in engine.asked if options.max_tokens == 24]


# Fairness


def test_every_contestant_warms_up_once_and_then_answers_every_prompt_in_every_repeat() -> None:
    engine = ScriptedEngine()
    started = [event for event in events_of(engine, PLAN) if isinstance(event, RunStarted)]
    assert [event.key.contestant for event in started[:3]] == [PLAIN, LOOKUP, DRAFT]
    assert all(event.key.warm_up for event in started[:3])
    assert [options.max_tokens for _, options in engine.asked[:3]] == [16] * 3
    counted = Counter((event.key.prompt.id, event.key.contestant.name, event.key.repeat) for event in started[3:])
    assert len(counted) == 2 * 3 * 3 and set(counted.values()) == {1}
    assert [event.key.number for event in started[3:]] == list(range(1, 19))


def test_every_run_is_cold_and_in_its_contestants_mode_and_length() -> None:
    engine = ScriptedEngine()
    outcome(engine, PLAN)
    assert all(options.fresh for _, options in engine.asked)
    lengths = {(options.mode, options.draft_length) for options in measured(engine) if options.mode is not Mode.PLAIN}
    assert lengths == {(Mode.LOOKUP, 4), (Mode.DRAFT, 3)}


def test_the_order_rotates_over_prompts_and_repeats() -> None:
    engine = ScriptedEngine()
    outcome(engine, PLAN)
    modes = [options.mode for options in measured(engine)]
    first = [modes[i] for i in range(0, len(modes), 3)]
    assert first == [Mode.PLAIN, Mode.LOOKUP, Mode.LOOKUP, Mode.DRAFT, Mode.DRAFT, Mode.PLAIN]
    assert order((PLAIN, LOOKUP), 3) == [LOOKUP, PLAIN]


def test_a_repeat_has_a_seed_of_its_own_that_all_its_contestants_share() -> None:
    engine = ScriptedEngine()
    sampling = SamplingParams(temperature=0.8, seed=2**32 - 3)
    plan = ComparePlan((ASK,), (PLAIN, LOOKUP), options=m.GenerateOptions(max_tokens=24, sampling=sampling))
    comparison, _ = outcome(engine, plan)
    seeds = {(run.repeat, run.seed) for run in comparison.runs}
    assert seeds == {(0, 2**32 - 3), (1, 2**32 - 2), (2, 0)}


def test_a_system_text_comes_before_every_prompt() -> None:
    engine = ScriptedEngine()
    outcome(engine, ComparePlan((ASK,), (PLAIN,), repeats=1, system="Be brief."))
    assert engine.asked[-1][0] == (m.Message("system", "Be brief."), m.Message("user", ASK.text))


# Records


def test_a_run_keeps_what_a_replay_needs() -> None:
    engine = ScriptedEngine(seconds=lambda mode, number: 0.25, accepted=2)
    comparison, error = outcome(engine, ComparePlan((ASK,), (PLAIN, LOOKUP), repeats=1, options=PLAN.options))
    assert error is None and comparison.complete
    run = comparison.runs_of("ask", LOOKUP)[0]
    assert [step.seconds for step in run.steps[:3]] == [0.75, 1.0, 1.25]
    assert run.seconds == pytest.approx(run.steps[-1].seconds)
    assert "".join(text for step in run.steps for text in step.texts) == run.text
    assert [str(origin) for origin in run.steps[0].origins] == ["accepted", "accepted", "corrected"]
    assert run.steps[0].rejected == (" no",)
    assert [run.steps_at(seconds) for seconds in (0, 0.74, 0.75, 1.1, 99)] == [0, 0, 1, 2, len(run.steps)]


def test_rounds_pass_through_with_their_place_in_the_replay() -> None:
    events = events_of(ScriptedEngine(), ComparePlan((ASK,), (PLAIN,), repeats=1, options=PLAN.options))
    rounds = [event for event in events if isinstance(event, RunRound) and not event.key.warm_up]
    finished = [event for event in events if isinstance(event, RunFinished) and not event.key.warm_up]
    assert tuple(event.step for event in rounds) == finished[0].run.steps
    assert isinstance(events[0], CompareStarted) and events[0].runs == 1


def test_notices_of_engine_and_replies_are_kept_and_told() -> None:
    def disturb(number: int, options: m.GenerateOptions) -> m.Event | None:
        return m.Notice(number, "No template.") if number == 0 else None

    events = events_of(ScriptedEngine(disturb=disturb, notices=("Safe mode.",)), ComparePlan((ASK,), (PLAIN,)))
    assert CompareNotice("No template.") in events
    done = events[-1]
    assert isinstance(done, CompareDone) and done.comparison.notices == ("Safe mode.", "No template.")


# Contestants


@pytest.mark.parametrize(
    ("text", "contestant"),
    [
        ("plain", PLAIN),
        (" lookup ", Contestant(Mode.LOOKUP, 5)),
        ("lookup:7", Contestant(Mode.LOOKUP, 7)),
        ("draft:32", Contestant(Mode.DRAFT, 32)),
        ("auto", Contestant(Mode.AUTO)),
    ],
)
def test_a_contestant_is_a_mode_and_perhaps_a_length(text: str, contestant: Contestant) -> None:
    assert parse_contestant(text, 5) == contestant


@pytest.mark.parametrize(
    "text",
    ["", "fast", "plain:3", "auto:2", "draft:", "draft:0", "draft:33", "draft:-1", "lookup:x", "draft:٣", "Plain"],
)
def test_what_is_no_contestant_is_refused(text: str) -> None:
    with pytest.raises(SettingsError):
        parse_contestant(text)


def test_a_default_length_of_nothing_is_refused() -> None:
    with pytest.raises(SettingsError, match="plain"):
        parse_contestant("lookup", 0)


def test_without_a_wish_every_mode_that_can_run_takes_part() -> None:
    engine = ScriptedEngine(modes={**EVERY_MODE, Mode.DRAFT: "No draft model."})
    assert [made.name for made in default_contestants(engine.loaded, 4)] == ["plain", "lookup:4", "auto"]


def test_plain_is_added_and_said() -> None:
    comparison, _ = outcome(ScriptedEngine(), ComparePlan((ASK,), (LOOKUP,), repeats=1))
    assert comparison.contestants == (PLAIN, LOOKUP)
    assert "plain was added" in comparison.notices[-1]


def test_a_mode_that_cannot_run_is_an_error_before_anything_runs_or_left_out_with_a_sentence() -> None:
    engine = ScriptedEngine(modes={**EVERY_MODE, Mode.DRAFT: "No draft model."})
    with pytest.raises(ModeError, match="draft:3 cannot run: No draft model"):
        compare(engine, PLAN)  # type: ignore[arg-type]
    assert engine.asked == []
    plan = ComparePlan((ASK,), (PLAIN, DRAFT), repeats=1, allow_fallback=True)
    comparison, _ = outcome(engine, plan)
    assert comparison.contestants == (PLAIN,)
    assert comparison.notices == ("draft:3 is left out: No draft model.",)


@pytest.mark.parametrize(
    "plan",
    [
        ComparePlan((), (PLAIN,)),
        ComparePlan((ASK, ASK), (PLAIN,)),
        ComparePlan((ASK,), (PLAIN,), repeats=0),
        ComparePlan((ASK,), (LOOKUP, LOOKUP)),
    ],
)
def test_a_plan_without_meaning_is_refused(plan: ComparePlan) -> None:
    with pytest.raises(SettingsError):
        compare(ScriptedEngine(), plan)  # type: ignore[arg-type]


# Ends


def test_a_cancel_in_a_run_keeps_the_runs_before_it() -> None:
    engine = ScriptedEngine()
    pressed = Event()
    done = None
    for event in compare(engine, PLAN, cancelled=pressed.is_set):  # type: ignore[arg-type]
        if isinstance(event, RunRound) and event.key.number == 5:
            pressed.set()
            engine.cancel()
        done = event
    assert isinstance(done, CompareDone)
    assert len(done.comparison.runs) == 4 and not done.comparison.complete and done.error is None
    assert len(engine.asked) == 3 + 5


def test_a_cancel_between_two_runs_reaches_the_next_one_at_once() -> None:
    engine = ScriptedEngine()
    pressed = Event()
    done = None
    for event in compare(engine, PLAN, cancelled=pressed.is_set):  # type: ignore[arg-type]
        if isinstance(event, RunStarted) and event.key.number == 2:
            pressed.set()
        done = event
    assert isinstance(done, CompareDone) and len(done.comparison.runs) == 1


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (m.Failed(0, "ContextFullError", "Too long.", "Use --ctx."), "Too long."),
        (m.EngineLost("SIGKILL", -9, ("last words",)), "SIGKILL"),
    ],
)
def test_a_failure_ends_it_with_what_was_measured(event: m.Event, words: str) -> None:
    def disturb(number: int, options: m.GenerateOptions) -> m.Event | None:
        return event if number == 3 + 4 else None

    comparison, error = outcome(ScriptedEngine(disturb=disturb), PLAN)
    assert error is not None and words in error.message
    assert len(comparison.runs) == 4 and not comparison.complete


def test_closing_the_iterator_closes_the_reply() -> None:
    closed = []

    class Watching(ScriptedEngine):
        def generate(self, *arguments, **more):  # type: ignore[no-untyped-def]
            try:
                yield from super().generate(*arguments, **more)
            finally:
                closed.append(True)

    events = compare(Watching(), PLAN)  # type: ignore[arg-type]
    while not isinstance(next(events), RunRound):
        pass
    events.close()  # type: ignore[attr-defined]
    assert closed == [True]


# Same words


def parted(mode: Mode) -> tuple[int, ...]:
    return TOKENS if mode is Mode.PLAIN else (*TOKENS[:9], 1, 2, 3)


@pytest.mark.parametrize(("gap", "tie"), [(0.0005, True), (0.5, False)])
def test_a_difference_is_found_and_looked_into_once(gap: float, tie: bool) -> None:
    engine = ScriptedEngine(tokens=parted)
    engine.gap = gap
    comparison, _ = outcome(engine, ComparePlan((ASK,), (PLAIN, LOOKUP, DRAFT), options=PLAN.options))
    score = comparison.score("ask", LOOKUP)
    assert score is not None and score.difference is not None and score.gap is not None
    assert (score.same, score.difference.position) == (False, 9)
    assert score.difference.plain.startswith(" t109 t110") and score.difference.other == " t1 t2 t3"
    assert score.gap.near_tie is tie
    assert engine.examined == [TOKENS[:9]]


def test_the_same_words_are_not_looked_into() -> None:
    engine = ScriptedEngine()
    comparison, _ = outcome(engine, PLAN)
    assert engine.examined == []
    assert all(score.same for score in comparison.scores("ask")[1:])
    assert comparison.scores("ask")[0].same is None


def test_sampled_replies_are_not_looked_into_and_drawn_drafts_need_not_say_the_same() -> None:
    engine = ScriptedEngine(tokens=parted)
    options = m.GenerateOptions(max_tokens=24, sampling=SamplingParams(temperature=0.8), draft_sampling=True)
    comparison, _ = outcome(engine, ComparePlan((ASK,), (PLAIN, LOOKUP, DRAFT), options=options))
    assert engine.examined == []
    assert [score.expected_same for score in comparison.scores("ask")] == [True, True, False]


def test_an_engine_that_cannot_look_leaves_the_difference_as_it_is() -> None:
    class Tired(ScriptedEngine):
        def examine(self, *arguments: object) -> tuple[m.Candidate, ...]:
            raise EngineError("Gone.")

    comparison, error = outcome(Tired(tokens=parted), ComparePlan((ASK,), (PLAIN, LOOKUP), options=PLAN.options))
    assert error is None and comparison.complete and comparison.gaps == ()


# Figures


def drifting(mode: Mode, number: int) -> float:
    """A machine that slows down by a fifth with every repeat; lookup is twice as fast as plain on it."""
    return (0.1 if mode is Mode.PLAIN else 0.05) * 1.2 ** max(0, number - 1)


def test_ratios_are_paired_within_a_repeat_so_that_drift_does_not_count() -> None:
    plan = ComparePlan((ASK,), (PLAIN, LOOKUP), options=PLAN.options)
    comparison, _ = outcome(ScriptedEngine(seconds=drifting), plan)
    plain, lookup = comparison.scores("ask")
    assert plain.decode is not None and plain.decode.width > 0.3
    assert lookup.ratios == pytest.approx((2.0, 2.0, 2.0))
    assert lookup.conclusion == "faster"


def test_over_all_prompts_each_repeat_counts_as_a_geometric_mean() -> None:
    def seconds(prompt_number: Callable[[], int]) -> Callable[[Mode, int], float]:
        return lambda mode, number: 0.1 if mode is Mode.PLAIN else (0.1, 0.025)[prompt_number() % 2]

    engine = ScriptedEngine()
    engine._seconds = seconds(lambda: int(engine.asked[-1][0][-1].content == SUM.text))
    comparison, _ = outcome(engine, ComparePlan((ASK, SUM), (PLAIN, LOOKUP), options=PLAN.options))
    (entry,) = comparison.overall()
    assert (entry.contestant, entry.prompts) == (LOOKUP, 2)
    assert entry.ratios == pytest.approx((2.0, 2.0, 2.0))


def test_counts_are_quoted_from_the_run_of_median_speed() -> None:
    speeds = {0: 1.0, 1: 0.3, 2: 0.1, 3: 0.2}
    engine = ScriptedEngine(seconds=lambda mode, number: speeds[number])
    comparison, _ = outcome(engine, ComparePlan((ASK,), (PLAIN,), options=PLAN.options))
    assert comparison.scores("ask")[0].typical.repeat == 2
