"""What the models thought of every token, beside a reply that stays the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from decoding_fakes import FakeSession, Reply, ScriptedDrafter, generate, hashed_logits
from numpy.typing import NDArray

from edgespec.decoding.distributions import probability
from edgespec.decoding.drafters.base import Drafter
from edgespec.decoding.drafters.model import ModelDrafter
from edgespec.decoding.drafters.none import NoDraft
from edgespec.decoding.numpy_sampler import NumpySampler
from edgespec.decoding.sampling import GreedySampler, Sampler, SamplingParams
from edgespec.engine import messages as m
from edgespec.engine import wire
from edgespec.engine.details import Details, judge
from edgespec.types import Origin, Round, RoundDetails

N_VOCAB = 40
LOGITS = hashed_logits(N_VOCAB)
DRAFT_LOGITS = hashed_logits(N_VOCAB, order=2)
PROMPT = (1, 2, 3)


def greedy(length: int) -> list[int]:
    tokens = list(PROMPT)
    for _ in range(length):
        tokens.append(int(LOGITS(tokens).argmax()))
    return tokens[len(PROMPT) :]


TRUTH = greedy(80)


def guessing(context: Sequence[int], limit: int) -> list[int]:
    """Three tokens of which the third is wrong, whenever the position is even."""
    done = len(context) - len(PROMPT)
    right = TRUTH[done : done + 3]
    return [*right[:2], (right[2] + 1) % N_VOCAB][:limit] if done % 2 == 0 else []


def run(
    drafter: Drafter, sampler: Sampler | None = None, model: ModelDrafter | None = None, **more: object
) -> tuple[Reply, list[RoundDetails]]:
    """A reply with details, and each round's."""
    details = Details(FakeSession(LOGITS, N_VOCAB), drafter, model)
    reply = generate(details.target, details.drafter, sampler, PROMPT, **more)  # type: ignore[arg-type]
    return reply, [details.take(round_) for round_ in reply.rounds]


def context_before(reply: Reply, round_: Round) -> list[int]:
    return [*PROMPT, *(token for each in reply.rounds[: round_.index] for token in each.tokens)]


def law(tokens: Sequence[int]) -> NDArray[np.float64]:
    row = LOGITS(tokens).astype(np.float64)
    weights: NDArray[np.float64] = np.exp(row - row.max())
    chances: NDArray[np.float64] = weights / weights.sum()
    return chances


def rank(tokens: Sequence[int], token: int) -> int:
    return 1 + int((LOGITS(tokens) > LOGITS(tokens)[token]).sum())


def check(reply: Reply, found: list[RoundDetails]) -> None:
    """Every emitted and every examined draft token is judged by the logits of its own place."""
    for round_, details in zip(reply.rounds, found, strict=True):
        before = context_before(reply, round_)
        assert len(details.emitted) == len(round_.tokens)
        assert len(details.drafted) == len(details.proposed) == len(round_.draft.tokens)
        for i, (token, judged) in enumerate(zip(round_.tokens, details.emitted, strict=True)):
            place = [*before, *round_.tokens[:i]]
            assert judged.probability == pytest.approx(law(place)[token], rel=1e-4)
            assert judged.rank == rank(place, token)
        for i, (token, opinion) in enumerate(zip(round_.draft.tokens, details.drafted, strict=True)):
            if i > round_.verdict.accepted:
                assert opinion is None
                continue
            place = [*before, *round_.draft.tokens[:i]]
            assert opinion is not None and opinion.rank == rank(place, token)
            assert opinion.probability == pytest.approx(law(place)[token], rel=1e-4)


def test_probability_and_rank_are_those_of_the_row() -> None:
    row = np.log(np.array([0.1, 0.6, 0.1, 0.2], dtype=np.float32))
    best, third = judge(row, [1, 0], np.empty_like(row))
    assert (best.rank, third.rank) == (1, 3)
    assert [best.probability, third.probability] == pytest.approx([0.6, 0.1])


def test_plain_tokens_are_judged() -> None:
    reply, found = run(NoDraft(), max_tokens=12)
    check(reply, found)
    assert all(details.emitted[0].rank == 1 and not details.drafted for details in found)


