"""The token cursor: where it goes, what is told, and that it leaves nothing behind."""

from __future__ import annotations

from dataclasses import replace

import pytest
from conftest import MakeApp, until
from edgespec_tui.record import ChatRecord, ReplyTrace
from edgespec_tui.tokens import Place, find, in_short, in_words, percent, quoted
from edgespec_tui.widgets.composer import Composer
from edgespec_tui.widgets.reply import Reply
from edgespec_tui.widgets.stats_panel import StatsPanel
from edgespec_tui.widgets.token_flow import thrown_away
from edgespec_tui.widgets.token_line import TokenLine
from edgespec_tui.widgets.token_view import BORDER, TokenView
from scripted_engine import CODE, done, loaded, model, reply, round_done, words
from test_chat_screen import chat, ready, send
from test_thoughts import THINKING
from textual.pilot import Pilot

from edgespec.engine.messages import DeviceMemory, PrefillDone, RoundDone
from edgespec.types import Judged, Prefilled, RoundDetails


def detailed(rounds: list[RoundDone]) -> list[RoundDone]:
    """The same rounds with opinions: the target is fairly sure of what was kept, and not of what was thrown away."""
    told = []
    for event in rounds:
        drafted, accepted = len(event.round.draft.tokens), event.round.verdict.accepted
        emitted = tuple(Judged(round(0.9 - i / 10, 1), 1) for i in range(len(event.round.tokens)))
        examined = (*emitted[:accepted], Judged(0.0042, 12))[:drafted]
        unseen = (None,) * (drafted - len(examined))
        proposed = (0.61 if event.round.draft.source == "draft" else None,) * drafted
        told.append(replace(event, details=RoundDetails(emitted, (*examined, *unseen), proposed)))
    return told


DETAILED = detailed(CODE)


def line(pilot: Pilot[None]) -> str:
    shown = chat(pilot).query_one(TokenLine)
    return str(shown.render()) if shown.display else ""


def view(pilot: Pilot[None], which: int = -1) -> TokenView:
    return [each for each in chat(pilot).query(TokenView) if each.walkable][which]


# What is told


def test_a_token_is_told_in_full_and_in_short() -> None:
    drafted = detailed([replace_source(CODE[3])])
    rejected = find(drafted, Place(3, 3, rejected=True))
    assert rejected is not None
    assert in_words(rejected) == (
        '"values"  id 103 · rejected draft (model) · target 0.4%, rank 12 · draft model 61.0% · '
        "pass 4, draft token 4/5 · token 4"
    )
    assert in_short(rejected) == '"values" 103 · rejected · target 0.4% #12 · draft 61.0% · token 4, pass 4'
    unseen = find(drafted, Place(3, 4, rejected=True))
    assert unseen is not None and "the target did not look at it" in in_words(unseen)
    corrected = find(drafted, Place(3, 3))
    assert corrected is not None and "corrected · target 60.0%, rank 1 · pass 4 ·" in in_words(corrected)


def replace_source(event: RoundDone) -> RoundDone:
    made = event.round
    return replace(event, round=replace(made, draft=replace(made.draft, source="draft")))


def test_a_narrow_line_is_enough_for_a_long_token() -> None:
    event = detailed([replace_source(round_done(1, [], ["x" * 50], "y"))])
    token = find(event, Place(1, 0, rejected=True))
    assert token is not None and len(in_short(replace(token, id=150_000, position=98))) <= 82


def test_without_details_the_line_says_when_they_come() -> None:
    token = find(CODE, Place(3, 0))
    assert token is not None and "probabilities come with the next reply" in in_words(token)
    assert find(CODE, Place(99, 0)) is None and find(CODE, Place(0, 7)) is None


@pytest.mark.parametrize(
    ("text", "told"),
    [("", "(no text)"), (" a\n", '"␣a⏎"'), ("\x1b[31m", '"\\x1b[31m"'), ("\u202e", '"\\u202e"'), ("日", '"日"')],
)
def test_texts_are_told_with_what_cannot_be_seen(text: str, told: str) -> None:
    assert quoted(text) == told


def test_nearly_is_not_certainly() -> None:
    assert [percent(p) for p in (0.0, 0.0002, 0.5, 0.99991, 1.0)] == ["0.0%", "<0.1%", "50.0%", ">99.9%", "100.0%"]


@pytest.mark.parametrize(
    ("texts", "shown"),
    [
        (["values", "):"], "~values):~"),
        ([" a", " b"], " ~a b~"),
        (["abcdefghijklmnopqrstuvwx"], "~abcdefghijklmnopqrstuvwx~"),
        (["abcdefghijklmnopqrstuvw", "xy", "z"], "~abcdefghijklmnopqrstuvw…~"),
        (["abcdefghijklmnopqrstuvwxy"], "~abcdefghijklmnopqrstuvw…~"),
        ([" ", "  "], ""),
        (["", ""], ""),
        (["a\nb"], "~a⏎b~"),
    ],
)
def test_what_was_thrown_away_is_cut_where_it_is_long(texts: list[str], shown: str) -> None:
    marks = list(thrown_away(texts, 7, 2))
    assert "".join(mark.text for mark in marks) == shown
    assert [mark.place for mark in marks] == [Place(7, 2 + i, rejected=True) for i in range(len(texts))]
    assert "".join(mark.whole for mark in marks).replace("~", "") == "".join(texts).replace("\n", "⏎")


