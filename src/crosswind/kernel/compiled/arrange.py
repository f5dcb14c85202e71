"""Arranging a basic window in cells: neighbours in the band, or equals by hash, lie together.

Tuples are put in order by counting, not by comparing: cell numbers, cell sizes, starts,
places. The starts are the directory in which probes look cells up.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from crosswind.kernel.compiled.ring import record_at
from crosswind.kernel.compiled.runtime import fetch, store
from crosswind.kernel.compiled.search import mix_key, mix_text
from crosswind.kernel.jit import jit
from crosswind.kernel.records import (
    COPY,
    COPY_BYTES,
    COPY_JOB,
    COPY_JOB_BYTES,
    LINKED_KEY,
    LINKED_KEY_BYTES,
    LINKS,
    LINKS_BYTES,
)

__all__ = [
    "FLOAT_KEY",
    "any_nan",
    "cell_of",
    "float_keys",
    "grid_cells",
    "group",
    "half_of",
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


@jit()
def half_of(key, base, shift):
    """Return the half key of ``key``: -1 below the base, more than 65535 above the last one."""
    if key < base:
        return np.int64(-1)
    offset = (np.uint64(key) - np.uint64(base)) >> np.uint64(shift)
    return np.int64(offset) if offset < np.uint64(65536) else np.int64(65536)


@jit()
def cell_of(value, origin, scale, cells):
    """Return the cell of ``value`` on an axis; values beyond the ends belong to the end cells."""
    place = (value - origin) * scale
    if place >= cells - 1:
        return cells - 1
    return np.int64(place) if place > 0.0 else np.int64(0)


@jit()
def add_axis(values, origin, scale, cells, out, times):
    """Set ``out`` to ``out * times`` plus the cell of each value."""
    for i in range(values.shape[0]):
        out[i] = np.int32(out[i] * times + cell_of(values[i], origin, scale, cells))


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
    links = record_at(record, LINKS)
    last, cells, before, keys = links.last, links.cells, links.before, links.keys
    for i in range(start, stop):
        hashed = np.int64(0)
        for q in range(keys):
            linked = record_at(record + LINKS_BYTES + LINKED_KEY_BYTES * q, LINKED_KEY)
            at = linked.at
            key = fetch(at, i, np.int64) if linked.width == 8 else np.int64(fetch(at, i, np.int32))
            hashed = mix_key(key, hashed)
        cell = hashed & (cells - 1)
        store(before, i, fetch(last, cell, np.int32))
        store(last, cell, np.int32(i))


@jit("void(int64[:, ::1], int64[:, ::1], int64, int64, int64, int64)")
def put_copies(jobs, copies, columns, times, numbers, count):
    """Write tuples into all copies of a window, and link them there."""
    jobs_at, copies_at = np.int64(jobs.ctypes.data), np.int64(copies.ctypes.data)
    for c in range(copies.shape[0]):
        copy = record_at(copies_at + COPY_BYTES * c, COPY)
        at = copy.length
        for q in range(copy.first, copy.end):
            job = record_at(jobs_at + COPY_JOB_BYTES * q, COPY_JOB)
            which = job.column
            source = times if which == -2 else numbers if which == -1 else fetch(columns, which, np.int64)
            put_column(source, job.target, job.what, at, count)
        if copy.links != 0:
            link(copy.links, at, at + count)
        copy.length = at + count


@jit()
def sort_by_cell(cells, directory, places):
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


def float_keys(address: int, count: int, bits: int) -> _Array:
    """Return the keys of ``count`` floats of ``bits`` at ``address``."""
    keys = np.empty(count, dtype=np.int32 if bits == 32 else np.int64)
    (keys_32 if bits == 32 else keys_64)(address, keys)
    return keys


def put_into_copies(jobs: _Array, copies: _Array, columns: int, times: int, numbers: int, count: int) -> None:
    """Write ``count`` tuples into all copies of a window, and link them where that has to be.

    ``columns`` is the address of a table of addresses. A row of ``jobs`` is a
    :data:`crosswind.kernel.records.COPY_JOB`, one of ``copies`` a :data:`crosswind.kernel.records.COPY`.
    """
    put_copies.compiled(jobs, copies, columns, times, numbers, count)


def link_tuples(record: int, start: int, stop: int) -> None:
    """Link tuples ``start`` to ``stop`` of a basic window; ``record`` is where that of its Links is."""
    link(record, start, stop)


def grid_cells(axes: list[tuple[_Array, float, float, int]], count: int) -> npt.NDArray[np.int32]:
    """Return the cell of each tuple on a grid; an axis is (values, origin, scale, cells)."""
    out = np.zeros(count, dtype=np.int32)
    for values, origin, scale, cells in axes:
        add_axis(values, origin, scale, cells, out, cells)
    return out


def hash_keys(keys: list[_Array]) -> npt.NDArray[np.int64]:
    """Return one hash (not negative) of the keys of each tuple."""
    hashes = np.zeros(len(keys[0]), dtype=np.int64)
    for column in keys:
        mix(np.ascontiguousarray(column, dtype=np.int64), hashes)
    return hashes


def hash_cells(hashes: npt.NDArray[np.int64], cells: int) -> npt.NDArray[np.int32]:
    """Return the cell of each hash, of ``cells`` (a power of two)."""
    return (hashes & (cells - 1)).astype(np.int32)


def hash_texts(offsets: _Array, text: _Array) -> npt.NDArray[np.int32]:
    """Return a 32-bit key of each text; equal texts have equal keys."""
    hashes = np.empty(len(offsets) - 1, dtype=np.int32)
    offsets = np.ascontiguousarray(offsets)
    mix_texts(offsets.ctypes.data, text.ctypes.data, hashes)
    return hashes


def hash_wides(pairs: _Array) -> npt.NDArray[np.int32]:
    """Return a 32-bit key of each 128-bit value; equal values have equal keys."""
    hashes = np.zeros(len(pairs) // 2, dtype=np.int64)
    for half in (0, 1):
        mix(np.ascontiguousarray(pairs[half::2]), hashes)
    return hashes.astype(np.int32)


def group(cells: npt.NDArray[np.int32], count: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Return the directory of ``count`` cells, and the tuples in the order of their cells."""
    directory = np.empty(count + 1, dtype=np.int32)
    places = np.empty(len(cells), dtype=np.int64)
    sort_by_cell(cells, directory, places)
    return directory, places
