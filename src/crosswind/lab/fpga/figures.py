"""Figures 12 and 13 of the paper made again, and what else the model can tell."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from crosswind.lab.figure import Figure, Series
from crosswind.lab.fpga import published
from crosswind.lab.fpga.runs import (
    ALONE,
    FULL,
    LONG,
    NESTED,
    NESTED_SHORT,
    SHORT,
    AdmissionRun,
    Buffers,
    Clocks,
    Cores,
    Sweep,
    crossing,
    measure_admission,
    measure_buffers,
    measure_clocks,
    measure_cores,
    sweep,
)
from crosswind.lab.setting import Experiment
from crosswind.lab.verdict import compare

__all__ = ["EXPERIMENTS"]

_NO_PLOT = "The values of the plot are not in the paper's text, so ours are held against what the text says."
_ROOT = 2 / 3
"""Results per clock that the last merger passes on: two in its three states."""


def _percent(rates: Sequence[float]) -> tuple[float, ...]:
    return tuple(100 * rate for rate in rates)


def _lines(x: tuple[float, ...], values: dict[str, tuple[float, ...]]) -> tuple[Series, ...]:
    return tuple(Series(name, x, y, "simulated") for name, y in values.items())


def _chip(found: Sweep | AdmissionRun) -> str:
    return f"{found.chip.cores} join cores of {found.chip.segment} tuples, 100 MHz"


def figure_12(found: Sweep) -> Figure:
    """Draw the output throughput by match rate."""
    x = _percent(found.rates)
    mine = {name: found.put_out[name] for name in (SHORT, LONG)}
    y = mine[LONG]
    early = max(k for k, rate in enumerate(found.rates) if rate <= 0.01)
    steep, flat = y[early] / x[early], (y[-1] - y[early]) / (x[-1] - x[early])
    place = "section V-C, Figure 12"
    return Figure(
        "fpga",
        "figure-12",
        f"Output throughput by match rate, {_chip(found)}",
        "The more pairs match, the less output grows: buffers fill up and the controller interrupts the input.",
        "match rate (% of pairs)",
        "results put out (M/s)",
        _lines(x, mine),
        (
            compare(
                f"output grows less from {x[early]:g} % of matches on: growth per percent, to that before",
                flat / steep,
                high=0.5,
                published="lessened",
                place=place,
                unit=" times",
            ),
            compare(
                "clocks in which cores stand still when all pairs match, to all clocks",
                found.suspended[-1],
                low=0.5,
                published="frequent interruption",
                place=place,
            ),
            compare("results lost", float(found.lost), high=0.0, published="none", place="section IV-D"),
            compare(
                "output when all pairs match, to what the last merger can pass on",
                y[-1] / (100 * _ROOT),
                low=0.9,
                high=1.0,
            ),
        ),
        "A merger stores two tuples in its three states, so 66.7 M/s at 100 MHz is the most. How full a buffer is when "
        "its flag rises is our choice.",
        notes=(_NO_PLOT,),
    )


def figure_13(found: Sweep) -> Figure:
    """Draw the input throughput by match rate, beside the nested loop's."""
    x, taken = _percent(found.rates), found.taken
    pairs = {"one window of input": (SHORT, NESTED_SHORT), "two windows": (LONG, NESTED_SHORT), "full": (FULL, NESTED)}
    crossed = {name: crossing(x, taken[first], taken[second]) for name, (first, second) in pairs.items()}
    told = ", ".join(f"{name}: {f'at {at:.0f} %' if at is not None else 'nowhere'}" for name, at in crossed.items())
    gains = [a / b - 1 for a, b in zip(taken[ALONE], taken[FULL], strict=True)]
    place = "section V-C, Figure 13"
    return Figure(
        "fpga",
        "figure-13",
        f"Input throughput by match rate, against a nested loop, {_chip(found)}",
        "With few matches the join takes far more input than a nested loop; with enough of them it takes less, since "
        "admission control interrupts all cores.",
        "match rate (% of pairs)",
        "tuples taken in, both streams (M/s)",
        _lines(x, taken),
        (
            compare(
                "without matches the cores take, in times of the nested loop (one window of input)",
                taken[SHORT][0] / taken[NESTED_SHORT][0],
                low=2.0,
                published="considerably more",
                place=place,
                unit=" times",
            ),
            *(
                compare(
                    f"when all pairs match the cores take less than the nested loop ({name}): of it",
                    taken[first][-1] / taken[second][-1],
                    high=1.0,
                    published="less",
                    place=place,
                    unit=" times",
                )
                for name, (first, second) in pairs.items()
            ),
            compare(
                "cores that are held up one by one take more: greatest gain",
                max(gains),
                low=0.05,
                published="expected",
                place="section VI",
            ),
        ),
        "With few tuples of input half of the pairs stay unmet in the pipeline, which favours the cores there. With "
        "full windows it is the merging tree that holds them back, whose root gives 2 results in 3 clocks where the "
        "loop's port gives 3.",
        log_y=True,
        notes=(_NO_PLOT, f"From there on the cores take less than the nested loop: {told}."),
    )


