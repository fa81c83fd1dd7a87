"""`edgespec chat`: the app, or a chat line by line where there is no terminal for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from edgespec.chat import Conversation
from edgespec.cli.options import Plan, fresh_seed, make_plan, model_options, open_engine
from edgespec.cli.output import MARKS, ReplyPrinter, cancel_on_interrupt, lost_error, mark_of, say, summary, use_colour
from edgespec.errors import EdgeSpecError
from edgespec.guard import is_blank
from edgespec.types import Mode, Origin

if TYPE_CHECKING:
    from edgespec.engine.client import Engine

HELP = """\
/mode plain|lookup|draft|auto   how drafts are made
/length N                       most tokens to draft in one round
/system TEXT                    system text; without TEXT: none
/new                            a new chat
/help                           this list
/quit                           leave (also Ctrl-D)
Ctrl-C ends a reply; at the prompt it leaves. A line that ends in \\ goes on in the next. //text sends /text."""


@click.command("chat")
@click.option("--plain", is_flag=True, help="Line by line, without the app.")
@click.option("--web", is_flag=True, help="The app in a browser on this machine only; needs the extra `web`.")
@click.option("--port", type=click.IntRange(1, 65535), default=8000, show_default=True, help="Where --web listens.")
@model_options
@click.pass_context
def command(context: click.Context, /, plain: bool, web: bool, port: int, **flags: Any) -> int:
    """Chat with a model and see where its words come from."""
    if plain and web:
        raise click.UsageError("--plain and --web are two ways to chat; give one.")
    if context.get_parameter_source("port") is ParameterSource.COMMANDLINE and not web:
        raise click.UsageError("--port says where --web listens; give both.")
    plan = make_plan(flags)
    if web:
        from edgespec.cli.web import serve

        refuse_draft(plan)
        return serve(sys.argv[1:], port)
    if plain or not _can_show_app():
        engine, plan = open_engine(plan)
        with engine:
            return PlainChat(engine, plan).run()
    refuse_draft(plan)
    from edgespec_tui.app import run_app

    return run_app(
        plan.load,
        plan.generate,
        system=plan.system,
        notices=plan.notices,
        seeded=plan.seeded,
        allow_fallback=plan.allow_fallback,
    )


def refuse_draft(plan: Plan) -> None:
    """Raise ModelFileError or PairError, before the app opens, for a draft model that cannot draft for the target.

    Does nothing where the plan may go on without it, nor for a target that is broken: the app says these things.
    """
    from edgespec.models.gguf import check_file
    from edgespec.models.pair import check_pair

    if plan.load.draft is None or plan.allow_fallback:
        return
    draft = check_file(plan.load.draft)
    try:
        target = check_file(plan.load.target)
    except EdgeSpecError:
        return
    check_pair(target.header, draft.header)


def _can_show_app() -> bool:
    if os.environ.get("TEXTUAL_DRIVER"):  # a web page shows it
        return True
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


