"""Log files stay few and small, and never stand in the way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgespec.engine import logs


def test_old_logs_are_thrown_away() -> None:
    files = [logs.new_log_file() for _ in range(logs.KEPT_FILES + 5)]
    assert sorted(logs.log_folder().iterdir()) == sorted(files[-logs.KEPT_FILES :])


def test_a_folder_that_cannot_be_written_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EDGESPEC_LOG_DIR", str(tmp_path / "file" / "logs"))
    assert logs.new_log_file().read_bytes() == b""


def test_the_last_lines_leave_out_blank_ones_and_survive_any_bytes() -> None:
    path = logs.new_log_file()
    path.write_bytes(b"x" * 100_000 + b"\nfirst\n\n\xff second \n\n")
    assert logs.last_lines(path, 2) == ("first", "\N{REPLACEMENT CHARACTER} second")
    assert logs.last_lines(path.parent / "missing") == ()


def test_a_log_that_has_grown_too_long_starts_again() -> None:
    path = logs.new_log_file()
    with path.open("ab") as file:
        file.write(b"x" * (logs.MAX_LOG_BYTES + 1))
        file.flush()
        logs.shorten(file.fileno())
        os.write(file.fileno(), b"next\n")
        logs.shorten(file.fileno())
    assert path.read_bytes() == b"next\n"
