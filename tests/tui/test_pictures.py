"""Pictures of every state of the chat; run pytest with --snapshot-update after a wanted change."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import Event as Flag

import pytest
from conftest import MakeApp, until
from edgespec_tui import shelf as shelves
from edgespec_tui.archive import chats_folder
from edgespec_tui.record import ChatRecord
from edgespec_tui.screens.chat import ChatScreen
from edgespec_tui.screens.models import ModelsScreen
from edgespec_tui.shelf import Entry, Shelf
from edgespec_tui.widgets.composer import Composer
from edgespec_tui.widgets.download_bar import DownloadBar
from edgespec_tui.widgets.note import Note
from scripted_engine import CODE, Step, done, loaded, model, reply, words
from test_compare_screen import measured, run_of
from test_thoughts import THINKING
from textual.pilot import Pilot

from edgespec.conditions import LoadMeter
from edgespec.engine.messages import EngineLost, PrefillDone
from edgespec.errors import ModelFileError
from edgespec.models.catalogue import Here, Row
from edgespec.models.fit import Machine, Verdict
from edgespec.models.inventory import LocalModel
from edgespec.models.registry import Pair, Registry
from edgespec.types import Mode, Prefilled

Before = Callable[[Pilot[None]], Awaitable[None]]
Compare = Callable[..., bool]
WIDE = (110, 32)


def asking(*questions: str, last_words: str = "", keys: tuple[str, ...] = ()) -> Before:
    """Ask, wait until each is answered (the last one up to `last_words` if given), and press keys."""

    async def run(pilot: Pilot[None]) -> None:
        chat = pilot.app.screen_stack[0]
        assert isinstance(chat, ChatScreen)
        box = chat.query_one(Composer)
        box.cursor_blink = False
        await until(pilot, lambda: any("Ready" in str(note.render()) for note in chat.query(Note)))
        for question in questions:
            box.load_text(question)
            await pilot.press("enter")
            held = last_words and question is questions[-1]
            if held:
                await until(pilot, lambda: any(last_words in reply.text for reply in chat.query("Reply")))
            else:
                await until(pilot, lambda: not chat.replying and not box.text)
        await pilot.press(*keys)
        await pilot.pause()

    return run


async def settled(pilot: Pilot[None]) -> None:
    pilot.app.screen.query_one(Composer).cursor_blink = False
    await until(pilot, lambda: pilot.app.screen.query(Note))
    await until(pilot, lambda: not pilot.app.screen.query(".-busy"))


def test_empty(make_app: MakeApp, snap_compare: Compare) -> None:
    """No message yet: keys, models, mode and the legend are there."""
    assert snap_compare(make_app(), terminal_size=WIDE, run_before=asking())


def test_loading(make_app: MakeApp, snap_compare: Compare) -> None:
    """The models are being loaded; one can write already."""

    async def run(pilot: Pilot[None]) -> None:
        pilot.app.screen.query_one(Composer).cursor_blink = False
        await pilot.press(*"hello")

    gate = Flag()
    app = make_app(gate=gate)
    assert snap_compare(app, terminal_size=WIDE, run_before=run)
    gate.set()


def test_streaming(make_app: MakeApp, snap_compare: Compare) -> None:
    """In the middle of a reply: marks, what was thrown away, the caret, live figures."""
    app = make_app([PrefillDone(1, Prefilled(42, 0, 0.2)), *CODE[:6], Flag()])
    assert snap_compare(app, terminal_size=WIDE, run_before=asking("Rename values to data.", last_words=" data"))


def test_finished(make_app: MakeApp, snap_compare: Compare) -> None:
    """A finished reply in the token view, with the engine's figures."""
    app = make_app(reply(words("Of course.")), reply(CODE))
    assert snap_compare(app, terminal_size=WIDE, run_before=asking("Can you edit code?", "Rename values to data."))


def test_formatted(make_app: MakeApp, snap_compare: Compare) -> None:
    """The same reply as Markdown."""
    assert snap_compare(make_app(reply(CODE)), terminal_size=WIDE, run_before=asking("Rename it.", keys=("f3",)))


