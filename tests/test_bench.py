"""Benchmarks at tiny sizes: that they run, what they return, and that what they count is right. Never how fast."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
from functools import cache

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from crosswind.bench import (
    baseline,
    calibrate,
    compare,
    equality,
    growth,
    kernel,
    latency,
    memory,
    queries,
    rate,
    replay,
    scale,
    start,
)
from crosswind.bench.live import DrivenJoin, expected_rows
from crosswind.bench.machine import describe_machine, resident_bytes
from crosswind.bench.others import Buckets, duckdb_join, polars_join, race, replay_once
from crosswind.bench.probing import Probing, columns
from crosswind.bench.record import BenchReport, Goal, Measurement, interleave, measured_in
from crosswind.bench.suite import BENCHMARKS, QUICK
from crosswind.bench.workload import BandWorkload, KeyWorkload
from crosswind.cli.main import crosswind
from crosswind.errors import CrosswindError
from crosswind.plan.calibration import calibration
from crosswind.plan.lanes import is_vectorised
from crosswind.plan.physical import RUN_HEAD


def quiet(line: str) -> None:
    assert line


def invoke(*arguments: str):
    return CliRunner().invoke(crosswind, ["bench", *arguments])


def oracle_count(tables: dict[str, pa.Table], condition: str, window_us: int) -> int:
    """Return how many pairs qualify, as DuckDB finds them without buckets or anything else that is clever."""
    near = f"abs(epoch_us(r.ts) - epoch_us(s.ts)) < {window_us}"
    with duckdb.connect() as connection:
        connection.register("r", tables["R"])
        connection.register("s", tables["S"])
        found = connection.execute(f"SELECT count(*) FROM r, s WHERE {condition} AND {near}").fetchone()
    assert found is not None
    return found[0]


BANDS = "r.x BETWEEN s.a - 10 AND s.a + 10 AND r.y::DOUBLE BETWEEN s.b::DOUBLE - 10 AND s.b::DOUBLE + 10"


def streams(workload: BandWorkload | KeyWorkload, count: int) -> dict[str, pa.Table]:
    return {name: workload.table(name, 0, count) for name in ("R", "S")}


def check_report(report: BenchReport) -> None:
    assert report.measurements
    assert len({entry.name for entry in report.measurements}) == len(report.measurements)
    for entry in report.measurements:
        assert entry.value is not None
        assert math.isfinite(entry.value)
        assert "WRONG" not in entry.note
    assert json.loads(json.dumps(report.as_json()))["benchmark"] == report.name


# -- the workload -------------------------------------------------------------------------------


def test_tuples_do_not_depend_on_how_they_are_cut():
    workload = BandWorkload(rate=1_000, window_us=1_000_000)
    parts = [workload.batch("S", first, count) for first, count in ((0, 7), (7, 30), (37, 63))]
    assert pa.Table.from_batches(parts).combine_chunks().equals(workload.table("S", 0, 100))


def test_the_band_workload_is_that_of_the_papers():
    table = BandWorkload(rate=1_000, window_us=1_000_000).table("R", 0, 100_000)
    x, y = table.column("x").to_numpy(), table.column("y").to_numpy()
    assert table.schema == pa.schema({"x": pa.int32(), "y": pa.float32(), "ts": pa.timestamp("us")})
    assert (x.min(), x.max()) == (1, 10_000)
    assert y.min() >= 1
    assert y.max() < 10_000
    steps = np.diff(table.column("ts").cast(pa.int64()).to_numpy())
    assert set(steps) == {1_000}


def test_streams_differ_from_each_other_and_by_seed():
    r = BandWorkload(100, 1_000_000).batch("R", 0, 50).column(0)
    assert r != BandWorkload(100, 1_000_000).batch("S", 0, 50).column(0)
    assert r != BandWorkload(100, 1_000_000, seed=2).batch("R", 0, 50).column(0)


# -- full windows ---------------------------------------------------------------------------------


@pytest.mark.parametrize("rate_per_s", [200, 20_000], ids=["joined", "restored"])
def test_filled_windows_give_the_results_of_a_whole_run(rate_per_s):
    """With many tuples most of the history is not joined with itself, with few all of it is."""
    workload = BandWorkload(rate=rate_per_s, window_us=1_000_000)
    live = DrivenJoin(workload, "auto", batch_tuples=rate_per_s // 10)
    start = live.next
    stretch = live.drive(pushes=5)
    assert stretch.tuples == 2 * 5 * (rate_per_s // 10)
    assert stretch.event_s == pytest.approx(0.5)
    tables = streams(workload, live.next)
    before = streams(workload, start)
    expected = oracle_count(tables, BANDS, workload.window_us) - oracle_count(before, BANDS, workload.window_us)
    assert stretch.results == expected
    assert live.check()


def test_a_check_finds_a_wrong_number_of_results():
    workload = BandWorkload(rate=5_000, window_us=1_000_000)
    live = DrivenJoin(workload, "auto", batch_tuples=500)
    probes = workload.batch("R", live.next, 200)
    right = live.join.push("R", probes).num_rows
    assert right > 0
    assert expected_rows(workload, probes, live.next) == right
    # Half of the window is missing.
    assert expected_rows(workload, probes, live.next // 2) < right


@pytest.mark.parametrize("strings", [False, True], ids=["int64", "strings"])
def test_equality_counts_are_exact(strings):
    workload = KeyWorkload(rate=1_000, window_us=1_000_000, keys=300, strings=strings)
    live = DrivenJoin(workload, "auto", batch_tuples=100)
    start = live.next
    stretch = live.drive(pushes=4)
    after, before = (oracle_count(streams(workload, n), "r.k = s.k", workload.window_us) for n in (live.next, start))
    assert stretch.results == after - before


# -- competitors ----------------------------------------------------------------------------------


@pytest.mark.parametrize("buckets", [Buckets(21, False), Buckets(21, True), Buckets(40, True)], ids=str)
def test_all_engines_find_the_same(buckets):
    workload = BandWorkload(rate=1_000, window_us=700_000)
    tables = streams(workload, 5_000)
    expected = oracle_count(tables, BANDS, workload.window_us)
    assert expected > 0
    assert duckdb_join(tables, buckets, workload.window_us).num_rows == expected
    assert polars_join(tables, buckets, workload.window_us).height == expected
    assert replay_once(tables, workload) == expected


def test_a_race_reports_every_engine():
    measurements, notes = race(1, 500, 2, 1, quiet)
    assert [entry.name for entry in measurements] == [f"{n}, 1 s windows" for n in ("DuckDB", "Polars", "crosswind")]
    assert measurements[-1].ratio is not None
    assert any("SELECT x, y, a, b" in note for note in notes)


def test_every_variant_of_the_loop_is_exact(cpp_loop):
    probing = Probing(5_003, "scan")
    batch = probing.probes(203)
    moment = {"R": pa.Table.from_batches([batch]), "S": probing.window}
    expected = oracle_count(moment, BANDS, 5_003_000)
    assert expected > 0
    assert probing.push(batch)[0] == expected
    for variant in baseline.VARIANTS:
        assert cpp_loop.scan(variant, columns(probing.window), columns(batch))[0] == expected, variant
    with pytest.raises(CrosswindError, match="the join gave 1 results where the C\\+\\+ loop found 2"):
        probing.compare_counts(1, 2)


@pytest.mark.usefixtures("cpp_loop")
def test_the_kernel_is_measured_by_variant():
    """CellJoin's three by hand, and ours: one by one, vectorised by the compiler, explicit vectors."""
    report = tiny_report("kernel")
    by_hand = [f"C++ {variant}" for variant in ("scalar", "vectorised", "unrolled")]
    assert [entry.name for entry in report.measurements] == [*by_hand, *(f"crosswind {name}" for name in kernel.OURS)]
    assert all(entry.ratio_to == "C++ scalar" for entry in report.measurements[1:])


