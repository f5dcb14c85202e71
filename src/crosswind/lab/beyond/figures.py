"""Beyond the papers: index against scan, other engines, and the calculator against runs."""

from __future__ import annotations

import importlib.util
import shutil

from crosswind.bench.live import LiveJoin
from crosswind.bench.others import race
from crosswind.bench.record import Measurement
from crosswind.lab.figure import Figure, Series
from crosswind.lab.loads import BANDS, Loaded, ns_a_tuple
from crosswind.lab.papers import Experiment
from crosswind.lab.size import check_size, take_sample
from crosswind.lab.streams import PAPERS_SCHEMAS, Uniform, schemas_with_time

__all__ = ["EXPERIMENTS", "figures"]

_RATE = 1_000


def _command(name: str) -> str:
    return f"crosswind lab run beyond {name}"


def index_and_scan(quick: bool) -> Figure:
    """Show what a tuple costs by window length, with and without an index."""
    windows_s = (10, 60, 300) if quick else (10, 60, 300, 900, 1_800)
    seconds, rounds = (0.08, 4) if quick else (0.5, 5)
    taken: dict[str, list[float]] = {"scan": [], "auto": []}
    for window_s in windows_s:
        for index, found in taken.items():
            live = LiveJoin(Loaded(_RATE, window_s * 1_000_000), index, 1_000)
            found.append(ns_a_tuple(live, 1_000, seconds, rounds) / 1e3)
            live.close()
    places = tuple(map(float, windows_s))
    ratio = [a / b for a, b in zip(taken["scan"], taken["auto"], strict=True)]
    return Figure(
        "beyond",
        "index-and-scan",
        "What a tuple costs, with and without an index",
        "A scan compares a tuple with the whole window; an index with the few tuples around its box.",
        "window, seconds (1,000 tuples/s a stream)",
        "us a tuple",
        (
            Series("scan, as in the papers", places, tuple(taken["scan"]), "measured"),
            Series("index, chosen by the planner", places, tuple(taken["auto"]), "measured"),
        ),
        f"With windows of {windows_s[-1]} s a scan costs {taken['scan'][-1]:.3g} us a tuple, the index "
        f"{taken['auto'][-1]:.3g} us: {ratio[-1]:.1f} times less. Both give the same rows.",
        f"In short windows there is little to skip: {ratio[0]:.1f} times at {windows_s[0]} s.",
        _command("index-and-scan"),
        log_x=True,
        log_y=True,
        notes=("One worker, batches of a second, full windows; the least of several runs.",),
    )


def engines(quick: bool) -> Figure:
    """Show tuples/s of Crosswind, DuckDB, Polars and, in the full run, Spark."""
    windows_s = (10, 30) if quick else (60, 900)
    found: dict[str, dict[int, float]] = {}
    notes: list[str] = []
    for window_s in windows_s:
        entries, said = race(window_s, _RATE, 120 if quick else 900, 2 if quick else 3, lambda _: None)
        for entry in entries:
            found.setdefault(entry.name.partition(",")[0], {})[window_s] = entry.value or 0.0
        notes += [line for line in said if line not in notes and "\n" not in line]
    if quick:
        notes.append("Spark's own join takes minutes and is in the full run only.")
    else:
        found |= _spark(windows_s)
    ours = found.get("crosswind", {})
    compared = [
        f"{name} {values[windows_s[-1]]:,.0f} ({ours[windows_s[-1]] / values[windows_s[-1]]:.2g} times)"
        for name, values in found.items()
        if name != "crosswind" and values.get(windows_s[-1])
    ]
    return Figure(
        "beyond",
        "engines",
        "The same join in other engines",
        "DuckDB and Polars join the finished streams as a batch, with the bands turned into buckets by hand; Crosswind "
        "joins them as streams, from the predicate as it is.",
        "window, seconds (1,000 tuples/s a stream)",
        "tuples/s, both streams",
        tuple(
            Series(name, tuple(map(float, values)), tuple(values.values()), "measured")
            for name, values in found.items()
        ),
        f"All find the same rows. With windows of {windows_s[-1]} s: Crosswind {ours[windows_s[-1]]:,.0f} tuples/s; "
        f"{', '.join(compared) or 'no other engine is installed'} (in brackets, what Crosswind has of it).",
        "They are not streaming engines: they know the end of the streams, hold no state, answer once, and use all "
        "cores, where Crosswind has one worker here.",
        _command("engines"),
        log_y=True,
        notes=tuple(notes),
    )


def _spark(windows_s: tuple[int, ...]) -> dict[str, dict[int, float]]:
    """Return tuples/s of Crosswind on Spark and of Spark's own join, by window; nothing without Spark."""
    if importlib.util.find_spec("pyspark") is None or shutil.which("java") is None:
        return {}
    from crosswind.bench import spark

    report = spark.measure(
        windows=windows_s,
        rate=_RATE,
        length=600,
        batch=300,
        own=300,
        bucket=50,
        cores=2,
        theta=0,
        tell=lambda _: None,
    )
    found: dict[str, dict[int, float]] = {}
    for entry in report.measurements:
        name = _spark_name(entry)
        if name and entry.value:
            found.setdefault(name, {})[int(entry.name.split()[0])] = entry.value
    return found


def _spark_name(entry: Measurement) -> str:
    if entry.name.endswith("Crosswind"):
        return "crosswind on Spark"
    return "Spark's own join, buckets" if entry.name.endswith("own join") else ""


def calculator(quick: bool) -> Figure:
    """Show what the calculator says a tuple costs, against runs."""
    columns = tuple(schemas_with_time(PAPERS_SCHEMAS).items())
    window_s = 60 if quick else 300
    workload = Uniform(10_000, window_s * 1_000_000, columns=columns, predicate=BANDS)
    sample = take_sample(workload)
    checks = check_size(workload, sample, 0.3 if quick else 2.0)
    places = tuple(float(check.rate) for check in checks)
    errors = [check.predicted_ns / check.measured_ns - 1 for check in checks]
    return Figure(
        "beyond",
        "calculator",
        "The capacity calculator against runs",
        "crosswind lab size says what a tuple will cost from the cost model, its constants and a moment's sample.",
        f"tuples/s of each stream ({window_s} s windows)",
        "processor time a tuple, us",
        (
            Series("a tuple", places, tuple(check.measured_ns / 1e3 for check in checks), "measured"),
            Series("a tuple", places, tuple(check.predicted_ns / 1e3 for check in checks), "simulated"),
        ),
        "Predicted against measured: "
        + ", ".join(f"{e:+.0%} at {check.rate:,}" for e, check in zip(errors, checks, strict=True))
        + " tuples/s.",
        "Caches are not in the model: very large windows cost more than it says. crosswind bench calibrate measures "
        "its "
        "constants on the machine; without it, built-in ones are used.",
        _command("calculator"),
        log_x=True,
        notes=(f"Sampled: {sample.match:.2g} of all pairs match, {sample.result_ns:.0f} ns a result.",),
    )


EXPERIMENTS: dict[str, Experiment] = {
    "index-and-scan": index_and_scan,
    "engines": engines,
    "calculator": calculator,
}
"""By figure."""


def figures(quick: bool) -> list[Figure]:
    """Run all experiments."""
    return [make(quick) for make in EXPERIMENTS.values()]
