"""Figures 12 and 13 of the paper made again, and what else the model can tell."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from crosswind.lab.figure import Figure, Series
from crosswind.lab.fpga import published
from crosswind.lab.fpga.join import PAPER, Outcome, Settings, run
from crosswind.lab.fpga.nested import run_nested
from crosswind.lab.fpga.workload import matching

__all__ = ["EXPERIMENTS", "crossing", "figures"]

_RATES = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0)
_QUICK_RATES = (0.0, 0.002, 0.01, 0.03, 0.1, 0.3, 1.0)
_COMMAND = "crosswind lab run fpga"
_NO_PLOT = "The values of the plot are not in the paper's text, so ours are held against what the text says."
_WINDOW = PAPER.window


@dataclass(frozen=True)
class _Sweep:
    """Input and output rates by match rate, in millions a second, by design and length of the input."""

    rates: tuple[float, ...]
    taken: dict[str, tuple[float, ...]]
    put_out: dict[str, tuple[float, ...]]
    suspended: tuple[float, ...]
    lost: int


@lru_cache(maxsize=2)
def _sweep(quick: bool) -> _Sweep:
    rates = _QUICK_RATES if quick else _RATES
    seeds = (1,) if quick else (1, 2)
    taken: dict[str, list[float]] = {}
    put_out: dict[str, list[float]] = {}
    suspended, lost = [], 0
    for rate in rates:
        points: dict[str, list[tuple[float, float]]] = {}
        held = []
        for seed in seeds:
            short, long = matching(_WINDOW, rate, seed), matching(2 * _WINDOW, rate, seed)
            outcomes = {
                "64 cores, 512 tuples": run(short),
                "64 cores, 1024 tuples": run(long),
                "64 cores held up one by one": run(long, Settings(alone=True)),
                "nested loop, 512 tuples": run_nested(short),
                "nested loop": run_nested(long),
            }
            held.append(outcomes["64 cores, 1024 tuples"].suspended / outcomes["64 cores, 1024 tuples"].clocks)
            lost += sum(outcome.lost for outcome in outcomes.values())
            for name, point in _points(outcomes).items():
                points.setdefault(name, []).append(point)
        suspended.append(_mean(held))
        for name, found in points.items():
            taken.setdefault(name, []).append(_mean([point[0] for point in found]))
            put_out.setdefault(name, []).append(_mean([point[1] for point in found]))
    return _Sweep(rates, _fixed(taken), _fixed(put_out), tuple(suspended), lost)


def _points(outcomes: dict[str, Outcome]) -> dict[str, tuple[float, float]]:
    """Return input and output rate: of whole runs, and of the second half of the long ones, when windows are full."""
    found = {
        name: (outcome.input_rate(), outcome.output_rate())
        for name, outcome in outcomes.items()
        if name.endswith("tuples")
    }
    for name in ("64 cores, 1024 tuples", "64 cores held up one by one", "nested loop"):
        full = outcomes[name].rates_between(_WINDOW, 2 * _WINDOW - 1)
        found[name.removesuffix(", 1024 tuples") + ", windows full"] = full
    return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _fixed(values: dict[str, list[float]]) -> dict[str, tuple[float, ...]]:
    return {name: tuple(found) for name, found in values.items()}


def crossing(x: Sequence[float], first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return the x from which on ``first`` stays below ``second``, between points by straight lines in log y."""
    below = [a < b for a, b in zip(first, second, strict=True)]
    if not below[-1]:
        return None
    at = len(below) - 1
    while at and below[at - 1]:
        at -= 1
    if at == 0:
        return x[0]
    before, after = (math.log(first[k] / second[k]) for k in (at - 1, at))
    return x[at - 1] + (x[at] - x[at - 1]) * before / (before - after)


def _percent(rates: Sequence[float]) -> tuple[float, ...]:
    return tuple(100 * rate for rate in rates)


def _lines(x: tuple[float, ...], values: dict[str, tuple[float, ...]]) -> tuple[Series, ...]:
    return tuple(Series(name, x, y, "simulated") for name, y in values.items())


def _figure_12(quick: bool) -> Figure:
    sweep = _sweep(quick)
    x = _percent(sweep.rates)
    mine = {name: y for name, y in sweep.put_out.items() if name in ("64 cores, 512 tuples", "64 cores, 1024 tuples")}
    y = mine["64 cores, 1024 tuples"]
    early = max(k for k, rate in enumerate(sweep.rates) if rate <= 0.01)
    slope = [y[early] / x[early], (y[-1] - y[early]) / (x[-1] - x[early])]
    return Figure(
        paper="fpga",
        name="figure-12",
        title="Output throughput by match rate, 64 join cores of 8 tuples, 100 MHz",
        claim="The more pairs match, the less output grows: buffers fill up and the controller interrupts the input.",
        x_label="match rate (% of pairs)",
        y_label="results put out (M/s)",
        series=_lines(x, mine),
        agrees=(
            f"Up to {x[early]:g} % each percent adds {slope[0]:.1f} M results/s, from there on {slope[1]:.2f}. "
            f"At 100 % cores stand still in {100 * sweep.suspended[-1]:.0f} % of the clocks. "
            f"{sweep.lost} results were lost."
        ),
        differs=(
            f"The end of the line, {y[-1]:.1f} M/s, is set by the root: a merger stores two tuples in its three "
            "states, so 66.7 M/s at 100 MHz is the most. How full a buffer is when its flag rises is our choice."
        ),
        command=_COMMAND,
        notes=(_NO_PLOT,),
    )


