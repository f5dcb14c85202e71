"""Riders who ask for a taxi, and the free taxis near them: a join on distance, live, in one process.

No column of one stream equals a column of the other, so engines that need an equality cannot run
this. A rider waits two minutes for an offer; a taxi's position is good for twenty seconds.

Run it with ``python examples/taxis_and_riders.py``.
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta

import pyarrow as pa

import crosswind as cw

OFFERS = """
    SELECT r.rider, t.taxi, hypot(r.x - t.x, r.y - t.y) AS distance_m, r.ts AS asked, t.ts AS seen
    FROM riders [RANGE 2 MINUTES] AS r, taxis [RANGE 20 SECONDS] AS t
    WHERE hypot(r.x - t.x, r.y - t.y) <= 250 AND t.free AND r.seats <= t.seats
"""
RIDERS = pa.schema(
    [
        ("rider", pa.string()),
        ("x", pa.float32()),
        ("y", pa.float32()),
        ("seats", pa.int8()),
        ("ts", pa.timestamp("ms")),
    ]
)
TAXIS = pa.schema(
    [
        ("taxi", pa.int32()),
        ("x", pa.float32()),
        ("y", pa.float32()),
        ("seats", pa.int8()),
        ("free", pa.bool_()),
        ("ts", pa.timestamp("ms")),
    ]
)
CITY_M = 5_000
TAXI_COUNT = 60
MINUTES = 3


def positions(chance: random.Random, second: datetime) -> pa.Table:
    """Return where every taxi is in this second, and whether it is free."""
    rows = [
        {
            "taxi": taxi,
            "x": chance.uniform(0, CITY_M),
            "y": chance.uniform(0, CITY_M),
            "seats": chance.choice([4, 4, 6]),
            "free": chance.random() < 0.5,
            "ts": second + timedelta(milliseconds=chance.randrange(1_000)),
        }
        for taxi in range(TAXI_COUNT)
    ]
    return pa.Table.from_pylist(rows, TAXIS)


def request(chance: random.Random, number: int, second: datetime) -> pa.Table:
    """Return one rider's request."""
    row = {
        "rider": f"rider-{number}",
        "x": chance.uniform(0, CITY_M),
        "y": chance.uniform(0, CITY_M),
        "seats": chance.choice([1, 2, 5]),
        "ts": second + timedelta(milliseconds=chance.randrange(1_000)),
    }
    return pa.Table.from_pylist([row], RIDERS)


def main() -> None:
    """Play a few minutes of a city, second by second, and print the first offer to each rider."""
    chance = random.Random(7)
    begin = datetime(2025, 1, 1, 8)
    answered: set[str] = set()
    with cw.open(OFFERS, {"riders": RIDERS, "taxis": TAXIS}) as join:
        for number in range(MINUTES * 60):
            second = begin + timedelta(seconds=number)
            found = [join.push("taxis", positions(chance, second))]
            if number % 15 == 0:
                found.append(join.push("riders", request(chance, number, second)))
            for offer in pa.concat_tables(found).sort_by("distance_m").to_pylist():
                if offer["rider"] not in answered:
                    answered.add(offer["rider"])
                    print(f"{offer['rider']:>10}: taxi {offer['taxi']:>2} at {offer['distance_m']:3.0f} m")
        join.finish()
        print(f"{join.stats.results} offers to {len(answered)} riders")


if __name__ == "__main__":
    main()
