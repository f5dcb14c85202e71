"""What the CellJoin paper says in numbers; its curves are drawn in the paper and not given as numbers."""

from __future__ import annotations

__all__ = [
    "BATCH_BYTES_ENOUGH",
    "BEST_SIZE_GAIN",
    "CORES",
    "NOT_SHOWN",
    "PLAIN_TO_UNROLLED",
    "SUSTAINED",
    "VECTORS_TO_UNROLLED",
    "XEON_RATIO",
]

PLAIN_TO_UNROLLED = 10.0
"""Figure 7: cycles of the plain loop to those of the unrolled one, from 128 bytes on (section 8.1.1)."""

VECTORS_TO_UNROLLED = 1.8
"""Figure 7: cycles of vectors without unrolling to those of the unrolled loop."""

SUSTAINED = {"plain": 500.0, "vectors": 750.0, "unrolled": 1_000.0}
"""Figure 10: tuples/s a stream without a dropped tuple; 8 SPEs, 15-minute windows (section 8.2.1)."""

CORES = 8
"""SPEs of figure 10; figure 11 says that N of them give twice the output of half as many (section 8.2.2)."""

XEON_RATIO = 8.3
"""Figure 11: output of 8 SPEs to that of a dual Xeon of the day."""

BATCH_BYTES_ENOUGH = 128.0
"""Figure 12: beyond this batch size gains are insignificant (section 8.2.3)."""

BEST_SIZE_GAIN = 1.10
"""Figure 13: the worst basic window costs up to this times the best (section 8.2.4)."""

NOT_SHOWN = (
    (
        "figure-8",
        "cycles an instruction: read off IBM's simulator of the Cell there; here it would take the processor's own "
        "counters, which virtual machines do not hand out",
    ),
    ("figures-1-to-6", "drawings of the processor and of the method, nothing that is measured"),
)
