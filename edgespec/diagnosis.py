"""What `edgespec doctor` looks at: one finding for each thing that people's trouble turns out to be.

Nothing here loads llama.cpp into this process; whatever is broken, the other findings are still made.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from edgespec import hardware as hw
from edgespec.errors import EdgeSpecError
from edgespec.finding import Finding, Status
from edgespec.models.units import format_size
from edgespec.trial import pass_cost, run_demo


def diagnose(*, measure: bool = True) -> Iterator[Finding]:
    """Every finding, the cheap ones first. `measure` runs the demo model."""
    yield from _each(python, power, terminal, settings)
    cpu = hw.processor()
    library = hw.ask_library()
    yield library_finding(library)
    yield processor_finding(cpu, library)
    yield devices_finding(library)
    yield memory_finding()
    yield threads_finding(cpu)
    yield from demo_findings(library, measure)
    yield amx_finding(cpu, library)  # after the demo model, whose first start finds out
    yield from _each(cache, registry, hub)


def _each(*checks: Callable[[], Finding]) -> Iterator[Finding]:
    for check in checks:
        try:
            yield check()
        except EdgeSpecError as error:
            yield Finding(check.__name__, Status.BROKEN, error.message, error.hint)
        except Exception as error:
            yield Finding(check.__name__, Status.WARNING, f"could not be looked at: {type(error).__name__}: {error}")


def python() -> Finding:
    """This interpreter and this program."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        own = version("edgespec")
    except PackageNotFoundError:
        own = "not installed"
    facts = {"python": platform.python_version(), "edgespec": own, "system": platform.platform()}
    value = f"EdgeSpec {own}, Python {facts['python']} on {facts['system']}"
    return Finding("python", Status.GOOD, value, facts=facts)


def power() -> Finding:
    """Mains or battery."""
    found = hw.power()
    facts = {"source": found.source, "percent": found.percent}
    if found.source == "battery":
        advice = "Plug in before measuring: on battery most machines slow down."
        return Finding("power", Status.WARNING, f"on battery, {found.percent:.0f} %", advice, facts)
    return Finding("power", Status.GOOD, "on mains" if found.source == "mains" else "no battery", facts=facts)


def terminal() -> Finding:
    """Can the app be drawn here?"""
    size = shutil.get_terminal_size()
    term, encoding = os.environ.get("TERM", ""), (sys.stdout.encoding or "").lower()
    colours = "true colour" if os.environ.get("COLORTERM") in ("truecolor", "24bit") else "256 colours or fewer"
    facts = {"term": term, "columns": size.columns, "lines": size.lines, "encoding": encoding, "colours": colours}
    value = f"{term or 'no TERM'}, {size.columns}x{size.lines}, {encoding}, {colours}"
    if term in ("", "dumb"):
        return Finding(
            "terminal", Status.NOTE, value, "The app needs a real terminal; use `edgespec chat --plain`.", facts
        )
    if "utf" not in encoding:
        return Finding("terminal", Status.WARNING, value, "Set LANG to a UTF-8 locale, such as C.UTF-8.", facts)
    if size.columns < 40 or size.lines < 10:
        return Finding("terminal", Status.NOTE, value, "Make the window at least 40 columns by 10 lines.", facts)
    return Finding("terminal", Status.GOOD, value, facts=facts)


def settings() -> Finding:
    """The user's settings file, and whether it can be read."""
    from edgespec.settings import load_settings, settings_path

    path = settings_path()
    load_settings()
    state = "in use" if path.is_file() else "not there, defaults are used"
    return Finding("settings", Status.GOOD, f"{path} ({state})", facts={"path": str(path), "exists": path.is_file()})


def library_finding(library: hw.LibraryFacts | hw.LibraryFault) -> Finding:
    """llama.cpp: version, place, backends."""
    if isinstance(library, hw.LibraryFault):
        return Finding("library", Status.BROKEN, library.message, library.hint)
    backends = sorted({device.backend for device in library.devices})
    facts = {
        "version": library.version, "path": library.path, "backends": backends, "gpu_offload": library.gpu_offload,
        "features": list(library.used_features),
    }  # fmt: skip
    return Finding("library", Status.GOOD, f"{library.version}; backends: {', '.join(backends) or 'none'}", facts=facts)