def test_load_error(make_app: MakeApp, snap_compare: Compare) -> None:
    """A model that cannot be loaded: a sentence and what to do."""
    error = ModelFileError("tiny.gguf is 41 MB shorter than its header says.", "Try: edgespec download demo")
    assert snap_compare(make_app(error=error), terminal_size=WIDE, run_before=settled)


def test_engine_lost(make_app: MakeApp, snap_compare: Compare) -> None:
    """The engine died in a reply: its text stays, and the note says how to go on."""
    app = make_app([*CODE[:4], EngineLost("SIGKILL", -9, ())])
    assert snap_compare(app, terminal_size=WIDE, run_before=asking("Rename it."))


def test_narrow(make_app: MakeApp, snap_compare: Compare) -> None:
    """80x24: the panel is folded into the line under the reply."""
    assert snap_compare(make_app(reply(CODE)), terminal_size=(80, 24), run_before=asking("Rename it."))


def test_small(make_app: MakeApp, snap_compare: Compare) -> None:
    """40x10 is the least that is still a chat."""
    assert snap_compare(make_app(reply(words("Hi."))), terminal_size=(40, 10), run_before=asking("Hello"))


def test_too_small(make_app: MakeApp, snap_compare: Compare) -> None:
    """Below 40x10 there is a note."""
    assert snap_compare(make_app(), terminal_size=(30, 8), run_before=asking())


def test_very_wide(make_app: MakeApp, snap_compare: Compare) -> None:
    """200x50: lines stay readable."""
    pair = loaded(draft=model("Tiny 135M Q8_0"))
    assert snap_compare(make_app(reply(CODE), loaded=pair), terminal_size=(200, 50), run_before=asking("Rename it."))


@pytest.mark.parametrize("theme", ["textual-light", "ansi-dark", "nord"])
def test_themes(make_app: MakeApp, snap_compare: Compare, theme: str) -> None:
    """Light, the terminal's own colours, and one more."""
    assert snap_compare(make_app(reply(CODE), theme=theme), terminal_size=WIDE, run_before=asking("Rename it."))


