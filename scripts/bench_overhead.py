"""Show that EdgeSpec's own code costs next to nothing beside the model's.

Two measurements on one target and draft, greedy, in one run:

    overhead   time a round spends outside llama.cpp's evaluation, over a real reply, in draft and lookup mode:
               the round's wall time less what `llama_decode` and the wait for its logits took; that of the
               bare draft loop (below) beside it, as most of it is finding the largest of cold logits
    speed      EdgeSpec against a loop of bare ctypes calls on the same library file that does the least that could
               work: plain decoding, and a draft model that keeps its cache. Repeats are interleaved and take
               turns in going first, so that a change of the machine's mood hits both; medians are compared

Without options it needs a pair: make one with scripts/make_bench_pair.py.
"""

from __future__ import annotations

import ctypes
import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from bench_common import PROMPTS, Endless, demo_model, prompt_tokens

from edgespec.decoding.drafters.base import Drafter
from edgespec.decoding.drafters.lookup import LookupDrafter
from edgespec.decoding.drafters.model import ModelDrafter
from edgespec.decoding.drafters.none import NoDraft
from edgespec.decoding.length import FixedLength
from edgespec.decoding.sampling import GreedySampler
from edgespec.decoding.speculate import speculate
from edgespec.llama.library import library
from edgespec.llama.model import LlamaModel
from edgespec.llama.session import LlamaSession
from edgespec.types import Prefilled, Round

if TYPE_CHECKING:
    from numpy.typing import NDArray

OVERHEAD_LIMIT = 150e-6
EDIT_PROMPT = 1
"""Which of PROMPTS asks for an edit: there lookup has something to copy."""


class Clock:
    """A native function that adds up the time spent in it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.seconds = 0.0

    def __call__(self, *arguments: Any) -> Any:
        start = perf_counter()
        result = self._function(*arguments)
        self.seconds += perf_counter() - start
        return result


@dataclass(frozen=True, slots=True)
class Overhead:
    """Seconds a round outside the native evaluation."""

    mode: str
    rounds: int
    drafted: int
    accepted: int
    median: float
    p90: float


@dataclass(frozen=True, slots=True)
class Speed:
    """Tokens per second of one way to decode, one number a repeat."""

    name: str
    rates: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.rates)


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything that both sides share."""

    target: Path
    draft: Path
    n_ctx: int
    length: int
    tokens: int
    threads: int
    repack: bool


class BareSession:
    """llama.cpp with as little around it as possible: one batch whose arrays are numpy's, one context.

    The weights are those that EdgeSpec's session reads: a second copy of the same file lies elsewhere in memory, and
    that alone made 3 to 4 percent of speed.
    """

    def __init__(self, model: LlamaModel, setup: Setup, threads: int) -> None:
        import llama_cpp

        self.c = llama_cpp
        self.model = ctypes.c_void_p(model.handle)
        context = llama_cpp.llama_context_default_params()
        context.n_ctx = setup.n_ctx
        context.n_batch = context.n_ubatch = 512
        context.n_outputs_max = 33
        context.n_threads = context.n_threads_batch = threads
        context.swa_full = False
        self.context = llama_cpp.llama_init_from_model(self.model, context)
        if not self.context:
            raise click.ClickException(f"llama.cpp made no context for {model.path}")
        self.memory = llama_cpp.llama_get_memory(self.context)
        self.n_vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        self.token, self.position = np.zeros(512, np.int32), np.zeros(512, np.int32)
        self.n_seq, self.seq = np.ones(512, np.int32), np.zeros(1, np.int32)
        self.seqs = np.full(512, self.seq.ctypes.data, np.uint64)
        self.outputs = np.zeros(512, np.int8)
        self.native = 0.0
        self.batch = llama_cpp.llama_batch()
        kinds: dict[str, Any] = {field[0]: field[1] for field in llama_cpp.llama_batch._fields_}
        arrays: dict[str, NDArray[Any]] = {
            "token": self.token, "pos": self.position, "n_seq_id": self.n_seq, "seq_id": self.seqs,
            "logits": self.outputs,
        }  # fmt: skip
        for name, array in arrays.items():
            setattr(self.batch, name, ctypes.cast(array.ctypes.data, kinds[name]))

    def evaluate(self, tokens: Sequence[int], start: int, *, rows: bool = True) -> Any:
        count = len(tokens)
        self.token[:count] = tokens
        self.position[:count] = np.arange(start, start + count)
        self.outputs[:count] = rows
        self.batch.n_tokens = count
        start_time = perf_counter()
        failed = self.c.llama_decode(self.context, self.batch)
        address = self.c.llama_get_logits(self.context) if rows else None
        self.native += perf_counter() - start_time
        if failed:
            raise click.ClickException("llama_decode failed")
        return np.ctypeslib.as_array(address, (count, self.n_vocab)) if rows else None

    def start(self, prompt: Sequence[int]) -> None:
        self.c.llama_memory_clear(self.memory, False)
        for at in range(0, len(prompt) - 1, 512):
            self.evaluate(prompt[at : min(at + 512, len(prompt) - 1)], at, rows=False)

    def drop(self, length: int) -> None:
        self.c.llama_memory_seq_rm(self.memory, 0, length, -1)


