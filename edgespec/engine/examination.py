"""What the host does for Examine: how near the target's two best tokens are somewhere in a reply."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from edgespec.decoding.session import Interrupted, Session, prefill
from edgespec.engine.messages import Candidate


def two_best(
    target: Session, prompt: Sequence[int], reply: Sequence[int], cancelled: Callable[[], bool]
) -> tuple[tuple[int, float], ...]:
    """The two likeliest tokens behind prompt and reply with their logits, best first.

    The target walks there as plain decoding does, the reply token by token: passes of another width round differently,
    and the question is mostly how near a tie was that rounding has decided. Raises Interrupted if cancelled.
    """
    for _ in prefill(target, prompt[:-1], cancelled):
        pass
    row = None
    for token in (prompt[-1], *reply):
        if cancelled():
            raise Interrupted
        row = target.decode([token])[0]
    if row is None or len(row) < 2:
        return ()
    best = np.argpartition(row, -2)[-2:]
    return tuple((int(token), float(row[token])) for token in sorted(best, key=lambda token: -row[token]))


def candidates(found: Sequence[tuple[int, float]], piece: Callable[[int], bytes]) -> tuple[Candidate, ...]:
    """The same with the tokens' texts."""
    return tuple(Candidate(token, piece(token).decode("utf-8", "replace"), logit) for token, logit in found)
