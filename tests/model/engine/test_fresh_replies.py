"""A reply that is to start cold owes nothing to the ones before it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgespec.engine import messages as m
from edgespec.engine.client import Engine
from edgespec.types import Mode

pytestmark = pytest.mark.model

PROMPT = "Once upon a time there was a little"


def answer(engine: Engine, options: m.GenerateOptions) -> m.GenerationDone:
    event = list(engine.generate(PROMPT, options))[-1]
    assert isinstance(event, m.GenerationDone), event
    return event


@pytest.mark.parametrize("mode", [Mode.PLAIN, Mode.LOOKUP, Mode.DRAFT])
def test_a_fresh_reply_finds_empty_caches_and_an_empty_index(
    tiny_target: Path, tiny_draft: Path, mode: Mode, engine_folders: Path
) -> None:
    fresh = m.GenerateOptions(mode=mode, max_tokens=40, fresh=True)
    with Engine.open(tiny_target, tiny_draft, threads=1) as engine:
        first = answer(engine, fresh)
        warm = answer(engine, replace(fresh, fresh=False))
        again = answer(engine, fresh)
    assert warm.stats.cached_tokens > 0
    for done in (first, again):
        assert done.stats.cached_tokens == 0
    assert (again.tokens, again.stats.drafted, again.stats.accepted, again.stats.rounds) == (
        first.tokens, first.stats.drafted, first.stats.accepted, first.stats.rounds
    )  # fmt: skip