def bare_plain(target: BareSession, prompt: Sequence[int], tokens: int) -> float:
    """Tokens per second of the least loop there is."""
    target.start(prompt)
    last, position = prompt[-1], len(prompt) - 1
    start = perf_counter()
    for _ in range(tokens):
        last = int(target.evaluate([last], position)[0].argmax())
        position += 1
    return tokens / (perf_counter() - start)


def bare_draft(
    target: BareSession, draft: BareSession, prompt: Sequence[int], tokens: int, k: int
) -> tuple[float, list[float]]:
    """The least loop that drafts with a model and evaluates nothing twice.

    Returns tokens per second, and each round's time outside the native calls.
    """
    target.start(prompt)
    draft.start(prompt)
    context, known = list(prompt), len(prompt) - 1
    outside = []
    start = perf_counter()
    while len(context) < len(prompt) + tokens:
        mark, native = perf_counter(), target.native + draft.native
        k_now = min(k, len(prompt) + tokens - len(context) - 1)
        base, guesses = len(context), []
        if k_now:
            guesses.append(int(draft.evaluate(context[known:], known)[-1].argmax()))
            known = base
        while len(guesses) < k_now:
            guesses.append(int(draft.evaluate(guesses[-1:], known)[0].argmax()))
            known += 1
        rows = target.evaluate([context[-1], *guesses], base - 1)
        accepted = 0
        while True:
            best = int(rows[accepted].argmax())
            context.append(best)
            if accepted == len(guesses) or best != guesses[accepted]:
                break
            accepted += 1
        if accepted < len(guesses):
            target.drop(len(context) - 1)
            if known > len(context) - 1:
                known = len(context) - 1
                draft.drop(known)
        outside.append(perf_counter() - mark - (target.native + draft.native - native))
    return tokens / (perf_counter() - start), outside


class Ours:
    """EdgeSpec's side: its sessions, drafters and loop, with a clock around the native calls."""

    def __init__(self, setup: Setup) -> None:
        lib = library()
        self.clocks = [Clock(lib.llama_decode), Clock(lib.llama_get_logits)]
        for name, clock in zip(("llama_decode", "llama_get_logits"), self.clocks, strict=True):
            setattr(lib, name, clock)
        self.setup = setup
        self.model = LlamaModel.load(setup.target, use_extra_bufts=setup.repack)
        self.draft_model = LlamaModel.load(setup.draft, use_extra_bufts=setup.repack)
        self.target, self.draft = (
            LlamaSession(model, n_ctx=setup.n_ctx, max_draft=32, threads=setup.threads)
            for model in (self.model, self.draft_model)
        )

    def drafter(self, mode: str) -> Drafter:
        if mode == "draft":
            return ModelDrafter(self.draft, n_vocab=self.model.n_vocab)
        return LookupDrafter() if mode == "lookup" else NoDraft()

    def native(self) -> float:
        return sum(clock.seconds for clock in self.clocks)

    def run(self, mode: str, prompt: Sequence[int], k: int) -> tuple[float, list[Round], list[float]]:
        """Tokens per second, the rounds, and each round's time outside the native calls."""
        self.target.truncate(0)
        self.draft.truncate(0)
        rounds, outside = [], []
        begin = mark = perf_counter()
        native = self.native()
        for event in speculate(
            self.target, self.drafter(mode), GreedySampler(), prompt, length=FixedLength(k), vocabulary=Endless(),
            rng=np.random.default_rng(0), max_tokens=self.setup.tokens,
        ):  # fmt: skip
            now, spent = perf_counter(), self.native()
            if isinstance(event, Round):
                rounds.append(event)
                outside.append((now - mark) - (spent - native))
            elif isinstance(event, Prefilled):
                begin = now
            native, mark = self.native(), perf_counter()
        return self.setup.tokens / (mark - begin), rounds, outside


def overhead(ours: Ours, mode: str, prompt: Sequence[int]) -> Overhead:
    _, rounds, outside = ours.run(mode, prompt, ours.setup.length)
    return Overhead(
        mode, len(rounds), sum(len(r.draft.tokens) for r in rounds), sum(r.verdict.accepted for r in rounds),
        statistics.median(outside), float(np.quantile(outside, 0.9)),
    )  # fmt: skip


