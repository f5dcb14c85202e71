"""Keys for cells: integers that Spark's own hash partitioning spreads evenly, whatever the number of partitions.

Spark puts the key ``k`` of n partitions into partition ``murmur3(k) mod n``. That hash can be turned round: the key of
cell 5 is the integer whose hash is 5. So cell c is in partition ``c mod n`` for every n, and a key never depends on the
settings of a session: a query that is restarted with others finds its state.
"""

from __future__ import annotations

__all__ = ["cell_keys", "cell_of", "partition_of"]

_WORD = 0xFFFFFFFF
_SEED = 42
_FIRST, _SECOND = 0xCC9E2D51, 0x1B873593
_TIMES, _PLUS = 5, 0xE6546B64
_BYTES = 4
"""Of a key; murmur3 mixes the length in."""
_MIXED_1, _MIXED_2 = 0x85EBCA6B, 0xC2B2AE35


def partition_of(key: int, partitions: int) -> int:
    """Return the partition of ``partitions`` into which Spark puts the 32-bit integer ``key``."""
    return _signed(_hashed(key)) % partitions


def cell_of(key: int) -> int:
    """Return the number of the cell whose key is ``key``."""
    return _hashed(key)


def _hashed(key: int) -> int:
    """Return Spark's hash of the 32-bit integer ``key``: murmur3."""
    k = _rotated(key * _FIRST & _WORD, 15) * _SECOND & _WORD
    h = (_rotated(_SEED ^ k, 13) * _TIMES + _PLUS & _WORD) ^ _BYTES
    h = (h ^ h >> 16) * _MIXED_1 & _WORD
    h = (h ^ h >> 13) * _MIXED_2 & _WORD
    return h ^ h >> 16


def cell_keys(cells: int) -> tuple[int, ...]:
    """Return a key for each of ``cells`` cells: cell c is in partition ``c mod n``, whatever n is."""
    return tuple(_key_of(cell) for cell in range(cells))


def _key_of(number: int) -> int:
    """Return the key whose hash is ``number``: every step of :func:`partition_of`, backwards."""
    h = (number ^ number >> 16) * _inverse(_MIXED_2) & _WORD
    h = (h ^ h >> 13 ^ h >> 26) * _inverse(_MIXED_1) & _WORD
    h = (h ^ h >> 16) ^ _BYTES
    k = _rotated((h - _PLUS) * _inverse(_TIMES) & _WORD, 32 - 13) ^ _SEED
    return _signed(_rotated(k * _inverse(_SECOND) & _WORD, 32 - 15) * _inverse(_FIRST) & _WORD)


def _inverse(factor: int) -> int:
    """Return what undoes a product with an odd ``factor``, in 32 bits."""
    return pow(factor, -1, 1 << 32)


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & _WORD


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word