def test_rejected_drafts_are_judged_as_far_as_they_were_examined() -> None:
    reply, found = run(ScriptedDrafter(guessing), k=8, max_tokens=30)
    check(reply, found)
    rejected = [d for r, d in zip(reply.rounds, found, strict=True) if r.verdict.kind is Origin.CORRECTED]
    assert rejected
    assert all(d.drafted[2] is not None and d.drafted[2].rank > 1 for d in rejected if len(d.drafted) == 3)


@pytest.mark.parametrize("sampler", [None, NumpySampler(SamplingParams(temperature=0.9, seed=4), N_VOCAB)])
def test_the_draft_model_tells_how_sure_it_was(sampler: Sampler | None) -> None:
    model = ModelDrafter(FakeSession(DRAFT_LOGITS, N_VOCAB))
    reply, found = run(model, sampler, model, k=3, max_tokens=30)
    check(reply, found)
    drafted = [(r, d) for r, d in zip(reply.rounds, found, strict=True) if r.draft.tokens]
    assert drafted
    for round_, details in drafted:
        place = context_before(reply, round_)
        for token, sure in zip(round_.draft.tokens, details.proposed, strict=True):
            row = DRAFT_LOGITS(place)
            assert sure == pytest.approx(1 / float(np.exp(row - row[token]).sum()), rel=1e-4)
            place.append(token)


def test_a_draft_that_is_drawn_tells_the_law_it_was_drawn_from() -> None:
    params = SamplingParams(temperature=0.8, seed=2)
    laws = NumpySampler(params, N_VOCAB)
    model = ModelDrafter(
        FakeSession(DRAFT_LOGITS, N_VOCAB), sampler=NumpySampler(params, N_VOCAB), rng=np.random.default_rng(1)
    )
    reply, found = run(model, NumpySampler(params, N_VOCAB), model, k=2, max_tokens=20)
    check(reply, found)
    first = reply.rounds[0]
    expected = probability(laws.distribution(DRAFT_LOGITS(PROMPT)), first.draft.tokens[0])
    assert found[0].proposed[0] == pytest.approx(expected)


@pytest.mark.parametrize("params", [None, SamplingParams(temperature=1.0, seed=7)])
@pytest.mark.parametrize("kind", ["plain", "scripted", "model"])
def test_the_reply_and_the_work_are_the_same_with_and_without(params: SamplingParams | None, kind: str) -> None:
    def drafter() -> tuple[Drafter, ModelDrafter | None]:
        if kind == "model":
            model = ModelDrafter(FakeSession(DRAFT_LOGITS, N_VOCAB))
            return model, model
        return (ScriptedDrafter(guessing), None) if kind == "scripted" else (NoDraft(), None)

    def sampler() -> Sampler:
        return GreedySampler() if params is None else NumpySampler(params, N_VOCAB)

    watched, model = drafter()
    with_details, _ = run(watched, sampler(), model, max_tokens=40)
    without = generate(FakeSession(LOGITS, N_VOCAB), drafter()[0], sampler(), PROMPT, max_tokens=40)
    assert with_details.tokens == without.tokens
    assert [r.draft for r in with_details.rounds] == [r.draft for r in without.rounds]
    assert with_details.reason is without.reason


def test_a_round_that_a_stop_text_cuts_has_the_details_of_what_is_left() -> None:
    letters = [bytes([97 + token % 26]) for token in TRUTH]
    reply, found = run(ScriptedDrafter(guessing), k=8, max_tokens=40, stop=[letters[9] + letters[10]])
    check(reply, found)
    assert len(reply.tokens) < 40


def test_whoever_decides_on_the_length_of_a_draft_still_does() -> None:
    model = ModelDrafter(FakeSession(DRAFT_LOGITS, N_VOCAB))
    asked: list[float] = []

    def go_on(token: int, sure: float) -> bool:
        asked.append(sure)
        return len(asked) % 2 == 1

    model.go_on = go_on
    reply, found = run(model, None, model, k=6, max_tokens=20)
    assert max(len(round_.draft.tokens) for round_ in reply.rounds) == 2
    assert [sure for details in found for sure in details.proposed] == asked


def test_details_cross_the_pipe() -> None:
    reply, found = run(ScriptedDrafter(guessing), k=8, max_tokens=6)
    event = m.RoundDone(1, reply.rounds[0], ("a",), (), details=found[0])
    assert wire.decode(wire.encode(event)) == event
    memory = m.DeviceMemory("GPU0", 1, 2)
    assert wire.decode(wire.encode(memory)) == memory  # type: ignore[arg-type]
