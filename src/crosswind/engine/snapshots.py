"""Snapshot and restore, keep and refill: what a live join hands over, and how it goes on from that.

A snapshot is all that a join knows. Who keeps the tuples that are pushed needs less: a bit for each of
them in an outer join (:meth:`Snapshots.matched`), and a few numbers where there are ROWS windows
(:meth:`Snapshots.order`). A new join is filled with the tuples again, and told the rest.
"""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosswind.engine.ingest.intake import Intake
from crosswind.engine.output.ordered import OrderedOutput
from crosswind.engine.output.outer import Outer
from crosswind.engine.output.rows import Materialiser
from crosswind.engine.strategy import DeferredMatches, Strategy
from crosswind.engine.transaction import Transaction
from crosswind.io.arrow import read_columns, ticks_of
from crosswind.io.snapshot import Snapshot, SnapshotSchema, read_snapshot, write_snapshot
from crosswind.plan.compile import Plan
from crosswind.window.arrival import Order, Sorter, Watermark
from crosswind.window.block import Block

__all__ = ["Snapshots"]


class Snapshots(Transaction):
    """The part of a live join that writes its state, and takes over one that was written."""

    _plan: Plan
    _intakes: list[Intake]
    _materialisers: list[Materialiser]
    _strategy: Strategy
    _outer: Outer | None
    _ordered: list[OrderedOutput] | None
    _sorter: Sorter
    _watermarks: dict[str, Watermark]
    _tuples_in: dict[str, int]
    _late: dict[str, int]
    _rejected: dict[str, int]
    _shed: dict[str, int]
    _results: int
    _owed: list[pa.Table]
    _counted: bool
    _closed: str | None
    _schemas: dict[str, pa.Schema]
    _times: dict[str, str]
    _factors: dict[str, int]
    _names: dict[str, tuple[str, ...]]
    _units: dict[str, tuple[int, ...]]

    @abstractmethod
    def _check_open(self) -> None:
        """Raise ClosedJoinError unless the join takes something."""

    @abstractmethod
    def _check_usable(self, stream: str) -> None:
        """Raise ClosedJoinError unless the join takes something, InputError if it has no such stream."""

    @abstractmethod
    def _met_late(self, found: Iterable[DeferredMatches]) -> list[tuple[int, pa.Table]]:
        """Make rows of what was found for tuples that are not met at once."""

    def snapshot(self) -> bytes:
        """Return the state of the join as bytes, for ``crosswind.open(..., restore=)``."""
        self._check_open()
        return self._call(self._snapshot)

    def _snapshot(self) -> bytes:
        self._owed = self._owed + [table for _, table in self._met_late(self._strategy.drain())]
        snapshot = Snapshot(self._about(), owed=list(self._owed))
        for unit, window in enumerate(self._strategy.windows):
            snapshot.blocks["window", unit] = window.blocks()
            snapshot.blocks["held", unit] = self._sorter.waiting(unit)
        if self._outer is not None:
            snapshot.blocks |= {("unmatched", unit): blocks for unit, blocks in self._outer.blocks().items()}
        snapshot.pending = None if self._ordered is None else [held.pack() for held in self._ordered]
        return write_snapshot(snapshot)

    def _about(self) -> dict[str, Any]:
        """Return what a snapshot says besides the tuples."""
        return {
            "query": self._identity(),
            "sql": self._sql(),
            "watermarks": {name: mark.value for name, mark in self._watermarks.items()},
            "counts": self._sorter.counts,
            "tuples_in": self._tuples_in,
            "late": self._late,
            "rejected": self._rejected,
            "shed": self._shed,
            "results": self._results,
            "counted": self._counted,
            "serials": {} if self._outer is None else self._outer.serials(),
        }

    def restore(self, state: bytes) -> None:
        """Take over the state in ``state``, as ``crosswind.open(..., restore=state)`` does on a new join.

        What is damaged or belongs to another join is refused before anything has changed.
        """
        self._check_open()
        self._call(self._take_over, read_snapshot(state, self._snapshot_schema()))

    def refill(self, stream: str, batch: Any, serial: int = 0) -> None:
        """Let tuples of ``stream`` wait that were pushed, and joined, before.

        For those who keep what they push: windows are rebuilt from it without a snapshot. ``serial`` is the number of
        the first, counted as they were pushed. In an outer join, what matched is told by :meth:`set_matched`. With
        ROWS windows :meth:`resume` must follow, which puts them in the order.
        """
        self._check_usable(stream)
        arrays = read_columns(batch, self._schemas[stream], self._names[stream], stream)
        ticks, _ = ticks_of(arrays[self._times[stream]], self._factors[stream], stream)
        self._call(self._refill, stream, arrays, ticks, serial)

    def _refill(self, stream: str, arrays: dict[str, pa.Array], ticks: npt.NDArray[np.int64], serial: int) -> None:
        for unit in self._units[stream]:
            block = self._intakes[unit].prepare(arrays, ticks, self._counted or self._outer is not None)
            if self._counted:
                self._sorter.serials[unit] = serial
                self._sorter.hold(unit, block)
            else:
                self._let_wait(unit, block, serial)
        self._strategy.settle()

    def _let_wait(self, unit: int, block: Block, serial: int) -> None:
        """Put tuples that have met all others that wait into their window."""
        if self._outer is not None and len(block):
            block = self._outer.refill(unit, block, serial)
        block = block if block.keep is None else block.take(np.flatnonzero(block.keep))
        self._strategy.restore(unit, block)

    def order(self, oldest: Sequence[int]) -> Order:
        """Return, of a join with ROWS windows, where the order stands: what :meth:`resume` needs.

        ``oldest`` are the numbers, by unit, of the first tuples that are kept, counted as they were pushed.
        """
        return self._sorter.order(oldest)

    def resume(self, ticks: int, order: Order, serials: Sequence[int]) -> None:
        """Go on where the watermark stood at ``ticks``, and the order at ``order``; for a join with ROWS windows.

        What was numbered by then has been joined. All tuples that are still needed must have been refilled, or be
        here already; ``serials`` are the numbers of those that are pushed next. ValueError: some are missing.
        """
        self._check_open()
        self._call(self._resume, ticks, order, serials)

    def _resume(self, ticks: int, order: Order, serials: Sequence[int]) -> None:
        for mark in self._watermarks.values():
            mark.advance(ticks)
        marks = [self._watermarks[unit.stream.name].value for unit in self._plan.units]
        self._sorter.leave_out(order.removed)
        for unit, block in enumerate(self._sorter.renumber(order, marks)):
            if block is not None and block.numbers is not None:
                self._let_wait(unit, block, int(block.numbers[0]))
        self._sorter.serials = list(serials)
        if self._outer is not None:
            self._outer.go_on({str(unit): order.counts[unit] for unit in self._outer.preserved})
        self._strategy.settle()

    @property
    def preserved(self) -> tuple[int, ...]:
        """The units of an outer, semi or anti join for whose tuples it counts whether they matched."""
        return () if self._outer is None else self._outer.preserved

    def matched(self, unit: int, first: int, count: int) -> npt.NDArray[np.bool_]:
        """Return which of the ``count`` tuples of a preserved unit have matched.

        They are numbered as they were pushed; with ROWS windows, as they are in the order.
        """
        assert self._outer is not None
        return self._outer.matched(unit, first, count)

    def number_from(self, unit: int, serial: int) -> None:
        """Let the next tuple of a preserved unit have the number ``serial``."""
        assert self._outer is not None
        self._call(self._outer.go_on, {**self._outer.serials(), str(unit): serial})

    def set_matched(self, unit: int, first: int, flags: npt.NDArray[np.bool_]) -> None:
        """Take over what :meth:`matched` told, of tuples that were refilled."""
        assert self._outer is not None
        self._call(self._outer.set_matched, unit, first, flags)

    def _snapshot_schema(self) -> SnapshotSchema:
        """Return what a snapshot must be like to fit this join."""
        return SnapshotSchema(
            self._identity(),
            self._sql(),
            streams=list(self._watermarks),
            units=[intake.snapshot_columns() for intake in self._intakes],
            results=[materialiser.schema for materialiser in self._materialisers],
            ordered=self._ordered is not None,
            counted=self._counted,
            preserved=() if self._outer is None else self._outer.preserved,
        )

    def _take_over(self, snapshot: Snapshot) -> None:
        """Go on with the state in ``snapshot``, which is known to fit."""
        about = snapshot.about
        self._sorter = self._sorter.copy()
        self._recall(about)
        for name, value in about["watermarks"].items():
            self._watermarks[name].advance(value)
        self._sorter.counts = list(about["counts"])
        self._tuples_in, self._late, self._rejected = about["tuples_in"], about["late"], about["rejected"]
        self._shed = {**self._shed, **about["shed"]}
        self._owed = self._owed + snapshot.owed
        self._results = about["results"]
        for (place, unit), blocks in snapshot.blocks.items():
            for block in blocks:
                if place == "window":
                    self._strategy.restore(unit, block)
                elif place == "unmatched" and self._outer is not None:
                    self._outer.restore(unit, block)
                else:
                    self._sorter.hold(unit, block)
        if self._outer is not None:
            self._outer.go_on(about["serials"])
        for held, table in zip(self._ordered or (), snapshot.pending or (), strict=True):
            held.unpack(table)

    def _recall(self, about: dict[str, Any]) -> None:
        """Take over what a snapshot says of the queries, before its tuples."""

    def _identity(self) -> str:
        """Return a mark of what the state belongs to: query, schemas, time columns."""
        parts = []
        for unit in self._plan.units:
            fields = [(field.name, str(field.type)) for field in unit.stream.schema]
            parts.append([unit.stream.name, unit.stream.alias, unit.stream.time, sorted(fields)])
        text = json.dumps([" ".join(self._sql().split()), parts])
        return hashlib.sha256(text.encode()).hexdigest()

    def _sql(self) -> str:
        """Return the queries as text; what belongs to them is told apart by it."""
        return self._plan.queries[0].query.sql
