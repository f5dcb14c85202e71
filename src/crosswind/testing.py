"""For tests of code that uses Crosswind: streams as small text tables, a clock to turn by hand, row comparison.

Streams are written the way one would draw them. Types are inferred, or given by a schema; an empty
cell or ``null`` is a null; a column named ``arrival`` says which tuples arrive together::

    from crosswind.testing import arrivals_from_text, assert_same_rows

    arrivals = arrivals_from_text({
        "R": '''
            arrival | x | ts
            1       | 7 | 10
            1       | 8 | 12
            3       | 9 | 15
        ''',
        "S": '''
            arrival | a | ts
            2       | 7 | 11
        ''',
    })
    for arrival in arrivals:              # R's first two tuples, then S's, then R's last
        join.push(arrival.stream, arrival.batch)

Nothing here needs a test framework.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from crosswind.clock import Clock, SystemClock
from crosswind.errors import InputError, did_you_mean
from crosswind.io.schemas import schema_from_text

__all__ = [
    "Arrival",
    "Clock",
    "SystemClock",
    "TestClock",
    "arrivals_from_text",
    "assert_same_rows",
    "stream_from_text",
]

ARRIVAL = "arrival"
"""The column that says when tuples arrive. It is not part of the stream."""

Row = tuple[tuple[str, Hashable], ...]
"""Column names and values, the columns sorted by name."""

_SHOWN_ROWS_MAX = 20
_CELL = re.compile(r'"[^"]*"|\S+')
_RULE = re.compile(r"[\s|:+-]+")
_INTEGER = re.compile(r"[+-]?\d+")
_FLOAT = re.compile(r"[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf|infinity|nan)", re.IGNORECASE)
_BOOLEAN = re.compile(r"true|false", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIME_OF_DAY = re.compile(r"\d\d:\d\d(:\d\d(\.\d+)?)?")
_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d[ T])?\d\d:\d\d(:\d\d(\.\d+)?)?")
_INSTANT = re.compile(_TIMESTAMP.pattern + r"(Z|[+-]\d\d:?\d\d)")


class Arrival(NamedTuple):
    r"""Tuples of one stream that arrive together.

    Examples
    --------
    >>> from crosswind.testing import arrivals_from_text
    >>> first, second = arrivals_from_text({"R": "arrival | x | ts\n1 | 7 | 10\n2 | 8 | 12"})
    >>> first.stream, second.batch.column("x").to_pylist()
    ('R', [8])
    """

    at: int
    stream: str
    batch: pa.Table


class TestClock:
    """A clock that stands still until it is moved. Stands in for :class:`SystemClock`.

    Parameters
    ----------
    start : float
        The first reading, in seconds.

    Attributes
    ----------
    sleeps : list of float
        Every wait that was asked for, in order.

    Examples
    --------
    >>> from crosswind.testing import TestClock
    >>> clock = TestClock()
    >>> clock.advance(90)
    >>> clock.now()
    90.0
    """

    __test__ = False  # or pytest would take it for a class of tests

    def __init__(self, start: float = 0.0) -> None:
        self._now = float(start)
        self.sleeps: list[float] = []

    def now(self) -> float:
        """Return the seconds passed since the clock's zero."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move the clock on by ``seconds``. Clocks do not go back."""
        if seconds < 0:
            raise InputError(f"a clock cannot go back: advance() got {seconds!r}. Give seconds >= 0.")
        self._now += seconds

    def sleep(self, seconds: float) -> None:
        """Move the clock on by ``seconds`` without waiting, not at all if not positive."""
        self.sleeps.append(seconds)
        self.advance(max(0.0, seconds))


