"""A small suite for one version of PySpark, in a process of its own: ``python -m tests.spark.versions [NAME ...]``.

It needs nothing but Crosswind, PySpark and what they need. ``make test-spark-versions`` runs it with each minor version
that the registry has. Prints a line of JSON: the version, and for each check ``ok``, ``refused`` or what went wrong.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import crosswind as cw

ROOT = Path(__file__).parents[2]
SCHEMA = pa.schema([("x", pa.int64()), ("word", pa.string()), ("ts", pa.timestamp("us", "UTC"))])
COLUMNS = "x long, word string, ts timestamp"
BAND = "SELECT R.x, S.x AS a FROM R [RANGE 10 SECONDS], S [RANGE 10 SECONDS] WHERE abs(R.x - S.x) <= 1"
CONNECT, DELTA = "connect", "delta"
DELTA_VERSION = "4.4.0"
"""Of Delta's jars on Maven Central; each is built for one minor version of Spark."""
NONE = "no release"
"""How the check with Delta ends where there is no Delta for this version of Spark."""
REFUSED = "refused"
"""How a check ends that Crosswind says cannot be run with this version."""
ATTEMPTS = 4
OVERLOADED = "Python worker failed to connect back"
"""What Spark says when a worker takes more than ten seconds to start: it is tried again, on a loaded machine."""

Row = tuple[int, str, int]
"""x, word, and the time in seconds."""


def rows(name: str, start: int) -> list[Row]:
    """Return ten tuples, one a second."""
    step = {"R": 3, "S": 5}[name]
    return [(k * step % 8, "ab"[k % 2], k) for k in range(start, start + 10)]


def write(folder: Path, name: str, number: int, data: list[Row]) -> None:
    """Add a file to the stream ``name``."""
    columns = [[row[0] for row in data], [row[1] for row in data], [1_000_000 * row[2] for row in data]]
    where = folder / f"in-{name}"
    where.mkdir(parents=True, exist_ok=True)
    hidden = where / f".{number}.parquet"
    pq.write_table(pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA), hidden)
    os.utime(hidden, (1_600_000_000 + number, 1_600_000_000 + number))
    hidden.rename(where / f"{number}.parquet")


def meet(r: Row, s: Row, window: int = 10) -> bool:
    """Whether two tuples are in each other's window."""
    return abs(r[2] - s[2]) < window


def band(left: list[Row], right: list[Row]) -> list[tuple[Any, ...]]:
    """Return what BAND gives."""
    return sorted((r[0], s[0]) for r in left for s in right if meet(r, s) and abs(r[0] - s[0]) <= 1)


def streams(spark: Any, folder: Path) -> dict[str, Any]:
    """Return the streaming frames."""
    reader = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
    return {name: reader.parquet(str(folder / f"in-{name}")) for name in "RS"}


def run(joined: Any, folder: Path, form: str = "parquet") -> Any:
    """Run a streaming join until there is no more input; return the query."""
    writer = joined.writeStream.format(form).option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(folder / "out"))
    assert cw.spark.wait(query, 900), query.status
    return query


def found(spark: Any, joined: Any, folder: Path) -> list[tuple[Any, ...]]:
    """Return what was written."""
    return ordered(spark.read.schema(joined.schema).parquet(str(folder / "out")).collect())


def ordered(data: Any) -> list[tuple[Any, ...]]:
    """Return rows as sorted tuples, nulls first."""
    return sorted((tuple(row) for row in data), key=lambda row: [(value is not None, value) for value in row])


# ---------------------------------------------------------------------------------- checks


def static(spark: Any, folder: Path) -> None:
    """Join complete frames."""
    frames = {}
    for name in "RS":
        write(folder, name, 0, rows(name, 0))
        frames[name] = spark.read.schema(COLUMNS).parquet(str(folder / f"in-{name}"))
    assert ordered(cw.spark.join(BAND, frames, cells=2).collect()) == band(rows("R", 0), rows("S", 0))


def streaming(spark: Any, folder: Path) -> None:
    """Join streams, stop, and go on from the checkpoint: state, restart, counters."""
    data: dict[str, list[Row]] = {"R": [], "S": []}
    results = 0
    for number in range(2):
        for name in "RS":
            data[name] += rows(name, 5 * number)
            write(folder, name, number, rows(name, 5 * number))
        joined = cw.spark.join(BAND, streams(spark, folder), lateness="10 seconds", cells=2)
        query = run(joined, folder)
        told = [cw.spark.progress_of(entry) for entry in query.recentProgress]
        results += sum(entry.results for entry in told if entry is not None)
        expected = band(data["R"], data["S"])
        assert found(spark, joined, folder) == expected
        assert results == len(expected), f"{results} counted, {len(expected)} found"


