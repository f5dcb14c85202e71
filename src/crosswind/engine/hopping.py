"""One hop at work: combinations look for their next member, and go on with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from crosswind.engine.index import Index
from crosswind.engine.intake import Intake
from crosswind.engine.partial import Partial, first_found, merged
from crosswind.engine.probe import Search, Searcher
from crosswind.engine.result import Found
from crosswind.engine.spans import Bounds, Limits, Spans, bounds_of, hull
from crosswind.engine.strategy import Matches, Numbers, PairFaultError
from crosswind.io.arrow import leaf_columns
from crosswind.plan.bounds import machine_literal
from crosswind.plan.box import Dimension
from crosswind.plan.compile import Plan
from crosswind.plan.hops import Hop
from crosswind.plan.logic import And, Formula, Or, atoms_of
from crosswind.plan.physical import Storage, machine_dtype
from crosswind.plan.program import Slot, SlotTable
from crosswind.query.tree import Expr, Literal, roles_of, walk
from crosswind.window.arrival import Release
from crosswind.window.block import Block
from crosswind.window.join_window import Residents
from crosswind.window.replicas import Replicas
from crosswind.window.vector import Layout, Vector, address

if TYPE_CHECKING:
    from crosswind.kernel.mask import MaskSpec, Pattern

__all__ = ["Hopping"]

_Ints = npt.NDArray[np.int64]
_ALIKE_FROM = 64
"""Combinations from which on it pays to search once for those that look for the same."""

_PORTION = 1 << 18
"""Combinations that are handed on at a time."""


class Hopping:
    """A hop with its kernels.

    Parameters
    ----------
    hop : Hop
        What it looks for.
    plan : Plan
        Units, and the terms of the hop.
    intakes : list of Intake
        Say where tuples keep what.
    spans : tuple of Spans
        The windows of each query.
    bank : tuple of int
        The terms whose bits are in the masks.
    window : Replicas
        The window that is searched.
    copy : int
        Which of its copies.
    own : tuple of int
        The keys (numbers of the unit's dimensions) by which that copy is searched.
    index : Index
        The index of the copy.
    onward : list of Hopping
        The hops after this one.
    """

    def __init__(
        self,
        hop: Hop,
        plan: Plan,
        intakes: list[Intake],
        spans: tuple[Spans, ...],
        bank: tuple[int, ...],
        window: Replicas,
        copy: int,
        own: tuple[int, ...],
        index: Index,
        onward: list[Hopping],
    ) -> None:
        self.hop = hop
        self.onward = onward
        self.searched = self.met = 0
        self._intakes = intakes
        self._window, self._copy = window, copy
        self._bits = {term: np.uint64(1 << bank.index(term)) for term in hop.terms}
        self._all_bits = np.bitwise_or.reduce(list(self._bits.values()))
        classes: dict[Spans, np.uint64] = {}
        for term, bit in self._bits.items():
            span = spans[plan.terms[term].query]
            classes[span] = classes.get(span, np.uint64(0)) | bit
        self._spans = hull(classes)
        self._limits = Limits(classes, (*hop.joined, hop.target))
        slots = SlotTable.of(tuple(unit.slots for unit in plan.units))
        self._checks = tuple(slots.rewrite_formula(check) for check in hop.checks)
        self._masked = len(hop.terms) > 1
        self._slots = tuple(Slot(e.type, hop.target, k) for k, e in enumerate(plan.units[hop.target].slots))
        used = (node for check in self._checks for atom in atoms_of(check) for node in _slots_in(atom.expr))
        self._probe_slots = tuple(dict.fromkeys(slot for slot in used if slot.unit != hop.target))
        dimensions = _aligned(hop.dimensions, plan.accesses[hop.target].dimensions, own)
        self._needs: dict[Expr, int] = {}
        self._searcher = Searcher(self._search(plan, dimensions, slots), index)
        self._program: tuple[MaskSpec, npt.NDArray[np.int64], list[Vector | npt.NDArray[np.uint64]]] | None = None
        self._kernels: dict[Any, Any] = {}
        read = [leaf for d in dimensions for c in d.conditions for leaf in leaf_columns([c.atom])]
        read += [d.partner for d in dimensions if d.partner is not None]
        units = set().union(*(roles_of(expr) for expr in read), {slot.unit for slot in self._probe_slots})
        self.refers = tuple(unit for unit in hop.joined if unit in units)

    def _search(self, plan: Plan, dimensions: tuple[Dimension, ...], slots: SlotTable) -> Search:
        """Describe the search; the columns that it reads are numbered in ``self._needs``."""
        from crosswind.kernel.scan import PairSpec

        atoms = [condition.atom for dimension in dimensions for condition in dimension.conditions]
        leaves = tuple(leaf for leaf in leaf_columns(atoms) if self.hop.target not in roles_of(leaf))
        partners = [d.partner for d in dimensions if d.partner is not None]
        for expr in (*leaves, *partners, *self._probe_slots):
            plain = expr if isinstance(expr, Slot) else slots.rewrite_leaf(expr)
            self._needs.setdefault(plain, len(self._needs))
        condition: Formula = self._checks[0]
        if self._masked:
            condition = And(()) if dimensions else Or(self._checks)
        return Search(
            PairSpec(
                condition,
                self._slots,
                self._probe_slots,
                len(plan.accesses[self.hop.target].dimensions),
                timed=True,
                counted=self._counted,
            ),
            dimensions,
            leaves,
            [self._needs[slots.rewrite_leaf(leaf)] for leaf in leaves],
            {partner: self._needs[slots.rewrite_leaf(partner)] for partner in partners},
            [self._needs[slot] for slot in self._probe_slots],
        )

    @property
    def _counted(self) -> bool:
        return bool(self._spans.counts)

    # -- following ---------------------------------------------------------------

    def follow(
        self, partial: Partial, released: list[Release | None] | None, beside: Partial | None = None
    ) -> Iterator[tuple[int, Partial]]:
        """Yield what the combinations become that go this way: terms, and their complete combinations.

        ``beside`` are combinations that have nothing to do with what this hop looks for;
        they meet what it finds later, so that their product is not searched pair by pair.
        """
        if partial.mask is not None:
            alive = (partial.mask & self._all_bits) != 0
            if not alive.all():
                partial = partial.take(np.flatnonzero(alive))
        residents = self._window.residents(self._copy)
        if not len(partial) or not residents.items:
            return
        bounds = self._bounds(partial, released)
        if self.is_product and beside is None:
            grown = self._everything(partial, bounds, residents)
            if len(grown):
                yield from self._hand_on(grown, released, partial)
            return
        if beside is not None:
            bounds = self._bounds(beside, released).narrow(bounds)
        self.searched += len(partial) * len(self._window)
        for at, found in self._find(partial, bounds, residents):
            mask = None if partial.mask is None else partial.mask[at] & self._all_bits
            if self._masked and mask is not None:
                mask = self._decide(partial, at, found, mask)
            grown = self._in_windows(partial.joined(at, self.hop.target, found, mask), released)
            self.met += len(grown)
            if len(grown):
                yield from self._hand_on(grown, released, beside)

    def _in_windows(self, grown: Partial, released: list[Release | None] | None) -> Partial:
        """Leave out what no term wants; where windows differ, a term may want less than was searched."""
        if grown.mask is None:
            return grown
        if self._limits:
            self._limits.cut(grown.mask, grown, released)
        rows = np.flatnonzero(grown.mask)
        return grown if len(rows) == len(grown) else grown.take(rows)

    def _hand_on(
        self, grown: Partial, released: list[Release | None] | None, beside: Partial | None
    ) -> Iterator[tuple[int, Partial]]:
        """Yield complete combinations, and let the others go onward."""
        if self.hop.done:
            for whole in [grown] if beside is None else self._product(beside, grown, released):
                for term in self.hop.done:
                    if whole.mask is None:
                        yield term, whole
                        continue
                    mine = np.flatnonzero(whole.mask & self._bits[term])
                    if len(mine):
                        yield term, whole if len(mine) == len(whole) else whole.take(mine)
        for hop in self.onward:
            if beside is None:
                yield from hop.follow(grown, released)
            elif not hop.is_product and all(unit in grown.places for unit in hop.refers):
                yield from hop.follow(grown, released, beside)
            else:
                for whole in self._product(beside, grown, released):
                    yield from hop.follow(whole, released)

    def _bounds(self, partial: Partial, released: list[Release | None] | None) -> Bounds:
        """Return what the longest windows let the combinations meet here."""
        return bounds_of(self._spans, self.hop.target, partial, released)

    # -- products ----------------------------------------------------------------

    @property
    def is_product(self) -> bool:
        """Whether every tuple of the window goes with every combination."""
        return not self.refers and not self.hop.dimensions and all(check == And(()) for check in self._checks)

    def _everything(self, partial: Partial, bounds: Bounds, residents: Residents) -> Partial:
        """Return the tuples of the window that some combination may meet."""
        whole = bounds.widest()
        block = Block(np.zeros(1, dtype=np.int64), ())
        parts = list(self._probe(block, whole, residents))
        which, rows = (
            np.concatenate([np.empty(0, dtype=np.int64), *(getattr(part, name) for part in parts)])
            for name in ("which", "rows")
        )
        found = Found(residents, which, rows)
        mask = None if partial.mask is None else np.full(len(rows), self._all_bits)
        return first_found(self.hop.target, found, mask)

    def _product(self, beside: Partial, grown: Partial, released: list[Release | None] | None) -> Iterator[Partial]:
        """Yield, in portions, all combinations of both that their windows allow."""
        bounds = {unit: bounds_of(self._spans, unit, beside, released) for unit in grown.places}
        step = max(1, _PORTION // len(beside))
        for start in range(0, len(grown), step):
            chosen = np.arange(start, min(start + step, len(grown)), dtype=np.int64)
            at = np.tile(np.arange(len(beside), dtype=np.int64), len(chosen))
            to = np.repeat(chosen, len(beside))
            fits = np.ones(len(at), dtype=np.bool_)
            for unit, allowed in bounds.items():
                numbers = grown.numbers[unit][to] if self._counted else None
                fits &= allowed.allow(at, grown.times[unit][to], numbers)
            mask = None
            if beside.mask is not None and grown.mask is not None:
                mask = beside.mask[at] & grown.mask[to] & self._all_bits
                fits &= mask != 0
            if not fits.all():
                rows = np.flatnonzero(fits)
                at, to, mask = at[rows], to[rows], None if mask is None else mask[rows]
            whole = self._in_windows(merged(beside.take(at), grown.take(to), mask), released)
            if len(whole):
                yield whole

    # -- searching ---------------------------------------------------------------

    def _find(self, partial: Partial, bounds: Bounds, residents: Residents) -> Iterator[tuple[_Ints, Found]]:
        """Yield, in portions, pairs: numbers of combinations, and the tuples that they met."""
        groups = self._alike(partial)
        if groups is None:
            block = self._block(partial)
            for matches in self._probe(block, bounds, residents):
                yield matches.probes, Found(residents, matches.which, matches.rows)
            return
        order, starts, counts = groups
        block = self._block(partial.take(order[starts]))
        for matches in self._probe(block, _loosened(bounds, order, starts), residents):
            for at, pick in _spread(matches.probes, order, starts, counts):
                found = Found(residents, matches.which[pick], matches.rows[pick])
                rows = np.flatnonzero(bounds.allow(at, found.times, found.numbers if self._counted else None))
                if len(rows):
                    yield at[rows], found.take(rows)

    def _probe(self, block: Block, bounds: Bounds, residents: Residents) -> Iterator[Matches]:
        numbers = bounds.numbers if self._counted else None
        yield from self._searcher.find(block, numbers, residents, (bounds.low, bounds.high))

    def _alike(self, partial: Partial) -> tuple[_Ints, _Ints, _Ints] | None:
        """Group combinations that look for the same: their order by group, where groups start, their sizes.

        What a hop looks for often depends on some of the members only.
        """
        if len(partial) < _ALIKE_FROM or len(self.refers) == len(partial.places):
            return None
        keys = np.zeros(len(partial), dtype=np.int64)
        for unit in self.refers:
            _, inverse = np.unique(partial.keys(unit), return_inverse=True)
            keys = keys * (int(inverse.max()) + 1) + inverse
        order = np.argsort(keys, kind="stable")
        ranked = keys[order]
        starts = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))
        if 2 * len(starts) > len(partial):
            return None
        return order, starts, np.diff(np.append(starts, len(order)))

    def _block(self, partial: Partial) -> Block:
        """Return what the search reads of the combinations, as tuples that probe."""
        columns = []
        for need in self._needs:
            if not isinstance(need, Slot):
                raise LookupError("what a hop reads is kept in slots")
            intake = self._intakes[need.unit]
            index = intake.keys + need.index
            columns.append(partial.places[need.unit].column(index, intake.layouts[index]))
        return Block(np.zeros(len(partial), dtype=np.int64), tuple(columns))

    # -- deciding ----------------------------------------------------------------

    def _decide(
        self, partial: Partial, at: _Ints, found: Found, given: npt.NDArray[np.uint64]
    ) -> npt.NDArray[np.uint64]:
        """Return whose each candidate is."""
        from crosswind.kernel.emit import Facts
        from crosswind.kernel.mask import MaskSpec, mask_kernel, patterns_of

        skip = self._intakes[self.hop.target].keys
        if self._program is None:
            groups = patterns_of(self._checks)
            spec = MaskSpec(self._slots, self._probe_slots, skip, tuple(groups))
            self._program = (spec, *_constants(groups, [self._bits[term] for term in self.hop.terms]))
        spec, table, _ = self._program
        probing = self._block(partial)
        own = [probing.columns[self._needs[slot]] for slot in self._probe_slots]
        theirs = slice(skip, skip + len(self._slots))
        residents = found.residents
        facts = Facts(
            nulls=any(v.has_nulls for v in own) or bool(residents.nulls[theirs].any()),
            nans=any(v.has_nans for v in own) or bool(residents.nans[theirs].any()),
        )
        if facts not in self._kernels:
            self._kernels[facts] = mask_kernel(spec, facts)
        window = np.ascontiguousarray(np.hstack([residents.runs[:, 1:3], residents.addresses.T]))
        probe = np.array([pointer for vector in own for pointer in vector.pointers()], dtype=np.int64)
        masks, state = np.empty(len(at), dtype=np.uint64), np.zeros(6, dtype=np.int64)
        alive = np.ascontiguousarray(partial.mask)
        outcome = self._kernels[facts](
            window, probe, found.which, found.rows, at, len(at), address(alive), table, masks, state
        )
        if outcome < 0:
            raise PairFaultError(residents.items[state[3]], int(state[4]), int(state[5]))
        return masks & given


def _slots_in(expr: Expr) -> Iterator[Slot]:
    """Yield the slots in ``expr``."""
    return (node for node in walk(expr) if isinstance(node, Slot))


def _aligned(asked: tuple[Dimension, ...], known: tuple[Dimension, ...], own: tuple[int, ...]) -> tuple[Dimension, ...]:
    """Return the dimensions of a copy, with the conditions of a hop where it has some."""
    by_key = {(dimension.expr, dimension.hashed): dimension for dimension in asked}
    return tuple(by_key.get((known[k].expr, known[k].hashed), known[k]) for k in own) if asked else ()


def _loosened(bounds: Bounds, order: _Ints, starts: _Ints) -> Bounds:
    """Return, for groups of combinations, bounds that allow all that one of the group may meet."""
    low = np.minimum.reduceat(bounds.low[order], starts)
    high = np.maximum.reduceat(bounds.high[order], starts)
    numbers = bounds.numbers
    if numbers is not None:
        least = np.minimum.reduceat(numbers.low[order], starts)
        numbers = Numbers(least, np.maximum.reduceat(numbers.high[order], starts))
    return Bounds(low, high, numbers)


def _spread(groups: _Ints, order: _Ints, starts: _Ints, counts: _Ints) -> Iterator[tuple[_Ints, _Ints]]:
    """Yield, in portions, the members of the matched ``groups`` and which match each belongs to."""
    sizes = counts[groups]
    ends = np.cumsum(sizes)
    begin = 0
    while begin < len(groups):
        done = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, done + _PORTION, side="right")))
        part = sizes[begin:end]
        pick = np.repeat(np.arange(begin, end, dtype=np.int64), part)
        within = np.arange(len(pick)) - np.repeat(np.cumsum(part) - part, part)
        yield order[starts[groups[pick]] + within], pick
        begin = end


def _constants(
    groups: dict[Pattern, list[tuple[int, tuple[Literal, ...]]]], bits: list[np.uint64]
) -> tuple[npt.NDArray[np.int64], list[Vector | npt.NDArray[np.uint64]]]:
    """Return the table of bits and constants that a mask kernel reads, and what its addresses point to."""
    table: list[int] = []
    kept: list[Vector | npt.NDArray[np.uint64]] = []
    for pattern, users in groups.items():
        mine = np.array([bits[number] for number, _ in users], dtype=np.uint64)
        kept.append(mine)
        table += [address(mine), len(users)]
        for blank in pattern.blanks:
            dtype = machine_dtype(blank.type)
            values = np.array([machine_literal(literals[blank.index]) for _, literals in users], dtype=dtype)
            vector = Vector(Layout(Storage.FIXED, dtype), values)
            kept.append(vector)
            table += vector.pointers()
    return np.array(table, dtype=np.int64), kept
