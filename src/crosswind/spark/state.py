"""The state of a cell: a manifest and immutable blocks.

The manifest says which blocks there are; a block holds the tuples of one unit that came in
one micro-batch, or those of several such blocks put together. Every micro-batch writes at
most a block a unit, so state traffic goes with the input and not with the window. What else a join
knows is small: a bit for each tuple that may come out unmatched, and the numbers from which tuples of ROWS windows are
put in the order again.

The manifest ends with its checksum and holds those of the blocks. What does not match is
refused: the query fails with an error that names the cell, and no wrong row comes out.
"""

from __future__ import annotations

import zlib
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosswind.errors import CrosswindError, SnapshotError
from crosswind.io.blocks import BLOCK_BYTES, read_block, write_block
from crosswind.io.checksum import DamageError, OtherFormatError, digest_of, seal, unseal
from crosswind.window.arrival import Order

__all__ = ["DEFINITION", "BlockEntry", "CellState", "Manifest", "Store", "compaction", "no_order"]

_FORMAT = 4
"""1 had no checksums; 2 kept snapshots of outer joins, and knew no lag of the watermark; 3 kept snapshots of ROWS
windows."""
DEFINITION = "definition"
"""The name under which the first cell keeps what the join is made of, beside its blocks."""
_FAN_IN = 8
"""Blocks of about one size that are put together into one."""
_HISTORY = 64
"""Versions that a worker's copy of the windows may lie behind and still be brought up to date."""


@dataclass(frozen=True)
class BlockEntry:
    """A block in the state: tuples of ``unit`` that came in versions ``first`` to ``last``.

    One that was put together has ``marks``: versions, and how many of its tuples came up to each of them.
    ``checksum`` is that of its ``size`` bytes. ``serial`` is the number of its first tuple, counted as they came.
    """

    name: str
    unit: int
    first: int
    last: int
    tuples: int
    size: int
    time_min: int
    time_max: int
    marks: tuple[tuple[int, int], ...] = ()
    checksum: str = ""
    serial: int = 0

    def before(self, version: int) -> int | None:
        """Return how many of the tuples, which are in the order of versions, came up to ``version`` (None: unknown)."""
        if version < self.first:
            return 0
        known = [tuples for mark, tuples in self.marks if mark <= version]
        return known[-1] if known else None


