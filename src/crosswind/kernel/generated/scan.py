"""Kernels over pairs: the plain scan, and the check of candidates.

Both are generated from a condition over slots. The scan walks basic windows given as a
table of pointers (CellJoin §4.2: the address of a basic window is all that is handed
over) and writes matches ``<basic window, i, j>`` (§4.3) into bounded buffers; when they
are full it returns and goes on from there at the next call. It is for conditions that
have no box; where there is one, candidates come from :mod:`crosswind.kernel.generated.box`, and
the recheck keeps those that the rest of the condition allows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from crosswind.kernel.generated.emit import Emitter, Facts
from crosswind.kernel.generated.source import ask_ahead, header, leaves_at, open_arrays
from crosswind.kernel.jit import load_source
from crosswind.plan.lanes import is_vectorised
from crosswind.plan.logic import Formula, atoms_of, conjuncts
from crosswind.plan.physical import POINTERS_PER_COLUMN
from crosswind.plan.program import Slot
from crosswind.query.tree import walk

__all__ = [
    "PROBE_BOUNDS",
    "SCAN_BLOCK",
    "PairSpec",
    "can_overflow",
    "recheck_kernel",
    "recheck_source",
    "scan_kernel",
    "scan_source",
]

WINDOW_POSITIONS = 2
"""Pointers before the columns in a row of the window table: times, sequence numbers."""

PROBE_BOUNDS = 4
"""Pointers before the slots in the probe table: least and greatest time and sequence number."""

SCAN_BLOCK = 256
"""Tuples of a window that are asked at once whether one of them matches."""

_SCAN = '"int64(int64[:, ::1], int64[::1], int64, int64[::1], int64, int64[::1], int64[::1], int64[::1], int64[::1])"'
_RECHECK = '"int64(int64[:, ::1], int64[::1], int64[::1], int64[::1], int64[::1], int64, int64[::1])"'


@dataclass(frozen=True)
class PairSpec:
    """What a kernel over pairs is generated from.

    ``window`` and ``probe`` are the slots on either side; in the window they are the
    columns from number ``skip`` on. ``timed`` and ``counted`` say whether times and
    sequence numbers are to be checked against the probe's bounds.
    """

    condition: Formula
    window: tuple[Slot, ...]
    probe: tuple[Slot, ...]
    skip: int
    timed: bool
    counted: bool


def scan_source(spec: PairSpec, facts: Facts) -> str:
    """Return the source of the scan kernel for ``spec``, given ``facts`` of the data.

    Where the condition allows it, a block of the window is first asked, without a branch, whether it
    holds any match; LLVM makes vector code of that. Only blocks that do are gone through one by one.
    """
    emitter = _emitter(spec, facts, 12)
    for slot in spec.probe:  # once a probe, not once a pair
        emitter.emit(slot)
    hoisted, emitter.lines = emitter.lines, []
    emitter.indent = " " * 20
    _emit_condition(emitter, spec.condition)
    body = [
        "",
        "",
        f"@jit({_SCAN})",
        "def scan(win, lens, n_win, probe, n_probe, out_w, out_i, out_j, state):",
        '    """Append matches; return their number, or -1 where arithmetic overflowed.',
        "",
        "    ``state``: window and probe to go on from, the first probe there is; then, on overflow, the pair.",
        '    """',
        "    room = out_i.shape[0]",
        "    n = 0",
        "    w = state[0]",
        "    first = state[1]",
        *_bounds_columns(spec),
        *open_arrays(spec.probe, "p", "probe[", nulls=facts.nulls, first=PROBE_BOUNDS),
        "    while w < n_win:",
        "        m = lens[w]",
        *(["        times = win[w, 0]"] if spec.timed else []),
        *(["        numbers = win[w, 1]"] if spec.counted else []),
        *_window_columns(spec, facts, "        "),
        "        for j in range(first, n_probe):",
        "            if n + m > room:",
        "                state[0] = w; state[1] = j",
        "                return n",
        *(["            fault = False"] if emitter.checks else []),
        *_bounds_values(spec),
        *hoisted,
        f"            for begin in range(0, m, {SCAN_BLOCK}):",
        f"                end = min(begin + {SCAN_BLOCK}, m)",
        *(_ask_block(spec, emitter) if is_vectorised(spec.condition) else []),
        "                for i in range(begin, end):",
        *_position_checks(spec),
        *emitter.lines,
        "                    out_w[n] = w; out_i[n] = i; out_j[n] = j",
        "                    n += 1",
        "        first = state[2]",
        "        w += 1",
        "    state[0] = w; state[1] = state[2]",
        "    return n",
    ]
    return "\n".join([*header("A scan over basic windows, generated from a condition.", [emitter]), *body]) + "\n"


