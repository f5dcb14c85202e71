"""What the steps of a join cost on this machine, each measured by itself, through the code that takes it.

A step is measured at two sizes: their difference says what a tuple, a pair or a run more costs, and what is
left is the cost that does not depend on the size. Sizes of basic windows are not tried out here: it is
for the cost model (:mod:`crosswind.plan.cost`) to say from these constants which is best.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial

from crosswind.bench.record import Tell, interleave, median
from crosswind.bench.workload import BandWorkload, band_sql
from crosswind.engine.ingest.intake import Intake
from crosswind.engine.probe.bounds import ReleaseBounds, WindowBounds, spans_of
from crosswind.engine.probe.index import Index
from crosswind.engine.probe.step import ProbeStep
from crosswind.engine.probe.tree import Findings, ProbeTree
from crosswind.engine.session import plan_for
from crosswind.io.arrow import read_columns, ticks_of
from crosswind.plan.cost import Constants
from crosswind.plan.probe_steps import plain_order, planned_steps
from crosswind.window.block import Block
from crosswind.window.join_window import JoinWindow, Residents

__all__ = ["measure_constants"]

_WINDOW = "[RANGE 1 HOUR]"
_PAIRS_SQL = f"SELECT R.x FROM R {_WINDOW}, S {_WINDOW} WHERE R.x * S.a = 1000003"
"""A condition without a box, which hardly a pair satisfies."""

_PROBES = 256
_KEPT, _SEALED = 48, 32
"""Basic windows that the window holds while their life is measured, and how many come meanwhile."""
_LEVELS = math.log2(_KEPT // 3)
"""How often a tuple is moved then: runs are merged up to a third of the window."""
_SMALL, _LARGE = 256, 2_048
_OPEN_SMALL, _OPEN_LARGE = 2_048, 16_384
_FEW, _MANY, _RUN = 4, 20, 4_096

_LEAST = Constants(seal_ns=1e3, arrange_ns=1.0, run_ns=1.0, visit_ns=0.5, compare_ns=1e-3, pair_ns=1e-2)
"""The least that is believed: on a busy machine the difference of two times may come out as nothing."""


class _Searched:
    """A window that has what it is told to have.

    Parameters
    ----------
    width : int
        How many columns there are.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.content: Residents | None = None

    def residents(self, _copy: int) -> Residents:
        """Return the basic windows."""
        if self.content is None:
            raise LookupError("nothing has been put into the window")
        return self.content


class _Parts:
    """The parts of a join of the papers' workload, to be put together at will: tuples of R probe a window of S.

    Parameters
    ----------
    sql : str
        The query.
    index : str
        As for ``crosswind.open``.
    """

    def __init__(self, sql: str, index: str) -> None:
        self._workload = BandWorkload(1_000, 3_600_000_000)
        self._plan = plan_for(sql, self._workload.schemas)
        self._intakes = [Intake(self._plan, unit) for unit in range(2)]
        dimensions = self._plan.accesses[1].dimensions
        self.key_bytes = sum(dimension.bits for dimension in dimensions) // 8
        self._index = Index(dimensions, index)
        spans = tuple(spans_of(entry, self._plan.axis) for entry in self._plan.queries)
        self._searched = _Searched(self._intakes[1].stored)
        self._probe_tree = self._search(spans)
        self._probes = self._block(0, 0, _PROBES)
        self.probe_s(self.window(_OPEN_SMALL, 1, 1).residents())  # the index learns what is looked for

    def _block(self, unit: int, first: int, count: int) -> Block:
        stream = "RS"[unit]
        batch = self._workload.batch(stream, first, count)
        arrays = read_columns(batch, batch.schema, batch.schema.names, stream)
        ticks, _ = ticks_of(arrays["ts"], self._plan.axis.factors[unit], stream)
        return self._intakes[unit].prepare(arrays, ticks, False)

    def window(self, size: int, count: int, tuples: int) -> JoinWindow:
        """Return a window of ``count`` blocks of ``tuples`` in basic windows of ``size``; nothing is arranged."""
        intake = self._intakes[1]
        arranger = self._index if self.key_bytes else None
        window = JoinWindow(tuple(intake.layouts[: intake.stored]), size, tuple(range(intake.keys)), False, arranger)
        for number in range(count):
            window.append(self._block(1, number * tuples, tuples))
        return window

    def probe_s(self, residents: Residents) -> float:
        """Return the seconds that the probes need to find their partners."""
        self._searched.content = residents
        turn = ReleaseBounds(len(self._intakes), None)
        began = time.perf_counter()
        for query in self._probe_tree.follow(self._probes, [None], turn):
            self._findings[query].take()
        taken = time.perf_counter() - began
        self._findings[0].take()
        return taken

    def _search(self, spans: tuple[WindowBounds, ...]) -> ProbeTree:
        """Return what looks for partners of R in whatever is put into the window of S."""
        plan, own = self._plan, tuple(range(self._intakes[1].keys))
        (hop,) = planned_steps(plan.terms, (0,), 0, plain_order, plan.accesses)
        step = ProbeStep(hop, plan, self._intakes, spans, (0,), 0, own, self._index, [])
        self._findings = [Findings(plan.queries[0].units)]
        return ProbeTree(0, [([step], 1)], (self._searched, self._searched), self._findings)

    def runs(self, count: int, tuples: int) -> Residents:
        """Return ``count`` sealed runs of ``tuples`` each, arranged as the index will have it."""
        intake = self._intakes[1]
        basic_windows = [next(iter(self.window(tuples, 1, tuples))) for _ in range(count)]
        made = [self._index.arrange([basic.block()]) for basic in basic_windows]
        return Residents(list(made), tuple(range(intake.keys)), intake.stored)

    def life_s(self, size: int) -> float:
        """Return the seconds that a basic window of ``size`` takes from its opening to its release."""
        window = self.window(size, 0, 0)
        blocks = [self._block(1, number * size, size) for number in range(_KEPT + _SEALED)]
        began = 0.0
        for number, block in enumerate(blocks):
            if number == _KEPT:
                began = time.perf_counter()
            window.append(block)
            window.residents()
            window.expire(int(blocks[max(0, number - _KEPT)].times[0]), None)
            window.settle()
        return (time.perf_counter() - began) / _SEALED


