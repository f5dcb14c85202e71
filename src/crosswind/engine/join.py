"""A live join: batches in, result tables out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from crosswind.engine.ingest.batching import Feeder
from crosswind.engine.live import LiveJoin
from crosswind.engine.output.outlet import Outlet
from crosswind.io.forms import reshape

__all__ = ["Join"]


class Join(LiveJoin[pa.Table], Outlet[pa.Table]):
    """A window join that runs in this process; made by :func:`crosswind.open`.

    Push batches as they come; every call returns the results it completed. Use it as a
    context manager, or call :meth:`close` when done.

    Examples
    --------
    >>> import crosswind as cw, pyarrow as pa
    >>> r = pa.schema({"x": pa.int64(), "ts": pa.int64()})
    >>> sql = "SELECT a.x, b.x AS y FROM R [RANGE 5] a, R [RANGE 5] b WHERE a.x = b.x + 1"
    >>> with cw.open(sql, {"R": r}) as join:
    ...     join.push("R", {"x": [1], "ts": [1]}).num_rows, join.push("R", {"x": [2], "ts": [3]}).to_pylist()
    (0, [{'x': 2, 'y': 1}])
    """

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the results."""
        return self._materialisers[0].schema

    def push(self, stream: str, batch: Any) -> pa.Table:
        """Take tuples of ``stream`` and return the results they complete.

        Parameters
        ----------
        stream : str
            A stream of the query.
        batch : Arrow-shaped
            Table, RecordBatch, pandas or polars DataFrame, or a dict of columns. Inside
            a batch tuples may come in any order.

        Returns
        -------
        pyarrow.Table
            New results (possibly none).

        Notes
        -----
        If an error is raised, the batch has not been taken and the join is as it was.
        """
        return self._push(stream, batch)

    def advance(self, stream: str, watermark: Any) -> pa.Table:
        """Say that no tuple of ``stream`` older than ``watermark`` will come.

        ``watermark`` is a value of the stream's time column: an int, a datetime or date,
        an ISO string, or an Arrow or NumPy scalar. Returns the results this completes.
        """
        return self._advance(stream, watermark)

    def advance_to(self, ticks: int) -> pa.Table:
        """Say that no tuple of any stream older than ``ticks`` of the common time axis will come."""
        return self._advance_to(ticks)

    def feeder(
        self,
        deliver: Callable[[pa.Table], Any],
        *,
        limit: int = 4096,
        capacity: int = 65_536,
        timeout: float = 30.0,
    ) -> Feeder:
        """Return a feeder: producers put tuples whenever they come, a thread pushes whatever waits.

        Parameters
        ----------
        deliver : callable
            Called with every table of results that has rows, in that thread.
        limit : int
            Greatest number of tuples in a push.
        capacity : int
            Tuples that may wait; then producers are held up.
        timeout : float
            Seconds that they may be held up before OverloadError is raised.

        Examples
        --------
        >>> import crosswind as cw, pyarrow as pa
        >>> schema = pa.schema({"ts": pa.int64(), "x": pa.int32()})
        >>> sql = "SELECT R.x FROM R [RANGE 5], S [RANGE 5] WHERE R.x = S.x"
        >>> found = []
        >>> with cw.open(sql, {"R": schema, "S": schema}) as join, join.feeder(found.append) as feeder:
        ...     feeder.put("R", {"ts": [1], "x": [10]})
        ...     feeder.put("S", {"ts": [2], "x": [10]})
        >>> pa.concat_tables(found).to_pylist()
        [{'x': 10}]
        """
        self._check_open()
        return Feeder(self, deliver, limit=limit, capacity=capacity, timeout=timeout)

    def finish(self) -> pa.Table:
        """Say that no stream will bring anything more; return the last results and close."""
        return self._finish()

    def _named(self, tables: list[pa.Table]) -> pa.Table:
        return tables[0]

    def _tables(self, found: pa.Table) -> list[pa.Table]:
        return [found] if found.num_rows else []

    def _reshaped(self, found: pa.Table, form: str) -> Any:
        return reshape(found, form)
