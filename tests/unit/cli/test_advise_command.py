"""`edgespec advise` from the command line: what it prints, writes, measures and refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from cli_fakes import Cli
from fake_host import reply, starts_of
from tiny_gguf_bytes import model as tiny_model

from edgespec.cli.advise import KINDS
from edgespec.decoding.auto_report import AutoReport
from edgespec.engine.knowledge import Knowledge, knowledge_path
from edgespec.engine.messages import LoadOptions
from edgespec.engine.safemode import SafeModeMemory, cache_folder
from edgespec.llama.context import physical_cores
from edgespec.models.fit import TIGHT_SHARE, estimate
from edgespec.placement import setup_of, shapes

Scripted = Callable[..., list[str]]


@pytest.fixture(autouse=True)
def no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgespec.hardware.may_have_device", lambda: False)


def write_model(path: Path, numbers: int) -> str:
    tiny = tiny_model()
    tiny.tensors = {"token_embd.weight": 256, "blk.0.w.weight": numbers}
    path.write_bytes(tiny.bytes())
    return str(path)


@pytest.fixture
def target(tmp_path: Path) -> str:
    return write_model(tmp_path / "target.gguf", 100_000)


@pytest.fixture
def draft(tmp_path: Path) -> str:
    return write_model(tmp_path / "draft.gguf", 3_000)


def test_without_a_kind_there_is_a_line_for_each(cli: Cli, target: str) -> None:
    result = cli("advise", "--model", target)
    assert result.code == 0
    assert [line.split()[0] for line in result.out.splitlines()[3:9]] == list(KINDS)
    assert "Costs (assumed)" in result.out


def test_a_kind_is_explained_with_its_assumptions(cli: Cli, target: str, draft: str) -> None:
    out = cli("advise", "code", "--model", target, "--draft", draft).out
    assert "target.gguf with draft.gguf drafting" in out
    assert "For code (writing new code): --mode draft --draft-length" in out
    assert "Draft model: 75% of its tokens right (assumed)." in out


def test_flags_change_the_advice(cli: Cli, target: str, draft: str) -> None:
    base = ("advise", "code", "--model", target, "--draft", draft, "--json")
    plain = cli(*base).json["advice"][0]
    hot = cli(*base, "--temperature", "1.3").json["advice"][0]
    short = cli(*base, "--max-tokens", "4").json["advice"][0]
    assert hot["predicted_speedup"] < plain["predicted_speedup"]
    assert (short["mode"], plain["mode"]) == ("plain", "draft")


def test_a_draft_model_that_does_not_fit_beside_the_target_is_not_advised(
    cli: Cli, target: str, draft: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs = []
    for options in (LoadOptions(target), LoadOptions(target, draft)):
        found = shapes(options)
        needs.append(estimate(*found, setup_of(options, found[0])).total)
    monkeypatch.setattr("edgespec.hardware.memory_bytes", lambda: (int(sum(needs) / 2 / TIGHT_SHARE), 0))
    alone = cli("advise", "chat", "--model", target)
    assert alone.code == 0
    advice = cli("advise", "chat", "--model", target, "--draft", draft, "--json").json["advice"][0]
    assert advice["mode"] != "draft"
    assert any("No memory for the draft model. This needs" in sentence for sentence in advice["against"])


def test_what_earlier_replies_measured_is_used(cli: Cli, target: str) -> None:
    load = LoadOptions(target, gpu_layers=0, safe_mode=SafeModeMemory().applies())
    knowledge = Knowledge.load(knowledge_path(load, physical_cores()))
    knowledge.costs.calibrate([{1: 0.05, 2: 0.055, 4: 0.06, 8: 0.07}] * 5)
    knowledge.save()
    out = cli("advise", "edit", "--model", target).out
    assert "Costs (measured in earlier replies): passes of 2, 4 and 8 tokens cost 1.10, 1.20 and 1.40" in out
    assert "a plain step takes 50.0 ms" in out


def test_measuring_answers_prompts_of_the_kind_in_every_mode(cli: Cli, scripted: Scripted, target: str) -> None:
    report = AutoReport((), "", None, ((1, 1.0), (2, 1.1), (4, 1.3), (8, 1.5)), None, 0.02)
    *rounds, (verb, done) = reply("a b")
    command = scripted(replies=[[*rounds, (verb, replace(done, auto=report))]])
    result = cli("advise", "summary", "--model", target, "--measure")
    assert result.code == 0
    assert len(starts_of(command)) == 1
    assert [line.rsplit(" ", 1)[1] for line in result.err.splitlines() if line.startswith("summary: ")] == [
        "auto", "lookup",
    ]  # fmt: skip
    assert "Costs (measured now): passes of 2, 4 and 8 tokens cost 1.10, 1.30 and 1.50" in result.out


def test_curves_are_drawn_and_written(cli: Cli, target: str, tmp_path: Path) -> None:
    file = tmp_path / "curves.svg"
    result = cli("advise", "code", "--model", target, "--plot", "--svg", str(file))
    assert "Tokens per target pass" in result.out
    assert "Predicted speed-up" in result.out
    assert ElementTree.parse(file).getroot().tag.endswith("svg")


def test_a_plot_is_a_picture_too_in_the_cache_folder_unless_a_place_is_named(cli: Cli, target: str) -> None:
    result = cli("advise", "code", "--model", target, "--plot")
    (said,) = [line for line in result.err.splitlines() if line.startswith("The curves as a picture: ")]
    file = cache_folder() / "curves.svg"
    assert said.endswith(str(file))
    curves = list(ElementTree.parse(file).getroot().iter("{http://www.w3.org/2000/svg}polyline"))
    assert len(curves) == 3 + 3 + 3  # tokens a pass; speed-up here and ideally; for three acceptance rates


def test_a_measurement_of_a_few_tokens_is_said_to_be_one(cli: Cli, scripted: Scripted, target: str) -> None:
    report = AutoReport((), "", None, ((1, 1.0), (2, 1.1)), None, 0.02)
    *rounds, (verb, done) = reply("a b")
    scripted(replies=[[*rounds, (verb, replace(done, auto=report))]])
    out = cli("advise", "summary", "--model", target, "--measure").out
    assert "Fewer than 40 tokens were examined, so a rate was assumed" in out
    assert "--measure" not in out


@pytest.mark.parametrize(
    "arguments", [("poetry",), ("--plot", "--json"), ("--svg", "/nowhere/at/all.svg"), ("--stop", "x")]
)
def test_what_makes_no_sense_is_refused(cli: Cli, target: str, arguments: tuple[str, ...]) -> None:
    assert cli("advise", "--model", target, *arguments).code == 2


def test_a_model_that_is_not_whole_is_said_so(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "cut.gguf").write_bytes(b"GGUF")
    result = cli("advise", "--model", str(tmp_path / "cut.gguf"))
    assert result.code == 1
    assert "cut.gguf" in result.err


def test_help_names_the_kinds(cli: Cli) -> None:
    text = cli("advise", "--help").out
    assert all(kind in text for kind in KINDS)
