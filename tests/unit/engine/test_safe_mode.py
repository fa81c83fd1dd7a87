"""Safe mode: a crash while loading is tried again without the fastest kernels, and remembered."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fake_host import crash, fake_host, loaded, send, starts_of

from edgespec.engine import safemode
from edgespec.engine.client import Engine
from edgespec.engine.messages import EngineLost, GenerationDone, Loaded, LoadOptions
from edgespec.engine.safemode import SafeModeMemory
from edgespec.errors import EngineError

OPTIONS = LoadOptions("target.gguf")


def safe_modes(command: list[str]) -> list[bool]:
    return [start["safe_mode"] for start in starts_of(command)]


@pytest.mark.parametrize("name", ["SIGILL", "SIGSEGV", "SIGBUS"])
def test_a_crash_while_loading_is_tried_again_in_safe_mode_and_told_once(tmp_path: Path, name: str) -> None:
    command = fake_host(tmp_path, load=[crash(name, unless_safe_mode=True), send(loaded(safe_mode=True))])
    with Engine(OPTIONS, command=command) as engine:
        assert name in engine.loaded.notices[0]
        assert "-mno-amx" in engine.loaded.notices[0]
    with Engine(OPTIONS, command=command) as engine:
        assert engine.loaded.notices == ()
        assert engine.loaded.safe_mode
    assert safe_modes(command) == [False, True, True]


def test_a_crash_in_safe_mode_too_is_an_error_and_not_remembered(tmp_path: Path) -> None:
    command = fake_host(tmp_path, load=[crash("SIGILL")])
    with pytest.raises(EngineError, match="SIGILL"):
        Engine(OPTIONS, command=command)
    assert safe_modes(command) == [False, True]
    assert not SafeModeMemory().applies()


@pytest.mark.parametrize("name", ["SIGABRT", "SIGKILL"])
def test_other_deaths_are_not_tried_again(tmp_path: Path, name: str) -> None:
    command = fake_host(tmp_path, load=[crash(name)])
    with pytest.raises(EngineError, match=name):
        Engine(OPTIONS, command=command)
    assert safe_modes(command) == [False]


def test_forced_safe_mode_is_not_remembered(tmp_path: Path) -> None:
    command = fake_host(tmp_path)
    with Engine(LoadOptions("target.gguf", safe_mode=True), command=command) as engine:
        assert engine.loaded.notices == ()
    with Engine(OPTIONS, command=command):
        pass
    assert safe_modes(command) == [True, False]


def test_a_restart_stays_in_safe_mode(tmp_path: Path) -> None:
    command = fake_host(tmp_path, load=[crash("SIGILL", unless_safe_mode=True), send(loaded(safe_mode=True))])
    with Engine(OPTIONS, command=command) as engine:
        engine.restart()
    assert safe_modes(command) == [False, True, True]


def test_an_illegal_instruction_in_a_reply_leads_to_safe_mode_too(tmp_path: Path) -> None:
    command = fake_host(tmp_path, starts=[{"replies": [[crash("SIGILL")]]}, {}])
    with Engine(OPTIONS, command=command) as engine:
        assert isinstance(list(engine.generate("hello"))[-1], EngineLost)
        events = list(engine.generate("hello"))
    assert isinstance(events[0], Loaded) and any("safe mode" in notice for notice in events[0].notices)
    assert isinstance(events[-1], GenerationDone)
    assert safe_modes(command) == [False, True]
    assert SafeModeMemory().applies()


def test_other_deaths_in_a_reply_do_not_lead_to_safe_mode(tmp_path: Path) -> None:
    command = fake_host(tmp_path, starts=[{"replies": [[crash("SIGSEGV")]]}, {}])
    with Engine(OPTIONS, command=command) as engine:
        list(engine.generate("hello"))
        list(engine.generate("hello"))
    assert safe_modes(command) == [False, False]


def test_deleting_the_file_forgets() -> None:
    memory = SafeModeMemory()
    memory.remember("SIGILL")
    assert memory.applies()
    memory.path.unlink()
    assert not memory.applies()


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"a": 1}', b"\xff\xfe", b"null"])
def test_a_damaged_file_is_ignored_with_a_notice(tmp_path: Path, content: bytes) -> None:
    memory = SafeModeMemory()
    memory.path.parent.mkdir(parents=True)
    memory.path.write_bytes(content)
    with Engine(OPTIONS, command=fake_host(tmp_path)) as engine:
        assert "damaged" in engine.loaded.notices[0]
    memory.remember("SIGILL")
    assert SafeModeMemory().applies()


def test_a_folder_that_cannot_be_written_is_a_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EDGESPEC_CACHE_DIR", str(tmp_path / "file" / "cache"))
    command = fake_host(tmp_path, load=[crash("SIGILL", unless_safe_mode=True), send(loaded(safe_mode=True))])
    with Engine(OPTIONS, command=command) as engine:
        assert any("could not be remembered" in notice for notice in engine.loaded.notices)


def test_another_build_of_the_library_is_tried_afresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "libggml-cpu.so"
    library.write_bytes(b"old build")
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(tmp_path))
    memory = SafeModeMemory()
    memory.remember("SIGILL")
    assert memory.applies()
    os.utime(library, (1, 1))
    assert not memory.applies()
    memory.remember("SIGILL")
    library.write_bytes(b"another build")
    assert not memory.applies()


def test_another_processor_is_tried_afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = SafeModeMemory()
    memory.remember("SIGILL")
    monkeypatch.setattr(safemode, "processor", lambda: "another")
    assert not memory.applies()
    memory.remember("SIGILL")
    monkeypatch.undo()


def test_the_library_is_found_without_loading_it() -> None:
    path = safemode.library_file()
    assert path is not None and "ggml-cpu" in path.name


def test_a_missing_library_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(tmp_path / "nowhere"))
    assert safemode.library_file() is None
    assert not SafeModeMemory().applies()
