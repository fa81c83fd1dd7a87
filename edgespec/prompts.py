"""Prompts to compare modes with: a built-in set of eight kinds of work, or a file of the user's own."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgespec.errors import SettingsError

BUILT_IN = Path(__file__).with_name("prompts.toml")
OWN = "own"
"""Kind of a prompt of which nothing more is known."""

_KEYS = ("id", "title", "kind", "text")
_LONGEST_TITLE = 48


@dataclass(frozen=True, slots=True)
class Prompt:
    """Something to ask, under a short name.

    Attributes:
        id: unique within a comparison.
        title: what is asked, in a few words.
        kind: the kind of work, which decides how much can be drafted.
        text: what the user says, material included.
    """

    id: str
    title: str
    kind: str
    text: str


def built_in_prompts() -> tuple[Prompt, ...]:
    """The built-in set."""
    return parse_toml(BUILT_IN.read_text("utf-8"), BUILT_IN.name)


def read_prompts(path: str | Path) -> tuple[Prompt, ...]:
    """Prompts from a file: TOML if it is called .toml, else one prompt per block between blank lines.

    Raises SettingsError that names the file and what is wrong in it.
    """
    path = Path(path)
    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}.", "Check the path after --prompts.") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not UTF-8 text.", "Save it as UTF-8.") from None
    found = parse_toml(text, path.name) if path.suffix.lower() == ".toml" else parse_blocks(text)
    if not found:
        raise SettingsError(f"There is no prompt in {path}.", "Write one, or leave out --prompts for the built-in set.")
    return found


def parse_toml(text: str, name: str) -> tuple[Prompt, ...]:
    """Prompts from `[[prompt]]` tables. Raises SettingsError."""
    form = "A prompt is a [[prompt]] table with text and, if you like, id, title and kind."
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{name} is not valid TOML: {error}.", form) from None
    entries = table.get("prompt", [])
    if (
        set(table) - {"prompt"}
        or not isinstance(entries, list)
        or not all(isinstance(entry, dict) for entry in entries)
    ):
        raise SettingsError(f"{name} holds something else than prompts.", form)
    prompts = tuple(_from_entry(entry, number, name) for number, entry in enumerate(entries, start=1))
    refuse_twins(prompts, f"{name}: ")
    return prompts


def parse_blocks(text: str) -> tuple[Prompt, ...]:
    """Prompts from a plain text: blank lines part them."""
    blocks = (block.strip() for block in re.split(r"\n[ \t]*\n", text.replace("\r\n", "\n")))
    return own_prompts(block for block in blocks if block)


def own_prompts(texts: Iterable[str]) -> tuple[Prompt, ...]:
    """Prompts of which only the text is known."""
    return tuple(_own(text, number) for number, text in enumerate(texts, start=1))


def select(prompts: Sequence[Prompt], wanted: Sequence[str]) -> tuple[Prompt, ...]:
    """Those with these ids, in the order of `prompts`. Raises SettingsError for an id that none has."""
    known = [prompt.id for prompt in prompts]
    for name in wanted:
        if name not in known:
            raise SettingsError(f"There is no prompt {name!r}.", f"There are: {', '.join(known)}.")
    return tuple(prompt for prompt in prompts if prompt.id in wanted)


def refuse_twins(prompts: Sequence[Prompt], where: str = "") -> None:
    """Raise SettingsError, which begins with `where`, if two prompts have one id."""
    ids = [prompt.id for prompt in prompts]
    for name in ids:
        if ids.count(name) > 1:
            raise SettingsError(f"{where}Two prompts have the id {name!r}.", "Give each an id of its own.")


def _from_entry(entry: Mapping[str, Any], number: int, name: str) -> Prompt:
    where = f"{name}, prompt {number}"
    for key, value in entry.items():
        if key not in _KEYS:
            raise SettingsError(f"{where}: unknown key {key!r}.", f"Known keys: {', '.join(_KEYS)}.")
        if not isinstance(value, str) or not value.strip():
            raise SettingsError(f"{where}: {key!r} must be a text that is not blank.", "Correct the file.")
    if "text" not in entry:
        raise SettingsError(f"{where} has no text.", "Add what is to be asked as text.")
    own = _own(entry["text"].strip(), number)
    return Prompt(entry.get("id", own.id), entry.get("title", own.title), entry.get("kind", OWN), own.text)


def _own(text: str, number: int) -> Prompt:
    line = " ".join(text.split())
    title = line if len(line) <= _LONGEST_TITLE else line[: _LONGEST_TITLE - 1].rstrip() + "…"
    return Prompt(f"prompt-{number}", title, OWN, text)
