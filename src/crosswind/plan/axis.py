"""The common time axis of the streams of a join, and window lengths on it.

Every time becomes a 64-bit count of ticks of the finest unit among the time columns;
a window length becomes the greatest age, in whole ticks, at which a tuple still waits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import pyarrow as pa

from crosswind.errors import InputError
from crosswind.query.tree import Now, Range, Stream, Window
from crosswind.query.types import UNITS_PER_SECOND, Kind, sql_type

__all__ = ["INT64_MAX", "INT64_MIN", "TimeAxis", "axis_of"]

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class TimeAxis:
    """Ticks per second of the axis (None: the time columns are integers), and factors.

    ``factors[i]`` turns the ticks of stream i's time column into ticks of the axis.
    """

    ticks_per_second: Fraction | None
    factors: tuple[int, ...]

    def age_limit(self, window: Window) -> int | None:
        """Return the greatest age in ticks at which a tuple still waits; None: no limit by time."""
        match window:
            case Now():
                return 0
            case Range():
                length = window.length * (self.ticks_per_second or 1)
                age = math.floor(length) if window.inclusive else math.ceil(length) - 1
                return min(age, INT64_MAX)
            case _:
                return None

    def ticks(self, seconds_or_units: Fraction, *, is_seconds: bool) -> int:
        """Return a span as ticks, rounded up, so that nothing is released too early."""
        if is_seconds and self.ticks_per_second is None and seconds_or_units:
            raise InputError(
                "lateness has a unit of time but the time columns are integers; "
                "give lateness as a plain integer in the unit of the time columns."
            )
        if not is_seconds and self.ticks_per_second is not None and seconds_or_units:
            raise InputError(
                "lateness is a plain number but the time columns are timestamps; "
                "give it with a unit, for example lateness='10 seconds'."
            )
        return math.ceil(seconds_or_units * (self.ticks_per_second or 1))


def axis_of(streams: Sequence[Stream]) -> TimeAxis:
    """Return the finest axis that holds the time columns of all ``streams``."""
    rates = [_ticks_per_second(stream.schema.field(stream.time).type) for stream in streams]
    if any(rate is None for rate in rates):
        return TimeAxis(None, (1,) * len(rates))
    known = [rate for rate in rates if rate is not None]
    finest = max(known)
    return TimeAxis(finest, tuple(int(finest / rate) for rate in known))


def _ticks_per_second(arrow: pa.DataType) -> Fraction | None:
    of = sql_type(arrow)
    if of.kind is Kind.DATE:
        return Fraction(1, 86_400)
    return Fraction(UNITS_PER_SECOND[of.unit]) if of.kind is Kind.TIMESTAMP else None