def figure_cores(found: Cores) -> Figure:
    """Draw throughput by number of cores, which is what the claim of scalability is about besides the clock."""
    x, ours, nested = tuple(map(float, found.handshake)), list(found.handshake.values()), list(found.nested.values())
    return Figure(
        "fpga",
        "cores",
        f"Input throughput by number of cores, {found.segment} tuples per core, no matches, 100 MHz",
        "The design scales: a larger window needs more cores, not more time (sections V-B and VI).",
        "join cores",
        "tuples taken in, both streams (M/s)",
        (
            Series("handshake join", x, tuple(ours), "simulated"),
            Series("nested loop, same window", x, tuple(nested), "simulated"),
        ),
        (
            compare(
                "input throughput with the most cores, to that with the fewest",
                ours[-1] / ours[0],
                low=0.95,
                high=1.05,
                published="scalability up to 64 cores",
                place="section VI",
                unit=" times",
            ),
            compare(
                "the nested loop falls with its window: greatest to smallest window, less than half",
                nested[-1] / nested[0],
                high=0.5,
                unit=" times",
            ),
        ),
        "The model runs at the same clock at every size; what the chip loses is in Figure 10, not shown.",
        log_x=True,
        log_y=True,
    )


def figure_clock(found: Clocks) -> Figure:
    """Draw the clock that a throughput asks for, against the table of the first handshake join paper."""
    x = tuple(map(float, found.mhz))
    return Figure(
        "fpga",
        "clock-500k",
        "Clock at which windows of 100 tuples take 500,000 tuples/s",
        "Cores can be traded for clock: ten do at 5 MHz what one does at 50 (Teubner and Mueller, section 6.5).",
        "join cores",
        "clock (MHz)",
        (
            Series(
                "handshake join", x, tuple(published.RATE_500K_CORES.values()), "published", published.RATE_500K_PLACE
            ),
            Series("this circuit", x, tuple(found.mhz.values()), "simulated"),
        ),
        tuple(
            compare(
                f"{n} core{'s' * (n > 1)}: clock that is needed",
                mhz,
                low=published.RATE_500K_CORES[n] * 0.95,
                high=published.RATE_500K_CORES[n] * 1.3,
                published=f"{published.RATE_500K_CORES[n]:g} MHz",
                place=published.RATE_500K_PLACE,
                unit=" MHz",
            )
            for n, mhz in found.mhz.items()
        ),
        "Besides the places of a segment each pair of tuples costs the five clocks of states 1 to 4 and 6, which that "
        "table leaves out: it counts more the shorter the segments are.",
        log_x=True,
        log_y=True,
        notes=("5 and 10 cores leave ports of the merging tree open.",),
    )


def figure_admission(found: AdmissionRun) -> Figure:
    """Draw tuples dropped by what is offered: the other side of input throughput."""
    free = {
        rate: max((at for at, share in zip(found.offered, some, strict=True) if share == 0), default=0.0)
        for rate, some in found.dropped.items()
    }
    told = ", ".join(f"{100 * rate:g} %: {at:.1f}" for rate, at in free.items())
    rates = list(found.dropped)
    return Figure(
        "fpga",
        "admission",
        f"Input dropped by input offered, {_chip(found)}",
        "When output cannot keep up, tuples that arrive are discarded, so that no result of those admitted is lost "
        "(section IV-D).",
        "tuples offered, both streams (M/s)",
        "tuples dropped (%)",
        tuple(
            Series(f"match rate {100 * rate:g} %", found.offered, some, "simulated")
            for rate, some in found.dropped.items()
        ),
        (
            compare("results lost", float(found.lost), high=0.0, published="none", place="section IV-D"),
            compare(
                "more matches, more drops at the highest rate offered: least step, in percent",
                min(found.dropped[b][-1] - found.dropped[a][-1] for a, b in itertools.pairwise(rates)),
                low=0.0,
                published="more",
                place="section V-C",
            ),
        ),
        "The paper has no such figure; its input throughput is where these lines leave zero.",
        notes=(
            f"The highest rate offered at which nothing was dropped, in M tuples/s by match rate: {told}.",
            "Arrivals at a fixed interval; results equal an oracle on the admitted input (tests/lab/test_fpga.py).",
        ),
    )


def figure_buffers(found: Buffers) -> Figure:
    """Draw input throughput by the size of buffers, which the paper leaves to future work."""
    core, merger = published.BUFFERS
    here = found.rates[merger][found.depths.index(core)]
    most = max(found.rates)
    return Figure(
        "fpga",
        "buffers",
        "Input throughput by size of buffers at a match rate of 1 %, windows full, 100 MHz",
        "The paper takes 8 places for a core and 4 for a merger and leaves the suitable sizes to future work.",
        "places in the FIFO of a core",
        "tuples taken in, both streams (M/s)",
        tuple(
            Series(f"{merger} places in a merger", tuple(map(float, found.depths)), y, "simulated")
            for merger, y in found.rates.items()
        ),
        (
            compare(
                "larger buffers take more input: the largest, in times of the paper's",
                found.rates[most][-1] / here,
                low=1.0,
                published="to be determined",
                place="section VI",
                unit=" times",
            ),
            compare(
                f"it is the mergers that are short: 8 places in a core and {most} in a merger have, of the largest",
                found.rates[most][found.depths.index(core)] / found.rates[most][-1],
                low=0.95,
            ),
        ),
        "There is no published line.",
        log_x=True,
        notes=(f"With the paper's {core} and {merger} places: {here:.2f} M tuples/s.",),
    )


_CHIP = ("cores", "segment", "buffers", "seed")
EXPERIMENTS: dict[str, Experiment[Any]] = {
    "figure-12": Experiment(sweep, figure_12, _CHIP),
    "figure-13": Experiment(sweep, figure_13, _CHIP),
    "cores": Experiment(measure_cores, figure_cores, _CHIP),
    "clock-500k": Experiment(measure_clocks, figure_clock, ("seed",)),
    "admission": Experiment(measure_admission, figure_admission, _CHIP),
    "buffers": Experiment(measure_buffers, figure_buffers, ("cores", "segment", "seed")),
}
"""By figure."""
