"""Kernels that depend on the query: writers of their source."""
