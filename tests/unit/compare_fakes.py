"""An engine without a process that answers at a speed of the test's choosing, and the events of a comparison on it."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

from fake_host import loaded

from edgespec.compare import CompareDone, CompareEvent, ComparePlan, compare
from edgespec.comparison import Comparison
from edgespec.contestants import Contestant
from edgespec.decoding.stats import StatsBuilder
from edgespec.engine import messages as m
from edgespec.errors import EdgeSpecError
from edgespec.prompts import Prompt
from edgespec.types import Draft, FinishReason, Mode, Origin, Prefilled, Round, Verdict

EVERY_MODE: dict[Mode, str | None] = dict.fromkeys(Mode)
ASK = Prompt("ask", "Ask", "story", "Once upon a time")
SUM = Prompt("sum", "Sum up", "summary", "Sum this up")
LOOKUP, DRAFT = Contestant(Mode.LOOKUP, 4), Contestant(Mode.DRAFT, 3)
TOKENS = tuple(range(100, 140))


class ScriptedEngine:
    """Stands in for Engine.

    Args:
        seconds: of one round of a mode, in the n-th reply of that mode (warm-up is reply 0).
        tokens: what a mode says.
        accepted: draft tokens accepted in every round of a mode; of one more it is told that it was rejected.
        disturb: called before every reply with its number and the options; may return an event to send in its place.
    """

    pid = os.getpid()

    def __init__(
        self,
        seconds: Callable[[Mode, int], float] = lambda mode, number: 0.1,
        tokens: Callable[[Mode], Sequence[int]] = lambda mode: TOKENS,
        accepted: int = 0,
        disturb: Callable[[int, m.GenerateOptions], m.Event | None] = lambda number, options: None,
        **facts: Any,
    ) -> None:
        self.loaded = loaded(**{"modes": EVERY_MODE, **facts})
        self.asked: list[tuple[tuple[m.Message, ...], m.GenerateOptions]] = []
        self.examined: list[tuple[int, ...]] = []
        self.cancelled = False
        self.gap = 0.0005
        self._seconds, self._tokens, self._accepted, self._disturb = seconds, tokens, accepted, disturb

    def generate(self, messages: Iterable[m.Message], options: m.GenerateOptions) -> Generator[m.Event]:
        number = len(self.asked)
        self.asked.append((tuple(messages), options))
        turn = sum(asked.mode is options.mode for _, asked in self.asked) - 1
        self.cancelled = False
        if (event := self._disturb(number, options)) is not None:
            yield event
            return
        stats = StatsBuilder()
        prefilled = Prefilled(8, 0, 0.5)
        stats.prefilled(prefilled)
        yield m.PrefillDone(number, prefilled)
        tokens = list(self._tokens(options.mode))[: options.max_tokens]
        done: list[int] = []
        while len(done) < len(tokens) and not self.cancelled:
            part = tuple(tokens[len(done) : len(done) + 1 + (self._accepted if options.mode is not Mode.PLAIN else 0)])
            done += part
            round_ = made_round(part, self._seconds(options.mode, turn))
            stats.add(round_)
            yield m.RoundDone(number, round_, tuple(f" t{token}" for token in part), (" no",) * bool(part[1:]))
        reason = FinishReason.CANCELLED if self.cancelled else FinishReason.LENGTH
        text = "".join(f" t{token}" for token in done)
        yield m.GenerationDone(number, reason, text, tuple(done), options.mode, stats.result())

    def cancel(self) -> None:
        self.cancelled = True

    def examine(self, messages: Iterable[m.Message], reply: Sequence[int]) -> tuple[m.Candidate, ...]:
        self.examined.append(tuple(reply))
        return m.Candidate(1, "a", 5.0), m.Candidate(2, "b", 5.0 - self.gap)


def made_round(tokens: tuple[int, ...], seconds: float) -> Round:
    """A round that brought these tokens: all but the last were drafted, and one more that was rejected."""
    if len(tokens) == 1:
        draft, verdict = Draft(()), Verdict(0, tokens[-1], Origin.PLAIN)
    else:
        draft = Draft((*tokens[:-1], 7), source="lookup")
        verdict = Verdict(len(tokens) - 1, tokens[-1], Origin.CORRECTED)
    pieces = tuple(f" t{token}".encode() for token in tokens)
    return Round(0, draft, verdict, tokens, pieces, 0.0, seconds, 0.0)


def events_of(engine: ScriptedEngine, plan: ComparePlan, **more: Any) -> list[CompareEvent]:
    return list(compare(engine, plan, **more))  # type: ignore[arg-type]


def outcome(engine: ScriptedEngine, plan: ComparePlan, **more: Any) -> tuple[Comparison, EdgeSpecError | None]:
    last = events_of(engine, plan, **more)[-1]
    assert isinstance(last, CompareDone)
    return last.comparison, last.error
