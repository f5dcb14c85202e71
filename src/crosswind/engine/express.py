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
from crosswind.engine.result import Materialiser
from crosswind.engine.segments import SegmentedWindow
from crosswind.engine.strategy import Strategy, Window
from crosswind.window.basic import BasicWindow
from crosswind.window.join_window import JoinWindow
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
    strategy : Strategy
        Has windows, looks for few tuples alone, and says how few.
    materialiser : Materialiser
        Makes rows, of plain columns.
    """

    def __init__(self, unit: int, intake: Intake, strategy: Strategy, materialiser: Materialiser) -> None:
        self._strategy, self._unit = strategy, unit
        self._window, self._prober = strategy.windows[unit], strategy.prober(unit)
        self._searched = _segments(strategy.windows[1 - unit])
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
    def of(unit: int, intakes: list[Intake], strategy: Strategy, materialiser: Materialiser) -> Express | None:
        """Return the express way of ``unit``, if the join is plain enough."""
        prober = strategy.prober(unit)
        if prober is None or not prober.is_plain or not materialiser.is_plain:
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
        homes = self._homes(count)
        if homes is None or self._prober is None or not self._strategy.is_little(self._unit, count):
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
        views = [segment.residents() for segment in self._searched]
        if any(residents.nulls[index] for residents in views for index in self._partners):
            return None
        for residents in views:
            for found in self._prober.find_at(ins, count, begin, residents):
                probes, (which, rows) = address(found.probes), found.at
                sources: list[int] = []
                for own, index in self._shown:
                    if own:
                        sources += (begin if index == TIMES else at[index], 0, 0, probes)
                    else:
                        table = residents.times_at if index == TIMES else residents.column_at(index)
                        sources += (0, table, which, rows)
                tables.append(self._materialiser.table_at(sources, len(found)))
        for segment, basic, start, stop in homes:
            jobs = [begin + 8 * start, basic.targets[0], 8]
            for (place, what), target in zip(self._stored, basic.targets[1:], strict=True):
                jobs += (at[place] + start * self._widths[place], target, what)
            put_columns(jobs, basic.length, stop - start)
            segment.take_in(stop - start, ends)
        if isinstance(self._window, SegmentedWindow):
            self._window.dealt(count)
        return tables

    def _homes(self, count: int) -> list[tuple[JoinWindow, BasicWindow, int, int]] | None:
        """Return where new tuples will wait: a segment, its open basic window, which tuples. None: there is no room."""
        window = self._window
        if isinstance(window, JoinWindow):
            basic = window.open_for(count)
            return None if basic is None else [(window, basic, 0, count)]
        if not isinstance(window, SegmentedWindow):
            return None
        homes = []
        for part in window.parts(count):
            segment = window.segments[part.segment]
            basic = segment.open_for(part.stop - part.start)
            if basic is None:
                return None
            homes.append((segment, basic, part.start, part.stop))
        return homes


def _segments(window: Window) -> tuple[JoinWindow, ...]:
    if isinstance(window, SegmentedWindow):
        return window.segments
    return (window,) if isinstance(window, JoinWindow) else ()
