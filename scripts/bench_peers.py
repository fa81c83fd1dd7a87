"""Decode the same replies with EdgeSpec and with every peer, interleaved, and compare.

Everyone uses the same GGUF files, prompts, context, threads and greedy sampling, and the same llama.cpp library: that
in the folder of the peers' programs (scripts/README.md says how to build them). Within a repeat every setting answers
a prompt before the next prompt comes, in an order that changes, so that a machine that slows down slows all. Caches are
cold for each reply; programs that learn from earlier replies are started afresh for each.

Every measurement is written to the JSON file at once: an interrupted run goes on with --resume, also with other
settings. A program that fails becomes a row with the reason. `edgespec:auto` may keep what it learned about the cost
of passes on this machine, as it does in use.

Settings are chosen by --only with patterns such as 'edgespec:*' or 'server:draft-simple:k3'; --list shows them.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter, time
from typing import Any

import click
import peer_runners
from bench_common import demo_model
from peer_report import Measurement, Results, markdown
from peer_runners import EdgeSpecRunner, Job, PeerError, Prompt, Runner
from peer_settings import EDGESPEC, PLAIN, PYTHON, SERVER, Setting, all_settings, choose, turn

FORMAT = 1
WARM_UP = "Name three colours."
WARM_UP_TOKENS = 8
TRIES = 2
"""A setting that fails this often in a row is left out of the rest of the run."""
USUAL_GAIN = 1.2
"""What speculation gains on average, for the estimate of time only."""


# Prompts


def load_prompts(source: str, target: Path, names: Sequence[str]) -> tuple[Prompt, list[Prompt]]:
    """A prompt to warm up with, and the built-in prompts or those of a file, in the target's chat template.

    Raises EdgeSpecError for a file that cannot be read, ClickException for a prompt that programs would read
    differently.
    """
    from edgespec.llama.model import LlamaModel
    from edgespec.prompts import built_in_prompts, read_prompts, select

    found = built_in_prompts() if source == "built-in" else read_prompts(source)
    if names:
        found = select(found, names)
    model = LlamaModel.load(target, vocab_only=True)
    try:
        return render(model, "warm-up", "", WARM_UP), [render(model, p.id, p.kind, p.text) for p in found]
    finally:
        model.close()


def render(model: Any, name: str, kind: str, text: str) -> Prompt:
    """The text as programs are to tokenise it, without the BOS that they add themselves, and its tokens."""
    from edgespec.chat import ChatTemplate, PromptBuilder
    from edgespec.engine.messages import Message

    vocab, message = model.vocab, Message("user", text)
    bos, eos = (vocab.text(token) if token >= 0 else "" for token in (vocab.bos, vocab.eos))
    if model.chat_template:
        text = ChatTemplate(model.chat_template, bos, eos).render([message]).text
    if vocab.add_bos and bos:
        text = text.removeprefix(bos)
    builder = PromptBuilder(model.chat_template, vocab)
    tokens = builder.complete(text)
    if tokens != builder.chat([message])[0]:
        raise click.ClickException(f"Prompt {name} has control texts in it, which programs treat differently.")
    return Prompt(name, kind, text, tuple(tokens))


# Programs that are up


class Pool:
    """Programs that stay up between replies as far as memory allows; the one idle longest goes first."""

    def __init__(self, job: Job, warm_up: Prompt) -> None:
        self._job = job
        self.warm_up = warm_up
        self._up: dict[str, Runner] = {}
        self._warm: set[str] = set()
        size = job.target.stat().st_size + (job.draft.stat().st_size if job.draft else 0)
        self._need = 3 * size + (2 << 30)

    def ask(self, setting: Setting, prompt: Prompt, tokens: int) -> peer_runners.Reply:
        """Raises PeerError; the program is then ended and not used again."""
        key = EDGESPEC if setting.program == EDGESPEC else setting.name
        try:
            runner = self._up.pop(key, None) or self._start(setting)
            self._up[key] = runner  # the last one used is the last to go
            if isinstance(runner, EdgeSpecRunner):
                runner.setting = setting
            if setting.name not in self._warm and setting.program in (EDGESPEC, SERVER, PYTHON):
                runner.ask(self.warm_up, WARM_UP_TOKENS)
                self._warm.add(setting.name)
            return runner.ask(prompt, tokens)
        except PeerError:
            self._close(key)
            raise
        finally:
            if setting.fresh:
                self._close(key)

    def library(self) -> tuple[str, ...]:
        """The llama.cpp libraries of all programs that are up; more than one folder means an unfair comparison."""
        pids = [
            r.engine.pid if isinstance(r, EdgeSpecRunner) else getattr(r, "process", None) for r in self._up.values()
        ]
        found = {
            path for p in pids if p is not None for path in peer_runners.libraries(p if isinstance(p, int) else p.pid)
        }
        return tuple(sorted({os.path.dirname(path) for path in found}))

    def engine(self) -> EdgeSpecRunner | None:
        runner = self._up.get(EDGESPEC)
        return runner if isinstance(runner, EdgeSpecRunner) else None

    def close(self) -> None:
        for key in list(self._up):
            self._close(key)

    def _start(self, setting: Setting) -> Runner:
        from edgespec.hardware import memory_bytes

        while self._up and memory_bytes()[1] < self._need:
            self._close(next(iter(self._up)))
        return peer_runners.start(setting, self._job)

    def _close(self, key: str) -> None:
        runner = self._up.pop(key, None)
        if runner is not None:
            runner.close()
        self._warm = {
            name for name in self._warm if name != key and not (key == EDGESPEC and name.startswith("edgespec:"))
        }


# The record


@dataclass(frozen=True, slots=True)
class Pace:
    """What a plain reply costs here, for the estimate.

    Attributes:
        load: seconds to load the models.
        prompt, decode: tokens per second of prompt and reply.
    """

    load: float
    prompt: float
    decode: float


class Record:
    """The run's JSON file: written whole after each measurement, so that nothing is lost."""

    def __init__(self, path: Path, facts: dict[str, Any], *, resume: bool) -> None:
        self.path = path
        self.facts = facts
        self.measurements: dict[tuple[str, str, int], Measurement] = {}
        if path.exists():
            if not resume:
                raise click.ClickException(f"{path} is there already: add --resume to go on with it, or remove it.")
            self._take_over(json.loads(path.read_text("utf-8")))

    def add(self, measurement: Measurement) -> None:
        self.measurements[measurement.key] = measurement
        self.save()

    def done(self, key: tuple[str, str, int]) -> bool:
        found = self.measurements.get(key)
        return found is not None and not found.failure

    def save(self) -> None:
        run = self.facts["run"]
        run["ended"] = now()
        run["done"] = sum(not m.failure for m in self.measurements.values())
        whole = {**self.facts, "measurements": [asdict(m) for m in self.measurements.values()]}
        part = self.path.with_name(self.path.name + ".part")
        part.write_text(json.dumps(whole, indent=1), "utf-8")
        part.replace(self.path)

    def _take_over(self, old: dict[str, Any]) -> None:
        same = ("target", "draft", "ctx", "threads", "tokens", "gpu_layers")
        for name in same:
            before, after = old["run"].get(name), self.facts["run"][name]
            if before != after:
                raise click.ClickException(f"{self.path} was measured with another {name} ({before}, not {after}).")
        for entry in old["measurements"]:
            measurement = Measurement(**entry)
            if not measurement.failure:
                self.measurements[measurement.key] = measurement
        self.facts["run"]["started"] = old["run"]["started"]
        known = {p["name"] for p in self.facts["prompts"]}
        self.facts["prompts"] += [p for p in old["prompts"] if p["name"] not in known]
        self.facts["commands"] = {**old["commands"], **self.facts["commands"]}


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M")


