"""The machine is described, and a broken llama.cpp is a finding, not a crash."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from edgespec import diagnosis, trial
from edgespec import hardware as hw
from edgespec.cli.doctor import command
from edgespec.finding import Finding, Status

AMX_CPU = """processor\t: 0
model name\t: Intel(R) Xeon(R) Processor
flags\t\t: fpu avx avx2 fma f16c bmi2 avx512f avx512_vnni amx_bf16 amx_tile amx_int8
"""
FACTS = hw.LibraryFacts("llama.cpp 1", "/lib.so", ("AVX", "AVX2", "FMA", "F16C", "BMI2"), False, ())


def cpu(text: str = AMX_CPU) -> hw.Processor:
    name, flags = hw.parse_cpuinfo(text)
    return hw.Processor(name, 4, 8, tuple(flag for flag in hw.KNOWN_FEATURES if flag in flags))


def test_the_processor_is_read_from_the_systems_words() -> None:
    assert cpu().name == "Intel(R) Xeon(R) Processor"
    assert "amx_int8" in cpu().features
    assert hw.parse_cpuinfo("") == ("", ())
    assert hw.processor().physical_cores >= 1


def test_features_that_the_build_leaves_idle_are_named() -> None:
    found = diagnosis.processor_finding(cpu(), FACTS)
    assert found.status is Status.WARNING
    assert "does not use AVX512, AVX512_VNNI" in found.value
    assert "GGML_NATIVE" in found.advice
    used = replace(FACTS, used_features=(*FACTS.used_features, "AVX512", "AVX512_VNNI"))
    assert diagnosis.processor_finding(cpu(), used).status is Status.GOOD


def test_amx_that_crashed_is_named_with_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgespec.engine.safemode.SafeModeMemory.applies", lambda self: True)
    found = diagnosis.amx_finding(cpu(), FACTS)
    assert found.status is Status.WARNING
    assert "AMX is announced by the processor but cannot be used" in found.value
    assert "-mno-amx-tile" in found.advice


def test_amx_that_is_not_announced_is_not_spoken_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgespec.engine.safemode.SafeModeMemory.applies", lambda self: False)
    found = diagnosis.amx_finding(cpu(AMX_CPU.replace("amx_int8", "")), FACTS)
    assert (found.status, found.value) == (Status.GOOD, "off")


def fake_probe(monkeypatch: pytest.MonkeyPatch, code: int = 0, out: str = "", err: str = "") -> None:
    done = subprocess.CompletedProcess([], code, out, err)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)


@pytest.mark.parametrize(
    ("code", "err", "sentence"),
    [
        (-4, "", "llama.cpp dies on start (SIGILL)."),
        (1, "Traceback\nModuleNotFoundError: No module named 'llama_cpp'", "llama-cpp-python is not installed."),
        (1, "Traceback\nOSError: libllama.so: cannot open", "llama.cpp cannot be loaded: libllama.so: cannot open."),
        (1, "", "llama.cpp cannot be loaded: no message."),
        (0, "", "llama.cpp's answer could not be read."),
    ],
)
def test_a_library_that_says_nothing_is_explained(
    monkeypatch: pytest.MonkeyPatch, code: int, err: str, sentence: str
) -> None:
    fake_probe(monkeypatch, code, err=err)
    found = hw.ask_library()
    assert isinstance(found, hw.LibraryFault)
    assert found.message == sentence
    assert found.hint


def test_a_library_that_hangs_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*_: Any, **__: Any) -> None:
        raise subprocess.TimeoutExpired("x", 1)

    monkeypatch.setattr(subprocess, "run", hang)
    assert "did not answer within" in str(hw.ask_library())


def test_what_the_library_says_is_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    card = {"name": "CUDA0", "description": "Card", "backend": "CUDA", "kind": "gpu", "free_bytes": 7, "total_bytes": 9}
    answer = {
        "version": "v", "path": "p", "gpu_offload": True, "devices": [card],
        "system_info": "CPU : SSE3 = 1 | AVX2 = 1 | AMX_INT8 = 0 | ",
    }  # fmt: skip
    fake_probe(monkeypatch, out="noise\n" + json.dumps(answer))
    found = hw.ask_library()
    assert isinstance(found, hw.LibraryFacts)
    assert found.used_features == ("SSE3", "AVX2")
    assert hw.machine(found).device_free == 7
    assert "Card (7 bytes of 9 bytes free)" in diagnosis.devices_finding(found).value


@pytest.mark.model
def test_this_machines_library_answers() -> None:
    found = hw.ask_library()
    assert isinstance(found, hw.LibraryFacts)
    assert found.devices
    assert hw.machine(found).memory == hw.memory_bytes()[0]


def one(
    monkeypatch: pytest.MonkeyPatch, library: hw.LibraryFacts | hw.LibraryFault, *arguments: str
) -> tuple[int, str]:
    monkeypatch.setattr(hw, "ask_library", lambda: library)
    monkeypatch.setattr(diagnosis, "_reach", lambda endpoint: None)
    done = CliRunner().invoke(command, [*arguments], standalone_mode=False)
    assert done.exception is None
    return done.return_value, done.output


def test_a_broken_library_leaves_all_other_findings_and_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = hw.LibraryFault("llama.cpp cannot be loaded: gone.", "Install it again.")
    code, output = one(monkeypatch, fault)
    assert code == 1
    assert "FAIL  library       llama.cpp cannot be loaded: gone." in output
    assert "-> Install it again." in output
    for name in (
        "python",
        "processor",
        "memory",
        "threads",
        "cache",
        "registry",
        "hub",
        "terminal",
        "power",
        "settings",
    ):
        assert f"  {name} " in output


def test_a_sound_machine_is_exit_code_0_and_one_json_object(monkeypatch: pytest.MonkeyPatch) -> None:
    code, output = one(monkeypatch, FACTS, "--json", "--quick")
    found = json.loads(output)
    assert (code, found["ok"]) == (0, True)
    names = [finding["name"] for finding in found["findings"]]
    assert len(set(names)) == len(names) >= 14
    assert all(finding["advice"] or finding["status"] in ("good", "note") for finding in found["findings"])


def test_a_broken_registry_or_settings_file_is_a_finding(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EDGESPEC_CONFIG", str(tmp_path / "config.toml"))
    (tmp_path / "config.toml").write_text("= broken")
    monkeypatch.setattr("edgespec.models.registry.user_file", lambda: tmp_path / "config.toml")
    code, output = one(monkeypatch, FACTS, "--quick")
    assert code == 1
    assert "FAIL  settings" in output
    assert "FAIL  registry" in output


def test_a_check_that_fails_itself_is_a_warning() -> None:
    def odd() -> Finding:
        raise RuntimeError("no")

    (found,) = diagnosis._each(odd)
    assert (found.status, found.value) == (Status.WARNING, "could not be looked at: RuntimeError: no")


def test_the_token_is_mentioned_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secretsecret")
    for arguments in (["--quick"], ["--quick", "--json"]):
        _, output = one(monkeypatch, FACTS, *arguments)
        assert "a token is set" in output
        assert "secret" not in output


def test_unfinished_downloads_are_mentioned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    blobs = tmp_path / "models--a--b" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / "x.12345678.incomplete").write_bytes(bytes(5000))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.delenv("LLAMA_CACHE", raising=False)
    found = diagnosis.cache()
    assert "1 unfinished (5 kB)" in found.value
    assert "to continue" in found.advice


@pytest.mark.model
def test_the_demo_model_runs_and_the_cost_of_checking_is_measured(demo_model: Path) -> None:
    ran = trial.run_demo(demo_model, threads=1)
    assert ran.status is Status.GOOD
    assert ran.facts["tokens_per_second"] > 0
    cost = trial.pass_cost(demo_model, bool(ran.facts["safe_mode"]), threads=1)
    assert cost.facts["ratio"] > 0


@pytest.mark.model
def test_with_the_library_file_gone_everything_else_is_still_found(tmp_path: Path) -> None:
    spec = importlib.util.find_spec("llama_cpp")
    assert spec is not None
    code = "import sys; from edgespec.cli.main import main; sys.exit(main(['doctor', '--quick', '--json']))"
    environment = {
        "LLAMA_CPP_LIB_PATH": str(tmp_path),
        "HF_HUB_OFFLINE": "1",
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
    }
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 1
    found = {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert found["library"]["status"] == "broken"
    assert found["memory"]["facts"]["total"] > 0
