"""How memory is summed up, compared and shown."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest
from bench_memory import LIMIT, MODES, Peak, Watch, compare, edgespec_command, family, memory_of, report
from peer_runners import Job

MIB = 2**20


def job(draft: Path | None = Path("/models/small.gguf")) -> Job:
    return Job(Path("/opt/peers"), Path("/models/big.gguf"), draft, 4096, 2, 32, 0, 60.0, "q8_0", "f16")


def test_only_modes_that_draft_with_a_model_load_one() -> None:
    loads = {mode for mode in MODES if "/models/small.gguf" in edgespec_command(job(), mode, 3, Path("p.txt"))}
    assert loads == {"draft", "auto"}


def test_context_and_cache_types_are_given() -> None:
    line = " ".join(edgespec_command(job(), "plain", 3, Path("p.txt")))
    assert "--ctx 4096" in line and "--cache-type-k q8_0 --cache-type-v f16" in line


def test_a_difference_above_the_limit_is_marked() -> None:
    server = Peak("server:none", 1000 * MIB, None, 9)
    assert compare(Peak("edgespec plain", 1100 * MIB, None, 9), server) == "100 MiB more"
    assert compare(Peak("edgespec plain", 900 * MIB, None, 9), server) == "100 MiB less"
    assert "above the limit of 150" in compare(Peak("edgespec plain", 1000 * MIB + LIMIT + 1, None, 9), server)


def test_a_mode_without_its_counterpart_is_still_shown() -> None:
    ours = {"plain": Peak("edgespec plain", 500 * MIB, 400 * MIB, 9)}
    assert report(ours, {}, MODES).splitlines()[-1] == "| edgespec plain | 500 | 400 | – | – | – | – |"


def test_a_process_and_those_below_it_are_measured() -> None:
    own = psutil.Process(os.getpid())
    size = memory_of(own)
    assert own in family(own)
    assert size is not None and size[0] > 10 * MIB


def test_a_process_that_is_gone_has_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(self: psutil.Process) -> None:
        raise psutil.NoSuchProcess(1)

    monkeypatch.setattr(psutil.Process, "memory_full_info", gone)
    assert memory_of(psutil.Process(os.getpid())) is None


def test_a_watch_keeps_the_highest_total() -> None:
    peak = Watch(os.getpid()).stop("this")
    assert peak.total > 10 * MIB
    assert peak.samples >= 1
