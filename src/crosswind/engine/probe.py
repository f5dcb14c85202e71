"""Probing: the boxes of new tuples, and their candidates in a window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from crosswind.engine.index import Index
from crosswind.engine.intake import Intake, hashed_keys
from crosswind.engine.strategy import Matches, Numbers, PairFaultError
from crosswind.plan.axis import INT64_MAX, INT64_MIN
from crosswind.plan.box import Dimension
from crosswind.plan.compile import Plan
from crosswind.plan.logic import And
from crosswind.plan.physical import PROBE_GROUP
from crosswind.plan.program import Slot
from crosswind.query.tree import Expr
from crosswind.window.block import Block
from crosswind.window.join_window import Residents
from crosswind.window.vector import address, all_valid

if TYPE_CHECKING:
    from crosswind.kernel.scan import PairSpec

__all__ = ["Bounds", "Boxes", "Prober", "Scratch", "Search", "Searcher", "pair_spec", "time_bounds"]

_MATCH_ROOM = 1 << 16
"""Candidates that are found before they are checked and handed on."""

BOX_BLOCK = 4096
"""Keys of a window that are compared with every probe before moving on: they stay in L1."""

_SORT_FROM = 32
"""Probes from which on it pays to go through them in the order of the cells."""

CACHED = 1 << 14
"""Tuples that stay in the processor's caches, so that the order does not matter."""


class Bounds:
    """What each of ``count`` probes may meet, where it does not follow from their own times.

    ``ends`` are least and greatest time and, if ``counted``, sequence number; ``extent`` is from where to
    where least and greatest times reach.
    """

    def __init__(self, count: int, counted: bool) -> None:
        self.ends = np.empty((4, count), dtype=np.int64)
        self.extent = np.empty(4, dtype=np.int64)
        self.counted = counted
        base, step = address(self.ends), self.ends.strides[0]
        self.addresses = (base, base + step, base + 2 * step, base + 3 * step)

    @classmethod
    def of(cls, block: Block, numbers: Numbers | None, back: int | None, ahead: int | None) -> Bounds:
        """Return what windows that reach ``back`` and ``ahead`` (None: all) let tuples of ``block`` meet."""
        bounds = cls(len(block), numbers is not None)
        bounds.ends[0], bounds.ends[1] = time_bounds(block.times, back, ahead)
        if numbers is not None:
            bounds.ends[2], bounds.ends[3] = numbers.low, numbers.high
        bounds.measure()
        return bounds

    def measure(self) -> None:
        """Find out from where to where times reach."""
        low, high = self.ends[0], self.ends[1]
        self.extent[:] = (low.min(), low.max(), high.min(), high.max())

    def widest(self) -> Bounds:
        """Return bounds, of one probe, that allow all that some probe may meet."""
        made = Bounds(1, self.counted)
        made.ends[0, 0], made.ends[1, 0] = self.extent[0], self.extent[3]
        if self.counted:
            made.ends[2, 0], made.ends[3, 0] = self.ends[2].min(), self.ends[3].max()
        made.measure()
        return made

    def narrow(self, other: Bounds) -> None:
        """Cut these to what some probe of ``other`` may meet."""
        most = other.widest().ends
        for end in range(4 if self.counted else 2):
            cut = np.minimum if end % 2 else np.maximum
            cut(self.ends[end], most[end], out=self.ends[end])
        self.measure()


@dataclass(frozen=True)
class Boxes:
    """What tuples look for in the other window: ``rows`` have a box at all, the others meet nothing.

    ``lows`` and ``highs`` are its ends by dimension, as doubles in the order of the keys;
    ``hashes`` are those of the equality keys. All are indexed by the rows of the block.
    """

    rows: npt.NDArray[np.int64]
    lows: list[npt.NDArray[np.float64]]
    highs: list[npt.NDArray[np.float64]]
    hashes: npt.NDArray[np.int64]


