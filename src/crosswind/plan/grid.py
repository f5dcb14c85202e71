"""Rows and columns of workers, from rates and windows (DP-Join §IV-C, equations 5 to 7).

One model, for the engine ``grid``, for cells on Spark, for ``explain`` and for the lab. A tuple of the first stream
goes to one row of m x n workers, each of which has an n-th of the second window, and is compared with half of that, on
average, before a match is found (equation 5). Latency is that of a result (definition 3), so equation 6 weighs the two
streams by the results that their tuples complete: a tuple that meets a larger window completes more of them.

Where we deviate: the equations leave out the time that a tuple takes along its row, which the paper names as the reason
why linear layouts are slow (§IV-C2). In the choice of a layout it counts, as :data:`HOP_PAIRS` per worker. With it the
choice for 1,000 and 3,000 tuples/s and 16 workers is 3 x 5, which the paper measures as the best; by the equations
alone it would be 2 x 8.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

__all__ = ["HOP_PAIRS", "Load", "best_sides", "choose_sides", "delay_pairs", "mean_pairs", "weights_of"]

HOP_PAIRS = 16_384.0
"""Pairs that a worker compares while a notice goes from one worker to the next, or about: some microseconds."""

_IDLE_MAX = 0.1
"""Share of the workers that may stay without work, so that a number without factors can have rows and columns."""


@dataclass(frozen=True)
class Load:
    """Tuples/s of the two streams, and tuples in their windows."""

    rates: tuple[float, float]
    windows: tuple[float, float]


def weights_of(rates: Sequence[float], windows: Sequence[float]) -> tuple[float, ...]:
    """Return, for each stream, what its window counts for in the mean latency of a result (equations 5 and 6).

    The side that cuts a window up divides its weight: the latency is half of the sum of weight / side. A result
    is completed by one of its tuples. That the stream of the window does it is as likely as its rate says, divided by
    its window; in all other cases the window is searched.
    """
    completes = [rate / max(window, 1e-9) for rate, window in zip(rates, windows, strict=True)]
    total = sum(completes)
    return tuple(window * (1 - own / total) for window, own in zip(windows, completes, strict=True))


def mean_pairs(layout: tuple[int, int], load: Load) -> float:
    """Return the pairs that are compared, on average, before a match is found (equations 5 and 6).

    Times the time of a comparison that is the mean latency.

    Examples
    --------
    >>> mean_pairs((4, 4), Load((1000.0, 3000.0), (300_000.0, 900_000.0)))
    75000.0
    >>> mean_pairs((3, 5), Load((1000.0, 3000.0), (300_000.0, 900_000.0)))
    70000.0
    """
    weights = weights_of(load.rates, load.windows)
    return sum(weight / side for weight, side in zip(weights, layout, strict=True)) / 2


def delay_pairs(layout: tuple[int, int], load: Load) -> float:
    """Return :func:`mean_pairs` and the way along a row or column, in pairs that could be compared meanwhile."""
    (m, n), weights = layout, weights_of(load.rates, load.windows)
    searched = [weight / window for weight, window in zip(weights, load.windows, strict=True)]
    # The first window is searched by tuples of the second stream, which go down a column of m workers.
    hops = searched[0] * (m - 1) / 2 + searched[1] * (n - 1) / 2
    return mean_pairs(layout, load) + HOP_PAIRS * hops


def choose_sides(workers: int, load: Load) -> tuple[int, int]:
    """Return the rows and columns of about ``workers`` workers with the least mean latency.

    A tenth of the workers may stay without work. Of equals that layout is chosen which cuts up the larger window.

    Examples
    --------
    >>> choose_sides(16, Load((1000.0, 3000.0), (300_000.0, 900_000.0)))
    (3, 5)
    """
    least = math.ceil(workers * (1 - _IDLE_MAX))
    layouts = [(m, count // m) for count in range(least, workers + 1) for m in range(1, count + 1) if count % m == 0]
    larger = 1 if load.windows[1] >= load.windows[0] else 0
    return min(layouts, key=lambda layout: (delay_pairs(layout, load), -layout[larger]))


def best_sides(cells: int, weights: Sequence[float]) -> tuple[int, ...]:
    """Return the sides of ``cells`` cells with the least sum of weight / side; of equals the squarest."""

    def cost(sides: tuple[int, ...]) -> tuple[float, int]:
        return sum(weight / side for weight, side in zip(weights, sides, strict=True)), max(sides) - min(sides)

    return min(_factors(cells, len(weights)), key=cost)


def _factors(product: int, count: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to write ``product`` as ``count`` factors."""
    if count == 1:
        yield (product,)
        return
    for first in range(1, product + 1):
        if product % first == 0:
            for rest in _factors(product // first, count - 1):
                yield (first, *rest)
