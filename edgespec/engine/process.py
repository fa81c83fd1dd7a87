"""The engine process as its parent sees it: a child, two pipes, and a thread that listens."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import IO, cast

from edgespec.engine import messages as m
from edgespec.engine import wire
from edgespec.engine.frames import FrameError, read_frame, write_frame
from edgespec.engine.logs import LOG_VARIABLE, last_lines, new_log_file
from edgespec.errors import EngineError

LOADING = 0
"""Inbox number of what is not about a generation: Loaded, or Failed without an id."""

SPIN_COUNT = "5000"
"""How often a thread of llama.cpp looks for the others before it sleeps (GOMP_SPINCOUNT, GCC's OpenMP).

Its threads meet after every operation, and by default look 300,000 times. If any other program wants the core of the
late one, the early ones eat the time it needs: with one busy neighbour on two cores, a token of the demo model took
3 s instead of 8 ms. With 5,000 it takes about 0.1 s, and on a quiet machine nothing is lost; sleeping at once would
cost half the speed there.
"""

_SHUTDOWN_SECONDS = 3.0
_TERMINATE_SECONDS = 2.0
_WINDOWS_CRASHES = {0xC000001D: "SIGILL", 0xC0000005: "SIGSEGV"}


class Inbox:
    """Events about one command. `over` is set once the last of them has been put in."""

    def __init__(self) -> None:
        self.events: SimpleQueue[m.Event] = SimpleQueue()
        self.over = threading.Event()

    def put(self, event: m.Event) -> None:
        self.events.put(event)
        if isinstance(event, m.Loaded | m.GenerationDone | m.Examined | m.Measured | m.Failed | m.EngineLost):
            self.over.set()


class EngineProcess:
    """Runs the host, sends it commands and sorts its events into inboxes.

    A thread reads all the time: the child never waits for a slow consumer, a death is noticed and reaped at once, and a
    KeyboardInterrupt in the consumer cannot tear a message in two.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.log: Path = new_log_file()
        self._inboxes: dict[int, Inbox] = {LOADING: Inbox()}
        self._lost: m.EngineLost | None = None
        self._state = threading.Lock()
        self._write = threading.Lock()
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=_environment(self.log),
                start_new_session=True,  # Ctrl-C in the terminal is for the parent, who cancels
            )
        # Popen has made both, since pipes were asked for.
        self._stdin, self._stdout = cast(IO[bytes], self._child.stdin), cast(IO[bytes], self._child.stdout)
        self._reader = threading.Thread(target=self._listen, name="edgespec-engine-events", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def lost(self) -> m.EngineLost | None:
        """How the process ended, or None while it lives."""
        return self._lost

    def inbox(self, number: int) -> Inbox:
        """The inbox of a command, made on first use. If the process is dead, EngineLost is in it already."""
        with self._state:
            inbox = self._inboxes.setdefault(number, Inbox())
            if self._lost is not None and not inbox.over.is_set():
                inbox.put(self._lost)
            return inbox

    def send(self, command: m.Command) -> None:
        """Send a command, or raise EngineError if it is too long. If the process is gone, the inboxes tell."""
        data = wire.encode(command)
        with self._write:
            self._write_or_ignore(data)

    def try_send(self, command: m.Command, timeout: float = 0) -> bool:
        """Like `send`, but gives up when another thread is writing, or this one was when a signal handler took over."""
        if not self._write.acquire(timeout=timeout):
            return False
        try:
            self._write_or_ignore(wire.encode(command))
        finally:
            self._write.release()
        return True

    def close(self) -> None:
        """End the process: ask, then terminate, then kill. Returns once it is reaped; may be called twice."""
        self.try_send(m.Shutdown(), timeout=1)
        for seconds, harder in ((_SHUTDOWN_SECONDS, self._child.terminate), (_TERMINATE_SECONDS, self._child.kill)):
            self._reader.join(seconds)
            if not self._reader.is_alive():
                return
            harder()
        self._reader.join()

    def _write_or_ignore(self, data: bytes) -> None:
        try:
            write_frame(self._stdin, data)
        except FrameError as error:
            raise EngineError("The message is too long for the engine.", "Send less text.") from error
        except (OSError, ValueError):  # broken or closed pipe: the process is gone, and the listener reports it
            return
        except BaseException:  # interrupted, perhaps in the middle of a message: what follows could not be understood
            self._child.kill()
            raise

    def _listen(self) -> None:
        complaint = ""
        try:
            while (data := read_frame(self._stdout)) is not None:
                self._deliver(wire.decode(data))
        except (FrameError, pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, OSError) as error:
            complaint = f"The engine sent something that is not a message: {error}"
            self._child.kill()
        self._bury(complaint)

    def _deliver(self, event: m.Event) -> None:
        if not isinstance(event, m.Event):
            raise FrameError(f"a {type(event).__name__} is not an event")
        number = LOADING if isinstance(event, m.Loaded) else getattr(event, "id", None) or LOADING
        with self._state:
            inbox = self._inboxes.get(number)
            if inbox is not None:
                inbox.put(event)
                if inbox.over.is_set() and number != LOADING:
                    del self._inboxes[number]

    def _bury(self, complaint: str) -> None:
        try:
            code = self._child.wait(_TERMINATE_SECONDS)
        except subprocess.TimeoutExpired:  # it closed its pipe but does not end
            self._child.kill()
            code = self._child.wait()
        with self._state:
            self._lost = m.EngineLost(
                signal_name(code), code, (*last_lines(self.log), *([complaint] * bool(complaint)))
            )
            for inbox in self._inboxes.values():
                if not inbox.over.is_set():
                    inbox.put(self._lost)
            self._inboxes.clear()
        self._close_pipes()

    def _close_pipes(self) -> None:
        self._stdout.close()
        with self._write:
            try:
                self._stdin.close()
            except OSError:  # closing flushes what could not be written
                return


def _environment(log: Path) -> dict[str, str]:
    """The user's, and what the engine needs; a user who has decided how threads wait is respected."""
    # Without a backtrace, llama.cpp does not start a debugger on its way out.
    environment = {**os.environ, "GGML_NO_BACKTRACE": "1", LOG_VARIABLE: str(log)}
    if "OMP_WAIT_POLICY" not in environment:
        environment.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)
    return environment


def signal_name(code: int) -> str:
    """Name of the signal behind an exit code of subprocess, "" for an ordinary exit."""
    if code < 0:
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"
    return _WINDOWS_CRASHES.get(code, "")
