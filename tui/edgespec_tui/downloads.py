"""Downloads for the models screen: what the engine room of `edgespec download` does, told as messages."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from textual.message import Message

from edgespec.errors import EdgeSpecError
from edgespec.models import consent
from edgespec.models.aftercheck import examine
from edgespec.models.download import fetch, plan_pair, require_space
from edgespec.models.events import (
    DownloadEvent,
    FileChecking,
    FileDone,
    FileProgress,
    FileRestarted,
    FileStarted,
    FileWaiting,
)
from edgespec.models.hub import Hub, HubOptions
from edgespec.models.plan import DownloadPlan
from edgespec.models.registry import Licence, Pair, Registry
from edgespec.models.units import format_size
from edgespec_tui.shelf import CONTEXT
from edgespec_tui.widgets.download_bar import Rate

Post = Callable[[Message], object]


@dataclass
class DownloadPlanned(Message):
    """What is to be fetched, and the licences that were not agreed to yet: to be agreed to."""

    plan: DownloadPlan
    licences: tuple[Licence, ...]


@dataclass
class DownloadProgress(Message):
    """Bytes that are here, and a remark if nothing moves; a newer one replaces those waiting."""

    done: int
    total: int | None
    remark: str = ""

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, DownloadProgress)


@dataclass
class DownloadOver(Message):
    """It ended: well, or with a sentence on why not."""

    sentences: tuple[str, ...]
    failed: bool = False


class Download:
    """One pair on its way. Methods return at once; `plan` is answered by DownloadPlanned or DownloadOver."""

    def __init__(self, pair: Pair, registry: Registry, post: Post) -> None:
        self.pair = pair
        self._registry = registry
        self._post = post
        self._cancelled = threading.Event()

    def plan(self) -> None:
        """Ask the Hub what there is."""
        self._start(self._plan)

    def fetch(self, planned: DownloadPlanned) -> None:
        """Fetch it; the licences count as agreed to."""
        self._start(lambda: self._fetch(planned))

    def cancel(self) -> None:
        """Stop; what is here is kept."""
        self._cancelled.set()

    def _start(self, job: Callable[[], None]) -> None:
        threading.Thread(target=self._guarded, args=(job,), name="download", daemon=True).start()

    def _guarded(self, job: Callable[[], None]) -> None:
        try:
            job()
        except EdgeSpecError as error:
            hint = "D goes on from there." if self._cancelled.is_set() else error.hint
            self._post(DownloadOver((error.message, hint), failed=True))
        except Exception as error:
            self._post(DownloadOver((f"Something unforeseen went wrong: {type(error).__name__}: {error}",), True))

    def _hub(self) -> Hub:
        hub = Hub(HubOptions.from_environment())
        hub.cancelled = self._cancelled
        return hub

    def _plan(self) -> None:
        hub = self._hub()
        plan = plan_pair(self.pair, hub)
        require_space(plan, hub.options.cache)
        known = consent.agreed()
        new = tuple(licence for licence in self._registry.to_ask(self.pair) if licence.id not in known)
        stopped = self._cancelled.is_set()
        self._post(DownloadOver(("Nothing was fetched.",)) if stopped else DownloadPlanned(plan, new))

    def _fetch(self, planned: DownloadPlanned) -> None:
        if planned.licences:
            consent.remember(licence.id for licence in planned.licences)
        paths = fetch(planned.plan, self._hub(), _Reporter(planned.plan, self._post), self._cancelled)
        self._post(DownloadOver(tuple(self._checked(paths))))

    def _checked(self, paths: list[Path]) -> list[str]:
        count = len(self.pair.target.parts) if self.pair.target else len(paths)
        found = examine(paths[0], paths[count] if len(paths) > count else None, CONTEXT, self.pair)
        if found.problem is not None:
            raise found.problem
        return [f"{self.pair.id} is here; Enter uses it.", *found.good]


DownloadMessage = DownloadPlanned | DownloadProgress | DownloadOver


class Downloads:
    """The app's one download at a time: it goes on whichever screen is shown.

    The app hands every message of the download to `take` before any screen looks at it.

    Attributes:
        current: the download; None while there is none.
        planned: what waits for a yes.
        progress: how far it is, once something moves.
        rate: bytes per second, None while unknown.
    """

    def __init__(self, post: Post) -> None:
        self._post = post
        self._rate = Rate()
        self.current: Download | None = None
        self.planned: DownloadPlanned | None = None
        self.progress: DownloadProgress | None = None
        self.rate: float | None = None

    def plan(self, pair: Pair, registry: Registry) -> None:
        """Ask what there is to fetch."""
        self.current = Download(pair, registry, self._post)
        self.current.plan()

    def agree(self) -> bool:
        """Fetch what was planned; False if nothing was."""
        planned, self.planned = self.planned, None
        if planned is None or self.current is None:
            return False
        self._rate = Rate()
        self.progress = DownloadProgress(0, planned.plan.size)
        self.current.fetch(planned)
        return True

    def decline(self) -> None:
        """Fetch nothing of what was planned."""
        self.current = self.planned = None

    def stop(self) -> None:
        """Stop what is under way; what is here is kept."""
        if self.current is not None:
            self.current.cancel()

    def take(self, message: DownloadMessage) -> None:
        """Note what happened."""
        match message:
            case DownloadPlanned():
                self.planned = message
            case DownloadProgress():
                self.progress, self.rate = message, self._rate.add(message.done)
            case DownloadOver():
                self.current = self.planned = self.progress = self.rate = None

    @property
    def name(self) -> str:
        """The pair's."""
        return self.current.pair.id if self.current is not None else ""

    @property
    def mark(self) -> str:
        """A few characters for other screens; "" while nothing is on its way."""
        if self.planned is not None:
            return "↓ waits"
        if self.progress is None:
            return ""
        total = self.progress.total
        return f"↓ {min(self.progress.done, total) / total:.0%}" if total else f"↓ {format_size(self.progress.done)}"


class _Reporter:
    """Adds the files of a plan up to one progress."""

    def __init__(self, plan: DownloadPlan, post: Post) -> None:
        self._total, self._post = plan.size, post
        self._finished = 0

    def __call__(self, event: DownloadEvent) -> None:
        match event:
            case FileStarted(held=done) | FileProgress(done=done):
                self._tell(done)
            case FileChecking(name=name, done=done):
                self._tell(done, f"checking {name}")
            case FileWaiting(reason=reason):
                self._post(DownloadProgress(self._finished, self._total, reason))
            case FileRestarted(reason=reason):
                self._tell(0, reason)
            case FileDone(size=size):
                self._finished += size
                self._tell(0)

    def _tell(self, done: int, remark: str = "") -> None:
        self._post(DownloadProgress(self._finished + done, self._total, remark))
