"""Thoughts are told from answers, folded away, and counted apart; a reply can be looked into pass by pass."""

from __future__ import annotations

from dataclasses import replace

import pytest
from conftest import MakeApp, until
from edgespec_tui.blocks import code_blocks
from edgespec_tui.record import ChatRecord, ReplyTrace
from edgespec_tui.screens.rounds import RoundsScreen
from edgespec_tui.thought import Thought
from edgespec_tui.totals import totals_of
from edgespec_tui.widgets.reply import Reply
from edgespec_tui.widgets.stats_line import StatsLine
from edgespec_tui.widgets.stats_panel import StatsPanel
from edgespec_tui.widgets.status_bar import StatusBar
from edgespec_tui.widgets.thought_view import ThoughtView
from scripted_engine import CODE, loaded, reply, round_done, words
from test_chat_screen import chat, ready, send
from textual.widgets import Markdown, OptionList, Static

from edgespec.engine.messages import RoundDone
from edgespec.types import Mode

TEXTS = ["<th", "ink>", "Two and", " two", "</thi", "nk>\n\n", "It is", " four."]
THINKING = [round_done(i, [], [], text) for i, text in enumerate(TEXTS)]
DRAFTED = [round_done(0, ["<think>", "a"], [], "b"), round_done(1, ["</think>", "yes"], ["no"], "!")]


def feed(texts: list[str]) -> Thought:
    thought = Thought()
    for text in texts:
        thought.feed(text)
    return thought


@pytest.mark.parametrize(
    ("texts", "answer", "thinking"),
    [
        (TEXTS, "It is four.", False),
        (TEXTS[:4], "", True),
        (["no thoughts", " here"], "no thoughts here", False),
        (["begun in the prompt", "</think>", "answer"], "answer", False),
        (["about <think> as a word"], "about <think> as a word", False),
        (["\n<think>", "x</think>y"], "y", False),
        ([], "", False),
    ],
)
def test_thoughts_end_where_the_answer_begins(texts: list[str], answer: str, thinking: bool) -> None:
    thought = feed(texts)
    assert (thought.answer, thought.open) == (answer, thinking)


def test_rounds_are_split_between_thought_and_answer() -> None:
    thought = feed([text for event in DRAFTED for text in event.texts])
    parts = list(thought.split(DRAFTED))
    assert [("".join(part[2]), kind) for kind, part in parts] == [
        ("<think>ab", True), ("</think>", True), ("yes!", False)
    ]  # fmt: skip


async def test_thoughts_are_folded_away_and_counted_apart(make_app: MakeApp) -> None:
    app = make_app(reply(THINKING))
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await send(pilot, "How much is it?")
        shown = chat(pilot).query_one(Reply)
        view = shown.query_one(ThoughtView)
        assert (
            shown.answer == "It is four."
            and view.tokens == 6
            and "6 tokens" in str(view.query_one(".line", Static).render())
        )
        assert not view._flow.display and "6 tokens of them thought" in str(shown.query_one(StatsLine).render())
        await pilot.press("f10")
        assert view._flow.display
        await pilot.press("f3")
        await until(pilot, lambda: shown.query(Markdown))
        assert shown.query_one(Markdown)._markdown == "It is four."
        await pilot.press("ctrl+r")
        assert app.clipboard == "It is four."


@pytest.mark.parametrize("shown", [True, False])
async def test_thoughts_that_come_while_formatted_text_is_shown(make_app: MakeApp, shown: bool) -> None:
    app = make_app(reply(THINKING))
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        if not shown:
            await pilot.press("f3")
        await send(pilot, "How much is it?")
        assert chat(pilot).query_one(ThoughtView).tokens == 6
        assert chat(pilot)._chat.turns[1].content == "".join(TEXTS)


async def test_a_saved_chat_folds_its_thoughts_too(make_app: MakeApp) -> None:
    record = ChatRecord()
    record.ask("hi")
    record.answer("".join(TEXTS), ReplyTrace(tuple(THINKING), "line", {}))
    async with make_app().run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await chat(pilot)._open_chat(record)
        assert chat(pilot).query_one(Reply).answer == "It is four."
        assert chat(pilot).query_one(ThoughtView).tokens == 6


async def test_a_reply_is_shown_pass_by_pass(make_app: MakeApp) -> None:
    app = make_app(reply(CODE))
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await pilot.press("ctrl+g")
        assert not isinstance(pilot.app.screen, RoundsScreen)
        await send(pilot, "Rename it.")
        await pilot.press("ctrl+g", "down", "down", "down")
        lines = pilot.app.screen.query_one(OptionList)
        assert lines.option_count == len(CODE)
        assert "~values):~" in str(lines.get_option_at_index(3).prompt)
        detail = str(pilot.app.screen.query_one("#detail", Static).render())
        assert "lookup drafted 5, 3 accepted" in detail and "corrected" in detail and "rejected" in detail
        await pilot.press("escape")
        assert pilot.app.screen is chat(pilot)


async def test_the_last_block_of_code_is_copied(make_app: MakeApp) -> None:
    app = make_app(reply(words("no code")), reply(CODE))
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await send(pilot, "one")
        await pilot.press("ctrl+l")
        assert app.clipboard == ""
        await send(pilot, "two")
        await pilot.press("ctrl+l")
        assert app.clipboard.startswith("def mean(data):") and app.clipboard.endswith("len(data)")


def test_code_blocks_end_at_their_own_fence() -> None:
    text = "a\n```py\none\n```\nb\n~~~~\n```\ntwo\n~~~~\n```\nopen"
    assert code_blocks(text) == ["one", "```\ntwo", "open"]
    assert code_blocks("none") == []


async def test_auto_mode_says_what_it_uses_and_why(make_app: MakeApp) -> None:
    rounds: list[RoundDone] = [replace(CODE[3], why="this text occurred before")]
    app = make_app(reply(rounds, mode=Mode.AUTO), loaded=loaded(modes=dict.fromkeys(Mode)), mode=Mode.AUTO)
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await send(pilot, "go")
        told = " ".join(str(chat(pilot).query_one(StatsPanel).render()).split())
        assert "WHY lookup at the end: this text occurred before passes: lookup 1" in told
        assert str(chat(pilot).query_one(StatusBar).query_one("#mode", Static).render()) == "auto"


async def test_the_panel_sums_up_the_chat_and_says_what_memory_is_used(make_app: MakeApp) -> None:
    app = make_app(reply(CODE), reply(CODE))
    async with app.run_test(size=(120, 50)) as pilot:
        await ready(pilot)
        await send(pilot, "one")
        await send(pilot, "two")
        panel = str(chat(pilot).query_one(StatsPanel).render())
        assert "2 replies, 54 tokens" in panel and "36/46 accepted" in panel and "5.1 GB of 16.0 GB" in panel
        totals = totals_of(chat(pilot)._chat)
        assert totals.replies == 2 and totals.rate
        await pilot.resize_terminal(120, 24)
        panel = str(chat(pilot).query_one(StatsPanel).render())
        assert "THIS REPLY" in panel and "THIS CHAT" not in panel
