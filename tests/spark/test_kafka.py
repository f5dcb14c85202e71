"""Kafka for real: a broker on this machine, messages in, the join, messages out."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import uuid
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from crosswind.testing import assert_same_rows
from tests import seeds
from tests.conftest import SPARK
from tests.oracle import Join, Output, Role, Window, expected_rows
from tests.spark.command import committed, kill_all, run_many, sink_table, start
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "scripts" / "kafka"
FETCH_SECONDS_MAX = 900
ROWS = 1500

pytestmark = [SPARK, pytest.mark.timeout(1500)]

JOB = """
[job]
query = "SELECT R.id, S.id AS other, R.x, S.a FROM R [RANGE 20 SECONDS], S [RANGE 20 SECONDS] WHERE abs(R.x - S.a) <= 2"
lateness = "1 hour"

[streams.R]
kafka = "{servers}"
topic = "{r}"
schema = {{ id = "int64", x = "int32", ts = "timestamp[us]" }}
options = {{ maxOffsetsPerTrigger = {offsets} }}

[streams.S]
kafka = "{servers}"
topic = "{s}"
schema = {{ id = "int64", a = "int32", ts = "timestamp[us]" }}
options = {{ maxOffsetsPerTrigger = {offsets} }}

[sink]
{sink}

[spark]
jars = "{jars}/*.jar"
trigger = "{trigger}"
"""


def kafka_script(command: str) -> str:
    environment = {**os.environ, "CROSSWIND_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, SCRIPT, command],
        capture_output=True,
        text=True,
        timeout=FETCH_SECONDS_MAX,
        check=False,
        env=environment,
    )
    if done.returncode != 0:
        pytest.skip(f"no Kafka here: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout.strip()


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """Return the address of a broker and the folder of the connector's jars."""
    pytest.importorskip("kafka", reason="kafka-python is not installed")
    if shutil.which("java") is None:
        pytest.skip("no Kafka here: there is no Java")
    jars = kafka_script("jars")
    address = kafka_script("start")
    yield address, jars
    kafka_script("stop")


def streams(rows: int) -> dict[str, pa.Table]:
    random = seeds.numbers(7)
    begin = datetime(2025, 1, 1)
    tables = {}
    for name, column in (("R", "x"), ("S", "a")):
        times = [begin + timedelta(milliseconds=int(t)) for t in np.sort(random.integers(0, 200_000, rows))]
        values = pa.array(random.integers(0, 500, rows), pa.int32())
        tables[name] = pa.table(
            {"id": pa.array(range(rows)), column: values, "ts": pa.array(times, pa.timestamp("us"))}
        )
    return tables


def expected(tables: dict[str, pa.Table]) -> list[tuple[object, ...]]:
    window = Window("range", Fraction(20))
    roles = (Role("R", "R", window), Role("S", "S", window))
    shown = (("id", 0, "id"), ("other", 1, "id"), ("x", 0, "x"), ("a", 1, "a"))
    join = Join(roles, tables, "abs(R.x - S.a) <= 2", tuple(Output(*entry) for entry in shown))
    return expected_rows(join)


def produce(address: str, topic: str, table: pa.Table, *, broken: int = 0) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=address)
    for row in table.to_pylist():
        producer.send(topic, json.dumps({**row, "ts": row["ts"].isoformat(sep=" ")}).encode())
    for _ in range(broken):
        producer.send(topic, b'{"id": ')
    producer.flush(60)
    producer.close()


def consume(address: str, topic: str) -> list[tuple[str, dict[str, int]]]:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        topic, bootstrap_servers=address, auto_offset_reset="earliest", consumer_timeout_ms=8_000, group_id=None
    )
    found = [(message.key.decode(), json.loads(message.value)) for message in consumer]
    consumer.close()
    return found


def make_topics(address: str) -> dict[str, str]:
    from kafka.admin import KafkaAdminClient, NewTopic

    mark = uuid.uuid4().hex[:8]
    names = {role: f"{role}-{mark}" for role in ("r", "s", "out")}
    admin = KafkaAdminClient(bootstrap_servers=address)
    admin.create_topics([NewTopic(name, 2, 1) for name in names.values()])
    admin.close()
    return names


