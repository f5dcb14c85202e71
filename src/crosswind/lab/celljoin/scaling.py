"""CellJoin's figures 10 and 11: output and drops by input rate, output by cores; and the data rate of section 8.2.1."""

from __future__ import annotations

from crosswind.lab.celljoin import published
from crosswind.lab.celljoin.runs import TUPLE_BYTES, VARIANTS, Offered, Scaled
from crosswind.lab.figure import Figure, Series, stated, windows_of
from crosswind.lab.loads import HIT_RATE
from crosswind.lab.verdict import compare, rising

__all__ = ["data_rate", "figure_10", "figure_10_drops", "figure_11"]

_PLAIN, _VECTORS, _BOXES = VARIANTS
_STATED = dict(zip(VARIANTS, published.SUSTAINED.values(), strict=True))
_GIB = 2.0**30


def _knees(found: Offered) -> str:
    return ", ".join(f"{variant} {rate:,.0f}" for variant, (rate, _) in found.knees.items())


def figure_10(found: Offered) -> Figure:
    """Draw the output rate by the input rate."""
    series = [
        Series(variant, tuple(p[0] for p in some), tuple(p[1] for p in some), "measured")
        for variant, some in found.points.items()
    ]
    series += [
        Series(f"{variant}: the paper's rate", (rate.value,), (2 * rate.value**2 * 900 * HIT_RATE,), "computed")
        for variant, rate in _STATED.items()
    ]
    output = {variant: found.knees[_BOXES][1] / found.knees[variant][1] for variant in (_PLAIN, _VECTORS)}
    gains = dict(zip((_PLAIN, _VECTORS), published.BAND_OUTPUT.values(), strict=True))
    return Figure(
        "celljoin",
        "figure-10",
        f"Output by input rate, {windows_of(found.window_s)}, {found.workers} workers of the cell engine",
        "Output grows with the square of the input rate until tuples have to be dropped; vectors and unrolling move "
        "that point from 500 to 750 to 1,000 tuples/s on eight cores, and output up by 250 % and 33 %.",
        "tuples/s of each stream that are offered",
        "results/s",
        tuple(series),
        (
            compare(
                "the plain loop sustains the least, the fastest loop the most: least step from one to the next",
                rising([rate for rate, _ in found.knees.values()]),
                low=1.0,
                published="500, 750, 1,000 tuples/s",
                place=_STATED[_PLAIN].place,
                unit=" times",
                timed=True,
            ),
            *(
                compare(
                    f"output of the fastest loop to that of: {variant}",
                    ratio,
                    low=gains[variant].value / 1.5,
                    high=gains[variant].value * 1.5,
                    published=gains[variant],
                    unit=" times",
                    timed=True,
                )
                for variant, ratio in output.items()
            ),
        ),
        "The vectors in the middle are made by the compiler from any condition; the fastest loop compares intervals of "
        "keys with half as many bits, which CellJoin does not have, so the steps are larger. Rates are those of "
        f"{found.workers} cores of today, not of eight SPEs.",
        log_x=True,
        log_y=True,
        notes=(
            f"Sustained without a drop, tuples/s of each stream: {_knees(found)}.",
            "Beyond the sustained rate, output is that at the sustained rate; figure-10-drops has the check.",
            "The paper's points are its sustained rates with the output that the hit rate gives them.",
        ),
    )


def figure_10_drops(found: Offered) -> Figure:
    """Draw the drop rate by the input rate."""
    series = [
        Series(variant, tuple(p[0] for p in some), tuple(p[2] for p in some), "measured")
        for variant, some in found.points.items()
    ]
    series += [
        Series(f"{variant}: no drop up to", (rate.value,), (0.0,), "published", rate.place)
        for variant, rate in _STATED.items()
    ]
    least = [min((p[0] for p in some if p[2] > 0), default=float("inf")) for some in found.points.values()]
    return Figure(
        "celljoin",
        "figure-10-drops",
        "Tuples that are dropped, by input rate",
        "Nothing is dropped up to the sustained rate; from there on, all that comes more.",
        "tuples/s of each stream that are offered",
        "dropped tuples/s of each stream",
        tuple(series),
        (
            compare(
                "variants drop in the order plain, vectors, unrolled: least step between the rates of the first drops",
                rising([value if value < float("inf") else 1e12 for value in least]),
                low=1.0,
                published="500, 750, 1,000 tuples/s",
                place=_STATED[_PLAIN].place,
                unit=" times",
            ),
            compare(
                "at twice the sustained rate, in real time, the share that is taken",
                found.taken,
                low=found.reckoned - 0.15,
                high=found.reckoned + 0.15,
                published="what is sustained",
                place="section 8.2.1",
                timed=True,
            ),
        ),
        "Drops are reckoned from the sustained rate: what is dropped at random leaves a stream of the rate that is "
        "sustained. The real-time check has short windows and one worker.",
        notes=(f"Sustained, tuples/s of each stream: {_knees(found)}.",),
    )


