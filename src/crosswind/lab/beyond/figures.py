"""Beyond the papers: index against scan, other engines, and the calculator against runs."""

from __future__ import annotations

import importlib.util
import shutil
from dataclasses import dataclass
from typing import Any

from crosswind.bench.live import DrivenJoin
from crosswind.bench.others import race
from crosswind.bench.record import Measurement
from crosswind.lab.figure import Figure, Series
from crosswind.lab.loads import BANDS, Loaded, ns_a_tuple
from crosswind.lab.setting import Experiment, Setting
from crosswind.lab.size import Checked, Sample, check_size, take_sample
from crosswind.lab.streams import PAPERS_SCHEMAS, Uniform, schemas_with_time
from crosswind.lab.verdict import compare

__all__ = ["EXPERIMENTS", "BeyondCosts", "Calculated", "Raced", "calculator", "engines", "index_and_scan"]

_RATE = 1_000


@dataclass(frozen=True)
class BeyondCosts:
    """Microseconds per tuple by window in seconds, with a scan and with an index."""

    rate: int
    scan: dict[int, float]
    index: dict[int, float]


def measure_costs(setting: Setting) -> BeyondCosts:
    """Drive full windows with and without an index."""
    windows: tuple[int, ...] = (10, 60, 300) if setting.quick else (10, 60, 300, 900, 1_800)
    windows = (setting.window,) if setting.window else windows
    seconds, rounds = (0.08, 4) if setting.quick else (0.5, 5)
    rate = setting.rate or _RATE
    taken: dict[str, dict[int, float]] = {"scan": {}, "auto": {}}
    for window_s in windows:
        for index, found in taken.items():
            live = DrivenJoin(Loaded(rate, window_s * 1_000_000, seed=setting.seed), index, 1_000)
            found[window_s] = ns_a_tuple(live, 1_000, seconds, rounds) / 1e3
            live.close()
    return BeyondCosts(rate, taken["scan"], taken["auto"])


def index_and_scan(found: BeyondCosts) -> Figure:
    """Draw what a tuple costs by window length, with and without an index."""
    places = tuple(map(float, found.scan))
    longest, shortest = max(found.scan), min(found.scan)
    ratios = {window_s: found.scan[window_s] / found.index[window_s] for window_s in found.scan}
    return Figure(
        "beyond",
        "index-and-scan",
        "What a tuple costs, with and without an index",
        "A scan compares a tuple with the whole window; an index with the few tuples around its box.",
        f"window, seconds ({found.rate:,} tuples/s per stream)",
        "us per tuple",
        (
            Series("scan, as in the papers", places, tuple(found.scan.values()), "measured"),
            Series("index, chosen by the planner", places, tuple(found.index.values()), "measured"),
        ),
        (
            compare(
                f"windows of {longest} s: a scan costs, in times of the index",
                ratios[longest],
                low=2.0,
                unit=" times",
                timed=True,
            ),
            compare(
                "the longer the window, the more the index gains: longest to shortest",
                ratios[longest] / ratios[shortest] if longest > shortest else None,
                low=1.0,
                unit=" times",
                timed=True,
                missing="only one window was asked for",
            ),
        ),
        "The papers have no index for this predicate.",
        log_x=True,
        log_y=True,
        notes=("One worker, batches of a second, full windows; the least of several runs. Both give the same rows.",),
    )


@dataclass(frozen=True)
class Raced:
    """Tuples/s by engine and window in seconds."""

    rates: dict[str, dict[int, float]]
    notes: tuple[str, ...]


def measure_engines(setting: Setting) -> Raced:
    """Join the same streams in other engines."""
    windows_s = (10, 30) if setting.quick else (60, 900)
    found: dict[str, dict[int, float]] = {}
    notes: list[str] = []
    for window_s in windows_s:
        length, rounds = (120, 2) if setting.quick else (900, 3)
        entries, said = race(window_s, _RATE, length, rounds, lambda _: None)
        for entry in entries:
            found.setdefault(entry.name.partition(",")[0], {})[window_s] = entry.value or 0.0
        notes += [line for line in said if line not in notes and "\n" not in line]
    if setting.quick:
        notes.append("Spark's own join takes minutes and is in the full run only.")
    else:
        found |= _spark(windows_s)
    return Raced(found, tuple(notes))


