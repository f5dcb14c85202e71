"""From one join to another with the same streams: what can be carried over, and what cannot be known."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from crosswind.errors import InputError, UnsupportedError
from crosswind.plan.compile import PlannedQuery
from crosswind.plan.logic import Atom, Formula, atoms_of
from crosswind.plan.split import Band, Key
from crosswind.query.format import format_expr
from crosswind.query.tree import COMPARISONS, Call, Expr, Rows, roles_of
from crosswind.spark.reroute import ages_of, missing_columns, preserved_of
from crosswind.spark.spec import JoinSpec

__all__ = ["check_change", "gaps_of"]

_STRICT = {*COMPARISONS, "and", "in", "add", "sub", "mul", "neg", "abs", "cast"}
"""Operations that are not TRUE, or NULL, if an argument is NULL."""


def check_change(old: JoinSpec, new: JoinSpec) -> None:
    """Raise an error if nothing that ``old`` holds can be taken over by ``new``."""
    if new.units != old.units:
        raise InputError(
            f"the streams of the new query are {', '.join(new.units)}, those of the checkpoint {', '.join(old.units)}. "
            f"Spark knows its sources by their order, so streams must be the same, and first named in the same order."
        )
    for before, after in zip(old.plan.units, new.plan.units, strict=True):
        stream = after.stream
        if stream.time != before.stream.time:
            raise InputError(
                f"stream '{stream.name}': its time is '{stream.time}' in the new join and '{before.stream.time}' in "
                f"the checkpoint; the time column must stay the same."
            )
        for field in before.stream.schema:
            at = stream.schema.get_field_index(field.name)
            if at >= 0 and stream.schema.field(at).type != field.type:
                raise InputError(
                    f"stream '{stream.name}': column '{field.name}' is {stream.schema.field(at).type} in the new join "
                    f"and {field.type} in the checkpoint; types must stay the same."
                )
    if new.plan.axis != old.plan.axis:
        raise InputError("the time columns of the new join have other units than those of the checkpoint.")
    shorter = [unit for unit in preserved_of(new.plan) if _age(new, unit) < _age(old, unit)]
    if old.by_previous and shorter:
        raise UnsupportedError(
            f"the window of '{new.units[shorter[0]]}', whose tuples may come out alone, gets shorter, and a frame has "
            f"brought a watermark of its own: tuples that should come out now would be lost. Keep that window."
        )
    for spec, which in ((old, "the checkpoint"), (new, "the new query")):
        if any(isinstance(s.window, Rows) for entry in spec.plan.queries for s in entry.query.streams):
            raise UnsupportedError(
                f"{which} has ROWS windows: they are one cell, and what they hold belongs to their query. Only the "
                f"number of partitions can change."
            )


def _age(spec: JoinSpec, unit: int) -> float:
    age = ages_of(spec.plan)[unit]
    return math.inf if age is None else age


def gaps_of(old: JoinSpec, new: JoinSpec) -> list[str]:
    """Return what ``new`` will not know of the tuples that wait, one sentence each; nothing: it is exact."""
    gaps = []
    pairs = zip(new.plan.units, ages_of(old.plan), ages_of(new.plan), strict=True)
    for unit, (planned, before, after) in enumerate(pairs):
        name = planned.stream.name
        if before is not None and (after is None or after > before):
            gaps.append(
                f"the window of '{name}' is longer than it was: its tuples are known only as far back as the old one "
                f"went, so results with older ones are missing until the new window has filled."
            )
        gaps += _dropped(old, new, unit)
        columns = missing_columns(old, new, unit)
        if columns:
            named = ", ".join(f"'{column}'" for column in columns)
            gaps.append(
                f"'{name}': {named} was not kept so far, so it is NULL in the tuples that wait, for as long as they do."
            )
    unknown = [unit for unit in preserved_of(new.plan) if unit not in preserved_of(old.plan)]
    return gaps + [
        f"it is not known which of the waiting tuples of '{new.plan.units[unit].stream.name}' have matched: they count "
        f"as matched, and none of them comes out alone."
        for unit in unknown
    ]


def _dropped(old: JoinSpec, new: JoinSpec, unit: int) -> list[str]:
    """Return which tuples of ``unit`` the old join did not keep, as they could match nothing, and the new one needs."""
    query = old.plan.queries[0].query
    if unit in query.preserved and query.kind != "semi":  # they come out all the same
        return []
    name = old.plan.units[unit].stream.name
    reasons: list[str] = []
    for wanted in (entry for entry in new.plan.queries if unit in entry.units):
        known = [entry for entry in old.plan.queries if entry.units == wanted.units]
        found: list[list[str]] = [list(_reasons(entry, wanted, entry.units.index(unit))) for entry in known]
        if not found:
            reasons.append("did not meet the conditions of any query over the same streams")
        elif all(found):
            reasons += found[int(np.argmin([len(told) for told in found]))]
    return [f"tuples of '{name}' were not kept if they {reason}." for reason in dict.fromkeys(reasons)]


def _reasons(old: PlannedQuery, new: PlannedQuery, role: int) -> Iterator[str]:
    """Yield why ``old`` drops tuples of a role that ``new`` may need."""
    kept = _conjuncts(new)
    if _conjuncts(old) <= kept:
        return
    streams = old.query.streams
    if old.never:
        yield "were there at all: nothing could match"
    for part in old.split.filters:
        if part not in kept and role in frozenset().union(*(roles_of(atom.expr) for atom in atoms_of(part))):
            yield f"did not satisfy {' or '.join(format_expr(atom.expr, streams) for atom in atoms_of(part))}"
    needed = {expr for part in kept if isinstance(part, Atom) for expr in _strict(part.expr)}
    bands = [band for band in old.split.bands if role in (band.left.role, band.right.role)]
    changed: list[Key | Band] = [key for key in old.split.keys if key.atom not in kept]
    changed += [band for band in bands if not set(band.atoms) <= kept]
    for entry in changed:
        sides = [side for side in (entry.left, entry.right) if side.role == role]
        for expr in (expr for side in sides for expr, _ in side.terms if expr not in needed):
            yield f"had no value of {format_expr(expr, streams)}"
    partners = [band.right if band.left.role == role else band.left for band in bands]
    empty = any(band.low is not None and band.high is not None and band.low > band.high for band in bands)
    if empty or (len(set(partners)) < len(partners) and any(band in changed for band in bands)):
        yield "had bounds between which nothing lies"


def _conjuncts(entry: PlannedQuery) -> set[Formula]:
    """Return the parts of the condition, all of which must hold."""
    found = entry.split
    atoms = [key.atom for key in found.keys] + [atom for band in found.bands for atom in band.atoms]
    return {*found.filters, *found.residual, *atoms}


def _strict(expr: Expr) -> Iterator[Expr]:
    """Yield ``expr``, and the parts of it that must not be NULL for it to be TRUE."""
    yield expr
    if isinstance(expr, Call) and expr.op in _STRICT:
        for arg in expr.args:
            yield from _strict(arg)