def measure_constants(rounds: int, tell: Tell) -> Constants:
    """Return what the steps cost; each is timed ``rounds`` times, in turns, and medians are taken."""
    band, scan, pair = _Parts(band_sql(_WINDOW), "band"), _Parts(band_sql(_WINDOW), "scan"), _Parts(_PAIRS_SQL, "auto")
    probed: dict[str, tuple[_Parts, Residents]] = {
        "runs, few": (band, band.runs(_FEW, _RUN)),
        "runs, many": (band, band.runs(_MANY, _RUN)),
        "open, small": (band, band.window(_OPEN_LARGE + 1, 1, _OPEN_SMALL).residents()),
        "open, large": (band, band.window(_OPEN_LARGE + 1, 1, _OPEN_LARGE).residents()),
        "in one": (scan, scan.runs(1, _OPEN_LARGE)),
        "in many": (scan, scan.runs(_OPEN_LARGE // _SMALL, _SMALL)),
        "pairs, small": (pair, pair.window(_OPEN_LARGE + 1, 1, _OPEN_SMALL).residents()),
        "pairs, large": (pair, pair.window(_OPEN_LARGE + 1, 1, _OPEN_LARGE).residents()),
    }
    tasks: dict[str, Callable[[], float]] = {
        name: partial(parts.probe_s, residents) for name, (parts, residents) in probed.items()
    }
    tasks |= {f"life, {size}": partial(band.life_s, size) for size in (_SMALL, _LARGE)}
    for task in tasks.values():
        task()  # compiles
    runs = interleave(tasks, rounds, tell)
    took_ns = {name: (median(values) or 0.0) * 1e9 for name, values in runs.items()}

    def more(large: str, small: str, steps: float) -> float:
        """Return what one step more costs."""
        return (took_ns[large] - took_ns[small]) / steps

    tuple_ns = max(0.0, more(f"life, {_LARGE}", f"life, {_SMALL}", _LARGE - _SMALL))
    pairs = _PROBES * (_OPEN_LARGE - _OPEN_SMALL)
    return Constants(
        seal_ns=max(_LEAST.seal_ns, took_ns[f"life, {_SMALL}"] - _SMALL * tuple_ns),
        arrange_ns=max(_LEAST.arrange_ns, tuple_ns / (_LEVELS + 1)),
        run_ns=max(_LEAST.run_ns, more("runs, many", "runs, few", _PROBES * (_MANY - _FEW))),
        visit_ns=max(_LEAST.visit_ns, more("in many", "in one", _PROBES * (_OPEN_LARGE // _SMALL - 1))),
        compare_ns=max(_LEAST.compare_ns, more("open, large", "open, small", pairs * band.key_bytes)),
        pair_ns=max(_LEAST.pair_ns, more("pairs, large", "pairs, small", pairs)),
    )
