"""A chat with the history of its replies: what was said, and how every token came about."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from edgespec.chat import Conversation
from edgespec.engine.messages import Message, RoundDone
from edgespec.types import Draft, Judged, Origin, Round, RoundDetails, Verdict
from edgespec_tui.text import one_line

LONGEST_TITLE = 60
FORMAT = 1


@dataclass(frozen=True, slots=True)
class ReplyTrace:
    """How one reply came about.

    Attributes:
        rounds: its rounds, oldest first.
        line: its figures in one line, as they stood under it.
        stats: its figures by name; empty if the reply did not end by itself.
    """

    rounds: tuple[RoundDone, ...] = ()
    line: str = ""
    stats: dict[str, Any] = field(default_factory=dict)


class ChatRecord:
    """One chat: its turns, and the trace of each reply by the reply's place among them."""

    def __init__(self, system: str | None = None) -> None:
        now = datetime.now().astimezone()
        self.id = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
        self.title = ""
        self.model = ""
        self.changed = now.isoformat(timespec="seconds")
        self.conversation = Conversation(system)
        self.traces: dict[int, ReplyTrace] = {}

    @property
    def system(self) -> str | None:
        """The system text."""
        return self.conversation.system

    @property
    def turns(self) -> tuple[Message, ...]:
        """What was said, oldest first."""
        return self.conversation.turns

    @property
    def last_question(self) -> str | None:
        """The last thing the user said."""
        return next((turn.content for turn in reversed(self.turns) if turn.role == "user"), None)

    def ask(self, text: str) -> None:
        """Add a question; the first one gives the chat its title."""
        self.conversation = self.conversation.add_user(text)
        if not self.title:
            first = one_line(text.strip().split("\n", 1)[0])
            self.title = first if len(first) <= LONGEST_TITLE else first[: LONGEST_TITLE - 1] + "…"

    def answer(self, text: str, trace: ReplyTrace) -> None:
        """Add a reply; one that says nothing leaves no turn."""
        before = len(self.turns)
        self.conversation = self.conversation.add_assistant(text)
        if len(self.turns) > before:
            self.traces[before] = trace

    def undo(self) -> None:
        """Drop the last question and what was answered."""
        self.conversation = self.conversation.undo()
        self.traces = {i: trace for i, trace in self.traces.items() if i < len(self.turns)}

    def set_system(self, text: str | None) -> None:
        """Change the system text."""
        self.conversation = self.conversation.with_system(text)

    # As data

    def to_json(self) -> dict[str, Any]:
        """The chat as JSON can hold it."""
        turns = []
        for i, turn in enumerate(self.turns):
            item: dict[str, Any] = {"role": turn.role, "content": turn.content}
            if (trace := self.traces.get(i)) is not None:
                item |= {"line": trace.line, "stats": trace.stats}
                item["rounds_trace"] = [_round_to_json(event) for event in trace.rounds]
            turns.append(item)
        return {
            "format": FORMAT, "id": self.id, "title": self.title, "changed": self.changed, "model": self.model,
            "system": self.system, "turns": turns,
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ChatRecord:
        """The chat in this data. Raises KeyError, TypeError or ValueError if it is none."""
        if data["format"] != FORMAT:
            raise ValueError(f"format {data['format']}")
        record = cls(data["system"])
        for name in ("id", "title", "changed", "model"):
            setattr(record, name, str(data[name]))
        turns = tuple(Message(str(turn["role"]), str(turn["content"])) for turn in data["turns"])
        record.conversation = Conversation(record.system, turns)
        for i, turn in enumerate(data["turns"]):
            if "rounds_trace" in turn:
                rounds = tuple(_round_from_json(item) for item in turn["rounds_trace"])
                record.traces[i] = ReplyTrace(rounds, str(turn["line"]), dict(turn["stats"]))
        return record

    def to_markdown(self) -> str:
        """The chat as people read it."""
        parts = [f"# {self.title}", f"*{self.model}, {self.changed[:16].replace('T', ' ')}*"]
        if self.system:
            parts.append(f"**System:** {self.system}")
        for i, turn in enumerate(self.turns):
            parts.append(f"## {'You' if turn.role == 'user' else 'Model'}\n\n{turn.content.strip()}")
            if (trace := self.traces.get(i)) is not None and trace.line:
                parts.append(f"*{trace.line}*")
        return "\n\n".join(parts) + "\n"


def _round_to_json(event: RoundDone) -> dict[str, Any]:
    made = event.round
    return {
        "drafted": list(made.draft.tokens), "source": made.draft.source, "rejected": list(event.rejected),
        "accepted": made.verdict.accepted, "next_token": made.verdict.next_token, "kind": str(made.verdict.kind),
        "tokens": list(made.tokens), "texts": list(event.texts), "draft_seconds": made.draft_seconds,
        "verify_seconds": made.verify_seconds, "overhead_seconds": made.overhead_seconds, "index": made.index,
    } | ({} if event.details is None else {"details": _details_to_json(event.details)})  # fmt: skip


def _details_to_json(details: RoundDetails) -> dict[str, Any]:
    def of(opinion: Judged | None) -> list[float] | None:
        return None if opinion is None else [round(opinion.probability, 6), opinion.rank]

    return {
        "emitted": [*map(of, details.emitted)], "drafted": [*map(of, details.drafted)],
        "proposed": [None if each is None else round(each, 6) for each in details.proposed],
    }  # fmt: skip


def _details_from_json(item: dict[str, Any]) -> RoundDetails:
    def of(pair: Sequence[float]) -> Judged:
        return Judged(float(pair[0]), int(pair[1]))

    return RoundDetails(
        tuple(of(pair) for pair in item["emitted"]),
        tuple(None if pair is None else of(pair) for pair in item["drafted"]),
        tuple(None if each is None else float(each) for each in item["proposed"]),
    )


def _round_from_json(item: dict[str, Any]) -> RoundDone:
    texts = tuple(str(text) for text in item["texts"])
    made = Round(
        int(item["index"]),
        Draft(tuple(item["drafted"]), source=str(item["source"])),
        Verdict(int(item["accepted"]), int(item["next_token"]), Origin(item["kind"])),
        tuple(item["tokens"]),
        tuple(text.encode() for text in texts),
        float(item["draft_seconds"]),
        float(item["verify_seconds"]),
        float(item["overhead_seconds"]),
    )
    if not len(texts) == len(made.tokens) >= made.verdict.accepted >= 0:
        raise ValueError("a round whose parts do not fit")
    details = _details_from_json(item["details"]) if "details" in item else None
    return RoundDone(0, made, texts, tuple(str(text) for text in item["rejected"]), details=details)


def stats_to_json(stats: Any) -> dict[str, Any]:
    """Figures by their names."""
    return asdict(stats)
