"""The loop on real models: what the fakes cannot show."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare

from edgespec.decoding.drafters.base import Drafter
from edgespec.decoding.drafters.lookup import LookupDrafter
from edgespec.decoding.drafters.model import ModelDrafter
from edgespec.decoding.drafters.none import NoDraft
from edgespec.decoding.length import FixedLength
from edgespec.decoding.sampling import SamplingParams
from edgespec.decoding.session import prefill
from edgespec.decoding.speculate import speculate
from edgespec.decoding.verify import verify_match, verify_rejection
from edgespec.llama.model import LlamaModel
from edgespec.llama.sampler import ChainSampler, make_sampler
from edgespec.llama.session import LlamaSession
from edgespec.types import Draft, Finished, FinishReason, Round

pytestmark = pytest.mark.model
Tiny = Callable[[str], LlamaModel]


def open_session(model: LlamaModel, **options: int) -> LlamaSession:
    """One thread: passes are short, and test machines are often busy."""
    return LlamaSession(model, threads=1, **options)


class NoEnd:
    """A vocabulary without end-of-generation tokens, so that only budgets end a reply."""

    def is_eog(self, token: int) -> bool:
        return False

    def piece(self, token: int) -> bytes:
        return b"x"


def reply(
    session: LlamaSession, drafter: Drafter, prompt: Sequence[int], k: int, **options: int
) -> tuple[list[int], FinishReason, int]:
    """Greedy tokens, why they ended, and the number of target passes."""
    sampler = make_sampler(session._model.vocab, SamplingParams())
    tokens, passes, reason = [], 0, None
    for event in speculate(
        session, drafter, sampler, prompt,
        length=FixedLength(k), vocabulary=NoEnd(), rng=np.random.default_rng(0), **options,
    ):  # fmt: skip
        if isinstance(event, Round):
            tokens += event.tokens
            passes += 1
        elif isinstance(event, Finished):
            reason = event.reason
    assert reason is not None
    return tokens, reason, passes


def test_every_mode_fills_the_context_and_stops_there_with_the_same_text(demo: LlamaModel) -> None:
    prompt = demo.vocab.tokenize("one two three one two " * 10, add_special=True, parse_special=False)[:50]
    with open_session(demo, n_ctx=64) as target, open_session(demo, n_ctx=64, max_draft=1) as small:
        plain = reply(target, NoDraft(), prompt, 0)
        assert plain[1] is FinishReason.CONTEXT
        assert len(plain[0]) == 14
        for drafter in (LookupDrafter(), ModelDrafter(small)):
            for k in (1, 3, 16):
                tokens, reason, _ = reply(target, drafter, prompt, k)
                assert (tokens, reason) == plain[:2]
                assert target.length == 63
        assert reply(target, NoDraft(), prompt[:20], 0, max_tokens=2)[1] is FinishReason.LENGTH  # still usable


@pytest.mark.parametrize("n_batch", [8, 64, 512])
def test_lookup_works_for_any_ratio_of_prompt_to_batch(demo: LlamaModel, n_batch: int) -> None:
    prompt = demo.vocab.tokenize("a rose is a rose is " * 20, add_special=True, parse_special=False)[:80]
    with open_session(demo, n_ctx=2048, n_batch=n_batch) as target:
        tokens, reason, passes = reply(target, LookupDrafter(), prompt, 8, max_tokens=24)
    assert (len(tokens), reason) == (24, FinishReason.LENGTH)
    assert passes < 20


def test_a_model_that_drafts_for_itself_is_accepted(demo: LlamaModel) -> None:
    prompt = demo.vocab.tokenize("Once upon a time", add_special=True, parse_special=False)
    with open_session(demo, n_ctx=256) as target, open_session(demo, n_ctx=256, max_draft=1) as small:
        tokens, _, passes = reply(target, ModelDrafter(small), prompt, 4, max_tokens=50)
    assert len(tokens) == 50
    assert passes <= 12


@pytest.mark.parametrize("arch", ["llama", "gemma3", "lfm2"])
def test_drafts_change_nothing_on_any_memory_that_goes_back(tiny: Tiny, arch: str) -> None:
    prompt = np.random.default_rng(5).integers(10, 250, 30).tolist()
    with open_session(tiny(arch), n_ctx=512) as session:
        plain = reply(session, NoDraft(), prompt, 0, max_tokens=150)
        session.truncate(0)
        drafted = reply(session, Noisy(plain[0], len(prompt)), prompt, 5, max_tokens=150)
    assert plain[0] == drafted[0]
    assert drafted[2] < 100


@pytest.mark.parametrize("arch", ["mamba", "jamba"])
def test_memories_that_cannot_go_back_get_no_drafts(tiny: Tiny, arch: str) -> None:
    with open_session(tiny(arch), n_ctx=512) as session:
        plain = reply(session, NoDraft(), [10, 11, 12], 0, max_tokens=20)
        session.truncate(0)
        assert reply(session, Noisy(plain[0], 3), [10, 11, 12], 5, max_tokens=20) == plain


class Noisy(NoDraft):
    """Drafts that are right except for every third token."""

    def __init__(self, truth: Sequence[int], offset: int) -> None:
        self._truth, self._offset, self._calls = truth, offset, 0

    def propose(self, context: Sequence[int], limit: int) -> Draft:
        done = len(context) - self._offset
        self._calls += 1
        right = list(self._truth[done : done + limit])
        if right and self._calls % 3:
            right[-1] = 9 if right[-1] != 9 else 10
        return Draft(tuple(right))


@pytest.fixture(scope="module")
def two_positions(demo: LlamaModel) -> Iterator[Callable[[int], NDArray[np.float32]]]:
    """Logits of the real model behind a fixed context and one more token of choice."""
    context = demo.vocab.tokenize("The best thing about the sea is", add_special=True, parse_special=False)
    with open_session(demo, n_ctx=256) as session:
        for _ in prefill(session, context[:-1], lambda: False):
            pass
        cache: dict[int, NDArray[np.float32]] = {}

        def after(token: int) -> NDArray[np.float32]:
            if token not in cache:
                session.truncate(len(context) - 1)
                cache[token] = session.decode([context[-1], token]).copy()
            return cache[token]

        yield after


@pytest.mark.parametrize("rule", ["match", "rejection"])
def test_speculative_sampling_on_a_real_model_draws_from_the_models_own_law(
    demo: LlamaModel, two_positions: Callable[[int], NDArray[np.float32]], rule: str
) -> None:
    params = SamplingParams(temperature=0.8, top_k=40, seed=3)
    sampler, rng = make_sampler(demo.vocab, params), np.random.default_rng(4)
    assert isinstance(sampler, ChainSampler)
    drafts = ChainSampler(sampler._lib, demo.n_vocab, SamplingParams(temperature=1.5, top_k=25))
    likely = int(two_positions(0)[0].argmax())
    p, q = sampler.distribution(two_positions(0)[0]), drafts.distribution(two_positions(0)[0])
    rounds, first = 15_000, []
    proposals = rng.choice(q.ids, size=rounds, p=q.probs) if rule == "rejection" else np.full(rounds, likely)
    for proposal in proposals.tolist():
        rows = two_positions(proposal)
        if rule == "match":
            draft = Draft((proposal,))
            verdict = verify_match(rows, draft, sampler)
        else:
            draft = Draft((proposal,), (q,))
            verdict = verify_rejection(rows, draft, sampler, rng)
        first.append(proposal if verdict.accepted else verdict.next_token)
    counts = np.bincount(first, minlength=demo.n_vocab)[p.ids]
    assert counts.sum() == rounds  # nothing outside the law
    common = p.probs * rounds >= 5
    observed, expected = [*counts[common]], [*(p.probs[common] * rounds)]
    if not common.all():
        observed.append(counts[~common].sum())
        expected.append(p.probs[~common].sum() * rounds)
    assert chisquare(observed, expected, sum_check=False).pvalue > 0.025  # two tests share 0.05
