"""Licences that a person has been shown and agreed to, remembered so that nobody is asked twice."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path


def consent_file() -> Path:
    import platformdirs

    return Path(platformdirs.user_state_path("edgespec")) / "licences.json"


def agreed(path: Path | None = None) -> set[str]:
    """Ids of the licences agreed to; a damaged file counts as none."""
    try:
        found = json.loads((path or consent_file()).read_text("utf-8"))
    except (OSError, ValueError):
        return set()
    return {entry for entry in found if isinstance(entry, str)} if isinstance(found, list) else set()


def remember(licences: Iterable[str], path: Path | None = None) -> None:
    """Adds to what was agreed to. Raises OSError where it cannot be written."""
    path = path or consent_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    everything = sorted(agreed(path) | set(licences))
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_text(json.dumps(everything, indent=1), "utf-8")
    os.replace(new, path)
