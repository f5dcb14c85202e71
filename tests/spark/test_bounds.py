"""Rows of 1 MB, hundreds of columns, a micro-batch after downtime, 64 partitions, no cache: slower, never dead."""

from __future__ import annotations

import pytest

from tests.conftest import SPARK
from tests.spark.bounds import LOADS, SECONDS_MAX, measure

pytestmark = [SPARK, pytest.mark.long, pytest.mark.timeout(SECONDS_MAX + 60)]


@pytest.mark.parametrize("name", LOADS)
def test_a_load_that_is_too_much_is_joined_in_the_end(name, tmp_path):
    outcome = measure(name, LOADS[name], tmp_path)
    assert not outcome.wrong, outcome
