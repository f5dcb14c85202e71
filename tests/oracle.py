"""The exact result of a window join over finite tables, computed by DuckDB.

This is an independent second opinion: it imports nothing of the package and takes a
*structured* description of the join, not SQL text of ours. It follows SEMANTICS.md
word by word:

* *the order* is by time, then arrival (row number), then position in FROM;
* a combination qualifies iff, when its last member in the order arrives, every other
  member is still in its own window;
* times are compared as integers (HUGEINT), so no timestamp is ever rounded or wraps.

DuckDB's optimiser is off: the join is a plain cross product and a filter.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from typing import Any, Literal

import duckdb
import pyarrow as pa

TICKS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
NS_PER_DAY = 86_400 * 1_000_000_000
NAN = "<NaN>"
"""Stands for NaN in canonical rows, so that NaN equals itself."""


@dataclass(frozen=True)
class Window:
    """The window of one role.

    ``length`` belongs to ``range``: seconds for temporal time columns, ticks for integer
    ones. ``count`` belongs to ``rows``.
    """

    kind: Literal["range", "rows", "now"]
    length: Fraction = Fraction(0)
    inclusive: bool = False
    count: int = 0


@dataclass(frozen=True)
class Role:
    """One entry of FROM: stream ``name`` under ``alias`` with its window and time column."""

    name: str
    alias: str
    window: Window
    time: str = "ts"


@dataclass(frozen=True)
class Output:
    """One column of the result: column ``column`` of role ``role``, or DuckDB text ``duck``.

    ``approx`` marks results of transcendental functions, which are compared with a tolerance.
    """

    name: str
    role: int = -1
    column: str = ""
    duck: str = ""
    approx: bool = False


@dataclass(frozen=True)
class Join:
    """A window join over finite tables in arrival order. ``predicate`` None: every pair.

    ``kind``: ``inner``, or for two roles ``left``, ``right``, ``full``, ``semi``, ``anti``; then
    ``after`` is what rows of the result must satisfy.
    """

    roles: tuple[Role, ...]
    tables: Mapping[str, pa.Table] = field(compare=False)
    predicate: str | None
    outputs: tuple[Output, ...]
    kind: str = "inner"
    after: str | None = None


@dataclass(frozen=True)
class Advance:
    """An explicit watermark between the batches given to :func:`late_rows`."""

    watermark: int


class OracleOverflowError(Exception):
    """Even 128 bits cannot hold a value of the predicate: nothing can be said."""


# ---------------------------------------------------------------------------------- time


def ticks(column: pa.ChunkedArray | pa.Array) -> list[int | None]:
    """Return the values of an integer, timestamp or date column as plain integers."""
    kind = column.type
    if pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_unsigned_integer(kind):
        return column.to_pylist()
    return column.cast(pa.int64()).to_pylist()


def ticks_per_second(kind: pa.DataType) -> Fraction | None:
    """Return the ticks in a second of a time column's type; None for integers."""
    if pa.types.is_integer(kind):
        return None
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return Fraction(TICKS_PER_SECOND[kind.unit])
    if pa.types.is_date32(kind):
        return Fraction(1, 86_400)
    if pa.types.is_date64(kind):
        return Fraction(1_000)
    raise TypeError(f"not a time type: {kind}")


def late_rows(batches: Sequence[Sequence[int | None] | Advance], lateness: int) -> set[int]:
    """Return which rows of a stream are late, numbered over all its batches.

    The watermark is the greatest time seen minus ``lateness`` (or an explicit one, if
    greater). A row is late if it is older than the watermark as it stood before its batch.
    """
    late: set[int] = set()
    watermark: int | None = None
    start = 0
    for batch in batches:
        if isinstance(batch, Advance):
            watermark = batch.watermark if watermark is None else max(watermark, batch.watermark)
            continue
        if watermark is not None:
            late.update(start + i for i, t in enumerate(batch) if t is not None and t < watermark)
        seen = [t for t in batch if t is not None]
        if seen:
            watermark = max(seen) - lateness if watermark is None else max(watermark, max(seen) - lateness)
        start += len(batch)
    return late


