"""The overhead benchmark measures every mode and reports it; how fast it was is not a test's business."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from make_tiny_gguf import write_tiny

pytestmark = pytest.mark.model
SCRIPT = Path(__file__).parents[3] / "scripts" / "bench_overhead.py"


def test_a_pair_is_measured_in_every_mode(tmp_path: Path) -> None:
    target = write_tiny(tmp_path / "target.gguf")
    draft = write_tiny(tmp_path / "draft.gguf", noise=0.1)
    out = tmp_path / "out.json"
    # In a process of its own, because the script puts clocks into the loaded library.
    files = ["--target", target, "--draft", draft, "--json", out]
    options = ["--tokens", "40", "--repeats", "2", "--threads", "1"]
    subprocess.run([sys.executable, SCRIPT, *files, *options], check=True, capture_output=True)
    found = json.loads(out.read_text())
    draft_mode = found["overhead"][0]
    assert draft_mode["mode"] == "draft"
    assert 0 < draft_mode["accepted"] < draft_mode["drafted"]
    assert all(row["median_us"] > 0 for row in found["overhead"])
    assert {len(speed["rates"]) for speed in found["speed"].values()} == {2}
    assert set(found["ratios"]) == {"plain", "draft"}
