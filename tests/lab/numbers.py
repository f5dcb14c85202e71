"""Numbers for every figure of the lab: some that agree with its paper, and some that contradict it.

By paper and figure. ``AGREE`` are numbers as a good machine would give them, made up by hand. ``CONTRADICT`` turn every
check round that depends on numbers of a run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from crosswind.lab.beyond import figures as beyond
from crosswind.lab.celljoin import batching
from crosswind.lab.celljoin import runs as celljoin
from crosswind.lab.celljoin.loops import WINDOW_BYTES, Loops
from crosswind.lab.costs import Costs
from crosswind.lab.dpjoin import delay, throughput
from crosswind.lab.fpga import runs as fpga
from crosswind.lab.fpga.join import PAPER
from crosswind.lab.handshake import figures as handshake
from crosswind.lab.handshake import published as handshake_published
from crosswind.lab.handshake.latency import Lateness
from crosswind.lab.lateness import Late
from crosswind.lab.size import Checked, Sample
from crosswind.lab.wjsp import figures as wjsp
from crosswind.lab.wjsp.published import TABLE_1
from crosswind.plan.cost import SIZES
from crosswind.plan.grid import Load, mean_pairs

__all__ = ["AGREE", "CONTRADICT"]

COSTS = Costs(pair_ns=0.1, tuple_ns=500.0, push_ns=5e4, hop_ns=2e3, call_ns=3e4)

# -- CellJoin -------------------------------------------------------------------------------------

_UNROLLED = tuple(10.0 + 0.05 * size for size in WINDOW_BYTES)
LOOPS = Loops(
    {
        "scalar": tuple(10 * value for value in _UNROLLED),
        "vectorised": tuple(1.8 * value for value in _UNROLLED),
        "unrolled": _UNROLLED,
    },
    tuple(50.0 + 0.1 * max(0, size - 128) for size in WINDOW_BYTES),
    "by hand",
    {"scalar": 1.5 * 1.5, "vectorised": 1.45 * 1.5, "unrolled": 1.5},
)
BAD_LOOPS = Loops(
    {
        "scalar": _UNROLLED,
        "vectorised": tuple(0.5 * value for value in _UNROLLED),
        "unrolled": tuple(float(size**2) for size in WINDOW_BYTES),
    },
    tuple(float(size**2) for size in WINDOW_BYTES),
    "by hand",
    {"scalar": 0.3, "vectorised": 0.4, "unrolled": 9.0},
)
BAD_RATIOS = replace(
    LOOPS, block_ns={**LOOPS.block_ns, "scalar": _UNROLLED, "vectorised": tuple(v / 2 for v in _UNROLLED)}
)

_RATES = celljoin.RATES
BEST = celljoin.Best(
    {w: tuple((rate * w) ** 0.5 for rate in _RATES) for w in celljoin.WINDOWS_S},
    {w: tuple(min(16_384.0, 128.0 * k) for k in range(1, 1 + len(_RATES))) for w in celljoin.WINDOWS_S},
    {w: tuple((rate * w) ** 0.5 for rate in _RATES) for w in celljoin.WINDOWS_S},
)
BEST = replace(BEST, equation_3={**BEST.equation_3, 900: (16_384.0,) * len(_RATES)})
BAD_BEST = celljoin.Best(
    {w: tuple(1e6 / (rate * w) for rate in _RATES) for w in celljoin.WINDOWS_S},
    {w: (16_384.0,) * len(_RATES) for w in celljoin.WINDOWS_S},
    {w: tuple(float(rate * w) for rate in _RATES) for w in celljoin.WINDOWS_S},
)

_PLAIN, _VECTORS, _BOXES = celljoin.VARIANTS
OFFERED = celljoin.Offered(
    900,
    2,
    {_PLAIN: (1_000.0, 1_000.0), _VECTORS: (1_600.0, 2_600.0), _BOXES: (1_900.0, 3_500.0)},
    {
        _PLAIN: ((500.0, 1.0, 0.0), (1_200.0, 1.0, 200.0)),
        _VECTORS: ((500.0, 1.0, 0.0), (1_700.0, 2.0, 100.0)),
        _BOXES: ((500.0, 1.0, 0.0), (2_200.0, 3.0, 300.0)),
    },
    0.51,
    0.5,
)
BAD_OFFERED = celljoin.Offered(
    900,
    2,
    {_PLAIN: (300.0, 9.0), _VECTORS: (200.0, 9.0), _BOXES: (100.0, 1.0)},
    {
        _PLAIN: ((500.0, 1.0, 200.0),),
        _VECTORS: ((400.0, 1.0, 200.0),),
        _BOXES: ((200.0, 1.0, 100.0),),
    },
    0.9,
    0.5,
)

SCALED = celljoin.Scaled(
    900, {1: 1_000.0, 2: 1_400.0}, {1: 100.0, 2: 195.0}, {n: 1_000.0 * n**0.5 for n in (1, 2, 4, 8)}
)
BAD_SCALED = replace(SCALED, outputs={1: 100.0, 2: 90.0}, simulated={1: 1_000.0, 2: 1_400.0, 4: 2_000.0, 8: 2_000.0})

_WINDOWS = celljoin.WINDOWS_S
BATCHES = celljoin.Batches(500, 2, dict.fromkeys(_WINDOWS, (100.0, 55.0, 30.0, 20.0, 15.0, 14.5, 14.2, 14.1, 14.0)))
BAD_BATCHES = celljoin.Batches(500, 2, {w: tuple(100.0 * (1 + k) ** 2 for k in range(9)) for w in _WINDOWS})
BAD_BATCHES = replace(
    BAD_BATCHES, times_us={w: (*times[:-1], times[-2] / 2) for w, times in BAD_BATCHES.times_us.items()}
)

_FLAT = [1.0 + 0.01 * abs(k - 3) for k in range(len(SIZES))]
SIZED = celljoin.Sizes(
    500,
    {
        60: tuple([1.0] + [1.06] * (len(SIZES) - 1)),
        300: tuple(_FLAT),
        900: tuple([1.06] * (len(SIZES) - 1) + [1.0]),
    },
    {60: SIZES[0], 300: SIZES[3], 900: SIZES[-1]},
)
BAD_SIZED = celljoin.Sizes(
    500,
    {
        60: tuple([5.0] * (len(SIZES) - 1) + [1.0]),
        300: tuple([5.0] * len(SIZES)),
        900: tuple([1.0] + [5.0] * (len(SIZES) - 1)),
    },
    {60: SIZES[0], 300: SIZES[0], 900: SIZES[-1]},
)

_NAMES = ("whatever waits", "unit blocks, l = 1", "unit blocks, l = 16")
DELAYS = batching.BatchDelays(
    {_NAMES[0]: {0.1: 1.0, 0.9: 4.0}, _NAMES[1]: {0.1: 5.0, 0.9: 90.0}, _NAMES[2]: {0.1: 5.0, 0.9: 6.0}}
)
BAD_DELAYS = batching.BatchDelays(
    {_NAMES[0]: {0.1: 9.0, 0.9: 4.0}, _NAMES[1]: {0.1: 5.0, 0.9: 6.0}, _NAMES[2]: {0.1: 7.0, 0.9: 60.0}}
)
ADAPTED = batching.Adapted((1.0, 2.0, 3.0, 4.0, 5.0), (0.5, 2.0, 2.0, 2.0, 0.3), (1, 1, 2, 3, 1))
BAD_ADAPTED = batching.Adapted((1.0, 2.0, 3.0, 4.0), (1.5, 1.5, 1.1, 0.3), (9, 1, 1, 9))

# -- Handshake Join -------------------------------------------------------------------------------

_COUNTS = (1, 2, 4, 8, 20, 32, 44)
_ROOTS = {n: 2_000.0 * n**0.5 for n in _COUNTS}
VECTOR_ROWS = handshake.RowRates(
    {"vectors": {1: 2_000.0, 2: 2_800.0}, "plain code": {1: 500.0, 2: 700.0}},
    {"vectors": _ROOTS, "plain code": {n: rate / 4 for n, rate in _ROOTS.items()}},
    {},
    {"vectors": COSTS, "plain code": COSTS},
)
BAD_VECTOR_ROWS = replace(VECTOR_ROWS, measured={"vectors": {1: 500.0, 2: 700.0}, "plain code": {1: 500.0, 2: 700.0}})
ROWS = handshake.RowRates(
    {"15-minute windows": {1: 2_000.0, 2: 2_800.0}},
    {"15-minute windows": _ROOTS, "10-minute windows": {n: rate * 1.22 for n, rate in _ROOTS.items()}},
    _ROOTS,
    {"all": COSTS},
)
BAD_ROWS = handshake.RowRates(
    {"15-minute windows": {1: 2_000.0, 2: 1_900.0}},
    {
        "15-minute windows": {**dict.fromkeys(_COUNTS, 2_000.0), 2: 1_900.0},
        "10-minute windows": dict.fromkeys(_COUNTS, 900.0),
    },
    dict.fromkeys(_COUNTS, 2_000.0),
    {"all": COSTS},
)
_POWER = handshake_published.POWER
POWER = ({**_POWER, "total (mW)": (4_498.0, 4_460.0, 4_457.0, 4_374.0)}, handshake_published.WEIGHTED)
BAD_POWER = (
    {**_POWER, "static (mW)": (9_000.0, 9_000.0, 90.0, 90.0)},
    {**handshake_published.WEIGHTED, "total (mW)": (100.0, 133.0, 150.0, 188.0)},
)
_HURRIED = "low-latency handshake (hurry=True)"
LATENESS = Lateness(
    20,
    500,
    {1: 0.0, 2: 2.5},
    {_HURRIED: {1: 0.001, 2: 0.001}, "cell": {1: 0.001, 2: 0.001}, "grid": {1: 0.001, 2: 0.001}},
    {1: 1e-3, 2: 5e-4},
)
BAD_LATENESS = replace(LATENESS, row={1: 0.0, 2: 9.0}, answers={**LATENESS.answers, _HURRIED: {1: 8.0, 2: 8.0}})

# -- the chips ------------------------------------------------------------------------------------

_MATCH = (0.0, 0.002, 0.01, 0.03, 0.1, 0.3, 1.0)


def _sweep(output: tuple[float, ...], taken: dict[str, tuple[float, ...]], **others: Any) -> fpga.Sweep:
    return fpga.Sweep(PAPER, _MATCH, taken, {fpga.SHORT: output, fpga.LONG: output}, **others)


_DOWN = (9.5, 9.0, 8.0, 4.0, 1.0, 0.4, 0.1)
_NESTED = (0.7, 0.7, 0.7, 0.6, 0.4, 0.3, 0.2)
SWEEP = _sweep(
    (0.0, 6.0, 29.0, 50.0, 60.0, 64.0, 66.0),
    {
        fpga.SHORT: _DOWN,
        fpga.LONG: _DOWN,
        fpga.FULL: _DOWN,
        fpga.ALONE: tuple(1.1 * value for value in _DOWN),
        fpga.NESTED_SHORT: _NESTED,
        fpga.NESTED: _NESTED,
    },
    suspended=(0.0,) * 6 + (0.98,),
    lost=0,
)
BAD_SWEEP = _sweep(
    (0.0, 0.1, 0.3, 50.0, 60.0, 64.0, 90.0),
    {
        **dict.fromkeys((fpga.SHORT, fpga.LONG, fpga.FULL, fpga.ALONE), (0.5,) * 7),
        **dict.fromkeys((fpga.NESTED_SHORT, fpga.NESTED), (0.4,) * 7),
    },
    suspended=(0.0,) * 7,
    lost=3,
)
_SIZES = (2, 4, 8, 16, 32, 64)
CORES = fpga.Cores(8, dict.fromkeys(_SIZES, 9.5), {n: 20.0 / n for n in _SIZES})
BAD_CORES = fpga.Cores(8, {n: 20.0 / n for n in _SIZES}, dict.fromkeys(_SIZES, 9.5))
CLOCKS = fpga.Clocks({1: 51.0, 2: 26.0, 5: 11.0, 10: 6.2})
BAD_CLOCKS = fpga.Clocks({1: 90.0, 2: 90.0, 5: 90.0, 10: 90.0})
ADMISSION = fpga.AdmissionRun(PAPER, (1.0, 10.0), {0.0: (0.0, 5.0), 0.01: (0.0, 50.0)}, 0)
BAD_ADMISSION = fpga.AdmissionRun(PAPER, (1.0, 10.0), {0.0: (0.0, 50.0), 0.01: (0.0, 5.0)}, 7)
BUFFERS = fpga.Buffers((2, 4, 8, 16, 32, 64), {4: (8.0,) * 6, 16: (9.5,) * 6})
BAD_BUFFERS = fpga.Buffers((2, 4, 8, 16, 32, 64), {4: (8.0,) * 6, 16: (2.0, 2.0, 2.0, 3.0, 3.0, 4.0)})

WORDS = wjsp.Words(TABLE_1, TABLE_1, 152)
BAD_WORDS = wjsp.Words(TABLE_1, (0b0011_0001_0000_1000_0010,) * 30, 160)
_UNITS = (1, 8, 64)


def _speeds(part: str, window: int) -> wjsp.Speeds:
    return wjsp.Speeds(window, part, {n: 64_000.0 / n**0.99 for n in _UNITS}, {64: 1e5, 1024: 1e6}, 4)


def _bad_speeds(part: str, window: int) -> wjsp.Speeds:
    return wjsp.Speeds(window, part, {n: 64_000.0 * n for n in _UNITS}, {64: 1e5, 1024: 1e6}, 4)


# -- DP-Join --------------------------------------------------------------------------------------

_LINEAR = {n: 70.0 * n for n in range(1, 17)}
OUTPUTS = throughput.Outputs(
    29_400,
    60,
    {1: 70.0, 2: 140.0},
    {1: 60.0, 2: 115.0},
    6.5 * 70.0,
    {
        "linear": _LINEAR,
        "rectangular": {n: _LINEAR[n] for n in (6, 8, 10, 12, 14, 15, 16)},
        "square": {n: _LINEAR[n] for n in (1, 4, 9, 16)},
    },
    11_100.0,
    11_102.0,
)
_STUCK = {**dict.fromkeys(range(1, 17), 70.0), 2: 60.0, 6: 65.0}
BAD_OUTPUTS = throughput.Outputs(
    29_400,
    60,
    {1: 70.0, 2: 60.0},
    {1: 150.0, 2: 100.0},
    6.5 * 70.0,
    {
        "linear": _STUCK,
        "rectangular": dict.fromkeys((6, 8, 10, 12, 14, 15, 16), 300.0),
        "square": dict.fromkeys((1, 4, 9, 16), 20.0),
    },
    5_000.0,
    11_102.0,
)
_MANY = (1, 2, 4, 8, 12, 16)
SUSTAINED = throughput.SustainedRates(
    {300: {1: 1_000.0, 2: 1_400.0}},
    {w: {n: 1_000.0 * n**0.5 for n in _MANY} for w in (300, 900)},
    {w: {n: 900.0 * n**0.5 for n in _MANY} for w in (300, 900)},
)
BAD_SUSTAINED = throughput.SustainedRates(
    {300: {1: 1_000.0, 2: 1_000.0}},
    {w: dict.fromkeys(_MANY, 1_000.0) for w in (300, 900)},
    {w: dict.fromkeys(_MANY, 9_000.0) for w in (300, 900)},
)


def _delays(rates: tuple[float, float], windows_s: tuple[float, float]) -> delay.Delays:
    load = Load(rates, (rates[0] * windows_s[0], rates[1] * windows_s[1]))
    layouts = {(m, n) for m in range(1, 17) for n in range(1, 17) if m * n <= 16}
    computed = {layout: mean_pairs(layout, load) * 1e-6 for layout in layouts}
    return delay.Delays(load, computed, computed, {1: Late(0.2, 0.01), 2: Late(0.2, 0.01)}, {1: 0.21, 2: 0.2})


def _upside_down(found: delay.Delays) -> delay.Delays:
    """Every layout as late as another is soon, and a simulation that is far off."""
    turned = {layout: 1 / value for layout, value in found.computed.items()}
    uneven = Load((100.0, 100.0), (1e6, 1e6))
    return replace(found, load=uneven, computed=turned, simulated=turned, guessed={1: 0.01, 2: 0.01})


_SIX_A = _delays((2_500.0, 2_500.0), (300.0, 300.0))
_SIX_B = _delays((1_000.0, 1_000.0), (300.0, 300.0))
_SEVEN_A = _delays((1_000.0, 3_000.0), (300.0, 300.0))
_SEVEN_B = _delays((1_000.0, 1_000.0), (150.0, 300.0))
LATE_ROWS = delay.LongRows(
    20,
    {1: Late(0.0, 0.0), 2: Late(0.12, 0.02), 4: Late(0.18, 0.02)},
    {1: 0.0, 2: 0.125, 4: 0.1875, 8: 0.219, 16: 0.234, 32: 0.242},
    Late(0.5, 0.01),
)
BAD_LATE_ROWS = delay.LongRows(
    20,
    {1: Late(0.0, 0.0), 2: Late(0.4, 1e-6), 4: Late(0.6, 1e-6)},
    {1: 0.0, 2: 0.125, 4: 0.1875, 8: 0.219, 16: 0.5, 32: 0.5},
    Late(5_000.0, 1_000.0),
)

# -- beyond ---------------------------------------------------------------------------------------

_SAMPLE = Sample(4e-6, 500.0, 50.0, 1e5, 32.0, 0.1)

AGREE: dict[tuple[str, str], Any] = {
    ("celljoin", "figure-7"): LOOPS,
    ("celljoin", "figure-7-ratios"): LOOPS,
    ("celljoin", "figure-8"): LOOPS,
    ("celljoin", "figure-9"): BEST,
    ("celljoin", "figure-10"): OFFERED,
    ("celljoin", "figure-10-drops"): OFFERED,
    ("celljoin", "data-rate"): OFFERED,
    ("celljoin", "figure-11"): SCALED,
    ("celljoin", "figure-12"): BATCHES,
    ("celljoin", "batching"): DELAYS,
    ("celljoin", "adaptation"): ADAPTED,
    ("celljoin", "figure-13"): SIZED,
    ("handshake", "figure-15"): VECTOR_ROWS,
    ("handshake", "figure-16"): ROWS,
    ("handshake", "table-2"): POWER,
    ("handshake", "latency"): LATENESS,
    ("fpga", "figure-12"): SWEEP,
    ("fpga", "figure-13"): SWEEP,
    ("fpga", "cores"): CORES,
    ("fpga", "clock-500k"): CLOCKS,
    ("fpga", "admission"): ADMISSION,
    ("fpga", "buffers"): BUFFERS,
    ("wjsp", "table-1"): WORDS,
    ("wjsp", "table-2"): _speeds("a", 4_000),
    **{("wjsp", f"figure-5{part}"): _speeds(part, 1_000) for part in "abcd"},
    ("dpjoin", "figure-4"): OUTPUTS,
    ("dpjoin", "figure-5a"): OUTPUTS,
    ("dpjoin", "table-1"): OUTPUTS,
    ("dpjoin", "figure-5b"): SUSTAINED,
    ("dpjoin", "figure-6a"): _SIX_A,
    ("dpjoin", "figure-6b"): _SIX_B,
    ("dpjoin", "figure-6-handshake"): LATE_ROWS,
    ("dpjoin", "figure-7a"): _SEVEN_A,
    ("dpjoin", "figure-7b"): _SEVEN_B,
    ("beyond", "index-and-scan"): beyond.BeyondCosts(1_000, {10: 3.0, 300: 30.0}, {10: 2.0, 300: 3.0}),
    ("beyond", "engines"): beyond.Raced({"crosswind": {30: 4e5}, "DuckDB": {30: 1e6}, "Polars": {30: 2e6}}, ()),
    ("beyond", "calculator"): beyond.Calculated(60, _SAMPLE, (Checked(100, 950.0, 1_000.0),)),
}

CONTRADICT: dict[tuple[str, str], Any] = {
    ("celljoin", "figure-7"): BAD_LOOPS,
    ("celljoin", "figure-7-ratios"): BAD_RATIOS,
    ("celljoin", "figure-8"): BAD_LOOPS,
    ("celljoin", "figure-9"): BAD_BEST,
    ("celljoin", "figure-10"): BAD_OFFERED,
    ("celljoin", "figure-10-drops"): BAD_OFFERED,
    ("celljoin", "data-rate"): BAD_OFFERED,
    ("celljoin", "figure-11"): BAD_SCALED,
    ("celljoin", "figure-12"): BAD_BATCHES,
    ("celljoin", "batching"): BAD_DELAYS,
    ("celljoin", "adaptation"): BAD_ADAPTED,
    ("celljoin", "figure-13"): BAD_SIZED,
    ("handshake", "figure-15"): BAD_VECTOR_ROWS,
    ("handshake", "figure-16"): BAD_ROWS,
    ("handshake", "table-2"): BAD_POWER,
    ("handshake", "latency"): BAD_LATENESS,
    ("fpga", "figure-12"): BAD_SWEEP,
    ("fpga", "figure-13"): BAD_SWEEP,
    ("fpga", "cores"): BAD_CORES,
    ("fpga", "clock-500k"): BAD_CLOCKS,
    ("fpga", "admission"): BAD_ADMISSION,
    ("fpga", "buffers"): BAD_BUFFERS,
    ("wjsp", "table-1"): BAD_WORDS,
    ("wjsp", "table-2"): _bad_speeds("a", 4_000),
    **{("wjsp", f"figure-5{part}"): _bad_speeds(part, 1_000) for part in "abcd"},
    ("dpjoin", "figure-4"): BAD_OUTPUTS,
    ("dpjoin", "figure-5a"): BAD_OUTPUTS,
    ("dpjoin", "table-1"): BAD_OUTPUTS,
    ("dpjoin", "figure-5b"): BAD_SUSTAINED,
    ("dpjoin", "figure-6a"): _upside_down(_SIX_A),
    ("dpjoin", "figure-6b"): _upside_down(_SIX_B),
    ("dpjoin", "figure-6-handshake"): BAD_LATE_ROWS,
    ("dpjoin", "figure-7a"): _upside_down(_SEVEN_A),
    ("dpjoin", "figure-7b"): _upside_down(_SEVEN_B),
    ("beyond", "index-and-scan"): beyond.BeyondCosts(1_000, {10: 3.0, 300: 3.0}, {10: 2.0, 300: 3.0}),
    ("beyond", "engines"): beyond.Raced({"crosswind": {30: 4e3}, "DuckDB": {30: 1e6}, "Polars": {30: 2e6}}, ()),
    ("beyond", "calculator"): beyond.Calculated(60, _SAMPLE, (Checked(100, 9_500.0, 1_000.0),)),
}
