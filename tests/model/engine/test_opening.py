"""What a model is opened with, in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgespec.engine import loading, open_model
from edgespec.engine import messages as m
from edgespec.llama.library import library
from edgespec.models.shards import CheckedModel

pytestmark = pytest.mark.model


def test_layers_asked_onto_a_device_that_is_not_there_do_not_lengthen_prompt_passes(
    tiny_target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if library().supports_gpu_offload:
        pytest.skip("This machine has a device for them.")
    monkeypatch.setattr(open_model, "CPU_OPERATIONS_PER_PASS", 1)
    models = loading.load_models(m.LoadOptions(str(tiny_target), gpu_layers=-1, threads=1))
    try:
        assert models.target.session.chunk == open_model.SHORTEST_CHUNK
    finally:
        models.close()


def test_the_draft_model_is_loaded_as_its_own_options_say(
    tiny_target: Path, tiny_draft: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[m.LoadOptions] = []
    load = loading.OpenModel.load

    def remember(file: CheckedModel, options: m.LoadOptions, *rest: Any, **more: Any) -> loading.OpenModel:
        asked.append(options)
        return load(file, options, *rest, **more)

    monkeypatch.setattr(loading.OpenModel, "load", remember)
    own = {"draft_n_ctx": 64, "draft_cache_type": "q8_0", "draft_gpu_layers": 1}
    models = loading.load_models(
        m.LoadOptions(str(tiny_target), str(tiny_draft), n_ctx=256, gpu_layers=0, threads=1, **own)
    )
    try:
        assert models.draft is not None
        assert (models.target.session.n_ctx, models.draft.session.n_ctx) == (256, 64)
        assert "The draft model has a context of 64 tokens: behind them it drafts nothing." in models.loaded.notices
    finally:
        models.close()
    target, draft = asked
    assert (target.cache_type_k, target.cache_type_v, target.gpu_layers) == ("f16", "f16", 0)
    assert (draft.cache_type_k, draft.cache_type_v, draft.gpu_layers) == ("q8_0", "q8_0", 1)
