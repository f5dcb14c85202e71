"""Jobs on Spark, through the command line."""

from __future__ import annotations

import json
import signal
import socket
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import crosswind as cw
from crosswind.testing import assert_same_rows, stream_from_text
from tests.conftest import SPARK
from tests.spark.command import processes_of, run_many, sink_table, start
from tests.waiting import wait_until

pytest.importorskip("pyspark")
pytestmark = [SPARK, pytest.mark.timeout(1500)]

SQL = "SELECT R.x, S.a, R.ts AS r_ts FROM R [RANGE 5 SECONDS], S [RANGE 3 SECONDS] WHERE abs(R.x - S.a) <= 1"
R = stream_from_text(
    """
    x | ts
    1 | 00:00:01
    2 | 00:00:02
    9 | 00:00:02.5
    5 | null
    3 | 00:00:10
    """,
    "x:int32, ts:timestamp[us]",
)
S = stream_from_text(
    """
    a | ts
    2 | 00:00:03
    9 | 00:00:07.6
    4 | 00:00:08
    """,
    "a:int32, ts:timestamp[us]",
)
MORE = stream_from_text("a | ts\n3 | 00:00:11\n7 | 00:00:12", "a:int32, ts:timestamp[us]")


def write_job(folder: Path, name: str, streams: str, sink: str, spark: str = "", query: str = SQL) -> list[str]:
    head = f'[job]\nquery = "{query}"\nlateness = "1 minute"\n'
    (folder / f"{name}.toml").write_text(f"{head}{streams}\n[sink]\n{sink}\n[spark]\n{spark}\n")
    return ["run", "--json", f"{name}.toml"]


@pytest.fixture
def folder(tmp_path):
    """Return a folder with streams in all formats that Spark reads."""
    for name in ("r", "s"):
        (tmp_path / name).mkdir()
    pq.write_table(R, tmp_path / "r" / "1.parquet")
    pa.csv.write_csv(S, tmp_path / "s" / "1.csv")
    rows = [{"x": row["x"], "ts": row["ts"] and row["ts"].isoformat()} for row in R.to_pylist()]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


FILES = """
[streams.R]
path = "r"
format = "parquet"
[streams.S]
path = "s/*.csv"
schema = { a = "int32", ts = "timestamp[us]" }
"""
LINES = """
[streams.R]
path = "r.jsonl"
schema = { x = "int32", ts = "timestamp[us]" }
[streams.S]
path = "s/1.csv"
schema = { a = "int32", ts = "timestamp[us]" }
"""
RATE = """
[streams.R]
rate = 20
columns = { x = "CAST(value % 10 AS INT)" }
[streams.S]
rate = 20
columns = { a = "CAST(value % 10 AS INT)" }
"""


def expected(*more: pa.Table) -> pa.Table:
    with pytest.warns(cw.NullTimeWarning):
        return cw.run(SQL, {"R": R, "S": pa.concat_tables([S, *more])})


def test_files_to_files_as_in_one_process_and_on_from_the_checkpoint(folder):
    job = write_job(folder, "files", FILES, 'path = "out.parquet"')
    local = [*write_job(folder, "local", FILES, 'path = "local.parquet"'), "--engine", "local"]
    pa.csv.write_csv(MORE, folder / "more.csv")
    first, again, third, here = run_many(job, job, ["cp", "more.csv", "s/2.csv"], job, local, cwd=folder)
    assert first.code == 0, first
    report = json.loads(first.stdout)
    assert (report["tuples_read"], report["rejected"], report["late"]) == ({"R": 5, "S": 3}, 1, 0)
    assert report["finished"] is True
    assert report["results"] == expected().num_rows
    assert json.loads(again.stdout)["results"] == 0
    assert json.loads(third.stdout)["tuples_read"] == {"R": 0, "S": 2}
    assert_same_rows(sink_table(folder / "out.parquet"), expected(MORE))
    assert here.code == 0, here
    assert_same_rows(pq.read_table(folder / "local.parquet"), sink_table(folder / "out.parquet"))


