"""Which engine runs a join, with how many workers, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from crosswind.engine.ingest.intake import Intake
from crosswind.engine.layout import check_layout, expected_load
from crosswind.engine.output.rows import Materialiser
from crosswind.engine.parallel.cell import CellPolicy
from crosswind.engine.parallel.grid import GridPolicy
from crosswind.engine.parallel.handshake.crew import cores
from crosswind.engine.parallel.handshake.engine import Handshake
from crosswind.engine.parallel.policy import Policy
from crosswind.engine.parallel.split import SplitPolicy
from crosswind.engine.probe.bounds import WindowBounds
from crosswind.engine.probe.boxes import pair_spec
from crosswind.engine.probe.engine import ProbeEngine
from crosswind.engine.strategy import Strategy
from crosswind.errors import InputError, UnsupportedError
from crosswind.kernel.generated.scan import can_overflow
from crosswind.plan.compile import Plan
from crosswind.plan.grid import Load, choose_sides
from crosswind.query.tree import Rows

__all__ = ["ENGINES", "Choice", "choose_engine"]

ENGINES = ("auto", "kang", "cell", "handshake", "grid", "split")
_WORKERS_MAX = 256
_GRID_FROM = 4
"""Workers from which on rows and columns differ from shares of one window."""

PAIRS_BY_KEY, PAIRS_ONE_BY_ONE = 3e9, 3e8
"""Pairs a second that a worker compares, or about: ``crosswind bench kernel`` measures it."""


@dataclass(frozen=True)
class Choice:
    """An engine, its workers, and why.

    Parameters
    ----------
    engine : str
        Its name.
    workers : int
        How many there are, or with ``adaptive`` at most.
    adaptive : bool
        Whether the load decides how many of them are at work.
    reason : str
        Why, for ``explain``.
    layout : tuple of int
        Rows and columns of a grid.
    hurried : bool
        Whether tuples run ahead through the row of a handshake, so that results come at once.
    """

    engine: str
    workers: int
    adaptive: bool
    reason: str
    layout: tuple[int, int] = (1, 1)
    hurried: bool = False

    @property
    def staff(self) -> str:
        """How many are at work, in words."""
        if self.engine == "grid":
            return f"{self.layout[0]} x {self.layout[1]} workers"
        most = "up to " if self.adaptive else ""
        return f"{most}{self.workers} worker{'s' if self.workers > 1 else ''}"

    def build(
        self,
        plan: Plan,
        intakes: list[Intake],
        spans: tuple[WindowBounds, ...],
        index: str,
        basic_window: int,
        numbered: bool,
    ) -> Strategy:
        """Return the strategy, ready to take tuples."""
        if self.engine == "handshake" and not self.hurried:
            return Handshake(plan, intakes, index, basic_window, self.workers)
        return ProbeEngine(
            plan,
            intakes,
            spans,
            index,
            basic_window,
            numbered,
            name=self.engine,
            policy=self._policy(plan),
        )

    def _policy(self, plan: Plan) -> Policy | None:
        """Return who does which part; None: one worker does everything."""
        if self.workers == 1:
            return None
        if self.engine == "cell":
            return CellPolicy(self.workers, adaptive=self.adaptive)
        return GridPolicy(*self.layout, pair=plan.is_pair) if self.engine == "grid" else SplitPolicy(self.workers)


def choose_engine(
    plan: Plan,
    engine: str,
    index: str,
    workers: Any,
    *,
    layout: Any = None,
    hurry: bool = False,
    ordered: bool = False,
    sheds: bool = False,
    rate: Any = None,
) -> Choice:
    """Return the engine for ``plan``, as asked for or as it seems best."""
    if sheds and any(isinstance(unit.stream.window, Rows) for unit in plan.units):
        raise UnsupportedError(
            "admission='shed' needs windows of time: with ROWS windows tuples are joined when the watermarks have "
            "passed them, and then it is too late to drop them. Use RANGE windows, or admission='block'."
        )
    if layout is not None and engine != "grid":
        raise InputError(f"layout={layout!r} is for engine='grid', not for engine='{engine}'; leave it out.")
    count = _count(workers, engine)
    if not plan.is_pair:
        return _for_routes(engine, workers, count, layout)
    load = expected_load(plan, rate)
    if engine == "grid":
        return _grid(check_layout(layout, workers, _WORKERS_MAX) if layout else choose_sides(count, load), layout, load)
    if engine == "handshake":
        why = "asked for" if hurry else _why_at_once(plan, ordered, sheds)
        told = f"asked for; tuples are hurried ahead: {why}" if why else "asked for; tuples meet when they pass"
        return Choice(engine, count, False, told, hurried=bool(why))
    if engine != "auto":
        return Choice(engine, count, workers == "auto", "asked for")
    return _best(plan, index, workers, count, load if rate else None, hurry)


def _for_routes(engine: str, workers: Any, count: int, layout: Any) -> Choice:
    """Return the engine of a plan with more than two streams, or many queries."""
    what = "more than two streams, or many queries"
    if engine == "kang" or (engine == "auto" and count == 1):
        return Choice("kang", 1, False, what)
    if engine == "auto" and workers is None:
        return Choice("kang", 1, False, f"{what}; one worker answers soonest")
    if engine == "split":
        return Choice("split", count, False, f"{what}: workers share the first window on the way")
    if engine != "grid":
        what += "; a handshake is between two" if engine == "handshake" else ""
        return Choice("cell", count, False, f"{what}: workers share new tuples, or the first window on their way")
    sides = check_layout(layout, workers, _WORKERS_MAX) if layout else _squarest(count)
    return Choice("grid", sides[0] * sides[1], False, f"{what}: rows share new tuples, columns the first window", sides)


def _squarest(count: int) -> tuple[int, int]:
    """Return two factors that are as near as can be, the larger one first."""
    columns = max(n for n in range(1, count + 1) if count % n == 0 and n * n <= count)
    return count // columns, columns


def _best(plan: Plan, index: str, workers: Any, count: int, load: Load | None, hurry: bool) -> Choice:
    """Return what seems best: from the condition, the cores, and if they are known the rates."""
    if count == 1:
        return Choice("kang", 1, False, "one worker" if workers == 1 else "one core")
    boxes = all(access.dimensions for access in plan.accesses)
    if boxes and index != "scan":
        if workers is None:
            return Choice("kang", 1, False, "an index leaves little to share out, and one worker answers soonest")
        return Choice("cell", count, workers == "auto", "workers were asked for, and an index wants whole windows")
    what = "every key is compared" if boxes else "every pair is compared"
    if load is not None:
        pairs = load.rates[0] * load.windows[1] + load.rates[1] * load.windows[0]
        able = PAIRS_BY_KEY if boxes else PAIRS_ONE_BY_ONE
        what += f", {pairs:.2g} pairs/s where a worker manages about {able:.0e}"
        if pairs < able / 2 and workers is None:
            return Choice("kang", 1, False, f"{what}: one is enough")
    if hurry and count >= _GRID_FROM:
        sides = choose_sides(count, load or expected_load(plan, None))
        return Choice(
            "grid", sides[0] * sides[1], False, f"{what}, and results are wanted soon: smallest shares for all", sides
        )
    return Choice("cell", count, True, f"{what}: as many workers as the load needs")


def _grid(sides: tuple[int, int], layout: Any, load: Load) -> Choice:
    windows = " and ".join(f"{size:,.0f}" for size in load.windows)
    why = "asked for" if layout else f"least mean latency for windows of {windows} tuples (DP-Join, equations 5 to 7)"
    return Choice("grid", sides[0] * sides[1], False, f"asked for; layout: {why}", sides)


def _why_at_once(plan: Plan, ordered: bool, sheds: bool) -> str:
    """Return why results must not come late ("": they may)."""
    if plan.queries[0].query.kind != "inner":
        return "an outer join must know in time who has met"
    if ordered:
        return "output in time order cannot wait for late results"
    if sheds:
        return "what is shed depends on how many results there are"
    if any(isinstance(unit.stream.window, Rows) for unit in plan.units):
        return "ROWS windows are joined in the order"
    if any(can_overflow(pair_spec(plan, unit)) for unit in range(2)):
        return "arithmetic of the condition may overflow, and then the batch is to be refused"
    if Materialiser(plan, [Intake(plan, unit) for unit in range(2)]).can_fail:
        return "arithmetic of the SELECT list may overflow, and then the batch is to be refused"
    return ""


def _count(workers: Any, engine: str) -> int:
    if workers is None or workers == "auto":
        return 1 if engine == "kang" else cores()
    if type(workers) is not int or not 1 <= workers <= _WORKERS_MAX:
        raise InputError(
            f"workers={workers!r} is not possible; give a number from 1 to {_WORKERS_MAX}, or 'auto' to let the load "
            f"decide."
        )
    if engine == "kang" and workers != 1:
        raise InputError(
            f"workers={workers!r} is not possible: the engine 'kang' has one worker; leave workers out, "
            f"or choose engine='cell'."
        )
    return workers
