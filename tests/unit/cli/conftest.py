"""The command line in this process, with a scripted engine behind the real client."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cli_fakes import Cli, Result
from fake_host import fake_host

from edgespec.cli.main import main
from edgespec.engine import client


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [name for name in os.environ if name.startswith("EDGESPEC_")]:
        monkeypatch.delenv(variable)
    for variable in ("XDG_CONFIG_HOME", "EDGESPEC_CACHE_DIR", "EDGESPEC_LOG_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable))


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    """Run `edgespec ARGUMENTS` with `stdin`; exit code and what was printed."""

    def run(*arguments: str, stdin: str | bytes = "") -> Result:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
        code = main(arguments)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    yield run


@pytest.fixture
def scripted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Put a scripted host behind the engine client; takes what `fake_host` takes."""

    def script(**steps: Any) -> list[str]:
        command = fake_host(tmp_path, **steps)
        monkeypatch.setattr(client, "Engine", partial(client.Engine, command=command))
        return command

    return script


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A path that exists; the scripted host does not look into it."""
    path = tmp_path / "model [v2] é.gguf"
    path.write_bytes(b"GGUF")
    return str(path)
