"""The engine's thread: everything that waits for the engine waits here, so that the app never does."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from threading import Event as Flag
from threading import Thread
from typing import Protocol

from textual.message import Message as AppMessage

from edgespec.engine.messages import (
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
from edgespec_tui.messages import EngineReady, EngineRefused, EventsWaiting


class EngineLike(Protocol):
    """What the app uses of `edgespec.engine.client.Engine`."""

    @property
    def loaded(self) -> Loaded: ...

    def generate(self, prompt: tuple[Message, ...], options: GenerateOptions) -> Iterator[Event]: ...

    def cancel(self) -> None: ...

    def close(self) -> None: ...


OpenEngine = Callable[[LoadOptions], EngineLike]


def open_engine(options: LoadOptions) -> EngineLike:
    """Start the real engine."""
    from edgespec.engine.client import Engine

    return Engine(options)


class Runner:
    """Owns the engine and the one thread that talks to it.

    Methods return at once. What comes back: EngineReady and EngineRefused as messages, and the events of replies in a
    queue that `take` empties; EventsWaiting says that it holds something. So the app decides how often it draws.
    """

    def __init__(self, post: Callable[[AppMessage], object], opener: OpenEngine = open_engine) -> None:
        self._post = post
        self._opener = opener
        self._engine: EngineLike | None = None
        self._reply = 0
        self._cancelled = 0
        self._events: deque[tuple[int, Event]] = deque()
        self._announced = Flag()
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name="engine", daemon=True)
        self._thread.start()

    def load(self, options: LoadOptions) -> None:
        """Start the engine with these models, in place of those it has."""
        self._jobs.put(lambda: self._load(options))

    def generate(self, messages: tuple[Message, ...], options: GenerateOptions) -> int:
        """Start a reply; its number comes with every event of it."""
        self._reply += 1
        reply = self._reply
        self._jobs.put(lambda: self._generate(reply, messages, options))
        return reply

    def cancel(self) -> None:
        """Stop the reply in progress, or the one about to start."""
        self._cancelled = self._reply
        if (engine := self._engine) is not None:
            engine.cancel()

    def take(self) -> list[tuple[int, Event]]:
        """All events since the last call, each with its reply's number."""
        self._announced.clear()
        return [self._events.popleft() for _ in range(len(self._events))]

    def close(self, timeout: float = 3.0) -> None:
        """Stop the engine; give up waiting after `timeout` seconds, the process ends with the app anyway."""
        self.cancel()
        self._jobs.put(None)
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
            self._engine = self._opener(options)
        except EdgeSpecError as error:
            self._post(EngineRefused(error.message, error.hint))
        except Exception as error:
            self._post(EngineRefused(_unforeseen(error), ""))
        else:
            self._post(EngineReady(self._engine.loaded))

    def _generate(self, reply: int, messages: tuple[Message, ...], options: GenerateOptions) -> None:
        try:
            if self._engine is None:
                raise EdgeSpecError("No model is loaded.", "Start again with another --model.")
            events = self._engine.generate(messages, options)
            if self._cancelled == reply:
                self._engine.cancel()
            event: Event | None = None
            for event in events:
                self._tell(reply, event)
            if not isinstance(event, GenerationDone | Failed | EngineLost):
                self._tell(reply, Failed(None, "EngineError", "The engine fell silent.", "Send the message again."))
        except EdgeSpecError as error:
            self._tell(reply, Failed(None, type(error).__name__, error.message, error.hint))
        except Exception as error:
            self._tell(reply, Failed(None, type(error).__name__, _unforeseen(error), ""))

    def _tell(self, reply: int, event: Event) -> None:
        self._events.append((reply, event))
        last = isinstance(event, GenerationDone | Failed | EngineLost)
        if last or not self._announced.is_set():
            self._announced.set()
            self._post(EventsWaiting(last))


def _unforeseen(error: Exception) -> str:
    return f"Something unforeseen went wrong: {type(error).__name__}: {error}"