@pytest.mark.parametrize("name", kernel.OURS)
def test_each_variant_is_what_it_says(name):
    has_box = name.startswith("box")
    probing = kernel._joins(2_000)[name]
    (sizes,) = ([item.length for item in window] for window in [probing.join._strategy.windows[1]])
    plan = probing.join._plan
    assert bool(plan.accesses[1].dimensions) == has_box
    if name == "box, full keys":
        assert sizes == [2_000]
        assert not probing.join._strategy.windows[1].residents().runs[0, RUN_HEAD + 1], "no half keys"
    if not has_box:
        assert is_vectorised(plan.accesses[1].residual) == ("vectorised" in name)


def test_without_a_compiler_the_rest_is_measured(monkeypatch):
    monkeypatch.setattr(baseline, "_COMPILER", "no-such-compiler")
    report = kernel.measure(window=2_000, probes=10, rounds=1, tell=quiet)
    assert [entry.name for entry in report.measurements] == [f"crosswind {name}" for name in kernel.OURS]
    assert any("no-such-compiler is not installed" in note for note in report.notes)
    report = compare.measure(window=2_000, probes=(5,), rounds=1, windows=(), prefix=1, rate=1, tell=quiet)
    assert report.measurements == []
    assert "no-such-compiler" in report.notes[0]


