"""Models that the tests of this folder share. Weights are not repacked: some machines cannot execute those kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from make_tiny_gguf import write_tiny

from edgespec.llama.model import LlamaModel


@pytest.fixture(scope="session")
def demo(demo_model: Path) -> Iterator[LlamaModel]:
    """SmolLM2-135M: plain cache, BPE vocabulary."""
    with LlamaModel.load(demo_model, use_extra_bufts=False) as model:
        yield model


@pytest.fixture(scope="session")
def gemma(gemma_model: Path) -> Iterator[LlamaModel]:
    """Gemma 3 270M: sliding window of 512, SentencePiece vocabulary."""
    with LlamaModel.load(gemma_model, use_extra_bufts=False) as model:
        yield model


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], LlamaModel]]:
    """Tiny random models by architecture, loaded once."""
    models: dict[str, LlamaModel] = {}

    def load(arch: str) -> LlamaModel:
        if arch not in models:
            path = write_tiny(tmp_path_factory.mktemp("tiny") / f"{arch}.gguf", arch)
            models[arch] = LlamaModel.load(path, use_extra_bufts=False)
        return models[arch]

    yield load
    for model in models.values():
        model.close()
