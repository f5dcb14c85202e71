"""DP-Join: an m x n grid of workers (§III-C).

Rows divide the tuples of the first stream, columns those of the second. A new tuple of R belongs to one row, and meets
the window of S column by column; a new tuple of S belongs to one column, and meets the window of R row by row. So each
pair is looked at by the one worker where its row and its column cross.

Segments of a window are not copied: all workers of a column read the same one, in memory that they share (§III-D2), and
the caller alone appends to it. Tuples that have expired are passed over and leave with their basic window, when the
last tuple in it has expired: lazily, as there.
"""

from __future__ import annotations

from crosswind.engine.parallel.policy import FirstWindow, Policy

__all__ = ["GridPolicy"]


class GridPolicy(Policy):
    """Rows and columns of workers.

    Parameters
    ----------
    rows, columns : int
        The layout. With more than two streams, rows divide the new tuples and columns the first window of any of them.
    pair : bool
        Whether there are two streams.
    """

    def __init__(self, rows: int, columns: int, *, pair: bool = True) -> None:
        super().__init__(rows * columns)
        self._rows, self._columns, self._pair = rows, columns, pair

    def divide(self, unit: int, tuples: int, window: FirstWindow) -> tuple[int, int]:  # noqa: ARG002
        """Divide tuples of the first stream by rows and those of the second by columns."""
        if self._pair and unit == 1:
            return self._columns, self._rows
        return self._rows, self._columns
