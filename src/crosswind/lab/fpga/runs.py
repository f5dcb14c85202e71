"""Runs of the handshake join circuit and of the nested loop for the figures."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

from crosswind.lab.fpga import published
from crosswind.lab.fpga.join import PAPER, ChipOutcome, Settings, run
from crosswind.lab.fpga.nested import run_nested
from crosswind.lab.fpga.workload import matching
from crosswind.lab.setting import Setting

__all__ = [
    "ALONE",
    "FULL",
    "LONG",
    "NESTED",
    "NESTED_SHORT",
    "SHORT",
    "AdmissionRun",
    "Buffers",
    "Clocks",
    "Cores",
    "Sweep",
    "crossing",
    "measure_admission",
    "measure_buffers",
    "measure_clocks",
    "measure_cores",
    "settings_of",
    "sweep",
]

_RATES = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0)
_QUICK_RATES = (0.0, 0.002, 0.01, 0.03, 0.1, 0.3, 1.0)

SHORT, LONG, FULL = "cores, one window of input", "cores, two windows of input", "cores, windows full"
ALONE = "cores held up one by one, windows full"
NESTED_SHORT, NESTED = "nested loop, one window of input", "nested loop, windows full"
"""Designs and lengths of input. Windows full: the second half of an input of two windows."""


def settings_of(setting: Setting) -> Settings:
    """Return the circuit that is asked for; what is not said is the paper's."""
    core, merger = setting.buffers or published.BUFFERS
    return Settings(max(setting.cores or (PAPER.cores,)), setting.segment or PAPER.segment, core, merger)


@dataclass(frozen=True)
class Sweep:
    """Input and output rates by match rate, in millions a second, by design and length of the input."""

    chip: Settings
    rates: tuple[float, ...]
    taken: dict[str, tuple[float, ...]]
    put_out: dict[str, tuple[float, ...]]
    suspended: tuple[float, ...]
    lost: int


def sweep(setting: Setting) -> Sweep:
    """Run cores and nested loop on inputs of several match rates."""
    chip = settings_of(setting)
    window = chip.window
    rates = _QUICK_RATES if setting.quick else _RATES
    seeds = (setting.seed,) if setting.quick else (setting.seed, setting.seed + 1)
    taken: dict[str, list[float]] = {}
    put_out: dict[str, list[float]] = {}
    suspended, lost = [], 0
    for rate in rates:
        points: dict[str, list[tuple[float, float]]] = {}
        held = []
        for seed in seeds:
            short, long = matching(window, rate, seed), matching(2 * window, rate, seed)
            outcomes = {
                SHORT: run(short, chip),
                LONG: run(long, chip),
                ALONE: run(long, dataclasses.replace(chip, alone=True)),
                NESTED_SHORT: run_nested(short, window),
                NESTED: run_nested(long, window),
            }
            held.append(outcomes[LONG].suspended / outcomes[LONG].clocks)
            lost += sum(outcome.lost for outcome in outcomes.values())
            for name, point in _points(outcomes, window).items():
                points.setdefault(name, []).append(point)
        suspended.append(_mean(held))
        for name, found in points.items():
            taken.setdefault(name, []).append(_mean([point[0] for point in found]))
            put_out.setdefault(name, []).append(_mean([point[1] for point in found]))
    return Sweep(chip, rates, _fixed(taken), _fixed(put_out), tuple(suspended), lost)


def _points(outcomes: dict[str, ChipOutcome], window: int) -> dict[str, tuple[float, float]]:
    """Return input and output rate: of whole runs, and of the second half of the long ones, when windows are full."""
    found = {
        name: (outcome.input_rate(), outcome.output_rate())
        for name, outcome in outcomes.items()
        if name in (SHORT, LONG, NESTED_SHORT)
    }
    for name, full in ((LONG, FULL), (ALONE, ALONE), (NESTED, NESTED)):
        found[full] = outcomes[name].rates_between(window, 2 * window - 1)
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


@dataclass(frozen=True)
class Cores:
    """M tuples/s that are taken in without matches, by number of cores; and by a nested loop over the same windows."""

    segment: int
    handshake: dict[int, float]
    nested: dict[int, float]


def measure_cores(setting: Setting) -> Cores:
    """Run circuits of several sizes."""
    chip = settings_of(setting)
    cores = setting.cores or (published.CORES if setting.quick else (*published.CORES, 128, 256))
    ours, nested = {}, {}
    for count in cores:
        window = count * chip.segment
        arrivals = matching(2 * window, 0.0, setting.seed)
        ours[count] = run(arrivals, dataclasses.replace(chip, cores=count)).input_rate()
        nested[count] = run_nested(arrivals, window).rates_between(window, 2 * window - 1)[0]
    return Cores(chip.segment, ours, nested)


@dataclass(frozen=True)
class Clocks:
    """Clock in MHz at which windows of 100 tuples take 500,000 tuples/s, by cores."""

    mhz: dict[int, float]


def measure_clocks(setting: Setting) -> Clocks:
    """Run circuits of 1, 2, 5 and 10 cores with windows of 100 tuples."""
    arrivals = matching(400, 0.0, setting.seed)
    return Clocks({n: 0.5 / run(arrivals, Settings(n, 100 // n)).input_rate(1.0) for n in published.RATE_500K_CORES})


@dataclass(frozen=True)
class AdmissionRun:
    """Share of the tuples that is dropped, in percent, by match rate and by M tuples/s offered; and results lost."""

    chip: Settings
    offered: tuple[float, ...]
    dropped: dict[float, tuple[float, ...]]
    lost: int


def measure_admission(setting: Setting) -> AdmissionRun:
    """Offer tuples at fixed intervals."""
    chip, quick = settings_of(setting), setting.quick
    intervals = (100, 40, 25, 21, 20, 10) if quick else (200, 100, 60, 40, 30, 25, 22, 21, 20, 16, 10)
    dropped, lost = {}, 0
    for rate in (0.0, 0.01, 0.05) if quick else (0.0, 0.01, 0.05, 0.2):
        arrivals = matching((2 if quick else 4) * chip.window, rate, setting.seed)
        outcomes = [run(arrivals, chip, interval=interval) for interval in intervals]
        dropped[rate] = tuple(100 * o.dropped / (o.dropped + o.tuples) for o in outcomes)
        lost += sum(o.lost for o in outcomes)
    return AdmissionRun(chip, tuple(200.0 / interval for interval in intervals), dropped, lost)


@dataclass(frozen=True)
class Buffers:
    """Input throughput at a match rate of 1 %, windows full, by places in a merger and in a core."""

    depths: tuple[int, ...]
    rates: dict[int, tuple[float, ...]]


def measure_buffers(setting: Setting) -> Buffers:
    """Run the circuit with buffers of several sizes."""
    chip, depths = settings_of(setting), (2, 4, 8, 16, 32, 64)
    window = chip.window
    arrivals = matching(2 * window, 0.01, setting.seed)

    def rate(core: int, merger: int) -> float:
        outcome = run(arrivals, dataclasses.replace(chip, core_buffer=core, merger_buffer=merger))
        return outcome.rates_between(window, 2 * window - 1)[0]

    mergers = (4, 16) if setting.quick else (2, 4, 8, 16)
    return Buffers(depths, {merger: tuple(rate(core, merger) for core in depths) for merger in mergers})
