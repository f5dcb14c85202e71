"""Whose a candidate is: one search serves many terms, here each gets its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from crosswind.kernel.generated.emit import Facts
from crosswind.kernel.generated.mask import MaskSpec, Pattern, mask_kernel, patterns_of
from crosswind.plan.bounds import machine_literal
from crosswind.plan.logic import Formula
from crosswind.plan.physical import Storage, machine_dtype
from crosswind.plan.program import Slot
from crosswind.query.tree import Literal
from crosswind.window.vector import Layout, Vector, address

__all__ = ["TermMasks"]

_Ints = npt.NDArray[np.int64]


class TermMasks:
    """Finds out which of some terms a candidate satisfies.

    Parameters
    ----------
    checks : tuple of Formula
        What is left to be checked, by term.
    bits : dict of int to int
        The bit of each term, in the same order.
    window : tuple of Slot
        What tuples in the window carry, from column ``skip`` on.
    probe : tuple of Slot
        What the checks read of the combinations.
    skip : int
        Keys of the window.
    """

    def __init__(
        self,
        checks: tuple[Formula, ...],
        bits: dict[int, int],
        window: tuple[Slot, ...],
        probe: tuple[Slot, ...],
        skip: int,
    ) -> None:
        groups = patterns_of(checks)
        terms = list(bits)
        self.users = [[terms[number] for number, _ in users] for users in groups.values()]
        """The terms of each pattern."""
        self._spec = MaskSpec(window, probe, skip, tuple(groups))
        self.table, self._kept = _constants(groups, list(bits.values()))
        """Bits and constants, as the kernel reads them."""

    def kernel(self, facts: Facts) -> Callable[..., int]:
        """Return the kernel for data with these ``facts``."""
        return mask_kernel(self._spec, facts)


def _constants(
    groups: dict[Pattern, list[tuple[int, tuple[Literal, ...]]]], bits: list[int]
) -> tuple[_Ints, list[Vector | npt.NDArray[np.uint64]]]:
    """Return the table of bits and constants that a mask kernel reads, and what its addresses point to."""
    table: list[int] = []
    kept: list[Vector | npt.NDArray[np.uint64]] = []
    for pattern, users in groups.items():
        mine = np.array([bits[number] for number, _ in users], dtype=np.uint64)
        kept.append(mine)
        table += [address(mine), len(users)]
        for blank in pattern.blanks:
            dtype = machine_dtype(blank.type)
            values = np.array([machine_literal(literals[blank.index]) for _, literals in users], dtype=dtype)
            vector = Vector(Layout(Storage.FIXED, dtype), values)
            kept.append(vector)
            table += vector.pointers()
    return np.array(table, dtype=np.int64), kept
