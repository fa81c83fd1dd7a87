"""The loop: what it emits, where it ends, and what it leaves in the caches."""

from __future__ import annotations

import math

import numpy as np
import pytest
from decoding_fakes import (
    FakeSession,
    FakeVocabulary,
    ScriptedDrafter,
    generate,
    hashed_logits,
    scripted_logits,
)

from edgespec.decoding.drafters.lookup import LookupDrafter
from edgespec.decoding.drafters.model import ModelDrafter
from edgespec.decoding.drafters.none import NoDraft
from edgespec.decoding.length import FixedLength
from edgespec.decoding.numpy_sampler import NumpySampler
from edgespec.decoding.sampling import GreedySampler, SamplingParams
from edgespec.decoding.session import Interrupted
from edgespec.decoding.speculate import speculate
from edgespec.errors import ContextFullError, DecodeError
from edgespec.types import FinishReason, Origin, Prefilled, Round

V = 32


def scripted(script, prompt=(1, 2, 3), **options):
    return FakeSession(scripted_logits(script, len(prompt), V), V, **options)


def following(script, prompt_length=3):
    """A drafter that proposes the script itself, as far as the limit goes and beyond it."""
    return ScriptedDrafter(lambda context, limit: script[len(context) - prompt_length :][: limit + 5])


def test_plain_decoding_emits_the_argmax_sequence_one_token_a_round():
    script = [5, 6, 7, 8]
    reply = generate(scripted(script), max_tokens=4)
    assert reply.tokens == script
    assert [round_.origins for round_ in reply.rounds] == [(Origin.PLAIN,)] * 4
    assert reply.reason is FinishReason.LENGTH
    assert [round_.index for round_ in reply.rounds] == [0, 1, 2, 3]


def test_a_rejection_at_the_third_draft_leaves_prefix_and_two_accepted_tokens_in_the_cache():
    prefix = list(range(10, 20))
    target = FakeSession(scripted_logits([1, 2, 3, 4, 5, 6, 7], 10, V), V)
    drafter = ScriptedDrafter(lambda context, limit: [1, 2, 9, 9, 9])
    reply = generate(target, drafter, prompt=prefix, k=5, close_after=1)
    assert reply.rounds[0].verdict.accepted == 2
    assert reply.rounds[0].verdict.next_token == 3
    assert list(target.tokens) == [*prefix, 1, 2]
    assert target.decoded[0] == (19, 1, 2, 9, 9, 9)


def test_the_next_pass_after_a_rejection_reads_exactly_prefix_and_accepted_tokens():
    prefix = list(range(10, 20))
    seen = []
    logits = scripted_logits([1, 2, 3, 4, 5, 6, 7], 10, V)
    target = FakeSession(lambda tokens: seen.append(list(tokens)) or logits(tokens), V)
    drafter = ScriptedDrafter(lambda context, limit: [1, 2, 9, 9, 9] if len(context) == 10 else [])
    generate(target, drafter, prompt=prefix, k=5, max_tokens=8)
    assert seen[6] == [*prefix, 1, 2, 3]


def test_accepted_corrected_and_bonus_tokens_are_told_apart():
    script = [5, 6, 7, 8, 9, 10]
    drafts = {3: [5, 6], 6: [8, 31]}
    drafter = ScriptedDrafter(lambda context, limit: drafts.get(len(context), []))
    reply = generate(scripted(script), drafter, max_tokens=6)
    assert [round_.origins for round_ in reply.rounds] == [
        (Origin.ACCEPTED, Origin.ACCEPTED, Origin.BONUS),
        (Origin.ACCEPTED, Origin.CORRECTED),
        (Origin.PLAIN,),
    ]
    assert reply.tokens == script


def test_a_wholly_accepted_draft_needs_no_truncate():
    script = list(range(4, 30))
    target = scripted(script)
    generate(target, following(script), max_tokens=20, k=4)
    assert target.truncations == []


@pytest.mark.parametrize("max_tokens", [0, 1, 2, 3, 7])
def test_a_drafter_that_overshoots_never_exceeds_the_budget(max_tokens):
    script = [5, 6] * 20
    target = scripted(script)
    reply = generate(target, following(script), k=10, max_tokens=max_tokens)
    assert reply.tokens == script[:max_tokens]
    assert reply.reason is FinishReason.LENGTH
    assert list(target.tokens) == reply.cached


