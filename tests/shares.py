"""What a fuzz run must have covered: shares of its cases, asserted when it ends."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from tests.cases import TestCase, columns_of
from tests.expressions import BOOL, Expr, Lit

LEAST: dict[str, dict[str, float]] = {
    "mix": {"join": 0.25, "outer": 0.12, "many": 0.1, "faults": 0.1, "live": 0.6, "replayed": 0.05, "cells": 0.015},
    "drawn": {
        "100 tuples": 0.12,
        "nulls": 0.3,
        "nulls in keys": 0.25,
        "constant": 0.01,
        "self join": 0.03,
        "select": 0.1,
        "windows range": 0.2,
        "windows rows": 0.05,
        "windows mixed": 0.15,
        "window now": 0.05,
        "window inclusive": 0.08,
    }
    | dict.fromkeys(["type int", "type float", "type text", "type decimal", "type temporal"], 0.06)
    | dict.fromkeys(["type bool", "type binary", "type unsigned", "type dictionary", "type view"], 0.005),
    "all": {"results": 0.7, "100 results": 0.25},
    "join": {"streams 2": 0.4, "streams 3": 0.1, "streams 4": 0.03, "streams 5": 0.015},
    "outer": {f"kind {kind}": 0.12 for kind in ("left", "right", "full", "semi", "anti")},
    "live": {
        "expired": 0.3,
        "late": 0.05,
        "rejected": 0.01,
        "arranged": 0.35,
        "arranged band": 0.15,
        "arranged hash": 0.08,
        "arranged scan": 0.1,
        "engine kang": 0.3,
        "engine cell": 0.08,
        "engine grid": 0.05,
        "engine handshake": 0.03,
        "restore": 0.2,
        "ordered": 0.08,
        "shed": 0.005,
        "advance": 0.2,
        "looked at half-way": 0.03,
        "batch of one": 0.1,
        "batch of few": 0.2,
        "batch of tens": 0.1,
        "batch of hundreds": 0.02,
    },
    "many": {"added": 0.2, "dropped": 0.1, "linked": 0.005},
    "faults": {
        "batch refused": 0.5,
        "overflow refused": 0.03,
        "set aside": 0.002,
        "injected KeyboardInterrupt": 0.3,
        "injected MemoryError": 0.3,
    },
}
"""By the cases it is a share of: the least share of cases of each kind."""

MOST = {"empty input": 0.05, "refused": 0.01, "unknown": 0.04, "overflow": 0.05, "not in Spark": 0.05}
"""The greatest share of all cases: what says little about the join.

``unknown``: 128 bits do not hold a value, or a tuple was set aside that has the time of another.
"""

MEDIAN_MIN = 10
"""Result rows that half of the cases have at least."""


@dataclass
class Shares:
    """Counts cases by their traits."""

    rows: list[int] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, traits: Iterable[str], rows: int) -> None:
        """Count one case."""
        known = {*traits, "all", "mix", "drawn"}
        self.rows.append(rows)
        for group in known & LEAST.keys():
            self.counts.update((group, trait) for trait in known)

    def missing(self, groups: Iterable[str] = tuple(LEAST)) -> list[str]:
        """Return what there is too little of in ``groups``, or too much at all; small runs may be off by chance."""
        told = []
        for group in groups:
            shares = LEAST[group]
            total = self.counts[group, group]
            for trait, least in shares.items() if total else ():
                wanted, count = total * least, self.counts[group, trait]
                if count < wanted - 3 * math.sqrt(wanted):
                    told.append(f"{trait}: {count} of {total} ({group}), wanted {least:.1%}")
        for trait, most in MOST.items():
            wanted, count = len(self.rows) * most, self.counts["all", trait]
            if count > wanted + 3 * math.sqrt(wanted):
                told.append(f"{trait}: {count} of {len(self.rows)}, at most {most:.1%}")
        if self.rows and statistics.median(self.rows) < MEDIAN_MIN:
            told.append(f"median of result rows: {statistics.median(self.rows)}, wanted {MEDIAN_MIN}")
        return told

    def table(self) -> str:
        """Return all shares, as text."""
        lines = [f"median of result rows: {statistics.median(self.rows or [0])}"]
        for group in [group for group in LEAST if group not in ("mix", "drawn")]:
            total = max(1, self.counts[group, group])
            shown = sorted(trait for at, trait in self.counts if at == group and trait not in LEAST)
            texts = (f"{trait} {self.counts[group, trait] / total:.1%}" for trait in shown)
            lines.append(f"{group} ({self.counts[group, group]}): {', '.join(texts)}")
        return "\n".join(lines)


def traits_of(case: TestCase) -> set[str]:
    """Return what can be said of a case without running it."""
    shape, traits = case.shape, {f"kind {case.join.kind}", f"streams {len(case.join.roles)}"}
    sizes = [table.num_rows for table in case.tables.values()]
    traits |= {"100 tuples"} if max(sizes) >= 100 else set()
    traits |= {"empty input"} if not min(sizes) else set()
    traits |= {"self join"} if len(case.tables) < len(case.join.roles) else set()
    traits |= {"select"} if shape.select is not None else set()
    kinds = {role.window.kind for role in case.join.roles}
    traits.add(f"windows {kinds.pop()}" if len(kinds) == 1 else "windows mixed")
    traits |= {"window now"} if any(role.window.kind == "now" for role in case.join.roles) else set()
    traits |= {"window inclusive"} if any(role.window.inclusive for role in case.join.roles) else set()
    names = {alias: name for name, alias in shape.roles}
    keys = {(names[c.alias], c.name) for term in shape.where for c in columns_of(term)}
    for name, column in keys:
        values = case.tables[name].column(column)
        traits |= {"nulls in keys"} if values.null_count else set()
        traits |= {f"type {family}" for family in _families(values.type)}
    traits |= {"constant"} if any(_is_constant(term) for term in (*shape.where, *shape.after)) else set()
    if any(column.null_count for table in case.tables.values() for column in table.columns):
        traits.add("nulls")
    return traits


def _is_constant(term: Expr) -> bool:
    """Whether ``term`` is a condition without a column, or has one inside."""
    is_condition = term.type == BOOL and not isinstance(term, Lit)
    return (is_condition and not columns_of(term)) or any(_is_constant(arg) for arg in term.args)


def _families(kind: pa.DataType) -> set[str]:
    t = pa.types
    if t.is_dictionary(kind):
        return {"dictionary", *_families(kind.value_type)}
    known = {
        "int": t.is_signed_integer(kind),
        "unsigned": t.is_unsigned_integer(kind),
        "float": t.is_floating(kind),
        "decimal": t.is_decimal(kind),
        "bool": t.is_boolean(kind),
        "text": t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind),
        "binary": t.is_binary(kind) or t.is_large_binary(kind) or t.is_fixed_size_binary(kind),
        "view": t.is_string_view(kind) or t.is_binary_view(kind),
        "temporal": t.is_temporal(kind),
    }
    return {name for name, is_one in known.items() if is_one}
