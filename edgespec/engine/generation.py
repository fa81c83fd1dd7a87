"""What the host does for Generate: prompt, drafter, loop, statistics, and an event for everything that happens."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter

import numpy as np

from edgespec.chat import check_budget
from edgespec.decoding.auto import AutoDrafter
from edgespec.decoding.drafters.base import Drafter
from edgespec.decoding.sampling import prime
from edgespec.decoding.session import Interrupted, Session, rewind
from edgespec.decoding.speculate import speculate
from edgespec.decoding.stats import StatsBuilder
from edgespec.engine import messages as m
from edgespec.engine.details import Details
from edgespec.engine.devices import device_memory
from edgespec.engine.drafting import Drafting
from edgespec.engine.examination import candidates, two_best
from edgespec.engine.loading import Models
from edgespec.errors import EngineError, ModeError, SettingsError
from edgespec.llama.sampler import make_sampler
from edgespec.llama.vocab import TextStream
from edgespec.types import Finished, FinishReason, Prefilled, Prefilling, Round

PLAIN_ROUNDS = 3
"""Rounds without a draft that are enough to tell what a plain step costs; as many are measured if there were fewer."""

Send = Callable[[m.Event], None]


class Generator:
    """Answers Generate with one set of models. What the caches and the lookup index hold stays for the next reply."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self.drafting = Drafting(models)
        self._told: set[str] = set()

    def run(self, command: m.Generate, send: Send, cancelled: Callable[[], bool]) -> None:
        """Answer, ending with GenerationDone. Raises an EdgeSpecError if that cannot be done."""
        models, options = self._models, command.options
        check_options(options)
        if reason := models.loaded.modes[options.mode]:
            raise ModeError(f"Mode {options.mode} cannot run: {reason}", _mode_hint(models.loaded))
        prompt = self._prompt(command, send)
        target = models.target.session
        check_budget(len(prompt), target.n_ctx, options.max_tokens, target.n_ctx_train)
        if options.fresh:
            self.forget()
        drafter, length = self.drafting.choose(options, prompt, cancelled)
        details = Details(target, drafter, self.drafting.model) if options.details else None
        sampler = make_sampler(models.target.model.vocab, options.sampling)
        prime(sampler, prompt)
        reply = _Reply(command, models.target.model.vocab.piece, drafter, send, details)
        events = speculate(
            target if details is None else details.target,
            drafter if details is None else details.drafter,
            sampler,
            prompt,
            length=length,
            vocabulary=models.target.model.vocab,
            rng=np.random.default_rng(options.sampling.seed),
            max_tokens=options.max_tokens,
            stop=[text.encode() for text in options.stop],
            cancelled=cancelled,
        )
        for event in events:
            match event:
                case Round():
                    reply.round(event)
                case Prefilling():
                    send(m.PrefillProgress(command.id, event))
                case Prefilled():
                    reply.prefilled(event)
                case Finished(reason):
                    self.drafting.remember(drafter)  # before anybody hears of the end and ends this process
                    reply.finish(reason, self._plain_step(reply, prompt, cancelled))

    def forget(self) -> None:
        """Forget what earlier replies left behind: cached tokens of both models, the lookup index."""
        for model in (self._models.target, self._models.draft):
            if model is not None:
                rewind(model.session, 0)
        self.drafting.forget()

    def examine(self, command: m.Examine, send: Send, cancelled: Callable[[], bool]) -> None:
        """Answer with the two likeliest tokens at some place of a reply, starting from empty caches."""
        target = self._models.target
        prompt = self._prompt(command, send)
        check_budget(len(prompt), target.session.n_ctx, len(command.reply) + 1)
        self.forget()
        try:
            found = two_best(target.session, prompt, command.reply, cancelled)
        except Interrupted:
            found = ()
        finally:
            rewind(target.session, 0)
        send(m.Examined(command.id, candidates(found, target.model.vocab.piece)))

    def _prompt(self, command: m.Generate | m.Examine, send: Send) -> list[int]:
        """Tokens of what is to be answered; notices about them are sent, each once."""
        if (command.prompt is None) == (not command.messages):
            raise EngineError("A reply needs either messages or a prompt.")
        if command.prompt is not None:
            return self._models.prompts.complete(command.prompt)
        tokens, notices = self._models.prompts.chat(command.messages)
        for notice in notices:
            if notice not in self._told:
                self._told.add(notice)
                send(m.Notice(command.id, notice))
        return tokens

    def _plain_step(self, reply: _Reply, prompt: list[int], cancelled: Callable[[], bool]) -> float | None:
        """Seconds of a one-token target pass at this context: seen in the reply, or else measured behind it."""
        if len(reply.plain_seconds) >= PLAIN_ROUNDS:
            return median(reply.plain_seconds)
        if reply.auto is not None and reply.auto.report.plain_step_seconds is not None:
            return reply.auto.report.plain_step_seconds
        if not reply.tokens or self._models.target.session.max_rewind is not None:
            return None
        return time_plain_step(self._models.target.session, [*prompt, *reply.tokens], cancelled)


