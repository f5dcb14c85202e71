"""Benchmarks: what is asked of Crosswind, measured on the machine at hand.

One file a benchmark, each with a function ``measure`` that returns a
:class:`~crosswind.bench.record.BenchReport`; ``crosswind bench`` runs them.
"""
