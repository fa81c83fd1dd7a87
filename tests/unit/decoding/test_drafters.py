"""Drafters: what they propose, what they remember, and what it costs them."""

from __future__ import annotations

import random

import numpy as np
import pytest
from decoding_fakes import FakeSession, FakeVocabulary, ScriptedDrafter, generate, hashed_logits, scripted_logits
from hypothesis import given
from hypothesis import strategies as st

from edgespec.decoding.drafters.chain import ChainDrafter
from edgespec.decoding.drafters.lookup import LookupDrafter, SuffixIndex
from edgespec.decoding.drafters.model import ModelDrafter
from edgespec.decoding.drafters.none import NoDraft
from edgespec.decoding.numpy_sampler import NumpySampler
from edgespec.decoding.sampling import GreedySampler, SamplingParams
from edgespec.decoding.session import Interrupted
from edgespec.types import Origin, Verdict

V = 32


def propose(drafter, context, limit=8):
    drafter.begin(context)
    return list(drafter.propose(context, limit).tokens)


# Lookup


def test_lookup_copies_what_followed_the_same_words():
    assert propose(LookupDrafter(3, 4), [1, 2, 3, 4, 5, 6, 7, 9, 1, 2, 3, 4], 3) == [5, 6, 7]


def test_lookup_prefers_the_longest_match_then_the_most_recent():
    longest_is_older = [1, 2, 3, 20, 9, 2, 3, 21, 1, 2, 3]
    assert propose(LookupDrafter(1, 3), longest_is_older, 1) == [20]
    equally_long = [1, 2, 3, 20, 9, 1, 2, 3, 21, 8, 1, 2, 3]
    assert propose(LookupDrafter(1, 3), equally_long, 1) == [21]


@pytest.mark.parametrize("context", [[], [5], [5, 6], [1, 2, 3, 4, 5, 6]])
def test_lookup_has_nothing_to_say_about_a_history_without_repetition(context):
    assert propose(LookupDrafter(1, 8), context) == []


def test_a_match_is_never_the_suffix_itself():
    assert propose(LookupDrafter(3, 8), [1, 2, 3]) == []


def test_a_run_goes_on_in_circles():
    assert propose(LookupDrafter(1, 4), [7, 7, 7, 7, 7], 6) == [7] * 6
    assert propose(LookupDrafter(1, 4), [8, 9] * 4, 5) == [8, 9, 8, 9, 8]


def test_matches_shorter_than_min_ngram_are_ignored_and_max_ngram_bounds_what_counts():
    context = [1, 2, 3, 20, 9, 2, 3, 21, 1, 2, 3]
    assert propose(LookupDrafter(4, 8), context) == []
    assert propose(LookupDrafter(3, 8), context, 1) == [20]
    assert propose(LookupDrafter(2, 2), context, 1) == [21]


def test_a_draft_is_half_as_long_as_its_match_until_the_match_is_as_long_as_it_can_be():
    words = list(range(10, 30))
    for match, expected in [(4, 2), (7, 3), (8, 12)]:
        assert len(propose(LookupDrafter(3, 8), [*words, 1, *words[:match]], 12)) == expected


def test_drafts_that_fail_ask_for_longer_matches_until_one_succeeds():
    drafter = LookupDrafter(3, 16)
    context = [10, 11, 12, 13, 14, 15, 0, 10, 11, 12, 13]
    drafter.begin(context)
    for _ in range(2):
        assert drafter.propose(context, 4).tokens == (14, 15)
        drafter.observe(Verdict(0, 9, Origin.CORRECTED))
    assert drafter.propose(context, 4).tokens == ()  # four tokens match, five are asked for
    drafter.observe(Verdict(0, 14, Origin.PLAIN))
    assert drafter.propose([*context, 14], 4).tokens == (15, 0)
    drafter.observe(Verdict(2, 9, Origin.BONUS))
    assert drafter.propose([*context, 14, 15, 0, 9, 10, 11, 12], 4).tokens == (13,)


