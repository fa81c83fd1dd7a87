"""What the engine's thread tells the app."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from edgespec.engine.messages import Loaded


class Replaceable(Message):
    """A message that makes queued older ones of its kind pointless."""

    def can_replace(self, message: Message) -> bool:
        return type(message) is type(self)


class EventsWaiting(Replaceable):
    """There are events to take from the runner; how many does not matter, one look takes all."""


@dataclass
class EngineReady(Message):
    """The models are loaded, or the engine is back."""

    loaded: Loaded


@dataclass
class EngineRefused(Message):
    """The engine could not be started or the models not be loaded."""

    message: str
    hint: str
