"""One question and the reply in progress: engine events in, drawing out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from edgespec.decoding.stats import GenerationStats
from edgespec.engine.messages import (
    DeviceMemory,
    EngineLost,
    Event,
    Failed,
    GenerateOptions,
    GenerationDone,
    Loaded,
    Notice,
    PrefillDone,
    PrefillProgress,
    RoundDone,
)
from edgespec.types import FinishReason, Mode
from edgespec_tui.figures import ENOUGH_DRAFTED, LiveFigures
from edgespec_tui.modes import label
from edgespec_tui.record import ReplyTrace, stats_to_json
from edgespec_tui.text import count, one_line
from edgespec_tui.widgets.reply import Reply

Ending = GenerationDone | Failed | EngineLost

ENDINGS = {
    FinishReason.STOP: "",
    FinishReason.LENGTH: "stopped at the length limit",
    FinishReason.CONTEXT: "the context is full",
    FinishReason.CANCELLED: "stopped by you",
}


@dataclass
class Exchange:
    """What is known of a reply while it comes.

    Attributes:
        number: the runner's number of this reply.
        question: what was asked, to be put back if it cannot be answered.
        notices: sentences that came with it and are not shown yet.
        rounds: all rounds so far.
        reloaded: set if the engine had to be started again for it.
        ending: the event that ended it; None while it runs.
        reason: why auto mode does what it does.
        uses: rounds by the drafter they used.
        devices: memory of devices, as it was when the prompt had been read.
    """

    number: int
    question: str
    reply: Reply
    options: GenerateOptions
    figures: LiveFigures
    notices: list[str] = field(default_factory=list)
    reloaded: Loaded | None = None
    ending: Ending | None = None
    rounds: list[RoundDone] = field(default_factory=list)
    reason: str = ""
    uses: Counter[str] = field(default_factory=Counter)
    devices: tuple[DeviceMemory, ...] = ()

    @property
    def mode(self) -> str:
        """The mode that runs; the engine's own word once it gave one. Auto says what it uses just now."""
        mode = self.ending.mode if isinstance(self.ending, GenerationDone) else self.options.mode
        if mode is Mode.AUTO and self.ending is None and self.rounds:
            return f"auto > {self.rounds[-1].round.draft.source or Mode.PLAIN}"
        return label(mode, self.options.draft_length)

    @property
    def context_used(self) -> int:
        """Tokens of prompt and reply."""
        return self.stats.prompt_tokens + self.stats.emitted_tokens

    @property
    def stats(self) -> GenerationStats:
        """The engine's figures if it is over, else those so far."""
        return self.ending.stats if isinstance(self.ending, GenerationDone) else self.figures.stats

    async def take(self, events: list[Event]) -> None:
        """Draw what these events brought, all of it at once."""
        rounds = []
        for event in events:
            match event:
                case RoundDone():
                    rounds.append(event)
                    self.reason = event.why or self.reason
                    self.uses[event.round.draft.source or Mode.PLAIN] += 1
                    self.figures.observe(event.round)
                case PrefillProgress(progress=progress):
                    self.reply.progress(f"reading: {progress.done:,} of {count(progress.total, 'token')}")
                case PrefillDone(prefilled=prefilled, devices=devices):
                    self.devices = devices
                    self.figures.prefilled(prefilled)
                    self.reply.progress("thinking of the first token")
                case Notice(text=text):
                    self.notices.append(text)
                case Loaded():
                    self.reloaded = event
                case GenerationDone() | Failed() | EngineLost():
                    self.ending = event
        self.rounds += rounds
        if rounds:
            await self.reply.add(rounds, self.mode, self.figures.stats)
        if self.ending is not None:
            await self._end(self.ending)

    async def _end(self, ending: Ending) -> None:
        match ending:
            case GenerationDone():
                await self.reply.finish(ending, self.mode, ENDINGS[ending.reason])
            case Failed():
                await self.reply.end("this reply failed")
            case EngineLost():
                await self.reply.end("the engine ended here")

    @property
    def trace(self) -> ReplyTrace:
        """How it came about, to be kept."""
        figures = stats_to_json(self.stats) if isinstance(self.ending, GenerationDone) else {}
        return ReplyTrace(tuple(self.rounds), self.reply.line, figures)

    @property
    def failure(self) -> tuple[str, str]:
        """What went wrong and what to do, if it ended badly."""
        match self.ending:
            case Failed(message=message, hint=hint):
                return message, hint
            case EngineLost(signal=signal, exit_code=code, log=log):
                how = f"was killed by {signal}" if signal else f"ended with code {code}"
                last = f" Its last words: {one_line(log[-1])}" if log else ""
                if not self.rounds:
                    return f"The engine process {how}.{last}", "Your message is back in the box: Enter starts it again."
                sentence = f"The engine process {how}. What it had written is kept.{last}"
                return sentence, "Your next message, or F5, starts it again."
            case _:
                return "", ""

    @property
    def why(self) -> tuple[str, ...]:
        """Sentences on why it is as fast or slow as it is."""
        if self.options.mode is Mode.PLAIN:
            return ("Plain decoding: nothing is drafted. F2 changes the mode.",)
        if self.options.mode is Mode.AUTO and self.rounds:
            return self._auto
        stats = self.stats
        if not stats.drafted and stats.rounds:
            repeats = self.options.mode is Mode.LOOKUP
            return ("Nothing repeats so far, so nothing is drafted." if repeats else "Nothing is drafted so far.",)
        if stats.drafted >= ENOUGH_DRAFTED and (speedup := stats.measured_speedup) is not None and speedup < 0.98:
            return ("Slower than plain decoding here: F2 changes the mode.",)
        return ()

    @property
    def _auto(self) -> tuple[str, ...]:
        """What auto mode uses and why, what it used before, and what it expected of it against what came of it."""
        ended = self.ending is not None
        source = self.rounds[-1].round.draft.source or str(Mode.PLAIN)
        shares = ", ".join(f"{name} {rounds:,}" for name, rounds in self.uses.most_common())
        sentences = [f"{source}{' at the end' if ended else ' now'}: {self.reason or 'no word on why yet'}"]
        sentences.append(f"passes: {shares}")
        report = self.ending.auto if isinstance(self.ending, GenerationDone) else None
        measured = self.stats.measured_speedup
        if report is not None and report.predicted_speedup is not None and measured is not None:
            sentences.append(f"expected {report.predicted_speedup:.2f}x, measured {measured:.2f}x")
        return tuple(sentences)
