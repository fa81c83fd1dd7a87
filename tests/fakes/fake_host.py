"""A scripted engine host: replays events and dies on cue, so that what talks to the engine can be tested without one.

    command = fake_host(tmp_path, replies=[reply("Hello"), [crash("SIGKILL")]])
    with Engine(LoadOptions("t.gguf"), command=command) as engine: ...

A script is a list of steps. `load` runs when Load arrives, each list of `replies` for one Generate, the last one again
for every further one. `starts` gives each start of the process a script of its own, the last one again for further
ones.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from edgespec.decoding.stats import GenerationStats
from edgespec.engine import messages as m
from edgespec.engine import wire
from edgespec.engine.frames import read_frame, write_frame
from edgespec.types import Draft, FinishReason, Mode, Origin, Prefilled, Round, Verdict

Step = tuple[Any, ...]


# What a script is made of


def send(event: m.Event) -> Step:
    """Send this event; the id of the running generation is filled in."""
    return ("send", event)


def crash(name: str, unless_safe_mode: bool = False) -> Step:
    """Die of this signal."""
    return ("crash", name, unless_safe_mode)


def leave(code: int) -> Step:
    """Exit with this code."""
    return ("leave", code)


def raw(data: bytes) -> Step:
    """Write these bytes where a message should be."""
    return ("raw", data)


def log(line: str) -> Step:
    """Write a line to the native log."""
    return ("log", line)


def wait_for_cancel() -> Step:
    """Do nothing until the running generation is cancelled, then report that and skip the rest."""
    return ("wait_for_cancel",)


def hang() -> Step:
    """Do nothing for ever, deaf to Shutdown."""
    return ("hang",)


def echo() -> Step:
    """Answer with the repr of the Generate command."""
    return ("echo",)


def reply(text: str, **done: Any) -> list[Step]:
    """A reply that sends `text` word by word in plain rounds."""
    words = [word if i == 0 else f" {word}" for i, word in enumerate(text.split(" "))]
    rounds = [send(plain_round(i, word)) for i, word in enumerate(words)]
    prefilled = send(m.PrefillDone(0, Prefilled(prompt_tokens=8, cached_tokens=0, seconds=0.01)))
    return [prefilled, *rounds, send(done_event(text, **done))]


def plain_round(index: int, text: str) -> m.RoundDone:
    """One round without a draft."""
    verdict = Verdict(0, 100 + index, Origin.PLAIN)
    round_ = Round(index, Draft(()), verdict, (100 + index,), (text.encode(),), 0.0, 0.05, 0.0001)
    return m.RoundDone(0, round_, (text,), ())


def draft_round(index: int, accepted: Sequence[str], rejected: Sequence[str], own: str) -> m.RoundDone:
    """One round with a draft: some texts accepted, some rejected, and the target's own."""
    draft = Draft(tuple(range(200, 200 + len(accepted) + len(rejected))), source="lookup")
    verdict = Verdict(len(accepted), 300 + index, Origin.CORRECTED if rejected else Origin.BONUS)
    tokens = (*draft.tokens[: len(accepted)], 300 + index)
    texts = (*accepted, own)
    round_ = Round(index, draft, verdict, tokens, tuple(text.encode() for text in texts), 0.001, 0.05, 0.0001)
    return m.RoundDone(0, round_, texts, tuple(rejected))


def done_event(
    text: str, reason: FinishReason = FinishReason.STOP, mode: Mode = Mode.PLAIN, stats: GenerationStats | None = None
) -> m.GenerationDone:
    """The end of a reply."""
    return m.GenerationDone(0, reason, text, (), mode, stats or empty_stats())


def empty_stats() -> GenerationStats:
    """Statistics of a reply in which nothing happened."""
    return GenerationStats()


def loaded(**changes: Any) -> m.Loaded:
    """A target without a draft model."""
    model = m.ModelInfo("t.gguf", "Fake 1B", "llama", 10**9, 6 * 10**8, 1000, 4096, 4096, True, True)
    modes = {
        Mode.PLAIN: None, Mode.LOOKUP: None, Mode.DRAFT: "No draft model is loaded.", Mode.AUTO: None
    }  # fmt: skip
    event = m.Loaded(model, None, modes, threads=2, safe_mode=False, library="fake 0.0", load_seconds=0.5)
    return replace(event, **changes)


