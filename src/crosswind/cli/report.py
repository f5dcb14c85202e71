"""Figures on the terminal: aligned lines, durations, rates."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["figures", "held_on_spark", "megabytes", "milliseconds", "per_second", "quantile", "say", "show_rows"]


def say(text: str, *, err: bool = False) -> None:
    """Print what is said of a job, without the secrets in it."""
    from crosswind.io.environment import redact

    click.echo(redact(text), err=err)


def figures(lines: Mapping[str, str]) -> str:
    """Return one line a figure, names and values aligned."""
    width = max(map(len, lines), default=0)
    return "\n".join(f"  {name:<{width}}  {value}" for name, value in lines.items())


def show_rows(table: pa.Table, without: Collection[str] = ()) -> list[str]:
    """Return the rows of ``table`` as text, save the columns in ``without``."""
    return [
        ", ".join(f"{name}={_value(value)}" for name, value in row.items() if name not in without)
        for row in table.to_pylist()
    ]


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def megabytes(count: int) -> str:
    """Return a number of bytes in MB."""
    return f"{count / 1e6:,.1f} MB"


def held_on_spark(tuples: int, state_bytes: int) -> str:
    """Return what waits in the windows of all cells, and what is meant by that."""
    return (
        f"{tuples:,} tuples, {megabytes(state_bytes)} as columns in the state of all cells (no index, no old versions)"
    )


def milliseconds(seconds: float) -> str:
    """Return ``seconds`` in milliseconds, with three digits where that is meaningful."""
    value = seconds * 1_000
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.3g} ms"


def per_second(count: int, seconds: float) -> str:
    """Return ``count`` in ``seconds`` as a rate."""
    return f"{count / seconds:,.0f}/s" if seconds > 0 else "-"


def quantile(values: Sequence[float], q: float) -> float:
    """Return the least of ``values`` that at least the share ``q`` of them does not exceed."""
    ranked = sorted(values)
    position = min(len(ranked) - 1, max(0, -int(-q * len(ranked) // 1) - 1))
    return ranked[position]
