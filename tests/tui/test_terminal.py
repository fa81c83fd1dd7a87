"""The app in a real terminal: what reaches it, and how it is left."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import app_terminal
import psutil
import pytest


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
def test_the_app_and_its_engine_end_when_the_terminal_is_gone(tmp_path: Path) -> None:
    probe = Path(app_terminal.__file__).with_name("app_probe.py")
    command = [sys.executable, str(probe), str(tmp_path), "stub", "100", "plain", "10"]
    terminal = app_terminal.Terminal(command, {**os.environ, "TERM": "xterm-256color"})
    terminal.wait_for(tmp_path / "ready", 60)
    terminal.rest(0.5)
    engines = psutil.Process(terminal._child.pid).children()
    assert engines
    os.close(terminal._master)
    try:
        terminal._child.wait(30)
    finally:
        terminal._child.kill()
    assert not psutil.wait_procs(engines, timeout=10)[1]


@pytest.mark.model
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
def test_native_lines_never_reach_the_terminal_and_it_is_given_back(demo_model: Path, tmp_path: Path) -> None:
    """A context beyond what the model was trained for makes llama.cpp talk."""
    probe = Path(app_terminal.__file__).with_name("app_probe.py")
    flags = ["real", "--model", str(demo_model), "--ctx", "16384", "--threads", "1", "--max-tokens", "4"]
    terminal = app_terminal.Terminal(
        [sys.executable, str(probe), str(tmp_path), *flags],
        {**os.environ, "TERM": "xterm-256color"},
        keep=10**7,
    )
    try:
        terminal.wait_for(tmp_path / "ready", 60)
        terminal.rest(1.0)
        terminal.paste("Hello")
        terminal.keys("\r")
        terminal.wait_for(tmp_path / "reply-1.json", 60)
        terminal.keys("\x03")
        terminal.rest(0.5)
        terminal.keys("\x03")
        terminal.rest(5.0)
        assert terminal._child.wait(10) == 0
    finally:
        terminal.close()
    assert not re.search("llama_|ggml_|n_ctx_", terminal.last)
    assert "8,192" in terminal.last  # said by the app itself, in its own words
    assert terminal.last.rfind("\x1b[?1049l") > terminal.last.rfind("\x1b[?1049h") >= 0
