"""Looking into a place of a reply: the two tokens the target finds likeliest there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from edgespec.engine import messages as m
from edgespec.engine.client import Engine
from edgespec.errors import ContextFullError
from edgespec.types import FinishReason, Mode

pytestmark = pytest.mark.model

PROMPT = "Once upon a time there was a little"


@pytest.fixture(scope="module")
def engine(tiny_target: Path, tiny_draft: Path, engine_folders: Path) -> Iterator[Engine]:
    with Engine.open(tiny_target, tiny_draft, threads=1, n_ctx=256) as engine:
        yield engine


def answer(engine: Engine, **changes: object) -> m.GenerationDone:
    event = list(engine.generate(PROMPT, m.GenerateOptions(**{"mode": Mode.PLAIN, "max_tokens": 20} | changes)))[-1]  # type: ignore[arg-type]
    assert isinstance(event, m.GenerationDone), event
    return event


def test_the_best_token_is_what_a_greedy_reply_says_next(engine: Engine) -> None:
    tokens = answer(engine).tokens
    for place in (0, 1, 7):
        best, second = engine.examine(PROMPT, tokens[:place])
        assert best.token == tokens[place]
        assert best.logit >= second.logit and best.token != second.token


def test_a_look_leaves_nothing_behind(engine: Engine) -> None:
    before = answer(engine, fresh=True)
    engine.examine(PROMPT, before.tokens)
    after = answer(engine, mode=Mode.DRAFT)
    assert after.stats.cached_tokens == 0 and after.tokens == before.tokens


def test_a_place_beyond_the_context_is_refused_and_the_engine_stays(engine: Engine) -> None:
    with pytest.raises(ContextFullError):
        engine.examine(PROMPT, (5,) * 300)
    assert answer(engine).reason is FinishReason.LENGTH
