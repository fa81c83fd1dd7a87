"""The engine's thread: what it tells the app, and how often."""

from __future__ import annotations

from collections import deque
from threading import Event as Flag

from edgespec_tui.messages import EngineReady, EngineRefused, EventsWaiting
from edgespec_tui.runner import Runner
from scripted_engine import Opener, ScriptedEngine, reply, words
from textual.message import Message as AppMessage

from edgespec.engine.messages import Failed, GenerateOptions, GenerationDone, LoadOptions

LOAD = LoadOptions("/models/tiny.gguf")


def run(engine: ScriptedEngine, opener: Opener | None = None) -> tuple[Runner, list[AppMessage]]:
    """A runner that has been told to load, and its messages as they come."""
    posted: list[AppMessage] = []
    runner = Runner(posted.append, opener or Opener(engine))
    runner.load(LOAD)
    return runner, posted


def finish(runner: Runner) -> None:
    """Let it do all it was told; `close` would cancel."""
    runner._jobs.put(None)
    runner._thread.join()


def test_many_events_are_announced_once_until_they_are_taken_and_the_last_one_always() -> None:
    runner, posted = run(ScriptedEngine(deque([reply(words("a b c d e f"))])))
    number = runner.generate((), GenerateOptions())
    finish(runner)
    assert [message.now for message in posted if isinstance(message, EventsWaiting)] == [False, True]
    taken = runner.take()
    assert {reply for reply, _ in taken} == {number} and isinstance(taken[-1][1], GenerationDone) and not runner.take()


def test_an_urgent_announcement_is_not_replaced_by_a_less_urgent_one() -> None:
    lazy, urgent = EventsWaiting(), EventsWaiting(now=True)
    assert lazy.can_replace(urgent) and lazy.can_replace(lazy) and not urgent.can_replace(lazy)


def test_a_reply_that_is_cancelled_before_it_begins_does_not_begin() -> None:
    gate = Flag()
    engine = ScriptedEngine(deque([[Flag(), *words("never")]]))
    runner, _ = run(engine, Opener(engine, gate=gate))
    runner.generate((), GenerateOptions())
    runner.cancel()
    gate.set()
    runner.close()
    assert [type(event) for _, event in runner.take()] == [GenerationDone]


def test_a_failed_load_and_a_reply_without_a_model_are_sentences() -> None:
    engine = ScriptedEngine()
    runner, posted = run(engine, Opener(engine, error=RuntimeError("boom")))
    runner.generate((), GenerateOptions())
    runner.close()
    assert isinstance(posted[0], EngineRefused) and "boom" in posted[0].message
    assert isinstance(runner.take()[0][1], Failed)


def test_an_engine_that_falls_silent_is_a_failure() -> None:
    runner, _ = run(ScriptedEngine(deque([list(words("a"))])))
    runner.generate((), GenerateOptions())
    finish(runner)
    assert isinstance(runner.take()[-1][1], Failed)


def test_loading_again_closes_the_old_engine_first() -> None:
    old, new = ScriptedEngine(), ScriptedEngine()
    engines = iter([old, new])
    posted: list[AppMessage] = []
    runner = Runner(posted.append, lambda options: next(engines))
    runner.load(LOAD)
    runner.load(LOAD)
    runner.close()
    assert old.closed and new.closed and sum(isinstance(message, EngineReady) for message in posted) == 2


def test_ending_the_engine_kills_nothing_but_a_child_of_this_process() -> None:
    runner, _ = run(ScriptedEngine())  # it says that its process is this very one
    finish(runner)
    runner.end_engine()
