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

__all__ = ["fill_message", "fill_messages", "gather_columns", "gather_text", "gather_width"]

_Array = npt.NDArray[Any]

_HEAD = '''"""Columns of matched tuples, fetched from their basic windows."""

import numpy as np

from crosswind.kernel.jit import jit
from crosswind.kernel.ring import vector_at
from crosswind.kernel.runtime import fetch, store

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

@jit()
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


@jit()
def begin_message(memory, form, count):
    columns = form[1]
    head = 6 + 3 * columns
    for k in range(form[0]):
        store(memory, k, form[head + k])
    at = np.int64(0)
    for c in range(columns):
        size = form[6 + 3 * c] * count
        store(memory, form[4] + 2 * c, count)
        store(memory, form[5] + 4 * c, at)
        store(memory, form[5] + 4 * c + 1, np.int64(0))
        store(memory, form[5] + 4 * c + 2, at)
        store(memory, form[5] + 4 * c + 3, size)
        at += (size + 63) & -64
    store(memory, form[2], at)
    store(memory, form[3], count)
    return memory + 8 * form[0]


@jit("void(int64, int64[::1], int64, int64[::1])")
def fill(memory, form, count, sources):
    at = begin_message(memory, form, count)
    for c in range(form[1]):
        base, table, which, rows = sources[4 * c], sources[4 * c + 1], sources[4 * c + 2], sources[4 * c + 3]
        move(form[6 + 3 * c], base, table, which, rows, at, count)
        at += (form[6 + 3 * c] * count + 63) & -64


@jit()
def fill_parts(memory, form, count, places, members):
    begin = begin_message(memory, form, count)
    for c in range(form[1]):
        width, member, index = form[6 + 3 * c], form[7 + 3 * c], form[8 + 3 * c]
        at = begin
        for p in range(7 * member, places.shape[0], 7 * members):
            table, stride, times, nulls = places[p], places[p + 1], places[p + 2], places[p + 3]
            which, rows, size = places[p + 4], places[p + 5], places[p + 6]
            if index >= 0 and fetch(nulls, index, np.uint8) != 0:
                return False
            if which != 0:
                move(width, 0, times if index < 0 else table + stride * index, which, rows, at, size)
            else:
                move(width, times if index < 0 else fetch(table, index, np.int64), 0, 0, rows, at, size)
            at += width * size
        begin += (width * count + 63) & -64
    return True


@jit("void(int64[::1])")
def fill_all(jobs):
    at = 0
    while at < jobs.shape[0]:
        begin = at + 7
        form, end = vector_at(jobs[at + 2], jobs[at + 3]), begin + jobs[at + 6]
        if fill_parts(jobs[at + 1], form, jobs[at + 4], jobs[begin:end], jobs[at + 5]):
            jobs[at] = 1
        at = end
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


def fill_message() -> Callable[[int, _Array, int, _Array], None]:
    """Return what writes a message to an address: given it, the record of a Form, the number of rows, and sources.

    The source of a column is the first four numbers of a job of :func:`gather_columns`.
    """
    kernel: Callable[[int, _Array, int, _Array], None] = _columns_kernel().fill
    return kernel


def fill_messages() -> Callable[[_Array], None]:
    """Return what writes messages with columns of some members, in some parts, given jobs one behind the other.

    A job is seven numbers: 0, which becomes 1 when it is done (where there are nulls it cannot be); the address to
    write to; address and length of the record of a Form; rows; members; how many places follow. The source of a
    column, in the form, is a member and which of its columns (-1: its times). There are seven places for each
    member of each part: address of a table of where columns are, bytes in it from one to the next, address of the
    times, of what says by column whether there are nulls, of the numbers of basic windows, of the rows, and how
    many these are. Without numbers of basic windows (0) the table has the columns themselves, else of each the
    addresses in all basic windows.
    """
    kernel: Callable[[_Array], None] = _columns_kernel().fill_all
    return kernel


def gather_text(addresses: _Array, texts: _Array, windows: _Array, rows: _Array) -> tuple[_Array, _Array]:
    """Return offsets and bytes of the texts at the given rows."""
    module = load_source(_HEAD + _TEXT)
    offsets = np.empty(len(rows) + 1, dtype=np.int64)
    total = module.measure(addresses, windows, rows, offsets.ctypes.data)
    text = np.empty(max(1, total), dtype=np.uint8)
    module.copy(addresses, texts, windows, rows, offsets.ctypes.data, text.ctypes.data)
    return offsets, text
