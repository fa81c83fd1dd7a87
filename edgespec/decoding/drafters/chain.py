"""Several drafters in order of preference."""

from __future__ import annotations

from collections.abc import Sequence

from edgespec.decoding.drafters.base import Drafter
from edgespec.decoding.drafters.none import NO_DRAFT
from edgespec.types import Draft, Origin, Verdict


class ChainDrafter:
    """The first drafter that has something to propose is heard: a lookup, say, and where it finds nothing a model.

    The others learn that nothing of theirs was judged; what was added they see in the next `context`.
    """

    def __init__(self, drafters: Sequence[Drafter]) -> None:
        self._drafters = tuple(drafters)
        self._heard: Drafter | None = None

    @property
    def name(self) -> str:
        return "+".join(drafter.name for drafter in self._drafters)

    def begin(self, context: Sequence[int]) -> None:
        self._heard = None
        for drafter in self._drafters:
            drafter.begin(context)

    def propose(self, context: Sequence[int], limit: int) -> Draft:
        for drafter in self._drafters:
            draft = drafter.propose(context, limit)
            if draft.tokens:
                self._heard = drafter
                return draft
        return NO_DRAFT

    def observe(self, verdict: Verdict) -> None:
        heard, self._heard = self._heard, None
        for drafter in self._drafters:
            drafter.observe(verdict if drafter is heard else Verdict(0, verdict.next_token, Origin.PLAIN))

    def finish(self, length: int) -> None:
        for drafter in self._drafters:
            drafter.finish(length)

    def close(self) -> None:
        for drafter in self._drafters:
            drafter.close()
