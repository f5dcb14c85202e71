"""A room that is hot, stuffy and occupied, all within half a minute: three streams of sensors.

Sensors do not report at the same time, and no two values are equal: the join is on the room, on
time, and on a condition over all three.

Run it with ``python examples/three_sensors.py``.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import crosswind as cw

STUFFY = """
    SELECT t.room, t.celsius, c.ppm, p.persons, t.ts AS measured
    FROM heat [RANGE 30 SECONDS] AS t, air [RANGE 30 SECONDS] AS c, people [RANGE 30 SECONDS] AS p
    WHERE t.room = c.room AND c.room = p.room AND t.celsius > 24 AND c.ppm - 400 > 150 * p.persons AND p.persons > 0
"""


def stream(column: str, values: np.ndarray, seed: int) -> pa.Table:
    """Return reports of 20 rooms over ten minutes."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, 600_000, len(values)))
    return pa.table(
        {
            "room": rng.integers(0, 20, len(values)),
            column: values,
            "ts": pa.array(times, pa.timestamp("ms")),
        }
    )


def main() -> None:
    """Join the streams as if they were live, and show which way tuples go."""
    rng = np.random.default_rng(1)
    tables = {
        "heat": stream("celsius", rng.normal(22, 2, 2_000), 2),
        "air": stream("ppm", rng.integers(380, 1_200, 2_000), 3),
        "people": stream("persons", rng.integers(0, 6, 2_000), 4),
    }
    found = 0
    with cw.open(STUFFY, {name: table.schema for name, table in tables.items()}) as join:
        for second in range(0, 600, 2):
            for name, table in tables.items():
                times = table["ts"].to_numpy().astype("int64")
                rows = np.flatnonzero((times >= second * 1000) & (times < second * 1000 + 2000))
                found += join.push(name, table.take(pa.array(rows))).num_rows
        found += join.finish().num_rows
        print(f"{found} times a room was hot, stuffy and occupied")
        for name, way in join.stats.routes.items():
            print(f"  tuples of {name} go by {way}")


if __name__ == "__main__":
    main()