def processor_finding(cpu: hw.Processor, library: hw.LibraryFacts | hw.LibraryFault) -> Finding:
    """The CPU, and which of its features this build leaves idle."""
    name = f"{cpu.name}, {cpu.physical_cores} cores"
    facts: dict[str, Any] = {"name": cpu.name, "cores": cpu.physical_cores, "features": list(cpu.features)}
    if isinstance(library, hw.LibraryFault):
        return Finding("processor", Status.NOTE, name, facts=facts)
    unused = [feature for feature in hw.unused_features(cpu, library) if not feature.startswith("AMX")]
    facts["unused"] = unused
    if unused:
        advice = "Build for this machine: CMAKE_ARGS='-DGGML_NATIVE=ON' pip install --force-reinstall --no-cache-dir" \
            " --no-binary llama-cpp-python llama-cpp-python"  # fmt: skip
        return Finding(
            "processor", Status.WARNING, f"{name}; this build does not use {', '.join(unused)}", advice, facts
        )
    return Finding("processor", Status.GOOD, f"{name}; all its features are used", facts=facts)


def amx_finding(cpu: hw.Processor, library: hw.LibraryFacts | hw.LibraryFault) -> Finding:
    """AMX, which some virtual machines announce and do not have; and safe mode, which avoids it."""
    from edgespec.engine.safemode import REBUILD_ADVICE, SafeModeMemory

    announced = "amx_int8" in cpu.features
    safe = SafeModeMemory().applies()
    built = isinstance(library, hw.LibraryFacts) and "AMX_INT8" in library.used_features
    facts = {"amx_announced": announced, "amx_built_in": built, "safe_mode": safe}
    if safe:
        value = "safe mode is on: this build of llama.cpp crashed on this processor while warming up"
        if announced:
            value += "; AMX is announced by the processor but cannot be used"
        return Finding("safe mode", Status.WARNING, value, REBUILD_ADVICE, facts)
    if announced and built:
        value = "off; the processor announces AMX and this build uses it"
        return Finding(
            "safe mode",
            Status.NOTE,
            value,
            "Should AMX not work, EdgeSpec notices at the next start and does without.",
            facts,
        )
    return Finding("safe mode", Status.GOOD, "off", facts=facts)


def devices_finding(library: hw.LibraryFacts | hw.LibraryFault) -> Finding:
    """Graphics devices, or why there are none."""
    if isinstance(library, hw.LibraryFault):
        return Finding("devices", Status.NOTE, "unknown while llama.cpp cannot be loaded")
    cards = [device for device in library.devices if device.kind != "cpu"]
    facts = {"devices": [{name: getattr(card, name) for name in card.__slots__} for card in library.devices]}
    if cards:
        names = [
            f"{card.description} ({format_size(card.free_bytes)} of {format_size(card.total_bytes)} free)"
            for card in cards
        ]
        return Finding("devices", Status.GOOD, "; ".join(names), facts=facts)
    if library.gpu_offload:
        return Finding(
            "devices", Status.WARNING, "built for a graphics card, but none is seen", "Check its driver.", facts
        )
    advice = "With a graphics card, build with CMAKE_ARGS='-DGGML_CUDA=on' (NVIDIA) or '-DGGML_VULKAN=on' (others)."
    return Finding("devices", Status.NOTE, "CPU only: this build has no backend for a graphics card", advice, facts)


def memory_finding() -> Finding:
    """Main memory, and what of it is free."""
    total, available = hw.memory_bytes()
    facts = {"total": total, "available": available}
    value = f"{format_size(available)} of {format_size(total)} are available"
    if available < 0.25 * total:
        return Finding("memory", Status.WARNING, value, "Close other programs before loading a large model.", facts)
    return Finding("memory", Status.GOOD, value, facts=facts)


