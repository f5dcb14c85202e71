"""One step: what combinations look for in their next window, and with which kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from crosswind.engine.ingest.intake import Intake
from crosswind.engine.probe.bounds import Limits, WindowBounds, hull, reach
from crosswind.engine.probe.boxes import BOX_BLOCK
from crosswind.engine.probe.index import Index
from crosswind.engine.probe.term_masks import TermMasks
from crosswind.io.arrow import leaf_columns
from crosswind.kernel.generated.box import box_kernel
from crosswind.kernel.generated.emit import Facts
from crosswind.kernel.generated.scan import PairSpec, recheck_kernel, scan_kernel
from crosswind.kernel.generated.thresholds import threshold_kernel
from crosswind.kernel.jit import address_of
from crosswind.plan.box import Dimension
from crosswind.plan.compile import Plan
from crosswind.plan.logic import And, Formula, Or, atoms_of
from crosswind.plan.probe_steps import PlannedStep
from crosswind.plan.program import Slot, SlotTable
from crosswind.query.tree import Expr, roles_of, walk
from crosswind.window.vector import Layout

__all__ = ["ProbeStep"]


class ProbeStep:
    """A step with its kernels.

    Parameters
    ----------
    planned : PlannedStep
        What it looks for.
    plan : Plan
        Units, and the terms of the step.
    intakes : list of Intake
        Say where tuples keep what.
    spans : tuple of WindowBounds
        The windows of each query.
    bank : tuple of int
        The terms whose bits are in the masks.
    copy : int
        Which copy of the window is searched.
    own : tuple of int
        The keys (numbers of the unit's dimensions) by which that copy is searched.
    index : Index
        The index of the copy.
    onward : list of ProbeStep
        The steps after this one.
    """

    def __init__(
        self,
        planned: PlannedStep,
        plan: Plan,
        intakes: list[Intake],
        spans: tuple[WindowBounds, ...],
        bank: tuple[int, ...],
        copy: int,
        own: tuple[int, ...],
        index: Index,
        onward: list[ProbeStep],
    ) -> None:
        self.planned, self.copy, self.index, self.onward = planned, copy, index, onward
        bits = {term: 1 << bank.index(term) for term in planned.terms}
        self.all_bits = word(sum(bits.values()))
        self._classes: dict[WindowBounds, int] = {}
        done: dict[int, int] = {}
        for term, bit in bits.items():
            query = plan.terms[term].query
            self._classes[spans[query]] = self._classes.get(spans[query], 0) | bit
            if term in planned.done:
                done[query] = done.get(query, 0) | bit
        self.done = {query: word(mine) for query, mine in done.items()}
        self.spans = hull(self._classes)
        slots = SlotTable.of(tuple(unit.slots for unit in plan.units))
        self._checks = tuple(slots.rewrite_formula(check) for check in planned.checks)
        self.is_shared = len(planned.terms) > 1
        target = plan.units[planned.target]
        self._slots = tuple(Slot(e.type, planned.target, k) for k, e in enumerate(target.slots[: target.kept]))
        used = (node for check in self._checks for atom in atoms_of(check) for node in _slots_in(atom.expr))
        self._probe_slots = tuple(dict.fromkeys(slot for slot in used if slot.unit != planned.target))
        self.dimensions = _aligned(planned.dimensions, plan.accesses[planned.target].dimensions, own)
        self._condition: Formula = self._checks[0]
        if self.is_shared:
            self._condition = And(()) if self.dimensions else Or(self._checks)
        self._number_columns(slots, intakes)
        bare = tuple(slots.rewrite_formula(check) for check in planned.bare)
        self._keys = intakes[planned.target].keys
        self._is_settled = all(check == And(()) for check in bare)  # what the box finds is right, but for nulls
        both = (bare, self._checks) if self.is_shared else ()
        self._deciders = [TermMasks(checks, bits, self._slots, self._probe_slots, self._keys) for checks in both]
        read = [leaf for d in self.dimensions for c in d.conditions for leaf in leaf_columns([c.atom])]
        read += [d.partner for d in self.dimensions if d.partner is not None]
        units = set().union(*(roles_of(expr) for expr in read), {slot.unit for slot in self._probe_slots})
        self.refers = tuple(unit for unit in planned.joined if unit in units)
        self._kernels: dict[Any, int] = {}
        self._thresholds: dict[bool, tuple[Any, int]] = {}

    def _number_columns(self, slots: SlotTable, intakes: list[Intake]) -> None:
        """Give numbers to the columns that the search reads of combinations: unit, place, layout."""
        target = self.planned.target
        atoms = [condition.atom for dimension in self.dimensions for condition in dimension.conditions]
        self._leaves = tuple(leaf for leaf in leaf_columns(atoms) if target not in roles_of(leaf))
        partners = [d.partner for d in self.dimensions if d.partner is not None]
        needs: dict[Slot, int] = {}
        for expr in (*self._leaves, *partners, *self._probe_slots):
            plain = expr if isinstance(expr, Slot) else slots.rewrite_leaf(expr)
            needs.setdefault(plain, len(needs))
        self.columns: list[tuple[int, int, Layout]] = []
        for need in needs:
            at = intakes[need.unit].slot_at[need.index]
            self.columns.append((need.unit, at, intakes[need.unit].layouts[at]))
        self.leaves_at = [needs[slots.rewrite_leaf(leaf)] for leaf in self._leaves]
        self.partners_at = [needs[slots.rewrite_leaf(partner)] for partner in partners]
        self.slots_at = [needs[slot] for slot in self._probe_slots]

    @property
    def slots_of_target(self) -> tuple[int, int]:
        """Which columns of the window the checks read."""
        return self._keys, self._keys + len(self._slots)

    @property
    def is_product(self) -> bool:
        """Whether every tuple of the window goes with every combination."""
        return not self.refers and not self.planned.dimensions and all(check == And(()) for check in self._checks)

    def reach(self, target: int, units: tuple[int, ...]) -> Any:
        """Return what says which tuples of ``target`` combinations of ``units`` may meet, by the longest windows."""
        return reach(self.spans, target, units)

    def limits(self, units: tuple[int, ...]) -> Limits:
        """Return what says whose windows are long enough for combinations of ``units``."""
        return Limits(self._classes, units)

    # -- kernels: which ones depends on whether there are nulls and NaNs ---------

    def thresholds(self, nulls: bool) -> tuple[Any, int]:
        """Return the kernel that finds boxes, given whether what it reads has nulls, and its address."""
        if nulls not in self._thresholds:
            kernel = threshold_kernel(self.dimensions, self._leaves, Facts(nulls=nulls, nans=True))
            self._thresholds[nulls] = (kernel, self._address(("thresholds", nulls), lambda: kernel.call))
        return self._thresholds[nulls]

    def box(self) -> int:
        """Return the address of the kernel that finds candidates."""
        bits = tuple(dimension.bits for dimension in self.dimensions)
        return self._address("box", lambda: box_kernel(bits, BOX_BLOCK))

    def recheck(self, facts: Any, window_nulls: bool) -> int:
        """Return the address of the kernel that keeps candidates; 0: there is nothing to be checked."""
        if self._condition == And(()) or (self._is_settled and not self.is_shared and not window_nulls):
            return 0
        return self._address(("recheck", facts), lambda: recheck_kernel(self._pair_spec(), facts))

    def scan(self, facts: Any) -> int:
        """Return the address of the kernel that compares pair by pair."""
        return self._address(("scan", facts), lambda: scan_kernel(self._pair_spec(), facts))

    def mask(self, facts: Any, window_nulls: bool) -> tuple[int, Any]:
        """Return the address of the kernel that finds out whose a candidate is, and the table that it reads.

        0: it is of all that look for it.
        """
        if self._is_settled and self.dimensions and not window_nulls:
            return 0, self._deciders[0].table
        decider = self._deciders[window_nulls]
        return self._address(("mask", window_nulls, facts), lambda: decider.kernel(facts)), decider.table

    def accused(self, window_nulls: bool, pattern: int, user: int) -> tuple[int, ...]:
        """Return the term whose check overflowed, as a mask kernel tells it."""
        return (self._deciders[window_nulls].users[pattern][user],)

    def _address(self, key: Any, make: Any) -> int:
        if key not in self._kernels:
            self._kernels[key] = address_of(make())
        return self._kernels[key]

    def _pair_spec(self) -> Any:
        counted = bool(self.spans.counts)
        return PairSpec(self._condition, self._slots, self._probe_slots, self._keys, timed=True, counted=counted)


def word(bits: int) -> int:
    """Return the signed 64-bit integer with these bits."""
    return bits - (1 << 64) if bits >> 63 else bits


def _slots_in(expr: Expr) -> Iterator[Slot]:
    """Yield the slots in ``expr``."""
    return (node for node in walk(expr) if isinstance(node, Slot))


def _aligned(asked: tuple[Dimension, ...], known: tuple[Dimension, ...], own: tuple[int, ...]) -> tuple[Dimension, ...]:
    """Return the dimensions of a copy, with the conditions of a step where it has some."""
    by_key = {(dimension.expr, dimension.hashed): dimension for dimension in asked}
    return tuple(by_key.get((known[k].expr, known[k].hashed), known[k]) for k in own) if asked else ()
