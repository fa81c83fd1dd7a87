"""What goes well once goes well many times: cancels at any moment, and one set of models after another."""

from __future__ import annotations

import gc
import random
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import psutil
import pytest
from edgespec_tui.messages import EngineReady, EngineRefused
from edgespec_tui.runner import Runner

from edgespec.engine import messages as m
from edgespec.engine.client import Engine
from edgespec.types import FinishReason, Mode

pytestmark = pytest.mark.model

PROMPT = "Once upon a time there was a little " * 30
OPTIONS = m.GenerateOptions(mode=Mode.PLAIN, max_tokens=24)
CANCELS = 50
SWITCHES = 20
MOST_GROWTH = 16 * 2**20
"""Bytes that app and engine together may have grown by between the fifth and the last switch: one set of models that
was kept would be a multiple of it."""


@pytest.fixture(scope="module")
def engine(engine_folders: Path, tiny_target: Path, tiny_draft: Path) -> Iterator[Engine]:
    with Engine.open(tiny_target, tiny_draft, threads=1) as engine:
        yield engine


def last(events: Iterator[m.Event]) -> m.GenerationDone:
    *_, event = events
    assert isinstance(event, m.GenerationDone), event
    return event


def test_many_cancels_at_random_moments_leave_no_trace(engine: Engine) -> None:
    whole = last(engine.generate(PROMPT, OPTIONS)).tokens
    dice = random.Random(20261201)
    reasons = set()
    for turn in range(CANCELS):
        mode = dice.choice(list(Mode))
        # Half of them begin otherwise each time: the prompt is read anew, and the clock may cancel that too.
        prompt = f"{turn} {PROMPT}" if turn % 2 else PROMPT
        events = engine.generate(prompt, replace(OPTIONS, mode=mode, max_tokens=400, fresh=turn % 3 == 0))
        timer = threading.Timer(dice.random() * 0.08, engine.cancel)
        timer.start()
        reasons.add(last(events).reason)
        timer.join()
        if turn % 10 == 9:
            for check in Mode:
                assert last(engine.generate(PROMPT, replace(OPTIONS, mode=check))).tokens == whole
    assert FinishReason.CANCELLED in reasons


def test_many_switches_of_models_take_no_more_memory(tiny_target: Path, tiny_draft: Path) -> None:
    before = len(psutil.Process().children())
    posted: SimpleQueue[Any] = SimpleQueue()
    runner = Runner(lambda message: posted.put(message) if not hasattr(message, "now") else None)
    sets = (
        m.LoadOptions(str(tiny_target), str(tiny_draft), n_ctx=512, threads=1),
        m.LoadOptions(str(tiny_target), n_ctx=1024, threads=1),
    )
    sizes = []
    try:
        for turn in range(SWITCHES):
            options = sets[turn % 2]
            runner.load(options)
            ready = posted.get(timeout=60)
            assert not isinstance(ready, EngineRefused), ready.message
            assert isinstance(ready, EngineReady) and ready.load == options
            assert (ready.loaded.draft is None) == (options.draft is None)
            gc.collect()
            if turn % 2:  # the same set each time
                app = psutil.Process().memory_info().rss
                sizes.append(app + psutil.Process(runner.pid).memory_info().rss)
        assert len(psutil.Process().children()) == before + 1
    finally:
        runner.close()
    assert sizes[-1] - sizes[2] < MOST_GROWTH, sizes
