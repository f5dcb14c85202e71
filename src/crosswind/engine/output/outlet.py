"""Ways to take results of a live join: by iterating, by callback, into a sink."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa

from crosswind.io.forms import reshape

__all__ = ["Arrival", "Outlet", "Sink"]

Arrival = tuple[str, Any]
"""A stream, and a batch of its tuples."""


Found = TypeVar("Found")


class Sink(Protocol):
    """Where results go: a file, a queue, a socket."""

    def write(self, table: pa.Table) -> None:
        """Take results; called whenever there are some."""

    def close(self) -> None:
        """There will be no more."""


class Outlet(ABC, Generic[Found]):
    """What :class:`Join` and :class:`ManyJoin` offer besides ``push``."""

    _listeners: list[Callable[[str, pa.Table], None]]

    @abstractmethod
    def push(self, stream: str, batch: Any) -> Found:
        """Take tuples and return results."""

    @abstractmethod
    def finish(self) -> Found:
        """Take no more and return the last results."""

    @abstractmethod
    def _tables(self, found: Found) -> list[pa.Table]:
        """Return the tables of what ``push`` returned that have rows."""

    @abstractmethod
    def _reshaped(self, found: Found, form: str) -> Any:
        """Return what ``push`` returned with its tables in another form."""

    def results(self, arrivals: Iterable[Arrival], form: str = "arrow") -> Iterator[Any]:
        """Push ``arrivals`` one after another and yield results as they come, then finish.

        Parameters
        ----------
        arrivals : iterable of (stream, batch)
            What is pushed. It may wait for its data; between two arrivals nothing happens.
        form : str
            ``arrow``, ``pandas`` or ``polars``.

        Yields
        ------
        What ``push`` returns, in that form, whenever it has rows.
        """
        reshape(pa.table({}), form)
        for stream, batch in arrivals:
            found = self.push(stream, batch)
            if self._tables(found):
                yield self._reshaped(found, form)
        found = self.finish()
        if self._tables(found):
            yield self._reshaped(found, form)

    async def aresults(self, arrivals: AsyncIterable[Arrival], form: str = "arrow") -> AsyncIterator[Any]:
        """Do as :meth:`results` for arrivals that come asynchronously; the event loop goes on meanwhile."""
        reshape(pa.table({}), form)
        async for stream, batch in arrivals:
            found = await asyncio.to_thread(self.push, stream, batch)
            if self._tables(found):
                yield self._reshaped(found, form)
        found = await asyncio.to_thread(self.finish)
        if self._tables(found):
            yield self._reshaped(found, form)

    def drain(self, arrivals: Iterable[Arrival], sink: Sink) -> int:
        """Push ``arrivals`` to the end, write all results to ``sink``, and close it; return how many rows that were."""
        rows = 0
        try:
            for found in self.results(arrivals):
                for table in self._tables(found):
                    sink.write(table)
                    rows += table.num_rows
        finally:
            sink.close()
        return rows

    def subscribe(self, callback: Callable[[str, pa.Table], None]) -> Callable[[], None]:
        """Call ``callback(query, table)`` with results whenever a call completes some; return how to stop that.

        ``query`` is the name of the query, ``"query"`` if it has none. A callback that raises
        refuses the call: its error comes out of ``push``, the batch is not taken, and when it is pushed
        again its results are told again. A callback must not call the join itself.
        """
        self._listeners.append(callback)

        def stop() -> None:
            if callback in self._listeners:
                self._listeners.remove(callback)

        return stop
