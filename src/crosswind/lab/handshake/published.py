"""What the Handshake Join paper says in numbers."""

from __future__ import annotations

__all__ = ["CELLJOIN_8", "NOT_SHOWN", "SUSTAINED_15_MIN", "VECTOR_GAIN"]

SUSTAINED_15_MIN = {4: 995.0, 8: 1_405.0, 20: 2_216.0, 32: 2_807.0, 44: 3_290.0}
"""Figure 16: tuples/s of each stream by cores, 15-minute windows, vectors."""

VECTOR_GAIN = 2.0
"""Figure 15: vectors sustain more than this times the load of the plain code (section 5.3)."""

CELLJOIN_8 = {"vectors": 750.0, "vectors, unrolled": 1_000.0}
"""What section 5.4 quotes for CellJoin with eight cores and 15-minute windows."""

NOT_SHOWN = (
    ("figures-1-to-14", "drawings of the method and of the machine, nothing that is measured"),
    (
        "figure-16-10-minutes",
        "the paper draws a line for 10-minute windows without numbers; ours is in figure-16, nothing is laid over it",
    ),
    ("figure-17", "a drawing of the circuit"),
    ("figure-18", "clock frequencies of synthesised circuits: software has no clock to choose; see the paper 'fpga'"),
    ("tables-1-and-2", "power and chip area of circuits: they need the chip"),
)