class Scratch:
    """Memory for the boxes of a batch, kept from batch to batch so that addresses stay."""

    def __init__(self, bits: tuple[int, ...], room: int) -> None:
        self.room = room
        self.order = np.empty(room, dtype=np.int64)
        self.low_time, self.high_time, self.hashes = (np.empty(room, dtype=np.int64) for _ in range(3))
        self.lows = [np.empty(room, dtype=f"int{width}") for width in bits]
        self.widths = [np.empty(room, dtype=f"int{width}") for width in bits]
        self.low_values = [np.empty(room) for _ in bits]
        self.high_values = [np.empty(room) for _ in bits]
        dimensions = [
            address(array)
            for d in range(len(bits))
            for array in (self.lows[d], self.widths[d], self.low_values[d], self.high_values[d])
        ]
        times = [address(self.low_time), address(self.high_time)]
        hashes = address(self.hashes)
        self.outs = np.array([address(self.order), *times, hashes, *dimensions], dtype=np.int64)
        self.probe = np.array([*times, 0, 0, hashes, *dimensions], dtype=np.int64)
        self.spans = np.zeros(8, dtype=np.int64)
        self.state = np.zeros(4, dtype=np.int64)
        self.work = np.zeros((PROBE_GROUP, 4), dtype=np.int64)


def pair_spec(plan: Plan, unit: int) -> PairSpec:
    """Return what tuples of ``unit`` check, pair by pair, in the window of the other unit."""
    from crosswind.kernel.scan import PairSpec

    slots = [tuple(Slot(e.type, u, k) for k, e in enumerate(entry.slots)) for u, entry in enumerate(plan.units)]
    limits = [plan.axis.age_limit(entry.stream.window) for entry in plan.units]
    access = plan.accesses[1 - unit]
    return PairSpec(
        access.residual,
        slots[1 - unit],
        slots[unit],
        len(access.dimensions),
        timed=any(limit is not None for limit in limits),
        counted=any(limit is None for limit in limits),
    )


@dataclass(frozen=True)
class Search:
    """What probing tuples look for in a window, and where their blocks keep what that takes.

    ``spec`` is checked pair by pair, ``dimensions`` make the box. ``leaves`` are the columns
    that its conditions read, ``leaves_at`` their places in blocks; ``partners_at`` are the
    places of what is hashed, ``slots_at`` those of the slots of ``spec``. ``back`` and
    ``ahead`` say how far, in ticks, the times of partners may lie (None: any).
    """

    spec: PairSpec
    dimensions: tuple[Dimension, ...]
    leaves: tuple[Expr, ...]
    leaves_at: Sequence[int]
    partners_at: Mapping[Expr, int]
    slots_at: Sequence[int]
    back: int | None = None
    ahead: int | None = None


