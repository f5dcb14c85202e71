"""Orders that were not paid within fifteen minutes, the moment that is known.

Run it with ``python examples/orders_without_payments.py``.
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta

import pyarrow as pa

import crosswind as cw

UNPAID = """
    SELECT o.id, o.amount, o.ts AS ordered
    FROM orders [RANGE 15 MINUTES] AS o LEFT ANTI JOIN payments [NOW] AS p
    ON p.order_id = o.id AND p.amount >= o.amount
"""
SCHEMAS = {
    "orders": pa.schema([("id", pa.int64()), ("amount", pa.decimal128(10, 2)), ("ts", pa.timestamp("s"))]),
    "payments": pa.schema([("order_id", pa.int64()), ("amount", pa.decimal128(10, 2)), ("ts", pa.timestamp("s"))]),
}


def main() -> None:
    """Play an hour of orders; most are paid, some too late or too little."""
    rng = random.Random(5)
    start = datetime(2025, 1, 2, 9, 0)
    events = []
    for number in range(60):
        at = start + timedelta(minutes=number)
        events.append((at, "orders", {"id": [number], "amount": ["10.00"], "ts": [at]}))
        delay = rng.choice([1, 3, 8, 14, 14, 20])
        paid = at + timedelta(minutes=delay)
        amount = rng.choice(["10.00", "10.00", "10.00", "9.00"])
        events.append((paid, "payments", {"order_id": [number], "amount": [amount], "ts": [paid]}))
    unpaid = 0
    with cw.open(UNPAID, SCHEMAS) as join:
        for at, stream, row in sorted(events, key=lambda event: event[:2]):
            for found in join.push(stream, pa.table(_typed(row, SCHEMAS[stream]))).to_pylist():
                print(f"{at:%H:%M} order {found['id']} of {found['ordered']:%H:%M} has not been paid")
                unpaid += 1
        unpaid += join.finish().num_rows
    print(f"{unpaid} of 60 orders were not paid in time")


def _typed(row: dict[str, list[object]], schema: pa.Schema) -> dict[str, pa.Array]:
    arrays = {}
    for field in schema:
        array = pa.array(row[field.name])
        arrays[field.name] = array.cast(field.type)
    return arrays


if __name__ == "__main__":
    main()
