"""Every test of the engine gets a cache folder and a log folder of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from make_tiny_gguf import write_tiny


@pytest.fixture(scope="module", autouse=True)
def engine_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("engine")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGESPEC_CACHE_DIR", str(folder / "cache"))
        patch.setenv("EDGESPEC_LOG_DIR", str(folder / "logs"))
        yield folder


@pytest.fixture(scope="session")
def tiny_target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("tiny") / "target.gguf", seed=1)


@pytest.fixture(scope="session")
def tiny_draft(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fair draft for `tiny_target`: it agrees with about half of its choices."""
    return write_tiny(tmp_path_factory.mktemp("tiny") / "draft.gguf", seed=1, noise=0.1)
