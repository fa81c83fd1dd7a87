"""Safe mode: what to do on machines where llama.cpp's fastest kernels kill the process.

Some virtual machines announce AMX but die of SIGILL when it is used. Loading without repacked weights avoids those
kernels. That a machine needs it is remembered for this llama.cpp library and this processor, in `safe-mode.json` in
the cache folder (EDGESPEC_CACHE_DIR, or the platform's). Deleting that file forgets it; so does another build of
llama-cpp-python.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import tempfile
from pathlib import Path

CRASH_SIGNALS = frozenset({"SIGILL", "SIGSEGV", "SIGBUS"})
"""Deaths during loading that safe mode may prevent."""

REBUILD_ADVICE = (
    "A build without those instructions would run at full speed: CMAKE_ARGS='-DGGML_NATIVE=ON' "
    "CFLAGS='-mno-amx-tile -mno-amx-int8 -mno-amx-bf16' CXXFLAGS='-mno-amx-tile -mno-amx-int8 -mno-amx-bf16' "
    "pip install --force-reinstall --no-cache-dir --no-binary llama-cpp-python llama-cpp-python"
)


class SafeModeMemory:
    """Remembers across starts that this library crashes on this processor.

    Attributes:
        notice: what went wrong with the file, "" if nothing did.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or cache_folder() / "safe-mode.json"
        self.notice = ""

    def applies(self) -> bool:
        """Was safe mode needed before, with this very library on this processor?"""
        return fingerprint() in self._read()

    def remember(self, signal: str) -> None:
        """Note that loading died of this signal and works in safe mode."""
        entries = self._read() | {fingerprint(): signal}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=self.path.name)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(entries, file, indent=1)
            os.replace(name, self.path)
        except OSError as error:
            self.notice = f"Safe mode could not be remembered in {self.path}: {error.strerror}."

    def _read(self) -> dict[str, str]:
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError):
            content = None
        if isinstance(content, dict) and all(isinstance(value, str) for value in content.values()):
            return content
        self.notice = f"{self.path} is damaged and was ignored; delete it."
        return {}


def safe_mode_notice(signal: str) -> str:
    """What users are told when safe mode steps in."""
    return (
        f"llama.cpp crashed ({signal}), so EdgeSpec started again in safe mode, without its fastest CPU kernels, "
        f"and will do so from now on. {REBUILD_ADVICE}"
    )


def fingerprint() -> str:
    """This llama.cpp library file and this processor, as one string."""
    library = library_file()
    if library is None:
        return f"no library | {processor()}"
    status = library.stat()
    return f"{library} | {status.st_size} | {status.st_mtime_ns} | {processor()}"


def library_file() -> Path | None:
    """The file with llama.cpp's CPU kernels, found without loading it; None if llama-cpp-python is not installed."""
    folder = os.environ.get("LLAMA_CPP_LIB_PATH")
    if folder is None:
        spec = importlib.util.find_spec("llama_cpp")
        if spec is None or not spec.submodule_search_locations:
            return None
        folder = os.path.join(spec.submodule_search_locations[0], "lib")
    for name in ("ggml-cpu", "llama"):
        for pattern in (f"lib{name}.so", f"lib{name}.dylib", f"{name}.dll", f"lib{name}.dll"):
            if (path := Path(folder, pattern)).is_file():
                return path.resolve()
    return None


def processor() -> str:
    """The processor's name as the system gives it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:  # not Linux
        return platform.processor() or platform.machine()
    return platform.processor() or platform.machine()


def cache_folder() -> Path:
    """EDGESPEC_CACHE_DIR, or the platform's folder for caches."""
    if folder := os.environ.get("EDGESPEC_CACHE_DIR"):
        return Path(folder)
    import platformdirs

    return Path(platformdirs.user_cache_dir("edgespec", appauthor=False))
