"""Kernels that compute columns from columns of the same rows.

They serve arrivals (filters, and the slots that tuples carry) and results (computed
columns of the projection).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from crosswind.kernel.generated.emit import Emitter, Facts
from crosswind.kernel.generated.source import header, leaves_at, open_arrays
from crosswind.kernel.jit import load_source
from crosswind.plan.logic import Formula
from crosswind.plan.physical import POINTERS_PER_COLUMN, machine_dtype
from crosswind.query.tree import Expr

__all__ = ["MapKernel", "can_overflow", "map_kernel", "map_source"]

_SIGNATURE = '"int64(int64[::1], int64[::1], int64)"'


@dataclass(frozen=True)
class MapKernel:
    """A compiled map: ``call`` returns -1, or the row whose computation overflowed."""

    call: Callable[[np.ndarray[Any, Any], np.ndarray[Any, Any], int], int]
    dtypes: tuple[str, ...]
    nullable: tuple[bool, ...]


def map_source(leaves: Sequence[Expr], outputs: Sequence[Expr], keep: Formula | None, facts: Facts) -> str:
    """Return the source of a kernel that computes ``outputs`` (or the bytes of ``keep``)."""
    emitter = Emitter(leaves_at(leaves, "x", "i"), facts, " " * 8)
    stores: list[str] = []
    nullable: list[bool] = []
    if keep is not None:
        stores.append(f"store(y0, i, np.uint8({emitter.truth(keep)}))")
        nullable.append(False)
    for k, output in enumerate(outputs):
        value = emitter.emit(output)
        stores.append(f"store(y{k}, i, np.{machine_dtype(output.type)}({value.code}))")
        nullable.append(value.valid is not None)
        if value.valid is not None:
            stores.append(f"store(y{k}_valid, i, np.uint8({value.valid}))")
    dtypes = ["uint8"] if keep is not None else [machine_dtype(output.type) for output in outputs]
    opened = open_arrays(leaves, "x", "ins[", nulls=facts.nulls)
    for k in range(len(dtypes)):
        opened.append(f"    y{k} = outs[{POINTERS_PER_COLUMN * k}]")
        if nullable[k]:
            opened.append(f"    y{k}_valid = outs[{POINTERS_PER_COLUMN * k + 1}]")
    body = [
        "",
        f"NULLABLE = {tuple(nullable)!r}",
        f"DTYPES = {tuple(dtypes)!r}",
        "",
        "",
        f"@jit({_SIGNATURE})",
        "def evaluate(ins, outs, n):",
        '    """Fill ``outs`` row by row; return the row that overflowed, or -1."""',
        *opened,
        "    for i in range(n):",
        *(["        fault = False"] if emitter.checks else []),
        *emitter.lines,
        *(["        if fault:", "            return i"] if emitter.checks else []),
        *(f"        {store}" for store in stores),
        "    return -1",
    ]
    return "\n".join([*header("Columns computed from columns of the same rows.", [emitter]), *body]) + "\n"


def can_overflow(leaves: Sequence[Expr], outputs: Sequence[Expr]) -> bool:
    """Whether a row can fail: whether arithmetic in ``outputs`` is checked."""
    emitter = Emitter(leaves_at(leaves, "x", "i"), Facts(nulls=True, nans=True), "")
    for output in outputs:
        emitter.emit(output)
    return emitter.checks


@lru_cache(maxsize=512)
def map_kernel(leaves: tuple[Expr, ...], outputs: tuple[Expr, ...], keep: Formula | None, facts: Facts) -> MapKernel:
    """Return the compiled map for ``outputs`` (or, without outputs, for the filter ``keep``)."""
    module = load_source(map_source(leaves, outputs, keep, facts))
    return MapKernel(module.evaluate, module.DTYPES, module.NULLABLE)
