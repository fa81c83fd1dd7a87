"""The engine with real models: what users meet."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgespec import errors
from edgespec.decoding.sampling import SamplingParams
from edgespec.engine import messages as m
from edgespec.engine.client import Engine
from edgespec.types import FinishReason, Mode

pytestmark = pytest.mark.model

QUESTION = (m.Message("user", "Name the capital of France."),)
SHORT = m.GenerateOptions(max_tokens=12)
LONG_TEXT = "The quick brown fox jumps over the lazy dog. " * 600


def ask(engine: Engine, messages: tuple[m.Message, ...] = QUESTION, options: m.GenerateOptions = SHORT) -> str:
    event = list(engine.generate(messages, options))[-1]
    assert isinstance(event, m.GenerationDone), event
    return event.text


@pytest.fixture(scope="module")
def engine(engine_folders: Path, demo_model: Path) -> Iterator[Engine]:
    with Engine.open(demo_model, draft=demo_model) as engine:
        yield engine


@pytest.fixture(scope="module")
def fresh_answer(engine: Engine) -> str:
    """What a fresh engine says to QUESTION."""
    return ask(engine)


def test_it_answers_in_every_mode_alike(engine: Engine, fresh_answer: str) -> None:
    assert "Paris" in fresh_answer
    for mode in Mode:
        assert ask(engine, options=replace(SHORT, mode=mode)) == fresh_answer


def test_a_model_that_drafts_for_itself_is_believed(engine: Engine) -> None:
    options = m.GenerateOptions(mode=Mode.DRAFT, max_tokens=48)
    done = list(engine.generate((m.Message("user", "Tell me a story about a boat."),), options))[-1]
    assert isinstance(done, m.GenerationDone)
    assert done.stats.draft_acceptance_rate is not None and done.stats.draft_acceptance_rate >= 0.98


def test_cancel_in_a_long_prompt_and_the_next_answer_is_that_of_a_fresh_start(
    engine: Engine, fresh_answer: str
) -> None:
    for mode in (Mode.PLAIN, Mode.DRAFT):
        seen = []
        for event in engine.generate((m.Message("user", LONG_TEXT),), replace(SHORT, mode=mode)):
            seen.append(event)
            if isinstance(event, m.PrefillProgress):
                assert event.progress.total > 5_900
                engine.cancel()
        done = seen[-1]
        assert isinstance(done, m.GenerationDone)
        assert done.reason is FinishReason.CANCELLED and done.tokens == ()
        assert sum(isinstance(event, m.PrefillProgress) for event in seen) <= 3
        assert ask(engine, options=replace(SHORT, mode=mode)) == fresh_answer


@pytest.mark.parametrize("mode", [Mode.PLAIN, Mode.LOOKUP, Mode.DRAFT])
def test_regenerating_with_a_seed_gives_the_same_reply(engine: Engine, mode: Mode) -> None:
    options = m.GenerateOptions(mode=mode, sampling=SamplingParams(temperature=0.8, seed=7), max_tokens=16)
    assert len({ask(engine, options=options) for _ in range(3)}) == 1


def test_a_conversation_reuses_what_it_has(engine: Engine) -> None:
    first = ask(engine)
    messages = (*QUESTION, m.Message("assistant", first), m.Message("user", "And of Italy?"))
    done = list(engine.generate(messages, replace(SHORT, mode=Mode.LOOKUP)))[-1]
    assert isinstance(done, m.GenerationDone)
    assert done.stats.cached_tokens > done.stats.prompt_tokens // 2


def test_kill_9_in_the_middle_of_a_reply_and_the_next_message_works(engine: Engine, fresh_answer: str) -> None:
    events = engine.generate(QUESTION, m.GenerateOptions())
    next(event for event in events if isinstance(event, m.RoundDone))
    os.kill(engine.pid, signal.SIGKILL)
    last = list(events)[-1]
    assert isinstance(last, m.EngineLost) and last.signal == "SIGKILL"
    assert ask(engine) == fresh_answer


def test_a_context_beyond_what_the_model_knows_is_a_notice_and_nothing_reaches_the_terminal(
    demo_model: Path, engine_folders: Path
) -> None:
    code = (
        "import sys\n"
        "from edgespec.engine.client import Engine\n"
        f"with Engine.open({str(demo_model)!r}, n_ctx=16384) as engine:\n"
        "    sys.stdout.write(engine.loaded.notices[0] + '\\n' + str(engine.log))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    notice, log = run.stdout.split("\n")
    assert run.stderr == ""
    assert "16,384" in notice and "8,192" in notice
    assert "llama_context" in Path(log).read_text()


def test_a_draft_with_another_vocabulary_is_refused_before_native_code_sees_it(
    demo_model: Path, gemma_model: Path, engine_folders: Path
) -> None:
    with pytest.raises(errors.PairError, match="262") as caught:
        Engine.open(demo_model, draft=gemma_model)
    assert "lookup" in caught.value.hint
    newest = max((engine_folders / "logs").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    assert "llama_model_loader" not in newest.read_text()


@pytest.mark.parametrize("size", [10_000_000, -1])
def test_a_real_file_cut_short_is_refused_as_target_and_as_draft(tmp_path: Path, demo_model: Path, size: int) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(demo_model.read_bytes()[:size])
    with pytest.raises(errors.ModelFileError):
        Engine.open(cut)
    with pytest.raises(errors.ModelFileError):
        Engine.open(demo_model, draft=cut)
