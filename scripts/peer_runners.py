"""Programs that scripts/bench_peers.py measures: how each is started, asked, read and, always, ended."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep
from typing import IO, Any, Protocol

import psutil
from peer_settings import EDGESPEC, LOOKUP, PYTHON, SERVER, SIMPLE, Setting

from edgespec.engine import messages as m
from edgespec.engine.client import Engine
from edgespec.errors import EdgeSpecError
from edgespec.types import Mode

GREEDY = ("--temp", "0", "--samplers", "top_k", "--top-k", "1")
START_SECONDS = 300.0
_OUTSIDE = dict(os.environ)
"""As the user has it: EdgeSpec sets variables for its own library, and peers run as they do without it."""
_LAST_LINES = 3


class PeerError(Exception):
    """One sentence on why there is no measurement."""


@dataclass(frozen=True, slots=True)
class Job:
    """What all programs share.

    Attributes:
        peers: folder of the programs and the one llama.cpp library that all of them use.
        timeout: seconds after which a reply is given up.
    """

    peers: Path
    target: Path
    draft: Path | None
    ctx: int
    threads: int
    tokens: int
    gpu_layers: int
    timeout: float
    cache_type_k: str = "f16"
    cache_type_v: str = "f16"


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt, rendered as the model wants it: the text with its control texts, and its tokens."""

    name: str
    kind: str
    text: str
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reply:
    """What a program said of one reply; the fields are those of peer_report.Measurement."""

    text: str
    tokens: int
    rate: float
    prompt_tokens: int = 0
    wall_rate: float | None = None
    drafted: int | None = None
    accepted: int | None = None


class Runner(Protocol):
    """A program that is up and answers one prompt at a time."""

    def ask(self, prompt: Prompt, tokens: int) -> Reply:
        """Answer, greedy. Raises PeerError."""

    def close(self) -> None:
        """End the program, whatever it is doing."""


def start(setting: Setting, job: Job) -> Runner:
    """Start what this setting needs. Raises PeerError."""
    kinds: dict[str, Callable[[Setting, Job], Runner]] = {
        SERVER: ServerRunner, SIMPLE: CommandRunner, LOOKUP: CommandRunner, PYTHON: PythonRunner,
        EDGESPEC: EdgeSpecRunner,
    }  # fmt: skip
    return kinds[setting.program](setting, job)


def command(setting: Setting, job: Job) -> list[str]:
    """The command line of this setting, all but the port of a server and the prompt of a reply."""
    if setting.program == PYTHON:
        return [
            sys.executable,
            str(Path(__file__).with_name("peer_lookup.py")),
            json.dumps(_lookup_options(setting, job)),
        ]
    if setting.program == EDGESPEC:
        draft = ["--draft", str(job.draft)] if job.draft else []
        length = ["--draft-length", str(setting.length)] if setting.length else []
        mode = setting.name.split(":")[1]
        return [
            "edgespec", "run", "--raw", "--model", str(job.target), *draft, "--mode", mode, *length,
            "--ctx", str(job.ctx), "--threads", str(job.threads), "--temperature", "0",
            "--max-tokens", str(job.tokens), "--gpu-layers", str(job.gpu_layers),
        ]  # fmt: skip
    threads = str(job.threads)
    line = [
        str(job.peers / setting.program), "--model", str(job.target), "--ctx-size", str(job.ctx),
        "--threads", threads, "--threads-batch", threads, "--gpu-layers", str(job.gpu_layers),
        "--cache-type-k", job.cache_type_k, "--cache-type-v", job.cache_type_v, *setting.flags,
    ]  # fmt: skip
    if setting.needs_draft and job.draft:
        line += ["--model-draft", str(job.draft), "--threads-draft", threads]
        line += ["--gpu-layers-draft", str(job.gpu_layers)]
    if setting.program == SERVER:
        return [*line, "--parallel", "1", "--cache-ram", "0", "--no-ui", "--host", "127.0.0.1"]
    return [*line, *GREEDY, "--no-escape", "--predict", str(job.tokens)]


def shown(line: Sequence[str], job: Job) -> str:
    """A command line as the report prints it: names of files, not their folders."""
    files = {str(path): path.name for path in (job.target, job.draft) if path}
    words = []
    for word in line:
        for path, name in files.items():
            word = word.replace(path, name)
        if word == sys.executable:
            word = "python"
        elif word.endswith(".py") or word.startswith(str(job.peers)):
            word = Path(word).name
        words.append(f"'{word}'" if " " in word else word)
    return " ".join(words)


