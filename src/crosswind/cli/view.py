"""What is shown while a command runs: a live table on a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Protocol, Self

import click

__all__ = ["LiveView", "PlainView", "SilentView", "View"]

_LINE_EVERY_S = 5.0


class View(Protocol):
    """Shows figures by name; how often is its own affair. A context manager."""

    def __enter__(self) -> Self:
        """Begin."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End, and leave the terminal in order."""
        ...

    def is_due(self) -> bool:
        """Whether it is worth gathering figures now."""
        ...

    def show(self, lines: Mapping[str, str]) -> None:
        """Show these figures in place of, or after, the last ones."""
        ...


class SilentView:
    """Shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def is_due(self) -> bool:
        """Never."""
        return False

    def show(self, lines: Mapping[str, str]) -> None:
        """Show nothing."""


class PlainView(SilentView):
    """A line every few seconds, for logs and pipes.

    Parameters
    ----------
    err : bool
        Write to standard error, not to standard output.
    """

    def __init__(self, *, err: bool = False) -> None:
        self._err = err
        self._last = time.monotonic()

    def is_due(self) -> bool:
        """Every few seconds."""
        return time.monotonic() - self._last >= _LINE_EVERY_S

    def show(self, lines: Mapping[str, str]) -> None:
        """Write one line."""
        self._last = time.monotonic()
        click.echo(", ".join(f"{name}: {value}" for name, value in lines.items()), err=self._err)


class LiveView:
    """A table that is redrawn in place, on a terminal.

    Parameters
    ----------
    title : str
        Above the table.
    err : bool
        Draw on standard error, not on standard output.
    """

    def __init__(self, title: str, *, err: bool = False) -> None:
        from rich.console import Console
        from rich.live import Live

        self._title = title
        self._refresh_s = 0.1
        self._last = 0.0
        self._live = Live(console=Console(stderr=err), auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def is_due(self) -> bool:
        """Ten times a second."""
        return time.monotonic() - self._last >= self._refresh_s

    def show(self, lines: Mapping[str, str]) -> None:
        """Draw the table anew."""
        from rich.table import Table

        self._last = time.monotonic()
        table = Table(title=self._title, title_justify="left", show_header=False, box=None, padding=(0, 2))
        table.add_column(style="dim")
        table.add_column(justify="left")
        for name, value in lines.items():
            table.add_row(name, value)
        self._live.start()  # only now, so that what is printed before stays above; once is enough
        self._live.update(table, refresh=True)
