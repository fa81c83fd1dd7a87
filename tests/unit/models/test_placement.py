"""Before loading, people hear what will not fit and what helps; `auto` puts on a device what fits there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tiny_gguf_bytes import TinyGguf, model

from edgespec.engine.messages import LoadOptions
from edgespec.errors import ModelFileError
from edgespec.models.fit import Machine, estimate
from edgespec.placement import choose_layers, memory_notices, setup_of, shapes

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


def test_nothing_is_said_where_everything_fits(options: LoadOptions) -> None:
    assert memory_notices(options, Machine(64_000 * MB)) == ()


def test_a_tight_machine_hears_one_sentence(options: LoadOptions) -> None:
    total = estimate(*shapes(options), setup_of(options, shapes(options)[0])).total
    (notice,) = memory_notices(options, Machine(int(total / 0.7)))
    assert "It is tight" in notice
    assert "2,048 tokens of context" in notice


def test_a_small_machine_hears_what_helps_with_numbers(options: LoadOptions) -> None:
    first, second = memory_notices(options, Machine(100 * MB))
    assert "this machine has 100 MB" in first
    assert "A context of 1,024 tokens for the draft model: " in second
    assert "`--mode lookup`" in second
    assert "MB" in second


def test_layers_asked_for_without_a_device_count_as_main_memory(options: LoadOptions) -> None:
    everything = replace(options, gpu_layers=-1)
    assert memory_notices(everything, Machine(64_000 * MB)) == ()


def test_a_device_that_is_too_small_is_mentioned(options: LoadOptions) -> None:
    first, *_ = memory_notices(replace(options, gpu_layers=-1), Machine(64_000 * MB, 510 * MB))
    assert "its device 510 MB free" in first


def test_auto_takes_the_most_layers_that_fit(options: LoadOptions) -> None:
    assert choose_layers(options, Machine(64_000 * MB)).gpu_layers == 0
    assert choose_layers(options, Machine(64_000 * MB, 64_000 * MB)).gpu_layers == 9
    assert choose_layers(options, Machine(64_000 * MB, 500 * MB)).gpu_layers == 0
    some = choose_layers(options, Machine(64_000 * MB, 660 * MB))
    assert 0 < some.gpu_layers < 9
    assert memory_notices(some, Machine(64_000 * MB, 660 * MB)) == ()


def test_no_context_asked_for_means_the_models_own(options: LoadOptions) -> None:
    target, _ = shapes(options)
    assert setup_of(replace(options, n_ctx=0), target).n_ctx == 4096


def test_a_file_that_is_not_whole_is_found_here_too(options: LoadOptions) -> None:
    path = Path(options.target)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ModelFileError, match="100 bytes shorter"):
        memory_notices(options, Machine(MB))