@dataclass
class Manifest:
    """What is in the state of a cell, as of ``version``.

    ``origin`` names this state for as long as it lives, in every attempt and on every
    machine; ``history`` names the latest versions, oldest first: two states that share the
    name of a version are the same up to it. ``window_tuples`` wait in the windows of the join. ``serials`` have the
    number of the next tuple of each unit. ``order`` is what ROWS windows need. ``flags`` names a bit for each tuple of
    preserved units, in the order of blocks (with ROWS windows, of their numbers): whether it has matched.
    """

    identity: str
    about: str
    origin: str
    version: int = 0
    history: list[str] = field(default_factory=list)
    watermark: int | None = None
    blocks: list[BlockEntry] = field(default_factory=list)
    window_tuples: int = 0
    timer: int | None = None
    serials: list[int] = field(default_factory=list)
    flags: str = ""
    flags_bytes: int = 0
    flags_checksum: str = ""
    order: Order = field(default_factory=lambda: no_order(0))

    @property
    def oldest_serials(self) -> list[int]:
        """The number of the first tuple that is kept of each unit; of the next, if there is none."""
        kept: dict[int, int] = {}
        for entry in self.blocks:
            kept[entry.unit] = min(entry.serial, kept.get(entry.unit, entry.serial))
        return [kept.get(unit, serial) for unit, serial in enumerate(self.serials)]

    def next_version(self, name: str) -> None:
        """Begin the version ``name``."""
        self.version += 1
        self.history = [*self.history[1 - _HISTORY :], name]

    def marks_of(self, blocks: list[BlockEntry]) -> tuple[tuple[int, int], ...]:
        """Return the marks of ``blocks``, put together; those too old for any copy to need them are left out."""
        marks, tuples = [], 0
        for entry in blocks:
            marks += [(version, tuples + count) for version, count in entry.marks or ((entry.last, entry.tuples),)]
            tuples += entry.tuples
        old = [mark for mark in marks if mark[0] <= self.version - _HISTORY]
        return (*old[-1:], *marks[len(old) :])

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks and flags."""
        return self.flags_bytes + sum(entry.size for entry in self.blocks)

    def parts(self) -> dict[str, int]:
        """Return what the state holds beside the manifest: names and bytes."""
        named = {entry.name: entry.size for entry in self.blocks}
        return named | ({self.flags: self.flags_bytes} if self.flags else {})

    def to_bytes(self) -> bytes:
        """Return the manifest as bytes."""
        content = asdict(self)
        content["blocks"] = [list(asdict(entry).values()) for entry in self.blocks]
        content["order"] = list(asdict(self.order).values())
        return seal(_FORMAT, content)

    @staticmethod
    def from_bytes(data: bytes) -> Manifest:
        """Return the manifest in ``data``; raise DamageError if it is not as it was written."""
        try:
            content = _read_content(data)
            order = Order(*(_as_tuples(part) for part in content["order"]))
            blocks = [BlockEntry(*values) for values in content["blocks"]]
            blocks = [replace(entry, marks=tuple((mark, count) for mark, count in entry.marks)) for entry in blocks]
            return Manifest(**{**content, "blocks": blocks, "order": order})
        except (LookupError, TypeError, ValueError):
            raise DamageError("its fields are not those of a manifest") from None


def _read_content(data: bytes) -> dict[str, Any]:
    """Return what a manifest says; that of the format before is brought into the present form."""
    try:
        return unseal(data, _FORMAT)
    except OtherFormatError as error:
        found = error.found
    content = unseal(data, found) if found == 3 else {}
    if content.get("snapshot", True):
        more = " and format 3 of joins without ROWS windows" if found == 3 else ""
        raise SnapshotError(
            f"the state in this checkpoint was written by another version of Crosswind, in format {found} "
            f"(this one reads format {_FORMAT}{more}); restart with that version, or with a new checkpointLocation."
        )
    content = {name: value for name, value in content.items() if not name.startswith("snapshot")}
    return {**content, "order": list(asdict(no_order(len(content["serials"]))).values())}


def _as_tuples(part: list[Any]) -> tuple[Any, ...]:
    return tuple(tuple(value) if isinstance(value, list) else value for value in part)


def no_order(units: int) -> Order:
    """Return the order of a join to which nothing came yet, or that has none."""
    nothing = (0,) * units
    return Order(nothing, nothing, (None,) * units, ((),) * units)


class Store(Protocol):
    """Where manifest and blocks of one cell are kept; all changes of a micro-batch hold, or none."""

    def read_manifest(self) -> bytes | None:
        """Return the manifest, or None if there is no state yet."""

    def write_manifest(self, data: bytes) -> None:
        """Replace the manifest."""

    def read(self, name: str) -> bytes | None:
        """Return a block, or None if there is none of that name."""

    def write(self, name: str, data: bytes) -> None:
        """Add a block."""

    def remove(self, name: str) -> None:
        """Remove a block."""

    def has_blocks(self) -> bool:
        """Whether there is any block."""


class CellState:
    """The state of one cell, checked as it is read.

    Parameters
    ----------
    store : Store
        Where it is kept.
    cell : int
        The number of the cell, for errors.
    """

    def __init__(self, store: Store, cell: int) -> None:
        self._store, self._cell = store, cell

    def damage(self, what: str, how: str) -> SnapshotError:
        """Return the error that fails the query: ``what`` in the state is not as it was written."""
        return SnapshotError(
            f"cell {self._cell}: {what} in the state of this checkpoint is damaged ({how}), so the micro-batch was not "
            f"taken. Restore the folder of the checkpoint from a copy, or start with a new checkpointLocation."
        )

    def manifest(self) -> Manifest | None:
        """Return the manifest, or None if there is no state yet."""
        data = self._store.read_manifest()
        if data is None:
            if self._store.has_blocks():
                raise self.damage("the manifest", "it is missing, and there are blocks")
            return None
        try:
            return Manifest.from_bytes(data)
        except DamageError as error:
            raise self.damage("the manifest", str(error)) from None

    def add_block(self, name: str, batch: pa.RecordBatch) -> tuple[int, str]:
        """Write a block; return its bytes and checksum."""
        data = write_block(batch)
        self._store.write(name, data)
        return len(data), digest_of(data)

    def block(self, entry: BlockEntry) -> pa.RecordBatch:
        """Return the tuples of a block."""
        what = f"block '{entry.name}'"
        data = self._bytes(what, entry.name)
        if len(data) != entry.size or digest_of(data) != entry.checksum:
            raise self.damage(what, f"{len(data)} bytes whose checksum does not match those {entry.size} written")
        try:
            batch = read_block(data)
            batch.validate(full=True)
        except (pa.ArrowException, OSError, StopIteration, ValueError) as error:
            raise self.damage(what, " ".join(str(error).split())) from None
        if batch.num_rows != entry.tuples:
            raise self.damage(what, f"it has {batch.num_rows} tuples, not {entry.tuples}")
        return batch

    def replace_flags(self, manifest: Manifest, flags: npt.NDArray[np.bool_]) -> None:
        """Write which tuples have matched, in place of what was written before."""
        if manifest.flags:
            self._store.remove(manifest.flags)
        data = zlib.compress(np.packbits(flags).tobytes(), 1)  # of older tuples, most have matched
        manifest.flags, manifest.flags_bytes = f"matched-{manifest.version}", len(data)
        manifest.flags_checksum = digest_of(data)
        self._store.write(manifest.flags, data)

    def flags(self, manifest: Manifest, count: int) -> npt.NDArray[np.bool_]:
        """Return which of the ``count`` tuples of preserved units have matched."""
        data = self._bytes("what has matched", manifest.flags)
        if digest_of(data) != manifest.flags_checksum:
            raise self.damage("what has matched", f"{len(data)} bytes are not those that were written")
        if not manifest.flags.startswith("flags"):  # in format 3 they were not compressed
            try:
                data = zlib.decompress(data)
            except zlib.error as error:
                raise self.damage("what has matched", str(error)) from None
        if len(data) != (count + 7) // 8:
            raise self.damage("what has matched", f"{len(data)} bytes are not a bit for each of {count} tuples")
        return np.unpackbits(np.frombuffer(data, dtype=np.uint8), count=count).astype(np.bool_)

    def keep_definition(self, text: str) -> None:
        """Keep what the join is made of, for those who look into the checkpoint; nothing is computed from it."""
        data, known = text.encode(), self._store.read(DEFINITION)
        if known == data or not text:
            return
        if known is not None:
            self._store.remove(DEFINITION)
        self._store.write(DEFINITION, data)

    def _bytes(self, what: str, name: str) -> bytes:
        data = self._store.read(name)
        if data is None:
            raise self.damage(what, "it is missing")
        return data

    def refused(self, what: str, error: CrosswindError) -> SnapshotError:
        """Return the error that fails the query: the join did not take ``what``, which it wrote."""
        return self.damage(what, str(error).partition(". Nothing was restored")[0])


def compaction(blocks: list[BlockEntry], unit: int) -> list[BlockEntry]:
    """Return the newest blocks of ``unit`` that should be put together, or none.

    Sizes fall into levels, each ``_FAN_IN`` times the one before. The newest blocks are put together when that makes
    a block of a higher level than any of them has; so a tuple is rewritten once a level, and there are few blocks
    of each level. On the lowest level, where rewriting costs nothing, their number counts.
    """
    mine = [entry for entry in blocks if entry.unit == unit]
    found, at, size = len(mine), len(mine), 0
    for level in range(_level(BLOCK_BYTES) + 1):
        while at and _level(mine[at - 1].size) <= level:
            at -= 1
            size += mine[at].size
        if size > BLOCK_BYTES:
            break
        if _level(size) > level or (level == 0 and len(mine) - at >= _FAN_IN):
            found = at
    return mine[found:] if len(mine) - found > 1 else []


def _level(size: int) -> int:
    return max(0, size.bit_length() - 12) // (_FAN_IN.bit_length() - 1)