def _figure_13(quick: bool) -> Figure:
    sweep = _sweep(quick)
    x = _percent(sweep.rates)
    ours, nested = sweep.taken["64 cores, windows full"], sweep.taken["nested loop, windows full"]
    pairs = {
        "512 tuples": ("64 cores, 512 tuples", "nested loop, 512 tuples"),
        "1024 tuples": ("64 cores, 1024 tuples", "nested loop, 512 tuples"),
        "windows full": ("64 cores, windows full", "nested loop, windows full"),
    }
    crossed = {name: crossing(x, sweep.taken[first], sweep.taken[second]) for name, (first, second) in pairs.items()}
    told = ", ".join(f"{name}: {f'at {at:.0f} %' if at is not None else 'nowhere'}" for name, at in crossed.items())
    alone = sweep.taken["64 cores held up one by one, windows full"]
    gains = [a / b - 1 for a, b in zip(alone, ours, strict=True)]
    best = max(range(len(gains)), key=gains.__getitem__)
    paper = [sweep.taken[name][0] for name in pairs["512 tuples"]]
    return Figure(
        paper="fpga",
        name="figure-13",
        title="Input throughput by match rate, 64 join cores against a nested loop, windows of 512 tuples, 100 MHz",
        claim=(
            "With few matches the join takes far more input than a nested loop; with enough of them it takes less, "
            "since admission control interrupts all cores."
        ),
        x_label="match rate (% of pairs)",
        y_label="tuples taken in, both streams (M/s)",
        series=_lines(x, sweep.taken),
        agrees=(
            f"At 0 % the cores take {paper[0]:.2f} M tuples/s, the nested loop {paper[1]:.2f}: "
            f"{paper[0] / paper[1]:.1f} times as many; {ours[0] / nested[0]:.1f} times once windows are "
            f"full. They fall below it ({told})."
        ),
        differs=(
            f"With full windows and 100 % the cores take {ours[-1]:.3f} and the nested loop {nested[-1]:.3f}. Here "
            "that is the merging tree's doing, whose root gives 2 results in 3 clocks where the loop's port gives 3: "
            f"cores that are held up one by one, as the paper's last section proposes, gain at most "
            f"{100 * max(gains):.0f} % (at {x[best]:g} %). An input of 512 tuples leaves half of its pairs unmet in "
            "the pipeline, which favours the cores there."
        ),
        command=_COMMAND,
        log_y=True,
        notes=(_NO_PLOT, "Windows full: the second half of an input of 1024 tuples."),
    )


def _cores(quick: bool) -> Figure:
    """Throughput by number of cores, which is what the paper's claim of scalability is about besides the clock."""
    cores = published.CORES if quick else (*published.CORES, 128, 256)
    arrivals = {n: matching(2 * n * PAPER.segment, 0.0, 1) for n in cores}
    ours = tuple(run(arrivals[n], Settings(n)).input_rate() for n in cores)
    full = tuple(
        run_nested(arrivals[n], n * PAPER.segment).rates_between(n * PAPER.segment, 2 * n * PAPER.segment - 1)[0]
        for n in cores
    )
    return Figure(
        paper="fpga",
        name="cores",
        title="Input throughput by number of cores, 8 tuples a core, no matches, 100 MHz",
        claim="The design scales: a larger window needs more cores, not more time (sections V-B and VI).",
        x_label="join cores",
        y_label="tuples taken in, both streams (M/s)",
        series=(
            Series("handshake join", tuple(map(float, cores)), ours, "simulated"),
            Series("nested loop, same window", tuple(map(float, cores)), full, "simulated"),
        ),
        agrees=(
            f"From {cores[0]} to {cores[-1]} cores the handshake join takes between {min(ours):.2f} and "
            f"{max(ours):.2f} M tuples/s; a nested loop over the same windows falls from {full[0]:.2f} to "
            f"{full[-1]:.3f}."
        ),
        differs="The model runs at the same clock at every size; what the chip loses is in Figure 10, not shown.",
        command=_COMMAND,
        log_x=True,
        log_y=True,
    )