def data_rate(found: Offered) -> Figure:
    """Draw the bytes of join attributes that are compared per second (section 8.2.1)."""

    def gib(rate: float, window_s: float) -> float:
        return 2 * rate * (rate * window_s * TUPLE_BYTES) / _GIB

    rates = tuple(rate for rate, _ in found.knees.values())
    paper = published.SUSTAINED["unrolled"].value
    return Figure(
        "celljoin",
        "data-rate",
        "Join attributes that are compared, by the sustained rate",
        "The data processed per second is the sum over both streams of rate * (rate * window * size of the join "
        "attributes): 13.4 GB/s at 1,000 tuples/s.",
        "sustained tuples/s of each stream",
        "GB/s (2^30 bytes)",
        (
            stated("eight SPEs", {paper: published.DATA_RATE}),
            Series("the formula", (paper,), (gib(paper, 900),), "computed"),
            Series(
                f"{found.workers} workers here, by variant of the loop",
                rates,
                tuple(gib(rate, found.window_s) for rate in rates),
                "measured",
            ),
        ),
        (
            compare(
                "the formula at 1,000 tuples/s and 15-minute windows",
                gib(paper, 900),
                low=13.35,
                high=13.45,
                published=published.DATA_RATE,
                unit=" GB/s",
            ),
            compare(
                "the fastest loop here reaches the paper's data rate",
                gib(max(rates), found.window_s),
                low=published.DATA_RATE.value,
                published=published.DATA_RATE,
                unit=" GB/s",
                timed=True,
            ),
        ),
        "The keys of the fastest loop have half the bits, so the bytes it really reads are half of these. A window is "
        "read once for many new tuples, from caches where it fits.",
        log_x=True,
        log_y=True,
    )


def figure_11(found: Scaled) -> Figure:
    """Draw the output by the number of workers."""
    first = min(found.rates)
    one, base = found.outputs[first], found.simulated[first]
    simulated = {count: (rate / base) ** 2 for count, rate in found.simulated.items()}
    errors = [found.simulated[count] / rate - 1 for count, rate in found.rates.items()]
    real = {count: output / one for count, output in found.outputs.items()}
    ideal = tuple(float(count) / first for count in found.simulated)
    doubled = published.OUTPUT_DOUBLES
    said = ", ".join(f"{error:+.0%} at {count}" for error, count in zip(errors, found.rates, strict=True))
    return Figure(
        "celljoin",
        "figure-11",
        f"Output by cores, {windows_of(found.window_s)}",
        "N cores sustain twice the output of half as many: sharing the window out costs next to nothing.",
        "workers",
        "greatest output, in times of one worker",
        (
            Series("twice for twice the cores", tuple(map(float, found.simulated)), ideal, "computed"),
            Series("shares of basic windows", tuple(map(float, real)), tuple(real.values()), "measured"),
            Series("shares of basic windows", tuple(map(float, simulated)), tuple(simulated.values()), "simulated"),
        ),
        (
            compare(
                "two workers give twice the output of one",
                real.get(2),
                low=doubled.value * 0.75,
                high=doubled.value * 1.25,
                published=doubled,
                unit=" times",
                timed=True,
                missing="two workers were not run",
            ),
            compare(
                "eight workers give twice the output of four (simulated)",
                simulated[8] / simulated[4],
                low=doubled.value * 0.7,
                high=doubled.value * 1.4,
                published=doubled,
                unit=" times",
                timed=True,
                errors=errors,
            ),
        ),
        "One of the cores here also runs the caller, which takes tuples in and makes rows while workers scan; the Cell "
        "had a core of its own for that. A Xeon of the day had an output 8.3 times less than eight SPEs; it is not "
        "run.",
        notes=(f"Simulated sustained rate against real: {said} workers.",),
    )
