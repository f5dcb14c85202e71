"""The state of a cell: a manifest and immutable blocks.

The manifest says which blocks there are; a block holds the tuples of one unit that came in
one micro-batch, or those of several such blocks put together. Every micro-batch writes at
most a block a unit, so state traffic goes with the input and not with the window.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Protocol

from crosswind.errors import SnapshotError

__all__ = ["BlockEntry", "Manifest", "Store", "compaction"]

_FORMAT = 1
_FAN_IN = 8
"""Blocks of about one size that are put together into one."""
_BYTES_MAX = 8 << 20
"""Bytes of the largest block that is made by putting smaller ones together."""
_HISTORY = 64
"""Versions that a worker's copy of the windows may lie behind and still be brought up to date."""


@dataclass(frozen=True)
class BlockEntry:
    """A block in the state: tuples of ``unit`` that came in versions ``first`` to ``last``.

    One that was put together has ``marks``: versions, and how many of its tuples came up to each of them.
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
    name of a version are the same up to it. ``snapshot`` are the parts of a join's own
    snapshot, for joins whose state is more than their tuples.
    """

    identity: str
    about: str
    origin: str
    version: int = 0
    history: list[str] = field(default_factory=list)
    watermark: int | None = None
    blocks: list[BlockEntry] = field(default_factory=list)
    snapshot: list[str] = field(default_factory=list)
    snapshot_bytes: int = 0
    timer: int | None = None

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
        """Bytes of all blocks, or of the snapshot."""
        return self.snapshot_bytes + sum(entry.size for entry in self.blocks)

    def to_bytes(self) -> bytes:
        """Return the manifest as bytes."""
        content = asdict(self)
        content["blocks"] = [list(asdict(entry).values()) for entry in self.blocks]
        return json.dumps({"format": _FORMAT, **content}).encode()

    @staticmethod
    def from_bytes(data: bytes) -> Manifest:
        """Return the manifest in ``data``."""
        content = json.loads(data)
        if content.pop("format") != _FORMAT:
            raise SnapshotError(
                "the state in this checkpoint was written by another version of Crosswind; "
                "restart with that version, or with a new checkpointLocation."
            )
        content["blocks"] = [
            BlockEntry(*values[:8], *(tuple(map(tuple, marks)) for marks in values[8:])) for values in content["blocks"]
        ]
        return Manifest(**content)


class Store(Protocol):
    """Where manifest and blocks of one cell are kept; all changes of a micro-batch hold, or none."""

    def read_manifest(self) -> bytes | None:
        """Return the manifest, or None if there is no state yet."""

    def write_manifest(self, data: bytes) -> None:
        """Replace the manifest."""

    def read(self, name: str) -> bytes:
        """Return a block."""

    def write(self, name: str, data: bytes) -> None:
        """Add a block."""

    def remove(self, name: str) -> None:
        """Remove a block."""


def compaction(blocks: list[BlockEntry], unit: int) -> list[BlockEntry]:
    """Return the newest blocks of ``unit`` that should be put together, or none.

    Sizes fall into levels, each ``_FAN_IN`` times the one before. The newest blocks are put together when that makes
    a block of a higher level than any of them has; so a tuple is rewritten once a level, and there are few blocks
    of each level. On the lowest level, where rewriting costs nothing, their number counts.
    """
    mine = [entry for entry in blocks if entry.unit == unit]
    found, at, size = len(mine), len(mine), 0
    for level in range(_level(_BYTES_MAX) + 1):
        while at and _level(mine[at - 1].size) <= level:
            at -= 1
            size += mine[at].size
        if size > _BYTES_MAX:
            break
        if _level(size) > level or (level == 0 and len(mine) - at >= _FAN_IN):
            found = at
    return mine[found:] if len(mine) - found > 1 else []


def _level(size: int) -> int:
    return max(0, size.bit_length() - 12) // (_FAN_IN.bit_length() - 1)
