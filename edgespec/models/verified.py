"""Which files were hashed before, so that gigabytes are read once and not before every start.

A file counts as the same while its place, size and time of change are the same.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

_BLOCK = 8 * 1024 * 1024


def memory_file() -> Path:
    import platformdirs

    return Path(platformdirs.user_state_path("edgespec")) / "hashes.json"


def _key(path: Path) -> str:
    real = path.resolve()
    status = real.stat()
    return f"{real}|{status.st_size}|{status.st_mtime_ns}"


def _read(memory: Path) -> dict[str, str]:
    try:
        found = json.loads(memory.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {key: value for key, value in found.items() if isinstance(value, str)}


def remember(path: Path, sha256: str, memory: Path | None = None) -> None:
    """Notes the hash of a file that was just read. What cannot be noted is hashed again another time."""
    memory = memory or memory_file()
    place = _key(path).split("|")[0] + "|"
    entries = {key: value for key, value in _read(memory).items() if not key.startswith(place)}
    entries[_key(path)] = sha256
    new = memory.with_name(f"{memory.name}.{os.getpid()}")
    try:
        memory.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(json.dumps(entries, indent=1), "utf-8")
        os.replace(new, memory)
    except OSError:
        new.unlink(missing_ok=True)


def sha256_of(
    path: Path, each: Callable[[int, int], None] = lambda done, total: None, memory: Path | None = None
) -> str:
    """The file's hash, from memory if it is the same file. `each` hears of bytes done and in all. Raises OSError."""
    known = _read(memory or memory_file()).get(_key(path))
    if known is not None:
        return known
    total = path.stat().st_size
    digest, done = hashlib.sha256(), 0
    with path.open("rb", buffering=0) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            done += len(block)
            each(done, total)
    remember(path, digest.hexdigest(), memory)
    return digest.hexdigest()