def fake_host(
    folder: Path,
    *,
    load: Sequence[Step] | None = None,
    replies: Sequence[Sequence[Step]] = (),
    starts: Sequence[dict[str, Any]] = (),
) -> list[str]:
    """The command line of a host that plays this script; `folder` keeps the script and counts the starts."""
    scripts = list(starts) or [{"load": load, "replies": replies}]
    path = folder / f"host-{len(list(folder.glob('host-*')))}.script"
    path.write_bytes(pickle.dumps([{"load": None, "replies": (), **script} for script in scripts]))
    return [sys.executable, __file__, str(path)]


def starts_of(command: Sequence[str]) -> list[dict[str, Any]]:
    """The load options of every start so far."""
    path = Path(command[-1] + ".starts")
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


# The host itself


class FakeHost:
    def __init__(self, script_path: Path) -> None:
        self.stdout = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)
        self.script_path = script_path
        self.commands: SimpleQueue[m.Command] = SimpleQueue()
        self.cancelled = 0
        self.deaf = False
        self.cancel = threading.Condition()
        self.options: m.LoadOptions | None = None

    def listen(self) -> None:
        stdin = os.fdopen(os.dup(0), "rb")
        while (data := read_frame(stdin)) is not None:
            command = wire.decode(data)
            if isinstance(command, m.Cancel):
                with self.cancel:
                    self.cancelled = max(self.cancelled, command.id)
                    self.cancel.notify_all()
            elif isinstance(command, m.Shutdown):
                break
            else:
                self.commands.put(command)
        if not self.deaf:
            os._exit(0)

    def run(self) -> None:
        scripts = pickle.loads(self.script_path.read_bytes())
        threading.Thread(target=self.listen, daemon=True).start()
        load = self.commands.get()
        assert isinstance(load, m.Load)
        self.options = load.options
        script = scripts[min(self.count_start(load.options), len(scripts) - 1)]
        default = [send(loaded(safe_mode=load.options.safe_mode))]
        self.play(default if script["load"] is None else script["load"], load)
        replies = [list(steps) for steps in script["replies"]] or [reply("Hello there, friend.")]
        while True:
            command = self.commands.get()
            if isinstance(command, m.Measure):
                self.send(m.Measured(command.id, 55), command.id)
                continue
            assert isinstance(command, m.Generate)
            self.play(replies.pop(0) if len(replies) > 1 else replies[0], command)

    def count_start(self, options: m.LoadOptions) -> int:
        path = Path(f"{self.script_path}.starts")
        before = len(path.read_text().splitlines()) if path.exists() else 0
        with path.open("a") as file:
            record = {"target": options.target, "draft": options.draft, "safe_mode": options.safe_mode}
            file.write(json.dumps(record) + "\n")
        return before

    def play(self, steps: Sequence[Step], command: m.Command) -> None:
        number = command.id if isinstance(command, m.Generate) else None
        for step in steps:
            if step == wait_for_cancel():
                with self.cancel:
                    self.cancel.wait_for(lambda: number is not None and self.cancelled >= number)
            if number is not None and self.cancelled >= number:
                self.send(done_event("", FinishReason.CANCELLED), number)
                return
            self.act(step, command, number)

    def act(self, step: Step, command: m.Command, number: int | None) -> None:
        match step:
            case ("send", event):
                self.send(event, number)
            case ("crash", name, unless_safe_mode):
                if not (unless_safe_mode and self.options is not None and self.options.safe_mode):
                    self.stdout.flush()
                    os.kill(os.getpid(), signal.Signals[name])
                    signal.pause()
            case ("leave", code):
                os._exit(code)
            case ("raw", data):
                self.stdout.write(data)
                self.stdout.flush()
            case ("log", line):
                os.write(2, f"{line}\n".encode())
            case ("hang",):
                self.deaf = True
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                threading.Event().wait()
            case ("echo",):
                self.send(done_event(repr(command)), number)

    def send(self, event: m.Event, number: int | None) -> None:
        if number is not None and not isinstance(event, m.Loaded | m.EngineLost):
            event = replace(event, id=number)
        write_frame(self.stdout, wire.encode(event))


if __name__ == "__main__":
    # Classes of scripts are pickled under the module's own name.
    FakeHost(Path(sys.argv[1])).run()
