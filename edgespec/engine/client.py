"""The public Python API: load models in a process of their own and talk to it.

    with Engine.open("target.gguf", draft="draft.gguf") as engine:
        for event in engine.generate("Once upon a time", GenerateOptions(mode=Mode.DRAFT)):
            ...

This side never loads llama.cpp: whatever kills the engine process leaves the caller alive.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from edgespec.engine import messages as m
from edgespec.engine.process import LOADING, EngineProcess, Inbox
from edgespec.engine.safemode import CRASH_SIGNALS, SafeModeMemory, safe_mode_notice
from edgespec.errors import EngineError

HOST_COMMAND = (sys.executable, "-P", "-m", "edgespec.engine.host")
"""-P: the folder a user happens to stand in must not supply the engine's modules."""

DEFAULT_OPTIONS = m.GenerateOptions()


@dataclass(slots=True, eq=False)
class _Turn:
    """One reply, from before its command is sent."""

    id: int
    process: EngineProcess | None = None
    cancel_wanted: bool = False
    cancel_sent: bool = False


class Engine:
    """Models loaded in an engine process.

    One reply at a time; `cancel` and `close` may be called from any thread, `cancel` also from a signal handler. Close
    it, or use it as a context manager.
    """

    def __init__(self, options: m.LoadOptions, *, command: Sequence[str] = HOST_COMMAND) -> None:
        """Start the process and load the models. Raises the EdgeSpecError that says why that failed."""
        self._options = options
        self._command = tuple(command)
        self._memory = SafeModeMemory()
        self._lock = threading.Lock()
        self._busy = threading.Lock()
        self._ids = itertools.count(LOADING + 1)
        self._turn: _Turn | None = None
        self._closed = False
        self._process: EngineProcess | None = None
        self._loaded = self._start()

    @classmethod
    def open(cls, target: str | os.PathLike[str], draft: str | os.PathLike[str] | None = None, **options: Any) -> Self:
        """Load a target and perhaps a draft model; `options` are those of LoadOptions."""
        draft_path = None if draft is None else os.fspath(draft)
        return cls(m.LoadOptions(target=os.fspath(target), draft=draft_path, **options))

    @property
    def loaded(self) -> m.Loaded:
        """What is loaded, which modes can run, and what the user should be told."""
        return self._loaded

    @property
    def alive(self) -> bool:
        """Is the process there? If it has died, the next `generate` starts it again."""
        return self._process is not None and self._process.lost is None

    @property
    def pid(self) -> int:
        """Process id of the engine process."""
        return self._need_process().pid

    @property
    def log(self) -> Path:
        """File with the native log of the engine process."""
        return self._need_process().log

    def generate(
        self, prompt: str | Iterable[m.Message], options: m.GenerateOptions = DEFAULT_OPTIONS
    ) -> Generator[m.Event]:
        """Answer a chat, or continue a text if `prompt` is a str. Nothing is sent before the first event is asked for.

        The last event is GenerationDone, Failed (the engine is still there) or EngineLost (it died). After EngineLost
        the next call starts the engine again and loads the models, and its first event is then a new Loaded; since
        messages are always sent whole, the conversation goes on. Closing the iterator cancels the reply and waits until
        the engine has stopped. Raises EngineError, before any event, if the engine is closed, busy, or cannot be
        started again.
        """
        turn = self._turn = _Turn(next(self._ids))
        if isinstance(prompt, str):
            return self._reply(turn, m.Generate(turn.id, options, prompt=prompt))
        return self._reply(turn, m.Generate(turn.id, options, messages=tuple(prompt)))

    def examine(self, prompt: str | Iterable[m.Message], reply: Sequence[int] = ()) -> tuple[m.Candidate, ...]:
        """The two tokens that the target finds likeliest behind a prompt and the beginning of a reply, best first.

        For looking into a difference between two replies. Takes as long as plain decoding, empties the caches, and
        gives nothing if it was cancelled. Raises the EdgeSpecError that says why it failed.
        """
        turn = self._turn = _Turn(next(self._ids))
        text, chat = (prompt, ()) if isinstance(prompt, str) else (None, tuple(prompt))
        for event in self._reply(turn, m.Examine(turn.id, chat, text, tuple(reply))):
            match event:
                case m.Examined(candidates=candidates):
                    return candidates
                case m.Failed():
                    raise event.to_error()
                case m.EngineLost():
                    raise EngineError(f"{describe(event)} while it looked into a reply.")
        return ()

    def measure_costs(self, seconds: float = 10.0) -> int:
        """Time passes of every width anew, for at most about so long; how many were timed, 0 if it was cancelled.

        What was known about their costs is forgotten, what was known about acceptance is not. Raises the EdgeSpecError
        that says why it failed, ModeError where nothing can be drafted and nothing depends on costs.
        """
        turn = self._turn = _Turn(next(self._ids))
        for event in self._reply(turn, m.Measure(turn.id, seconds)):
            match event:
                case m.Measured(passes=passes):
                    return passes
                case m.Failed():
                    raise event.to_error()
                case m.EngineLost():
                    raise EngineError(f"{describe(event)} while it measured.")
        return 0

    def cancel(self) -> None:
        """Stop the current reply, also one that `generate` has returned but that has not begun; else do nothing."""
        if (turn := self._turn) is not None:
            self._cancel(turn)

    def restart(self) -> m.Loaded:
        """End the process, start it again and load the models."""
        with self._lock:
            process = self._process
        if process is not None:
            process.close()
        self._loaded = self._start()
        return self._loaded

    def close(self) -> None:
        """End the process. Returns once it is gone, whatever it was doing; may be called twice."""
        with self._lock:
            self._closed = True
            process = self._process
        if process is not None:
            process.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # A reply

    def _reply(self, turn: _Turn, command: m.Generate | m.Examine | m.Measure) -> Generator[m.Event]:
        if not self._busy.acquire(blocking=False):
            raise EngineError("The engine is still busy with another reply.", "Cancel or finish that one first.")
        try:
            if not self.alive:
                yield self._revive()
            process = self._need_process()
            inbox = process.inbox(turn.id)
            process.send(command)
            turn.process = process
            try:
                if turn.cancel_wanted:
                    self._cancel(turn)
                yield from _events(inbox)
            finally:
                if not inbox.over.is_set():
                    self._cancel(turn)
                    inbox.over.wait()
        finally:
            self._busy.release()

    def _cancel(self, turn: _Turn) -> None:
        turn.cancel_wanted = True
        # The flag comes first: if another thread, or the code below a signal handler, is just sending the command, it
        # looks at the flag afterwards.
        if turn.process is not None and not turn.cancel_sent:
            turn.cancel_sent = turn.process.try_send(m.Cancel(turn.id), timeout=0.0)

    def _revive(self) -> m.Loaded:
        lost = self._need_process().lost
        # An illegal instruction that the warm-up did not meet would only be met again.
        illegal = lost is not None and lost.signal == "SIGILL" and not self._loaded.safe_mode
        loaded = self._start("SIGILL" if illegal else "")
        cause = describe(lost) if lost is not None else "The engine had ended"
        self._loaded = replace(loaded, notices=(f"{cause}; it was started again.", *loaded.notices))
        return self._loaded

    # Starting

    def _start(self, crash: str = "") -> m.Loaded:
        """Start and load; once more in safe mode if loading dies as it does where kernels do not fit the processor.

        `crash` names the signal of such a death that has already been seen.
        """
        options = self._options
        if not options.safe_mode and self._memory.applies():
            options = replace(options, safe_mode=True)
        outcome = None if crash else self._load(options)
        if isinstance(outcome, m.EngineLost) and outcome.signal in CRASH_SIGNALS and not options.safe_mode:
            crash = outcome.signal
        notices: list[str] = []
        if outcome is None or crash:
            outcome = self._load(replace(options, safe_mode=True))
            if isinstance(outcome, m.Loaded):
                self._memory.remember(crash)
                notices.append(safe_mode_notice(crash))
        if self._memory.notice:
            notices.append(self._memory.notice)
        if isinstance(outcome, m.Loaded):
            return replace(outcome, notices=(*notices, *outcome.notices))
        process = self._need_process()
        process.close()
        if isinstance(outcome, m.Failed):
            raise outcome.to_error()
        raise _start_up_error(outcome, process.log)

    def _load(self, options: m.LoadOptions) -> m.Loaded | m.Failed | m.EngineLost:
        try:
            with self._lock:
                if self._closed:
                    raise EngineError("The engine is closed.", "Open a new one.")
                process = self._process = EngineProcess(self._command)
        except OSError as error:
            raise EngineError(f"The engine process cannot be started: {error}.") from error
        inbox = process.inbox(LOADING)
        try:
            process.send(m.Load(options))
            outcome = inbox.events.get()
        except BaseException:
            process.close()
            raise
        if self._closed:
            raise EngineError("The engine was closed while it was loading.")
        if not isinstance(outcome, m.Loaded | m.Failed | m.EngineLost):
            process.close()
            raise EngineError(f"The engine answered Load with {type(outcome).__name__}.")
        return outcome

    def _need_process(self) -> EngineProcess:
        if self._process is None:
            raise EngineError("The engine is not running.", "Open a new one.")
        return self._process


def _events(inbox: Inbox) -> Generator[m.Event]:
    while True:
        event = inbox.events.get()
        yield event
        if isinstance(event, m.GenerationDone | m.Examined | m.Measured | m.Failed | m.EngineLost):
            return


def describe(lost: m.EngineLost) -> str:
    """One clause on how the engine died."""
    if lost.signal:
        return f"The engine process was killed by {lost.signal}"
    return f"The engine process ended with exit code {lost.exit_code}"


def _start_up_error(lost: m.EngineLost, log: Path) -> EngineError:
    lines = "".join(f"\n  {line}" for line in lost.log)
    hint = f"The last lines of its log, {log}:{lines}" if lines else f"Its log, {log}, is empty."
    return EngineError(f"{describe(lost)} while loading the models.", hint)
