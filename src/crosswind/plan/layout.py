"""Layouts: how the pairs of a join are spread over cells that know nothing of each other.

Every pair must meet in exactly one cell. Three ways to have that:

- *hash*: the equality keys decide; a tuple goes to one cell, nothing is copied.
- *range*: the values of one band column are cut into ranges much wider than the band, dealt
  out to the cells in turn; tuples of the *owner* go to the cell of their range, tuples of the
  other stream to the cells of all ranges that their band overlaps.
- *grid*: m x n cells (DP-Join §III): a tuple of the first stream goes to all cells of one row, a
  tuple of the second to all cells of one column, row and column by a hash of the tuple. With more
  streams the grid is a hypercube: a tuple has one coordinate, and goes to all cells that share it.

A tuple that may come out unmatched must meet all its partners in one cell, so it is never copied: an outer, semi or
anti join is laid out by hash, or by ranges with the preserved stream as the owner, or as a grid in which only
the other stream is copied. If both are preserved, nothing may be copied.

Which range or key is *hot* may be known (from a sample): it then has a grid of cells of its
own, so that it does not keep one core busy while others wait.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from crosswind.errors import InputError, did_you_mean
from crosswind.plan.box import Dimension
from crosswind.plan.compile import Plan
from crosswind.plan.grid import best_sides, weights_of
from crosswind.query.format import format_expr
from crosswind.query.tree import Column, Expr, Rows
from crosswind.query.types import UNITS_PER_SECOND, Kind

__all__ = ["LAYOUTS", "PLENTY", "CellLayout", "choose_layout", "describe_layout"]

LAYOUTS = ("auto", "hash", "range", "grid")
PLENTY = 16
"""Cells of a join that is to grow: sixteen in two partitions cost little more than two."""
_RANGE_WIDTHS = 16
"""Widths of the band in a range: one tuple in so many is copied to a second cell."""
_ROUTING = 1
"""Version of the rules by which tuples find their cells; state made under other rules does not fit."""


@dataclass(frozen=True)
class CellLayout:
    """Where tuples go.

    ``owner`` is the unit whose tuples are never copied and ``dimension`` the box column of its
    window that decides (hash: all equality columns do); ``width`` is the width of a range;
    ``keys``, with more than two streams, are the expressions of each unit that are equal in every
    result. ``sides`` are those of the grid, one a unit. ``hot`` are the hashes or ranges that have a grid
    of ``hot_sides`` cells each, its first side the owner's.
    """

    kind: str
    cells: int
    reason: str
    owner: int = 0
    dimension: int = 0
    width: float = 1.0
    keys: tuple[Expr, ...] = ()
    sides: tuple[int, ...] = ()
    hot: tuple[int, ...] = ()
    hot_sides: tuple[int, int] = (1, 1)

    @property
    def total(self) -> int:
        """All cells, those of hot keys among them."""
        return self.cells + len(self.hot) * math.prod(self.hot_sides)

    def identity(self) -> str:
        """Return a mark of the rules of routing, without the reason for them."""
        rules = [_ROUTING, *(value for name, value in vars(self).items() if name != "reason")]
        return hashlib.sha256(json.dumps(rules, default=repr).encode()).hexdigest()[:16]

    def copies(self, unit: int) -> float:
        """Return to how many cells a tuple of ``unit`` goes (about, for ranges)."""
        match self.kind:
            case "grid":
                return float(self.cells // self.sides[unit])
            case "range" if unit != self.owner:
                return min(float(self.cells), 1.0 + 1.0 / _RANGE_WIDTHS)
            case _:
                return 1.0

    def with_hot(self, hot: Sequence[int], cores: int, preserved: Sequence[int] = ()) -> CellLayout:
        """Return this layout with grids of about ``cores`` cells for the ranges or hashes in ``hot``.

        Tuples of ``preserved`` units are not copied there; if both are, there are no such grids.
        """
        if len(preserved) > 1:
            return self
        first, second = best_sides(cores, (1.0, 1.0))
        if preserved:
            first, second = (cores, 1) if self.owner in preserved else (1, cores)
        return replace(self, hot=tuple(sorted(hot)), hot_sides=(first, second))


def choose_layout(
    plan: Plan,
    asked: Any = "auto",
    cells: int | None = None,
    *,
    cores: int = 1,
    rates: Sequence[float] | None = None,
    plenty: bool = False,
) -> CellLayout:
    """Return the layout of a join.

    Parameters
    ----------
    plan : Plan
        The join.
    asked : str or tuple of int
        ``auto``, ``hash``, ``range``, ``grid``, or the sides of a grid, one a unit.
    cells : int, optional
        How many cells; as many as there are cores, if left out.
    cores : int
        How many workers there are for the cells.
    rates : sequence of float, optional
        Tuples/s of each unit, or anything proportional to them.
    plenty : bool
        Whether there are to be more cells than cores where that copies nothing, and ``cells`` is left out: then the
        join can grow, and goes on with fewer or more cores than it was begun with.
    """
    units = len(plan.units)
    shape = _shape(asked, cells, units)
    count = cells or cores
    if any(isinstance(stream.window, Rows) for entry in plan.queries for stream in entry.query.streams):
        reason = "a ROWS window counts the tuples of the whole stream, so they stay together"
        return CellLayout("grid", 1, reason, sides=(1,) * units)
    many = max(PLENTY, cores) if plenty and cells is None else count
    found = None if shape is not None or asked == "grid" else _by_value(plan, asked, many)
    if found is not None:
        return found
    divided, why = _divisible(plan)
    if not all(divided):
        count = math.prod(side for side, free in zip(shape, divided, strict=True) if free) if shape else count
        weights = [w for w, free in zip(_weights(plan, rates or (1.0,) * units), divided, strict=True) if free]
        some = iter(best_sides(count, weights) if weights else ())
        sides = tuple(next(some) if free else 1 for free in divided)
        return CellLayout("grid", math.prod(sides), why, sides=sides)
    if shape is not None:
        return CellLayout("grid", math.prod(shape), "asked for", sides=shape)
    sides = best_sides(count, _weights(plan, rates or (1.0,) * units))
    reason = "asked for" if asked == "grid" else f"no {_missing(asked)} to route by, so every pair is equally likely"
    return CellLayout("grid", math.prod(sides), reason, sides=sides)


def _by_value(plan: Plan, asked: str, count: int) -> CellLayout | None:
    """Return a layout by hash or by ranges, or None: there is nothing to route by."""
    if not plan.is_pair:
        keys = _common_key(plan) if asked in ("auto", "hash") else ()
        return CellLayout("hash", count, "equal keys meet in one cell; nothing is copied", keys=keys) if keys else None
    if asked in ("auto", "hash"):
        for owner, access in enumerate(plan.accesses):
            if any(dimension.equality for dimension in access.dimensions):
                return CellLayout("hash", count, "equal keys meet in one cell; nothing is copied", owner)
    return _range(plan, count, forced=asked == "range") if asked in ("auto", "range") else None


def _divisible(plan: Plan) -> tuple[tuple[bool, ...], str]:
    """Return whose tuples may be spread over cells (the others go to all of them), and why not all.

    A combination must meet in one cell, so a stream that some query does not have is not spread. A
    tuple that may come out alone must meet all its partners in one cell, so they are not.
    """
    preserved = plan.queries[0].query.preserved
    if len(preserved) == 2:
        return (False, False), (
            "tuples of both streams may come out alone, so none may be copied and they all stay together; "
            "an equality in ON would spread them"
        )
    if preserved:
        why = f"tuples of {plan.units[preserved[0]].stream.alias} that match nothing are known in one cell only"
        return (preserved == (0,), preserved == (1,)), why
    shared = tuple(all(unit in entry.units for entry in plan.queries) for unit in range(len(plan.units)))
    return shared, "only streams that every query has are spread"


def _common_key(plan: Plan) -> tuple[Expr, ...]:
    """Return, for one query, an expression of each unit such that all are equal in every result; or nothing."""
    if len(plan.queries) != 1:
        return ()
    classes: list[dict[int, Expr]] = []
    for key in plan.queries[0].split.keys:
        left, right = key.left.bare, key.right.bare
        plain = isinstance(left, Column) and isinstance(right, Column) and left.type == right.type
        if not plain or not key.exact or key.offset or left is None or right is None:
            continue
        ends = {key.left.role: left, key.right.role: right}
        touched = [c for c in classes if any(c.get(unit) == expr for unit, expr in ends.items())]
        merged: dict[int, Expr] = {}
        for known in touched:
            merged |= known
        classes = [c for c in classes if c not in touched] + [ends | merged]
    whole = [c for c in classes if len(c) == len(plan.units) and len({expr.type for expr in c.values()}) == 1]
    return tuple(whole[0][unit] for unit in range(len(plan.units))) if whole else ()


def _missing(asked: str) -> str:
    return {"hash": "equality", "range": "band"}.get(asked, "equality and no bounded band")


def _shape(asked: Any, cells: int | None, units: int) -> tuple[int, ...] | None:
    if cells is not None and (type(cells) is not int or cells < 1):
        raise InputError(f"cells={cells!r} is not possible; give a whole number of cells, at least 1.")
    sides = "(rows, columns)" if units == 2 else f"the {units} sides"
    if isinstance(asked, str):
        if asked not in LAYOUTS:
            raise InputError(
                f"layout={asked!r} is not known; allowed: {', '.join(LAYOUTS)}, or {sides} of a grid."
                f"{did_you_mean(asked, LAYOUTS)}"
            )
        return None
    good = isinstance(asked, tuple | list) and len(asked) == units and all(type(n) is int and n >= 1 for n in asked)
    if not good:
        raise InputError(
            f"layout={asked!r} is not possible; allowed: {', '.join(LAYOUTS)}, or {sides} of a grid, "
            f"{units} whole numbers from 1 on."
        )
    if cells is not None and cells != math.prod(asked):
        raise InputError(
            f"layout={asked!r} has {math.prod(asked)} cells but cells={cells}; give one of the two, or make them agree."
        )
    return tuple(asked)


def _range(plan: Plan, cells: int, *, forced: bool) -> CellLayout | None:
    """Return a layout by ranges of the best band column, or None; a preserved stream must be the owner."""
    preserved = plan.queries[0].query.preserved
    owners = [(unit, access) for unit, access in enumerate(plan.accesses) if set(preserved) <= {unit}]
    for owner, access in owners:
        for d, dimension in enumerate(access.dimensions):
            width = _band_width(plan, dimension)
            if width is None or _is_time(plan, owner, dimension):
                continue
            name = format_expr(dimension.expr, tuple(unit.stream for unit in plan.units))
            step = float(width) * _RANGE_WIDTHS or 1.0
            reason = f"ranges of {name}, {_RANGE_WIDTHS} band widths ({step:g}) each, are dealt out to the cells"
            return CellLayout("range", cells, reason, owner, d, step)
    if forced:
        for owner, access in owners:
            for d, dimension in enumerate(access.dimensions):
                if not dimension.hashed:
                    name = format_expr(dimension.expr, tuple(unit.stream for unit in plan.units))
                    return CellLayout("range", cells, f"asked for; the band on {name} has no constant width", owner, d)
    return None


def _band_width(plan: Plan, dimension: Dimension) -> Fraction | None:
    """Return the constant width of the band on ``dimension`` in units of its keys, or None."""
    of = dimension.expr.type
    scale = Fraction(1)
    if of.kind in (Kind.TIMESTAMP, Kind.DURATION):
        scale = Fraction(UNITS_PER_SECOND[of.unit])
    elif of.kind is Kind.DATE:
        scale = Fraction(1, 86_400)
    elif of.kind is Kind.DECIMAL:
        scale = Fraction(10) ** of.scale
    for band in plan.queries[0].split.bands:
        known = band.low is not None and band.high is not None
        if known and dimension.expr in (band.left.bare, band.right.bare):
            return max(Fraction(0), (band.high or Fraction(0)) - (band.low or Fraction(0))) * scale
    return None


def _is_time(plan: Plan, owner: int, dimension: Dimension) -> bool:
    """Whether ranges would follow one another in time, so that one cell works after the other."""
    expr = dimension.expr
    return isinstance(expr, Column) and expr.name == plan.units[owner].stream.time


def _weights(plan: Plan, rates: Sequence[float]) -> tuple[float, ...]:
    """Return what the window of each unit counts for in the latency of a result (DP-Join's equations 5 and 6)."""
    limits = [plan.axis.age_limit(unit.stream.window) or 0 for unit in plan.units]
    return weights_of(rates, [rate * max(limit, 1) for rate, limit in zip(rates, limits, strict=True)])


def describe_layout(layout: CellLayout, plan: Plan) -> list[str]:
    """Return the layout as lines for people."""
    names = [unit.stream.alias for unit in plan.units]
    shape = f" ({' x '.join(map(str, layout.sides))})" if layout.kind == "grid" else ""
    plural = "" if layout.cells == 1 else "s"
    copies = ", ".join(f"{name} {layout.copies(unit):.3g}" for unit, name in enumerate(names))
    lines = [f"{layout.kind}, {layout.cells} cell{plural}{shape}: {layout.reason}", f"copies of a tuple: {copies}"]
    if layout.hot:
        lines.append(
            f"{len(layout.hot)} hot {'keys' if layout.kind == 'hash' else 'ranges'} with a grid of "
            f"{' x '.join(map(str, layout.hot_sides))} cells each"
        )
    return lines
