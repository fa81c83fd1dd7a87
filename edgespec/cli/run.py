"""`edgespec run`: one prompt, one answer on stdout."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgespec.cli.options import Plan, make_plan, model_options, open_engine
from edgespec.cli.output import (
    ReplyPrinter,
    cancel_on_interrupt,
    lost_error,
    print_json,
    result_object,
    say,
    summary,
)
from edgespec.errors import SettingsError

if TYPE_CHECKING:
    from edgespec.engine.client import Engine
    from edgespec.engine.messages import GenerationDone, Message, RoundDone

CANCELLED = 130


@click.command("run")
@click.argument("prompt", required=False)
@click.option("--file", "file", metavar="PATH", help="Read the prompt from a file; with PROMPT, put the file below it.")
@click.option("--raw", is_flag=True, help="Continue the text as it is, control tokens too, without a chat template.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the text.")
@click.option("--trace", is_flag=True, help="With --json: add what happened in every round.")
@model_options
def command(prompt: str | None, file: str | None, raw: bool, as_json: bool, trace: bool, **flags: Any) -> int:
    """Answer PROMPT once; `-` reads it from standard input."""
    if trace and not as_json:
        raise click.UsageError("--trace adds to the object of --json; give both.")
    text = read_prompt(prompt, file)
    if raw and flags.get("system"):
        raise click.UsageError("--raw has no place for a --system text; put it into the prompt.")
    from edgespec.chat import Conversation, refuse_blank

    refuse_blank(text)
    plan = make_plan(flags)
    engine, plan = open_engine(plan)
    with engine:
        request = text if raw else Conversation(plan.system).add_user(text).messages
        return _answer(engine, plan, request, as_json=as_json, trace=trace)


def read_prompt(prompt: str | None, file: str | None) -> str:
    """The prompt from the argument, a file, both, or standard input. Raises UsageError if there is none."""
    parts = []
    if prompt == "-" or (prompt is None and file is None and not sys.stdin.isatty()):
        parts.append(_decode(sys.stdin.buffer.read(), "Standard input"))
    elif prompt is not None:
        parts.append(prompt)
    if file is not None:
        try:
            data = Path(file).read_bytes()
        except OSError as error:
            raise SettingsError(f"{file} cannot be read: {error.strerror}.", "Check the path after --file.") from None
        parts.append(_decode(data, file))
    if not parts:
        raise click.UsageError("There is no prompt: give PROMPT, --file PATH, or - for standard input.")
    return "\n\n".join(part for part in parts if part)


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SettingsError(f"{name} is not UTF-8 text (byte {error.start:,}).", "Convert it to UTF-8 first.") from None


def _answer(engine: Engine, plan: Plan, request: str | tuple[Message, ...], *, as_json: bool, trace: bool) -> int:
    from edgespec.engine import messages as m
    from edgespec.types import FinishReason

    printer = None if as_json else ReplyPrinter(sys.stdout)
    rounds: list[RoundDone] = []
    done: GenerationDone | None = None
    events = engine.generate(request, plan.generate)  # from here on there is something to cancel
    with cancel_on_interrupt(engine.cancel):
        for notice in (*plan.notices, *engine.loaded.notices):
            if notice not in plan.told:
                say(notice)
        for event in events:
            match event:
                case m.RoundDone():
                    rounds.append(event)
                    if printer:
                        printer.round(event)
                case m.Notice(text=text):
                    say(text)
                case m.GenerationDone():
                    done = event
                case m.Failed():
                    raise event.to_error()
                case m.EngineLost():
                    if printer:
                        printer.finish(None)
                    raise lost_error(event)
    if done is None:
        raise RuntimeError("the engine ended a reply without a last event")
    if printer:
        printer.finish(done.text)
        say(summary(done))
    else:
        print_json(result_object(done, plan.load, plan.generate.sampling.seed, rounds if trace else None))
    return CANCELLED if done.reason is FinishReason.CANCELLED else 0
