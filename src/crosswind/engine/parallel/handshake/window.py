"""The window of a stream that walks along a row of workers: tuples in numbered chunks."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from crosswind.kernel.records import BOARD, CHUNK
from crosswind.window.block import Block
from crosswind.window.join_window import JoinWindow
from crosswind.window.vector import address

__all__ = ["ChunkedWindow"]


class ChunkedWindow:
    """A window whose tuples have left it when they have left the row.

    Parameters
    ----------
    content : JoinWindow
        Where the tuples lie.
    """

    def __init__(self, content: JoinWindow) -> None:
        self.content = content
        self._number = 0
        self._chunks = np.zeros(64, dtype=CHUNK)
        self._latest = np.zeros(64, dtype=np.int64)
        self._base = self.next_chunk = self.met = 0
        self._oldest_time: int | None = None
        self._kept: list[npt.NDArray[Any]] = []

    def __len__(self) -> int:
        return len(self.content)

    def blocks(self) -> list[Block]:
        """Return the tuples, oldest first."""
        return self.content.blocks()

    def arrange(self) -> None:
        """Arrange at once what was left as it came."""
        self.content.arrange()

    def clear(self) -> None:
        """Release everything."""
        self.content.clear()

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.content.nbytes + self._chunks.nbytes

    def expire(self, oldest_time: int | None, oldest_number: int | None) -> int:  # noqa: ARG002 - windows of time only
        """Note what may go; it goes when it has left the row. Returns 0: nothing yet."""
        self._oldest_time = oldest_time
        return 0

    def mark(self) -> int | None:
        """Return what may go, for :meth:`cut`."""
        return self._oldest_time

    def cut(self, mark: int | None) -> None:
        """Put back what may go; no tuple may have entered the row since ``mark``."""
        self._oldest_time = mark

    # -- chunks --------------------------------------------------------------

    def number(self, block: Block) -> Block:
        """Return ``block`` with sequence numbers, in the order of arrival."""
        numbers = self._number + np.arange(len(block), dtype=np.int64)
        self._number += len(block)
        return Block(block.times, block.columns, numbers)

    def add_chunk(self, block: Block, start: int, stop: int, probes: tuple[int, int, int], about: int) -> None:
        """Take in tuples ``start`` to ``stop`` of a numbered block; ``probes`` is how to look for them."""
        at = self.next_chunk - self._base
        if at == len(self._chunks):
            self._chunks = np.concatenate([self._chunks, np.zeros_like(self._chunks)])
            self._latest = np.concatenate([self._latest, np.zeros_like(self._latest)])
        first = self._number - len(block)
        row = self._chunks[at]
        row["first"], row["end"] = first + start, first + stop
        row["template"], row["order"], row["count"] = probes
        row["tuple"], row["about"] = start, about
        self._latest[at] = block.times[start:stop].max()
        self.next_chunk += 1

    def held(self, chunk: int) -> int:
        """Return the number of tuples from a chunk on."""
        return self._number - int(self._chunks["first"][chunk - self._base]) if chunk < self.next_chunk else 0

    def due(self) -> int:
        """Return the chunk before which all have expired and not yet been let go (0: none)."""
        if self._oldest_time is None:
            return 0
        count = self.next_chunk - self._base
        young = np.flatnonzero(self._latest[:count] >= self._oldest_time)
        end = int(young[0]) if len(young) else count
        return self._base + end if end else 0

    def due_tuples(self) -> int:
        """Return how many tuples have expired and not yet been let go."""
        end = self.due()
        return self.held(self._base) - self.held(end) if end else 0

    def is_over(self, block: Block) -> bool:
        """Whether all tuples of ``block`` have expired."""
        return self._oldest_time is not None and int(block.times.max()) < self._oldest_time

    def release(self, oldest: int) -> None:
        """Let go of basic windows whose chunks all lie before ``oldest``."""
        gone = oldest - self._base
        if gone <= 0:
            return
        count = self.next_chunk - self._base
        limit = int(self._chunks["first"][gone]) if gone < count else self._number
        self.content.expire(self._oldest_time, limit)
        self._chunks[: count - gone] = self._chunks[gone:count].copy()
        self._latest[: count - gone] = self._latest[gone:count].copy()
        self._base = oldest

    def describe(self) -> npt.NDArray[np.void]:
        """Return what the board says of this window."""
        residents = self.content.residents()
        table, lengths = residents.positions, np.ascontiguousarray(residents.runs[:, 0])
        first = int(residents.items[0].numbers[: residents.items[0].length].min()) if residents.items else 0
        starts = first + np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        board = np.zeros((), dtype=BOARD)
        board["chunks"], board["base"], board["met"] = address(self._chunks), self._base, self.met
        board["runs"], board["items"] = address(residents.runs), len(residents.items)
        board["run_columns"], board["params"] = residents.runs.shape[1], address(residents.params)
        board["table"], board["table_columns"] = address(table), table.shape[1]
        board["lengths"], board["starts"] = address(lengths), address(starts)
        self._kept = [table, lengths, starts, residents.runs, residents.params]
        return board
