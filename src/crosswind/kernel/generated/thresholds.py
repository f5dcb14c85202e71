"""Where a probe's box begins and ends in each dimension, found by bisection.

The comparison itself, as the user wrote it, is the test: with the arithmetic, the
rounding and the null rules it has. So the interval is exact by construction, and the
loops that compare keys with it need to know nothing of types. The search starts from
where the comparison would turn if it were linear, so it mostly needs a handful of tests.

The kernel also does what else a batch of probes needs before it can be looked up: the
times it may meet, the ends of boxes as doubles (for cells), the hash of equal keys.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from crosswind.kernel.generated.emit import Emitter, Facts
from crosswind.kernel.generated.source import header, leaves_at, open_arrays
from crosswind.kernel.jit import load_source
from crosswind.plan.bounds import may_overflow
from crosswind.plan.box import Condition, Dimension
from crosswind.plan.keys import first_and_last
from crosswind.plan.physical import POINTERS_PER_COLUMN, machine_dtype
from crosswind.query.tree import Call, Expr
from crosswind.query.types import Kind, SqlType

__all__ = ["OUT_DIMENSION", "OUT_HEAD", "ThresholdKernel", "threshold_kernel", "threshold_source"]

OUT_HEAD = 4
"""Addresses before the dimensions in the output table: order, least and greatest time, hash."""

OUT_DIMENSION = 4
"""Addresses a dimension: least key, width, least and greatest value as doubles."""

_SIGNATURE = '"int64(int64[::1], int64, int64[::1], int64[::1], uint64[:, ::1], uint64[:, ::1], float64[::1])"'
_IMPORTS = [
    "from crosswind.kernel.compiled.search import box_ends, end_of, float32_of_key, float64_of_key, mix_key",
    "from crosswind.kernel.compiled.search import reach, search_on, start, stored_key, whole_box",
]
_WHOLE = (Kind.INT, Kind.DATE, Kind.TIMESTAMP, Kind.DURATION)
_Placed = tuple[int, Dimension, Condition]


def threshold_source(dimensions: tuple[Dimension, ...], leaves: tuple[Expr, ...], facts: Facts) -> str:
    """Return the source of a kernel that fills, for each probe, the box in ``dimensions``.

    ``leaves`` are columns of the probe, three addresses each; after them come two a
    hashed dimension: keys and validity.
    """
    direct = {d: partner for d, dimension in enumerate(dimensions) if (partner := _sought(dimension)) is not None}
    placed = [
        (d, dimension, c) for d, dimension in enumerate(dimensions) if d not in direct for c in dimension.conditions
    ]
    emitters: list[Emitter] = []
    tests = [_test_lines(number, entry, leaves, facts, emitters) for number, entry in enumerate(placed)]
    plans = ", ".join(f"({', '.join(map(str, _plan(*entry)))})" for entry in placed)
    spans = ", ".join(str(_span(dimension)) for dimension in dimensions)
    lines = [
        *_IMPORTS,
        "",
        f"PLANS = np.array([{plans}], dtype=np.uint64).reshape(-1, 8)",
        f"SPANS = ({spans},)",
        "",
        "",
        f"@jit({_SIGNATURE})",
        "def thresholds(probe, n, outs, spans, plans, ends, f):",
        '    """Fill boxes, times and the order of probes that have a box; return how many do.',
        "",
        "    ``spans``: address of times, how far back and ahead they reach; then, as results,",
        "    the least and greatest of the least times, and of the greatest times. ``plans``",
        "    is PLANS, ``ends`` are whole spans, room for lows and highs, and for the search;",
        "    arrays made in here would take Numba seconds to compile.",
        '    """',
        *open_arrays(leaves, "p", "probe[", nulls=facts.nulls),
        "    present = 0",
        "    lows = ends[1]",
        "    highs = ends[2]",
        "    m = ends[3]",
        "    spans[3] = spans[5] = 9223372036854775807",
        "    spans[4] = spans[6] = -9223372036854775808",
        "    for j in range(n):",
        "        empty = False",
        f"        whole_box(ends, {len(dimensions)})",
        *(
            line
            for d, sought in direct.items()
            for line in _direct_lines(d, dimensions[d], sought, leaves, facts, emitters)
        ),
        *(_search_lines(tests) if tests else []),
        *_box_lines(dimensions, POINTERS_PER_COLUMN * len(leaves)),
        "        reach(outs, j, spans)",
        "        if not empty:",
        "            store(outs[0], present, j)",
        "            present += 1",
        "    return present",
    ]
    return "\n".join([*header("The ends of each probe's box, found by bisection.", emitters), *lines]) + "\n"


def _sought(dimension: Dimension) -> Expr | None:
    """Return what a column must be equal to, where that value is its own key and nothing need be searched for."""
    if not dimension.equality or dimension.hashed or len(dimension.conditions) != 2:
        return None
    atoms = [condition.atom for condition in dimension.conditions]
    if not all(isinstance(atom, Call) for atom in atoms) or dimension.expr.type.kind not in _WHOLE:
        return None
    low, high = (atom for atom in atoms if isinstance(atom, Call))
    left, right = low.args
    if {low.op, high.op} != {"ge", "le"} or high.args != low.args or may_overflow(right):
        return None
    widened = isinstance(left, Call) and left.op == "cast" and left.args[0] == dimension.expr
    whole = left.type.kind is Kind.INT and dimension.expr.type.kind is Kind.INT
    return right if left == dimension.expr or (widened and whole) else None


