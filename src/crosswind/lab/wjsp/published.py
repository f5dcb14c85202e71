"""What the paper states in numbers, and what of it software cannot show.

The values plotted in Figure 5 are not given in the text, only how the processor compares with
STREAM at its ends (section 5).
"""

from __future__ import annotations

__all__ = [
    "CLOCK_MHZ",
    "NOT_SHOWN",
    "PLACES",
    "STREAM_AT_LEAST",
    "STREAM_PLACE",
    "TABLE_1",
    "TUPLE_BITS",
    "UNITS",
    "WINDOWS",
]

UNITS = (1, 2, 4, 8, 16, 32, 64)
"""Basic join units of a multi-core one (Table 2)."""

CLOCK_MHZ = (115.97, 115.75, 103.53, 92.58, 84.60, 69.30, 51.87)
"""Highest clock with as many units (Table 2)."""

PLACES = 4096
"""Tuples that a multi-core unit holds, however many units it has (Table 2)."""

TUPLE_BITS = 152
"""Bits of a tuple: three tuples, a routing tag, a greatest and a least timestamp (section 3.1, Figure 2)."""

WINDOWS = (500, 1000, 2000, 4000)
"""Longest window of the queries, one part of Figure 5 each (section 5)."""

STREAM_AT_LEAST = 10.0
STREAM_PLACE = "section 5, Figure 5"
"""With 64 units the processor is more than ten times as fast as STREAM, which is a little faster than one unit
(section 5)."""

TABLE_1 = (
    0b0011_0001_0000_1000_0000,
    0b0011_0101_0100_1000_0010,
    0b0011_1001_0100_1000_0100,
    0b0001_0000_0000_0000_0000,
    0b1100_0000_0000_1001_0000,
    0b1000_0000_0000_1001_0001,
    0b0100_0000_0100_0000_1100,
    0b0010_0000_0000_0001_0000,
    0b0010_0000_0100_0001_0100,
    0b0010_0100_0000_0001_1000,
    0b0010_0100_0100_0001_1100,
    0b0000_1000_0001_1100_0000,
    0b0100_0011_0000_0000_1110,
    0b0010_0000_0000_0100_0000,
    0b0000_0000_0000_0000_0000,
)
"""The program of the unit of R, word by word (Table 1)."""

NOT_SHOWN = (
    (
        "table-2 (resources)",
        "Logic (1 % to 89 %) and memory (17 %) of an EP3SL200F1517C2 follow from synthesis; the clock rates are taken "
        "from the table as they are, a model cannot find them.",
    ),
    (
        "figure-5 (STREAM)",
        "STREAM 0.6.0 on a Pentium 4 of 2.4 GHz is not run here and its values are not in the text; our software on "
        "this machine stands in its place.",
    ),
)
