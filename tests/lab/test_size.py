"""The capacity calculator: loads, samples, and what it asks for."""

from __future__ import annotations

import dataclasses
import json

import pytest
from click.testing import CliRunner

from crosswind.cli.main import crosswind
from crosswind.engine.session import plan_for
from crosswind.errors import InputError
from crosswind.lab.loads import BANDS
from crosswind.lab.size import Sample, check_size, cost_ns, size_of, take_sample
from crosswind.lab.streams import PAPERS_SCHEMAS, Uniform, schemas_with_time

COLUMNS = tuple(schemas_with_time(PAPERS_SCHEMAS).items())
LOAD = Uniform(1_000, 60_000_000, columns=COLUMNS, predicate=BANDS)
SAMPLE = Sample(match=4e-6, tuple_ns=500.0, result_ns=50.0, push_ns=1e5, tuple_bytes=32.0, pair_ns=0.1)


def test_random_streams_have_the_schema_and_do_not_repeat():
    schemas = schemas_with_time({"A": "k:string,v:int64", "B": "k:string,w:float64,ts:timestamp[ms]"})
    streams = Uniform(100, 1_000_000, columns=tuple(schemas.items()), predicate="A.k = B.k", span=50)
    batch = streams.batch("B", 10, 1_000)
    assert batch.schema == schemas["B"]
    assert len(set(batch.column("k").to_pylist())) <= 50
    assert batch.column("ts")[1].as_py() > batch.column("ts")[0].as_py()
    assert not streams.batch("A", 0, 5).equals(streams.batch("A", 5, 5))
    assert "FROM A [RANGE 1000000 MICROSECONDS], B" in streams.sql


@pytest.mark.parametrize(
    ("texts", "said"),
    [({"R": "x:int32,ts:int64"}, "need a timestamp"), ({"R": "d:date32"}, "integers, floats and strings")],
)
def test_what_cannot_be_made_up_is_refused(texts, said):
    def make():
        schemas = schemas_with_time(texts)
        Uniform(10, 1_000_000, columns=tuple(schemas.items()), predicate="TRUE").batch("R", 0, 3)

    with pytest.raises(InputError, match=said):
        make()


def test_a_sample_finds_the_share_of_pairs_that_match():
    sample = take_sample(LOAD)
    assert sample.match == pytest.approx(21 / 10_000 * 20 / 10_000, rel=0.35)
    assert 16 < sample.tuple_bytes < 200
    assert 0 < sample.result_ns < 100_000
    assert take_sample(LOAD, match=0.5).match == 0.5


def test_more_load_needs_more():
    little, much = (size_of(dataclasses.replace(LOAD, rate=rate), SAMPLE) for rate in (1_000, 300_000))
    assert little.cores == 1
    assert little.engine == "kang"
    assert much.cores > 1
    assert much.engine == "cell"
    assert much.memory_mb == pytest.approx(300 * little.memory_mb)
    assert little.memory_mb == pytest.approx(2 * 60_000 * 32 / 1e6)
    assert much.results_per_s == pytest.approx(300**2 * little.results_per_s)


def test_without_an_index_every_pair_counts_and_the_grid_is_laid_out():
    slow = dataclasses.replace(LOAD, rate=10_000, predicate="R.x * S.a = 1000003")
    found = size_of(slow, dataclasses.replace(SAMPLE, pair_ns=0.25))
    assert found.parts_ns["every pair"] == pytest.approx(0.25 * 600_000)
    assert found.utilisation == pytest.approx(2 * 10_000 * sum(found.parts_ns.values()) * 1e-9)
    assert found.engine == "grid"
    assert found.layout[0] * found.layout[1] == found.cores
    assert found.spark.startswith("grid")


def test_the_index_costs_grow_slowly_with_the_window():
    plan = plan_for(LOAD.sql, LOAD.schemas)
    rare = dataclasses.replace(SAMPLE, match=0.0)
    small, large = (sum(cost_ns(plan, window, rare).values()) for window in (1e4, 1e6))
    assert large < 2 * small


def test_the_model_is_checked_against_runs():
    checks = check_size(LOAD, SAMPLE, seconds=0.01, tuples_max=3_000)
    assert [check.rate for check in checks] == [5, 15, 50]
    assert all(check.measured_ns > 0 and check.predicted_ns > 0 for check in checks)


def test_size_on_the_command_line():
    done = CliRunner().invoke(crosswind, ["lab", "size", "--rate", "500", "--window", "1m", "--match", "0.00001"])
    assert done.exit_code == 0, done.output
    assert "cores     1 (the load takes" in done.output
    assert "MB for both windows" in done.output
    options = ["--schema", "A=k:int64", "--schema", "B=k:int64", "--predicate", "A.k = B.k", "--json"]
    found = json.loads(
        CliRunner().invoke(crosswind, ["lab", "size", "--rate", "9", "--window", "10s", *options]).output
    )
    assert found["spark"].startswith("hash")
    assert found["sample"]["match"] == pytest.approx(1e-4, rel=0.5)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--rate", "5", "--window", "soon"], "'soon' is no length of time"),
        (["--rate", "5", "--window", "1m", "--schema", "A=x:int32"], "for both streams"),
        (["--rate", "5", "--window", "1m", "--schema", "A=x:int32", "--schema", "B=x:int32"], "needs --predicate"),
    ],
)
def test_what_is_wrong_is_said(options, said):
    done = CliRunner().invoke(crosswind, ["lab", "size", *options])
    assert done.exit_code == 2
    assert said in done.output
