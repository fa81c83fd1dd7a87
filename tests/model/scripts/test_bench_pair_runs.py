"""The widened target in llama.cpp: it says what its source says, and less so the more noise it is given."""

from __future__ import annotations

from pathlib import Path

import pytest
from bare_llama import in_child
from make_bench_pair import TYPES, Options, widen
from make_tiny_gguf import write_tiny

pytestmark = pytest.mark.model

TEXT = "Once upon a time there was a little day"


def agreement(source: Path, target: Path, count: int = 150) -> float:
    found = in_child("compare", path=str(source), other=str(target), text=TEXT, count=count)
    assert found["positions"] > count
    return float(found["agreement"])


@pytest.mark.parametrize(("type_", "least"), [("f32", 1.0), ("keep", 1.0), ("f16", 0.97), ("q8_0", 0.9), ("q4_0", 0.8)])
def test_a_widened_model_computes_the_same_function(tmp_path: Path, type_: str, least: float) -> None:
    # Random models have close calls everywhere: agreement is lower than that of a trained one, see below.
    source = write_tiny(tmp_path / "small.gguf", width=128)
    target = widen(source, tmp_path / "wide.gguf", Options(3, extra_layers=1, type=TYPES[type_]))
    assert agreement(source, target) >= least


def test_more_noise_is_less_agreement(tmp_path: Path) -> None:
    source = write_tiny(tmp_path / "small.gguf", width=128)
    found = [
        agreement(source, widen(source, tmp_path / "wide.gguf", Options(2, noise=noise, type=None)))
        for noise in (0.0, 0.1, 0.3, 1.0, 3.0)
    ]
    assert found == sorted(found, reverse=True)
    assert found[0] == 1.0
    assert found[-1] < 0.3


def test_the_demo_model_agrees_with_its_widened_self(demo_model: Path, tmp_path: Path) -> None:
    assert agreement(demo_model, widen(demo_model, tmp_path / "wide.gguf", Options(2)), count=60) >= 0.95
