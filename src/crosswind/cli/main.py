"""The command ``crosswind``: its subcommands, and what becomes of errors and interruptions.

The modules of the subcommands import nothing but click when they are loaded, so that
``crosswind --help`` answers at once.
"""

from __future__ import annotations

import os
import sys
import traceback
from types import TracebackType
from typing import Any

import click

from crosswind import __version__
from crosswind.cli.bench import bench
from crosswind.cli.check import check
from crosswind.cli.checkpoint import checkpoint
from crosswind.cli.completion import completion
from crosswind.cli.demo import demo
from crosswind.cli.explain import explain
from crosswind.cli.init import init
from crosswind.cli.interruption import Terminated, heed_termination
from crosswind.cli.lab import lab
from crosswind.cli.run import run
from crosswind.cli.schema import schema
from crosswind.errors import CrosswindError

__all__ = ["crosswind", "main"]

EXIT_SIGNAL = 128
"""With the number of a signal added, as shells report a process that it ended: 143 for SIGTERM, 129 for SIGHUP."""

EXIT_INTERRUPTED = 130
"""As shells report a process that SIGINT ended."""

EXIT_BROKEN_PIPE = 141
"""As shells report a process that SIGPIPE ended: the reader of our output has gone."""


class _Failure(click.ClickException):
    """An error of Crosswind's own, shown as its message and nothing else."""

    exit_code = 1

    def show(self, file: Any = None) -> None:  # noqa: ARG002 - click's signature
        click.echo(f"{click.style('error:', fg='red', bold=True)} {self.message}", err=True)


class _Group(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            # Here, and not when the interpreter ends, is where a broken pipe can still be met.
            sys.stdout.flush()
            return result
        except CrosswindError as error:
            from crosswind.io.environment import redact

            raise _Failure(redact(str(error))) from error
        except Terminated as signal:
            click.echo("terminated", err=True)
            ctx.exit(EXIT_SIGNAL + signal.number)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(EXIT_INTERRUPTED)
        except BrokenPipeError:
            _forget_stdout()
            ctx.exit(EXIT_BROKEN_PIPE)


def _forget_stdout() -> None:
    """Send what is left in the buffers nowhere, so that closing them raises nothing."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "--version", message="%(prog)s %(version)s")
def crosswind() -> None:
    """Exact window joins over live streams, for any predicate."""


for command in (bench, check, checkpoint, completion, demo, explain, init, lab, run, schema):
    crosswind.add_command(command)


def _show_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print what nobody expected as Python does, without the secrets in it."""
    from crosswind.io.environment import redact

    sys.stderr.write(redact("".join(traceback.format_exception(kind, error, trace))))


def main() -> None:
    """Run the command line of this process."""
    sys.excepthook = _show_traceback
    heed_termination()
    crosswind(prog_name="crosswind")
