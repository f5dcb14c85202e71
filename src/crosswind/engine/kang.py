"""One worker, three steps: scan, insert, invalidate.

The procedure of Kang, Naughton and Viglas (as Handshake Join §2.2 tells it): a new
tuple scans the other window, is inserted into its own, and what has expired is
released. Here new tuples come in batches, expiry goes by whole basic windows (CellJoin
§4.1) with every pair checked against the window bounds of its probe, and the scan may
be a search in an index.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from crosswind.engine.index import Index
from crosswind.engine.intake import Intake
from crosswind.engine.probe import Prober
from crosswind.engine.strategy import AtOnce, Matches, Numbers
from crosswind.plan.compile import Plan
from crosswind.window.block import Block
from crosswind.window.join_window import JoinWindow

__all__ = ["Kang"]


class Kang(AtOnce):
    """The three-step procedure on one worker.

    Parameters
    ----------
    plan : Plan
        Two units, one query.
    intakes : list of Intake
        One a unit.
    index : str
        ``auto``, ``scan``, ``band`` or ``hash``.
    basic_window : int
        Tuples in a basic window when it is sealed.
    numbered : bool
        Whether tuples carry sequence numbers.
    uniform : bool
        Whether all basic windows have one size, as those want it who share them out.
    """

    name = "kang"

    def __init__(
        self,
        plan: Plan,
        intakes: list[Intake],
        index: str,
        basic_window: int,
        numbered: bool,
        uniform: bool = False,
    ) -> None:
        self.indexes = [Index(access.dimensions, index) for access in plan.accesses]
        self.windows = tuple(
            JoinWindow(
                tuple(intake.layouts[: intake.stored]),
                basic_window,
                tuple(range(intake.keys)),
                numbered,
                own if access.dimensions else None,
                uniform,
            )
            for intake, own, access in zip(intakes, self.indexes, plan.accesses, strict=True)
        )
        self._plan, self._intakes = plan, intakes
        self._probers = self._make_probers()

    def _make_probers(self) -> list[Prober]:
        plan, intakes = self._plan, self._intakes
        return [Prober(plan, unit, intakes[unit], self.indexes[1 - unit]) for unit in range(2)]

    def undo(self, saved: Any) -> None:
        """Be again what this was at :meth:`save`."""
        super().undo(saved)
        self._probers = self._make_probers()

    def prober(self, unit: int) -> Prober:
        """Return what finds the partners of tuples of ``unit``."""
        return self._probers[unit]

    def is_little(self, unit: int, count: int) -> bool:  # noqa: ARG002 - there is nobody else
        """Return True."""
        return True

    def probe(self, unit: int, block: Block, numbers: Numbers | None) -> Iterator[Matches]:
        """Find the partners of new tuples of ``unit`` in the window of the other unit."""
        if len(block):
            yield from self._probers[unit].find(block, numbers, self.windows[1 - unit].residents())
