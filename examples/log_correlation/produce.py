"""Send two minutes of made-up logs to Kafka: errors of services, and requests at the gateway before them.

Needs ``pip install kafka-python`` (or ``crosswind[kafka]``), and the address of a broker in KAFKA_SERVERS.
"""

from __future__ import annotations

import json
import os
import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from kafka import KafkaProducer

SECONDS = 120


def messages() -> dict[str, list[dict[str, Any]]]:
    """Return the messages of each topic. One request in ten fails, and its error is logged a little later."""
    chance = random.Random(23)
    begin = datetime(2025, 1, 2, 9, 0)
    topics: dict[str, list[dict[str, Any]]] = {"errors": [], "gateway": []}
    for number in range(SECONDS * 5):
        at = begin + timedelta(milliseconds=200 * number + chance.randrange(200))
        ms = round(chance.expovariate(1 / 120))
        path = chance.choice(["/cart", "/pay", "/search"])
        topics["gateway"].append({"id": number, "path": path, "ms": ms, "ts": f"{at:%Y-%m-%d %H:%M:%S.%f}"[:-3]})
        if chance.random() < 0.1:
            failed = at + timedelta(milliseconds=chance.randrange(50, 900))
            row = {"id": number, "service": f"svc-{chance.randrange(4)}", "ms": max(0, ms - chance.randrange(20))}
            topics["errors"].append({**row, "ts": f"{failed:%Y-%m-%d %H:%M:%S.%f}"[:-3]})
    return topics


def main() -> None:
    """Send them, and make the folder into which the job writes."""
    (Path(__file__).parent / "data").mkdir(exist_ok=True)
    producer = KafkaProducer(
        bootstrap_servers=os.environ["KAFKA_SERVERS"], value_serializer=lambda row: json.dumps(row).encode()
    )
    for topic, rows in messages().items():
        for row in rows:
            producer.send(topic, row)
        print(f"{len(rows)} messages to {topic}")
    producer.flush(30)
    producer.close()


if __name__ == "__main__":
    main()
