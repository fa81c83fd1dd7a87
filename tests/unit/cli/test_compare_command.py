"""`edgespec compare` against a scripted engine."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_fakes import Cli
from fake_host import crash, echo, loaded, plain_round, reply, send, starts_of, wait_for_cancel

from edgespec.cli import compare as command
from edgespec.compare import RunRound
from edgespec.engine import messages as m
from edgespec.types import Mode

Scripted = Callable[..., list[str]]
SHORT = ("--prompt", "Hi", "--modes", "plain,lookup", "--repeats", "1")


def test_the_table_goes_to_stdout_and_progress_to_stderr(cli: Cli, scripted: Scripted, model: str) -> None:
    scripted()
    result = cli("compare", "--model", model, *SHORT)
    assert result.code == 0, result.err
    assert "mode" in result.out and "lookup:4" in result.out
    assert [line.split(":")[0] for line in result.err.splitlines()] == ["1 prompt-1 plain", "2 prompt-1 lookup"]
    assert all(line == line.rstrip() for line in result.out.splitlines())


def test_a_pipe_gets_as_many_columns_as_it_asks_for(
    cli: Cli, scripted: Scripted, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted()
    widths = {}
    for columns in ("", "80"):
        monkeypatch.setenv("COLUMNS", columns)
        result = cli("compare", "--model", model, *SHORT)
        widths[columns] = max(map(len, result.out.splitlines()))
    assert widths["80"] <= 80 < widths[""] <= command.PIPE_WIDTH


def test_json_is_exactly_one_object(cli: Cli, scripted: Scripted, model: str) -> None:
    scripted()
    result = cli("compare", "--model", model, *SHORT, "--json")
    assert result.code == 0
    assert len(result.out.splitlines()) == 1
    assert result.json["modes"] == ["plain", "lookup:4"]
    assert result.json["options"]["max_tokens"] == 128
    assert [run["mode"] for run in result.json["runs"]] == ["plain", "lookup:4"]
    assert "rounds_trace" not in result.json["runs"][0]
    assert "rounds_trace" in cli("compare", "--model", model, *SHORT, "--json", "--trace").json["runs"][0]


def test_markdown_is_a_page(cli: Cli, scripted: Scripted, model: str) -> None:
    scripted()
    assert cli("compare", "--model", model, *SHORT, "--markdown").out.startswith("# Modes compared\n")


@pytest.mark.parametrize("suffix", [".json", ".md", ".txt"])
def test_the_result_is_also_written_to_a_file(
    cli: Cli, scripted: Scripted, model: str, tmp_path: Path, suffix: str
) -> None:
    scripted()
    path = tmp_path / f"out [x]{suffix}"
    result = cli("compare", "--model", model, *SHORT, "--output", str(path))
    assert result.code == 0 and "lookup:4" in result.out
    text = path.read_text("utf-8")
    assert "lookup:4" in text and "\x1b" not in text
    assert suffix != ".json" or json.loads(text)["complete"] is True
    assert sorted(file.suffix for file in tmp_path.glob("out*")) == [suffix]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--modes", "fast"),
        ("--modes", "draft:99"),
        ("--modes", "plain,,lookup"),
        ("--repeats", "0"),
        ("--json", "--markdown"),
        ("--trace",),
        ("--output", "result.pdf"),
        ("--output", "/nonexistent/x.json"),
        ("--mode", "plain"),
        ("--costs", "--modes", "plain,lookup"),
    ],
)
def test_wrong_usage_is_refused_before_anything_starts(
    cli: Cli, scripted: Scripted, model: str, arguments: tuple[str, ...]
) -> None:
    started = scripted()
    result = cli("compare", "--model", model, *arguments)
    assert (result.code, result.out) == (2, "")
    assert starts_of(started) == []


def asked(cli: Cli, scripted: Scripted, *arguments: str) -> list[str]:
    """The Generate commands of the measured runs, as text."""
    scripted(replies=[[echo()]])
    result = cli("compare", *arguments, "--repeats", "1", "--json", "--trace")
    assert result.code == 0, result.err
    return [run["text"] for run in result.json["runs"]]


def test_prompts_come_from_a_file_from_flags_or_from_the_built_in_set(
    cli: Cli, scripted: Scripted, model: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[[prompt]]\nid = "mine"\ntext = "From a file"\n')
    common = ("--model", model, "--modes", "plain")
    both = asked(cli, scripted, *common, "--prompts", str(path), "--prompt", "From a flag")
    assert ["From a file" in text for text in both] == [True, False]
    assert "From a flag" in both[1]
    assert len(asked(cli, scripted, *common)) == 8
    assert "lighthouse" in asked(cli, scripted, *common, "--only", "story")[0]


def test_what_cannot_be_asked_is_an_error(cli: Cli, scripted: Scripted, model: str) -> None:
    started = scripted()
    for arguments in (("--prompt", " "), ("--prompts", "/none.txt"), ("--only", "poem")):
        result = cli("compare", "--model", model, *arguments)
        assert (result.code, result.out) == (1, "") and result.err.startswith("Error: ")
    assert starts_of(started) == []


def test_options_reach_every_run(cli: Cli, scripted: Scripted, model: str) -> None:
    (text,) = asked(
        cli, scripted, "--model", model, "--modes", "plain", "--prompt", "Hi", "--system", "Be brief.",
        "--temperature", "0.7", "--seed", "9", "--max-tokens", "5", "--stop", "x",
    )  # fmt: skip
    for words in ("role='system', content='Be brief.'", "temperature=0.7", "seed=9", "max_tokens=5", "stop=('x',)"):
        assert words in text
    assert "fresh=True" in text


def test_without_modes_every_mode_that_can_run_is_measured_whatever_the_settings_say(
    cli: Cli, scripted: Scripted, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGESPEC_MODE", "draft")
    scripted()
    result = cli("compare", "--model", model, "--prompt", "Hi", "--repeats", "1", "--draft-length", "7", "--json")
    assert result.json["modes"] == ["plain", "lookup:7", "auto"]


def test_a_mode_that_cannot_run_is_an_error_or_left_out_with_a_sentence(
    cli: Cli, scripted: Scripted, model: str
) -> None:
    scripted()
    arguments = ("compare", "--model", model, "--prompt", "Hi", "--modes", "plain,draft:3", "--repeats", "1", "--json")
    refused = cli(*arguments)
    assert (refused.code, refused.out) == (1, "")
    assert "draft:3 cannot run" in refused.err and "--allow-fallback" in refused.err
    result = cli(*arguments, "--allow-fallback")
    assert result.code == 0 and result.json["modes"] == ["plain"]
    assert "draft:3 is left out" in result.err


def interrupt_at(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    original = command.shown

    def shown(events: Any, told: Any) -> Any:
        for event in original(events, told):
            yield event
            if isinstance(event, RunRound) and event.key.number == number:
                signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(command, "shown", shown)


@pytest.mark.parametrize(("number", "measured"), [(0, 0), (2, 1)])
def test_ctrl_c_gives_130_and_what_was_measured(
    cli: Cli, scripted: Scripted, model: str, monkeypatch: pytest.MonkeyPatch, number: int, measured: int
) -> None:
    slow = [send(plain_round(0, "Once")), wait_for_cancel()]
    scripted(replies=[slow] if number == 0 else [reply("a"), reply("a"), reply("a"), slow])
    interrupt_at(monkeypatch, number)
    result = cli("compare", "--model", model, *SHORT, "--json")
    assert result.code == 130
    assert (len(result.json["runs"]), result.json["complete"]) == (measured, False)


def test_a_dead_engine_is_an_error_behind_what_was_measured(cli: Cli, scripted: Scripted, model: str) -> None:
    scripted(replies=[reply("a"), reply("a"), reply("a"), [send(plain_round(0, "Once")), crash("SIGABRT")]])
    result = cli("compare", "--model", model, *SHORT, "--json")
    assert result.code == 1
    assert len(result.json["runs"]) == 1
    assert "SIGABRT" in result.err


def test_a_refused_prompt_is_an_error(cli: Cli, scripted: Scripted, model: str) -> None:
    scripted(replies=[[send(m.Failed(0, "ContextFullError", "Too long.", "Use --ctx 512."))]])
    result = cli("compare", "--model", model, *SHORT)
    assert (result.code, result.out) == (1, "")
    assert "Error: Too long.\nUse --ctx 512." in result.err


def test_notices_are_told_once(cli: Cli, scripted: Scripted, model: str) -> None:
    ready = loaded(notices=("Safe mode.",), modes=dict.fromkeys(Mode))
    scripted(load=[send(ready)])
    result = cli("compare", "--model", model, *SHORT)
    assert result.err.count("Safe mode.") == 1 and "Safe mode." in result.out


def test_a_machine_that_is_too_small_is_told_so_once(
    cli: Cli, scripted: Scripted, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tight = "This needs about 9 GB of memory; it is tight."
    monkeypatch.setattr("edgespec.hardware.may_have_device", lambda: False)
    monkeypatch.setattr("edgespec.placement.memory_notices", lambda *of: (tight,))
    scripted(load=[send(loaded(notices=(tight,), modes=dict.fromkeys(Mode)))])
    assert cli("compare", "--model", model, *SHORT).err.count(tight) == 1


def test_help_shows_the_options_as_they_are_here(cli: Cli) -> None:
    text = cli("compare", "--help").out
    assert "--modes" in text and "--mode " not in text
    assert "[default: 128]" in text
