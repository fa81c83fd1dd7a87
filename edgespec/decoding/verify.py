"""Acceptance rules: how much of a draft the target keeps, and the one token it adds.

Letters follow Leviathan et al., "Fast Inference from Transformers via Speculative Decoding" (arXiv:2211.17192): p is
the target's law, q the draft's, both after the sampler chain. The same rule appears in Chen et al.,
"Accelerating Large Language Model Decoding with Speculative Sampling" (arXiv:2302.01318).

Every rule reads `rows`, the target's logits for `[last, *draft.tokens]`, shape (len(draft) + 1, n_vocab): row i is
what follows the first i draft tokens. All are lossless: greedy gives the argmax sequence, the others the target's law.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgespec.decoding.sampling import Sampler
from edgespec.types import Draft, Origin, Verdict

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def verify(rows: NDArray[np.float32], draft: Draft, sampler: Sampler, rng: np.random.Generator) -> Verdict:
    """Apply the rule that fits: greedy for argmax, rejection for a sampled draft, sample-and-match otherwise."""
    if sampler.greedy:
        return verify_greedy(rows, draft)
    if draft.probs is not None:
        return verify_rejection(rows, draft, sampler, rng)
    return verify_match(rows, draft, sampler)


def verify_greedy(rows: NDArray[np.float32], draft: Draft) -> Verdict:
    """Keep the draft while it is the argmax. Rows behind the first mismatch are not looked at."""
    for i, token in enumerate(draft.tokens):
        best = int(rows[i].argmax())
        if best != token:
            return Verdict(i, best, Origin.CORRECTED)
    return Verdict(len(draft.tokens), int(rows[len(draft.tokens)].argmax()), own_kind(draft))


def verify_match(rows: NDArray[np.float32], draft: Draft, sampler: Sampler) -> Verdict:
    """Sample the target row by row and keep the draft while the samples agree (llama.cpp, common/sampling.cpp).

    For a deterministic draft d this has acceptance p(d) and the same joint law as rejection sampling with q = 1 at d.
    The random numbers are spent one a kept token, so that a seed gives the same reply whatever was drafted.
    """
    for i, token in enumerate(draft.tokens):
        sampled = sampler.sample(rows[i])
        sampler.accept(sampled)
        if sampled != token:
            return Verdict(i, sampled, Origin.CORRECTED)
    sampled = sampler.sample(rows[len(draft.tokens)])
    sampler.accept(sampled)
    return Verdict(len(draft.tokens), sampled, own_kind(draft))


def verify_rejection(
    rows: NDArray[np.float32], draft: Draft, sampler: Sampler, rng: np.random.Generator
) -> Verdict:
    raise NotImplementedError


def own_kind(draft: Draft) -> Origin:
    """What the target's own token is called after a wholly accepted draft, or without one."""
    return Origin.BONUS if draft.tokens else Origin.PLAIN
