"""Input with a chosen match rate, in random order (section V-A).

The paper does not define the match rate. Here it is the share of pairs that match: the square
root of it is the share of tuples, in either stream, that carry the one common key; all
other keys are different. Who takes the match rate for the share of such tuples has to read
the square root of the x-axis; the order of points stays.
"""

from __future__ import annotations

import math

import numpy as np

from crosswind.lab.fpga.join import ChipArrivals

__all__ = ["matching"]


def matching(count: int, match_rate: float, seed: int) -> ChipArrivals:
    """Return ``count`` tuples of either stream of which a share ``match_rate`` of all pairs match."""
    rng = np.random.default_rng(seed)
    streams = []
    for sign in (1, -1):
        keys = sign * np.arange(1, count + 1)
        keys[: round(math.sqrt(match_rate) * count)] = 0
        rng.shuffle(keys)
        streams.append(keys)
    return ChipArrivals.both(*streams)
