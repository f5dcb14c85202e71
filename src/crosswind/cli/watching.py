"""How a command is watched: the terminal, a page, Prometheus, a log; all of one recorder."""

from __future__ import annotations

import functools
import json as json_module
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import click

from crosswind import __version__
from crosswind.cli.report import say
from crosswind.cli.view import LiveView, PlainView, SilentView, View

if TYPE_CHECKING:
    from crosswind.monitor.reading import Reading
    from crosswind.monitor.recorder import Recorder

__all__ = ["Observer", "Watching", "watched"]

_READ_S = 0.2
_LOG_S = 5.0
_STAY_S = 0.2
_UI_PORT = 8642


@dataclass(frozen=True)
class Watching:
    """What was asked for on the command line."""

    ui: bool = False
    ui_port: int = _UI_PORT
    ui_stay: bool = False
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"
    log: str = "text"


def watched(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options by which it is watched; it gets them as ``watching``."""
    port = click.IntRange(0, 65_535)
    options = [
        click.option("--ui", is_flag=True, help="Serve a live page to browsers on this machine."),
        click.option("--ui-port", type=port, default=_UI_PORT, show_default=True, help="Its port; 0 is any."),
        click.option("--ui-stay", is_flag=True, help="Keep the page when all is done, until Ctrl-C."),
        click.option("--metrics-port", type=port, help="Serve metrics for Prometheus on this port; 0 is any."),
        click.option(
            "--metrics-host", default="127.0.0.1", show_default=True, help="Who may read them: 0.0.0.0 is all."
        ),
        click.option(
            "--log", type=click.Choice(["text", "json"]), default="text", show_default=True, help="As lines of JSON."
        ),
    ]

    @functools.wraps(command)
    def wrapped(*arguments: Any, **given: Any) -> Any:
        names = Watching.__dataclass_fields__
        watching = Watching(**{name: given.pop(name) for name in names})
        return command(*arguments, watching=watching, **given)

    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped


class Observer:
    """Shows a job while it runs, in all the ways that were asked for. A context manager.

    Parameters
    ----------
    watching : Watching
        The ways.
    recorder : Recorder
        Takes the readings, and is what they all show.
    title : str
        Above the table in the terminal.
    quiet : bool
        Nothing on the terminal.
    err : bool
        The terminal is standard error, not standard output.
    """

    def __init__(self, watching: Watching, recorder: Recorder, title: str, *, quiet: bool, err: bool) -> None:
        self._watching, self.recorder, self._quiet = watching, recorder, quiet
        self._logs = watching.log == "json"
        terminal = (sys.stderr if err else sys.stdout).isatty()
        self._view: View = SilentView()
        if not quiet and not self._logs:
            self._view = LiveView(title, err=err) if terminal else PlainView(err=err)
        self._served = watching.ui or watching.metrics_port is not None
        self._read = self._logged = 0.0
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            watching = self._watching
            if watching.ui:
                from crosswind.monitor.page import LivePage

                page = stack.enter_context(LivePage(self.recorder, watching.ui_port))
                self._tell("page", f"watch it at {page.address}", page.address)
            if watching.metrics_port is not None:
                from crosswind.monitor.metrics import MetricsEndpoint

                endpoint = MetricsEndpoint(self.recorder, __version__, watching.metrics_host, watching.metrics_port)
                stack.enter_context(endpoint)
                self._tell("metrics", f"metrics at {endpoint.address}", endpoint.address)
            self._log("started", engine=self.recorder.engine)
            stack.enter_context(self._view)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._view.__exit__(kind, error, trace)
            self._view = SilentView()
            if isinstance(error, Exception):
                self._log("failed", error=str(error))
            else:
                self._log("ended" if self.recorder.latest.finished else "stopped", **self.recorder.state())
            if self._watching.ui and self._watching.ui_stay and error is None:
                self._stay()
        finally:
            self._stack.__exit__(kind, error, trace)

    def is_due(self) -> bool:
        """Whether it is worth taking a reading now."""
        return self._view.is_due() or ((self._served or self._logs) and time.monotonic() - self._read >= _READ_S)

    def take(self, reading: Reading) -> None:
        """Take a reading in, and show it where that is due."""
        self._read = time.monotonic()
        self.recorder.take(reading)
        if self._view.is_due():
            self._view.show(self.recorder.lines())
        if self._logs and self._read - self._logged >= _LOG_S:
            self._logged = self._read
            self._log("progress", **self.recorder.state())

    def _stay(self) -> None:
        click.echo("done; the page stays until Ctrl-C", err=True)
        try:
            while True:
                time.sleep(_STAY_S)
        except KeyboardInterrupt:
            return

    def _tell(self, event: str, text: str, address: str) -> None:
        if self._logs:
            self._log(event, address=address)
        else:
            say(text, err=True)

    def _log(self, event: str, **facts: Any) -> None:
        if self._logs:
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            level = "error" if event == "failed" else "info"
            line = {"time": now, "level": level, "event": event, "job": self.recorder.job, **facts}
            say(json_module.dumps(line), err=True)