# Processes


def environment(job: Job) -> dict[str, str]:
    """The user's, in which every program finds the same library."""
    found = dict(_OUTSIDE, LLAMA_CPP_LIB_PATH=str(job.peers))
    for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"):
        found[name] = os.pathsep.join(filter(None, (str(job.peers), found.get(name))))
    return found


def start_child(line: Sequence[str], job: Job, **streams: Any) -> subprocess.Popen[bytes]:
    """A child that does not outlive this process, even if that is killed (on Linux)."""
    before = _die_with_parent if sys.platform == "linux" else None
    try:
        return subprocess.Popen(line, env=environment(job), preexec_fn=before, **streams)
    except OSError as error:
        raise PeerError(f"{Path(line[0]).name} cannot be started: {error.strerror}") from None


def _die_with_parent() -> None:
    set_death_signal = 1
    ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)


def end(process: subprocess.Popen[Any]) -> None:
    """End a child: politely, then not."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()


def last_lines(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(lines[-_LAST_LINES:]) or "no output"


def ending(process: subprocess.Popen[Any], output: str) -> str:
    """Why a child is gone, in one sentence."""
    code = process.returncode
    if code is not None and code < 0:
        with suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}; last lines: {last_lines(output)}"
    return f"exit code {code}; last lines: {last_lines(output)}"


def libraries(pid: int) -> tuple[str, ...]:
    """Files named libllama* and libggml* that a process has mapped; empty where the system does not tell."""
    try:
        maps = psutil.Process(pid).memory_maps()
    except (psutil.Error, AttributeError, OSError):
        return ()
    paths = {os.path.realpath(entry.path) for entry in maps}
    return tuple(sorted(path for path in paths if re.match(r"lib(llama|ggml)", os.path.basename(path))))


# llama-server


class ServerRunner:
    """One server process on a free port of this machine, seen by nobody else."""

    def __init__(self, setting: Setting, job: Job, spawn: Callable[..., subprocess.Popen[bytes]] | None = None) -> None:
        self._job = job
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        self._port = free_port()
        line = [*command(setting, job), "--port", str(self._port)]
        self.process = (spawn or start_child)(
            line, job, stdout=self._log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
        )
        try:
            self._await()
        except BaseException:
            self.close()
            raise

    def ask(self, prompt: Prompt, tokens: int) -> Reply:
        begin = perf_counter()
        answer = self._post(server_request(prompt.tokens, tokens))
        return parse_server(answer, perf_counter() - begin)

    def close(self) -> None:
        end(self.process)
        self._log.close()

    def _await(self) -> None:
        deadline = perf_counter() + START_SECONDS
        while perf_counter() < deadline:
            if self.process.poll() is not None:
                raise PeerError(f"it ended while loading: {ending(self.process, self._output())}")
            with suppress(OSError), urllib.request.urlopen(self._url("health"), timeout=2) as response:
                if response.status == 200:
                    return
            sleep(0.1)
        raise PeerError(f"it was not ready within {START_SECONDS:.0f} s")

    def _post(self, request: Mapping[str, Any]) -> dict[str, Any]:
        body = json.dumps(request).encode()
        call = urllib.request.Request(self._url("completion"), body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(call, timeout=self._job.timeout) as response:
                answer: dict[str, Any] = json.loads(response.read())
        except TimeoutError:
            raise PeerError(f"no reply within {self._job.timeout:.0f} s") from None
        except urllib.error.HTTPError as error:
            raise PeerError(f"HTTP {error.code}: {error.read().decode('utf-8', 'replace')[:200]}") from None
        except (OSError, ValueError) as error:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(2)
            gone = ending(self.process, self._output()) if self.process.poll() is not None else str(error)
            raise PeerError(f"the connection broke: {gone}") from None
        return answer

    def _url(self, name: str) -> str:
        return f"http://127.0.0.1:{self._port}/{name}"

    def _output(self) -> str:
        self._log.seek(0)
        return self._log.read().decode("utf-8", "replace")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def server_request(prompt: Sequence[int], tokens: int) -> dict[str, Any]:
    """A greedy completion of these tokens, from an empty cache. The cheapest sampler that takes the best token."""
    return {
        "prompt": list(prompt), "n_predict": tokens, "cache_prompt": False, "stream": False,
        "temperature": 0, "samplers": ["top_k"], "top_k": 1,
    }  # fmt: skip


def parse_server(answer: Mapping[str, Any], wall: float) -> Reply:
    """From the server's answer and the seconds it took. Raises PeerError.

    The server counts the first token to the prompt, whose pass brings it: its rate is (n - 1) / decode time.
    """
    try:
        times = answer["timings"]
        tokens, seconds = int(times["predicted_n"]), float(times["predicted_ms"]) / 1e3
        waited = wall - float(times["prompt_ms"]) / 1e3
        text, prompt = str(answer["content"]), int(times["prompt_n"])
    except (KeyError, TypeError, ValueError) as error:
        raise PeerError(f"the answer has no {error}") from None
    if tokens < 2 or seconds <= 0:
        raise PeerError(f"the reply has {tokens} token(s), too few to measure")
    drafts = int(times.get("draft_n", 0)), int(times.get("draft_n_accepted", 0))
    steps = tokens - 1
    return Reply(text, tokens, steps / seconds, prompt, steps / waited if waited > 0 else None, *drafts)


# llama-speculative-simple and llama-lookup


class CommandRunner:
    """A program that loads, answers one prompt and ends; it is started for every reply."""

    def __init__(self, setting: Setting, job: Job) -> None:
        self._setting, self._job = setting, job
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, prompt: Prompt, tokens: int) -> Reply:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "prompt.txt"
            file.write_bytes(prompt.text.encode())
            line = command(self._setting, self._job)
            line[line.index("--predict") + 1] = str(tokens)
            line += ["--binary-file", str(file)]
            process = start_child(
                line, self._job, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, cwd=folder
            )
            self._process = process
            try:
                out, err = process.communicate(timeout=self._job.timeout + START_SECONDS)
            except subprocess.TimeoutExpired:
                raise PeerError(f"no reply within {self._job.timeout + START_SECONDS:.0f} s") from None
            finally:
                self.close()
        said = err.decode("utf-8", "replace")
        if process.returncode:
            raise PeerError(ending(process, said))
        # llama-lookup takes the first token from the prompt's pass, llama-speculative-simple evaluates it.
        return parse_command(out.decode("utf-8", "replace"), said, prompt.text, free=self._setting.program == LOOKUP)

    def close(self) -> None:
        if self._process is not None:
            end(self._process)
            self._process = None


def parse_command(out: str, err: str, prompt: str, *, free: bool) -> Reply:
    """From what llama-speculative-simple or llama-lookup print. Raises PeerError.

    Args:
        free: is the reply's first token outside the time that the program measures?
    """
    encoded = re.search(r"encoded\s+(\d+) tokens", err)
    decoded = re.search(r"decoded\s+(\d+) tokens in\s+([\d.]+) seconds", err)
    drafted = re.search(r"n_drafted\s*=\s*(\d+)", err)
    accepted = re.search(r"n_accept\s*=\s*(\d+)", err)
    if not (encoded and decoded and drafted and accepted):
        raise PeerError(f"its figures are missing; last lines: {last_lines(err)}")
    tokens, seconds = int(decoded[1]), float(decoded[2])
    steps = tokens - free
    if steps < 1 or seconds <= 0:
        raise PeerError(f"the reply has {tokens} token(s), too few to measure")
    at = out.find(prompt)
    text = out[at + len(prompt) :] if at >= 0 else out
    return Reply(text.rstrip("\n"), tokens, steps / seconds, int(encoded[1]), None, int(drafted[1]), int(accepted[1]))


# llama-cpp-python


def _lookup_options(setting: Setting, job: Job) -> dict[str, Any]:
    numbers = {name: int(value) for name, value in (flag.split("=") for flag in setting.flags)}
    return {"ctx": job.ctx, "gpu_layers": job.gpu_layers, "model": str(job.target), "threads": job.threads, **numbers}


class PythonRunner:
    """scripts/peer_lookup.py in a process of its own: one JSON object a line, both ways."""

    def __init__(self, setting: Setting, job: Job) -> None:
        self._job = job
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        self.process = start_child(
            command(setting, job), job, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log
        )
        try:
            self._read(START_SECONDS)
        except BaseException:
            self.close()
            raise

    def ask(self, prompt: Prompt, tokens: int) -> Reply:
        stdin = self.process.stdin
        if stdin is None:
            raise PeerError("it has no input")
        with suppress(BrokenPipeError):  # the answer will say why
            stdin.write(json.dumps({"prompt": prompt.tokens, "tokens": tokens}).encode() + b"\n")
            stdin.flush()
        return parse_python(self._read(self._job.timeout), len(prompt.tokens))

    def close(self) -> None:
        end(self.process)
        for stream in (self.process.stdin, self.process.stdout, self._log):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()

    def _read(self, seconds: float) -> dict[str, Any]:
        line = read_line(self.process, seconds)
        if not line:
            end(self.process)
            self._log.seek(0)
            raise PeerError(ending(self.process, self._log.read().decode("utf-8", "replace")))
        answer: dict[str, Any] = json.loads(line)
        return answer


def read_line(process: subprocess.Popen[bytes], seconds: float) -> bytes:
    """The next line of a child's output, b"" at its end. Raises PeerError if it does not come in time."""
    import threading

    found: list[bytes] = []
    stdout = process.stdout
    if stdout is None:
        return b""
    reader = threading.Thread(target=lambda: found.append(stdout.readline()), daemon=True)
    reader.start()
    reader.join(seconds)
    if reader.is_alive():
        process.kill()  # ends the reader too
        reader.join()
        raise PeerError(f"no reply within {seconds:.0f} s")
    return found[0]


