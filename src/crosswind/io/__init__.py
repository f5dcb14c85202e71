"""Data in and out: Arrow in every shape, sources and sinks of job files."""
