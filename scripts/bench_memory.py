"""Memory of `edgespec run` in every mode, beside llama-server with the same models, context and cache types.

Every process of a program counts: `edgespec run` is two, the command and the engine. Where the system tells (Linux), a
page that several processes share counts once (PSS); elsewhere resident memory is added up (RSS). The figure is the
highest total seen from start to end of one greedy reply. Weights that are mapped from the file count for both.

Both sides use the llama.cpp library in the peers' folder; scripts/README.md says how to build it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import peer_runners
import psutil
from bench_common import demo_model
from bench_peers import ends_on_signals, find_peers, load_prompts, machine, now, physical_cores
from peer_report import table
from peer_runners import Job, PeerError, Prompt, ServerRunner
from peer_settings import SERVER, Setting, all_settings

from edgespec.settings import CACHE_TYPES

LIMIT = 150 * 2**20
"""How far above llama-server is allowed."""
MODES = {"plain": "none", "lookup": "none", "draft": "draft", "auto": "draft"}
"""A mode of EdgeSpec: what llama-server does for comparison. Without a draft model `auto` needs none either."""
_EVERY = 0.05
_LONGEST = 900.0


@dataclass(frozen=True, slots=True)
class Peak:
    """Highest memory of one program, all its processes together.

    Attributes:
        total: bytes, shared pages once where the system tells.
        private: bytes that belong to these processes alone at the same moment; None where the system does not tell.
        samples: how often it was looked at.
    """

    name: str
    total: int
    private: int | None
    samples: int


class Watch:
    """Looks at a process and its children until told to stop."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._over = threading.Event()
        self.total, self.samples = 0, 0
        self.private: int | None = None
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def stop(self, name: str) -> Peak:
        self._over.set()
        self._thread.join()
        return Peak(name, self.total, self.private, self.samples)

    def _look(self) -> None:
        while True:
            sizes = [size for process in family(self._root) if (size := memory_of(process)) is not None]
            total = sum(size for size, _ in sizes)
            if total > self.total:
                self.total = total
                known = [private for _, private in sizes if private is not None]
                self.private = sum(known) if len(known) == len(sizes) else None
            self.samples += 1
            if self._over.wait(_EVERY):
                return


def family(root: psutil.Process) -> list[psutil.Process]:
    """A process and all below it that are still there."""
    try:
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


def memory_of(process: psutil.Process) -> tuple[int, int | None] | None:
    """Proportional (or resident) and private bytes of a process; None if it is gone."""
    try:
        full: Any = process.memory_full_info()
    except psutil.AccessDenied:
        try:
            return process.memory_info().rss, None
        except psutil.Error:
            return None
    except psutil.Error:
        return None
    return getattr(full, "pss", full.rss), getattr(full, "uss", None)


def edgespec_command(job: Job, mode: str, length: int, prompt: Path) -> list[str]:
    draft = ["--draft", str(job.draft)] if job.draft and mode in ("draft", "auto") else []
    return [
        sys.executable, "-P", "-m", "edgespec.cli.main", "run", "--raw", "--file", str(prompt), "--json",
        "--model", str(job.target), *draft, "--mode", mode, "--draft-length", str(length), "--ctx", str(job.ctx),
        "--threads", str(job.threads), "--gpu-layers", str(job.gpu_layers), "--temperature", "0",
        "--max-tokens", str(job.tokens), "--cache-type-k", job.cache_type_k, "--cache-type-v", job.cache_type_v,
    ]  # fmt: skip


