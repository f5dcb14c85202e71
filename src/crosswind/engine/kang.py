"""One worker, three steps: scan, insert, invalidate.

The procedure of Kang, Naughton and Viglas (as Handshake Join §2.2 tells it): a new
tuple scans the other window, is inserted into its own, and what has expired is
released. Here new tuples come in batches and expiry goes by whole basic windows
(CellJoin §4.1), with every pair checked against the window bounds of its probe.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from crosswind.engine.strategy import Bounds, Fault, Matches
from crosswind.plan.compile import Plan
from crosswind.plan.program import Slot
from crosswind.window.basic import BasicWindow
from crosswind.window.block import Block
from crosswind.window.join_window import JoinWindow

if TYPE_CHECKING:
    from crosswind.kernel.scan import ScanSpec

__all__ = ["Kang", "scan_specs"]

_MATCH_ROOM = 1 << 16
"""Matches that are buffered before they are handed on."""


def scan_specs(plan: Plan) -> list[ScanSpec]:
    """Return, for each unit, how its tuples scan the window of the other unit."""
    from crosswind.kernel.scan import ScanSpec, condition_of

    slots = [tuple(Slot(e.type, u, k) for k, e in enumerate(unit.slots)) for u, unit in enumerate(plan.units)]
    limits = [plan.axis.age_limit(unit.stream.window) for unit in plan.units]
    timed, counted = any(limit is not None for limit in limits), any(limit is None for limit in limits)
    return [
        ScanSpec(condition_of(plan.programs[1 - unit], on=unit), slots[1 - unit], slots[unit], timed, counted)
        for unit in range(len(plan.units))
    ]


class Kang:
    """The three-step procedure on one worker.

    Parameters
    ----------
    plan : Plan
        Two units, one query.
    windows : tuple of JoinWindow
        One a unit.
    """

    def __init__(self, plan: Plan, windows: tuple[JoinWindow, ...]) -> None:
        self.windows = windows
        self._specs = scan_specs(plan)
        self._slot_counts = [len(unit.slots) for unit in plan.units]
        room = max(_MATCH_ROOM, *(window.capacity for window in windows))
        self._out = tuple(np.empty(room, dtype=np.int64) for _ in range(3))

    def insert(self, unit: int, block: Block) -> None:
        """Let new tuples of ``unit`` wait in its window."""
        self.windows[unit].append(block)

    def probe(self, unit: int, block: Block, bounds: Bounds) -> Iterator[Matches]:
        """Scan the window of the other unit for partners of new tuples of ``unit``."""
        if not len(block):
            return
        other = self.windows[1 - unit]
        reach = other.reach(int(bounds.low_time.min()), int(bounds.high_time.max()))
        if reach:
            yield from self._scan(unit, reach, block, bounds)

    def _scan(self, unit: int, reach: list[BasicWindow], block: Block, bounds: Bounds) -> Iterator[Matches]:
        from crosswind.kernel.emit import Facts
        from crosswind.kernel.scan import scan_kernel

        own, theirs = range(self._slot_counts[unit]), range(self._slot_counts[1 - unit])
        facts = Facts(
            nulls=any(block.columns[k].has_nulls for k in own) or any(w.has_nulls(theirs) for w in reach),
            nans=any(block.columns[k].has_nans for k in own) or any(w.has_nans(theirs) for w in reach),
        )
        scan = scan_kernel(self._specs[unit], facts)
        limits = (bounds.low_time, bounds.high_time, bounds.low_number, bounds.high_number)
        probe = [0 if limit is None else limit.ctypes.data for limit in limits]
        for k in own:
            probe.extend(block.columns[k].pointers())
        table, lengths = JoinWindow.table(reach)
        probe_table = np.array(probe, dtype=np.int64)
        state = np.zeros(6, dtype=np.int64)
        out_w, out_i, out_j = self._out
        while state[0] < len(reach):
            count = scan(table, lengths, len(reach), probe_table, len(block), out_w, out_i, out_j, state)
            if count < 0:
                raise Fault(reach[state[3]], int(state[4]), int(state[5]))
            if count:
                yield Matches(reach, out_w[:count].copy(), out_i[:count].copy(), out_j[:count].copy())
