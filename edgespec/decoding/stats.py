"""What a reply's rounds add up to, and what the theory says they should have gained.

Words as in the literature: alpha is accepted per examined draft token (a rejected round examines one more), the mean
acceptance length tau is emitted tokens per target pass. Every ratio is None while its denominator is 0.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from edgespec.types import Origin, Prefilled, Round

MIN_PLAIN_ROUNDS = 4
"""Fewer one-token passes than this say nothing about the price of one."""


@dataclass(frozen=True, slots=True)
class GenerationStats:
    """One reply in numbers.

    Attributes:
        prompt_tokens, cached_tokens: length of the prompt; how much of it an earlier turn had left in the cache.
        prompt_seconds: what bringing the caches up to date took.
        prompt_tokens_per_second: tokens that were not cached, over prompt_seconds.
        seconds_to_first_token: prompt_seconds and the whole first round.
        emitted_tokens: tokens of the reply, one that ends it included.
        decode_seconds: from the end of the prompt to the end of the last round; the sum of the three parts below.
        decode_tokens_per_second: emitted_tokens / decode_seconds.
        rounds: target passes.
        drafted, accepted: draft tokens judged in them; those kept.
        draft_acceptance_rate: accepted / drafted.
        alpha: accepted / (accepted + rejected rounds).
        mean_acceptance_length: emitted_tokens / rounds; 1 is no gain.
        acceptance_histogram: number of rounds with 0, 1, 2, ... accepted tokens.
        acceptance_by_position: of the draft tokens at position 0, 1, 2, ... the share that was accepted.
        draft_seconds, verify_seconds, overhead_seconds: time in the drafter, in the target's passes, everywhere else.
        plain_step_seconds: a one-token target pass at this context on this machine.
        measured_speedup: emitted_tokens * plain_step_seconds / decode_seconds.
        predicted_speedup: tau / (k c + v(k + 1)), with k c = the mean round's draft_seconds and v(k + 1) = its
            verify_seconds, both in plain steps: what these rounds gain if everything else costs nothing.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    prompt_seconds: float = 0.0
    prompt_tokens_per_second: float | None = None
    seconds_to_first_token: float | None = None
    emitted_tokens: int = 0
    decode_seconds: float = 0.0
    decode_tokens_per_second: float | None = None
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    draft_acceptance_rate: float | None = None
    alpha: float | None = None
    mean_acceptance_length: float | None = None
    acceptance_histogram: tuple[int, ...] = ()
    acceptance_by_position: tuple[float, ...] = ()
    draft_seconds: float = 0.0
    verify_seconds: float = 0.0
    overhead_seconds: float = 0.0
    plain_step_seconds: float | None = None
    measured_speedup: float | None = None
    predicted_speedup: float | None = None


class StatsBuilder:
    """Adds rounds up as they come; `result` may be asked at any time."""

    def __init__(self) -> None:
        self._prompt = Prefilled(0, 0, 0.0)
        self._first_seconds: float | None = None
        self._emitted = self._rounds = self._rejections = 0
        self._draft_seconds = self._verify_seconds = self._overhead_seconds = 0.0
        self._plain_rounds = 0
        self._plain_seconds = 0.0
        self._by_accepted: Counter[int] = Counter()
        self._by_drafted: Counter[int] = Counter()

    def prefilled(self, prefilled: Prefilled) -> None:
        """The prompt is in the cache."""
        self._prompt = prefilled

    def add(self, round_: Round) -> None:
        """One more round, as the loop yields it."""
        if self._first_seconds is None:
            parts = round_.draft_seconds + round_.verify_seconds + round_.overhead_seconds
            self._first_seconds = self._prompt.seconds + parts
        self._rounds += 1
        self._emitted += len(round_.tokens)
        self._rejections += round_.verdict.kind is Origin.CORRECTED
        self._by_accepted[round_.verdict.accepted] += 1
        self._by_drafted[len(round_.draft.tokens)] += 1
        self._draft_seconds += round_.draft_seconds
        self._verify_seconds += round_.verify_seconds
        self._overhead_seconds += round_.overhead_seconds
        if not round_.draft.tokens:
            self._plain_rounds += 1
            self._plain_seconds += round_.verify_seconds

    def result(self, plain_step_seconds: float | None = None) -> GenerationStats:
        """The numbers so far.

        Without `plain_step_seconds` the reply's own rounds without a draft say what a plain step costs, if there are
        at least MIN_PLAIN_ROUNDS of them.
        """
        if plain_step_seconds is None and self._plain_rounds >= MIN_PLAIN_ROUNDS:
            plain_step_seconds = self._plain_seconds / self._plain_rounds
        drafted, accepted = _total(self._by_drafted), _total(self._by_accepted)
        evaluated = self._prompt.prompt_tokens - self._prompt.cached_tokens
        model_seconds = self._draft_seconds + self._verify_seconds
        decode_seconds = model_seconds + self._overhead_seconds
        plain_seconds = None if plain_step_seconds is None else self._emitted * plain_step_seconds
        return GenerationStats(
            prompt_tokens=self._prompt.prompt_tokens,
            cached_tokens=self._prompt.cached_tokens,
            prompt_seconds=self._prompt.seconds,
            prompt_tokens_per_second=_ratio(evaluated, self._prompt.seconds) if evaluated else None,
            seconds_to_first_token=self._first_seconds,
            emitted_tokens=self._emitted,
            decode_seconds=decode_seconds,
            decode_tokens_per_second=_ratio(self._emitted, decode_seconds),
            rounds=self._rounds,
            drafted=drafted,
            accepted=accepted,
            draft_acceptance_rate=_ratio(accepted, drafted),
            alpha=_ratio(accepted, accepted + self._rejections),
            mean_acceptance_length=_ratio(self._emitted, self._rounds),
            acceptance_histogram=_histogram(self._by_accepted),
            acceptance_by_position=_by_position(self._by_accepted, self._by_drafted),
            draft_seconds=self._draft_seconds,
            verify_seconds=self._verify_seconds,
            overhead_seconds=self._overhead_seconds,
            plain_step_seconds=plain_step_seconds,
            measured_speedup=_ratio(plain_seconds, decode_seconds),
            predicted_speedup=_ratio(plain_seconds, model_seconds),
        )


def _ratio(numerator: float | None, denominator: float) -> float | None:
    return None if numerator is None or denominator <= 0 else numerator / denominator


def _total(rounds_by_length: Counter[int]) -> int:
    return sum(length * rounds for length, rounds in rounds_by_length.items())


def _histogram(rounds_by_length: Counter[int]) -> tuple[int, ...]:
    return tuple(rounds_by_length[n] for n in range(1 + max(rounds_by_length, default=-1)))


def _by_position(accepted: Counter[int], drafted: Counter[int]) -> tuple[float, ...]:
    """Position i was drafted in every round with more than i draft tokens, accepted where more than i were kept."""
    shares = []
    kept = tried = 0
    for n in range(max(drafted, default=0), 0, -1):
        kept += accepted[n]
        tried += drafted[n]
        shares.append(kept / tried)
    return tuple(reversed(shares))
