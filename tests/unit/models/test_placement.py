"""Before loading, people hear what will not fit and what helps; `auto` puts on a device what fits there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tiny_gguf_bytes import TinyGguf, model

from edgespec.engine.messages import LoadOptions
from edgespec.errors import ModelFileError, ModelLoadError, SettingsError
from edgespec.models.fit import Machine, estimate
from edgespec.models.units import format_size
from edgespec.placement import choose_layers, memory_notices, place, place_on, setup_of, shapes
from edgespec.types import ALL_LAYERS, AUTO_LAYERS

MB = 1_000_000


def layered(layers: int, each: int) -> TinyGguf:
    """A model with this many layers of this many numbers, and a cache that is felt."""
    tiny = model(llama__block_count=layers, llama__context_length=4096, llama__attention__key_length=1024,
                 llama__attention__value_length=1024)  # fmt: skip
    tiny.tensors = {"token_embd.weight": 256} | {f"blk.{i}.w.weight": each for i in range(layers)}
    return tiny


@pytest.fixture
def options(tmp_path: Path) -> LoadOptions:
    for name, tiny in {"t.gguf": layered(8, 250_000), "d.gguf": layered(4, 2_500)}.items():
        (tmp_path / name).write_bytes(tiny.bytes())
    return LoadOptions(str(tmp_path / "t.gguf"), str(tmp_path / "d.gguf"), n_ctx=2048)


def total_of(options: LoadOptions) -> int:
    found = shapes(options)
    return estimate(*found, setup_of(options, found[0])).total


def test_nothing_is_said_where_everything_fits(options: LoadOptions) -> None:
    assert memory_notices(options, Machine(64_000 * MB)) == ()


def test_a_tight_machine_hears_one_sentence(options: LoadOptions) -> None:
    total = total_of(options)
    (notice,) = memory_notices(options, Machine(int(total / 0.7)))
    assert "It is tight" in notice
    assert "2,048 tokens of context" in notice


def test_a_small_machine_hears_what_helps_with_numbers(options: LoadOptions) -> None:
    memory = int(total_of(options) / 0.9)
    first, second = memory_notices(options, Machine(memory))
    assert f"this machine has {format_size(memory)}" in first
    assert "may fail" in first
    assert "A context of 1,024 tokens for the draft model (`--draft-ctx 1024`): " in second
    assert "MB" in second


def test_what_cannot_fit_at_all_is_refused_with_every_remedy_in_order(options: LoadOptions) -> None:
    with pytest.raises(ModelLoadError, match="this machine has 100 MB") as caught:
        memory_notices(options, Machine(100 * MB))
    hint = caught.value.hint
    places = [hint.index(part) for part in ("--draft-ctx", "--draft-cache-type", "--mode lookup", "--cache-type-k")]
    assert places == sorted(places)
    assert "That is still too much. Choose a smaller model" in hint


def test_layers_asked_for_without_a_device_count_as_main_memory(options: LoadOptions) -> None:
    everything = replace(options, gpu_layers=-1)
    assert memory_notices(everything, Machine(64_000 * MB)) == ()


def test_a_device_that_is_too_small_is_mentioned(options: LoadOptions) -> None:
    everything = replace(options, gpu_layers=-1)
    device = estimate(*shapes(everything), setup_of(everything, shapes(options)[0])).device
    first, *_ = memory_notices(everything, Machine(64_000 * MB, device))
    assert "MB of it on the device" in first
    assert f"its device {format_size(device)} free" in first
    with pytest.raises(ModelLoadError, match="its device 50 MB free") as caught:
        memory_notices(everything, Machine(64_000 * MB, 50 * MB))
    assert "on the device (`--gpu-layers 0`)" in caught.value.hint


def test_auto_takes_the_most_layers_that_fit(options: LoadOptions) -> None:
    assert choose_layers(options, Machine(64_000 * MB)).gpu_layers == 0
    assert choose_layers(options, Machine(64_000 * MB, 64_000 * MB)).gpu_layers == 9
    assert choose_layers(options, Machine(64_000 * MB, 500 * MB)).gpu_layers == 0
    some = choose_layers(options, Machine(64_000 * MB, 660 * MB))
    assert 0 < some.gpu_layers < 9
    assert memory_notices(some, Machine(64_000 * MB, 660 * MB)) == ()


def test_auto_says_what_it_changed_and_keeps_what_was_asked_for(options: LoadOptions) -> None:
    card = Machine(64_000 * MB, 640 * MB)
    placed = place(replace(options, gpu_layers=AUTO_LAYERS), *shapes(options), card)
    assert (placed.options.draft_n_ctx, placed.options.draft_cache_type) == (1024, "q8_0")
    assert placed.options.draft_gpu_layers == 0
    (notice,) = placed.notices
    assert "To fit the device (640 MB free): A context of 1,024 tokens for the draft model" in notice
    asked = replace(options, gpu_layers=AUTO_LAYERS, draft_n_ctx=2000, draft_cache_type="q4_0", draft_gpu_layers=1)
    placed = place(asked, *shapes(asked), card)
    kept = placed.options
    assert (kept.draft_n_ctx, kept.draft_cache_type, kept.draft_gpu_layers) == (2000, "q4_0", 1)
    assert memory_notices(kept, card) == ()


def test_auto_quantises_no_cache_where_flash_attention_is_off(options: LoadOptions) -> None:
    asked = replace(options, gpu_layers=AUTO_LAYERS, flash_attention="off")
    assert place(asked, *shapes(asked), Machine(64_000 * MB, 640 * MB)).options.draft_cache_type == ""


def test_what_the_draft_model_is_given_counts(options: LoadOptions) -> None:
    less = [total_of(replace(options, **change)) for change in ({"draft_n_ctx": 512}, {"draft_cache_type": "q4_0"})]
    assert max(less) < total_of(options)


def test_no_context_asked_for_means_the_models_own(options: LoadOptions) -> None:
    target, _ = shapes(options)
    assert setup_of(replace(options, n_ctx=0), target).n_ctx == 4096


def test_a_file_that_is_not_whole_is_found_here_too(options: LoadOptions) -> None:
    path = Path(options.target)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ModelFileError, match="100 bytes shorter"):
        memory_notices(options, Machine(MB))


def test_a_cache_type_that_does_not_exist_is_an_error_about_settings(options: LoadOptions) -> None:
    with pytest.raises(SettingsError, match="'q9'"):
        memory_notices(replace(options, draft_cache_type="q9"), Machine(MB))


@dataclass
class Card:
    """A device, as llama.cpp names it."""

    kind: str
    free_bytes: int = 0


@pytest.mark.parametrize(
    ("layers", "devices", "said"),
    [
        (20, [], "--gpu-layers 20 changes nothing"),
        (ALL_LAYERS, [Card("accelerator")], "--gpu-layers all changes nothing"),
        (20, [Card("gpu", 64_000 * MB)], ""),
        (20, [Card("integrated gpu")], ""),
        (0, [], ""),
        (AUTO_LAYERS, [], ""),
    ],
)
def test_layers_asked_for_where_there_is_no_gpu_are_not_dropped_in_silence(
    options: LoadOptions, layers: int, devices: list[Card], said: str
) -> None:
    placed = place_on(replace(options, gpu_layers=layers), *shapes(options), 64_000 * MB, devices)
    assert [notice.split(":")[0] for notice in placed.notices] == ([said] if said else [])