def machine() -> dict[str, Any]:
    """What the results depend on, and nothing that names the machine."""
    from edgespec.hardware import memory_bytes, power, processor

    cpu = processor()
    return {
        "processor": cpu.name, "physical_cores": cpu.physical_cores, "logical_cores": cpu.logical_cores,
        "features": cpu.features, "memory_gib": round(memory_bytes()[0] / 2**30),
        "system": f"{platform.system()} {platform.machine()}", "power": power().source,
    }  # fmt: skip


def facts(job: Job, settings: Sequence[Setting], prompts: Sequence[Prompt], repeats: int) -> dict[str, Any]:
    """Everything about a run but its measurements."""
    return {
        "format": FORMAT,
        "run": {
            "started": now(), "ended": now(), "target": job.target.name, "draft": job.draft.name if job.draft else None,
            "ctx": job.ctx, "threads": job.threads, "tokens": job.tokens, "gpu_layers": job.gpu_layers,
            "repeats": repeats, "library": "unknown", "planned": len(settings) * len(prompts) * repeats, "done": 0,
        },
        "machine": machine(),
        "prompts": [{"name": p.name, "kind": p.kind, "tokens": len(p.tokens)} for p in prompts],
        "commands": {s.name: peer_runners.shown(peer_runners.command(s, job), job) for s in settings},
    }  # fmt: skip


