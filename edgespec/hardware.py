"""This machine: processor, memory, power, and what llama.cpp can use of it.

llama.cpp is asked in a process of its own: a broken build dies there, and this one goes on to say so.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgespec.engine.safemode import library_file
from edgespec.models.fit import Machine

KNOWN_FEATURES = {
    "avx": "AVX", "avx2": "AVX2", "fma": "FMA", "f16c": "F16C", "bmi2": "BMI2", "avx512f": "AVX512",
    "avx512vbmi": "AVX512_VBMI", "avx512_vnni": "AVX512_VNNI", "avx512_bf16": "AVX512_BF16", "avx_vnni": "AVX_VNNI",
    "amx_int8": "AMX_INT8", "asimddp": "DOTPROD", "i8mm": "MATMUL_INT8", "sve": "SVE", "asimdhp": "FP16_VA",
}  # fmt: skip
"""What the system calls a processor feature: what llama.cpp calls its use of it."""

_PROBE = """
import json
from edgespec.llama.devices import devices, supports_gpu_offload
from edgespec.llama.library import library
lib = library()
print(json.dumps({
    "version": lib.version, "path": str(lib.path), "system_info": lib.system_info,
    "gpu_offload": supports_gpu_offload(),
    "devices": [{name: getattr(device, name) for name in device.__slots__} for device in devices()],
}))
"""
_PROBE_SECONDS = 60
_NO_DEVICE = {"base", "cpu", "blas", "zendnn"}
"""Parts of llama.cpp's library that drive no device; one without a part of its own for the CPU tells nothing."""


@dataclass(frozen=True, slots=True)
class Processor:
    """The CPU. `features` are the system's names of those that llama.cpp has code for."""

    name: str
    physical_cores: int
    logical_cores: int
    features: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Power:
    """Where the electricity comes from: `mains`, `battery`, or `unknown` on machines without a battery."""

    source: str
    percent: float | None


@dataclass(frozen=True, slots=True)
class ComputeDevice:
    """A device as llama.cpp sees it; kind is cpu, gpu, integrated gpu, accelerator or other."""

    name: str
    description: str
    backend: str
    kind: str
    free_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class LibraryFacts:
    """What the llama.cpp library said of itself."""

    version: str
    path: str
    used_features: tuple[str, ...]
    gpu_offload: bool
    devices: tuple[ComputeDevice, ...]


@dataclass(frozen=True, slots=True)
class LibraryFault:
    """Why the library could say nothing."""

    message: str
    hint: str


def processor() -> Processor:
    """The CPU of this machine, as far as the system tells."""
    import psutil

    logical = psutil.cpu_count(logical=True) or os.cpu_count() or 1
    physical = psutil.cpu_count(logical=False) or logical
    name, flags = _linux_cpu() if sys.platform == "linux" else _mac_cpu() if sys.platform == "darwin" else ("", ())
    features = tuple(flag for flag in KNOWN_FEATURES if flag in flags)
    return Processor(name or platform.processor() or platform.machine(), physical, logical, features)


def _linux_cpu() -> tuple[str, tuple[str, ...]]:
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:
        return "", ()
    return parse_cpuinfo(text)


def parse_cpuinfo(text: str) -> tuple[str, tuple[str, ...]]:
    """Name and feature flags in the words of Linux's /proc/cpuinfo."""
    name = re.search(r"^(?:model name|Model|Hardware)\s*:\s*(.+)$", text, re.MULTILINE)
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", text, re.MULTILINE)
    return name[1].strip() if name else "", tuple(flags[1].split()) if flags else ()


def _mac_cpu() -> tuple[str, tuple[str, ...]]:
    try:
        found = subprocess.run(
            ["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return "", ()
    return found.stdout.strip(), ()


def memory_bytes() -> tuple[int, int]:
    """Main memory: in all, and available without swapping; a container's limit counts."""
    import psutil

    memory = psutil.virtual_memory()
    limit = _container_limit()
    total = min(memory.total, limit) if limit else memory.total
    return total, min(memory.available, total)


def _container_limit() -> int | None:
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(name).read_text("ascii").strip()
        except OSError:
            continue
        if text.isdigit() and 0 < int(text) < 1 << 60:
            return int(text)
    return None


def power() -> Power:
    """Mains or battery; on battery many machines slow down, and measurements with them."""
    import psutil

    try:
        battery = psutil.sensors_battery()
    except (AttributeError, OSError, RuntimeError):
        battery = None
    if battery is None:
        return Power("unknown", None)
    return Power("mains" if battery.power_plugged else "battery", float(battery.percent))


def ask_library(seconds: float = _PROBE_SECONDS) -> LibraryFacts | LibraryFault:
    """What llama.cpp says of itself and of this machine, or why it says nothing. Never raises for a broken build."""
    reinstall = "Install it again: pip install --force-reinstall --no-cache-dir llama-cpp-python"
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROBE],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return LibraryFault(
            f"llama.cpp did not answer within {seconds:.0f} seconds.", "Try again on a quieter machine."
        )
    if done.returncode < 0:
        return LibraryFault(f"llama.cpp dies on start ({_signal_name(-done.returncode)}).", reinstall)
    if done.returncode:
        return _python_fault(done.stderr, reinstall)
    try:
        return _facts(json.loads(done.stdout.strip().splitlines()[-1]))
    except (ValueError, KeyError, IndexError, TypeError):
        return LibraryFault("llama.cpp's answer could not be read.", reinstall)


def _signal_name(number: int) -> str:
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _python_fault(stderr: str, reinstall: str) -> LibraryFault:
    """The last line of a traceback, as a sentence."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    last = lines[-1] if lines else "no message"
    reason = re.sub(r"^[\w.]+(?:Error|Exception): ", "", last).rstrip(".")
    if "No module named 'llama_cpp'" in last:
        return LibraryFault("llama-cpp-python is not installed.", "Install it: pip install llama-cpp-python")
    return LibraryFault(f"llama.cpp cannot be loaded: {reason}.", reinstall)


def _facts(answer: dict[str, Any]) -> LibraryFacts:
    used = tuple(name for name, value in re.findall(r"(\w+) = (\d+)", answer["system_info"]) if value != "0")
    devices = tuple(ComputeDevice(**entry) for entry in answer["devices"])
    return LibraryFacts(answer["version"], answer["path"], used, bool(answer["gpu_offload"]), devices)


def may_have_device() -> bool:
    """Was llama.cpp built with a backend for a graphics device? Told from its files, so that it costs nothing."""
    file = library_file()
    if file is None:
        return False
    backends = {found[1] for path in file.parent.iterdir() if (found := re.search(r"ggml-([a-z]+)", path.name))}
    return "cpu" not in backends or bool(backends - _NO_DEVICE)


def unused_features(cpu: Processor, library: LibraryFacts) -> list[str]:
    """Features the processor has and this build does not use, in llama.cpp's words."""
    return [KNOWN_FEATURES[flag] for flag in cpu.features if KNOWN_FEATURES[flag] not in library.used_features]


def machine(library: LibraryFacts | None = None) -> Machine:
    """Memory for models; with `library` also a graphics card's own. Unified memory counts as main memory."""
    total, _ = memory_bytes()
    cards = [device for device in library.devices if device.kind == "gpu"] if library and library.gpu_offload else []
    free = max((device.free_bytes for device in cards), default=0)
    return Machine(total, free or None)