# ---------------------------------------------------------------------------------- the join


def expected_rows(join: Join, dropped: Mapping[str, Collection[int]] | None = None) -> list[tuple[Any, ...]]:
    """Return the canonical rows of the join's exact result.

    Parameters
    ----------
    join : Join
        What to compute.
    dropped : mapping of str to collection of int, optional
        By stream, the rows that were dropped as late. Rows without a time never take part.
    """
    computed = [output for output in join.outputs if output.duck]
    found = _matches(join, [output.duck for output in computed], dropped or {})
    width = len(join.roles)
    columns: list[list[Any]] = []
    position = width
    for output in join.outputs:
        if output.duck:
            columns.append([canonical(row[position]) for row in found])
            position += 1
        else:
            values = canonical_column(join.tables[join.roles[output.role].name].column(output.column))
            columns.append([None if row[output.role] is None else values[row[output.role]] for row in found])
    return list(zip(*columns, strict=True)) if columns else [() for _ in found]


def matches(join: Join, dropped: Mapping[str, Collection[int]] | None = None) -> list[tuple[int, ...]]:
    """Return the exact result as row numbers, one per role, in no particular order."""
    return _matches(join, [], dropped or {})


def count_matches(join: Join) -> int:
    """Return how many combinations satisfy windows and condition, without a look at what is outer about the join."""
    return int(_matches(replace(join, kind="inner"), [], {}, count=True)[0][0])


def _matches(
    join: Join, computed: Sequence[str], dropped: Mapping[str, Collection[int]], count: bool = False
) -> list[tuple[Any, ...]]:
    db = _database()
    factors = common_unit(join)
    keys = []
    for role in join.roles:
        gone = set(dropped.get(role.name, ()))
        times = ticks(join.tables[role.name].column(role.time))
        keys.append(sorted((t, i) for i, t in enumerate(times) if t is not None and i not in gone))
    scaled = [[t * factor for t, _ in role_keys] for role_keys, factor in zip(keys, factors, strict=True)]
    for position in range(len(join.roles)):
        db.register(f"t{position}", _duck_table(join, position, keys[position], scaled))
    lists = [f't{position} AS "{role.alias}"' for position, role in enumerate(join.roles)]
    where = _window_condition(join, factors)
    if join.predicate is not None:
        where = f"({where}) AND ({join.predicate})"
    wanted = ", ".join([f'"{role.alias}".__i' for role in join.roles] + [f"({text})" for text in computed])
    text = f"SELECT {'count(*)' if count else wanted} FROM {', '.join(lists)} WHERE {where}"
    if join.kind != "inner":
        text = _outer_text(join, lists, wanted, where)
    try:
        return db.execute(text).fetchall()
    except duckdb.OutOfRangeException as error:
        raise OracleOverflowError(str(error)) from error
    finally:
        for position in range(len(join.roles)):
            db.unregister(f"t{position}")


def _outer_text(join: Join, lists: Sequence[str], wanted: str, where: str) -> str:
    """Return SQL of an outer, semi or anti join, from the pairs that match and those that are in none.

    DuckDB's own ANTI and SEMI joins are wrong for some conditions that are no equality.
    """
    after = "TRUE" if join.after is None else join.after
    pairs = ", ".join(f'"{role.alias}".__i AS i{k}' for k, role in enumerate(join.roles))
    parts = []
    if join.kind in ("left", "right", "full"):
        parts.append(f"SELECT {wanted} FROM {', '.join(lists)} WHERE ({where}) AND ({after})")
    alone = {"left": [0], "right": [1], "full": [0, 1], "semi": [0], "anti": [0]}[join.kind]
    for side in alone:
        own, other = (f'"{join.roles[k].alias}".__i' for k in (side, 1 - side))
        among = "IN" if join.kind == "semi" else "NOT IN"
        parts.append(
            f"SELECT {wanted} FROM {lists[side]} LEFT JOIN {lists[1 - side]} ON {other} = -1 - {own} "
            f"WHERE ({own} {among} (SELECT i{side} FROM pairs)) AND ({after})"
        )
    return f"WITH pairs AS (SELECT {pairs} FROM {', '.join(lists)} WHERE {where}) {' UNION ALL '.join(parts)}"


