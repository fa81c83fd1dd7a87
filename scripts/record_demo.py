"""Record the app in a real terminal (tmux) on a real model, as an SVG that moves.

    python scripts/record_demo.py [--model SPEC] [--draft SPEC] [--out docs/demo.svg]

A new user's first minutes: ask, watch, switch the view, race the modes, export. Keys go in through tmux, pictures come
out through it, so what is recorded is what a terminal shows. Needs tmux.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
WIDTH, HEIGHT = 112, 32
QUESTION = "Write a Python class for a stack with push, pop and peek."
LONGEST_WAIT = 180.0
"""Seconds that anything may take before the recording is given up."""


@dataclass
class Terminal:
    """A tmux server of its own, with one window."""

    socket: str
    frames: list[tuple[float, str]] = field(default_factory=list)

    def tmux(self, *words: str) -> str:
        """Run a tmux command; what it printed."""
        done = subprocess.run(["tmux", "-L", self.socket, *words], capture_output=True, text=True, check=True)
        return done.stdout

    def start(self, command: str, folder: str) -> None:
        """Open the window with this command in it."""
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(WIDTH), "-y", str(HEIGHT), "-c", folder, command)

    def stop(self) -> None:
        """End the server and what runs in it."""
        subprocess.run(["tmux", "-L", self.socket, "kill-server"], check=False, capture_output=True)

    def keys(self, *names: str) -> None:
        """Press keys, in tmux's names."""
        self.tmux("send-keys", *names)

    def write(self, text: str) -> None:
        """Type a text."""
        for word in re.findall(r"\S+\s*", text):
            self.tmux("send-keys", "-l", word)
            self.take(0.2)

    @property
    def text(self) -> str:
        """What is on the screen."""
        return self.tmux("capture-pane", "-p")

    def take(self, seconds: float) -> None:
        """Keep a picture of the screen, to be shown this long."""
        time.sleep(min(seconds, 0.4))
        picture = self.tmux("capture-pane", "-p", "-e", "-N")
        if self.frames and self.frames[-1][1] == picture:
            self.frames[-1] = (self.frames[-1][0] + seconds, picture)
        else:
            self.frames.append((seconds, picture))

    def wait(self, words: str, *, film: float = 0.0, gone: bool = False) -> None:
        """Wait until these words are on the screen (or gone); with `film`, take a picture every so often."""
        end = time.monotonic() + LONGEST_WAIT
        while (words in self.text) == gone:
            if time.monotonic() > end:
                raise SystemExit(f"Waited for {words!r} in vain. The screen:\n{self.text}")
            if film:
                self.take(film)
            else:
                time.sleep(0.2)


def play(terminal: Terminal) -> None:
    """What is shown."""
    terminal.wait("Ready")
    terminal.take(1.0)
    terminal.write(QUESTION)
    terminal.keys("Enter")
    terminal.wait("Stop")
    terminal.wait("Stop", film=0.8, gone=True)
    terminal.take(2.0)
    terminal.keys("C-g")
    terminal.wait("Pass 1")
    terminal.keys("Down", "Down", "Down")
    terminal.take(1.8)
    terminal.keys("Escape")
    terminal.wait("Compare")
    terminal.keys("F4")
    terminal.wait("Modes, up to")
    terminal.take(1.5)
    terminal.keys("F4")
    terminal.wait("run 1 of")
    terminal.wait("tok/s (min", film=2.0)
    terminal.wait("■ end", film=0.6)
    terminal.take(3.0)
    terminal.keys("e")
    terminal.wait("Written")
    terminal.take(1.5)


def svg_of(frames: list[tuple[float, str]]) -> str:
    """All pictures in one SVG, each shown for its time."""
    whole = sum(seconds for seconds, _ in frames)
    parts, rules, at = [], [], 0.0
    head = ""
    for i, (seconds, picture) in enumerate(frames):
        console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
        lines = picture.rstrip("\n").split("\n")
        lines += [""] * (HEIGHT - len(lines))
        console.print(Text.from_ansi("\n".join(lines)), no_wrap=True, overflow="crop", soft_wrap=False)
        svg = console.export_svg(title="edgespec chat", unique_id=f"f{i}")
        head, body = re.match(r"(?s)(<svg[^>]*>)(.*)</svg>\s*$", svg).groups()  # type: ignore[union-attr]
        body = re.sub(r'(?s)<clipPath id="f\d+-line-.*?</clipPath>\s*| clip-path="url\(#f\d+-line-\d+\)"', "", body)
        if i:
            body = re.sub(r"(?s)@font-face \{.*?\}\s*", "", body)
        start, end = 100 * at / whole, 100 * (at + seconds) / whole
        rules.append(
            f"#frame{i}{{visibility:hidden;animation:k{i} {whole:.1f}s step-end infinite}}"
            f"@keyframes k{i}{{0%{{visibility:{'visible' if not i else 'hidden'}}}"
            f"{start:.3f}%{{visibility:visible}}{end:.3f}%{{visibility:hidden}}100%{{visibility:hidden}}}}"
        )
        parts.append(f'<g id="frame{i}">{body}</g>')
        at += seconds
    return f"{head}<style>{''.join(rules)}</style>{''.join(parts)}</svg>\n"


def main() -> None:
    """Record, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="demo", help="what to load; default: the demo model")
    parser.add_argument("--draft", help="its draft model")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "demo.svg")
    wanted = parser.parse_args()
    if shutil.which("tmux") is None:
        parser.error("tmux is not installed")
    terminal = Terminal(f"edgespec-demo-{os.getpid()}")
    words = [sys.executable, "-m", "edgespec.cli.main", "chat", "--model", wanted.model, "--temperature", "0"]
    words += ["--max-tokens", "160", *(["--draft", wanted.draft] if wanted.draft else [])]
    with tempfile.TemporaryDirectory() as home:
        setting = " ".join(f"XDG_{name}_HOME={shlex.quote(home)}" for name in ("DATA", "STATE", "CONFIG"))
        try:
            terminal.start(f"COLORTERM=truecolor {setting} {shlex.join(words)}", home)
            play(terminal)
        finally:
            terminal.stop()
    wanted.out.write_text(svg_of(terminal.frames), encoding="utf-8")
    print(f"{wanted.out}: {len(terminal.frames)} pictures, {wanted.out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
