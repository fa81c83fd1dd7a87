"""Sampling parameters and the reference sampler."""

from __future__ import annotations

import math

import numpy as np
import pytest

from edgespec.decoding.distributions import draw, probability, residual
from edgespec.decoding.numpy_sampler import NumpySampler
from edgespec.decoding.sampling import MAX_SEED, PENALTY_WINDOW, SamplingParams, prime
from edgespec.errors import SettingsError
from edgespec.types import Distribution

ROW = np.log(np.array([0.4, 0.3, 0.2, 0.1], dtype=np.float32))


def law(**params):
    result = NumpySampler(SamplingParams(**params), 4).distribution(ROW)
    return {int(token): pytest.approx(float(prob), abs=1e-6) for token, prob in zip(*astuple(result), strict=True)}


def astuple(distribution):
    return distribution.ids, distribution.probs


@pytest.mark.parametrize(
    "params",
    [
        {"temperature": -0.1}, {"temperature": math.nan}, {"temperature": math.inf}, {"top_k": -1}, {"top_p": 0},
        {"top_p": 1.1}, {"top_p": math.nan}, {"min_p": -0.1}, {"min_p": 1.01}, {"min_p": math.nan},
        {"repeat_penalty": 0}, {"repeat_penalty": math.nan}, {"seed": -1}, {"seed": MAX_SEED + 1},
    ],
)  # fmt: skip
def test_values_out_of_range_are_refused_with_a_sentence(params):
    (name,) = params
    with pytest.raises(SettingsError, match=name.replace("_", ".")) as error:
        SamplingParams(**params)
    assert error.value.message.endswith(".")


def test_the_edges_of_every_range_are_allowed():
    SamplingParams(temperature=0, top_k=0, top_p=1, min_p=0, repeat_penalty=0.1, seed=0)
    SamplingParams(temperature=5, top_k=10**6, top_p=1e-9, min_p=1, repeat_penalty=3, seed=MAX_SEED)


def test_the_bare_law_is_the_softmax():
    assert law(temperature=1) == {0: 0.4, 1: 0.3, 2: 0.2, 3: 0.1}


def test_temperature_sharpens_and_zero_is_the_argmax():
    squares = np.array([16, 9, 4, 1]) / 30
    assert law(temperature=0.5) == dict(enumerate(squares))
    assert law(temperature=0) == {0: 1.0}


def test_filters_keep_what_they_say():
    assert law(temperature=1, top_k=2) == {0: 4 / 7, 1: 3 / 7}
    assert law(temperature=1, top_p=0.65) == {0: 4 / 7, 1: 3 / 7}
    assert law(temperature=1, top_p=0.75) == {0: 4 / 9, 1: 3 / 9, 2: 2 / 9}
    assert law(temperature=1, min_p=0.6) == {0: 4 / 7, 1: 3 / 7}
    assert law(temperature=1, top_p=1e-9) == {0: 1.0}


def test_temperature_comes_after_the_filters():
    assert law(temperature=100, top_p=0.65).keys() == {0, 1}
    assert law(temperature=100, min_p=0.6).keys() == {0, 1}


def test_the_penalty_divides_positive_and_multiplies_negative_logits_of_recent_tokens():
    row = np.array([2.0, -2.0, 1.0, -1.0], dtype=np.float32)
    sampler = NumpySampler(SamplingParams(temperature=1, repeat_penalty=2), 4, history=[0])
    sampler.accept(1)
    sampler.accept(1)
    expected = np.exp([1.0, -4.0, 1.0, -1.0])
    assert sampler.distribution(row).probs == pytest.approx(expected / expected.sum())
    assert not NumpySampler(SamplingParams(repeat_penalty=2), 4).greedy
    assert NumpySampler(SamplingParams(), 4).greedy


def test_a_token_leaves_the_penalty_after_64_others():
    sampler = NumpySampler(SamplingParams(temperature=0, repeat_penalty=9), 4)
    sampler.accept(0)
    row = np.array([3.0, 2.0, 1.0, 1.0], dtype=np.float32)
    assert sampler.sample(row) == 1
    for _ in range(64):
        sampler.accept(3)
    assert sampler.sample(row) == 0


def test_a_clone_goes_its_own_way_from_the_same_state():
    sampler = NumpySampler(SamplingParams(temperature=1, repeat_penalty=5, seed=3), 4)
    twin = sampler.clone()
    twin.accept(0)
    assert probability(sampler.distribution(ROW), 0) == pytest.approx(0.4)
    again = sampler.clone()
    assert [sampler.sample(ROW) for _ in range(20)] == [again.sample(ROW) for _ in range(20)]


def test_a_draw_never_gives_a_token_of_probability_zero():
    class Edge:
        def random(self):
            return np.nextafter(1.0, 0.0)

    sure = Distribution(np.array([5, 6, 7], dtype=np.int32), np.array([0.5, 0.5, 0.0]))
    assert draw(sure, Edge()) == 6  # type: ignore[arg-type]


def test_the_residual_is_what_p_lacks_where_supports_differ():
    p = Distribution(np.array([1, 2, 3], dtype=np.int32), np.array([0.5, 0.3, 0.2]))
    q = Distribution(np.array([9, 2], dtype=np.int32), np.array([0.6, 0.4]))
    rest = residual(p, q)
    assert dict(zip(rest.ids.tolist(), rest.probs.tolist(), strict=True)) == pytest.approx({1: 5 / 7, 2: 0, 3: 2 / 7})
    assert residual(p, p) is p


def test_a_repeat_penalty_sees_the_end_of_the_prompt():
    row = np.array([1.0, 2.0, 3.0, 2.9], dtype=np.float32)
    sampler = NumpySampler(SamplingParams(repeat_penalty=1.5), 4)
    prime(sampler, [3, *[2] * PENALTY_WINDOW])
    assert sampler.sample(row) == 3  # 2 is penalised; 3 has left the window
    prime(sampler, [3])
    assert sampler.sample(row) == 1
