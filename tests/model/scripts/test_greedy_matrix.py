"""Greedy equality on real models, in small; `scripts/greedy_matrix.py` runs the whole matrix."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench_common import PROMPTS
from click.testing import CliRunner
from greedy_matrix import main, matrix
from make_bench_pair import Options, widen
from make_tiny_gguf import write_tiny

pytestmark = pytest.mark.model

LENGTHS = (1, 3, 8)


@pytest.mark.parametrize("arch", ["llama", "gemma3", "lfm2"])
def test_every_memory_that_can_rewind_gives_the_plain_reply(tmp_path: Path, arch: str) -> None:
    path = write_tiny(tmp_path / "a.gguf", arch)
    cells = list(matrix(path, None, prompts=PROMPTS[:3], tokens=80, lengths=LENGTHS, threads=1))
    assert len(cells) == 2 * len(LENGTHS)
    assert all(cell.ok for cell in cells), cells
    assert all(cell.tokens == 3 * 80 for cell in cells)


def test_a_true_pair_gives_the_plain_reply_and_rejects_some_drafts(tmp_path: Path) -> None:
    draft = write_tiny(tmp_path / "draft.gguf", width=128)
    target = widen(draft, tmp_path / "target.gguf", Options(2, noise=0.2))
    for cell in matrix(target, draft, prompts=PROMPTS[:3], tokens=80, lengths=LENGTHS, threads=1):
        assert cell.ok, cell
        if cell.mode == "draft":
            assert 0 < cell.accepted < cell.drafted


@pytest.mark.parametrize("model", ["demo_model", "gemma_model"])
def test_real_models_give_the_plain_reply(model: str, request: pytest.FixtureRequest) -> None:
    path: Path = request.getfixturevalue(model)
    cells = list(matrix(path, None, prompts=PROMPTS[:2], tokens=24, lengths=(3,)))
    assert all(cell.ok for cell in cells), cells
    assert any(cell.self_draft and cell.accepted for cell in cells)


def test_the_command_prints_a_table_and_writes_json(tmp_path: Path) -> None:
    path, out = write_tiny(tmp_path / "a.gguf"), tmp_path / "out.json"
    options = ["--prompts", "1", "--tokens", "20", "--lengths", "2,4", "--threads", "1", "--json", str(out)]
    result = CliRunner().invoke(main, ["--model", str(path), *options])
    assert result.exit_code == 0, result.output
    assert result.output.count("ok") >= 4
    found = json.loads(out.read_text())
    assert found["ok"] is True
    assert [(cell["mode"], cell["length"]) for cell in found["cells"]] == [
        ("lookup", 2), ("lookup", 4), ("draft", 2), ("draft", 4),
    ]  # fmt: skip