@cache
def _database() -> duckdb.DuckDBPyConnection:
    db = duckdb.connect()
    db.execute("PRAGMA disable_optimizer")
    db.execute("SET threads = 1")
    return db


def common_unit(join: Join) -> list[int]:
    """Return by role the factor that turns its ticks into the finest unit of the query."""
    rates = [ticks_per_second(join.tables[role.name].schema.field(role.time).type) for role in join.roles]
    if all(rate is None for rate in rates):
        return [1] * len(rates)
    if any(rate is None for rate in rates):
        raise TypeError("integer and temporal time columns in one query")
    finest = max(rates)
    return [int(finest / rate) for rate in rates]


def _duck_table(
    join: Join, position: int, keys: Sequence[tuple[int, int]], scaled: Sequence[Sequence[int]]
) -> pa.Table:
    """Return a role's rows in the order, with what the window condition needs.

    ``__t``: time in ticks; ``__i``: row number; ``__n``: rank in the order (from 1);
    ``__before_j``: how many tuples of role j lie before this tuple in the order.
    """
    role = join.roles[position]
    table = join.tables[role.name]
    order = pa.array([i for _, i in keys], pa.int64())
    columns: dict[str, Any] = {}
    for name in table.column_names:
        converted = _duck_column(table.column(name))
        if converted is not None:
            columns[name] = converted.take(order)
    columns["__t"] = pa.array([t for t, _ in keys], pa.int64())
    columns["__i"] = pa.array([i for _, i in keys], pa.int64())
    columns["__n"] = pa.array(range(1, len(keys) + 1), pa.int64())
    for other, times in enumerate(scaled):
        if other != position:
            count = bisect_right if other < position else bisect_left
            before = [count(times, t) for t in scaled[position]]
            columns[f"__before_{other}"] = pa.array(before, pa.int64())
    return pa.table(columns)


