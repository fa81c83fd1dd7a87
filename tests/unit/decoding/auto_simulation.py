"""A machine whose passes cost what a table says, so that auto mode can be judged without one."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from decoding_fakes import FakeVocabulary
from numpy.typing import NDArray

from edgespec.decoding import speculate as loop
from edgespec.decoding.drafters.base import Drafter
from edgespec.decoding.length import LengthPolicy
from edgespec.decoding.sampling import GreedySampler
from edgespec.types import Round

LAPTOP = {1: 1.0, 2: 1.28, 3: 1.63, 4: 1.48, 5: 1.87, 6: 2.3, 7: 2.4, 8: 2.6, 9: 3.1, 16: 4.6, 33: 10.6}
SMALL = {1: 1.0, 2: 1.26, 3: 1.66, 4: 2.08, 5: 2.9, 8: 4.4, 16: 7.2, 33: 15.0}
FLAT = {1: 1.0, 2: 1.02, 4: 1.04, 8: 1.1, 33: 1.4}


@dataclass
class Trace:
    """A reply: what the target says, and what the draft model would say at each place, and how surely."""

    prompt: list[int]
    tokens: list[int]
    predicted: list[int]
    confidence: list[float]

    @property
    def n_vocab(self) -> int:
        return 1 + max(*self.prompt, *self.tokens, *self.predicted)


@dataclass
class Machine:
    """Prices in plain steps, and a clock that they move."""

    v: dict[int, float] = field(default_factory=lambda: LAPTOP)
    step: float = 0.12
    noise: float = 0.05
    speed: Callable[[float], float] = lambda now: 1.0
    seed: int = 0
    now: float = 0.0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def price(self, width: int) -> float:
        return float(np.interp(width, list(self.v), list(self.v.values())))

    def spend(self, units: float) -> None:
        hiccup = 3.0 if self._random.random() < 0.02 else 1.0
        noise = math.exp(self._random.gauss(0, self.noise)) if self.noise else 1.0
        self.now += units * self.speed(self.now) * (noise * hiccup if self.noise else 1.0)


class PricedSession:
    """A session that answers from a trace and charges for it."""

    max_batch, chunk, n_ctx = 64, 16, 10**6

    def __init__(self, machine: Machine, trace: Trace, *, draft: bool) -> None:
        self._machine, self._trace, self._draft = machine, trace, draft
        self.n_vocab = trace.n_vocab
        self.tokens: list[int] = []
        self._rows = np.zeros((64, self.n_vocab), dtype=np.float32)

    length = property(lambda self: len(self.tokens))

    def decode(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        machine, trace = self._machine, self._trace
        machine.spend(machine.step * (0.6 + 0.4 * len(tokens)) if self._draft else machine.price(len(tokens)))
        rows = self._rows[: len(tokens)]
        rows[:] = 0
        for i, row in enumerate(rows, start=1):
            place = len(self.tokens) + i - len(trace.prompt)
            if place >= len(trace.tokens):
                continue
            if self._draft:
                sure = min(max(trace.confidence[place], 1.5 / self.n_vocab), 1 - 1e-6)
                row[trace.predicted[place]] = math.log(sure * (self.n_vocab - 1) / (1 - sure))
            else:
                row[trace.tokens[place]] = 1
        self.tokens += tokens
        return rows

    def prefill(self, tokens: Sequence[int]) -> None:
        if self._draft and self.tokens:
            self._machine.spend(self._machine.step * 0.4 * len(tokens))
        self.tokens += tokens

    def reusable(self, length: int) -> int:
        return length

    def truncate(self, length: int) -> None:
        del self.tokens[length:]

    def close(self) -> None: ...


def made_up(kinds: str, *, size: int = 40, seed: int = 0, copied: int = 0) -> Trace:
    """A reply in stretches: `e`asy, `m`edium or `h`ard for the draft model, `c`opied from the prompt, `w`rongly sure.

    A draft model's probabilities tell how often it is right, but for `w`.
    """
    rng = random.Random(seed)
    prompt = [rng.randrange(400) for _ in range(300)]
    trace = Trace(prompt, [], [], [])
    for kind in kinds:
        start = rng.randrange(200)
        for i in range(size):
            token = prompt[start + i] if kind == "c" else rng.randrange(400)
            sure = {"e": 0.85, "c": 0.9, "m": 0.55, "h": 0.2, "w": 0.9, "r": 0.01}[kind]
            confidence = min(0.999, max(0.01, rng.betavariate(3 * sure, 3 * (1 - sure))))
            right = rng.random() < (0.02 if kind == "w" else 0.0 if kind == "r" else confidence)
            trace.tokens.append(token)
            trace.predicted.append(token if right else (token + 1 + rng.randrange(398)) % 400)
            trace.confidence.append(confidence)
    return trace


def run(machine: Machine, trace: Trace, drafter: Drafter, length: LengthPolicy) -> tuple[float, list[Round]]:
    """Decode the whole trace; how many plain steps that took, and the rounds."""
    original = loop.perf_counter
    loop.perf_counter = lambda: machine.now
    rounds: list[Round] = []
    start = machine.now
    try:
        for event in loop.speculate(
            PricedSession(machine, trace, draft=False), drafter, GreedySampler(), trace.prompt, length=length,
            vocabulary=FakeVocabulary(), rng=np.random.default_rng(0), max_tokens=len(trace.tokens),
        ):  # fmt: skip
            if isinstance(event, Round):
                rounds.append(event)
            elif not rounds:
                start = machine.now
    finally:
        loop.perf_counter = original
    emitted = [token for round_ in rounds for token in round_.tokens]
    if emitted != trace.tokens:
        raise AssertionError("the reply is not what the target says")
    return machine.now - start, rounds
