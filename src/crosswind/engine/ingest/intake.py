"""Arrivals: an Arrow batch becomes a block of tuples for each join unit of its stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosswind.engine.ingest.direct import DIRECT, Computed, DirectReader, Source
from crosswind.errors import ArithmeticOverflowError
from crosswind.io.arrow import (
    carried_vector,
    column_of,
    is_leaf,
    leaf_columns,
    leaf_vector,
    plain_vector,
)
from crosswind.io.snapshot import Columns
from crosswind.kernel.compiled.arrange import FLOAT_KEY, float_keys, hash_texts, hash_wides
from crosswind.kernel.generated.emit import Facts
from crosswind.kernel.generated.map import map_kernel
from crosswind.plan.box import Dimension, key_bits
from crosswind.plan.compile import Plan, move_expr
from crosswind.plan.keys import encode
from crosswind.plan.logic import FALSE, TRUE, Formula, atoms_of
from crosswind.plan.physical import Storage, arrow_storage, arrow_width, machine_dtype, storage_of
from crosswind.query.format import format_expr
from crosswind.query.tree import Column, Expr, roles_of, walk
from crosswind.query.types import Kind, SqlType, sql_type
from crosswind.window.block import Block
from crosswind.window.vector import Layout, Vector, address, take_rows

__all__ = ["TIMES", "Intake", "evaluate", "hashed_keys", "is_plain", "plain_keys"]


def evaluate(
    leaves: Mapping[Expr, Vector], count: int, outputs: tuple[Expr, ...], keep: Formula | None = None
) -> list[Vector] | int:
    """Compute ``outputs`` (or ``keep``) for ``count`` rows; an int is the row that overflowed."""
    exprs, vectors = tuple(leaves), list(leaves.values())
    facts = Facts(nulls=any(v.has_nulls for v in vectors), nans=any(v.has_nans for v in vectors))
    kernel = map_kernel(exprs, outputs, keep, facts)
    ins = np.array([address for vector in vectors for address in vector.pointers()], dtype=np.int64)
    made = [
        Vector(
            Layout(Storage.FIXED, dtype),
            np.empty(count, dtype=dtype),
            np.empty(count, dtype=np.uint8) if nullable else None,
        )
        for dtype, nullable in zip(kernel.dtypes, kernel.nullable, strict=True)
    ]
    outs = np.array([address for vector in made for address in vector.pointers()], dtype=np.int64)
    row = kernel.call(ins, outs, count)
    return made if row < 0 else int(row)


TIMES = -1
"""Where a shown column is that is the time column itself."""


class Intake:
    """Prepares the tuples of one join unit: filter, keys, slots, payload.

    ``layouts`` are the columns of the blocks it makes: ``keys`` keys (of the unit's own
    window), then the slots that are kept, then the payload columns that are not already there.
    These are ``stored``; behind them come the slots that only new tuples need. ``payload_at`` and ``slot_at`` say where
    shown columns and slots are. Tuples of outer joins have a column for a serial number, at ``serial_at``.
    """

    def __init__(self, plan: Plan, unit: int) -> None:
        self._unit = plan.units[unit]
        self._role = unit
        self._plan = plan
        self._streams = tuple(entry.stream for entry in plan.units)
        self._filter = self._unit.filter if self._unit.filter != TRUE else None
        self._filter_leaves = leaf_columns([atom.expr for atom in atoms_of(self._unit.filter)])
        self._dimensions = plan.accesses[unit].dimensions
        self._required = plan.accesses[unit].required
        self._shared_keys = self._required and plan.queries[0].query.kind == "inner"
        self._schema = self._unit.stream.schema
        kept = [*(dimension.expr for dimension in self._dimensions), *self._unit.slots]
        self._computed = tuple(dict.fromkeys(expr for expr in kept if not is_leaf(expr)))
        self._computed_leaves = leaf_columns(self._computed)
        self.keys = len(self._dimensions)
        kept_slots, new_slots = self._unit.slots[: self._unit.kept], self._unit.slots[self._unit.kept :]
        self.layouts = [Layout(Storage.FIXED, f"int{dimension.bits}") for dimension in self._dimensions]
        self.layouts += [_slot_layout(expr) for expr in kept_slots]
        self.payload_at: dict[str, int] = {}
        carried = [name for name in self._unit.payload if self._place(name, plan.axis.factors[unit])]
        self.serial_at = len(self.layouts)
        self._tagged = plan.queries[0].query.kind != "inner"
        self.layouts += [Layout(Storage.FIXED)] if self._tagged else []
        self.stored = len(self.layouts)
        self.layouts += [_slot_layout(expr) for expr in new_slots]
        self.slot_at = [*range(self.keys, self.keys + len(kept_slots)), *range(self.stored, len(self.layouts))]
        read = dict.fromkeys(expr for expr in kept if is_leaf(expr))
        self._leaves = [(leaf, column_of(leaf), self._plain_layout(leaf)) for leaf in read]
        # What a batch is made into is known by its place in one list: what is computed, then what is read.
        places = {expr: k for k, expr in enumerate([*self._computed, *read])}
        plain = {name: places[leaf] for leaf, name, layout in self._leaves if layout is not None}
        self._carried = [(name, plain.get(name), self.layouts[self.payload_at[name]]) for name in carried]
        self._key_layouts = [Layout(Storage.FIXED, f"int{dimension.bits}") for dimension in self._dimensions]
        self._key_places = [places[dimension.expr] for dimension in self._dimensions]
        self._slot_places = [places[expr] for expr in kept_slots]
        self._extra_places = [places[expr] for expr in new_slots]
        leaves = [*self._filter_leaves, *leaf_columns(kept)]
        self.columns = tuple(dict.fromkeys([*(column_of(leaf) for leaf in leaves), *self._unit.payload]))
        self._direct = self._plan_direct()

    def _place(self, name: str, factor: int) -> bool:
        """Decide where the shown column ``name`` waits; return False if it is there bit for bit already."""
        of = self._schema.field(name).type
        if name == self._unit.stream.time and factor == 1 and arrow_width(of) == 8:
            self.payload_at[name] = TIMES
            return False
        shared = self._column_with_same_bytes(name, of)
        if shared is not None:
            self.payload_at[name] = shared
            return False
        self.payload_at[name] = len(self.layouts)
        self.layouts.append(Layout(arrow_storage(of), f"uint{8 * min(8, arrow_width(of) or 8)}"))
        return True

    def _column_with_same_bytes(self, name: str, of: pa.DataType) -> int | None:
        column = Column(sql_type(of), self._role, name)
        for k, dimension in enumerate(self._dimensions if self._shared_keys else ()):
            plain = dimension.expr.type.kind in (Kind.INT, Kind.DATE, Kind.TIMESTAMP, Kind.DURATION)
            if dimension.expr == column and plain and not dimension.hashed and arrow_width(of) * 8 == dimension.bits:
                return None if pa.types.is_date64(of) else k
        for k, expr in enumerate(self._unit.slots[: self._unit.kept]):
            layout = _slot_layout(expr)
            if expr == column and layout.storage is arrow_storage(of):
                same = layout.storage is not Storage.FIXED or np.dtype(layout.dtype).itemsize == arrow_width(of)
                return self.keys + k if same else None
        return None

    def _plain_layout(self, leaf: Expr) -> Layout | None:
        """Return the layout of a column that Arrow keeps just as predicates want it, else None."""
        layout = Layout(storage_of(leaf.type), machine_dtype(leaf.type))
        of = self._schema.field(column_of(leaf)).type
        kinds = (Kind.INT, Kind.FLOAT, Kind.TIMESTAMP, Kind.DURATION, Kind.DATE)
        odd = pa.types.is_unsigned_integer(of) or pa.types.is_date64(of) or pa.types.is_dictionary(of)
        plain = isinstance(leaf, Column) and leaf.type.kind in kinds and not odd
        return layout if plain and np.dtype(layout.dtype).itemsize == arrow_width(of) else None

    def probes(self, dimensions: tuple[Dimension, ...]) -> tuple[tuple[Expr, ...], list[int], dict[Expr, int]]:
        """Return what tuples of this unit look for partners with in ``dimensions`` of another unit's window.

        That is the columns that conditions read, where they are, and where what is hashed is.
        """
        at = dict(zip(self._unit.slots, self.slot_at, strict=True))
        atoms = [condition.atom for dimension in dimensions for condition in dimension.conditions]
        leaves = tuple(leaf for leaf in leaf_columns(atoms) if roles_of(leaf) == {self._role})
        hashed = [dimension.partner for dimension in dimensions if dimension.partner is not None]
        return leaves, [at[leaf] for leaf in leaves], {partner: at[partner] for partner in hashed}

    def snapshot_columns(self) -> Columns:
        """Return what the blocks of this unit are like in a snapshot."""
        opaque = {k: self._schema.field(name).type for name, k in self.payload_at.items() if k != TIMES}
        opaque |= {
            at: self._schema.field(column_of(e)).type
            for at, e in zip(self.slot_at, self._unit.slots, strict=True)
            if is_leaf(e)
        }
        return Columns(self.layouts, self.stored, opaque, self.serial_at if self._tagged else None)

    def prepare(
        self,
        arrays: Mapping[str, pa.Array],
        times: npt.NDArray[np.int64],
        whole: bool,
        ends: tuple[int, int] | None = None,
        *,
        at_once: bool = False,
    ) -> Block:
        """Return the block of a batch. Filtered tuples are gone, or only marked if it is to be ``whole``.

        ``ends`` are the least and greatest of ``times``, if known. ``at_once``: the tuples are joined and inserted
        before the call ends, so that a few of them may be read where they lie.
        """
        if at_once and self._direct is not None and 0 < len(times) <= DIRECT:
            arrivals = self._direct.read(arrays, times, ends, lambda: self._prepared(arrays, times, whole, ends))
            if arrivals is not None:
                return arrivals
        return self._prepared(arrays, times, whole, ends)

    def _plan_direct(self) -> DirectReader | None:
        """Return what reads tuples where they lie; None: there is more to it than values of fixed width."""
        keep = None if self._filter is None else Computed(tuple(self._filter_leaves), (), self._filter)
        computed = Computed(tuple(self._computed_leaves), self._computed) if self._computed else None
        leaves = [leaf for made in (keep, computed) if made is not None for leaf in made.leaves]
        if self._filter == FALSE or any(self._plain_layout(leaf) is None for leaf in leaves):
            return None
        keys: list[tuple[Source, int]] = []
        for dimension, layout, place in zip(self._dimensions, self._key_layouts, self._key_places, strict=True):
            source, plain = self._source(place)
            is_float = dimension.expr.type.kind is Kind.FLOAT
            if dimension.hashed or plain is None or (plain != layout and not is_float):
                return None
            keys.append((source, (FLOAT_KEY if is_float else 1) * dimension.bits // 8))
        slots: list[tuple[Source, int]] = []
        floats: list[tuple[Source, int]] = []
        for k, place in enumerate([*self._slot_places, *self._extra_places]):
            source, plain = self._source(place)
            if plain is None:
                return None
            slots.append((source, plain.machine.itemsize))
            if plain.machine.kind == "f" and k < len(self._slot_places):  # boxes reckon with NaNs in any case
                floats.append(slots[-1])
        shown: list[tuple[Source, int]] = []
        for name, _, layout in self._carried:
            of = self._schema.field(name).type
            if not is_plain(layout, of):
                return None
            shown.append((name, arrow_width(of)))
        shown += [(None, 8)] if self._tagged else []
        kept = len(self._slot_places)
        return DirectReader(self._schema, [*keys, *slots[:kept], *shown, *slots[kept:]], floats, keep, computed)

    def _source(self, place: int) -> tuple[Source, Layout | None]:
        """Return where what is computed or read at ``place`` comes from; no layout: it is no plain column."""
        if place < len(self._computed):
            layout = _slot_layout(self._computed[place])
            return place, layout if layout.storage is Storage.FIXED else None
        _, name, plain = self._leaves[place - len(self._computed)]
        return name, plain

    def _prepared(
        self,
        arrays: Mapping[str, pa.Array],
        times: npt.NDArray[np.int64],
        whole: bool,
        ends: tuple[int, int] | None,
    ) -> Block:
        keep = None
        if self._filter is not None and len(times):
            mask = self._filtered(arrays, len(times))
            if not mask.all():
                rows = np.flatnonzero(mask)
                if whole:
                    keep = mask
                else:
                    arrays = {name: take_rows(array, rows) for name, array in arrays.items()}
                    times, ends = times[rows], None
        known = self._compute(arrays, keep, len(times))
        for leaf, name, plain in self._leaves:
            array = arrays[name]
            known.append(leaf_vector(array, leaf) if plain is None else plain_vector(array, plain))
        present = None
        columns: list[Vector] = []
        for dimension, layout, place in zip(self._dimensions, self._key_layouts, self._key_places, strict=True):
            vector = known[place]
            if vector.valid is not None and self._required:  # a null there never joins
                present = vector.valid if present is None else present & vector.valid
            if vector.layout == layout and not dimension.hashed:  # integers are their own keys
                columns.append(vector if vector.valid is None else Vector(layout, vector.values, at=vector.at))
            else:
                columns.append(Vector(layout, _keys(vector, dimension)))
        columns += [known[place] for place in self._slot_places]
        for name, same, layout in self._carried:
            if same is None:
                columns.append(carried_vector(arrays[name]))
            else:
                vector = known[same]
                columns.append(Vector(layout, vector.values.view(layout.machine), vector.valid, at=vector.at))
        if self._tagged:
            columns.append(Vector(Layout(Storage.FIXED), np.zeros(len(times), dtype=np.int64)))
        columns += [known[place] for place in self._extra_places]
        block = Block(times, tuple(columns), None, keep, ends)
        if present is None:
            return block
        mask = present != 0
        if whole:
            return Block(times, tuple(columns), None, mask if keep is None else keep & mask, ends)
        return block.take(np.flatnonzero(mask))

    def _filtered(self, arrays: Mapping[str, pa.Array], count: int) -> npt.NDArray[np.bool_]:
        """Return which of ``count`` tuples satisfy the filter."""
        if self._filter is None or self._filter == FALSE:
            return np.full(count, self._filter is None)
        (made,) = self._run(arrays, self._filter_leaves, (), self._filter, count)
        return made.values.view(np.bool_)

    def _compute(self, arrays: Mapping[str, pa.Array], keep: npt.NDArray[np.bool_] | None, count: int) -> list[Vector]:
        """Compute keys and slots; tuples that failed the filter must not raise errors."""
        if not self._computed:
            return []
        if keep is None:
            return self._run(arrays, self._computed_leaves, self._computed, None, count)
        rows = np.flatnonzero(keep)
        small = {column_of(leaf): take_rows(arrays[column_of(leaf)], rows) for leaf in self._computed_leaves}
        made = self._run(small, self._computed_leaves, self._computed, None, len(rows))
        spread = np.zeros(len(keep), dtype=np.int64)
        spread[rows] = np.arange(len(rows))
        return [vector.take(spread) if len(rows) else _blank(vector, len(keep)) for vector in made]

    def _run(
        self,
        arrays: Mapping[str, pa.Array],
        leaves: list[Expr],
        outputs: tuple[Expr, ...],
        keep: Formula | None,
        count: int,
    ) -> list[Vector]:
        vectors = {leaf: leaf_vector(arrays[column_of(leaf)], leaf) for leaf in leaves}
        made = evaluate(vectors, count, outputs, keep)
        if isinstance(made, int):
            self._raise_overflow(arrays, leaves, outputs, made)
            return []
        return made

    def _raise_overflow(
        self, arrays: Mapping[str, pa.Array], leaves: list[Expr], outputs: tuple[Expr, ...], row: int
    ) -> None:
        exprs = outputs or tuple(atom.expr for atom in atoms_of(self._unit.filter))
        texts = dict.fromkeys(format_expr(expr, self._streams) for expr in exprs)
        values = {column_of(leaf): arrays[column_of(leaf)][row].as_py() for leaf in leaves}
        shown = ", ".join(f"{name}={value!r}" for name, value in values.items())
        raise ArithmeticOverflowError(
            f"stream '{self._unit.stream.name}': computing {' and '.join(texts)}{self._whose(exprs)} left the 64-bit "
            f"range for the tuple ({shown}). The batch was not taken. Correct the tuple, or compute in DOUBLE with "
            f"CAST(... AS DOUBLE)."
        )

    def _whose(self, exprs: tuple[Expr, ...]) -> str:
        """Say which of several queries ask for one of ``exprs`` (for all we know)."""
        if len(self._plan.queries) == 1:
            return ""
        users = {entry.name: entry for entry in self._plan.queries if self._role in entry.units}
        asking = [
            name
            for name, entry in users.items()
            if entry.query.where is not None
            and any(node in exprs for node in walk(move_expr(entry.query.where, entry.units)))
        ]
        return f" (query {' or '.join(repr(name) for name in asking or users)})"


def _slot_layout(expr: Expr) -> Layout:
    return Layout(storage_of(expr.type), machine_dtype(expr.type))


def is_plain(layout: Layout, of: pa.DataType) -> bool:
    """Whether values are kept as Arrow keeps them: fixed width, a byte or more."""
    return layout.storage is Storage.FIXED and not pa.types.is_boolean(of) and not pa.types.is_decimal(of)


def _blank(vector: Vector, count: int) -> Vector:
    """Return ``count`` zeros in the layout of ``vector``."""
    return Vector(vector.layout, np.zeros(count, dtype=vector.layout.dtype), None)


def _keys(vector: Vector, dimension: Dimension) -> npt.NDArray[Any]:
    """Return the keys of ``vector`` in ``dimension``."""
    if dimension.hashed:
        return hashed_keys(vector)
    return _ordered_keys(vector, dimension.expr.type, dimension.bits)


def plain_keys(vector: Vector, of: SqlType) -> npt.NDArray[Any]:
    """Return the keys of values of type ``of``: equal values have equal keys; where there is an order, it is kept."""
    bits = key_bits(of)
    return _ordered_keys(vector, of, bits) if bits else hashed_keys(vector)


def _ordered_keys(vector: Vector, of: SqlType, bits: int) -> npt.NDArray[Any]:
    if of.kind is Kind.FLOAT and len(vector):
        return float_keys(vector.at or address(vector.values), len(vector), bits)
    return encode(vector.values, of, bits)


def hashed_keys(vector: Vector) -> npt.NDArray[np.int32]:
    """Return a 32-bit key of each text or 128-bit value."""
    if vector.layout.storage is Storage.TEXT and vector.text is not None:
        return hash_texts(vector.values, vector.text)
    return hash_wides(vector.values)
