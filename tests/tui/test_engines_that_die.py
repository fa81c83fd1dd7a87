"""The app on an engine process that dies or hangs at any moment: it lives on, and one key brings the engine back."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import fake_host
import psutil
import pytest
from conftest import until
from edgespec_tui import runner
from edgespec_tui.app import EdgeSpecApp
from edgespec_tui.screens.compare import CompareScreen
from edgespec_tui.screens.compare_setup import CompareSetup
from fake_host import crash, draft_round, hang, plain_round, reply, send, starts_of
from test_chat_screen import box, chat, notes, ready, replies
from test_chat_screen import send as ask
from textual.pilot import Pilot
from textual.widgets import Static

from edgespec.engine.client import Engine
from edgespec.engine.messages import GenerateOptions, LoadOptions, PrefillDone, PrefillProgress
from edgespec.types import Mode, Prefilled, Prefilling

WIDE = (120, 40)
READING = send(PrefillProgress(0, Prefilling(512, 4096)))
READ = send(PrefillDone(0, Prefilled(4096, 0, 1.0)))
WELL = {"replies": [reply("All well.")]}
PLAIN = [send(plain_round(i, f"word{i} ")) for i in range(3)]
DRAFTS = [send(draft_round(i, ["one ", "two "], ["no "], "three ")) for i in range(3)]


def app_on(command: Sequence[str]) -> EdgeSpecApp:
    def opener(options: LoadOptions) -> Any:
        return Engine(options, command=command)

    return EdgeSpecApp(LoadOptions("t.gguf"), GenerateOptions(mode=Mode.LOOKUP), opener=opener)


def engines() -> list[psutil.Process]:
    """The engine processes that this test started."""
    found = []
    for child in psutil.Process().children():
        try:
            if any("fake_host" in part for part in child.cmdline()):
                found.append(child)
        except psutil.Error:
            continue
    return found


def kill(pilot: Pilot[None], how: signal.Signals = signal.SIGKILL) -> None:
    for engine in engines():
        os.kill(engine.pid, how)


async def begin(pilot: Pilot[None], text: str, seen: Callable[[], object]) -> None:
    """Ask, and wait until something is seen."""
    box(pilot).load_text(text)
    await pilot.press("enter")
    await until(pilot, seen)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second Esc counts at once."""
    monkeypatch.setattr(runner, "PATIENCE", 0.0)


@pytest.mark.parametrize(
    ("moment", "shown"),
    [([READING], ""), ([READING, READ], ""), ([READ, *PLAIN], "word0 word1 word2 "),
     ([READ, *DRAFTS], "one two three " * 3)],
    ids=["prefill", "before the first token", "plain", "drafting"],
)  # fmt: skip
async def test_killed_in_a_reply_it_keeps_what_was_shown_and_one_key_asks_again(
    tmp_path: Path, moment: list[Any], shown: str
) -> None:
    command = fake_host.fake_host(tmp_path, starts=[{"replies": [[*moment, hang()]]}, WELL])
    async with app_on(command).run_test(size=WIDE) as pilot:
        await ready(pilot)
        await begin(pilot, "question", lambda: replies(pilot) == [shown])
        kill(pilot)
        await until(pilot, lambda: not chat(pilot).replying)
        assert "SIGKILL" in notes(pilot)
        assert replies(pilot) == ([shown] if shown else [])
        await pilot.press("f5" if shown else "enter")
        await until(pilot, lambda: replies(pilot) == ["All well."] and not chat(pilot).replying)
        assert "started again" in notes(pilot) and len(starts_of(command)) == 2


async def test_killed_while_loading_it_says_so_and_f5_loads_again(tmp_path: Path) -> None:
    command = fake_host.fake_host(tmp_path, starts=[{"load": [hang()]}, WELL])
    async with app_on(command).run_test(size=WIDE) as pilot:
        await until(pilot, lambda: starts_of(command))
        kill(pilot)
        await until(pilot, lambda: "F5 tries again" in notes(pilot))
        assert "SIGKILL" in notes(pilot)
        await pilot.press("f5")
        await ready(pilot)
        await ask(pilot, "question")
        assert replies(pilot) == ["All well."]


async def test_killed_while_it_is_started_again_it_gives_the_message_back(tmp_path: Path) -> None:
    dies = {"replies": [[READ, *PLAIN, crash("SIGKILL")]]}
    command = fake_host.fake_host(tmp_path, starts=[dies, {"load": [hang()]}, WELL])
    async with app_on(command).run_test(size=WIDE) as pilot:
        await ready(pilot)
        await ask(pilot, "one")
        box(pilot).load_text("two")
        await pilot.press("enter")
        await until(pilot, lambda: len(starts_of(command)) == 2)
        kill(pilot)
        await until(pilot, lambda: not chat(pilot).replying)
        assert box(pilot).text == "two" and replies(pilot) == ["word0 word1 word2 "]
        await pilot.press("enter")
        await until(pilot, lambda: replies(pilot)[-1] == "All well.")


