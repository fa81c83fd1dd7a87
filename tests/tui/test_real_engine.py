"""The app on the real engine and the demo model."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from conftest import until
from edgespec_tui.app import EdgeSpecApp
from edgespec_tui.runner import EngineLike, open_engine
from edgespec_tui.screens.compare import CompareScreen
from edgespec_tui.screens.compare_setup import CompareSetup
from test_chat_screen import box, chat, notes, replies, send
from textual.widgets import Input

from edgespec.engine.messages import GenerateOptions, LoadOptions
from edgespec.types import Mode

pytestmark = pytest.mark.model


async def test_a_chat_with_cancel_mode_switch_and_a_killed_engine(demo_model: Path) -> None:
    engines: list[EngineLike] = []

    def opener(options: LoadOptions) -> EngineLike:
        engines.append(open_engine(options))
        return engines[-1]

    load = LoadOptions(str(demo_model), n_ctx=1024, threads=1)
    options = GenerateOptions(mode=Mode.LOOKUP, max_tokens=12)
    app = EdgeSpecApp(load, options, seeded=True, opener=opener)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "Ready" in notes(pilot), tries=20_000)
        await send(pilot, "Say hello.")
        fresh = replies(pilot)[0]
        assert fresh and chat(pilot)._chat.traces[1].stats["emitted_tokens"] <= 12

        await pilot.press("f5", "escape")
        await until(pilot, lambda: not chat(pilot).replying)
        while chat(pilot)._options.mode is not Mode.PLAIN:
            await pilot.press("f2")
        await pilot.press("f5")
        await until(pilot, lambda: not chat(pilot).replying)
        assert replies(pilot) == [fresh]

        os.kill(engines[0].pid, signal.SIGKILL)  # type: ignore[attr-defined]
        await until(pilot, lambda: not engines[0].alive)  # type: ignore[attr-defined]
        await pilot.press("f5")
        await until(pilot, lambda: replies(pilot) == [fresh] and not chat(pilot).replying, tries=20_000)
        assert "started again" in notes(pilot)


async def test_a_prompt_that_does_not_fit_is_refused_and_stays_in_the_box(demo_model: Path) -> None:
    app = EdgeSpecApp(LoadOptions(str(demo_model), n_ctx=256, threads=1), GenerateOptions(mode=Mode.LOOKUP))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "Ready" in notes(pilot), tries=20_000)
        box(pilot).load_text("word " * 2000)
        await pilot.press("enter")
        await until(pilot, lambda: chat(pilot).query(".-error"))
        assert "256" in notes(pilot) and box(pilot).text == "word " * 2000


async def test_a_file_that_is_no_model_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "[bold] [" / "bad.gguf"
    path.parent.mkdir()
    path.write_text("<!DOCTYPE html>")
    app = EdgeSpecApp(LoadOptions(str(path)), GenerateOptions())
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: chat(pilot).query(".-error"), tries=20_000)
        assert "Traceback" not in notes(pilot) and app.is_running


async def test_modes_are_raced(demo_model: Path) -> None:
    load = LoadOptions(str(demo_model), n_ctx=1024, threads=1)
    app = EdgeSpecApp(load, GenerateOptions(mode=Mode.LOOKUP))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "Ready" in notes(pilot), tries=20_000)
        await pilot.press("f4")
        await until(pilot, lambda: isinstance(pilot.app.screen, CompareSetup))
        pilot.app.screen.query_one("#repeats", Input).value = "1"
        pilot.app.screen.query_one("#tokens", Input).value = "8"
        await pilot.press("f4")
        await until(pilot, lambda: isinstance(pilot.app.screen, CompareScreen))
        screen = pilot.app.screen
        assert isinstance(screen, CompareScreen)
        await until(pilot, lambda: not screen.measuring, tries=20_000)
        comparison = screen.comparison
        assert comparison is not None and comparison.complete
        assert all(score.same in (True, None) for score in comparison.scores(comparison.prompts[0].id))


async def test_a_draft_model_of_another_family_is_refused_in_words_and_the_chat_goes_on(
    demo_model: Path, gemma_model: Path
) -> None:
    load = LoadOptions(str(demo_model), str(gemma_model), n_ctx=512, threads=1)
    app = EdgeSpecApp(load, GenerateOptions(mode=Mode.DRAFT, max_tokens=4), allow_fallback=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "Ready" in notes(pilot), tries=20_000)
        assert "vocabularies" in notes(pilot) and "Going on without the draft model" in notes(pilot)
        await send(pilot, "Say hello.")
        assert chat(pilot)._options.mode is Mode.LOOKUP and replies(pilot)


async def test_replies_stopped_at_many_moments_leave_no_trace(demo_model: Path) -> None:
    load = LoadOptions(str(demo_model), n_ctx=1024, threads=1)
    app = EdgeSpecApp(load, GenerateOptions(mode=Mode.LOOKUP, max_tokens=8), seeded=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "Ready" in notes(pilot), tries=20_000)
        await send(pilot, "Say hello.")
        fresh = replies(pilot)[0]
        for tokens in range(6):
            await pilot.press("f5")
            await until(pilot, lambda tokens=tokens: chat(pilot)._exchange is None  # type: ignore[misc]
                        or len(chat(pilot)._exchange.rounds) >= tokens)  # fmt: skip
            await pilot.press("escape")
            await until(pilot, lambda: not chat(pilot).replying)
        await pilot.press("f5")
        await until(pilot, lambda: not chat(pilot).replying)
        assert replies(pilot) == [fresh]
