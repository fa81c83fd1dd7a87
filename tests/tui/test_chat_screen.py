"""The chat on a scripted engine: what is asked, what is shown, and what survives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from threading import Event as Flag

import pytest
from conftest import MakeApp, until
from edgespec_tui.app import EdgeSpecApp
from edgespec_tui.messages import EngineReady, EventsWaiting
from edgespec_tui.screens.chat import ChatScreen
from edgespec_tui.screens.help import HelpScreen
from edgespec_tui.widgets.composer import Composer
from edgespec_tui.widgets.conversation import ConversationView
from edgespec_tui.widgets.note import Note
from edgespec_tui.widgets.reply import Reply
from edgespec_tui.widgets.stats_line import StatsLine
from edgespec_tui.widgets.stats_panel import StatsPanel
from edgespec_tui.widgets.user_message import UserMessage
from scripted_engine import CODE, done, loaded, model, reply, round_done, words
from textual import events
from textual.pilot import Pilot
from textual.widgets import Markdown, Static

from edgespec.engine.messages import EngineLost, Failed, Notice, PrefillDone, RoundDone
from edgespec.errors import EdgeSpecError, ModelFileError
from edgespec.types import FinishReason, Mode, Prefilled

KILLED = EngineLost("SIGKILL", -9, ("last words",))


def chat(pilot: Pilot[None]) -> ChatScreen:
    screen = pilot.app.screen_stack[0]
    assert isinstance(screen, ChatScreen)
    return screen


def notes(pilot: Pilot[None]) -> str:
    return "\n".join(str(note.render()) for note in chat(pilot).query(Note))


def replies(pilot: Pilot[None]) -> list[str]:
    return [reply.text for reply in chat(pilot).query(Reply)]


def toasts(app: EdgeSpecApp) -> list[str]:
    return [notification.message for notification in app._notifications]


def context(pilot: Pilot[None]) -> str:
    return str(chat(pilot).query_one("#context", Static).render()).strip()


def panel(pilot: Pilot[None]) -> str:
    return str(chat(pilot).query_one(StatsPanel).render())


def box(pilot: Pilot[None]) -> Composer:
    return chat(pilot).query_one(Composer)


async def ready(pilot: Pilot[None]) -> None:
    await until(pilot, lambda: "Ready" in notes(pilot))


async def send(pilot: Pilot[None], text: str) -> None:
    """Write a message, press Enter and wait until the reply is over."""
    box(pilot).load_text(text)
    await pilot.press("enter")
    await until(pilot, lambda: not chat(pilot).replying and not box(pilot).text)


async def test_a_message_is_answered_and_the_figures_are_those_of_the_engine(make_app: MakeApp) -> None:
    app = make_app(reply(CODE))
    seen: list[object] = []
    async with app.run_test(size=(120, 40), message_hook=seen.append) as pilot:
        await ready(pilot)
        await send(pilot, "Rename values to data.")
        text = "".join(text for event in CODE for text in event.texts)
        assert replies(pilot) == [text]
        assert any(isinstance(message, EngineReady) for message in seen)
        assert any(isinstance(message, EventsWaiting) for message in seen)
        line = str(chat(pilot).query_one(StatsLine).render())
        assert "lookup k=4" in line and "18/23 accepted (78%)" in line and "9 passes" in line and "x plain" in line
    assert app.engine.closed


async def test_the_engine_gets_the_system_prompt_and_every_turn(make_app: MakeApp) -> None:
    app = make_app(reply(words("first")), reply(words("second")), system="Be brief.")
    async with app.run_test() as pilot:
        await ready(pilot)
        await send(pilot, "one")
        await send(pilot, "two")
        said = [(message.role, message.content) for message in app.engine.asked[-1][0]]
        assert said == [("system", "Be brief."), ("user", "one"), ("assistant", "first "), ("user", "two")]


@pytest.mark.parametrize("text", ["", "   \n", "\n\n"])
async def test_a_blank_message_is_not_sent(make_app: MakeApp, text: str) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        box(pilot).load_text(text)
        await pilot.press("enter")
        await pilot.pause()
        assert not app.engine.asked and box(pilot).text == text


async def test_two_quick_enters_send_once(make_app: MakeApp) -> None:
    hold = Flag()
    app = make_app([hold, *reply(words("hello"))])
    async with app.run_test() as pilot:
        await ready(pilot)
        box(pilot).load_text("hi")
        await pilot.press("enter", "enter")
        hold.set()
        await until(pilot, lambda: replies(pilot) == ["hello "] and not chat(pilot).replying)
        assert len(app.engine.asked) == 1


async def test_enter_waits_for_the_keys_that_were_pressed_before_it(make_app: MakeApp) -> None:
    app = make_app(reply(words("hello")))
    async with app.run_test() as pilot:
        await ready(pilot)
        for key in ("h", "i", "ctrl+j", "y", "o", "u", "enter"):  # faster than the box takes them
            app.post_message(events.Key(key, key if len(key) == 1 else None))
        await until(pilot, lambda: bool(app.engine.asked))
        assert app.engine.asked[0][0][-1].content == "hi\nyou"


async def test_a_message_written_during_a_reply_stays_in_the_box(make_app: MakeApp) -> None:
    hold = Flag()
    app = make_app([hold, *reply(words("hello"))])
    async with app.run_test() as pilot:
        await ready(pilot)
        box(pilot).load_text("hi")
        await pilot.press("enter")
        await pilot.press("m", "o", "r", "e", "enter")
        assert box(pilot).text == "more" and "Esc" in str(box(pilot).border_subtitle)
        hold.set()
        await until(pilot, lambda: not chat(pilot).replying)
        assert box(pilot).text == "more"


async def test_enter_while_loading_sends_as_soon_as_the_model_is_ready(make_app: MakeApp) -> None:
    gate = Flag()
    app = make_app(gate=gate)
    async with app.run_test() as pilot:
        await pilot.press("h", "i", "enter")
        assert box(pilot).text == "hi" and "Loading" in notes(pilot)
        gate.set()
        await until(pilot, lambda: app.engine.asked)
        assert "Loading" not in notes(pilot) and not box(pilot).text


async def test_keys_typed_in_a_burst_keep_their_order(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        for key, character in (("x", "x"), ("y", "y"), ("backspace", "\x7f"), ("left", None), ("Q", "Q")):
            app.post_message(events.Key(key, character))
        await until(pilot, lambda: box(pilot).text == "Qx")


async def test_a_text_changed_after_an_early_enter_is_not_sent(make_app: MakeApp) -> None:
    gate = Flag()
    app = make_app(gate=gate)
    async with app.run_test() as pilot:
        await pilot.press("h", "i", "enter", "!")
        gate.set()
        await ready(pilot)
        await pilot.pause(0.1)
        assert box(pilot).text == "hi!" and not app.engine.asked


async def test_escape_stops_the_reply_and_a_second_one_does_nothing(make_app: MakeApp) -> None:
    script = [PrefillDone(1, Prefilled(4, 0, 0.1)), *words("one two"), Flag(), *words("three")]
    app = make_app(script, reply(words("ok")))
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        box(pilot).load_text("count")
        await pilot.press("enter")
        await until(pilot, lambda: replies(pilot) == ["one two "])
        await pilot.press("escape", "escape")
        await until(pilot, lambda: not chat(pilot).replying)
        await pilot.press("escape")
        assert app.is_running and replies(pilot) == ["one two "]
        assert "stopped by you" in str(chat(pilot).query_one(StatsLine).render())
        await send(pilot, "next")
        assert [turn.content for turn in app.engine.asked[-1][0]] == ["count", "one two ", "next"]


async def test_ctrl_c_stops_the_reply_and_then_quits(make_app: MakeApp) -> None:
    app = make_app([*words("one"), Flag()])
    async with app.run_test() as pilot:
        await ready(pilot)
        box(pilot).load_text("count")
        await pilot.press("enter")
        await until(pilot, lambda: replies(pilot) == ["one "])
        await pilot.press("ctrl+c")
        await until(pilot, lambda: not chat(pilot).replying)
        assert app.is_running and not app._notifications
        await pilot.press("ctrl+c")
        await until(pilot, lambda: toasts(app) == ["Press Ctrl+C again to quit."])
        assert app.is_running
        await pilot.press("ctrl+c")
        await until(pilot, lambda: not app.is_running)
    assert app.engine.closed


async def test_two_ctrl_c_far_apart_do_not_quit(make_app: MakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("edgespec_tui.app.monotonic", lambda: now)
    app = make_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press("ctrl+c")
        now += 2.1
        await pilot.press("ctrl+c")
        assert app.is_running
        now += 1.9
        await pilot.press("ctrl+c")
        await until(pilot, lambda: not app.is_running)


async def test_ctrl_u_empties_the_box_and_undo_brings_its_text_back(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        assert "Ctrl+U" not in str(box(pilot).border_subtitle)
        await pilot.press("h", "i", "ctrl+j", "y", "o", "u")
        assert "Ctrl+U empties" in str(box(pilot).border_subtitle)
        await pilot.press("ctrl+u")
        assert box(pilot).text == "" and "Ctrl+Z" in str(box(pilot).border_subtitle)
        await pilot.press("ctrl+z")
        assert box(pilot).text == "hi\nyou"


async def test_ctrl_q_quits_during_a_reply(make_app: MakeApp) -> None:
    app = make_app([*words("one"), Flag()])
    async with app.run_test() as pilot:
        await ready(pilot)
        box(pilot).load_text("count")
        await pilot.press("enter")
        await until(pilot, lambda: replies(pilot) == ["one "])
        await pilot.press("ctrl+q")
        await until(pilot, lambda: not app.is_running)
    assert app.engine.closed


async def test_f2_goes_through_the_modes_that_can_run_from_the_next_reply_on(make_app: MakeApp) -> None:
    hold = Flag()
    app = make_app([*words("one"), hold, done(words("one"))])
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        box(pilot).load_text("hi")
        await pilot.press("enter")
        await until(pilot, lambda: replies(pilot) == ["one "])
        await pilot.press("f2")
        shown = str(chat(pilot).query_one("#mode").render())
        assert "lookup k=4" in shown and "next: plain" in shown
        hold.set()
        await until(pilot, lambda: not chat(pilot).replying)
        assert "lookup" not in str(chat(pilot).query_one("#mode").render())
        await send(pilot, "again")
        assert [options.mode for _, options in app.engine.asked] == [Mode.LOOKUP, Mode.PLAIN]


async def test_a_mode_that_cannot_run_is_a_sentence_and_the_status_names_the_real_one(make_app: MakeApp) -> None:
    app = make_app(mode=Mode.DRAFT)
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        assert "draft cannot run: No draft model is loaded." in notes(pilot)
        assert "lookup" in str(chat(pilot).query_one("#mode").render())
        await send(pilot, "hi")
        assert app.engine.asked[0][1].mode is Mode.LOOKUP


async def test_with_one_mode_f2_says_why(make_app: MakeApp) -> None:
    modes = {Mode.PLAIN: None, Mode.LOOKUP: "This model cannot rewind.", Mode.DRAFT: "No draft.", Mode.AUTO: "No."}
    app = make_app(loaded=loaded(modes=modes), mode=Mode.PLAIN)
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await pilot.press("f2")
        assert "This model cannot rewind." in str(box(pilot).border_subtitle)


@pytest.mark.parametrize(
    "error", [ModelFileError("tiny.gguf is 41 MB shorter than its header says.", "Download it again."), OSError("disk")]
)
async def test_a_load_error_is_a_sentence_in_the_conversation(make_app: MakeApp, error: Exception) -> None:
    app = make_app(error=error)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: chat(pilot).query(".-error"))
        assert str(error) in notes(pilot) and "Traceback" not in notes(pilot)
        await pilot.press("h", "i", "enter")
        assert box(pilot).text == "hi" and app.is_running
        assert context(pilot) == ""
    assert str(error) in app.unused


async def test_once_a_model_was_loaded_the_app_has_nothing_to_complain_of(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        assert "before a model was loaded" in app.unused
        await ready(pilot)
    assert app.unused == ""


async def test_the_context_shown_is_what_the_chat_takes(make_app: MakeApp) -> None:
    refused = Failed(1, "ContextFullError", "This needs 2,900 tokens; 256 are there.", "Use --ctx 4096.")
    app = make_app(reply(words("one two")), [refused])
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        assert "ctx 0 / 8,192" in context(pilot)
        await send(pilot, "hi")
        assert "ctx 44 / 8,192" in context(pilot)
        box(pilot).load_text("too long")
        await pilot.press("enter")
        await until(pilot, lambda: "2,900" in notes(pilot))
        assert "ctx 44 / 8,192" in context(pilot)
        await pilot.press("ctrl+u", "ctrl+n")
        assert "ctx 0 / 8,192" in context(pilot)


async def test_plain_decoding_claims_no_speed_up(make_app: MakeApp) -> None:
    app = make_app(reply(words("one two three"), mode=Mode.PLAIN), mode=Mode.PLAIN)
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await send(pilot, "hi")
        assert "nothing drafted" in panel(pilot) and "the speed of plain" not in panel(pilot)
        assert "plain" in str(chat(pilot).query_one(StatsLine).render())
        assert "x plain" not in str(chat(pilot).query_one(StatsLine).render())


async def test_a_prompt_that_does_not_fit_goes_back_to_the_box(make_app: MakeApp) -> None:
    refused = Failed(1, "ContextFullError", "This needs 2,900 tokens; 256 are there.", "Use --ctx 4096.")
    app = make_app([refused], reply(words("ok")))
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        box(pilot).load_text("word " * 2000)
        await pilot.press("enter")
        await until(pilot, lambda: "2,900" in notes(pilot))
        assert box(pilot).text == "word " * 2000 and not replies(pilot) and not chat(pilot).query(UserMessage)
        await send(pilot, "short")
        assert [turn.content for turn in app.engine.asked[-1][0]] == ["short"]


async def test_an_engine_that_dies_leaves_its_text_and_the_next_message_is_answered(make_app: MakeApp) -> None:
    app = make_app([*words("half a"), KILLED], [loaded(notices=("It was started again.",)), *reply(words("whole"))])
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await send(pilot, "one")
        assert replies(pilot) == ["half a "] and "SIGKILL" in notes(pilot)
        await send(pilot, "two")
        assert replies(pilot) == ["half a ", "whole "] and "It was started again." in notes(pilot)
        assert [turn.content for turn in app.engine.asked[-1][0]] == ["one", "half a ", "two"]


@pytest.mark.parametrize("error", [EdgeSpecError("It broke.", "Try this."), RuntimeError("boom")])
async def test_an_error_in_a_reply_keeps_what_was_shown(make_app: MakeApp, error: Exception) -> None:
    app = make_app([*words("half"), error], reply(words("ok")))
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await send(pilot, "one")
        assert replies(pilot) == ["half "] and str(error) in notes(pilot)
        await send(pilot, "two")
        assert replies(pilot)[-1] == "ok "


NASTY = "[/INST] [/ [00] x [red]bold[/] \x1b[31mred\x1b[0m \x1b]0;title\x07 a\x00b"


async def test_markup_is_shown_as_it_is_and_escapes_are_stripped(make_app: MakeApp) -> None:
    info = loaded(target=model("[bad] \x1b[31mname"), notices=(NASTY,))
    app = make_app([*reply([round_done(0, [NASTY], [NASTY], NASTY)])], [Failed(1, "X", NASTY, NASTY)], loaded=info)
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        box(pilot).post_message(events.Paste(NASTY))
        await until(pilot, lambda: box(pilot).text)
        await pilot.press("enter")
        await until(pilot, lambda: replies(pilot) and not chat(pilot).replying)
        await pilot.press("f3")
        await until(pilot, lambda: chat(pilot).query(Markdown))
        await pilot.press("f3")
        box(pilot).load_text("x")
        await pilot.press("enter")
        await until(pilot, lambda: chat(pilot).query(".-error"))
        picture = app.export_screenshot()
        assert "\x1b" not in picture and "[bad]" in picture
        assert "[/INST]" in picture.replace("&#160;", " ")


async def test_f3_switches_to_markdown_and_back_also_while_streaming(make_app: MakeApp) -> None:
    hold = Flag()
    app = make_app([*CODE[:5], hold, *CODE[5:], done(CODE)])
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        box(pilot).load_text("hi")
        await pilot.press("enter")
        await until(pilot, lambda: replies(pilot) and "total" in replies(pilot)[0])
        await pilot.press("f3")
        await until(pilot, lambda: chat(pilot).query(Markdown))
        hold.set()
        await until(pilot, lambda: not chat(pilot).replying)
        text = "".join(text for event in CODE for text in event.texts)
        assert chat(pilot).query_one(Markdown).source == text
        await pilot.press("f3")
        assert not chat(pilot).query_one(Markdown).display


async def test_f5_asks_the_last_question_again(make_app: MakeApp) -> None:
    app = make_app(reply(words("first")), reply(words("second")))
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await send(pilot, "one")
        await pilot.press("f5")
        await until(pilot, lambda: replies(pilot) == ["second "] and not chat(pilot).replying)
        assert [turn.content for turn in app.engine.asked[-1][0]] == ["one"]


async def test_a_new_chat_forgets_the_turns_and_keeps_the_mode(make_app: MakeApp) -> None:
    app = make_app(system="Be brief.")
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await send(pilot, "one")
        await pilot.press("f2", "ctrl+n")
        await until(pilot, lambda: not replies(pilot))
        await send(pilot, "two")
        messages, options = app.engine.asked[-1]
        assert [turn.content for turn in messages] == ["Be brief.", "two"] and options.mode is Mode.PLAIN


@pytest.mark.parametrize("size", [(40, 10), (20, 5), (1, 1)])
async def test_a_tiny_window_breaks_nothing_and_the_reply_goes_on(make_app: MakeApp, size: tuple[int, int]) -> None:
    hold = Flag()
    app = make_app([*words("one"), hold, *words("two"), done(words("one two"))])
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        box(pilot).load_text("hi")
        await pilot.press("enter")
        await until(pilot, lambda: replies(pilot) == ["one "])
        await pilot.resize_terminal(*size)
        await pilot.pause()
        hold.set()
        await until(pilot, lambda: not chat(pilot).replying)
        await pilot.resize_terminal(120, 40)
        await pilot.pause()
        assert replies(pilot) == ["one two "] and not chat(pilot).query_one("TooSmall").display
        await send(pilot, "more")


async def test_a_paste_of_ten_thousand_lines_arrives_whole_and_is_sent_once(make_app: MakeApp) -> None:
    text = "\r\n".join(f"line {i} of a long file, with some words" for i in range(10_000))
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        box(pilot).post_message(events.Paste(text))
        await until(pilot, lambda: box(pilot).text)
        assert box(pilot).text == text.replace("\r\n", "\n") and not app.engine.asked
        assert "10,000 lines" in str(box(pilot).border_subtitle)
        await pilot.press("enter")
        await until(pilot, lambda: app.engine.asked and not chat(pilot).replying)
        assert app.engine.asked[0][0][0].content == text.replace("\r\n", "\n")


async def test_several_lines_are_written_with_ctrl_j_and_sent_with_enter(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press("a", "ctrl+j", "b", "enter")
        await until(pilot, lambda: app.engine.asked)
        assert app.engine.asked[0][0][0].content == "a\nb"


async def test_up_brings_back_what_was_sent(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await send(pilot, "one")
        await send(pilot, "two")
        await pilot.press("up")
        assert box(pilot).text == "two"
        await pilot.press("up")
        assert box(pilot).text == "one"
        await pilot.press("down", "down")
        assert box(pilot).text == ""


async def test_help_opens_and_escape_comes_back(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await pilot.press("f1")
        assert isinstance(app.screen, HelpScreen)
        await pilot.press("escape")
        assert isinstance(app.screen, ChatScreen) and app.focused is box(pilot)


async def test_every_shown_key_is_in_the_command_palette(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await send(pilot, "one")
        titles = [command.title for command in app.get_system_commands(app.screen)]
        for name in ("Mode", "View", "Compare", "Again", "Models", "New chat", "Help", "Quit", "Send"):
            assert any(title.startswith(f"{name} (") for title in titles), name


async def test_a_cancelled_prefill_leaves_no_turn_of_the_model(make_app: MakeApp) -> None:
    app = make_app([Flag(), *words("never")])
    async with app.run_test() as pilot:
        await ready(pilot)
        box(pilot).load_text("long")
        await pilot.press("enter")
        await until(pilot, lambda: chat(pilot).replying and app.engine.asked)
        await pilot.press("escape")
        await until(pilot, lambda: not chat(pilot).replying)
        await send(pilot, "short")
        assert [turn.content for turn in app.engine.asked[-1][0]] == ["long", "short"]


async def test_text_that_only_the_end_brings_is_shown(make_app: MakeApp) -> None:
    rounds: list[RoundDone] = words("caf")
    ending = done(rounds, reason=FinishReason.LENGTH)
    app = make_app([*rounds, replace(ending, text="caf �")])
    async with app.run_test() as pilot:
        await ready(pilot)
        await send(pilot, "hi")
        assert replies(pilot) == ["caf �"]


async def test_the_last_message_can_be_edited_and_sent_again(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await send(pilot, "one")
        await send(pilot, "twoo")
        await pilot.press("ctrl+t")
        await until(pilot, lambda: box(pilot).text == "twoo")
        assert len(replies(pilot)) == 1
        await pilot.press("backspace", "enter")
        await until(pilot, lambda: len(replies(pilot)) == 2 and not chat(pilot).replying)
        assert [turn.content for turn in app.engine.asked[-1][0]] == ["one", "ok ", "two"]


async def test_the_last_reply_can_be_copied(make_app: MakeApp) -> None:
    app = make_app(reply(CODE))
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await send(pilot, "one")
        await pilot.press("ctrl+r")
        assert app.clipboard == "".join(text for event in CODE for text in event.texts)


async def test_the_draft_length_changes_from_the_next_reply_on_and_stays_in_its_bounds(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await pilot.press("f8", "f8")
        await send(pilot, "one")
        await pilot.press(*["f7"] * 9)
        await send(pilot, "two")
        assert [options.draft_length for _, options in app.engine.asked] == [6, 1]


async def test_settings_are_used_from_the_next_reply_on(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await pilot.press("f9")
        screen = app.screen
        screen.query_one("#temperature").value = "0.8"
        screen.query_one("#seed").value = "7"
        screen.query_one("#system").load_text("Be brief.")
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is chat(pilot))
        await send(pilot, "one")
        await send(pilot, "two")
        messages, options = app.engine.asked[-1]
        assert messages[0].content == "Be brief."
        assert options.sampling.temperature == 0.8 and options.sampling.seed == 7 and options.mode is Mode.LOOKUP


@pytest.mark.parametrize(("name", "value"), [("temperature", "-1"), ("top_p", "2"), ("seed", "x"), ("max_tokens", "0")])
async def test_a_setting_that_cannot_be_is_refused_beside_its_field(make_app: MakeApp, name: str, value: str) -> None:
    app = make_app()
    async with app.run_test(size=(120, 50)) as pilot:
        await ready(pilot)
        await pilot.press("f9")
        app.screen.query_one(f"#{name}").value = value
        await pilot.press("ctrl+s")
        assert "must be" in str(app.screen.query_one(f"#{name}-note").render())
        assert app.focused is app.screen.query_one(f"#{name}")
        await pilot.press("escape")
        assert app.screen is chat(pilot)


async def test_every_reply_has_a_new_seed_unless_one_was_given(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await send(pilot, "one")
        await pilot.press("f5")
        await until(pilot, lambda: len(app.engine.asked) == 2 and not chat(pilot).replying)
        assert len({options.sampling.seed for _, options in app.engine.asked}) == 2


async def test_a_file_is_attached_and_a_missing_one_is_a_sentence(make_app: MakeApp, tmp_path: Path) -> None:
    path = tmp_path / "w t [x].txt"
    path.write_text("hello\nworld\n")
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        box(pilot).load_text(f'/file "{path}x" What?')
        await pilot.press("enter")
        await until(pilot, lambda: "There is no file" in notes(pilot))
        assert not app.engine.asked
        await send(pilot, f'/file "{path}" What is it?')
        text = app.engine.asked[0][0][0].content
        assert text == "What is it?\n\nw t [x].txt:\n```\nhello\nworld\n```"


async def test_a_notice_is_said_once_a_chat(make_app: MakeApp) -> None:
    folded = Notice(1, "The system text was folded into the first message.")
    app = make_app([folded, *reply(words("a"))], [folded, *reply(words("b"))])
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await send(pilot, "one")
        await send(pilot, "two")
        assert notes(pilot).count("folded") == 1


async def test_an_engine_that_dies_before_the_first_token_gives_the_message_back(make_app: MakeApp) -> None:
    app = make_app([KILLED], [loaded(), *reply(words("whole"))])
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        box(pilot).load_text("one")
        await pilot.press("enter")
        await until(pilot, lambda: "SIGKILL" in notes(pilot))
        assert box(pilot).text == "one" and not replies(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: replies(pilot) == ["whole "])


async def test_many_cancels_at_any_moment_leave_a_chat_that_answers(make_app: MakeApp) -> None:
    scripts = [[*words("a b c d e f g h")[: i % 8], Flag(), done([])] for i in range(25)]
    app = make_app(*scripts, reply(CODE))
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        for i in range(25):
            box(pilot).load_text(f"question {i}")
            await pilot.press("enter")
            await pilot.press("escape")
            await until(pilot, lambda: not chat(pilot).replying)
        await pilot.press("ctrl+n")
        await until(pilot, lambda: not replies(pilot))
        await send(pilot, "last")
        assert replies(pilot) == ["".join(text for event in CODE for text in event.texts)]
        assert len(app.engine.asked) == 26


async def test_a_reader_who_scrolled_up_stays_there_while_the_reply_grows(make_app: MakeApp) -> None:
    hold, more = Flag(), Flag()
    lines = [round_done(i, [], [], f"line {i}\n") for i in range(80)]
    app = make_app([*lines[:60], hold, *lines[60:], more, done(lines)])
    async with app.run_test(size=(120, 30)) as pilot:
        await ready(pilot)
        box(pilot).load_text("go")
        await pilot.press("enter")
        await until(pilot, lambda: replies(pilot) and "line 59" in replies(pilot)[0])
        view = chat(pilot).query_one(ConversationView)
        assert view.is_vertical_scroll_end
        await pilot.press("pageup", "pageup")
        await pilot.pause()
        place = view.scroll_y
        hold.set()
        await until(pilot, lambda: "line 79" in replies(pilot)[0])
        assert view.scroll_y == place
        await pilot.press(*["pagedown"] * 6)
        await until(pilot, lambda: view.is_vertical_scroll_end)
        more.set()
        await until(pilot, lambda: not chat(pilot).replying)
        assert view.is_vertical_scroll_end