def stream_from_text(text: str, schema: pa.Schema | str | None = None) -> pa.Table:
    """Read a stream drawn as a text table.

    The first line names the columns. Cells are separated by ``|``, or by blanks where the header
    has no ``|``; text with blanks in it goes in double quotes. An empty cell (between bars) or
    ``null`` is a null, ``""`` an empty string. A column named ``arrival`` is left out of the
    result; rows come in its order.

    Parameters
    ----------
    text : str
        The table. Blank lines, lines starting with ``#`` and rules (``---|---``) are skipped.
    schema : pyarrow.Schema or str, optional
        Types of the columns, also as text: ``"x:int32, ts:timestamp[ms]"``. Columns it does not
        name, and all of them without it, are of the first of these types that fits every cell:
        int64, double, bool, date, timestamp[us], timestamp[us, UTC] (with ``Z`` or an offset),
        string.

    Returns
    -------
    pyarrow.Table

    Notes
    -----
    A time of day such as ``00:01:30`` is taken as that time on 1970-01-01, and a whole number in a
    column declared as a timestamp as ticks since then, so that tests of windows can stay short.

    Examples
    --------
    >>> from crosswind.testing import stream_from_text
    >>> stream = stream_from_text(
    ...     '''
    ...     x | ts
    ...     7 | 00:00:01
    ...       | 00:00:02.5
    ...     ''',
    ...     "x:int32, ts:timestamp[ms]",
    ... )
    >>> stream.column("x").to_pylist()
    [7, None]
    """
    return pa.concat_tables([batch for _, batch in _batches(text, schema)])


def arrivals_from_text(
    streams: Mapping[str, str], schemas: Mapping[str, pa.Schema | str] | None = None
) -> list[Arrival]:
    """Read streams drawn as text tables and cut them into batches by their ``arrival`` column.

    Parameters
    ----------
    streams : mapping of str to str
        A text table for each stream, as in :func:`stream_from_text`. Tuples of a stream with the
        same number in ``arrival`` arrive in one batch; without the column, each arrives alone,
        numbered from 1.
    schemas : mapping of str to (pyarrow.Schema or str), optional
        Types, by stream.

    Returns
    -------
    list of Arrival
        In order of arrival; on equal numbers, in the order of ``streams``.

    Examples
    --------
    >>> from crosswind.testing import arrivals_from_text
    >>> arrivals = arrivals_from_text(
    ...     {
    ...         "R": '''
    ...             arrival | x | ts
    ...             1       | 7 | 10
    ...             3       | 9 | 15
    ...         ''',
    ...         "S": '''
    ...             arrival | a | ts
    ...             2       | 8 | 11
    ...         ''',
    ...     }
    ... )
    >>> [arrival.stream for arrival in arrivals]
    ['R', 'S', 'R']
    """
    arrivals = [
        Arrival(at, stream, batch)
        for stream, text in streams.items()
        for at, batch in _batches(text, (schemas or {}).get(stream), alone=True)
        if batch.num_rows
    ]
    return sorted(arrivals, key=lambda arrival: arrival.at)


def assert_same_rows(got: Any, expected: Any, *, ordered: bool = False) -> None:
    """Check that two tables hold the same rows, each as often, in any order unless ``ordered``.

    Columns are matched by name. Values are compared as SQL would group them: null is null, NaN is
    NaN, 0.0 is -0.0, and neither the width of a number nor the unit of a timestamp matters.

    Parameters
    ----------
    got, expected : pyarrow.Table, pyarrow.RecordBatch, list of dict, dict of columns, pandas or polars frame
        ``expected`` may also be a text table as in :func:`stream_from_text`; columns that ``got``
        has too are then read with the types they have there.
    ordered : bool
        Whether rows must also come in the same order.

    Raises
    ------
    AssertionError
        With the rows that are missing and those that are unexpected.

    Examples
    --------
    >>> from crosswind.testing import assert_same_rows
    >>> assert_same_rows([{"x": 1}, {"x": 2}], [{"x": 2}, {"x": 1}])
    >>> try:
    ...     assert_same_rows([{"x": 1}], [{"x": 2}])
    ... except AssertionError as error:
    ...     print("missing (1)" in str(error))
    True
    """
    got_table = _as_table(got)
    if isinstance(expected, str):
        expected_table = stream_from_text(expected, got_table.schema)
    else:
        expected_table = _as_table(expected)
    if not got_table.num_rows and not expected_table.num_rows:
        return
    # An empty list has no columns to compare.
    if got_table.num_columns and expected_table.num_columns:
        _assert_same_columns(got_table.column_names, expected_table.column_names)
    got_rows, expected_rows = _rows(got_table), _rows(expected_table)
    if ordered:
        _assert_same_sequence(got_rows, expected_rows)
    elif Counter(got_rows) != Counter(expected_rows):
        raise AssertionError(
            f"rows differ: got {len(got_rows)}, expected {len(expected_rows)}"
            + _listing("missing", _without(expected_rows, got_rows))
            + _listing("unexpected", _without(got_rows, expected_rows))
        )


