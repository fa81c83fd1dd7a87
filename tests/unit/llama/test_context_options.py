"""Options that llama.cpp would abort on, or quietly change, are refused in Python."""

from __future__ import annotations

from typing import Any

import pytest

from edgespec.errors import SettingsError
from edgespec.llama.context import ContextOptions, physical_cores


def options(**changes: Any) -> ContextOptions:
    values: dict[str, Any] = {
        "n_ctx": 1024, "n_batch": 512, "n_ubatch": 512, "max_draft": 32, "threads": 0,
        "type_k": "f16", "type_v": "f16", "flash_attention": "auto", "n_rs_seq": None,
    }  # fmt: skip
    return ContextOptions(**values | changes)


@pytest.mark.parametrize("type_v", ["q8_0", "q4_0"])
def test_a_quantised_v_cache_without_flash_attention_is_refused_with_the_fix(type_v: str) -> None:
    with pytest.raises(SettingsError) as caught:
        options(type_v=type_v, flash_attention="off")
    assert type_v in caught.value.message
    assert "auto or on" in caught.value.hint
    assert options(type_v=type_v).type_v == type_v
    assert options(type_k=type_v, flash_attention="off").type_k == type_v


@pytest.mark.parametrize(
    "changes",
    [
        {"n_ctx": 0}, {"n_ctx": -1}, {"n_batch": 0}, {"n_ubatch": 0}, {"max_draft": -1}, {"threads": -1},
        {"type_k": "q3"}, {"type_v": ""}, {"flash_attention": "maybe"}, {"n_rs_seq": -1},
    ],
)  # fmt: skip
def test_values_without_a_meaning_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        options(**changes)


def test_a_batch_smaller_than_a_draft_limits_prefill_only() -> None:
    small = options(n_batch=8)
    assert small.chunk == 8
    assert small.llama_batch == small.max_rows == 33


def test_no_pass_is_larger_than_the_context() -> None:
    assert options(n_ctx=16).max_rows == 16
    assert options(n_ctx=16).chunk == 16


@pytest.mark.parametrize("n_ctx", [1, 2, 5, 255, 256, 257, 1024])
@pytest.mark.parametrize("n_rs_seq", [None, 0, 1, 8, 1000])
@pytest.mark.parametrize("max_draft", [0, 1, 32, 1000])
def test_a_pass_has_room_for_the_tokens_whose_states_are_kept(n_ctx: int, n_rs_seq: int | None, max_draft: int) -> None:
    kept = options(n_ctx=n_ctx, n_rs_seq=n_rs_seq, max_draft=max_draft)
    assert 0 <= kept.snapshots < kept.max_rows
    assert kept.snapshots + 1 < kept.llama_batch <= kept.cells


def test_threads_default_to_cores_that_may_be_used() -> None:
    assert options().n_threads == physical_cores() >= 1
    assert options(threads=3).n_threads == 3
