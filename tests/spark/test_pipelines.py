"""A join as one stage of a pipeline gives the rows of Spark's batch SQL, whatever comes before and behind it."""

from __future__ import annotations

import pytest

from tests import seeds
from tests.conftest import SPARK
from tests.spark.pipelines import PIPELINES, expected, random_batches, rows, run

pytestmark = SPARK

OFTEN = (
    "aggregate after",
    "watermarked in",
    "aggregate before",
    "join after join",
    "dedup after",
    "left after",
)
"""Pipelines of every test run; a query costs seconds, so ``make soak`` has the others, and restarts."""


@pytest.mark.parametrize("name", [n if n in OFTEN else pytest.param(n, marks=pytest.mark.long) for n in PIPELINES])
def test_a_pipeline_gives_the_rows_of_batch_spark(name, tmp_path):
    pipeline, batches = PIPELINES[name], random_batches(seeds.chance(f"pipeline {name}"))
    found, wanted = run(pipeline, batches, tmp_path), expected(pipeline, batches)
    assert wanted.num_rows > 2
    assert rows(found) == rows(wanted)


@pytest.mark.long
@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_that_is_restarted_goes_on_exactly(name, tmp_path):
    pipeline, batches = PIPELINES[name], random_batches(seeds.chance(f"restarted pipeline {name}"))
    assert rows(run(pipeline, batches, tmp_path, restarts=2)) == rows(expected(pipeline, batches))