def parse_python(answer: Mapping[str, Any], prompt_tokens: int) -> Reply:
    """From the answer of scripts/peer_lookup.py. Raises PeerError."""
    if error := answer.get("error"):
        raise PeerError(str(error))
    tokens, seconds = int(answer["tokens"]), float(answer["seconds"])
    if tokens < 2 or seconds <= 0:
        raise PeerError(f"the reply has {tokens} token(s), too few to measure")
    rate = (tokens - 1) / seconds
    return Reply(answer["text"], tokens, rate, prompt_tokens, rate, answer["drafted"], answer["accepted"])


# EdgeSpec


class EdgeSpecRunner:
    """An engine; one serves every mode, since mode and draft length are options of a reply."""

    def __init__(self, setting: Setting, job: Job) -> None:
        del setting
        self._job = job
        self.setting: Setting | None = None
        os.environ["LLAMA_CPP_LIB_PATH"] = str(job.peers)
        try:
            self.engine = Engine.open(
                job.target, job.draft, n_ctx=job.ctx, threads=job.threads, gpu_layers=job.gpu_layers,
                cache_type_k=job.cache_type_k, cache_type_v=job.cache_type_v,
            )  # fmt: skip
        except EdgeSpecError as error:
            raise PeerError(error.message) from None

    def ask(self, prompt: Prompt, tokens: int) -> Reply:
        setting = self.setting
        if setting is None:
            raise PeerError("no mode was chosen")
        options = m.GenerateOptions(
            mode=Mode(setting.name.split(":")[1]), max_tokens=tokens, fresh=True,
            **({"draft_length": setting.length} if setting.length else {}),
        )  # fmt: skip
        started = ended = None
        for event in self.engine.generate(prompt.text, options):
            match event:
                case m.PrefillDone():
                    started = perf_counter()
                case m.RoundDone():
                    ended = perf_counter()
                case m.GenerationDone():
                    wall = None if started is None or ended is None else ended - started
                    return edgespec_reply(event, wall)
                case m.Failed():
                    raise PeerError(event.message)
                case m.EngineLost():
                    raise PeerError(f"the engine died: {event.signal or event.exit_code}")
        raise PeerError("the engine said nothing")

    def close(self) -> None:
        self.engine.close()


def edgespec_reply(done: m.GenerationDone, wall: float | None) -> Reply:
    """From EdgeSpec's statistics and the seconds between the end of the prompt and the last round. Raises PeerError."""
    stats = done.stats
    if not stats.decode_tokens_per_second or stats.emitted_tokens < 2:
        raise PeerError(f"the reply has {stats.emitted_tokens} token(s), too few to measure")
    return Reply(
        done.text, stats.emitted_tokens, stats.decode_tokens_per_second, stats.prompt_tokens,
        stats.emitted_tokens / wall if wall else None, stats.drafted, stats.accepted,
    )  # fmt: skip
