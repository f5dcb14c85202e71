"""Waiting tuples in a new layout: when queries come and go, what tuples carry changes.

What the new layout has and the old one had not is null. That is exact, since a query that
needs it does not see tuples which came before it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from crosswind.engine.ingest.intake import TIMES, Intake
from crosswind.io.arrow import leaf_vector, to_arrow
from crosswind.plan.compile import Plan, move_expr
from crosswind.plan.physical import Storage
from crosswind.query.tree import Column, Expr
from crosswind.window.block import Block
from crosswind.window.vector import Layout, Vector

__all__ = ["Relayout", "same_units"]


def same_units(old: Plan, new: Plan) -> dict[int, int]:
    """Return which unit of ``new`` each unit of ``old`` becomes; one that nobody needs is left out."""
    keys = [_keys(plan) for plan in (old, new)]
    return {unit: keys[1].index(key) for unit, key in enumerate(keys[0]) if key in keys[1]}


def _keys(plan: Plan) -> list[tuple[str, int]]:
    seen: dict[str, int] = {}
    keys = []
    for unit in plan.units:
        seen[unit.stream.name] = seen.get(unit.stream.name, -1) + 1
        keys.append((unit.stream.name, seen[unit.stream.name]))
    return keys


class Relayout:
    """Turns blocks of unit ``was`` of the old plan into blocks of unit ``now`` of the new one."""

    def __init__(self, old: tuple[Plan, Intake, int], new: tuple[Plan, Intake, int], units: dict[int, int]) -> None:
        (old_plan, old_intake, was), (new_plan, new_intake, now) = old, new
        moved = tuple(units.get(unit, -1 - unit) for unit in range(len(old_plan.units)))
        known: dict[object, int] = {}
        for k, dimension in enumerate(old_plan.accesses[was].dimensions):
            known["key", move_expr(dimension.expr, moved), dimension.hashed] = k
        for k, expr in enumerate(old_plan.units[was].slots):
            known["slot", move_expr(expr, moved)] = old_intake.slot_at[k]
        known |= {("payload", name): k for name, k in old_intake.payload_at.items() if k != TIMES}
        wanted: list[object] = [("key", d.expr, d.hashed) for d in new_plan.accesses[now].dimensions]
        wanted += [("slot", expr) for expr in new_plan.units[now].slots]
        shown = {k: name for name, k in new_intake.payload_at.items()}
        wanted += [("payload", shown[k]) for k in range(len(wanted), new_intake.stored)]
        schema = new_plan.units[now].stream.schema
        types = [schema.field(shown[k]).type if k in shown else pa.null() for k in range(new_intake.stored)]
        self._sources = [known.get(key) for key in wanted]
        self._shown: dict[int, tuple[int, Expr, pa.DataType]] = {}
        for place, expr in enumerate(new_plan.units[now].slots, start=new_intake.keys):
            source = old_intake.payload_at.get(expr.name, TIMES) if isinstance(expr, Column) else TIMES
            if self._sources[place] is None and source != TIMES and isinstance(expr, Column):
                self._shown[place] = (source, expr, schema.field(expr.name).type)  # waits in the slot from now on
        self._layouts = new_intake.layouts[: new_intake.stored]
        self._types = types

    def __call__(self, block: Block, numbers: np.ndarray[tuple[int], np.dtype[np.int64]] | None) -> Block:
        """Return ``block`` in the new layout, with these sequence numbers."""
        columns = []
        for place, (source, layout, of) in enumerate(zip(self._sources, self._layouts, self._types, strict=True)):
            if place in self._shown:
                shown, expr, arrow = self._shown[place]
                columns.append(leaf_vector(to_arrow(block.columns[shown], arrow), expr))
                continue
            if source is None:
                columns.append(_nulls(layout, of, len(block)))
                continue
            vector = block.columns[source]
            values = vector.values
            if layout.storage is Storage.FIXED:
                values = values.view(layout.dtype)
            columns.append(Vector(layout, values, vector.valid, vector.text, vector.arrow))
        return Block(block.times, tuple(columns), numbers, block.keep)


def _nulls(layout: Layout, of: pa.DataType, count: int) -> Vector:
    """Return ``count`` nulls."""
    valid = np.zeros(count, dtype=np.uint8)
    match layout.storage:
        case Storage.OPAQUE:
            return Vector(layout, np.empty(0), arrow=pa.nulls(count, of))
        case Storage.TEXT:
            return Vector(layout, np.zeros(count + 1, dtype=np.int64), valid, np.zeros(1, dtype=np.uint8))
        case Storage.WIDE:
            return Vector(layout, np.zeros(2 * count, dtype=np.int64), valid)
        case _:
            return Vector(layout, np.zeros(count, dtype=layout.dtype), valid)