def _batches(text: str, schema: pa.Schema | str | None, alone: bool = False) -> list[tuple[int, pa.Table]]:
    """Return the tuples of ``text`` grouped by arrival, in order; at least one group, maybe empty."""
    names, lines = _split(text)
    if isinstance(schema, str):
        schema = schema_from_text(schema)
    columns = {name: [line[i] for line in lines] for i, name in enumerate(names)}
    arrivals = _arrivals(columns.pop(ARRIVAL, None), len(lines), alone)
    table = pa.table(
        [_column(name, cells, schema) for name, cells in columns.items()],
        names=list(columns),
    )
    groups: dict[int, list[int]] = {}
    for position, at in enumerate(arrivals):
        groups.setdefault(at, []).append(position)
    if not groups:
        return [(0, table)]
    return [(at, table.take(groups[at])) for at in sorted(groups)]


def _split(text: str) -> tuple[list[str], list[list[str | None]]]:
    """Return the header and the cells of each row, with None for null."""
    numbered = [
        (number, line.strip())
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.strip().startswith("#") and not _RULE.fullmatch(line)
    ]
    if not numbered:
        raise InputError("a text table needs at least a line that names its columns, but this one is empty.")
    header = numbered[0][1]
    names = [_unquoted(cell) or "" for cell in _cells(header, header)]
    if "" in names or len(set(names)) < len(names):
        raise InputError(f"the columns of a text table need different names, got {names}.")
    rows = []
    for number, line in numbered[1:]:
        cells = _cells(line, header)
        if len(cells) != len(names):
            raise InputError(
                f"line {number} of a text table has {len(cells)} cells, its header {len(names)} "
                f"({', '.join(names)}): {line!r}. Write null for a missing value."
            )
        rows.append([None if cell.casefold() in ("", "null") else cell for cell in cells])
    return names, rows


def _cells(line: str, header: str) -> list[str]:
    """Split ``line`` as ``header`` is written: at blanks, at bars, or at bars that also frame it."""
    if "|" not in header:
        return _CELL.findall(line)
    if header.startswith("|"):
        line = line.removeprefix("|").removesuffix("|")
    return [cell.strip() for cell in line.split("|")]


def _arrivals(cells: list[str | None] | None, count: int, alone: bool) -> list[int]:
    if cells is None:
        return list(range(1, count + 1)) if alone else [0] * count
    wrong = [cell for cell in cells if cell is None or not _INTEGER.fullmatch(cell)]
    if wrong:
        raise InputError(f"column '{ARRIVAL}' of a text table takes whole numbers, got {wrong[0]!r}.")
    return [int(cell) for cell in cells if cell is not None]


def _column(name: str, cells: list[str | None], schema: pa.Schema | None) -> pa.Array:
    if schema is not None and name in schema.names:
        wanted = schema.field(name).type
    else:
        wanted = _inferred(cells)
    texts = [_unquoted(cell) for cell in cells]
    if pa.types.is_timestamp(wanted):
        texts = [_with_date(text, wanted) for text in texts]
    try:
        if pa.types.is_duration(wanted):
            return pa.array(texts, pa.string()).cast(pa.int64()).cast(wanted)
        if pa.types.is_null(wanted):
            return pa.nulls(len(texts))
        return pa.array(texts, pa.string()).cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"column '{name}' of a text table cannot be read as {wanted}: {error}") from error


def _inferred(cells: Iterable[str | None]) -> pa.DataType:
    values = [cell for cell in cells if cell is not None]
    choices: list[tuple[re.Pattern[str], pa.DataType]] = [
        (_INTEGER, pa.int64()),
        (_FLOAT, pa.float64()),
        (_BOOLEAN, pa.bool_()),
        (_DATE, pa.date32()),
        (_TIMESTAMP, pa.timestamp("us")),
        (_INSTANT, pa.timestamp("us", tz="UTC")),
    ]
    if not values:
        return pa.null()
    for pattern, arrow in choices:
        if all(pattern.fullmatch(value) for value in values):
            return arrow
    return pa.string()


def _with_date(text: str | None, wanted: pa.TimestampType) -> str | None:
    """Spell out ticks and times of day as full timestamps."""
    if text is None:
        return None
    if _INTEGER.fullmatch(text):
        return str(pa.scalar(int(text), pa.int64()).cast(wanted).cast(pa.string()).as_py())
    clock = text.removesuffix("Z")
    return f"1970-01-01 {text}" if _TIME_OF_DAY.fullmatch(clock) else text


