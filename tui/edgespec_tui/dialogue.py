"""The conversation as the engine gets it: the system prompt and who said what."""

from __future__ import annotations

from dataclasses import dataclass, field

from edgespec.engine.messages import Message


@dataclass
class Dialogue:
    """Turns of one chat, oldest first."""

    system: str | None = None
    turns: list[Message] = field(default_factory=list)

    def ask(self, text: str) -> None:
        """Add the user's turn."""
        self.turns.append(Message("user", text))

    def answer(self, text: str) -> None:
        """Add the model's turn; a reply that was stopped before it said anything leaves none."""
        if text:
            self.turns.append(Message("assistant", text))

    def take_back(self) -> str | None:
        """Remove the last question with what was answered, and return it; None if there is none."""
        asked = max((i for i, turn in enumerate(self.turns) if turn.role == "user"), default=None)
        if asked is None:
            return None
        question = self.turns[asked].content
        del self.turns[asked:]
        return question

    @property
    def messages(self) -> tuple[Message, ...]:
        """What the engine is to answer."""
        system = (Message("system", self.system),) if self.system else ()
        return (*system, *self.turns)