def test_a_processor_that_cannot_run_the_loop_is_named(monkeypatch):
    if shutil.which("g++") is None:
        pytest.skip("no C++ loop here: apt-get install g++")
    monkeypatch.setattr(baseline, "_FLAGS", ("-march=no-such-processor",))
    with pytest.raises(baseline.BaselineMissingError, match=r"does not compile on this machine: .*no-such-processor"):
        baseline.load_baseline()


# -- each benchmark -------------------------------------------------------------------------------

TINY = {
    "kernel": lambda: kernel.measure(window=3_000, probes=16, rounds=2, tell=quiet),
    "rate": lambda: rate.measure(windows=(1,), index="auto", start=500, tick=0.5, trial=1.0, seconds=0.1, tell=quiet),
    "replay": lambda: replay.measure(
        windows=(1, 2), rate=200, seconds=0.01, rounds=2, index="auto", compare=True, prefix=4, tell=quiet
    ),
    "latency": lambda: latency.measure(rate=200, window=1, seconds=0.3, limit=16, index="auto", tell=quiet),
    "compare": lambda: compare.measure(
        window=2_000, probes=(1, 7), rounds=2, windows=(1,), prefix=3, rate=200, tell=quiet
    ),
    "equality": lambda: equality.measure(
        keys=100, batch=50, window=500, seconds=0.01, rounds=2, index="auto", tell=quiet
    ),
    "growth": lambda: growth.measure(
        rate=500, window=1, factors=(1, 2), seconds=0.01, rounds=2, index="auto", tell=quiet
    ),
    "queries": lambda: queries.measure(window=40, batch=8, pushes=2, rounds=1, tell=quiet, similar=4),
    "start": lambda: start.measure(rounds=1, tell=quiet),
    "scale": lambda: scale.measure(
        engines=("cell", "grid", "handshake"),
        workers=(1, 2),
        rate=200,
        window=2,
        batch=20,
        seconds=0.02,
        rounds=2,
        latency_rate=200,
        latency_window=1,
        latency_seconds=0.2,
        index="auto",
        tell=quiet,
    ),
    "memory": lambda: memory.measure(rate=500, window=1, seconds=0.05, index="auto", tell=quiet),
    "calibrate": lambda: calibrate.measure(
        window=1, batch=50, sizes=(256, 512), seconds=0.01, rounds=1, store=False, tell=quiet
    ),
}


@cache
def tiny_report(name: str) -> BenchReport:
    return TINY[name]()


@pytest.mark.parametrize("name", TINY)
def test_each_benchmark_reports(name):
    report = tiny_report(name)
    assert report.name == name
    check_report(report)


def test_every_benchmark_is_tested_and_has_quick_sizes():
    on_spark = {"spark", "spark-latency"}  # tests/spark/test_bench.py: they have sessions of their own
    assert set(TINY) | on_spark == set(BENCHMARKS) == set(QUICK)


@pytest.mark.parametrize("name", [name for name in TINY if name not in ("memory", "start")])
def test_goals_are_judged_only_at_their_sizes(name):
    assert all(entry.goal is None for entry in tiny_report(name).measurements)


def test_latency_counts_every_tuple_once():
    workload = BandWorkload(rate=400, window_us=1_000_000)
    live = DrivenJoin(workload, "auto", batch_tuples=40)
    batches = {name: workload.batch(name, live.next, 60) for name in ("R", "S")}
    before = live.join.stats
    observed = latency.drive_live(live.join, batches, rate=400, limit=3)
    assert sum(observed.batches) == 120
    assert max(observed.batches) <= 3
    assert all((values >= 0).all() for values in observed.latency_s.values())
    assert sum(live.join.stats.tuples_in.values()) - sum(before.tuples_in.values()) == 120
    assert observed.results == live.join.stats.results - before.results


def test_calibrate_shows_predicted_and_measured_optimum():
    report = tiny_report("calibrate")
    loss = report.measurements[-1]
    assert loss.name == "the predicted size against the best"
    assert loss.value >= 1
    marked = {word: [e.name for e in report.measurements if word in e.note] for word in ("predicted", "measured best")}
    assert len(marked["predicted"]) == 2, "a size, and the verdict"
    assert len(marked["measured best"]) == 2
    assert sum(e.name.startswith("basic windows of") for e in report.measurements) >= 2
    assert all(e.value > 0 for e in report.measurements)


def test_calibrate_keeps_constants_if_asked(monkeypatch, tmp_path):
    monkeypatch.setenv("CROSSWIND_CACHE_DIR", str(tmp_path))
    sizes = ("--window", "1", "--batch", "50", "--sizes", "256", "--seconds", "0.01", "--rounds", "1", "--json")
    assert invoke("calibrate", *sizes, "--no-store").exit_code == 0
    assert not calibration().measured
    done = invoke("calibrate", *sizes)
    assert done.exit_code == 0, done.output
    constants = json.loads(done.output)["measurements"][:6]
    assert calibration().measured
    assert list(dataclasses.asdict(calibration().constants).values()) == [entry["value"] for entry in constants]


