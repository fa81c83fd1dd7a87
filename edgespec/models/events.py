"""What happens during a download, as small values that a terminal, an app or a script can draw.

Sizes are bytes. `total` is None where nobody said how long the file is.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class FileStarted:
    """A file's transfer begins; `held` bytes are here from an earlier try."""

    name: str
    held: int
    total: int | None


@dataclass(frozen=True, slots=True)
class FileProgress:
    name: str
    done: int
    total: int | None


@dataclass(frozen=True, slots=True)
class FileChecking:
    """Bytes that are here already are being hashed."""

    name: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class FileWaiting:
    """Nothing moves for `seconds`, and why; 0 seconds is until another process is done."""

    name: str
    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class FileRestarted:
    """The transfer begins again from the first byte, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class FileDone:
    """The file is whole and checked under its final name.

    Attributes:
        fetched: bytes that were transferred for it now; 0 if it was here.
        pinned: whether its hash was known beforehand.
    """

    name: str
    path: Path
    size: int
    fetched: int
    pinned: bool


DownloadEvent = FileStarted | FileProgress | FileChecking | FileWaiting | FileRestarted | FileDone
