"""A join as a notebook shows it: what came, what waits, what was found."""

from __future__ import annotations

import html

from crosswind.engine.stats import Stats

__all__ = ["stats_html"]

_STYLE = (
    "<style>.crosswind-join{font:13px/1.45 system-ui,sans-serif;border:1px solid #8884;border-radius:6px;"
    "padding:8px 12px;display:inline-block}.crosswind-join table{border-collapse:collapse}"
    ".crosswind-join td,.crosswind-join th{padding:2px 10px;text-align:right}"
    ".crosswind-join th:first-child,.crosswind-join td:first-child{text-align:left}"
    ".crosswind-join .bar{background:#2563eb55;height:8px;border-radius:4px;display:inline-block}</style>"
)
_BAR_PX = 120


def stats_html(title: str, stats: Stats) -> str:
    """Return the counters of a join as HTML that stands by itself."""
    fullest = max(1, *stats.window_tuples.values())
    windows = "".join(
        f"<tr><td>{html.escape(alias)}</td><td>{count:,}</td>"
        f'<td><span class="bar" style="width:{round(_BAR_PX * count / fullest)}px"></span></td>'
        f"<td>{html.escape(stats.index.get(alias, ''))}</td></tr>"
        for alias, count in stats.window_tuples.items()
    )
    streams = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{count:,}</td><td>{stats.late.get(name, 0):,}</td>"
        f"<td>{stats.rejected.get(name, 0):,}</td><td>{stats.shed.get(name, 0):,}</td></tr>"
        for name, count in stats.tuples_in.items()
    )
    latency = (
        ", ".join(
            f"{name} {value:,.0f} ms" if value >= 100 else f"{name} {value:.3g} ms"
            for name, value in stats.latency_ms.items()
        )
        or "no push yet"
    )
    return (
        f'{_STYLE}<div class="crosswind-join"><b>{html.escape(title)}</b>'
        "<table><tr><th>stream</th><th>tuples</th><th>late</th><th>without time</th><th>shed</th></tr>"
        f"{streams}</table>"
        f"<table><tr><th>window</th><th>tuples</th><th></th><th>index</th></tr>{windows}</table>"
        f"{stats.results:,} results; {html.escape(stats.engine)}; {stats.bytes_held / 1e6:,.1f} MB; "
        f"latency of a push: {latency}</div>"
    )
