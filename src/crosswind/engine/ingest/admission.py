"""Admission control: what is taken in when results are more than can be held (FPGA paper, section IV-D).

Between workers and the caller all buffers are bounded: who finds one full waits, back to
the caller of ``push``, who is blocked. That is ``block``. With ``shed``, when the results of
a call have nearly filled what the caller will hold, the rest of the *input* of that call is
dropped and counted. Nothing that was admitted loses a result.

The paper drops what arrives while a buffer is nearly full. Here arrivals come in batches,
so a batch is taken in random order, in portions as large as what is left should allow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from crosswind.errors import InputError, did_you_mean

__all__ = ["ADMISSIONS", "Admission"]

ADMISSIONS = ("block", "shed")
_NEARLY = 0.9
"""What is called nearly full."""

_FIRST = 256
"""Tuples in the first portion at most, before it is known how many results they have."""


class Admission:
    """Decides how much of a batch is taken.

    Parameters
    ----------
    mode : str
        ``block`` or ``shed``.
    output_rows : int
        Results of one call that the caller will hold; what is admitted may exceed it by the
        results of a portion.
    """

    def __init__(self, mode: Any, output_rows: Any) -> None:
        if mode not in ADMISSIONS:
            raise InputError(
                f"admission={mode!r} is not known; allowed: {', '.join(ADMISSIONS)}."
                f"{did_you_mean(str(mode), ADMISSIONS)}"
            )
        if type(output_rows) is not int or output_rows < 1:
            raise InputError(f"output_rows={output_rows!r} is not possible; give a whole number of rows, at least 1.")
        self.sheds = mode == "shed"
        self._limit = max(1, int(_NEARLY * output_rows))
        self._random = np.random.default_rng(0)
        self._found = self._admitted = 0
        self._per_tuple = 0.0

    def portions(self, count: int, waiting: int) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the rows of a batch of ``count`` tuples in random order, until results have filled the output.

        ``waiting`` is how many tuples they can meet at most.
        """
        order = self._random.permutation(count)
        self._found = self._admitted = 0
        expected = self._per_tuple or float(waiting)
        while self._admitted < count and self._found < self._limit:
            room = (self._limit - self._found) / max(expected, 1e-9)
            most = count if self._admitted or self._per_tuple else _FIRST
            size = int(max(1, min(room, most, count - self._admitted)))
            rows = order[self._admitted : self._admitted + size]
            self._admitted += size
            yield np.sort(rows)
            expected = max(self._found / self._admitted, 1e-3)

    def note(self, rows: int) -> None:
        """Note that results were found."""
        self._found += rows

    def close(self) -> int:
        """Return how many tuples of the batch were admitted, and remember how many results they had."""
        if self._admitted:
            self._per_tuple = self._found / self._admitted
        return self._admitted
