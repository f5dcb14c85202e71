"""One cell by itself, fed by hand: what tests of its state share."""

from __future__ import annotations

import pyarrow as pa

from crosswind.spark.cell import Cell, CellInput, Report

SCHEMA = pa.schema([("x", pa.int64()), ("ts", pa.int64())])
SCHEMAS = {"R": SCHEMA, "S": SCHEMA}
CROSS = "SELECT R.x, S.x AS a FROM R [RANGE 10], S [RANGE 10]"
BAND = f"{CROSS} WHERE abs(R.x - S.x) <= 3"


def batch(*tuples: tuple[int, int | None]) -> pa.Table:
    return pa.Table.from_pylist([{"x": x, "ts": ts} for x, ts in tuples], SCHEMA)


def pairs(table: pa.Table) -> list[tuple]:
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))


def feed(cell: Cell, milliseconds: int = 0, **tables: pa.Table) -> tuple[list[tuple], Report]:
    report = Report()
    arrivals = [CellInput("RS".index(name), True, table.to_batches()[0]) for name, table in tables.items()]
    parts = [table for _, table in cell.process(arrivals, milliseconds, report)]
    return (pairs(pa.concat_tables(parts)) if parts else []), report
