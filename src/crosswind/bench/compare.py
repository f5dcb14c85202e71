"""``bench compare``: the scan against hand-written C++, the join against DuckDB and Polars."""

from __future__ import annotations

from crosswind.bench.baseline import BaselineMissingError, load_baseline
from crosswind.bench.others import race
from crosswind.bench.probing import Probing, columns
from crosswind.bench.record import BenchReport, Goal, Measurement, Tell, interleave, measured_in

__all__ = ["measure", "scan_against_cpp"]

_ASKED_WINDOW = 900_000
_SCAN_GOAL = Goal(0.9, aim=1.2)


def measure(
    *, window: int, probes: tuple[int, ...], rounds: int, windows: tuple[int, ...], prefix: int, rate: int, tell: Tell
) -> BenchReport:
    """Measure both comparisons.

    Parameters
    ----------
    window : int
        Tuples in the window that is scanned.
    probes : tuple of int
        Sizes of the batches that scan it.
    rounds : int
        Runs of each side, interleaved.
    windows : tuple of int
        Window lengths, in seconds, for DuckDB and Polars; none: leave them out.
    prefix : int
        Length of the finite streams for them, in seconds; at least two windows.
    rate : int
        Tuples/s of those streams.
    tell : callable
        Told what is being done.
    """
    measurements, notes = scan_against_cpp(window, probes, rounds, tell)
    for window_s in windows:
        more, code = race(window_s, rate, prefix, rounds, tell)
        measurements += more
        notes += [line for line in code if line not in notes]
    settings = {"window": window, "probes": list(probes), "rounds": rounds}
    settings |= {"windows_s": list(windows), "prefix_s": prefix, "rate": rate}
    return BenchReport("compare", "against hand-written C++, DuckDB and Polars", settings, measurements, notes)


def scan_against_cpp(
    window: int, probes: tuple[int, ...], rounds: int, tell: Tell
) -> tuple[list[Measurement], list[str]]:
    """Return pairs/s of the scan through ``push`` and of the best C++ loop, by batch size, and notes."""
    try:
        tell("compiling the C++ loop")
        baseline = load_baseline()
    except BaselineMissingError as missing:
        return [], [f"Scan left out: {missing}."]
    tell("filling the window")
    probing = Probing(window, "scan")
    held = columns(probing.window)
    measurements: list[Measurement] = []
    for size in probes:
        batch = probing.probes(size)
        expected, _ = baseline.scan("unrolled", held, columns(batch))
        probing.compare_counts(probing.push(batch)[0], expected)
        per_run = window * size / 1e9
        tasks = {
            "C++": lambda batch=batch, per_run=per_run: per_run / baseline.scan("unrolled", held, columns(batch))[1],
            "scan": lambda batch=batch, per_run=per_run: per_run / probing.push(batch)[1],
        }
        runs = interleave(tasks, rounds, tell)
        cpp = measured_in(runs["C++"], f"C++ unrolled, {size:,} probes", "Gpairs/s")
        ours = measured_in(runs["scan"], f"crosswind scan, {size:,} probes", "Gpairs/s").against(cpp)
        ratios = [mine / theirs for mine, theirs in zip(runs["scan"], runs["C++"], strict=True)]
        goal = _SCAN_GOAL if window == _ASKED_WINDOW else None
        measurements += [cpp, ours, measured_in(ratios, f"scan / C++, {size:,} probes", "", goal)]
    probing.join.close()
    note = (
        f"C++ is src/crosswind/bench/baseline.cpp, {baseline.how}; window of {window:,} tuples, one core, same results."
    )
    return measurements, [note]
