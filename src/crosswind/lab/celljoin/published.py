"""What the CellJoin paper says in numbers, with its words; its curves are drawn there and not given as numbers."""

from __future__ import annotations

from crosswind.lab.verdict import Stated

__all__ = [
    "BAND_OUTPUT",
    "BATCH_BYTES_ENOUGH",
    "BEST_SIZE_GAIN",
    "CORES",
    "CPI_BEST",
    "CPI_EFFECTIVE",
    "CPI_PLAIN",
    "DATA_RATE",
    "LARGEST_BYTES",
    "LINE_BYTES",
    "NOT_SHOWN",
    "OUTPUT_DOUBLES",
    "PLAIN_TO_UNROLLED",
    "SUSTAINED",
    "VECTORS_TO_UNROLLED",
    "XEON_RATIO",
]

PLAIN_TO_UNROLLED = Stated(
    10.0, "section 8.1.1, Figure 7", "the non-SIMD join has around 10 times the processing cycles"
)
VECTORS_TO_UNROLLED = Stated(1.8, "section 8.1.1, Figure 7", "has around 1.8 times the processing cycles")
LINE_BYTES = Stated(128.0, "section 8.1.1, Figure 7", "basic window sizes smaller than or equal to 128bytes")

CPI_PLAIN = Stated(1.46, "section 8.1.2, Figure 8", "Non-SIMD join has up to 46% higher CPI compared to SIMD join")
CPI_EFFECTIVE = {
    "plain loop": Stated(1.54, "section 8.1.2, Figure 8", "whereas for Non-SIMD join this number is 54%"),
    "vectors": Stated(1.45, "section 8.1.2, Figure 8", "SIMD-Noopt has 45% higher effective CPI compared to SIMD join"),
}
"""Cycles per instruction, to those of the unrolled loop; *effective* leaves out instructions that do nothing."""
CPI_BEST = Stated(1.5, "section 8.1.2, Figure 8", "the best CPI the SIMD join can achieve is observed to be around 1.5")

LARGEST_BYTES = Stated(16_384.0, "section 6", "limits the size of DMA transfers to 16 KBs")

SUSTAINED = {
    "plain": Stated(500.0, "section 8.2.1, Figure 10", "around 500 tuples/sec for No-SIMD join"),
    "vectors": Stated(750.0, "section 8.2.1, Figure 10", "around 750 tuples/sec for SIMD-Noopt join"),
    "unrolled": Stated(1_000.0, "section 8.2.1, Figure 10", "up to input rate of 1000 tuples/sec"),
}
"""Tuples/s of each stream without a dropped tuple; 8 SPEs, 15-minute windows."""

BAND_OUTPUT = {
    "plain": Stated(3.5, "section 8.2.1, Figure 10", "up to 250% higher join output rate compared to No-SIMD join"),
    "vectors": Stated(1.33, "section 8.2.1, Figure 10", "33% better output rate compared to SIMD-Noopt join"),
}
"""Output of the unrolled loop, in times of the others'."""

DATA_RATE = Stated(13.4, "section 8.2.1", "the join is able to reach a data processing rate of 13.4 GB/sec")
"""GB/s of join attributes, by the sum over both streams of rate * (rate * window * size)."""

CORES = 8
"""SPEs of figure 10."""

OUTPUT_DOUBLES = Stated(2.0, "section 8.2.2, Figure 11", "since the maximum output rate supported by")
XEON_RATIO = Stated(8.3, "section 8.2.2, Figure 11", "around 8.3 times higher output rate compared to the Intel Xeon")
BATCH_BYTES_ENOUGH = Stated(
    128.0, "section 8.2.3, Figure 12", "increasing the batch size beyond 128 bytes brings insignificant gains"
)
BEST_SIZE_GAIN = Stated(
    1.10, "section 8.2.4, Figure 13", "can cause up to 10% increase in average tuple processing time"
)

NOT_SHOWN = (("figures-1-to-6", "drawings of the processor and of the method, nothing that is measured"),)