class Searcher:
    """Finds the partners of probing tuples in a window.

    Parameters
    ----------
    search : Search
        What to look for.
    index : Index
        The index of the window.
    """

    def __init__(self, search: Search, index: Index) -> None:
        self._spec = search.spec
        self._dimensions = search.dimensions
        self._checks = self._spec.condition != And(())
        self._slots = search.slots_at
        self._known: dict[tuple[bool, bool], Any] = {}
        self._window_slots = slice(self._spec.skip, self._spec.skip + len(self._spec.window))
        self._place = search
        self._index = index
        self._bits = tuple(dimension.bits for dimension in self._dimensions)
        self._hashed = [dimension for dimension in self._dimensions if dimension.hashed]
        self._scratch = Scratch(self._bits, 0)
        self._kernels: dict[Any, Any] = {}
        self._make_room(_MATCH_ROOM)
        self._back, self._ahead = search.back, search.ahead

    def _make_room(self, matches: int) -> None:
        self._out = tuple(np.empty(matches, dtype=np.int64) for _ in range(3))
        self._out_at = (address(self._out[0]), address(self._out[1]))

    def find(self, block: Block, numbers: Numbers | None, residents: Residents) -> Iterator[Matches]:
        """Yield the matches of ``block`` in ``residents``, in bounded portions, each valid until the next.

        ``numbers`` bounds, for ROWS windows, the sequence numbers that each tuple may meet.
        """
        bounds = None
        if numbers is not None or not self._dimensions:
            bounds = Bounds.of(block, numbers, self._back, self._ahead)
        return self.find_within(block, bounds, residents)

    def find_within(
        self, block: Block, bounds: Bounds | None, residents: Residents, *, settled: bool = False
    ) -> Iterator[Matches]:
        """Yield the matches within ``bounds`` (None: those of the block's own times), each valid until the next.

        ``settled``: there is nothing to be checked beyond the box.
        """
        if not residents.items:
            return
        if self._dimensions:
            present = self._boxes(block, bounds)
            if present:
                yield from self._search(block, residents, present, self._checks and not settled)
        elif bounds is not None:
            yield from self._scan(block, bounds, residents)

    # -- with boxes ----------------------------------------------------------

    def boxes(self, block: Block) -> Boxes:
        """Return what the tuples of ``block`` look for, valid until the next call."""
        present = self._boxes(block, None)
        scratch = self._scratch
        return Boxes(scratch.order[:present], scratch.low_values, scratch.high_values, scratch.hashes)

    def _boxes(self, block: Block, bounds: Bounds | None) -> int:
        """Find where the box of each new tuple begins and ends; return how many have one."""
        count = len(block)
        columns = [block.columns[k] for k in self._place.leaves_at]
        nulls = any(column.valid is not None for column in columns)
        ins: list[int] = []
        for column in columns:
            short = not nulls and column.text is None
            ins += (column.at or address(column.values), 0, 0) if short else column.pointers()
        partners = [self._partner_keys(block, dimension) for dimension in self._hashed]
        for keys, valid in partners:
            ins += [address(keys), address(valid)]
        times = np.ascontiguousarray(block.times)
        begin = address(times) if bounds is None else bounds.addresses[0]
        present = self._compute_boxes(ins, count, begin, nulls)
        scratch = self._scratch
        if bounds is not None:
            scratch.spans[3:7] = bounds.extent
            scratch.spans[7] = 3 if bounds.counted else 1
            scratch.probe[:4] = bounds.addresses
        return present

    def _compute_boxes(self, ins: list[int], count: int, begin: int, nulls: bool) -> int:
        """Find the boxes of ``count`` tuples, given the addresses of what conditions read and of their times."""
        if count > self._scratch.room:
            self._scratch = Scratch(self._bits, max(256, 2 * count))
        scratch = self._scratch
        kernel, *room = self._threshold_kernel(nulls)
        scratch.spans[:3] = (begin, self._back or 0, self._ahead or 0)
        present: int = kernel(np.array(ins, dtype=np.int64), count, scratch.outs, scratch.spans, *room)
        scratch.spans[7] = 1
        return present

    @property
    def is_plain(self) -> bool:
        """Whether boxes say it all, and nothing that they are made from is hashed."""
        return bool(self._dimensions) and not self._checks and not self._hashed

    def find_at(self, ins: list[int], count: int, begin: int, residents: Residents) -> Iterator[Matches]:
        """Yield the matches of ``count`` tuples, as :meth:`find_within` does, if :attr:`is_plain`.

        ``ins`` are addresses: three for each column that conditions read, of which the first counts, as none has
        nulls; ``begin`` is that of their times.
        """
        if residents.items:
            present = self._compute_boxes(ins, count, begin, nulls=False)
            if present:
                yield from self._search(None, residents, present, checks=False)

    def _partner_keys(self, block: Block, dimension: Dimension) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
        """Return the hash keys that ``block`` looks for in a hashed dimension, and which are not null."""
        if dimension.partner is None:
            raise LookupError("a hashed dimension has a partner")
        vector = block.columns[self._place.partners_at[dimension.partner]]
        return hashed_keys(vector), all_valid(len(vector)) if vector.valid is None else vector.valid

    def _threshold_kernel(self, nulls: bool) -> Any:
        key = ("thresholds", nulls)
        if key not in self._kernels:
            from crosswind.kernel.emit import Facts
            from crosswind.kernel.thresholds import threshold_kernel

            kernel = threshold_kernel(self._dimensions, self._place.leaves, Facts(nulls=nulls, nans=True))
            self._kernels[key] = (kernel.call, kernel.plans, *kernel.room())
        return self._kernels[key]

    def _box_kernel(self) -> Any:
        if "box" not in self._kernels:
            from crosswind.kernel.box import box_kernel

            self._kernels["box"] = box_kernel(self._bits, BOX_BLOCK)
        return self._kernels["box"]

    def _search(self, block: Block | None, residents: Residents, present: int, checks: bool) -> Iterator[Matches]:
        scratch = self._scratch
        order = scratch.order[:present]
        self._index.see(scratch.low_values, scratch.high_values, order)
        if present > _SORT_FROM and "band" in residents.kinds and residents.size > CACHED:
            axis = int(residents.runs[residents.runs[:, 5] == 1, 9][-1]) & 15
            order = order[np.argsort(scratch.low_values[axis][order])]
        kernel = self._box_kernel()
        out_w, out_i, out_j = self._out
        state, items = scratch.state, len(residents.items)
        state[:] = (0, 0, -1, -1)
        while state[0] < items:
            count = kernel(
                residents.runs,
                residents.params,
                items,
                scratch.probe,
                scratch.spans,
                order,
                present,
                scratch.work,
                out_w,
                out_i,
                out_j,
                state,
            )
            if count and checks and block is not None:
                count = self._recheck(block, residents, count)
            if count:
                yield Matches(residents, out_w[:count], out_i[:count], out_j[:count], at=self._out_at)

    def _recheck(self, block: Block, residents: Residents, count: int) -> int:
        """Keep the candidates that satisfy the residual."""
        kernel = self._recheck_kernel(self._facts(block, residents))
        state = np.zeros(6, dtype=np.int64)
        out_w, out_i, out_j = self._out
        table, probe = residents.positions, self._pair_table(block)
        kept: int = kernel(table, probe, out_w, out_i, out_j, count, state)
        if kept < 0:
            raise PairFaultError(residents.items[state[3]], int(state[4]), int(state[5]))
        return kept

    def _recheck_kernel(self, facts: Any) -> Any:
        if facts not in self._kernels:
            from crosswind.kernel.scan import recheck_kernel

            self._kernels[facts] = recheck_kernel(self._spec, facts)
        return self._kernels[facts]

    # -- without boxes -------------------------------------------------------

    def _scan(self, block: Block, bounds: Bounds, residents: Residents) -> Iterator[Matches]:
        from crosswind.kernel.scan import scan_kernel

        scan = scan_kernel(self._spec, self._facts(block, residents))
        lengths = np.ascontiguousarray(residents.runs[:, 0])
        room = max(_MATCH_ROOM, int(lengths.max()))
        if len(self._out[0]) < room:
            self._make_room(room)
        table, probe = residents.positions, self._pair_table(block, bounds)
        state = np.zeros(6, dtype=np.int64)
        out_w, out_i, out_j = self._out
        items = len(residents.items)
        while state[0] < items:
            count = scan(table, lengths, items, probe, len(block), out_w, out_i, out_j, state)
            if count < 0:
                raise PairFaultError(residents.items[state[3]], int(state[4]), int(state[5]))
            if count:
                yield Matches(residents, out_w[:count], out_i[:count], out_j[:count], at=self._out_at)

    def _facts(self, block: Block, residents: Residents) -> Any:
        from crosswind.kernel.emit import Facts

        nulls, nans = residents.facts(self._window_slots.start, self._window_slots.stop)
        for k in self._slots:
            column = block.columns[k]
            nulls = nulls or column.valid is not None
            nans = nans or column.has_nans
        known = self._known.get((nulls, nans))
        if known is None:
            known = self._known[nulls, nans] = Facts(nulls, nans)
        return known

    def _pair_table(self, block: Block, bounds: Bounds | None = None) -> npt.NDArray[np.int64]:
        """Return the addresses of bounds (if they are to be checked) and slots of the probing tuples."""
        probe = [0, 0, 0, 0]
        if bounds is not None:
            probe[: 4 if bounds.counted else 2] = bounds.addresses[: 4 if bounds.counted else 2]
        for k in self._slots:
            probe.extend(block.columns[k].pointers())
        return np.array(probe, dtype=np.int64)


class Prober(Searcher):
    """Finds the partners of tuples of one unit in the window of the other.

    Parameters
    ----------
    plan : Plan
        Two units, one query.
    unit : int
        The unit whose tuples probe.
    intake : Intake
        Says where that unit's blocks keep what.
    index : Index
        The index of the other unit's window.
    """

    def __init__(self, plan: Plan, unit: int, intake: Intake, index: Index) -> None:
        limits = [plan.axis.age_limit(entry.stream.window) for entry in plan.units]
        search = Search(
            pair_spec(plan, unit),
            plan.accesses[1 - unit].dimensions,
            intake.probe_leaves,
            intake.probe_at,
            intake.partner_at,
            range(intake.keys, intake.keys + intake.slots),
            limits[1 - unit],
            limits[unit],
        )
        super().__init__(search, index)


def time_bounds(
    times: npt.NDArray[np.int64], back: int | None, ahead: int | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the times that tuples of ``times`` may meet, within the 64-bit range (None: all)."""
    low = np.full(len(times), INT64_MIN) if back is None else np.maximum(times, INT64_MIN + back) - back
    high = np.full(len(times), INT64_MAX) if ahead is None else np.minimum(times, INT64_MAX - ahead) + ahead
    return low, high
