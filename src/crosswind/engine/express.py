"""The way of a few live tuples: scan, insert and rows, without what only batches gain from.

A push of one tuple through the general way spends its time on the objects that describe a batch. Where
the join is plain (columns of fixed width, boxes that say it all, rows that only show columns), a few tuples without
nulls need none of them: kernels are given the addresses of their values and write where the window keeps its
own. It is the same search, in the same windows; whatever is not plain takes the general way.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosswind.engine.intake import TIMES, Intake
from crosswind.engine.kang import Kang
from crosswind.engine.result import Materialiser
from crosswind.window.vector import address

__all__ = ["FEW", "Express"]

FEW = 16
"""Tuples that are a few."""


class Express:
    """Joins a few tuples of one unit.

    Parameters
    ----------
    unit : int
        The unit.
    intake : Intake
        Says where its tuples keep what, all of it plain.
    kang : Kang
        Windows, and the search in them.
    materialiser : Materialiser
        Makes rows, of plain columns.
    """

    def __init__(self, unit: int, intake: Intake, kang: Kang, materialiser: Materialiser) -> None:
        self._kang, self._other = kang, 1 - unit
        self._window, self._prober = kang.windows[unit], kang.prober(unit)
        self._materialiser = materialiser
        stored = intake.plain_columns() or []
        self._names = tuple(dict.fromkeys([*(name for name, _ in stored), *intake.probe_names]))
        places = {name: k for k, name in enumerate(self._names)}
        self._widths = [intake.width(name) for name in self._names]
        self._stored = [(places[name], what) for name, what in stored]
        self._leaves = [places[name] for name in intake.probe_names]
        # The values of a row: of the new tuple, at a place of these; of the partner, in a column of its window.
        self._shown = [
            (True, TIMES if index == TIMES else self._stored[index][0]) if role == unit else (False, index)
            for role, index, _, _ in materialiser.plain_columns
        ]

        self._partners = [index for own, index in self._shown if not own and index != TIMES]

    @staticmethod
    def of(unit: int, intakes: list[Intake], strategy: object, materialiser: Materialiser) -> Express | None:
        """Return the express way of ``unit``, if the join is plain enough."""
        if not isinstance(strategy, Kang) or not materialiser.is_plain or not strategy.prober(unit).is_plain:
            return None
        if any(intake.plain_columns() is None for intake in intakes):
            return None
        return Express(unit, intakes[unit], strategy, materialiser)

    def push(
        self, arrays: Mapping[str, pa.Array], times: npt.NDArray[np.int64], ends: tuple[int, int]
    ) -> list[pa.Table] | None:
        """Join tuples and let them wait; return rows, or None if they have to take the general way."""
        from crosswind.kernel.arrange import put_columns

        count = len(times)
        basic, residents = self._window.open_for(count), self._kang.windows[self._other].residents()
        if basic is None:
            return None
        at = []
        for name, width in zip(self._names, self._widths, strict=True):
            array = arrays[name]
            if array.null_count:
                return None
            at.append(array.buffers()[1].address + array.offset * width)
        times = np.ascontiguousarray(times)
        begin = address(times)
        ins: list[int] = []
        for place in self._leaves:
            ins += (at[place], 0, 0)
        tables = []
        if any(residents.nulls[index] for index in self._partners):
            return None
        for found in self._prober.find_at(ins, count, begin, residents):
            probes, (which, rows) = address(found.probes), found.at
            sources = []
            for own, index in self._shown:
                if own:
                    sources.append((begin if index == TIMES else at[index], 0, 0, probes))
                else:
                    table = residents.times_at if index == TIMES else residents.column_at(index)
                    sources.append((0, table, which, rows))
            tables.append(self._materialiser.table_at(sources, len(found)))
        jobs = [begin, basic.targets[0], 8]
        for (place, what), target in zip(self._stored, basic.targets[1:], strict=True):
            jobs += (at[place], target, what)
        put_columns(jobs, basic.length, count)
        self._window.take_in(count, ends)
        return tables
