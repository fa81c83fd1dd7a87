"""What a model is opened with, in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgespec.engine import loading
from edgespec.engine import messages as m
from edgespec.llama.library import library

pytestmark = pytest.mark.model


def test_layers_asked_onto_a_device_that_is_not_there_do_not_lengthen_prompt_passes(
    tiny_target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if library().supports_gpu_offload:
        pytest.skip("This machine has a device for them.")
    monkeypatch.setattr(loading, "CPU_OPERATIONS_PER_PASS", 1)
    models = loading.load_models(m.LoadOptions(str(tiny_target), gpu_layers=-1, threads=1))
    try:
        assert models.target.session.chunk == loading.SHORTEST_CHUNK
    finally:
        models.close()
