"""What commands print: a reply as it comes, its figures in one line, and the JSON object of the contract."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from types import FrameType
from typing import TYPE_CHECKING, Any, TextIO

import click

from edgespec.conclusion import FEWEST_FOR_RATE
from edgespec.errors import EngineError
from edgespec.terminal import printable

if TYPE_CHECKING:
    from edgespec.decoding.stats import GenerationStats
    from edgespec.engine.messages import EngineLost, GenerationDone, LoadOptions, RoundDone
    from edgespec.types import Origin

STATS_NAMES = (
    "prompt_tokens", "cached_tokens", "prompt_seconds", "prompt_tokens_per_second", "seconds_to_first_token",
    "emitted_tokens", "decode_seconds", "decode_tokens_per_second", "rounds", "drafted", "accepted",
    "draft_acceptance_rate", "alpha", "mean_acceptance_length", "acceptance_histogram", "acceptance_by_position",
    "draft_seconds", "verify_seconds", "overhead_seconds", "plain_step_seconds", "measured_speedup",
    "predicted_speedup",
)  # fmt: skip
LOST = 0.95
"""Speed relative to plain below which drafts have cost more than noise does."""

# Colour never stands alone: accepted tokens are underlined and corrected ones bold, as in the app; bonus ones italic,
# where the app sets a dot that would end up in copied text here.
MARKS = {"accepted": "\x1b[4;32m", "bonus": "\x1b[3;36m", "corrected": "\x1b[1;33m", "plain": ""}
_RESET = "\x1b[0m"


def say(text: str) -> None:
    """A sentence for the user, on stderr: stdout carries results only."""
    click.echo(printable(text), err=True)


class ReplyPrinter:
    """Writes a reply to stdout as it comes: to a terminal without anything that could steer it, else as it is.

    Attributes:
        text: the reply so far, as the model wrote it.
    """

    def __init__(self, stream: TextIO, *, marks: bool = False) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._marks = marks and self._terminal and use_colour()
        self.text = ""

    def round(self, event: RoundDone) -> None:
        for text, origin in zip(event.texts, event.round.origins, strict=False):
            self._write(text, MARKS[origin] if self._marks else "")
        self._stream.flush()

    def finish(self, done_text: str | None) -> None:
        """Write what the whole reply has beyond its rounds (the rest of an unfinished character), and end the line."""
        if done_text is not None and done_text.startswith(self.text):
            self._write(done_text[len(self.text) :], "")
        if self.text and not self.text.endswith("\n"):
            self._stream.write("\n")
        self._stream.flush()

    def _write(self, text: str, mark: str) -> None:
        self.text += text
        shown = printable(text) if self._terminal else text
        self._stream.write(f"{mark}{shown}{_RESET}" if mark and shown.strip() else shown)


def use_colour(environ: Mapping[str, str] = os.environ) -> bool:
    return not environ.get("NO_COLOR") and environ.get("TERM", "") not in ("", "dumb")


def summary(done: GenerationDone) -> str:
    """The figures of a reply in one line."""
    stats = done.stats
    parts = [f"{done.mode}:"]
    if stats.decode_tokens_per_second is not None:
        parts.append(f"{stats.decode_tokens_per_second:.1f} tokens/s,")
    parts.append(f"{stats.emitted_tokens} tokens in {stats.rounds} passes")
    if stats.drafted:
        share = f" ({stats.accepted / stats.drafted:.0%})" if stats.drafted >= FEWEST_FOR_RATE else ""
        parts.append(f"· {stats.drafted} drafted, {stats.accepted} accepted{share}")
    if stats.mean_acceptance_length is not None:
        parts.append(f"· τ {stats.mean_acceptance_length:.2f}")
    if stats.measured_speedup is not None and stats.drafted:
        parts.append(f"· {stats.measured_speedup:.2f}x plain{_advice(done)}")
    ends = {"length": "· ended at --max-tokens", "context": "· context full", "cancelled": "· cancelled"}
    return " ".join([*parts, *([ends[done.reason]] if done.reason in ends else [])])


def _advice(done: GenerationDone) -> str:
    """What to do about drafts that cost more than they brought; "" where they did not, or too few say so."""
    stats = done.stats
    lost = stats.measured_speedup is not None and stats.measured_speedup < LOST
    if done.mode == "auto" or not lost or stats.drafted < FEWEST_FOR_RATE:
        return ""
    return ": drafting lost time, try mode auto"


def result_object(
    done: GenerationDone, load: LoadOptions, seed: int, trace: Sequence[RoundDone] | None
) -> dict[str, Any]:
    """The one object of `--json`."""
    result: dict[str, Any] = {
        "text": done.text,
        "tokens": list(done.tokens),
        "mode": str(done.mode),
        "finish_reason": str(done.reason),
        "seed": seed,
        "model": load.target,
        "draft": load.draft,
        "stats": stats_object(done.stats),
        "auto": None if done.auto is None else asdict(done.auto),
    }
    if trace is not None:
        result["rounds_trace"] = [_trace_entry(event) for event in trace]
    return result


def stats_object(stats: GenerationStats) -> dict[str, Any]:
    """The statistics under the contract's names."""
    return {name: getattr(stats, name) for name in STATS_NAMES}


def print_json(result: Mapping[str, Any]) -> None:
    """Exactly one object on stdout. ASCII only, so that no encoding and no lone surrogate can spoil it."""
    sys.stdout.write(json.dumps(result, ensure_ascii=True, allow_nan=False) + "\n")
    sys.stdout.flush()


def lost_error(lost: EngineLost) -> EngineError:
    """The engine's death as an error, with the last lines of its log."""
    from edgespec.engine.client import describe

    lines = "".join(f"\n  {line}" for line in lost.log)
    hint = f"The last lines of its log:{lines}" if lines else "Try again; `edgespec doctor` examines this machine."
    return EngineError(f"{describe(lost)} in the middle of the reply.", hint)


@contextmanager
def cancel_on_interrupt(cancel: Callable[[], None]) -> Iterator[None]:
    """Within this block the first Ctrl-C calls `cancel`, a second one raises KeyboardInterrupt."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True
        cancel()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _trace_entry(event: RoundDone) -> dict[str, Any]:
    round_ = event.round
    # A stop text may leave nothing of the target's own token: what lies behind a stop is not told here either.
    whole = len(round_.tokens) > round_.verdict.accepted
    return {
        "drafted": list(round_.draft.tokens),
        "accepted": round_.verdict.accepted,
        "next_token": round_.verdict.next_token if whole else None,
        "kind": str(round_.verdict.kind) if whole else None,
        "draft_seconds": round_.draft_seconds,
        "verify_seconds": round_.verify_seconds,
        "overhead_seconds": round_.overhead_seconds,
    }


def mark_of(origin: Origin, text: str) -> str:
    """A sample of how this origin looks, for the legend."""
    mark = MARKS[origin]
    return f"{mark}{text}{_RESET}" if mark else text
