"""Auto mode on simulated machines: near the best fixed choice where drafts pay, near plain where they do not."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from auto_simulation import FLAT, LAPTOP, SMALL, Machine, PricedSession, Trace, made_up, run

from edgespec.decoding.acceptance import Acceptance
from edgespec.decoding.auto import AutoDrafter
from edgespec.decoding.cost import CostModel
from edgespec.decoding.drafters.lookup import LookupDrafter, SuffixIndex
from edgespec.decoding.drafters.model import ModelDrafter
from edgespec.decoding.drafters.none import NoDraft
from edgespec.decoding.length import FixedLength

MACHINES = {"laptop": LAPTOP, "small": SMALL, "flat": FLAT}


def calibrated(machine):
    costs = CostModel()
    widths = {n: machine.price(n) for n in (1, 2, 3, 4, 5, 6, 8, 9, 12, 16)}
    costs.calibrate([widths] * 5, machine.step, 0.4 * machine.step)
    return costs


def auto(machine, trace, *, model=True, costs=None, acceptance=None):
    return AutoDrafter(
        costs or calibrated(machine), acceptance or Acceptance(), lookup=SuffixIndex(16),
        model=ModelDrafter(PricedSession(machine, trace, draft=True)) if model else None,
    )  # fmt: skip


def speedup(v, trace, *, seeds=range(3), **options):
    """Auto mode relative to plain decoding."""
    plain = own = 0.0
    for seed in seeds:
        machine = Machine(v, seed=seed)
        plain += run(machine, trace, NoDraft(), FixedLength(0))[0]
        machine = Machine(v, seed=seed)
        drafter = auto(machine, trace, **options)
        own += run(machine, trace, drafter, drafter.policy)[0]
    return plain / own


def best_fixed(v, trace):
    """The best of lookup and draft model at lengths 1 to 8, in hindsight, relative to plain decoding."""
    machine = Machine(v, noise=0)
    plain = run(machine, trace, NoDraft(), FixedLength(0))[0]
    spent = [plain]
    for k in range(1, 9):
        spent.append(run(machine, trace, LookupDrafter(), FixedLength(k))[0])
        spent.append(run(machine, trace, ModelDrafter(PricedSession(machine, trace, draft=True)), FixedLength(k))[0])
    return plain / min(spent)


def hostile(trace, confidence):
    """The same reply with a draft model that knows nothing, and is this sure of it."""
    rng = random.Random(1)
    count = len(trace.tokens)
    predicted = [rng.randrange(trace.n_vocab) for _ in range(count)]
    return replace(trace, predicted=predicted, confidence=[confidence * rng.random() ** 0.3 for _ in range(count)])


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kinds", ["rrr", "hhh", "www", "mmm", "hhe"])
def test_never_much_slower_than_plain_decoding_even_with_a_pair_it_knows_nothing_of(machine, kinds):
    assert speedup(MACHINES[machine], made_up(kinds)) > 0.975


@pytest.mark.parametrize("confidence", [0.01, 0.5, 0.99])
@pytest.mark.parametrize("machine", MACHINES)
def test_a_hostile_draft_model_costs_next_to_nothing(machine, confidence):
    assert speedup(MACHINES[machine], hostile(made_up("hhh"), confidence)) > 0.975


@pytest.mark.parametrize(
    ("machine", "kinds"), [("laptop", "eee"), ("laptop", "ccc"), ("laptop", "ehe"), ("flat", "mmm"), ("flat", "mec")]
)
def test_near_the_best_fixed_choice_in_hindsight_where_drafts_pay(machine, kinds):
    trace = made_up(kinds)
    assert speedup(MACHINES[machine], trace) > 0.95 * best_fixed(MACHINES[machine], trace)


def test_lookup_alone_pays_where_text_repeats_and_costs_nothing_where_it_does_not():
    assert speedup(LAPTOP, made_up("ccc"), model=False) > 1.8
    assert speedup(LAPTOP, made_up("hhh"), model=False) > 0.995


def test_it_comes_back_when_the_text_becomes_predictable():
    machine = Machine(FLAT)
    trace = made_up("hhhheeee")
    drafter = auto(machine, trace)
    _, rounds = run(machine, trace, drafter, drafter.policy)
    accepted = sum(round_.verdict.accepted for round_ in rounds[len(rounds) // 2 :])
    assert accepted > 80


def test_a_pair_that_was_good_in_earlier_replies_is_trusted_from_the_first_round():
    acceptance = Acceptance()
    machine = Machine(LAPTOP)
    for seed in range(3):
        trace = made_up("eee", seed=seed)
        drafter = auto(machine, trace, acceptance=acceptance)
        run(machine, trace, drafter, drafter.policy)
    trace = made_up("eee", seed=9)
    drafter = auto(machine, trace, acceptance=acceptance)
    _, rounds = run(machine, trace, drafter, drafter.policy)
    assert len(rounds[0].draft.tokens) >= 3


def test_a_machine_that_throttles_hardly_changes_a_decision():
    trace = made_up("eee")
    steady, throttled = Machine(LAPTOP, noise=0), Machine(LAPTOP, noise=0, speed=lambda now: 1 + now / 100)
    counts = []
    for machine in (steady, throttled):
        drafter = auto(machine, trace)
        counts.append(len(run(machine, trace, drafter, drafter.policy)[1]))
    assert abs(counts[0] - counts[1]) <= 2


def test_wrong_beliefs_about_costs_are_corrected_by_the_rounds():
    trace = made_up("ccccccccc")
    costs = CostModel()  # believes in the usual curve, which this machine does not have
    machine = Machine({1: 1.0, 2: 3.0, 33: 60.0})
    drafter = auto(machine, trace, model=False, costs=costs)
    spent, _ = run(machine, trace, drafter, drafter.policy)
    assert costs.v(4) > 3
    assert spent < 1.25 * len(trace.tokens)


def test_without_drafters_auto_is_plain_decoding():
    machine, trace = Machine(LAPTOP), made_up("ccc")
    drafter = AutoDrafter(CostModel(), Acceptance())
    _, rounds = run(machine, trace, drafter, drafter.policy)
    assert len(rounds) == len(trace.tokens) and [use.source for use in drafter.report.uses] == ["plain"]


def test_every_round_can_say_why():
    machine, trace = Machine(LAPTOP), made_up("ec")
    drafter = auto(machine, trace)
    reasons = set()

    class Listening:
        next = drafter.policy.next

        def observe(self, round_):
            reasons.add((drafter.choice.source, drafter.choice.reason))
            assert (drafter.choice.source == "plain") <= (not round_.draft.tokens)
            drafter.policy.observe(round_)

    run(machine, trace, drafter, Listening())
    assert {source for source, _ in reasons} >= {"lookup", "draft"}
    assert all(reason for _, reason in reasons)


def test_the_lookup_learns_from_tokens_that_nobody_drafted():
    prompt = [1, 2, 3, 4, 5, 6, 7, 8] * 2
    trace = Trace(prompt, prompt, prompt, [0.5] * len(prompt))
    acceptance = Acceptance()
    before = acceptance.lookup.chance(8)
    drafter = AutoDrafter(CostModel(), acceptance, lookup=SuffixIndex(16), min_ngram=17)
    machine = Machine(LAPTOP)
    _, rounds = run(machine, trace, drafter, drafter.policy)
    assert not any(round_.draft.tokens for round_ in rounds)
    assert acceptance.lookup.chance(8) > before
