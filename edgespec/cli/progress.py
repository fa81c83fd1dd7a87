"""Draws what happens during a download: bars on a terminal, else a line where something begins, waits or ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from edgespec.cli.output import say

if TYPE_CHECKING:
    from edgespec.models.download import Report
    from edgespec.models.events import DownloadEvent


@contextmanager
def progress(terminal: bool) -> Iterator[Report]:
    """Draws download events on stderr: bars on a terminal, else a line where something begins, waits or ends."""
    if not terminal:
        yield _say_event
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn(),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True, markup=False, highlight=False)) as bars:
        yield _Bars(bars)


class _Bars:
    """One bar a file."""

    def __init__(self, bars: Any) -> None:
        self._bars = bars
        self._tasks: dict[str, Any] = {}

    def __call__(self, event: DownloadEvent) -> None:
        from edgespec.models import events as e

        match event:
            case e.FileStarted(name, held, total):
                task = self._tasks.get(name)
                if task is None:
                    self._tasks[name] = self._bars.add_task(name, total=total, completed=held)
                else:
                    self._bars.update(task, description=name, total=total, completed=held)
            case e.FileProgress(name, done, total):
                self._bars.update(self._tasks[name], description=name, completed=done, total=total)
            case e.FileChecking(name, done, total):
                if name not in self._tasks:
                    self._tasks[name] = self._bars.add_task(name, total=total)
                self._bars.update(self._tasks[name], description=f"{name} (checking)", completed=done, total=total)
            case e.FileDone(name, _, size, _, _):
                if name in self._tasks:
                    self._bars.update(self._tasks[name], completed=size, total=size)
            case _:
                _say_event(event)


def _say_event(event: DownloadEvent) -> None:
    from edgespec.models import events as e
    from edgespec.models.units import format_size

    match event:
        case e.FileStarted(name, held, _) if held:
            say(f"{name}: continuing behind {format_size(held)}.")
        case e.FileStarted(name, _, _):
            say(f"{name}: started.")
        case e.FileWaiting(name, seconds, reason):
            say(f"{name}: {reason}" + (f" Waiting {seconds:.0f} s." if seconds else ""))
        case e.FileRestarted(name, reason):
            say(f"{name}: from the beginning, because {reason}.")
        case e.FileDone(name, _, _, fetched, _) if fetched:
            say(f"{name}: done and checked.")
