"""A TOML table that knows where it stands in its file and which of its keys were asked for."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from edgespec.errors import RegistryError

_T = TypeVar("_T")


class Table:
    """Typed access to a table's keys; `done` refuses those nobody asked for.

    Attributes:
        name: what to call the table in an error, "" for the whole file.
    """

    def __init__(self, data: Mapping[str, Any], path: Path, name: str = "") -> None:
        self._data = data
        self._path = path
        self._asked: set[str] = set()
        self.name = name

    def wrong(self, key: str, why: str) -> RegistryError:
        """The error for a key's value."""
        return RegistryError(f"{self._path}: {self._label(key)}: {why}.", "Correct the file.")

    def _label(self, key: str) -> str:
        return f"{self.name}.{key}" if self.name else key

    def _get(self, key: str, kind: type[_T], default: _T | None, what: str) -> _T:
        self._asked.add(key)
        if key not in self._data:
            if default is None:
                raise self.wrong(key, "it is missing")
            return default
        value = self._data[key]
        if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
            raise self.wrong(key, f"{value!r} is not {what}")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        return self._get(key, str, default, "a text")

    def flag(self, key: str, default: bool) -> bool:
        return self._get(key, bool, default, "true or false")

    def whole(self, key: str, default: int | None = None, least: int = 0) -> int:
        value = self._get(key, int, default, "a whole number")
        if value < least:
            raise self.wrong(key, f"{value} is less than {least}")
        return value

    def real(self, key: str, default: float) -> float:
        value = self._get(key, object, default, "a number")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(key, f"{value!r} is not a number")
        return float(value)

    def texts(self, key: str) -> list[str]:
        """A list of texts, empty where the key is missing."""
        values = self._get(key, list, [], "a list")
        if not all(isinstance(value, str) for value in values):
            raise self.wrong(key, f"{values!r} is not a list of texts")
        return values

    def choice(self, key: str, allowed: tuple[str, ...], default: str | None = None) -> str:
        value = self.text(key, default)
        if value not in allowed and value != default:
            raise self.wrong(key, f"{value!r} is none of {', '.join(allowed)}")
        return value

    def matching(self, key: str, pattern: str, what: str, default: str | None = None) -> str:
        """A text of this form, or the default."""
        value = self.text(key, default)
        if value != default and not re.fullmatch(pattern, value):
            raise self.wrong(key, f"{value!r} is not {what}")
        return value

    def table(self, key: str) -> Table:
        """A table below this one, empty where it is missing."""
        return Table(self._get(key, dict, {}, "a table"), self._path, self._label(key))

    def optional(self, key: str) -> Table | None:
        """A table below this one, None where it is missing."""
        found = self.table(key)
        return found if key in self._data else None

    def tables(self) -> Iterator[tuple[str, Table]]:
        """Every key of this table, each a table."""
        for key in self._data:
            yield key, self.table(key)

    def list(self, key: str) -> list[Table]:
        """A list of tables: `[[key]]`."""
        entries = self._get(key, list, [], "a list of tables")
        if not all(isinstance(entry, dict) for entry in entries):
            raise self.wrong(key, "it is not a list of tables")
        return [Table(entry, self._path, f"{self._label(key)} {index + 1}") for index, entry in enumerate(entries)]

    def done(self) -> None:
        """Raises RegistryError if there are keys that no one asked for."""
        for key in self._data:
            if key not in self._asked:
                near = difflib.get_close_matches(key, self._asked, n=1)
                hint = f"Did you mean {near[0]}?" if near else f"Known here: {', '.join(sorted(self._asked))}."
                raise RegistryError(f"{self._path}: {self._label(key)} is an unknown key.", hint)
