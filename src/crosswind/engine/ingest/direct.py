"""A few new tuples, read where they lie: values of fixed width, without nulls, and what is computed from them.

It is the general way (:class:`crosswind.engine.ingest.intake.Intake`) without its objects: of a push of one tuple those
cost more than everything else. Whatever is not as simple goes the general way, push by push.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosswind.io.arrow import column_of
from crosswind.kernel.compiled.arrange import any_nan
from crosswind.kernel.generated.emit import Facts
from crosswind.kernel.generated.map import map_kernel
from crosswind.plan.logic import Formula
from crosswind.plan.physical import POINTERS_PER_COLUMN, arrow_width, machine_dtype
from crosswind.query.tree import Expr
from crosswind.window.block import Arrivals, Block
from crosswind.window.vector import address

__all__ = ["DIRECT", "Computed", "DirectReader", "Source"]

DIRECT = 64
"""Tuples up to which it pays to read them where they lie, and to write them straight into windows."""

_ZEROS = np.zeros(DIRECT, dtype=np.int64)

Source = str | int | None
"""Where a column of a block comes from: a column of the batch, a computed one by its number, or nowhere (zeros)."""


@dataclass(frozen=True)
class Computed:
    """What is computed from columns of a batch: ``outputs``, or whether ``keep`` holds."""

    leaves: tuple[Expr, ...]
    outputs: tuple[Expr, ...]
    keep: Formula | None = None


class DirectReader:
    """Reads few tuples of a stream where they lie.

    Parameters
    ----------
    schema : pa.Schema
        Of the stream.
    sources : sequence of (Source, int)
        Of each column of a block, where it comes from, and what is made of it when it is written.
    floats : sequence of (Source, int)
        Columns in which a NaN would matter to conditions, with their widths.
    keep, computed : Computed or None
        The filter, and what is computed.
    """

    def __init__(
        self,
        schema: pa.Schema,
        sources: Sequence[tuple[Source, int]],
        floats: Sequence[tuple[Source, int]],
        keep: Computed | None,
        computed: Computed | None,
    ) -> None:
        leaves = [column_of(leaf) for made in (keep, computed) if made is not None for leaf in made.leaves]
        names = [source for source, _ in sources if isinstance(source, str)]
        read = list(dict.fromkeys([*names, *leaves]))
        self._read = tuple((name, arrow_width(schema.field(name).type)) for name in read)
        self._forms = tuple(form for _, form in sources)
        self._keep = None if keep is None else _Map(keep, read)
        self._computed = None if computed is None else _Map(computed, read)
        made = 0 if computed is None else len(computed.outputs)
        places: dict[Source, int] = {name: place for place, name in enumerate(read)}
        places |= {number: len(read) + number for number in range(made)} | {None: len(read) + made}
        self._places = [places[source] for source, _ in sources]
        self._floats = [(places[source], width) for source, width in floats]

    def read(
        self,
        arrays: Mapping[str, pa.Array],
        times: npt.NDArray[np.int64],
        ends: tuple[int, int] | None,
        make: Callable[[], Block],
    ) -> Arrivals | None:
        """Return the tuples of ``arrays``; None: there is a null or an overflow, or the filter drops some of them.

        ``make`` returns them as the general way has them.
        """
        at, count = [], len(times)
        for name, width in self._read:
            array = arrays[name]
            if array.null_count:
                return None
            at.append(array.buffers()[1].address + array.offset * width)
        if self._keep is not None:
            kept = self._keep.run(at, count)
            if kept is None or not kept.all():
                return None
        made = None
        if self._computed is not None:
            made = self._computed.run(at, count)
            if made is None:
                return None
            at += self._computed.addresses(made)
        at.append(address(_ZEROS))
        nans = bool(self._floats) and self._any_nan(at, count)
        if not times.flags.c_contiguous:
            times = np.ascontiguousarray(times)
        return Arrivals(times, [at[place] for place in self._places], self._forms, ends, nans, make, made)

    def _any_nan(self, at: list[int], count: int) -> bool:
        return any(any_nan(at[place], width, count) for place, width in self._floats)


class _Map:
    """A compiled map over columns at addresses."""

    def __init__(self, computed: Computed, read: list[str]) -> None:
        self._of = computed
        self._places = [read.index(column_of(leaf)) for leaf in computed.leaves]
        self._floats = [
            (place, np.dtype(machine_dtype(leaf.type)).itemsize)
            for place, leaf in zip(self._places, computed.leaves, strict=True)
            if machine_dtype(leaf.type).startswith("float")
        ]
        self._ins = np.zeros(POINTERS_PER_COLUMN * max(1, len(self._places)), dtype=np.int64)
        outputs = 1 if computed.keep is not None else len(computed.outputs)
        self._outs = np.zeros(POINTERS_PER_COLUMN * outputs, dtype=np.int64)
        self._count = outputs
        self._kernel: Any = None
        self._is_nullable = False

    def run(self, at: list[int], count: int) -> npt.NDArray[np.int64] | npt.NDArray[np.bool_] | None:
        """Return what is computed, a row per output (of a filter: which tuples it keeps); None: better not."""
        if any(any_nan(at[place], width, count) for place, width in self._floats):
            return None
        if self._kernel is None:
            self._compile()
        if self._is_nullable:
            return None
        made = np.empty((self._count, count), dtype=np.int64)
        base, step = address(made), made.strides[0]
        for k, place in enumerate(self._places):
            self._ins[POINTERS_PER_COLUMN * k] = at[place]
        for k in range(self._count):
            self._outs[POINTERS_PER_COLUMN * k] = base + step * k
        if self._kernel(self._ins, self._outs, count) >= 0:
            return None
        return made if self._of.keep is None else made.view(np.bool_)[0, :count]

    def _compile(self) -> None:
        of = self._of
        kernel = map_kernel(of.leaves, of.outputs, of.keep, Facts(nulls=False, nans=False))
        self._kernel, self._is_nullable = kernel.call, any(kernel.nullable)

    def addresses(self, made: npt.NDArray[Any]) -> list[int]:
        """Return where each output is."""
        base, step = address(made), made.strides[0]
        return [base + step * k for k in range(self._count)]