def test_chance_matches_stop_costing_anything():
    rng = random.Random(0)
    script = [rng.randrange(8) for _ in range(3000)]
    target = FakeSession(scripted_logits(script, 1, 8), 8)
    stats = generate(target, LookupDrafter(), prompt=[0], k=7, max_tokens=3000).stats
    assert stats.drafted < 0.02 * stats.emitted_tokens


def test_a_reply_that_repeats_its_prompt_takes_few_rounds():
    text = [random.Random(1).randrange(V) for _ in range(300)]
    target = FakeSession(scripted_logits(text, 301, V), V)
    stats = generate(target, LookupDrafter(), prompt=[*text, 0], k=7, max_tokens=300).stats
    assert stats.mean_acceptance_length > 5


def test_only_new_tokens_are_indexed_when_a_turn_goes_on_from_the_last(monkeypatch):
    drafter = LookupDrafter()
    drafter.begin(range(100))
    drafter.finish(100)
    added = []
    add = SuffixIndex._add_last
    monkeypatch.setattr(SuffixIndex, "_add_last", lambda self: added.append(self._history[-1]) or add(self))
    drafter.begin(range(105))
    assert added == [100, 101, 102, 103, 104]


def test_what_a_stop_took_back_is_forgotten():
    drafter = LookupDrafter(2, 4)
    drafter.begin([1, 2, 3, 4, 1, 2])
    drafter.finish(3)
    assert propose(drafter, [1, 2, 3, 9, 1, 2], 1) == [3]
    drafter.finish(4)
    assert propose(drafter, [5, 6, 7, 8, 5, 6], 1) == [7]


@pytest.mark.parametrize("bounds", [(0, 3), (4, 3), (-1, -1)])
def test_impossible_ngram_bounds_are_refused(bounds):
    with pytest.raises(ValueError, match="min_ngram"):
        LookupDrafter(*bounds)


@given(st.lists(st.integers(0, 2), max_size=50), st.integers(1, 6))
def test_the_index_agrees_with_a_search_of_the_whole_history(history, max_ngram):
    index = SuffixIndex(max_ngram)
    for n, token in enumerate(history, start=1):
        index.extend([token])
        expected = next(
            (
                (length, end)
                for length in range(min(max_ngram, n - 1), 0, -1)
                for end in range(n - 2, length - 2, -1)
                if history[end - length + 1 : end + 1] == history[n - length : n]
            ),
            (0, -1),
        )
        assert (index.match_length, index.match_end) == expected


# Draft model


@pytest.mark.parametrize("max_batch", [1, 2, 64])
def test_no_token_is_evaluated_twice_and_at_most_one_is_caught_up(max_batch):
    draft = FakeSession(lambda tokens: hashed_logits(V, seed=int(tokens[-1] % 4 == 0))(tokens), V, max_batch=max_batch)
    target = FakeSession(hashed_logits(V), V)
    reply = generate(target, ModelDrafter(draft), k=4, max_tokens=200)
    histogram = reply.stats.acceptance_histogram
    assert len(histogram) == 5 and all(histogram), "every number of accepted tokens must have occurred"
    for session in (target, draft):
        assert len(set(session.evaluated)) == len(session.evaluated)
    assert max(map(len, draft.decoded)) == min(2, max_batch)
    assert len(draft.decoded) == reply.stats.drafted


def test_the_last_draft_token_is_not_evaluated_and_rides_along_with_the_next_step():
    script = list(range(4, 30))
    draft = FakeSession(scripted_logits(script, 3, V), V, max_batch=2)
    target = FakeSession(scripted_logits(script, 3, V), V)
    generate(target, ModelDrafter(draft), k=3, max_tokens=8)
    assert draft.decoded == [(3,), (4,), (5,), (6, 7), (8,), (9,)]
    assert draft.prefilled == [(1, 2)]


def test_after_a_rejection_the_draft_goes_on_from_the_corrected_token():
    draft = FakeSession(scripted_logits([4, 5, 9, 9, 9, 9, 9], 3, V), V)
    target = FakeSession(scripted_logits([4, 5, 6, 7, 8], 3, V), V)
    generate(target, ModelDrafter(draft), k=4, max_tokens=5)
    assert draft.decoded == [(3,), (4,), (5,), (9,), (6,)]
    assert draft.truncations[0] == 5


