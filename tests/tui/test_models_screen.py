"""Choosing, downloading and switching models, on files of a few kilobytes and a Hub of our own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from threading import Event as Flag

import pytest
from conftest import MakeApp, until
from edgespec_tui import downloads
from edgespec_tui import shelf as shelves
from edgespec_tui.screens.chat import ChatScreen
from edgespec_tui.screens.models import ModelsScreen
from edgespec_tui.shelf import Shelf, local_entry, pair_entry
from edgespec_tui.widgets.download_bar import Rate
from edgespec_tui.widgets.status_bar import StatusBar
from scripted_engine import Opener, loaded, reply, words
from stub_hub import StubHub, serve
from test_chat_screen import box, chat, notes, panel, ready, send, toasts
from textual.pilot import Pilot
from textual.widgets import OptionList, Static
from tiny_gguf_bytes import model

from edgespec.engine.messages import LoadOptions
from edgespec.errors import EdgeSpecError, ModelFileError, PairError
from edgespec.models import hub as hub_module
from edgespec.models.catalogue import row_for
from edgespec.models.fit import Machine
from edgespec.models.inventory import inventory
from edgespec.models.registry import Licence, ModelFile, Pair, Registry
from edgespec.types import Mode

REPO, NAME = "maker/Tiny-GGUF", "Tiny-Q8_0.gguf"
CONTENT = model(size=60_000).bytes()
TERMS = Licence("terms", "The terms", "https://example.org/terms", True)
HERE = Machine(16_000_000_000)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StubHub]:
    import huggingface_hub

    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setattr(hub_module, "BACKOFF", 0.0)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    huggingface_hub.close_session()
    with serve(StubHub({REPO: {NAME: CONTENT}})) as server:
        monkeypatch.setenv("MODEL_ENDPOINT", server.url)
        yield server
    huggingface_hub.close_session()


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of models that the screen looks at, beside a registry of one pair and a cache that is empty."""
    cache, folder = tmp_path / "cache", tmp_path / "[red] w t 模型"
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    folder.mkdir()
    digest = hashlib.sha256(CONTENT).hexdigest()
    pair = Pair("tiny", "Tiny", "ok", "A", "none", "terms", task=("chat",),
                target=ModelFile(REPO, NAME, "Q8_0", None, len(CONTENT), True, digest))  # fmt: skip
    registry = Registry((pair,), {"terms": TERMS})

    def look() -> Shelf:
        local = tuple(local_entry(found, HERE) for found in inventory(cache, [folder], others=False))
        return Shelf(HERE, registry, (pair_entry(row_for(pair, HERE, cache, 4096), registry),), local)

    monkeypatch.setattr(shelves, "look", look)
    (folder / "big.gguf").write_bytes(model(size=9000).bytes())
    (folder / "small.gguf").write_bytes(model(size=500).bytes())
    (folder / "other.gguf").write_bytes(model([f"x{i}" for i in range(40)]).bytes())
    (folder / "[broken.gguf").write_bytes(b"<!DOCTYPE html>")
    return folder


def models(pilot: Pilot[None]) -> ModelsScreen:
    screen = pilot.app.screen
    assert isinstance(screen, ModelsScreen)
    return screen


def said(pilot: Pilot[None]) -> str:
    return str(models(pilot).query_one("#remark", Static).render())


async def opened(pilot: Pilot[None]) -> None:
    await ready(pilot)
    await pilot.press("f6")
    await until(pilot, lambda: isinstance(pilot.app.screen, ModelsScreen) and pilot.app.screen._shelf)


async def go_to(pilot: Pilot[None], name: str) -> None:
    entries = models(pilot)._entries
    models(pilot).query_one(OptionList).highlighted = next(
        i for i, entry in enumerate(entries) if entry is not None and name in entry.name
    )
    await pilot.pause()


