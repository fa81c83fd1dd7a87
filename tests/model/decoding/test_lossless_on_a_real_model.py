"""The law of a real model survives speculation: 50,000 tokens over a fixed context against the model's own law."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from edgespec.decoding.distributions import draw, probability
from edgespec.decoding.sampling import SamplingParams
from edgespec.decoding.verify import verify_match, verify_rejection
from edgespec.llama.model import LlamaModel
from edgespec.llama.sampler import make_sampler
from edgespec.llama.session import LlamaSession
from edgespec.types import Distribution, Draft

pytestmark = pytest.mark.model

TEXT = "On the last evening of the holiday the children went down to the harbour to watch the"
ROUNDS = 50_000
TESTS = 4
"""Two rules, each tested on the tokens drafted for and on the bonus tokens behind them."""


class FixedContext:
    """Rows of logits behind one context, and behind that and one more token, each computed once."""

    def __init__(self, session: LlamaSession, tokens: list[int]) -> None:
        self._session, self._last = session, tokens[-1]
        session.prefill(tokens[:-1])
        self._rows: dict[int | None, np.ndarray] = {}

    def rows(self, draft: int) -> np.ndarray:
        if draft not in self._rows:
            length = self._session.length
            self._rows[draft] = self._session.decode([self._last, draft]).copy()
            self._session.truncate(length)
        return self._rows[draft]


class Remembering:
    """A sampler without penalties has one law for a row of logits; asking llama.cpp for it once saves minutes."""

    greedy = False

    def __init__(self, sampler) -> None:
        self._sampler = sampler
        self._laws = {}
        self.sample, self.accept, self.clone = sampler.sample, sampler.accept, sampler.clone

    def distribution(self, row: np.ndarray) -> Distribution:
        address = row.__array_interface__["data"][0]
        if address not in self._laws:
            self._laws[address] = self._sampler.distribution(row)
        return self._laws[address]


@pytest.fixture(scope="module")
def setting(demo_model: Path):
    """The target's context, its sampler, and a draft law that differs: another context, another temperature."""
    with LlamaModel.load(demo_model, use_extra_bufts=False) as model:
        tokens = model.vocab.tokenize(TEXT, add_special=True, parse_special=False)
        with LlamaSession(model, n_ctx=256) as session, LlamaSession(model, n_ctx=256) as draft:
            params = SamplingParams(temperature=0.8, top_k=40, seed=5)
            sampler = Remembering(make_sampler(model.vocab, params))
            hot = make_sampler(model.vocab, SamplingParams(temperature=1.2, top_k=40))
            q = hot.distribution(draft.decode(tokens[-3:])[-1])
            yield FixedContext(session, tokens), sampler, q


def pooled(observed: Counter[int], expected: dict[int, float]) -> float:
    """p-value of a chi-square fit; tokens expected fewer than five times are counted together."""
    assert set(observed) <= set(expected), "a token that the sampler chain had removed"
    total = sum(observed.values())
    rare = [token for token, prob in expected.items() if prob * total < 5]
    common = [token for token in expected if token not in set(rare)]
    counts = [observed[token] for token in common] + [sum(observed[token] for token in rare)]
    means = [expected[token] * total for token in common] + [sum(expected[token] for token in rare) * total]
    if means[-1] < 5:
        counts[-2:], means[-2:] = [sum(counts[-2:])], [sum(means[-2:])]
    return float(stats.chisquare(counts, np.array(means) * (total / sum(means))).pvalue)


@pytest.mark.parametrize("rule", ["rejection", "match"])
def test_speculated_tokens_follow_the_models_own_law(setting, rule):
    context, sampler, q = setting
    rng = np.random.default_rng(17)
    likeliest = int(context.rows(int(q.ids[0]))[0].argmax())
    first, bonus = Counter(), Counter()
    while first.total() + bonus.total() < ROUNDS:
        if rule == "rejection":
            token = draw(q, rng)
            verdict = verify_rejection(context.rows(token), Draft((token,), (q,)), sampler, rng)
        else:
            token = likeliest
            verdict = verify_match(context.rows(token), Draft((token,)), sampler)
        first[token if verdict.accepted else verdict.next_token] += 1
        if verdict.accepted:
            bonus[token, verdict.next_token] += 1
    p = sampler.distribution(context.rows(likeliest)[0])
    law = dict(zip(p.ids.tolist(), p.probs.tolist(), strict=True))
    assert pooled(first, law) > 0.05 / TESTS
    # The bonus tokens, behind the draft token that was accepted most often.
    after, _ = Counter(token for token, _ in bonus.elements()).most_common(1)[0]
    law = sampler.distribution(context.rows(after)[1])
    expected = {int(token): probability(law, int(token)) for token in law.ids}
    assert pooled(Counter({b: n for (a, b), n in bonus.items() if a == after}), expected) > 0.05 / TESTS
    accepted = bonus.total() / first.total()
    expected_rate = (
        sum(min(probability(p, int(token)), prob) for token, prob in zip(q.ids, q.probs, strict=True))
        if rule == "rejection"
        else probability(p, likeliest)
    )
    assert accepted == pytest.approx(expected_rate, abs=4 * np.sqrt(0.25 / first.total()))
    assert 0.05 < accepted < 0.95