def test_other_sinks_and_what_goes_wrong(folder):
    write_job(folder, "console", LINES, 'console = true\nformat = "jsonl"')
    grid = 'layout = [1, 2]\nconf = { "spark.sql.shuffle.partitions" = 2 }'
    memory = write_job(folder, "memory", LINES, 'memory = "found"', grid)
    wrong = write_job(folder, "wrong", RATE.replace("value", "vlue", 1), 'memory = "found"')
    big = "SELECT R.x FROM R [RANGE 5 SECONDS], S [RANGE 5 SECONDS] WHERE R.x * 9223372036854775807 > S.a"
    overflow = write_job(folder, "overflow", LINES, "console = true", query=big)
    (folder / "bad").mkdir()
    (folder / "bad" / "1.csv").write_text("a,ts\none,2025-01-01 00:00:00\n")
    unreadable = write_job(folder, "unreadable", LINES.replace("s/1.csv", "bad/*.csv"), 'path = "no.csv"')
    (folder / "taken" / "_spark_metadata").mkdir(parents=True)
    taken = write_job(folder, "taken", LINES, 'path = "taken"\nformat = "csv"')
    commands = [["run", "console.toml"], memory, wrong, overflow, unreadable, taken]
    for command in commands[3:4]:
        command.remove("--json")
    shown, kept, refused, overflowed, malformed, occupied = run_many(*commands, cwd=folder)
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    assert_same_rows([{**row, "r_ts": row["r_ts"][:19]} for row in rows], _texts(expected()))
    assert "console: done" in shown.stderr
    assert json.loads(kept.stdout)["results"] == expected().num_rows
    assert (refused.code, overflowed.code, malformed.code, occupied.code) == (1, 1, 1, 1)
    assert "error: stream R: Spark says: " in refused.stderr
    assert "`vlue` cannot be resolved" in refused.stderr
    assert "computing R.x * 9223372036854775807 left the 64-bit range" in overflowed.stderr
    assert "bad/1.csv" in malformed.stderr
    assert "because: [MALFORMED_RECORD_IN_PARSING" in malformed.stderr
    assert "holds the results of a job whose checkpoint is not at" in occupied.stderr
    for done in (refused, overflowed, malformed, occupied):
        assert "Traceback" not in done.stderr
        assert "\tat " not in done.stderr


SPARK_SAID = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted. SQLSTATE: XXKST
=== Streaming Query ===
Identifier: q

JVM stacktrace:
org.apache.spark.sql.streaming.StreamingQueryException: Job aborted.
\tat org.apache.spark.Some.thing(Some.scala:1)
Caused by: org.apache.spark.SparkException: Job aborted. SQLSTATE: XX000
\tat org.apache.spark.Some.thing(Some.scala:2)
Caused by: java.io.IOException: No space left on device
\t... 1 more
"""


def test_a_failure_of_spark_is_few_words():
    from crosswind.spark.watch import failure_of

    assert str(failure_of(SPARK_SAID)) == "Spark says: Job aborted.\n  because: No space left on device"
    worker = "Traceback (most recent call last):\n  File 'x'\nValueError: no\n\n\tat org.apache.spark.X"
    assert str(failure_of(worker)) == "a worker failed: ValueError: no"


def _texts(table: pa.Table) -> list[dict[str, object]]:
    return [{**row, "r_ts": str(row["r_ts"])[:19]} for row in table.to_pylist()]


def test_lines_from_a_socket_until_it_is_stopped(folder):
    lines = {name: _lines(name, table) for name, table in (("R", R), ("S", S))}
    servers = {name: _serve(text) for name, text in lines.items()}
    streams = "".join(
        f'[streams.{name}]\nsocket = "127.0.0.1:{port}"\nformat = "csv"\n'
        f'schema = {{ {column} = "int32", ts = "timestamp[us]" }}\n'
        for (name, port), column in zip(servers.items(), ("x", "a"), strict=True)
    )
    write_job(folder, "lines", streams, 'console = true\nformat = "jsonl"', 'log = "spark.log"')
    count = expected().num_rows
    found: list[str] = []
    with start("run", "lines.toml", cwd=folder) as process:
        reader = threading.Thread(target=lambda: found.extend(process.stdout), daemon=True)
        reader.start()
        wait_until(lambda: len(found) >= count or process.poll() is not None, "results", 280)
        process.send_signal(signal.SIGINT)
        errors = process.stderr.read()
        assert process.wait(timeout=120) == 130, errors
        reader.join(timeout=30)
    assert "Traceback" not in errors
    assert errors.endswith("interrupted\n")
    assert "lines: stopped" in errors
    rows = [json.loads(line) for line in found]
    assert_same_rows([{**row, "r_ts": row["r_ts"][:19]} for row in rows], _texts(expected()))
    wait_until(lambda: not processes_of(process.pid), "the end of the JVM and its workers")


def _lines(name: str, table: pa.Table) -> bytes:
    column = {"R": "x", "S": "a"}[name]
    return "".join(f"{row[column]},{row['ts'] or ''}\n" for row in table.to_pylist()).encode()


def _serve(text: bytes) -> int:
    """Send ``text`` to whoever connects, and keep the connection; return the port."""
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen()
    kept = []

    def serve() -> None:
        while True:
            connection, _ = server.accept()
            connection.sendall(text)
            kept.append(connection)

    threading.Thread(target=serve, daemon=True).start()
    return int(server.getsockname()[1])
