"""The engine's thread: everything that waits for the engine waits here, so that the app never does."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from queue import SimpleQueue
from threading import Event as Flag
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, cast

from textual.message import Message as AppMessage

from edgespec.engine.messages import (
    Candidate,
    EngineLost,
    Event,
    Failed,
    GenerateOptions,
    GenerationDone,
    Loaded,
    LoadOptions,
    Message,
)
from edgespec.errors import EdgeSpecError
from edgespec_tui.messages import ComparisonRefused, EngineReady, EngineRefused, EventsWaiting

if TYPE_CHECKING:
    from edgespec.compare import CompareEvent, ComparePlan
    from edgespec.engine.client import Engine

PATIENCE = 3.0
"""An engine that was told to stop this many seconds ago and has not is ended if it is told again."""

Post = Callable[[AppMessage], object]
T = TypeVar("T")


class EngineLike(Protocol):
    """What the app uses of `edgespec.engine.client.Engine`."""

    @property
    def loaded(self) -> Loaded: ...

    @property
    def pid(self) -> int: ...

    def generate(self, prompt: tuple[Message, ...], options: GenerateOptions) -> Iterator[Event]: ...

    def examine(self, prompt: tuple[Message, ...], reply: Sequence[int] = ()) -> tuple[Candidate, ...]: ...

    def cancel(self) -> None: ...

    def close(self) -> None: ...


OpenEngine = Callable[[LoadOptions], EngineLike]


def open_engine(options: LoadOptions) -> EngineLike:
    """Start the real engine."""
    from edgespec.engine.client import Engine

    return cast(EngineLike, Engine(options))


class Feed(Generic[T]):
    """Events on their way to a screen: it is told once that some wait, and takes all of them when it likes.

    So the screen decides how often it draws.
    """

    def __init__(self, post: Post) -> None:
        self._post = post
        self._events: deque[T] = deque()
        self._announced = Flag()

    def put(self, event: T, *, last: bool) -> None:
        """Add an event; the last one of a reply is always announced."""
        self._events.append(event)
        if last or not self._announced.is_set():
            self._announced.set()
            self._post(EventsWaiting(last))

    def take(self) -> list[T]:
        """All events since the last call."""
        self._announced.clear()
        return [self._events.popleft() for _ in range(len(self._events))]


class Runner:
    """Owns the engine and the one thread that talks to it.

    Methods return at once. What comes back: EngineReady and EngineRefused as messages, the events of replies in a feed
    that `take` empties, those of a comparison in the feed of the screen that asked for it.
    """

    def __init__(self, post: Post, opener: OpenEngine = open_engine) -> None:
        self._post = post
        self._opener = opener
        self._engine: EngineLike | None = None
        self._reply = 0
        self._cancelled = 0
        self._cancelled_at = 0.0
        self._ended = False
        self._feed: Feed[tuple[int, Event]] = Feed(post)
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name="engine", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int | None:
        """The engine's process; None while there is none."""
        try:
            return self._engine.pid if self._engine is not None else None
        except EdgeSpecError:
            return None

    def load(self, options: LoadOptions) -> None:
        """Start the engine with these models, in place of those it has."""
        self._jobs.put(lambda: self._load(options))

    def generate(self, messages: tuple[Message, ...], options: GenerateOptions) -> int:
        """Start a reply; its number comes with every event of it."""
        self._reply += 1
        reply = self._reply
        self._jobs.put(lambda: self._generate(reply, messages, options))
        return reply

    def compare(self, plan: ComparePlan, post: Post) -> Feed[CompareEvent]:
        """Start a comparison; its events come in this feed, or ComparisonRefused if it cannot run."""
        self._reply += 1
        reply = self._reply
        feed: Feed[CompareEvent] = Feed(post)
        self._jobs.put(lambda: self._compare(reply, plan, feed, post))
        return feed

    def cancel(self) -> None:
        """Stop the reply or comparison in progress, or the one about to start; if that did not help, end the engine."""
        if self._cancelled != self._reply:
            self._cancelled, self._cancelled_at = self._reply, monotonic()
        elif monotonic() - self._cancelled_at > PATIENCE:
            self.end_engine()
        if (engine := self._engine) is not None:
            engine.cancel()

    def end_engine(self) -> None:
        """Kill the engine's process: it loads too long, or obeys nothing. The next message or load starts it again.

        An engine that still loads is known to nobody yet, so it is looked for among this process's children.
        """
        import psutil

        self._ended = True
        known = self.pid
        with suppress(psutil.Error):
            for child in psutil.Process().children():
                if known is None or child.pid == known:
                    child.kill()

    def take(self) -> list[tuple[int, Event]]:
        """All events of replies since the last call, each with its reply's number."""
        return self._feed.take()

    def close(self, timeout: float = 3.0) -> None:
        """Stop the engine; if it does not end within `timeout` seconds, kill it."""
        self.cancel()
        self._jobs.put(None)
        self._thread.join(timeout)
        if self._thread.is_alive():
            self.end_engine()
            self._thread.join(timeout)

    # On the engine's thread

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
        if self._engine is not None:
            self._engine.close()

    def _load(self, options: LoadOptions) -> None:
        try:
            if self._engine is not None:
                self._engine.close()
                self._engine = None
            self._ended = False
            self._engine = self._opener(options)
        except EdgeSpecError as error:
            message, hint = ("Loading was stopped.", "") if self._ended else (error.message, error.hint)
            self._post(EngineRefused(options, message, hint))
        except Exception as error:
            self._post(EngineRefused(options, _unforeseen(error), ""))
        else:
            self._post(EngineReady(options, self._engine.loaded))

    def _generate(self, reply: int, messages: tuple[Message, ...], options: GenerateOptions) -> None:
        try:
            events = self._need_engine().generate(messages, options)
            if self._cancelled == reply:
                self._need_engine().cancel()
            event: Event | None = None
            for event in events:
                self._tell(reply, event)
            if not isinstance(event, GenerationDone | Failed | EngineLost):
                self._tell(reply, Failed(None, "EngineError", "The engine fell silent.", "Send the message again."))
        except EdgeSpecError as error:
            self._tell(reply, Failed(None, type(error).__name__, error.message, error.hint))
        except Exception as error:
            self._tell(reply, Failed(None, type(error).__name__, _unforeseen(error), ""))

    def _compare(self, reply: int, plan: ComparePlan, feed: Feed[CompareEvent], post: Post) -> None:
        from edgespec.compare import CompareDone, compare

        try:
            engine = cast("Engine", self._need_engine())
            for event in compare(engine, plan, cancelled=lambda: self._cancelled == reply):
                feed.put(event, last=isinstance(event, CompareDone))
        except EdgeSpecError as error:
            post(ComparisonRefused(error.message, error.hint))
        except Exception as error:
            post(ComparisonRefused(_unforeseen(error), ""))

    def _need_engine(self) -> EngineLike:
        if self._engine is None:
            raise EdgeSpecError("No model is loaded.", "F6 in the chat lists models.")
        return self._engine

    def _tell(self, reply: int, event: Event) -> None:
        self._feed.put((reply, event), last=isinstance(event, GenerationDone | Failed | EngineLost))


def _unforeseen(error: Exception) -> str:
    return f"Something unforeseen went wrong: {type(error).__name__}: {error}"
