"""``bench kernel``: pairs a second in the inner loop, by variant (CellJoin section 5)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from crosswind.bench.baseline import VARIANTS, BaselineMissingError, load_baseline
from crosswind.bench.probing import Probing, columns
from crosswind.bench.record import BenchReport, Tell, interleave, measured_in
from crosswind.bench.workload import BAND
from crosswind.query import predicate

__all__ = ["OURS", "measure"]

OURS = {
    "function, one by one": "your own Python function, which LLVM does not vectorise",
    "any condition, vectorised": "pair by pair, from the program: what no index helps with",
    "box, full keys": "explicit vectors over the open basic window",
    "box, half keys": "explicit vectors over sealed basic windows: the scan",
}
"""Our ways to compare a probe with a window, slowest first, each through ``push``."""

_SCALAR, _LANES, _FULL, _HALF = OURS


def crosswind_bench_near(x: int, a: int, y: float, b: float) -> bool:
    """Say whether two tuples are near, as a user would write it who does not know SQL."""
    return a - 10 <= x <= a + 10 and b - 10.0 <= y <= b + 10.0


def _joins(window: int) -> dict[str, Probing]:
    """Return a full window for each of our ways."""
    predicate(crosswind_bench_near)
    bands = f"R.x BETWEEN S.a - {BAND} AND S.a + {BAND} AND R.y BETWEEN S.b - {BAND} AND S.b + {BAND}"
    return {
        _SCALAR: Probing(window, "scan", "crosswind_bench_near(R.x, S.a, R.y, S.b)"),
        # The alternative, which never holds, leaves no box.
        _LANES: Probing(window, "scan", f"({bands}) OR R.x = S.a - 100000"),
        _FULL: Probing(window, "scan", basic_window=window + 1),
        _HALF: Probing(window, "scan"),
    }


def measure(*, window: int, probes: int, rounds: int, tell: Tell) -> BenchReport:
    """Measure the C++ variants and ours on the same window and probes.

    Parameters
    ----------
    window : int
        Tuples in the window.
    probes : int
        Tuples that come at once.
    rounds : int
        Runs of each variant, interleaved.
    tell : callable
        Told what is being done.
    """
    tell("filling the windows")
    joins = _joins(window)
    batch = joins[_HALF].probes(probes)
    held = columns(joins[_HALF].window)
    notes = ["One core. A pair is a probe and a tuple of the window, both bands checked. Ours go through push."]
    counts: dict[str, int] = {}

    def ours(name: str) -> float:
        counts[name], seconds = joins[name].push(batch)
        return window * probes / seconds / 1e9

    tasks: dict[str, Callable[[], float]] = {}
    try:
        tell("compiling the C++ loop")
        baseline = load_baseline()
    except BaselineMissingError as missing:
        notes.append(f"C++ left out: {missing}.")
    else:
        notes.append(f"C++ is src/crosswind/bench/baseline.cpp, {baseline.how}.")

        def hand_written(variant: str) -> float:
            counts[variant], seconds = baseline.scan(variant, held, columns(batch))
            return window * probes / seconds / 1e9

        tasks = {f"C++ {variant}": partial(hand_written, variant) for variant in VARIANTS}
    tasks |= {f"crosswind {name}": partial(ours, name) for name in OURS}
    for name in OURS:
        ours(name)  # compiles
    runs = interleave(tasks, rounds, tell)
    for name, count in counts.items():
        Probing.compare_counts(counts[_HALF], count, f"the variant '{name}'")
    for join in joins.values():
        join.join.close()
    found = [
        measured_in(values, name, "Gpairs/s", note=OURS.get(name.removeprefix("crosswind "), ""))
        for name, values in runs.items()
    ]
    return BenchReport(
        "kernel",
        "pairs/s of the inner loop, by variant",
        {"window": window, "probes": probes, "rounds": rounds},
        [entry if entry is found[0] else entry.against(found[0]) for entry in found],
        notes,
    )