def outer(spark: Any, folder: Path) -> None:
    """Join with LEFT, whose state has a bit per tuple; unmatched tuples come out when their windows have closed."""
    sql = "SELECT R.x, S.x AS a FROM R [RANGE 10 SECONDS] LEFT JOIN S [RANGE 10 SECONDS] ON R.x = S.x + 4"
    left, right = rows("R", 0), rows("S", 0)
    for number, (r, s) in enumerate([(left, right), ([(90, "a", 100)], [(91, "a", 100)]), ([(92, "a", 101)], [])]):
        write(folder, "R", number, r)
        write(folder, "S", number, s)
    joined = cw.spark.join(sql, streams(spark, folder))
    run(joined, folder)
    matches = {r: [s[0] for s in right if meet(r, s) and r[0] == s[0] + 4] for r in left}
    expected = [(r[0], a) for r, some in matches.items() for a in some or [None]]
    assert {a is None for _, a in expected} == {True, False}
    assert found(spark, joined, folder) == ordered(expected)


def many(spark: Any, folder: Path) -> None:
    """Several queries in one join."""
    queries = {"near": BAND, "same": BAND.replace("abs(R.x - S.x) <= 1", "R.word = S.word")}
    left, right = rows("R", 0), rows("S", 0)
    write(folder, "R", 0, left)
    write(folder, "S", 0, right)
    joined = cw.spark.join(queries, streams(spark, folder), cells=1)
    run(joined, folder)
    expected = [("near", *pair) for pair in band(left, right)]
    expected += [("same", r[0], s[0]) for r in left for s in right if meet(r, s) and r[1] == s[1]]
    assert found(spark, joined, folder) == ordered(expected)


