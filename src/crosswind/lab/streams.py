"""Streams of any schema with uniformly random values: what the capacity calculator tries a predicate on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from crosswind.bench.workload import EPOCH_US, BandWorkload
from crosswind.errors import InputError
from crosswind.io.schemas import schema_from_text

__all__ = ["PAPERS_SCHEMAS", "Uniform", "schemas_with_time"]

PAPERS_SCHEMAS = {"R": "x:int32,y:float32", "S": "a:int32,b:float32"}
"""Columns of the papers' streams, without the time."""


def schemas_with_time(texts: dict[str, str]) -> dict[str, pa.Schema]:
    """Return the schemas that texts such as ``x:int32,y:float32`` spell, each with a time column ``ts``."""
    schemas = {}
    for name, text in texts.items():
        schema = schema_from_text(text)
        if "ts" not in schema.names:
            schema = schema.append(pa.field("ts", pa.timestamp("us")))
        if not pa.types.is_timestamp(schema.field("ts").type):
            raise InputError(
                f"the time column 'ts' of {name} is {schema.field('ts').type}; rates in tuples/s need a timestamp. "
                "Leave "
                "it out, or write ts:timestamp[ms]."
            )
        schemas[name] = schema
    return schemas


@dataclass(frozen=True)
class Uniform(BandWorkload):
    """Two paced streams with random columns.

    Parameters
    ----------
    rate, window_us, seed, band_y
        As for :class:`~crosswind.bench.workload.BandWorkload`.
    columns : tuple of (str, pyarrow.Schema)
        The streams, in the order of FROM.
    predicate : str
        What is asked of a pair.
    span : int
        Values are from 1 to this; strings are as many different ones.
    """

    columns: tuple[tuple[str, pa.Schema], ...] = ()
    predicate: str = ""
    span: int = 10_000

    @property
    def schemas(self) -> dict[str, pa.Schema]:
        """What the batches of each stream look like."""
        return dict(self.columns)

    @property
    def sql(self) -> str:
        """The query."""
        shown = ", ".join(
            f"{name}.{field.name} AS {name}_{field.name}"
            for name, schema in self.columns
            for field in schema
            if field.name != "ts"
        )
        (left, _), (right, _) = self.columns
        return f"SELECT {shown}\nFROM {left} {self.window}, {right} {self.window}\nWHERE {self.predicate}"

    def batch(self, stream: str, first: int, count: int) -> pa.RecordBatch:
        """Return ``count`` tuples of ``stream`` from number ``first`` on."""
        names = [name for name, _ in self.columns]
        schema = self.schemas[stream]
        generator = np.random.default_rng([self.seed, names.index(stream), first])
        arrays = []
        for field in schema:
            if field.name == "ts":
                offsets = (np.arange(first, first + count, dtype=np.int64) * 1_000_000) // self.rate
                arrays.append(pa.array(offsets + EPOCH_US, pa.timestamp("us")).cast(field.type, safe=False))
            else:
                arrays.append(self._values(stream, field, generator, count))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _values(self, stream: str, field: pa.Field, generator: np.random.Generator, count: int) -> pa.Array:
        kind = field.type
        if pa.types.is_floating(kind):
            return pa.array(1 + generator.random(count) * (self.span - 1)).cast(kind)
        numbers = generator.integers(1, self.span, count, endpoint=True)
        if pa.types.is_integer(kind):
            return pa.array(numbers).cast(kind, safe=False)
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return pa.array([f"value-{number}" for number in numbers], kind)
        raise InputError(
            f"column {stream}.{field.name} is {kind}; the calculator makes up integers, floats and strings. Declare it "
            "as "
            "one of these."
        )
