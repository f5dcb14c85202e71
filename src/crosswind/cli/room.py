"""The way from the command line to Spark, which may not be installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from crosswind.errors import SparkError

__all__ = ["spark_room"]

_NEEDED = ("pyspark", "pandas", "google", "grpc")


@contextmanager
def spark_room() -> Iterator[None]:
    """Say how to install Spark where it is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _NEEDED:
            raise
        raise SparkError(
            f"this runs on Spark, and the Python package '{package}' is not installed. Type:\n"
            "  pip install 'crosswind[spark]'\n"
            "or run it in one process: --engine local."
        ) from error