# -- the search for a rate ------------------------------------------------------------------------


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("limit", [90, 3_000, 41_000])
def test_the_search_finds_the_greatest_rate(power, limit):
    search = rate.RateSearch(4_000, 1_000_000)
    trials = 0
    while not search.is_over:
        trials += 1
        search.note(search.next, (search.next / limit) ** power)
    assert limit / 1.1 < search.held < limit <= search.failed
    assert trials <= 15


def test_the_search_stops_at_what_memory_allows():
    search = rate.RateSearch(4_000, 10_000)
    while not search.is_over:
        search.note(search.next, search.next / 1e9)
    assert search.held == 10_000
    assert search.failed is None


def test_the_search_ends_when_no_rate_holds():
    search = rate.RateSearch(4_000, 10_000)
    while not search.is_over:
        search.note(search.next, 1e9)
    assert search.held == 0


# -- records --------------------------------------------------------------------------------------


def test_a_measurement_is_the_median_and_knows_whether_it_holds():
    entry = measured_in([1.0, 9.0, 2.0], "x", "s", Goal(2.0))
    assert (entry.value, entry.holds, entry.runs) == (2.0, True, (1.0, 9.0, 2.0))
    assert measured_in([3.0], "x", "s", Goal(2.0, at_least=False)).holds is False
    assert Measurement("x", None, "s", Goal(2.0)).holds is None
    assert Measurement("x", 1.0, "s").holds is None
    assert entry.against(Measurement("y", 4.0, "s")).ratio == 0.5


def test_runs_are_interleaved():
    order: list[str] = []
    tasks = {name: lambda name=name: order.append(name) or float(len(order)) for name in "abc"}
    runs = interleave(tasks, 2, quiet)
    assert "".join(order) == "abccba"
    assert runs == {"a": [1.0, 6.0], "b": [2.0, 5.0], "c": [3.0, 4.0]}


def test_the_machine_is_described():
    facts = describe_machine()
    assert facts["cores"] >= 1
    assert facts["versions"]["crosswind"]
    assert json.dumps(facts)
    assert resident_bytes() > 1_000_000


# -- the command line -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*TINY, "all"])
def test_every_option_is_documented(name):
    command = crosswind.commands["bench"].commands[name]
    assert command.help
    assert all(option.help for option in command.params), name
    assert invoke(name, "--help").exit_code == 0


def test_a_report_is_printed():
    done = invoke("growth", "--window", "1", "--factors", "1,2", "--rate", "200", "--seconds", "0.01", "--rounds", "1")
    assert done.exit_code == 0, done.output
    assert "growth: cost of a tuple as windows grow" in done.output
    assert "us/tuple" in done.output
    assert "cores" in done.output


def test_a_report_is_printed_as_json():
    done = invoke("memory", "--rate", "200", "--window", "1", "--seconds", "0.01", "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.output)
    assert report["benchmark"] == "memory"
    assert report["machine"]["cores"] >= 1
    assert report["measurements"][1]["goal"]["at_least"] is False
    assert report["measurements"][1]["holds"] is True


def test_all_benchmarks_run_with_their_defaults_or_quick_sizes(monkeypatch):
    given: list[dict] = []

    def fake(**sizes):
        sizes.pop("tell")("working")
        given.append(sizes)
        return BenchReport("fake", "nothing", {"sizes": [1, 2_000]}, [Measurement("x", 1.0, "s", Goal(2.0, aim=3.0))])

    monkeypatch.setattr("crosswind.bench.suite.BENCHMARKS", dict.fromkeys(BENCHMARKS, fake))
    done = invoke("all", "--quick", "--json")
    assert done.exit_code == 0, done.output
    assert len(json.loads(done.output)["reports"]) == len(BENCHMARKS)
    assert given[0] == {"window": 200_000, "probes": 64, "rounds": 3}
    done = invoke("all")
    assert "at least 2, aim 3" in done.output
    assert "0.50 x asked" in done.output
    assert "DOES NOT HOLD" in done.output
    assert given[len(BENCHMARKS)] == {"window": 900_000, "probes": 128, "rounds": 7}
    assert given[len(BENCHMARKS) + 1]["windows"] == (900,)


@pytest.mark.parametrize("text", ["60,x", "0", "5,-1"])
def test_a_list_of_numbers_is_checked(text):
    done = invoke("replay", "--windows", text)
    assert done.exit_code == 2
    assert "is not a list of positive integers such as 60,900" in done.output
