"""Benchmarks on Spark, at sizes that only show that they work."""

from __future__ import annotations

import json

import pytest

from tests.conftest import SPARK
from tests.spark.command import run_many

pytest.importorskip("pyspark")
pytestmark = [SPARK, pytest.mark.timeout(900), pytest.mark.long]


def test_benchmarks_on_spark_report(tmp_path):
    replay = ["bench", "spark", "--windows", "2", "--rate", "200", "--length", "8", "--batch", "4"]
    latency = ["bench", "spark-latency", "--rate", "200", "--window", "2", "--seconds", "6"]
    done = run_many([*replay, "--own", "4", "--theta", "4", "--json"], [*latency, "--json"], cwd=tmp_path)
    assert [entry.code for entry in done] == [0, 0], done
    first, second = (json.loads(entry.stdout) for entry in done)
    figures = {entry["name"]: entry["value"] for entry in first["measurements"]}
    assert set(figures) == {
        "2 s windows, Crosswind",
        "2 s windows, memory of all processes",
        "2 s windows, Spark's own join",
        "no key, 1 cell",
        "no key, 2 cells",
        "no key, gain of all cores",
    }
    assert all(value > 0 for value in figures.values())
    assert [entry["name"] for entry in second["measurements"]] == ["median", "90 %", "99 %"]
    assert all(entry["goal"] is None for report in (first, second) for entry in report["measurements"])