def test_a_budget_of_nothing_fills_the_cache_and_runs_no_round():
    target = scripted([5])
    reply = generate(target, max_tokens=0)
    assert (reply.rounds, reply.reason) == ([], FinishReason.LENGTH)
    assert list(target.tokens) == [1, 2]


@pytest.mark.parametrize("make", [NoDraft, LookupDrafter, lambda: following([7] * 99, 50)])
def test_prompt_and_reply_fill_the_context_exactly_in_every_mode(make):
    prompt = [7] * 50
    target = FakeSession(scripted_logits([7] * 99, 50, V), V, n_ctx=64)
    reply = generate(target, make(), prompt=prompt, k=16)
    assert reply.reason is FinishReason.CONTEXT
    assert reply.tokens == [7] * 14
    assert list(target.tokens) == reply.cached


def test_a_prompt_that_fills_the_context_leaves_no_room_for_a_round():
    reply = generate(FakeSession(scripted_logits([7], 8, V), V, n_ctx=8), prompt=[7] * 8)
    assert (reply.rounds, reply.reason) == ([], FinishReason.CONTEXT)


def test_a_prompt_beyond_the_context_is_refused_with_both_numbers():
    with pytest.raises(ContextFullError, match=r"9 tokens.*holds 8"):
        generate(FakeSession(scripted_logits([7], 8, V), V, n_ctx=8), prompt=[7] * 9)


def test_an_empty_prompt_and_a_negative_budget_are_refused():
    with pytest.raises(ValueError, match="empty"):
        generate(scripted([5]), prompt=[])
    with pytest.raises(ValueError, match="negative"):
        generate(scripted([5]), max_tokens=-1)


def test_a_prompt_of_one_token_works_with_and_without_drafts():
    for drafter in (NoDraft(), LookupDrafter(1, 4)):
        target = FakeSession(scripted_logits([5, 6, 5, 6, 5, 6], 1, V), V)
        reply = generate(target, drafter, prompt=[4], max_tokens=6)
        assert reply.tokens == [5, 6, 5, 6, 5, 6]
        assert reply.prefilled is not None
        assert (reply.prefilled.prompt_tokens, reply.prefilled.cached_tokens) == (1, 0)


def test_an_end_token_inside_a_draft_ends_the_reply_and_nothing_behind_it_is_cached():
    eog, turn = 2, 3
    script = [10, 11, 12, eog, turn, 20, 21]
    target = scripted(script)
    drafter = following(script)
    reply = generate(target, drafter, k=8, vocabulary=FakeVocabulary(eog=[eog]))
    assert reply.tokens == [10, 11, 12, eog]
    assert reply.reason is FinishReason.STOP
    assert reply.rounds[-1].draft.tokens == (10, 11, 12)
    assert reply.rounds[-1].pieces[-1] == b""
    assert list(target.tokens) == [1, 2, 3, 10, 11, 12]
    assert eog not in [token for batch in target.decoded for token in batch]
    assert drafter.finished == [7]


def test_lookup_that_proposes_a_finished_turn_stops_at_its_end_token():
    eog, turn, user = 2, 3, 4
    prompt = [turn, 10, 11, 12, 13, eog, turn, user, turn, 10]
    target = FakeSession(scripted_logits([11, 12, 13, eog, turn, user], len(prompt), V), V)
    reply = generate(target, LookupDrafter(1, 4), prompt=prompt, k=8, vocabulary=FakeVocabulary(eog=[eog]))
    assert reply.tokens == [11, 12, 13, eog]
    assert list(target.tokens) == reply.cached


def test_an_end_token_at_the_end_of_the_prompt_does_not_end_the_reply():
    reply = generate(scripted([5, 6]), prompt=[1, 2, 2], max_tokens=2, vocabulary=FakeVocabulary(eog=[2]))
    assert reply.tokens == [5, 6]


@pytest.mark.parametrize("bad", [V, V + 7, -1])
def test_a_draft_is_cut_before_a_token_that_the_target_does_not_have(bad):
    script = [5, 6, 7, 8]
    target = scripted(script)
    drafter = ScriptedDrafter(lambda context, limit: [5, bad, 7] if len(context) == 3 else [])
    reply = generate(target, drafter, max_tokens=4)
    assert reply.tokens == script
    assert reply.rounds[0].draft.tokens == (5,)