def test_details_are_kept_with_the_chat() -> None:
    record = ChatRecord()
    record.ask("x")
    record.answer("y", ReplyTrace(tuple(DETAILED)))
    kept = ChatRecord.from_json(record.to_json()).traces[1].rounds
    assert [event.details for event in kept] == [event.details for event in DETAILED]


# Where it goes


async def test_the_cursor_walks_over_every_token_rejected_ones_too(make_app: MakeApp) -> None:
    app = make_app(reply(DETAILED))
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await send(pilot, "Rename it.")
        await pilot.press("f12")
        await until(pilot, lambda: line(pilot))
        assert line(pilot).startswith('"Here␣is"') and "plain · target 90.0%, rank 1 · pass 1" in line(pilot)
        await pilot.press(*["right"] * 6)
        assert line(pilot).startswith('"values"') and "rejected draft (lookup) · target 0.4%, rank 12" in line(pilot)
        await pilot.press("right")
        assert "the target did not look at it" in line(pilot)
        await pilot.press("right")
        assert line(pilot).startswith('"data"') and "corrected" in line(pilot)
        await pilot.press("end", "right")
        assert "bonus" in line(pilot) and "token 27" in line(pilot)
        await pilot.press("home", "left")
        assert line(pilot).endswith("token 1")
        await pilot.press("down", "down", "down")
        assert line(pilot).startswith('"def"')
        await pilot.press("up")
        assert line(pilot).startswith('"```python⏎"')


async def test_borders_are_there_while_the_cursor_is(make_app: MakeApp) -> None:
    app = make_app(reply(DETAILED))
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await send(pilot, "Rename it.")
        before = view(pilot)._flow.text
        assert BORDER not in before
        await pilot.press("f12")
        assert view(pilot)._flow.text.count(BORDER) == 6 and "data▏):⏎" in view(pilot)._flow.text
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.focused, Composer))
        assert view(pilot)._flow.text == before and not line(pilot)


async def test_up_and_down_go_on_in_other_replies_and_typing_goes_back_to_the_box(make_app: MakeApp) -> None:
    app = make_app(reply(words("first reply")), reply(words("second reply")))
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await send(pilot, "one")
        await send(pilot, "two")
        await pilot.press("f12")
        await until(pilot, lambda: "second" in line(pilot))
        await pilot.press("up")
        await until(pilot, lambda: "reply" in line(pilot) and app.focused is view(pilot, 0))
        await pilot.press("up")
        assert app.focused is view(pilot, 0)
        await pilot.press("down")
        await until(pilot, lambda: app.focused is view(pilot, 1))
        chat(pilot).query_one(Composer).focus()
        await until(pilot, lambda: not line(pilot))
        assert not view(pilot).can_focus


async def test_the_cursor_goes_with_its_reply(make_app: MakeApp) -> None:
    app = make_app(reply(words("a b")), reply(words("c d")))
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await send(pilot, "one")
        await pilot.press("f12")
        await until(pilot, lambda: line(pilot))
        await pilot.press("f5")
        await until(pilot, lambda: not chat(pilot).replying and [r.text for r in chat(pilot).query(Reply)] == ["c d "])
        assert not line(pilot) and chat(pilot)._inspected is None


async def test_formatted_text_becomes_tokens_for_the_cursor(make_app: MakeApp) -> None:
    app = make_app(reply(DETAILED))
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await send(pilot, "Rename it.")
        await pilot.press("f3", "f12")
        await until(pilot, lambda: line(pilot))
        assert view(pilot).display
        await pilot.press("f3")
        await until(pilot, lambda: not line(pilot))


async def test_thoughts_can_be_looked_into_while_they_are_shown(make_app: MakeApp) -> None:
    app = make_app(reply(THINKING))
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await send(pilot, "2+2?")
        await pilot.press("f10", "f12")
        await until(pilot, lambda: line(pilot))
        assert f"token {THINKING_TOKENS + 1}" in line(pilot)
        await pilot.press("up")
        await until(pilot, lambda: f"token {THINKING_TOKENS}" in line(pilot))


THINKING_TOKENS = 6


# What it costs


async def test_details_are_asked_for_where_they_are_cheap_or_wanted(make_app: MakeApp) -> None:
    fast = replace(loaded(target=replace(model(), n_vocab=10**9)))
    app = make_app(*[reply(words("a b c d e f"))] * 3, loaded=fast)
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await send(pilot, "the first shows what a pass costs")
        await send(pilot, "then it is too dear")
        await pilot.press("f12", "escape")
        await send(pilot, "unless somebody looks")
        assert [options.details for _, options in app.engine.asked] == [True, False, True]  # type: ignore[attr-defined]


async def test_memory_of_devices_is_in_the_panel(make_app: MakeApp) -> None:
    begun = PrefillDone(1, Prefilled(42, 0, 0.2), (DeviceMemory("GPU0", 4_600_000_000, 8_000_000_000),))
    app = make_app([begun, *CODE, done(CODE)])
    async with app.run_test(size=(120, 50)) as pilot:
        await ready(pilot)
        await send(pilot, "go")
        assert "4.6 GB of 8.0 GB  GPU0" in str(chat(pilot).query_one(StatsPanel).render())
