"""`edgespec chat --plain` against a scripted engine, and when the app is opened instead."""

from __future__ import annotations

import signal
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_fakes import Cli
from fake_host import crash, echo, loaded, plain_round, reply, send, wait_for_cancel
from tiny_gguf_bytes import model as tiny_model

from edgespec.cli import chat as cli_chat
from edgespec.cli.output import ReplyPrinter
from edgespec.engine import messages as m
from edgespec.types import Mode

Scripted = Callable[..., list[str]]


def chat(cli: Cli, model: str, *lines: str, arguments: tuple[str, ...] = ()) -> Any:
    return cli("chat", "--plain", "--model", model, *arguments, stdin="\n".join(lines) + "\n")


def test_each_line_is_answered_and_the_history_goes_along(cli: Cli, scripted: Scripted, model: str) -> None:
    scripted(replies=[reply("Hello."), [echo()]])
    result = chat(cli, model, "Hi", "And now?")
    assert result.code == 0
    first, second = result.out.splitlines()
    assert first == "Hello."
    for turn in ("role='user', content='Hi'", "role='assistant', content='Hello.'", "content='And now?'"):
        assert turn in second


def test_blank_lines_never_reach_the_engine(cli: Cli, scripted: Scripted, model: str) -> None:
    scripted(replies=[[echo()]])
    assert chat(cli, model, "", "   ", "\u200b").out == ""


def test_a_backslash_at_the_end_continues_the_message(cli: Cli, scripted: Scripted, model: str) -> None:
    scripted(replies=[[echo()]])
    assert "content='one\\ntwo'" in chat(cli, model, "one\\", "two").out
    assert "content='one'" in chat(cli, model, "one\\").out


def test_commands_change_what_comes_next(cli: Cli, scripted: Scripted, model: str) -> None:
    scripted(replies=[[echo()]])
    out = chat(cli, model, "/mode plain", "/length 9", "/system Be brief.", "Hi").out
    assert "PLAIN" in out
    assert "draft_length=9" in out
    assert "role='system', content='Be brief.'" in out


def test_new_forgets_the_turns_but_not_the_system_text(cli: Cli, scripted: Scripted, model: str) -> None:
    scripted(replies=[reply("Hello."), [echo()]])
    out = chat(cli, model, "Hi", "/new", "Again", arguments=("--system", "S")).out.splitlines()[1]
    assert "content='Hi'" not in out
    assert "content='S'" in out


def test_a_mode_that_cannot_run_is_refused_with_its_reason(cli: Cli, scripted: Scripted, model: str) -> None:
    scripted(load=[send(loaded())], replies=[[echo()]])
    result = chat(cli, model, "/mode draft", "/mode warp", "/length 33", "/length x", "/nonsense", "Hi")
    assert "Mode draft cannot run: No draft model is loaded." in result.err
    assert "there are plain, lookup, draft, auto" in result.err
    assert result.err.count("from 0 to 32") == 2
    assert "no command /nonsense" in result.err
    assert "AUTO" in result.out


def test_help_lists_the_commands_and_quit_leaves(cli: Cli, scripted: Scripted, model: str) -> None:
    scripted(replies=[[echo()]])
    result = chat(cli, model, "/help", "/quit", "Hi")
    assert result.out == ""
    for name in ("/mode", "/length", "/system", "/new", "/help", "/quit"):
        assert name in result.err


def test_two_slashes_send_a_text_that_begins_with_one(cli: Cli, scripted: Scripted, model: str) -> None:
    scripted(replies=[[echo()]])
    assert "content='/mode is a word'" in chat(cli, model, "//mode is a word").out


def test_notices_are_told_once_a_chat(cli: Cli, scripted: Scripted, model: str) -> None:
    scripted(replies=[[send(m.Notice(0, "No template.")), *reply("a")]])
    assert chat(cli, model, "Hi", "Hi").err.count("No template.") == 1


def test_after_the_engine_died_the_next_message_is_answered(cli: Cli, scripted: Scripted, model: str) -> None:
    scripted(
        starts=[{"replies": [[send(plain_round(0, "Once")), crash("SIGKILL")]]}, {"replies": [[echo()]]}],
    )
    result = chat(cli, model, "Hi", "Go on")
    assert result.code == 0
    assert result.out.splitlines()[0] == "Once"
    assert "SIGKILL" in result.err
    assert "started again" in result.err
    assert "content='Once'" in result.out.splitlines()[1]


def test_a_message_that_failed_is_not_part_of_the_chat(cli: Cli, scripted: Scripted, model: str) -> None:
    scripted(replies=[[send(m.Failed(0, "ContextFullError", "Too long.", "Use --ctx 512."))], [echo()]])
    result = chat(cli, model, "a very long text", "short")
    assert result.err.count("Too long.\nUse --ctx 512.") == 1
    assert "very long" not in result.out