def test_a_draft_never_exceeds_what_one_pass_may_take():
    script = list(range(4, 30))
    target = scripted(script, max_batch=3)
    generate(target, following(script), k=16, max_tokens=12)
    assert max(map(len, target.decoded)) == 3
    single = scripted(script, max_batch=1)
    assert generate(single, following(script), k=16, max_tokens=5).tokens == script[:5]


def test_a_length_of_zero_asks_for_no_draft_but_still_tells_the_drafter_what_came():
    drafter = following([5, 6, 7])
    generate(scripted([5, 6, 7]), drafter, k=0, max_tokens=3)
    assert drafter.limits == []
    assert [verdict.next_token for verdict in drafter.verdicts] == [5, 6, 7]


def test_memory_that_cannot_rewind_runs_plain_turn_after_turn():
    target = FakeSession(hashed_logits(V), V, can_rewind=False)
    first = generate(target, max_tokens=5)
    assert target.truncations == []
    second = generate(target, prompt=first.prompt + first.tokens + [9, 8], max_tokens=5)
    assert target.truncations == []
    assert second.prefilled is not None
    assert second.prefilled.cached_tokens == 7
    # The same without any cache to start from.
    assert generate(FakeSession(hashed_logits(V), V), prompt=second.prompt, max_tokens=5).tokens == second.tokens


def test_memory_that_cannot_rewind_starts_over_after_a_stop_text_took_tokens_back():
    target = FakeSession(scripted_logits([5, 6, 7, 8], 3, V), V, can_rewind=False)
    reply = generate(target, vocabulary=FakeVocabulary([b"."] * 6 + [b"x", b"y"]), stop=[b".xy"], max_tokens=9)
    assert reply.tokens == []
    assert reply.reason is FinishReason.STOP
    assert list(target.tokens) == []


def test_only_what_the_cache_lacks_of_a_new_prompt_is_evaluated():
    target = FakeSession(hashed_logits(V), V, chunk=4)
    first = generate(target, prompt=range(1, 11), max_tokens=3)
    evaluated = len(target.evaluated)
    second = generate(target, prompt=[*range(1, 11), first.tokens[0], 30, 31], max_tokens=1)
    assert second.prefilled == Prefilled(13, 11, second.prefilled.seconds)
    assert len(target.evaluated) - evaluated == 2
    assert generate(target, prompt=range(1, 11), max_tokens=3).tokens == first.tokens


def test_prompt_processing_reports_progress_in_chunks():
    reply = generate(FakeSession(hashed_logits(V), V, chunk=4), prompt=[1] * 10, max_tokens=1)
    assert [(p.done, p.total) for p in reply.progress] == [(4, 9), (8, 9), (9, 9)]


def test_a_cancel_in_prompt_processing_ends_the_reply_and_keeps_what_was_done():
    target = FakeSession(hashed_logits(V), V, chunk=4)
    calls = iter([False, False, True])
    reply = generate(target, prompt=[1] * 20, cancelled=lambda: next(calls))
    assert (reply.reason, reply.rounds, reply.prefilled) == (FinishReason.CANCELLED, [], None)
    assert target.length == 8
    again = generate(target, prompt=[1] * 20, max_tokens=4)
    assert again.tokens == generate(FakeSession(hashed_logits(V), V), prompt=[1] * 20, max_tokens=4).tokens


def test_a_cancel_between_rounds_keeps_what_was_emitted():
    target = FakeSession(hashed_logits(V), V)
    seen = []
    reply = generate(target, cancelled=lambda: len(seen) > 3 or seen.append(0) is not None, max_tokens=50)
    assert reply.reason is FinishReason.CANCELLED
    assert len(reply.tokens) > 0
    assert list(target.tokens) == reply.cached


