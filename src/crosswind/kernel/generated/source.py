"""Pieces of generated modules: the header, and how columns are found in pointer tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from crosswind.kernel.generated.emit import Emitter, Leaf
from crosswind.plan.physical import POINTERS_PER_COLUMN, Storage, machine_dtype, storage_of
from crosswind.query.tree import Expr, UserFunction

__all__ = ["ask_ahead", "header", "leaves_at", "open_arrays"]

_FAR, _NEAR = 24, 12
"""How many candidates ahead memory is asked for."""

_IMPORTS = """\
import math

import numpy as np

from crosswind.kernel.jit import jit
from crosswind.kernel.compiled.runtime import (
    add_checked,
    ceil_long,
    fetch,
    floor_long,
    fmod,
    is_among,
    is_text_among,
    mul_checked,
    prefetch,
    rem,
    round_div,
    store,
    sub_checked,
    text_equal,
    text_order,
)
"""


def header(title: str, emitters: Iterable[Emitter]) -> list[str]:
    """Return the top of a generated module: title, imports, constants, user functions."""
    lines = [f'"""{title}"""', "", *_IMPORTS.splitlines()]
    functions: dict[str, UserFunction] = {}
    for emitter in emitters:
        lines += emitter.constants
        functions |= emitter.functions
    for function in functions.values():
        lines += ["", "", "@jit()", *function.source.rstrip().splitlines()]
    return [*lines, ""]


def leaves_at(exprs: Sequence[Expr], prefix: str, index: str) -> dict[Expr, Leaf]:
    """Name the columns of ``exprs``: prefix0, prefix0_valid, prefix0_text, ..."""
    return {
        expr: Leaf(f"{prefix}{k}", f"{prefix}{k}_valid", f"{prefix}{k}_text", index) for k, expr in enumerate(exprs)
    }


def open_arrays(
    exprs: Sequence[Expr], prefix: str, table: str, *, nulls: bool, first: int = 0, indent: str = "    "
) -> list[str]:
    """Return lines that take the addresses of the columns ``exprs`` from the table ``table``.

    ``table`` is source up to and including the opening bracket, e.g. ``"win[w, "``.
    """
    lines = []
    for k, expr in enumerate(exprs):
        base = first + POINTERS_PER_COLUMN * k
        lines.append(f"{prefix}{k} = {table}{base}]")
        if nulls:
            lines.append(f"{prefix}{k}_valid = {table}{base + 1}]")
        if storage_of(expr.type) is Storage.TEXT:
            lines.append(f"{prefix}{k}_text = {table}{base + 2}]")
    return [indent + line for line in lines]


def ask_ahead(exprs: Sequence[Expr], first: int, indent: str) -> list[str]:
    """Return lines that ask for the columns ``exprs`` of candidates to come: they lie all over the window.

    For texts, the offsets are asked for first, and with them, later, the bytes.
    """
    near, far = [], []
    for k, expr in enumerate(exprs):
        base = first + POINTERS_PER_COLUMN * k
        storage = storage_of(expr.type)
        width = {Storage.TEXT: 8, Storage.WIDE: 16}.get(storage) or np.dtype(machine_dtype(expr.type)).itemsize
        far.append(f"    prefetch(win[out_w[k + {_FAR}], {base}] + {width} * out_i[k + {_FAR}])")
        if storage is Storage.TEXT:
            start = f"fetch(win[out_w[k + {_NEAR}], {base}], out_i[k + {_NEAR}], np.int64)"
            near.append(f"    prefetch(win[out_w[k + {_NEAR}], {base + 2}] + {start})")
    lines = [f"if k + {_FAR} < count:", *far] if far else []
    lines += [f"if k + {_NEAR} < count:", *near] if near else []
    return [indent + line for line in lines]