def threads_finding(cpu: hw.Processor) -> Finding:
    """Threads the engine takes, against load from elsewhere."""
    facts: dict[str, Any] = {"threads": cpu.physical_cores, "logical_cores": cpu.logical_cores}
    value = f"{cpu.physical_cores} threads, one a physical core"
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    facts["load"] = load
    if load > 0.75 * cpu.logical_cores:
        advice = "Other programs keep the processor busy; measure again when it is quiet."
        return Finding("threads", Status.WARNING, f"{value}; load is {load:.1f}", advice, facts)
    return Finding("threads", Status.GOOD, value, facts=facts)


def demo_findings(library: hw.LibraryFacts | hw.LibraryFault, measure: bool) -> Iterable[Finding]:
    """The demo model: does it run, how fast, and does checking four tokens cost less than four single ones?"""
    from edgespec.models.resolve import default_model

    model = default_model()
    if model is None:
        advice = "Install it: pip install 'edgespec[demo]' (98 MB)."
        yield Finding("demo model", Status.NOTE, "not installed", advice)
        return
    if not measure or isinstance(library, hw.LibraryFault):
        why = "llama.cpp cannot be loaded" if measure else "not measured"
        yield Finding("demo model", Status.NOTE, f"installed at {model}; {why}", facts={"path": str(model)})
        return
    ran = run_demo(model)
    yield ran
    if ran.status is not Status.BROKEN:
        yield pass_cost(model, bool(ran.facts.get("safe_mode")))


def cache() -> Finding:
    """Where models are kept, how much is there, what interrupted downloads left."""
    from edgespec.models.cache import cache_root
    from edgespec.models.download import free_bytes

    root = cache_root()
    files = list(root.glob("models--*/blobs/*")) if root.is_dir() else []
    sizes = {path: path.stat().st_size for path in files if path.is_file()}
    unfinished = [path for path in sizes if path.name.endswith(".incomplete")]
    facts: dict[str, Any] = {
        "path": str(root), "size": sum(sizes.values()), "unfinished": len(unfinished),
        "unfinished_size": sum(sizes[path] for path in unfinished), "free": free_bytes(root),
    }  # fmt: skip
    value = f"{root}: {format_size(facts['size'])}, {format_size(facts['free'])} free on its disk"
    if unfinished:
        advice = "Run the same `edgespec download` again to continue; `hf cache prune` throws beginnings away."
        kept = f"{value}; {len(unfinished)} unfinished ({format_size(facts['unfinished_size'])})"
        return Finding("cache", Status.NOTE, kept, advice, facts)
    return Finding("cache", Status.GOOD, value, facts=facts)


def registry() -> Finding:
    """The lists of pairs."""
    from edgespec.models.registry import load_registry, shipped_file, user_file

    found, own = load_registry(), user_file()
    facts = {"shipped": str(shipped_file()), "user": str(own), "user_exists": own.is_file(), "pairs": len(found.pairs)}
    extra = f"with {own}" if own.is_file() else f"your own would go into {own}"
    return Finding("registry", Status.GOOD, f"{len(found.pairs)} pairs known; {extra}", facts=facts)


def hub() -> Finding:
    """Can the Hub be reached, and is there a token? Its value is never shown."""
    from edgespec.models.hub import HubOptions

    options = HubOptions.from_environment()
    facts: dict[str, Any] = {"endpoint": options.endpoint, "token": bool(options.token), "offline": options.offline}
    token = "a token is set" if options.token else "no token"
    if options.offline:
        return Finding("hub", Status.NOTE, f"offline mode; {token}", "Unset HF_HUB_OFFLINE to download.", facts)
    trouble = _reach(options.endpoint)
    facts["reachable"] = trouble is None
    if trouble is not None:
        advice = f"{trouble.hint} What is on this disk works without."
        return Finding("hub", Status.WARNING, f"{trouble.message[:-1]}; {token}", advice, facts)
    return Finding("hub", Status.GOOD, f"{options.endpoint} answers; {token}", facts=facts)


def _reach(endpoint: str) -> EdgeSpecError | None:
    from huggingface_hub import get_session

    from edgespec.models.hub_errors import explain

    try:
        get_session().head(f"{endpoint}/", timeout=5, follow_redirects=False)
    except Exception as error:
        return explain(error, endpoint, endpoint)
    return None
