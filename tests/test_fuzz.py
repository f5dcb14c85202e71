"""A few hundred random joins against the oracle. ``python -m tests.fuzz`` runs more."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import crosswind as cw
from tests.cases import make_case, make_shape
from tests.conftest import ENGINES, ON_SPARK, SPARK, EngineConfig
from tests.fuzz import REFUSED_SHARE_MAX, check, command

SHAPES = range(40)
DATA_SETS = 8
PLANNED_SHAPES = 300


SHARE = 3
"""One in so many shapes runs on an engine; every shape runs on several. ``python -m tests.fuzz`` runs all on all."""

PAIRS = [
    pytest.param(engine, seed, id=f"{engine.id}-{seed}", marks=[SPARK] if engine is ON_SPARK else [])
    for number, engine in enumerate([*ENGINES, ON_SPARK])
    for seed in SHAPES
    if (seed + number) % SHARE == 0
]


@pytest.mark.parametrize(("engine", "shape_seed"), PAIRS)
def test_random_joins_are_exact(engine: EngineConfig, shape_seed: int):
    shape = make_shape(shape_seed)
    # A job on Spark costs a second.
    for data_seed in [shape_seed % DATA_SETS] if engine.mode == "spark" else range(DATA_SETS):
        case = make_case(shape, data_seed)
        try:
            verdict = check(case, engine)
        except Exception as error:
            error.add_note(f"{case.sql}\nagain: {command(case, engine)}")
            raise
        if verdict.kind in ("refused", "not in Spark"):
            pytest.skip(f"{verdict.kind}: {verdict.report}")


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
@given(
    shape_seed=st.sampled_from(SHAPES),
    data_seed=st.integers(min_value=DATA_SETS, max_value=10**9),
    engine=st.sampled_from(ENGINES),
)
def test_any_data_is_joined_exactly(shape_seed: int, data_seed: int, engine: EngineConfig):
    case = make_case(make_shape(shape_seed), data_seed)
    note(f"{case.sql}\nagain: {command(case, engine)}")
    check(case, engine)


def test_nearly_every_generated_query_is_accepted():
    refused = {}
    for seed in range(PLANNED_SHAPES):
        case = make_case(make_shape(seed), 0)
        try:
            cw.explain(case.sql, {name: table.schema for name, table in case.tables.items()}, time=case.times)
        except cw.QueryError as error:
            refused[seed] = f"{error}\n{case.sql}"
    shown = "\n\n".join(f"shape {seed}: {reason}" for seed, reason in list(refused.items())[:5])
    assert len(refused) < REFUSED_SHARE_MAX * PLANNED_SHAPES, f"{len(refused)} refused\n{shown}"
