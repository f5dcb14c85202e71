"""Arranging a basic window in cells: neighbours in the band, or equals by hash, lie together.

Tuples are put in order by counting, not by comparing: cell numbers, cell sizes, starts,
places. The starts are the directory in which probes look cells up.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from crosswind.kernel.jit import load_source

__all__ = [
    "FLOAT_KEY",
    "any_nan",
    "float_keys",
    "grid_cells",
    "group",
    "hash_cells",
    "hash_keys",
    "hash_texts",
    "hash_wides",
    "link_tuples",
    "put_into_copies",
]

FLOAT_KEY = -1
"""Times the width: what :func:`put_into_copies` is to make are keys of floats."""

_Array = npt.NDArray[Any]

# Some have a signature, since every query on floats needs one of them: they are loaded with the module.
_SOURCE = '''"""Cells, hashes and counting sort."""

import numpy as np

from crosswind.kernel.jit import jit
from crosswind.kernel.compiled.runtime import fetch, store
from crosswind.kernel.compiled.search import mix_key, mix_text


@jit()
def add_axis(values, origin, scale, cells, out, times):
    """Set ``out`` to ``out * times`` plus the cell of each value."""
    for i in range(values.shape[0]):
        place = (values[i] - origin) * scale
        if place >= cells - 1:
            c = cells - 1
        elif place > 0.0:
            c = np.int64(place)
        else:
            c = np.int64(0)
        out[i] = np.int32(out[i] * times + c)


@jit()
def key_32(bits):
    """Return the key of a float: Spark's order, -0.0 as 0.0, one key for all NaNs."""
    size = bits & np.int32(0x7FFFFFFF)
    if size > np.int32(0x7F800000):
        bits = np.int32(0x7FC00000)
    elif size == 0:
        bits = np.int32(0)
    return np.int32(bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF)))


@jit()
def key_64(bits):
    """Return the key of a double."""
    size = bits & np.int64(0x7FFFFFFFFFFFFFFF)
    if size > np.int64(0x7FF0000000000000):
        bits = np.int64(0x7FF8000000000000)
    elif size == 0:
        bits = np.int64(0)
    return bits ^ ((bits >> np.int64(63)) & np.int64(0x7FFFFFFFFFFFFFFF))


@jit("void(int64, int32[::1])")
def keys_32(values, keys):
    """Fill the keys of floats."""
    for i in range(keys.shape[0]):
        keys[i] = key_32(fetch(values, i, np.int32))


@jit("void(int64, int64[::1])")
def keys_64(values, keys):
    """Fill the keys of doubles."""
    for i in range(keys.shape[0]):
        keys[i] = key_64(fetch(values, i, np.int64))


@jit("boolean(int64, int64, int64)")
def any_nan(values, width, count):
    """Say whether one of the floats is NaN."""
    for i in range(count):
        if width == 8:
            if (fetch(values, i, np.int64) & np.int64(0x7FFFFFFFFFFFFFFF)) > np.int64(0x7FF0000000000000):
                return True
        elif (fetch(values, i, np.int32) & np.int32(0x7FFFFFFF)) > np.int32(0x7F800000):
            return True
    return False


@jit()
def put_column(source, target, what, at, count):
    """Write values of a column behind the first ``at`` of it."""
    for k in range(count):
        if what == 8:
            store(target, at + k, fetch(source, k, np.uint64))
        elif what == 4:
            store(target, at + k, fetch(source, k, np.uint32))
        elif what == 2:
            store(target, at + k, fetch(source, k, np.uint16))
        elif what == 1:
            store(target, at + k, fetch(source, k, np.uint8))
        elif what == -4:
            store(target, at + k, key_32(fetch(source, k, np.int32)))
        else:
            store(target, at + k, key_64(fetch(source, k, np.int64)))


@jit()
def link(record, start, stop):
    """Link tuples ``start`` to ``stop`` with those of their hash that came before them."""
    last, cells, before = fetch(record, 0, np.int64), fetch(record, 1, np.int64), fetch(record, 2, np.int64)
    for i in range(start, stop):
        hashed = np.int64(0)
        for q in range(fetch(record, 3, np.int64)):
            at, width = fetch(record, 4 + 2 * q, np.int64), fetch(record, 5 + 2 * q, np.int64)
            key = fetch(at, i, np.int64) if width == 8 else np.int64(fetch(at, i, np.int32))
            hashed = mix_key(key, hashed)
        cell = hashed & (cells - 1)
        store(before, i, fetch(last, cell, np.int32))
        store(last, cell, np.int32(i))


@jit("void(int64[:, ::1], int64[:, ::1], int64, int64, int64, int64)")
def put_copies(jobs, copies, columns, times, numbers, count):
    """Write tuples into all copies of a window, and link them there."""
    for c in range(copies.shape[0]):
        at = copies[c, 2]
        for q in range(copies[c, 0], copies[c, 1]):
            which = jobs[q, 0]
            source = times if which == -2 else numbers if which == -1 else fetch(columns, which, np.int64)
            put_column(source, jobs[q, 1], jobs[q, 2], at, count)
        if copies[c, 3] != 0:
            link(copies[c, 3], at, at + count)
        copies[c, 2] = at + count


