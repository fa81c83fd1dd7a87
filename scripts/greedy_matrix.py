"""Show that speculation changes nothing: greedy replies of every mode and draft length, against plain decoding.

For each model and prompt the plain reply is made first, then the same reply with lookup drafts and with a draft model
(the model itself, or `--draft`), for each draft length. Each must be the plain reply, token for token. One exception
is allowed and reported as a tie: a pass over several tokens rounds differently from a pass over one, so where
plain decoding's two best logits lie closer than `--tie`, either may win; from there on the replies may part.

Replies go on behind end-of-generation tokens, so that all have the full length. A model that drafts for itself must
have at least 98 % of its drafts accepted. Exit status 1 if any of this does not hold.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np
from bench_common import PROMPTS, Reply, demo_model, gemma_model, prompt_tokens, reply

from edgespec.decoding.drafters.base import Drafter
from edgespec.decoding.drafters.lookup import LookupDrafter
from edgespec.decoding.drafters.model import ModelDrafter
from edgespec.decoding.drafters.none import NoDraft
from edgespec.engine.kernels import EXACT, FAST, choose_kernels, may_repack
from edgespec.llama.model import LlamaModel
from edgespec.llama.session import LlamaSession
from edgespec.models.gguf import read_header

if TYPE_CHECKING:
    from numpy.typing import NDArray

SELF_ACCEPTANCE = 0.98
LENGTHS = (1, 2, 3, 4, 8, 16)


class GapSession(LlamaSession):
    """A session that notes how far apart the two best logits were, one number a pass, while `gaps` is a list."""

    gaps: list[float] | None = None

    def decode(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        rows = super().decode(tokens)
        if self.gaps is not None:
            second, best = np.partition(rows[0], -2)[-2:]
            self.gaps.append(float(best - second))
        return rows


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a reply first differs from the plain one."""

    prompt: int
    position: int
    gap: float
    plain: int
    found: int
    tie: bool


@dataclass(frozen=True, slots=True)
class Cell:
    """One model, mode and draft length over all prompts."""

    model: str
    draft: str
    mode: str
    length: int
    prompts: int
    tokens: int
    drafted: int
    accepted: int
    differences: tuple[Difference, ...]
    self_draft: bool

    @property
    def acceptance(self) -> float | None:
        return self.accepted / self.drafted if self.drafted else None

    @property
    def real(self) -> int:
        """Differences that are no ties."""
        return sum(not difference.tie for difference in self.differences)

    @property
    def ok(self) -> bool:
        faithful = not self.self_draft or self.acceptance is None or self.acceptance >= SELF_ACCEPTANCE
        return faithful and not self.real


def matrix(
    model_path: Path,
    draft_path: Path | None,
    *,
    prompts: Sequence[str] = PROMPTS,
    tokens: int = 200,
    lengths: Sequence[int] = LENGTHS,
    threads: int = 0,
    repack: bool = False,
    kernels: str = EXACT,
    tie: float = 1e-3,
) -> Iterator[Cell]:
    """Every cell of the matrix for one target, as soon as it is known. Without a draft the model drafts for itself.

    `repack` allows repacked weights, and `kernels` decides about them for the target, as in the engine.
    """
    choose_kernels(kernels)
    exact_repack = repack and may_repack(read_header(model_path), kernels)
    with LlamaModel.load(model_path, use_extra_bufts=exact_repack) as model:
        draft_model = model if draft_path is None else LlamaModel.load(draft_path, use_extra_bufts=repack)
        inputs = [prompt_tokens(model, text) for text in prompts]
        n_ctx = max(len(prompt) for prompt in inputs) + tokens
        target = GapSession(model, n_ctx=n_ctx, max_draft=max(lengths), threads=threads)
        draft = LlamaSession(draft_model, n_ctx=n_ctx, max_draft=max(lengths), threads=threads)
        plain, gaps = plain_replies(target, inputs, tokens)
        drafters: dict[str, Callable[[], Drafter]] = {
            "lookup": lambda: LookupDrafter(1, 16),
            "draft": lambda: ModelDrafter(draft, n_vocab=model.n_vocab),
        }
        for mode, make in drafters.items():
            for length in lengths:
                replies = [reply(target, make(), prompt, length, tokens) for prompt in inputs]
                found = tuple(differences(plain, replies, gaps, tie))
                yield Cell(
                    model=model.name, draft=draft_model.name if mode == "draft" else "", mode=mode, length=length,
                    prompts=len(inputs), tokens=sum(len(r.tokens) for r in replies),
                    drafted=sum(r.drafted for r in replies), accepted=sum(r.accepted for r in replies),
                    differences=found, self_draft=mode == "draft" and draft_path is None,
                )  # fmt: skip
        if draft_model is not model:
            draft_model.close()


