"""The same queries in our software on this machine, which takes STREAM's place in Figure 5.

Rates are for a second of processor time, not of the clock on the wall: with one worker they are the same
on an idle machine, and on a busy one the clock measures the others.
"""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

from crosswind.engine.session import open as open_join
from crosswind.lab.wjsp.workload import COLUMNS, nine_texts, schemas

__all__ = ["rate"]

_STRETCHES = 3
"""The best of so many counts: the first may still compile."""


def rate(names: tuple[str, ...], window: int, *, batch: int, seconds: float, seed: int = 1) -> float:
    """Return the tuples that a join of the queries takes in a second of processor time, once its windows are full.

    Parameters
    ----------
    names : tuple of str
        Queries of the nine.
    window : int
        Ticks of the longest window.
    batch : int
        Tuples in a push.
    seconds : float
        Processor time to measure for.
    seed : int
        Of the values.
    """
    rng = np.random.default_rng(seed)
    made = schemas()

    def push(tick: int) -> None:
        for name, columns in COLUMNS.items():
            values = [pa.py_buffer(rng.integers(0, 256, batch).astype(np.uint8)) for _ in columns]
            arrays = [pa.Array.from_buffers(pa.uint8(), batch, [None, buffer]) for buffer in values]
            ticks = pa.py_buffer(np.arange(tick, tick + batch))
            arrays.append(pa.Array.from_buffers(pa.int64(), batch, [None, ticks]))
            join.push(name, pa.RecordBatch.from_arrays(arrays, schema=made[name]))

    with open_join(nine_texts(window, names), made, workers=1) as join:
        tick = 0
        while tick < window + 2 * batch:
            push(tick)
            tick += batch
        rates = []
        for _ in range(_STRETCHES):
            began, first = time.process_time(), tick
            while time.process_time() - began < seconds / _STRETCHES:
                push(tick)
                tick += batch
            rates.append(len(COLUMNS) * (tick - first) / (time.process_time() - began))
        return max(rates)
