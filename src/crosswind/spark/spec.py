"""What workers must know of a join: the plan, the layout, the clock. Sent to them pickled."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import pyarrow as pa

from crosswind.errors import InputError
from crosswind.plan.axis import INT64_MIN
from crosswind.plan.compile import Plan, compile_plan
from crosswind.plan.layout import CellLayout
from crosswind.query.tree import Query

__all__ = ["QUERY", "JoinSpec", "by_query", "result_schema", "unit_plan", "widen"]

QUERY = "query"
"""The column that names the query, where there are many."""

_MICROSECONDS_MAX = 2**63 - 1


@dataclass(frozen=True)
class JoinSpec:
    """A join on Spark, complete: every unit of ``plan`` has a stream name of its own.

    ``sources`` names the frame that each unit reads; ``lateness`` is in ticks, by unit;
    ``cache_bytes`` bounds what a worker process keeps decoded; ``many``: results name their query.
    ``lag``: milliseconds that Spark's watermark is behind that of the join. ``by_previous``: late is what is not
    newer than the watermark of the micro-batch before (see :mod:`crosswind.spark.event_time`). ``late``: the column of
    the output for tuples that are dropped, which then travel with all their columns (None: they are only counted).
    ``name`` is what the Spark UI and ``explain`` call the join. ``definition`` is kept in the checkpoint, for those who
    look into it.
    """

    plan: Plan
    layout: CellLayout
    sources: tuple[str, ...]
    lateness: tuple[int, ...]
    index: str
    cache_bytes: int
    many: bool = False
    lag: int = 0
    by_previous: bool = False
    late: str | None = None
    name: str = ""
    definition: str = ""

    @property
    def title(self) -> str:
        """What the join is called: by its name, else by its queries and streams."""
        streams = " and ".join(dict.fromkeys(self.sources))
        queries = ", ".join(entry.name for entry in self.plan.queries) + " of " if self.many else ""
        return self.name or f"{queries}{streams}"

    @property
    def units(self) -> tuple[str, ...]:
        """The names of the units, by which their tuples are pushed."""
        return tuple(unit.stream.name for unit in self.plan.units)

    @property
    def sql(self) -> str:
        """The text of the queries, in one line."""
        texts = [" ".join(entry.query.sql.split()) for entry in self.plan.queries]
        return "; ".join(f"{entry.name}: {text}" for entry, text in zip(self.plan.queries, texts, strict=True))

    def identity(self) -> str:
        """Return a mark of what the state of a cell depends on: query, schemas, routing."""
        parts = [
            [unit.stream.name, unit.stream.time, [(field.name, str(field.type)) for field in unit.stream.schema]]
            for unit in self.plan.units
        ]
        content = [self.sql, parts, self.layout.identity(), self.clock]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]

    @property
    def clock(self) -> str:
        """How the watermark of the join follows from Spark's, in words."""
        if self.by_previous:
            return "a watermark that a frame brings"
        return f"Spark's watermark {self.lag} ms behind" if self.lag else "Spark's watermark"

    # -- Spark's clock and ours ----------------------------------------------

    @property
    def _ticks_per_ms(self) -> Fraction:
        """Ticks in a millisecond of Spark's watermark; an integer time column counts milliseconds."""
        per_second = self.plan.axis.ticks_per_second
        return Fraction(1) if per_second is None else per_second / 1000

    def with_lag(self, ticks: int) -> JoinSpec:
        """Return the join with Spark's watermark behind its own, so that a time ``ticks`` older is not late for Spark.

        Spark drops what is not newer than its watermark, so it is one millisecond more.
        """
        return replace(self, lag=self.milliseconds(ticks) + 1)

    def own_watermark(self, milliseconds: int) -> int:
        """Return the watermark of the join, given Spark's; 0 means that there is none yet."""
        return 0 if milliseconds <= 0 else milliseconds + self.lag

    def spark_timer(self, milliseconds: int) -> int:
        """Return Spark's watermark at which that of the join is ``milliseconds``, or the first that there is."""
        return max(1, milliseconds - self.lag)

    def watermark(self, milliseconds: int) -> int:
        """Return the watermark of the join in ticks; 0 means that there is none yet."""
        return INT64_MIN if milliseconds <= 0 else math.ceil(milliseconds * self._ticks_per_ms)

    def milliseconds(self, ticks: int) -> int:
        """Return the first millisecond of Spark's watermark that is not before ``ticks``."""
        return math.ceil(ticks / self._ticks_per_ms)

    def ticks(self, milliseconds: int) -> int:
        """Return a span of Spark's clock in ticks, rounded up."""
        return math.ceil(milliseconds * self._ticks_per_ms)

    def microseconds(self, ticks: int, stream: str) -> int:
        """Return a time as microseconds since 1970, which is how Spark sees the time of a block."""
        value = math.floor(ticks * 1000 / self._ticks_per_ms)
        if abs(value) > _MICROSECONDS_MAX:
            raise InputError(
                f"stream '{stream}': the time {ticks} is too great for Spark's watermark; integer times count as "
                f"milliseconds there, up to {_MICROSECONDS_MAX // 1000}. Give times from a nearer origin."
            )
        return value

    def delay(self, unit: int) -> str:
        """Return how far Spark's watermark is behind the times of ``unit``, as ``withWatermark`` takes it."""
        return f"{self.delay_ms(unit)} milliseconds"

    def delay_ms(self, unit: int) -> int:
        """Return the allowed lateness of ``unit`` and the lag, in milliseconds."""
        return self.milliseconds(self.lateness[unit]) + self.lag


