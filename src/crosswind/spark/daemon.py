"""The process from which Spark forks its Python workers, with all that a join needs loaded.

A plain worker imports NumPy, Arrow, pandas and Numba by itself: seconds of a core, paid again by every worker
that Spark adds. Here they are imported once; a forked worker has them at once and shares their memory. Spark
runs this module when ``spark.python.daemon.module`` names it (:func:`crosswind.spark.settings`).
"""

from __future__ import annotations

import gc
import os

__all__ = ["main"]


def main() -> None:
    """Load what workers need, then serve forks as PySpark's own daemon does."""
    # A process that is forked should have no threads; NumPy's linear algebra, which no join uses, would start some.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    import pyspark.worker  # noqa: F401
    from pyspark.daemon import manager

    import crosswind.engine.probe.engine
    import crosswind.spark.operator
    import crosswind.spark.static  # noqa: F401
    from crosswind.kernel.jit import load_compiler

    load_compiler()
    # A worker collects garbage after every task. What is loaded by now stays; to look through it again takes
    # longer than most tasks of a micro-batch, and would make forked workers copy the memory that they share.
    gc.collect()
    gc.freeze()
    manager()


if __name__ == "__main__":
    main()
