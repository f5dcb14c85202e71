"""Outer, semi and anti joins: which tuples found a partner, and which come out without one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from crosswind.engine.ingest.intake import Intake
from crosswind.engine.output.rows import Absent, Place
from crosswind.engine.output.unmatched import Unmatched, UnmatchedMark
from crosswind.engine.strategy import Combinations
from crosswind.plan.compile import Plan
from crosswind.plan.physical import Storage
from crosswind.query.tree import Query
from crosswind.window.arrival import END
from crosswind.window.block import Block
from crosswind.window.vector import Layout

__all__ = ["Outer"]


class Outer:
    """Keeps track of matches in a join of two units that is not inner.

    Parameters
    ----------
    query : Query
        Its kind is ``left``, ``right``, ``full``, ``semi`` or ``anti``.
    intakes : list of Intake
        One a unit; they say where serial numbers are.
    """

    def __init__(self, query: Query, intakes: list[Intake]) -> None:
        self._kind = query.kind
        self._waiting = {unit: Unmatched(intakes[unit].serial_at) for unit in query.preserved}

    @classmethod
    def of(cls, plan: Plan, intakes: list[Intake]) -> Outer | None:
        """Return what a plan needs (None: its joins are inner)."""
        query = plan.queries[0].query
        return cls(query, intakes) if query.preserved else None

    @property
    def preserved(self) -> tuple[int, ...]:
        """The units whose tuples may come out alone."""
        return tuple(self._waiting)

    def note(self, unit: int, block: Block) -> Block:
        """Take new tuples in; return them, with serial numbers if they may come out alone."""
        return self._waiting[unit].note(block) if unit in self._waiting else block

    def refill(self, unit: int, block: Block, serial: int) -> Block:
        """Take tuples in that were here before, with serial numbers from ``serial`` on; as :meth:`note`."""
        return self._waiting[unit].refill(block, serial) if unit in self._waiting else block

    def matched(self, unit: int, first: int, count: int) -> npt.NDArray[np.bool_]:
        """Return which of ``count`` tuples of a preserved unit have found a partner."""
        return self._waiting[unit].matched(first, count)

    def set_matched(self, unit: int, first: int, flags: npt.NDArray[np.bool_]) -> None:
        """Note what :meth:`matched` told."""
        self._waiting[unit].set_matched(first, flags)

    def meet(self, part: Mapping[int, Place]) -> Iterator[Combinations]:
        """Note matches; yield what they give: pairs, or the left tuples that match for the first time."""
        for unit, waiting in self._waiting.items():
            place = part[unit]
            if isinstance(place, Absent):
                raise LookupError("a match has members of both streams")
            fresh = waiting.meet(place.column(waiting.column, Layout(Storage.FIXED)).values)
            if self._kind == "semi" and len(fresh):
                yield Combinations(0, [{other: known.take(fresh) for other, known in part.items()}], len(fresh))
        if self._kind not in ("semi", "anti"):
            yield Combinations(0, [part], len(next(iter(part.values()))))

    def close(self, marks: list[int], oldest: list[tuple[int | None, int | None]]) -> Iterator[tuple[int, list[Block]]]:
        """Yield, by unit, tuples that come out alone: no partner came, and none can come any more."""
        for unit, waiting in self._waiting.items():
            ended = marks[1 - unit] >= END
            closed = waiting.close(*((None, None) if ended else oldest[unit]))
            if closed and self._kind != "semi":
                yield unit, closed

    def save(self) -> dict[int, UnmatchedMark]:
        """Begin a call; return what :meth:`undo` needs."""
        return {unit: waiting.save() for unit, waiting in self._waiting.items()}

    def undo(self, marks: dict[int, UnmatchedMark]) -> None:
        """Put back what was there when the call began; harmless if repeated."""
        for unit, waiting in self._waiting.items():
            waiting.undo(marks[unit])

    def commit(self) -> None:
        """End a call that went well."""
        for waiting in self._waiting.values():
            waiting.commit()

    def blocks(self) -> dict[int, list[Block]]:
        """Return, by unit, the tuples that wait, for a snapshot."""
        return {unit: waiting.blocks() for unit, waiting in self._waiting.items()}

    def serials(self) -> dict[str, int]:
        """Return, by unit, the next serial number, for a snapshot."""
        return {str(unit): waiting.serial for unit, waiting in self._waiting.items()}

    def restore(self, unit: int, block: Block) -> None:
        """Take back tuples of :meth:`blocks`."""
        self._waiting[unit].restore(block)

    def go_on(self, serials: Mapping[str, int]) -> None:
        """Go on with the serial numbers of :meth:`serials`."""
        for unit, waiting in self._waiting.items():
            waiting.serial = serials[str(unit)]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(waiting.nbytes for waiting in self._waiting.values())

    def __len__(self) -> int:
        return sum(len(waiting) for waiting in self._waiting.values())
