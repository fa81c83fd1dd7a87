"""How long a cold `edgespec chat` takes until it shows the first key and the first token of a short prompt.

Every repeat starts the app anew in a pseudo terminal, types a letter as soon as the message box is drawn, writes
a prompt and presses Enter, whether the model is loaded or not. Times count from the start of the process. Two starts
beforehand fill the file cache and let EdgeSpec measure what passes cost here, which it keeps.

    python scripts/bench_start.py [MODEL]
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import monotonic, sleep

import click
from app_terminal import LETTERS, Terminal, TerminalError
from bench_common import demo_model

from edgespec.decoding.sampling import SamplingParams
from edgespec.engine import messages as m
from edgespec.engine.client import Engine

PROMPT = "Say hello to me."
READY = b"rite a message"
"""Of what the empty message box says: the cursor may lie on the first letter."""
FIRST_KEY_LIMIT, FIRST_TOKEN_LIMIT = 1.5, 3.0
PATIENCE = 30.0


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds from the start of the process."""

    first_key: float
    first_token: float


def first_word(model: Path) -> str:
    """The first token of the greedy reply, which must be a word that can be told from what the app itself says."""
    options = m.GenerateOptions(sampling=SamplingParams(temperature=0), max_tokens=1)
    with Engine.open(model) as engine:
        text = "".join(
            event.round.pieces[0].decode("utf-8", "replace")
            for event in engine.generate((m.Message("user", PROMPT),), options)
            if isinstance(event, m.RoundDone)
        ).strip()
    if len(text) < 4 or text in PROMPT:
        raise click.ClickException(f"{model} begins its reply with {text!r}, which cannot be waited for.")
    return text


def start(model: Path, word: str, environment: dict[str, str], rest: float) -> Start:
    """One cold start. Raises TerminalError if the app does not show what is waited for."""
    begun = monotonic()
    command = [sys.executable, "-m", "edgespec.cli.main", "chat", "--model", str(model), "--temperature", "0"]
    terminal = Terminal(command, environment)
    try:
        terminal.wait_for_text(READY, PATIENCE)
        terminal.echo(LETTERS[0], PATIENCE)
        key = monotonic() - begun
        terminal.rest(0.2)
        terminal.keys("\x15")  # Ctrl+U empties the box
        terminal.rest(0.1)
        terminal.keys(PROMPT)
        terminal.rest(0.1)
        terminal.keys("\r")
        terminal.wait_for_text(word.encode(), PATIENCE)
        token = monotonic() - begun
        terminal.rest(rest)
    finally:
        terminal.close()
    return Start(key, token)


@click.command(help=__doc__)
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=False)
@click.option("--repeats", type=click.IntRange(1), default=5)
@click.option("--json", "output", type=click.Path(dir_okay=False, path_type=Path), help="Write the figures there too.")
def main(model: Path | None, repeats: int, output: Path | None) -> None:
    model = model or demo_model()
    with tempfile.TemporaryDirectory() as folder:
        own = {"EDGESPEC_CACHE_DIR": f"{folder}/cache", "XDG_DATA_HOME": f"{folder}/data"}
        environment = {**os.environ, **own, "TERM": "xterm-256color"}
        os.environ.update(own)
        word = first_word(model)
        try:
            for _ in range(2):
                start(model, word, environment, rest=4.0)
            starts = []
            for _ in range(repeats):
                sleep(1)
                starts.append(start(model, word, environment, rest=0.0))
        except TerminalError as error:
            raise click.ClickException(str(error)) from error
    keys, tokens = [s.first_key for s in starts], [s.first_token for s in starts]
    click.echo(f"first key shown after   {median(keys):.2f} s (from {min(keys):.2f} to {max(keys):.2f}); "
               f"at most {FIRST_KEY_LIMIT} wanted")  # fmt: skip
    click.echo(f"first token shown after {median(tokens):.2f} s (from {min(tokens):.2f} to {max(tokens):.2f}); "
               f"at most {FIRST_TOKEN_LIMIT} wanted")  # fmt: skip
    if output is not None:
        output.write_text(json.dumps({"first_key": keys, "first_token": tokens}), "utf-8")


if __name__ == "__main__":
    main()
