"""A few hundred random joins against the oracle. ``python -m tests.fuzz`` runs more; ``make test SEED=7`` others."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import crosswind as cw
from tests.cases import TestCase, make_case, make_outer_shape
from tests.conftest import ON_SPARK, SPARK, EngineConfig
from tests.fuzz import (
    MODES,
    SHAPES_PER_SEED,
    Setup,
    Task,
    check,
    check_cases,
    draw_cases,
    draw_setup,
    mode_of,
    shape_of,
    smaller,
    verdicts_of,
)
from tests.oracle import OracleOverflowError, count_matches
from tests.seeds import SEED
from tests.shares import MOST, Shares, traits_of

FIRST = SEED * SHAPES_PER_SEED
SHAPES = range(FIRST, FIRST + 3)
DATA_SETS = 16
DRAWN = range(FIRST, FIRST + 150)


@pytest.mark.timeout(1200)  # a few hundred kernels, if none of them is compiled yet
@pytest.mark.parametrize("mode", MODES)
def test_random_joins_are_exact(mode: str):
    """Two to five streams, outer joins, many queries, pushes that fail; and all that is drawn in the course of them."""
    shares = Shares()
    for seed in SHAPES:
        for verdict in verdicts_of(Task(mode, seed, tuple(range(DATA_SETS)))):
            assert verdict.kind != "failed", verdict.report
            shares.add(verdict.traits, verdict.rows)
    groups = ["all", "live", *({mode} & {"many", "faults"})]
    assert not shares.missing(groups), f"{shares.missing(groups)}\n{shares.table()}"


def test_what_is_drawn_covers_everything():
    """The shares that ``make fuzz`` asserts and that can be told without running anything."""
    shares = Shares()
    for seed in DRAWN:
        mode = mode_of(seed)
        shape = shape_of(mode, seed)
        cases, setup = draw_cases(mode, shape, seed % DATA_SETS), draw_setup(mode, shape, seed % DATA_SETS)
        traits = traits_of(cases["q0"]) | {mode, _way(setup)}
        try:
            rows = count_matches(cases["q0"].join)
        except OracleOverflowError:
            traits, rows = traits | {"unknown"}, 0
        shares.add(traits | ({"results"} if rows else set()) | ({"100 results"} if rows >= 100 else set()), rows)
    groups = ["all", "mix", "drawn", "join", "outer"]
    assert not shares.missing(groups), f"{shares.missing(groups)}\n{shares.table()}"


def _way(setup: Setup) -> str:
    return {"run": "replayed", "cells": "cells"}.get(setup.engine.mode, "live")


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
@given(shape_seed=st.sampled_from(SHAPES), data_seed=st.integers(min_value=DATA_SETS, max_value=10**9))
def test_any_data_is_joined_exactly(shape_seed: int, data_seed: int):
    (verdict,) = verdicts_of(Task("join", shape_seed, (data_seed,)))
    assert verdict.kind in ("same", "overflow", "unknown", "not in Spark"), verdict.report


@SPARK
@pytest.mark.timeout(900)  # a dozen jobs
def test_random_joins_on_spark_are_exact():
    """Of each shape the first data set that Spark has values for: a job costs a second."""
    kinds = []
    for seed in range(FIRST, FIRST + 12):
        for data_seed in range(DATA_SETS):
            kinds.append(check(make_case(shape_of("join", seed), data_seed), ON_SPARK).kind)
            if kinds[-1] == "same":
                break
    assert kinds.count("same") >= 9, kinds
    assert set(kinds) <= {"same", "not in Spark", "overflow", "unknown"}, kinds


def test_nearly_every_generated_query_is_accepted():
    refused = {}
    for seed in DRAWN:
        case = make_case(shape_of(mode_of(seed), seed), 0)
        try:
            cw.explain(case.sql, {name: table.schema for name, table in case.tables.items()}, time=case.times)
        except cw.QueryError as error:
            refused[seed] = f"{error}\n{case.sql}"
    shown = "\n\n".join(f"shape {seed}: {reason}" for seed, reason in list(refused.items())[:5])
    assert len(refused) <= MOST["refused"] * len(DRAWN), f"{len(refused)} refused\n{shown}"


def test_a_case_that_fails_is_cut_down(monkeypatch: pytest.MonkeyPatch):
    """Rows, conditions and columns go as long as it fails in the same way."""
    shape = make_outer_shape(7)
    case = next(c for c in (make_case(shape, seed) for seed in range(20)) if count_matches(c.join) > 20)
    setup = draw_setup("outer", shape, case.data_seed, EngineConfig(mode="run"))

    def loses_matches(cases: dict[str, TestCase], _: Setup) -> None:
        assert not count_matches(cases["q0"].join), "a match is lost"

    monkeypatch.setattr("tests.fuzz.check_cases", loses_matches)
    small = smaller({"q0": case}, setup, AssertionError)["q0"]
    assert [table.num_rows for table in small.tables.values()] == [1, 1]
    assert len(small.sql) < len(case.sql)
    assert sum(map(len, small.shape.columns.values())) <= sum(map(len, shape.columns.values()))
    monkeypatch.undo()
    assert check_cases({"q0": small}, setup).rows >= 1
