"""Tiny GGUFs in llama.cpp: every architecture loads, computes, and has the kind of memory it is there for."""

from __future__ import annotations

from pathlib import Path

import pytest
from bare_llama import in_child
from make_tiny_gguf import ARCHITECTURES, ENDOFTEXT, IM_END, IM_START, WINDOW, write_tiny

pytestmark = pytest.mark.model

TEXT = "Once upon a time there was 日本 <|im_start|>user\n" + "=" * 48
KINDS = {
    "llama": {"rewinds": True, "window": 0, "recurrent": False, "hybrid": False, "snapshots": 0},
    "gemma3": {"rewinds": True, "window": WINDOW, "recurrent": False, "hybrid": False, "snapshots": 0},
    "mamba": {"rewinds": False, "window": 0, "recurrent": True, "hybrid": False, "snapshots": 0},
    "lfm2": {"rewinds": True, "window": 0, "recurrent": False, "hybrid": True, "snapshots": 4},
    "jamba": {"rewinds": False, "window": 0, "recurrent": False, "hybrid": True, "snapshots": 0},
}


@pytest.mark.parametrize("arch", list(ARCHITECTURES))
def test_an_architecture_loads_decodes_and_rewinds_as_it_should(tmp_path: Path, arch: str) -> None:
    seen = in_child("inspect", path=str(write_tiny(tmp_path / "a.gguf", arch)), text=TEXT, count=100)
    assert {key: seen[key] for key in KINDS[arch]} == KINDS[arch]
    assert seen["finite"]
    assert seen["spread"] > 1
    assert seen["rewind_error"] < 1e-3
    assert len(set(seen["greedy"])) > 20
    assert not set(seen["greedy"]) & set(seen["end_of_generation"])


def test_the_vocabulary_tokenizes_any_text_and_gives_it_back(tmp_path: Path) -> None:
    seen = in_child("inspect", path=str(write_tiny(tmp_path / "a.gguf")), text=TEXT, count=1)
    assert seen["text"] == "<|begin|>" + TEXT
    assert IM_START in seen["tokens"]
    assert seen["end_of_generation"] == [ENDOFTEXT, IM_END]


def test_seeds_give_different_models_and_noise_a_related_one(tmp_path: Path) -> None:
    own, other, near = (
        str(write_tiny(tmp_path / f"{i}.gguf", seed=seed, noise=noise))
        for i, (seed, noise) in enumerate([(1, 0.0), (2, 0.0), (1, 0.1)])
    )
    strange = in_child("compare", path=own, other=other, text=TEXT, count=100)
    related = in_child("compare", path=own, other=near, text=TEXT, count=100)
    assert strange["agreement"] < 0.1
    assert 0.4 < related["agreement"] < 1
