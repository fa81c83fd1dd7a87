"""Text from models and people, made safe to show: no escape sequence or control character reaches the terminal."""

from __future__ import annotations

import re

_ESCAPES = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # operating system commands: titles, links, the clipboard
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # control sequences: colours, cursor movements
    r"|\x1b[PX^_][^\x1b]*\x1b\\"  # device control strings
    r"|\x1b[ -/]*[0-~]"
)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb]")
TAB = "    "


def clean(text: str) -> str:
    """Text as it may be drawn: like `harmless`, with spaces for tabs."""
    return harmless(text).replace("\t", TAB)


def harmless(text: str) -> str:
    """Strip escape sequences, control characters and direction overrides; every line ends with a newline alone."""
    if text.isascii() and text.isprintable():
        return text
    text = _ESCAPES.sub("", text.replace("\r\n", "\n"))
    return _CONTROLS.sub("", text.replace("\r", "\n"))


def one_line(text: str) -> str:
    """Clean text for places of one line: file names, titles, thrown-away drafts."""
    return clean(text).replace("\n", "⏎")


def count(number: int, noun: str) -> str:
    """A number with its noun, in the plural where it must be."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size(n_bytes: int) -> str:
    """A file size as people read it."""
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.0f} MB"
