"""``bench start``: how long a new process takes to its first result."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

from crosswind.bench.record import BenchReport, Goal, Measurement, Tell

__all__ = ["measure"]

_COLD_S = 3.0
_CACHED_S = 1.0

_PROGRAM = """
import sys
import pyarrow as pa
import crosswind as cw

width = int(sys.argv[1])
sql = (
    "SELECT R.x, R.y, S.a, S.b FROM R [RANGE 1 MINUTE], S [RANGE 1 MINUTE] "
    f"WHERE R.x BETWEEN S.a - {width} AND S.a + {width} AND R.y BETWEEN S.b - {width} AND S.b + {width}"
)
def tuple_of(names):
    types = (pa.timestamp("us"), pa.int32(), pa.float32())
    arrays = [pa.Array.from_buffers(t, 1, [None, pa.py_buffer(bytes(8))]) for t in types]
    return pa.RecordBatch.from_arrays(arrays, names=names)
r, s = tuple_of(["ts", "x", "y"]), tuple_of(["ts", "a", "b"])
with cw.open(sql, {"R": r.schema, "S": s.schema}) as join:
    join.push("R", r)
    assert join.push("S", s).num_rows == 1
"""


def measure(*, rounds: int, tell: Tell) -> BenchReport:
    """Start processes that open a join, push two tuples and get their result.

    Parameters
    ----------
    rounds : int
        Processes of each kind; medians are reported.
    tell : callable
        Told what is being done.
    """
    empty, new, known = [], [], []
    for round_ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            tell(f"round {round_ + 1} of {rounds}: nothing compiled yet")
            empty.append(_first_result_s(folder, 10))
            tell(f"round {round_ + 1} of {rounds}: a new query")
            new.append(_first_result_s(folder, 11))
            tell(f"round {round_ + 1} of {rounds}: a query seen before")
            known.append(_first_result_s(folder, 11))
    measurements = [
        Measurement("a new query", statistics.median(new), "s", Goal(_COLD_S, at_least=False)),
        Measurement("a query seen before", statistics.median(known), "s", Goal(_CACHED_S, at_least=False)),
        Measurement("the first query on a machine", statistics.median(empty), "s"),
    ]
    notes = ["From the start of Python to the first result; imports and compiling included. Kernels are kept on disk."]
    return BenchReport("start", "time to the first result of a new process", {"rounds": rounds}, measurements, notes)


def _first_result_s(folder: str, width: int) -> float:
    """Return the seconds that a process needs; ``width`` makes the query its own."""
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(width)], check=True, env={**os.environ, "CROSSWIND_CACHE_DIR": folder}
    )
    return time.perf_counter() - began