# The run


def measure(pool: Pool, setting: Setting, prompt: Prompt, repeat: int, tokens: int) -> Measurement:
    begin = time()
    try:
        reply = pool.ask(setting, prompt, tokens)
    except PeerError as error:
        return Measurement(setting.name, prompt.name, repeat, str(error), at=begin)
    failure = ""
    if reply.prompt_tokens not in (0, len(prompt.tokens)):
        failure = f"it read the prompt as {reply.prompt_tokens} tokens, not {len(prompt.tokens)}"
    return Measurement(setting.name, prompt.name, repeat, failure, **asdict(reply), at=begin)


def plan(settings: Sequence[Setting], prompts: Sequence[Prompt], repeats: int) -> Iterable[tuple[int, Prompt, Setting]]:
    for repeat in range(repeats):
        for number, prompt in enumerate(prompts):
            for setting in turn(settings, repeat, number):
                yield repeat, prompt, setting


def seconds_of(setting: Setting, prompt: Prompt, tokens: int, pace: Pace) -> float:
    """About how long one measurement takes."""
    gain = 1.0 if setting.method == "none" else USUAL_GAIN
    start_up = pace.load + 2.0 if setting.fresh else 0.0
    return start_up + len(prompt.tokens) / pace.prompt + tokens / pace.decode / gain


def find_pace(pool: Pool, prompt: Prompt) -> Pace:
    """A short plain reply, which also warms up."""
    plain = next(s for s in all_settings() if s.name == PLAIN)
    begin = perf_counter()
    reply = pool.ask(plain, prompt, WARM_UP_TOKENS)
    engine = pool.engine()
    load = engine.engine.loaded.load_seconds if engine else 0.0
    prompts = perf_counter() - begin - load - 2 * WARM_UP_TOKENS / reply.rate
    return Pace(load, (len(prompt.tokens) + len(pool.warm_up.tokens)) / max(prompts, 0.1), reply.rate)


def run(
    pool: Pool, record: Record, settings: Sequence[Setting], prompts: Sequence[Prompt], repeats: int, job: Job,
    budget: float | None,
) -> None:  # fmt: skip
    """Measure what the record does not have yet."""
    todo = [(r, p, s) for r, p, s in plan(settings, prompts, repeats) if not record.done((s.name, p.name, r))]
    measured = set(record.measurements)
    record.facts["run"]["planned"] = len(measured | {(s.name, p.name, r) for r, p, s in todo})
    pace = find_pace(pool, prompts[0])
    left = sum(seconds_of(s, p, job.tokens, pace) for _, p, s in todo)
    left += sum(pace.load + 3.0 for s in settings if not s.fresh and s.program != EDGESPEC)
    say(
        f"{len(todo)} measurements: about {left / 60:.0f} min at {pace.decode:.1f} tokens/s plain and "
        f"{pace.prompt:.0f} tokens/s for prompts"
    )
    begin = perf_counter()
    failed: Counter[str] = Counter()
    for number, (repeat, prompt, setting) in enumerate(todo, start=1):
        if failed[setting.name] >= TRIES:
            continue
        if budget is not None and perf_counter() - begin > 60 * budget:
            say(f"The budget of {budget:g} min is spent; go on with --resume.")
            return
        found = measure(pool, setting, prompt, repeat, job.tokens)
        failed[setting.name] = failed[setting.name] + 1 if found.failure else 0
        record.facts["run"]["library"] = describe_library(pool.library(), job) or record.facts["run"]["library"]
        record.add(found)
        outcome = found.failure or f"{found.rate:.2f} tokens/s, {found.tokens} tokens"
        minutes = (perf_counter() - begin) / 60
        say(f"[{number}/{len(todo)}, {minutes:.1f} min] {repeat} {prompt.name} {setting.name}: {outcome}")


def describe_library(folders: Sequence[str], job: Job) -> str:
    """Whether everyone used the peers' library; "" if the system does not tell."""
    if not folders:
        return ""
    strangers = [folder for folder in folders if folder != os.path.realpath(job.peers)]
    return (
        "that of the peers' build"
        if not strangers
        else f"NOT the same: also {', '.join(map(os.path.basename, strangers))}"
    )


def say(text: str) -> None:
    click.echo(text, err=True)