class _Reply:
    """Collects one reply and tells about it."""

    def __init__(
        self, command: m.Generate, piece: Callable[[int], bytes], drafter: Drafter, send: Send, details: Details | None
    ) -> None:
        self.tokens: list[int] = []
        self.plain_seconds: list[float] = []
        self._id, self._mode = command.id, command.options.mode
        self._piece, self._send, self._details = piece, send, details
        self.auto = drafter if isinstance(drafter, AutoDrafter) else None
        self._why = ""
        self._stats = StatsBuilder()
        self._stream = TextStream()
        self._texts: list[str] = []

    def prefilled(self, prefilled: Prefilled) -> None:
        self._stats.prefilled(prefilled)
        self._send(m.PrefillDone(self._id, prefilled, device_memory()))

    def round(self, round_: Round) -> None:
        texts = tuple(map(self._stream.feed, round_.pieces))
        why = "" if self.auto is None else self.auto.reason
        details = None if self._details is None else self._details.take(round_)
        new = why if why != self._why else ""
        self._send(m.RoundDone(self._id, round_, texts, self._rejected(round_), new, details))
        self._why = why
        self._texts += texts
        self.tokens += round_.tokens
        self._stats.add(round_)
        if not round_.draft.tokens:
            self.plain_seconds.append(round_.verify_seconds)

    def finish(self, reason: FinishReason, plain_step_seconds: float | None) -> None:
        text = "".join(self._texts) + self._stream.flush()
        stats = self._stats.result(plain_step_seconds)
        report = None if self.auto is None else self.auto.report
        self._send(m.GenerationDone(self._id, reason, text, tuple(self.tokens), self._mode, stats, report))

    def _rejected(self, round_: Round) -> tuple[str, ...]:
        tokens = round_.draft.tokens[round_.verdict.accepted :]
        if not tokens:
            return ()
        stream = TextStream()
        return tuple(stream.feed(self._piece(token)) for token in tokens)


def time_plain_step(target: Session, context: list[int], cancelled: Callable[[], bool]) -> float | None:
    """Median seconds of a one-token pass behind all of `context` but its last token; None if that is not possible.

    The first pass only warms up. Every pass is taken back.
    """
    length = target.length
    if length != len(context) - 1 or length >= target.n_ctx:
        return None
    seconds = []
    for _ in range(1 + PLAIN_ROUNDS):
        if cancelled():
            return None
        started = perf_counter()
        target.decode(context[-1:])
        seconds.append(perf_counter() - started)
        if target.reusable(length) != length:  # what is there is right, but cannot be taken back
            return None
        target.truncate(length)
    return median(seconds[1:])


def check_options(options: m.GenerateOptions) -> None:
    """Raise SettingsError for options that have no meaning. SamplingParams checks its own."""
    if not 0 <= options.draft_length <= m.MAX_DRAFT_LENGTH:
        raise SettingsError(
            f"The draft length must be from 0 to {m.MAX_DRAFT_LENGTH}, got {options.draft_length}.",
            "Choose another --draft-length.",
        )
    if options.max_tokens is not None and options.max_tokens < 1:
        raise SettingsError(f"A reply needs at least one token, got {options.max_tokens}.", "Choose --max-tokens.")
    if not 1 <= options.min_ngram <= options.max_ngram:
        raise SettingsError(
            f"The shortest n-gram ({options.min_ngram}) must be at least 1 and not longer than the longest "
            f"({options.max_ngram})."
        )
    if "" in options.stop:
        raise SettingsError("A stop text must not be empty.", "Give --stop a text.")


def _mode_hint(loaded: m.Loaded) -> str:
    able = [mode.value for mode, reason in loaded.modes.items() if reason is None]
    return f"These modes can run: {', '.join(able)}." + ("" if loaded.draft else " Give a draft model with --draft.")
