"""Gathering: the columns of matched tuples, fetched from where they wait.

Rows are named ``<basic window, i>``; a table holds, per basic window, the address of
the column. One kernel a width serves all types; each is compiled when first needed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from crosswind.kernel.jit import load_source

__all__ = ["fill_messages", "gather_columns", "gather_text", "gather_width"]

_Array = npt.NDArray[Any]

_HEAD = '''"""Columns of matched tuples, fetched from their basic windows."""

import numpy as np

from crosswind.kernel.jit import jit
from crosswind.kernel.compiled.runtime import fetch, store

'''
_FIXED = """
@jit("void(int64[::1], int64[::1], int64[::1], {dtype}[::1])")
def gather(addresses, windows, rows, out):
    for k in range(windows.shape[0]):
        out[k] = fetch(addresses[windows[k]], rows[k], np.{dtype})
"""
_PAIRS = """
@jit("void(int64[::1], int64[::1], int64[::1], uint64[::1])")
def gather(addresses, windows, rows, out):
    for k in range(windows.shape[0]):
        source = addresses[windows[k]]
        out[2 * k] = fetch(source, 2 * rows[k], np.uint64)
        out[2 * k + 1] = fetch(source, 2 * rows[k] + 1, np.uint64)
"""
_MOVE = """

@jit()
def move_{bits}(base, table, which, rows, out, count):
    if table != 0:
        for k in range(count):
            value = fetch(fetch(table, fetch(which, k, np.int64), np.int64), fetch(rows, k, np.int64), np.uint{bits})
            store(out, k, value)
    elif rows != 0:
        for k in range(count):
            store(out, k, fetch(base, fetch(rows, k, np.int64), np.uint{bits}))
    else:
        for k in range(count):
            store(out, k, fetch(base, k, np.uint{bits}))
"""
_COLUMNS = """

@jit("void(int64, int64, int64, int64, int64, int64, int64)")
def move(width, base, table, which, rows, out, count):
    if width == 1:
        move_8(base, table, which, rows, out, count)
    elif width == 2:
        move_16(base, table, which, rows, out, count)
    elif width == 4:
        move_32(base, table, which, rows, out, count)
    else:
        move_64(base, table, which, rows, out, count)


@jit("void(int64[:, ::1], int64)")
def gather(jobs, memory):
    for q in range(jobs.shape[0]):
        base, table, which, rows = jobs[q, 0], jobs[q, 1], jobs[q, 2], jobs[q, 3]
        move(jobs[q, 5], base, table, which, rows, memory + jobs[q, 4], jobs[q, 6])


@jit("void(int64, int64)")
def fill(jobs, words):
    job, stop = jobs, jobs + 8 * words
    while job < stop:
        memory, form, count = fetch(job, 1, np.int64), fetch(job, 2, np.int64), fetch(job, 3, np.int64)
        members, end = fetch(job, 4, np.int64), job + 48 + 8 * fetch(job, 5, np.int64)
        size, columns = fetch(form, 0, np.int64), fetch(form, 1, np.int64)
        for k in range(size):
            store(memory, k, fetch(form, 6 + 3 * columns + k, np.int64))
        begin = np.int64(0)
        done = np.int64(1)
        for c in range(columns):
            width, index = fetch(form, 6 + 3 * c, np.int64), fetch(form, 8 + 3 * c, np.int64)
            spot = fetch(form, 5, np.int64) + 4 * c
            store(memory, fetch(form, 4, np.int64) + 2 * c, count)
            store(memory, spot, begin)
            store(memory, spot + 1, np.int64(0))
            store(memory, spot + 2, begin)
            store(memory, spot + 3, width * count)
            at = memory + 8 * size + begin
            begin += (width * count + 63) & -64
            place = job + 48 + (56 * fetch(form, 7 + 3 * c, np.int64) if members else 32 * c)
            while place < end:
                base, table, which = np.int64(0), np.int64(0), np.int64(0)
                if members == 0:
                    base, table, which = fetch(place, 0, np.int64), fetch(place, 1, np.int64), fetch(place, 2, np.int64)
                    rows, some = fetch(place, 3, np.int64), count
                    place = end
                else:
                    columns_at, times = fetch(place, 0, np.int64), fetch(place, 2, np.int64)
                    which, rows, some = fetch(place, 4, np.int64), fetch(place, 5, np.int64), fetch(place, 6, np.int64)
                    if index >= 0 and fetch(fetch(place, 3, np.int64), index, np.uint8) != 0:
                        done = np.int64(0)
                        break
                    if which != 0:
                        table = times if index < 0 else columns_at + fetch(place, 1, np.int64) * index
                    else:
                        base = times if index < 0 else fetch(columns_at, index, np.int64)
                    place += 56 * members
                move(width, base, table, which, rows, at, some)
                at += width * some
        store(memory, fetch(form, 2, np.int64), begin)
        store(memory, fetch(form, 3, np.int64), count)
        store(job, 0, done)
        job = end
