"""Saved chats: written as they happen, found again with every token's origin."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Event as Flag

import pytest
from conftest import MakeApp, until
from edgespec_tui.archive import Archive
from edgespec_tui.record import ChatRecord, ReplyTrace
from edgespec_tui.screens.chats import ChatsScreen
from edgespec_tui.widgets.token_flow import TokenFlow
from scripted_engine import CODE, reply, words
from test_chat_screen import box, chat, notes, ready, replies, send
from textual.pilot import Pilot

from edgespec.errors import EdgeSpecError


@pytest.fixture(autouse=True)
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return Archive()


def saved(archive: Archive) -> list[ChatRecord]:
    return archive.all()[0]


def record(title: str = "One") -> ChatRecord:
    made = ChatRecord("Be brief.")
    made.ask(title)
    made.answer("reply", ReplyTrace(tuple(CODE), "lookup k=4", {"rounds": 9}))
    return made


async def listed(pilot: Pilot[None]) -> ChatsScreen:
    await pilot.press("ctrl+o")
    await until(pilot, lambda: isinstance(pilot.app.screen, ChatsScreen))
    assert isinstance(pilot.app.screen, ChatsScreen)
    return pilot.app.screen


def test_a_chat_comes_back_as_it_was_saved(archive: Archive) -> None:
    kept = record()
    archive.save(kept)
    found = saved(archive)[0]
    assert found.to_json() == kept.to_json() and found.traces[1].rounds == tuple(
        type(event)(0, event.round, event.texts, event.rejected) for event in CODE
    )


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 1}', '{"format": 99, "system": null}', "\x00"])
def test_a_file_that_is_no_chat_is_counted_and_harms_nothing(archive: Archive, text: str) -> None:
    archive.save(record())
    (archive.folder / "bad.json").write_text(text)
    found, broken = archive.all()
    assert len(found) == 1 and broken == 1


def test_titles_that_are_no_file_names_export_under_ones_that_are(archive: Archive, tmp_path: Path) -> None:
    names = [archive.export(record("../[/bad] \x1b[31m/etc"), "md", tmp_path).name for _ in range(2)]
    assert names == ["bad-etc.md", "bad-etc-2.md"]
    assert archive.export(record("日本 ☃"), "json", tmp_path).name == "日本.json"


def test_markdown_has_every_turn_and_json_every_round(archive: Archive, tmp_path: Path) -> None:
    text = archive.export(record(), "md", tmp_path).read_text()
    assert "## You\n\nOne" in text and "## Model\n\nreply" in text and "*lookup k=4*" in text and "Be brief." in text
    data = json.loads(archive.export(record(), "json", tmp_path).read_text())
    assert len(data["turns"][1]["rounds_trace"]) == len(CODE)


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EdgeSpecError, match="cannot be written"):
        Archive(tmp_path / "file").save(record())


async def test_a_chat_is_saved_as_it_happens(make_app: MakeApp, archive: Archive) -> None:
    hold = Flag()
    app = make_app([hold, *reply(CODE)])
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        assert not saved(archive)
        box(pilot).load_text("Rename values.")
        await pilot.press("enter")
        await until(pilot, lambda: chat(pilot).replying and saved(archive))
        assert [turn.content for turn in saved(archive)[0].turns] == ["Rename values."]
        hold.set()
        await until(pilot, lambda: not chat(pilot).replying)
        kept = saved(archive)[0]
        assert kept.title == "Rename values." and len(kept.traces[1].rounds) == len(CODE)
        assert kept.traces[1].stats["drafted"] == 23 and "18/23" in kept.traces[1].line


async def test_leaving_in_the_middle_of_a_reply_keeps_what_was_shown(make_app: MakeApp, archive: Archive) -> None:
    app = make_app([*words("half a"), Flag()])
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        box(pilot).load_text("one")
        await pilot.press("enter")
        await until(pilot, lambda: replies(pilot) == ["half a "])
        await pilot.press("ctrl+q")
        await until(pilot, lambda: not app.is_running)
    assert [turn.content for turn in saved(archive)[0].turns] == ["one", "half a "]


async def test_a_saved_chat_is_opened_with_its_marks_and_goes_on(make_app: MakeApp, archive: Archive) -> None:
    kept = record("Old question")
    archive.save(kept)
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await listed(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: replies(pilot) == ["reply"])
        assert "data" in chat(pilot).query_one(TokenFlow)._flow.text
        await send(pilot, "more")
        assert [turn.content for turn in app.engine.asked[-1][0]] == ["Be brief.", "Old question", "reply", "more"]
        assert len(saved(archive)) == 1 and len(saved(archive)[0].turns) == 4


async def test_chats_are_renamed_deleted_and_exported_by_key(make_app: MakeApp, archive: Archive) -> None:
    archive.save(record("First [/bad]"))
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await listed(pilot)
        await pilot.press("m", "j")
        assert Path("first-bad.md").exists() and Path("first-bad.json").exists()
        await pilot.press("r", "end", "!", "enter")
        assert saved(archive)[0].title == "First [/bad]!"
        await pilot.press("d")
        assert saved(archive)
        await pilot.press("d")
        assert not saved(archive)
        await pilot.press("escape")
        assert app.screen is chat(pilot)


async def test_the_open_chat_keeps_its_new_title_and_is_not_deleted(make_app: MakeApp, archive: Archive) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await send(pilot, "one")
        await listed(pilot)
        await pilot.press("d", "d", "r", "end", "!", "enter", "escape")
        await send(pilot, "two")
        assert [kept.title for kept in saved(archive)] == ["one!"]


async def test_a_refused_question_leaves_no_file(make_app: MakeApp, archive: Archive) -> None:
    app = make_app([EdgeSpecError("Too long.", "")])
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        box(pilot).load_text("long")
        await pilot.press("enter")
        await until(pilot, lambda: "Too long." in notes(pilot))
        assert not saved(archive)


async def test_a_disk_that_refuses_is_said_once_and_the_chat_goes_on(make_app: MakeApp, archive: Archive) -> None:
    archive.folder.parent.mkdir(parents=True)
    archive.folder.write_text("in the way")
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await send(pilot, "one")
        await send(pilot, "two")
        assert notes(pilot).count("not saved") == 1 and len(replies(pilot)) == 2
