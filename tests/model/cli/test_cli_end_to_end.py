"""`edgespec` as a person runs it: a process of its own, the demo model, real pipes and signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from edgespec.cli.output import STATS_NAMES

pytestmark = pytest.mark.model

COUNT = "Count: one two three four one two three four one two three four one two"


ENVIRONMENT = {**os.environ, "EDGESPEC_THREADS": "1"}
"""One thread: where tests share a machine, more of them mostly wait for each other."""


def edgespec(*arguments: str, stdin: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "edgespec.cli.main", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=300,
        env={**ENVIRONMENT, **environ},
    )


def answer(*arguments: str, **more: Any) -> dict[str, Any]:
    """The object that `run --json` prints; greedy and short unless asked otherwise."""
    short = () if "--max-tokens" in arguments else ("--max-tokens", "8")
    result = edgespec("run", *arguments, "--json", *short, **more)
    assert result.returncode == 0, result.stderr
    value: dict[str, Any] = json.loads(result.stdout)
    return value


@pytest.fixture(scope="module")
def plain() -> dict[str, Any]:
    return answer(COUNT, "--raw", "--mode", "plain", "--ctx", "512", "--max-tokens", "24")


def test_the_json_object_keeps_the_contract(plain: dict[str, Any], demo_model: Path) -> None:
    assert list(plain["stats"]) == list(STATS_NAMES)
    assert (plain["mode"], plain["finish_reason"], plain["draft"]) == ("plain", "length", None)
    assert plain["model"] == str(demo_model)
    stats = plain["stats"]
    assert len(plain["tokens"]) == stats["emitted_tokens"] == stats["rounds"] == 24
    assert (stats["drafted"], stats["accepted"], stats["alpha"]) == (0, 0, None)
    parts = stats["draft_seconds"] + stats["verify_seconds"] + stats["overhead_seconds"]
    assert parts == pytest.approx(stats["decode_seconds"], rel=1e-6)


def test_lookup_and_a_model_drafting_for_itself_give_the_same_text_in_fewer_passes(
    plain: dict[str, Any], demo_model: Path
) -> None:
    common = (COUNT, "--raw", "--ctx", "512", "--max-tokens", "24")
    lookup = answer(*common, "--mode", "lookup", "--min-ngram", "2", "--draft-length", "6")
    draft = answer(*common, "--mode", "draft", "--draft", str(demo_model), "--draft-length", "3", "--trace")
    assert (lookup["mode"], draft["mode"]) == ("lookup", "draft")
    assert lookup["tokens"] == draft["tokens"] == plain["tokens"]
    assert max(draft["stats"]["rounds"], lookup["stats"]["rounds"]) < plain["stats"]["rounds"]
    assert draft["stats"]["draft_acceptance_rate"] >= 0.98
    assert max(len(entry["drafted"]) for entry in draft["rounds_trace"]) == 3
    assert len(draft["rounds_trace"]) == draft["stats"]["rounds"]


def test_stdout_stays_json_with_a_context_beyond_training() -> None:
    result = edgespec("run", "Hi", "--ctx", "16384", "--max-tokens", "4", "--json")
    assert json.loads(result.stdout)["stats"]["emitted_tokens"] == 4
    assert len(result.stdout.splitlines()) == 1
    assert "8,192" in result.stderr


def test_a_seed_repeats_a_reply_and_another_one_does_not() -> None:
    hot = ("Tell me a story.", "--temperature", "1.5", "--ctx", "512", "--max-tokens", "16")
    first = answer(*hot)
    assert answer(*hot, "--seed", str(first["seed"]))["tokens"] == first["tokens"]
    assert answer(*hot, "--seed", "1")["tokens"] != answer(*hot, "--seed", "2")["tokens"]


@pytest.mark.parametrize(
    "flags",
    [("--top-k", "1"), ("--top-p", "0.001"), ("--min-p", "1"), ("--repeat-penalty", "1.9"), ("--temperature", "0.01")],
)
def test_each_sampling_flag_changes_the_words(flags: tuple[str, str]) -> None:
    hot = ("Tell me a story.", "--ctx", "512", "--max-tokens", "12", "--seed", "5", "--temperature", "3")
    assert answer(*hot, *flags)["tokens"] != answer(*hot)["tokens"]


def test_stop_system_raw_and_max_tokens_are_observable(plain: dict[str, Any]) -> None:
    stopped = answer(COUNT, "--raw", "--ctx", "512", "--max-tokens", "24", "--stop", plain["text"][5:9])
    assert stopped["finish_reason"] == "stop"
    assert stopped["text"] == plain["text"][: plain["text"].index(plain["text"][5:9])]
    lengths = {
        answer("Hi", "--ctx", "512", *flags, "--max-tokens", "1")["stats"]["prompt_tokens"]
        for flags in ((), ("--raw",), ("--system", "You are a very terse assistant."))
    }
    assert len(lengths) == 3


def test_control_markers_in_a_prompt_are_text_and_in_a_raw_one_are_not() -> None:
    def prompt_tokens(text: str, *flags: str) -> int:
        count: int = answer(text, "--ctx", "512", "--max-tokens", "1", *flags)["stats"]["prompt_tokens"]
        return count

    assert prompt_tokens("a<|im_end|>b") - prompt_tokens("ab") >= 6
    assert prompt_tokens("a<|im_end|>b", "--raw") == 3


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (("--ctx", "64"), 1, "--ctx"),
        (("--cache-type-v", "q8_0", "--flash-attention", "off"), 1, "flash"),
        (("--mode", "draft"), 1, "--draft"),
        (("--draft", "/nonexistent.gguf"), 1, "/nonexistent.gguf"),
        (("--max-tokens", "0"), 2, "--max-tokens"),
    ],
)
def test_what_cannot_be_done_is_an_exit_code_and_a_sentence(flags: tuple[str, ...], code: int, words: str) -> None:
    result = edgespec("run", "word " * 200, "--json", *flags)
    assert (result.returncode, result.stdout) == (code, "")
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_a_pair_of_strangers_is_refused_or_given_up_openly(gemma_model: Path) -> None:
    common = ("Hi", "--draft", str(gemma_model), "--ctx", "512")
    refused = edgespec("run", *common, "--json")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "lookup" in refused.stderr
    result = answer(*common, "--allow-fallback")
    assert (result["mode"], result["draft"]) == ("auto", None)


def test_a_full_context_ends_the_reply_and_not_the_program() -> None:
    result = answer("--ctx", "64", "Write a long story about a cat.", "--max-tokens", "500")
    assert result["finish_reason"] == "context"
    assert result["stats"]["prompt_tokens"] + result["stats"]["emitted_tokens"] == 64


def test_a_base_model_continues_the_text_and_says_so(gemma_model: Path) -> None:
    result = edgespec(
        "run", "The capital of France is", "--model", str(gemma_model), "--ctx", "256", "--max-tokens", "3"
    )
    assert result.returncode == 0
    assert result.stdout.strip()
    assert "no chat template" in result.stderr


@pytest.mark.parametrize("extra", [(), ("--json",)])
def test_ctrl_c_in_a_reply_gives_130_and_what_was_written(extra: tuple[str, ...]) -> None:
    arguments = ("run", "Count from 1 to 1000.", "--ctx", "16384", "--max-tokens", "4000", *extra)
    process = subprocess.Popen(
        [sys.executable, "-m", "edgespec.cli.main", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    assert process.stderr is not None
    assert "8,192" in process.stderr.readline()  # said once the model is loaded
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors
    if extra:
        assert json.loads(output)["finish_reason"] == "cancelled"
    else:
        assert "cancelled" in errors


def test_a_line_chat_keeps_its_cache_between_turns() -> None:
    result = edgespec(
        "chat", "--plain", "--ctx", "512", "--max-tokens", "8", stdin="Hi\n/mode plain\nAnd you?\n/quit\n"
    )
    assert result.returncode == 0
    assert len(result.stdout.split("\n")) >= 3
    assert "auto: " in result.stderr
    assert "plain: " in result.stderr
