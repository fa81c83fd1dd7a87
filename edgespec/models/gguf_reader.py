"""Reads the raw parts of a GGUF header, believing no number in it.

Every length is compared with what the file still holds before anything is read or allocated, so that a file from the
internet can neither make this process run out of memory nor read past its own end.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import BinaryIO

from edgespec.errors import ModelFileError
from edgespec.models.units import format_count, format_size

MAX_HEADER = 512 * 1024 * 1024
MAX_STRING = 64 * 1024 * 1024
MAX_STRINGS = 4 * 1024 * 1024
KEEP_NUMBERS = 65_536
"""Longer arrays of numbers (token scores, say) are passed over; their length is kept."""

DAMAGED_HINT = "Download the file again, or get it from another place."

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_FIRST_READ = 1024 * 1024


@dataclass(frozen=True, slots=True)
class LongArray:
    """An array that was not kept: what it holds and how much of it."""

    kind: str
    length: int


Value = int | float | bool | str | tuple[int, ...] | tuple[float, ...] | tuple[bytes, ...] | LongArray


class HeaderReader:
    """A position in the beginning of a file that is read in growing steps.

    Attributes:
        position: offset of the next byte.
    """

    def __init__(self, file: BinaryIO, size: int, name: str) -> None:
        self._file = file
        self._size = size
        self._name = name
        self._data = b""
        self.position = 0

    def damaged(self, what: str) -> ModelFileError:
        """The error for a header that contradicts itself."""
        return ModelFileError(f"{self._name} has a damaged header: {what}.", DAMAGED_HINT)

    def need(self, length: int) -> bytes:
        """All bytes read so far, `length` more than the position at least. Raises ModelFileError at the file's end."""
        end = self.position + length
        if end > len(self._data):
            self._grow(end)
        return self._data

    def _grow(self, end: int) -> None:
        if end > self._size:
            raise ModelFileError(
                f"{self._name} ends inside its header, after {format_size(self._size)}: it was cut short.",
                "Download it again; an interrupted `edgespec download` continues where it stopped.",
            )
        if end > MAX_HEADER:
            raise self.damaged(f"it claims more than {format_size(MAX_HEADER)} of header")
        wanted = min(self._size, MAX_HEADER, max(end, 2 * len(self._data), _FIRST_READ))
        self._data += self._file.read(wanted - len(self._data))
        if len(self._data) < end:
            raise ModelFileError(f"{self._name} became shorter while it was read.", "Is it still being written?")

    def unpack(self, code: str) -> int:
        """The next whole number of this struct code."""
        value: int = self._scalar(code)  # type: ignore[assignment]
        return value

    def _scalar(self, code: str) -> int | float | bool:
        layout = "<" + code
        size = struct.calcsize(layout)
        data = self.need(size)
        value: int | float | bool = struct.unpack_from(layout, data, self.position)[0]
        self.position += size
        return value

    def raw_string(self, what: str) -> bytes:
        """The next string. `what` names it in an error."""
        length = self.unpack("Q")
        if length > MAX_STRING:
            raise self.damaged(f"{what} claims to be {format_count(length)} bytes long")
        data = self.need(length)
        start = self.position
        self.position += length
        return data[start : start + length]

    def value(self, key: str, keep: bool) -> Value:
        """The next value. `keep` keeps an array of any length; others are kept while short."""
        kind = self.unpack("I")
        if kind == _STRING:
            return self.raw_string(key).decode("utf-8", "replace")
        if kind == _ARRAY:
            return self._array(key, keep)
        if kind not in _SCALARS:
            raise self.damaged(f"{key} has the unknown type {kind}")
        if kind == 7:
            return self.unpack("B") != 0
        return self._scalar(_SCALARS[kind])

    def _array(self, key: str, keep: bool) -> Value:
        kind, length = self.unpack("I"), self.unpack("Q")
        if kind == _ARRAY:
            raise self.damaged(f"{key} is an array of arrays, which llama.cpp cannot read")
        if kind == _STRING:
            return self._strings(key, length, keep or length <= 1024)
        if kind not in _SCALARS:
            raise self.damaged(f"{key} has elements of the unknown type {kind}")
        code = "B" if kind == 7 else _SCALARS[kind]
        width = struct.calcsize("<" + code)
        if length * width > self._size:
            raise self.damaged(f"{key} claims {format_count(length)} elements")
        data = self.need(length * width)
        start = self.position
        self.position += length * width
        if not keep and length > KEEP_NUMBERS:
            return LongArray("number", length)
        return struct.unpack_from(f"<{length}{code}", data, start)

    def _strings(self, key: str, length: int, keep: bool) -> Value:
        if length > MAX_STRINGS or length * 8 > self._size:
            raise self.damaged(f"{key} claims {format_count(length)} strings")
        read_length = struct.Struct("<Q").unpack_from
        strings: list[bytes] = []
        data = self.need(8 * length)
        available, position = len(data), self.position
        for _ in range(length):
            begin = position + 8
            if begin > available:
                data, available = self._refill(begin - position, position)
            (size,) = read_length(data, position)
            position = begin + size
            if position > available:
                if size > MAX_STRING:
                    raise self.damaged(f"{key} holds a string of {format_count(size)} bytes")
                data, available = self._refill(size, begin)
            if keep:
                strings.append(data[begin:position])
        self.position = position
        return tuple(strings) if keep else LongArray("string", length)

    def _refill(self, length: int, position: int) -> tuple[bytes, int]:
        self.position = position
        data = self.need(length)
        return data, len(data)
