"""Arithmetic on probability laws that list only the tokens they allow."""

from __future__ import annotations

import numpy as np

from edgespec.types import Distribution

NEGLIGIBLE = 1e-12
"""Less probability than this, summed over a whole law, is rounding error."""


def probability(law: Distribution, token: int) -> float:
    """Probability of one token; 0 if the law does not list it."""
    found = (law.ids == token).nonzero()[0]
    return float(law.probs[found[0]]) if found.size else 0.0


def draw(law: Distribution, rng: np.random.Generator) -> int:
    """Draw a token, spending one random number."""
    cumulative = law.probs.cumsum()
    index = int(cumulative.searchsorted(rng.random() * cumulative[-1], side="right"))
    # Rounding can put the number on the last edge, behind which there may be tokens of probability 0.
    return int(law.ids[index] if index < len(law.ids) else law.ids[law.probs.nonzero()[0][-1]])


def residual(p: Distribution, q: Distribution) -> Distribution:
    """norm(max(0, p - q)): what p still lacks where q already had its turn. Is p itself where that is nothing."""
    dense = np.zeros(1 + max(int(p.ids.max()), int(q.ids.max())))
    dense[q.ids] = q.probs
    rest = np.maximum(p.probs - dense[p.ids], 0.0)
    total = rest.sum()
    return Distribution(p.ids, rest / total) if total > NEGLIGIBLE else p
