"""Killed in mid-batch and restarted: nothing is lost, nothing comes twice. ``make soak`` kills more often."""

from __future__ import annotations

import pytest

from tests.conftest import SPARK
from tests.seeds import chance
from tests.spark.killing import CLUSTER, DRIVER, EXECUTOR, LOCAL, WORKER, check_output, feed, run_with_kills
from tests.spark.pipelines import random_batches

pytestmark = [SPARK, pytest.mark.timeout(900)]
LONG = pytest.mark.long


@pytest.mark.parametrize(
    ("masters", "name", "kills"),
    [
        pytest.param(LOCAL, "left after", [DRIVER], id="driver"),
        pytest.param(LOCAL, "plain", [WORKER, DRIVER], id="worker and driver", marks=LONG),
        pytest.param(CLUSTER, "join after join", [EXECUTOR, WORKER], id="executor", marks=LONG),
    ],
)
def test_a_pipeline_that_is_killed_goes_on_exactly(tmp_path, masters, name, kills):
    rng = chance("kills", name)
    batches = random_batches(rng, 2 * len(kills) + 1)
    feed(tmp_path, batches)
    assert run_with_kills(tmp_path, masters, name, kills, rng) == len(kills)
    assert check_output(tmp_path, name, batches) > 2
