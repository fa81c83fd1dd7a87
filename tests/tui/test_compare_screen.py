"""Racing modes on a scripted engine: choosing, measuring, replaying, exporting."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from threading import Event as Flag

import pytest
from conftest import MakeApp, until
from edgespec_tui.columns import fitting
from edgespec_tui.race import Race
from edgespec_tui.screens.chat import ChatScreen
from edgespec_tui.screens.compare import CompareScreen, Tick
from edgespec_tui.screens.compare_setup import CompareSetup, offered, usual
from edgespec_tui.widgets.mode_list import ModeList
from edgespec_tui.widgets.race_pane import RacePane
from edgespec_tui.widgets.results import GIVE_WAY, Grid
from scripted_engine import CODE, Step, done, loaded, reply, round_done
from test_chat_screen import ready
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Static, TextArea

from edgespec.comparison import Run
from edgespec.contestants import PLAIN
from edgespec.engine.messages import EngineLost, GenerationDone
from edgespec.types import FinishReason, Mode

ALL_MODES = loaded(modes=dict.fromkeys(Mode))
TEXT = [text for event in CODE for text in event.texts]
TOKENS = [token for event in CODE for token in event.round.tokens]
ONE_BY_ONE = [round_done(i, [], [], text, seconds=0.05) for i, text in enumerate(TEXT)]
PLAIN_CODE = [
    replace(event, round=replace(event.round, tokens=(token,))) for event, token in zip(ONE_BY_ONE, TOKENS, strict=True)
]


def run_of(mode: Mode) -> list[Step]:
    """What the engine plays for one run in this mode."""
    return reply(CODE if mode is not Mode.PLAIN else PLAIN_CODE, mode=mode)


def scripts(runs: int = 100) -> list[list[Step]]:
    """Runs of plain and lookup in the order in which two modes take turns."""
    warm = [run_of(Mode.PLAIN), run_of(Mode.LOOKUP)]
    turns = [run_of(mode) for i in range(runs) for mode in (list(Mode)[:2] if i % 2 == 0 else list(Mode)[1::-1])]
    return [*warm, *turns]


def screen(pilot: Pilot[None]) -> CompareScreen:
    found = next(one for one in pilot.app.screen_stack if isinstance(one, CompareScreen))
    return found


def said(pilot: Pilot[None]) -> str:
    return str(screen(pilot).query_one("#remark", Static).render())


async def measured(pilot: Pilot[None]) -> None:
    """Open the screen, take what it proposes, and wait for the result; the replay is stopped."""
    await ready(pilot)
    await pilot.press("f4")
    await until(pilot, lambda: isinstance(pilot.app.screen, CompareSetup))
    await pilot.press("f4")
    await until(pilot, lambda: isinstance(pilot.app.screen, CompareScreen) and not screen(pilot).measuring)
    if screen(pilot).race is not None and screen(pilot).race.playing:  # type: ignore[union-attr]
        await pilot.press("space")


async def test_two_modes_are_measured_and_raced(make_app: MakeApp) -> None:
    app = make_app(*scripts())
    async with app.run_test(size=(120, 40)) as pilot:
        await measured(pilot)
        assert [options.mode for _, options in app.engine.asked[:4]] == ["plain", "lookup", "plain", "lookup"]
        assert all(options.fresh for _, options in app.engine.asked)
        assert len(app.engine.asked) == 8
        comparison = screen(pilot).comparison
        assert comparison is not None and comparison.complete and len(comparison.runs) == 6
        table = str(screen(pilot).query_one(Grid).render())
        assert "lookup k=4" in table and "18/23" in table and "yes" in table


async def test_panes_fill_while_each_mode_runs_alone(make_app: MakeApp) -> None:
    hold = Flag()
    app = make_app(*scripts()[:2], [*PLAIN_CODE[:3], hold, *PLAIN_CODE[3:], done(PLAIN_CODE, mode=Mode.PLAIN)])
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await pilot.press("f4")
        await pilot.press("f4")
        await until(pilot, lambda: screen(pilot).query(RacePane) and screen(pilot).query(RacePane).first().shown == 3)
        plain, lookup = screen(pilot).query(RacePane)
        assert plain.has_class("-running") and not lookup.has_class("-running") and lookup.shown == 0
        hold.set()


async def test_the_replay_shows_each_mode_as_far_as_it_was_at_that_moment(make_app: MakeApp) -> None:
    app = make_app(*scripts())
    async with app.run_test(size=(120, 40)) as pilot:
        await measured(pilot)
        await pilot.press("home")
        plain, lookup = screen(pilot).query(RacePane)
        assert plain.shown == lookup.shown == 0
        for _ in range(10):
            await pilot.press("right")
        race = screen(pilot).race
        assert race is not None and race.position == pytest.approx(race.duration / 2)
        for pane, run in zip((plain, lookup), race.runs, strict=True):
            assert pane.shown == run.steps_at(race.position)
        await pilot.press("end")
        assert (plain.shown, lookup.shown) == (len(PLAIN_CODE), len(CODE))
        await pilot.press("left")
        assert plain.shown < len(PLAIN_CODE)


async def test_the_replay_plays_to_its_end_and_again(make_app: MakeApp) -> None:
    app = make_app(*scripts())
    async with app.run_test(size=(120, 40)) as pilot:
        await measured(pilot)
        race = screen(pilot).race
        assert race is not None
        now = 0.0
        race._clock = lambda: now
        await pilot.press("home", "space")
        now = race.duration + 1
        screen(pilot).post_message(Tick())
        await pilot.pause()
        assert not race.playing and race.position == race.duration
        await pilot.press("space")
        assert race.playing and race.position == 0.0


async def test_export_writes_json_with_every_round_and_markdown(
    make_app: MakeApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = make_app(*scripts())
    async with app.run_test(size=(120, 40)) as pilot:
        await measured(pilot)
        await pilot.press("e", "e")
        assert "Written" in said(pilot)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".json", ".md", ".md"]
    data = json.loads((tmp_path / "compare-code-edit.json").read_text())
    assert data["complete"] and "| lookup" in (tmp_path / "compare-code-edit.md").read_text()


async def test_esc_stops_the_measurement_then_leaves_and_the_chat_goes_on(make_app: MakeApp) -> None:
    app = make_app([Flag()])
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await pilot.press("f4", "f4")
        await until(pilot, lambda: app.engine.asked)
        await pilot.press("escape")
        await until(pilot, lambda: not screen(pilot).measuring)
        assert screen(pilot).comparison is None and pilot.app.screen is screen(pilot)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))
        await pilot.press("h", "i", "enter")
        await until(pilot, lambda: [turn.role for turn in pilot.app.screen._chat.turns] == ["user", "assistant"])


async def test_an_engine_that_dies_leaves_what_was_measured(make_app: MakeApp) -> None:
    app = make_app(*scripts()[:4], [*PLAIN_CODE[:2], EngineLost("SIGKILL", -9, ("last words",))])
    async with app.run_test(size=(120, 40)) as pilot:
        await measured(pilot)
        assert "SIGKILL" in said(pilot) and "R measures again" in said(pilot)
        comparison = screen(pilot).comparison
        assert comparison is not None and not comparison.complete and len(comparison.runs) == 2


async def test_leaving_the_setup_at_once_leaves_the_screen(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await pilot.press("f4", "escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))
        assert not app.engine.asked


async def test_modes_that_cannot_run_say_why_and_cannot_be_chosen(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await pilot.press("f4")
        modes = pilot.app.screen.query_one(ModeList)
        lines = [str(modes.get_option_at_index(i).prompt) for i in range(modes.option_count)]
        assert any("[ ] draft" in line and "No draft model is loaded" in line for line in lines)
        assert modes.chosen == usual(loaded(), 4)
        modes.focus()
        modes.highlighted = 3
        await pilot.press("space")
        assert modes.chosen == usual(loaded(), 4)
        modes.highlighted = 1
        await pilot.press("space", "f4")
        assert modes.chosen == (PLAIN,) and "Choose plain and one" in str(
            pilot.app.screen.query_one("#remark", Static).render()
        )


async def test_a_text_of_ones_own_and_numbers_are_checked_before_anything_runs(make_app: MakeApp) -> None:
    app = make_app(*scripts())
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await pilot.press("f4")
        setup = pilot.app.screen
        prompts = setup.query_one("#prompts", OptionList)
        prompts.highlighted = prompts.option_count - 1
        await pilot.pause()
        await pilot.press("enter", "f4")
        assert pilot.app.screen is setup and "Write a prompt" in str(setup.query_one("#remark", Static).render())
        setup.query_one("#text", TextArea).load_text("[/INST] my own \x1b[31mtext")
        setup.query_one("#repeats", Input).value = "0"
        await pilot.press("f4")
        assert "from 1 to 100" in str(setup.query_one("#remark", Static).render())
        setup.query_one("#repeats", Input).value = "1"
        await pilot.press("f4")
        await until(pilot, lambda: isinstance(pilot.app.screen, CompareScreen) and not screen(pilot).measuring)
        assert "my own" in app.engine.asked[0][0][-1].content and len(app.engine.asked) == 4


@pytest.mark.parametrize("size", [(80, 24), (45, 15), (200, 50), (20, 5)])
async def test_every_size_works(make_app: MakeApp, size: tuple[int, int]) -> None:
    app = make_app(*scripts())
    async with app.run_test(size=size) as pilot:
        await measured(pilot)
        await pilot.resize_terminal(60, 20)
        await pilot.press("home", "right", "end")
        assert screen(pilot).comparison is not None


# The race


def a_run(name: str, seconds: float) -> Run:
    ending = next(event for event in run_of(Mode.PLAIN) if isinstance(event, GenerationDone))
    stats = replace(ending.stats, prompt_seconds=0.0, decode_seconds=seconds)
    return Run("p", name, 0, 0, FinishReason.STOP, "", (), stats, ())


def test_a_race_keeps_time_scrubs_within_bounds_and_places_the_winner() -> None:
    now = 0.0
    race = Race([a_run("plain", 4.0), a_run("lookup", 2.0)], clock=lambda: now)
    race.toggle()
    now = 1.0
    race.tick()
    assert race.position == 1.0 and race.place(race.runs[1]) is None
    race.change_speed()
    now = 2.0
    race.tick()
    assert race.position == 3.0 and race.place(race.runs[1]) == 1 and race.place(race.runs[0]) is None
    race.seek(99)
    assert race.position == 4.0 and race.place(race.runs[0]) == 2
    race.seek(-1)
    assert race.position == 0.0


def test_a_race_without_runs_stands_still() -> None:
    race = Race([])
    race.toggle()
    race.tick()
    assert not race.playing and race.duration == 0.0


def test_columns_give_way_in_order_where_they_do_not_fit() -> None:
    heads = ("mode", "tok/s", "accepted", "α", "passes", "first")
    lines = [heads, ("plain", "1.0 (0.9..1.1)", "-", "-", "9", "0.1 s")]
    shown = [[cell.strip() for cell in fitting(lines, width, GIVE_WAY)[0]] for width in (80, 50, 42, 35, 10)]
    assert [len(cells) for cells in shown] == [6, 6, 5, 4, 2]
    assert "(0.9..1.1)" in fitting(lines, 35, GIVE_WAY)[1][1] and "(" not in fitting(lines, 20, GIVE_WAY)[1][1]
    assert PLAIN in offered(32) and len({contestant.name for contestant in offered(32)}) == 6
