"""Texts that would steer a terminal, be markup, or not fit their cells, everywhere a text of others is drawn."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from conftest import MakeApp, until
from edgespec_tui.archive import Archive
from edgespec_tui.screens.chats import ChatsScreen
from edgespec_tui.widgets.race_pane import RacePane
from edgespec_tui.widgets.token_flow import TokenFlow
from rich.cells import cell_len
from scripted_engine import reply, round_done
from test_chat_screen import box, chat, notes, ready, replies, send
from test_compare_screen import measured, screen
from test_models_screen import app_on, disk, models, opened  # noqa: F401 - a fixture
from textual.pilot import Pilot
from textual.widgets import OptionList

from edgespec.types import Mode

HOSTILE = "[/INST] [red]x[/] \x1b[31mred\x1b[0m \x1b]0;owned\x07 \x1b]52;c;AAAA\x07 \x9b2J \x07\x08\x00\u202eback"
TOKENS = [
    "日本",
    "語",
    "e",
    "\u0301",
    "\u0301\u0302",
    " ",
    "👩",
    "\u200d",
    "💻",
    "🇩",
    "🇪",
    "\u0301",
    "\n",
    "\u0301x",
    "ส",
    "ี่",
] * 6
"""Wide characters, marks and joiners as tokens of their own, also where no letter stands before them."""


def harmless(pilot: Pilot[None]) -> str:
    """What is on the screen, once it is sure that it steers nothing."""
    picture = html.unescape(pilot.app.export_screenshot()).replace("\xa0", " ")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", picture)
    assert "owned" not in picture and "AAAA" not in picture
    return picture


def lines_of(flow: TokenFlow) -> list[int]:
    """Widths of the drawn lines."""
    return [flow.render_line(y).cell_length for y in range(flow.lines)]


async def test_a_hostile_question_is_a_harmless_title_in_every_list(make_app: MakeApp) -> None:
    app = make_app(reply([round_done(0, [], [], HOSTILE)]))
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await send(pilot, HOSTILE)
        assert "[/INST]" in harmless(pilot)
        assert any("[/INST]" in kept.title for kept in Archive().all()[0])
        await pilot.press("ctrl+o")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChatsScreen))
        await pilot.pause()
        assert "[/INST] [red]x[/]" in harmless(pilot)
        await pilot.press("f2")
        await pilot.pause()
        harmless(pilot)


async def test_a_file_whose_name_steers_terminals_is_attached_and_named_harmlessly(
    make_app: MakeApp, tmp_path: Path
) -> None:
    path = tmp_path / "[red]\x1b[31m[b].txt"
    path.write_text(HOSTILE.replace("\x00", ""))  # with that it would not be a text
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await send(pilot, f"/file {path}")
        assert "[/INST]" in app.engine.asked[-1][0][-1].content
        harmless(pilot)
        box(pilot).load_text(f"/file {path}x")
        await pilot.press("enter")
        await until(pilot, lambda: chat(pilot).query(".-error"))
        box(pilot).load_text("")  # no key and no paste could have put it there
        await pilot.pause()
        assert "There is no file" in notes(pilot)
        harmless(pilot)


async def test_model_files_with_such_names_are_listed_harmlessly(make_app: MakeApp, disk: Path) -> None:  # noqa: F811
    (disk / "[b]\x1b[31mred\x1b]0;owned\x07.gguf").write_bytes((disk / "small.gguf").read_bytes())
    app, _ = app_on(make_app, disk / "big.gguf")
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        shown = models(pilot).query_one(OptionList)
        assert any("[b]" in str(shown.get_option_at_index(i).prompt) for i in range(shown.option_count))
        harmless(pilot)


@pytest.mark.parametrize("size", [(120, 40), (41, 30)], ids=str)
async def test_wide_characters_and_lonely_marks_stay_within_their_pane(
    make_app: MakeApp, size: tuple[int, int]
) -> None:
    rounds = [round_done(i, [], [], text) for i, text in enumerate(TOKENS)]
    app = make_app(*[reply(rounds, mode=mode) for mode in (Mode.PLAIN, Mode.LOOKUP) * 4])
    async with app.run_test(size=size) as pilot:
        await measured(pilot)
        await pilot.press("end")
        await pilot.pause()
        panes = list(screen(pilot).query(RacePane))
        assert len(panes) == 2
        for pane in panes:
            flow = pane.query_one(TokenFlow)
            assert pane.shown == len(TOKENS) and set(lines_of(flow)) == {flow.size.width}
            assert all(cell_len(line) <= flow.size.width for line in flow._flow.text.split("\n"))
            assert "日本" in flow._flow.text


async def test_a_mark_that_is_a_token_of_its_own_joins_the_letter_before_it(make_app: MakeApp) -> None:
    app = make_app(reply([round_done(i, [], [], text) for i, text in enumerate(["caf", "e", "\u0301", "!"])]))
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await send(pilot, "hi")
        flow = chat(pilot).query(TokenFlow).first()
        assert any("e\u0301!" in each._flow.text for each in chat(pilot).query(TokenFlow))
        assert flow.lines == 1 and replies(pilot) == ["cafe\u0301!"]
