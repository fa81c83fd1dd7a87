"""A chat's figures: all its replies together."""

from __future__ import annotations

from dataclasses import dataclass

from edgespec_tui.record import ChatRecord


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the replies that ran to an end."""

    replies: int = 0
    tokens: int = 0
    seconds: float = 0.0
    drafted: int = 0
    accepted: int = 0

    @property
    def rate(self) -> float | None:
        """Tokens per second."""
        return self.tokens / self.seconds if self.seconds else None


def totals_of(record: ChatRecord) -> Totals:
    """What this chat comes to."""
    stats = [trace.stats for trace in record.traces.values() if trace.stats]
    return Totals(
        len(stats),
        sum(each.get("emitted_tokens", 0) for each in stats),
        sum(each.get("decode_seconds", 0.0) for each in stats),
        sum(each.get("drafted", 0) for each in stats),
        sum(each.get("accepted", 0) for each in stats),
    )
