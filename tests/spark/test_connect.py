"""Spark Connect: the same joins through a client that has no JVM."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pyarrow as pa
import pytest

from tests.conftest import ROOT, SPARK
from tests.spark.frames import Feed

pytestmark = [SPARK, pytest.mark.timeout(600)]

SCHEMA = pa.schema([("x", pa.int64()), ("ts", pa.int64())])


def test_joins_run_over_spark_connect(tmp_path):
    for name in ("R", "S"):
        feed = Feed(tmp_path / f"in-{name}", SCHEMA)
        for start in (0, 10):
            numbers = pa.array(range(start, start + 10), pa.int64())
            feed.add(pa.table([numbers, numbers], schema=SCHEMA))
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.connect", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    expected = [[x, a] for x in range(20) for a in range(20) if abs(x - a) <= 1]
    assert told["static"] == expected
    assert told["streaming"] == expected
    assert told["results"] == len(expected)
    partitions, cells, tuples = told["rescaled"]
    assert (partitions, cells) == (3, 4)
    assert tuples > 0
    assert told["counts"] == [29], "results of the first ten seconds; the others may still come"
    assert told["error"] == "ArithmeticOverflowError"
