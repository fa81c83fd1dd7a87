"""What a reply's rounds have gained and cost so far: the source of auto mode's caution."""

from __future__ import annotations

from dataclasses import replace

from edgespec.decoding.auto_report import Use

LOOKUP, DRAFT, NOTHING = "lookup", "draft", "plain"
"""What a round can use."""
TRIAL_SHARE = 0.01
"""Part of a reply's time that may go into drafts that are not expected to pay."""
FIRST_TRIALS = 0.25
"""The same at a reply's beginning, in plain steps."""
RISK = 1.5
"""Plain steps that a reply may lose against plain decoding, beside RISK_SHARE of its length."""
RISK_SHARE = 0.0075
MEMORY = 0.95
"""How much earlier draft rounds still count in their speed, at the next one."""
FASTEST = 4.0
"""Speeds beyond this are luck."""


class Ledger:
    """Books every round in plain steps.

    No round may cost more, should its draft be all wrong, than what the reply may still lose. So whatever the drafters
    do, a reply is not slower than plain decoding by more than RISK and RISK_SHARE.

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
    def most(self) -> float:
        """The dearest round that may be risked, if it brings one token only."""
        return 1.0 + self.saved + RISK + RISK_SHARE * self.tokens

    def can_try(self, cost: float) -> bool:
        """May a draft of this cost be tried that is not expected to pay? If so, it is paid for."""
        if cost > self._trials:
            return False
        self._trials -= cost
        return True
