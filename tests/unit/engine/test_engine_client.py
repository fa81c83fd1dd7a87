"""The client against a scripted host: every way a reply, a start or an end can go."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil
import pytest
from fake_host import (
    crash,
    echo,
    fake_host,
    hang,
    leave,
    loaded,
    log,
    plain_round,
    raw,
    reply,
    send,
    starts_of,
    wait_for_cancel,
)

from edgespec import errors
from edgespec.engine import client, frames, process, wire
from edgespec.engine import messages as m
from edgespec.engine.client import Engine
from edgespec.types import FinishReason, Mode

OPTIONS = m.LoadOptions("target.gguf")


def started(folder: Path, **script: Any) -> Engine:
    return Engine(OPTIONS, command=fake_host(folder, **script))


def kinds(events: Iterable[m.Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def last(events: Iterable[m.Event]) -> m.Event:
    return list(events)[-1]


def wait_until_dead(engine: Engine) -> None:
    assert engine._process is not None
    engine._process._reader.join(20)
    assert not engine.alive


def kill(engine: Engine) -> None:
    os.kill(engine.pid, signal.SIGKILL)
    wait_until_dead(engine)


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


# Replies


def test_a_reply_is_its_events_in_order_and_ends_with_generation_done(tmp_path: Path) -> None:
    with started(tmp_path, replies=[reply("one two")]) as engine:
        events = list(engine.generate("hello"))
    assert kinds(events) == ["PrefillDone", "RoundDone", "RoundDone", "GenerationDone"]
    assert {event.id for event in events} == {1}  # type: ignore[union-attr]


def test_replies_follow_each_other_with_ids_of_their_own(tmp_path: Path) -> None:
    with started(tmp_path, replies=[reply("one"), reply("two")]) as engine:
        done = [last(engine.generate("a")), last(engine.generate("b"))]
    assert [(event.id, event.text) for event in done] == [(1, "one"), (2, "two")]  # type: ignore[union-attr]


def test_messages_and_options_reach_the_host_whole(tmp_path: Path) -> None:
    options = m.GenerateOptions(mode=Mode.LOOKUP, stop=("é",), max_tokens=3)
    turns = (m.Message("system", "be brief"), m.Message("user", "hi 😀"))
    with started(tmp_path, replies=[[echo()]]) as engine:
        done = last(engine.generate(turns, options))
    assert isinstance(done, m.GenerationDone)
    assert done.text == repr(m.Generate(1, options, messages=turns))


def test_a_message_of_many_megabytes_arrives(tmp_path: Path) -> None:
    text = "x" * 20_000_000
    with started(tmp_path, replies=[[echo()]]) as engine:
        done = last(engine.generate(text))
    assert isinstance(done, m.GenerationDone)
    assert text in done.text


def test_a_message_too_long_for_the_pipe_is_refused_and_the_engine_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with started(tmp_path) as engine:
        monkeypatch.setattr(frames, "MAX_FRAME", 1000)
        with pytest.raises(errors.EngineError, match="too long"):
            next(engine.generate("x" * 2000))
        assert isinstance(last(engine.generate("short")), m.GenerationDone)


def test_a_failed_reply_leaves_the_engine_usable(tmp_path: Path) -> None:
    failed = send(m.Failed(0, "ContextFullError", "Too long.", "Shorten it."))
    with started(tmp_path, replies=[[failed], reply("fine")]) as engine:
        event = last(engine.generate("a"))
        assert isinstance(event, m.Failed)
        assert isinstance(event.to_error(), errors.ContextFullError)
        assert isinstance(last(engine.generate("b")), m.GenerationDone)


def test_a_second_reply_at_the_same_time_is_refused(tmp_path: Path) -> None:
    with started(tmp_path, replies=[[*reply("one"), wait_for_cancel()]]) as engine:
        running = engine.generate("a")
        next(running)
        with pytest.raises(errors.EngineError, match="busy"):
            next(engine.generate("b"))
        running.close()


# Cancelling


def test_cancel_ends_the_reply_as_cancelled(tmp_path: Path) -> None:
    with started(tmp_path, replies=[[send(plain_round(0, "a")), wait_for_cancel(), *reply("never")]]) as engine:
        events = engine.generate("hello")
        next(events)
        engine.cancel()
        rest = list(events)
    assert kinds(rest) == ["GenerationDone"]
    assert isinstance(rest[0], m.GenerationDone) and rest[0].reason is FinishReason.CANCELLED


def test_cancel_from_another_thread_wakes_the_one_that_waits(tmp_path: Path) -> None:
    with started(tmp_path, replies=[[send(plain_round(0, "a")), wait_for_cancel(), *reply("never")]]) as engine:
        events = engine.generate("hello")
        next(events)
        thread = threading.Thread(target=engine.cancel)
        thread.start()
        done = last(events)
        thread.join()
    assert isinstance(done, m.GenerationDone) and done.reason is FinishReason.CANCELLED


def test_cancel_before_the_first_event_is_not_lost(tmp_path: Path) -> None:
    with started(tmp_path, replies=[[wait_for_cancel(), *reply("never")]]) as engine:
        events = engine.generate("hello")
        engine.cancel()
        done = last(events)
    assert isinstance(done, m.GenerationDone) and done.reason is FinishReason.CANCELLED


def test_cancel_twice_or_with_nothing_running_is_harmless(tmp_path: Path) -> None:
    with started(tmp_path, replies=[[wait_for_cancel(), *reply("never")], reply("whole")]) as engine:
        engine.cancel()
        events = engine.generate("hello")
        engine.cancel()
        engine.cancel()
        list(events)
        engine.cancel()
        done = last(engine.generate("again"))
    assert isinstance(done, m.GenerationDone) and done.text == "whole"


def test_cancel_inside_a_signal_handler_that_interrupts_a_send_is_sent_afterwards(tmp_path: Path) -> None:
    with started(tmp_path, replies=[[wait_for_cancel(), *reply("never")]]) as engine:
        assert engine._process is not None
        send_really = engine._process.send

        def send_interrupted(command: m.Command) -> None:
            with engine._process._write:  # type: ignore[union-attr]
                engine.cancel()  # must neither block nor tear the message
            send_really(command)

        engine._process.send = send_interrupted  # type: ignore[method-assign]
        done = last(engine.generate("hello"))
    assert isinstance(done, m.GenerationDone) and done.reason is FinishReason.CANCELLED


def test_closing_the_iterator_cancels_and_the_next_reply_is_clean(tmp_path: Path) -> None:
    with started(tmp_path, replies=[[*reply("one two")[:2], wait_for_cancel(), *reply("x")], reply("whole")]) as engine:
        events = engine.generate("hello")
        next(events)
        events.close()
        assert kinds(engine.generate("again")) == ["PrefillDone", "RoundDone", "GenerationDone"]


def test_an_interrupted_consumer_leaves_the_engine_idle(tmp_path: Path) -> None:
    with started(tmp_path, replies=[[*reply("one two")[:2], wait_for_cancel()], reply("whole")]) as engine:
        events = engine.generate("hello")
        next(events)
        with pytest.raises(KeyboardInterrupt):
            events.throw(KeyboardInterrupt())
        assert isinstance(last(engine.generate("again")), m.GenerationDone)


def test_an_iterator_that_is_never_used_blocks_nothing(tmp_path: Path) -> None:
    with started(tmp_path) as engine:
        unused = engine.generate("a")
        assert isinstance(last(engine.generate("b")), m.GenerationDone)
        unused.close()
        assert isinstance(last(engine.generate("c")), m.GenerationDone)


# Deaths


@pytest.mark.parametrize("name", ["SIGKILL", "SIGABRT", "SIGSEGV", "SIGILL"])
def test_a_death_in_the_middle_of_a_reply_is_its_last_event(tmp_path: Path, name: str) -> None:
    with started(tmp_path, replies=[[send(plain_round(0, "a")), log("GGML_ASSERT failed"), crash(name)]]) as engine:
        events = list(engine.generate("hello"))
    assert kinds(events) == ["RoundDone", "EngineLost"]
    assert isinstance(events[-1], m.EngineLost)
    assert events[-1].signal == name
    assert events[-1].log == ("GGML_ASSERT failed",)


def test_an_exit_in_the_middle_of_a_reply_has_a_code_and_no_signal(tmp_path: Path) -> None:
    with started(tmp_path, replies=[[leave(7)]]) as engine:
        event = last(engine.generate("hello"))
    assert isinstance(event, m.EngineLost)
    assert (event.signal, event.exit_code) == ("", 7)


def test_the_message_after_a_death_starts_the_engine_again(tmp_path: Path) -> None:
    first = {"replies": [[send(plain_round(0, "a")), crash("SIGKILL")]]}
    second = {"replies": [reply("back again")]}
    with started(tmp_path, starts=[first, second]) as engine:
        assert isinstance(last(engine.generate("hello")), m.EngineLost)
        events = list(engine.generate("hello?"))
    assert kinds(events) == ["Loaded", "PrefillDone", "RoundDone", "RoundDone", "GenerationDone"]
    assert isinstance(events[0], m.Loaded) and "SIGKILL" in events[0].notices[0]


def test_a_death_between_two_messages_is_told_with_the_next_one(tmp_path: Path) -> None:
    with started(tmp_path, replies=[reply("whole")]) as engine:
        list(engine.generate("a"))
        kill(engine)
        events = list(engine.generate("b"))
    assert kinds(events)[0] == "Loaded"
    assert isinstance(events[-1], m.GenerationDone) and events[-1].text == "whole"


def test_an_engine_that_cannot_be_started_again_raises_before_any_event(tmp_path: Path) -> None:
    with started(tmp_path, starts=[{}, {"load": [log("out of memory"), crash("SIGABRT")]}]) as engine:
        kill(engine)
        with pytest.raises(errors.EngineError, match="SIGABRT"):
            next(engine.generate("a"))
        with pytest.raises(errors.EngineError, match="SIGABRT"):  # not "busy"
            next(engine.generate("a"))


def test_kill_9_while_the_consumer_waits_ends_the_reply(tmp_path: Path) -> None:
    with started(tmp_path, replies=[[send(plain_round(0, "a")), wait_for_cancel()]]) as engine:
        events = engine.generate("hello")
        next(events)
        os.kill(engine.pid, signal.SIGKILL)
        assert isinstance(last(events), m.EngineLost)


def test_closing_the_iterator_of_a_dead_engine_does_not_wait(tmp_path: Path) -> None:
    with started(tmp_path, replies=[[send(plain_round(0, "a")), wait_for_cancel()]]) as engine:
        events = engine.generate("hello")
        next(events)
        kill(engine)
        events.close()


# What may come out of the pipe


@pytest.mark.parametrize(
    "data",
    [
        b"ggml_backend: a native line on stdout\n" * 10,
        b"\xff\xff\xff\xff",
        frames.HEADER.pack(5) + b"hello",
        frames.HEADER.pack(0),
        frames.HEADER.pack(len(pickle.dumps({"a": 1}))) + pickle.dumps({"a": 1}),
        frames.HEADER.pack(len(wire.encode(m.Shutdown()))) + wire.encode(m.Shutdown()),
    ],
    ids=["text", "absurd length", "no pickle", "empty", "no message", "a command"],
)
def test_garbage_on_the_pipe_is_an_engine_lost(tmp_path: Path, data: bytes) -> None:
    with started(tmp_path, replies=[[raw(data), wait_for_cancel()]]) as engine:
        event = last(engine.generate("hello"))
    assert isinstance(event, m.EngineLost)
    assert "not a message" in event.log[-1]


class Foreign:
    def __reduce__(self) -> tuple[Any, tuple[str, ...]]:
        return os.system, ("echo pwned",)


def test_a_class_that_is_no_message_is_refused_not_built(tmp_path: Path) -> None:
    data = pickle.dumps(Foreign())
    with pytest.raises(pickle.UnpicklingError, match="may not cross"):
        wire.decode(data)
    with started(tmp_path, replies=[[raw(frames.HEADER.pack(len(data)) + data), wait_for_cancel()]]) as engine:
        event = last(engine.generate("hello"))
    assert isinstance(event, m.EngineLost) and "may not cross" in event.log[-1]


def test_a_message_cut_short_by_death_is_an_engine_lost(tmp_path: Path) -> None:
    with started(tmp_path, replies=[[raw(frames.HEADER.pack(100) + b"half"), crash("SIGKILL")]]) as engine:
        event = last(engine.generate("hello"))
    assert isinstance(event, m.EngineLost) and event.signal == "SIGKILL"


def test_an_error_class_of_another_program_becomes_an_engine_error() -> None:
    for name in ("SystemExit", "annotations", "EngineErrors", ""):
        assert type(m.Failed(1, name, "x", "y").to_error()) is errors.EngineError


# Starting


def test_a_failed_load_raises_the_class_the_host_named(tmp_path: Path) -> None:
    failed = m.Failed(None, "PairError", "They do not fit.", "Use lookup mode.")
    with pytest.raises(errors.PairError) as caught:
        started(tmp_path, load=[send(failed)])
    assert (caught.value.message, caught.value.hint) == ("They do not fit.", "Use lookup mode.")


def test_a_failed_load_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pids: list[int] = []
    started_process = process.EngineProcess.__init__

    def note(self: process.EngineProcess, command: list[str]) -> None:
        started_process(self, command)
        pids.append(self.pid)

    monkeypatch.setattr(process.EngineProcess, "__init__", note)
    with pytest.raises(errors.ModelFileError):
        started(tmp_path, load=[send(m.Failed(None, "ModelFileError", "Cut short.", ""))])
    assert not psutil.pid_exists(pids[0])


def test_a_death_while_loading_names_signal_and_log(tmp_path: Path) -> None:
    with pytest.raises(errors.EngineError) as caught:
        started(tmp_path, load=[log("GGML_ASSERT(n > 0) failed"), crash("SIGABRT")])
    assert "SIGABRT" in caught.value.message
    assert "GGML_ASSERT(n > 0) failed" in caught.value.hint


def test_an_exit_while_loading_names_the_code(tmp_path: Path) -> None:
    with pytest.raises(errors.EngineError, match="exit code 3"):
        started(tmp_path, load=[leave(3)])


def test_a_host_that_cannot_be_run_is_an_engine_error(tmp_path: Path) -> None:
    with pytest.raises(errors.EngineError, match="cannot be started"):
        Engine(OPTIONS, command=[str(tmp_path / "missing")])


def test_a_host_that_prints_a_traceback_shows_it(tmp_path: Path) -> None:
    with pytest.raises(errors.EngineError) as caught:
        Engine(OPTIONS, command=[sys.executable, "-c", "import no_such_module"])
    assert "No module named 'no_such_module'" in caught.value.hint


def test_open_takes_paths_and_load_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = fake_host(tmp_path)
    monkeypatch.setattr(Engine.__init__, "__kwdefaults__", {"command": command})
    with Engine.open(tmp_path / "t.gguf", draft=tmp_path / "d.gguf", safe_mode=True):
        pass
    assert starts_of(command) == [
        {"target": str(tmp_path / "t.gguf"), "draft": str(tmp_path / "d.gguf"), "safe_mode": True}
    ]


# Ending


def test_close_twice_leaves_no_process_and_no_zombie(tmp_path: Path) -> None:
    engine = started(tmp_path)
    pid = engine.pid
    engine.close()
    engine.close()
    assert not psutil.pid_exists(pid)
    with pytest.raises(errors.EngineError, match="closed"):
        next(engine.generate("hello"))
    with pytest.raises(errors.EngineError, match="closed"):
        engine.restart()


def test_a_process_that_ignores_everything_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_SHUTDOWN_SECONDS", 0.1)
    monkeypatch.setattr(process, "_TERMINATE_SECONDS", 0.1)
    engine = started(tmp_path, replies=[[send(plain_round(0, "a")), hang()]])
    pid = engine.pid
    events = engine.generate("hello")
    next(events)
    engine.close()
    assert not psutil.pid_exists(pid)
    assert isinstance(last(events), m.EngineLost)


def test_close_from_another_thread_ends_a_reply_that_waits(tmp_path: Path) -> None:
    engine = started(tmp_path, replies=[[send(plain_round(0, "a")), wait_for_cancel()]])
    events = engine.generate("hello")
    next(events)
    thread = threading.Thread(target=engine.close)
    thread.start()
    assert isinstance(last(events), m.EngineLost | m.GenerationDone)
    thread.join()


def test_close_while_loading_ends_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = started(tmp_path, starts=[{}, {"load": [wait_for_cancel()]}])
    begun = threading.Event()
    inbox = process.EngineProcess.inbox

    def note(self: process.EngineProcess, number: int) -> process.Inbox:
        begun.set()
        return inbox(self, number)

    monkeypatch.setattr(process.EngineProcess, "inbox", note)
    caught: list[BaseException] = []

    def restart() -> None:
        try:
            engine.restart()
        except errors.EngineError as error:
            caught.append(error)

    thread = threading.Thread(target=restart)
    thread.start()
    begun.wait()
    engine.close()
    thread.join()
    assert "closed" in str(caught[0])


def test_restart_is_a_new_process(tmp_path: Path) -> None:
    with started(tmp_path, starts=[{}, {"load": [send(loaded(library="another"))]}]) as engine:
        pid = engine.pid
        assert engine.restart() == engine.loaded
        assert engine.loaded.library == "another"
        assert engine.pid != pid and not psutil.pid_exists(pid)
        assert isinstance(last(engine.generate("hello")), m.GenerationDone)


def test_the_process_ends_when_its_parent_is_killed_in_the_middle_of_a_reply(tmp_path: Path) -> None:
    command = fake_host(tmp_path, replies=[[send(plain_round(0, "a")), wait_for_cancel()]])
    code = (
        "from edgespec.engine.client import Engine\n"
        "from edgespec.engine.messages import LoadOptions\n"
        f"engine = Engine(LoadOptions('t.gguf'), command={command!r})\n"
        "events = engine.generate('hello')\n"
        "next(events)\n"
        "print(engine.pid, flush=True)\n"
        "next(events)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    child_ended = threading.Event()
    for _ in range(1000):
        if is_gone(pid):
            break
        child_ended.wait(0.01)
    assert is_gone(pid)


def test_importing_the_client_is_enough_to_describe_a_death() -> None:
    assert client.describe(m.EngineLost("SIGILL", -4, ())) == "The engine process was killed by SIGILL"
    assert process.signal_name(-99) == "signal 99"
    assert process.signal_name(0xC000001D) == "SIGILL"


@pytest.mark.parametrize(
    ("own", "expected"),
    [({}, process.SPIN_COUNT), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, None)],
)
def test_waiting_threads_soon_sleep_in_the_engine_unless_the_user_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: dict[str, str], expected: str | None
) -> None:
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    with started(tmp_path) as engine:
        assert psutil.Process(engine.pid).environ().get("GOMP_SPINCOUNT") == expected
