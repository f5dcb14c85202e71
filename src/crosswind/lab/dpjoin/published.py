"""What the DP-Join paper says in numbers."""

from __future__ import annotations

__all__ = [
    "ASYMMETRIC_MS",
    "BANDWIDTH",
    "HANDSHAKE_LATENCY_S",
    "HIT_RATE",
    "LATENCY_16_MS",
    "MAXIMUM_OUTPUT",
    "MODEL_ERROR",
    "NOT_SHOWN",
    "SEQUENTIAL_GAIN",
    "WORKERS_NEEDED",
]

HIT_RATE = 3.6e-6
MAXIMUM_OUTPUT = 9_526.0
"""Figure 4: results/s by equation 3 at 2,100 tuples/s a stream and 300-second windows."""

MODEL_ERROR = 0.02
"""Figure 4: equation 3 and the measured maximum differ by less than this."""

WORKERS_NEEDED = {"linear": 7, "rectangular": 8, "square": 9}
"""Figure 4: workers that reach the maximum, by layout."""

SEQUENTIAL_GAIN = 1.24
"""Figure 5: DP-Join to Handshake Join with one worker, in output."""

BANDWIDTH = {
    "square": {9: 14_047.0, 16: 21_740.0},
    "rectangular": {6: 9_301.0, 16: 21_700.0},
    "linear": {6: 8_529.0, 9: 13_599.0, 16: 21_659.0},
}
"""Table I: results/s by layout and workers, 6,000 tuples/s a stream, 300-second windows."""

LATENCY_16_MS = {"square": 0.95, "linear": 2.42}
"""Figure 6a: mean latency of 16 workers, 2,500 tuples/s, 300-second windows."""

HANDSHAKE_LATENCY_S = 67.0
"""Figure 6: mean latency of Handshake Join with 16 workers and 300-second windows."""

ASYMMETRIC_MS = {(3, 5): 0.26, (4, 4): 0.30}
"""Figure 7a: mean latency by layout, 1,000 and 3,000 tuples/s, 300-second windows."""

NOT_SHOWN = (
    ("figures-1-to-3", "drawings of the method, nothing that is measured"),
    (
        "figures-4-to-7-curves",
        "the curves are drawn without numbers; what the text and Table I state is laid over ours, the rest is not "
        "read off the drawing",
    ),
    ("figure-5b-multithreading", "17 to 32 workers on 16 cores: two threads a core are not to be had here"),
)
