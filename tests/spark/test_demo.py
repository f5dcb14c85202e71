"""The demonstration on Spark."""

from __future__ import annotations

import json
import signal

import pytest

from tests.conftest import SPARK
from tests.spark.command import processes_of, run_many, start
from tests.waiting import wait_until

pytest.importorskip("pyspark")
pytestmark = [SPARK, pytest.mark.timeout(900)]


def test_the_demo_on_spark_checks_itself(tmp_path):
    small = ["demo", "--seconds", "3", "--rate", "1000", "--window", "20"]
    plain, quiet = run_many(small, [*small, "--json", "--no-fill"], cwd=tmp_path)
    assert plain.code == 0, plain
    assert "Spark alone says to this query: Stream-stream join without equality predicate is not supported" in (
        plain.stdout
    )
    assert "same rows as NumPy  yes" in plain.stdout
    assert "\x1b" not in plain.stdout
    assert "TransformWithState" not in plain.stdout + plain.stderr
    report = json.loads(quiet.stdout)
    assert (report["engine"], report["same_rows"], report["late"]) == ("spark", True, 0)
    assert report["results"] > 0
    assert "without equality predicate" in report["spark_says"]


def test_an_interruption_stops_the_demo_and_spark(tmp_path):
    process = start("demo", "--seconds", "600", "--rate", "200", "--window", "20", cwd=tmp_path)
    seen = []
    for line in process.stdout:
        seen.append(line)
        if "micro-batches" in line:
            break
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert "not checked, as it was stopped early" in output
    assert errors == "interrupted\n"
    wait_until(lambda: not processes_of(process.pid), "the end of the JVM and its workers")
