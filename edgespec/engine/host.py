"""The engine process: `python -m edgespec.engine.host`, started by the client and spoken to through its pipes.

One thread reads commands, one writes events, and the main thread does all the work with models. Native code may print
what it likes and die as it likes: its prints go to the log, its death is an event on the other side.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import traceback
from pathlib import Path
from queue import SimpleQueue
from typing import IO

from edgespec.engine import messages as m
from edgespec.engine import wire
from edgespec.engine.frames import FrameError, read_frame, write_frame
from edgespec.engine.generation import Generator
from edgespec.engine.loading import Models, load_models
from edgespec.engine.logs import LOG_VARIABLE, shorten
from edgespec.errors import EdgeSpecError, EngineError

_FAREWELL_SECONDS = 2.0


class Host:
    """Obeys the commands that come through one pipe and tells about it through another."""

    def __init__(self, commands: IO[bytes], events: IO[bytes]) -> None:
        self._pipe_in, self._pipe_out = commands, events
        self._commands: SimpleQueue[m.Command] = SimpleQueue()
        self._events: SimpleQueue[m.Event | None] = SimpleQueue()
        self._cancelled = 0  # generations up to this id; ids only grow
        self._leaving = threading.Event()
        self._models: Models | None = None
        self._generator: Generator | None = None

    def run(self) -> None:
        """Obey until Shutdown."""
        threading.Thread(target=self._listen, name="commands", daemon=True).start()
        speaker = threading.Thread(target=self._speak, name="events", daemon=True)
        speaker.start()
        while not isinstance(command := self._commands.get(), m.Shutdown):
            self._obey(command)
        self._unload()
        self._events.put(None)
        speaker.join(_FAREWELL_SECONDS)
        self._leaving.set()

    def _obey(self, command: m.Command) -> None:
        """Do what a command says; whatever goes wrong becomes Failed, and the engine stays usable."""
        number = command.id if isinstance(command, m.Generate | m.Examine | m.Measure) else None
        try:
            match command:
                case m.Load(options):
                    self._load(options)
                case m.Generate() | m.Examine() | m.Measure():
                    self._generate(command)
        except EdgeSpecError as error:
            self._events.put(m.Failed(number, type(error).__name__, error.message, error.hint))
        except Exception as error:
            traceback.print_exc()
            what = f"Something unforeseen went wrong in the engine: {type(error).__name__}: {error}"
            self._events.put(m.Failed(number, EngineError.__name__, what, f"Its log says more: {_log_name()}"))

    def _load(self, options: m.LoadOptions) -> None:
        self._unload()
        _write_native_log()
        self._models = load_models(options)
        self._generator = Generator(self._models)
        self._events.put(self._models.loaded)
        self._generator.drafting.calibrate(cancelled=lambda: not self._commands.empty())

    def _generate(self, command: m.Generate | m.Examine | m.Measure) -> None:
        if self._generator is None:
            raise EngineError("No model is loaded.", "Send Load first.")
        shorten(sys.stderr.fileno())

        def cancelled() -> bool:
            return self._cancelled >= command.id

        match command:
            case m.Generate():
                self._generator.run(command, self._events.put, cancelled)
            case m.Examine():
                self._generator.examine(command, self._events.put, cancelled)
            case m.Measure():
                passes = self._generator.drafting.measure(command.seconds, cancelled)
                self._events.put(m.Measured(command.id, passes))

    def _unload(self) -> None:
        models, self._models, self._generator = self._models, None, None
        if models is not None:
            models.close()

    def _listen(self) -> None:
        """Queue commands; act on those at once that must not wait for the work in hand."""
        try:
            while (data := read_frame(self._pipe_in)) is not None:
                match wire.decode(data):
                    case m.Cancel(number):
                        self._cancelled = max(self._cancelled, number)
                    case m.Shutdown() as command:
                        self._cancelled = sys.maxsize
                        self._commands.put(command)
                        self._leaving.wait(_FAREWELL_SECONDS)
                        os._exit(0)
                    case m.Load() | m.Generate() | m.Examine() | m.Measure() as command:
                        self._commands.put(command)
                    case other:
                        raise FrameError(f"{type(other).__name__} is not a command")
        except Exception:  # what follows could not be understood either
            traceback.print_exc()
            os._exit(1)
        os._exit(0)  # the parent is gone, and nobody waits for the reply in hand

    def _speak(self) -> None:
        """Serialise and send events, so that the thread with the models need not."""
        try:
            while (event := self._events.get()) is not None:
                write_frame(self._pipe_out, wire.encode(event))
        except OSError:  # the parent is gone
            os._exit(0)
        except Exception:  # a mute engine would keep its parent waiting
            traceback.print_exc()
            os._exit(1)


def take_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """The pipes to the parent, moved out of the reach of native prints: descriptor 1 becomes the log's."""
    commands, events = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    return commands, events


def _log_name() -> str:
    return os.environ.get(LOG_VARIABLE, "its standard error")


def _write_native_log() -> None:
    from edgespec.llama.library import library

    if name := os.environ.get(LOG_VARIABLE):
        library().log.to_file(Path(name))


def main() -> None:
    """Run the engine until the parent says so or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    faulthandler.enable(all_threads=False)
    Host(*take_pipes()).run()
    sys.stderr.flush()
    os._exit(0)  # models are freed; destructors of native libraries have nothing left to do but crash


if __name__ == "__main__":
    main()
