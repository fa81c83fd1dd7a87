"""The command itself: help, usage errors, exit codes, laziness."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from cli_fakes import Cli
from fake_host import reply

from edgespec.cli import main as cli_main
from edgespec.cli.main import COMMANDS, main
from edgespec.errors import EdgeSpecError


def fail_with(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command("boom")
    def boom() -> None:
        raise error

    monkeypatch.setattr(cli_main.LazyGroup, "get_command", lambda self, ctx, name: boom)


@pytest.mark.parametrize("arguments", [("--help",), ("-h",), ()])
def test_help_lists_every_command(cli: Cli, arguments: tuple[str, ...]) -> None:
    result = cli(*arguments)
    assert result.code == 0
    assert all(f"  {name} " in result.out for name in COMMANDS)


def test_help_imports_no_command() -> None:
    code = (
        "import sys; from edgespec.cli.main import main; main(['--help']); "
        "print([name for name in sys.modules if name.startswith('edgespec.cli.') and name != 'edgespec.cli.main'])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.splitlines()[-1] == "[]"


def test_version(cli: Cli) -> None:
    result = cli("--version")
    assert (result.code, result.out.split()[0]) == (0, "edgespec,")


@pytest.mark.parametrize("arguments", [("nonsense",), ("run", "x", "--nonsense"), ("--nonsense",), ("run", "a", "b")])
def test_wrong_usage_is_two_lines_on_stderr(cli: Cli, arguments: tuple[str, ...]) -> None:
    result = cli(*arguments)
    assert (result.code, result.out) == (2, "")
    message, hint = result.err.splitlines()
    assert message.startswith("Error: ")
    assert "--help" in hint


def test_an_error_is_message_then_hint(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(EdgeSpecError("It broke \x1b[31m[/bad]", "Mend it."), monkeypatch)
    assert cli("boom") == (result := cli("boom"))
    assert (result.code, result.out, result.err) == (1, "", "Error: It broke [/bad]\nMend it.\n")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort()])
def test_an_interrupt_gives_130(cli: Cli, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    fail_with(error, monkeypatch)
    assert cli("boom").code == 130


def test_an_error_of_the_system_is_a_sentence(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(PermissionError(13, "Permission denied", "/secret"), monkeypatch)
    assert cli("boom").err == "Error: Permission denied: /secret.\n"


def test_a_fault_of_ours_has_no_traceback_unless_asked_for(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EDGESPEC_DEBUG", raising=False)
    fail_with(ZeroDivisionError("division by zero"), monkeypatch)
    result = cli("boom")
    assert result.code == 1
    assert "Traceback" not in result.err
    assert "EDGESPEC_DEBUG" in result.err
    monkeypatch.setenv("EDGESPEC_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        main(["boom"])


@pytest.mark.parametrize("stream", ["stdin", "stdout", "stderr"])
def test_a_stream_that_is_closed_is_an_empty_one(monkeypatch: pytest.MonkeyPatch, model: str, stream: str) -> None:
    monkeypatch.setattr(sys, stream, None)
    assert main(["run", " ", "--model", model]) == 1
    assert main(["chat", "--plain", "--mode", "draft", "--model", model]) == 1
    assert getattr(sys, stream) is not None


def test_a_character_that_the_terminal_does_not_have_does_not_end_the_reply(
    scripted: Callable[..., list[str]], model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(replies=[reply("one 😀 two")])
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9\n"), encoding="utf-8"))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding="cp1252"))
    assert main(["chat", "--plain", "--model", model]) == 0
    assert out.getvalue() == b"one ? two\n"


def test_a_reader_that_leaves_is_no_news(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    process = subprocess.run(
        [sys.executable, "-m", "edgespec.cli.main", "run", "--help"], stdout=write, stderr=subprocess.PIPE, text=True
    )
    os.close(write)
    assert (process.returncode, process.stderr) == (1, "")
