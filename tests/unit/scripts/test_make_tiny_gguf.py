"""Tiny GGUFs as files: one vocabulary, small, and each weight independent of the options that do not concern it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from click.testing import CliRunner
from make_tiny_gguf import ARCHITECTURES, main, write_tiny


def field(path: Path, key: str) -> Any:
    found = gguf.GGUFReader(path).fields.get(key)
    return None if found is None else found.contents()


def tensors(path: Path) -> dict[str, np.ndarray]:
    return {tensor.name: np.array(tensor.data) for tensor in gguf.GGUFReader(path).tensors}


def test_all_architectures_share_one_vocabulary_and_stay_small(tmp_path: Path) -> None:
    paths = [write_tiny(tmp_path / f"{arch}.gguf", arch) for arch in ARCHITECTURES]
    keys = ("tokens", "token_type", "merges", "model", "bos_token_id", "eos_token_id", "add_bos_token")
    vocabularies = [[field(path, f"tokenizer.ggml.{key}") for key in keys] for path in paths]
    assert all(vocabulary == vocabularies[0] for vocabulary in vocabularies)
    assert all(path.stat().st_size < 1_000_000 for path in paths)


def test_a_seed_names_a_model(tmp_path: Path) -> None:
    first, again, other = (write_tiny(tmp_path / f"{i}.gguf", seed=seed) for i, seed in enumerate((1, 1, 2)))
    assert first.read_bytes() == again.read_bytes()
    assert not np.array_equal(tensors(first)["output.weight"], tensors(other)["output.weight"])


def test_padding_the_vocabulary_changes_nothing_else(tmp_path: Path) -> None:
    plain, padded = write_tiny(tmp_path / "a.gguf"), write_tiny(tmp_path / "b.gguf", vocab_extra=100)
    tokens = field(plain, "tokenizer.ggml.tokens")
    assert field(padded, "tokenizer.ggml.tokens")[: len(tokens)] == tokens
    assert len(field(padded, "tokenizer.ggml.tokens")) == len(tokens) + 100
    padded_tensors = tensors(padded)
    assert all(np.array_equal(padded_tensors[name][: len(data)], data) for name, data in tensors(plain).items())


def test_the_template_can_be_left_out(tmp_path: Path) -> None:
    assert "im_start" in field(write_tiny(tmp_path / "a.gguf"), "tokenizer.chat_template")
    assert field(write_tiny(tmp_path / "b.gguf", template=False), "tokenizer.chat_template") is None


@pytest.mark.parametrize("options", [{"arch": "nonsense"}, {"width": 33}, {"layers": 0}, {"vocab_extra": -1}])
def test_impossible_shapes_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        write_tiny(tmp_path / "a.gguf", **options)


def test_the_command_writes_what_its_options_say(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    result = CliRunner().invoke(main, [str(path), "--arch", "lfm2", "--layers", "3", "--width", "96", "--no-bos"])
    assert result.exit_code == 0, result.output
    assert field(path, "lfm2.block_count") == 3
    assert field(path, "lfm2.embedding_length") == 96
    assert field(path, "tokenizer.ggml.add_bos_token") is False
    assert CliRunner().invoke(main, [str(path), "--width", "40"]).exit_code == 2