def bare_overhead(bare: tuple[BareSession, BareSession], prompt: Sequence[int], setup: Setup) -> Overhead:
    """What the least draft loop spends outside: how much of the overhead no code of ours could save."""
    bare_draft(*bare, prompt, 8, setup.length)  # not counted
    _, outside = bare_draft(*bare, prompt, setup.tokens, setup.length)
    return Overhead("bare draft", len(outside), 0, 0, statistics.median(outside), float(np.quantile(outside, 0.9)))


def compare(ours: Ours, bare: tuple[BareSession, BareSession], prompt: Sequence[int], repeats: int) -> list[Speed]:
    """Four ways to decode the same reply, interleaved."""
    setup = ours.setup
    bare_target, bare_drafter = bare
    ways: dict[str, Callable[[], float]] = {
        "bare plain": lambda: bare_plain(bare_target, prompt, setup.tokens),
        "edgespec plain": lambda: ours.run("plain", prompt, 0)[0],
        "bare draft": lambda: bare_draft(bare_target, bare_drafter, prompt, setup.tokens, setup.length)[0],
        "edgespec draft": lambda: ours.run("draft", prompt, setup.length)[0],
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        way()  # not counted: first touches of weights and buffers
    for repeat in range(repeats):
        for name, way in list(ways.items())[:: 1 if repeat % 2 == 0 else -1]:
            rates[name].append(way())
    return [Speed(name, tuple(values)) for name, values in rates.items()]


def report(overheads: Sequence[Overhead], speeds: Sequence[Speed]) -> dict[str, Any]:
    """Print both tables; return them as one object."""
    click.echo(f"{'overhead a round':18} {'rounds':>6} {'drafted':>8} {'accepted':>8} {'median':>9} {'p90':>9}")
    for o in overheads:
        mark = "ok" if o.median <= OVERHEAD_LIMIT else "above 150 us"
        times = f"{1e6 * o.median:6.0f} us {1e6 * o.p90:6.0f} us"
        click.echo(f"{o.mode:18} {o.rounds:6} {o.drafted:8} {o.accepted:8} {times}  {mark}")
    result: dict[str, Any] = {
        "overhead": [
            {"mode": o.mode, "rounds": o.rounds, "drafted": o.drafted, "accepted": o.accepted,
             "median_us": 1e6 * o.median, "p90_us": 1e6 * o.p90} for o in overheads
        ],
        "speed": {speed.name: {"median": speed.median, "rates": speed.rates} for speed in speeds},
    }  # fmt: skip
    if speeds:
        click.echo(f"\n{'tokens per second':18} {'median':>7} {'lowest':>7} {'highest':>7}")
        for speed in speeds:
            click.echo(f"{speed.name:18} {speed.median:7.2f} {min(speed.rates):7.2f} {max(speed.rates):7.2f}")
        medians = {speed.name: speed.median for speed in speeds}
        result["ratios"] = {mode: medians[f"edgespec {mode}"] / medians[f"bare {mode}"] for mode in ("plain", "draft")}
        click.echo(
            f"\nEdgeSpec to bare loop: plain {result['ratios']['plain']:.3f}, draft {result['ratios']['draft']:.3f}"
        )
    return result


@click.command(help=__doc__, context_settings={"show_default": True})
@click.option("--target", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=True)
@click.option("--draft", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="[default: the demo model]")
@click.option("-k", "--draft-length", type=click.IntRange(1, 32), default=3)
@click.option("--tokens", type=click.IntRange(8), default=96, help="Length of every reply.")
@click.option("--repeats", type=click.IntRange(0), default=5, help="Of the comparison; 0 leaves it out.")
@click.option("--prompt", type=click.IntRange(0, len(PROMPTS) - 1), default=0, help="Of the built-in prompts.")
@click.option("--threads", type=click.IntRange(0), default=0, help="0 takes the physical cores.")
@click.option("--repack/--no-repack", default=True, help="Repack weights, as the engine does; not where AMX is broken.")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write the result here.")
def main(
    target: Path, draft: Path | None, draft_length: int, tokens: int, repeats: int, prompt: int, threads: int,
    repack: bool, json_path: Path | None,
) -> None:  # fmt: skip
    ours = Ours(Setup(target, draft or demo_model(), 1024, draft_length, tokens, threads, repack))
    text = prompt_tokens(ours.model, PROMPTS[prompt])
    edit = prompt_tokens(ours.model, PROMPTS[EDIT_PROMPT])
    if max(len(text), len(edit)) + tokens > 1024:
        raise click.BadParameter("does not fit a context of 1024 with the prompt", param_hint="--tokens")
    ours.run("draft", text, draft_length)  # not counted
    bare = (
        BareSession(ours.model, ours.setup, ours.target.threads),
        BareSession(ours.draft_model, ours.setup, ours.target.threads),
    )
    overheads = [overhead(ours, "draft", text), overhead(ours, "lookup", edit), bare_overhead(bare, text, ours.setup)]
    result = report(overheads, compare(ours, bare, text, repeats) if repeats else [])
    if json_path:
        json_path.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
