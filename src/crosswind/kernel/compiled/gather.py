"""Gathering: the columns of matched tuples, fetched from where they wait.

Rows are named ``<basic window, i>``; a table holds, per basic window, the address of
the column. One kernel a width serves all types; each is compiled when first needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from crosswind.kernel.compiled.ring import record_at
from crosswind.kernel.compiled.runtime import fetch, store
from crosswind.kernel.jit import jit
from crosswind.kernel.records import (
    COLUMN_JOB,
    COLUMN_JOB_BYTES,
    COLUMN_PLACE,
    COLUMN_PLACE_BYTES,
    FORM,
    FORM_BYTES,
    FORM_COLUMN,
    FORM_COLUMN_BYTES,
    MEMBER_PLACE,
    MEMBER_PLACE_BYTES,
    MESSAGE_JOB,
    MESSAGE_JOB_BYTES,
)

__all__ = ["fill_messages", "gather_columns", "gather_text", "gather_width"]

_Array = npt.NDArray[Any]

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.uint64}
"""What values of so many bytes are fetched as; the widest are two."""


@jit()
def gather_values(addresses, windows, rows, out):
    """Fetch values that are as wide as those of ``out``."""
    for k in range(windows.shape[0]):
        out[k] = fetch(addresses[windows[k]], rows[k], out.dtype)


@jit("void(int64[::1], int64[::1], int64[::1], uint64[::1])")
def gather_pairs(addresses, windows, rows, out):
    """Fetch values of 16 bytes."""
    for k in range(windows.shape[0]):
        source = addresses[windows[k]]
        out[2 * k] = fetch(source, 2 * rows[k], np.uint64)
        out[2 * k + 1] = fetch(source, 2 * rows[k] + 1, np.uint64)


@jit()
def move_values(base, table, which, rows, out, count, of):
    """Fetch values of type ``of``."""
    if table != 0:
        for k in range(count):
            value = fetch(fetch(table, fetch(which, k, np.int64), np.int64), fetch(rows, k, np.int64), of)
            store(out, k, value)
    elif rows != 0:
        for k in range(count):
            store(out, k, fetch(base, fetch(rows, k, np.int64), of))
    else:
        for k in range(count):
            store(out, k, fetch(base, k, of))


@jit("void(int64, int64, int64, int64, int64, int64, int64)")
def move(width, base, table, which, rows, out, count):
    """Fetch values of ``width`` bytes."""
    if width == 1:
        move_values(base, table, which, rows, out, count, np.uint8)
    elif width == 2:
        move_values(base, table, which, rows, out, count, np.uint16)
    elif width == 4:
        move_values(base, table, which, rows, out, count, np.uint32)
    else:
        move_values(base, table, which, rows, out, count, np.uint64)


@jit("void(int64[::1], int64)")
def move_columns(jobs, memory):
    """Do jobs that each fetch a column."""
    jobs_at = np.int64(jobs.ctypes.data)
    for q in range(8 * jobs.shape[0] // COLUMN_JOB_BYTES):
        job = record_at(jobs_at + COLUMN_JOB_BYTES * q, COLUMN_JOB)
        move(job.width, job.base, job.table, job.which, job.rows, memory + job.out, job.count)


@jit()
def fill_head(form, memory):
    """Copy the head of a message."""
    about = record_at(form, FORM)
    head = form + FORM_BYTES + FORM_COLUMN_BYTES * about.columns
    for k in range(about.size):
        store(memory, k, fetch(head, k, np.int64))


@jit()
def fill_from_members(place, end, members, width, index, at):
    """Fetch a column from every part of the rows; False: there may be nulls."""
    while place < end:
        source = record_at(place, MEMBER_PLACE)
        if index >= 0 and fetch(source.nulls, index, np.uint8) != 0:
            return False
        base, table = np.int64(0), np.int64(0)
        if source.which != 0:
            table = source.times if index < 0 else source.columns + source.step * index
        else:
            base = source.times if index < 0 else fetch(source.columns, index, np.int64)
        move(width, base, table, source.which, source.rows, at, source.count)
        at += width * source.count
        place += MEMBER_PLACE_BYTES * members
    return True


@jit("void(int64, int64)")
def fill(jobs, words):
    """Write messages."""
    at, stop = jobs, jobs + 8 * words
    while at < stop:
        job = record_at(at, MESSAGE_JOB)
        form, memory, count, members = record_at(job.form, FORM), job.memory, job.count, job.members
        places, end = at + MESSAGE_JOB_BYTES, at + MESSAGE_JOB_BYTES + 8 * job.words
        fill_head(job.form, memory)
        begin, done = np.int64(0), True
        for c in range(form.columns):
            column = record_at(job.form + FORM_BYTES + FORM_COLUMN_BYTES * c, FORM_COLUMN)
            width, buffers = column.width, form.buffers_at + 4 * c
            store(memory, form.nodes_at + 2 * c, count)
            store(memory, buffers, begin)
            store(memory, buffers + 1, np.int64(0))
            store(memory, buffers + 2, begin)
            store(memory, buffers + 3, width * count)
            target = memory + 8 * form.size + begin
            begin += (width * count + 63) & -64
            if members != 0:
                place = places + MEMBER_PLACE_BYTES * column.member
                done &= fill_from_members(place, end, members, width, column.index, target)
            else:
                source = record_at(places + COLUMN_PLACE_BYTES * c, COLUMN_PLACE)
                move(width, source.base, source.table, source.which, source.rows, target, count)
        store(memory, form.bytes_at, begin)
        store(memory, form.rows_at, count)
        job.done = np.int64(done)
        at = end


@jit("int64(int64[::1], int64[::1], int64[::1], int64)")
def measure(addresses, windows, rows, offsets):
    """Fill the offsets of texts; return how many bytes they have."""
    total = 0
    store(offsets, 0, np.int64(0))
    for k in range(windows.shape[0]):
        source = addresses[windows[k]]
        total += fetch(source, rows[k] + 1, np.int64) - fetch(source, rows[k], np.int64)
        store(offsets, k + 1, np.int64(total))
    return total


@jit("void(int64[::1], int64[::1], int64[::1], int64[::1], int64, int64)")
def copy_texts(addresses, texts, windows, rows, offsets, out):
    """Copy texts, one behind the other."""
    for k in range(windows.shape[0]):
        start = fetch(addresses[windows[k]], rows[k], np.int64)
        first = fetch(offsets, k, np.int64)
        source = texts[windows[k]]
        for b in range(fetch(offsets, k + 1, np.int64) - first):
            store(out, first + b, fetch(source, start + b, np.uint8))


def gather_width(addresses: _Array, windows: _Array, rows: _Array, width: int) -> _Array:
    """Return the values of ``width`` bytes at the given rows, as unsigned integers."""
    out = np.empty(len(rows) * max(1, width // 8), dtype=_UNSIGNED[width])
    (gather_pairs if width == 16 else gather_values)(addresses, windows, rows, out)
    return out


def gather_columns(jobs: list[int], memory: int) -> None:
    """Fetch many columns of up to 8 bytes a value into the memory at address ``memory``.

    ``jobs`` are the words of a :data:`crosswind.kernel.records.COLUMN_JOB` each.
    """
    move_columns.compiled(np.array(jobs, dtype=np.int64), memory)


def fill_messages() -> Callable[[int, int], None]:
    """Return what writes messages: it is given where jobs are, one behind the other, and how many numbers they have.

    A job is a :data:`crosswind.kernel.records.MESSAGE_JOB`.
    """
    kernel: Callable[[int, int], None] = fill.compiled
    return kernel


def gather_text(addresses: _Array, texts: _Array, windows: _Array, rows: _Array) -> tuple[_Array, _Array]:
    """Return offsets and bytes of the texts at the given rows."""
    offsets = np.empty(len(rows) + 1, dtype=np.int64)
    total = measure(addresses, windows, rows, offsets.ctypes.data)
    text = np.empty(max(1, total), dtype=np.uint8)
    copy_texts(addresses, texts, windows, rows, offsets.ctypes.data, text.ctypes.data)
    return offsets, text
