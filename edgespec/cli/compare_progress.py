"""How far a comparison is, on stderr."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from time import monotonic
from typing import TYPE_CHECKING, Any

from edgespec.cli.output import say

if TYPE_CHECKING:
    from edgespec.compare import CompareEvent, CompareStarted

_DRAW_SECONDS = 0.5
"""Progress is drawn no more often: drawing takes time from the engine that is being measured."""


def shown(events: Iterator[CompareEvent], told: Collection[str] = ()) -> Iterator[CompareEvent]:
    """Pass events on, and tell about them on stderr: a bar on a terminal, else a line for every run.

    What was `told` before the models were loaded is not told again.
    """
    from edgespec.compare import CompareNotice, CompareStarted, RunFinished

    bar: Bar | None = None
    try:
        for event in events:
            match event:
                case CompareStarted(notices=notices):
                    for notice in dict.fromkeys(notices):
                        if notice not in told:
                            say(notice)
                    bar = Bar(event) if sys.stderr.isatty() else None
                case CompareNotice(text=text) if bar is None:
                    say(text)
                case RunFinished(key=key, run=run) if bar is None and not key.warm_up:
                    say(f"{key.number} {key.prompt.id} {key.contestant.name}: {speed(run.stats)}")
            if bar is not None:
                bar.follow(event)
            yield event
    finally:
        if bar is not None:
            bar.close()


def speed(stats: Any) -> str:
    """Decode speed in words."""
    rate = stats.decode_tokens_per_second
    return "no speed" if rate is None else f"{rate:.1f} tokens/s"


class Bar:
    """A progress bar on stderr that draws seldom."""

    def __init__(self, started: CompareStarted) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            auto_refresh=False,
            transient=True,
        )
        self._task = self._progress.add_task("warming up", total=started.runs)
        self._drawn = 0.0
        self._progress.start()

    def follow(self, event: CompareEvent) -> None:
        """Show what this event changes, at most every so often."""
        from edgespec.compare import CompareNotice, RunFinished, RunRound, RunStarted
        from edgespec.terminal import printable

        match event:
            case RunStarted(key=key) if not key.warm_up:
                name = printable(f"{key.prompt.id} · {key.contestant.name} · {key.repeat + 1}")
                self._progress.update(self._task, description=name)
            case RunFinished(key=key) if not key.warm_up:
                self._progress.advance(self._task)
            case RunRound():
                pass
            case CompareNotice(text=text):
                self._progress.console.print(printable(text), markup=False, highlight=False)
            case _:
                return
        if monotonic() - self._drawn >= _DRAW_SECONDS:
            self._progress.refresh()
            self._drawn = monotonic()

    def close(self) -> None:
        """Take the bar away."""
        self._progress.stop()