def run_edgespec(job: Job, mode: str, length: int, prompt: Prompt) -> Peak:
    """One `edgespec run`, watched. Raises PeerError."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "prompt.txt"
        file.write_text(prompt.text, "utf-8")
        line = edgespec_command(job, mode, length, file)
        process = peer_runners.start_child(
            line, job, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
        watch = Watch(process.pid)
        try:
            out, err = process.communicate(timeout=_LONGEST)
        except subprocess.TimeoutExpired:
            raise PeerError(f"no reply within {_LONGEST:.0f} s") from None
        finally:
            peak = watch.stop(f"edgespec {mode}")
            peer_runners.end(process)
    if process.returncode:
        raise PeerError(peer_runners.ending(process, err.decode("utf-8", "replace")))
    emitted = json.loads(out)["stats"]["emitted_tokens"]
    if emitted < min(8, job.tokens):
        raise PeerError(f"the reply has only {emitted} tokens")
    return peak


def run_server(job: Job, setting: Setting, prompt: Prompt) -> Peak:
    """One llama-server and one reply, watched from its start. Raises PeerError."""
    watches: list[Watch] = []

    def watched(line: Sequence[str], job: Job, **streams: Any) -> subprocess.Popen[bytes]:
        process = peer_runners.start_child(line, job, **streams)
        watches.append(Watch(process.pid))
        return process

    runner = None
    try:
        runner = ServerRunner(setting, job, spawn=watched)
        runner.ask(prompt, job.tokens)
    finally:
        peaks = [watch.stop(setting.name) for watch in watches]
        if runner is not None:
            runner.close()
    return peaks[0]


def compare(ours: Peak, theirs: Peak) -> str:
    """The difference, and whether it is within the limit."""
    more = ours.total - theirs.total
    if more < 0:
        return f"{mib(-more)} MiB less"
    return f"{mib(more)} MiB more" + ("" if more <= LIMIT else f", above the limit of {mib(LIMIT)}")


def mib(size: int | None) -> str:
    return "–" if size is None else f"{size / 2**20:.0f}"


def report(ours: dict[str, Peak], theirs: dict[str, Peak], counterparts: dict[str, str]) -> str:
    """As Markdown: every mode beside its counterpart."""
    rows = []
    for mode, peak in ours.items():
        other = theirs.get(counterparts[mode])
        rows.append((
            peak.name, mib(peak.total), mib(peak.private), other.name if other else "–",
            mib(other.total if other else None), mib(other.private if other else None),
            compare(peak, other) if other else "–",
        ))  # fmt: skip
    header = ("program", "MiB", "of these private", "beside", "MiB", "of these private", "difference")
    return table(header, rows)


@click.command(help=__doc__, context_settings={"show_default": True})
@click.option("--peers", type=click.Path(exists=True, file_okay=False, path_type=Path), required=True)
@click.option("--target", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=True)
@click.option("--draft", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="[default: the demo model]")
@click.option("--mode", "modes", type=click.Choice(list(MODES)), multiple=True, help="Repeatable. [default: all]")
@click.option("--prompt", default="summary", help="A built-in prompt.")
@click.option("--tokens", type=click.IntRange(8), default=32)
@click.option("-k", "--draft-length", type=click.IntRange(1, 8), default=3)
@click.option("--ctx", type=click.IntRange(64), default=4096)
@click.option("--threads", type=click.IntRange(0), default=0, help="0 takes the physical cores.")
@click.option("--gpu-layers", type=click.IntRange(0), default=0)
@click.option("--cache-type-k", type=click.Choice(CACHE_TYPES), default="f16")
@click.option("--cache-type-v", type=click.Choice(CACHE_TYPES), default="f16")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write the result here.")
def main(
    peers: Path, target: Path, draft: Path | None, modes: tuple[str, ...], prompt: str, tokens: int, draft_length: int,
    ctx: int, threads: int, gpu_layers: int, cache_type_k: str, cache_type_v: str, json_path: Path | None,
) -> None:  # fmt: skip
    job = Job(
        find_peers(peers), target, draft or demo_model(), ctx, threads or physical_cores(), tokens, gpu_layers,
        _LONGEST, cache_type_k, cache_type_v,
    )  # fmt: skip
    os.environ["LLAMA_CPP_LIB_PATH"] = str(job.peers)
    wanted = {mode: MODES[mode] for mode in modes or MODES}
    _, (asked,) = load_prompts("built-in", target, [prompt])
    names = {"none": "server:none", "draft": f"server:draft-simple:k{draft_length}"}
    settings = {s.name: s for s in all_settings() if s.program == SERVER}
    ours: dict[str, Peak] = {}
    theirs: dict[str, Peak] = {}
    failed: list[str] = []
    with ends_on_signals():
        for kind in dict.fromkeys(wanted.values()):
            try:
                theirs[kind] = run_server(job, settings[names[kind]], asked)
            except PeerError as error:
                failed.append(f"{names[kind]}: {error}")
        for mode in wanted:
            try:
                ours[mode] = run_edgespec(job, mode, draft_length, asked)
            except PeerError as error:
                failed.append(f"edgespec {mode}: {error}")
    click.echo(report(ours, theirs, wanted))
    for line in failed:
        click.echo(f"Failed: {line}", err=True)
    if json_path:
        whole = {
            "date": now(), "machine": machine(), "target": target.name, "draft": job.draft.name if job.draft else None,
            "ctx": ctx, "cache_type_k": cache_type_k, "cache_type_v": cache_type_v, "tokens": tokens,
            "edgespec": {mode: asdict(peak) for mode, peak in ours.items()},
            "server": {kind: asdict(peak) for kind, peak in theirs.items()}, "failed": failed,
        }  # fmt: skip
        json_path.write_text(json.dumps(whole, indent=1), "utf-8")
    over = [mode for mode, peak in ours.items() if (o := theirs.get(wanted[mode])) and peak.total - o.total > LIMIT]
    if over or failed:
        raise SystemExit(1)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
