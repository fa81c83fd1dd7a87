"""Memory is foretold from headers and registry entries, and what does not fit gets remedies with numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tiny_gguf_bytes import model

from edgespec.models.catalogue import Here, catalogue, pick
from edgespec.models.fit import (
    CACHE_TYPE_BYTES,
    Machine,
    Setup,
    Verdict,
    cache_bytes,
    estimate,
    most_layers,
    place,
    remedies,
    verdict,
)
from edgespec.models.gguf import read_header
from edgespec.models.registry import load_registry
from edgespec.models.shape import LayerCache, MemoryShape, shape_of, shapes_of_pair

MIB = 1024 * 1024
REGISTRY = load_registry(Path("/nowhere"))

# Target and draft cache in MiB at 4,096 and 8,192 tokens, worked out by hand from public model configurations.
CACHES = {
    "qwen3-4b": ((576, 448), (1152, 896)),
    "smollm2-1.7b": ((768, 90), (1536, 180)),
    "llama3.2-3b": ((448, 128), (896, 256)),
    "gemma3-4b": ((254, 27), (334, 39)),
    "qwen2.5-coder-7b": ((224, 48), (448, 96)),
    "gemma3-12b": ((736, 27), (992, 39)),
    "qwen3-14b": ((640, 448), (1280, 896)),
    "gemma3-27b": ((944, 38), (1264, 54)),
    "qwen3.5-4b-mtp": ((144, 0), (288, 0)),
    "qwen3.6-27b-mtp": ((272, 0), (544, 0)),
}


@pytest.mark.parametrize("name", CACHES)
def test_caches_of_known_models_have_the_size_they_are_known_to_have(name: str) -> None:
    pair = REGISTRY.find(name)
    assert pair is not None
    shapes = shapes_of_pair(pair)
    assert shapes is not None
    for n_ctx, expected in zip((4096, 8192), CACHES[name], strict=True):
        found = estimate(*shapes, Setup(n_ctx=n_ctx))
        draft = found.draft.cache if found.draft else 0
        assert (round(found.target.cache / MIB), round(draft / MIB)) == pytest.approx(expected, abs=1)


def shape(
    layers: int = 10, each: int = 100 * MIB, width: int = 1024, window: int = 0, vocab: int = 1000
) -> MemoryShape:
    caches = (LayerCache(width, width, window),) * layers
    return MemoryShape((each,) * layers, 0, 50 * MIB, caches, 0, vocab, 512, 2048, 8192, True)


@pytest.mark.parametrize("kind", CACHE_TYPE_BYTES)
def test_the_cache_shrinks_with_its_element_type(kind: str) -> None:
    found = cache_bytes((LayerCache(256, 256),), 1024, 512, kind, kind)
    assert found == 1024 * 512 * CACHE_TYPE_BYTES[kind]


def test_a_window_bounds_the_cache_of_its_layers_only() -> None:
    full, windowed = (LayerCache(64, 64),), (LayerCache(64, 64, 512),)
    assert cache_bytes(windowed, 8192, 512, "f16", "f16") == 1024 * 256
    assert cache_bytes(full, 8192, 512, "f16", "f16") == 8192 * 256
    assert cache_bytes(windowed, 256, 512, "f16", "f16") == cache_bytes(full, 256, 512, "f16", "f16")


def test_contexts_are_rounded_up_as_llama_cpp_rounds_them() -> None:
    assert cache_bytes((LayerCache(1, 1),), 257, 512, "f16", "f16") == 512 * 4


@pytest.mark.model
def test_headers_of_real_files_give_their_shape(demo_model: Path, gemma_model: Path) -> None:
    demo = shape_of(read_header(demo_model))
    assert demo.layers == 30
    assert demo.caches == (LayerCache(192, 192),) * 30
    assert demo.weights == pytest.approx(demo_model.stat().st_size, rel=0.03)
    gemma = shape_of(read_header(gemma_model))
    assert [layer.window for layer in gemma.caches] == [0 if i % 6 == 5 else 512 for i in range(18)]
    assert {layer.key for layer in gemma.caches} == {256}


def header_shape(tmp_path: Path, **metadata: object) -> MemoryShape:
    path = tmp_path / "m.gguf"
    path.write_bytes(model(**metadata).bytes())  # type: ignore[arg-type]
    return shape_of(read_header(path))


def test_heads_may_differ_by_layer(tmp_path: Path) -> None:
    found = header_shape(tmp_path, llama__attention__head_count_kv=[4, 1])
    assert [layer.key for layer in found.caches] == [32, 8]


def test_a_hybrid_model_keeps_a_cache_in_some_layers_and_a_state_in_others(tmp_path: Path) -> None:
    found = header_shape(
        tmp_path, architecture="qwen35", qwen35__full_attention_interval=2, qwen35__ssm__inner_size=64,
        qwen35__ssm__state_size=16, qwen35__ssm__group_count=2, qwen35__ssm__conv_kernel=4,
    )  # fmt: skip
    assert [layer.key > 0 for layer in found.caches] == [False, True]
    assert found.recurrent == 4 * (3 * (64 + 2 * 2 * 16) + 16 * 64)


def test_a_model_without_attention_keeps_no_cache(tmp_path: Path) -> None:
    found = header_shape(tmp_path, architecture="mamba")
    assert not any(layer.key for layer in found.caches)


def test_a_stored_pattern_decides_which_layers_slide(tmp_path: Path) -> None:
    found = header_shape(
        tmp_path, architecture="gemma4", gemma4__attention__sliding_window=64,
        gemma4__attention__sliding_window_pattern=[1, 0],
        gemma4__attention__key_length=32, gemma4__attention__value_length=32,
        gemma4__attention__key_length_swa=16, gemma4__attention__value_length_swa=16,
    )  # fmt: skip
    assert found.caches == (LayerCache(32, 32, 64), LayerCache(64, 64))


def test_layers_that_share_a_cache_own_none(tmp_path: Path) -> None:
    found = header_shape(tmp_path, llama__attention__shared_kv_layers=1)
    assert [layer.key > 0 for layer in found.caches] == [True, False]


def test_a_machine_with_room_is_a_yes_a_tight_one_says_so_and_a_small_one_is_a_no() -> None:
    needed = estimate(shape(), None, Setup()).total
    assert verdict(estimate(shape(), None, Setup()), Machine(int(needed / 0.59))) is Verdict.FITS
    assert verdict(estimate(shape(), None, Setup()), Machine(int(needed / 0.7))) is Verdict.TIGHT
    assert verdict(estimate(shape(), None, Setup()), Machine(int(needed / 0.8))) is Verdict.NO


def test_more_context_never_needs_less() -> None:
    totals = [estimate(shape(), shape(4), Setup(n_ctx=n)).total for n in (256, 512, 1024, 4096, 8192)]
    assert totals == sorted(totals)
    assert len(set(totals)) == len(totals)


def test_a_draft_model_gets_no_longer_context_than_it_was_trained_for() -> None:
    short = replace(shape(4), context_length=1024)
    found = estimate(shape(), short, Setup(n_ctx=8192))
    assert found.draft is not None
    assert found.draft.cache == cache_bytes(short.caches, 1024, 512, "f16", "f16")


def test_remedies_come_in_order_each_with_its_number_until_it_fits() -> None:
    target, draft = shape(20), shape(20, each=20 * MIB)
    setup = Setup(n_ctx=8192)
    steps = remedies(target, draft, setup, Machine(10**9))
    assert [step.sentence.split(":")[0].split(" (")[0] for step in steps] == [
        "A context of 2,048 tokens for the draft model",
        "A q8_0 cache for the draft model",
        "No draft model",
        "A context of 4,096 tokens",
        "A context of 2,048 tokens",
        "A q8_0 cache",
    ]
    totals = [step.estimate.total for step in steps]
    assert totals == sorted(totals, reverse=True)
    assert all("GB" in step.sentence for step in steps)
    enough = Machine(int(totals[1] / 0.74))
    assert len(remedies(target, draft, setup, enough)) == 2
    assert remedies(target, draft, setup, Machine(10**12)) == []


def test_auto_puts_everything_on_a_device_with_room() -> None:
    found = place(shape(), shape(4, each=MIB), Setup(), Machine(10**12, 10**11))
    assert (found.setup.gpu_layers, found.setup.draft_gpu_layers) == (11, 5)
    assert found.changes == ()


def test_auto_gives_up_the_drafts_comfort_before_the_targets_layers() -> None:
    target, draft = shape(20), shape(20, each=20 * MIB)
    everything = estimate(target, draft, Setup(n_ctx=8192, gpu_layers=21, draft_gpu_layers=21)).device
    free = int(everything / 0.9) + 500_000_000
    just_less = place(target, draft, Setup(n_ctx=8192), Machine(10**12, free - 50 * MIB))
    assert just_less.setup.gpu_layers == 21
    assert just_less.setup.draft_gpu_layers == 21
    assert just_less.setup.draft_n_ctx == 2048
    half = place(target, draft, Setup(n_ctx=8192), Machine(10**12, free // 2))
    assert half.setup.draft_gpu_layers == 0
    assert 0 < half.setup.gpu_layers < 21
    assert len(half.changes) == 4


def test_auto_takes_nothing_from_the_target_and_undoes_nothing_that_was_asked_for() -> None:
    target, draft = shape(20), shape(20, each=20 * MIB)
    asked = Setup(n_ctx=8192, draft_n_ctx=8192, draft_cache_type="f16")
    found = place(target, draft, asked, Machine(10**12, 600_000_000), draft_layers=2)
    assert (found.setup.draft_n_ctx, found.setup.draft_cache_type, found.setup.draft_gpu_layers) == (8192, "f16", 2)
    assert (found.setup.n_ctx, found.setup.cache_type_k) == (8192, "f16")
    assert all("--gpu-layers" in change for change in found.changes)


def test_auto_on_a_machine_without_a_device_stays_on_the_cpu() -> None:
    found = place(shape(), None, Setup(gpu_layers=5), Machine(10**12, None))
    assert found.setup.gpu_layers == 0
    assert place(shape(), None, Setup(), Machine(10**12, 400_000_000)).setup.gpu_layers == 0


def test_the_most_layers_that_fit_are_exactly_that() -> None:
    target, machine = shape(20), Machine(10**12, 2_000_000_000)
    layers = most_layers(target, None, Setup(), machine)
    assert 0 < layers < 20
    for count, fits in ((layers, True), (layers + 1, False)):
        assert (estimate(target, None, Setup(gpu_layers=count)).device <= machine.device_budget) is fits


@pytest.mark.parametrize(("memory", "chat"), [(8, "qwen3-4b"), (16, "llama3.1-8b"), (25, "qwen3-14b")])
def test_every_class_of_machine_has_something_to_take(tmp_path: Path, memory: int, chat: str) -> None:
    rows = catalogue(REGISTRY, Machine(memory * 10**9), tmp_path)
    found = pick(rows, "chat")
    assert found is not None
    assert found.fits is Verdict.FITS
    assert found.pair.runnable
    assert found.pair.id == chat
    assert all(row.here is Here.NONE for row in rows if row.pair.package is None)


def test_a_very_small_machine_gets_no_pair(tmp_path: Path) -> None:
    assert pick(catalogue(REGISTRY, Machine(10**9), tmp_path)) is None


@pytest.mark.model
@pytest.mark.parametrize(("n_ctx", "cache"), [(1024, "f16"), (8192, "f16"), (8192, "q8_0")])
def test_the_estimate_is_within_15_percent_of_what_the_engine_takes(demo_model: Path, n_ctx: int, cache: str) -> None:
    import psutil

    from edgespec.engine.client import Engine
    from edgespec.engine.messages import GenerateOptions

    setup = Setup(n_ctx=n_ctx, cache_type_k=cache, cache_type_v=cache)
    foretold = estimate(shape_of(read_header(demo_model)), None, setup).total
    with Engine.open(demo_model, n_ctx=n_ctx, threads=1, cache_type_k=cache, cache_type_v=cache) as engine:
        list(engine.generate("word " * 40, GenerateOptions(max_tokens=2)))
        taken = psutil.Process(engine.pid).memory_info().rss
    assert foretold == pytest.approx(taken, rel=0.15)
