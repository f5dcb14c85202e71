"""The operators of a probe tree, as records that compiled code reads; :data:`crosswind.kernel.records.OP`.

An op is made once. What it says of windows is written anew when these have changed (``attune``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from crosswind.engine.parallel.cell import Partition
from crosswind.engine.parallel.policy import FirstWindow
from crosswind.engine.probe.boxes import CACHED, Scratch
from crosswind.engine.probe.step import ProbeStep
from crosswind.engine.strategy import PairFaultError
from crosswind.kernel.generated.emit import Facts
from crosswind.kernel.records import ALL, COLUMN, EMIT, OP, PRODUCT, RESULTS, SEARCH, START, new_record, word_of
from crosswind.plan.physical import PROBE_GROUP, Storage
from crosswind.window.block import Block
from crosswind.window.join_window import Residents
from crosswind.window.vector import Layout, address, all_valid

__all__ = ["RESULTS_ROOM", "All", "Emit", "MemberSource", "Op", "Product", "ResultTable", "Search", "Start"]

_Ints = npt.NDArray[np.int64]

RESULTS_ROOM = 256
"""Results of a query that there is room for in the beginning."""

_TEXT_ROOM = 1 << 14
"""Bytes that there is room for in the beginning for the texts of a column."""

_COUNT = word_of(RESULTS, "count")
_TIMES, _SIZE = word_of(OP, "times"), word_of(OP, "size")


class MemberSource:
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


class ResultTable:
    """What a query has found: for each of its units two rows, basic windows and places in them."""

    def __init__(self, units: tuple[int, ...]) -> None:
        self.units = units
        self.places = {unit: place for place, unit in enumerate(units)}
        self.words, self._record = new_record(RESULTS)
        self.at = address(self.words)
        self.begun = 0
        self.make_room(RESULTS_ROOM)

    def make_room(self, room: int) -> None:
        """Begin a new matrix; the one before stays with those who have parts of it."""
        self.matrix = np.empty((2 * len(self.units), room), dtype=np.int64)
        self.base = address(self.matrix)
        self._record["at"], self._record["room"] = self.base, room
        self._record["count"] = self.begun = 0

    @property
    def room(self) -> int:
        """How many results there is room for."""
        return self.matrix.shape[1]

    @property
    def count(self) -> int:
        """How many results have been written down."""
        return int(self.words[_COUNT])

    def empty(self) -> None:
        """Forget all results."""
        self.words[_COUNT] = self.begun = 0


class Op:
    """A record, and what its addresses point to.

    ``units`` and ``sources`` are those of the members of its combinations.
    """

    def __init__(self, kind: int, units: tuple[int, ...], sources: tuple[MemberSource, ...], room: int) -> None:
        self.words, self.record = new_record(OP)
        self.at = address(self.words)
        self.units, self.sources, self.room = units, sources, room
        self.children: list[Op] = []
        self.record["kind"] = kind
        self.kept: list[Any] = []
        self._partitions: dict[int, Partition] = {}
        self.record["chosen"], self.record["chosen_2"] = self._room(room), self._room(room)
        if kind != EMIT:
            self.cells = np.zeros((4 * len(units) + 1, room), dtype=np.int64)
            self.record["cells"] = self._keep(self.cells)
            self.record["room"] = room

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
            child.record["parent"] = self.at
            child.record["sibling"] = self.children[k + 1].at if k + 1 < len(self.children) else 0
            child.link()
        self.record["child"] = self.children[0].at if self.children else 0
        self.record["lean"] = all(isinstance(child, Emit) for child in self.children)

    def attune(self, changed: set[MemberSource]) -> None:
        """Write down what has changed about windows, and new tuples."""

    def shares(self, count: int) -> list[tuple[int, int]]:
        """Return ``count`` shares of the basic windows that are searched, as CellJoin cuts them."""
        residents = self.sources[-1].residents
        partition = self._partitions.setdefault(count, Partition(count))
        partition.resize(0 if residents is None else len(residents.items))
        return [partition.share(column) for column in range(count)]

    def take_share(self, share: tuple[int, int]) -> None:
        """Search only these of the basic windows: from, and one past the last."""
        self.record["first"], self.record["last"] = share

    @property
    def first_window(self) -> FirstWindow:
        """The window that is searched, if this is the first op of new tuples."""
        residents = self.sources[-1].residents
        if residents is None:
            return FirstWindow(0, 0)
        scanned = residents.runs[:, 5] == 0
        return FirstWindow(int(residents.runs[scanned, 0].sum()), int((~scanned).sum()))

    def _take_window(self, source: MemberSource) -> Residents | None:
        """Write down the window that is searched."""
        residents, record = source.residents, self.record
        items = 0 if residents is None else len(residents.items)
        record["items"] = record["last"] = items
        record["first"] = 0
        if residents is None or not items:
            return None
        record["runs"], record["run_columns"] = address(residents.runs), residents.runs.shape[1]
        return residents


class Start(Op):
    """New tuples, as combinations of one."""

    def __init__(self, source: MemberSource, bits: int, room: int) -> None:
        super().__init__(START, (source.unit,), (source,), room)
        self.record["bits"] = bits
        self.record["step"] = room
        self._rest: tuple[int, ...] = ()

    def take(self, block: Block, masks: _Ints | None, cursor: int, step: int) -> None:
        """Begin with the tuples of ``block``; ``cursor`` is where it says how many have been taken."""
        words, record = self.words, self.record
        words[_TIMES], words[_SIZE] = block.times_at, len(block.times)
        rest = (
            0 if block.numbers is None else address(block.numbers),
            0 if masks is None else address(masks),
            cursor,
            step,
        )
        if rest != self._rest:  # seldom: every store of a word takes its time
            self._rest = rest
            record["numbers"], record["start_masks"] = rest[:2]
            record["cursor"], record["step"] = cursor, min(step, self.room)


class All(Op):
    """What waits in a window, for a product with the combinations of ``entry``."""

    def __init__(self, probe_step: ProbeStep, entry: Op, source: MemberSource) -> None:
        super().__init__(ALL, (source.unit,), (source,), entry.room)
        record = self.record
        record["input"], record["members"] = entry.at, len(entry.units)
        record["bits"] = probe_step.all_bits
        record["bound"] = self._keep(probe_step.reach(source.unit, entry.units))
        record["ends"] = self._room(4)
        record["counted"] = bool(probe_step.spans.counts)
        self.is_linked = probe_step.index.is_linked

    def attune(self, changed: set[MemberSource]) -> None:
        """Write down what has changed about the window."""
        if self.sources[0] in changed:
            self._take_window(self.sources[0])


class Product(Op):
    """Combinations of two ops, put together."""

    def __init__(self, probe_step: ProbeStep, left: Op, right: Op) -> None:
        super().__init__(PRODUCT, (*left.units, *right.units), (*left.sources, *right.sources), left.room)
        record = self.record
        record["input"], record["beside"] = right.at, left.at
        record["members"], record["grown"] = len(left.units), len(right.units)
        record["bits"] = probe_step.all_bits
        reaches = [self._keep(probe_step.reach(unit, left.units)) for unit in right.units]
        record["bound"] = self._keep(np.array(reaches, dtype=np.int64))
        record["ends"], record["in_room"] = self._room((len(right.units), 4, left.room)), left.room
        record["want"] = self._room(left.room)
        record["counted"] = bool(probe_step.spans.counts)
        limits = probe_step.limits(self.units)
        self.kept.append(limits)
        record["limits"] = address(limits.words)


class Emit(Op):
    """Complete combinations of a query, written down."""

    def __init__(self, entry: Op, bits: int, output: ResultTable) -> None:
        super().__init__(EMIT, entry.units, entry.sources, entry.room)
        self._places = np.zeros(2 * len(entry.units), dtype=np.int64)
        self._places[::2] = [output.units.index(unit) for unit in entry.units]
        record = self.record
        record["input"], record["members"], record["bits"] = entry.at, len(entry.units), bits
        record["results"], record["places"] = output.at, address(self._places)
        self.output = output

    def put_bases(self, bases: dict[MemberSource, int]) -> None:
        """Write down where basic windows of sources begin among those of all copies."""
        for place, source in enumerate(self.sources):
            if source in bases:
                self._places[2 * place + 1] = bases[source]


class Search(Op):
    """Combinations of ``entry`` look for their next member; ``beside`` are others that have nothing to do with it."""

    def __init__(self, probe_step: ProbeStep, entry: Op, source: MemberSource, beside: Op | None) -> None:
        super().__init__(SEARCH, (*entry.units, source.unit), (*entry.sources, source), entry.room)
        self.probe_step, self._member_source, self._entry = probe_step, source, entry
        record, room = self.record, entry.room
        record["input"], record["members"], record["in_room"] = entry.at, len(entry.units), room
        record["bits"], record["counted"] = probe_step.all_bits, bool(probe_step.spans.counts)
        record["bound"] = self._keep(probe_step.reach(source.unit, entry.units))
        if beside is not None:
            record["beside"] = beside.at
            record["aside"] = self._keep(probe_step.reach(source.unit, beside.units))
        limits = probe_step.limits(self.units)
        self.kept.append(limits)
        record["limits"] = address(limits.words)
        self._want, self._reps = np.zeros((2, room + 1), dtype=np.int64)
        record["want"], record["reps"] = address(self._want), address(self._reps)
        for name in ("given", "masks", "group_of"):
            record[name] = self._room(room + 1)
        record["group_order"], record["group_starts"] = self._room(room + 1), self._room(room + 1)
        record["group_size"] = 1 << (2 * room).bit_length()
        record["group_table"] = self._room(int(record["group_size"]))
        for name in ("spread_w", "spread_i", "spread_j"):
            record[name] = self._room(room)
        self._make_match_room(room)
        record["ends"], record["loose"] = self._room((4, room)), self._room((4, room))
        self._states = np.zeros(24, dtype=np.int64)
        record["state"], record["work"] = address(self._states), self._room((PROBE_GROUP, 4))
        refers = [entry.units.index(unit) for unit in probe_step.refers]
        record["refers"], record["n_refers"] = self._keep(np.array(refers or [0], dtype=np.int64)), len(refers)
        self._make_columns()
        self.scratch: Scratch | None = None
        if probe_step.dimensions:
            self._make_scratch()
        self._write_tables()

    def passes(self, bits: int) -> bool:
        """Whether it is for all of these terms."""
        return int(self.record["bits"]) & bits == bits

    def _make_columns(self) -> None:
        columns = self.probe_step.columns
        self._columns = np.zeros(max(1, len(columns)), dtype=COLUMN)
        self._texts: dict[tuple[int, int], npt.NDArray[np.uint8]] = {}
        for k, (unit, _, layout) in enumerate(columns):
            line = self._columns[k]
            line["member"], line["width"] = self._entry.units.index(unit), _width(layout)
            for side in (0, 1):
                out = line["out"][side]
                out["values"] = self._room(2 * self.room + 2)
                valid = np.ones(self.room, dtype=np.uint8)
                self.kept.append(valid)
                out["valids"] = address(valid)
                if layout.storage is Storage.TEXT:
                    self._make_text_room(k, side, _TEXT_ROOM)
                if k in self.probe_step.partners_at:
                    out["hashes"] = self._room(self.room)
        self.record["columns"], self.record["n_columns"] = address(self._columns), len(columns)
        sources = dict(zip(self._entry.units, self._entry.sources, strict=True))
        self._lines = [(self._columns[k], sources[unit], at) for k, (unit, at, _) in enumerate(columns)]
        for line, source, at in self._lines:
            if source.copy is None:  # where new tuples are is always written in the same place
                line["values"], line["valids"], line["texts"] = source.tables(at)
        self._null_facts = [(source.nulls, at) for _, source, at in self._lines]
        read = {columns[k][:2] for k in self.probe_step.slots_at}
        self._nan_facts = [(source.nans, at) for _, source, at in self._lines if (source.unit, at) in read]
        self._chosen_for: tuple[bool, bool, Any] | None = None

    def _make_text_room(self, column: int, side: int, size: int) -> None:
        text = np.zeros(size + 8, dtype=np.uint8)
        self._texts[column, side] = text
        out = self._columns[column]["out"][side]
        out["texts"], out["text_room"] = address(text), size

    def widen(self) -> None:
        """Make the room for texts that was missing."""
        column, side = divmod(int(self.record["need_at"]), 2)
        self._make_text_room(column, side, 2 * int(self.record["need"]))
        self._write_tables()

    def _make_scratch(self) -> None:
        record = self.record
        scratch = Scratch(tuple(dimension.bits for dimension in self.probe_step.dimensions), self.room)
        self.scratch = scratch
        record["outs"], record["spans"] = address(scratch.outs), address(scratch.spans)
        record["order"] = address(scratch.order)
        for side, ends in enumerate(("ends", "loose")):
            probe = scratch.probe.copy()
            probe[:4] = self._rows_of(int(record[ends]))
            record["probe"][side] = self._keep(probe)

    def _rows_of(self, ends: int) -> list[int]:
        return [ends + 8 * self.room * row for row in range(4)]

    def _write_tables(self) -> None:
        """Write down, for kernels, where what they read of combinations is."""
        probe_step, record = self.probe_step, self.record
        self._tables: list[_Ints] = []

        def table(entries: list[int]) -> int:
            self._tables.append(np.array(entries or [0], dtype=np.int64))
            return address(self._tables[-1])

        for side, ends in enumerate(("ends", "loose")):
            outs = self._columns["out"][:, side]
            leaves = [int(outs[k][name]) for k in probe_step.leaves_at for name in ("values", "valids", "texts")]
            hashes = [int(outs[k][name]) for k in probe_step.partners_at for name in ("hashes", "valids")]
            slots = [int(outs[k][name]) for k in probe_step.slots_at for name in ("values", "valids", "texts")]
            record["ins"][side], record["n_ins"] = table(leaves + hashes), len(leaves + hashes)
            record["pair"][side] = table(self._rows_of(int(record[ends])) + slots)
            if side == 0:
                record["mask_probe"] = table(slots)

    def attune(self, changed: set[MemberSource]) -> None:
        """Write down what windows are like now, and choose the kernels for that."""
        record = self.record
        for line, source, at in self._lines:
            if source in changed:
                line["values"], line["valids"], line["texts"] = source.tables(at)
                line["nulls"] = source.nulls[at]
        residents = (
            self._take_window(self._member_source) if self._member_source in changed else self._member_source.residents
        )
        if residents is None or not residents.items:
            return
        self._choose_kernels()
        if record["recheck"] or record["scan"] or record["mask"]:
            self._positions = residents.positions
            record["table"], record["table_columns"] = address(self._positions), self._positions.shape[1]
        if self._member_source in changed:
            record["params"] = address(residents.params)
            record["sorts"] = 0
            if "band" in residents.kinds and residents.size > CACHED and self.scratch is not None:
                axis = int(residents.runs[residents.runs[:, 5] == 1, 9][-1]) & 15
                record["sorts"] = address(self.scratch.low_values[axis])

    def _choose_kernels(self) -> None:
        """Choose kernels by whether there are nulls and NaNs: those that reckon with them are slower."""
        record, probe_step = self.record, self.probe_step
        first, end = probe_step.slots_of_target
        nulls, nans = (any(bool(have[at]) for have, at in of) for of in (self._null_facts, self._nan_facts))
        self.window_nulls = bool(self._member_source.nulls[first:end].any())
        facts = Facts(nulls or self.window_nulls, nans or bool(self._member_source.nans[first:end].any()))
        if self._chosen_for == (nulls, self.window_nulls, facts):
            return
        self._chosen_for = (nulls, self.window_nulls, facts)
        if probe_step.dimensions:
            self._choose_thresholds(nulls)
            record["box"], record["recheck"] = probe_step.box(), probe_step.recheck(facts, self.window_nulls)
        else:
            record["scan"] = probe_step.scan(facts)
        if probe_step.is_shared:
            record["mask"], table = probe_step.mask(facts, self.window_nulls)
            record["mask_table"] = address(table)

    def _choose_thresholds(self, nulls: bool) -> None:
        record = self.record
        kernel, at = self.probe_step.thresholds(nulls)
        if record["thresholds"] != at:
            ends, room = kernel.room()
            record["thresholds"] = at
            record["plans"], record["plan_rows"] = address(kernel.plans), len(kernel.plans)
            record["threshold_ends"], record["threshold_columns"] = address(ends), ends.shape[1]
            record["threshold_room"] = address(room)
            self._thresholds = (kernel, ends, room)

    def _make_match_room(self, room: int) -> None:
        self._matches = np.zeros((3, room), dtype=np.int64)
        at, step = address(self._matches), self._matches.strides[0]
        self.record["found_w"], self.record["found_i"], self.record["found_j"] = at, at + step, at + 2 * step
        self.record["match_room"] = room

    def put_lengths(self) -> None:
        """Write down how long basic windows are; pair by pair, one is searched at a stretch, and may match all."""
        residents = self._member_source.residents
        if residents is not None and residents.items:
            self._lengths = np.ascontiguousarray(residents.runs[:, 0])
            self.record["lengths"] = address(self._lengths)
            longest = int(self._lengths.max())
            if longest > self._matches.shape[1]:
                self._make_match_room(2 * longest)

    def show(self) -> None:
        """Let the index see what was looked for."""
        present = int(self.record["present"])
        if present and self.scratch is not None:
            scratch = self.scratch
            self.probe_step.index.remember(scratch.low_values, scratch.high_values, scratch.order[:present])

    def fault(self) -> PairFaultError:
        """Return the error that an overflow has to become."""
        states = self._states
        kind = int(self.record["fault"])
        state = states[8 * (kind - 1) : 8 * kind]
        residents = self._member_source.residents
        if residents is None:
            raise LookupError("a search found an overflow without a window")
        terms = self.probe_step.planned.terms
        if kind == 3:
            terms = self.probe_step.accused(self.window_nulls, int(state[1]), int(state[2]))
        return PairFaultError(
            residents.items[state[3]],
            int(state[4]),
            self._member_source.unit,
            self._new_member(kind, int(state[5])),
            len(self._entry.units) - 1,
            terms,
        )

    def _new_member(self, kind: int, probe: int) -> int:
        """Return which of the new tuples is a member of the combination that probes; -1: none is."""
        if self._entry.sources[0].copy is not None:
            return -1
        by_group = kind != 3 and int(self.record["groups"]) > 0
        chosen = self._reps if by_group else self._want
        return int(self._entry.cells[2, chosen[probe]])


def _width(layout: Layout) -> int:
    """Return the bytes of a value; 0 for texts."""
    if layout.storage is Storage.FIXED:
        return layout.machine.itemsize
    return 16 if layout.storage is Storage.WIDE else 0
