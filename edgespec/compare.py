"""The same prompts through several modes, measured fairly, told as it happens.

Fair means: one contestant at a time, after a warm-up, from empty caches; the order rotates so that none always runs
first or behind the same one; a ratio compares two runs of the same repeat, so that slow drift of the machine (heat,
clock, other programs) moves both. Terminal and app draw the same events.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from edgespec.compare_events import (
    CompareDone,
    CompareEvent,
    CompareNotice,
    CompareStarted,
    RunFinished,
    RunKey,
    RunPrefill,
    RunRound,
    RunStarted,
)
from edgespec.comparison import Comparison, Gap, Run, Step
from edgespec.conditions import LoadMeter, look
from edgespec.contestants import PLAIN, Contestant, order, settle_contestants
from edgespec.decoding.sampling import MAX_SEED
from edgespec.engine import messages as m
from edgespec.engine.client import Engine, describe
from edgespec.errors import EdgeSpecError, EngineError, SettingsError
from edgespec.hardware import processor
from edgespec.prompts import Prompt, refuse_twins
from edgespec.types import FinishReason

__all__ = [
    "CompareDone", "CompareEvent", "CompareNotice", "ComparePlan", "CompareStarted", "RunFinished", "RunKey",
    "RunPrefill", "RunRound", "RunStarted", "compare",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class ComparePlan:
    """What to compare.

    Attributes:
        contestants: in the order results are shown in; plain is added in front if it is not among them.
        options: how to answer; mode, draft length and `fresh` are set for each run.
        allow_fallback: leave out what these models cannot run, with a sentence, instead of refusing.
        warm_up_tokens: length of the reply that each contestant gives once before anything counts.
    """

    prompts: tuple[Prompt, ...]
    contestants: tuple[Contestant, ...]
    repeats: int = 3
    options: m.GenerateOptions = field(default_factory=lambda: m.GenerateOptions(max_tokens=128))
    system: str | None = None
    allow_fallback: bool = False
    warm_up_tokens: int = 16


def compare(
    engine: Engine, plan: ComparePlan, *, cancelled: Callable[[], bool] = lambda: False
) -> Iterator[CompareEvent]:
    """Measure, telling about it; the last event is CompareDone.

    To cancel, let `cancelled` answer True, and call `engine.cancel()` to end the run under way: CompareDone then holds
    what was measured before it. Closing the iterator stops everything too, without a result. Raises ModeError or
    SettingsError, before any event, for a plan that cannot run.
    """
    check_plan(plan)
    contestants, notices = settle_contestants(plan.contestants, engine.loaded, allow_fallback=plan.allow_fallback)
    return _compare(engine, replace(plan, contestants=contestants), [*engine.loaded.notices, *notices], cancelled)


def check_plan(plan: ComparePlan) -> None:
    """Raise SettingsError for a plan without meaning."""
    refuse_twins(plan.prompts)
    if not plan.prompts:
        raise SettingsError("There is nothing to ask.", "Give at least one prompt.")
    if plan.repeats < 1:
        raise SettingsError(f"At least one repeat is needed, got {plan.repeats}.", "Choose --repeats 3 or more.")
    names = [contestant.name for contestant in plan.contestants]
    for name in names:
        if names.count(name) > 1:
            raise SettingsError(f"{name} is named twice.", "Name each mode once.")


def _compare(
    engine: Engine, plan: ComparePlan, notices: list[str], cancelled: Callable[[], bool]
) -> Generator[CompareEvent, None, None]:
    yield CompareStarted(plan.prompts, plan.contestants, plan.repeats, tuple(notices))
    before, meter = look(), LoadMeter([engine.pid])
    runs: list[Run] = []
    error: EdgeSpecError | None = None
    complete = False
    try:
        for key in _schedule(plan):
            if cancelled():
                break
            run = yield from _run(engine, plan, key, notices, cancelled)
            if run is None:
                break
            if not key.warm_up:
                runs.append(run)
        else:
            complete = True
    except EdgeSpecError as failure:
        error = failure
    after, others = look(), meter.others()
    comparison = Comparison(
        loaded=engine.loaded,
        options=plan.options,
        system=plan.system,
        prompts=plan.prompts,
        contestants=plan.contestants,
        repeats=plan.repeats,
        runs=tuple(runs),
        processor=_processor(),
        before=before,
        after=after,
        others=others,
        notices=tuple(notices),
        complete=complete,
    )
    if error is None:
        comparison = replace(comparison, gaps=tuple(examine(engine, comparison, cancelled)))
    yield CompareDone(comparison, error)


def examine(engine: Engine, comparison: Comparison, cancelled: Callable[[], bool] = lambda: False) -> Iterator[Gap]:
    """Look into the first difference of every contestant on every prompt: was it a near-tie of two tokens?

    Greedy replies only: elsewhere the likeliest token is not what is chosen. Stops silently where the engine cannot
    tell any more; a difference without a gap is reported as it is.
    """
    sampling = comparison.options.sampling
    if sampling.temperature > 0 or sampling.repeat_penalty != 1:
        return
    known: dict[tuple[str, int], float] = {}
    for prompt in comparison.prompts:
        for score in comparison.scores(prompt.id):
            where = score.difference
            if where is None or cancelled():
                continue
            place = prompt.id, where.position
            if place not in known:
                plain = next(run for run in comparison.runs_of(prompt.id, PLAIN) if run.repeat == where.repeat)
                reply = plain.tokens[: where.position]
                try:
                    found = engine.examine(chat(comparison.system, prompt), reply)
                except EdgeSpecError:
                    return
                if len(found) < 2:
                    return
                known[place] = found[0].logit - found[1].logit
            yield Gap(prompt.id, score.contestant.name, known[place])


def chat(system: str | None, prompt: Prompt) -> tuple[m.Message, ...]:
    """What is sent for a prompt."""
    question = m.Message("user", prompt.text)
    return (m.Message("system", system), question) if system else (question,)


def _schedule(plan: ComparePlan) -> Iterator[RunKey]:
    """Warm-ups, then sweep after sweep over all prompts: each repeat of a prompt meets another state of the machine."""
    for contestant in plan.contestants:
        yield RunKey(plan.prompts[0], contestant, 0, 0)
    number = 0
    for repeat in range(plan.repeats):
        for turn, prompt in enumerate(plan.prompts, start=repeat):
            for contestant in order(plan.contestants, turn):
                number += 1
                yield RunKey(prompt, contestant, repeat, number)


def run_options(plan: ComparePlan, key: RunKey) -> m.GenerateOptions:
    """How one run answers: cold, and with the seed of its repeat."""
    options, contestant = plan.options, key.contestant
    length = options.draft_length if contestant.draft_length is None else contestant.draft_length
    seed = (options.sampling.seed + key.repeat) % (MAX_SEED + 1)
    most = options.max_tokens
    if key.warm_up:
        most = min(plan.warm_up_tokens, most or plan.warm_up_tokens)
    return replace(
        options,
        mode=contestant.mode,
        draft_length=length,
        sampling=replace(options.sampling, seed=seed),
        max_tokens=most,
        fresh=True,
    )


def _run(
    engine: Engine, plan: ComparePlan, key: RunKey, notices: list[str], cancelled: Callable[[], bool]
) -> Generator[CompareEvent, None, Run | None]:
    """One reply, recorded; None if it was cancelled. Raises the EdgeSpecError that ended it."""
    options = run_options(plan, key)
    yield RunStarted(key)
    meter = LoadMeter([engine.pid])
    seconds = 0.0
    steps: list[Step] = []
    with closing(engine.generate(chat(plan.system, key.prompt), options)) as events:
        for event in events:
            if cancelled():  # it may have been said before this reply was there to be cancelled
                engine.cancel()
            match event:
                case m.PrefillProgress(progress=progress):
                    yield RunPrefill(key, progress)
                case m.PrefillDone(prefilled=prefilled):
                    seconds = prefilled.seconds
                case m.RoundDone():
                    seconds += round_seconds(event)
                    steps.append(record(event, seconds))
                    yield RunRound(key, event, steps[-1])
                case m.Notice(text=text):
                    notices.append(text)
                    yield CompareNotice(text)
                case m.GenerationDone(reason=FinishReason.CANCELLED):
                    return None
                case m.GenerationDone():
                    run = _finished(key, options, event, steps, meter.others())
                    yield RunFinished(key, run)
                    return run
                case m.Failed():
                    raise event.to_error()
                case m.EngineLost():
                    raise _lost(event)
    raise EngineError("The engine ended a reply without a last event.")


def record(event: m.RoundDone, seconds: float) -> Step:
    """A round as the replay needs it."""
    done = event.round
    return Step(
        seconds, done.tokens, event.texts, done.origins, len(done.draft.tokens), done.draft.source, event.rejected
    )


def round_seconds(event: m.RoundDone) -> float:
    """What a round took, by the engine's clock."""
    return event.round.draft_seconds + event.round.verify_seconds + event.round.overhead_seconds


def _finished(
    key: RunKey, options: m.GenerateOptions, done: m.GenerationDone, steps: Sequence[Step], others: float | None
) -> Run:
    return Run(
        prompt=key.prompt.id,
        contestant=key.contestant.name,
        repeat=key.repeat,
        seed=options.sampling.seed,
        reason=done.reason,
        text=done.text,
        tokens=done.tokens,
        stats=done.stats,
        steps=tuple(steps),
        others=others,
        auto=done.auto,
    )


def _processor() -> str:
    cpu = processor()
    return f"{cpu.name}, {cpu.physical_cores} cores"


def _lost(event: m.EngineLost) -> EngineError:
    lines = "".join(f"\n  {line}" for line in event.log)
    hint = f"The last lines of its log:{lines}" if lines else "`edgespec doctor` examines this machine."
    return EngineError(f"{describe(event)} in the middle of a run.", hint)
