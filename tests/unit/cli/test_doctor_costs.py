"""`edgespec doctor --costs`: what is known, what is not, and measuring anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cli_fakes import Cli
from fake_host import starts_of
from tiny_gguf_bytes import model as tiny_model

from edgespec.engine.knowledge import Knowledge, knowledge_path
from edgespec.engine.messages import LoadOptions
from edgespec.surroundings import as_loaded, look_around

Scripted = Callable[..., list[str]]


@pytest.fixture(autouse=True)
def no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgespec.hardware.may_have_device", lambda: False)


@pytest.fixture
def target(tmp_path: Path) -> str:
    path = tmp_path / "target [1].gguf"
    path.write_bytes(tiny_model().bytes())
    return str(path)


def learn(target: str, draft: str | None = None) -> Path:
    """Leave behind what replies would have."""
    path = knowledge_path(*as_loaded(look_around(LoadOptions(target, draft, threads=2)).load))
    knowledge = Knowledge.load(path)
    knowledge.costs.calibrate([{1: 0.05, 2: 0.0625, 4: 0.06, 5: 0.15}] * 5, step=0.005, prompt_token=0.001)
    knowledge.costs.at(3000)
    knowledge.costs.calibrate([{1: 0.05, 4: 0.09}] * 9)
    knowledge.save()
    return path


TABLE = """\
tokens in a pass  plain steps  per token  copies pay from  drafts pay from
               1         1.00       1.00
               2         1.25       0.62              25%              35%
               4         1.20       0.30              17%              34%
               5         3.00       0.60              74%              81%
"""


def test_what_is_known_is_shown_with_its_age_and_its_base(cli: Cli, target: str) -> None:
    path = learn(target, target)
    result = cli("doctor", "--costs", "--model", target, "--draft", target, "--threads", "2")
    assert result.code == 0
    assert result.out.startswith("target [1].gguf with target [1].gguf drafting, 2 threads\n")
    assert "A plain step, a pass of one token, takes 50.0 ms." in result.out
    assert "A draft step costs 0.10 plain steps (c)" in result.out
    assert TABLE in result.out
    assert "From 38 timed passes" in result.out and "Last changed 20" in result.out
    assert str(path) in result.out
    assert "context up to  1,024  4,096\n" in result.out
    assert "    pass of 4   1.20   1.80\n" in result.out
    assert all(len(line) <= 80 for line in result.out.splitlines() if str(path) not in line)


def test_without_a_draft_model_no_draft_step_is_shown(cli: Cli, target: str) -> None:
    learn(target)
    result = cli("doctor", "--costs", "--model", target, "--threads", "2")
    assert "draft step" not in result.out and "drafts pay" not in result.out
    assert "copies pay from" in result.out


def test_what_was_never_measured_is_said_with_what_to_do(cli: Cli, target: str) -> None:
    learn(target)
    result = cli("doctor", "--costs", "--model", target, "--threads", "3")  # kept for two threads only
    assert result.code == 0
    assert "Nothing was measured yet" in result.out and "--measure" in result.out
    assert cli("doctor", "--costs", "--model", target, "--threads", "3", "--json").json["measured"] is None


def test_json_holds_every_curve(cli: Cli, target: str) -> None:
    path = learn(target, target)
    found = cli("doctor", "--costs", "--model", target, "--draft", target, "--threads", "2", "--json").json
    assert (found["model"], found["draft"], found["threads"]) == (target, target, 2)
    measured = found["measured"]
    assert measured["timed_passes"] == 38 and measured["file"] == str(path)
    assert measured["plain_step_seconds"] == 0.05
    assert measured["draft_step_cost"] == pytest.approx(0.1)
    short, long = measured["pass_cost"]
    assert (short["longest_context"], long["longest_context"]) == (1024, 4096)
    assert short["cost"]["5"] == pytest.approx(3) and long["cost"]["4"] == pytest.approx(1.8)


def test_measuring_loads_the_models_once(cli: Cli, scripted: Scripted, target: str) -> None:
    command = scripted()
    result = cli("doctor", "--costs", "--measure", "--model", target, "--threads", "2")
    assert result.code == 0, result.err
    assert [start["target"] for start in starts_of(command)] == [target]


@pytest.mark.parametrize("arguments", [("--measure",), ("--threads", "2"), ("--costs", "--quick")])
def test_flags_that_would_have_no_effect_are_wrong_usage(cli: Cli, arguments: tuple[str, ...]) -> None:
    assert cli("doctor", *arguments).code == 2


def test_a_model_that_is_not_there_is_an_error(cli: Cli, tmp_path: Path) -> None:
    result = cli("doctor", "--costs", "--model", str(tmp_path / "none.gguf"))
    assert (result.code, result.out) == (1, "")
    assert "none.gguf" in result.err
