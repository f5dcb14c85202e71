"""Results: matches become rows of the query's SELECT list (late materialisation)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosswind.engine.ingest.intake import TIMES, Intake, evaluate, is_plain
from crosswind.engine.strategy import Matches
from crosswind.errors import ArithmeticOverflowError
from crosswind.io.arrow import column_of, is_leaf, leaf_columns, leaf_vector, to_arrow
from crosswind.io.message import Form
from crosswind.kernel.compiled.gather import fill_messages, gather_columns, gather_text, gather_width
from crosswind.kernel.generated.map import can_overflow
from crosswind.plan.compile import Plan, move_expr
from crosswind.plan.logic import FALSE, atoms_of
from crosswind.plan.physical import Storage
from crosswind.query.format import format_expr
from crosswind.query.tree import Column, Expr, Literal
from crosswind.window.block import Block
from crosswind.window.join_window import Residents
from crosswind.window.replicas import Joint
from crosswind.window.vector import Layout, Vector, address, take_rows

__all__ = ["Absent", "Found", "Materialiser", "Member", "Part", "Place", "Taken", "gather", "pair_of", "tables"]


def gather(
    residents: Residents | Joint,
    layout: Layout,
    column: int,
    which: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
) -> Vector:
    """Fetch column ``column`` of the named tuples from their basic windows."""
    if layout.storage is Storage.OPAQUE:
        return _gather_opaque(residents, layout, column, which, rows)
    values, valids, texts = residents.addresses[3 * column : 3 * column + 3]
    valid = None
    if residents.nulls[column]:
        valid = gather_width(valids, which, rows, 1)
    if layout.storage is Storage.TEXT:
        offsets, text = gather_text(values, texts, which, rows)
        return Vector(layout, offsets, valid, text)
    if layout.storage is Storage.WIDE:
        return Vector(layout, gather_width(values, which, rows, 16).view(np.int64), valid)
    dtype = np.dtype(layout.dtype)
    return Vector(layout, gather_width(values, which, rows, dtype.itemsize).view(dtype), valid)


Source = tuple[int, int, int, int]
"""Where values are: their address, or that of a table of addresses with those of the numbers that say
which of them; then the address of the rows (0: one after the other)."""


@dataclass(slots=True, eq=False)
class Taken:
    """Members of results that are still in the block they arrived in: its tuples ``rows``."""

    block: Block
    rows: npt.NDArray[np.int64]
    rows_at: int = 0
    """Where the rows are, if that is known already."""

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, at: npt.NDArray[np.int64]) -> Taken:
        """Return the members at ``at``."""
        return Taken(self.block, self.rows[at])

    @property
    def times(self) -> npt.NDArray[np.int64]:
        """Their times."""
        return self.block.times[self.rows]

    @property
    def numbers(self) -> npt.NDArray[np.int64]:
        """Their sequence numbers (there are some only if there are ROWS windows)."""
        known = self.block.numbers
        return self.rows if known is None else known[self.rows]

    def column(self, index: int, _layout: Layout) -> Vector:
        """Return one of their columns."""
        return self.block.columns[index].take(self.rows)

    def put_place(self, into: list[int]) -> None:
        """Say where the columns are, as :func:`crosswind.kernel.compiled.gather.fill_message_of` has it."""
        into += (*self.block.place, 0, self.rows_at or address(self.rows), len(self.rows))

    def source(self, index: int) -> Source | None:
        """Return where the values of a plain column (or the times) are; None: there may be nulls."""
        if not self.rows_at:
            self.rows_at = address(self.rows)
        if index == TIMES:
            return address(self.block.times), 0, 0, self.rows_at
        column = self.block.columns[index]
        if column.valid is not None:
            return None
        if not column.at:
            column.at = address(column.values)
        return column.at, 0, 0, self.rows_at


@dataclass(slots=True, eq=False)
class Found:
    """Members of results that wait in a window: tuples ``rows`` of the residents ``which``."""

    residents: Residents | Joint
    which: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    at: tuple[int, ...] = ()
    """Where these are, and their times, if that is known already."""

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, at: npt.NDArray[np.int64]) -> Found:
        """Return the members at ``at``."""
        return Found(self.residents, self.which[at], self.rows[at])

    @property
    def times(self) -> npt.NDArray[np.int64]:
        """Their times."""
        return self._positions(1)

    @property
    def numbers(self) -> npt.NDArray[np.int64]:
        """Their sequence numbers."""
        return self._positions(2)

    def _positions(self, head: int) -> npt.NDArray[np.int64]:
        addresses = np.ascontiguousarray(self.residents.runs[:, head])
        return gather_width(addresses, self.which, self.rows, 8).view(np.int64)

    def column(self, index: int, layout: Layout) -> Vector:
        """Return one of their columns."""
        return gather(self.residents, layout, index, self.which, self.rows)

    def put_place(self, into: list[int]) -> None:
        """Say where the columns are, as :func:`crosswind.kernel.compiled.gather.fill_message_of` has it."""
        which, rows = self.at[:2] or (address(self.which), address(self.rows))
        into += (*self.residents.place, which, rows, len(self.rows))

    def source(self, index: int) -> Source | None:
        """Return where the values of a plain column (or the times) are; None: there may be nulls."""
        if index == TIMES and len(self.at) > 2:
            return self.at[2], 0, 0, 0
        if index != TIMES and self.residents.nulls[index]:
            return None
        if not self.at:
            self.at = (address(self.which), address(self.rows))
        table = self.residents.times_at if index == TIMES else self.residents.column_at(index)
        return 0, table, self.at[0], self.at[1]


@dataclass(slots=True, eq=False)
class Absent:
    """No members: what did not match is null on that side."""

    count: int

    def __len__(self) -> int:
        return self.count

    def take(self, at: npt.NDArray[np.int64]) -> Absent:
        """Return as many as there are in ``at``."""
        return Absent(len(at))

    def source(self, _index: int) -> Source | None:
        """Return None: there are nulls."""
        return None


Member = Taken | Found
Place = Member | Absent


class Part(Mapping[int, Member]):
    """Members of results, by unit, as they were written down: numbers of basic windows and rows, in one matrix.

    Parameters
    ----------
    source : int
        The unit whose members are in ``block``; the others are at ``homes``.
    places : dict of int to int
        Which of the pairs of rows of ``matrix`` is that of a unit.
    matrix : array of int64
        The results.
    base : int
        Where the first of these results are.
    count : int
        How many these are.
    """

    __slots__ = ("_base", "_block", "_count", "_homes", "_matrix", "_places", "_source")

    def __init__(
        self,
        source: int,
        block: Block,
        homes: dict[int, Residents | Joint],
        places: dict[int, int],
        matrix: npt.NDArray[np.int64],
        base: int,
        count: int,
    ) -> None:
        self._source, self._block, self._homes = source, block, homes
        self._places, self._matrix, self._base, self._count = places, matrix, base, count

    def put_places(self, members: list[int], into: list[int]) -> None:
        """Say where the columns of members are, as :func:`crosswind.kernel.compiled.gather.fill_message_of` has it."""
        step, base, count = self._matrix.strides[0], self._base, self._count
        for unit in members:
            at = base + 2 * step * self._places[unit]
            if unit == self._source:
                into += (*self._block.place, 0, at + step, count)
            else:
                into += (*self._homes[unit].place, at, at + step, count)

    def __getitem__(self, unit: int) -> Member:
        place, step = 2 * self._places[unit], self._matrix.strides[0]
        at = self._base + place * step
        begin = (self._base - address(self._matrix)) // 8
        which, rows = self._matrix[place : place + 2, begin : begin + self._count]
        if unit == self._source:
            return Taken(self._block, rows, at + step)
        return Found(self._homes[unit], which, rows, (at, at + step))

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def pair_of(unit: int, block: Block, matches: Matches) -> dict[int, Member]:
    """Return where the members of matches of two units are, where ``unit`` was the probing side."""
    return {
        unit: Taken(block, matches.probes),
        1 - unit: Found(matches.residents, matches.which, matches.rows, matches.at),
    }


def _gather_opaque(
    residents: Residents | Joint,
    layout: Layout,
    column: int,
    which: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
) -> Vector:
    used, place = np.unique(which, return_inverse=True)
    parts = [residents.items[w].column(column).arrow for w in used]
    starts = np.cumsum([0, *(len(part) for part in parts)])[:-1]
    return Vector(layout, np.empty(0), arrow=take_rows(_chained(parts), starts[place] + rows))


class Materialiser:
    """Builds result tables of one query (number ``query`` of the plan)."""

    def __init__(self, plan: Plan, intakes: list[Intake], query: int = 0) -> None:
        entry = plan.queries[query]
        self._streams = entry.query.streams
        self._whose = f" of query '{entry.name}'" if len(plan.queries) > 1 else ""
        self._outputs = [(out, move_expr(out.expr, entry.units)) for out in entry.query.outputs]
        self._intakes = intakes
        self._plan = plan
        self._computed = tuple(e for _, e in self._outputs if not isinstance(e, Column | Literal))
        self._leaves = leaf_columns(self._computed)
        self._after = entry.after
        self._after_leaves = [] if self._after is None else leaf_columns([a.expr for a in atoms_of(self._after)])
        self.schema = pa.schema([pa.field(out.name, out.arrow) for out, _ in self._outputs])
        self._plain: dict[tuple[int, str], tuple[int, pa.DataType]] = {}
        for role, intake in enumerate(intakes):
            schema = plan.units[role].stream.schema
            for name, index in intake.payload_at.items():
                if index == TIMES or is_plain(intake.layouts[index], schema.field(name).type):
                    self._plain[role, name] = (index, schema.field(name).type)
        shown = [expr for _, expr in self._outputs if isinstance(expr, Column)]
        read = [(expr.role, expr.name) for expr in shown] + [(_role(leaf), column_of(leaf)) for leaf in self._leaves]
        gathered = [(key, *self._plain[key]) for key in dict.fromkeys(read) if key in self._plain]
        self._gathered = [(key, index, of, of.byte_width) for key, index, of in gathered]
        known = [(expr.role, self._plain.get((expr.role, expr.name))) for expr in shown]
        self.plain_columns = [(role, at[0], at[1], at[1].byte_width) for role, at in known if at is not None]
        """The plain columns of SELECT: unit, place in its tuples, type, bytes of a value."""
        self._members = list(dict.fromkeys(role for role, _, _, _ in self.plain_columns))
        placed = [(self._members.index(role), index) for role, index, _, _ in self.plain_columns]
        self._form = Form(self.schema, placed) if len(placed) == len(self._outputs) else None

    @property
    def can_fail(self) -> bool:
        """Whether a column of SELECT can leave the range of its type."""
        return can_overflow(self._leaves, [expr for expr in self._computed if not is_leaf(expr)])

    def table(self, parts: Sequence[Mapping[int, Place]], count: int) -> pa.Table:
        """Return the rows of ``count`` results whose members, by unit, are at the places in ``parts``."""
        return tables([(self, parts, count)])[0]

    def table_by_column(self, parts: Sequence[Mapping[int, Place]], count: int) -> pa.Table:
        """Return the rows, whatever their columns are."""
        if not count:
            return pa.Table.from_batches([], schema=self.schema)
        columns = self._gather(parts, count)

        def fetch(role: int, name: str) -> pa.Array:
            if (role, name) not in columns:
                arrays = [self._fetch(places[role], role, name) for places in parts]
                columns[role, name] = arrays[0] if len(arrays) == 1 else _chained(arrays)
            return columns[role, name]

        computed: dict[Expr, Vector] = {}
        if self._computed:
            leaves = {leaf: leaf_vector(fetch(_role(leaf), column_of(leaf)), leaf) for leaf in self._leaves}
            computed = self._compute(leaves, count)
        arrays = []
        for output, expr in self._outputs:
            if isinstance(expr, Column):
                arrays.append(fetch(expr.role, expr.name))
            elif expr in computed:
                arrays.append(to_arrow(computed[expr], output.arrow))
            elif isinstance(expr, Literal):
                arrays.append(pa.repeat(pa.scalar(expr.value, type=output.arrow), count))
        return pa.Table.from_arrays(arrays, schema=self.schema)

    @property
    def is_plain(self) -> bool:
        """Whether rows are plain columns of the members, so that :meth:`table_at` can make them."""
        return self._form is not None and self._after is None

    def table_at(self, sources: list[int], count: int) -> pa.Table:
        """Return ``count`` rows, given where the values of each of ``plain_columns`` are (a :data:`Source` each)."""
        form = self._form
        if form is None:
            raise LookupError("rows that are not plain have to be fetched column by column")
        memory = form.memory(count)
        job = np.array([0, memory.address, form.at, count, 0, len(sources), *sources], dtype=np.int64)
        _filler()(address(job), len(job))
        return form.read(memory)

    def put_job(
        self, parts: Sequence[Mapping[int, Place]], count: int, jobs: list[int]
    ) -> tuple[Form, pa.Buffer] | None:
        """Add what makes these rows to ``jobs``, if they are plain columns; return what to read them with and where."""
        form, members = self._form, self._members
        if form is None or not count:
            return None
        at = len(jobs)
        memory = form.memory(count)
        jobs += (0, memory.address, form.at, count, len(members), 0)
        for part in parts:
            if isinstance(part, Part):
                part.put_places(members, jobs)
                continue
            for role in members:
                place = part[role]
                if isinstance(place, Absent):
                    del jobs[at:]
                    return None
                place.put_place(jobs)
        jobs[at + 5] = len(jobs) - at - 6
        return form, memory

    def _gather(self, parts: Sequence[Mapping[int, Place]], count: int) -> dict[tuple[int, str], pa.Array]:
        """Return all columns that are plain and have no nulls, fetched at one go."""
        jobs: list[int] = []
        made, size = [], 0
        for key, index, of, width in self._gathered:
            known = [places[key[0]].source(index) for places in parts]
            sources = [source for source in known if source is not None]
            if len(sources) < len(parts):
                continue
            at = size
            for source, places in zip(sources, parts, strict=True):
                length = len(places[key[0]])
                jobs += (*source, at, width, length)
                at += width * length
            made.append((key, of, size, width * count))
            size += (width * count + 63) & -64
        memory = pa.py_buffer(np.empty(size, dtype=np.uint8))
        gather_columns(jobs, memory.address)
        return {key: pa.Array.from_buffers(of, count, [None, memory.slice(at, length)]) for key, of, at, length in made}

    def sift(self, parts: Sequence[Mapping[int, Place]], count: int) -> tuple[Sequence[Mapping[int, Place]], int]:
        """Return those of ``count`` results that satisfy what WHERE asks of the rows of an outer join."""
        if self._after is None:
            return parts, count
        if self._after == FALSE:
            return [], 0
        kept, total = [], 0
        for places in parts:
            arrays = {
                leaf: self._fetch(places[_role(leaf)], _role(leaf), column_of(leaf)) for leaf in self._after_leaves
            }
            leaves = {leaf: leaf_vector(array, leaf) for leaf, array in arrays.items()}
            made = evaluate(leaves, len(next(iter(places.values()))), (), self._after)
            if isinstance(made, int):
                raise ArithmeticOverflowError(
                    "integer arithmetic in WHERE left the 64-bit range. The batch was not taken. "
                    "Correct the tuple, or compute in DOUBLE with CAST(... AS DOUBLE)."
                )
            rows = np.flatnonzero(made[0].values)
            kept.append({role: place.take(rows) for role, place in places.items()})
            total += len(rows)
        return kept, total

    def _fetch(self, place: Place, role: int, name: str) -> pa.Array:
        if isinstance(place, Absent):
            return pa.nulls(place.count, self._plan.units[role].stream.schema.field(name).type)
        intake = self._intakes[role]
        index = intake.payload_at[name]
        if index == TIMES:
            times = place.times
            of = self._plan.units[role].stream.schema.field(name).type
            return pa.Array.from_buffers(of, len(times), [None, pa.py_buffer(times)])
        vector = place.column(index, intake.layouts[index])
        return to_arrow(vector, self._plan.units[role].stream.schema.field(name).type)

    def _compute(self, leaves: dict[Expr, Vector], count: int) -> dict[Expr, Vector]:
        kernel_made = tuple(expr for expr in self._computed if not is_leaf(expr))
        made = evaluate(leaves, count, kernel_made) if kernel_made else []
        if isinstance(made, int):
            texts = " or ".join(format_expr(expr, self._streams) for expr in kernel_made)
            raise ArithmeticOverflowError(
                f"computing {texts} in the SELECT list{self._whose} left the 64-bit range. The batch was not taken. "
                f"Compute in DOUBLE with CAST(... AS DOUBLE), or select the columns themselves."
            )
        computed = dict(zip(kernel_made, made, strict=True))
        return computed | {expr: leaves[expr] for expr in self._computed if is_leaf(expr)}


Asked = tuple[Materialiser, Sequence[Mapping[int, Place]], int]
"""Who makes rows, where the members of results are, and how many these are."""


def tables(asked: Sequence[Asked]) -> list[pa.Table]:
    """Return rows of several queries, made at one go as far as they are plain."""
    jobs: list[int] = []
    heads, planned = [], []
    for materialiser, parts, count in asked:
        heads.append(len(jobs))
        planned.append(materialiser.put_job(parts, count, jobs))
    done: list[int] = []
    if jobs:
        table = np.array(jobs, dtype=np.int64)
        _filler()(address(table), len(jobs))
        done = table.tolist()
    return [
        plan[0].read(plan[1]) if plan is not None and done[head] else one[0].table_by_column(one[1], one[2])
        for one, plan, head in zip(asked, planned, heads, strict=True)
    ]


@cache
def _filler() -> Callable[[int, int], None]:

    return fill_messages()


def _chained(arrays: list[pa.Array]) -> pa.Array:
    """Return the values of ``arrays`` one after the other."""
    whole = pa.chunked_array(arrays).unify_dictionaries().combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole


def _role(leaf: Expr) -> int:
    inner = leaf if isinstance(leaf, Column) else next(iter(getattr(leaf, "args", ())))
    return inner.role if isinstance(inner, Column) else -1