def test_after_a_reply_the_draft_cache_holds_no_more_than_was_emitted():
    draft = FakeSession(hashed_logits(V), V)
    target = FakeSession(hashed_logits(V), V)
    drafter = ModelDrafter(draft)
    reply = generate(target, drafter, k=4, close_after=2)
    assert list(draft.tokens) == reply.cached[: len(draft.tokens)]
    again = generate(target, drafter, prompt=[*reply.prompt, *reply.tokens, 7], k=4, max_tokens=30)
    fresh = generate(FakeSession(hashed_logits(V), V), prompt=again.prompt, max_tokens=30)
    assert again.tokens == fresh.tokens
    assert again.stats.draft_acceptance_rate == 1


def test_a_draft_context_smaller_than_the_targets_ends_drafting_without_harm():
    draft = FakeSession(hashed_logits(V), V, n_ctx=20)
    reply = generate(FakeSession(hashed_logits(V), V), ModelDrafter(draft), k=4, max_tokens=60)
    assert reply.tokens == generate(FakeSession(hashed_logits(V), V), max_tokens=60).tokens
    assert reply.stats.drafted > 0
    assert reply.rounds[-2].draft.tokens == ()
    long = generate(FakeSession(hashed_logits(V), V), ModelDrafter(draft), prompt=[1] * 21, k=4, max_tokens=5)
    assert long.stats.drafted == 0


def test_a_draft_vocabulary_larger_than_the_targets_is_cut():
    draft = FakeSession(scripted_logits([4, 5, V + 3, 6], 3, V + 8), V + 8)
    drafter = ModelDrafter(draft, n_vocab=V)
    drafter.begin([1, 2, 3])
    assert len(drafter.propose([1, 2, 3], 8).tokens) == 3  # the loop withholds the one that the target lacks
    assert len(draft.decoded) == 3
    reply = generate(FakeSession(scripted_logits([4, 5, 6, 7], 3, V), V), drafter, max_tokens=4)
    assert reply.tokens == [4, 5, 6, 7]


def test_nothing_is_drafted_behind_the_end_of_a_reply():
    draft = FakeSession(scripted_logits([4, 5, 6, 7, 8], 3, V), V)
    drafter = ModelDrafter(draft, is_eog=lambda token: token == 6)
    drafter.begin([1, 2, 3])
    assert drafter.propose([1, 2, 3], 8).tokens == (4, 5, 6)  # the loop leaves the last one out
    assert len(draft.decoded) == 3


def test_a_token_that_the_draft_model_does_not_have_ends_drafting_without_harm():
    script = [4, 5, V - 1, 6, 7, 8, 9]
    draft = FakeSession(scripted_logits([4, 5, 6], 3, V - 1), V - 1)
    reply = generate(FakeSession(scripted_logits(script, 3, V), V), ModelDrafter(draft), k=2, max_tokens=7)
    assert reply.tokens == script
    assert [len(round_.draft.tokens) for round_ in reply.rounds] == [2, 0, 0, 0, 0]
    unreadable = generate(FakeSession(hashed_logits(V), V), ModelDrafter(draft), prompt=[1, V - 1, 3], max_tokens=3)
    assert unreadable.stats.drafted == 0


def test_sampled_drafts_record_their_laws_and_leave_penalties_of_rejected_tokens_behind():
    params = SamplingParams(temperature=1, repeat_penalty=5)
    base = NumpySampler(params, V)
    drafter = ModelDrafter(
        FakeSession(hashed_logits(V), V), sampler=base, rng=np.random.default_rng(0), n_vocab=V
    )  # fmt: skip
    drafter.begin([1, 2, 3])
    draft = drafter.propose([1, 2, 3], 4)
    assert draft.probs is not None
    assert len(draft.probs) == len(draft.tokens) == 4
    assert all(token in law.ids for token, law in zip(draft.tokens, draft.probs, strict=True))
    assert list(base._recent) == []
    drafter.observe(Verdict(1, 30, Origin.CORRECTED))
    drafter.propose([1, 2, 3, draft.tokens[0], 30], 4)
    assert list(base._recent) == [draft.tokens[0], 30]