def app_on(make_app: MakeApp, target: Path, **changes: object) -> tuple[object, Opener]:
    app = make_app(reply(words("one")), reply(words("two")), loaded=loaded(modes=dict.fromkeys(Mode)), **changes)
    chat_screen = app._chat
    chat_screen._load = LoadOptions(str(target), n_ctx=512)
    opener = app.runner._opener
    assert isinstance(opener, Opener)
    return app, opener


async def test_the_list_says_what_fits_what_is_here_and_what_is_broken(make_app: MakeApp, disk: Path) -> None:
    app, _ = app_on(make_app, disk / "big.gguf")
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        shown = models(pilot).query_one(OptionList)
        lines = [str(shown.get_option_at_index(i).prompt) for i in range(shown.option_count)]
        assert any("tiny" in line and "chat" in line and "terms (ask)" in line for line in lines)
        assert any("[broken.gguf" in line and "broken" in line for line in lines)
        await go_to(pilot, "broken")
        await pilot.press("enter")
        assert "web page" in said(pilot) or "HTML" in said(pilot)
        assert isinstance(pilot.app.screen, ModelsScreen)


async def test_another_target_replaces_the_old_one_and_no_draft_choice_stays(make_app: MakeApp, disk: Path) -> None:
    app, opener = app_on(make_app, disk / "other.gguf")
    app._chat._load = LoadOptions(str(disk / "big.gguf"), str(disk / "small.gguf"), n_ctx=512)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await go_to(pilot, "other")
        await pilot.press("enter")
        await until(pilot, lambda: len(opener.opened) == 2 and "Ready" in notes(pilot))
        assert opener.opened[-1] == LoadOptions(str(disk / "other.gguf"), None, n_ctx=512)


async def test_a_draft_model_that_fits_is_loaded_with_the_target(make_app: MakeApp, disk: Path) -> None:
    app, opener = app_on(make_app, disk / "big.gguf")
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await go_to(pilot, "small")
        await pilot.press("t")
        await until(pilot, lambda: len(opener.opened) == 2)
        assert opener.opened[-1].draft == str(disk / "small.gguf")
        await until(pilot, lambda: chat(pilot)._loaded is not None)
        assert chat(pilot)._options.mode is Mode.DRAFT
        await pilot.press("f6")
        await until(pilot, lambda: isinstance(pilot.app.screen, ModelsScreen) and pilot.app.screen._shelf)
        await pilot.press("n")
        await until(pilot, lambda: len(opener.opened) == 3)
        assert opener.opened[-1].draft is None


@pytest.mark.parametrize("key", ["c", "t"])
async def test_a_refused_pair_says_why_and_what_is_loaded_stays(make_app: MakeApp, disk: Path, key: str) -> None:
    app, opener = app_on(make_app, disk / "big.gguf")
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await go_to(pilot, "other")
        await pilot.press(key)
        await until(pilot, lambda: "cannot be used" in said(pilot))
        assert "Token 5" in said(pilot) and len(opener.opened) == 1


async def test_switching_during_a_reply_stops_it_first(make_app: MakeApp, disk: Path) -> None:
    app, opener = app_on(make_app, disk / "big.gguf")
    app.engine.scripts.appendleft([*words("a b"), Flag()])
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        box(pilot).load_text("hi")
        await pilot.press("enter")
        await until(pilot, lambda: chat(pilot).replying)
        await pilot.press("f6")
        await until(pilot, lambda: isinstance(pilot.app.screen, ModelsScreen) and pilot.app.screen._shelf)
        await go_to(pilot, "other")
        await pilot.press("enter")
        await until(pilot, lambda: len(opener.opened) == 2 and chat(pilot)._loaded and not chat(pilot).replying)
        assert [turn.content for turn in chat(pilot)._chat.turns] == ["hi", "a b "]