def test_a_drafter_interrupted_in_the_middle_of_a_round_ends_the_reply_as_cancelled():
    def propose(context, limit):
        if len(context) > 5:
            raise Interrupted
        return [0]

    target = FakeSession(hashed_logits(V), V)
    reply = generate(target, ScriptedDrafter(propose), max_tokens=50)
    assert reply.reason is FinishReason.CANCELLED
    assert list(target.tokens) == reply.cached


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_closing_the_generator_leaves_caches_at_what_was_emitted(rounds):
    script = list(range(4, 30))
    target, drafter = scripted(script), following(script)
    reply = generate(target, drafter, k=3, close_after=rounds)
    assert len(reply.rounds) == rounds
    assert reply.reason is None
    assert list(target.tokens) == reply.cached
    assert drafter.finished == [3 + len(reply.tokens)]


def test_closing_forgets_rounds_that_were_held_back():
    pieces = [b"a"] * 10 + [b"D", b"E", b"F"]
    target = scripted([5, 10, 11, 5, 6])
    drafter = following([])
    events = speculate(
        target, drafter, GreedySampler(), [1, 2, 3], length=FixedLength(0), vocabulary=FakeVocabulary(pieces),
        rng=np.random.default_rng(0), stop=[b"DEF"],
    )  # fmt: skip
    for event in events:
        if isinstance(event, Round) and event.index == 0:
            break
    assert next(events).tokens == (10,)  # 5, 10, 11 were evaluated by now; the last round decided about 10 and 11
    events.close()
    assert list(target.tokens) == [1, 2, 3, 5]
    assert drafter.finished == [5]


def test_a_failure_of_the_target_goes_up_and_the_drafter_is_told_what_remains():
    target, drafter = scripted(list(range(4, 30))), following([])
    target.fail_at = 3
    with pytest.raises(DecodeError):
        generate(target, drafter, k=0, max_tokens=10)
    assert drafter.finished == [6]
    assert list(target.tokens) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("k", [1, 2, 4, 8, 16])
def test_a_model_that_drafts_for_itself_is_always_accepted(k):
    target = FakeSession(hashed_logits(V), V)
    draft = FakeSession(hashed_logits(V), V, max_batch=2)
    reply = generate(target, ModelDrafter(draft), k=k, max_tokens=200)
    assert reply.stats.draft_acceptance_rate == 1
    assert reply.stats.rounds == math.ceil(200 / (k + 1))


@pytest.mark.parametrize("k", [0, 1, 3, 16])
def test_a_seed_gives_the_same_text_in_every_mode_without_sampled_drafts(k):
    params = SamplingParams(temperature=0.9, top_k=20, top_p=0.95, repeat_penalty=1.2, seed=7)

    def run(drafter):
        return generate(
            FakeSession(hashed_logits(V, order=1), V), drafter, NumpySampler(params, V), k=k, max_tokens=150,
            vocabulary=FakeVocabulary(eog=[31]),
        )  # fmt: skip

    plain = run(NoDraft())
    lookup = run(LookupDrafter(1, 8))
    draft = run(ModelDrafter(FakeSession(hashed_logits(V, order=1, seed=1), V)))
    assert plain.tokens == lookup.tokens == draft.tokens == run(NoDraft()).tokens
    assert (plain.reason, plain.text) == (lookup.reason, lookup.text)


def test_the_parts_of_all_rounds_add_up_to_the_time_since_the_prompt(monkeypatch):
    clock = iter(range(10_000))
    monkeypatch.setattr("edgespec.decoding.speculate.perf_counter", lambda: float(next(clock)))
    reply = generate(scripted(list(range(4, 30))), following(list(range(4, 30))), k=3, max_tokens=20)
    # Two readings for the prompt, one that starts the rounds, four in each round, each a second apart.
    assert reply.stats.decode_seconds == 4 * reply.stats.rounds
    assert reply.stats.draft_seconds == reply.stats.verify_seconds == reply.stats.rounds
    assert reply.stats.overhead_seconds == 2 * reply.stats.rounds
    assert reply.prefilled is not None
    assert reply.prefilled.seconds == 1


def test_laws_of_a_sampled_draft_do_not_leave_the_loop():
    sampler = NumpySampler(SamplingParams(temperature=1), V)
    drafter = ModelDrafter(
        FakeSession(hashed_logits(V, seed=1), V), sampler=sampler.clone(), rng=np.random.default_rng(0)
    )
    reply = generate(FakeSession(hashed_logits(V), V), drafter, sampler, max_tokens=40)
    assert all(round_.draft.probs is None and round_.draft.withheld is None for round_ in reply.rounds)
    assert reply.stats.drafted > 0
