"""The joins that a worker process keeps from one micro-batch to the next.

The state is the only truth. A cached join stands for one version of it, by name; if the
state is at a later version of the same history, the missing blocks are added, else the
join is made anew. So a retried task, a speculative copy, another executor or a restart
cannot make a cached join wrong, only useless.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from crosswind.engine.join import Join
from crosswind.engine.many import ManyJoin

__all__ = ["CACHE", "CachedJoin", "JoinCache"]


@dataclass
class CachedJoin:
    """A join whose windows hold everything up to ``version`` of a state."""

    join: Join | ManyJoin
    version: int
    name: str
    nbytes: int


class JoinCache:
    """Joins by the origin of their state, the least recently used ones dropped first."""

    def __init__(self) -> None:
        self._entries: OrderedDict[str, CachedJoin] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def nbytes(self) -> int:
        """Bytes held by all joins."""
        return sum(entry.nbytes for entry in self._entries.values())

    def bytes_of(self, origin: str) -> int:
        """Return the bytes held by the join of ``origin``; 0 if it is not kept."""
        return self._entries[origin].nbytes if origin in self._entries else 0

    def take(self, origin: str) -> CachedJoin | None:
        """Return and forget the join of ``origin``: whoever fails half-way does not put it back."""
        return self._entries.pop(origin, None)

    def put(self, origin: str, entry: CachedJoin, limit: int) -> None:
        """Keep ``entry``, and drop old ones until all together hold at most ``limit`` bytes."""
        self._entries[origin] = entry
        while self._entries and self.nbytes > limit:
            _, dropped = self._entries.popitem(last=False)
            dropped.join.close()


CACHE = JoinCache()
"""The one cache of this process."""