def _duck_column(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Return a column in the type in which predicates see it in DuckDB, None if they cannot.

    Text becomes BLOB (bytewise order), temporal values integer ticks, uint64 DECIMAL(20,0).
    """
    t, kind = pa.types, column.type
    if t.is_dictionary(kind):
        return _duck_column(column.cast(kind.value_type))
    if t.is_boolean(kind) or t.is_float32(kind) or t.is_float64(kind) or t.is_decimal128(kind):
        return column
    if t.is_decimal(kind):
        return column.cast(pa.decimal128(kind.precision, kind.scale))
    if t.is_float16(kind):
        return column.cast(pa.float32())
    if t.is_uint64(kind):
        return column.cast(pa.decimal128(20, 0))
    if t.is_date32(kind):
        return column.cast(pa.int32()).cast(pa.int64())
    if t.is_integer(kind) or t.is_temporal(kind):
        return column.cast(pa.int64())
    if t.is_string(kind) or t.is_large_string(kind) or t.is_large_binary(kind) or t.is_fixed_size_binary(kind):
        return column.cast(pa.binary())
    if t.is_string_view(kind) or t.is_binary_view(kind):
        return pa.chunked_array([_plain_binary(chunk) for chunk in column.chunks], pa.binary())
    return column if t.is_binary(kind) else None


def _plain_binary(view: pa.Array) -> pa.Array:
    values = view.to_pylist()
    return pa.array([v.encode() if isinstance(v, str) else v for v in values], pa.binary())


def _window_condition(join: Join, factors: Sequence[int]) -> str:
    """Return SQL that is true iff all members but the last are in their windows when it arrives."""
    seconds = ticks_per_second(join.tables[join.roles[0].name].schema.field(join.roles[0].time).type)
    rate = Fraction(1) if seconds is None else seconds * factors[0]
    time = [f'(CAST("{role.alias}".__t AS HUGEINT) * {factors[p]})' for p, role in enumerate(join.roles)]
    cases = []
    for last, last_role in enumerate(join.roles):
        conditions = ["TRUE"]
        for other, role in enumerate(join.roles):
            if other == last:
                continue
            age = f"({time[last]} - {time[other]})"
            conditions.append(f"{age} {'>=' if other < last else '>'} 0")
            if role.window.kind == "now":
                conditions.append(f"{age} = 0")
            elif role.window.kind == "range":
                limit = role.window.length * rate
                sign = "<=" if role.window.inclusive else "<"
                conditions.append(f"{age} * {limit.denominator} {sign} CAST('{limit.numerator}' AS HUGEINT)")
            else:
                after = f'"{last_role.alias}".__before_{other} - "{role.alias}".__n'
                conditions.append(f"{after} < {role.window.count}")
        cases.append("(" + " AND ".join(conditions) + ")")
    return " OR ".join(cases)


# ---------------------------------------------------------------------------------- comparing


def canonical(value: Any) -> Any:
    """Return a hashable stand-in: NaN equals itself, -0.0 is 0.0, lists and dicts are frozen."""
    if isinstance(value, float):
        return NAN if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple((key, canonical(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(canonical(item) for item in value)
    return value


def canonical_column(column: pa.ChunkedArray) -> list[Any]:
    """Return a column's canonical values; temporal ones as integer nanoseconds."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return canonical_column(column.cast(kind.value_type))
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_date(kind):
        rate = ticks_per_second(kind)
        assert rate is not None
        scale = int(Fraction(1_000_000_000) / rate)
        return [None if t is None else t * scale for t in ticks(column)]
    return [canonical(value) for value in column.to_pylist()]


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return the canonical rows of a result table."""
    columns = [canonical_column(column) for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else [() for _ in range(table.num_rows)]


def difference(
    expected: Sequence[tuple[Any, ...]], actual: Sequence[tuple[Any, ...]], approx: Collection[int] = ()
) -> str | None:
    """Return how two multisets of canonical rows differ, or None.

    ``approx`` are the positions of columns that are compared with a relative tolerance.
    """
    if approx:
        return _difference_approx(expected, actual, sorted(approx))
    want, have = Counter(expected), Counter(actual)
    missing, extra = want - have, have - want
    if not missing and not extra:
        return None
    lines = [f"expected {len(expected)} rows, got {len(actual)}"]
    for title, rows in (("missing", missing), ("extra", extra)):
        lines.append(f"{title}: {sum(rows.values())} rows")
        lines.extend(f"  {count} x {row}" for row, count in list(rows.items())[:10])
    return "\n".join(lines)


def _difference_approx(expected: Sequence[Any], actual: Sequence[Any], approx: Sequence[int]) -> str | None:
    def split(rows: Sequence[Any]) -> dict[Any, list[list[Any]]]:
        groups: dict[Any, list[list[Any]]] = defaultdict(list)
        for row in rows:
            key = tuple(None if i in approx else value for i, value in enumerate(row))
            groups[key].append([_sortable(row[i]) for i in approx])
        return groups

    want, have = split(expected), split(actual)
    keys = difference([k for k in want for _ in want[k]], [k for k in have for _ in have[k]])
    if keys:
        return keys
    for key, values in want.items():
        for a, b in zip(sorted(values), sorted(have[key]), strict=True):
            if not all(x == y or math.isclose(x[1], y[1], rel_tol=1e-9) for x, y in zip(a, b, strict=True)):
                return f"row {key}: expected about {a}, got {b}"
    return None


def _sortable(value: Any) -> tuple[int, float]:
    if value is None:
        return (0, 0.0)
    return (2, 0.0) if value == NAN else (1, float(value))


def assert_same(
    expected: Sequence[tuple[Any, ...]], actual: pa.Table, note: str = "", approx: Collection[int] = ()
) -> None:
    """Fail with the missing and extra rows unless ``actual`` holds exactly ``expected``."""
    found = difference(expected, rows_of(actual), approx)
    if found:
        raise AssertionError(f"{found}\n{note}")


def without(table: pa.Table, start: int, stop: int) -> pa.Table:
    """Return ``table`` without rows ``start`` to ``stop``."""
    return pa.concat_tables([table.slice(0, start), table.slice(stop)])
