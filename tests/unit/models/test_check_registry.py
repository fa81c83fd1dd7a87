"""The developer's script compares a registry with the Hub and takes over only what was unknown."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from stub_hub import StubHub
from tiny_gguf_bytes import model

from edgespec.models.registry import read_registry

REPO, NAME = "maker/Tiny-GGUF", "Tiny-Q8_0.gguf"
SCRIPT = Path(__file__).parents[3] / "scripts" / "check_registry.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_registry", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["check_registry"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def registry(tmp_path: Path, stub: StubHub, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("MODEL_ENDPOINT", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_ENDPOINT", stub.url)
    content = model(size=3000).bytes()
    stub.files[REPO][NAME] = content
    path = tmp_path / "models.toml"
    path.write_text(
        f"""[licences]
mit = {{ ask = false }}
[[pair]]
id = "tiny"
spec_type = "none"
licence = "mit"
n_ctx_train = 256
target = {{ repo = "{REPO}", file = "{NAME}", size = {len(content)}, sha256 = "{hashlib.sha256(content).hexdigest()}" }}
shape = {{ layers = 2, kv_heads = 2, head_dim = 8, vocab = 40 }}
"""
    )
    return path


def run(script: ModuleType, path: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = script.main(["--registry", str(path), *arguments])
    return code, capsys.readouterr().out


def test_what_is_as_pinned_is_ok(script: ModuleType, registry: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(script, registry, capsys, "--headers")
    assert code == 0
    assert "tiny: ok" in out


def test_new_content_is_a_change(
    script: ModuleType, registry: Path, stub: StubHub, capsys: pytest.CaptureFixture[str]
) -> None:
    stub.files[REPO][NAME] = model(size=4000).bytes()
    code, out = run(script, registry, capsys)
    assert code == 1
    assert "sha256 is" in out
    assert "bytes, the registry has" in out


def test_a_file_that_is_gone_or_gated_is_a_change(
    script: ModuleType, registry: Path, stub: StubHub, capsys: pytest.CaptureFixture[str]
) -> None:
    stub.gated = True
    assert "gated is True, the registry has False" in run(script, registry, capsys)[1]
    del stub.files[REPO][NAME]
    code, out = run(script, registry, capsys)
    assert code == 1
    assert f"has no {REPO}/{NAME}" in out


def test_facts_of_the_header_are_compared(
    script: ModuleType, registry: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.write_text(registry.read_text().replace("layers = 2", "layers = 3").replace("vocab = 40", "vocab = 41"))
    code, out = run(script, registry, capsys, "--headers")
    assert code == 1
    assert "2 layers, the registry has 3" in out
    assert "40 tokens, the registry has 41" in out


def test_another_licence_is_noted(
    script: ModuleType, registry: Path, stub: StubHub, capsys: pytest.CaptureFixture[str]
) -> None:
    stub.licence = "apache-2.0"
    code, out = run(script, registry, capsys)
    assert code == 0
    assert "names the licence apache-2.0, the registry has mit" in out


def test_what_was_unknown_is_written_and_what_is_pinned_is_not_touched(
    script: ModuleType, registry: Path, stub: StubHub, capsys: pytest.CaptureFixture[str]
) -> None:
    text = registry.read_text()
    stub.files[REPO]["D.gguf"] = model(size=100).bytes()
    registry.write_text(
        text.replace('spec_type = "none"', 'spec_type = "draft-simple"')
        + f'draft = {{ repo = "{REPO}", file = "D.gguf", size = 5, size_exact = false }}\n'
    )
    assert run(script, registry, capsys, "--write")[0] == 0
    (pair,) = read_registry(registry).pairs
    assert pair.target is not None
    assert pair.draft is not None
    assert pair.target.revision == stub.commit
    assert pair.draft.sha256 == hashlib.sha256(stub.files[REPO]["D.gguf"]).hexdigest()
    assert (pair.draft.size, pair.draft.size_exact) == (len(stub.files[REPO]["D.gguf"]), True)
    assert run(script, registry, capsys, "--write")[1] == "tiny: ok\n"
