"""Whose a candidate is: one search serves many terms, here each gets its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from crosswind.engine.strategy import Matches, PairFaultError
from crosswind.plan.bounds import machine_literal
from crosswind.plan.logic import Formula
from crosswind.plan.physical import Storage, machine_dtype
from crosswind.plan.program import Slot
from crosswind.query.tree import Literal
from crosswind.window.vector import Layout, Vector, address

if TYPE_CHECKING:
    from crosswind.kernel.mask import MaskSpec, Pattern

__all__ = ["Decider"]

_Ints = npt.NDArray[np.int64]


class Decider:
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
        self._checks, self._bits = checks, bits
        self._window, self._probe, self._skip = window, probe, skip
        self._program: tuple[MaskSpec, _Ints, Any] | None = None
        self._users: list[list[int]] = []
        self._kernels: dict[Any, Any] = {}

    def masks(self, own: Sequence[Vector], given: _Ints, matches: Matches) -> _Ints:
        """Return the terms that each candidate satisfies, of those that its combination may be part of.

        ``own`` are the columns that the checks read of the combinations, ``given`` their terms.
        """
        from crosswind.kernel.emit import Facts
        from crosswind.kernel.mask import mask_kernel

        spec, table, _ = self._program or self._compiled()
        residents = matches.residents
        nulls, nans = residents.facts(self._skip, self._skip + len(self._window))
        facts = Facts(nulls or any(v.has_nulls for v in own), nans or any(v.has_nans for v in own))
        if facts not in self._kernels:
            self._kernels[facts] = mask_kernel(spec, facts)
        probe = np.array([pointer for vector in own for pointer in vector.pointers()], dtype=np.int64)
        masks, state = np.empty(len(matches), dtype=np.int64), np.zeros(6, dtype=np.int64)
        outcome = self._kernels[facts](
            residents.positions,
            probe,
            matches.which,
            matches.rows,
            matches.probes,
            len(matches),
            address(given),
            table,
            masks.view(np.uint64),
            state,
        )
        if outcome < 0:
            fault = PairFaultError(residents.items[state[3]], int(state[4]), int(state[5]))
            fault.terms = (self._users[state[1]][state[2]],)
            raise fault
        return masks

    def _compiled(self) -> tuple[MaskSpec, _Ints, Any]:
        from crosswind.kernel.mask import MaskSpec, patterns_of

        groups = patterns_of(self._checks)
        terms = list(self._bits)
        self._users = [[terms[number] for number, _ in users] for users in groups.values()]
        spec = MaskSpec(self._window, self._probe, self._skip, tuple(groups))
        self._program = (spec, *_constants(groups, list(self._bits.values())))
        return self._program


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
