"""Keys: box columns as integers that keep the order of the values.

Floats follow Spark's order: -0.0 and 0.0 have one key, NaN has one key above all others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from crosswind.query.types import Kind, SqlType

__all__ = ["PAD", "encode", "first_and_last", "halve", "value_of"]

PAD = 64
"""Keys beyond the last that may be read (never used): SIMD loads take up to 64 at a time."""


def _flip(bits: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Map the bits of floats to integers of the same order, and back."""
    width = bits.dtype.itemsize * 8
    flipped: npt.NDArray[Any] = bits ^ ((bits >> (width - 1)) & bits.dtype.type(2 ** (width - 1) - 1))
    return flipped


def encode(values: npt.NDArray[Any], of: SqlType, bits: int) -> npt.NDArray[Any]:
    """Return the keys of ``values`` of type ``of``."""
    if of.kind is not Kind.FLOAT:
        return values.astype(f"int{bits}", copy=False)
    with np.errstate(invalid="ignore"):  # a signalling NaN
        plain = values + values.dtype.type(0)  # -0.0 becomes 0.0
    nans = np.isnan(plain)
    if nans.any():
        plain[nans] = np.nan
    return _flip(plain.view(f"int{bits}"))


def halve(keys: npt.NDArray[Any], count: int) -> tuple[npt.NDArray[np.uint16], int, int]:
    """Return the first ``count`` keys as 16-bit half keys, with the base and the shift that made them.

    ``(key - base) >> shift`` keeps the order but not all differences: comparing half keys
    finds every match and a few more, at twice the speed (four times, for 64-bit keys).
    """
    known = keys[:count]
    base = int(known.min())
    shift = max(0, (int(known.max()) - base).bit_length() - 16)
    unsigned = f"uint{8 * keys.dtype.itemsize}"
    offsets = known.view(unsigned) - np.array([base], dtype=keys.dtype).view(unsigned)
    halves = np.empty(count + PAD, dtype=np.uint16)
    halves[:count] = offsets >> offsets.dtype.type(shift)
    return halves, base, shift


def value_of(keys: npt.NDArray[Any], of: SqlType) -> npt.NDArray[np.float64]:
    """Return values in the order of the keys as doubles (rounded; NaN as infinity)."""
    if of.kind is not Kind.FLOAT:
        return keys.astype(np.float64)
    with np.errstate(invalid="ignore"):  # widening a NaN
        values = _flip(keys).view(f"float{8 * keys.dtype.itemsize}").astype(np.float64)
    return np.where(np.isnan(values), np.inf, values)


def first_and_last(of: SqlType, bits: int) -> tuple[int, int]:
    """Return the least and greatest key that a value of type ``of`` can have (or stand for)."""
    top = 2 ** (bits - 1) - 1
    match of.kind:
        case Kind.BOOL:
            return 0, 1
        case Kind.INT:
            return -(2 ** (of.bits - 1)), 2 ** (of.bits - 1) - 1
        case Kind.FLOAT:
            infinity = np.array([-np.inf], dtype=f"float{bits}")
            return int(_flip(infinity.view(f"int{bits}"))[0]), top
        case _:
            return -top - 1, top