def test_sampled_drafts_need_random_numbers_and_a_greedy_sampler_needs_none():
    session = FakeSession(hashed_logits(V), V)
    with pytest.raises(ValueError, match="random"):
        ModelDrafter(session, sampler=NumpySampler(SamplingParams(temperature=1), V))
    drafter = ModelDrafter(session, sampler=GreedySampler())
    drafter.begin([1, 2, 3])
    assert drafter.propose([1, 2, 3], 2).probs is None


def test_catching_up_on_a_long_prompt_can_be_cancelled():
    calls = iter([False, True])
    draft = FakeSession(hashed_logits(V), V, chunk=4)
    drafter = ModelDrafter(draft, cancelled=lambda: next(calls))
    with pytest.raises(Interrupted):
        drafter.begin([1] * 20)
    assert draft.length == 4


@pytest.mark.parametrize("k", [0, 1, 16])
def test_draft_lengths_from_nothing_to_many(k):
    draft = FakeSession(hashed_logits(V, order=2, seed=1), V, max_batch=2)
    reply = generate(FakeSession(hashed_logits(V, order=2), V), ModelDrafter(draft), k=k, max_tokens=80)
    assert reply.tokens == generate(FakeSession(hashed_logits(V, order=2), V), max_tokens=80).tokens
    assert (reply.stats.drafted == 0) == (k == 0)


# Chain


def test_the_first_drafter_with_something_to_say_is_heard_and_the_model_catches_up():
    script = [5, 6, 7, 8, 9, 5, 6, 7, 8, 9, 5, 6, 7, 8, 9, 20, 21, 22, 23, 24, 25, 26]
    draft = FakeSession(scripted_logits(script, 3, V), V, max_batch=2)
    target = FakeSession(scripted_logits(script, 3, V), V)
    chain = ChainDrafter([LookupDrafter(3, 4), ModelDrafter(draft)])
    reply = generate(target, chain, k=4, max_tokens=len(script))
    assert reply.tokens == script
    assert {round_.draft.source for round_ in reply.rounds} >= {"lookup", "draft"}
    assert list(draft.tokens) == (reply.prompt + script)[: draft.length]
    assert chain.name == "lookup+draft"


def test_drafters_that_were_not_heard_learn_that_nothing_of_theirs_was_judged():
    empty, heard, unasked = (ScriptedDrafter(lambda context, limit, t=t: t) for t in ([], [5], [6]))
    generate(FakeSession(scripted_logits([5, 6], 3, V), V), ChainDrafter([empty, heard, unasked]), max_tokens=2)
    assert heard.verdicts == [Verdict(1, 6, Origin.BONUS)]
    assert empty.verdicts == unasked.verdicts == [Verdict(0, 6, Origin.PLAIN)]
    assert unasked.limits == []
    assert empty.finished == heard.finished == unasked.finished == [5]


def test_a_chain_of_silent_drafters_is_plain_decoding():
    chain = ChainDrafter([NoDraft(), LookupDrafter()])
    reply = generate(FakeSession(scripted_logits([5, 6], 3, V), V), chain, max_tokens=2)
    assert reply.tokens == [5, 6]
    assert [round_.draft.tokens for round_ in reply.rounds] == [(), ()]


def test_closing_a_chain_closes_its_models():
    draft = FakeSession(hashed_logits(V), V)
    ChainDrafter([LookupDrafter(), ModelDrafter(draft)]).close()
    assert draft.closed


def test_an_end_token_drawn_by_the_draft_model_is_never_evaluated_by_the_target():
    params = SamplingParams(temperature=1, seed=1)
    draft = FakeSession(hashed_logits(V, order=1, seed=1), V)
    drafter = ModelDrafter(draft, sampler=NumpySampler(params, V), rng=np.random.default_rng(0))
    target = FakeSession(hashed_logits(V, order=1), V)
    ends = range(20, V)
    for _ in range(30):
        reply = generate(target, drafter, NumpySampler(params, V), k=6, vocabulary=FakeVocabulary(eog=ends))
        assert all(token not in ends for token in reply.tokens[:-1])
    assert all(token not in ends for batch in target.decoded for token in batch)
