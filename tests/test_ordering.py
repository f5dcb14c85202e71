"""Output in time order: what is settled comes out, the rest waits, through a snapshot too."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from crosswind.engine.output.ordered import OrderedOutput

SCHEMA = pa.schema([("n", pa.int64())])


def held(*times: int, first: int = 0) -> OrderedOutput:
    """Return an output that holds results with these times, numbered as they came."""
    output = OrderedOutput(SCHEMA)
    numbers = pa.table({"n": range(first, first + len(times))}, schema=SCHEMA)
    output.hold(np.array(times, dtype=np.int64), numbers)
    return output


def released(output: OrderedOutput, watermark: int) -> list[int]:
    return [n for table in output.release(watermark) for n in table.column("n").to_pylist()]


def test_what_the_watermark_has_reached_comes_out_in_time_order():
    output = held(5, 3, 9, 4, 6)
    output.hold(np.array([3, 7], dtype=np.int64), pa.table({"n": [10, 11]}, schema=SCHEMA))
    assert released(output, 2) == []
    assert released(output, 5) == [1, 10, 3, 0], "equal times in the order they came"
    assert released(output, 5) == []
    assert released(output, 6) == [4]
    assert released(output, 8) == [11]
    assert released(output, 100) == [2], "the last one that waits"
    assert released(output, 1000) == []


def test_a_snapshot_holds_what_waits():
    output = held(5, 3, 9)
    assert released(output, 3) == [1]
    again = OrderedOutput(SCHEMA)
    again.unpack(output.pack())
    assert released(again, 4) == []
    assert released(again, 100) == [0, 2]
    empty = OrderedOutput(SCHEMA)
    empty.unpack(OrderedOutput(SCHEMA).pack())
    assert released(empty, 100) == []


def test_a_copy_is_independent():
    output = held(5, 3)
    twin = output.copy()
    output.hold(np.array([4], dtype=np.int64), pa.table({"n": [7]}, schema=SCHEMA))
    assert released(output, 100) == [1, 7, 0]
    assert released(twin, 100) == [1, 0]