class PlainChat:
    """A chat on standard input and output, one line a message."""

    def __init__(self, engine: Engine, plan: Plan) -> None:
        self._engine = engine
        self._options = plan.generate
        self._seeded = plan.seeded
        self._notices = plan.notices
        self._conversation = Conversation(plan.system)
        self._told = set(plan.told)
        self._terminal = sys.stdin.isatty()
        self._commands: dict[str, Callable[[str], None]] = {
            "mode": self._set_mode,
            "length": self._set_length,
            "system": self._set_system,
            "new": self._start_anew,
            "help": lambda argument: say(HELP),
        }

    def run(self) -> int:
        """Read and answer until the input ends; the exit code."""
        for notice in (*self._notices, *self._engine.loaded.notices):
            self._tell(notice)
        self._greet()
        while (line := self._read()) is not None:
            if is_blank(line):
                continue
            if line.startswith("/") and not line.startswith("//"):
                name, _, argument = line[1:].strip().partition(" ")
                if name in ("quit", "exit", "q"):
                    break
                self._obey(name, argument.strip())
            else:
                self._answer(line.removeprefix("/") if line.startswith("//") else line)
        return 0

    def _greet(self) -> None:
        target, draft = self._engine.loaded.target, self._engine.loaded.draft
        models = f"{target.name} with {draft.name} drafting" if draft else target.name
        say(f"{models}, mode {self._options.mode}. /help lists commands.")
        if sys.stdout.isatty() and use_colour():
            legend = ", ".join(mark_of(origin, str(origin)) for origin in Origin if MARKS[origin])
            click.echo(f"Where tokens come from: {legend}, unmarked: plain.", err=True, color=True)

    def _read(self) -> str | None:
        """The next message or command; None at the end."""
        lines: list[str] = []
        while True:
            try:
                line = self._read_line("... " if lines else "> ")
            except EOFError:
                return "\n".join(lines) if lines else None
            if not line.endswith("\\"):
                return "\n".join([*lines, line])
            lines.append(line[:-1])

    def _read_line(self, prompt: str) -> str:
        if self._terminal:
            import readline  # noqa: F401 - gives input() editing and history

            return input(prompt)
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.rstrip("\r\n")

    # Commands

    def _obey(self, name: str, argument: str) -> None:
        if name in self._commands:
            self._commands[name](argument)
        else:
            say(f"There is no command /{name}; /help lists them. To send the text, write //{name}.")

    def _set_mode(self, argument: str) -> None:
        try:
            mode = Mode(argument.lower())
        except ValueError:
            say(f"The mode is {self._options.mode}; there are {', '.join(Mode)}.")
            return
        reason = self._engine.loaded.modes.get(mode)
        if reason is not None:
            say(f"Mode {mode} cannot run: {reason}")
            return
        self._options = replace(self._options, mode=mode)
        say(f"Mode {mode} from the next reply on.")

    def _set_length(self, argument: str) -> None:
        from edgespec.settings import RULES

        rule = RULES["draft_length"]
        try:
            self._options = replace(self._options, draft_length=rule.check(rule.read(argument)))
        except ValueError as error:
            say(f"The draft length is {self._options.draft_length}; it must be {error}.")
            return
        say(f"At most {self._options.draft_length} tokens are drafted in a round.")

    def _set_system(self, argument: str) -> None:
        self._conversation = self._conversation.with_system(argument or None)
        say("System text set." if argument else "No system text.")

    def _start_anew(self, argument: str) -> None:
        self._conversation = Conversation(self._conversation.system)
        say("A new chat.")

    # A reply

    def _answer(self, text: str) -> None:
        conversation = self._conversation.add_user(text)
        options = self._options if self._seeded else fresh_seed(self._options)
        printer = ReplyPrinter(sys.stdout, marks=True)
        reply: str | None
        try:
            reply = self._stream(conversation, options, printer)
        except EdgeSpecError as error:
            printer.finish(None)
            say(error.message)
            if error.hint:
                say(error.hint)
            # What was shown stays part of the chat; a message that was never answered does not.
            reply = printer.text if not is_blank(printer.text) else None
        self._conversation = conversation.add_assistant(reply) if reply is not None else self._conversation

    def _stream(self, conversation: Conversation, options: Any, printer: ReplyPrinter) -> str:
        from edgespec.engine import messages as m

        with cancel_on_interrupt(self._engine.cancel):
            for event in self._engine.generate(conversation.messages, options):
                match event:
                    case m.Loaded(notices=notices):
                        for notice in notices:
                            self._tell(notice)
                    case m.Notice(text=text):
                        self._tell(text)
                    case m.RoundDone():
                        printer.round(event)
                    case m.GenerationDone():
                        printer.finish(event.text)
                        say(summary(event))
                        return event.text
                    case m.Failed():
                        raise event.to_error()
                    case m.EngineLost():
                        raise lost_error(event)
        return printer.text

    def _tell(self, notice: str) -> None:
        """Say a notice once a chat."""
        if notice not in self._told:
            self._told.add(notice)
            say(notice)