"""
_TEXT = """
@jit("int64(int64[::1], int64[::1], int64[::1], int64)")
def measure(addresses, windows, rows, offsets):
    total = 0
    store(offsets, 0, np.int64(0))
    for k in range(windows.shape[0]):
        source = addresses[windows[k]]
        total += fetch(source, rows[k] + 1, np.int64) - fetch(source, rows[k], np.int64)
        store(offsets, k + 1, np.int64(total))
    return total


@jit("void(int64[::1], int64[::1], int64[::1], int64[::1], int64, int64)")
def copy(addresses, texts, windows, rows, offsets, out):
    for k in range(windows.shape[0]):
        start = fetch(addresses[windows[k]], rows[k], np.int64)
        first = fetch(offsets, k, np.int64)
        source = texts[windows[k]]
        for b in range(fetch(offsets, k + 1, np.int64) - first):
            store(out, first + b, fetch(source, start + b, np.uint8))
"""


@lru_cache(maxsize=8)
def _fixed_kernel(width: int) -> tuple[Callable[..., None], int, np.dtype[Any]]:
    """Return the kernel of a width, the items of a value, and their type."""
    body = _PAIRS if width == 16 else _FIXED.format(dtype=f"uint{8 * width}")
    return load_source(_HEAD + body).gather, max(1, width // 8), np.dtype(f"uint{8 * min(width, 8)}")


def gather_width(addresses: _Array, windows: _Array, rows: _Array, width: int) -> _Array:
    """Return the values of ``width`` bytes at the given rows, as unsigned integers."""
    kernel, items, dtype = _fixed_kernel(width)
    out = np.empty(len(rows) * items, dtype)
    kernel(addresses, windows, rows, out)
    return out


@lru_cache(maxsize=1)
def _columns_kernel() -> Any:
    moves = "".join(_MOVE.format(bits=bits) for bits in (8, 16, 32, 64))
    return load_source(_HEAD + moves + _COLUMNS)


def gather_columns(jobs: list[int], memory: int) -> None:
    """Fetch many columns of up to 8 bytes a value into the memory at address ``memory``.

    A job is seven numbers: address of the values (or 0, then address of a table of such addresses,
    and of the numbers that say which), address of the rows (0: one after the other), where in the
    memory, bytes of a value, count.
    """
    _columns_kernel().gather(np.array(jobs, dtype=np.int64).reshape(-1, 7), memory)


def fill_messages() -> Callable[[int, int], None]:
    """Return what writes messages: it is given where jobs are, one behind the other, and how many numbers they have.

    A job is six numbers: one that becomes 1 if it could be done (where there are nulls it cannot); the address to
    write to; that of the record of a Form; rows; members; how many places follow.

    The source of a column, in the form, is a member and which of its columns (-1: its times). There are seven places
    for each member of each part: address of a table of where columns are, bytes in it from one to the next, address
    of the times, of what says by column whether there are nulls, of the numbers of basic windows, of the rows, and
    how many these are. Without numbers of basic windows (0) the table has the columns themselves, else of each the
    addresses in all basic windows. Or there are no members: then there are four places for each column, the first
    four numbers of a job of :func:`gather_columns`.
    """
    kernel: Callable[[int, int], None] = _columns_kernel().fill
    return kernel


def gather_text(addresses: _Array, texts: _Array, windows: _Array, rows: _Array) -> tuple[_Array, _Array]:
    """Return offsets and bytes of the texts at the given rows."""
    module = load_source(_HEAD + _TEXT)
    offsets = np.empty(len(rows) + 1, dtype=np.int64)
    total = module.measure(addresses, windows, rows, offsets.ctypes.data)
    text = np.empty(max(1, total), dtype=np.uint8)
    module.copy(addresses, texts, windows, rows, offsets.ctypes.data, text.ctypes.data)
    return offsets, text
