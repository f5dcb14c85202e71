"""CellJoin's model of the best basic window as it was published (section 6, equations 3 and 4).

The engine's own model is in :mod:`crosswind.plan.cost`. There is no DMA transfer to wait for here, so its parts are
other ones. This one is kept as the paper has it, with constants of the two loops of Figure 7: what it costs to bring a
basic window in, ``alpha_m + beta(H)``, and to compare it, ``alpha_n + beta_n * H``.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SIZES_BYTES", "TransferModel"]

SIZES_BYTES = tuple(2**power for power in range(7, 15))
"""Sizes of a basic window that are tried: a cache line up to the largest transfer (section 6)."""


@dataclass(frozen=True)
class TransferModel:
    """The constants of section 6, in nanoseconds and nanoseconds per byte.

    Parameters
    ----------
    issue_ns : float
        To ask for a basic window (alpha_m).
    fetch_ns : float
        To bring a byte in (beta, taken to be linear as for equation 4).
    begin_ns : float
        To begin with a basic window (alpha_n).
    match_ns : float
        To compare a byte (beta_n).
    unit_block : int
        Tuples in a unit block (b, equation 1).
    attribute_bytes : int
        Size of the join attributes of a tuple, s(A).
    """

    issue_ns: float
    fetch_ns: float
    begin_ns: float
    match_ns: float
    unit_block: int = 4
    attribute_bytes: int = 8

    def window_ns(self, blocks: float, rate: float, window_s: float) -> float:
        """Return what a join window takes with ``blocks`` unit blocks in a basic window (equation 3, to be least)."""
        windows = rate * window_s / (self.unit_block * blocks)
        size = blocks * self.unit_block * self.attribute_bytes
        return (self.issue_ns * windows + self.fetch_ns * size) + windows * (self.begin_ns + self.match_ns * size)

    def best_bytes(self, rate: float, window_s: float) -> int:
        """Return the best of :data:`SIZES_BYTES` (equation 3)."""
        block_bytes = self.unit_block * self.attribute_bytes
        best: int = min(SIZES_BYTES, key=lambda size: self.window_ns(size / block_bytes, rate, window_s))
        return best

    def optimum_bytes(self, rate: float, window_s: float) -> float:
        """Return the best size, whatever it is (equation 4)."""
        ratio = (self.issue_ns + self.begin_ns) / self.fetch_ns
        blocks: float = (ratio * rate * window_s / (self.unit_block**2 * self.attribute_bytes)) ** 0.5
        return blocks * self.unit_block * self.attribute_bytes
