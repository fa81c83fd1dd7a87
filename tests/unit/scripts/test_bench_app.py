"""The app's benchmark: what the stub emits, and the arithmetic on what was seen."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from app_stub import rounds
from bench_app import cores, figures, judge_stub, quarters

from edgespec.engine.client import Engine
from edgespec.engine.messages import GenerateOptions, GenerationDone, LoadOptions, Message, RoundDone
from edgespec.types import Mode

STUB = Path(sys.modules["app_stub"].__file__ or "")


@pytest.mark.parametrize("tokens", [1, 2, 3, 4, 100, 101])
def test_the_stub_emits_what_was_asked_for(tokens: int) -> None:
    assert sum(len(texts) for _, _, texts, _ in rounds(False, tokens)) == tokens


def test_the_stubs_fence_stays_open() -> None:
    text = "".join("".join(texts) for _, _, texts, _ in rounds(True, 500))
    assert text.count("```") == 1 and text.count("\n") > 50


def test_the_stub_speaks_the_engines_protocol() -> None:
    with Engine(LoadOptions("stub.gguf"), command=(sys.executable, str(STUB), "100000")) as engine:
        options = GenerateOptions(mode=Mode.LOOKUP, max_tokens=40)
        events = list(engine.generate((Message("user", "prose"),), options))
    done = events[-1]
    assert isinstance(done, GenerationDone) and done.stats.emitted_tokens == len(done.tokens) == 40
    assert done.text == "".join(text for event in events if isinstance(event, RoundDone) for text in event.texts)


def test_quarters_tell_growth() -> None:
    samples = [(float(at), at / 100) for at in range(100)]
    assert quarters(samples, 0.0, 100.0) == {"all": 0.95, "first": 0.24, "last": 0.98}
    assert quarters([], 0.0, 1.0) == {"all": 0.0, "first": 0.0, "last": 0.0}


def test_the_share_of_a_core_is_that_between_the_looks() -> None:
    looks = [(float(at), 0.0, at * 0.25) for at in range(20)]
    assert cores(looks, 0.0, 20.0) == {"all": 0.25, "first": 0.25, "last": 0.25}


def test_a_stub_that_was_held_up_is_a_miss() -> None:
    reply = {
        "first": 0.0, "done": 4.0, "drawn": 4.1, "spans": [(1, 0.01)] * 100 + [(1, 0.02)] * 100, "emitted": 200,
        "lags": [(at / 10, 0.001, at / 1000) for at in range(40)],
    }  # fmt: skip
    result = figures(reply, 100)
    assert result["lost"] == pytest.approx(1 / 3, rel=0.02) and result["behind"] == pytest.approx(0.1)
    assert [good for _, _, good in judge_stub("chat", result)] == [False, True, True]
