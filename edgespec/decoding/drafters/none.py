"""Plain decoding, as a drafter that never proposes."""

from __future__ import annotations

from collections.abc import Sequence

from edgespec.types import Draft, Verdict

NO_DRAFT = Draft(())


class NoDraft:
    """The null drafter: with it the loop is ordinary decoding, the baseline that shares every timed line."""

    name = "plain"

    def begin(self, context: Sequence[int]) -> None: ...

    def propose(self, context: Sequence[int], limit: int) -> Draft:
        return NO_DRAFT

    def observe(self, verdict: Verdict) -> None: ...

    def finish(self, length: int) -> None: ...

    def close(self) -> None: ...
