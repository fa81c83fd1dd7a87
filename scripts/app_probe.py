"""The app with instruments, started by bench_app.py in a terminal of its own.

    python app_probe.py FOLDER stub RATE MODE MAX_TOKENS
    python app_probe.py FOLDER real FLAGS OF edgespec chat ...

Writes into FOLDER: `ready` once the models are loaded, `reply-N.json` once the N-th reply is drawn to its end,
`race.json` at the end of a replay. On the stub a thread asks the event loop 20 times a second how late it is; beside a
real engine nothing is added but two looks at the clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, process_time, sleep
from typing import Any

import edgespec_tui.app
from edgespec_tui.app import EdgeSpecApp
from edgespec_tui.screens.compare import CompareScreen
from edgespec_tui.screens.compare_setup import CompareSetup
from textual.widgets import Input

from edgespec.engine.client import Engine
from edgespec.engine.messages import Event, GenerateOptions, GenerationDone, LoadOptions, RoundDone
from edgespec.types import Mode

LOOK_EVERY = 0.05


class WatchedEngine(Engine):
    """Notes when a reply was asked for, when it came, and what the app's process had used by then."""

    replies: list[dict[str, Any]] = []  # noqa: RUF012 - one for the process

    def generate(self, prompt: Any, options: GenerateOptions = GenerateOptions()) -> Any:  # noqa: B008 - frozen
        return self._watch(super().generate(prompt, options))

    def _watch(self, events: Iterator[Event]) -> Iterator[Event]:
        seen: dict[str, Any] = {"asked": monotonic()}
        spans: list[tuple[int, float]] = []
        for event in events:
            if isinstance(event, RoundDone):
                if not spans:
                    seen |= {"first": monotonic(), "cpu_first": process_time()}
                spans.append((len(event.round.tokens), event.round.verify_seconds))
            elif isinstance(event, GenerationDone):
                stats = event.stats
                seen |= {
                    "done": monotonic(), "cpu_done": process_time(), "spans": spans, "text": event.text,
                    "prompt_seconds": stats.prompt_seconds, "decode_seconds": stats.decode_seconds,
                    "emitted": stats.emitted_tokens,
                }  # fmt: skip
                self.replies.append(seen)
            yield event


class ProbedApp(EdgeSpecApp):
    """The app itself; a thread beside it looks and writes."""

    CSS_PATH = str(Path(edgespec_tui.app.__file__).with_name("edgespec.tcss"))

    folder = Path()
    command: tuple[str, ...] | None = None
    race_tokens = 0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options, opener=self._open)
        self._lags: list[tuple[float, float, float]] = []

    def _open(self, options: LoadOptions) -> WatchedEngine:
        engine = WatchedEngine(options) if self.command is None else WatchedEngine(options, command=self.command)
        write(self.folder / "ready", {})
        return engine

    def on_mount(self) -> None:
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._look, args=(loop,), daemon=True).start()

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        written, raced = 0, False
        while True:
            sleep(LOOK_EVERY)
            if self.command is not None:
                with contextlib.suppress(RuntimeError):  # the loop is closed: the app ends
                    loop.call_soon_threadsafe(self._note_lag, monotonic())
                    loop.call_soon_threadsafe(self._shorten_race)
            replies = WatchedEngine.replies
            if len(replies) > written and not self._chat.replying:
                written += 1
                own = {"drawn": monotonic(), "lags": list(self._lags)}
                write(self.folder / f"reply-{written}.json", replies[written - 1] | own)
            if not raced and (race := self._race()) is not None and not race.playing and race.position > 0:
                raced = True
                write(self.folder / "race.json", {"ended": monotonic(), "seconds": race.duration, "lags": self._lags})

    def _note_lag(self, asked: float) -> None:
        now = monotonic()
        self._lags.append((now, now - asked, process_time()))

    def _race(self) -> Any:
        screen = self.screen_stack[-1] if self.screen_stack else None
        return screen.race if isinstance(screen, CompareScreen) else None

    def _shorten_race(self) -> None:
        """The race is to be run once, at the length that was asked for."""
        screen = self.screen_stack[-1] if self.screen_stack else None
        if isinstance(screen, CompareSetup):
            for name, value in (("repeats", 1), ("tokens", self.race_tokens)):
                for field in screen.query(f"#{name}").results(Input):
                    field.value = str(value)


def write(path: Path, content: dict[str, Any]) -> None:
    """Write a file that is whole as soon as it is there."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(content), "utf-8")
    os.replace(partial, path)


def run_on_stub(rate: str, mode: str, max_tokens: int) -> None:
    """The app on the stub."""
    ProbedApp.command = (sys.executable, str(Path(__file__).with_name("app_stub.py")), rate)
    ProbedApp.race_tokens = max_tokens
    ProbedApp(LoadOptions("stub.gguf"), GenerateOptions(mode=Mode(mode), max_tokens=max_tokens)).run()


def run_for_real(flags: list[str]) -> None:
    """`edgespec chat` with these flags."""
    from edgespec.cli.main import main

    edgespec_tui.app.EdgeSpecApp = ProbedApp  # type: ignore[misc]
    sys.argv = ["edgespec", "chat", *flags]
    main()


if __name__ == "__main__":
    ProbedApp.folder = Path(sys.argv[1])
    if sys.argv[2] == "stub":
        run_on_stub(sys.argv[3], sys.argv[4], int(sys.argv[5]))
    else:
        run_for_real(sys.argv[3:])
