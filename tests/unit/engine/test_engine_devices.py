"""The engine puts layers where it finds room for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_gguf_bytes import model

from edgespec.engine import devices as here
from edgespec.engine.messages import DeviceMemory, LoadOptions
from edgespec.errors import ModelLoadError
from edgespec.llama.devices import Device
from edgespec.models.gguf import check_file
from edgespec.types import ALL_LAYERS, AUTO_LAYERS

GB = 10**9
Decide = Callable[[int], LoadOptions]


def card(kind: str, free: int) -> Device:
    return Device("GPU0", "Card", "Backend", kind, free, free)


@pytest.fixture
def decide(tmp_path: Path) -> Decide:
    """The options that come of a number of layers, for a model of eight."""
    tiny = model(llama__block_count=8, llama__context_length=1024)
    tiny.tensors = {"token_embd.weight": 256} | {f"blk.{i}.w.weight": 256 for i in range(8)}
    path = tmp_path / "model.gguf"
    path.write_bytes(tiny.bytes())
    return lambda layers: (
        here.decide_placement(LoadOptions(str(path), gpu_layers=layers), check_file(path), None).options
    )


def give(monkeypatch: pytest.MonkeyPatch, *devices: Device, offload: bool = True) -> None:
    monkeypatch.setattr(here, "devices", lambda: list(devices))
    monkeypatch.setattr(here, "supports_gpu_offload", lambda: offload)


def test_without_a_device_nothing_is_put_on_one(decide: Decide, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, card("cpu", 8 * GB), offload=False)
    assert decide(AUTO_LAYERS).gpu_layers == 0
    assert decide(5).gpu_layers == 5


def test_everything_goes_on_a_card_with_room(decide: Decide, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, card("cpu", 8 * GB), card("gpu", 8 * GB))
    assert decide(AUTO_LAYERS).gpu_layers == 9


def test_a_card_without_room_gets_nothing_or_a_refusal(decide: Decide, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, card("gpu", 1000))
    assert decide(AUTO_LAYERS).gpu_layers == 0
    with pytest.raises(ModelLoadError, match="its device 1"):
        decide(ALL_LAYERS)


def test_several_cards_share_the_layers(decide: Decide, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, card("gpu", 300_000_000))
    assert decide(AUTO_LAYERS).gpu_layers == 0
    give(monkeypatch, *[card("gpu", 300_000_000)] * 3)
    assert decide(AUTO_LAYERS).gpu_layers > 0


def test_a_device_that_shares_main_memory_gets_everything(decide: Decide, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, card("integrated gpu", 8 * GB))
    assert decide(AUTO_LAYERS).gpu_layers == ALL_LAYERS


def test_memory_in_use_is_told_of_devices_that_know_it(monkeypatch: pytest.MonkeyPatch) -> None:
    card_of_8 = Device("GPU0", "Card", "Backend", "gpu", 3 * GB, 8 * GB)
    give(monkeypatch, Device("CPU", "Processor", "CPU", "cpu", GB, 16 * GB), card_of_8, card("gpu", 0))
    assert here.device_memory() == (DeviceMemory("GPU0", 5 * GB, 8 * GB),)


def test_without_offload_no_device_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, card("gpu", GB), offload=False)
    assert here.device_memory() == ()
