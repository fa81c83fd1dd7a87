"""`edgespec compare` as a person runs it, with models small enough to try everything."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from make_tiny_gguf import write_tiny

pytestmark = pytest.mark.model

COUNT = "Count: one two three four one two three four one two three four one two"
ENVIRONMENT = {**os.environ, "EDGESPEC_THREADS": "1"}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "edgespec.cli.main", "compare", *arguments]


def edgespec(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=300, env=ENVIRONMENT)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Flags that name a tiny pair; its draft model agrees with about half of what the target says."""
    folder = tmp_path_factory.mktemp("tiny")
    target = write_tiny(folder / "target.gguf", seed=1)
    draft = write_tiny(folder / "draft.gguf", seed=1, noise=0.1)
    return "--model", str(target), "--draft", str(draft)


@pytest.fixture(scope="module")
def measured(tiny: tuple[str, ...]) -> Any:
    modes = "plain,lookup,draft:3,draft:7,auto"
    result = edgespec(
        *tiny, "--modes", modes, "--max-tokens", "32", "--json", "--trace", "--only", "story", "--only", "list"
    )
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) == 1
    return json.loads(result.stdout)


def test_every_mode_says_the_same_on_every_prompt(measured: Any) -> None:
    assert measured["complete"] is True
    assert len(measured["results"]) == 2 * 5 and len(measured["runs"]) == 2 * 5 * 3
    for result in measured["results"]:
        assert result["same_text"] is (None if result["mode"] == "plain" else True)


def test_every_run_started_cold_and_repeats_exactly(measured: Any) -> None:
    counts: dict[tuple[str, str], set[tuple[int, ...]]] = {}
    for run in measured["runs"]:
        stats = run["stats"]
        assert stats["cached_tokens"] == 0
        counts.setdefault((run["prompt"], run["mode"]), set()).add(
            (stats["rounds"], stats["drafted"], stats["accepted"], stats["emitted_tokens"])
        )
    fixed = {key: found for key, found in counts.items() if key[1] != "auto"}  # auto goes by the clock
    assert all(len(found) == 1 for found in fixed.values())


def test_a_draft_length_is_obeyed_and_a_longer_one_drafts_more(measured: Any) -> None:
    longest = {
        mode: max(s["drafted"] for run in measured["runs"] if run["mode"] == mode for s in run["rounds_trace"])
        for mode in ("plain", "draft:3", "draft:7")
    }
    assert longest == {"plain": 0, "draft:3": 3, "draft:7": 7}


def test_a_recorded_run_can_be_replayed(measured: Any) -> None:
    for run in measured["runs"]:
        trace, stats = run["rounds_trace"], run["stats"]
        times = [step["seconds"] for step in trace]
        assert times == sorted(times)
        assert times[-1] == pytest.approx(stats["prompt_seconds"] + stats["decode_seconds"])
        assert [token for step in trace for token in step["tokens"]] == run["tokens"]
        assert all(len(step["tokens"]) == len(step["texts"]) == len(step["origins"]) for step in trace)


def test_auto_tells_what_passes_cost_here(tiny: tuple[str, ...], measured: Any) -> None:
    costs = measured["costs"]
    assert costs["pass_cost"]["1"] == 1.0 and len(costs["pass_cost"]) > 3
    result = edgespec(
        *tiny, "--only", "list", "--max-tokens", "8", "--repeats", "1", "--modes", "plain,auto", "--costs"
    )
    assert result.returncode == 0 and "tokens in a pass" in result.stdout


def test_the_demo_model_gains_from_lookup_where_text_repeats(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    result = edgespec(
        "--prompt", COUNT, "--modes", "plain,lookup:7", "--repeats", "1", "--max-tokens", "24", "--ctx", "512",
        "--output", str(path),
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "lookup:7" in result.stdout
    plain, lookup = json.loads(path.read_text())["results"]
    assert lookup["same_text"] is True
    assert lookup["rounds"] <= plain["rounds"]


def test_sampled_modes_share_their_random_numbers(tiny: tuple[str, ...]) -> None:
    result = edgespec(
        *tiny, "--prompt", "Hi", "--modes", "plain,lookup,draft:3", "--temperature", "1", "--seed", "3", "--json",
        "--max-tokens", "24", "--trace",
    )  # fmt: skip
    value = json.loads(result.stdout)
    assert [entry["same_text"] for entry in value["results"]] == [None, True, True]
    assert {run["seed"] for run in value["runs"]} == {3, 4, 5}
    assert len({tuple(run["tokens"]) for run in value["runs"]}) == 3


def test_a_prompt_that_does_not_fit_is_an_error(tiny: tuple[str, ...]) -> None:
    result = edgespec(*tiny, "--ctx", "64", "--only", "summary", "--modes", "plain")
    assert (result.returncode, result.stdout) == (1, "")
    assert "--ctx" in result.stderr and "Traceback" not in result.stderr


def test_ctrl_c_gives_130_and_what_was_measured_so_far(tiny: tuple[str, ...]) -> None:
    process = subprocess.Popen(
        command(*tiny, "--modes", "plain", "--repeats", "1000", "--max-tokens", "64", "--only", "story", "--json"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("2 "):
            break
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    value = json.loads(output)
    assert value["complete"] is False and 2 <= len(value["runs"]) < 1000
