"""The real host with tiny random models: fast enough to try everything that may be asked of it."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from make_tiny_gguf import write_tiny

from edgespec import errors
from edgespec.decoding.sampling import SamplingParams
from edgespec.engine import messages as m
from edgespec.engine.client import Engine
from edgespec.engine.knowledge import Knowledge, knowledge_path
from edgespec.learned import learned
from edgespec.surroundings import as_loaded, look_around
from edgespec.types import FinishReason, Mode, Origin

pytestmark = pytest.mark.model

TEXT = "Once upon a time there was a little"
CHAT = (m.Message("user", "one two three one two three one two"),)
OPTIONS = m.GenerateOptions(mode=Mode.PLAIN, max_tokens=40)
EVERY_MODE = list(Mode)


@pytest.fixture(scope="module")
def engine(engine_folders: Path, tiny_target: Path, tiny_draft: Path) -> Iterator[Engine]:
    with opened(tiny_target, draft=tiny_draft) as engine:
        yield engine


def opened(target: Path, draft: Path | None = None, **options: Any) -> Engine:
    """Threads that wait for each other take for ever on a busy machine; models this small need only one."""
    return Engine.open(target, draft, **{"threads": 1, **options})


def answer(
    engine: Engine, prompt: str | tuple[m.Message, ...] = TEXT, options: m.GenerateOptions = OPTIONS, **changes: Any
) -> m.GenerationDone:
    event = list(engine.generate(prompt, replace(options, **changes)))[-1]
    assert isinstance(event, m.GenerationDone), event
    return event


def failure(engine: Engine, prompt: str | tuple[m.Message, ...] = TEXT, **changes: Any) -> m.Failed:
    event = list(engine.generate(prompt, replace(OPTIONS, **changes)))[-1]
    assert isinstance(event, m.Failed), event
    return event


def host_after(code: str) -> list[str]:
    """The real host, with this code run first."""
    return [sys.executable, "-c", f"import os, signal\n{code}\nfrom edgespec.engine.host import main\nmain()\n"]


# What a reply is


def test_loaded_says_what_is_loaded_and_can_run(engine: Engine, tiny_target: Path) -> None:
    loaded = engine.loaded
    assert loaded.target.path == str(tiny_target)
    assert loaded.draft is not None and loaded.draft.n_ctx == loaded.target.n_ctx == 4096
    assert loaded.modes == dict.fromkeys(Mode)
    assert "llama.cpp" in loaded.library
    assert "rarely pays" in loaded.notices[0]  # the draft model is as large as its target


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("mode", EVERY_MODE)
def test_details_of_the_tokens_change_nothing(engine: Engine, mode: Mode, temperature: float) -> None:
    sampling = SamplingParams(temperature=temperature, seed=5)
    options = replace(OPTIONS, mode=Mode.PLAIN, sampling=sampling, fresh=True)
    without = answer(engine, CHAT, options)
    events = list(engine.generate(CHAT, replace(options, mode=mode, details=True)))
    assert isinstance(events[-1], m.GenerationDone) and events[-1].tokens == without.tokens
    for event in events:
        if isinstance(event, m.RoundDone):
            assert event.details is not None
            assert len(event.details.emitted) == len(event.round.tokens)
            assert len(event.details.drafted) == len(event.details.proposed) == len(event.round.draft.tokens)
            assert all(judged.rank == 1 for judged in event.details.emitted) or temperature
            if event.round.draft.source == "draft":
                assert None not in event.details.proposed


@pytest.mark.parametrize("mode", EVERY_MODE)
def test_every_mode_gives_the_same_greedy_reply(engine: Engine, mode: Mode) -> None:
    plain = answer(engine)
    done = answer(engine, mode=mode)
    assert done.tokens == plain.tokens and done.text == plain.text
    assert done.mode is mode
    assert done.reason is FinishReason.LENGTH and len(done.tokens) == 40


@pytest.mark.parametrize("mode", EVERY_MODE)
def test_events_add_up_to_the_reply(engine: Engine, mode: Mode) -> None:
    events = list(engine.generate(CHAT, replace(OPTIONS, mode=mode)))
    rounds = [event for event in events if isinstance(event, m.RoundDone)]
    done = events[-1]
    assert isinstance(done, m.GenerationDone)
    assert tuple(token for event in rounds for token in event.round.tokens) == done.tokens
    assert done.text.startswith("".join(text for event in rounds for text in event.texts))
    for event in rounds:
        assert len(event.texts) == len(event.round.tokens) == len(event.round.pieces)
        assert len(event.rejected) == len(event.round.draft.tokens) - event.round.verdict.accepted
    assert done.stats.rounds == len(rounds)
    assert done.stats.emitted_tokens == len(done.tokens)
    assert done.stats.plain_step_seconds is not None and done.stats.plain_step_seconds > 0
    assert [type(event).__name__ for event in events if event not in rounds][-2:] == ["PrefillDone", "GenerationDone"]


def test_the_draft_model_is_used_and_says_so(engine: Engine) -> None:
    events = list(engine.generate(TEXT, replace(OPTIONS, mode=Mode.DRAFT)))
    rounds = [event.round for event in events if isinstance(event, m.RoundDone)]
    assert {round_.draft.source for round_ in rounds if round_.draft.tokens} == {"draft"}
    assert any(Origin.ACCEPTED in round_.origins for round_ in rounds)


@pytest.mark.parametrize("length", [0, 1, 3, m.MAX_DRAFT_LENGTH])
def test_the_draft_length_bounds_every_draft(engine: Engine, length: int) -> None:
    events = list(engine.generate(TEXT, replace(OPTIONS, mode=Mode.DRAFT, draft_length=length)))
    drafted = [len(event.round.draft.tokens) for event in events if isinstance(event, m.RoundDone)]
    assert max(drafted) == length


def test_turns_reuse_the_cache_whatever_the_modes(engine: Engine) -> None:
    messages: tuple[m.Message, ...] = (m.Message("user", "the time of the day"),)
    cached = []
    for mode in (Mode.DRAFT, Mode.PLAIN, Mode.LOOKUP, Mode.AUTO, Mode.DRAFT):
        done = answer(engine, messages, mode=mode, max_tokens=12)
        cached.append(done.stats.cached_tokens)
        messages = (*messages, m.Message("assistant", done.text), m.Message("user", "and the"))
    assert cached[1:] == sorted(set(cached[1:])) and cached[1] > 0


@pytest.mark.parametrize("mode", EVERY_MODE)
@pytest.mark.parametrize("draft_sampling", [False, True])
def test_a_seed_gives_the_same_reply_again(engine: Engine, mode: Mode, draft_sampling: bool) -> None:
    options = replace(OPTIONS, mode=mode, draft_sampling=draft_sampling)
    texts = {
        seed: {answer(engine, CHAT, options, sampling=SamplingParams(temperature=0.8, seed=seed)).text for _ in "abc"}
        for seed in (7, 8)
    }
    assert [len(seen) for seen in texts.values()] == [1, 1]
    assert texts[7] != texts[8]


def test_a_stop_text_ends_the_reply(engine: Engine) -> None:
    whole = answer(engine).text
    found = re.search(r"[a-z]{2,}", whole[5:])  # random models write much that is no text
    assert found is not None
    stop = found[0]
    done = answer(engine, mode=Mode.DRAFT, stop=(stop,))
    assert done.reason is FinishReason.STOP
    assert done.text == whole[: whole.index(stop)]


def test_a_reply_that_fills_the_context_ends_with_that_reason(tiny_target: Path) -> None:
    with opened(tiny_target, n_ctx=64) as engine:
        for mode in (Mode.PLAIN, Mode.LOOKUP, Mode.AUTO):
            done = answer(engine, mode=mode, max_tokens=None)
            assert done.reason is FinishReason.CONTEXT
            assert done.stats.prompt_tokens + len(done.tokens) == 64


# What is refused, with the engine usable afterwards


def test_a_prompt_longer_than_the_context_names_needed_and_available(engine: Engine) -> None:
    event = failure(engine, (m.Message("user", "word " * 20_000),))
    assert event.error == "ContextFullError"
    assert "4,096" in event.message and "trained for" in event.hint
    answer(engine)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"draft_length": 33}, "SettingsError"),
        ({"draft_length": -1}, "SettingsError"),
        ({"max_tokens": 0}, "SettingsError"),
        ({"min_ngram": 5, "max_ngram": 4}, "SettingsError"),
        ({"stop": ("",)}, "SettingsError"),
    ],
)
def test_options_without_meaning_are_refused(engine: Engine, changes: dict[str, Any], error: str) -> None:
    assert failure(engine, **changes).error == error
    answer(engine)


@pytest.mark.parametrize("messages", [(), (m.Message("user", " \n"),), (m.Message("wizard", "hi"),)])
def test_conversations_that_cannot_be_answered_are_refused(engine: Engine, messages: tuple[m.Message, ...]) -> None:
    assert issubclass(type(failure(engine, messages).to_error()), errors.EdgeSpecError)
    answer(engine)


def test_draft_mode_without_a_draft_model_is_refused_with_a_sentence(tiny_target: Path) -> None:
    with opened(tiny_target) as engine:
        assert engine.loaded.modes[Mode.DRAFT] == "No draft model is loaded."
        event = failure(engine, mode=Mode.DRAFT)
        assert isinstance(event.to_error(), errors.ModeError)
        assert "--draft" in event.hint
        answer(engine, mode=Mode.AUTO)


@pytest.mark.parametrize("arch", ["mamba", "jamba"])
def test_a_memory_that_cannot_go_back_runs_plain_only(tmp_path: Path, arch: str) -> None:
    with opened(write_tiny(tmp_path / "a.gguf", arch)) as engine:
        reasons = engine.loaded.modes
        assert reasons[Mode.PLAIN] is None
        for mode in (Mode.LOOKUP, Mode.DRAFT):
            assert "cannot go back" in (reasons[mode] or "")
            assert failure(engine, mode=mode).error == "ModeError"
        with pytest.raises(errors.ModeError, match="nothing to measure"):
            engine.measure_costs()
        first = answer(engine, max_tokens=20)
        auto = answer(engine, mode=Mode.AUTO, max_tokens=20)
        assert auto.text == first.text and auto.stats.drafted == 0
        assert answer(engine, max_tokens=20).text == first.text


def test_auto_says_what_it_did_and_what_it_knows(tiny_target: Path, tiny_draft: Path, engine_folders: Path) -> None:
    with opened(tiny_target, draft=tiny_draft) as engine:
        plain = answer(engine)
        events = list(engine.generate(TEXT, replace(OPTIONS, mode=Mode.AUTO)))
    done = events[-1]
    assert isinstance(done, m.GenerationDone) and done.text == plain.text
    assert plain.auto is None and done.auto is not None
    report = done.auto
    assert sum(use.rounds for use in report.uses) == done.stats.rounds
    assert sum(use.tokens for use in report.uses) == done.stats.emitted_tokens
    assert sum(use.drafted for use in report.uses) == done.stats.drafted
    assert dict(report.curve)[1] == 1.0 and len(report.curve) > 5
    assert report.draft_step and report.plain_step_seconds and done.stats.plain_step_seconds
    assert next(event for event in events if isinstance(event, m.RoundDone)).why
    assert len(list((engine_folders / "cache" / "costs").iterdir())) >= 1


def test_costs_are_measured_anew_on_request_and_acceptance_is_kept(
    tiny_target: Path, tiny_draft: Path, engine_folders: Path
) -> None:
    options = m.LoadOptions(str(tiny_target), str(tiny_draft), n_ctx=512, threads=1)
    with Engine(options) as engine:
        plain = answer(engine)
        answer(engine, mode=Mode.AUTO)
        load = as_loaded(look_around(options).load)[0]
        before = Knowledge.load(knowledge_path(load, 1))
        before.costs.calibrate([{1: 9.0, 2: 27.0, 31: 90.0}])
        before.save()
    with Engine(options) as engine:
        passes = engine.measure_costs(0.5)
        found = learned(load, 1)
        assert found is not None and found.passes == passes >= 11
        longest, points = found.curves[0]
        assert longest == 1024 and dict(points)[1] == 1.0
        assert 31 not in dict(points)  # what was known before is gone
        assert found.plain_seconds < 1 and found.step > 0
        after = Knowledge.load(found.file)._to_json()["acceptance"]
        assert after == before._to_json()["acceptance"] != {}
        assert answer(engine, mode=Mode.AUTO).tokens == plain.tokens


@pytest.mark.parametrize("arch", ["gemma3", "lfm2"])
def test_windows_and_snapshots_draft_and_give_the_same_text(tmp_path: Path, arch: str) -> None:
    with opened(write_tiny(tmp_path / "a.gguf", arch)) as engine:
        texts = {answer(engine, mode=mode, max_tokens=120).text for mode in (Mode.PLAIN, Mode.LOOKUP, Mode.AUTO)}
        assert len(texts) == 1


def test_a_draft_model_that_cannot_go_back_is_named(tmp_path: Path, tiny_target: Path) -> None:
    with opened(tiny_target, draft=write_tiny(tmp_path / "d.gguf", "mamba")) as engine:
        assert "draft model's memory" in (engine.loaded.modes[Mode.DRAFT] or "")
        assert failure(engine, mode=Mode.DRAFT).error == "ModeError"
        answer(engine, mode=Mode.AUTO)


def test_a_base_model_is_told_once(tmp_path: Path) -> None:
    with opened(write_tiny(tmp_path / "a.gguf", template=False)) as engine:
        assert not engine.loaded.target.has_template
        notices = [[e.text for e in engine.generate(CHAT, OPTIONS) if isinstance(e, m.Notice)] for _ in "ab"]
    assert "no chat template" in notices[0][0]
    assert notices[1] == []


FASTIDIOUS = """\
{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
{%- for turn in messages %}
{%- if (turn.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Turns must alternate') }}{% endif %}
{{- '<|im_start|>' + turn.role + '\n' + turn.content + '<|im_end|>\n' }}
{%- endfor %}<|im_start|>assistant
"""


def test_a_template_that_refuses_a_system_text_and_two_questions_in_a_row_is_met_halfway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two questions in a row is what a reply that was cancelled before its first word leaves behind."""
    monkeypatch.setattr("make_tiny_gguf.CHATML", FASTIDIOUS)
    with opened(write_tiny(tmp_path / "a.gguf")) as engine:
        messages = (m.Message("system", "Be brief."), m.Message("user", "Hi"), m.Message("user", "Are you there?"))
        events = list(engine.generate(messages, OPTIONS))
        assert isinstance(events[-1], m.GenerationDone), events[-1]
        notices = [event.text for event in events if isinstance(event, m.Notice)]
        assert ["no system role" in notices[0], "joined" in notices[1], len(notices)] == [True, True, 2]
        joined = answer(engine, (m.Message("user", "Be brief.\n\nHi\n\nAre you there?"),))
        assert answer(engine, messages).tokens == joined.tokens


# Files that cannot be loaded


@pytest.mark.parametrize("role", ["target", "draft"])
@pytest.mark.parametrize("size", [0, 3, 4, 1000, -1])
def test_a_file_cut_short_is_refused_in_either_role(
    tmp_path: Path, tiny_target: Path, tiny_draft: Path, role: str, size: int
) -> None:
    files = {"target": tiny_target, "draft": tiny_draft}
    data = files[role].read_bytes()
    files[role] = tmp_path / "cut.gguf"
    files[role].write_bytes(data[:size])
    with pytest.raises(errors.ModelFileError, match=r"cut\.gguf"):
        opened(**files)


@pytest.mark.parametrize("role", ["target", "draft"])
@pytest.mark.parametrize(
    "content",
    [
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 100000000\n",
        b"<!DOCTYPE html><html><body>Not found</body></html>",
        b'{"error":"Repository not found"}',
    ],
    ids=["lfs pointer", "html", "json"],
)
def test_what_only_pretends_to_be_a_model_is_refused_in_either_role(
    tmp_path: Path, tiny_target: Path, tiny_draft: Path, role: str, content: bytes
) -> None:
    files = {"target": tiny_target, "draft": tiny_draft, role: tmp_path / "fake.gguf"}
    files[role].write_bytes(content)
    with pytest.raises(errors.ModelFileError, match=r"fake\.gguf"):
        opened(**files)


@pytest.mark.parametrize("role", ["target", "draft"])
def test_a_missing_file_is_refused_in_either_role(
    tmp_path: Path, tiny_target: Path, tiny_draft: Path, role: str
) -> None:
    files = {"target": tiny_target, "draft": tiny_draft, role: tmp_path / "missing.gguf"}
    with pytest.raises(errors.EdgeSpecError, match=r"missing\.gguf"):
        opened(**files)


def test_load_options_without_meaning_are_refused(tiny_target: Path) -> None:
    for options in ({"n_ctx": -5}, {"cache_type_k": "q9"}, {"threads": -1}):
        with pytest.raises(errors.SettingsError):
            opened(tiny_target, **options)


# Lives and deaths


def test_cancel_in_the_middle_keeps_what_was_said_and_the_next_reply_is_whole(engine: Engine) -> None:
    whole = answer(engine)
    for mode in EVERY_MODE:
        events = engine.generate(TEXT, m.GenerateOptions(mode=mode))
        seen = []
        for event in events:
            seen.append(event)
            if isinstance(event, m.RoundDone) and event.round.index == 3:
                engine.cancel()
        done = seen[-1]
        assert isinstance(done, m.GenerationDone) and done.reason is FinishReason.CANCELLED
        rounds = [event for event in seen if isinstance(event, m.RoundDone)]
        assert done.tokens == tuple(token for event in rounds for token in event.round.tokens)
        assert answer(engine, mode=mode).tokens == whole.tokens


def test_cancel_before_the_start_ends_the_reply_as_soon_as_it_is_read(engine: Engine) -> None:
    events = engine.generate(TEXT, replace(OPTIONS, max_tokens=None))  # too long to be over before
    engine.cancel()
    done = list(events)[-1]
    assert isinstance(done, m.GenerationDone) and done.reason is FinishReason.CANCELLED


def test_kill_9_in_the_middle_of_a_reply_and_the_next_message_works(engine: Engine) -> None:
    whole = answer(engine)
    for event in (events := engine.generate(TEXT, m.GenerateOptions())):
        if isinstance(event, m.RoundDone):
            os.kill(engine.pid, signal.SIGKILL)
            break
    last = list(events)[-1]
    assert isinstance(last, m.EngineLost) and last.signal == "SIGKILL"
    again = list(engine.generate(TEXT, OPTIONS))
    assert isinstance(again[0], m.Loaded) and "SIGKILL" in again[0].notices[0]
    assert isinstance(again[-1], m.GenerationDone) and again[-1].tokens == whole.tokens


def test_the_host_ends_with_its_parent_in_the_middle_of_a_reply(tiny_target: Path) -> None:
    with opened(tiny_target) as engine:
        events = engine.generate(TEXT, m.GenerateOptions())
        next(event for event in events if isinstance(event, m.RoundDone))
        assert engine._process is not None
        engine._process._stdin.close()
        assert isinstance(list(events)[-1], m.EngineLost | m.GenerationDone)
        engine._process._reader.join(20)
        assert not engine.alive


def test_close_in_the_middle_of_a_reply_leaves_no_process(tiny_target: Path) -> None:
    engine = opened(tiny_target)
    pid = engine.pid
    events = engine.generate(TEXT, m.GenerateOptions())
    next(events)
    engine.close()
    assert not psutil.pid_exists(pid)
    assert isinstance(list(events)[-1], m.EngineLost | m.GenerationDone)


CRASH_OF_FAST_KERNELS = """
from edgespec.llama import model, session
load, warm_up, fast = model.LlamaModel.load.__func__, session.LlamaSession.warm_up, []
def note(cls, path, *, use_extra_bufts=True, **options):
    fast.append(use_extra_bufts)
    return load(cls, path, use_extra_bufts=use_extra_bufts, **options)
def crash(self):
    if fast[-1]:
        os.kill(os.getpid(), signal.SIGILL)
    warm_up(self)
model.LlamaModel.load, session.LlamaSession.warm_up = classmethod(note), crash
"""


def test_a_host_that_dies_of_sigill_in_warm_up_comes_back_in_safe_mode(tiny_target: Path, tiny_draft: Path) -> None:
    command = host_after(CRASH_OF_FAST_KERNELS)
    options = m.LoadOptions(str(tiny_target), threads=1, draft=str(tiny_draft))
    with Engine(options, command=command) as engine:
        assert engine.loaded.safe_mode
        assert "SIGILL" in engine.loaded.notices[0]
        answer(engine, mode=Mode.DRAFT)
    with Engine(options, command=command) as engine:
        assert engine.loaded.safe_mode
        assert not any("SIGILL" in notice for notice in engine.loaded.notices)


def test_native_prints_end_up_in_the_log(tiny_target: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code = (
        "from edgespec.llama import session\n"
        "session.LlamaSession.warm_up = lambda self: (os.write(1, b'to stdout\\n'), os.write(2, b'to stderr\\n'))\n"
    )
    with Engine(m.LoadOptions(str(tiny_target), threads=1), command=host_after(code)) as engine:
        answer(engine)
        log = engine.log.read_text()
    assert "to stdout\n" in log and "to stderr\n" in log
    assert "llama_model_loader" in log
    assert capfd.readouterr() == ("", "")


def test_a_bug_in_the_host_fails_the_reply_and_leaves_its_traceback_in_the_log(tiny_target: Path) -> None:
    code = (
        "from edgespec.engine import generation\n"
        "really = generation.speculate\n"
        "def speculate(*args, **options):\n"
        "    generation.speculate = really\n"
        "    raise ZeroDivisionError('oops')\n"
        "generation.speculate = speculate\n"
    )
    with Engine(m.LoadOptions(str(tiny_target), threads=1), command=host_after(code)) as engine:
        event = failure(engine)
        assert event.error == "EngineError" and "oops" in event.message
        assert "Traceback" in engine.log.read_text()
        answer(engine)


def test_a_native_abort_leaves_its_words_in_the_event(tiny_target: Path) -> None:
    code = (
        "from edgespec.engine import generation\n"
        "def speculate(*args, **options):\n"
        "    os.write(2, b'ggml.c:1: GGML_ASSERT(false) failed\\n')\n"
        "    os.abort()\n"
        "generation.speculate = speculate\n"
    )
    with Engine(m.LoadOptions(str(tiny_target), threads=1), command=host_after(code)) as engine:
        event = list(engine.generate(TEXT, OPTIONS))[-1]
    assert isinstance(event, m.EngineLost) and event.signal == "SIGABRT"
    assert any("GGML_ASSERT" in line for line in event.log)
