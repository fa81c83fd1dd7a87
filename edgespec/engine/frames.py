"""Messages on a pipe: four bytes of length, then the message."""

from __future__ import annotations

import struct
from typing import IO

HEADER = struct.Struct("<I")
MAX_FRAME = 256 * 1024 * 1024
"""Longest believable message. A longer one is a stray native print that was read as a length."""


class FrameError(Exception):
    """What came through the pipe is not a message."""


def write_frame(stream: IO[bytes], data: bytes) -> None:
    """Write one message and flush it. Raises OSError if the other end is gone."""
    if len(data) > MAX_FRAME:
        raise FrameError(f"a message of {len(data):,} bytes is too long for the engine's pipe")
    stream.write(HEADER.pack(len(data)) + data)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes | None:
    """The next message, or None if the other end is gone. Raises FrameError if it is absurdly long."""
    header = stream.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    (length,) = HEADER.unpack(header)
    if length > MAX_FRAME:
        raise FrameError(f"a message claims to be {length:,} bytes long")
    data = stream.read(length)
    return data if len(data) == length else None
