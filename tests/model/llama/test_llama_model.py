"""Loading models: what is known about them, and what is refused with which sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from edgespec.errors import DecodeError, EdgeSpecError, ModelLoadError
from edgespec.llama.devices import devices
from edgespec.llama.library import library
from edgespec.llama.model import LlamaModel
from edgespec.llama.session import LlamaSession

pytestmark = pytest.mark.model


def test_a_model_knows_its_facts(demo: LlamaModel, gemma: LlamaModel) -> None:
    assert (demo.architecture, demo.n_vocab, demo.n_ctx_train, demo.n_swa) == ("llama", 49_152, 8_192, 0)
    assert 130e6 < demo.n_params < 140e6
    assert demo.chat_template is not None
    assert "<|im_start|>" in demo.chat_template
    assert (gemma.architecture, gemma.n_vocab, gemma.n_swa, gemma.chat_template) == ("gemma3", 262_144, 512, None)


@pytest.mark.parametrize(
    ("arch", "recurrent", "hybrid"), [("llama", False, False), ("mamba", True, False), ("jamba", False, True)]
)
def test_a_model_knows_its_kind_of_memory(
    tiny: Callable[[str], LlamaModel], arch: str, recurrent: bool, hybrid: bool
) -> None:
    assert (tiny(arch).is_recurrent, tiny(arch).is_hybrid) == (recurrent, hybrid)


def test_a_file_that_is_no_model_is_refused_with_the_reason(tmp_path: Path) -> None:
    page = tmp_path / "page.gguf"
    page.write_text("<!DOCTYPE html>")
    with pytest.raises(ModelLoadError, match=r"page\.gguf.*magic") as caught:
        LlamaModel.load(page)
    assert caught.value.hint
    with pytest.raises(ModelLoadError, match="no model file"):
        LlamaModel.load(tmp_path / "missing.gguf")


@pytest.mark.parametrize(
    ("arch", "keys", "words"),
    [
        ("llama", {"llama.attention.causal": False}, "embedding or reranking"),
        ("llama", {"llama.pooling_type": 3}, "embedding or reranking"),
    ],
)
def test_models_that_do_not_write_are_refused(
    tiny: Callable[[str], LlamaModel], tmp_path: Path, arch: str, keys: dict[str, bool | int], words: str
) -> None:
    path = with_keys(tiny(arch).path, tmp_path / "changed.gguf", keys)
    with pytest.raises(ModelLoadError, match=words):
        LlamaModel.load(path, use_extra_bufts=False)


def test_a_vocabulary_can_be_read_without_weights(demo_model: Path) -> None:
    with LlamaModel.load(demo_model, vocab_only=True) as model:
        assert model.vocab.piece(15069) == b"-" * 64
        with pytest.raises(ModelLoadError, match="not loaded"):
            LlamaSession(model, n_ctx=64)


def test_odd_paths_work(tiny: Callable[[str], LlamaModel], tmp_path: Path) -> None:
    path = tmp_path / "w t" / "模型 é (1)" / "Smol [v2].gguf"
    path.parent.mkdir(parents=True)
    path.write_bytes(tiny("llama").path.read_bytes())
    with LlamaModel.load(path, use_extra_bufts=False) as model:
        assert model.n_vocab == tiny("llama").n_vocab


def test_closing_a_model_closes_what_uses_it(tiny: Callable[[str], LlamaModel]) -> None:
    model = LlamaModel.load(tiny("llama").path, use_extra_bufts=False)
    session = LlamaSession(model, n_ctx=64)
    model.close()
    model.close()
    assert model.closed
    with pytest.raises(DecodeError, match="closed"):
        session.decode([1])
    with pytest.raises(EdgeSpecError, match="closed"):
        model.vocab.tokenize("x", add_special=False, parse_special=False)
    with pytest.raises(EdgeSpecError, match="closed"):
        model.vocab.piece(20)


def test_the_library_keeps_its_log_off_the_terminal(
    tiny: Callable[[str], LlamaModel], capfd: pytest.CaptureFixture[str]
) -> None:
    with LlamaModel.load(tiny("llama").path, use_extra_bufts=False) as model, LlamaSession(model, n_ctx=8192):
        pass
    assert any("n_ctx" in line for line in library().log.lines())
    assert capfd.readouterr() == ("", "")


def test_the_library_says_what_it_is(tmp_path: Path) -> None:
    lib = library()
    assert lib.path.is_file()
    assert "llama.cpp" in lib.version
    assert "CPU" in lib.system_info
    assert all(isinstance(found, bool) for found in lib.capabilities.values())
    assert any(device.kind == "cpu" and device.total_bytes > 0 for device in devices())


def with_keys(source: Path, target: Path, keys: dict[str, bool | int]) -> Path:
    """A copy of a GGUF with scalar keys added at the end of its metadata."""
    import gguf

    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, "llama")
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        kind = field.types[0]
        sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=sub)
    for name, value in keys.items():
        kind = gguf.GGUFValueType.BOOL if isinstance(value, bool) else gguf.GGUFValueType.UINT32
        writer.add_key_value(name, value, kind)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target
