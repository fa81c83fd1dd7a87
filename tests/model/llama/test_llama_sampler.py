"""llama.cpp's sampler chain against plain numpy, and against itself."""

from __future__ import annotations

import gc
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare

from edgespec.decoding.numpy_sampler import NumpySampler
from edgespec.decoding.sampling import GreedySampler, SamplingParams
from edgespec.errors import DecodeError
from edgespec.llama.candidates import Preselection
from edgespec.llama.library import library
from edgespec.llama.model import LlamaModel
from edgespec.llama.sampler import ChainSampler, make_sampler

pytestmark = pytest.mark.model

N_VOCAB = 49_152
CHAINS = {
    "temperature": SamplingParams(temperature=0.8),
    "top-k": SamplingParams(temperature=0.8, top_k=40),
    "top-p": SamplingParams(temperature=0.8, top_p=0.9),
    "min-p": SamplingParams(temperature=1.3, min_p=0.05),
    "all": SamplingParams(temperature=0.7, top_k=40, top_p=0.95, min_p=0.02, repeat_penalty=1.2),
    "penalty and top-k": SamplingParams(temperature=0.8, top_k=5, repeat_penalty=3.0),
    "penalty and min-p": SamplingParams(temperature=0.8, min_p=0.3, repeat_penalty=2.0),
    "reward and top-k": SamplingParams(temperature=0.8, top_k=5, repeat_penalty=0.5),
    "penalty alone": SamplingParams(repeat_penalty=1.5),
    "wide top-k": SamplingParams(temperature=0.8, top_k=5_000),
}


def row(seed: int, n_vocab: int = N_VOCAB) -> NDArray[np.float32]:
    """Logits with a few strong tokens, as a model gives them."""
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal(n_vocab) * 2
    logits[rng.integers(0, n_vocab, 30)] += rng.uniform(4, 12, 30)
    return logits.astype(np.float32)


def dense(ids: NDArray[np.int32], probs: NDArray[np.float64], n_vocab: int = N_VOCAB) -> NDArray[np.float64]:
    out = np.zeros(n_vocab)
    out[ids] = probs
    return out


@pytest.mark.parametrize("params", CHAINS.values(), ids=CHAINS)
def test_the_law_is_that_of_the_reference(params: SamplingParams) -> None:
    chain, reference = ChainSampler(library(), N_VOCAB, params), NumpySampler(params, N_VOCAB)
    for seed in range(6):
        logits = row(seed)
        for token in np.argsort(-logits)[:3].tolist():
            chain.accept(token)
            reference.accept(token)
        ours, theirs = chain.distribution(logits), reference.distribution(logits)
        difference = dense(ours.ids, ours.probs) - dense(theirs.ids, theirs.probs)
        assert np.abs(difference).sum() < 2e-3  # a token at the very edge of top-p may fall on either side
        assert ours.probs.sum() == pytest.approx(1)


@pytest.mark.parametrize("params", CHAINS.values(), ids=CHAINS)
def test_handing_over_fewer_candidates_changes_nothing(params: SamplingParams, monkeypatch: pytest.MonkeyPatch) -> None:
    fast, whole = ChainSampler(library(), N_VOCAB, params), ChainSampler(library(), N_VOCAB, params)
    whole._preselection = Preselection(params)
    monkeypatch.setattr(whole._preselection, "choose", lambda *_: None)
    for seed in range(12):
        logits = row(seed)
        a, b = fast.distribution(logits), whole.distribution(logits)
        np.testing.assert_array_equal(dense(a.ids, a.probs), dense(b.ids, b.probs))
        tokens = {sampler.sample(logits) for sampler in (fast, whole)}
        assert len(tokens) == 1
        for token in (*tokens, *np.argsort(-logits)[:9].tolist()):
            fast.accept(token)
            whole.accept(token)


@pytest.mark.parametrize("name", ["all", "temperature", "top-k"])
def test_draws_follow_the_law(name: str) -> None:
    logits = row(3, 2_000)
    sampler = ChainSampler(library(), 2_000, replace(CHAINS[name], seed=11))
    law = sampler.distribution(logits)
    draws = np.array([sampler.sample(logits) for _ in range(20_000)])
    counts = np.bincount(draws, minlength=2_000)[law.ids]
    assert counts.sum() == 20_000  # nothing outside the law
    common = law.probs * 20_000 >= 5
    observed = [*counts[common], counts[~common].sum()]
    expected = [*(law.probs[common] * 20_000), law.probs[~common].sum() * 20_000]
    keep = [i for i, value in enumerate(expected) if value > 0]
    result = chisquare([observed[i] for i in keep], [expected[i] for i in keep], sum_check=False)
    assert result.pvalue > 0.01


