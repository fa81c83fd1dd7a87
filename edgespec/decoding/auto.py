"""Auto mode: every round, whichever drafter and length gain most here and now; plain decoding where nothing does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgespec.decoding.acceptance import Acceptance
from edgespec.decoding.auto_report import AutoReport
from edgespec.decoding.choice import PLAIN, DraftPlan, Extension, Option, best_copy
from edgespec.decoding.cost import CostModel
from edgespec.decoding.drafters.lookup import SuffixIndex
from edgespec.decoding.drafters.model import CATCH_UP, ModelDrafter
from edgespec.decoding.drafters.none import NO_DRAFT
from edgespec.decoding.ledger import DRAFT, LOOKUP, NOTHING, Ledger
from edgespec.types import Draft, Origin, Round, Verdict

MARGIN = 1.03
"""Speed-up that a draft must promise: estimates err, and a plain step is certain."""
STAY = 0.98
"""The same while the draft model is up to date: to leave it and come back has a price."""
HORIZON = 8
"""Rounds over which the draft model is expected to stay in use once it has caught up."""
LISTEN = 8
"""Tokens behind at which a draft model that is not known yet catches up to show what it would have said."""
PLAIN_EVERY = 48
"""After this many rounds with drafts, one without shows what a plain step costs now."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What one round does and why.

    Attributes:
        source: `lookup`, `draft` or `plain`.
        option: the length, and what is expected of it.
        reason: the same in words.
    """

    source: str
    option: Option
    reason: str


class AutoDrafter:
    """Chooses between a lookup, a draft model and nothing, by expected tokens and measured costs.

    A lookup costs nothing until the target checks its draft. What it would have proposed is compared with every token
    that is emitted, drafted for or not, so it needs no trials to know when it is good.

    A draft model costs a step a token. Whether to ask it is decided by how its first and later tokens fared; whether
    to go on is decided after each token, by how often tokens of that probability were right. A token it was unsure of
    is not submitted, but still compared with what the target said. Where it does not pay, it is asked again when what
    is saved up for trials (see Ledger) covers it.

    The two facets of the loop, drafter and length policy, are this object and its `policy`.

    Args:
        costs: what passes cost; updated by every round.
        acceptance: how often drafts were right; updated by every round.
        model: the draft model, if there is one.
        lookup: may drafts be copied from the context?
        min_ngram: shortest match that may suggest a draft. One token is enough: what matches are worth is measured.
        longest: longest draft.
    """

    name = "auto"

    def __init__(
        self,
        costs: CostModel,
        acceptance: Acceptance,
        *,
        model: ModelDrafter | None = None,
        lookup: SuffixIndex | None = None,
        min_ngram: int = 1,
        longest: int = 32,
    ) -> None:
        self.costs, self.acceptance = costs, acceptance
        self.policy = AutoLength(self, longest)
        self.choice = Choice(NOTHING, PLAIN, "")
        self.reason = ""
        self.ledger = Ledger()
        self._model, self._index = model, lookup
        self._min_ngram = min_ngram
        self._chances: list[float] = []
        self._drafted: list[int] = []
        self._confidences: list[float] = []
        self._plan: DraftPlan | None = None
        self._extension: Extension | None = None
        self._steps = self._behind = 0
        if model is not None:
            model.go_on = self._go_on
            model.heard = acceptance.heard

    def begin(self, context: Sequence[int]) -> None:
        self.acceptance.forget_reply()
        self.ledger = Ledger()
        self.reason = ""
        self._reset()
        if self._index is not None:
            self._index.follow(context)
        if self._model is not None:
            self._model.begin(context)

    def propose(self, context: Sequence[int], limit: int) -> Draft:
        self._reset()
        self.costs.at(len(context))
        self._listen(context)
        self.choice = self._choose(context, limit)
        self.reason = self.choice.reason
        length = self.choice.option.length
        match self.choice.source:
            case "lookup" if self._index is not None:
                return Draft(self._index.continuation(length), None, LOOKUP)
            case "draft":
                return self._ask_model(context)
        return NO_DRAFT

    def observe(self, verdict: Verdict) -> None:
        """Learn from the model's draft: from what was examined, and from the first token that was held back."""
        for i, (token, confidence) in enumerate(zip(self._drafted, self._confidences, strict=True)):
            self.acceptance.examined(i, confidence, i < verdict.accepted or token == verdict.next_token)
            if i == verdict.accepted:
                break
        if self._model is not None:
            self._model.observe(verdict if self._drafted else Verdict(0, verdict.next_token, Origin.PLAIN))

    def settle(self, round_: Round) -> None:
        """Book a finished round: what it cost, what it brought."""
        cost = self._steps * self.costs.step + self.costs.v(len(round_.draft.tokens) + 1)
        if self._steps:
            cost += self.costs.catch_up(self._behind)
        drafted, accepted = len(round_.draft.tokens), round_.verdict.accepted
        source = self.choice.source if drafted or self._steps else NOTHING
        self.ledger.book(source, drafted, accepted, len(round_.tokens), cost)
        self.costs.observe(round_, self._steps, self._behind)
        if not self._steps:
            self.acceptance.fade(len(round_.tokens))
        self._steps = 0

    @property
    def report(self) -> AutoReport:
        """What was done in this reply so far, and what it went by."""
        ledger, costs = self.ledger, self.costs
        return AutoReport(
            uses=tuple(sorted(ledger.uses.values(), key=lambda use: -use.rounds)),
            reason=self.reason,
            predicted_speedup=ledger.tokens / ledger.steps if ledger.steps else None,
            curve=costs.curve.points(),
            draft_step=None if self._model is None else costs.step,
            plain_step_seconds=costs.plain_seconds,
        )

    def finish(self, length: int) -> None:
        self._reset()
        if self._index is not None:
            self._index.forget(length)
        if self._model is not None:
            self._model.finish(length)

    def close(self) -> None:
        if self._model is not None:
            self._model.close()

    def _reset(self) -> None:
        self.choice = Choice(NOTHING, PLAIN, "")
        self._drafted, self._confidences = [], []
        self._plan = self._extension = None
        self._steps = 0

    def _listen(self, context: Sequence[int]) -> None:
        """Bring the index up to date, comparing what it would have said with every new token."""
        index = self._index
        if index is None:
            return
        chances = self.acceptance.lookup
        for token in context[len(index) :]:
            if index.match_length:
                chances.record(index.match_length, index.predicted() == token)
            index.extend((token,))

    def _choose(self, context: Sequence[int], limit: int) -> Choice:
        if self.costs.plain_age >= PLAIN_EVERY:
            return Choice(NOTHING, PLAIN, "a plain step, to see what one costs now")
        copy, match = self._copy(limit)
        model = self._model
        room = 0 if model is None else min(limit, model.room(context))
        if model is None or not room:
            draft, floor, trial = PLAIN, MARGIN, False
        else:
            draft = self._plan_draft(model, context, room)
            behind = model.behind(context)
            floor = STAY if behind <= CATCH_UP else MARGIN
            trial = draft is not PLAIN
        if copy.speedup >= max(MARGIN, draft.speedup):
            return Choice(LOOKUP, copy, f"the last {match} tokens occurred before")
        if draft is not PLAIN and draft.speedup >= floor:
            return Choice(DRAFT, draft, "the draft model is right often enough")
        if model is not None and trial and self._can_try(behind):
            return Choice(DRAFT, draft, "a trial of the draft model")
        return Choice(NOTHING, PLAIN, "no draft promises to pay")

    def _can_try(self, behind: int) -> bool:
        """May the draft model be asked although it is not expected to pay?

        One that is not known yet is asked when it has a few tokens to catch up on: it says for each of them what it
        would have drafted, at less than half the price of drafting it.
        """
        known = self.acceptance.pair_known
        if not known and behind < LISTEN:
            return False
        return self.ledger.can_try(self.costs.step + self.costs.catch_up(behind), pair_known=known)

    def _copy(self, limit: int) -> tuple[Option, int]:
        """What a draft from the context would bring, and the length of the match behind it."""
        index = self._index
        match = 0 if index is None else index.match_length
        if match < self._min_ngram:
            return PLAIN, match
        chance = self.acceptance.lookup.chance
        return best_copy((chance(match + i) for i in range(limit)), self.costs.v, self.ledger.risk), match

    def _plan_draft(self, model: ModelDrafter, context: Sequence[int], limit: int) -> Option:
        """Prepare a draft; what it would bring."""
        costs = self.costs
        extra = costs.catch_up(model.behind(context))
        risk = self.ledger.risk if self.acceptance.pair_known else self.ledger.risk_with_unknown
        self._plan = plan = DraftPlan(
            self.acceptance.later.value, limit, costs.v, costs.step, self.ledger.draft_speed, risk,
            can_drop=not model.sampled,
        )  # fmt: skip
        return plan.expect(self.acceptance.first_chances(), extra / HORIZON)

    def _ask_model(self, context: Sequence[int]) -> Draft:
        model, plan = self._model, self._plan
        if model is None or plan is None:
            return NO_DRAFT
        self._behind = model.behind(context)
        self._extension = extension = plan.start()
        draft = model.propose(context, plan.limit)
        self._steps = len(draft.tokens)
        return draft if model.sampled else Draft(draft.tokens[: extension.length], None, DRAFT)

    def _go_on(self, token: int, probability: float) -> bool:
        extension = self._extension
        if extension is None:
            return True
        self._drafted.append(token)
        self._confidences.append(probability)
        extension.add(self.acceptance.confidence.chance(probability))
        return extension.pays()


class AutoLength:
    """The facet of an AutoDrafter that the loop asks for a length: the longest, the drafter itself knows better."""

    def __init__(self, drafter: AutoDrafter, longest: int) -> None:
        self._drafter, self._longest = drafter, longest

    def next(self) -> int:
        return self._longest

    def observe(self, round_: Round) -> None:
        self._drafter.settle(round_)
