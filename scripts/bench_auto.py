"""Auto mode against plain decoding and every fixed choice: eight kinds of work, interleaved, medians of ratios.

    python scripts/bench_auto.py TARGET.gguf --draft DRAFT.gguf [--repeats 5] [--tokens 128] [--kinds edit,story]

Every repeat runs plain decoding and all other ways on the same prompt one after the other, from empty caches, in an
order that turns; a ratio is taken within a repeat only, so that a machine that slows down in between does no harm.
Replies have at most --tokens tokens; speeds are per token. What auto mode learns goes to --cache, empty at first unless
it is named.
Also shown: a draft model that knows nothing (--hostile, random weights of the same vocabulary), and --temperature.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean, median

from bench_common import CODE

from edgespec.decoding.sampling import SamplingParams
from edgespec.engine import messages as m
from edgespec.engine.client import Engine
from edgespec.types import Mode

NEWS = (
    "The city council met on Tuesday evening to discuss the new bridge over the river. Engineers explained that the "
    "old bridge, built in 1931, can no longer carry heavy trucks and that repairs would cost almost as much as a new "
    "one. Several residents were worried about noise and dust during the two years of construction. The mayor promised "
    "that work would stop at eight in the evening and that a temporary footbridge would be open at all times."
)
KINDS = {
    "edit": f"Rename the variable `config` to `settings` everywhere and print the whole function:\n{CODE}",
    "code": "Write a Python class for a bank account with deposit, withdraw and a history of transactions.",
    "story": "Tell me a short story about a robot who learns to paint.",
    "summary": f"Summarise this text in three sentences:\n{NEWS}",
    "json": "Write a JSON array that describes five books with title, author, year and publisher.",
    "list": "List ten facts about the Moon.",
    "translate": "Translate into French: The train leaves at nine and arrives at noon. Please bring your passport.",
    "arithmetic": "Apples cost 3 dollars and pears 4. Compute step by step the price of 5 apples and 6 pears.",
}


def ways(draft: bool, lengths: Sequence[int]) -> dict[str, m.GenerateOptions]:
    """Everything that is compared, by a short name."""
    found = {"plain": m.GenerateOptions(mode=Mode.PLAIN), "auto": m.GenerateOptions(mode=Mode.AUTO)}
    for k in lengths:
        found[f"lookup {k}"] = m.GenerateOptions(mode=Mode.LOOKUP, draft_length=k)
        if draft:
            found[f"draft {k}"] = m.GenerateOptions(mode=Mode.DRAFT, draft_length=k)
    return found


def measure(engine: Engine, text: str, options: m.GenerateOptions) -> m.GenerationDone:
    """One reply from empty caches."""
    *_, done = engine.generate((m.Message("user", text),), options)
    if not isinstance(done, m.GenerationDone):
        raise SystemExit(f"failed: {done}")
    return done


def bench(engine: Engine, text: str, runs: dict[str, m.GenerateOptions], repeats: int) -> dict[str, list[float]]:
    """Speeds by way, one a repeat, relative to plain decoding in the same repeat."""
    ratios: dict[str, list[float]] = {name: [] for name in runs}
    names = list(runs)
    for repeat in range(repeats):
        turn = repeat % len(names)
        seconds = {}
        for name in (*names[turn:], *names[:turn]):
            done = measure(engine, text, runs[name])
            seconds[name] = done.stats.decode_seconds / max(1, done.stats.emitted_tokens)
        for name in names:
            ratios[name].append(seconds["plain"] / seconds[name])
    return ratios


def report(kind: str, ratios: dict[str, list[float]]) -> tuple[float, float]:
    """Print a line; auto's speed relative to plain decoding, and to the best fixed choice in hindsight."""
    medians = {name: median(values) for name, values in ratios.items()}
    best = max((name for name in medians if name != "auto"), key=lambda name: medians[name])
    share = median(auto / other for auto, other in zip(ratios["auto"], ratios[best], strict=True))
    spread = max(ratios["auto"]) - min(ratios["auto"])
    print(
        f"{kind:12} auto {medians['auto']:.2f} x plain (spread {spread:.2f}); best fixed: {best} "
        f"{medians[best]:.2f} x; auto {share:.2f} x that"
    )
    return medians["auto"], share


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path)
    parser.add_argument("--draft", type=Path)
    parser.add_argument("--hostile", type=Path, help="a draft model with random weights; runs plain and auto only")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--lengths", default="1,2,3,4,5,6,7,8")
    parser.add_argument("--auto-only", action="store_true", help="plain and auto only")
    parser.add_argument("--kernels", default="exact", choices=("exact", "fast"))
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    os.environ["EDGESPEC_CACHE_DIR"] = str(args.cache or tempfile.mkdtemp(prefix="bench-auto-"))
    draft = args.hostile or args.draft
    lengths = [] if args.auto_only or args.hostile else [int(k) for k in args.lengths.split(",")]
    # Greedy replies end when they end; a speed is per token, so that an early end does no harm.
    sampling = SamplingParams(temperature=args.temperature, seed=7)
    runs = {
        name: replace(options, max_tokens=args.tokens, fresh=True, sampling=sampling)
        for name, options in ways(draft is not None, lengths).items()
    }
    results, raw = {}, {}
    with Engine.open(args.target, draft, kernels=args.kernels) as engine:
        measure(engine, KINDS["story"], replace(runs["auto"], max_tokens=8))  # calibrates, if that was not done yet
        for kind in args.kinds.split(","):
            raw[kind] = bench(engine, KINDS[kind], runs, args.repeats)
            results[kind] = report(kind, raw[kind])
        done = measure(engine, KINDS["story"], replace(runs["auto"], max_tokens=8))
    plain, best = zip(*results.values(), strict=True)
    print(f"geometric means: {geometric_mean(plain):.3f} x plain, {geometric_mean(best):.3f} x the best fixed choice")
    print(f"worst: {min(plain):.3f} x plain, {min(best):.3f} x the best fixed choice")
    if done.auto is not None:
        curve = " ".join(f"{n}:{cost:.2f}" for n, cost in done.auto.curve)
        print(f"v(n): {curve}; c: {done.auto.draft_step}", file=sys.stderr)
    if args.json:
        args.json.write_text(json.dumps(raw, indent=1))


if __name__ == "__main__":
    main()
