"""Sizes and counts as people read them: decimal units, as shops and the Hub use."""

from __future__ import annotations


def format_size(size: float) -> str:
    """`size` bytes with three significant digits at most: 1 byte, 812 bytes, 9.6 kB, 98 MB, 2.83 GB."""
    if size < 1000:
        return "1 byte" if size == 1 else f"{size:.0f} bytes"
    unit = "kB"
    for unit in ("kB", "MB", "GB", "TB"):  # noqa: B007  (the last one counts)
        size /= 1000
        if size < 999.5:
            break
    digits = 2 if size < 9.995 and unit in ("GB", "TB") else 1 if size < 99.95 and unit != "kB" else 0
    text = f"{size:.{digits}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return f"{text} {unit}"


def format_count(count: int) -> str:
    """A whole number with thousands marked: 262,144."""
    return f"{count:,}"


def printable(text: object) -> str:
    """Text fit for a terminal: names of files and tokens may hold line breaks and escape sequences."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in str(text))


def count_of(number: int, noun: str) -> str:
    """`1 layer`, `12 layers`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
