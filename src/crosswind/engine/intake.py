"""Arrivals: an Arrow batch becomes a block of tuples for each join unit of its stream."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosswind.errors import ArithmeticOverflowError
from crosswind.io.arrow import carried_vector, column_of, is_leaf, leaf_columns, leaf_vector
from crosswind.plan.compile import Plan
from crosswind.plan.logic import And, Formula, atoms_of
from crosswind.plan.physical import Storage, arrow_storage, arrow_width, machine_dtype, storage_of
from crosswind.query.format import format_expr
from crosswind.query.tree import Expr, walk
from crosswind.window.block import Block
from crosswind.window.vector import Layout, Vector

__all__ = ["Intake", "evaluate"]


def evaluate(
    leaves: Mapping[Expr, Vector], count: int, outputs: tuple[Expr, ...], keep: Formula | None = None
) -> list[Vector] | int:
    """Compute ``outputs`` (or ``keep``) for ``count`` rows; an int is the row that overflowed."""
    from crosswind.kernel.emit import Facts
    from crosswind.kernel.map import map_kernel

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


class Intake:
    """Prepares the tuples of one join unit: filter, slots, payload.

    ``layouts`` are the columns of the blocks it makes: slots first, then the payload
    columns that are not already there as a slot; ``payload_at`` says where each is.
    """

    def __init__(self, plan: Plan, unit: int) -> None:
        self._unit = plan.units[unit]
        self._streams = tuple(entry.stream for entry in plan.units)
        self._filter = self._unit.filter if self._unit.filter != And(()) else None
        self._filter_leaves = leaf_columns([atom.expr for atom in atoms_of(self._unit.filter)])
        self._computed = tuple(expr for expr in self._unit.slots if not is_leaf(expr))
        self._computed_leaves = leaf_columns(self._computed)
        self.slot_count = len(self._unit.slots)
        self.layouts = [Layout(storage_of(expr.type), machine_dtype(expr.type)) for expr in self._unit.slots]
        self.payload_at: dict[str, int] = {}
        schema = self._unit.stream.schema
        for name in self._unit.payload:
            shared = self._slot_with_same_bytes(name, schema.field(name).type)
            if shared is None:
                of = schema.field(name).type
                self.payload_at[name] = len(self.layouts)
                self.layouts.append(Layout(arrow_storage(of), f"uint{8 * min(8, arrow_width(of) or 8)}"))
            else:
                self.payload_at[name] = shared
        leaves = [*self._filter_leaves, *leaf_columns(self._unit.slots)]
        self.columns = tuple(dict.fromkeys([*(column_of(leaf) for leaf in leaves), *self._unit.payload]))

    def _slot_with_same_bytes(self, name: str, of: pa.DataType) -> int | None:
        """Return the slot that holds column ``name`` bit for bit, so that it is kept once."""
        for index, expr in enumerate(self._unit.slots):
            if not is_leaf(expr) or column_of(expr) != name or len(list(walk(expr))) > 1:
                continue
            layout = Layout(storage_of(expr.type), machine_dtype(expr.type))
            if layout.storage is not arrow_storage(of):
                return None
            same_width = np.dtype(layout.dtype).itemsize == arrow_width(of)
            return index if layout.storage is not Storage.FIXED or same_width else None
        return None

    def prepare(self, arrays: Mapping[str, pa.Array], times: npt.NDArray[np.int64], counted: bool) -> Block:
        """Return the block of a batch. Without ROWS windows, filtered tuples are gone at once."""
        keep = None
        if self._filter is not None and len(times):
            mask = self._run(arrays, self._filter_leaves, (), self._filter)[0].values != 0
            if not mask.all():
                rows = np.flatnonzero(mask)
                if counted:
                    keep = mask
                else:
                    arrays = {name: array.take(pa.array(rows)) for name, array in arrays.items()}
                    times = times[rows]
        columns: list[Vector] = []
        computed = iter(self._compute(arrays, keep))
        for expr in self._unit.slots:
            columns.append(leaf_vector(arrays[column_of(expr)], expr) if is_leaf(expr) else next(computed))
        for name, index in self.payload_at.items():
            if index >= self.slot_count:
                columns.append(carried_vector(arrays[name]))
        return Block(times, tuple(columns), None, keep)

    def _compute(self, arrays: Mapping[str, pa.Array], keep: npt.NDArray[np.bool_] | None) -> list[Vector]:
        """Compute the slots; tuples that failed the filter must not raise errors."""
        if not self._computed:
            return []
        if keep is None:
            return self._run(arrays, self._computed_leaves, self._computed, None)
        rows = np.flatnonzero(keep)
        small = {column_of(leaf): arrays[column_of(leaf)].take(pa.array(rows)) for leaf in self._computed_leaves}
        made = self._run(small, self._computed_leaves, self._computed, None)
        spread = np.zeros(len(keep), dtype=np.int64)
        spread[rows] = np.arange(len(rows))
        return [vector.take(spread) if len(rows) else _blank(vector, len(keep)) for vector in made]

    def _run(
        self, arrays: Mapping[str, pa.Array], leaves: list[Expr], outputs: tuple[Expr, ...], keep: Formula | None
    ) -> list[Vector]:
        vectors = {leaf: leaf_vector(arrays[column_of(leaf)], leaf) for leaf in leaves}
        made = evaluate(vectors, len(next(iter(arrays.values()))), outputs, keep)
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
            f"stream '{self._unit.stream.name}': computing {' and '.join(texts)} left the 64-bit range for the tuple "
            f"({shown}). The batch was not taken. Correct the tuple, or compute in DOUBLE with CAST(... AS DOUBLE)."
        )


def _blank(vector: Vector, count: int) -> Vector:
    """Return ``count`` zeros in the layout of ``vector``."""
    return Vector(vector.layout, np.zeros(count, dtype=vector.layout.dtype), None)
