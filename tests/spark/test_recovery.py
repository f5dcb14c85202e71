"""Killed in mid-batch and restarted: nothing is lost, nothing comes twice. ``make soak`` kills more often."""

from __future__ import annotations

import pytest

from tests.conftest import SPARK
from tests.seeds import chance
from tests.spark.killing import CLUSTER, DRIVER, EXECUTOR, LOCAL, WORKER, check_output, feed, run_with_kills

pytestmark = [SPARK, pytest.mark.timeout(900)]
LONG = pytest.mark.long


@pytest.mark.parametrize(
    ("master", "kills"),
    [
        pytest.param(LOCAL, [DRIVER], id="driver"),
        pytest.param(LOCAL, [WORKER, DRIVER], id="worker and driver", marks=LONG),
        pytest.param(CLUSTER, [EXECUTOR, WORKER], id="executor", marks=LONG),
    ],
)
def test_a_join_that_is_killed_goes_on_exactly(tmp_path, master, kills):
    tables = feed(tmp_path, rounds=2 * len(kills) + 1, rows=60, seed=len(kills))
    happened = run_with_kills(tmp_path, master, kills, chance("kills", master))
    assert happened == len(kills)
    assert check_output(tmp_path, tables, f"{master} {kills}") > 100
