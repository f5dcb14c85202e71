"""CellJoin's figures 7 and 8: the inner loop over one basic window."""

from __future__ import annotations

from crosswind.lab.celljoin import published
from crosswind.lab.celljoin.loops import WINDOW_BYTES, Loops, fit
from crosswind.lab.figure import Figure, Series
from crosswind.lab.verdict import Stated, compare

__all__ = ["figure_7", "figure_7_ratios", "figure_8"]

NAMES = {"scalar": "plain loop", "vectorised": "vectors", "unrolled": "vectors, unrolled"}
_NO_COMPILER = "there is no C++ compiler here, so the loops could not be measured"
_NO_COUNTERS = "the processor's counters cannot be read here; virtual machines rarely hand them out"
_SIZES = tuple(float(size) for size in WINDOW_BYTES)
_LINE = WINDOW_BYTES.index(128)
_EIGHT_KB = WINDOW_BYTES.index(8_192)


def figure_7(found: Loops | None) -> Figure:
    """Draw the time of the inner loop by the size of a basic window."""
    series: list[Series] = []
    flat = linear = None
    if found is not None:
        fetched = tuple(taken / size for taken, size in zip(found.fetch_ns, WINDOW_BYTES, strict=True))
        series = [Series(said, _SIZES, found.byte_ns(name), "measured") for name, said in NAMES.items()]
        series.append(Series("bringing it in", _SIZES, fetched, "measured"))
        flat = found.fetch_ns[_LINE] / found.fetch_ns[0]
        alpha, beta = fit(WINDOW_BYTES, found.block_ns["unrolled"])
        linear = max(
            abs((alpha + beta * size) / taken - 1)
            for size, taken in zip(WINDOW_BYTES[_LINE:], found.block_ns["unrolled"][_LINE:], strict=True)
        )
    return Figure(
        "celljoin",
        "figure-7",
        "The inner loop by the size of a basic window",
        "The time of a unit block of four tuples against a basic window grows with its size from the size of a cache "
        "line on; below that, fixed costs show.",
        "basic window, bytes of join attributes",
        "ns per byte (four probes)",
        tuple(series),
        (
            compare(
                "bringing a basic window of 128 bytes in takes as long as one of 64: the cost is fixed up to a line",
                flat,
                low=0.7,
                high=1.5,
                published="the same",
                place=published.LINE_BYTES.place,
                unit=" times",
                timed=True,
                missing=_NO_COMPILER,
            ),
            compare(
                "the time to compare a basic window is linear in its size: greatest error of a straight line",
                linear,
                high=0.3,
                published="linear",
                place="section 6",
                timed=True,
                missing=_NO_COMPILER,
            ),
        ),
        "Nanoseconds, not cycles; a basic window is copied by the processor, not by a DMA engine beside it; and the "
        "predicate has two bands of 4 bytes each, where the paper's simulator ran one.",
        log_x=True,
        log_y=True,
        notes=() if found is None else (f"Loops of bench kernel, {found.how}.",),
    )


def figure_7_ratios(found: Loops | None) -> Figure:
    """Draw the variants of the inner loop, relative to the unrolled one."""
    claims = {"scalar": published.PLAIN_TO_UNROLLED, "vectorised": published.VECTORS_TO_UNROLLED}
    wide = tuple(size for size in _SIZES if size > 128)
    series = [
        Series(NAMES[name], (wide[0], wide[-1]), (claim.value,) * 2, "published", claim.place)
        for name, claim in claims.items()
    ]
    ratios: dict[str, tuple[float, ...]] = {}
    if found is not None:
        ratios = {
            name: tuple(a / b for a, b in zip(found.block_ns[name], found.block_ns["unrolled"], strict=True))
            for name in claims
        }
        series += [Series(NAMES[name], _SIZES, values, "measured") for name, values in ratios.items()]
    return Figure(
        "celljoin",
        "figure-7-ratios",
        "What vectors and unrolling bring",
        "The plain loop takes about 10 times the cycles of the unrolled vector loop, vectors alone about 1.8 times.",
        "basic window, bytes of join attributes",
        "time, in times of the unrolled loop",
        tuple(series),
        tuple(
            compare(
                f"{NAMES[name]}, to the unrolled loop, at 8 KB",
                ratios[name][_EIGHT_KB] if ratios else None,
                low=claim.value / 1.5,
                high=claim.value * 1.5,
                published=claim,
                unit=" times",
                timed=True,
                missing=_NO_COMPILER,
            )
            for name, claim in claims.items()
        ),
        "Vectors have more lanes here than the Cell's four, so the plain loop falls further behind. The Cell's cores "
        "lack branch prediction, which hurts the plain loop there and the branch per tuple everywhere.",
        log_x=True,
        log_y=True,
    )


def figure_8(found: Loops | None) -> Figure:
    """Draw the cycles per instruction of the variants, relative to the unrolled one."""
    claims: dict[str, Stated] = {
        "scalar": published.CPI_EFFECTIVE["plain loop"],
        "vectorised": published.CPI_EFFECTIVE["vectors"],
    }
    x = {"scalar": 1.0, "vectorised": 2.0, "unrolled": 3.0}
    series = [
        Series(f"{NAMES[name]}, effective", (x[name],), (claim.value,), "published", claim.place)
        for name, claim in claims.items()
    ]
    cpi = found.cpi if found is not None else {}
    if cpi:
        series += [
            Series(NAMES[name], (x[name],), (value / cpi["unrolled"],), "measured") for name, value in cpi.items()
        ]
    missing = _NO_COMPILER if found is None else _NO_COUNTERS
    return Figure(
        "celljoin",
        "figure-8",
        "Cycles per instruction of the inner loop",
        "The unrolled loop needs fewer cycles per instruction than the others, since more are issued in pairs; the "
        "plain loop has up to 46 % more, 54 % more if instructions that do nothing are left out.",
        "variant (1: plain loop, 2: vectors, 3: unrolled)",
        "cycles per instruction, in times of the unrolled loop",
        tuple(series),
        (
            *(
                compare(
                    f"{NAMES[name]}: cycles per instruction, to those of the unrolled loop",
                    cpi[name] / cpi["unrolled"] if cpi else None,
                    low=1.0,
                    high=claim.value * 1.5,
                    published=claim,
                    unit=" times",
                    timed=True,
                    missing=missing,
                )
                for name, claim in claims.items()
            ),
            compare(
                "the unrolled loop, cycles per instruction",
                cpi.get("unrolled"),
                low=0.75,
                high=3.0,
                published=published.CPI_BEST,
                timed=True,
                missing=missing,
            ),
        ),
        "A processor of today issues four and more instructions per cycle out of order, the Cell's cores two in order.",
    )