def plain_replies(
    target: GapSession, inputs: Sequence[Sequence[int]], tokens: int
) -> tuple[list[Reply], list[list[float]]]:
    """The reference, and the top-2 gap behind each of its tokens."""
    plain, gaps = [], []
    for prompt in inputs:
        target.gaps = []
        plain.append(reply(target, NoDraft(), prompt, 0, tokens))
        gaps.append(target.gaps)
    target.gaps = None
    return plain, gaps


def differences(
    plain: Sequence[Reply], replies: Sequence[Reply], gaps: Sequence[Sequence[float]], tie: float
) -> Iterator[Difference]:
    """The first difference of each reply that is not the plain one."""
    for i, (expected, found) in enumerate(zip(plain, replies, strict=True)):
        if expected.tokens != found.tokens:
            pairs = zip(expected.tokens, found.tokens, strict=False)
            at = next((j for j, (a, b) in enumerate(pairs) if a != b), None)
            if at is None:  # one is longer
                yield Difference(i, min(len(expected.tokens), len(found.tokens)), float("inf"), -1, -1, False)
            else:
                gap = gaps[i][at]
                yield Difference(i, at, gap, expected.tokens[at], found.tokens[at], gap < tie)


def line(cell: Cell) -> str:
    share = "-" if cell.acceptance is None else f"{cell.acceptance:7.1%}"
    ties = len(cell.differences) - cell.real
    verdict = "identical" if not cell.differences else f"{cell.real} different, {ties} ties"
    mark = "ok" if cell.ok else "FAIL"
    return f"{cell.model[:32]:32} {cell.mode:7} {cell.length:3} {share:>8} {cell.tokens:7} {verdict:24} {mark}"


def details(cell: Cell) -> Iterator[str]:
    for d in cell.differences:
        kind = "tie" if d.tie else "DIFFERENT"
        yield f"    prompt {d.prompt}, token {d.position}: {d.plain} became {d.found}, top-2 gap {d.gap:.2g}: {kind}"


@click.command(help=__doc__, context_settings={"show_default": True})
@click.option("--model", "models", type=click.Path(exists=True, dir_okay=False, path_type=Path), multiple=True,
              help="GGUF to check; may be repeated.  [default: demo model and Gemma 3 270M]")  # fmt: skip
@click.option("--draft", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="Draft model.  [default: each model drafts for itself]")  # fmt: skip
@click.option("--prompts", type=click.IntRange(1, len(PROMPTS)), default=len(PROMPTS), help="How many of the prompts.")
@click.option("--tokens", type=click.IntRange(1), default=200, help="Length of every reply.")
@click.option("--lengths", default=",".join(map(str, LENGTHS)), help="Draft lengths.")
@click.option("--threads", type=click.IntRange(0), default=0, help="0 takes the physical cores.")
@click.option("--repack/--no-repack", default=True, help="Repack weights, as the engine does; not where AMX is broken.")
@click.option("--kernels", type=click.Choice([EXACT, FAST]), default=EXACT, help="CPU kernels, as in edgespec run.")
@click.option("--tie", type=click.FloatRange(0), default=1e-3, help="Top-2 gap below which a difference is a tie.")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write the cells here.")
@click.pass_context
def main(
    context: click.Context, models: tuple[Path, ...], draft: Path | None, prompts: int, tokens: int, lengths: str,
    threads: int, repack: bool, kernels: str, tie: float, json_path: Path | None,
) -> None:  # fmt: skip
    try:
        ks = sorted({int(text) for text in lengths.split(",")})
    except ValueError as error:
        raise click.BadParameter("expected numbers with commas", param_hint="--lengths") from error
    if ks[0] < 1:
        raise click.BadParameter("must be at least 1", param_hint="--lengths")
    click.echo(f"{'model':32} {'mode':7} {'k':>3} {'accepted':>8} {'tokens':>7} against plain decoding")
    cells = []
    for path in models or (demo_model(), gemma_model()):
        for cell in matrix(
            path,
            draft,
            prompts=PROMPTS[:prompts],
            tokens=tokens,
            lengths=ks,
            threads=threads,
            repack=repack,
            kernels=kernels,
            tie=tie,
        ):
            cells.append(cell)
            click.echo("\n".join([line(cell), *details(cell)]))
    ok = all(cell.ok for cell in cells)
    if json_path:
        result = {"ok": ok, "cells": [asdict(c) | {"acceptance": c.acceptance, "ok": c.ok} for c in cells]}
        json_path.write_text(json.dumps(result, indent=1))
    click.echo("All replies are the plain ones, ties apart." if ok else "Some replies differ.")
    context.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
