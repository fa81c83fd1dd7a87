"""Which drafter and which lengths a reply gets, and what the modes share from one reply to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from edgespec.decoding.auto import AutoDrafter
from edgespec.decoding.cost import CostModel
from edgespec.decoding.drafters.base import Drafter
from edgespec.decoding.drafters.lookup import LookupDrafter, SuffixIndex
from edgespec.decoding.drafters.model import ModelDrafter
from edgespec.decoding.drafters.none import NoDraft
from edgespec.decoding.length import FixedLength, LengthPolicy
from edgespec.decoding.sampling import SamplingParams, prime
from edgespec.decoding.session import Session
from edgespec.engine import messages as m
from edgespec.engine.calibration import calibrate
from edgespec.engine.knowledge import Knowledge, knowledge_path
from edgespec.engine.loading import Models
from edgespec.errors import ModeError
from edgespec.llama.sampler import make_sampler
from edgespec.types import Mode

KNOWN = 6
"""Timed passes without which no reply begins in mode auto."""
SURE = 66
"""Timed passes after which idle time is not used for more: some may have met a machine that was busy."""


class Drafting:
    """Makes drafters for one set of models, and keeps what they learned: the lookup index, costs, acceptance.

    Attributes:
        model: what asks the draft model in the drafter made last, if that may.
    """

    def __init__(self, models: Models, knowledge: Knowledge | None = None) -> None:
        self._models = models
        self.model: ModelDrafter | None = None
        self._lookups: dict[tuple[int, int], LookupDrafter] = {}
        self._index: tuple[int, SuffixIndex] | None = None
        self._knowledge = knowledge or Knowledge.load(knowledge_path(models.options, models.loaded.threads))

    def choose(
        self, options: m.GenerateOptions, prompt: Sequence[int], cancelled: Callable[[], bool]
    ) -> tuple[Drafter, LengthPolicy]:
        """What the loop needs for a reply in this mode. Raises ModeError if the models cannot do it."""
        self.model = None
        match options.mode:
            case Mode.PLAIN:
                return NoDraft(), FixedLength(0)
            case Mode.LOOKUP:
                return self._lookup(options), FixedLength(options.draft_length)
            case Mode.DRAFT:
                return self._model(options, prompt, cancelled), FixedLength(options.draft_length)
            case Mode.AUTO:
                auto = self._auto(options, prompt, cancelled)
                return auto, auto.policy

    def calibrate(self, cancelled: Callable[[], bool], enough: int = SURE) -> None:
        """Measure what passes cost, if they were not measured often enough yet and anything depends on it."""
        costs, modes = self._knowledge.costs, self._models.loaded.modes
        if costs.measurements >= enough or modes[Mode.LOOKUP] is not None:
            return
        if calibrate(costs, self._models.target.session, self._draft_session(), cancelled):
            self._knowledge.save()

    def measure(self, seconds: float, cancelled: Callable[[], bool]) -> int:
        """Replace what is known about costs by new measurements; how many passes, 0 if cancelled.

        Empties the caches. Raises ModeError where nothing can be drafted.
        """
        if reason := self._models.loaded.modes[Mode.LOOKUP]:
            raise ModeError(f"There is nothing to measure: {reason}", "Without drafts, every pass has one token.")
        costs, target, draft = CostModel(), self._models.target.session, self._draft_session()
        for session in (target, draft):
            if session is not None:
                session.truncate(0)
        if not calibrate(costs, target, draft, cancelled, seconds):
            return 0
        self._knowledge.costs = costs
        self._knowledge.save()
        return costs.measurements

    def _draft_session(self) -> Session | None:
        """The draft model's, if it can draft."""
        draft = self._models.draft
        return draft.session if draft is not None and self._models.loaded.modes[Mode.DRAFT] is None else None

    def remember(self, drafter: Drafter) -> None:
        """A reply is over: keep what it taught."""
        if isinstance(drafter, AutoDrafter):
            self._knowledge.save()

    def forget(self) -> None:
        """Forget the texts of earlier replies. What was learned about the machine and the models stays."""
        self._lookups.clear()
        self._index = None

    def _auto(self, options: m.GenerateOptions, prompt: Sequence[int], cancelled: Callable[[], bool]) -> AutoDrafter:
        modes = self._models.loaded.modes
        self.calibrate(cancelled, KNOWN)
        params = options.sampling
        drawn = "drawn" if options.draft_sampling and params.temperature > 0 else "likeliest"
        if self._index is None or self._index[0] != options.max_ngram:
            self._index = options.max_ngram, SuffixIndex(options.max_ngram)
        return AutoDrafter(
            self._knowledge.costs,
            self._knowledge.acceptance(f"temperature {params.temperature:.1f}, {drawn}"),
            model=self._model(options, prompt, cancelled) if modes[Mode.DRAFT] is None else None,
            lookup=self._index[1] if modes[Mode.LOOKUP] is None else None,
            longest=m.MAX_DRAFT_LENGTH,
        )

    def _lookup(self, options: m.GenerateOptions) -> LookupDrafter:
        key = (options.min_ngram, options.max_ngram)
        if key not in self._lookups:
            self._lookups = {key: LookupDrafter(*key)}
        return self._lookups[key]

    def _model(self, options: m.GenerateOptions, prompt: Sequence[int], cancelled: Callable[[], bool]) -> ModelDrafter:
        draft = self._models.draft
        if draft is None:
            raise ModeError("No draft model is loaded.", "Give one with --draft, or use --mode lookup.")
        sampler = rng = None
        if options.draft_sampling and options.sampling.temperature > 0:
            sampler, rng = make_sampler(draft.model.vocab, options.sampling), _generator(options.sampling)
            prime(sampler, prompt)
        target = self._models.target
        self.model = ModelDrafter(
            draft.session, sampler=sampler, rng=rng, cancelled=cancelled, n_vocab=target.session.n_vocab,
            is_eog=target.model.vocab.is_eog,
        )  # fmt: skip
        return self.model


def _generator(params: SamplingParams) -> np.random.Generator:
    """Random numbers for drafts, apart from those of the reply."""
    return np.random.default_rng((params.seed, 1))
