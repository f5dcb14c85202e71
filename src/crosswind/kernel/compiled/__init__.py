"""Kernels that do not depend on the query: ordinary functions, compiled when they are first needed."""
