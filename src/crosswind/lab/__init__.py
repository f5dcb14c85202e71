"""The lab: the papers' experiments, run again on this machine or in simulation, beside what was published.

One folder a paper. Its docstring is the paper's claim; ``published.py`` holds the published points and what is
not shown, with the reason; ``figures.py`` runs the experiments and returns :class:`~crosswind.lab.figure.Figure`
objects. Everything else here lists the papers, draws figures and writes the report. ``crosswind lab`` runs it.
"""
