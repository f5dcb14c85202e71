"""Seeing a join run: one reading of it, shown in a terminal, on a page, and to Prometheus.

A :class:`~crosswind.monitor.reading.Reading` is what is known of a job at a moment. A
:class:`~crosswind.monitor.recorder.Recorder` takes readings, wherever they come from, and derives rates; the
terminal, the page (``page``) and the metrics (``metrics``) show what it has, and nothing else. Imports none of
the other rooms.
"""
