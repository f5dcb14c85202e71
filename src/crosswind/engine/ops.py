"""The ops of a route, as records that compiled code reads; see :mod:`crosswind.kernel.compiled.follow`.

An op is made once. What it says of windows is written anew when these have changed (``attune``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from crosswind.engine.hopping import Hopping
from crosswind.engine.parallel.cell import Partition
from crosswind.engine.parallel.policy import FirstWindow
from crosswind.engine.probe import CACHED, Scratch
from crosswind.engine.strategy import PairFaultError
from crosswind.kernel.compiled.follow import ColumnWords as Column
from crosswind.kernel.compiled.follow import Op as Words
from crosswind.kernel.compiled.follow import QueryWords
from crosswind.kernel.generated.emit import Facts
from crosswind.plan.physical import Storage
from crosswind.window.block import Block
from crosswind.window.join_window import Residents
from crosswind.window.vector import Layout, address, all_valid

__all__ = ["RESULTS_ROOM", "All", "Emit", "Home", "Op", "Output", "Product", "Search", "Start"]

_Ints = npt.NDArray[np.int64]

RESULTS_ROOM = 256
"""Results of a query that there is room for in the beginning."""

_TEXT_ROOM = 1 << 14
"""Bytes that there is room for in the beginning for the texts of a column."""


class Home:
    """Where members of combinations are: in a copy of a window (``unit``, ``copy``), or new (no copy).

    ``nulls`` and ``nans`` say by column whether there may be some; once seen, they are reckoned with.
    """

    def __init__(self, unit: int, copy: int | None, columns: int) -> None:
        self.unit, self.copy = unit, copy
        self.nulls = np.zeros(columns, dtype=np.bool_)
        self.nans = np.zeros(columns, dtype=np.bool_)
        self._has_nulls = False
        self.residents: Residents | None = None
        self._known: tuple[Residents, int] | None = None
        self._pointers = np.zeros((3 * columns, 1), dtype=np.int64)

    def take(self, residents: Residents) -> bool:
        """Note what the window is like now; return whether that is not as it was."""
        if self._known is not None and self._known[0] is residents and self._known[1] == residents.moves:
            return False
        self._known = (residents, residents.moves)
        self.residents = residents
        self.nulls |= residents.nulls
        self.nans |= residents.nans
        return True

    def take_new(self, block: Block, read: list[int]) -> bool:
        """Note what new tuples are like, in the columns ``read``; return whether nulls or NaNs are new to us."""
        changed = False
        pointers, addresses = self._pointers, block.addresses
        if addresses is not None and block.is_bare(0):
            for k in read:
                pointers[3 * k, 0] = addresses[k]
            if self._has_nulls:
                pointers[1::3, 0] = address(all_valid(len(block)))
            return False
        for k in read:
            column = block.columns[k]
            if column.valid is not None and not self.nulls[k]:
                self.nulls[k] = changed = self._has_nulls = True
            if self.nulls[k] or column.text is not None:
                pointers[3 * k : 3 * k + 3, 0] = column.pointers()
            else:
                pointers[3 * k, 0] = column.at or address(column.values)
            if not self.nans[k] and column.has_nans:
                self.nans[k] = changed = True
        return changed

    def tables(self, column: int) -> tuple[int, int, int]:
        """Return where the addresses of values, validity and texts of a column are, by basic window."""
        table = self._pointers if self.residents is None else self.residents.addresses
        step = table.strides[0]
        first = address(table) + 3 * column * step
        return first, first + step, first + 2 * step


class Output:
    """What a query has found: for each of its units two rows, basic windows and places in them."""

    def __init__(self, units: tuple[int, ...]) -> None:
        self.units = units
        self.places = {unit: place for place, unit in enumerate(units)}
        self.words = np.zeros(4, dtype=np.int64)
        self.at = address(self.words)
        self.begun = 0
        self.make_room(RESULTS_ROOM)

    def make_room(self, room: int) -> None:
        """Begin a new matrix; the one before stays with those who have parts of it."""
        self.matrix = np.empty((2 * len(self.units), room), dtype=np.int64)
        self.base = address(self.matrix)
        self.words[QueryWords.RESULTS], self.words[QueryWords.RESULT_ROOM] = self.base, room
        self.words[QueryWords.RESULT_COUNT] = self.begun = 0

    @property
    def room(self) -> int:
        """How many results there is room for."""
        return self.matrix.shape[1]

    @property
    def count(self) -> int:
        """How many results have been written down."""
        return int(self.words[2])

    def empty(self) -> None:
        """Forget all results."""
        self.words[2] = self.begun = 0


class Op:
    """A record, and what its addresses point to.

    ``units`` and ``homes`` are those of the members of its combinations.
    """

    def __init__(self, kind: int, units: tuple[int, ...], homes: tuple[Home, ...], room: int) -> None:
        self.words = np.zeros(Words.WORDS, dtype=np.int64)
        self.at = address(self.words)
        self.units, self.homes, self.room = units, homes, room
        self.children: list[Op] = []
        self.words[Words.KIND] = kind
        self.kept: list[Any] = []
        self._partitions: dict[int, Partition] = {}
        self.words[Words.CHOSEN], self.words[Words.CHOSEN_2] = self._room(room), self._room(room)
        if kind != Words.EMIT:
            self.cells = np.zeros((4 * len(units) + 1, room), dtype=np.int64)
            self.words[Words.CELLS] = self._keep(self.cells)
            self.words[Words.ROOM] = room

    def _room(self, shape: Any) -> int:
        """Return the address of new memory."""
        memory = np.zeros(shape, dtype=np.int64)
        self.kept.append(memory)
        return address(memory)

    def _keep(self, words: _Ints) -> int:
        self.kept.append(words)
        return address(words)

    def link(self) -> None:
        """Write down what comes after this op, and after those."""
        for k, child in enumerate(self.children):
            child.words[Words.PARENT] = self.at
            child.words[Words.SIBLING] = self.children[k + 1].at if k + 1 < len(self.children) else 0
            child.link()
        self.words[Words.CHILD] = self.children[0].at if self.children else 0
        self.words[Words.LEAN] = all(isinstance(child, Emit) for child in self.children)

    def attune(self, changed: set[Home]) -> None:
        """Write down what has changed about windows, and new tuples."""

    def shares(self, count: int) -> list[tuple[int, int]]:
        """Return ``count`` shares of the basic windows that are searched, as CellJoin cuts them."""
        residents = self.homes[-1].residents
        partition = self._partitions.setdefault(count, Partition(count))
        partition.resize(0 if residents is None else len(residents.items))
        return [partition.share(column) for column in range(count)]

    def take_share(self, share: tuple[int, int]) -> None:
        """Search only these of the basic windows: from, and one past the last."""
        self.words[Words.FIRST], self.words[Words.LAST] = share

    @property
    def first_window(self) -> FirstWindow:
        """The window that is searched, if this is the first op of new tuples."""
        residents = self.homes[-1].residents
        if residents is None:
            return FirstWindow(0, 0)
        scanned = residents.runs[:, 5] == 0
        return FirstWindow(int(residents.runs[scanned, 0].sum()), int((~scanned).sum()))

    def _take_window(self, home: Home) -> Residents | None:
        """Write down the window that is searched."""
        residents, words = home.residents, self.words
        items = 0 if residents is None else len(residents.items)
        words[Words.ITEMS] = words[Words.LAST] = items
        words[Words.FIRST] = 0
        if residents is None or not items:
            return None
        words[Words.RUNS], words[Words.RUN_COLUMNS] = address(residents.runs), residents.runs.shape[1]
        return residents


class Start(Op):
    """New tuples, as combinations of one."""

    def __init__(self, home: Home, bits: int, room: int) -> None:
        super().__init__(Words.START, (home.unit,), (home,), room)
        self.words[Words.BITS] = bits
        self.words[Words.STEP] = room
        self._at = Words
        self._rest: tuple[int, ...] = ()

    def take(self, block: Block, masks: _Ints | None, cursor: int, step: int) -> None:
        """Begin with the tuples of ``block``; ``cursor`` is where it says how many have been taken."""
        words, at, size = self.words, self._at, len(block.times)
        words[at.TIMES], words[at.SIZE] = block.times_at, size
        rest = (
            0 if block.numbers is None else address(block.numbers),
            0 if masks is None else address(masks),
            cursor,
            step,
        )
        if rest != self._rest:  # seldom: every store of a word takes its time
            self._rest = rest
            words[at.NUMBERS], words[at.START_MASKS] = rest[:2]
            words[at.CURSOR], words[at.STEP] = cursor, min(step, self.room)


class All(Op):
    """What waits in a window, for a product with the combinations of ``entry``."""

    def __init__(self, hopping: Hopping, entry: Op, home: Home) -> None:
        super().__init__(Words.ALL, (home.unit,), (home,), entry.room)
        words = self.words
        words[Words.INPUT], words[Words.MEMBERS] = entry.at, len(entry.units)
        words[Words.BITS] = hopping.all_bits
        words[Words.BOUND] = self._keep(hopping.reach(home.unit, entry.units))
        words[Words.ENDS] = self._room(4)
        words[Words.COUNTED] = bool(hopping.spans.counts)
        self.is_linked = hopping.index.is_linked

    def attune(self, changed: set[Home]) -> None:
        """Write down what has changed about the window."""
        if self.homes[0] in changed:
            self._take_window(self.homes[0])


class Product(Op):
    """Combinations of two ops, put together."""

    def __init__(self, hopping: Hopping, left: Op, right: Op) -> None:
        super().__init__(Words.PRODUCT, (*left.units, *right.units), (*left.homes, *right.homes), left.room)
        words = self.words
        words[Words.INPUT], words[Words.BESIDE] = right.at, left.at
        words[Words.MEMBERS], words[Words.GROWN] = len(left.units), len(right.units)
        words[Words.BITS] = hopping.all_bits
        reaches = [self._keep(hopping.reach(unit, left.units)) for unit in right.units]
        words[Words.BOUND] = self._keep(np.array(reaches, dtype=np.int64))
        words[Words.ENDS], words[Words.IN_ROOM] = self._room((len(right.units), 4, left.room)), left.room
        words[Words.WANT] = self._room(left.room)
        words[Words.COUNTED] = bool(hopping.spans.counts)
        limits = hopping.limits(self.units)
        self.kept.append(limits)
        words[Words.LIMITS] = address(limits.words)


class Emit(Op):
    """Complete combinations of a query, written down."""

    def __init__(self, entry: Op, bits: int, output: Output) -> None:
        super().__init__(Words.EMIT, entry.units, entry.homes, entry.room)
        self._places = np.zeros(2 * len(entry.units), dtype=np.int64)
        self._places[::2] = [output.units.index(unit) for unit in entry.units]
        words = self.words
        words[Words.INPUT], words[Words.MEMBERS], words[Words.BITS] = entry.at, len(entry.units), bits
        words[Words.QUERY], words[Words.PLACES] = output.at, address(self._places)
        self.output = output

    def put_bases(self, bases: dict[Home, int]) -> None:
        """Write down where basic windows of homes begin among those of all copies."""
        for place, home in enumerate(self.homes):
            if home in bases:
                self._places[2 * place + 1] = bases[home]


class Search(Op):
    """Combinations of ``entry`` look for their next member; ``beside`` are others that have nothing to do with it."""

    def __init__(self, hopping: Hopping, entry: Op, home: Home, beside: Op | None) -> None:
        from crosswind.plan.physical import PROBE_GROUP

        super().__init__(Words.SEARCH, (*entry.units, home.unit), (*entry.homes, home), entry.room)
        self.hopping, self._home, self._entry = hopping, home, entry
        words, room = self.words, entry.room
        words[Words.INPUT], words[Words.MEMBERS], words[Words.IN_ROOM] = entry.at, len(entry.units), room
        words[Words.BITS], words[Words.COUNTED] = hopping.all_bits, bool(hopping.spans.counts)
        words[Words.BOUND] = self._keep(hopping.reach(home.unit, entry.units))
        if beside is not None:
            words[Words.BESIDE] = beside.at
            words[Words.ASIDE] = self._keep(hopping.reach(home.unit, beside.units))
        limits = hopping.limits(self.units)
        self.kept.append(limits)
        words[Words.LIMITS] = address(limits.words)
        self._want, self._reps = np.zeros((2, room + 1), dtype=np.int64)
        words[Words.WANT], words[Words.REPS] = address(self._want), address(self._reps)
        for place in (Words.GIVEN, Words.MASKS, Words.GROUP_OF):
            words[place] = self._room(room + 1)
        words[Words.GROUP_ORDER], words[Words.GROUP_STARTS] = self._room(room + 1), self._room(room + 1)
        words[Words.GROUP_SIZE] = 1 << (2 * room).bit_length()
        words[Words.GROUP_TABLE] = self._room(int(words[Words.GROUP_SIZE]))
        for place in range(Words.SPREAD_W, Words.SPREAD_J + 1):
            words[place] = self._room(room)
        self._make_match_room(room)
        words[Words.ENDS], words[Words.LOOSE] = self._room((4, room)), self._room((4, room))
        self._states = np.zeros(24, dtype=np.int64)
        words[Words.STATE], words[Words.WORK] = address(self._states), self._room((PROBE_GROUP, 4))
        refers = [entry.units.index(unit) for unit in hopping.refers]
        words[Words.REFERS], words[Words.N_REFERS] = self._keep(np.array(refers or [0], dtype=np.int64)), len(refers)
        self._make_columns()
        self.scratch: Scratch | None = None
        if hopping.dimensions:
            self._make_scratch()
        self._write_tables()

    def passes(self, bits: int) -> bool:
        """Whether all of these terms go this way."""
        return int(self.words[Words.BITS]) & bits == bits

    def _make_columns(self) -> None:
        columns = self.hopping.columns
        self._columns = np.zeros((max(1, len(columns)), Column.COLUMN_WORDS), dtype=np.int64)
        self._texts: dict[tuple[int, int], npt.NDArray[np.uint8]] = {}
        for k, (unit, _, layout) in enumerate(columns):
            line = self._columns[k]
            line[Column.MEMBER], line[Column.WIDTH] = self._entry.units.index(unit), _width(layout)
            for side in (0, 1):
                at = Column.OUT + Column.SIDE * side
                line[at] = self._room(2 * self.room + 2)
                valid = np.ones(self.room, dtype=np.uint8)
                self.kept.append(valid)
                line[at + 1] = address(valid)
                if layout.storage is Storage.TEXT:
                    self._make_text_room(k, side, _TEXT_ROOM)
                if k in self.hopping.partners_at:
                    line[at + 4] = self._room(self.room)
        self.words[Words.COLUMNS], self.words[Words.N_COLUMNS] = address(self._columns), len(columns)
        homes = dict(zip(self._entry.units, self._entry.homes, strict=True))
        self._lines = [(self._columns[k], homes[unit], at) for k, (unit, at, _) in enumerate(columns)]
        for line, home, at in self._lines:
            if home.copy is None:  # where new tuples are is always written in the same place
                line[Column.VALUES], line[Column.VALIDS], line[Column.TEXTS] = home.tables(at)
        self._null_facts = [(home.nulls, at) for _, home, at in self._lines]
        read = {columns[k][:2] for k in self.hopping.slots_at}
        self._nan_facts = [(home.nans, at) for _, home, at in self._lines if (home.unit, at) in read]
        self._chosen_for: tuple[bool, bool, Any] | None = None

    def _make_text_room(self, column: int, side: int, size: int) -> None:
        text = np.zeros(size + 8, dtype=np.uint8)
        self._texts[column, side] = text
        at = Column.OUT + Column.SIDE * side
        self._columns[column, at + 2 : at + 4] = (address(text), size)

    def widen(self) -> None:
        """Make the room for texts that was missing."""
        column, side = divmod(int(self.words[Words.NEED_AT]), 2)
        self._make_text_room(column, side, 2 * int(self.words[Words.NEED]))
        self._write_tables()

    def _make_scratch(self) -> None:
        words = self.words
        scratch = Scratch(tuple(dimension.bits for dimension in self.hopping.dimensions), self.room)
        self.scratch = scratch
        words[Words.OUTS], words[Words.SPANS] = address(scratch.outs), address(scratch.spans)
        words[Words.ORDER] = address(scratch.order)
        for side, ends in enumerate((Words.ENDS, Words.LOOSE)):
            probe = scratch.probe.copy()
            probe[:4] = self._rows_of(int(words[ends]))
            words[Words.PROBE + side] = self._keep(probe)

    def _rows_of(self, ends: int) -> list[int]:
        return [ends + 8 * self.room * row for row in range(4)]

    def _write_tables(self) -> None:
        """Write down, for kernels, where what they read of combinations is."""
        hopping, words = self.hopping, self.words
        self._tables: list[_Ints] = []

        def table(entries: list[int]) -> int:
            self._tables.append(np.array(entries or [0], dtype=np.int64))
            return address(self._tables[-1])

        for side, ends in enumerate((Words.ENDS, Words.LOOSE)):
            at = Column.OUT + Column.SIDE * side
            places = [[int(word) for word in line[at : at + 5]] for line in self._columns]
            leaves = [pointer for k in hopping.leaves_at for pointer in places[k][:3]]
            hashes = [pointer for k in hopping.partners_at for pointer in (places[k][4], places[k][1])]
            slots = [pointer for k in hopping.slots_at for pointer in places[k][:3]]
            words[Words.INS + side], words[Words.N_INS] = table(leaves + hashes), len(leaves + hashes)
            words[Words.PAIR + side] = table(self._rows_of(int(words[ends])) + slots)
            if side == 0:
                words[Words.MASK_PROBE] = table(slots)

    def attune(self, changed: set[Home]) -> None:
        """Write down what windows are like now, and choose the kernels for that."""
        words = self.words
        for line, home, at in self._lines:
            if home in changed:
                line[Column.VALUES], line[Column.VALIDS], line[Column.TEXTS] = home.tables(at)
                line[Column.NULLS] = home.nulls[at]
        residents = self._take_window(self._home) if self._home in changed else self._home.residents
        if residents is None or not residents.items:
            return
        self._choose_kernels()
        if words[Words.RECHECK] or words[Words.SCAN] or words[Words.MASK]:
            self._positions = residents.positions
            words[Words.TABLE], words[Words.TABLE_COLUMNS] = address(self._positions), self._positions.shape[1]
        if self._home in changed:
            words[Words.PARAMS] = address(residents.params)
            words[Words.SORTS] = 0
            if "band" in residents.kinds and residents.size > CACHED and self.scratch is not None:
                axis = int(residents.runs[residents.runs[:, 5] == 1, 9][-1]) & 15
                words[Words.SORTS] = address(self.scratch.low_values[axis])

    def _choose_kernels(self) -> None:
        """Choose kernels by whether there are nulls and NaNs: those that reckon with them are slower."""
        words, hopping = self.words, self.hopping
        first, end = hopping.slots_of_target
        nulls, nans = (any(bool(have[at]) for have, at in of) for of in (self._null_facts, self._nan_facts))
        self.window_nulls = bool(self._home.nulls[first:end].any())
        facts = Facts(nulls or self.window_nulls, nans or bool(self._home.nans[first:end].any()))
        if self._chosen_for == (nulls, self.window_nulls, facts):
            return
        self._chosen_for = (nulls, self.window_nulls, facts)
        if hopping.dimensions:
            self._choose_thresholds(nulls)
            words[Words.BOX], words[Words.RECHECK] = hopping.box(), hopping.recheck(facts, self.window_nulls)
        else:
            words[Words.SCAN] = hopping.scan(facts)
        if hopping.is_shared:
            words[Words.MASK], table = hopping.mask(facts, self.window_nulls)
            words[Words.MASK_TABLE] = address(table)

    def _choose_thresholds(self, nulls: bool) -> None:
        words = self.words
        kernel, at = self.hopping.thresholds(nulls)
        if words[Words.THRESHOLDS] != at:
            ends, room = kernel.room()
            words[Words.THRESHOLDS] = at
            words[Words.PLANS], words[Words.PLAN_ROWS] = address(kernel.plans), len(kernel.plans)
            words[Words.THRESHOLD_ENDS], words[Words.THRESHOLD_COLUMNS] = address(ends), ends.shape[1]
            words[Words.THRESHOLD_ROOM] = address(room)
            self._thresholds = (kernel, ends, room)

    def _make_match_room(self, room: int) -> None:
        self._matches = np.zeros((3, room), dtype=np.int64)
        at, step = address(self._matches), self._matches.strides[0]
        self.words[Words.FOUND_W], self.words[Words.FOUND_I], self.words[Words.FOUND_J] = at, at + step, at + 2 * step
        self.words[Words.MATCH_ROOM] = room

    def put_lengths(self) -> None:
        """Write down how long basic windows are; pair by pair, one is searched at a stretch, and may match all."""
        residents = self._home.residents
        if residents is not None and residents.items:
            self._lengths = np.ascontiguousarray(residents.runs[:, 0])
            self.words[Words.LENGTHS] = address(self._lengths)
            longest = int(self._lengths.max())
            if longest > self._matches.shape[1]:
                self._make_match_room(2 * longest)

    def show(self) -> None:
        """Let the index see what was looked for."""
        present = int(self.words[Words.PRESENT])
        if present and self.scratch is not None:
            scratch = self.scratch
            self.hopping.index.remember(scratch.low_values, scratch.high_values, scratch.order[:present])

    def fault(self) -> PairFaultError:
        """Return the error that an overflow has to become."""
        states = self._states
        kind = int(self.words[Words.FAULT])
        state = states[8 * (kind - 1) : 8 * kind]
        residents = self._home.residents
        if residents is None:
            raise LookupError("a search found an overflow without a window")
        terms = self.hopping.hop.terms
        if kind == 3:
            terms = self.hopping.accused(self.window_nulls, int(state[1]), int(state[2]))
        return PairFaultError(
            residents.items[state[3]],
            int(state[4]),
            self._home.unit,
            self._new_member(kind, int(state[5])),
            len(self._entry.units) - 1,
            terms,
        )

    def _new_member(self, kind: int, probe: int) -> int:
        """Return which of the new tuples is a member of the combination that probes; -1: none is."""
        if self._entry.homes[0].copy is not None:
            return -1
        by_group = kind != 3 and int(self.words[Words.GROUPS]) > 0
        chosen = self._reps if by_group else self._want
        return int(self._entry.cells[2, chosen[probe]])


def _width(layout: Layout) -> int:
    """Return the bytes of a value; 0 for texts."""
    if layout.storage is Storage.FIXED:
        return layout.machine.itemsize
    return 16 if layout.storage is Storage.WIDE else 0
