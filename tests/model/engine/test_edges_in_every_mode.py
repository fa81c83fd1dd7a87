"""What people's prompts and replies do to speculation, through the engine in every mode, with the demo model.

It also drafts for itself here, so that drafts are long and mostly right: that is where ends are run over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgespec.engine import messages as m
from edgespec.engine.client import Engine
from edgespec.types import FinishReason, Mode

pytestmark = pytest.mark.model

OPTIONS = m.GenerateOptions(mode=Mode.PLAIN, draft_length=8, max_tokens=24, fresh=True)
PROPOSING = [Mode.LOOKUP, Mode.DRAFT, Mode.AUTO]
DASHES = "-" * 64
FACE = "😀"


@pytest.fixture(scope="module")
def engine(engine_folders: Path, demo_model: Path) -> Iterator[Engine]:
    with Engine.open(demo_model, draft=demo_model, n_ctx=512, threads=1) as engine:
        yield engine


def events_of(
    engine: Engine, prompt: str | tuple[m.Message, ...], options: m.GenerateOptions
) -> tuple[list[m.RoundDone], m.GenerationDone]:
    events = list(engine.generate(prompt, options))
    done = events[-1]
    assert isinstance(done, m.GenerationDone), done
    return [event for event in events if isinstance(event, m.RoundDone)], done


def answer(engine: Engine, prompt: str | tuple[m.Message, ...], options: m.GenerateOptions) -> m.GenerationDone:
    return events_of(engine, prompt, options)[1]


@pytest.mark.parametrize("mode", list(Mode))
def test_a_character_of_several_tokens_is_shown_once_it_is_whole(engine: Engine, mode: Mode) -> None:
    rounds, done = events_of(engine, f"Repeat: {FACE * 8}\n{FACE * 8}\n{FACE * 2}", replace(OPTIONS, mode=mode))
    texts = [text for event in rounds for text in event.texts]
    assert done.text.count(FACE) >= 3
    assert FACE in texts and "" in texts  # with its last token, and nothing with those before
    assert "\ufffd" not in "".join(texts)
    assert done.text == answer(engine, f"Repeat: {FACE * 8}\n{FACE * 8}\n{FACE * 2}", OPTIONS).text


@pytest.mark.parametrize("mode", list(Mode))
def test_tokens_of_many_characters_reach_the_reply_whole(engine: Engine, mode: Mode) -> None:
    done = answer(engine, f"Copy this line:\n{DASHES}\nCopy:\n{DASHES}\nCopy:\n", replace(OPTIONS, mode=mode))
    assert DASHES in done.text


THANKS = "Say exactly: many thanks to all of you."
TURNS = (
    m.Message("user", THANKS),
    m.Message("assistant", "Many thanks to all of you."),
    m.Message("user", THANKS),
    m.Message("assistant", "Many thanks to all of you."),
    m.Message("user", THANKS),
)


@pytest.mark.parametrize("mode", PROPOSING)
def test_the_end_of_a_turn_inside_a_draft_ends_the_reply_and_leaves_nothing_behind(engine: Engine, mode: Mode) -> None:
    """The history holds this reply already, its end and the next turn's beginning: lookup proposes them all."""
    options = replace(OPTIONS, max_tokens=40)
    plain, expected = two_turns(engine, options)
    rounds, done = events_of(engine, TURNS, replace(options, mode=mode))
    assert done.reason is plain.reason is FinishReason.STOP
    assert (done.text, done.tokens) == (plain.text, plain.tokens)
    assert mode is Mode.AUTO or any(event.round.draft.tokens for event in rounds)  # auto goes by the clock
    assert not any(mark in done.text for mark in ("<|im_", "user\n"))
    following = two_turns(engine, replace(options, mode=mode))[1]
    assert (following.stats.cached_tokens, following.tokens) == (expected.stats.cached_tokens, expected.tokens)


def two_turns(engine: Engine, options: m.GenerateOptions) -> tuple[m.GenerationDone, m.GenerationDone]:
    """The reply to TURNS from empty caches, and the next one, which finds them as the first left them."""
    first = answer(engine, TURNS, options)
    following = (*TURNS, m.Message("assistant", first.text), m.Message("user", "And in French?"))
    return first, answer(engine, following, replace(options, fresh=False, max_tokens=16))


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("most", [1, 2, 3])
def test_a_reply_has_as_many_tokens_as_it_may_and_not_one_more(engine: Engine, mode: Mode, most: int) -> None:
    text = "one two three one two three one two three one two"
    done = answer(engine, text, replace(OPTIONS, mode=mode, draft_length=10, max_tokens=most))
    assert (len(done.tokens), done.stats.emitted_tokens, done.reason) == (most, most, FinishReason.LENGTH)


def test_a_draft_that_reaches_the_end_of_the_context_is_cut_there_and_the_chat_goes_on(
    engine_folders: Path, demo_model: Path
) -> None:
    text = "one two three " * 16  # 50 tokens or so
    with Engine.open(demo_model, draft=demo_model, n_ctx=64, threads=1) as engine:
        options = replace(OPTIONS, draft_length=16, max_tokens=None)
        plain = answer(engine, text, options)
        assert plain.stats.prompt_tokens in range(45, 56)
        for mode in PROPOSING:
            done = answer(engine, text, replace(options, mode=mode))
            assert (done.reason, done.tokens) == (FinishReason.CONTEXT, plain.tokens)
            assert done.stats.prompt_tokens + len(done.tokens) == 64
            assert len(answer(engine, "one two", replace(options, mode=mode, max_tokens=4)).tokens) == 4


def test_lookup_copies_what_repeats_and_is_silent_where_nothing_does(engine: Engine) -> None:
    paragraph = "The old lighthouse keeper counted seventeen ships before breakfast, and waved at each of them. "
    options = replace(OPTIONS, mode=Mode.LOOKUP, max_tokens=48)
    happy = answer(engine, paragraph * 2 + "The old", options).stats
    assert happy.mean_acceptance_length is not None and happy.mean_acceptance_length > 2
    strange = (m.Message("user", "Tell me a strange story about a clock."),)
    unhappy = answer(engine, strange, options).stats
    assert unhappy.emitted_tokens == 48 and unhappy.drafted <= 12