async def test_models_that_cannot_be_loaded_give_way_to_those_from_before(make_app: MakeApp, disk: Path) -> None:
    app, opener = app_on(make_app, disk / "big.gguf")
    opener.refuse = lambda options: EdgeSpecError("No room.") if "other" in options.target else None
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await go_to(pilot, "other")
        await pilot.press("enter")
        await until(pilot, lambda: len(opener.opened) == 3 and chat(pilot)._loaded)
        assert "No room." in notes(pilot) and "Going back to big.gguf" in notes(pilot)


@pytest.mark.parametrize("error", [PairError("The vocabularies differ.", "Use lookup."), ModelFileError("Missing.")])
async def test_a_draft_model_that_is_refused_is_left_out_if_that_is_allowed(
    make_app: MakeApp, disk: Path, error: EdgeSpecError
) -> None:
    app, opener = app_on(make_app, disk / "big.gguf", mode=Mode.DRAFT, allow_fallback=True)
    app.engine.loaded = loaded()
    app._chat._load = LoadOptions(str(disk / "big.gguf"), str(disk / "other.gguf"))
    opener.refuse = lambda options: error if options.draft else None
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        assert error.message in notes(pilot) and "Going on without the draft model other" in notes(pilot)
        assert "draft cannot run: The draft model other was refused." in notes(pilot)
        status = pilot.app.screen.query_one(StatusBar)
        assert "lookup" in str(status.query_one("#mode", Static).render())
        assert "without other" in str(status.query_one("#models", Static).render())
        await send(pilot, "hi")
        assert "The draft model other was" in panel(pilot)


async def test_a_draft_model_that_is_refused_is_not_left_out_unasked(make_app: MakeApp, disk: Path) -> None:
    app, opener = app_on(make_app, disk / "big.gguf", mode=Mode.DRAFT)
    app._chat._load = LoadOptions(str(disk / "big.gguf"), str(disk / "other.gguf"))
    opener.refuse = lambda options: PairError("The vocabularies differ.") if options.draft else None
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "No model is loaded" in notes(pilot))
        assert "The vocabularies differ." in notes(pilot) and len(opener.opened) == 1
        await pilot.press("f6")
        await until(pilot, lambda: isinstance(pilot.app.screen, ModelsScreen) and pilot.app.screen._shelf)
        await pilot.press("n")
        await ready(pilot)
        assert opener.opened[-1].draft is None


async def test_a_draft_model_that_cannot_be_loaded_later_gives_way_to_what_was_there(
    make_app: MakeApp, disk: Path
) -> None:
    app, opener = app_on(make_app, disk / "big.gguf")
    opener.refuse = lambda options: EdgeSpecError("No room.") if options.draft else None
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await go_to(pilot, "small")
        await pilot.press("t")
        await until(pilot, lambda: len(opener.opened) == 3 and chat(pilot)._loaded)
        assert "No room." in notes(pilot) and "Going back to big.gguf" in notes(pilot)
        assert opener.opened[-1].draft is None


# Downloading


async def agreed(pilot: Pilot[None]) -> None:
    await opened(pilot)
    await go_to(pilot, "tiny")
    await pilot.press("d")
    await until(pilot, lambda: "fetches" in said(pilot))


async def test_a_pair_is_fetched_after_its_terms_were_agreed_to(make_app: MakeApp, disk: Path, hub: StubHub) -> None:
    app, opener = app_on(make_app, disk / "big.gguf")
    async with app.run_test(size=(120, 40)) as pilot:
        await agreed(pilot)
        assert "The terms" in said(pilot) and not hub.bodies()
        await pilot.press("y")
        await until(pilot, lambda: "is here" in said(pilot))
        await until(pilot, lambda: models(pilot)._shelf.pairs[0].usable)
        await go_to(pilot, "tiny")
        await pilot.press("enter")
        await until(pilot, lambda: len(opener.opened) == 2)
        assert Path(opener.opened[-1].target).read_bytes() == CONTENT


