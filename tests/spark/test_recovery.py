"""Killed in mid-batch and restarted: nothing is lost, nothing comes twice. ``make soak`` kills more often."""

from __future__ import annotations

import random

import pytest

from tests.conftest import SPARK
from tests.spark.killing import CLUSTER, DRIVER, EXECUTOR, LOCAL, WORKER, check_output, feed, run_with_kills

pytestmark = [SPARK, pytest.mark.timeout(900), pytest.mark.long]


@pytest.mark.parametrize(
    ("master", "kills"),
    [(LOCAL, [WORKER, DRIVER]), pytest.param(CLUSTER, [EXECUTOR, WORKER], marks=pytest.mark.long)],
    ids=["worker and driver", "executor"],
)
def test_a_join_that_is_killed_goes_on_exactly(tmp_path, master, kills):
    tables = feed(tmp_path, rounds=2 * len(kills) + 3, rows=60, seed=len(kills))
    happened = run_with_kills(tmp_path, master, kills, random.Random(f"kills {master}"))
    assert happened == len(kills)
    assert check_output(tmp_path, tables, f"{master} {kills}") > 100
