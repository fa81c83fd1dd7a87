"""What a reply's rounds have gained and cost so far: the source of auto mode's caution."""

from __future__ import annotations

from dataclasses import replace
from math import exp

from edgespec.decoding.auto_report import Use
from edgespec.decoding.choice import Risk

LOOKUP, DRAFT, NOTHING = "lookup", "draft", "plain"
"""What a round can use."""
TRIAL_SHARE = 0.01
"""Part of a reply's time that may go into drafts that are not expected to pay."""
FIRST_TRIALS = 0.25
"""The same at a reply's beginning, in plain steps."""
EXPLORATION = 1.5
"""Plain steps that a reply may lose to a draft model that is not known yet, trials included."""
CAUTION = 0.6
"""Plain steps that a round may lose on average by a draft that is all wrong, in a reply that has lost nothing yet."""
PATIENCE = 3.0
"""A reply that has lost so many plain steps is more cautious by a factor of e."""
BOLDNESS = 0.1
"""How much of what a reply has saved may be risked beside."""
MEMORY = 0.95
"""How much earlier draft rounds still count in their speed, at the next one."""
FASTEST = 4.0
"""Speeds beyond this are luck."""


class Ledger:
    """Books every round in plain steps.

    A reply that loses becomes cautious and one that gains becomes bold, but neither ever stops: a bound on the losses
    that have come about would end a good drafter's work after the first bad luck.

    Attributes:
        saved: plain steps saved so far, negative if lost.
        tokens: emitted so far.
        steps: time so far, in plain steps.
        draft_speed: tokens that a plain step's time brings lately in rounds with the draft model; at least 1.
        uses: the same by what was used.
    """

    def __init__(self) -> None:
        self.saved = 0.0
        self.tokens = 0
        self.steps = 0.0
        self.draft_speed = 1.0
        self.uses: dict[str, Use] = {}
        self._trials = FIRST_TRIALS
        self._recent_tokens = self._recent_steps = 2.0

    def book(self, source: str, drafted: int, accepted: int, tokens: int, cost: float) -> None:
        """One more round: what was used, draft tokens checked and kept, tokens emitted, its time in plain steps."""
        use = self.uses.get(source) or Use(source)
        self.uses[source] = replace(
            use, rounds=use.rounds + 1, drafted=use.drafted + drafted, accepted=use.accepted + accepted,
            tokens=use.tokens + tokens, steps=use.steps + cost,
        )  # fmt: skip
        self.saved += tokens - cost
        self.tokens += tokens
        self.steps += cost
        self._trials += TRIAL_SHARE * cost
        if source == DRAFT:
            self._recent_tokens = MEMORY * self._recent_tokens + tokens
            self._recent_steps = MEMORY * self._recent_steps + cost
            self.draft_speed = min(FASTEST, max(1.0, self._recent_tokens / self._recent_steps))

    @property
    def risk(self) -> Risk:
        """What a round may lose by a draft that is all wrong."""
        return Risk(CAUTION * exp(min(0.0, self.saved) / PATIENCE) + BOLDNESS * max(0.0, self.saved))

    @property
    def risk_with_unknown(self) -> Risk:
        """The same for a drafter that nothing is known about: all that it loses comes out of one purse."""
        return replace(self.risk, loss=max(0.0, EXPLORATION + self.saved))

    def can_try(self, cost: float, *, pair_known: bool) -> bool:
        """May a draft of this cost be tried that is not expected to pay? If so, it is paid for."""
        if cost > self._trials + (0.0 if pair_known else max(0.0, EXPLORATION + self.saved)):
            return False
        self._trials -= cost
        return True
