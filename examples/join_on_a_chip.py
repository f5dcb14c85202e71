"""Two join processors on chips, clock by clock: handshake join as a circuit, and WJSP with its own programs.

Prints the first clocks in which a small circuit compares tuples, what 64 cores take in by match
rate, and how many clocks the nine queries of the WJSP paper cost with one join unit a stream and
with 64.

Run it with ``python examples/join_on_a_chip.py``.
"""

from __future__ import annotations

from itertools import islice

import numpy as np

from crosswind.lab.fpga.join import ChipArrivals, Settings, run
from crosswind.lab.fpga.nested import run_nested
from crosswind.lab.fpga.trace import trace
from crosswind.lab.fpga.workload import matching
from crosswind.lab.wjsp.processor import Processor
from crosswind.lab.wjsp.processor import run as run_processor
from crosswind.lab.wjsp.workload import input_of, nine_texts, plan_of


def main() -> None:
    """Run both machines."""
    arrivals = ChipArrivals.both(np.array([7, 3, 5]), np.array([7, 5, 3]))
    clocks = trace(arrivals, Settings(cores=2, segment=2), flush=True)
    print("\n".join(islice((clock for clock in clocks if "compares" in clock), 4)))
    print()
    for rate in (0.0, 0.01, 0.1, 0.7):
        fed = matching(1024, rate, seed=1)
        cores, nested = run(fed), run_nested(fed)
        print(f"{100 * rate:>5g} % match: 64 cores {cores.input_rate():6.3f} M tuples/s, nested loop", end=" ")
        print(f"{nested.input_rate():6.3f}; {len(cores.results):>7,} results, {cores.lost} lost")
    print()
    plan = plan_of(nine_texts(100))
    fed = input_of(110, seed=1)
    for units in (1, 64):
        outcome = run_processor(Processor.of(plan, cores=units), fed, warm=300)
        print(f"nine queries, {units:>2} units a stream: {outcome.clocks_each.mean():>9,.0f} clocks for a tuple")


if __name__ == "__main__":
    main()