def engines(found: Raced) -> Figure:
    """Draw tuples/s of Crosswind, DuckDB, Polars and, in the full run, Spark."""
    ours = found.rates["crosswind"]
    longest = max(ours)
    return Figure(
        "beyond",
        "engines",
        "The same join in other engines",
        "DuckDB and Polars join the finished streams as a batch, with the bands turned into buckets by hand; Crosswind "
        "joins them as streams, from the predicate as it is.",
        "window, seconds (1,000 tuples/s per stream)",
        "tuples/s, both streams",
        tuple(
            Series(name, tuple(map(float, values)), tuple(values.values()), "measured")
            for name, values in found.rates.items()
        ),
        tuple(
            compare(
                f"windows of {longest} s: one worker of Crosswind has, of the rate of {name}",
                ours[longest] / values[longest],
                low=0.1,
                unit=" times",
                timed=True,
            )
            for name, values in found.rates.items()
            if name != "crosswind" and values.get(longest)
        ),
        "They are not streaming engines: they know the end of the streams, hold no state, answer once, and use all "
        "cores, where Crosswind has one worker here. All find the same rows.",
        log_y=True,
        notes=found.notes,
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


@dataclass(frozen=True)
class Calculated:
    """What the calculator says a tuple costs, and what it does cost."""

    window_s: int
    sample: Sample
    checks: tuple[Checked, ...]


def measure_calculator(setting: Setting) -> Calculated:
    """Ask the calculator, and run the join at three rates."""
    columns = tuple(schemas_with_time(PAPERS_SCHEMAS).items())
    window_s = setting.window or (60 if setting.quick else 300)
    rate = setting.rate or 10_000
    workload = Uniform(rate, window_s * 1_000_000, seed=setting.seed, columns=columns, predicate=BANDS)
    sample = take_sample(workload)
    return Calculated(window_s, sample, tuple(check_size(workload, sample, 0.3 if setting.quick else 2.0)))


def calculator(found: Calculated) -> Figure:
    """Draw what the calculator says a tuple costs, against runs."""
    places = tuple(float(check.rate) for check in found.checks)
    errors = {check.rate: check.predicted_ns / check.measured_ns - 1 for check in found.checks}
    return Figure(
        "beyond",
        "calculator",
        "The capacity calculator against runs",
        "crosswind lab size says what a tuple will cost from the cost model, its constants and a moment's sample.",
        f"tuples/s of each stream ({found.window_s} s windows)",
        "processor time per tuple, us",
        (
            Series("a tuple", places, tuple(check.measured_ns / 1e3 for check in found.checks), "measured"),
            Series("a tuple", places, tuple(check.predicted_ns / 1e3 for check in found.checks), "computed"),
        ),
        tuple(
            compare(
                f"{rate:,} tuples/s: predicted, to measured", 1 + error, low=0.6, high=1.6, unit=" times", timed=True
            )
            for rate, error in errors.items()
        ),
        "Caches are not in the model: very large windows cost more than it says. crosswind bench calibrate measures "
        "its constants on the machine; without it, built-in ones are used.",
        log_x=True,
        notes=(f"Sampled: {found.sample.match:.2g} of all pairs match, {found.sample.result_ns:.0f} ns per result.",),
    )


EXPERIMENTS: dict[str, Experiment[Any]] = {
    "index-and-scan": Experiment(measure_costs, index_and_scan, ("rate", "window", "seed")),
    "engines": Experiment(measure_engines, engines),
    "calculator": Experiment(measure_calculator, calculator, ("rate", "window", "seed")),
}
"""By figure."""
