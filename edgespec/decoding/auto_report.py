"""What auto mode did in a reply and what it went by, as values that can be shown."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Use:
    """What one drafter was used for in a reply.

    Attributes:
        source: `plain`, `lookup` or `draft`.
        rounds: in how many rounds it was chosen; of the draft model that includes those in which it was so unsure of
            its first token that nothing was submitted.
        drafted, accepted: draft tokens that the target checked; those kept.
        tokens: emitted in these rounds.
        steps: what they should have cost by the cost model, in plain steps.
    """

    source: str
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    tokens: int = 0
    steps: float = 0.0


@dataclass(frozen=True, slots=True)
class AutoReport:
    """How auto mode decided.

    Attributes:
        uses: one entry for each thing that was used, the most used one first.
        reason: why the last round did what it did.
        predicted_speedup: emitted tokens over their time in plain steps, by the cost model; None without rounds.
        curve: v(n), a pass of n tokens relative to one token, for the widths that were measured.
        draft_step: a draft step relative to a plain step (c); None without a draft model.
        plain_step_seconds: a plain step at this place; None if unknown.
    """

    uses: tuple[Use, ...]
    reason: str
    predicted_speedup: float | None
    curve: tuple[tuple[int, float], ...]
    draft_step: float | None
    plain_step_seconds: float | None
