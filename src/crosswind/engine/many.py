"""Many standing queries in one live join."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from crosswind.engine.ingest.intake import Intake
from crosswind.engine.inorder import Results
from crosswind.engine.live import LiveJoin
from crosswind.engine.output.ordered import OrderedOutput
from crosswind.engine.output.outlet import Outlet
from crosswind.engine.relayout import Relayout, same_units
from crosswind.engine.strategy import Strategy
from crosswind.errors import InputError, UnsupportedError, did_you_mean
from crosswind.io.forms import reshape
from crosswind.io.snapshot import SnapshotSchema
from crosswind.plan.axis import INT64_MIN
from crosswind.plan.compile import Plan
from crosswind.window.arrival import Sorter, Watermark
from crosswind.window.block import Block

__all__ = ["ManyJoin", "Replan"]

Replan = tuple[Plan, dict[str, int]]
"""A plan, and the lateness of its streams in ticks."""


class ManyJoin(LiveJoin[dict[str, pa.Table]], Outlet[dict[str, pa.Table]]):
    """Many window joins that share streams, windows and comparisons; made by :func:`crosswind.open`.

    Every call returns the results it completed, by the name of the query. Queries may be
    added and dropped while it runs.

    Examples
    --------
    >>> import crosswind as cw, pyarrow as pa
    >>> r = pa.schema({"x": pa.int64(), "ts": pa.int64()})
    >>> queries = {
    ...     "near": "SELECT a.x FROM R [RANGE 5] a, R [RANGE 5] b WHERE a.x = b.x + 1",
    ...     "far": "SELECT a.x FROM R [RANGE 5] a, R [RANGE 5] b WHERE a.x > b.x + 10",
    ... }
    >>> with cw.open(queries, {"R": r}) as join:
    ...     found = join.push("R", {"x": [1, 2, 30], "ts": [1, 2, 3]})
    ...     {name: table.num_rows for name, table in found.items()}
    {'near': 1, 'far': 2}
    """

    def __init__(
        self, plan: Plan, lateness: Mapping[str, int], replan: Callable[[dict[str, str]], Replan], **options: Any
    ) -> None:
        super().__init__(plan, lateness, **options)
        self._replan = replan
        self._newest = INT64_MIN

    @property
    def schema(self) -> dict[str, pa.Schema]:
        """The Arrow schema of the results of each query."""
        made = [materialiser.schema for materialiser in self._materialisers]
        return {entry.name: schema for entry, schema in zip(self._plan.queries, made, strict=True)}

    @property
    def queries(self) -> dict[str, str]:
        """The text of each query."""
        return {entry.name: entry.query.sql for entry in self._plan.queries}

    def push(self, stream: str, batch: Any) -> dict[str, pa.Table]:
        """Take tuples of ``stream`` and return the results they complete, by query.

        Parameters
        ----------
        stream : str
            A stream of one of the queries.
        batch : Arrow-shaped
            Table, RecordBatch, pandas or polars DataFrame, or a dict of columns. Inside
            a batch tuples may come in any order.

        Returns
        -------
        dict of str to pyarrow.Table
            New results (possibly none) of every query.

        Notes
        -----
        If an error is raised, the batch has not been taken and the join is as it was.
        """
        return self._push(stream, batch)

    def advance(self, stream: str, watermark: Any) -> dict[str, pa.Table]:
        """Say that no tuple of ``stream`` older than ``watermark`` will come; see :meth:`Join.advance`."""
        return self._advance(stream, watermark)

    def advance_to(self, ticks: int) -> dict[str, pa.Table]:
        """Say that no tuple of any stream older than ``ticks`` of the common time axis will come."""
        return self._advance_to(ticks)

    def finish(self) -> dict[str, pa.Table]:
        """Say that no stream will bring anything more; return the last results and close."""
        return self._finish()

    def add(self, name: str, sql: str) -> None:
        """Let another query run along.

        It sees the tuples that are later than all that the join has taken so far, so its
        results are those of a join over the rest of the streams. The other queries go on
        as if nothing had happened.

        Parameters
        ----------
        name : str
            A name that no query of the join has.
        sql : str
            The query, over streams whose schemas were given to :func:`crosswind.open`.
        """
        self._check_open()
        if name in self.queries:
            raise InputError(f"the join has a query '{name}' already; give the new one another name, or drop that one.")
        self._call(self._change, {**self.queries, name: sql}, {**self._since, name: self._newest})

    def drop(self, name: str) -> None:
        """Let a query run no longer; what only it needed is released. The others go on."""
        self._check_open()
        known = self.queries
        if name not in known:
            raise InputError(
                f"the join has no query '{name}'; it has {', '.join(known)}.{did_you_mean(str(name), known)}"
            )
        if len(known) == 1:
            raise InputError(f"'{name}' is the only query of the join; close the join instead.")
        rest = {other: text for other, text in known.items() if other != name}
        self._call(self._change, rest, {other: since for other, since in self._since.items() if other != name})

    def _tables(self, found: dict[str, pa.Table]) -> list[pa.Table]:
        return [table for table in found.values() if table.num_rows]

    def _reshaped(self, found: dict[str, pa.Table], form: str) -> Any:
        return {name: reshape(table, form) for name, table in found.items()}

    def _named(self, tables: list[pa.Table]) -> dict[str, pa.Table]:
        return {entry.name: table for entry, table in zip(self._plan.queries, tables, strict=True)}

    # -- coming and going ------------------------------------------------------

    def _change(self, queries: dict[str, str], since: dict[str, int]) -> None:
        """Go on with other queries: a new plan, and the tuples that wait moved into its windows."""
        plan, lateness = self._replan(queries)
        if plan.axis.ticks_per_second != self._plan.axis.ticks_per_second:
            raise UnsupportedError(
                "the new set of queries measures time in another unit than the join does; open a new join for it."
            )
        waiting = (self._plan, self._intakes, self._strategy, self._sorter, self._counted)
        held = None if self._ordered is None else dict(zip(self.queries, self._ordered, strict=True))
        self._since = since
        self._adopt(plan)
        self._move_in(*waiting)
        if held is not None:
            self._ordered = [held.get(q.name) or OrderedOutput(self.schema[q.name]) for q in plan.queries]
        known = self._watermarks
        self._watermarks = {name: known.get(name) or Watermark(lateness[name]) for name in self._schemas}
        nothing = dict.fromkeys(self._schemas, 0)
        self._tuples_in, self._late = {**nothing, **self._tuples_in}, {**nothing, **self._late}
        self._rejected, self._shed = {**nothing, **self._rejected}, {**nothing, **self._shed}
        self._late_tables = {**{name: [] for name in self._schemas}, **self._late_tables}
        waiting[2].end()

    def _move_in(self, plan: Plan, intakes: list[Intake], strategy: Strategy, sorter: Sorter, numbered: bool) -> None:
        """Take the tuples that wait in the windows of the old plan, and those that are held for the order."""
        units = same_units(plan, self._plan)
        self._sorter = Sorter([unit.stream.name for unit in self._plan.units])
        for was, now in units.items():
            relay = Relayout((plan, intakes[was], was), (self._plan, self._intakes[now], now), units)
            count = sorter.counts[was]
            for block in strategy.windows[was].blocks():
                numbers = block.numbers
                if self._counted and not numbered:  # nobody counts these: they only come first
                    numbers = count + np.arange(len(block), dtype=np.int64)
                    count += len(block)
                self._strategy.insert(now, relay(block, numbers))
            self._sorter.counts[now] = count
            for block in sorter.held[was]:
                self._sorter.hold(now, relay(block, None))
        self._strategy.settle()

    def _take(
        self, stream: str, units: tuple[int, ...], portions: Iterable[list[Block]], greatest: int | None
    ) -> Results:
        results = super()._take(stream, units, portions, greatest)
        self._newest = self._newest if greatest is None else max(self._newest, greatest)
        return results

    # -- snapshot and restore ----------------------------------------------------

    def _about(self) -> dict[str, Any]:
        return {**super()._about(), "since": self._since, "newest": self._newest}

    def _snapshot_schema(self) -> SnapshotSchema:
        return replace(super()._snapshot_schema(), may_count=True, many=True)

    def _recall(self, about: dict[str, Any]) -> None:
        counted = self._counted or about["counted"]
        self._newest = max(self._newest, about["newest"])
        if (about["since"], counted) != (self._since, self._counted):
            self._since, self._counted = about["since"], counted
            self._strategy.end()
            self._adopt(self._plan)

    def _sql(self) -> str:
        return "; ".join(f"{name}: {text}" for name, text in self.queries.items())
