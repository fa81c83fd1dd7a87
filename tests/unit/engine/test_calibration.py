"""Measuring what passes cost, and keeping it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from token_cache import TokenCache

from edgespec.decoding.cost import CostModel
from edgespec.engine import calibration
from edgespec.engine.calibration import WIDTHS, calibrate
from edgespec.engine.knowledge import MOST_KINDS, Knowledge, knowledge_path
from edgespec.engine.messages import LoadOptions


class TimedSession(TokenCache):
    """A cache of tokens whose passes move a clock, slowly at each new width."""

    n_vocab = 10
    max_batch, chunk = 33, 64

    def __init__(self, clock: list[float], second: float, n_ctx: int = 100, max_rewind: int | None = None) -> None:
        self.clock, self.second = clock, second
        self.n_ctx, self.max_rewind = n_ctx, max_rewind
        self.tokens: list[int] = []
        self.last_width = 0
        self.passes = 0

    def decode(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        self.passes += 1
        width = len(tokens)
        self.clock[0] += self.second * (1 + 0.25 * (width - 1)) * (5 if width != self.last_width else 1)
        self.last_width = width
        self.tokens += tokens
        return np.zeros((width, self.n_vocab), dtype=np.float32)

    def prefill(self, tokens: Sequence[int]) -> None:
        self.clock[0] += self.second * 0.4 * len(tokens)
        self.last_width = -1
        self.tokens += tokens


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(calibration, "perf_counter", lambda: now[0])
    return now


def never() -> bool:
    return False


def test_the_curve_is_measured_without_first_passes_and_the_caches_stay_as_they_were(clock: list[float]) -> None:
    target, draft = TimedSession(clock, 0.001), TimedSession(clock, 0.0001)
    target.tokens, draft.tokens = [1, 2, 3], [4, 5]
    costs = CostModel()
    assert calibrate(costs, target, draft, never) and costs.measurements > len(WIDTHS)
    assert costs.unit == pytest.approx(0.001)
    assert dict(costs.curve.points()) == pytest.approx({n: 1 + 0.25 * (n - 1) for n in WIDTHS})
    assert costs.step == pytest.approx(0.1)
    assert 0.3 < costs.prompt_token <= 1
    assert (target.tokens, draft.tokens) == ([1, 2, 3], [4, 5])


def test_a_slow_model_is_measured_at_the_most_telling_widths_only(clock: list[float]) -> None:
    target = TimedSession(clock, 0.1)
    costs = CostModel()
    assert calibrate(costs, target, None, never)
    measured = [width for width, _ in costs.curve.points()]
    assert 1 in measured and 4 in measured and len(measured) < len(WIDTHS)
    assert clock[0] < 3


def test_a_disturbance_of_the_pass_that_all_are_compared_with_does_not_make_drafts_look_cheap(
    clock: list[float],
) -> None:
    class Disturbed(TimedSession):
        def decode(self, tokens: Sequence[int]) -> NDArray[np.float32]:
            if self.passes == 1:  # the first that counts
                clock[0] += 0.02
            return super().decode(tokens)

    costs = CostModel()
    assert calibrate(costs, Disturbed(clock, 0.005), None, never)
    assert all(costs.v(width) == pytest.approx(1 + 0.25 * (width - 1), rel=0.05) for width in (2, 4, 8, 16))


def test_a_slow_model_is_measured_at_the_other_widths_when_it_is_measured_again(clock: list[float]) -> None:
    costs = CostModel()
    for _ in range(len(WIDTHS)):
        assert calibrate(costs, TimedSession(clock, 0.1), None, never)
    assert {width for width, _ in costs.curve.points()} >= set(WIDTHS)


def test_calibration_gives_way_to_a_command(clock: list[float]) -> None:
    target = TimedSession(clock, 0.001)
    assert not calibrate(CostModel(), target, None, lambda: target.passes > 3)
    assert target.passes <= 6 and target.tokens == []


def test_a_full_cache_or_one_that_cannot_be_cut_is_left_alone(clock: list[float]) -> None:
    full, stiff = TimedSession(clock, 0.001, n_ctx=10), TimedSession(clock, 0.001, max_rewind=0)
    full.tokens, stiff.tokens = [1] * 5, [1]
    for session in (full, stiff):
        assert not calibrate(CostModel(), session, None, never)
        assert session.passes == 0
    stiff.tokens = []
    assert calibrate(CostModel(), stiff, None, never)


def learned(path: Path, clock: list[float]) -> Knowledge:
    knowledge = Knowledge.load(path)
    assert calibrate(knowledge.costs, TimedSession(clock, 0.001), TimedSession(clock, 0.0001), never)
    for _ in range(20):
        knowledge.acceptance("greedy").examined(0, 0.9, True)
    return knowledge


def test_knowledge_survives_a_restart(tmp_path: Path, clock: list[float]) -> None:
    path = tmp_path / "costs" / "a.json"
    knowledge = learned(path, clock)
    knowledge.save()
    again = Knowledge.load(path)
    assert again.costs.calibrated and again.costs.to_json() == knowledge.costs.to_json()
    assert again.acceptance("greedy").to_json() == knowledge.acceptance("greedy").to_json()
    assert [file.name for file in path.parent.iterdir()] == ["a.json"]


@pytest.mark.parametrize("change", ["", "[]", "{", '{"version": 0}', "cut", '{"version": 1, "costs": {}}'])
def test_a_damaged_file_is_ignored_and_said_in_the_log(
    tmp_path: Path, clock: list[float], change: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.json"
    learned(path, clock).save()
    path.write_text(path.read_text()[:200] if change == "cut" else change)
    assert not Knowledge.load(path).costs.calibrated
    assert "a.json is not usable" in capsys.readouterr().err


def test_numbers_that_cannot_be_are_ignored(tmp_path: Path, clock: list[float]) -> None:
    path = tmp_path / "a.json"
    learned(path, clock).save()
    data = json.loads(path.read_text())
    data["costs"]["unit"] = -1
    path.write_text(json.dumps(data))
    assert not Knowledge.load(path).costs.calibrated


def test_nothing_is_written_before_something_is_known_and_an_unusable_folder_is_no_error(
    tmp_path: Path, clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    Knowledge.load(tmp_path / "a.json").save()
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").touch()
    knowledge = Knowledge(tmp_path / "file" / "a.json")
    knowledge.costs = learned(tmp_path / "b.json", clock).costs
    knowledge.save()
    assert "could not be written" in capsys.readouterr().err


def test_only_the_latest_ways_of_sampling_are_kept() -> None:
    knowledge = Knowledge(None)
    first = knowledge.acceptance("0")
    assert knowledge.acceptance("0") is first
    for i in range(1, MOST_KINDS + 1):
        knowledge.acceptance(str(i))
    assert knowledge.acceptance("0") is not first


def test_whatever_changes_the_price_of_a_pass_changes_the_file(tmp_path: Path) -> None:
    target, draft = tmp_path / "t.gguf", tmp_path / "d.gguf"
    target.write_bytes(b"1")
    draft.write_bytes(b"2")
    options = LoadOptions(str(target))
    paths = {
        knowledge_path(options, 2), knowledge_path(options, 4), knowledge_path(replace(options, draft=str(draft)), 2),
        knowledge_path(replace(options, gpu_layers=9), 2), knowledge_path(replace(options, safe_mode=True), 2),
        knowledge_path(replace(options, cache_type_k="q8_0"), 2),
    }  # fmt: skip
    target.write_bytes(b"12")
    paths.add(knowledge_path(options, 2))
    assert len(paths) == 7
    assert knowledge_path(options, 2) == knowledge_path(options, 2)
