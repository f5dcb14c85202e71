"""CellJoin's figures 7 and 9 to 13."""

from __future__ import annotations

from functools import lru_cache

from crosswind.lab.celljoin import published
from crosswind.lab.celljoin.loops import WINDOW_BYTES, Loops, measure_loops
from crosswind.lab.celljoin.scaling import figure_10, figure_10_drops, figure_11
from crosswind.lab.celljoin.sizes import figure_9, figure_12, figure_13
from crosswind.lab.figure import Figure, Series
from crosswind.lab.papers import Experiment

__all__ = ["EXPERIMENTS", "figures"]

_NAMES = {"scalar": "plain loop", "vectorised": "vectors", "unrolled": "vectors, unrolled"}
_NO_COMPILER = "There is no C++ compiler here, so the loops could not be measured."


def _command(name: str) -> str:
    return f"crosswind lab run celljoin {name}"


@lru_cache(maxsize=2)
def _loops(quick: bool) -> Loops | None:
    return measure_loops(quick)


def _loop_series(found: Loops) -> list[Series]:
    sizes = tuple(float(size) for size in WINDOW_BYTES)
    return [Series(said, sizes, found.byte_ns(name), "measured") for name, said in _NAMES.items()]


def figure_7(quick: bool) -> Figure:
    """Show the time of the inner loop by the size of a basic window."""
    found = _loops(quick)
    sizes = tuple(float(size) for size in WINDOW_BYTES)
    series: list[Series] = []
    agrees, differs = _NO_COMPILER, ""
    if found is not None:
        fetched = tuple(taken / size for taken, size in zip(found.fetch_ns, WINDOW_BYTES, strict=True))
        series = [*_loop_series(found), Series("bringing it in", sizes, fetched, "measured")]
        flat = found.byte_ns("unrolled")
        agrees = (
            f"A byte costs much in very small basic windows and then always the same: {flat[0]:.3g} ns at "
            f"{WINDOW_BYTES[0]} bytes, {flat[-1]:.3g} ns at {WINDOW_BYTES[-1]:,} with the unrolled loop. So does "
            f"bringing it in: {fetched[0]:.3g} and {fetched[-1]:.3g} ns."
        )
        differs = (
            "Nanoseconds, not cycles; a basic window is copied by the processor, not by a DMA engine beside it; and "
            "the predicate has two bands of 4 bytes each, where the paper's simulator ran one."
        )
    return Figure(
        "celljoin",
        "figure-7",
        "The inner loop by the size of a basic window",
        "The time of a unit block of four tuples against a basic window grows with its size from the size of a cache "
        "line on; below that, fixed costs show.",
        "basic window, bytes of join attributes",
        "ns a byte (four probes)",
        tuple(series),
        agrees,
        differs,
        _command("figure-7"),
        log_x=True,
        log_y=True,
        notes=() if found is None else (f"Loops of bench kernel, {found.how}.",),
    )


def figure_7_ratios(quick: bool) -> Figure:
    """Show variants of the inner loop, relative to the unrolled one."""
    found = _loops(quick)
    sizes = tuple(float(size) for size in WINDOW_BYTES)
    stated = tuple(size for size in sizes if size >= 128)
    series = [
        Series(_NAMES["scalar"], stated, (published.PLAIN_TO_UNROLLED,) * len(stated), "published"),
        Series(_NAMES["vectorised"], stated, (published.VECTORS_TO_UNROLLED,) * len(stated), "published"),
    ]
    agrees, differs = _NO_COMPILER, ""
    if found is not None:
        ratios = {
            name: tuple(a / b for a, b in zip(found.block_ns[name], found.block_ns["unrolled"], strict=True))
            for name in ("scalar", "vectorised")
        }
        series += [Series(_NAMES[name], sizes, values, "measured") for name, values in ratios.items()]
        plain, vectors = ratios["scalar"][-2], ratios["vectorised"][-2]
        small = ratios["vectorised"][0]
        agrees = (
            f"At 8 KB the plain loop takes {plain:.1f} times the unrolled one (published: about "
            f"{published.PLAIN_TO_UNROLLED:g}), vectors without unrolling {vectors:.1f} times "
            f"({published.VECTORS_TO_UNROLLED:g}). Unrolling brings {'little' if small < vectors else 'as much'} "
            f"in the smallest windows ({small:.1f} times)."
        )
        differs = (
            "Vectors have 8 lanes here and 4 on the Cell, whose cores also lack branch prediction, which hurts the "
            "plain loop there and the branch per tuple everywhere."
        )
    return Figure(
        "celljoin",
        "figure-7-ratios",
        "What vectors and unrolling bring",
        "The plain loop takes about 10 times the cycles of the unrolled vector loop, vectors alone about 1.8 times.",
        "basic window, bytes of join attributes",
        "time, in times of the unrolled loop",
        tuple(series),
        agrees,
        differs,
        _command("figure-7-ratios"),
        log_x=True,
        log_y=True,
    )


EXPERIMENTS: dict[str, Experiment] = {
    "figure-7": figure_7,
    "figure-7-ratios": figure_7_ratios,
    "figure-9": figure_9,
    "figure-10": figure_10,
    "figure-10-drops": figure_10_drops,
    "figure-11": figure_11,
    "figure-12": figure_12,
    "figure-13": figure_13,
}
"""By figure."""


def figures(quick: bool) -> list[Figure]:
    """Run all experiments."""
    return [make(quick) for make in EXPERIMENTS.values()]
