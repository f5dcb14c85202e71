"""Readings of machines and alarms of a gate, from two threads that know nothing of each other, joined as they come.

An alarm is explained by readings of the last two seconds whose vibration is near its own. Nobody gathers
batches: a feeder takes whatever waits, pushes it, and prints what was found.

Run it with ``python examples/machines_and_alarms.py``.
"""

from __future__ import annotations

import random
import threading
import time

import pyarrow as pa

import crosswind as cw

EXPLAINED = """
    SELECT a.alarm, m.machine, m.vibration - a.vibration AS off_by
    FROM machines [RANGE 2 SECONDS] AS m, alarms [RANGE 2 SECONDS] AS a
    WHERE m.vibration BETWEEN a.vibration - 0.2 AND a.vibration + 0.2 AND m.hall = a.hall
"""
MACHINES = pa.schema({"ts": pa.timestamp("us"), "machine": pa.int32(), "hall": pa.string(), "vibration": pa.float64()})
ALARMS = pa.schema({"ts": pa.timestamp("us"), "alarm": pa.int32(), "hall": pa.string(), "vibration": pa.float64()})
HALLS = ("north", "south")
PLAYED_S, BURSTS, ALARMS_HEARD = 2.0, 200, 20


def now() -> int:
    """Return the time as the streams have it, in microseconds."""
    return time.time_ns() // 1_000


def read_machines(feeder: cw.Feeder) -> None:
    """Put bursts of readings: sometimes one, sometimes a hundred at a time."""
    rng = random.Random(1)
    for _ in range(BURSTS):
        for _ in range(rng.choice([1, 1, 1, 100])):
            reading = {"machine": [rng.randrange(50)], "hall": [rng.choice(HALLS)], "vibration": [rng.uniform(0, 9)]}
            feeder.put("machines", {"ts": [now()], **reading})
        time.sleep(PLAYED_S / BURSTS)


def hear_alarms(feeder: cw.Feeder) -> None:
    """Put an alarm now and then."""
    rng = random.Random(2)
    for alarm in range(ALARMS_HEARD):
        feeder.put(
            "alarms", {"ts": [now()], "alarm": [alarm], "hall": [rng.choice(HALLS)], "vibration": [rng.uniform(0, 9)]}
        )
        time.sleep(PLAYED_S / ALARMS_HEARD)


def show(table: pa.Table) -> None:
    """Print what was found."""
    for row in table.slice(0, 2).to_pylist():
        print(f"alarm {row['alarm']:>2}: machine {row['machine']:>2}, off by {row['off_by']:+.3f}")


def main() -> None:
    """Run both producers, and say how tuples were gathered."""
    with cw.open(EXPLAINED, {"machines": MACHINES, "alarms": ALARMS}) as join:
        with join.feeder(show, limit=1_000) as feeder:
            threads = [threading.Thread(target=work, args=(feeder,)) for work in (read_machines, hear_alarms)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            feeder.flush()
            stats = feeder.stats
        show(join.finish())
        each = stats["tuples"] / stats["pushes"]
        print(
            f"{stats['tuples']:,} tuples in {stats['pushes']:,} pushes, {each:.1f} each; {join.stats.results:,} results"
        )


if __name__ == "__main__":
    main()
