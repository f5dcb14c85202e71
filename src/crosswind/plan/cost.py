"""How many tuples a basic window should hold: the cost model (CellJoin §6).

CellJoin (equation 3) weighs what every basic window costs, whatever its size, against what the one
costs that has to be waited for. The same trade is made here with other parts:

- *fixed*: a basic window is opened, sealed, arranged and merged with others; each of these steps has a
  cost that does not depend on its size. In a window that is not arranged, each probe also has to
  turn to each basic window. Small basic windows pay these costs more often.
- *slope*: the open basic window is not arranged, so that a probe is compared with every tuple in it:
  with half a basic window, on average. Where nothing is arranged, that is what tuples cost that have
  expired but not been released. Large basic windows pay more here.
- *level*: runs are merged in pairs, so each tuple is moved once a level, and a probe looks into about
  one run in every other level. There are fewer levels the larger they begin.

So a tuple costs ``fixed / B + slope * B / 2 + level * log2(run / B)``. Setting the derivative to zero
gives a quadratic equation, whose solution stands for CellJoin's equation 4; without levels it has the
same form, the square root of a ratio. As there, powers of two are tried.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

from crosswind.plan.compile import Plan
from crosswind.plan.lanes import is_vectorised
from crosswind.plan.physical import RUN_MAX
from crosswind.query.tree import Rows

__all__ = ["SIZES", "Constants", "Curve", "Workload", "curve_of", "predict", "waiting_tuples"]

SIZES = tuple(2**power for power in range(8, 15))
"""Tuples in a basic window that can be chosen: sealing the largest is not felt, and the least can be sealed
as often as tuples come."""

_RATE = 1_000.0
"""Tuples/s that are assumed where only a time is known: the rate of the papers' workload."""
_SLOW_PAIR_NS = 3.0
"""A pair under a condition of which no vector code is made, such as one with a remainder or a text, or about."""
_UNKNOWN_TUPLES = 60_000.0
"""Tuples in a window of which not even that is known (time columns that are plain integers)."""


@dataclass(frozen=True)
class Constants:
    """What steps cost on a machine, in nanoseconds; measured by ``crosswind bench calibrate``.

    Parameters
    ----------
    seal_ns : float
        The life of a basic window: opened, sealed, arranged, merged, released, without what goes by its tuples.
    arrange_ns : float
        To arrange one tuple in a run.
    run_ns : float
        To look a probe up in one arranged run more.
    visit_ns : float
        To turn to one basic window more that is not arranged, for a probe.
    compare_ns : float
        To compare a probe with a byte of the keys of a tuple, many at a time.
    pair_ns : float
        To evaluate a condition that has no box, for a pair.
    """

    seal_ns: float = 900_000.0
    arrange_ns: float = 15.0
    run_ns: float = 60.0
    visit_ns: float = 20.0
    compare_ns: float = 0.018
    pair_ns: float = 0.25

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < math.inf:
                raise ValueError(f"{field.name} = {value!r} is not a positive number of nanoseconds")


@dataclass(frozen=True)
class Curve:
    """What a tuple of each stream costs by the size of basic windows, in nanoseconds, as far as it depends on it."""

    fixed: float
    level: float
    slope: float

    def __add__(self, other: Curve) -> Curve:
        return Curve(self.fixed + other.fixed, self.level + other.level, self.slope + other.slope)

    def cost_ns(self, size: float) -> float:
        """Return the cost of a tuple with basic windows of ``size`` (CellJoin's equation 3)."""
        return self.fixed / size + self.slope * size / 2 + self.level * math.log2(RUN_MAX / size)

    @property
    def optimum(self) -> float:
        """The size at which the cost is least (CellJoin's equation 4)."""
        bend = self.level / math.log(2)
        return (bend + math.sqrt(bend**2 + 2 * self.fixed * self.slope)) / self.slope

    @property
    def size(self) -> int:
        """The best of :data:`SIZES`."""
        best: int = min(SIZES, key=self.cost_ns)
        return best


def curve_of(plan: Plan, index: str, constants: Constants) -> Curve:
    """Return the cost of one tuple of each stream, over both windows."""
    total = Curve(0.0, 0.0, 0.0)
    for unit, access in enumerate(plan.accesses):
        waiting = waiting_tuples(plan, unit, _RATE)
        key_bytes = sum(dimension.bits for dimension in access.dimensions) / 8
        compare = constants.compare_ns * key_bytes if key_bytes else constants.pair_ns
        if key_bytes and index != "scan":
            total += Curve(constants.seal_ns, constants.arrange_ns + constants.run_ns / 2, compare)
        else:
            visits = constants.visit_ns * (_UNKNOWN_TUPLES if waiting is None else waiting)
            total += Curve((constants.seal_ns if key_bytes else 0.0) + visits, 0.0, compare)
    return total


@dataclass(frozen=True)
class Workload:
    """What a join has to do at given rates, as the model predicts it.

    Parameters
    ----------
    waiting, waiting_bytes : float
        Tuples in all windows, and the bytes of the columns that are looked at.
    compared_per_s : float
        Pairs that are compared one by one, in a second; 0 where all windows are searched by an index.
    tuple_ns : float
        Time that a tuple takes, results not counted.
    cores : float
        Cores that are kept busy.
    """

    waiting: float
    waiting_bytes: float
    compared_per_s: float
    tuple_ns: float
    cores: float


def predict(plan: Plan, index: str, rates: Sequence[float], constants: Constants) -> Workload:
    """Return the work of ``plan`` at ``rates`` tuples/s, one a window.

    Where a window has no index, each tuple of the others is compared with all that wait in it, and the
    parts of :class:`Curve` are dwarfed by that. Elsewhere they are what a tuple costs, beside its candidates,
    which depend on the data.
    """
    size = curve_of(plan, index, constants).size
    waiting = waiting_bytes = compared = busy_ns = 0.0
    for unit, (rate, access) in enumerate(zip(rates, plan.accesses, strict=True)):
        count = waiting_tuples(plan, unit, rate)
        count = _UNKNOWN_TUPLES if count is None else count
        key_bytes = sum(dimension.bits for dimension in access.dimensions) / 8
        probes = sum(rates) - rate
        waiting += count
        waiting_bytes += count * (key_bytes or 8)
        if key_bytes and index != "scan":
            own = Curve(constants.seal_ns, constants.arrange_ns, 0.0).cost_ns(size)
            runs = constants.run_ns * math.log2(max(2.0, count / size)) / 2
            busy_ns += rate * own + probes * (runs + constants.compare_ns * key_bytes * size / 2)
        else:
            pair_ns = constants.pair_ns if is_vectorised(access.residual) else _SLOW_PAIR_NS
            compared += probes * count
            busy_ns += probes * count * (constants.compare_ns * key_bytes if key_bytes else pair_ns)
    total = sum(rates)
    return Workload(waiting, waiting_bytes, compared, busy_ns / total if total else 0.0, busy_ns / 1e9)


def waiting_tuples(plan: Plan, unit: int, rate: float) -> float | None:
    """Return the tuples in the window of ``unit`` at ``rate`` tuples/s.

    None where the time columns are integers of unknown unit.
    """
    window = plan.units[unit].stream.window
    if isinstance(window, Rows):
        return float(window.count)
    if plan.axis.ticks_per_second is None:
        return None
    return rate * float((plan.axis.age_limit(window) or 0) / plan.axis.ticks_per_second)
