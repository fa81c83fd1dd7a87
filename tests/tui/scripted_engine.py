"""An engine that plays a script: the app's tests need no process, no model and no waiting."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Event as Flag

from edgespec.decoding.stats import StatsBuilder
from edgespec.engine.messages import (
    Candidate,
    Event,
    GenerateOptions,
    GenerationDone,
    Loaded,
    LoadOptions,
    Message,
    ModelInfo,
    PrefillDone,
    RoundDone,
)
from edgespec.errors import EdgeSpecError
from edgespec.types import Draft, FinishReason, Mode, Origin, Prefilled, Round, Verdict

PLAIN_STEP = 0.05
Step = Event | Flag | Exception | Callable[[], None]
"""A flag holds the script until it is set, an exception is raised, a function called, an event yielded."""


def model(name: str = "Tiny 1B Q4_0", n_ctx: int = 8192) -> ModelInfo:
    return ModelInfo(f"/models/{name}.gguf", name, "llama", 10**9, 6 * 10**8, 49152, n_ctx, n_ctx, True, True)


def loaded(**changes: object) -> Loaded:
    modes = {Mode.PLAIN: None, Mode.LOOKUP: None, Mode.DRAFT: "No draft model is loaded.", Mode.AUTO: "Not there yet."}
    facts: dict[str, object] = {
        "target": model(), "draft": None, "modes": modes, "threads": 2, "safe_mode": False, "library": "",
        "load_seconds": 0.4,
    }  # fmt: skip
    return Loaded(**(facts | changes))  # type: ignore[arg-type]


def round_done(
    index: int, accepted: list[str], rejected: list[str], own: str, *, seconds: float = 0.06, source: str = "lookup"
) -> RoundDone:
    """One round, from its texts."""
    drafted = len(accepted) + len(rejected)
    kind = Origin.CORRECTED if rejected else Origin.BONUS if drafted else Origin.PLAIN
    texts = (*accepted, own)
    tokens = tuple(range(100, 100 + len(texts)))
    draft = Draft(tuple(range(100, 100 + drafted)), source=source)
    verdict = Verdict(len(accepted), tokens[-1], kind)
    pieces = tuple(text.encode() for text in texts)
    made = Round(index, draft, verdict, tokens, pieces, 0.002 if drafted else 0.0, seconds, 0.001)
    return RoundDone(1, made, texts, tuple(rejected))


def done(
    rounds: list[RoundDone],
    *,
    reason: FinishReason = FinishReason.STOP,
    mode: Mode = Mode.LOOKUP,
    prompt_tokens: int = 42,
) -> GenerationDone:
    """The end of a reply that had these rounds."""
    builder = StatsBuilder()
    builder.prefilled(Prefilled(prompt_tokens, 0, 0.2))
    for event in rounds:
        builder.add(event.round)
    text = "".join(text for event in rounds for text in event.texts)
    tokens = tuple(token for event in rounds for token in event.round.tokens)
    return GenerationDone(1, reason, text, tokens, mode, builder.result(PLAIN_STEP))


def reply(rounds: list[RoundDone], **ending: object) -> list[Step]:
    """A whole reply that runs to its end."""
    return [PrefillDone(1, Prefilled(42, 0, 0.2)), *rounds, done(rounds, **ending)]  # type: ignore[arg-type]


def words(text: str) -> list[RoundDone]:
    """A plain reply of one word a round."""
    return [round_done(i, [], [], word + " ") for i, word in enumerate(text.split(" "))]


CODE = [
    round_done(0, [], [], "Here is"),
    round_done(1, [], [], " the function with `data`:\n\n"),
    round_done(2, [], [], "```python\n"),
    round_done(3, ["def", " mean", "("], ["values", "):"], "data"),
    round_done(4, ["):\n", "    total", " =", " 0\n"], [], "    for"),
    round_done(5, [" value", " in"], [" values"], " data"),
    round_done(6, [":\n", "        total", " +=", " value\n"], [], "    return"),
    round_done(7, [" total", " /", " len", "("], ["values", ")"], "data"),
    round_done(8, [")\n"], [], "```"),
]


@dataclass
class ScriptedEngine:
    """Plays one script for each `generate`, in order; repeats "ok" when it has no more."""

    scripts: deque[list[Step]] = field(default_factory=deque)
    loaded: Loaded = field(default_factory=loaded)
    asked: list[tuple[tuple[Message, ...], GenerateOptions]] = field(default_factory=list)
    cancelled: Flag = field(default_factory=Flag)
    closed: bool = False

    def generate(self, prompt: tuple[Message, ...], options: GenerateOptions) -> Iterator[Event]:
        self.asked.append((prompt, options))
        self.cancelled.clear()
        return self._play(self.scripts.popleft() if self.scripts else reply(words("ok"), mode=options.mode))

    def _play(self, script: list[Step]) -> Iterator[Event]:
        rounds: list[RoundDone] = []
        for step in script:
            if isinstance(step, Flag):
                while not step.wait(0.005) and not self.cancelled.is_set():
                    pass
            elif isinstance(step, Exception):
                raise step
            elif callable(step):
                step()
            else:
                if self.cancelled.is_set():
                    yield done(rounds, reason=FinishReason.CANCELLED)
                    return
                if isinstance(step, RoundDone):
                    rounds.append(step)
                yield step
        if self.cancelled.is_set():
            yield done(rounds, reason=FinishReason.CANCELLED)

    @property
    def pid(self) -> int:
        return os.getpid()

    def examine(self, prompt: tuple[Message, ...], reply: tuple[int, ...] = ()) -> tuple[Candidate, ...]:
        return (Candidate(1, "a", 2.0), Candidate(2, "b", 1.9999))

    def cancel(self) -> None:
        self.cancelled.set()

    def close(self) -> None:
        self.cancel()
        self.closed = True


@dataclass
class Opener:
    """Hands the scripted engine out, once the gate is open; raises the error instead if there is one."""

    engine: ScriptedEngine
    error: EdgeSpecError | Exception | None = None
    gate: Flag | None = None
    opened: list[LoadOptions] = field(default_factory=list)
    refuse: Callable[[LoadOptions], EdgeSpecError | None] = lambda options: None

    def __call__(self, options: LoadOptions) -> ScriptedEngine:
        self.opened.append(options)
        if (error := self.refuse(options)) is not None:
            raise error
        if self.gate is not None:
            self.gate.wait(20)
        if self.error is not None:
            raise self.error
        return self.engine
