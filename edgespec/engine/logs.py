"""Where the engine's native log goes: one small file for each engine process, the oldest thrown away."""

from __future__ import annotations

import itertools
import os
import tempfile
from pathlib import Path

LOG_VARIABLE = "EDGESPEC_ENGINE_LOG"
"""Environment variable that tells the host which file its standard error is."""

KEPT_FILES = 8
MAX_LOG_BYTES = 1 << 20
_TAIL_BYTES = 16_384
_counter = itertools.count()


def log_folder() -> Path:
    """EDGESPEC_LOG_DIR, or the platform's folder for logs."""
    if folder := os.environ.get("EDGESPEC_LOG_DIR"):
        return Path(folder)
    import platformdirs

    return Path(platformdirs.user_log_dir("edgespec", appauthor=False))


def new_log_file() -> Path:
    """Create an empty log file, in the temporary folder if the proper one cannot be written."""
    name = f"engine-{os.getpid()}-{next(_counter)}.log"
    try:
        folder = log_folder()
        folder.mkdir(parents=True, exist_ok=True)
        _drop_old(folder)
        path = folder / name
        path.write_bytes(b"")
    except OSError:
        path = Path(tempfile.mkdtemp(prefix="edgespec-log-")) / name
        path.write_bytes(b"")
    return path


def last_lines(path: Path, count: int = 20) -> tuple[str, ...]:
    """The last lines of a log, blank ones left out; none if it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ()
    return tuple(line.rstrip() for line in text.splitlines() if line.strip())[-count:]


def shorten(descriptor: int) -> None:
    """Empty a log that has grown too long; it is open for appending, so writing goes on at its start."""
    if os.fstat(descriptor).st_size > MAX_LOG_BYTES:
        os.ftruncate(descriptor, 0)


def _drop_old(folder: Path) -> None:
    files = sorted(folder.glob("engine-*.log"), key=_modified, reverse=True)
    for file in files[KEPT_FILES - 1 :]:
        file.unlink(missing_ok=True)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # another EdgeSpec has just thrown it away
        return 0.0
