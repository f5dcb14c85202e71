"""The scan: every probe against every tuple of the windows it may meet.

A scan kernel is generated from the program of the probed join unit. It walks basic
windows given as a table of pointers (CellJoin §4.2: the address of a basic window is
all that is handed over) and writes matches ``<basic window, i, j>`` (§4.3) into bounded
buffers; when they are full it returns and goes on from there at the next call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from crosswind.kernel.emit import Emitter, Facts
from crosswind.kernel.jit import load_source
from crosswind.kernel.source import header, leaves_at, open_arrays
from crosswind.plan.logic import And, Atom, Formula, Or, atoms_of, conjuncts
from crosswind.plan.program import ALWAYS, Opcode, Program, Slot
from crosswind.query.tree import walk

__all__ = ["PROBE_BOUNDS", "WINDOW_POSITIONS", "ScanSpec", "condition_of", "scan_kernel", "scan_source"]

WINDOW_POSITIONS = 2
"""Pointers before the slots in a row of the window table: times, sequence numbers."""

PROBE_BOUNDS = 4
"""Pointers before the slots in the probe table: least and greatest time and sequence number."""

_SIGNATURE = (
    '"int64(int64[:, ::1], int64[::1], int64, int64[::1], int64, int64[::1], int64[::1], int64[::1], int64[::1])"'
)


@dataclass(frozen=True)
class ScanSpec:
    """What a scan kernel is generated from.

    ``window`` and ``probe`` are the slots on either side; ``timed`` and ``counted`` say
    whether times and sequence numbers are to be checked against the probe's bounds.
    """

    condition: Formula
    window: tuple[Slot, ...]
    probe: tuple[Slot, ...]
    timed: bool
    counted: bool


def condition_of(program: Program, on: int) -> Formula:
    """Return, as a formula over slots, when ``program`` joins a tuple with tag ``on``."""
    registers: dict[int, Formula] = {ALWAYS: And(())}
    for step in program.instructions:
        match step.opcode:
            case Opcode.CMP if step.atom is not None:
                registers[step.target] = Atom(step.atom)
            case Opcode.AND:
                registers[step.target] = And(tuple(registers[source] for source in step.sources))
            case Opcode.OR:
                registers[step.target] = Or(tuple(registers[source] for source in step.sources))
            case Opcode.JOIN if step.on == on:
                return registers[step.sources[0]]
    raise LookupError(f"the program of unit {program.unit} joins nothing with tag {on}")


def scan_source(spec: ScanSpec, facts: Facts) -> str:
    """Return the source of the scan kernel for ``spec``, given ``facts`` of the data."""
    leaves = leaves_at(spec.window, "s", "i") | leaves_at(spec.probe, "p", "j")
    emitter = Emitter(leaves, facts, " " * 12)
    for slot in spec.probe:  # once a probe, not once a pair
        emitter.emit(slot)
    hoisted, emitter.lines = emitter.lines, []
    emitter.indent = " " * 16
    for part in _cheapest_first(spec.condition):
        before = emitter.checks
        emitter.checks = False
        truth = emitter.truth(part)
        if emitter.checks:
            emitter.lines += [
                " " * 16 + "if fault:",
                " " * 20 + "state[2] = 1; state[3] = w; state[4] = i; state[5] = j",
                " " * 20 + "return -1",
            ]
        emitter.checks |= before
        emitter.lines += [" " * 16 + f"if not {truth}:", " " * 20 + "continue"]
    body = [
        "",
        "",
        f"@jit({_SIGNATURE})",
        "def scan(win, lens, n_win, probe, n_probe, out_w, out_i, out_j, state):",
        '    """Append matches; return their number, or -1 where arithmetic overflowed."""',
        "    room = out_i.shape[0]",
        "    n = 0",
        "    w = state[0]",
        "    first = state[1]",
        *_bounds_arrays(spec),
        *open_arrays(spec.probe, "p", "probe[", nulls=facts.nulls, first=PROBE_BOUNDS),
        "    while w < n_win:",
        "        m = lens[w]",
        *(["        times = win[w, 0]"] if spec.timed else []),
        *(["        numbers = win[w, 1]"] if spec.counted else []),
        *open_arrays(spec.window, "s", "win[w, ", nulls=facts.nulls, first=WINDOW_POSITIONS, indent=" " * 8),
        "        for j in range(first, n_probe):",
        "            if n + m > room:",
        "                state[0] = w; state[1] = j",
        "                return n",
        *(["            fault = False"] if emitter.checks else []),
        *(["            t_low = fetch(low_time, j, np.int64); t_high = fetch(high_time, j, np.int64)"] if spec.timed else []),
        *(["            q_low = fetch(low_number, j, np.int64); q_high = fetch(high_number, j, np.int64)"] if spec.counted else []),
        *hoisted,
        "            for i in range(m):",
        *_position_checks(spec),
        *emitter.lines,
        "                out_w[n] = w; out_i[n] = i; out_j[n] = j",
        "                n += 1",
        "        first = 0",
        "        w += 1",
        "    state[0] = w; state[1] = 0",
        "    return n",
    ]
    return "\n".join([*header("A scan over basic windows, generated from a program.", [emitter]), *body]) + "\n"


def _bounds_arrays(spec: ScanSpec) -> list[str]:
    names = (["low_time", "high_time"] if spec.timed else []) + (["low_number", "high_number"] if spec.counted else [])
    order = ["low_time", "high_time", "low_number", "high_number"]
    return [f"    {name} = probe[{order.index(name)}]" for name in names]


def _position_checks(spec: ScanSpec) -> list[str]:
    lines = []
    if spec.timed:
        lines += ["t = fetch(times, i, np.int64)", "if t < t_low or t > t_high:", "    continue"]
    if spec.counted:
        lines += ["q = fetch(numbers, i, np.int64)", "if q < q_low or q > q_high:", "    continue"]
    return [" " * 16 + line for line in lines]


def _cheapest_first(condition: Formula) -> list[Formula]:
    """Return the conjuncts, fewest operations first: cheap ones settle most pairs."""
    return sorted(conjuncts(condition), key=lambda part: sum(1 for a in atoms_of(part) for _ in walk(a.expr)))


@lru_cache(maxsize=512)
def scan_kernel(spec: ScanSpec, facts: Facts) -> Callable[..., int]:
    """Return the compiled scan for ``spec``."""
    scan: Callable[..., int] = load_source(scan_source(spec, facts)).scan
    return scan
