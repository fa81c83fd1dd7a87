"""Which kernels a target may use without its text depending on the width of a pass."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgespec.engine.kernels import EXACT, FAST, choose_kernels, may_repack
from edgespec.models.gguf import read_header


def test_k_quants_are_not_repacked_unless_speed_is_preferred(gemma_model: Path) -> None:
    header = read_header(gemma_model)
    assert not may_repack(header, EXACT)
    assert may_repack(header, FAST)


def test_types_whose_kernels_agree_may_be_repacked(demo_model: Path) -> None:
    assert may_repack(read_header(demo_model), EXACT)


@pytest.mark.parametrize(("kernels", "value"), [(EXACT, "0"), (FAST, "1")])
def test_the_tiled_kernel_follows_the_choice(monkeypatch: pytest.MonkeyPatch, kernels: str, value: str) -> None:
    monkeypatch.delenv("GGML_CPU_TILED_MM", raising=False)
    choose_kernels(kernels)
    assert os.environ["GGML_CPU_TILED_MM"] == value


def test_a_switch_that_the_user_set_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GGML_CPU_TILED_MM", "1")
    choose_kernels(EXACT)
    assert os.environ["GGML_CPU_TILED_MM"] == "1"
