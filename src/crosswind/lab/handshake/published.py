"""What the Handshake Join paper says in numbers, with its words."""

from __future__ import annotations

from crosswind.lab.verdict import Stated

__all__ = [
    "ADVANTAGE",
    "CELLJOIN_8",
    "NOT_SHOWN",
    "POWER",
    "POWER_CORES",
    "SUSTAINED_8",
    "VECTOR_GAIN",
    "WEIGHTED",
]

SUSTAINED_8 = Stated(1_400.0, "section 5.4, Figure 16", "With eight CPU cores, handshake join sustained a load of 1400")
"""Tuples/s of each stream with 8 cores and 15-minute windows; the text has no other point of Figure 16."""

VECTOR_GAIN = Stated(2.0, "section 5.3, Figure 15", "can sustain more than double the load of the non-optimized code")

CELLJOIN_8 = {
    "vectors": Stated(750.0, "section 5.4", "a sustained throughput of at most 750 tuples/sec"),
    "vectors, unrolled": Stated(1_000.0, "section 5.4", "pushed throughput up to 1000 tuples/sec"),
}
"""What the paper quotes for CellJoin with eight cores and 15-minute windows."""

ADVANTAGE = (2.0, 3.5)
"""Handshake Join to CellJoin with eight cores, in load: "a 2-3.5-fold advantage" (section 5.4)."""

POWER_CORES = (1, 2, 5, 10)
POWER = {
    "clock (MHz)": (50.0, 25.0, 10.0, 5.0),
    "dynamic (mW)": (100.0, 64.0, 62.0, 68.0),
    "static (mW)": (4398.0, 4396.0, 4395.0, 4306.0),
    "total (mW)": (4498.0, 4459.0, 4447.0, 4464.0),
    "lookup tables (%)": (1.54, 1.59, 2.01, 2.78),
}
"""Table 1 (section 6.5): windows of 100 tuples, 500,000 tuples/s."""

WEIGHTED = {
    "dynamic (mW)": (100.0, 64.0, 62.0, 68.0),
    "static (mW)": (68.0, 69.0, 88.0, 120.0),
    "total (mW)": (168.0, 133.0, 150.0, 188.0),
}
"""Table 2 (section 6.5): static power weighted by the share of the chip that is used."""

NOT_SHOWN = (
    ("figures-1-to-14", "drawings of the method and of the machine, nothing that is measured"),
    (
        "figure-16-curves",
        "the text states one point, 1,400 tuples/s with eight cores; the others are only drawn, and are not read off",
    ),
    ("figure-17", "a drawing of the circuit"),
    ("figure-18", "clock frequencies of synthesised circuits: software has no clock to choose; see the paper 'fpga'"),
)
