"""Joining in the order: what ROWS windows need, and what is done about tuples whose arithmetic overflows there.

Tuples are held until the watermarks have passed them, then joined. If arithmetic of the query overflows then, the batch
that brought the tuple was taken long ago, and refusing the call at hand would blame another one, for ever. So the
tuple that comes last of those involved is set aside: named, counted, and left out as if it had not come.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from crosswind.engine.strategy import PairFaultError
from crosswind.engine.transaction import Transaction
from crosswind.errors import ArithmeticOverflowError, OverflowWarning
from crosswind.query.format import format_expr
from crosswind.window.arrival import Release, Sorter

if TYPE_CHECKING:
    from crosswind.engine.probe.bounds import Wait
    from crosswind.plan.compile import Plan
    from crosswind.window.block import Block

__all__ = ["InOrder", "Results"]

Results = list[tuple[int, pa.Table]]
"""Tables of results, each with the number of its query."""

_Aside = tuple[int, int, ArithmeticOverflowError]
"""A tuple that is set aside: its unit, its time, and why."""


class InOrder(Transaction):
    """What a join does with tuples that wait for the order."""

    _plan: Plan
    _sorter: Sorter
    _waits: Sequence[Wait]
    _rejected: dict[str, int]
    _arrived: list[tuple[int, Block]]
    """What the call at hand has brought, by unit."""

    @abstractmethod
    def _join_all(self, released: list[Release | None]) -> Results:
        """Join tuples that are next in the order, and make rows of what they complete."""

    @abstractmethod
    def _return(self) -> None:
        """Take back what the call at hand has joined."""

    @abstractmethod
    def _warn(self, category: type[Warning], stream: str, message: str) -> None:
        """Warn, once a stream."""

    def _join_in_order(self, marks: list[int]) -> Results:
        """Join what the watermarks allow.

        If arithmetic overflows, tuples of earlier calls that overflow among themselves are set aside. If it does so
        still, it is for what this call has brought, and the call is refused.
        """
        try:
            return self._join_all(self._sorter.release(marks))
        except ArithmeticOverflowError as error:
            first = error
        self._return()
        sorter, aside = self._without_guilty(self._sorter.copy(), marks)
        if not aside:
            raise first
        for unit, block in self._arrived:
            sorter.hold(unit, block)
        self._return()
        self._sorter = sorter
        results = self._join_all(self._sorter.release(marks))
        for unit, time, why in aside:
            self._set_aside(unit, [time], why)
        return results

    def _without_guilty(self, sorter: Sorter, marks: list[int]) -> tuple[Sorter, list[_Aside]]:
        """Return ``sorter`` without the tuples that overflow, and those with the reason."""
        aside: list[_Aside] = []
        while True:
            self._return()
            self._sorter = sorter.copy()
            try:
                self._join_all(self._sorter.release(marks))
            except ArithmeticOverflowError as error:
                unit, rank = self._guilty(sorter, marks)
                sorter, time = sorter.without(unit, rank)
                aside.append((unit, time, error))
            else:
                return sorter, aside

    def _guilty(self, sorter: Sorter, marks: list[int]) -> tuple[int, int]:
        """Return the unit of the first tuple in the order that overflows, and its rank among those of its unit."""
        good, bad = 0, sum(len(release.block) for release in sorter.copy().release(marks) if release is not None)
        while bad - good > 1:
            middle = (good + bad) // 2
            self._return()
            self._sorter = sorter.copy()
            try:
                self._join_all(self._sorter.release(marks, middle))
                good = middle
            except ArithmeticOverflowError:
                bad = middle
        counts = [_counts(sorter.copy().release(marks, most)) for most in (good, bad)]
        (unit,) = [unit for unit, (a, b) in enumerate(zip(*counts, strict=True)) if a != b]
        return unit, counts[0][unit]

    def _set_aside(self, unit: int, times: Sequence[int], error: ArithmeticOverflowError) -> None:
        """Count and name tuples that are left out because of ``error``."""
        stream = self._plan.units[unit].stream.name
        self._rejected = {**self._rejected, stream: self._rejected[stream] + len(times)}
        self._warn(
            OverflowWarning,
            stream,
            f"stream '{stream}': a tuple at time {', '.join(map(str, times))} (ticks) was set aside, as if it had not "
            f"come, and the join goes on; such tuples are counted in join.stats.rejected. The reason: "
            f"{str(error).replace('The batch was not taken. ', '')}",
        )

    def _overflow(self, unit: int, block: Block, fault: PairFaultError) -> ArithmeticOverflowError:
        concerned = {self._plan.terms[term].query for term in fault.terms} or range(len(self._plan.queries))
        entries = [self._plan.queries[number] for number in sorted(concerned)]
        where = " or ".join(
            format_expr(entry.query.where, entry.query.streams)
            + (f" (query '{entry.name}')" if len(self._plan.queries) > 1 else "")
            for entry in entries
            if entry.query.where is not None
        )
        new, met = (self._plan.units[number].stream.alias for number in (unit, fault.unit))
        others = f" with {fault.others} more of other streams" if fault.others else ""
        return ArithmeticOverflowError(
            f"integer arithmetic in WHERE {where} left the 64-bit range for the tuple of {new} at time "
            f"{int(block.times[fault.probe])}{others} and the tuple of {met} at time "
            f"{int(fault.window.times[fault.row])} (ticks). The batch was not taken. "
            f"Correct the tuple, or compute in DOUBLE with CAST(... AS DOUBLE)."
        )


def _counts(released: list[Release | None]) -> list[int]:
    return [0 if release is None else len(release.block) for release in released]
