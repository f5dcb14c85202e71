"""One join, five strategies: the same rows, and what each worker did for them.

A band over a product, so that no index helps: every pair is compared, and the comparisons are spread. CellJoin
cuts the windows among its workers, DP-Join lays them out as a grid, Handshake Join lets the streams walk past
each other along a row, SplitJoin sends every tuple to all; ``kang`` is one thread.

Run it with ``python examples/engines_side_by_side.py``.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import crosswind as cw

SQL = """
SELECT R.x, S.a FROM R [RANGE 2 SECONDS], S [RANGE 2 SECONDS]
WHERE (R.x * S.a) % 1009 BETWEEN 500 AND 501
"""
BATCH, BATCHES, RATE = 500, 12, 1_000


def batches(seed: int, column: str) -> list[pa.Table]:
    """Return the tuples of a stream, ``RATE`` a second."""
    rng = np.random.default_rng(seed)
    times = np.arange(BATCH * BATCHES) * 1_000_000 // RATE
    table = pa.table(
        {column: rng.integers(1, 10_000, len(times)), "ts": pa.array(times, pa.int64()).cast(pa.timestamp("us"))}
    )
    return [table.slice(at, BATCH) for at in range(0, len(times), BATCH)]


def main() -> None:
    """Push the same batches into each engine."""
    streams = {"R": batches(1, "x"), "S": batches(2, "a")}
    schemas = {name: parts[0].schema for name, parts in streams.items()}
    found = {}
    for engine, options in {
        "kang": {},
        "cell": {"workers": 2},
        "grid": {"layout": (1, 2)},
        "handshake": {"workers": 2},
        "split": {"workers": 2},
    }.items():
        with cw.open(SQL, schemas, engine=engine, **options) as join:
            at_once = [join.push(name, streams[name][k]) for k in range(BATCHES) for name in streams]
            later = join.finish()
            load = ", ".join(f"{shift.matches:,}" for shift in join.stats.workers) or "all"
        found[engine] = sorted(zip(*pa.concat_tables([*at_once, later]).to_pydict().values(), strict=True))
        soon = sum(table.num_rows for table in at_once)
        print(f"{engine:>10}: {soon:>6,} results at once, {later.num_rows:>6,} at the end; found by worker: {load}")
    print("the same rows:", all(rows == found["kang"] for rows in found.values()))


if __name__ == "__main__":
    main()
