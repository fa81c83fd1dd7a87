"""llama.cpp's log: kept in memory and, if wanted, in a file; never on the terminal.

Almost every failure of llama.cpp is a NULL pointer or a number; the reason is only in the log.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import IO

RING_SIZE = 100
LEVEL_DEBUG = 1
LEVEL_ERROR = 4
LEVEL_CONTINUE = 5


class LogRing:
    """The last lines of the native log. Lines arrive in pieces, from any thread; the interpreter lock orders them."""

    def __init__(self, size: int = RING_SIZE) -> None:
        self._lines: deque[str] = deque(maxlen=size)
        self._errors: deque[str] = deque(maxlen=size)
        self._open = ""
        self._level = 0
        self._file: IO[str] | None = None

    def write(self, level: int, text: str) -> None:
        """Take what llama.cpp hands over: a line, a part of one, or several."""
        if level != LEVEL_CONTINUE:
            if self._open:
                self._finish(self._open)
                self._open = ""
            self._level = level
        *whole, self._open = (self._open + text).split("\n")
        for line in whole:
            self._finish(line)

    def lines(self) -> tuple[str, ...]:
        """The last lines, oldest first."""
        return tuple(self._lines)

    def take_errors(self) -> tuple[str, ...]:
        """The error lines since the last call: what belongs to the call that just failed."""
        errors = tuple(self._errors)
        self._errors.clear()
        return errors

    def to_file(self, path: Path | None) -> None:
        """Also append every line to this file from now on; None stops that."""
        if self._file is not None:
            self._file.close()
        self._file = None if path is None else path.open("a", encoding="utf-8", errors="replace", buffering=1)

    def _finish(self, line: str) -> None:
        if not line.strip() or self._level == LEVEL_DEBUG:  # debug lines come in floods and would wash the rest away
            return
        self._lines.append(line.rstrip())
        if self._level == LEVEL_ERROR:
            self._errors.append(line.rstrip())
        if self._file is not None:
            try:
                self._file.write(line.rstrip() + "\n")
            except OSError as error:  # a full disk must not end a reply: say it in the ring and go on without the file
                self._file = None
                self._lines.append(f"log file abandoned: {error}")
