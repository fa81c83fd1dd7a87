"""Acceptance rules: how much of a draft the target keeps, and the one token it adds.

Letters follow Leviathan et al., "Fast Inference from Transformers via Speculative Decoding" (arXiv:2211.17192): p is
the target's law, q the draft's, both after the sampler chain. The same rule appears in Chen et al.,
"Accelerating Large Language Model Decoding with Speculative Sampling" (arXiv:2302.01318).

Every rule reads `rows`, the target's logits for `[last, *draft.tokens]`, shape (len(draft) + 1, n_vocab): row i is
what follows the first i draft tokens. All are lossless: greedy gives the argmax sequence, the others the target's law.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgespec.decoding.distributions import draw, probability, residual
from edgespec.decoding.sampling import Sampler
from edgespec.types import Distribution, Draft, Origin, Verdict

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


def verify_rejection(rows: NDArray[np.float32], draft: Draft, sampler: Sampler, rng: np.random.Generator) -> Verdict:
    """Keep a token d that was drawn from q with probability min(1, p(d) / q(d)); on rejection draw from the residual.

    The token a draft withholds is judged like the others, on the row of the bonus token, except that the target need
    not have evaluated it: kept or replaced, it becomes the target's own token.
    """
    if draft.probs is None:
        raise ValueError("a draft without probabilities was not sampled and cannot be judged by rejection")
    for i, (token, q) in enumerate(zip(draft.tokens, draft.probs, strict=True)):
        kept = judge(sampler.distribution(rows[i]), q, token, rng)
        sampler.accept(kept)
        if kept != token:
            return Verdict(i, kept, Origin.CORRECTED)
    p = sampler.distribution(rows[len(draft.tokens)])
    own = draw(p, rng) if draft.withheld is None else judge(p, draft.withheld[1], draft.withheld[0], rng)
    sampler.accept(own)
    return Verdict(len(draft.tokens), own, own_kind(draft))


def judge(p: Distribution, q: Distribution, token: int, rng: np.random.Generator) -> int:
    """`token`, drawn from q, if it is accepted, else a draw from norm(max(0, p - q)): in sum exactly a draw from p.

    A replacement never equals the rejected token, since the residual is 0 wherever a token can be rejected.
    """
    if rng.random() * probability(q, token) < probability(p, token):
        return token
    return draw(residual(p, q), rng)


def own_kind(draft: Draft) -> Origin:
    """What the target's own token is called after a wholly accepted draft, or without one."""
    return Origin.BONUS if draft.tokens else Origin.PLAIN
