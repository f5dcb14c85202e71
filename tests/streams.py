"""Random tuples and windows for the cases: nulls, NaN, extremes, ties, disorder. Seeded.

Value domains are small, so that joins match. Imports nothing of the package.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

from tests.expressions import NS, Type
from tests.oracle import TICKS_PER_SECOND, Window

BASE_SECONDS = 1_704_067_200  # 2024-01-01
BASE_DAYS = BASE_SECONDS // 86_400
LITERAL_TEXTS = ["", "a", "ab", "abc", "b", "ä", "日本", "it's", "A", "a" * 40]
DATA_TEXTS = [*LITERAL_TEXTS, "abd", "zz", "ß", "𝄞", "a" * 40 + "b", "a\0", "a\0b", "abcdefgh", "abcdefghi"]
BYTES = [b"", b"\0", b"a", b"ab", b"\xff", b"\xff\x00", b"\x80", b"abcdefgh", b"abcdefg\xff"]
FIXED_BYTES = [b"abc", b"abd", b"\0\0\0", b"\xff\xff\xff", b"ab\0"]
WINDOW_UNITS = {
    "DAYS": NS["day"],
    "HOURS": 3600 * NS["s"],
    "MINUTES": 60 * NS["s"],
    "SECONDS": NS["s"],
    "MILLISECONDS": NS["ms"],
    "MICROSECONDS": NS["us"],
    "NANOSECONDS": 1,
}


@dataclass(frozen=True)
class Column:
    """A column of a generated stream. ``type`` None: carried along, not computed with."""

    name: str
    arrow: pa.DataType
    type: Type | None

    def tag(self, kind: str) -> bool:
        """Whether the column is of ``kind`` (``u64`` and wide decimals are kinds of their own)."""
        if self.type is None:
            return False
        if pa.types.is_uint64(self.arrow):
            return kind == "u64"
        return self.type.kind == kind and not (kind == "dec" and self.type.precision > 18)


@dataclass(frozen=True)
class WindowText:
    """A window as the oracle takes it and as our SQL says it (without brackets)."""

    window: Window
    text: str


@dataclass(frozen=True)
class Plan:
    """The dials of one data set."""

    rows: dict[str, int]
    radius: int
    null_rate: float
    special_rate: float
    extreme: bool
    extreme_times: bool
    null_times: bool
    fractional: bool
    step_ns: int
    time_span: int
    time_base: int
    disorder: str
    temporal: bool
    texts: tuple[str, ...]
    generous: bool

    # ------------------------------------------------------------------ windows

    def window(self, rng: random.Random, name: str) -> WindowText:
        """Return a window for stream ``name``, of any kind."""
        kind = rng.choices(["range", "rows", "now"], [62, 30, 3 if self.generous else 8])[0]
        if kind == "now":
            return WindowText(Window("now"), rng.choice(["NOW", "NOW", "now"]))
        if kind == "rows":
            few = [] if self.generous else [1, 2, 3]
            some = max(1, self.rows[name] // 4), max(1, self.rows[name] // 2)
            count = rng.choice([*few, rng.randint(1, 12), *some, *some, 500])
            return WindowText(Window("rows", count=count), f"ROWS {count}")
        inclusive = rng.random() < 0.3
        tail = " INCLUSIVE" if inclusive else ""
        whole = self.time_span
        span = rng.choice([*([] if self.generous else [1, 2]), whole // 4, whole // 3, whole // 2, whole + 5]) or 1
        least = max(1, span // 2)
        if not self.temporal:
            length = rng.randint(least, span) if rng.random() < 0.95 else rng.choice([2**31, 2**62, 2**63 - 1])
            return WindowText(Window("range", Fraction(length), inclusive), f"RANGE {length}{tail}")
        length = rng.randint(least, span) * self.step_ns
        if rng.random() < 0.15:
            length += self.step_ns // 2
        units = [unit for unit, ns in WINDOW_UNITS.items() if length * 2 % ns == 0]
        unit = rng.choice(units[:3])
        count = Decimal(length) / WINDOW_UNITS[unit]
        text = f"RANGE {count.normalize():f} {unit}{tail}"
        return WindowText(Window("range", Fraction(length, NS["s"]), inclusive), text)

    # ------------------------------------------------------------------ tuples

    def table(self, rng: random.Random, name: str, columns: Sequence[Column], time: str) -> pa.Table:
        """Return the tuples of stream ``name`` with ``columns`` in arrival order."""
        count = self.rows[name]
        arrays = {}
        for column in columns:
            if column.name == time:
                values: list[Any] = self._times(rng, column, count)
                arrays[time] = _ticks_array(values, column.arrow)
            else:
                arrays[column.name] = self._array(rng, column, count)
        return pa.table(arrays)

    def _times(self, rng: random.Random, column: Column, count: int) -> list[int | None]:
        if self.extreme_times:
            low, high = _limits(column.arrow)
            ends = [low, low + 1, low + 9, -1, 0, 1, 2, high - 9, high - 1, high]
            return sorted(rng.choice(ends) for _ in range(count))
        step = 1
        base = self.time_base
        if pa.types.is_timestamp(column.arrow):
            step = max(1, self.step_ns // NS[column.arrow.unit])
            base = base * TICKS_PER_SECOND[column.arrow.unit]
        elif pa.types.is_date32(column.arrow):
            base //= 86_400
        else:
            low, high = _limits(column.arrow)
            base = max(low, min(base, high - self.time_span))
        times = [base + rng.randint(0, self.time_span) * step for _ in range(count)]
        if self.disorder == "sorted":
            times.sort()
        elif self.disorder == "local":
            arrivals = [t + rng.randint(0, max(1, self.time_span // 8)) * step for t in times]
            times = [t for _, t in sorted(zip(arrivals, times, strict=True))]
        if self.null_times:
            return [None if rng.random() < 0.1 else t for t in times]
        return list(times)

    def _array(self, rng: random.Random, column: Column, count: int) -> pa.Array:
        null_rate = self.null_rate if rng.random() < 0.7 else 0.0
        values = [None if rng.random() < null_rate else self._value(rng, column.arrow) for _ in range(count)]
        kind = column.arrow
        if pa.types.is_dictionary(kind):
            return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_duration(kind):
            return _ticks_array(values, kind)
        if pa.types.is_decimal(kind):
            return pa.array(values, pa.decimal128(kind.precision, kind.scale)).cast(kind)
        return pa.array(values, kind)

    def _value(self, rng: random.Random, kind: pa.DataType) -> Any:
        t = pa.types
        small = rng.randint(-self.radius, self.radius)
        if t.is_integer(kind):
            low, high = _limits(kind)
            if self.extreme and rng.random() < 0.25:
                return rng.choice([low, low + 1, high - 1, high, low // 2, high // 2])
            return small if low < 0 else abs(small)
        if t.is_floating(kind):
            return self._float(rng, kind, small)
        if t.is_decimal(kind):
            return self._decimal(rng, kind, small)
        if t.is_timestamp(kind):
            return BASE_SECONDS * TICKS_PER_SECOND[kind.unit] + small * max(1, self.step_ns // NS[kind.unit])
        if t.is_date32(kind) or t.is_date64(kind):
            return (BASE_DAYS + small) * (1 if t.is_date32(kind) else 86_400_000)
        if t.is_boolean(kind):
            return rng.random() < 0.5
        if t.is_fixed_size_binary(kind):
            return rng.choice(FIXED_BYTES)
        if t.is_binary(kind) or t.is_large_binary(kind) or t.is_binary_view(kind):
            return rng.choice(BYTES)
        if t.is_list(kind):
            return [rng.randint(0, 9) for _ in range(rng.randint(0, 3))]
        if t.is_struct(kind):
            return {"u": rng.choice([None, 1.5, math.nan]), "v": rng.choice(self.texts)}
        return small if t.is_duration(kind) else rng.choice(self.texts)

    def _float(self, rng: random.Random, kind: pa.DataType, small: int) -> float:
        if rng.random() < self.special_rate:
            return rng.choice([math.nan, math.inf, -math.inf, -0.0, 0.0])
        if self.extreme and rng.random() < 0.25:
            huge = {16: [6.5e4, 6e-8], 32: [3e38, -3e38, 1e-45, 16777217.0], 64: [1.7e308, 5e-324, 2.0**53 + 2, 1e19]}
            return rng.choice(huge[kind.bit_width])
        if self.fractional:
            return small + rng.choice([0.1, 0.25, 0.7, 1 / 3])
        return small / rng.choice([1, 1, 2])

    def _decimal(self, rng: random.Random, kind: pa.DataType, small: int) -> Decimal:
        limit = 10**kind.precision - 1
        if self.extreme and rng.random() < 0.25:
            unscaled = rng.choice([limit, -limit, limit - 1])
        else:
            unscaled = max(-limit, min(limit, small * 10**kind.scale + rng.choice([0, 0, 1, 5, -1])))
        if kind.precision > 18 and rng.random() < 0.3:
            unscaled = min(limit, 10**18 + small) * rng.choice([1, -1])
        sign, digits, _ = Decimal(unscaled).as_tuple()
        return Decimal((sign, digits, -kind.scale))


ROWS_MAX = {1: 350, 2: 600, 3: 60, 4: 20, 5: 10}
"""Tuples of a stream at most, by streams of the query: the oracle looks at every combination."""


def plan(
    rng: random.Random,
    columns: Mapping[str, Sequence[Column]],
    times: Mapping[str, str],
    width: int = 2,
    generous: bool = False,
) -> Plan:
    """Return the dials for a data set over streams with ``columns``, for a query of ``width`` streams.

    ``generous``: values from small domains and long windows, so that there are results.
    """
    kinds = [c.arrow for name, cs in columns.items() for c in cs if c.name == times[name]]
    temporal = not pa.types.is_integer(kinds[0])
    dates = pa.types.is_date32(kinds[0])
    coarse = any(pa.types.is_timestamp(kind) and kind.unit == "s" for kind in kinds)
    step = rng.choice([NS["s"], NS["s"], 60 * NS["s"]] + ([] if coarse else [250 * NS["ms"]]))
    extreme = rng.random() < 0.1 and not generous
    extreme_times = rng.random() < 0.04 and kinds.count(pa.int64()) == len(kinds) and not generous
    rows = _rows(rng, list(columns), width, generous)
    return Plan(
        rows,
        rng.choice([1, 2, 4] if generous else [3, 8, 20, 60]),
        rng.choice([0.0, 0.05, 0.15] if generous else [0.0, 0.05, 0.15, 0.4]),
        rng.choice([0.0, 0.05, 0.2]),
        extreme,
        extreme_times,
        not extreme_times and rng.random() < 0.08,
        rng.random() < 0.5 and not generous,
        NS["day"] if dates else step,
        rng.choice([3, 20, 60, 100] if max(rows.values()) < 100 else [20, 60, 200]),
        rng.choice([0, BASE_SECONDS, BASE_SECONDS, -86_400 * 3] if temporal else [0, -50, 1000]),
        rng.choice(["sorted", "local", "random"]),
        temporal,
        tuple(rng.sample(DATA_TEXTS, 3 if generous else 6)),
        generous,
    )


def _rows(rng: random.Random, names: Sequence[str], width: int, generous: bool) -> dict[str, int]:
    """Return how many tuples each stream has."""
    most = ROWS_MAX[1 if len(names) == 1 else width]
    sizes = [0, rng.randint(1, 5), rng.randint(6, 60), rng.randint(60, 180), rng.randint(180, 600)]
    weights = [0, 0, 50, 38, 12] if generous else [2, 6, 45, 35, 12]
    large = rng.choices(range(5), weights)[0]
    rows = {}
    for name in names:  # mostly of about one size
        place = large if rng.random() < 0.85 else rng.choices(range(5), weights)[0]
        count = sizes[place] if rng.random() < 0.5 else rng.randint(sizes[place] // 2, sizes[place])
        rows[name] = count if count <= most else rng.randint(2 * most // 3, most)
    return rows


def _limits(kind: pa.DataType) -> tuple[int, int]:
    bits = kind.bit_width
    return (0, 2**bits - 1) if pa.types.is_unsigned_integer(kind) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _ticks_array(values: Sequence[int | None], kind: pa.DataType) -> pa.Array:
    """Return integer ticks as an array of a temporal or integer type."""
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    return pa.array(values, kind) if pa.types.is_unsigned_integer(kind) else pa.array(values, pa.int64()).cast(kind)
