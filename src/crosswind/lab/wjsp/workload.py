"""The queries and streams of the paper's experiment (example 1 and section 5).

R(a, b, c), S(d, e) and T(f, g) with values of 0 to 255, all at the same rate: one tuple of
each at every tick. Windows are by time, as the processor tells them apart by times; at this rate a
window of 500 ticks is one of 500 tuples. The windows of the nine queries are scaled together, so that
the longest is as long as a part of Figure 5 says.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from crosswind.bench.queries import NINE
from crosswind.lab.wjsp.processor import Input
from crosswind.plan.compile import Plan, compile_plan
from crosswind.query import parse

__all__ = ["COLUMNS", "SEVEN", "input_of", "nine_texts", "plan_of", "schemas"]

COLUMNS = {"R": "abc", "S": "de", "T": "fg"}
SEVEN = tuple(name for name in NINE if name not in ("q5", "q9"))
"""The queries that STREAM could run, which knows no OR."""

_LONGEST = 2_000
_VALUES = 256


def schemas() -> dict[str, pa.Schema]:
    """Return the schemas of the streams."""
    return {
        name: pa.schema([*((column, pa.uint8()) for column in columns), ("ts", pa.int64())])
        for name, columns in COLUMNS.items()
    }


def nine_texts(window: int, names: Iterable[str] = tuple(NINE)) -> dict[str, str]:
    """Return queries of the nine, their longest window being ``window`` ticks."""
    texts = {}
    for name in names:
        streams, condition, length = NINE[name]
        entries = ", ".join(f"{stream} [RANGE {max(1, length * window // _LONGEST)}]" for stream in streams)
        texts[name] = f"SELECT * FROM {entries} WHERE {condition}"
    return texts


def plan_of(texts: dict[str, str]) -> Plan:
    """Return the plan of queries over the streams."""
    return compile_plan({name: parse(text, schemas()) for name, text in texts.items()}, many=True)


def input_of(ticks: int, seed: int, values: int = _VALUES) -> Input:
    """Return a tuple of each stream for each tick, in the order R, S, T."""
    rng = np.random.default_rng(seed)
    count = len(COLUMNS)
    return Input(
        units=np.tile(np.arange(count), ticks),
        values=rng.integers(0, values, (count * ticks, 4)),
        times=np.repeat(np.arange(ticks), count),
    )