def _direct_lines(
    d: int, dimension: Dimension, sought: Expr, leaves: tuple[Expr, ...], facts: Facts, emitters: list[Emitter]
) -> list[str]:
    """Return lines that make the box of an equality: the value that is looked for."""
    emitter = Emitter(leaves_at(leaves, "p", "j"), facts, " " * 8, prefix=f"d{d}v")
    value = emitter.emit(sought)
    emitters.append(emitter)
    first, last = first_and_last(dimension.expr.type, dimension.bits)
    beyond = f"np.int64({value.code}) < {first} or np.int64({value.code}) > {last}"
    return [
        *emitter.lines,
        f"        if {beyond if value.valid is None else f'not {value.valid} or {beyond}'}:",
        "            empty = True",
        "        else:",
        f"            lows[{d}] = highs[{d}] = np.uint64(np.int64({value.code})) - np.uint64({first % 2**64})",
    ]


def _span(dimension: Dimension) -> int:
    if dimension.hashed:
        return 0
    first, last = first_and_last(dimension.expr.type, dimension.bits)
    return last - first


def _plan(d: int, dimension: Dimension, condition: Condition) -> tuple[int, ...]:
    """Return the numbers that describe a condition to the search."""
    of = dimension.expr.type
    first, last = first_and_last(of, dimension.bits)
    zero, one = -first, 1 - first
    if of.kind is Kind.FLOAT:
        one = {32: 0x3F800000, 64: 0x3FF0000000000000}[of.bits] - first
    width = of.bits if of.kind is Kind.FLOAT else 0
    infinity = {32: 0x7F800000, 64: 0x7FF0000000000000}.get(width, 0) - first
    return d, first % 2**64, last - first, zero, one, width, int(condition.upper), infinity if condition.loose else 0


def _test_lines(
    number: int, placed: _Placed, leaves: tuple[Expr, ...], facts: Facts, emitters: list[Emitter]
) -> list[str]:
    """Return lines that evaluate condition ``number`` at ``key``: its truth, and how far it is off."""
    _, dimension, condition = placed
    value = f"value{number}"
    emitter = Emitter(
        {**leaves_at(leaves, "p", "j"), dimension.expr: value}, facts, "", prefix=f"c{number}v", saturate=True
    )
    atom = condition.atom
    truth = emitter.is_true(atom)
    left, right = (emitter.emit(arg).code for arg in atom.args) if isinstance(atom, Call) else ("0", "0")
    emitters.append(emitter)
    return [
        f"{value} = {_decode(dimension.expr.type)}",
        *emitter.lines,
        f"more = search_on(m, f, {truth}, np.float64({left}) - np.float64({right}))",
    ]


def _search_lines(tests: list[list[str]]) -> list[str]:
    lines = [
        f"        for condition in range({len(tests)}):",
        "            start(m, plans, condition)",
        "            more = True",
        "            while more:",
        "                key = np.int64(m[0] + m[6])",
    ]
    for number, test in enumerate(tests):
        word = "if" if number == 0 else "elif"
        head = f"{word} condition == {number}:" if number < len(tests) - 1 or number == 0 else "else:"
        lines += [" " * 16 + head, *(" " * 20 + line for line in test)]
    return [*lines, "            empty |= end_of(m, plans, condition, lows, highs)"]


def _box_lines(dimensions: tuple[Dimension, ...], at: int) -> list[str]:
    """Return lines that store the box of a probe, and the hash of its equal keys."""
    lines: list[str] = []
    for d, dimension in enumerate(dimensions):
        base = OUT_HEAD + OUT_DIMENSION * d
        if dimension.hashed:
            key = f"np.int64(fetch(probe[{at}], j, np.int32))"
            lines.append(
                f"        least{d} = box_ends(outs, {base}, j, np.uint64(0), np.uint64(0), np.uint64({key}), 32, 0)"
            )
            lines.append(f"        empty |= fetch(probe[{at + 1}], j, np.uint8) == 0")
            at += 2
        else:
            of = dimension.expr.type
            first = first_and_last(of, dimension.bits)[0] % 2**64
            floats = of.bits if of.kind is Kind.FLOAT else 0
            ends = f"lows[{d}], highs[{d}], np.uint64({first}), {dimension.bits}, {floats}"
            lines.append(f"        empty |= lows[{d}] > highs[{d}]")
            lines.append(f"        least{d} = box_ends(outs, {base}, j, {ends})")
    equal = [d for d, dimension in enumerate(dimensions) if dimension.equality]
    if equal:
        hashed = "0"
        for d in equal:
            of = dimensions[d].expr.type
            floats = of.bits if of.kind is Kind.FLOAT and not dimensions[d].hashed else 0
            hashed = f"mix_key(stored_key(least{d}, {floats}), {hashed})"
        lines.append(f"        store(outs[3], j, {hashed})")
    return lines


def _decode(of: SqlType) -> str:
    """Return source that turns ``key`` into a value of type ``of``."""
    if of.kind is Kind.BOOL:
        return "key != 0"
    if of.kind is Kind.FLOAT:
        return f"float{of.bits}_of_key(np.int{of.bits}(key))"
    return f"np.{machine_dtype(of)}(key)"


@dataclass(frozen=True)
class ThresholdKernel:
    """The compiled kernel and what describes its conditions; safe to share between threads."""

    call: Callable[..., int]
    plans: npt.NDArray[np.uint64]
    spans: tuple[int, ...]

    def room(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.float64]]:
        """Return memory for one caller's searches."""
        ends = np.zeros((4, max(13, len(self.spans))), dtype=np.uint64)
        ends[0, : len(self.spans)] = self.spans
        return ends, np.zeros(1)


@lru_cache(maxsize=512)
def threshold_kernel(dimensions: tuple[Dimension, ...], leaves: tuple[Expr, ...], facts: Facts) -> ThresholdKernel:
    """Return the compiled kernel of :func:`threshold_source`."""
    module = load_source(threshold_source(dimensions, leaves, facts))
    return ThresholdKernel(module.thresholds, module.PLANS, module.SPANS)