async def test_killed_while_idle_the_next_message_is_answered(tmp_path: Path) -> None:
    command = fake_host.fake_host(tmp_path, replies=[reply("All well.")])
    async with app_on(command).run_test(size=WIDE) as pilot:
        await ready(pilot)
        kill(pilot)
        await until(pilot, lambda: not engines())
        await ask(pilot, "question")
        assert replies(pilot) == ["All well."]


async def test_killed_in_a_comparison_it_keeps_what_was_measured_and_r_measures_again(tmp_path: Path) -> None:
    run = [READ, *PLAIN, send(fake_host.done_event("".join(f"word{i} " for i in range(3))))]
    first = {"replies": [*[run] * 6, [READ, *PLAIN, hang()]]}  # three modes: warm-ups, one run each, and the next
    command = fake_host.fake_host(tmp_path, starts=[first, WELL])
    async with app_on(command).run_test(size=WIDE) as pilot:
        await ready(pilot)
        await pilot.press("f4")
        await until(pilot, lambda: isinstance(pilot.app.screen, CompareSetup))
        await pilot.press("f4")
        await until(pilot, lambda: isinstance(pilot.app.screen, CompareScreen))
        screen = pilot.app.screen
        assert isinstance(screen, CompareScreen)
        await until(pilot, lambda: "run 4" in str(screen.query_one("#title", Static).render()))
        kill(pilot)
        await until(pilot, lambda: not screen.measuring)
        assert screen.comparison is not None and len(screen.comparison.runs) == 3
        assert screen.race is not None  # it is replayed, and that needs no engine
        kill(pilot)
        await pilot.press("r")
        await until(pilot, lambda: screen.comparison is not None and screen.comparison.complete)


@pytest.mark.usefixtures("impatient")
async def test_a_reply_that_hangs_is_left_with_esc_twice(tmp_path: Path) -> None:
    command = fake_host.fake_host(tmp_path, starts=[{"replies": [[READ, *PLAIN, hang()]]}, WELL])
    async with app_on(command).run_test(size=WIDE) as pilot:
        await ready(pilot)
        await begin(pilot, "question", lambda: replies(pilot) == ["word0 word1 word2 "])
        kill(pilot, signal.SIGSTOP)
        await pilot.press("escape")
        await pilot.pause()
        assert chat(pilot).replying and "Esc once more" in str(box(pilot).border_subtitle)
        await pilot.press("escape")
        await until(pilot, lambda: not chat(pilot).replying)
        assert replies(pilot) == ["word0 word1 word2 "]
        await pilot.press("f5")
        await until(pilot, lambda: replies(pilot) == ["All well."])


async def test_loading_that_hangs_is_left_with_esc_and_f5_loads_again(tmp_path: Path) -> None:
    command = fake_host.fake_host(tmp_path, starts=[{"load": [hang()]}, {}])
    async with app_on(command).run_test(size=WIDE) as pilot:
        await until(pilot, lambda: starts_of(command))
        kill(pilot, signal.SIGSTOP)
        await pilot.press("escape")
        await until(pilot, lambda: "F5 tries again" in notes(pilot))
        assert "Loading was stopped." in notes(pilot)
        await pilot.press("f5")
        await ready(pilot)


@pytest.mark.usefixtures("impatient")
async def test_a_comparison_that_hangs_is_left_with_esc_twice(tmp_path: Path) -> None:
    command = fake_host.fake_host(tmp_path, replies=[[READ, *PLAIN, hang()]])
    async with app_on(command).run_test(size=WIDE) as pilot:
        await ready(pilot)
        await pilot.press("f4")
        await until(pilot, lambda: isinstance(pilot.app.screen, CompareSetup))
        await pilot.press("f4")
        await until(pilot, lambda: isinstance(pilot.app.screen, CompareScreen) and pilot.app.screen.measuring)
        screen = pilot.app.screen
        assert isinstance(screen, CompareScreen)
        kill(pilot, signal.SIGSTOP)
        await pilot.press("escape", "escape")
        await until(pilot, lambda: not screen.measuring)


@pytest.mark.parametrize("where", ["loading", "reply"])
async def test_leaving_beside_an_engine_that_hangs_leaves_no_process(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = runner.Runner.close
    monkeypatch.setattr(runner.Runner, "close", lambda self: close(self, 0.3))
    script = {"load": [hang()]} if where == "loading" else {"replies": [[READ, *PLAIN, hang()]]}
    command = fake_host.fake_host(tmp_path, starts=[script])
    async with app_on(command).run_test(size=WIDE) as pilot:
        await until(pilot, lambda: starts_of(command))
        if where == "reply":
            await ready(pilot)
            await begin(pilot, "question", lambda: replies(pilot) == ["word0 word1 word2 "])
        kill(pilot, signal.SIGSTOP)
        await pilot.press("ctrl+q")
    assert not engines()