def _clock() -> Figure:
    """Clock that a throughput asks for, against the table of the first handshake join paper."""
    cores = [int(n) for n in published.RATE_500K_CORES]
    rate = 0.5
    ours = tuple(rate / (run(matching(400, 0.0, 1), Settings(n, 100 // n)).input_rate(1.0)) for n in cores)
    ratios = [mine / theirs for mine, theirs in zip(ours, published.RATE_500K_MHZ, strict=True)]
    return Figure(
        paper="fpga",
        name="clock-500k",
        title="Clock at which windows of 100 tuples take 500,000 tuples/s",
        claim="Cores can be traded for clock: ten do at 5 MHz what one does at 50 (Teubner and Mueller, section 6.5).",
        x_label="join cores",
        y_label="clock (MHz)",
        series=(
            Series(
                "Table 1 of the handshake join paper", published.RATE_500K_CORES, published.RATE_500K_MHZ, "published"
            ),
            Series("this circuit", published.RATE_500K_CORES, ours, "simulated"),
        ),
        agrees=(
            f"With one core {ours[0]:.1f} MHz, with ten {ours[-1]:.2f}; published {published.RATE_500K_MHZ[0]:g} and "
            f"{published.RATE_500K_MHZ[-1]:g}."
        ),
        differs=(
            f"Ours needs {min(ratios):.2f} to {max(ratios):.2f} times the published clock: besides the places of a "
            "segment each pair of tuples costs the five clocks of states 1 to 4 and 6, which that table leaves out."
        ),
        command=_COMMAND,
        log_x=True,
        log_y=True,
        notes=("5 and 10 cores leave ports of the merging tree open.",),
    )


def _admission(quick: bool) -> Figure:
    """Tuples dropped by what is offered: the other side of input throughput."""
    intervals = (100, 40, 25, 21, 20, 10) if quick else (200, 100, 60, 40, 30, 25, 22, 21, 20, 16, 10)
    x = tuple(200.0 / interval for interval in intervals)
    lines = []
    least: dict[float, float] = {}
    for rate in (0.0, 0.01, 0.05) if quick else (0.0, 0.01, 0.05, 0.2):
        arrivals = matching(2 * _WINDOW if quick else 4 * _WINDOW, rate, 1)
        outcomes = [run(arrivals, interval=interval) for interval in intervals]
        shares = tuple(100 * o.dropped / (o.dropped + o.tuples) for o in outcomes)
        lines.append(Series(f"match rate {100 * rate:g} %", x, shares, "simulated"))
        least[rate] = max((at for at, share in zip(x, shares, strict=True) if share == 0), default=0.0)
    told = ", ".join(f"{100 * rate:g} %: {at:.1f}" for rate, at in least.items())
    return Figure(
        paper="fpga",
        name="admission",
        title="Input dropped by input offered, 64 join cores, 100 MHz",
        claim=(
            "When output cannot keep up, tuples that arrive are discarded, so that no result of those admitted is lost "
            "(section IV-D)."
        ),
        x_label="tuples offered, both streams (M/s)",
        y_label="tuples dropped (%)",
        series=tuple(lines),
        agrees=f"The highest rate offered at which nothing was dropped, in M tuples/s by match rate: {told}.",
        differs="The paper has no such figure; its input throughput is where these lines leave zero.",
        command=_COMMAND,
        notes=(
            "Arrivals at a fixed interval; results equal an oracle on the admitted input (tests/lab/test_fpga.py).",
        ),
    )


def _buffers(quick: bool) -> Figure:
    """Buffers of other sizes, which the paper leaves to future work."""
    depths = (2, 4, 8, 16, 32, 64)
    arrivals = matching(2 * _WINDOW, 0.01, 1)

    def rate(core: int, merger: int) -> float:
        outcome = run(arrivals, Settings(core_buffer=core, merger_buffer=merger))
        return outcome.rates_between(_WINDOW, 2 * _WINDOW - 1)[0]

    mergers = (4, 16) if quick else (2, 4, 8, 16)
    lines = {merger: tuple(rate(core, merger) for core in depths) for merger in mergers}
    x = tuple(map(float, depths))
    here = lines[4][depths.index(8)]
    return Figure(
        paper="fpga",
        name="buffers",
        title="Input throughput by size of buffers at a match rate of 1 %, 64 join cores, windows full, 100 MHz",
        claim="The paper takes 8 places for a core and 4 for a merger and leaves the suitable sizes to future work.",
        x_label="places in the FIFO of a core",
        y_label="tuples taken in, both streams (M/s)",
        series=tuple(Series(f"{merger} places in a merger", x, y, "simulated") for merger, y in lines.items()),
        agrees=f"With the paper's 8 and 4 places: {here:.2f} M tuples/s.",
        differs=(
            f"With {depths[-1]} and {mergers[-1]}: {lines[mergers[-1]][-1]:.2f}, with 8 and {mergers[-1]} already "
            f"{lines[mergers[-1]][depths.index(8)]:.2f}: it is the mergers that are short. There is no published line."
        ),
        command=_COMMAND,
        log_x=True,
    )


EXPERIMENTS: dict[str, Callable[[bool], Figure]] = {
    "figure-12": _figure_12,
    "figure-13": _figure_13,
    "cores": _cores,
    "clock-500k": lambda _: _clock(),
    "admission": _admission,
    "buffers": _buffers,
}
"""What makes each figure, by its name."""


def figures(quick: bool) -> list[Figure]:
    """Run the experiments.

    Parameters
    ----------
    quick : bool
        Fewer match rates, one input for each rather than two.
    """
    return [make(quick) for make in EXPERIMENTS.values()]
