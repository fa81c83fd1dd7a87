"""The state of the machine beside a measurement."""

from __future__ import annotations

import os
from typing import Any

import psutil
import pytest

from edgespec import conditions
from edgespec.conditions import Conditions, LoadMeter, in_words, look

BARE = Conditions("2025-01-02T03:04:05+00:00", "unknown", None, None, None, None, None)


def test_a_look_never_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any) -> Any:
        raise OSError("no sensor")

    assert look().power in ("mains", "battery", "unknown")
    for name in ("cpu_freq", "sensors_temperatures", "sensors_battery"):
        monkeypatch.setattr(psutil, name, broken, raising=False)
    monkeypatch.setattr(os, "getloadavg", broken)
    found = look()
    assert (found.clock_mhz, found.temperature, found.load, found.power) == (None, None, None, "unknown")


def test_what_is_unknown_is_said_to_be() -> None:
    assert in_words(BARE) == "power source unknown, temperature unknown"


def test_the_share_of_others_leaves_out_the_own_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = iter([(100.0, 50.0), (110.0, 58.0)])
    monkeypatch.setattr(conditions, "_machine_seconds", lambda: next(machine))
    own = iter([1.0, 6.0])
    monkeypatch.setattr(LoadMeter, "_own_seconds", lambda self: next(own))
    assert LoadMeter([]).others() == pytest.approx(0.3)


def test_the_share_is_unknown_once_a_process_is_gone() -> None:
    assert LoadMeter([2**22 + 1]).others() is None