def unit_plan(queries: Mapping[str, Query]) -> tuple[Plan, tuple[str, ...]]:
    """Return the plan in which every unit has a name of its own, and the stream each reads.

    In one process a stream that plays two roles is pushed once. Here its tuples may go to
    different cells in each role, so each role is a stream.
    """
    renamed: dict[str, Query] = {}
    sources: dict[str, str] = {}
    for name, query in queries.items():
        seen: dict[str, int] = {}
        streams = []
        for stream in query.streams:
            seen[stream.name] = seen.get(stream.name, 0) + 1
            unit = stream.name if seen[stream.name] == 1 else f"{stream.name}#{seen[stream.name]}"
            sources[unit] = stream.name
            streams.append(replace(stream, name=unit))
        renamed[name] = replace(query, streams=tuple(streams))
    plan = compile_plan(renamed)
    return plan, tuple(sources[unit.stream.name] for unit in plan.units)


def result_schema(plan: Plan, *, many: bool) -> pa.Schema:
    """Return the Arrow schema of all results; with many queries, their names and the union of their columns."""
    fields: dict[str, pa.Field] = {QUERY: pa.field(QUERY, pa.string())} if many else {}
    for entry in plan.queries:
        for out in entry.query.outputs:
            if many and out.name == QUERY:
                raise InputError(
                    f"query '{entry.name}' has a column '{QUERY}', which names the query; give it an alias."
                )
            known = fields.setdefault(out.name, pa.field(out.name, out.arrow))
            if known.type != out.arrow:
                raise InputError(
                    f"column '{out.name}' is {out.arrow} in query '{entry.name}' and {known.type} in another; "
                    f"all results come in one DataFrame, so give one of them an alias."
                )
    return pa.schema(list(fields.values()))


def widen(batch: pa.RecordBatch, query: str, schema: pa.Schema) -> pa.RecordBatch:
    """Return results of ``query`` with the columns of all queries, and its name."""
    columns = []
    for field in schema:
        if field.name == QUERY:
            columns.append(pa.repeat(query, batch.num_rows))
        elif field.name in batch.schema.names:
            columns.append(batch.column(field.name))
        else:
            columns.append(pa.nulls(batch.num_rows, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def by_query(found: pa.Table | dict[str, pa.Table]) -> Iterator[tuple[str, pa.Table]]:
    """Yield what a join of one or of many queries returned, with the name of the query, without empty tables."""
    named = found if isinstance(found, dict) else {"": found}
    for name, table in named.items():
        if table.num_rows:
            yield name, table
