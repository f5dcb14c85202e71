"""What the paper states in numbers, and what of it software cannot show.

The values plotted in Figures 10 to 13 are not given in the text. What is kept here is what the
text says of them; the one set of numbers that can be laid over ours point by point is in the handshake
join paper this one builds on (Teubner and Mueller 2011, section 6.5, Table 1).
"""

from __future__ import annotations

__all__ = ["BUFFERS", "CLOCK_MHZ", "CORES", "NOT_SHOWN", "RATE_500K_CORES", "RATE_500K_PLACE", "SEGMENT"]

CORES = (2, 4, 8, 16, 32, 64)
"""Configurations that were built ("from 2 up to 64", six of them; section V-B)."""

SEGMENT = 8
"""Tuples of either stream that a join core keeps (section V-B)."""

BUFFERS = (8, 4)
"""Places in the FIFO of a join core and of a merger (section V-C)."""

CLOCK_MHZ = 100.0
"""Clock of the measurements (section V-C)."""

RATE_500K_CORES = {1: 50.0, 2: 25.0, 5: 10.0, 10: 5.0}
"""Clock in MHz at which windows of 100 tuples take 500,000 tuples/s, by cores."""

RATE_500K_PLACE = "Teubner and Mueller 2011, section 6.5, Table 1"

NOT_SHOWN = (
    (
        "figure-10",
        "The highest clock of the synthesised circuit (stated: nearly 150 MHz for 2 to 64 cores) is a property of a "
        "chip and its tools.",
    ),
    (
        "figure-11",
        "Slices used (stated: nearly 80 % with 64 cores, 128 did not fit) follow from synthesis; a model has none.",
    ),
    ("table-1", "The resources of the chip, an XC6VLX240T: nothing to reproduce."),
)
