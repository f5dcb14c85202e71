"""A few hundred random joins against the oracle. ``python -m tests.fuzz`` runs more."""

from __future__ import annotations

import pytest

import crosswind as cw
from tests.cases import make_case, make_shape
from tests.conftest import EngineConfig
from tests.fuzz import REFUSED_SHARE_MAX, check, command

SHAPES = range(40)
DATA_SETS = 8
PLANNED_SHAPES = 300


@pytest.mark.parametrize("shape_seed", SHAPES)
def test_random_joins_are_exact(engine: EngineConfig, shape_seed: int):
    shape = make_shape(shape_seed)
    for data_seed in range(DATA_SETS):
        case = make_case(shape, data_seed)
        try:
            verdict = check(case, engine)
        except Exception as error:
            error.add_note(f"{case.sql}\nagain: {command(case, engine)}")
            raise
        if verdict.kind == "refused":
            pytest.skip(verdict.report)


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
