"""Results in the shape that their user works with: Arrow, pandas or polars."""

from __future__ import annotations

import importlib
from typing import Any

import pyarrow as pa

from crosswind.errors import InputError, did_you_mean

__all__ = ["FORMS", "reshape"]

FORMS = ("arrow", "pandas", "polars")


def reshape(table: pa.Table, form: str) -> Any:
    """Return ``table`` as a pyarrow.Table, a pandas or a polars DataFrame."""
    if form == "arrow":
        return table
    if form not in FORMS:
        raise InputError(f"form={form!r} is not known; allowed: {', '.join(FORMS)}.{did_you_mean(str(form), FORMS)}")
    try:
        library = importlib.import_module(form)
    except ImportError:
        raise InputError(f"form={form!r} needs {form}, which is not installed; install it, or take 'arrow'.") from None
    return table.to_pandas() if form == "pandas" else library.from_arrow(table)