def write_job(folder: Path, broker: tuple[str, str], topics: dict[str, str], sink: str, trigger: str) -> None:
    offsets = ROWS if trigger == "available now" else ROWS // 8
    text = JOB.format(
        servers=broker[0], jars=broker[1], r=topics["r"], s=topics["s"], sink=sink, trigger=trigger, offsets=offsets
    )
    (folder / "job.toml").write_text(text)


def kafka_sink(address: str, topic: str) -> str:
    return f'kafka = "{address}"\ntopic = "{topic}"\nkey = ["id", "other"]'


def rows_of_messages(messages: list[tuple[str, dict[str, int]]]) -> list[tuple[int, ...]]:
    return [tuple(row[name] for name in ("id", "other", "x", "a")) for _, row in messages]


def test_messages_go_in_and_results_come_out(broker, tmp_path):
    topics, tables = make_topics(broker[0]), streams(ROWS)
    produce(broker[0], topics["r"], tables["R"], broken=3)
    produce(broker[0], topics["s"], tables["S"])
    write_job(tmp_path, broker, topics, kafka_sink(broker[0], topics["out"]), "available now")
    first, again = run_many(["run", "--json", "job.toml"], ["run", "--json", "job.toml"], cwd=tmp_path)
    assert first.code == 0, first
    report = json.loads(first.stdout)
    assert report["tuples_read"] == {"R": ROWS + 3, "S": ROWS}
    assert (report["rejected"], report["late"], report["finished"]) == (3, 0, True)
    messages = consume(broker[0], topics["out"])
    assert sorted(rows_of_messages(messages)) == sorted(expected(tables))
    assert all(json.loads(key) == {"id": row["id"], "other": row["other"]} for key, row in messages)
    assert json.loads(again.stdout)["results"] == 0


@pytest.mark.long
@pytest.mark.parametrize("sink", ["files", "kafka"])
def test_a_kill_in_the_middle_loses_and_doubles_nothing(broker, tmp_path, sink):
    topics, tables = make_topics(broker[0]), streams(ROWS)
    produce(broker[0], topics["r"], tables["R"])
    produce(broker[0], topics["s"], tables["S"])
    where = 'path = "out.parquet"' if sink == "files" else kafka_sink(broker[0], topics["out"])
    write_job(tmp_path, broker, topics, where, "0 seconds")
    process = start("run", "job.toml", cwd=tmp_path)
    try:
        wait_until(lambda: committed(tmp_path / "job.checkpoint") >= 2, "two micro-batches", 600)
    finally:
        kill_all(process)
    assert committed(tmp_path / "job.checkpoint") < 8, "it was killed too late to show anything"
    write_job(tmp_path, broker, topics, where, "available now")
    (done,) = run_many(["run", "--json", "job.toml"], cwd=tmp_path)
    assert done.code == 0, done
    if sink == "files":
        got = sink_table(tmp_path / "out.parquet")
        assert_same_rows(got, [dict(zip(got.column_names, row, strict=True)) for row in expected(tables)])
    else:
        # Kafka's sink is at least once: what the batch that was killed had sent comes again, under the same key.
        messages = dict(consume(broker[0], topics["out"]))
        rows = [tuple(row[name] for name in ("id", "other", "x", "a")) for row in messages.values()]
        assert sorted(rows) == sorted(expected(tables))


def test_the_example_of_logs_runs(broker, tmp_path):
    servers, jars = broker
    for file in (ROOT / "examples" / "log_correlation").iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    environment = {**os.environ, "KAFKA_SERVERS": servers, "KAFKA_JARS": jars}
    for command in (["produce.py"], ["-m", "crosswind", "run", "--json", "job.toml"]):
        done = subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["tuples_read"]["gateway"] == 600
    assert sink_table(tmp_path / "data" / "correlated").num_rows == report["results"] > 0
