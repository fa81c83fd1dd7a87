"""Acceptance rules change the speed, never the law: measured on hand-made distributions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from decoding_fakes import FakeSession, FakeVocabulary, ScriptedDrafter, generate, hashed_logits
from scipy import stats

from edgespec.decoding.distributions import draw
from edgespec.decoding.drafters.lookup import LookupDrafter
from edgespec.decoding.drafters.model import ModelDrafter
from edgespec.decoding.drafters.none import NoDraft
from edgespec.decoding.numpy_sampler import NumpySampler
from edgespec.decoding.sampling import GreedySampler, SamplingParams
from edgespec.decoding.trim import trim
from edgespec.decoding.verify import judge, verify_greedy, verify_match, verify_rejection
from edgespec.types import Distribution, Draft, Origin

V = 12
TOKENS = 50_000
PARAMS = SamplingParams(temperature=0.8, top_k=8, top_p=0.97, seed=1)
TARGET = hashed_logits(V, order=1, seed=0, scale=1.5)
OTHER = hashed_logits(V, order=1, seed=1, scale=1.5)


def between(row_p, row_q, share):
    return (1 - share) * row_p + share * row_q


def draft_logits(tokens):
    """A draft model that is right more often than not."""
    return between(TARGET(tokens), OTHER(tokens), 0.4)


def sampled_drafter():
    return ModelDrafter(
        FakeSession(draft_logits, V, n_ctx=TOKENS + 10), sampler=NumpySampler(PARAMS, V), rng=np.random.default_rng(99)
    )


DRAFTERS = {
    "match, draft model": lambda: ModelDrafter(FakeSession(draft_logits, V, n_ctx=TOKENS + 10)),
    "match, lookup": lambda: LookupDrafter(1, 6),
    "match, always wrong": lambda: ScriptedDrafter(lambda context, limit: [int(TARGET(context).argmin())] * limit),
    "rejection, sampled draft": sampled_drafter,
}


@pytest.fixture(scope="module")
def direct():
    return run(NoDraft(), seed=1000)


def run(drafter, seed):
    params = SamplingParams(temperature=0.8, top_k=8, top_p=0.97, seed=seed)
    target = FakeSession(TARGET, V, n_ctx=TOKENS + 10)
    reply = generate(target, drafter, NumpySampler(params, V), [0], k=3, max_tokens=TOKENS, seed=seed)
    assert len(reply.tokens) == TOKENS
    return transitions([0, *reply.tokens]), reply.stats


def transitions(tokens):
    counts = np.zeros((V, V))
    np.add.at(counts, (tokens[:-1], tokens[1:]), 1)
    return counts


@pytest.mark.parametrize("name", DRAFTERS)
def test_50_000_speculated_tokens_follow_the_law_of_direct_sampling(name, direct):
    counts, run_stats = run(DRAFTERS[name](), seed=2)
    if name != "match, always wrong":
        assert run_stats.accepted > 0.15 * run_stats.drafted
    # Given the token before, tokens are independent draws: one homogeneity test and one fit for each such token.
    homogeneity = fit = freedom = 0.0
    for token in range(V):
        law = NumpySampler(PARAMS, V).distribution(TARGET([token]))
        assert counts[token].sum() == counts[token, law.ids].sum(), "a token that the chain had removed"
        pair = np.array([counts[token, law.ids], direct[0][token, law.ids]])
        pair = pair[:, pair.sum(axis=0) > 0]
        if pair.shape[1] > 1 and pair.sum(axis=1).min() > 0:
            result = stats.chi2_contingency(pair)
            homogeneity += result.statistic
            fit += (((counts[token, law.ids] - counts[token].sum() * law.probs) ** 2) / law.probs).sum() / max(
                counts[token].sum(), 1
            )
            freedom += result.dof
    tests = 2 * len(DRAFTERS)
    assert stats.chi2.sf(homogeneity, freedom) > 0.05 / tests
    assert stats.chi2.sf(fit, freedom) > 0.05 / tests


def law_of(row):
    return NumpySampler(SamplingParams(temperature=1), V).distribution(row)


def overlap(p, q):
    """Sum of min(p, q): what the acceptance rate must be."""
    return float(np.minimum(p.probs, q.probs).sum())


@pytest.mark.parametrize("context", range(4))
def test_acceptance_of_a_sampled_draft_is_the_overlap_of_both_laws(context):
    p, q = law_of(TARGET([context])), law_of(OTHER([context]))
    rng = np.random.default_rng(context)
    rounds = 20_000
    accepted = 0
    for _ in range(rounds):
        token = draw(q, rng)
        accepted += judge(p, q, token, rng) == token
    expected = overlap(p, q)
    assert accepted / rounds == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / rounds))


def test_acceptance_of_a_fixed_draft_is_its_probability():
    p = law_of(TARGET([5]))
    sampler = NumpySampler(SamplingParams(temperature=1, seed=5), V)
    row = TARGET([5])
    rounds = 20_000
    accepted = sum(verify_match(np.stack([row, row]), Draft((3,)), sampler).accepted for _ in range(rounds))
    assert accepted / rounds == pytest.approx(p.probs[3], abs=4 * np.sqrt(p.probs[3] / rounds))


def test_acceptance_falls_as_the_draft_departs_from_the_target():
    rng = np.random.default_rng(0)
    divergences, rates = [], []
    for share in (0.0, 0.15, 0.3, 0.45, 0.6, 0.8, 1.0):
        laws = [(law_of(TARGET([c])), law_of(between(TARGET([c]), OTHER([c]), share))) for c in range(V)]
        divergences.append(np.mean([(p.probs * np.log(p.probs / q.probs)).sum() for p, q in laws]))
        accepted = 0
        for i in range(10_000):
            p, q = laws[i % V]
            token = draw(q, rng)
            accepted += judge(p, q, token, rng) == token
        rates.append(accepted / 10_000)
    assert rates[0] == 1
    assert divergences == sorted(divergences)
    assert all(better > worse for better, worse in pairwise(rates))


def test_a_withheld_end_token_does_not_distort_the_law():
    eog = 0
    p = Distribution(np.arange(4, dtype=np.int32), np.array([0.05, 0.5, 0.25, 0.2]))
    q = Distribution(np.arange(6, dtype=np.int32), np.array([0.4, 0.1, 0.1, 0.1, 0.1, 0.2]))
    rows = np.log(np.stack([p.probs, p.probs])).astype(np.float32)
    sampler = NumpySampler(SamplingParams(temperature=1), 4)
    rng = np.random.default_rng(4)
    counts = np.zeros(4)
    rounds = 20_000
    for _ in range(rounds):
        token = draw(q, rng)
        draft = trim(Draft((token,), (q,)), 1, 4, FakeVocabulary(eog=[eog]).is_eog)
        assert not {eog, 4, 5} & set(draft.tokens)
        verdict = verify_rejection(rows[: len(draft.tokens) + 1], draft, sampler, rng)
        counts[draft.tokens[0] if verdict.accepted else verdict.next_token] += 1
    assert stats.chisquare(counts, rounds * p.probs).pvalue > 0.05


class Recorder(NumpySampler):
    """Writes down what it is told to keep, and in which state each law was asked for."""

    def __init__(self):
        super().__init__(SamplingParams(temperature=1, seed=0), V)
        self.kept = []
        self.asked = []

    def distribution(self, row):
        self.asked.append(len(self.kept))
        return super().distribution(row)

    def accept(self, token):
        self.kept.append(token)


def one_hot(*tokens):
    rows = np.full((len(tokens), V), -50, dtype=np.float32)
    rows[np.arange(len(tokens)), tokens] = 50
    return rows


def sure(token):
    return Distribution(np.array([token], dtype=np.int32), np.ones(1))


@pytest.mark.parametrize("sampled", [False, True])
def test_the_sampler_advances_once_for_every_kept_token_and_each_law_sees_the_ones_before(sampled):
    tokens = (4, 5, 9, 9)
    draft = Draft(tokens, tuple(map(sure, tokens)) if sampled else None)
    sampler = Recorder()
    rows = one_hot(4, 5, 6, 7, 8)
    rule = verify_rejection if sampled else lambda rows, draft, sampler, rng: verify_match(rows, draft, sampler)
    verdict = rule(rows, draft, sampler, np.random.default_rng(0))
    assert (verdict.accepted, verdict.next_token, verdict.kind) == (2, 6, Origin.CORRECTED)
    assert sampler.kept == [4, 5, 6]
    assert sampler.asked == [0, 1, 2]


def test_a_wholly_accepted_sampled_draft_brings_a_bonus_token():
    draft = Draft((4, 5), (sure(4), sure(5)))
    sampler = Recorder()
    verdict = verify_rejection(one_hot(4, 5, 6), draft, sampler, np.random.default_rng(0))
    assert (verdict.accepted, verdict.next_token, verdict.kind) == (2, 6, Origin.BONUS)
    assert sampler.kept == [4, 5, 6]


def test_disjoint_laws_always_reject_and_draw_from_the_target():
    verdict = verify_rejection(one_hot(4, 5), Draft((7,), (sure(7),)), Recorder(), np.random.default_rng(0))
    assert (verdict.accepted, verdict.next_token) == (0, 4)


def test_a_draft_that_was_not_sampled_cannot_be_judged_by_rejection():
    with pytest.raises(ValueError, match="not sampled"):
        verify_rejection(one_hot(4, 5), Draft((4,)), Recorder(), np.random.default_rng(0))


def test_greedy_reads_no_row_behind_the_first_mismatch():
    rows = one_hot(4, 5, 6)
    rows[2] = np.nan
    assert verify_greedy(rows, Draft((4, 9))).next_token == 5
    assert verify_greedy(rows[:1], Draft(())).kind is Origin.PLAIN


def test_greedy_takes_the_lowest_of_equals_as_the_greedy_sampler_does():
    row = np.array([1, 3, 3, 2], dtype=np.float32)
    assert verify_greedy(row[None], Draft(())).next_token == GreedySampler().sample(row) == 1
    assert GreedySampler().distribution(row).ids.tolist() == [1]
