"""What holds for any drafter, the adversarial ones included."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from decoding_fakes import FakeSession, FakeVocabulary, ScriptedDrafter, generate, hashed_logits
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.decoding.acceptance import Acceptance
from edgespec.decoding.auto import AutoDrafter
from edgespec.decoding.cost import CostModel
from edgespec.decoding.drafters.chain import ChainDrafter
from edgespec.decoding.drafters.lookup import LookupDrafter, SuffixIndex
from edgespec.decoding.drafters.model import ModelDrafter
from edgespec.decoding.drafters.none import NoDraft
from edgespec.decoding.numpy_sampler import NumpySampler
from edgespec.decoding.sampling import SamplingParams
from edgespec.types import FinishReason, Origin

V = 10
PIECES = [b"", b"a", b"b", b"ab", b"c", b"ba", b"cab", b"\n", b"a", b"d"]


@dataclass(frozen=True)
class Case:
    """One reply to be generated."""

    prompt: tuple[int, ...]
    k: int
    order: int
    seed: int
    n_ctx: int
    max_batch: int
    max_tokens: int | None
    stop: tuple[bytes, ...]
    eog: frozenset[int]

    def target(self):
        return FakeSession(
            hashed_logits(V, self.order, self.seed), V, n_ctx=self.n_ctx, max_batch=self.max_batch, chunk=3
        )

    def run(self, drafter, sampler=None, **options):
        target = self.target()
        reply = generate(
            target, drafter, sampler, self.prompt, k=self.k, max_tokens=self.max_tokens, stop=self.stop,
            vocabulary=FakeVocabulary(PIECES, self.eog), **options,
        )  # fmt: skip
        return target, reply


cases = st.builds(
    Case,
    prompt=st.lists(st.integers(0, V - 1), min_size=1, max_size=12).map(tuple),
    k=st.sampled_from([0, 1, 2, 3, 5, 16]),
    order=st.integers(1, 3),
    seed=st.integers(0, 50),
    n_ctx=st.integers(12, 60),
    max_batch=st.sampled_from([1, 2, 5, 64]),
    max_tokens=st.none() | st.integers(0, 40),
    stop=st.lists(st.sampled_from([b"aba", b"cab", b"bb", b"abcab", b"d\n", b"\n"]), max_size=2).map(tuple),
    eog=st.frozensets(st.integers(0, V - 1), max_size=1),
)


def adversary(seed):
    """Too long, out of the vocabulary, end tokens, half right, empty: whatever a drafter can get wrong."""
    rng = np.random.default_rng(seed)
    right = hashed_logits(V, 1, seed)

    def proposals(context, limit):
        size = int(rng.integers(0, limit + 4))
        tokens = []
        for _ in range(size):
            if rng.random() < 0.7:
                tokens.append(int(right([*context, *tokens]).argmax()))
            else:
                tokens.append(int(rng.integers(-2, V + 3)))
        return tokens

    return ScriptedDrafter(proposals)


def drafters(case, kind, seed):
    draft = FakeSession(hashed_logits(V, case.order, seed % 3), V, n_ctx=30 + seed % 40, max_batch=2, chunk=3)
    model = ModelDrafter(draft)
    return {
        "plain": NoDraft(),
        "lookup": LookupDrafter(1, 3),
        "model": model,
        "adversary": adversary(case.seed),
        "auto": AutoDrafter(
            eager(), Acceptance(), model=ModelDrafter(draft), lookup=SuffixIndex(4), min_ngram=1, longest=case.k
        ),
        "chain": ChainDrafter([LookupDrafter(2, 4), adversary(seed), model]),
    }[kind]


def eager():
    """Costs at which drafting always looks good."""
    costs = CostModel()
    costs.calibrate([{1: 1.0, 33: 1.01}], 1e-3, 1e-3)
    return costs


kinds = st.sampled_from(["lookup", "model", "adversary", "chain", "auto"])


@settings(max_examples=300, deadline=None)
@given(cases, kinds, st.integers(0, 20))
def test_greedy_output_equals_plain_decoding(case, kind, seed):
    _, plain = case.run(NoDraft())
    target, reply = case.run(drafters(case, kind, seed))
    assert (reply.tokens, reply.text, reply.reason) == (plain.tokens, plain.text, plain.reason)
    check(case, target, reply)


@settings(max_examples=100, deadline=None)
@given(cases, kinds, st.integers(0, 20))
def test_a_seed_gives_the_text_of_plain_decoding_with_deterministic_drafts(case, kind, seed):
    params = SamplingParams(temperature=1, top_p=0.9, repeat_penalty=1.1, seed=seed)
    _, plain = case.run(NoDraft(), NumpySampler(params, V))
    target, reply = case.run(drafters(case, kind, seed), NumpySampler(params, V))
    assert (reply.tokens, reply.text, reply.reason) == (plain.tokens, plain.text, plain.reason)
    check(case, target, reply)


@settings(max_examples=100, deadline=None)
@given(cases, st.integers(0, 20), st.booleans())
def test_sampled_drafts_keep_every_bound(case, seed, auto):
    sampler = NumpySampler(SamplingParams(temperature=1.5, repeat_penalty=1.1, seed=seed), V)
    draft = FakeSession(hashed_logits(V + 2, case.order, seed), V + 2, max_batch=2)
    drafter = ModelDrafter(
        draft, sampler=NumpySampler(SamplingParams(temperature=1.5), V + 2), rng=np.random.default_rng(seed), n_vocab=V
    )
    if auto:
        drafter = AutoDrafter(eager(), Acceptance(), model=drafter, longest=case.k)
    target, reply = case.run(drafter, sampler, seed=seed)
    check(case, target, reply)
    assert list(draft.tokens) == (reply.prompt + reply.tokens)[: draft.length]
    assert draft.length < len(reply.prompt) + max(len(reply.tokens), 1)


@settings(max_examples=100, deadline=None)
@given(cases, kinds, st.integers(0, 20), st.integers(1, 6))
def test_closing_at_any_round_leaves_what_was_emitted(case, kind, seed, rounds):
    target, reply = case.run(drafters(case, kind, seed), close_after=rounds)
    check(case, target, reply, closed=True)


@settings(max_examples=100, deadline=None)
@given(cases, kinds, st.integers(0, 20), st.integers(0, 12))
def test_a_cancel_at_any_time_leaves_what_was_emitted(case, kind, seed, calls):
    looked = []
    target, reply = case.run(drafters(case, kind, seed), cancelled=lambda: len(looked) >= calls or looked.append(0))
    assert reply.reason is not None
    check(case, target, reply)


@settings(max_examples=100, deadline=None)
@given(cases, kinds, st.integers(0, 20), st.lists(st.integers(0, V - 1), max_size=6))
def test_a_second_turn_on_the_caches_of_the_first_equals_a_fresh_start(case, kind, seed, more):
    drafter = drafters(case, kind, seed)
    target, first = case.run(drafter)
    prompt = [*first.prompt, *first.tokens, *more][: case.n_ctx]
    options = {"k": case.k, "max_tokens": 5, "vocabulary": FakeVocabulary(PIECES, case.eog)}
    second = generate(target, drafter, prompt=prompt, **options)
    fresh = generate(case.target(), prompt=prompt, **options)
    assert (second.tokens, second.reason) == (fresh.tokens, fresh.reason)


def check(case, target, reply, *, closed=False):
    """Everything that must hold after any reply."""
    tokens, text, stats = reply.tokens, reply.text, reply.stats
    # Bounds.
    assert len(tokens) <= (len(tokens) if case.max_tokens is None else case.max_tokens)
    assert len(reply.prompt) + len(tokens) <= case.n_ctx
    if reply.reason is FinishReason.LENGTH:
        assert len(tokens) == case.max_tokens
    if reply.reason is FinishReason.CONTEXT:
        assert len(reply.prompt) + len(tokens) == case.n_ctx
    # Nothing behind an end token or a stop text is emitted.
    assert not case.eog & set(tokens[:-1])
    assert not any(stop in text for stop in case.stop)
    # What is counted is what was emitted.
    histogram = stats.acceptance_histogram
    assert sum(histogram) == stats.rounds == len(reply.rounds)
    assert sum(n * rounds for n, rounds in enumerate(histogram)) == stats.accepted <= stats.drafted
    assert stats.emitted_tokens == len(tokens) == sum(len(round_.origins) for round_ in reply.rounds)
    for round_ in reply.rounds:
        accepted = round_.verdict.accepted
        assert round_.tokens[:accepted] == round_.draft.tokens[:accepted]
        assert len(round_.tokens) == len(round_.pieces) in (accepted, accepted + 1)
        assert len(round_.draft.tokens) <= case.k
        assert (round_.verdict.kind is Origin.CORRECTED) == (accepted < len(round_.draft.tokens))
    # What is cached is what was emitted, all but the last token.
    if reply.prefilled is not None or closed:
        assert list(target.tokens) == reply.cached
