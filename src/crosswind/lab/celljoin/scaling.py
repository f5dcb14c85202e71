"""CellJoin's figures 10 and 11: output and drops by input rate, output by cores."""

from __future__ import annotations

from functools import lru_cache

from crosswind.lab.celljoin import published
from crosswind.lab.celljoin.runs import (
    VARIANTS,
    offered,
    overload_share,
    simulated_cell_rate,
    sustained_by,
    sustained_on,
)
from crosswind.lab.figure import TWO_WORKERS, Figure, Series
from crosswind.lab.loads import HIT_RATE

__all__ = ["figure_10", "figure_10_drops", "figure_11"]

_STEPS = (0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.25, 1.5)
"""Rates that are offered, in those that the fastest variant sustains."""
_CORES = (1, 2, 4, 8)
_PLAIN, _VECTORS, _BOXES = VARIANTS


@lru_cache(maxsize=2)
def _offered(quick: bool) -> dict[str, tuple[tuple[float, float, float], ...]]:
    """Return, by variant, (rate, results/s, dropped/s)."""
    best = sustained_by(_BOXES, quick).rate
    steps = _STEPS[1::2] if quick else _STEPS
    rates = [round(best * step, -1) for step in steps]
    return {
        variant: tuple((rate, *offered(variant, max(10, round(rate)), quick)) for rate in rates) for variant in VARIANTS
    }


def _published(output: bool) -> list[Series]:
    """Return the published sustained rates, with the output that the hit rate gives them, or with no drops."""
    return [
        Series(variant, (rate,), (2 * rate**2 * 900 * HIT_RATE if output else 0.0,), "published")
        for variant, rate in zip(VARIANTS, published.SUSTAINED.values(), strict=True)
    ]


def _knees(quick: bool) -> str:
    rates = [sustained_by(variant, quick).rate for variant in VARIANTS]
    return ", ".join(f"{variant} {rate:,.0f}" for variant, rate in zip(VARIANTS, rates, strict=True))


def _first_to_drop(quick: bool) -> list[str]:
    return sorted(VARIANTS, key=lambda variant: sustained_by(variant, quick).rate)


def figure_10(quick: bool) -> Figure:
    """Show the output rate by the input rate."""
    points = _offered(quick)
    series = [
        Series(variant, tuple(p[0] for p in some), tuple(p[1] for p in some), "measured")
        for variant, some in points.items()
    ]
    plain, vectors, boxes = (sustained_by(variant, quick) for variant in VARIANTS)
    output = [boxes.results_per_s / other.results_per_s for other in (plain, vectors)]
    return Figure(
        "celljoin",
        "figure-10",
        "Output by input rate, 15-minute windows, one worker",
        "Output grows with the square of the input rate until tuples have to be dropped; vectors and unrolling move "
        "that point from 500 to 750 to 1,000 tuples/s on eight cores, and output up by 250 % and 33 %.",
        "tuples/s of each stream that are offered",
        "results/s",
        (*series, *_published(output=True)),
        f"Sustained without a drop, tuples/s of each stream: {_knees(quick)} (published: 500, 750 and 1,000). Past "
        f"that point output stays level. Boxes give {output[0]:.1f} times the output of the plain loop and "
        f"{output[1]:.1f} "
        "times that of vectors pair by pair (published: 3.5 and 1.33).",
        f"One core does {(boxes.rate / published.SUSTAINED['unrolled']) ** 2:.0f} times the comparisons of eight SPEs. "
        "The vectors in the middle are made by the compiler from any condition; the fastest compares intervals of keys "
        "with half as many bits, which CellJoin does not have, so the steps are larger.",
        "crosswind lab run celljoin figure-10",
        log_x=True,
        log_y=True,
        notes=(
            "Beyond the sustained rate, output is that at the sustained rate; see figure-10-drops for the check.",
            "Published are the sustained rates on eight SPEs; their output is reckoned from the hit rate.",
        ),
        holds=min(output) > 1,
    )


def figure_10_drops(quick: bool) -> Figure:
    """Show the drop rate by the input rate."""
    points = _offered(quick)
    series = [
        Series(variant, tuple(p[0] for p in some), tuple(p[2] for p in some), "measured")
        for variant, some in points.items()
    ]
    reckoned, real = overload_share(quick)
    return Figure(
        "celljoin",
        "figure-10-drops",
        "Tuples that are dropped, by input rate",
        "Nothing is dropped up to the sustained rate; from there on, all that comes more.",
        "tuples/s of each stream that are offered",
        "dropped tuples/s of each stream",
        (*series, *_published(output=False)),
        f"First to drop, first named: {', '.join(_first_to_drop(quick))} (published: plain, vectors, unrolled). "
        "Sustained "
        f"tuples/s: {_knees(quick)}.",
        "Drops are reckoned from the sustained rate: what is dropped at random leaves a stream of the rate that is "
        "sustained.",
        "crosswind lab run celljoin figure-10-drops",
        notes=(
            f"Checked in real time with twice the sustained rate behind a small buffer, short windows: {real:.0%} of "
            f"the tuples were taken, {reckoned:.0%} reckoned.",
        ),
        holds=tuple(_first_to_drop(quick)) == tuple(VARIANTS),
    )


def figure_11(quick: bool) -> Figure:
    """Show the output by the number of workers."""
    measured = {cores: sustained_on(cores, quick) for cores in (1, 2)}
    one = measured[1].results_per_s
    base = simulated_cell_rate(1)
    simulated = [(simulated_cell_rate(cores) / base) ** 2 for cores in _CORES]
    places = tuple(map(float, _CORES))
    errors = ", ".join(
        f"{simulated_cell_rate(cores) / found.rate - 1:+.0%} at {cores}" for cores, found in measured.items()
    )
    gain = measured[2].results_per_s / one
    return Figure(
        "celljoin",
        "figure-11",
        "Output by cores, 15-minute windows",
        "N cores sustain twice the output of half as many: sharing the window out costs next to nothing.",
        "workers",
        "greatest output, in times of one worker",
        (
            Series("shares of basic windows", places, places, "published"),
            Series("shares of basic windows", (1.0, 2.0), (1.0, gain), "measured"),
            Series("shares of basic windows", places, tuple(simulated), "simulated"),
        ),
        f"Two workers give {gain:.2f} times the output of one; eight would give {simulated[-1]:.1f} times.",
        "One of the cores here also runs the caller, which takes tuples in and makes rows while workers scan; the Cell "
        f"had a core of its own for that. A Xeon of the day had 1/{published.XEON_RATIO:g} of the output of eight "
        f"SPEs; one worker here sustains {measured[1].rate:,.0f} tuples/s where eight SPEs did 1,000.",
        "crosswind lab run celljoin figure-11",
        notes=(f"Simulated sustained rate against real: {errors} workers.",),
        holds=gain >= TWO_WORKERS,
    )
