"""`edgespec run` against a scripted engine."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli_fakes import Cli
from fake_host import (
    crash,
    done_event,
    draft_round,
    echo,
    loaded,
    log,
    plain_round,
    reply,
    send,
    starts_of,
    wait_for_cancel,
)

from edgespec.cli.output import STATS_NAMES
from edgespec.cli.run import ReplyPrinter
from edgespec.engine import messages as m
from edgespec.types import FinishReason, Mode

Scripted = Callable[..., list[str]]


def test_the_answer_goes_to_stdout_and_one_line_of_figures_to_stderr(cli: Cli, scripted: Scripted, model: str) -> None:
    scripted(replies=[reply("Hello there.")])
    result = cli("run", "Hi", "--model", model)
    assert (result.code, result.out) == (0, "Hello there.\n")
    assert len(result.err.splitlines()) == 1


def test_json_is_one_object_with_exactly_the_names_of_the_contract(cli: Cli, scripted: Scripted, model: str) -> None:
    scripted(replies=[reply("Hello [/INST] é 😀", mode=Mode.LOOKUP)])
    result = cli("run", "Hi", "--model", model, "--json")
    assert result.code == 0
    assert len(result.out.splitlines()) == 1
    names = ["text", "tokens", "mode", "finish_reason", "seed", "model", "draft", "stats", "auto"]
    assert list(result.json) == names
    assert list(result.json["stats"]) == list(STATS_NAMES)
    assert result.json["text"] == "Hello [/INST] é 😀"
    assert (result.json["mode"], result.json["finish_reason"]) == ("lookup", "stop")
    assert (result.json["model"], result.json["draft"], result.json["seed"]) == (model, None, 0)


def test_trace_adds_the_rounds(cli: Cli, scripted: Scripted, model: str) -> None:
    scripted(
        replies=[[send(draft_round(0, ["a", "b"], ["x"], "c")), send(plain_round(1, "d")), send(done_event("abcd"))]]
    )
    trace = cli("run", "Hi", "--model", model, "--json", "--trace").json["rounds_trace"]
    assert [entry["drafted"] for entry in trace] == [[200, 201, 202], []]
    assert [(entry["accepted"], entry["kind"]) for entry in trace] == [(2, "corrected"), (0, "plain")]
    assert set(trace[0]) == {
        "drafted", "accepted", "next_token", "kind", "draft_seconds", "verify_seconds", "overhead_seconds"
    }  # fmt: skip


def test_a_trace_does_not_tell_what_lies_behind_a_stop(cli: Cli, scripted: Scripted, model: str) -> None:
    cut = draft_round(0, ["a", "b"], [], "c")
    cut = replace(cut, round=replace(cut.round, tokens=cut.round.tokens[:2], pieces=cut.round.pieces[:2]))
    scripted(replies=[[send(cut), send(done_event("ab"))]])
    (entry,) = cli("run", "Hi", "--model", model, "--json", "--trace").json["rounds_trace"]
    assert (entry["accepted"], entry["next_token"], entry["kind"]) == (2, None, None)


def test_trace_without_json_is_wrong_usage(cli: Cli, model: str) -> None:
    assert cli("run", "Hi", "--model", model, "--trace").code == 2


# Prompts


def sent(cli: Cli, scripted: Scripted, *arguments: str, **more: Any) -> str:
    """The Generate command that the engine received, as text."""
    scripted(replies=[[echo()]])
    result = cli("run", *arguments, "--json", **more)
    assert result.code == 0, result.err
    text: str = result.json["text"]
    return text


def test_a_prompt_is_a_chat_and_raw_is_the_text_itself(cli: Cli, scripted: Scripted, model: str) -> None:
    assert "messages=(Message(role='user', content='Hi [red]'),)" in sent(cli, scripted, "Hi [red]", "--model", model)
    assert "messages=(), prompt='Hi'" in sent(cli, scripted, "Hi", "--model", model, "--raw")


def test_a_system_text_goes_first(cli: Cli, scripted: Scripted, model: str) -> None:
    text = sent(cli, scripted, "Hi", "--model", model, "--system", "Be brief.")
    assert "(Message(role='system', content='Be brief.'), Message(role='user', content='Hi'))" in text


def test_a_dash_or_nothing_reads_standard_input(cli: Cli, scripted: Scripted, model: str) -> None:
    for arguments in (("-",), ()):
        assert "content='é\\nb'" in sent(cli, scripted, *arguments, "--model", model, stdin="é\nb")


def test_a_file_is_read_whole_and_stands_below_the_prompt(
    cli: Cli, scripted: Scripted, model: str, tmp_path: Path
) -> None:
    path = tmp_path / "a [b].txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo")
    assert "content='one\\r\\ntwo'" in sent(cli, scripted, "--file", str(path), "--model", model)
    assert "content='Sum up:\\n\\none" in sent(cli, scripted, "Sum up:", "--file", str(path), "--model", model)


@pytest.mark.parametrize("prompt", ["", "   \n", "\u200b"])
def test_a_blank_prompt_is_an_error_before_anything_starts(
    cli: Cli, scripted: Scripted, model: str, tmp_path: Path, prompt: str
) -> None:
    command = scripted()
    empty = tmp_path / "empty.txt"
    empty.write_text(prompt)
    for arguments in ((prompt,), ("-",), ("--file", str(empty)), (prompt, "--raw")):
        result = cli("run", *arguments, "--model", model, stdin=prompt)
        assert (result.code, result.out) == (1, "")
        assert "empty" in result.err
    assert starts_of(command) == []


def test_what_is_not_text_or_not_there_is_named(cli: Cli, model: str, tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(b"ab\xff")
    assert "not UTF-8" in cli("run", "--file", str(path), "--model", model).err
    assert "not UTF-8" in cli("run", "-", "--model", model, stdin=b"\xff").err
    for missing in (tmp_path / "none.txt", tmp_path):
        result = cli("run", "--file", str(missing), "--model", model)
        assert result.code == 1
        assert str(missing) in result.err


# Ends


def test_ctrl_c_ends_the_reply_keeps_its_text_and_gives_130(
    cli: Cli, scripted: Scripted, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = ReplyPrinter.round

    def interrupt(self: ReplyPrinter, event: m.RoundDone) -> None:
        original(self, event)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(ReplyPrinter, "round", interrupt)
    before = signal.getsignal(signal.SIGINT)
    scripted(replies=[[send(plain_round(0, "Once")), wait_for_cancel()]])
    result = cli("run", "Hi", "--model", model)
    assert (result.code, result.out) == (130, "Once\n")
    assert "cancelled" in result.err
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_does_not_wait_for_the_engine(
    cli: Cli, scripted: Scripted, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(self: ReplyPrinter, event: m.RoundDone) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(ReplyPrinter, "round", interrupt)
    scripted(replies=[[send(plain_round(0, "Once")), wait_for_cancel()]])
    assert cli("run", "Hi", "--model", model).code == 130


def test_a_failed_reply_is_an_error(cli: Cli, scripted: Scripted, model: str) -> None:
    scripted(replies=[[send(m.Failed(0, "ContextFullError", "Too long.", "Use --ctx 512."))]])
    result = cli("run", "Hi", "--model", model, "--json")
    assert (result.code, result.out, result.err) == (1, "", "Error: Too long.\nUse --ctx 512.\n")


def test_a_dead_engine_is_an_error_with_its_last_words(cli: Cli, scripted: Scripted, model: str) -> None:
    scripted(replies=[[send(plain_round(0, "Once")), log("GGML_ASSERT(x) failed"), crash("SIGABRT")]])
    result = cli("run", "Hi", "--model", model)
    assert (result.code, result.out) == (1, "Once\n")
    assert "SIGABRT" in result.err
    assert "GGML_ASSERT(x) failed" in result.err


def test_notices_go_to_stderr(cli: Cli, scripted: Scripted, model: str) -> None:
    scripted(load=[send(loaded(notices=("Safe mode.",)))], replies=[[send(m.Notice(0, "No template.")), *reply("a")]])
    result = cli("run", "Hi", "--model", model, "--json")
    assert result.json["text"] == "a"
    assert result.err.splitlines() == ["Safe mode.", "No template."]


@pytest.mark.parametrize("reason", [FinishReason.LENGTH, FinishReason.CONTEXT])
def test_a_reply_that_was_cut_off_is_done_and_says_why(
    cli: Cli, scripted: Scripted, model: str, reason: FinishReason
) -> None:
    scripted(replies=[reply("a", reason=reason)])
    result = cli("run", "Hi", "--model", model)
    assert result.code == 0
    assert {"length": "--max-tokens", "context": "context full"}[reason] in result.err
