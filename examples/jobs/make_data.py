"""Make the streams that the jobs of this folder join: taxis and riders, orders and payments, three sensors.

First ``python make_data.py``, then ``crosswind run taxis.toml``, ``unpaid.toml`` or ``sensors.toml``.
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

DATA = Path(__file__).parent / "data"
BEGIN = datetime(2025, 1, 2, 9, 0)
CITY_M = 5_000


def at(seconds: float) -> datetime:
    """Return a moment of that morning."""
    return BEGIN + timedelta(milliseconds=round(1_000 * seconds))


def taxis(chance: random.Random) -> dict[str, list[dict[str, Any]]]:
    """Return ten minutes of taxis, each seen every ten seconds on its way, and of riders who ask for one."""
    place = {taxi: (chance.uniform(0, CITY_M), chance.uniform(0, CITY_M)) for taxi in range(40)}
    seen = []
    for tick in range(0, 600, 10):
        for taxi, (x, y) in place.items():
            place[taxi] = (x + chance.uniform(-90, 90), y + chance.uniform(-90, 90))
            seen.append({"taxi": taxi, "x": x, "y": y, "free": chance.random() < 0.6, "ts": at(tick + taxi / 10)})
    asked = [
        {"rider": rider, "x": chance.uniform(0, CITY_M), "y": chance.uniform(0, CITY_M), "ts": at(7 * rider)}
        for rider in range(80)
    ]
    return {"taxis": seen, "riders": asked}


def orders(chance: random.Random) -> dict[str, list[dict[str, Any]]]:
    """Return two hours of orders; most are paid within a quarter of an hour, some later, some never."""
    made = [{"id": number, "cents": chance.randrange(500, 9_000), "ts": at(60 * number)} for number in range(120)]
    paid = []
    for order in made:
        if chance.random() < 0.9:
            delay = timedelta(minutes=chance.choice([1, 2, 5, 9, 14, 25]))
            paid.append({"order_id": order["id"], "cents": order["cents"], "ts": order["ts"] + delay})
    return {"orders": made, "payments": sorted(paid, key=lambda payment: payment["ts"])}


def sensors(chance: random.Random) -> dict[str, list[dict[str, Any]]]:
    """Return ten minutes of a machine's temperature, vibration and power, which rise together now and then."""
    streams: dict[str, list[dict[str, Any]]] = {"temperature": [], "vibration": [], "power": []}
    for second in range(600):
        strain = 1.0 if second % 150 > 140 else 0.0
        for rows in streams.values():
            rows.append({"value": chance.gauss(20, 2) + 15 * strain, "ts": at(second + chance.random())})
    return {name: sorted(rows, key=lambda row: row["ts"]) for name, rows in streams.items()}


def main() -> None:
    """Write the files."""
    DATA.mkdir(exist_ok=True)
    chance = random.Random(7)
    for streams in (taxis(chance), orders(chance), sensors(chance)):
        for name, rows in streams.items():
            table = pa.Table.from_pylist(rows)
            table = table.set_column(table.num_columns - 1, "ts", table.column("ts").cast(pa.timestamp("ms")))
            if name in ("orders", "payments"):
                pa.csv.write_csv(table, DATA / f"{name}.csv")
            else:
                pa.parquet.write_table(table, DATA / f"{name}.parquet")
            print(f"{table.num_rows} tuples of {name}")


if __name__ == "__main__":
    main()
