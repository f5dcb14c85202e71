"""Gathering: the columns of matched tuples, fetched from where they wait.

Rows are named ``<basic window, i>``; a table holds, per basic window, the address of
the column. One kernel a width serves all types.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from crosswind.kernel.jit import jit
from crosswind.kernel.runtime import at

__all__ = ["gather_text", "gather_width", "text_lengths"]


@jit("void(int64[::1], int64[::1], int64[::1], uint8[::1])")
def _gather_1(addresses, windows, rows, out):
    for k in range(windows.shape[0]):
        out[k] = at(addresses[windows[k]], rows[k] + 1, np.uint8)[rows[k]]


@jit("void(int64[::1], int64[::1], int64[::1], uint16[::1])")
def _gather_2(addresses, windows, rows, out):
    for k in range(windows.shape[0]):
        out[k] = at(addresses[windows[k]], rows[k] + 1, np.uint16)[rows[k]]


@jit("void(int64[::1], int64[::1], int64[::1], uint32[::1])")
def _gather_4(addresses, windows, rows, out):
    for k in range(windows.shape[0]):
        out[k] = at(addresses[windows[k]], rows[k] + 1, np.uint32)[rows[k]]


@jit("void(int64[::1], int64[::1], int64[::1], uint64[::1])")
def _gather_8(addresses, windows, rows, out):
    for k in range(windows.shape[0]):
        out[k] = at(addresses[windows[k]], rows[k] + 1, np.uint64)[rows[k]]


@jit("void(int64[::1], int64[::1], int64[::1], uint64[::1])")
def _gather_16(addresses, windows, rows, out):
    for k in range(windows.shape[0]):
        pairs = at(addresses[windows[k]], 2 * rows[k] + 2, np.uint64)
        out[2 * k] = pairs[2 * rows[k]]
        out[2 * k + 1] = pairs[2 * rows[k] + 1]


@jit("int64(int64[::1], int64[::1], int64[::1], int64[::1])")
def text_lengths(addresses, windows, rows, offsets):
    """Fill the offsets of the gathered texts; return their bytes in all."""
    total = 0
    offsets[0] = 0
    for k in range(windows.shape[0]):
        source = at(addresses[windows[k]], rows[k] + 2, np.int64)
        total += source[rows[k] + 1] - source[rows[k]]
        offsets[k + 1] = total
    return total


@jit("void(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], uint8[::1])")
def gather_text(addresses, texts, windows, rows, offsets, out):
    """Copy the bytes of the gathered texts to where ``offsets`` says."""
    for k in range(windows.shape[0]):
        start = at(addresses[windows[k]], rows[k] + 2, np.int64)[rows[k]]
        length = offsets[k + 1] - offsets[k]
        source = at(texts[windows[k]], start + length, np.uint8)
        for b in range(length):
            out[offsets[k] + b] = source[start + b]


_BY_WIDTH = {1: _gather_1, 2: _gather_2, 4: _gather_4, 8: _gather_8, 16: _gather_16}


def gather_width(addresses: np.ndarray, windows: np.ndarray, rows: np.ndarray, width: int) -> np.ndarray:
    """Return the values of ``width`` bytes at the given rows, as unsigned integers."""
    out = np.empty(len(rows) * max(1, width // 8), dtype=f"uint{8 * min(width, 8)}")
    _BY_WIDTH[width](addresses, windows, rows, out)
    return out
