"""The inner loop over one basic window, by its size: the three variants, and what it costs to bring a window in.

The loops are those of ``bench kernel``: the C++ variants where there is a compiler, and ours. A call from Python
costs more than a basic window, so every call compares many probes with it, and the time is that of a unit block of
four (CellJoin, section 3.2: what fits into one vector of the Cell).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from crosswind.bench.baseline import VARIANTS, BaselineMissingError, load_baseline
from crosswind.bench.probing import columns
from crosswind.bench.record import interleave
from crosswind.bench.workload import BandWorkload
from crosswind.lab.celljoin.counters import cycles_per_instruction
from crosswind.lab.celljoin.model import TransferModel
from crosswind.lab.setting import Setting

__all__ = ["UNIT_BLOCK", "WINDOW_BYTES", "Loops", "fit", "measure_loops"]

UNIT_BLOCK = 4
"""Tuples that probe at once in the paper's figure 7."""

WINDOW_BYTES = (64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384)
"""Sizes of basic windows, bytes of join attributes: those of the paper."""

_TUPLE_BYTES = 8
_PAIRS_A_CALL = {True: 4_000_000, False: 40_000_000}
_MEMORY = 1 << 28
"""Bytes to bring basic windows from: more than any cache holds."""


@dataclass(frozen=True)
class Loops:
    """Nanoseconds per unit block, by variant, and for bringing a basic window in, each by :data:`WINDOW_BYTES`.

    ``cpi`` has the cycles per instruction by variant, where the processor tells them.
    """

    block_ns: dict[str, tuple[float, ...]]
    fetch_ns: tuple[float, ...]
    how: str
    cpi: dict[str, float] = field(default_factory=dict)

    def byte_ns(self, variant: str) -> tuple[float, ...]:
        """Return nanoseconds a byte of a basic window."""
        return tuple(taken / size for taken, size in zip(self.block_ns[variant], WINDOW_BYTES, strict=True))

    def transfer_model(self) -> TransferModel:
        """Return the paper's model of basic windows, with the constants of these loops (section 8.1.3)."""
        issue, fetch = fit(WINDOW_BYTES, self.fetch_ns)
        begin, match = fit(WINDOW_BYTES, self.block_ns["unrolled"])
        return TransferModel(issue, fetch, begin, match)


def measure_loops(setting: Setting) -> Loops | None:
    """Measure every variant at every size; None without a C++ compiler."""
    quick = setting.quick
    try:
        baseline = load_baseline()
    except BaselineMissingError:
        return None
    workload = BandWorkload(1_000, 60_000_000, seed=setting.seed)
    window = columns(workload.table("S", 0, max(WINDOW_BYTES) // _TUPLE_BYTES))
    probes = columns(workload.table("R", 0, _PAIRS_A_CALL[quick] // (min(WINDOW_BYTES) // _TUPLE_BYTES)))

    def run(variant: str, size: int) -> float:
        tuples = size // _TUPLE_BYTES
        count = _PAIRS_A_CALL[quick] // tuples
        part = (window[0][:tuples], window[1][:tuples])
        _, seconds = baseline.scan(variant, part, (probes[0][:count], probes[1][:count]))
        return seconds / (count / UNIT_BLOCK) * 1e9

    tasks = {f"{variant} {size}": partial(run, variant, size) for variant in VARIANTS for size in WINDOW_BYTES}
    for task in list(tasks.values()):
        task()
    runs = interleave(tasks, 3 if quick else 7, lambda _: None)
    # The least: what else runs on the machine only ever adds.
    best = {name: min(values) for name, values in runs.items()}
    return Loops(
        {variant: tuple(best[f"{variant} {size}"] for size in WINDOW_BYTES) for variant in VARIANTS},
        _fetch_ns(),
        baseline.how,
        _cpi(run),
    )


def _cpi(run: Callable[[str, int], float]) -> dict[str, float]:
    """Return the cycles per instruction of each variant over a basic window of 8 KB, if the processor tells them."""
    found = {variant: cycles_per_instruction(partial(run, variant, 8_192)) for variant in VARIANTS}
    return {variant: value for variant, value in found.items() if value is not None}


def _fetch_ns() -> tuple[float, ...]:
    """Return what it takes to bring a basic window of each size from memory to a place of its own."""
    memory = np.ones(_MEMORY, dtype=np.uint8)
    generator = np.random.default_rng(1)
    found = []
    for size in WINDOW_BYTES:
        rows = memory.reshape(-1, size)
        wanted = generator.permutation(len(rows))[: max(64, (1 << 24) // size)]
        room = np.empty((len(wanted), size), dtype=np.uint8)
        taken = []
        for _ in range(3):
            began = time.perf_counter()
            np.take(rows, wanted, axis=0, out=room, mode="clip")
            taken.append((time.perf_counter() - began) / len(wanted) * 1e9)
        found.append(min(taken))
    return tuple(found)


def fit(sizes: tuple[int, ...], taken_ns: tuple[float, ...]) -> tuple[float, float]:
    """Return alpha and beta of ``taken = alpha + beta * size`` (CellJoin, section 6), alpha not below 0."""
    # Relative errors count alike: what is wanted is where the small sizes begin to cost.
    weights = 1.0 / np.array(taken_ns)
    beta, alpha = np.polyfit(np.array(sizes, dtype=float), np.array(taken_ns), 1, w=weights)
    return max(0.0, float(alpha)), float(beta)