async def test_terms_that_are_not_agreed_to_fetch_nothing(make_app: MakeApp, disk: Path, hub: StubHub) -> None:
    app, _ = app_on(make_app, disk / "big.gguf")
    async with app.run_test(size=(120, 40)) as pilot:
        await agreed(pilot)
        await pilot.press("escape")
        assert "Nothing was fetched" in said(pilot) and not hub.bodies()
        await pilot.press("y")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))
        assert not hub.bodies()


async def test_a_stopped_download_goes_on_where_it_was(make_app: MakeApp, disk: Path, hub: StubHub) -> None:
    hub.hold_after = 100_000
    app, _ = app_on(make_app, disk / "big.gguf")
    async with app.run_test(size=(120, 40)) as pilot:
        await agreed(pilot)
        await pilot.press("y")
        await until(pilot, lambda: hub.held.is_set() and app.downloads.progress)
        await pilot.press("s")
        hub.released.set()
        await until(pilot, lambda: "D goes on from there" in said(pilot))
        hub.hold_after = None
        await pilot.press("d")
        await until(pilot, lambda: "of it are here" in said(pilot) or "is here;" in said(pilot))
        await pilot.press("y")
        await until(pilot, lambda: "is here;" in said(pilot))
    assert any("bytes=" in request.headers.get("range", "") for request in hub.bodies())


async def test_a_hub_that_does_not_answer_is_a_sentence(
    make_app: MakeApp, disk: Path, hub: StubHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    app, _ = app_on(make_app, disk / "big.gguf")
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await go_to(pilot, "tiny")
        await pilot.press("d")
        await until(pilot, lambda: "offline" in said(pilot).lower())
        assert app.downloads.current is None


async def test_a_download_goes_on_when_the_screen_is_left(make_app: MakeApp, disk: Path, hub: StubHub) -> None:
    hub.hold_after = 30_000
    app, _ = app_on(make_app, disk / "big.gguf")
    async with app.run_test(size=(120, 40)) as pilot:
        await agreed(pilot)
        await pilot.press("y")
        await until(pilot, lambda: hub.held.is_set() and app.downloads.progress and app.downloads.progress.done)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))
        mark = chat(pilot).query_one("#download", Static)
        await until(pilot, lambda: "%" in str(mark.render()))
        await pilot.press("f6")
        await until(pilot, lambda: isinstance(pilot.app.screen, ModelsScreen) and pilot.app.screen._shelf)
        bar = models(pilot).query_one("#progress", Static)
        assert bar.display and "tiny" in str(bar.render())
        await pilot.press("escape")
        hub.released.set()
        await until(pilot, lambda: any("tiny is here" in text for text in toasts(app)))
        assert str(mark.render()) == ""


async def test_a_plan_that_was_left_waits_for_its_yes(
    make_app: MakeApp, disk: Path, hub: StubHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, plan_pair = Flag(), downloads.plan_pair
    monkeypatch.setattr(downloads, "plan_pair", lambda *of: gate.wait(20) and plan_pair(*of))
    app, _ = app_on(make_app, disk / "big.gguf")
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await go_to(pilot, "tiny")
        await pilot.press("d")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))
        gate.set()
        await until(pilot, lambda: app.downloads.planned)
        assert "waits" in str(chat(pilot).query_one("#download", Static).render())
        assert toasts(app) == ["tiny waits for a yes: F6."]
        await pilot.press("f6")
        await until(pilot, lambda: "fetches" in said(pilot))
        await pilot.press("y")
        await until(pilot, lambda: "is here" in said(pilot))


# Removing, filtering, inspecting


async def fetched(pilot: Pilot[None]) -> None:
    await agreed(pilot)
    await pilot.press("y")
    await until(pilot, lambda: "is here" in said(pilot))
    await until(pilot, lambda: models(pilot)._shelf.pairs[0].usable)
    await go_to(pilot, "tiny")


