"""The `edgespec` command: finds the subcommand, prints what went wrong once, and chooses the exit code."""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Sequence

import click

from edgespec.errors import EdgeSpecError

COMMANDS = {
    "chat": ("edgespec.cli.chat", "Chat in the terminal and watch tokens being accepted."),
    "run": ("edgespec.cli.run", "Answer one prompt on standard output."),
    "compare": ("edgespec.cli.compare", "Measure modes against each other on this machine."),
    "advise": ("edgespec.cli.advise", "Which mode and draft length pay for a kind of work here."),
    "download": ("edgespec.cli.download", "Fetch a model or a pair."),
    "models": ("edgespec.cli.models", "List pairs and what is on this disk."),
    "doctor": ("edgespec.cli.doctor", "Examine this machine and installation."),
}
"""Name: module with a click command called `command`, and the line for `--help`, which must not import it."""

FAILED, USAGE, CANCELLED = 1, 2, 130


class LazyGroup(click.Group):
    """Imports a command's module only when that command is run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="edgespec", prog_name="edgespec")
@click.pass_context
def cli(context: click.Context) -> None:
    """Local language models, faster: a cheap drafter guesses ahead, the model checks, the words stay the same."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code: 0 done, 1 failed, 2 wrong usage, 130 cancelled."""
    make_streams_usable()
    try:
        code = cli.main(args=arguments, prog_name="edgespec", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except EdgeSpecError as error:
        return complain(error.message, error.hint)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx is not None else "edgespec"
        complain(error.format_message(), f"`{command} --help` lists what there is.")
        return USAGE
    except click.ClickException as error:
        return complain(error.format_message(), "")
    except (KeyboardInterrupt, click.Abort):
        return CANCELLED
    except BrokenPipeError:
        # Whoever read our output has left. What is still buffered must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        return complain(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}.", "")
    except Exception as error:
        if os.environ.get("EDGESPEC_DEBUG"):
            raise
        message = f"EdgeSpec has a fault: {type(error).__name__}: {error}"
        return complain(message, "Set EDGESPEC_DEBUG=1 to see where, and report it.")


def make_streams_usable() -> None:
    """Give what was started without standard streams empty ones, and let no character stop a reply.

    A stream that the caller closed is None in Python. Where the encoding lacks a character (an emoji on a Latin-1
    terminal), the rest of the reply matters more.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - for as long as the process lives
        elif name != "stderr" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def complain(message: str, hint: str) -> int:
    """Print message and hint on stderr; the exit code for failure."""
    from edgespec.terminal import printable

    click.echo(printable(f"Error: {message}"), err=True)
    if hint:
        click.echo(printable(hint), err=True)
    return FAILED


if __name__ == "__main__":
    sys.exit(main())