def pipeline(spark: Any, folder: Path) -> None:
    """Count results per ten seconds of a member's time, behind the join."""
    from pyspark.sql import functions as sf

    sql = "SELECT R.x, S.x AS a, R.ts FROM R [RANGE 10 SECONDS], S [RANGE 10 SECONDS] WHERE abs(R.x - S.x) <= 1"
    left, right = rows("R", 100), rows("S", 100)
    for number, (r, s) in enumerate([(left, right), ([(90, "a", 900)], [(95, "a", 900)])]):
        write(folder, "R", number, r)
        write(folder, "S", number, s)
    joined = cw.spark.join(sql, streams(spark, folder))
    counted = joined.groupBy(sf.window("ts", "10 seconds")).agg(sf.count("*").alias("n"))
    counted = counted.select(sf.unix_timestamp("window.start").alias("start"), "n")
    run(counted, folder)
    found_in: dict[int, int] = {}
    for r in left:
        for s in right:
            if meet(r, s) and abs(r[0] - s[0]) <= 1:
                found_in[r[2] // 10 * 10] = found_in.get(r[2] // 10 * 10, 0) + 1
    assert found(spark, counted, folder) == ordered(found_in.items())


def late(spark: Any, folder: Path) -> None:
    """Give out late tuples."""
    batches = [(rows("R", 100), rows("S", 100)), ([(7, "b", 101), (8, "c", 102)], [(9, "d", 109)])]
    for number, (r, s) in enumerate(batches):
        write(folder, "R", number, r)
        write(folder, "S", number, s)
    joined = cw.spark.join(BAND, streams(spark, folder), cells=2, late="late")
    run(joined, folder)
    told = spark.read.schema(joined.schema).parquet(str(folder / "out")).where("late IS NOT NULL")
    rest = told.selectExpr("late.stream", "late.reason", "late.R.x", "late.R.word").collect()
    assert ordered(rest) == [("R", "late", 7, "b"), ("R", "late", 8, "c")]


def error(spark: Any, folder: Path) -> None:
    """Bring an error in a worker back as Crosswind's own."""
    sql = "SELECT R.x FROM R [RANGE 9 SECONDS], S [RANGE 9 SECONDS] WHERE (R.x + S.x + 9223372036854775800) * 1 > 0"
    for name in "RS":
        write(folder, name, 0, rows(name, 0))
    try:
        run(cw.spark.join(sql, streams(spark, folder)), folder)
    except cw.ArithmeticOverflowError:
        return
    raise AssertionError("no error")


def delta(spark: Any, folder: Path) -> None:
    """Read streams from Delta tables and write results to one, stop, and go on from the checkpoint."""
    data: dict[str, list[Row]] = {"R": [], "S": []}
    for number in range(2):
        for name in "RS":
            data[name] += rows(name, 5 * number)
            write(folder, name, number, rows(name, 5 * number))
            fresh = spark.read.schema(COLUMNS).parquet(str(folder / f"in-{name}" / f"{number}.parquet"))
            fresh.write.format("delta").mode("append").save(str(folder / f"delta-{name}"))
        frames = {name: spark.readStream.format("delta").load(str(folder / f"delta-{name}")) for name in "RS"}
        run(cw.spark.join(BAND, frames, lateness="10 seconds", cells=2), folder, "delta")
        found_rows = spark.read.format("delta").load(str(folder / "out")).collect()
        assert ordered(found_rows) == band(data["R"], data["S"])


CHECKS: dict[str, Callable[[Any, Path], None]] = {
    "static": static,
    "streaming": streaming,
    "outer": outer,
    "many": many,
    "pipeline": pipeline,
    "late": late,
    "error": error,
    DELTA: delta,
}


def session(folder: Path, connect: bool, with_delta: bool = False) -> Any:
    """Return a small session."""
    import pyspark
    from pyspark.sql import SparkSession

    options = {
        **cw.spark.settings(cells=2),
        **cw.spark.local_checkpoints(),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if with_delta:
        minor = ".".join(pyspark.__version__.split(".")[:2])
        options |= {
            "spark.jars.packages": f"io.delta:delta-spark_{minor}_2.13:{DELTA_VERSION}",
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.databricks.delta.snapshotPartitions": "1",  # not 50 tasks per commit
        }
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    builder = SparkSession.builder.remote("local[2]") if connect else SparkSession.builder.master("local[2]")
    spark = builder.config(map=options).getOrCreate()
    if not connect:
        spark.sparkContext.setLogLevel("OFF")
    return spark


def elsewhere(*names: str) -> dict[str, str]:
    """Run checks in another process, for they need another session; return how each ended."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.versions", *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    try:
        told: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        missing = DELTA in names and "unresolved dependency: io.delta" in done.stdout + done.stderr
        told = dict.fromkeys(names, NONE if missing else f"exit code {done.returncode}: {done.stderr[-500:]}")
    return told


def over_connect() -> dict[str, str]:
    """Run some of the checks over Spark Connect; return how each ended."""
    told = elsewhere(CONNECT, "static", "streaming")
    return {f"{CONNECT} {name}": told[name] for name in ("static", "streaming")}


def judge(check: Callable[[Any, Path], None], spark: Any, folder: Path) -> str:
    """Run one check; return ``ok``, or what went wrong."""
    try:
        check(spark, folder)
    except cw.UnsupportedError as refusal:
        print(refusal, file=sys.stderr)
        return REFUSED
    except Exception as failure:
        print(traceback.format_exc(), file=sys.stderr)
        own = cw.spark.error_of(failure) or failure
        return f"{type(own).__name__}: {' '.join(str(own).split())[:300]}"
    return "ok"


def main(names: list[str]) -> int:
    """Run the checks, and print how each ended."""
    warnings.simplefilter("ignore", cw.CrosswindWarning)
    began = time.monotonic()
    connect = CONNECT in names
    chosen = [name for name in names if name in CHECKS] or [name for name in CHECKS if name != DELTA]
    outcome: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="crosswind-spark-") as scratch:
        spark = session(Path(scratch) / "spark", connect, DELTA in names)
        outcome["version"] = spark.version
        for name in chosen:
            for attempt in range(ATTEMPTS):
                print(f"{name} ...", file=sys.stderr, flush=True)
                outcome[name] = judge(CHECKS[name], spark, Path(scratch) / f"{name}-{attempt}")
                if OVERLOADED not in outcome[name]:
                    break
        spark.stop()
    if not names:
        outcome |= over_connect() | {DELTA: elsewhere(DELTA)[DELTA]}
    outcome["seconds"] = round(time.monotonic() - began)
    print(json.dumps(outcome), flush=True)
    return int(
        any(ended not in ("ok", REFUSED, NONE) for name, ended in outcome.items() if name not in ("version", "seconds"))
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
