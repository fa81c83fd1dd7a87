"""The app in a real terminal: it leaves when the terminal does."""

from __future__ import annotations

import os
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
