"""What a checkpoint holds, read by Spark's state reader and from the logs in its folder; the query is not started."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import functions as sf

from crosswind.errors import CrosswindError, InputError, SnapshotError
from crosswind.io.checksum import DamageError
from crosswind.spark.definition import Definition
from crosswind.spark.folder import CheckpointFolder
from crosswind.spark.partition import cell_of
from crosswind.spark.state import DEFINITION, Manifest

__all__ = ["CellContent", "Checkpoint", "JoinContent", "checkpoint", "reading", "session_of", "state_frame"]

_VARIABLES = {"manifest", "blocks"}
"""The state variables of a join."""
_CONDITION = re.compile(r"\[[A-Z_.]{8,}\]")
"""By which Spark names a failure."""


@dataclass(frozen=True)
class CellContent:
    """What a cell holds: ``tuples`` wait in its windows, in ``blocks`` of ``nbytes``; ``watermark`` is its last one."""

    cell: int
    key: int
    partition: int
    tuples: int
    blocks: int
    nbytes: int
    watermark: int | None


@dataclass(frozen=True)
class JoinContent:
    """A join in a checkpoint.

    ``operator`` is its number among the stateful operators of the query. ``definition`` is None, and so are the cells,
    in state of a format that this version does not read.
    """

    operator: int
    format: int
    about: str
    definition: Definition | None
    cells: tuple[CellContent, ...]
    manifests: Mapping[int, Manifest] = field(default_factory=dict, repr=False, compare=False)

    @property
    def tuples(self) -> int:
        """Tuples in the windows of all cells; copies count in each."""
        return sum(cell.tuples for cell in self.cells)

    @property
    def nbytes(self) -> int:
        """Bytes of the state of all cells."""
        return sum(cell.nbytes for cell in self.cells)

    @property
    def query(self) -> str:
        """The text of the query, in one line."""
        return self.about.partition("; ")[2].removeprefix("query: ")

    @property
    def layout(self) -> str:
        """Layout, cells, and how the watermark follows from Spark's, in words."""
        return self.about.partition("; ")[0]


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds, after its last committed micro-batch ``batch``.

    ``watermark_ms`` is Spark's for the next micro-batch, 0 if there is none. ``unfinished``: a later micro-batch was
    begun and not committed. ``others`` are the names of stateful operators that are not joins of Crosswind, by number.

    Examples
    --------
    >>> from crosswind.spark import Checkpoint
    >>> print(Checkpoint("checkpoint", 7, False, 1_735_689_600_000, 2, (), {}))
    checkpoint   checkpoint
    micro-batch  7, committed
    watermark    2025-01-01 00:00:00.000 UTC (Spark's, for the next micro-batch)
    partitions   2
    """

    path: str
    batch: int
    unfinished: bool
    watermark_ms: int
    partitions: int
    joins: tuple[JoinContent, ...]
    others: Mapping[int, str]

    def __str__(self) -> str:
        lines = [
            f"checkpoint   {self.path}",
            f"micro-batch  {self.batch}, committed" + ("; the next was begun" if self.unfinished else ""),
            f"watermark    {_time(self.watermark_ms)} (Spark's, for the next micro-batch)",
            f"partitions   {self.partitions}",
        ]
        for join in self.joins:
            lines += ["", *_lines(join)]
        lines += [f"\noperator {number}   {name}, not a join of Crosswind" for number, name in self.others.items()]
        return "\n".join(lines)


def _lines(join: JoinContent) -> list[str]:
    lines = [
        f"operator {join.operator}   {join.query}",
        f"format       {join.format}" + ("" if join.cells else ", which this version of Crosswind does not read"),
        f"layout       {join.layout}",
    ]
    if not join.cells:
        return lines
    count = f"{len(join.cells)} cell{'' if len(join.cells) == 1 else 's'}"
    lines.append(f"holds        {join.tuples:,} tuples, {join.nbytes:,} bytes, in {count}")
    lines.append(f"{'cell':>6} {'partition':>9} {'tuples':>12} {'blocks':>7} {'bytes':>14}  watermark")
    for cell in join.cells:
        shown = _ticks(cell.watermark, join.definition)
        counts = f"{cell.tuples:>12,} {cell.blocks:>7,} {cell.nbytes:>14,}"
        lines.append(f"{cell.cell:>6} {cell.partition:>9} {counts}  {shown}")
    return lines


def _time(milliseconds: int) -> str:
    if milliseconds <= 0:
        return "none yet"
    seconds, rest = divmod(milliseconds, 1000)
    try:
        shown = dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return f"{milliseconds:,} ms"
    return f"{shown}.{rest:03d} UTC"


def _ticks(watermark: int | None, definition: Definition | None) -> str:
    """Return a watermark of the join as people write times."""
    if watermark is None:
        return "none yet"
    if definition is None:
        return str(watermark)
    per_second = definition.make()[0].plan.axis.ticks_per_second
    return str(watermark) if per_second is None else _time(int(watermark * 1000 / per_second))


def checkpoint(path: Any, *, spark: Any = None) -> Checkpoint:
    """Return what a checkpoint holds: its queries, and the tuples and bytes of each of their cells.

    The query need not run, and is not started. ``print`` shows it as ``crosswind checkpoint show`` does.

    Parameters
    ----------
    path : str or Path
        The ``checkpointLocation`` of a streaming query.
    spark : SparkSession, optional
        A session that can read it; the active one if left out.

    Raises
    ------
    InputError
        It is no checkpoint, or no join of Crosswind is in it.
    SnapshotError
        It is damaged.

    Examples
    --------
    >>> import crosswind as cw
    >>> cw.spark.checkpoint("no/such/folder")
    Traceback (most recent call last):
    crosswind.errors.InputError: there is no checkpoint at no/such/folder: ...
    """
    folder = CheckpointFolder(path)
    batch = folder.committed()
    session = session_of(spark)
    joins, others = [], {}
    for number, (name, variables) in _operators(session, folder).items():
        if variables >= _VARIABLES:
            joins.append(_content(session, folder, number, batch))
        else:
            others[number] = name
    if not joins:
        found = f"it has {', '.join(others.values())}" if others else "it has no stateful operator"
        raise InputError(f"the checkpoint {folder.path} has no join of Crosswind: {found}.")
    unfinished = folder.planned() > batch
    watermark = folder.watermark(batch)
    return Checkpoint(folder.path, batch, unfinished, watermark, folder.partitions(batch), tuple(joins), others)


def session_of(spark: Any) -> Any:
    """Return ``spark``, or else the active session."""
    from pyspark.sql import SparkSession

    found = spark or SparkSession.getActiveSession()
    if found is None:
        raise InputError(
            "a checkpoint is read by Spark, and there is no active session; start one, for example with "
            "SparkSession.builder.config(map=crosswind.spark.settings()).getOrCreate(), or pass spark=."
        )
    return found


def state_frame(spark: Any, folder: CheckpointFolder, operator: int, batch: int, variable: str) -> Any:
    """Return the state of one variable of an operator, as it was after ``batch``."""
    reader = spark.read.format("statestore").option("operatorId", operator).option("batchId", batch)
    return reader.option("stateVarName", variable).load(folder.uri)


def _operators(spark: Any, folder: CheckpointFolder) -> dict[int, tuple[str, set[str]]]:
    """Return the stateful operators: their names, and those of their state variables."""
    with reading(folder):
        rows = spark.read.format("state-metadata").load(folder.uri).collect()
    found: dict[int, tuple[str, set[str]]] = {}
    for row in rows:
        properties = json.loads(row.operatorProperties or "{}")
        names = {entry["stateName"] for entry in properties.get("stateVariables", [])}
        found[row.operatorId] = (row.operatorName, names)
    return found


def _content(spark: Any, folder: CheckpointFolder, operator: int, batch: int) -> JoinContent:
    """Return what a join holds; raise SnapshotError if a part of it is missing."""
    with reading(folder):
        manifests = state_frame(spark, folder, operator, batch, "manifest").collect()
        blocks = state_frame(spark, folder, operator, batch, "blocks")
        sizes = blocks.select(
            sf.col("key.cell").alias("key"),
            sf.col("user_map_key.name").alias("name"),
            sf.length("user_map_value.content").alias("size"),
            sf.when(sf.col("user_map_key.name") == DEFINITION, sf.col("user_map_value.content")).alias("content"),
        ).collect()
    if not manifests:
        raise SnapshotError(
            f"the checkpoint {folder.path} has no cell in operator {operator}: it was begun, and nothing came yet, or "
            f"its state is lost."
        )
    known: dict[int, Manifest] = {}
    for row in manifests:
        data = bytes(row.value.content)
        read = _manifest(folder, row.key.cell, data)
        if read is None:
            return JoinContent(operator, _format(data), str(_field(data, "about")), None, ())
        known[row.key.cell] = read
    stored = {(row.key, row.name): row.size for row in sizes}
    texts = [bytes(row.content) for row in sizes if row.name == DEFINITION]
    definition = Definition.from_text(texts[0]) if texts else None
    cells = [_cell(folder, row, known[row.key.cell], stored) for row in manifests]
    newest = max(known.values(), key=lambda manifest: manifest.version)
    form = _format(bytes(manifests[0].value.content))
    ordered = tuple(sorted(cells, key=lambda cell: cell.cell))
    return JoinContent(operator, form, newest.about, definition, ordered, known)


def _cell(folder: CheckpointFolder, row: Any, manifest: Manifest, stored: Mapping[tuple[int, str], int]) -> CellContent:
    """Return what a cell holds, after looking whether all that its manifest names is there."""
    key = row.key.cell
    for name, size in manifest.parts().items():
        found = stored.get((key, name))
        if found != size:
            how = "is missing" if found is None else f"has {found} bytes, not {size}"
            raise SnapshotError(
                f"the checkpoint {folder.path} is damaged: '{name}' of cell {cell_of(key)} {how}. Restore the folder "
                f"from a copy, or start with a new checkpointLocation."
            )
    tuples, blocks, nbytes = manifest.window_tuples, len(manifest.blocks), manifest.nbytes
    return CellContent(cell_of(key), key, row.partition_id, tuples, blocks, nbytes, manifest.watermark)


def _manifest(folder: CheckpointFolder, key: int, data: bytes) -> Manifest | None:
    """Return a manifest; None: it is whole, and of a format that is not read."""
    try:
        return Manifest.from_bytes(data)
    except SnapshotError:
        return None
    except DamageError as error:
        raise SnapshotError(
            f"the checkpoint {folder.path} is damaged: the manifest of cell {cell_of(key)} is not as it was written "
            f"({error}). Restore the folder from a copy, or start with a new checkpointLocation."
        ) from None


def _format(data: bytes) -> int:
    """Return the format of a manifest, whatever the rest of it says; 0: it has none."""
    found = _field(data, "format")
    return found if isinstance(found, int) else 0


def _field(data: bytes, name: str) -> Any:
    try:
        content = json.loads(data)
    except ValueError:
        return None
    return content.get(name) if isinstance(content, dict) else None


@contextmanager
def reading(folder: CheckpointFolder) -> Iterator[None]:
    """Say of a failure of Spark's what it means for the checkpoint."""
    try:
        yield
    except CrosswindError:
        raise
    except Exception as failure:  # without Connect it may be one of Py4J's
        raise unreadable(folder, failure) from None


def unreadable(folder: CheckpointFolder, failure: Exception) -> SnapshotError:
    """Return what a failure of Spark's state reader means."""
    lines = [line.strip() for line in str(failure).splitlines() if line.strip()]
    named = [line for line in lines if _CONDITION.search(line)]
    said = (named or lines or [type(failure).__name__])[0]
    return SnapshotError(
        f"the state in the checkpoint {folder.path} cannot be read: a file is missing or damaged, or the query is "
        f"running and has moved on. Spark says: {said.removeprefix(': ')}"
    )
