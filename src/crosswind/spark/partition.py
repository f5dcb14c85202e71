"""Keys for cells: integers that Spark's own hash partitioning spreads evenly.

Spark puts the key ``k`` of n partitions into partition ``murmur3(k) mod n``. With keys 0, 1, 2
two cells may share a partition while another stays empty; so keys are looked for that do not.
"""

from __future__ import annotations

__all__ = ["cell_keys", "partition_of"]

_WORD = 0xFFFFFFFF


def partition_of(key: int, partitions: int) -> int:
    """Return the partition of ``partitions`` into which Spark puts the 32-bit integer ``key``."""
    k = (key * 0xCC9E2D51) & _WORD
    k = _rotated(k, 15) * 0x1B873593 & _WORD
    h = _rotated(42 ^ k, 13) * 5 + 0xE6546B64 & _WORD
    h ^= 4  # bytes in the key
    h = (h ^ h >> 16) * 0x85EBCA6B & _WORD
    h = (h ^ h >> 13) * 0xC2B2AE35 & _WORD
    h ^= h >> 16
    signed = h - (1 << 32) if h >> 31 else h
    return signed % partitions


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & _WORD


def cell_keys(cells: int, partitions: int) -> tuple[int, ...]:
    """Return a key for each of ``cells`` cells, spread over ``partitions`` in turn."""
    found: list[list[int]] = [[] for _ in range(partitions)]
    wanted = [len(range(p, cells, partitions)) for p in range(partitions)]
    missing, key = sum(wanted), 0
    while missing:
        p = partition_of(key, partitions)
        if len(found[p]) < wanted[p]:
            found[p].append(key)
            missing -= 1
        key += 1
    return tuple(found[cell % partitions][cell // partitions] for cell in range(cells))
