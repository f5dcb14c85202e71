"""The nine standing queries of the WJSP paper, in one join.

R(a, b, c), S(d, e) and T(f, g) hold values of 0 to 255; every query has its own windows. The queries
share streams, windows and comparisons; one more is added while they run.

Run it with ``python examples/nine_queries.py``.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import crosswind as cw

COLUMNS = {"R": "abc", "S": "de", "T": "fg"}
QUERIES = {
    "q1": "SELECT * FROM R [ROWS 500], S [ROWS 500] WHERE R.a = S.d",
    "q2": "SELECT * FROM R [ROWS 1000], S [ROWS 1000], T [ROWS 1000] WHERE R.a = S.d AND S.e = T.f",
    "q3": "SELECT * FROM S [ROWS 500], T [ROWS 500] WHERE S.e = T.f",
    "q4": "SELECT * FROM R [ROWS 1000], S [ROWS 1000] WHERE R.b = S.e",
    "q5": "SELECT * FROM R [ROWS 500], S [ROWS 500] WHERE R.a = S.d OR R.c = S.e",
    "q6": "SELECT * FROM S [ROWS 1000], T [ROWS 1000] WHERE S.e = T.g",
    "q7": "SELECT * FROM R [ROWS 1000], S [ROWS 1000] WHERE R.a = S.d AND R.c = S.e",
    "q8": "SELECT * FROM S [ROWS 2000], T [ROWS 2000] WHERE S.d = T.f",
    "q9": "SELECT * FROM R [ROWS 2000], S [ROWS 2000], T [ROWS 2000] WHERE (R.c = S.e OR S.e = T.f) AND R.a = S.d",
}


def main() -> None:
    """Push 3,000 tuples of each stream and count results."""
    rng = np.random.default_rng(1)
    schemas = {
        name: pa.schema([*((column, pa.uint8()) for column in columns), ("ts", pa.int64())])
        for name, columns in COLUMNS.items()
    }
    counts: dict[str, int] = {}
    with cw.open(QUERIES, schemas) as join:
        for at in range(0, 3_000, 250):
            if at == 1_500:
                join.add("late", "SELECT R.a FROM R [ROWS 100], T [ROWS 100] WHERE R.a = T.g AND R.b < T.f")
            for name, columns in COLUMNS.items():
                values = {column: rng.integers(0, 256, 250).astype(np.uint8) for column in columns}
                for query, table in join.push(name, {**values, "ts": np.arange(at, at + 250)}).items():
                    counts[query] = counts.get(query, 0) + table.num_rows
        for query, table in join.finish().items():
            counts[query] = counts.get(query, 0) + table.num_rows
    for query, count in counts.items():
        print(f"{query:>5} {count:>9,}")


if __name__ == "__main__":
    main()
