"""A column in memory: values behind pointers, as windows keep them and kernels read them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosswind.plan.physical import Storage

__all__ = ["Layout", "Vector", "address", "all_valid", "concat_vectors", "take_rows"]

_ones = [np.ones(1 << 16, dtype=np.uint8)]


def address(array: npt.NDArray[Any]) -> int:
    """Return where the values of ``array`` lie (Arrow is the fastest to ask; it wants arrays without gaps)."""
    where: int = pa.py_buffer(array).address if array.flags.c_contiguous else array.__array_interface__["data"][0]
    return where


def take_rows(data: Any, rows: npt.NDArray[np.int64]) -> Any:
    """Return the values of an Arrow array, batch or table at ``rows``, in that order.

    Arrow cannot do that for texts and binaries that are views; those are copied.
    """
    places = pa.array(rows)
    try:
        return data.take(places)
    except pa.ArrowNotImplementedError:
        of = data.schema if hasattr(data, "schema") else data.type
        return data.cast(_without_views(of)).take(places).cast(of)


def _without_views(of: Any) -> Any:
    """Return a type (or schema) that holds the same values without views."""
    if isinstance(of, pa.Schema):
        return pa.schema([field.with_type(_without_views(field.type)) for field in of], of.metadata)
    if pa.types.is_string_view(of):
        return pa.large_string()
    if pa.types.is_binary_view(of):
        return pa.large_binary()
    if pa.types.is_struct(of):
        return pa.struct([field.with_type(_without_views(field.type)) for field in of])
    if pa.types.is_list(of) or pa.types.is_large_list(of):
        make = pa.list_ if pa.types.is_list(of) else pa.large_list
        return make(of.value_field.with_type(_without_views(of.value_type)))
    return of


def all_valid(length: int) -> npt.NDArray[np.uint8]:
    """Return shared validity bytes of at least ``length`` tuples, none of them null.

    Old ones are kept: someone may still read behind their address.
    """
    if length > len(_ones[-1]):
        _ones.append(np.ones(max(length, 2 * len(_ones[-1])), dtype=np.uint8))
    return _ones[-1]


@dataclass(frozen=True)
class Layout:
    """How a column is laid out: its storage and, if FIXED, its dtype."""

    storage: Storage
    dtype: str = "int64"

    @cached_property
    def machine(self) -> np.dtype[Any]:
        """The dtype as NumPy has it (looking a name up takes longer)."""
        return np.dtype(self.dtype)


@dataclass(slots=True, eq=False)
class Vector:
    """A column of some tuples; never changed once made.

    FIXED: ``values`` of the layout's dtype. WIDE: pairs (low, high) of int64. TEXT:
    ``values`` are n + 1 int64 offsets into ``text``. OPAQUE: only ``arrow`` is set.
    ``valid`` holds a byte a tuple, or is None where no value is null. ``at`` is the address
    of the values, where it is known already (asking NumPy for it takes longer).
    """

    layout: Layout
    values: npt.NDArray[Any]
    valid: npt.NDArray[np.uint8] | None = None
    text: npt.NDArray[np.uint8] | None = None
    arrow: pa.Array | None = None
    at: int = 0
    _nans: bool | None = None

    def __len__(self) -> int:
        storage = self.layout.storage
        if storage is Storage.FIXED:
            return len(self.values)
        if storage is Storage.OPAQUE:
            return len(self.arrow) if self.arrow is not None else 0
        return len(self.values) - 1 if storage is Storage.TEXT else len(self.values) // 2

    @property
    def has_nulls(self) -> bool:
        """Whether some value may be null."""
        return self.valid is not None

    @property
    def has_nans(self) -> bool:
        """Whether some value is NaN."""
        if self._nans is None:  # asked for several times on the way of a tuple
            self._nans = self.values.dtype.kind == "f" and bool(np.isnan(self.values).any())
        return self._nans

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        if self.arrow is not None:
            return int(self.arrow.nbytes)
        return sum(part.nbytes for part in (self.values, self.valid, self.text) if part is not None)

    def pointers(self) -> tuple[int, int, int]:
        """Return the addresses of values, validity (never 0) and text."""
        valid = self.valid if self.valid is not None else all_valid(len(self))
        return self.at or address(self.values), address(valid), 0 if self.text is None else address(self.text)

    def take(self, rows: npt.NDArray[np.int64]) -> Vector:
        """Return the tuples at ``rows``, in that order."""
        valid = None if self.valid is None else self.valid[rows]
        match self.layout.storage:
            case Storage.OPAQUE:
                taken = None if self.arrow is None else take_rows(self.arrow, rows)
                return Vector(self.layout, self.values, arrow=taken)
            case Storage.WIDE:
                return Vector(self.layout, self.values.reshape(-1, 2)[rows].reshape(-1), valid)
            case Storage.TEXT:
                return self._take_text(rows, valid)
            case _:
                return Vector(self.layout, self.values[rows], valid)

    def _take_text(self, rows: npt.NDArray[np.int64], valid: npt.NDArray[np.uint8] | None) -> Vector:
        texts = pa.Array.from_buffers(
            pa.large_binary(), len(self), [None, pa.py_buffer(self.values), pa.py_buffer(self._bytes())]
        )
        places = pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(np.ascontiguousarray(rows))])
        _, offsets, text = texts.take(places).buffers()
        return Vector(
            self.layout,
            np.frombuffer(offsets, dtype=np.int64)[: len(rows) + 1] if len(rows) else np.zeros(1, dtype=np.int64),
            valid,
            np.frombuffer(text, dtype=np.uint8) if text is not None and text.size else np.zeros(1, dtype=np.uint8),
        )

    def _bytes(self) -> npt.NDArray[np.uint8]:
        return self.text if self.text is not None else np.empty(1, dtype=np.uint8)

    def slice(self, start: int, stop: int) -> Vector:
        """Return tuples ``start`` to ``stop``, sharing memory."""
        valid = None if self.valid is None else self.valid[start:stop]
        match self.layout.storage:
            case Storage.OPAQUE:
                part = None if self.arrow is None else self.arrow.slice(start, stop - start)
                return Vector(self.layout, self.values, arrow=part)
            case Storage.WIDE:
                return Vector(self.layout, self.values[2 * start : 2 * stop], valid)
            case Storage.TEXT:
                return Vector(self.layout, self.values[start : stop + 1], valid, self.text)
            case _:
                return Vector(self.layout, self.values[start:stop], valid)


def concat_vectors(parts: list[Vector]) -> Vector:
    """Return the tuples of ``parts`` (at least one) in one vector."""
    if len(parts) == 1:
        return parts[0]
    layout = parts[0].layout
    if layout.storage is Storage.OPAQUE:
        chunks = pa.chunked_array([part.arrow for part in parts]).unify_dictionaries().combine_chunks()
        joined = pa.concat_arrays(chunks.chunks) if isinstance(chunks, pa.ChunkedArray) else chunks
        return Vector(layout, parts[0].values, arrow=joined)
    valid = None
    if any(part.valid is not None for part in parts):
        valid = np.concatenate([all_valid(len(p))[: len(p)] if p.valid is None else p.valid for p in parts])
    if layout.storage is not Storage.TEXT:
        return Vector(layout, np.concatenate([part.values for part in parts]), valid)
    starts, offsets, base = [], [np.zeros(1, dtype=np.int64)], 0
    for part in parts:
        first, last = int(part.values[0]), int(part.values[-1])
        starts.append(part._bytes()[first:last])
        offsets.append(part.values[1:] - first + base)
        base += last - first
    text = np.concatenate([*starts, np.zeros(1, dtype=np.uint8)])
    return Vector(layout, np.concatenate(offsets), valid, text)
