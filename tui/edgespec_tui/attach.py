"""`/file PATH`: a file's text as part of a message."""

from __future__ import annotations

import re
from pathlib import Path

from edgespec.errors import EdgeSpecError
from edgespec_tui.text import harmless, one_line, size

COMMAND = "/file"
_LINE = re.compile(r"""/file\s+(?:"(?P<double>[^"]+)"|'(?P<single>[^']+)'|(?P<bare>[^\s"']\S*))(?P<question>.*)$""")
LARGEST = 2_000_000
"""Bytes; no context of a laptop holds more."""


def expand(message: str) -> str:
    """Replace a first line `/file PATH [QUESTION]` by the question, what follows it, and the file's text.

    A path with spaces stands in quotes. Raises EdgeSpecError for what cannot be read.
    """
    first, _, rest = message.lstrip().partition("\n")
    if first.split(None, 1)[:1] != [COMMAND]:
        return message
    name, question = _split(first)
    path = Path(name).expanduser()
    asked = "\n".join(part for part in (question, rest.strip()) if part)
    return f"{asked}\n\n{_fenced(path.name, _read(path))}".lstrip()


def _split(line: str) -> tuple[str, str]:
    if (found := _LINE.match(line)) is None:
        raise EdgeSpecError("Which file?", "Write /file PATH QUESTION; quote a path with spaces.")
    return found["double"] or found["single"] or found["bare"], found["question"].strip()


def _read(path: Path) -> str:
    shown = one_line(str(path))
    try:
        if not path.is_file():
            raise EdgeSpecError(f"There is no file {shown}.", "Write /file PATH QUESTION; quote a path with spaces.")
        if (n_bytes := path.stat().st_size) > LARGEST:
            raise EdgeSpecError(f"{shown} has {size(n_bytes)}; that fits no context.", "Attach a part of it.")
        data = path.read_bytes()
    except OSError as error:
        raise EdgeSpecError(f"{shown} cannot be read: {error.strerror}.", "") from None
    if b"\0" in data:
        raise EdgeSpecError(f"{shown} is not a text file.", "Only text can be attached.")
    return harmless(data.decode("utf-8", errors="replace"))


def _fenced(name: str, text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{one_line(name)}:\n{fence}\n{text.rstrip()}\n{fence}"
