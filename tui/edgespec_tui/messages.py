"""What the engine's thread tells the app."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from edgespec.engine.messages import Loaded, LoadOptions


@dataclass
class EventsWaiting(Message):
    """There are events to take from the runner; how many does not matter, one look takes all.

    Attributes:
        now: draw them at once: the reply's last event is among them, or they have waited long enough.
    """

    now: bool = False

    def can_replace(self, message: Message) -> bool:
        """May this one, still queued, give way to a newer one? Not to a less urgent one."""
        return isinstance(message, EventsWaiting) and (message.now or not self.now)


@dataclass
class EngineReady(Message):
    """The models are loaded, or the engine is back."""

    load: LoadOptions
    loaded: Loaded


@dataclass
class EngineRefused(Message):
    """The engine could not be started or the models not be loaded."""

    load: LoadOptions
    message: str
    hint: str


@dataclass
class ComparisonRefused(Message):
    """The comparison cannot run, or broke down."""

    message: str
    hint: str
