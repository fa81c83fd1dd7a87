"""A program in a pseudo terminal: keys in, everything it draws out, and how long a key takes to be seen."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic

from edgespec_tui.text import clean

COLUMNS, LINES = 120, 40
LETTERS = "абвгдежзийклмнопрстуфхцчшщъыьэюя"
"""Typed to see them come back: no reply and no part of the app holds one of them."""


class TerminalError(Exception):
    """The program ended, or did not do what was waited for."""


class Terminal:
    """Starts a program in a terminal; whatever it draws is read at once, as a terminal does."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], keep: int = 4000) -> None:
        """`keep` is how many bytes of what was drawn are kept, the last ones."""
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self._child = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True
        )
        os.close(slave)
        self._last, self._keep = b"", keep
        self.drawn = 0
        """Bytes drawn so far."""

    def keys(self, text: str) -> None:
        """Press keys."""
        os.write(self._master, text.encode())

    def paste(self, text: str) -> None:
        """Paste a text, as terminals do it."""
        self.keys(f"\x1b[200~{text}\x1b[201~")

    def rest(self, seconds: float) -> None:
        """Read for a while."""
        self._read_until(lambda chunk: False, seconds)

    def wait_for(self, path: Path, seconds: float) -> None:
        """Read until a file is there. Raises TerminalError."""
        until = monotonic() + seconds
        while not path.exists():
            self.rest(0.1)
            if monotonic() > until or self._child.poll() is not None:
                last = clean(self._last.decode("utf-8", "replace")).split("\n")
                raise TerminalError(f"no {path.name} within {seconds:.0f} s; last drawn: {' '.join(last)[-300:]}")

    def wait_for_text(self, text: bytes, seconds: float) -> None:
        """Read until these bytes are drawn. Raises TerminalError."""
        seen = bytearray()

        def found(chunk: bytes) -> bool:
            seen.extend(chunk)
            return text in seen

        if not self._read_until(found, seconds):
            raise TerminalError(f"{text!r} was not drawn within {seconds:.0f} s")

    def echo(self, letter: str, seconds: float = 10.0) -> float:
        """Type a letter, wait until it is drawn, and take it back; how long that took."""
        asked = monotonic()
        self.keys(letter)
        self.wait_for_text(letter.encode(), seconds)
        took = monotonic() - asked
        self.keys("\x7f")
        return took

    @property
    def last(self) -> str:
        """What was drawn last, with all its escape sequences."""
        return self._last.decode("utf-8", "replace")

    def close(self) -> None:
        """Leave the app; end it if it does not."""
        if self._child.poll() is None:
            self.keys("\x11")  # Ctrl+Q
            self.rest(1.0)
        try:
            self._child.wait(5)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        os.close(self._master)

    def _read_until(self, enough: Callable[[bytes], bool], seconds: float) -> bool:
        until = monotonic() + seconds
        while (left := until - monotonic()) > 0:
            if not select.select([self._master], [], [], left)[0]:
                break
            try:
                chunk = os.read(self._master, 65536)
            except OSError:  # the program is gone
                return False
            self.drawn += len(chunk)
            self._last = (self._last + chunk)[-self._keep :]
            if enough(chunk):
                return True
        return False