@contextmanager
def ends_on_signals() -> Any:
    """SIGTERM and SIGHUP leave through the same door as Ctrl-C, so that every program is ended."""

    def leave(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {name: signal.signal(getattr(signal, name), leave) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


def find_peers(folder: Path) -> Path:
    """The folder with the programs: this one, or its `bin`. Raises BadParameter."""
    for candidate in (folder, folder / "bin"):
        if (candidate / SERVER).exists():
            return candidate.resolve()
    raise click.BadParameter(f"there is no {SERVER} in {folder} or its bin", param_hint="--peers")


def list_settings(settings: Sequence[Setting], job: Job) -> None:
    for s in settings:
        click.echo(f"{s.name:28} {peer_runners.shown(peer_runners.command(s, job), job)}")


def write_report(record: dict[str, Any], path: Path | None) -> None:
    results = Results(Measurement(**entry) for entry in record["measurements"])
    text = markdown(record, all_settings(), results)
    if path is None:
        click.echo(text)
    else:
        path.write_text(text, "utf-8")


@click.command(help=__doc__, context_settings={"show_default": True})
@click.option("--peers", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Folder of the peers.")
@click.option("--target", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="GGUF of the target.")
@click.option("--draft", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="[default: the demo model]")
@click.option("--no-draft", is_flag=True, help="Leave out everything that needs a draft model.")
@click.option("--prompts", default="built-in", help="`built-in`, or a file as for `edgespec compare`.")
@click.option("--prompt", "names", multiple=True, help="Only this prompt; repeatable.")
@click.option("--tokens", type=click.IntRange(2), default=128, help="Longest reply.")
@click.option("--repeats", type=click.IntRange(1), default=5)
@click.option("--only", multiple=True, help="Only settings whose names match this pattern; repeatable.")
@click.option("--all", "everything", is_flag=True, help="All settings, not just the core ones.")
@click.option("--ctx", type=click.IntRange(64), default=1024)
@click.option("--threads", type=click.IntRange(0), default=0, help="0 takes the physical cores.")
@click.option("--gpu-layers", type=click.IntRange(0), default=0)
@click.option("--timeout", type=click.FloatRange(1), default=300.0, help="Seconds for one reply.")
@click.option("--budget", type=click.FloatRange(0), help="Stop after this many minutes.")
@click.option("--resume", is_flag=True, help="Go on with the JSON file.")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), default=Path("bench_peers.json"))
@click.option("--markdown", "markdown_path", type=click.Path(dir_okay=False, path_type=Path), help="[default: stdout]")
@click.option("--report", "report_only", is_flag=True, help="Only write the report on the JSON file again.")
@click.option("--list", "list_only", is_flag=True, help="Only list the settings and their commands.")
def main(
    peers: Path | None, target: Path | None, draft: Path | None, no_draft: bool, prompts: str, names: tuple[str, ...],
    tokens: int, repeats: int, only: tuple[str, ...], everything: bool, ctx: int, threads: int, gpu_layers: int,
    timeout: float, budget: float | None, resume: bool, json_path: Path, markdown_path: Path | None,
    report_only: bool, list_only: bool,
) -> None:  # fmt: skip
    if report_only:
        write_report(json.loads(json_path.read_text("utf-8")), markdown_path)
        return
    if peers is None or target is None:
        raise click.UsageError("--peers and --target are needed.")
    draft = None if no_draft else draft or demo_model()
    job = Job(find_peers(peers), target, draft, ctx, threads or physical_cores(), tokens, gpu_layers, timeout)
    os.environ["LLAMA_CPP_LIB_PATH"] = str(job.peers)
    try:
        settings = choose(all_settings(), only, everything=everything, draft=draft is not None)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--only") from None
    if list_only:
        list_settings(settings, job)
        return
    warm_up, found = load_prompts(prompts, target, names)
    longest = max(len(p.tokens) for p in found)
    if longest + tokens + 64 > ctx:  # drafts of the peers reach beyond the reply
        raise click.BadParameter(
            f"the longest prompt has {longest} tokens: take {longest + tokens + 64}", param_hint="--ctx"
        )
    record = Record(json_path, facts(job, settings, found, repeats), resume=resume)
    with ExitStack() as stack:
        stack.enter_context(ends_on_signals())
        pool = Pool(job, warm_up)
        stack.callback(pool.close)
        run(pool, record, settings, found, repeats, job, budget)
    write_report(json.loads(json_path.read_text("utf-8")), markdown_path)


def physical_cores() -> int:
    from edgespec.hardware import processor

    return processor().physical_cores


if __name__ == "__main__":
    sys.exit(main())
