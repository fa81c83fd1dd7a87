"""What a long context does to speculation.

decode   replies behind 4,000 and 8,000 tokens, in every mode, relative to plain decoding at the same place. The
         prompt is read once; repeats are interleaved and take turns in going first, medians are compared
lookup   time that the n-gram index takes a round with a long history, without any model: of text that repeats,
         of text that does not, and of one token for ever

python scripts/bench_length.py TARGET --draft DRAFT
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

import click

from edgespec.decoding.drafters.lookup import LookupDrafter
from edgespec.decoding.sampling import SamplingParams
from edgespec.decoding.stats import GenerationStats
from edgespec.engine import messages as m
from edgespec.engine.client import Engine
from edgespec.types import Mode, Origin, Verdict

LOOKUP_LIMIT = 20e-6
NEVER_SLOWER = 0.98
WORDS = (
    "river stone paper lamp garden morning winter letter engine bridge music window forest kitchen mirror harbour "
    "quiet broken early golden narrow heavy gentle bright hidden ancient open careful walks sings carries builds "
    "remembers follows paints finds watches repairs the a one every his their near under beyond without because"
)


def prose(words: int) -> str:
    """Sentences that hardly repeat, the same every time."""
    rng = random.Random(7)
    sentences = [" ".join(rng.choices(WORDS.split(), k=11)).capitalize() + "." for _ in range(words // 11)]
    return " ".join(sentences)


def decode(target: Path, draft: Path | None, context: int, repeats: int, tokens: int) -> None:
    """Print a line for every mode."""
    modes = [Mode.PLAIN, Mode.LOOKUP, Mode.AUTO] + ([Mode.DRAFT] if draft is not None else [])
    text = prose(int(context * 0.88)) + "\n\nContinue in the same way."
    with Engine.open(target, draft, n_ctx=context + 1024) as engine:
        seconds: dict[Mode, list[float]] = {mode: [] for mode in modes}
        for repeat in range(repeats + 1):  # the first go reads the prompt
            turn = repeat % len(modes)
            for mode in (*modes[turn:], *modes[:turn]):
                stats = _reply(engine, text, mode, tokens)
                if repeat:
                    seconds[mode].append(stats.decode_seconds / stats.emitted_tokens)
    for mode in modes:
        ratio = median(p / own for p, own in zip(seconds[Mode.PLAIN], seconds[mode], strict=True))
        click.echo(
            f"{stats.prompt_tokens:6,} tokens of context  {mode:7} {1 / median(seconds[mode]):6.1f} tokens/s  "
            f"{ratio:.2f} x plain" + ("  (wanted: 0.98)" if mode is Mode.AUTO and ratio < NEVER_SLOWER else "")
        )


def _reply(engine: Engine, text: str, mode: Mode, tokens: int) -> GenerationStats:
    options = m.GenerateOptions(mode=mode, sampling=SamplingParams(temperature=0), max_tokens=tokens)
    *_, done = engine.generate(text, options)
    if not isinstance(done, m.GenerationDone):
        raise click.ClickException(f"failed: {done}")
    return done.stats


def lookup_round(history: Sequence[int], rounds: int = 2000) -> float:
    """Median seconds that a round takes behind this history: to add a token, find the match and copy four."""
    drafter = LookupDrafter()
    context = list(history)
    drafter.begin(context)
    rng, seconds = random.Random(1), []
    for _ in range(rounds):
        context.append(rng.choice(history))
        started = perf_counter()
        draft = drafter.propose(context, 4)
        drafter.observe(Verdict(len(draft.tokens), context[-1], Origin.BONUS if draft.tokens else Origin.PLAIN))
        seconds.append(perf_counter() - started)
    return median(seconds)


@click.command(help=__doc__)
@click.argument("target", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--draft", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--context", "contexts", type=click.IntRange(256), multiple=True, default=(4000, 8000))
@click.option("--history", type=click.IntRange(16), default=32_000)
@click.option("--repeats", type=click.IntRange(1), default=5)
@click.option("--tokens", type=click.IntRange(8), default=64)
def main(target: Path, draft: Path | None, contexts: tuple[int, ...], history: int, repeats: int, tokens: int) -> None:
    rng = random.Random(3)
    histories = {
        "random": [rng.randrange(49_000) for _ in range(history)],
        "repeating": [rng.randrange(49_000) for _ in range(200)] * (history // 200),
        "one token": [5] * history,
    }
    for name, tokens_ in histories.items():
        took = lookup_round(tokens_)
        click.echo(f"lookup behind {len(tokens_):,} tokens, {name:9}: {1e6 * took:5.1f} µs a round"
                   + ("" if took < LOOKUP_LIMIT else f"  (wanted: {1e6 * LOOKUP_LIMIT:.0f})"))  # fmt: skip
    for context in contexts:
        decode(target, draft, context, repeats, tokens)


if __name__ == "__main__":
    main()
