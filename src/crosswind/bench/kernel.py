"""``bench kernel``: pairs a second in the inner loop, by variant (CellJoin section 5)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from crosswind.bench.baseline import VARIANTS, BaselineMissingError, load_baseline
from crosswind.bench.probing import Probing, columns
from crosswind.bench.record import Report, Tell, interleave, measured_in

__all__ = ["measure"]

OURS = "crosswind scan, through push"


def measure(*, window: int, probes: int, rounds: int, tell: Tell) -> Report:
    """Measure the C++ variants and the scan of a join on the same window and probes.

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
    tell("filling the window")
    probing = Probing(window, "scan")
    probing.push(probing.probes(probes))
    notes = ["One core. A pair is a probe and a tuple of the window, both bands checked."]
    counts: dict[str, int] = {}

    def ours() -> float:
        _, seconds = probing.push(probing.probes(probes))
        return window * probes / seconds / 1e9

    tasks: dict[str, Callable[[], float]] = {}
    try:
        tell("compiling the C++ loop")
        baseline = load_baseline()
    except BaselineMissingError as missing:
        notes.append(f"C++ left out: {missing}.")
    else:
        notes.append(f"C++ is src/crosswind/bench/baseline.cpp, {baseline.how}.")
        held, batch = columns(probing.window), probing.probes(probes)

        def hand_written(variant: str) -> float:
            counts[variant], seconds = baseline.scan(variant, held, columns(batch))
            return window * probes / seconds / 1e9

        tasks = {f"C++ {variant}": partial(hand_written, variant) for variant in VARIANTS}
        counts["push"], _ = probing.push(batch)
    tasks[OURS] = ours
    runs = interleave(tasks, rounds, tell)
    for variant in VARIANTS[: len(tasks) - 1]:
        probing.compare_counts(counts["push"], counts[variant])
    probing.join.close()
    found = [measured_in(values, name, "Gpairs/s") for name, values in runs.items()]
    return Report(
        "kernel",
        "pairs/s of the inner loop, by variant",
        {"window": window, "probes": probes, "rounds": rounds},
        [entry if entry is found[0] else entry.against(found[0]) for entry in found],
        notes,
    )
