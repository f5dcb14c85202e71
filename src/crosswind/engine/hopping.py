"""One hop at work: combinations look for their next member, and go on with it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from crosswind.engine.deciding import Decider
from crosswind.engine.index import Index
from crosswind.engine.intake import Intake
from crosswind.engine.partial import Partial, first_found
from crosswind.engine.probe import Bounds, Search, Searcher
from crosswind.engine.spans import Limits, Reach, Spans, Turn, hull
from crosswind.engine.strategy import Matches, PairFaultError
from crosswind.io.arrow import leaf_columns
from crosswind.plan.axis import INT64_MIN
from crosswind.plan.box import Dimension
from crosswind.plan.compile import Plan
from crosswind.plan.hops import Hop
from crosswind.plan.logic import And, Formula, Or, atoms_of
from crosswind.plan.program import Slot, SlotTable
from crosswind.query.tree import Expr, roles_of, walk
from crosswind.window.block import Block
from crosswind.window.join_window import Residents
from crosswind.window.replicas import Replicas
from crosswind.window.vector import Layout

__all__ = ["Hopping"]

_Ints = npt.NDArray[np.int64]
_ALIKE_FROM = 64
"""Combinations from which on it pays to search once for those that look for the same."""

_PORTION = 1 << 16
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
        self._window, self._copy = window, copy
        bits = {term: 1 << bank.index(term) for term in hop.terms}
        self._all_bits = word(sum(bits.values()))
        self._classes: dict[Spans, int] = {}
        self._done: dict[int, int] = {}
        for term, bit in bits.items():
            query = plan.terms[term].query
            self._classes[spans[query]] = self._classes.get(spans[query], 0) | bit
            if term in hop.done:
                self._done[query] = self._done.get(query, 0) | bit
        self._done = {query: word(mine) for query, mine in self._done.items()}
        self._spans = hull(self._classes)
        self._limits: dict[tuple[int, ...], Limits] = {}
        self._reaches: dict[tuple[int, tuple[int, ...]], Reach] = {}
        slots = SlotTable.of(tuple(unit.slots for unit in plan.units))
        self._checks = tuple(slots.rewrite_formula(check) for check in hop.checks)
        self._is_shared = len(hop.terms) > 1
        self._slots = tuple(Slot(e.type, hop.target, k) for k, e in enumerate(plan.units[hop.target].slots))
        used = (node for check in self._checks for atom in atoms_of(check) for node in _slots_in(atom.expr))
        self._probe_slots = tuple(dict.fromkeys(slot for slot in used if slot.unit != hop.target))
        dimensions = _aligned(hop.dimensions, plan.accesses[hop.target].dimensions, own)
        self._needs: dict[Slot, int] = {}
        self._searcher = Searcher(self._search(plan, dimensions, slots), index)
        self._read: list[tuple[int, int, Layout]] = []
        for need in self._needs:
            at = intakes[need.unit].keys + need.index
            self._read.append((need.unit, at, intakes[need.unit].layouts[at]))
        bare = tuple(slots.rewrite_formula(check) for check in hop.bare)
        self._keys = intakes[hop.target].keys
        self._is_settled = not self._is_shared and bare == (And(()),)
        self._deciders = [
            Decider(checks, bits, self._slots, self._probe_slots, self._keys) for checks in (bare, self._checks)
        ]
        self._is_sole = len(bank) == 1 and self._spans.since == INT64_MIN
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
        if self._is_shared:
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
        self, partial: Partial, turn: Turn | None, beside: Partial | None = None
    ) -> Iterator[tuple[int, Partial]]:
        """Yield what the combinations become that go this way: queries, and their complete combinations.

        ``beside`` are combinations that have nothing to do with what this hop looks for;
        they meet what it finds later, so that their product is not searched pair by pair.
        """
        partial = partial if self._is_sole else partial.wanted(self._all_bits)
        residents = self._window.residents(self._copy)
        if not len(partial) or not residents.items:
            return
        bounds = self._bounds(self.hop.target, partial, turn)
        if self.is_product and beside is None:
            grown = self._everything(bounds, residents, turn)
            if len(grown):
                yield from self._hand_on(grown, turn, partial)
            return
        if beside is not None:
            bounds.narrow(self._bounds(self.hop.target, beside, turn))
        for block, matches in self._find(partial, bounds, residents):
            grown = self._grown(partial, block, matches, turn)
            if len(grown):
                yield from self._hand_on(grown, turn, beside)

    def _grown(self, partial: Partial, block: Block | None, matches: Matches, turn: Turn | None) -> Partial:
        """Return the combinations with what they met, as far as some term wants them.

        Where windows differ, a term may want less than was searched.
        """
        from crosswind.kernel.combine import combine_kernels

        masks = _NOBODY
        if self._is_shared:
            block = self._block(partial) if block is None else block
            own = [block.columns[self._needs[slot]] for slot in self._probe_slots]
            masks = self._deciders[self._has_nulls(matches.residents)].masks(own, partial.cells, matches)
        units = (*partial.units, self.hop.target)
        cells = np.empty((len(partial.cells) + 4, len(matches)), dtype=np.int64)
        count = combine_kernels().grow(
            partial.cells,
            matches.probes,
            matches.which,
            matches.rows,
            len(matches),
            masks,
            self._all_bits,
            matches.residents.runs,
            turn is not None,
            self._limits_of(units).words(turn),
            cells,
        )
        return Partial(units, (*partial.homes, matches.residents), cells, count)

    def _hand_on(self, grown: Partial, turn: Turn | None, beside: Partial | None) -> Iterator[tuple[int, Partial]]:
        """Yield complete combinations, and let the others go onward."""
        if self._done:
            for whole in [grown] if beside is None else self._product(beside, grown, turn):
                for query, bits in self._done.items():
                    mine = whole if self._is_sole else whole.wanted(bits)
                    if len(mine):
                        yield query, mine
        for hop in self.onward:
            if beside is None:
                yield from hop.follow(grown, turn)
            elif not hop.is_product and all(unit in grown.units for unit in hop.refers):
                yield from hop.follow(grown, turn, beside)
            else:
                for whole in self._product(beside, grown, turn):
                    yield from hop.follow(whole, turn)

    def _bounds(self, target: int, partial: Partial, turn: Turn | None) -> Bounds:
        """Return what the longest windows let the combinations meet in the window of ``target``."""
        key = (target, partial.units)
        if key not in self._reaches:
            self._reaches[key] = Reach(self._spans, *key)
        return self._reaches[key].of(partial, turn)

    def _limits_of(self, units: tuple[int, ...]) -> Limits:
        if units not in self._limits:
            self._limits[units] = Limits(self._classes, units)
        return self._limits[units]

    # -- products ----------------------------------------------------------------

    @property
    def is_product(self) -> bool:
        """Whether every tuple of the window goes with every combination."""
        return not self.refers and not self.hop.dimensions and all(check == And(()) for check in self._checks)

    def _everything(self, bounds: Bounds, residents: Residents, turn: Turn | None) -> Partial:
        """Return the tuples of the window that some combination may meet."""
        block = Block(np.zeros(1, dtype=np.int64), ())
        parts = [part.copy() for part in self._searcher.find_within(block, bounds.widest(), residents)]
        empty = [np.empty(0, dtype=np.int64)]
        which = np.concatenate(empty + [part.which for part in parts])
        rows = np.concatenate(empty + [part.rows for part in parts])
        return first_found(self.hop.target, residents, which, rows, self._all_bits, turn is not None)

    def _product(self, beside: Partial, grown: Partial, turn: Turn | None) -> Iterator[Partial]:
        """Yield, in portions, all combinations of both that their windows allow."""
        from crosswind.kernel.combine import combine_kernels

        made = [self._bounds(unit, beside, turn) for unit in grown.units]
        ends = np.stack([bounds.ends for bounds in made])
        units, homes = (*beside.units, *grown.units), (*beside.homes, *grown.homes)
        limits = self._limits_of(units).words(turn)
        state = np.zeros(2, dtype=np.int64)
        while state[0] < len(grown):
            room = min(_PORTION, len(beside) * len(grown))
            cells = np.empty((4 * len(units) + 1, room), dtype=np.int64)
            count = combine_kernels().product(
                beside.cells,
                len(beside),
                grown.cells,
                len(grown),
                ends,
                made[0].counted,
                self._all_bits,
                limits,
                state,
                cells,
            )
            if count:
                yield Partial(units, homes, cells, count)

    # -- searching ---------------------------------------------------------------

    def _find(self, partial: Partial, bounds: Bounds, residents: Residents) -> Iterator[tuple[Block | None, Matches]]:
        """Yield, in portions, what the combinations met; with the block that probed, if it is of all of them."""
        groups = self._alike(partial)
        if groups is None:
            block = self._block(partial)
            for matches in self._probe(block, bounds, residents):
                yield block, matches
            return
        from crosswind.kernel.combine import combine_kernels

        kernels, (order, starts, count) = combine_kernels(), groups
        loose = Bounds(count, bounds.counted)
        kernels.loosen(bounds.ends, order, starts, count, bounds.counted, loose.ends)
        loose.measure()
        for found in self._probe(self._block(partial, order[starts[:count]]), loose, residents):
            state = np.zeros(2, dtype=np.int64)
            while state[0] < len(found):
                met = np.empty((3, _PORTION), dtype=np.int64)
                size = kernels.spread(
                    found.probes,
                    found.which,
                    found.rows,
                    len(found),
                    order,
                    starts,
                    bounds.ends,
                    bounds.counted,
                    residents.runs,
                    state,
                    met,
                )
                if size:
                    yield None, Matches(residents, met[1, :size], met[2, :size], met[0, :size])

    def _probe(self, block: Block, bounds: Bounds, residents: Residents) -> Iterator[Matches]:
        try:
            settled = self._is_settled and not self._has_nulls(residents)
            yield from self._searcher.find_within(block, bounds, residents, settled=settled)
        except PairFaultError as fault:
            fault.terms = fault.terms or self.hop.terms
            raise

    def _has_nulls(self, residents: Residents) -> bool:
        """Whether tuples of the window may hold nulls, which a box does not tell from values."""
        return residents.facts(self._keys, self._keys + len(self._slots))[0]

    def _alike(self, partial: Partial) -> tuple[_Ints, _Ints, int] | None:
        """Group combinations that look for the same: their order by group, where groups start, how many there are.

        What a hop looks for often depends on some of the members only.
        """
        count = len(partial)
        if count < _ALIKE_FROM or len(self.refers) == len(partial.units):
            return None
        from crosswind.kernel.combine import combine_kernels

        table = np.empty(1 << count.bit_length(), dtype=np.int64)
        group_of, order, starts = (np.empty(count + 1, dtype=np.int64) for _ in range(3))
        chosen = partial.members(self.refers)
        groups = combine_kernels().group(partial.cells, count, chosen, count // 2, table, group_of, order, starts)
        return (order, starts, groups) if groups else None

    def _block(self, partial: Partial, rows: _Ints | None = None) -> Block:
        """Return what the search reads of the combinations, as tuples that probe."""
        columns = tuple(partial.column(unit, index, layout, rows) for unit, index, layout in self._read)
        return Block(partial.cells[1, : len(partial) if rows is None else len(rows)], columns)


_NOBODY = np.empty(0, dtype=np.int64)


def word(bits: int) -> int:
    """Return the signed 64-bit integer with these bits."""
    return bits - (1 << 64) if bits >> 63 else bits


def _slots_in(expr: Expr) -> Iterator[Slot]:
    """Yield the slots in ``expr``."""
    return (node for node in walk(expr) if isinstance(node, Slot))


def _aligned(asked: tuple[Dimension, ...], known: tuple[Dimension, ...], own: tuple[int, ...]) -> tuple[Dimension, ...]:
    """Return the dimensions of a copy, with the conditions of a hop where it has some."""
    by_key = {(dimension.expr, dimension.hashed): dimension for dimension in asked}
    return tuple(by_key.get((known[k].expr, known[k].hashed), known[k]) for k in own) if asked else ()