def _unquoted(cell: str | None) -> str | None:
    if cell is not None and len(cell) >= 2 and cell[0] == cell[-1] == '"':
        return cell[1:-1]
    return cell


def _as_table(data: Any) -> pa.Table:
    """Return ``data`` as an Arrow table, whatever shape it comes in."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, Mapping):
        return pa.table({name: _plain(column) for name, column in data.items()})
    if hasattr(data, "__arrow_c_stream__"):
        return pa.table(data)
    if isinstance(data, Sequence) and all(isinstance(row, Mapping) for row in data):
        names = list(dict.fromkeys(name for row in data for name in row))
        return pa.table({name: pa.array([row.get(name) for row in data]) for name in names})
    raise InputError(
        f"cannot compare rows of a {type(data).__name__}. Give a pyarrow Table or RecordBatch, a list of dicts, "
        "a dict of columns, or a pandas or polars frame."
    )


def _plain(column: Any) -> Any:
    return column if isinstance(column, pa.Array | pa.ChunkedArray) else pa.array(column)


def _rows(table: pa.Table) -> list[Row]:
    """Return the rows of ``table``, their columns sorted by name."""
    order = sorted(range(table.num_columns), key=lambda position: table.column_names[position])
    columns = [_values(table.column(position)) for position in order]
    names = [table.column_names[position] for position in order]
    return [tuple(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _values(column: pa.ChunkedArray) -> list[Hashable]:
    """Return values that are equal and hash alike where they count as the same."""
    if pa.types.is_timestamp(column.type):
        # As text: no unit is too fine for it, and trailing zeros are all that tells units apart.
        if column.type.tz is not None:
            column = column.cast(pa.timestamp(column.type.unit, tz="UTC"))
        texts = column.cast(pa.string()).to_pylist()
        return [None if text is None else _trimmed(text) for text in texts]
    return [_key(value) for value in column.to_pylist()]


def _trimmed(text: str) -> str:
    clock = text.removesuffix("Z")
    return (clock.rstrip("0").rstrip(".") if "." in clock else clock) + text[len(clock) :]


def _key(value: Any) -> Hashable:
    if isinstance(value, float) and math.isnan(value):
        return math.nan  # one object for all, which is the same as itself
    if isinstance(value, Mapping):
        return tuple((name, _key(item)) for name, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(_key(item) for item in value)
    return value  # type: ignore[no-any-return]


def _assert_same_columns(got: list[str], expected: list[str]) -> None:
    if Counter(got) == Counter(expected):
        return
    missing = [name for name in expected if name not in got]
    unexpected = [name for name in got if name not in expected]
    hint = did_you_mean(missing[0], unexpected) if missing else ""
    raise AssertionError(
        f"columns differ: got {got}, expected {expected}; missing {missing}, unexpected {unexpected}.{hint}"
    )


def _assert_same_sequence(got: list[Row], expected: list[Row]) -> None:
    for position, (one, other) in enumerate(zip(got, expected, strict=False)):
        if one != other:
            raise AssertionError(
                f"rows differ first at position {position}:\n  got      {_shown(one)}\n  expected {_shown(other)}"
            )
    common = min(len(got), len(expected))
    if len(got) != len(expected):
        raise AssertionError(
            f"rows differ: got {len(got)}, expected {len(expected)}; the first {common} are the same"
            + _listing("missing", expected[common:])
            + _listing("unexpected", got[common:])
        )


def _without(rows: list[Row], others: list[Row]) -> list[Row]:
    """Return what is left of ``rows`` when each of ``others`` takes one like itself away."""
    takers = Counter(others)
    left = []
    for row in rows:
        if takers[row] > 0:
            takers[row] -= 1
        else:
            left.append(row)
    return left


def _listing(title: str, rows: list[Row]) -> str:
    if not rows:
        return ""
    shown = "".join(f"\n  {_shown(row)}" for row in rows[:_SHOWN_ROWS_MAX])
    more = f"\n  ... and {len(rows) - _SHOWN_ROWS_MAX} more" if len(rows) > _SHOWN_ROWS_MAX else ""
    return f"\n{title} ({len(rows)}):{shown}{more}"


def _shown(row: Row) -> str:
    return ", ".join(f"{name}={'null' if value is None else repr(value)}" for name, value in row)
