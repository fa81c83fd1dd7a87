"""Saved chats: one JSON file each in the user's data folder, written as the chat goes on."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from edgespec.errors import EdgeSpecError
from edgespec_tui.record import ChatRecord
from edgespec_tui.text import one_line


def chats_folder() -> Path:
    """Where chats are kept."""
    import platformdirs

    return platformdirs.user_data_path("edgespec") / "chats"


class Archive:
    """The chats in one folder. Raises EdgeSpecError with a sentence where the disk refuses."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or chats_folder()

    def save(self, record: ChatRecord) -> None:
        """Write a chat; a half-written file never takes the place of a whole one. A chat without turns has no file."""
        if not record.turns:
            self.delete(record)
            return
        record.changed = datetime.now().astimezone().isoformat(timespec="seconds")
        write_whole(self._path(record), json.dumps(record.to_json(), ensure_ascii=False))

    def all(self) -> tuple[list[ChatRecord], int]:
        """Every chat, the latest first, and how many files are no chats."""
        records, broken = [], 0
        for path in self.folder.glob("*.json"):
            try:
                record = ChatRecord.from_json(json.loads(path.read_text(encoding="utf-8")))
                record.id = path.stem
                records.append(record)
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                broken += 1
        return sorted(records, key=lambda record: record.changed, reverse=True), broken

    def rename(self, record: ChatRecord, title: str) -> None:
        """Give a chat another title."""
        record.title = one_line(title.strip())
        write_whole(self._path(record), json.dumps(record.to_json(), ensure_ascii=False))

    def delete(self, record: ChatRecord) -> None:
        """Remove a chat for good."""
        try:
            self._path(record).unlink(missing_ok=True)
        except OSError as error:
            raise EdgeSpecError(f"The chat cannot be deleted: {error.strerror}.") from None

    def export(self, record: ChatRecord, kind: str, folder: Path) -> Path:
        """Write a chat as `md` or `json` into a folder, under a name that is free; returns the file."""
        slug = re.sub(r"[^\w-]+", "-", record.title.lower()).strip("-")[:40] or "chat"
        path = folder / f"{slug}.{kind}"
        number = 2
        while path.exists():
            path = folder / f"{slug}-{number}.{kind}"
            number += 1
        text = json.dumps(record.to_json(), ensure_ascii=False, indent=2) if kind == "json" else record.to_markdown()
        write_whole(path, text)
        return path

    def _path(self, record: ChatRecord) -> Path:
        return self.folder / f"{record.id}.json"


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all. Raises EdgeSpecError."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(draft, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(text)
        os.replace(draft, path)
    except OSError as error:
        with suppress(OSError):  # what kept it from being written may keep it from being removed
            draft.unlink(missing_ok=True)
        raise EdgeSpecError(f"{one_line(str(path))} cannot be written: {error.strerror}.") from None