def test_a_seed_repeats_and_reading_the_law_spends_no_random_number() -> None:
    params = replace(CHAINS["all"], seed=7)
    one, two = (ChainSampler(library(), N_VOCAB, params) for _ in range(2))
    other = ChainSampler(library(), N_VOCAB, replace(params, seed=8))
    rows = [row(seed) for seed in range(30)]
    first = [one.sample(logits) for logits in rows]
    second = []
    for logits in rows:
        two.distribution(logits)
        second.append(two.sample(logits))
    assert first == second
    assert first != [other.sample(logits) for logits in rows]


def test_a_clone_moves_on_its_own() -> None:
    params = replace(CHAINS["penalty and top-k"], seed=5)
    original = ChainSampler(library(), N_VOCAB, params)
    logits = row(1)
    for _ in range(5):
        original.accept(original.sample(logits))
    clone = original.clone()
    expected = [clone.sample(logits) for _ in range(5)]
    before = original.distribution(logits)
    for token in before.ids.tolist():
        clone.accept(token)
    after = original.distribution(logits)
    np.testing.assert_array_equal(before.probs, after.probs)
    assert set(clone.distribution(logits).ids.tolist()) != set(after.ids.tolist())
    assert [original.sample(logits) for _ in range(5)] == expected


def test_penalties_with_temperature_zero_choose_the_likeliest_after_them() -> None:
    sampler = ChainSampler(library(), 500, SamplingParams(repeat_penalty=2.0))
    logits = np.zeros(500, dtype=np.float32)
    logits[[3, 9, 400]] = 5.0, 4.0, 3.0
    assert not sampler.greedy
    assert sampler.sample(logits) == 3
    sampler.accept(3)
    assert sampler.sample(logits) == 9
    assert sampler.distribution(logits).ids.tolist() == [9]


@pytest.mark.parametrize(
    "params", [SamplingParams(), SamplingParams(top_k=40, top_p=0.5), SamplingParams(temperature=1, top_k=1)]
)
def test_argmax_needs_no_chain(demo: LlamaModel, params: SamplingParams) -> None:
    assert isinstance(make_sampler(demo.vocab, params), GreedySampler)


@pytest.mark.parametrize("params", [SamplingParams(temperature=1e-30), SamplingParams(temperature=0.8, top_k=2**40)])
def test_extreme_values_keep_their_meaning(params: SamplingParams) -> None:
    logits = row(4)
    ours = ChainSampler(library(), N_VOCAB, params).distribution(logits)
    theirs = NumpySampler(params, N_VOCAB).distribution(logits)
    np.testing.assert_allclose(dense(ours.ids, ours.probs), dense(theirs.ids, theirs.probs), atol=1e-5)


@pytest.mark.parametrize("params", CHAINS.values(), ids=CHAINS)
def test_numbers_that_are_no_numbers_are_not_drawn(params: SamplingParams) -> None:
    sampler = ChainSampler(library(), N_VOCAB, params)
    with pytest.raises(DecodeError, match="NaN"):
        sampler.sample(np.full(N_VOCAB, np.nan, dtype=np.float32))


def test_forbidden_tokens_are_never_drawn() -> None:
    logits = np.full(500, -np.inf, dtype=np.float32)
    logits[[7, 8]] = 0.0
    for params in (SamplingParams(temperature=1), SamplingParams(temperature=1, top_k=2)):
        sampler = ChainSampler(library(), 500, params)
        assert {sampler.sample(logits) for _ in range(50)} == {7, 8}


def test_native_samplers_are_freed_with_their_owner() -> None:
    sampler = ChainSampler(library(), 500, SamplingParams(temperature=1))
    finalizer, clone = sampler._free, sampler.clone()
    del sampler
    gc.collect()
    assert not finalizer.alive
    clone.close()
    clone.close()
    with pytest.raises(ValueError, match="closed"):
        clone.sample(np.zeros(500, dtype=np.float32))
