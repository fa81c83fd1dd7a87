"""Model and user text on its way to a terminal: nothing in it may steer the terminal."""

from __future__ import annotations

import re

_STEERING = re.compile(
    "\x1b\\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor, clearing
    "|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)"  # OSC: titles, links, clipboard
    "|[\x00-\x08\x0b-\x1f\x7f-\x9f]"  # what is left of them, and every other control character
    "|[\u202a-\u202e\u2066-\u2069]"  # overrides of the reading direction
)


def printable(text: str) -> str:
    """The text without escape sequences and control characters; newline and tab stay.

    A sequence cut in two by streaming loses its escape character and shows the rest as the harmless text that it is.
    """
    return _STEERING.sub("", text)
