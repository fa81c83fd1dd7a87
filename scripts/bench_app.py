"""What drawing costs: the app in a real pseudo terminal, on a stub engine and on a real one.

Stages, each with its bar:

    chat    a stub emits 300 tokens a second into the chat, somebody types: less than 5 % of its rate is lost, a key is
            seen within 100 ms (95th percentile), and the last quarter is no slower than the first
    fence   the same with 4,000 tokens in one code fence that stays open, as formatted text
    race    the same stub measured in two modes on the compare screen, then both panes replayed at once
    real    a real model: the same greedy reply in the app and in `edgespec run`, in turns; the app takes at most 10 %
            longer, and uses at most 15 % of one core while it streams

The last one is only true on a machine that does nothing else. Exit code 1 if a bar is missed.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import cycle
from pathlib import Path
from time import monotonic
from typing import Any

import click
from app_terminal import LETTERS, Terminal, TerminalError
from bench_common import PROMPTS, demo_model
from bench_peers import machine, now

MOST_LOST = 0.05
MOST_ECHO = 0.100
MOST_GROWTH = 0.030
"""Seconds by which the last quarter's 95th percentile may lie above the first one's; less is noise."""
MOST_LONGER = 1.10
MOST_CORE = 0.15
KEY_EVERY = 0.25
STAGES = ("chat", "fence", "race", "real")
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
PROBE = Path(__file__).with_name("app_probe.py")
Verdict = tuple[str, str, bool]


@contextmanager
def app(arguments: Sequence[str]) -> Iterator[tuple[Terminal, Path]]:
    """The app in a terminal, loaded; with a home of its own."""
    with tempfile.TemporaryDirectory() as folder:
        home = {f"XDG_{kind}_HOME": f"{folder}/{kind}" for kind in ("DATA", "STATE")}
        environment = {**os.environ, **home, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        terminal = Terminal([sys.executable, str(PROBE), folder, *arguments], environment)
        try:
            terminal.wait_for(Path(folder) / "ready", 300)
            terminal.rest(1.0)
            yield terminal, Path(folder)
        finally:
            terminal.close()


# On the stub


def stub_chat(rate: int, tokens: int, *, fence: bool) -> dict[str, Any]:
    """A reply of the stub, with somebody typing."""
    echoes: list[tuple[float, float]] = []
    with app(["stub", str(rate), "lookup", str(tokens)]) as (terminal, folder):
        if fence:
            terminal.keys("\x1bOR")  # F3: formatted text
        terminal.paste("FENCE" if fence else "prose")
        terminal.rest(0.5)
        before = terminal.drawn
        terminal.keys("\r")
        result = folder / "reply-1.json"
        until = monotonic() + 3 * tokens / rate + 30
        for letter in cycle(LETTERS):
            terminal.rest(KEY_EVERY)
            if result.exists():
                break
            echoes.append((monotonic(), terminal.echo(letter)))
            if monotonic() > until:
                raise TerminalError("the reply does not end")
        reply = json.loads(result.read_text("utf-8"))
        drawn = terminal.drawn - before
    start, end = reply["first"], reply["done"]
    return figures(reply, rate) | {"echo": quarters(echoes, start, end), "bytes_per_second": drawn / (end - start)}


def figures(reply: dict[str, Any], rate: int) -> dict[str, Any]:
    """Rate and lateness of a reply on the stub."""
    start, end = reply["first"], reply["done"]
    spans = reply["spans"][1:]
    reached = sum(tokens for tokens, _ in spans) / sum(seconds for _, seconds in spans)
    return {
        "tokens": reply["emitted"], "seconds": end - start, "lost": 1 - reached / rate,
        "lag": quarters([(at, lag) for at, lag, _ in reply["lags"]], start, end),
        "core": cores(reply["lags"], start, end), "behind": reply["drawn"] - end,
    }  # fmt: skip


def quarters(samples: Sequence[tuple[float, float]], start: float, end: float) -> dict[str, float]:
    """95th percentile of everything, of the first and of the last quarter."""
    length = (end - start) / 4
    parts = {"all": (start, end), "first": (start, start + length), "last": (end - length, end)}
    return {
        name: p95([value for at, value in samples if since <= at <= until]) for name, (since, until) in parts.items()
    }


def cores(lags: Sequence[Sequence[float]], start: float, end: float) -> dict[str, float]:
    """Share of a core that the app used, as a whole and in the first and last quarter."""
    inside = [(at, used) for at, _, used in lags if start <= at <= end]
    length = max(1, len(inside) // 4)
    parts = {"all": inside, "first": inside[:length], "last": inside[-length:]}
    return {
        name: (part[-1][1] - part[0][1]) / (part[-1][0] - part[0][0]) if len(part) > 1 else 0.0
        for name, part in parts.items()
    }


def p95(values: Sequence[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(0.95 * len(values)))] if values else 0.0


def stub_race(rate: int, tokens: int) -> dict[str, Any]:
    """Two modes measured on the stub, and their replay in two panes."""
    with app(["stub", str(rate), "lookup", str(tokens)]) as (terminal, folder):
        terminal.keys("\x1bOS")
        terminal.rest(2.0)  # the probe fills in the numbers
        terminal.keys("\x1bOS")
        terminal.wait_for(folder / "race.json", 4 * tokens / rate + 60)
        race = json.loads((folder / "race.json").read_text("utf-8"))
    start, end = race["ended"] - race["seconds"], race["ended"]
    lags = race["lags"]
    return {
        "tokens": tokens, "seconds": race["seconds"], "lost": 1 - tokens / rate / race["seconds"],
        "lag": quarters([(at, lag) for at, lag, _ in lags], start, end), "core": cores(lags, start, end),
    }  # fmt: skip


def judge_stub(stage: str, result: dict[str, Any]) -> Iterator[Verdict]:
    yield f"{stage}: rate lost", f"{result['lost']:.1%}", result["lost"] < MOST_LOST
    for name, what in (("echo", "a key is seen"), ("lag", "event loop late")):
        if name in result:
            times = result[name]
            whole, first, last = (round(times[part] * 1e3) for part in ("all", "first", "last"))
            told = f"{whole} ms (first quarter {first}, last {last})"
            good = times["all"] < MOST_ECHO and times["last"] < times["first"] + MOST_GROWTH
            yield f"{stage}: {what}, p95", told, good
    core = result["core"]
    told = f"{core['all']:.0%} of a core (first quarter {core['first']:.0%}, last {core['last']:.0%})"
    yield f"{stage}: the app used", told, core["last"] < core["first"] + 0.05


# On a real engine


def real_app(flags: Sequence[str], prompt: str) -> dict[str, Any]:
    """A reply in the app, in a fresh process."""
    with app(["real", *flags]) as (terminal, folder):
        terminal.paste(prompt)
        terminal.rest(0.5)
        before = terminal.drawn
        terminal.keys("\r")
        terminal.wait_for(folder / "reply-1.json", 900)
        reply = json.loads((folder / "reply-1.json").read_text("utf-8"))
        wall = reply["done"] - reply["first"]
        return {
            "seconds": reply["prompt_seconds"] + reply["decode_seconds"], "decode_seconds": reply["decode_seconds"],
            "emitted": reply["emitted"], "text": reply["text"], "core": (reply["cpu_done"] - reply["cpu_first"]) / wall,
            "bytes_per_second": (terminal.drawn - before) / wall,
        }  # fmt: skip


def real_run(flags: Sequence[str], prompt: str) -> dict[str, Any]:
    """The same reply of `edgespec run`."""
    line = [sys.executable, "-P", "-m", "edgespec.cli.main", "run", prompt, "--json", *flags]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        raise TerminalError(f"edgespec run failed: {done.stderr.strip()}")
    answer = json.loads(done.stdout)
    stats = answer["stats"]
    return {
        "seconds": stats["prompt_seconds"] + stats["decode_seconds"], "decode_seconds": stats["decode_seconds"],
        "emitted": stats["emitted_tokens"], "text": answer["text"],
    }  # fmt: skip


def real(flags: Sequence[str], prompt: str, repeats: int) -> dict[str, Any]:
    """App and command in turns; who goes first changes."""
    pairs: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for repeat in range(repeats):
        if repeat % 2:
            ours, theirs = real_app(flags, prompt), real_run(flags, prompt)
        else:
            theirs, ours = real_run(flags, prompt), real_app(flags, prompt)
        pairs.append((ours, theirs))
        click.echo(
            f"real {repeat + 1}/{repeats}: app {ours['seconds']:.2f} s, run {theirs['seconds']:.2f} s, "
            f"app process {ours['core']:.1%} of a core", err=True,
        )  # fmt: skip
    texts = {side.pop("text") for pair in pairs for side in pair}
    return {
        "ratio": statistics.median(ours["seconds"] / theirs["seconds"] for ours, theirs in pairs),
        "core": statistics.median(ours["core"] for ours, _ in pairs), "same_text": len(texts) == 1,
        "pairs": pairs,
    }  # fmt: skip


def judge_real(result: dict[str, Any]) -> Iterator[Verdict]:
    ratios = [ours["seconds"] / theirs["seconds"] for ours, theirs in result["pairs"]]
    told = f"{result['ratio']:.3f} times that of edgespec run ({min(ratios):.3f}..{max(ratios):.3f})"
    yield "real: time of a reply", told, result["ratio"] <= MOST_LONGER
    yield "real: the app used", f"{result['core']:.1%} of a core", result["core"] <= MOST_CORE
    yield "real: same text everywhere", "yes" if result["same_text"] else "no", result["same_text"]


@click.command(help=__doc__, context_settings={"show_default": True})
@click.option("--stage", "stages", type=click.Choice(STAGES), multiple=True, help="Repeatable. [default: all]")
@click.option("--seconds", type=click.IntRange(4), default=60, help="How long the stub emits in chat and race.")
@click.option("--rate", type=click.IntRange(10), default=300, help="Tokens a second of the stub.")
@click.option("--fence-tokens", type=click.IntRange(100), default=4000, help="Length of the open code fence.")
@click.option(
    "--target", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="[default: the demo model]"
)
@click.option("--draft", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Its draft model.")
@click.option("--mode", type=click.Choice(["plain", "lookup", "draft", "auto"]), default="plain")
@click.option("--tokens", type=click.IntRange(8), default=400, help="Length of the real reply.")
@click.option("--repeats", type=click.IntRange(1), default=5, help="Pairs of real replies.")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write the result here.")
def main(
    stages: tuple[str, ...], seconds: int, rate: int, fence_tokens: int, target: Path | None, draft: Path | None,
    mode: str, tokens: int, repeats: int, json_path: Path | None,
) -> None:  # fmt: skip
    results: dict[str, Any] = {}
    verdicts: list[Verdict] = []
    flags = ["--model", str(target or demo_model()), "--mode", mode, "--ctx", "2048", "--temperature", "0",
             "--max-tokens", str(tokens), *(["--draft", str(draft)] if draft else [])]  # fmt: skip
    for stage in stages or STAGES:
        click.echo(f"{stage} ...", err=True)
        try:
            if stage == "real":
                results[stage] = real(flags, PROMPTS[0], repeats)
                verdicts += judge_real(results[stage])
                continue
            if stage == "race":
                results[stage] = stub_race(rate, seconds * rate)
            else:
                length = fence_tokens if stage == "fence" else seconds * rate
                results[stage] = stub_chat(rate, length, fence=stage == "fence")
            verdicts += judge_stub(stage, results[stage])
        except TerminalError as error:
            verdicts.append((stage, f"failed: {error}", False))
    width = max(len(name) for name, _, _ in verdicts)
    for name, told, good in verdicts:
        click.echo(f"{'ok  ' if good else 'MISS'}  {name:<{width}}  {told}")
    if json_path:
        whole = {"date": now(), "machine": machine(), "rate": rate, "target": (target or demo_model()).name,
                 "mode": mode, "results": results}  # fmt: skip
        json_path.write_text(json.dumps(whole, indent=1), "utf-8")
    if not all(good for _, _, good in verdicts):
        raise SystemExit(1)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
