"""The state the machine is in while something is measured: power, clock, heat, and what else it is busy with.

A figure from a throttled laptop on battery is a true figure of that moment only; a reader must be able to see it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from edgespec.hardware import power

BUSY = 0.15
"""Share of the processor used by others from which measurements suffer."""

SLOWED = 0.90
"""A clock below this share of what it was is a sign of throttling."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """One look at the machine; None for what it does not tell.

    Attributes:
        time: local time, ISO 8601, with its offset from UTC.
        power: mains, battery or unknown.
        battery_percent: charge of the battery.
        clock_mhz, clock_max_mhz: frequency of the processor, mean over its cores, and the highest it may have.
        temperature: hottest sensor of the processor, degrees Celsius.
        load: processes that want to run, mean over a minute.
    """

    time: str
    power: str
    battery_percent: float | None
    clock_mhz: float | None
    clock_max_mhz: float | None
    temperature: float | None
    load: float | None


def look() -> Conditions:
    """The conditions right now."""
    source = power()
    clock, fastest = _clock()
    return Conditions(
        time=datetime.now().astimezone().isoformat(timespec="seconds"),
        power=source.source,
        battery_percent=source.percent,
        clock_mhz=clock,
        clock_max_mhz=fastest,
        temperature=_temperature(),
        load=_load(),
    )


class LoadMeter:
    """Tells how much of the processor other programs used since it was made.

    Args:
        own: processes that do not count as others, beside this one.
    """

    def __init__(self, own: Iterable[int]) -> None:
        self._own = (os.getpid(), *own)
        self._all, self._busy = _machine_seconds()
        self._mine = self._own_seconds()

    def others(self) -> float | None:
        """Share of all cores' time, 0 to 1; None if one of the own processes is gone or no time has passed."""
        everything, busy = _machine_seconds()
        mine = self._own_seconds()
        if mine is None or self._mine is None or everything <= self._all:
            return None
        share = ((busy - self._busy) - (mine - self._mine)) / (everything - self._all)
        return min(1.0, max(0.0, share))

    def _own_seconds(self) -> float | None:
        import psutil

        try:
            return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in self._own)
        except psutil.Error:
            return None


def warnings(before: Conditions, after: Conditions, others: float | None) -> list[str]:
    """Sentences on what may have spoilt a measurement between these two looks."""
    found = []
    if "battery" in (before.power, after.power):
        found.append("The machine ran on battery, where many slow down: compare with a run on mains.")
    if {before.power, after.power} == {"mains", "battery"}:
        found.append("The power source changed while measuring.")
    if before.clock_mhz and after.clock_mhz and after.clock_mhz < SLOWED * before.clock_mhz:
        found.append(
            f"The processor's clock fell from {before.clock_mhz:,.0f} to {after.clock_mhz:,.0f} MHz: "
            "later runs were slower for that reason alone."
        )
    if others is not None and others > BUSY:
        found.append(f"Other programs used {others:.0%} of the processor; close them for figures that repeat.")
    return found


def in_words(conditions: Conditions) -> str:
    """What is known, in one line."""
    battery = f" ({conditions.battery_percent:.0f} %)" if conditions.battery_percent is not None else ""
    parts = [{"mains": "on mains", "battery": "on battery"}.get(conditions.power, "power source unknown") + battery]
    if conditions.clock_mhz is not None:
        fastest = f" of {conditions.clock_max_mhz:,.0f}" if conditions.clock_max_mhz else ""
        parts.append(f"clock {conditions.clock_mhz:,.0f}{fastest} MHz")
    parts.append("temperature unknown" if conditions.temperature is None else f"{conditions.temperature:.0f} °C")
    if conditions.load is not None:
        parts.append(f"load {conditions.load:.1f}")
    return ", ".join(parts)


def _clock() -> tuple[float | None, float | None]:
    import psutil

    try:
        frequency = psutil.cpu_freq()
    except (AttributeError, OSError, RuntimeError, NotImplementedError):
        frequency = None
    if frequency is None:
        return None, None
    return float(frequency.current) or None, float(frequency.max) or None


def _temperature() -> float | None:
    """The hottest of the sensors that belong to a processor."""
    import psutil

    read: Any = getattr(psutil, "sensors_temperatures", None)
    try:
        sensors = read() if read is not None else {}
    except (OSError, RuntimeError):
        sensors = {}
    names = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "cpu-thermal", "soc_thermal", "acpitz")
    found = [entry.current for name in names for entry in sensors.get(name, ()) if entry.current and entry.current > 0]
    return float(max(found)) if found else None


def _load() -> float | None:
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None


def _machine_seconds() -> tuple[float, float]:
    """Seconds that all cores have had, and those in which they had something to do."""
    import psutil

    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    # Time of guests is part of user and nice already.
    everything = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return everything, everything - idle