def test_no_colour(make_app: MakeApp, snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without colour underline, bold, dot and strike-through say the same."""
    monkeypatch.setenv("NO_COLOR", "1")
    app = make_app([*CODE, done(CODE)])
    assert snap_compare(app, terminal_size=WIDE, run_before=asking("Rename it."))


def test_help(make_app: MakeApp, snap_compare: Compare) -> None:
    """F1: keys, modes, marks and figures."""
    assert snap_compare(make_app(), terminal_size=(110, 40), run_before=asking(keys=("f1",)))


def test_settings(make_app: MakeApp, snap_compare: Compare) -> None:
    """F9: system text, sampling and lengths, one value wrong."""

    async def run(pilot: Pilot[None]) -> None:
        await asking(keys=("f9",))(pilot)
        for field in pilot.app.screen.query("Input, TextArea"):
            field.cursor_blink = False  # type: ignore[attr-defined]
        await pilot.press("9", "9", "9", "ctrl+s")

    assert snap_compare(make_app(system="Be brief."), terminal_size=(110, 36), run_before=run)


def test_chats(make_app: MakeApp, snap_compare: Compare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl+O: the saved chats, one of them about to be deleted."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    folder = chats_folder()
    folder.mkdir(parents=True)
    for day, title in ((1, "Rename `values` to `data`"), (2, "[/INST] a title in brackets"), (3, "日本の海")):
        kept = ChatRecord()
        kept.ask(title)
        kept.changed = f"2026-11-0{day}T12:00:00+00:00"
        (folder / f"{day}.json").write_text(json.dumps(kept.to_json()))
    assert snap_compare(make_app(), terminal_size=WIDE, run_before=asking(keys=("ctrl+o", "down", "d")))


async def compared(pilot: Pilot[None]) -> None:
    """Measured, the replay stopped half-way."""
    await measured(pilot)
    await pilot.press("home", *["right"] * 11)


def four_modes() -> list[list[Step]]:
    modes = list(Mode)
    runs = [run_of(mode) for mode in modes]
    return [*runs, *(runs[(i + turn) % 4] for turn in range(3) for i in range(4))]


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50), (50, 30)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_compare(
    make_app: MakeApp, snap_compare: Compare, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    """A race half-way: panes, playhead, figures."""
    monkeypatch.setattr(LoadMeter, "others", lambda meter: 0.0)
    app = make_app(*four_modes(), loaded=loaded(draft=model("Tiny 135M Q8_0"), modes=dict.fromkeys(Mode)))
    assert snap_compare(app, terminal_size=size, run_before=compared)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_compare_setup(make_app: MakeApp, snap_compare: Compare, size: tuple[int, int]) -> None:
    """Prompts and modes to choose from; what cannot run says why."""
    assert snap_compare(make_app(), terminal_size=size, run_before=asking(keys=("f4",)))


def test_compare_no_colour(make_app: MakeApp, snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is on and off is to be seen without colour."""
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(make_app(), terminal_size=WIDE, run_before=asking(keys=("f4", "tab", "down")))


def test_rounds(make_app: MakeApp, snap_compare: Compare) -> None:
    """A reply pass by pass."""
    app = make_app(reply(CODE))
    assert snap_compare(app, terminal_size=WIDE, run_before=asking("Rename it.", keys=("ctrl+g", *["down"] * 3)))


def test_thoughts(make_app: MakeApp, snap_compare: Compare) -> None:
    """Thoughts opened; the answer below."""
    assert snap_compare(make_app(reply(THINKING)), terminal_size=WIDE, run_before=asking("2+2?", keys=("f10",)))


def shelf() -> Shelf:
    """A registry of three, and two files on the disk, one of them broken."""

    def entry(*cells: str, usable: bool = True, **more: object) -> Entry:
        here = Here.ALL if usable else Here.NONE
        pair = Pair(cells[0], cells[0], "ok", "A", "draft-simple", "mit")
        return Entry(cells, f"{cells[0]} in a sentence.", row=Row(pair, 1, Verdict.FITS, here), **more)  # type: ignore[arg-type]

    def found(name: str, problem: str | None) -> Entry:
        local = LocalModel(name, Path(name), "folder", 1, None, problem)
        cells = (name, "folder", "98.4 MB", "290 MB", "yes", "broken" if problem else "yes", "mit", "")
        return Entry(cells, problem or "A model.", local=local)

    pairs = (
        entry("tiny-1b", "chat", "1.2 GB", "2.19 GB", "yes", "yes", "mit", "draft model Q8_0"),
        entry("large-14b", "chat code", "9.64 GB", "10.9 GB", "tight", "-", "gemma (ask)", "draft model", usable=False),
        entry("huge-32b", "code", "20.4 GB", "22.1 GB", "no", "-", "mit", "MTP head (not used yet)", usable=False),
    )  # fmt: skip
    local = (found("[red] 日本.gguf", None), found("cut.gguf", "cut.gguf is 41 MB shorter than its header says."))
    return Shelf(Machine(16_000_000_000), Registry(pairs=(), licences={}), pairs, local)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_models(
    make_app: MakeApp, snap_compare: Compare, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    """The list, the cursor on a file that is broken, and a download under way."""
    monkeypatch.setattr(shelves, "look", shelf)

    async def run(pilot: Pilot[None]) -> None:
        await asking(keys=("f6",))(pilot)
        await until(pilot, lambda: pilot.app.screen._shelf)  # type: ignore[attr-defined]
        screen = pilot.app.screen
        assert isinstance(screen, ModelsScreen)
        bar = screen.query_one(DownloadBar)
        bar.display = True
        await pilot.press("end", "enter")
        bar.show("large-14b", 1_900_000_000, 9_640_000_000, 41_000_000)

    assert snap_compare(make_app(), terminal_size=size, run_before=run)
