"""The probe tree of one unit: operators that its new tuples run through, made once and run batch by batch."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from crosswind.engine.output.rows import Part
from crosswind.engine.parallel.policy import FirstWindow
from crosswind.engine.probe.bounds import ReleaseBounds
from crosswind.engine.probe.cached_pairs import CachedPairs, KeepPairs, ReadPairs
from crosswind.engine.probe.index import SAMPLE, SEE_EVERY
from crosswind.engine.probe.operators import All, Emit, MemberSource, Op, Product, ResultTable, Search, Start
from crosswind.engine.probe.step import ProbeStep
from crosswind.kernel.compiled.follow import follow
from crosswind.kernel.records import FOLLOW_FAULTED, FOLLOW_FULL, FOLLOW_SHORT
from crosswind.window.block import Block
from crosswind.window.join_window import Residents
from crosswind.window.replicas import Joint
from crosswind.window.vector import address

__all__ = ["ROOM", "Findings", "Masks", "ProbeTree", "Share"]

_Ints = npt.NDArray[np.int64]
Masks = Sequence[_Ints | None]
"""The terms that each new tuple may be part of, by bank (None: all that its unit is part of)."""

Share = tuple[tuple[int, int], ...]
"""A part of the windows that are searched first: of each, basic windows from and to."""

ROOM = 1024
"""Combinations that are handed on at a time: they stay in the cache. At least 32, which are compared at once."""

_RESULTS = 1 << 18
"""Results of a query that are noted before rows are made of them."""


class Searched(Protocol):
    """A window that is searched."""

    @property
    def width(self) -> int:
        """How many columns there are."""

    def residents(self, copy: int, /) -> Residents:
        """Return the basic windows of one copy as kernels see them."""


class Findings:
    """What one query has found since rows were last made: where the members of its results are."""

    def __init__(self, units: tuple[int, ...]) -> None:
        self.output = ResultTable(units)
        self.parts: list[Part] = []
        self.count = 0
        self.total = 0
        """Results that were ever noted."""

    def cut(self, unit: int, block: Block, sources: dict[int, Residents | Joint]) -> None:
        """Note the results since the last cut: of tuples of ``unit`` in ``block``, and others at ``sources``."""
        output = self.output
        begin, end = output.begun, output.count
        base = output.base + 8 * begin
        self.parts.append(Part(unit, block, sources, output.places, output.matrix, base, end - begin))
        self.count += end - begin
        self.total += end - begin
        output.begun = end

    def grow(self) -> None:
        """Make more room, when there is none left."""
        self.output.make_room(min(_RESULTS, 4 * self.output.room))

    def take(self) -> tuple[list[Part], int]:
        """Return what has been noted, and forget it; it holds until the next results are written down."""
        taken = self.parts, self.count
        self.parts, self.count = [], 0
        self.output.empty()
        return taken

    def hand_over(self) -> tuple[list[Part], int]:
        """Return what has been noted, and forget it; it holds for good, since others are written down elsewhere."""
        taken = self.parts, self.count
        self.parts, self.count = [], 0
        self.output.make_room(self.output.room)
        return taken

    @property
    def is_large(self) -> bool:
        """Whether rows should be made of it by now."""
        return self.count >= _RESULTS


class ProbeTree:
    """The steps of the tuples of ``unit`` through the windows of the others.

    Parameters
    ----------
    unit : int
        Whose new tuples it is for.
    roots : sequence of (list of ProbeStep, int)
        The first steps, and the terms (as bits) that every tuple may be part of; a pair for every bank of terms.
    windows : sequence of Searched
        The windows of all units.
    findings : sequence of Findings
        Where results are noted, by query.
    """

    def __init__(
        self,
        unit: int,
        roots: Sequence[tuple[list[ProbeStep], int]],
        windows: Sequence[Searched],
        findings: Sequence[Findings],
    ) -> None:
        self.unit, self._roots, self._windows, self._findings = unit, roots, windows, findings
        self._cursors = np.zeros(max(1, len(roots)), dtype=np.int64)
        self._place, self._clock = np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64)
        self._clock_at, self._cursors_at = address(self._clock), address(self._cursors)
        self._kernel = follow.compiled
        self.cancelled = False
        self.busy_s = 0.0
        self.pace_s = 0.0
        """Seconds that a tuple takes, lately."""
        self._seen = 0
        self._make(ROOM)

    def _make(self, room: int) -> None:
        self._room = room
        self._sources: dict[tuple[int, int | None], MemberSource] = {}
        self._read = sorted({at for steps, _ in self._roots for at in _columns_of(self.unit, steps)})
        self._new = self._sources[self.unit, None] = MemberSource(self.unit, None, 1 + max(self._read, default=0))
        self._starts: list[Start] = []
        self._ops: list[Op] = []
        self.pair_readers: list[tuple[int, ReadPairs]] = []
        """Ops that could take pairs from others, each with the number of its bank of terms."""
        for steps, bits in self._roots:
            start = Start(self._new, bits, room)
            for step in steps:
                self._add(start, start, step, None)
            start.link()
            self._starts.append(start)
        self._searches = [op for op in self._ops if isinstance(op, Search)]
        self._shown = [op for op in self._searches if not op.probe_step.index.is_linked]
        self._scans = [op for op in self._searches if not op.probe_step.dimensions]
        self._emits = [op for op in self._ops if isinstance(op, Emit)]
        self._at = {op.at: op for op in self._ops}
        outputs = {id(emit.output) for emit in self._emits}
        self._mine = [findings for findings in self._findings if id(findings.output) in outputs]
        self._places: dict[int, Residents | Joint] = {}
        known = [(source, self._windows[unit], copy) for (unit, copy), source in self._sources.items()]
        self._waiting = [(source, window, copy) for source, window, copy in known if copy is not None]

    def _member_source(self, unit: int, copy: int) -> MemberSource:
        key = (unit, copy)
        if key not in self._sources:
            self._sources[key] = MemberSource(unit, copy, self._windows[unit].width)
        return self._sources[key]

    def _put(self, op: Op, parent: Op) -> None:
        parent.children.append(op)
        self._ops.append(op)

    def _add(self, parent: Op, entry: Op, step: ProbeStep, beside: Op | None) -> None:
        """Let ``step`` take what comes out of ``parent``: the combinations of ``entry``."""
        source = self._member_source(step.planned.target, step.copy)
        if step.is_product and beside is None:
            everything = All(step, entry, source)
            self._put(everything, parent)
            self._hand_on(everything, step, entry)
        else:
            search = Search(step, entry, source, beside)
            self._put(search, parent)
            self._hand_on(search, step, beside)
            if beside is not None and isinstance(entry, All) and entry.is_linked and step.index.is_linked:
                reader = ReadPairs(entry, (entry.sources[0], source), step.all_bits)
                self._put(reader, beside)
                self._hand_on(reader, step, beside)
                self.pair_readers.append((len(self._starts), reader))

    def _hand_on(self, grown: Op, step: ProbeStep, beside: Op | None) -> None:
        """Let complete combinations be written down, and the others take their next step.

        ``beside`` are combinations that have had nothing to do with the last steps; they meet what was found only
        when somebody asks for both, so that their product is not searched pair by pair.
        """
        if step.done:
            whole = grown if beside is None else self._product(step, beside, grown)
            for query, bits in step.done.items():
                self._put(Emit(whole, bits, self._findings[query].output), whole)
        for after in step.onward:
            if beside is None or (not after.is_product and all(unit in grown.units for unit in after.refers)):
                self._add(grown, grown, after, beside)
            else:
                whole = self._product(step, beside, grown)
                self._add(whole, whole, after, None)

    def _product(self, step: ProbeStep, beside: Op, grown: Op) -> Op:
        product = Product(step, beside, grown)
        self._put(product, grown)
        return product

    def finds(self, bank: int, bits: int, partner: int) -> Op | None:
        """Return the op that finds partners of new tuples first, for all of the terms ``bits``, if there is one."""
        ways = [op for op in self._starts[bank].children if isinstance(op, Search)]
        return next((op for op in ways if op.units == (self.unit, partner) and op.passes(bits)), None)

    def keep(self, bank: int, found: Op, bits: int, pairs: CachedPairs) -> None:
        """Note the pairs that an op finds, for terms ``bits``."""
        keep = KeepPairs(found, bits, pairs)
        self._put(keep, found)
        self._at[keep.at] = keep
        self._starts[bank].link()

    # -- running -----------------------------------------------------------------

    def follow(self, block: Block, masks: Masks, release: ReleaseBounds) -> Iterator[int]:
        """Let the tuples of ``block`` go; yield the numbers of queries of whose results rows should be made now.

        ``masks`` are the terms that each tuple may be part of, by bank (None: all that its unit is part of).
        """
        self.attune(block)
        self._cursors[:] = 0
        began = time.perf_counter()
        yield from self._go(block, masks, release, self._cursors, self._room)
        self.note_pace(time.perf_counter() - began, len(block))
        self.settle(block)

    def follow_few(self, block: Block, masks: Masks, release: ReleaseBounds) -> None:
        """Let a few tuples go; all of their results are noted."""
        self.attune(block)
        place = self._place
        for bank, (start, mask) in enumerate(zip(self._starts, masks, strict=True)):
            self._cursors[bank] = 0
            start.take(block, mask, self._cursors_at + 8 * bank, self._room)
            place[0], place[1] = start.at, 1
            while outcome := self._kernel(place, release.at, self._clock_at):
                for query in self._go_on(outcome, block):
                    self._findings[query].grow()
        self.settle(block)

    def follow_share(
        self, block: Block, masks: Masks, release: ReleaseBounds, cursors: _Ints, step: int
    ) -> Iterator[int]:
        """Let tuples of ``block`` go that nobody else has taken: ``cursors`` say how many have been, by bank.

        Yields the numbers of queries of whose results rows should be made now, as :meth:`follow` does.

        Whoever asks sees to it that :meth:`attune` comes before and :meth:`settle` after, in one thread.
        """
        began = time.perf_counter()
        for query in self._go(block, masks, release, cursors, step):
            self.busy_s += time.perf_counter() - began
            yield query
            began = time.perf_counter()
        self.busy_s += time.perf_counter() - began

    def _go(self, block: Block, masks: Masks, release: ReleaseBounds, cursors: _Ints, step: int) -> Iterator[int]:
        place, release_at, cursors_at = self._place, release.at, address(cursors)
        for bank, (start, mask) in enumerate(zip(self._starts, masks, strict=True)):
            start.take(block, mask, cursors_at + 8 * bank, step)
            place[:] = (start.at, 1)
            while outcome := self._kernel(place, release_at, self._clock_at):
                if self.cancelled:
                    return
                yield from self._go_on(outcome, block)

    def _go_on(self, outcome: int, block: Block) -> Iterator[int]:
        """Make it possible to go on from where the loop stopped; yield queries of whose results rows should be made."""
        at = int(self._place[0])
        if outcome == FOLLOW_FAULTED:
            raise self._search_at(at).fault()
        if outcome == FOLLOW_SHORT:
            self._search_at(at).widen()
        elif outcome == FOLLOW_FULL:
            yield from self._make_room(self._at[at], block)

    def settle(self, block: Block) -> None:
        """Note what was found, and let indexes see what was looked for."""
        self._seen += 1
        if len(block.times) >= SAMPLE or self._seen % SEE_EVERY == 1:
            for search in self._shown:
                search.show()
        for findings in self._mine:
            if findings.output.count > findings.output.begun:
                findings.cut(self.unit, block, self._places)

    def note_pace(self, seconds: float, tuples: int) -> None:
        """Note how long so many tuples took."""
        self.pace_s += (seconds / tuples - self.pace_s) / 4

    @property
    def made(self) -> int:
        """Combinations that were made so far, whether or not they became results."""
        return sum(int(op.record["made"]) for op in self._ops)

    def shares(self, count: int) -> list[Share]:
        """Return ``count`` shares of the windows that are searched first."""
        cut = [op.shares(count) for start in self._starts for op in start.children]
        return [tuple(shares[column] for shares in cut) for column in range(count)]

    def take_share(self, share: Share) -> None:
        """Search only one share of the windows that are searched first."""
        first = (op for start in self._starts for op in start.children)
        for op, mine in zip(first, share, strict=True):
            op.take_share(mine)

    @property
    def first_window(self) -> FirstWindow:
        """What new tuples search first; the windows of all first ops together."""
        windows = [op.first_window for start in self._starts for op in start.children]
        return FirstWindow(sum(window.scanned for window in windows), sum(window.runs for window in windows))

    def _make_room(self, op: Op, block: Block) -> Iterator[int]:
        if isinstance(op, KeepPairs):
            op.pairs.grow()
        for query, findings in enumerate(self._findings):
            if isinstance(op, Emit) and findings.output is op.output:
                findings.cut(self.unit, block, self._places)
                if findings.is_large:
                    yield query
                else:
                    findings.grow()

    def _search_at(self, place: int) -> Search:
        op = self._at[place]
        if not isinstance(op, Search):
            raise LookupError("only a search can fail")
        return op

    def attune(self, block: Block) -> None:
        """Let ops know what windows and new tuples are like."""
        changed = set()
        for source, window, copy in self._waiting:
            if source.take(window.residents(copy)):
                changed.add(source)
        if self._new.take_new(block, self._read):
            changed.add(self._new)
        if changed:
            self._attune_to(changed)
        for op in self._scans:
            op.put_lengths()
        for _, reader in self.pair_readers:
            reader.choose()

    def _attune_to(self, changed: set[MemberSource]) -> None:
        for op in self._ops:
            if not isinstance(op, Emit | KeepPairs) and not changed.isdisjoint(op.sources):
                op.attune(changed)
        bases: dict[MemberSource, int] = {}
        self._places = dict(self._places)  # what was found before goes by the one that was
        for unit in {source.unit for source in changed}:
            mine = [source for source in self._sources.values() if source.unit == unit and source.residents is not None]
            known = [source.residents for source in mine if source.residents is not None]
            if len(known) == 1:
                self._places[unit] = known[0]
            elif known:
                joint = Joint(known)
                self._places[unit] = joint
                bases |= dict(zip(mine, joint.bases, strict=False))
        for emit in self._emits:
            emit.put_bases(bases)


def _columns_of(unit: int, steps: Sequence[ProbeStep]) -> Iterator[int]:
    """Yield the columns that ``steps``, and those after them, read of tuples of ``unit``."""
    for step in steps:
        yield from (at for whose, at, _ in step.columns if whose == unit)
        yield from _columns_of(unit, step.onward)
