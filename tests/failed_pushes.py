"""Pushes that fail: batches that are refused, and errors raised at any line of the package.

Whoever makes a push fail says what may come of it: a batch that is refused leaves the join as it was.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa

import crosswind

PACKAGE = str(Path(crosswind.__file__).parent)
ERRORS = (MemoryError, KeyboardInterrupt)
LINES_MAX = 3.4
"""Power of ten: as many lines of the package a fault waits at most."""


@contextmanager
def raise_at_line(count: int, error: type[BaseException]) -> Iterator[list[str]]:
    """Raise ``error`` in this thread before line number ``count`` that the package runs.

    Yields a list that says where it was raised, once it was.
    """
    where: list[str] = []
    left = count

    def enter(frame: FrameType, event: str, _: Any) -> Any:
        return step if event == "call" and frame.f_code.co_filename.startswith(PACKAGE) else None

    def step(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if event == "line" and not where:
            left -= 1
            if left < 0:
                where.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_name}")
                raise error(f"injected at {where[0]}")
        return step

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield where
    finally:
        sys.settrace(before)


def wait_of(rng: random.Random) -> int:
    """Return how many lines to let pass: few and many are equally likely."""
    return int(10 ** rng.uniform(0, LINES_MAX))


def spoil(batch: pa.Table, time: str, rng: random.Random) -> tuple[str, Any]:
    """Return a batch that no join with this time column can take, and what is wrong with it."""
    batch = _padded(batch)  # what has no rows may have any types
    match rng.randrange(5 if batch.num_columns > 1 else 4):  # a column alone has no other length
        case 0:
            return "without its times", batch.drop_columns([time])
        case 1:
            return "lists as times", _with(batch, time, pa.array([[1]] * batch.num_rows, pa.list_(pa.int8())))
        case 2:
            return "words as times", _with(batch, time, pa.array(["soon"] * batch.num_rows, pa.string()))
        case 3:
            return "no batch", rng.choice([None, 7, "batch", object()])
        case _:
            columns = batch.to_pydict()
            columns[time] = columns[time] * 2
            return "columns of different lengths", columns


def overflowing(batch: pa.Table, time: str, rng: random.Random) -> pa.Table | None:
    """Return the batch with integers so large that arithmetic with them overflows; None: it has no such column."""
    wide = [field.name for field in batch.schema if field.type == pa.int64() and field.name != time]
    if not wide or not batch.num_rows:
        return None
    changed = batch
    for name in wide:
        values = batch.column(name).to_pylist()
        for _ in range(rng.randint(1, 3)):
            values[rng.randrange(len(values))] = rng.choice([2**62, -(2**62), 2**63 - 1, -(2**63)])
        changed = _with(changed, name, pa.array(values, pa.int64()))
    return changed


def _with(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, values)


def _padded(table: pa.Table) -> pa.Table:
    """Return the table with a row at least."""
    if table.num_rows:
        return table
    return pa.table({field.name: pa.nulls(1, field.type) for field in table.schema})


def counters(stats: Any) -> dict[str, Any]:
    """Return what a call that fails must leave as it was."""
    names = ("tuples_in", "late", "rejected", "shed", "results", "held", "window_tuples", "watermarks")
    return {name: getattr(stats, name) for name in names}


def was_taken(stream: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether the counters say that the call took the batch, though it failed."""
    counted = ("tuples_in", "late", "rejected", "shed", "watermarks")
    return any(before[name][stream] != after[name][stream] for name in counted)