def test_ctrl_c_ends_the_reply_and_the_chat_goes_on(
    cli: Cli, scripted: Scripted, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = ReplyPrinter.round
    pressed: list[int] = []

    def interrupt_once(self: ReplyPrinter, event: m.RoundDone) -> None:
        original(self, event)
        if not pressed:
            pressed.append(1)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(ReplyPrinter, "round", interrupt_once)
    scripted(replies=[[send(plain_round(0, "Once")), wait_for_cancel()], reply("Yes.")])
    result = chat(cli, model, "Hi", "Still there?")
    assert (result.code, result.out.splitlines()) == (0, ["Once", "Yes."])


def test_ctrl_c_at_the_prompt_leaves(cli: Cli, scripted: Scripted, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(self: object, prompt: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli_chat.PlainChat, "_read_line", interrupt)
    scripted()
    assert chat(cli, model).code == 130


def test_without_a_seed_every_reply_has_its_own(cli: Cli, scripted: Scripted, model: str) -> None:
    scripted(replies=[[echo()]])
    first, second = chat(cli, model, "a", "b", arguments=("--temperature", "1")).out.splitlines()
    assert first.split("seed=")[1].split(")")[0] != second.split("seed=")[1].split(")")[0]
    one, two = chat(cli, model, "a", "b", arguments=("--temperature", "1", "--seed", "5")).out.splitlines()
    assert "seed=5)" in one
    assert "seed=5)" in two


# The app


class Terminal:
    """Standard streams that say they are a terminal."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def isatty(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@pytest.mark.parametrize(
    ("term", "terminal", "plain", "opened"),
    [
        ("xterm-256color", True, False, True),
        ("xterm-256color", True, True, False),
        ("dumb", True, False, False),
        ("", True, False, False),
        ("xterm-256color", False, False, False),
    ],
)
def test_the_app_opens_on_a_real_terminal_only(
    model: str,
    scripted: Scripted,
    monkeypatch: pytest.MonkeyPatch,
    term: str,
    terminal: bool,
    plain: bool,
    opened: bool,
) -> None:
    calls: list[Any] = []

    def run_app(load: m.LoadOptions, generate: m.GenerateOptions, **more: Any) -> int:
        calls.append((load.target, generate.mode, more))
        return 0

    app = types.ModuleType("edgespec_tui.app")
    app.run_app = run_app  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "edgespec_tui.app", app)
    monkeypatch.setattr(cli_chat.PlainChat, "run", lambda self: 0)
    monkeypatch.setenv("TERM", term)
    if terminal:
        monkeypatch.setattr(sys, "stdin", Terminal(sys.stdin))
        monkeypatch.setattr(sys, "stdout", Terminal(sys.stdout))
    scripted()
    from edgespec.cli.main import main

    assert main(["chat", "--model", model, "--system", "S", *(["--plain"] if plain else [])]) == 0
    assert calls == (
        [(model, Mode.AUTO, {"system": "S", "notices": (), "seeded": False, "allow_fallback": False})] if opened else []
    )


@pytest.mark.parametrize("fallback", [False, True])
def test_a_draft_model_that_cannot_draft_is_refused_before_the_app_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fallback: bool
) -> None:
    for name, tiny in {"t.gguf": tiny_model(), "d.gguf": tiny_model([f"x{i}" for i in range(40)])}.items():
        (tmp_path / name).write_bytes(tiny.bytes())
    opened: list[bool] = []
    app = types.ModuleType("edgespec_tui.app")
    app.run_app = lambda *of, **more: opened.append(more["allow_fallback"]) or 0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "edgespec_tui.app", app)
    monkeypatch.setattr(cli_chat, "_can_show_app", lambda: True)
    from edgespec.cli.main import main

    pair = ("--model", str(tmp_path / "t.gguf"), "--draft", str(tmp_path / "d.gguf"))
    code = main(["chat", *pair, *(["--allow-fallback"] if fallback else [])])
    assert (code, opened) == ((0, [True]) if fallback else (1, []))
    assert ("Error: " in capsys.readouterr().err) is not fallback


def test_an_app_that_never_had_a_model_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from edgespec_tui import app as app_module

    from edgespec.cli.main import main

    monkeypatch.setattr(app_module.EdgeSpecApp, "run", lambda self: None)
    monkeypatch.setattr(app_module.EdgeSpecApp, "unused", "broken.gguf is a web page.")
    monkeypatch.setattr(cli_chat, "_can_show_app", lambda: True)
    assert main(["chat", "--model", __file__]) == 1
    assert capsys.readouterr().err == "Error: broken.gguf is a web page.\n"
