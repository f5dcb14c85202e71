"""What every engine offers: windows, and a way to join a block of new tuples with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from crosswind.engine.index import Index
from crosswind.window.block import Block
from crosswind.window.join_window import JoinWindow, Resident, Residents

__all__ = ["Matches", "Numbers", "PairFaultError", "Strategy"]


@dataclass(frozen=True)
class Numbers:
    """Which sequence numbers of the other window each probe may meet (ROWS windows)."""

    low: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]


@dataclass(slots=True, eq=False)
class Matches:
    """Pairs found: tuple ``rows[k]`` of resident ``which[k]`` with tuple ``probes[k]`` of the block."""

    residents: Residents
    which: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    probes: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)


class PairFaultError(Exception):
    """A kernel met an overflow at this pair; the session turns it into the user's error."""

    def __init__(self, window: Resident, row: int, probe: int) -> None:
        super().__init__()
        self.window = window
        self.row = row
        self.probe = probe


class Strategy(Protocol):
    """One way to spread the work of a join over workers."""

    name: str
    windows: tuple[JoinWindow, ...]
    indexes: list[Index]

    def probe(self, unit: int, block: Block, numbers: Numbers | None) -> Iterator[Matches]:
        """Find the partners of new tuples of ``unit`` in the window of the other unit."""

    def insert(self, unit: int, block: Block) -> None:
        """Let new tuples of ``unit`` wait in its window."""

    def settle(self) -> None:
        """Arrange and merge what has been sealed; called when a push is past all errors."""
