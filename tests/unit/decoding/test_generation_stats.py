"""What rounds add up to."""

from __future__ import annotations

import dataclasses

import pytest
from decoding_fakes import FakeSession, ScriptedDrafter, generate, hashed_logits

from edgespec.decoding.stats import GenerationStats, StatsBuilder
from edgespec.types import Draft, Origin, Prefilled, Round, Verdict

NAMES = [
    "prompt_tokens", "cached_tokens", "prompt_seconds", "prompt_tokens_per_second", "seconds_to_first_token",
    "emitted_tokens", "decode_seconds", "decode_tokens_per_second", "rounds", "drafted", "accepted",
    "draft_acceptance_rate", "alpha", "mean_acceptance_length", "acceptance_histogram", "acceptance_by_position",
    "draft_seconds", "verify_seconds", "overhead_seconds", "plain_step_seconds", "measured_speedup",
    "predicted_speedup",
]  # fmt: skip


def make_round(index, drafted, accepted, draft=0.5, verify=2.0, overhead=0.25):
    kind = Origin.PLAIN if not drafted else Origin.BONUS if accepted == drafted else Origin.CORRECTED
    tokens = tuple(range(accepted + 1))
    return Round(
        index, Draft((0,) * drafted), Verdict(accepted, 9, kind), tokens, (b"",) * len(tokens), draft, verify, overhead
    )


def stats_of(*rounds, plain=None, prefilled=None):
    builder = StatsBuilder()
    if prefilled is not None:
        builder.prefilled(prefilled)
    for round_ in rounds:
        builder.add(round_)
    return builder.result(plain)


def test_the_fields_are_exactly_those_of_the_json_contract():
    assert [field.name for field in dataclasses.fields(GenerationStats)] == NAMES


def test_every_ratio_without_a_denominator_is_null():
    stats = stats_of()
    ratios = [
        "prompt_tokens_per_second", "seconds_to_first_token", "decode_tokens_per_second", "draft_acceptance_rate",
        "alpha", "mean_acceptance_length", "plain_step_seconds", "measured_speedup", "predicted_speedup",
    ]  # fmt: skip
    assert [getattr(stats, name) for name in ratios] == [None] * len(ratios)
    assert (stats.acceptance_histogram, stats.acceptance_by_position) == ((), ())
    assert stats == GenerationStats()


def test_plain_rounds_have_no_acceptance_but_a_length_of_one():
    stats = stats_of(make_round(0, 0, 0), make_round(1, 0, 0))
    assert (stats.draft_acceptance_rate, stats.alpha, stats.mean_acceptance_length) == (None, None, 1.0)
    assert (stats.acceptance_histogram, stats.acceptance_by_position) == ((2,), ())


def test_counts_and_ratios_of_a_mixed_reply():
    stats = stats_of(
        make_round(0, 4, 4), make_round(1, 4, 2), make_round(2, 0, 0), make_round(3, 2, 0),
        prefilled=Prefilled(100, 40, 3.0),
    )  # fmt: skip
    assert (stats.rounds, stats.emitted_tokens, stats.drafted, stats.accepted) == (4, 10, 10, 6)
    assert stats.draft_acceptance_rate == 0.6
    assert stats.alpha == 6 / (6 + 2)  # two rounds rejected a token, which they had to examine
    assert stats.mean_acceptance_length == 2.5
    assert stats.acceptance_histogram == (2, 0, 1, 0, 1)
    assert stats.acceptance_by_position == (2 / 3, 2 / 3, 1 / 2, 1 / 2)
    assert stats.prompt_tokens_per_second == 20
    assert stats.seconds_to_first_token == 3 + 2.75
    assert stats.decode_seconds == stats.draft_seconds + stats.verify_seconds + stats.overhead_seconds == 11


def test_a_wholly_cached_prompt_has_no_speed():
    assert stats_of(make_round(0, 0, 0), prefilled=Prefilled(100, 100, 0.1)).prompt_tokens_per_second is None


def test_speedups_follow_their_definitions():
    stats = stats_of(make_round(0, 4, 4), make_round(1, 4, 2), plain=1.0)
    assert stats.measured_speedup == pytest.approx(8 * 1.0 / 5.5)
    assert stats.predicted_speedup == pytest.approx(4 / (0.5 + 2.0))  # tau / (k c + v(k + 1)) in plain steps of 1 s


def test_with_a_flat_verify_cost_the_prediction_is_the_papers():
    # All of alpha^i realised exactly: k = 2, alpha = 1/2, c = 1/4: of 4 rounds two accept none, one one, one both.
    rounds = [make_round(i, 2, a, draft=0.5, verify=1.0) for i, a in enumerate([0, 0, 1, 2])]
    stats = stats_of(*rounds, plain=1.0)
    assert stats.predicted_speedup == pytest.approx((1 - 0.5**3) / ((1 - 0.5) * (2 * 0.25 + 1)))


def test_the_price_of_a_plain_step_comes_from_rounds_without_a_draft_if_there_are_enough():
    few = [make_round(i, 0, 0, verify=1.0) for i in range(3)]
    assert stats_of(*few, make_round(9, 2, 2)).plain_step_seconds is None
    enough = [*few, make_round(4, 0, 0, verify=3.0)]
    assert stats_of(*enough, make_round(9, 2, 2)).plain_step_seconds == 1.5
    assert stats_of(*enough, plain=7.0).plain_step_seconds == 7.0


def test_a_live_result_does_not_disturb_the_final_one():
    builder = StatsBuilder()
    builder.add(make_round(0, 4, 1))
    assert builder.result().rounds == 1
    builder.add(make_round(1, 4, 2))
    assert builder.result() == builder.result()
    assert builder.result().accepted == 3


def test_identities_hold_for_a_real_run():
    drafter = ScriptedDrafter(lambda context, limit: [context[-1], 3, 5, 7][:limit])
    stats = generate(FakeSession(hashed_logits(8, order=1), 8), drafter, max_tokens=100).stats
    histogram = stats.acceptance_histogram
    assert sum(histogram) == stats.rounds
    assert sum(n * rounds for n, rounds in enumerate(histogram)) == stats.accepted
    assert stats.emitted_tokens == stats.accepted + stats.rounds == 100
    assert list(stats.acceptance_by_position) == sorted(stats.acceptance_by_position, reverse=True)
