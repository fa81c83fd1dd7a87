"""Draw the pictures of the README: the app on a scripted engine, so that they come out the same everywhere.

    python scripts/make_screenshots.py [NAME ...]

The replies are played from the scripts that the app's tests use; what is drawn is the app itself.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
import tempfile
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from threading import Event as Flag

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "tui"), str(ROOT / "tests" / "fakes")]

from edgespec_tui import memory, shelf  # noqa: E402
from edgespec_tui.app import EdgeSpecApp  # noqa: E402
from edgespec_tui.screens.compare import CompareScreen  # noqa: E402
from edgespec_tui.screens.compare_setup import CompareSetup  # noqa: E402
from edgespec_tui.screens.models import ModelsScreen  # noqa: E402
from edgespec_tui.widgets.composer import Composer  # noqa: E402
from edgespec_tui.widgets.note import Note  # noqa: E402
from edgespec_tui.widgets.reply import Reply  # noqa: E402
from scripted_engine import (  # noqa: E402
    CODE,
    Opener,
    ScriptedEngine,
    Step,
    loaded,
    model,
    reply,
    round_done,
    words,
)
from textual.pilot import Pilot  # noqa: E402
from textual.widgets import OptionList  # noqa: E402

from edgespec.conditions import LoadMeter  # noqa: E402
from edgespec.engine.messages import GenerateOptions, LoadOptions, PrefillDone, RoundDone  # noqa: E402
from edgespec.models.catalogue import catalogue  # noqa: E402
from edgespec.models.fit import Machine  # noqa: E402
from edgespec.models.registry import load_registry  # noqa: E402
from edgespec.types import Mode, Prefilled  # noqa: E402

SIZE = (118, 34)
QUESTION = "Rename `values` to `data` in this function:\n\ndef mean(values):\n    total = 0\n    for value in values: …"


async def until(pilot: Pilot[None], true: Callable[[], object]) -> None:
    """Let the app run until something is so."""
    for _ in range(4000):
        if true():
            await pilot.pause()
            return
        await pilot.pause(0.005)
    raise SystemExit("The app never came to the state that was to be drawn.")


def make_app(*scripts: list[Step]) -> EdgeSpecApp:
    """The app on an engine that plays these replies."""
    pair = loaded(target=model("Coder-7B-Q4_K_M"), draft=model("Coder-0.5B-Q8_0"), modes=dict.fromkeys(Mode))
    engine = ScriptedEngine(deque(scripts), pair)
    app = EdgeSpecApp(LoadOptions("/models/Coder.gguf"), GenerateOptions(mode=Mode.LOOKUP), opener=Opener(engine))
    app.animation_level = "none"
    return app


async def ready(pilot: Pilot[None]) -> None:
    """Wait until the models are loaded."""
    screen = pilot.app.screen
    screen.query_one(Composer).cursor_blink = False
    await until(pilot, lambda: any("Ready" in str(note.render()) for note in screen.query(Note)))


async def ask(pilot: Pilot[None], text: str) -> None:
    """Send a message."""
    await ready(pilot)
    pilot.app.screen.query_one(Composer).load_text(text)
    await pilot.press("enter")


async def streaming(pilot: Pilot[None]) -> None:
    """In the middle of a reply."""
    await ask(pilot, QUESTION)
    await until(pilot, lambda: any("return" in said.text for said in pilot.app.screen.query(Reply)))


async def tokens(pilot: Pilot[None]) -> None:
    """A finished reply in the token view."""
    await ask(pilot, QUESTION)
    await until(pilot, lambda: any(said.text.endswith("```") for said in pilot.app.screen.query(Reply)))


# The race: one text, and how many tokens of it each mode brings a round

TEXT = "".join(text for event in CODE for text in event.texts) + (
    "\n\nI renamed `values` to `data` in the signature, in the loop and in the call of `len`; nothing else has changed."
)
PACE = {Mode.PLAIN: (1,), Mode.LOOKUP: (1, 5, 3, 5, 1), Mode.DRAFT: (3, 2, 4, 1), Mode.AUTO: (4, 5, 3, 2)}
SECONDS = {Mode.PLAIN: 0.070, Mode.LOOKUP: 0.096, Mode.DRAFT: 0.115, Mode.AUTO: 0.098}


def pieces(text: str) -> list[str]:
    """A text in pieces as a tokenizer might cut it."""
    return re.findall(r"\s*\w{1,6}|\s*[^\w\s]+|\s+", text)


def run_of(mode: Mode, repeat: int) -> list[Step]:
    """One run of the race."""
    texts, rounds, place = pieces(TEXT), list[RoundDone](), 0
    source = "draft" if mode is Mode.DRAFT else "lookup"
    for size in cycle(PACE[mode]):
        part = texts[place : place + size]
        if not part:
            break
        wrong = ["values"] if size < 3 and mode is not Mode.PLAIN else []
        seconds = SECONDS[mode] * (1 + 0.01 * repeat)
        event = round_done(len(rounds), part[:-1], wrong, part[-1], seconds=seconds, source=source)
        tokens = tuple(range(place, place + len(part)))
        rounds.append(replace(event, round=replace(event.round, tokens=tokens)))
        place += size
    return reply(rounds, mode=mode)


def race_runs() -> list[list[Step]]:
    """Warm-ups, then three repeats in turns."""
    modes = list(Mode)
    turns = [[*modes[turn:], *modes[:turn]] for turn in range(3)]
    return [*(run_of(mode, 0) for mode in modes), *(run_of(mode, i) for i, turn in enumerate(turns) for mode in turn)]


async def compare(pilot: Pilot[None]) -> None:
    """A race, half-way."""
    await ready(pilot)
    await pilot.press("f4")
    await until(pilot, lambda: isinstance(pilot.app.screen, CompareSetup))
    await pilot.press("f4")
    screen = next(screen for screen in pilot.app.screen_stack if isinstance(screen, CompareScreen))
    await until(pilot, lambda: pilot.app.screen is screen and screen.race is not None)
    await pilot.press("space", "home", *["right"] * 9)


async def models(pilot: Pilot[None]) -> None:
    """The list of models."""
    await ready(pilot)
    await pilot.press("f6")
    await until(pilot, lambda: isinstance(pilot.app.screen, ModelsScreen) and pilot.app.screen.query("#models"))
    await until(pilot, lambda: pilot.app.screen.query_one("#models", OptionList).option_count)
    await pilot.press(*["down"] * 7)


def shelf_of_a_laptop() -> shelf.Shelf:
    """The registry as a machine of 16 GB sees it that has nothing on its disk."""
    registry, laptop = load_registry(), Machine(16_000_000_000)
    rows = catalogue(registry, laptop, Path("/nowhere"))
    return shelf.Shelf(laptop, registry, tuple(shelf.pair_entry(row, registry) for row in rows), ())


PICTURES: dict[str, tuple[Callable[[], EdgeSpecApp], Callable[[Pilot[None]], Awaitable[None]]]] = {
    "chat": (lambda: make_app([PrefillDone(1, Prefilled(42, 0, 0.2)), *CODE[:7], Flag()]), streaming),
    "tokens": (lambda: make_app(reply(CODE), reply(words("ok"))), tokens),
    "compare": (lambda: make_app(*race_runs()), compare),
    "models": (make_app, models),
}


async def draw(name: str, folder: Path) -> Path:
    """Draw one picture."""
    make, run = PICTURES[name]
    app = make()
    async with app.run_test(size=SIZE) as pilot:
        await run(pilot)
        await pilot.pause()
        path = folder / f"{name}.svg"
        title = f"edgespec {name} (scripted replies: the figures are made up)"
        path.write_text(app.export_screenshot(title=title), encoding="utf-8")
    return path


def main() -> None:
    """Draw the pictures that were named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PICTURES)}; default: all")
    parser.add_argument("--folder", type=Path, default=ROOT / "docs")
    wanted = parser.parse_args()
    if unknown := set(wanted.names) - set(PICTURES):
        parser.error(f"there is no picture {', '.join(sorted(unknown))}")
    wanted.folder.mkdir(parents=True, exist_ok=True)
    memory.in_use = lambda pid: (5_100_000_000, 16_000_000_000)
    shelf.look = shelf_of_a_laptop
    LoadMeter.others = lambda meter: 0.0  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as data:
        os.environ |= {"XDG_DATA_HOME": data, "XDG_CONFIG_HOME": data, "XDG_STATE_HOME": data}
        for name in wanted.names or PICTURES:
            print(asyncio.run(draw(name, wanted.folder)))


if __name__ == "__main__":
    main()
