"""The widened target as a file: sizes, metadata, and what each part of a matrix holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from click.testing import CliRunner
from gguf import GGMLQuantizationType as Type
from make_bench_pair import Options, Unsuitable, main, widen
from make_tiny_gguf import write_tiny


def tensors(path: Path) -> dict[str, np.ndarray]:
    """Every tensor of a file as float32."""
    return {t.name: gguf.dequantize(t.data, t.tensor_type) for t in gguf.GGUFReader(path).tensors}


def fields(path: Path) -> dict[str, Any]:
    return {key: field.contents() for key, field in gguf.GGUFReader(path).fields.items()}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_tiny(tmp_path / "small.gguf", width=128)


def test_shape_grows_and_everything_else_is_copied(source: Path, tmp_path: Path) -> None:
    before, after = fields(source), fields(widen(source, tmp_path / "wide.gguf", Options(3, extra_layers=2)))
    assert after["llama.embedding_length"] == 3 * before["llama.embedding_length"]
    assert after["llama.feed_forward_length"] == 3 * before["llama.feed_forward_length"]
    assert after["llama.attention.head_count"] == 3 * before["llama.attention.head_count"]
    assert after["llama.attention.head_count_kv"] == 3 * before["llama.attention.head_count_kv"]
    assert after["llama.block_count"] == before["llama.block_count"] + 2
    for key in before:
        if key.startswith(("tokenizer.", "llama.rope.", "llama.attention.layer_norm")):
            assert after[key] == before[key], key


def test_kept_weights_are_the_sources_and_the_rest_is_zero(source: Path, tmp_path: Path) -> None:
    small, wide = tensors(source), tensors(widen(source, tmp_path / "wide.gguf", Options(2, type=None)))
    for name in ("blk.0.attn_q.weight", "blk.1.ffn_down.weight"):
        rows, columns = small[name].shape
        assert wide[name].shape == (2 * rows, 2 * columns)
        for copy in (wide[name][:rows], wide[name][rows:]):
            assert np.array_equal(copy[:, :columns], small[name])
            assert not copy[:, columns:].any()


def test_the_parts_of_a_rounded_matrix_add_up_to_the_source(source: Path, tmp_path: Path) -> None:
    small, wide = tensors(source), tensors(widen(source, tmp_path / "wide.gguf", Options(3)))
    for name in ("blk.0.attn_q.weight", "blk.1.ffn_down.weight"):
        rows = len(small[name])
        first, *others = np.hsplit(wide[name][:rows], 3)
        largest = np.abs(small[name]).max()
        assert np.abs(first - small[name]).max() > 0.01 * largest
        assert np.abs(first + sum(others) - small[name]).max() < 0.001 * largest


def test_extra_layers_read_but_write_nothing(source: Path, tmp_path: Path) -> None:
    wide = tensors(widen(source, tmp_path / "wide.gguf", Options(2, extra_layers=3, noise=0.5)))
    for layer in (2, 3, 4):
        assert wide[f"blk.{layer}.attn_q.weight"].any()
        assert wide[f"blk.{layer}.ffn_up.weight"].any()
        assert not wide[f"blk.{layer}.attn_output.weight"].any()
        assert not wide[f"blk.{layer}.ffn_down.weight"].any()


def test_noise_is_one_draw_at_any_size(source: Path, tmp_path: Path) -> None:
    def written(noise: float) -> np.ndarray:
        path = widen(source, tmp_path / "wide.gguf", Options(2, noise=noise, type=None))
        weights = tensors(path)["blk.0.ffn_down.weight"]
        return np.asarray(np.hsplit(weights, 2)[1])

    small, large = written(0.1), written(0.4)
    assert np.allclose(4 * small, large, atol=1e-5)
    assert np.corrcoef(small.ravel(), tensors(source)["blk.0.ffn_down.weight"].repeat(2, 0).ravel())[0, 1] < 0.1


def test_embeddings_keep_eight_bits_and_vectors_all(source: Path, tmp_path: Path) -> None:
    path = widen(source, tmp_path / "wide.gguf", Options(2))
    types = {tensor.name: tensor.tensor_type for tensor in gguf.GGUFReader(path).tensors}
    assert types["token_embd.weight"] == types["output.weight"] == Type.Q8_0
    assert types["blk.0.attn_q.weight"] == Type.Q4_0
    assert types["blk.0.attn_norm.weight"] == Type.F32


@pytest.mark.parametrize("arch", ["gemma3", "mamba", "lfm2"])
def test_other_architectures_are_refused_by_name(tmp_path: Path, arch: str) -> None:
    source = write_tiny(tmp_path / "small.gguf", arch)
    with pytest.raises(Unsuitable, match=arch):
        widen(source, tmp_path / "wide.gguf", Options())
    assert not (tmp_path / "wide.gguf").exists()


def test_a_failure_half_way_leaves_no_file(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(gguf.GGUFWriter, "write_tensor_data", full)
    with pytest.raises(OSError, match="No space"):
        widen(source, tmp_path / "wide.gguf", Options())
    assert sorted(file.name for file in tmp_path.iterdir()) == ["small.gguf"]


def test_the_command_explains_what_it_refuses(source: Path, tmp_path: Path) -> None:
    run = CliRunner().invoke
    assert "overwrite" in run(main, [str(source), str(source)]).output
    assert run(main, [str(source), str(tmp_path / "a.gguf"), "--factor", "1", "--noise", "0.1"]).exit_code == 2
    mamba = write_tiny(tmp_path / "mamba.gguf", "mamba")
    refused = run(main, [str(mamba), str(tmp_path / "a.gguf")])
    assert refused.exit_code == 1
    assert "cannot be widened" in refused.output
    (tmp_path / "text.gguf").write_text("not a model")
    refused = run(main, [str(tmp_path / "text.gguf"), str(tmp_path / "a.gguf")])
    assert refused.exit_code == 1
    assert "Traceback" not in refused.output
    assert run(main, [str(source), str(tmp_path / "a.gguf"), "--factor", "2"]).exit_code == 0