async def test_a_model_is_removed_after_a_yes_only(make_app: MakeApp, disk: Path, hub: StubHub) -> None:
    app, _ = app_on(make_app, disk / "big.gguf")
    async with app.run_test(size=(120, 40)) as pilot:
        await fetched(pilot)
        await pilot.press("x")
        await until(pilot, lambda: "Y removes" in said(pilot))
        assert NAME in said(pilot) and "Other programs" in said(pilot)
        await pilot.press("escape")
        assert "Nothing was removed" in said(pilot) and models(pilot)._shelf.pairs[0].usable
        await pilot.press("x")
        await until(pilot, lambda: "Y removes" in said(pilot))
        await pilot.press("y")
        await until(pilot, lambda: "is removed" in said(pilot))
        await until(pilot, lambda: not models(pilot)._shelf.pairs[0].usable)
        await go_to(pilot, "small")
        assert "x" not in app.screen.active_bindings


async def test_what_is_loaded_is_not_removed(make_app: MakeApp, disk: Path, hub: StubHub) -> None:
    app, opener = app_on(make_app, disk / "big.gguf")
    async with app.run_test(size=(120, 40)) as pilot:
        await fetched(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: len(opener.opened) == 2 and isinstance(pilot.app.screen, ChatScreen))
        await pilot.press("f6")
        await until(pilot, lambda: isinstance(pilot.app.screen, ModelsScreen) and pilot.app.screen._shelf)
        await go_to(pilot, "tiny")
        await pilot.press("x")
        await until(pilot, lambda: "is loaded" in said(pilot))
        await pilot.press("y")
        assert Path(opener.opened[-1].target).exists()


async def test_the_list_is_filtered_by_words(make_app: MakeApp, disk: Path) -> None:
    app, opener = app_on(make_app, disk / "big.gguf")
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await pilot.press("slash", *"SMALL")
        await until(pilot, lambda: [entry.name for entry in models(pilot)._entries if entry] == ["small.gguf"])
        await pilot.press("enter")
        assert isinstance(app.screen, ModelsScreen) and models(pilot).query_one(OptionList).has_focus
        await pilot.press("escape")
        await until(pilot, lambda: len([entry for entry in models(pilot)._entries if entry]) > 3)
        assert models(pilot)._entry.name == "small.gguf"
        await pilot.press("slash", *"zzz")
        await until(pilot, lambda: not any(models(pilot)._entries))
        assert "No line" in str(models(pilot).query_one("#detail", Static).render())
        await pilot.press("enter", "enter", "c", "i", "t")
        assert isinstance(app.screen, ModelsScreen) and len(opener.opened) == 1


@pytest.mark.parametrize(
    ("name", "words"), [("small", "architecture"), ("broken", "web page"), ("tiny", "In the list")]
)
async def test_a_line_is_inspected(make_app: MakeApp, disk: Path, name: str, words: str) -> None:
    app, _ = app_on(make_app, disk / "big.gguf")
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await go_to(pilot, name)
        await pilot.press("i")
        await until(pilot, lambda: words in "\n".join(str(text.render()) for text in pilot.app.screen.query(Static)))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, ModelsScreen))


@pytest.mark.parametrize("size", [(80, 24), (45, 12), (200, 50), (20, 5)])
async def test_every_size_works(make_app: MakeApp, disk: Path, size: tuple[int, int]) -> None:
    app, _ = app_on(make_app, disk / "big.gguf")
    async with app.run_test(size=size) as pilot:
        await opened(pilot)
        await pilot.resize_terminal(70, 20)
        await pilot.press("down", "up", "end")


def test_a_rate_forgets_what_is_long_ago() -> None:
    now = 0.0
    rate = Rate(clock=lambda: now)
    readings: list[float | None] = [rate.add(0)]
    for now, done in ((1.0, 100), (2.0, 200), (10.0, 1000), (11.0, 1010)):  # noqa: B007 - the clock reads it
        readings.append(rate.add(done))
    assert readings[0] is None and readings[1] == 100.0 and readings[-1] == 90.0
    assert rate.add(0) is None
