"""Make an hour of trades (Parquet, two files) and quotes (CSV) for ``job.toml`` to join."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

DATA = Path(__file__).parent / "data"
SYMBOLS = {"ABC": 100.0, "DEF": 42.0, "GHI": 7.5}
CENTS = pa.decimal128(10, 2)
TRADES = pa.schema([("symbol", pa.string()), ("price", CENTS), ("ts", pa.timestamp("ms"))])
QUOTES = pa.schema([("symbol", pa.string()), ("bid", CENTS), ("ask", CENTS), ("ts", pa.timestamp("ms"))])
SECONDS = 3_600


def cents(value: float) -> Decimal:
    """Return ``value`` rounded to cents."""
    return Decimal(f"{value:.2f}")


def main() -> None:
    """Write the files."""
    chance = random.Random(11)
    begin = datetime(2025, 1, 2, 9, 30)
    trades, quotes = [], []
    for second in range(SECONDS):
        for symbol, base in SYMBOLS.items():
            middle = base * (1 + 0.002 * chance.gauss(0, 1))
            ts = begin + timedelta(seconds=second, milliseconds=chance.randrange(1_000))
            spread = base * 0.0005
            quotes.append({"symbol": symbol, "bid": cents(middle - spread), "ask": cents(middle + spread), "ts": ts})
            if chance.random() < 0.3:
                ts = begin + timedelta(seconds=second, milliseconds=chance.randrange(1_000))
                trades.append({"symbol": symbol, "price": cents(middle), "ts": ts})
    trades.sort(key=lambda trade: trade["ts"])
    quotes.sort(key=lambda quote: quote["ts"])
    DATA.mkdir(exist_ok=True)
    half = len(trades) // 2
    for number, part in enumerate([trades[:half], trades[half:]], start=1):
        pa.parquet.write_table(pa.Table.from_pylist(part, TRADES), DATA / f"trades-{number}.parquet")
    pa.csv.write_csv(pa.Table.from_pylist(quotes, QUOTES), DATA / "quotes.csv")
    print(f"{len(trades)} trades and {len(quotes)} quotes in {DATA.name}/")


if __name__ == "__main__":
    main()
