"""A stand-in for the engine process that emits tokens at a steady rate, whatever the app does.

    python app_stub.py RATE

Speaks the engine's protocol on standard input and output. A token that comes late delays all later ones, as it would
in the engine; what a round really took is in its `verify_seconds`. So the sum of these over the tokens is the rate
that was reached. A prompt with the word FENCE gets code in a fence that never closes, any other one gets prose.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from itertools import count, cycle
from queue import SimpleQueue
from time import perf_counter, sleep

from edgespec.decoding.stats import StatsBuilder
from edgespec.engine import messages as m
from edgespec.engine import wire
from edgespec.engine.frames import read_frame, write_frame
from edgespec.types import Draft, FinishReason, Mode, Origin, Prefilled, Round, Verdict

PLAIN_STEP = 0.005
PROSE = (
    "A robot woke in a quiet room and found a brush, a jar of blue paint and a wall that nobody had ever touched. "
    "It asked itself what a wall might want to be, and painted the sea.\n\n"
)
CODE = "    for value in values:\n        if value not in seen:\n            seen.add(value)  # only once\n\n"


def pieces(fence: bool) -> Iterator[str]:
    """Texts of tokens, without end."""
    if fence:
        yield from (
            "Here",
            " is",
            " the",
            " code",
            ":\n\n",
            "```",
            "python\n",
            "def run(values):\n",
            "    seen = set()\n",
        )
    text = CODE if fence else PROSE
    yield from cycle([word + " " for word in text.split(" ")])


def rounds(fence: bool, tokens: int) -> Iterator[tuple[Draft, Verdict, tuple[str, ...], tuple[str, ...]]]:
    """Rounds of one token and of three in turn, so that every kind of mark is drawn."""
    words = pieces(fence)
    left = tokens
    for index in count():
        if left <= 0:
            return
        accepted = 2 if index % 4 == 3 and left >= 3 else 0
        drafted = accepted + 1 if accepted else 0
        texts = tuple(next(words) for _ in range(accepted + 1))
        kind = Origin.CORRECTED if drafted else Origin.PLAIN
        yield Draft(tuple(range(drafted)), source="lookup"), Verdict(accepted, 9, kind), texts, ("no ",) * bool(drafted)
        left -= len(texts)


class Stub:
    """Answers Load and Generate."""

    def __init__(self, rate: float) -> None:
        self._step = 1 / rate
        self._out = os.fdopen(os.dup(1), "wb")
        self._commands: SimpleQueue[m.Command | None] = SimpleQueue()
        self._cancelled = 0

    def run(self) -> None:
        threading.Thread(target=self._listen, daemon=True).start()
        while (command := self._commands.get()) is not None:
            match command:
                case m.Load():
                    self._send(_loaded())
                case m.Generate():
                    self._answer(command)
                case m.Examine(id=number):
                    self._send(m.Examined(number, ()))

    def _listen(self) -> None:
        with os.fdopen(os.dup(0), "rb") as commands:
            while (data := read_frame(commands)) is not None:
                command = wire.decode(data)
                if isinstance(command, m.Cancel):
                    self._cancelled = max(self._cancelled, command.id)
                elif isinstance(command, m.Shutdown):
                    break
                else:
                    self._commands.put(command)
        os._exit(0)

    def _answer(self, command: m.Generate) -> None:
        builder, said, emitted = StatsBuilder(), list[str](), list[int]()
        prefilled = Prefilled(32, 0, 0.01)
        builder.prefilled(prefilled)
        self._send(m.PrefillDone(command.id, prefilled))
        fence = "FENCE" in "".join(message.content for message in command.messages)
        reason = FinishReason.LENGTH
        before = due = perf_counter()
        for index, (draft, verdict, texts, rejected) in enumerate(rounds(fence, command.options.max_tokens or 1000)):
            if self._cancelled >= command.id:
                reason = FinishReason.CANCELLED
                break
            due = max(due + len(texts) * self._step, before)
            sleep(max(0.0, due - perf_counter()))
            now = perf_counter()
            tokens = (*draft.tokens[: verdict.accepted], verdict.next_token)
            done = Round(index, draft, verdict, tokens, tuple(t.encode() for t in texts), 0.0, now - before, 0.0)
            before = now
            builder.add(done)
            said += texts
            emitted += tokens
            self._send(m.RoundDone(command.id, done, texts, rejected))
        stats = builder.result(PLAIN_STEP)
        self._send(
            m.GenerationDone(command.id, reason, "".join(said), tuple(emitted), command.options.mode, stats)
        )  # fmt: skip

    def _send(self, event: m.Event) -> None:
        write_frame(self._out, wire.encode(event))


def _loaded() -> m.Loaded:
    model = m.ModelInfo("stub.gguf", "stub", "llama", 10**9, 10**9, 1000, 10**6, 10**6, True, True)
    modes = {Mode.PLAIN: None, Mode.LOOKUP: None, Mode.DRAFT: "There is none.", Mode.AUTO: "There is none."}
    return m.Loaded(model, None, modes, threads=1, safe_mode=False, library="stub", load_seconds=0.0)


if __name__ == "__main__":
    Stub(float(sys.argv[1])).run()