@jit()
def group(cells, directory, places):
    """Fill the directory, and ``places`` with the tuples in the order of their cells."""
    for i in range(directory.shape[0]):
        directory[i] = 0
    for i in range(cells.shape[0]):
        directory[cells[i] + 1] += 1
    for c in range(1, directory.shape[0]):
        directory[c] += directory[c - 1]
    for i in range(cells.shape[0]):
        c = cells[i]
        places[directory[c]] = i
        directory[c] += 1
    for c in range(directory.shape[0] - 1, 0, -1):
        directory[c] = directory[c - 1]
    directory[0] = 0


@jit()
def mix(keys, hashes):
    """Fold ``keys`` into ``hashes``."""
    for i in range(keys.shape[0]):
        hashes[i] = mix_key(keys[i], hashes[i])


@jit()
def mix_texts(offsets, text, hashes):
    """Hash texts to 32 bits."""
    for i in range(hashes.shape[0]):
        begin = fetch(offsets, i, np.int64)
        hashes[i] = mix_text(text + begin, fetch(offsets, i + 1, np.int64) - begin)
'''


@lru_cache(maxsize=1)
def _kernels() -> Any:
    return load_source(_SOURCE)


def float_keys(address: int, count: int, bits: int) -> _Array:
    """Return the keys of ``count`` floats of ``bits`` at ``address``."""
    keys = np.empty(count, dtype=np.int32 if bits == 32 else np.int64)
    (_kernels().keys_32 if bits == 32 else _kernels().keys_64)(address, keys)
    return keys


def put_into_copies(jobs: _Array, copies: _Array, columns: int, times: int, numbers: int, count: int) -> None:
    """Write ``count`` tuples into all copies of a window, and link them where that has to be.

    ``columns`` is the address of a table of addresses. A job is three numbers: which column (-2: times, -1: sequence
    numbers), address to write to, bytes of a value (times ``FLOAT_KEY`` where it is to be a key of floats). A copy is
    four: its first job, and the one after its last; how
    many tuples there are, which goes on; and the address of the record of its Links (0: none).
    """
    _kernels().put_copies(jobs, copies, columns, times, numbers, count)


def link_tuples(record: int, start: int, stop: int) -> None:
    """Link tuples ``start`` to ``stop`` of a basic window; ``record`` is where that of its Links is."""
    _kernels().link(record, start, stop)


def any_nan(values: int, width: int, count: int) -> bool:
    """Return whether one of ``count`` floats of ``width`` bytes at an address is NaN."""
    return bool(_kernels().any_nan(values, width, count))


def grid_cells(axes: list[tuple[_Array, float, float, int]], count: int) -> npt.NDArray[np.int32]:
    """Return the cell of each tuple on a grid; an axis is (values, origin, scale, cells)."""
    out = np.zeros(count, dtype=np.int32)
    for values, origin, scale, cells in axes:
        _kernels().add_axis(values, origin, scale, cells, out, cells)
    return out


def hash_keys(keys: list[_Array]) -> npt.NDArray[np.int64]:
    """Return one hash (not negative) of the keys of each tuple."""
    hashes = np.zeros(len(keys[0]), dtype=np.int64)
    for column in keys:
        _kernels().mix(np.ascontiguousarray(column, dtype=np.int64), hashes)
    return hashes


def hash_cells(hashes: npt.NDArray[np.int64], cells: int) -> npt.NDArray[np.int32]:
    """Return the cell of each hash, of ``cells`` (a power of two)."""
    return (hashes & (cells - 1)).astype(np.int32)


def hash_texts(offsets: _Array, text: _Array) -> npt.NDArray[np.int32]:
    """Return a 32-bit key of each text; equal texts have equal keys."""
    hashes = np.empty(len(offsets) - 1, dtype=np.int32)
    offsets = np.ascontiguousarray(offsets)
    _kernels().mix_texts(offsets.ctypes.data, text.ctypes.data, hashes)
    return hashes


def hash_wides(pairs: _Array) -> npt.NDArray[np.int32]:
    """Return a 32-bit key of each 128-bit value; equal values have equal keys."""
    hashes = np.zeros(len(pairs) // 2, dtype=np.int64)
    for half in (0, 1):
        _kernels().mix(np.ascontiguousarray(pairs[half::2]), hashes)
    return hashes.astype(np.int32)


def group(cells: npt.NDArray[np.int32], count: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Return the directory of ``count`` cells, and the tuples in the order of their cells."""
    directory = np.empty(count + 1, dtype=np.int32)
    places = np.empty(len(cells), dtype=np.int64)
    _kernels().group(cells, directory, places)
    return directory, places
