"""Draw the pictures of the README: the app on a scripted engine, so that they come out the same everywhere.

    python scripts/make_screenshots.py [NAME ...]

The replies are played from the scripts that the app's tests use; what is drawn is the app itself.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import Event as Flag

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "tui"), str(ROOT / "tests" / "fakes")]

from edgespec_tui.app import EdgeSpecApp  # noqa: E402
from edgespec_tui.widgets.composer import Composer  # noqa: E402
from edgespec_tui.widgets.note import Note  # noqa: E402
from edgespec_tui.widgets.reply import Reply  # noqa: E402
from scripted_engine import CODE, Opener, ScriptedEngine, Step, loaded, model, reply, words  # noqa: E402
from textual.pilot import Pilot  # noqa: E402

from edgespec.engine.messages import GenerateOptions, LoadOptions, PrefillDone  # noqa: E402
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


async def ask(pilot: Pilot[None], text: str) -> None:
    """Send a message."""
    screen = pilot.app.screen
    box = screen.query_one(Composer)
    box.cursor_blink = False
    await until(pilot, lambda: any("Ready" in str(note.render()) for note in screen.query(Note)))
    box.load_text(text)
    await pilot.press("enter")


async def streaming(pilot: Pilot[None]) -> None:
    """In the middle of a reply."""
    await ask(pilot, QUESTION)
    await until(pilot, lambda: any("return" in said.text for said in pilot.app.screen.query(Reply)))


async def tokens(pilot: Pilot[None]) -> None:
    """A finished reply in the token view."""
    await ask(pilot, QUESTION)
    await until(pilot, lambda: any(said.text.endswith("```") for said in pilot.app.screen.query(Reply)))


PICTURES: dict[str, tuple[Callable[[], EdgeSpecApp], Callable[[Pilot[None]], Awaitable[None]]]] = {
    "chat": (lambda: make_app([PrefillDone(1, Prefilled(42, 0, 0.2)), *CODE[:7], Flag()]), streaming),
    "tokens": (lambda: make_app(reply(CODE), reply(words("ok"))), tokens),
}


async def draw(name: str, folder: Path) -> Path:
    """Draw one picture."""
    make, run = PICTURES[name]
    app = make()
    async with app.run_test(size=SIZE) as pilot:
        await run(pilot)
        await pilot.pause()
        path = folder / f"{name}.svg"
        path.write_text(app.export_screenshot(title=f"edgespec {name}"), encoding="utf-8")
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
    with tempfile.TemporaryDirectory() as data:
        os.environ |= {"XDG_DATA_HOME": data, "XDG_CONFIG_HOME": data, "XDG_STATE_HOME": data}
        for name in wanted.names or PICTURES:
            print(asyncio.run(draw(name, wanted.folder)))


if __name__ == "__main__":
    main()