def _ask_block(spec: PairSpec, plain: Emitter) -> list[str]:
    """Return lines that pass over a block in which nothing matches.

    Times are not looked at, and a conjunct is evaluated even where another has failed: what may be a match, or an
    overflow, is found again one by one.
    """
    emitter = plain.in_lanes(" " * 20)
    truth = " & ".join(emitter.truth(part) for part in conjuncts(spec.condition))
    pad = " " * 16
    return [
        f"{pad}hit = False",
        f"{pad}for i in range(begin, end):",
        *emitter.lines,
        f"{pad}    hit |= {truth}",
        *([f"{pad}hit |= fault", f"{pad}fault = False"] if emitter.checks else []),
        f"{pad}if not hit:",
        f"{pad}    continue",
    ]


def recheck_source(spec: PairSpec, facts: Facts) -> str:
    """Return the source of the kernel that keeps the candidates which ``spec`` allows."""
    emitter = _emitter(spec, facts, 8)
    _emit_condition(emitter, spec.condition)
    body = [
        "",
        "",
        f"@jit({_RECHECK})",
        "def recheck(win, probe, out_w, out_i, out_j, count, state):",
        '    """Keep the candidates that match, in place; return their number, or -1 on overflow."""',
        "    n = 0",
        *open_arrays(spec.probe, "p", "probe[", nulls=facts.nulls, first=PROBE_BOUNDS),
        "    for k in range(count):",
        *ask_ahead(spec.window, _first_column(spec), "        "),
        "        w = out_w[k]; i = out_i[k]; j = out_j[k]",
        *(["        fault = False"] if emitter.checks else []),
        *_window_columns(spec, facts, "        "),
        *emitter.lines,
        "        out_w[n] = w; out_i[n] = i; out_j[n] = j",
        "        n += 1",
        "    return n",
    ]
    return "\n".join([*header("A check of candidates, generated from a condition.", [emitter]), *body]) + "\n"


def _emitter(spec: PairSpec, facts: Facts, indent: int) -> Emitter:
    return Emitter(leaves_at(spec.window, "s", "i") | leaves_at(spec.probe, "p", "j"), facts, " " * indent)


def _emit_condition(emitter: Emitter, condition: Formula) -> None:
    """Emit the conjuncts, each followed by the way out: cheap ones settle most pairs."""
    pad = emitter.indent
    for part in sorted(conjuncts(condition), key=_cost):
        before, emitter.checks = emitter.checks, False
        truth = emitter.truth(part)
        if emitter.checks:
            emitter.lines += [
                f"{pad}if fault:",
                f"{pad}    state[3] = w; state[4] = i; state[5] = j",
                f"{pad}    return -1",
            ]
        emitter.checks |= before
        emitter.lines += [f"{pad}if not {truth}:", f"{pad}    continue"]


def _cost(part: Formula) -> int:
    return sum(1 for atom in atoms_of(part) for _ in walk(atom.expr))


def _window_columns(spec: PairSpec, facts: Facts, indent: str) -> list[str]:
    return open_arrays(spec.window, "s", "win[w, ", nulls=facts.nulls, first=_first_column(spec), indent=indent)


def _first_column(spec: PairSpec) -> int:
    """Return where the slots begin in a row of the window table."""
    return WINDOW_POSITIONS + POINTERS_PER_COLUMN * spec.skip


def _bounds_columns(spec: PairSpec) -> list[str]:
    names = (["low_time", "high_time"] if spec.timed else []) + (["low_number", "high_number"] if spec.counted else [])
    order = ["low_time", "high_time", "low_number", "high_number"]
    return [f"    {name} = probe[{order.index(name)}]" for name in names]


def _bounds_values(spec: PairSpec) -> list[str]:
    lines = []
    if spec.timed:
        lines += ["t_low = fetch(low_time, j, np.int64)", "t_high = fetch(high_time, j, np.int64)"]
    if spec.counted:
        lines += ["q_low = fetch(low_number, j, np.int64)", "q_high = fetch(high_number, j, np.int64)"]
    return [" " * 12 + line for line in lines]


def _position_checks(spec: PairSpec) -> list[str]:
    lines = []
    if spec.timed:
        lines += ["t = fetch(times, i, np.int64)", "if t < t_low or t > t_high:", "    continue"]
    if spec.counted:
        lines += ["q = fetch(numbers, i, np.int64)", "if q < q_low or q > q_high:", "    continue"]
    return [" " * 20 + line for line in lines]


def can_overflow(spec: PairSpec) -> bool:
    """Whether a pair can fail: whether arithmetic on it is checked."""
    emitter = _emitter(spec, Facts(nulls=True, nans=True), 0)
    _emit_condition(emitter, spec.condition)
    return emitter.checks


@lru_cache(maxsize=512)
def scan_kernel(spec: PairSpec, facts: Facts) -> Callable[..., int]:
    """Return the compiled scan for ``spec``."""
    scan: Callable[..., int] = load_source(scan_source(spec, facts)).scan
    return scan


@lru_cache(maxsize=512)
def recheck_kernel(spec: PairSpec, facts: Facts) -> Callable[..., int]:
    """Return the compiled recheck for ``spec``."""
    recheck: Callable[..., int] = load_source(recheck_source(spec, facts)).recheck
    return recheck
