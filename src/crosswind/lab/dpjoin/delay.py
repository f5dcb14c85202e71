"""DP-Join's figures 6 and 7: latency by layout, against equations 5 to 7, and Handshake Join's beside it."""

from __future__ import annotations

from crosswind.bench.scale import model_row_latency_s
from crosswind.engine.layout import Load, mean_pairs
from crosswind.lab.costs import Costs, measure_costs
from crosswind.lab.dpjoin import published
from crosswind.lab.dpjoin.runs import LAYOUTS, latency_ms, load_of, row_lateness
from crosswind.lab.dpjoin.simulate import Layout, called, layouts_of, streamed
from crosswind.lab.figure import Figure, Series
from crosswind.lab.loads import BANDS

__all__ = ["figure_6_handshake", "figure_6a", "figure_6b", "figure_7a", "figure_7b"]

_SIXTEEN: dict[str, Layout] = {"square": (4, 4), "rectangular": (2, 8), "linear": (1, 16)}
_DEGREES = (2, 4, 6, 8, 9, 12, 16)
_KINDS = ("square", "rectangular", "linear")


def _costs() -> Costs:
    return measure_costs("grid", BANDS)


def _silent(costs: Costs) -> Costs:
    """Return ``costs`` without those of messages and of the caller: what equations 5 to 7 speak of."""
    return Costs(costs.pair_ns, 0.0, 0.0, 0.0, 0.0)


def _model_ms(layout: Layout, load: Load, costs: Costs) -> float:
    """Return the mean latency by equations 5 and 6."""
    return mean_pairs(layout, load) * costs.pair_ns * 1e-6


def _against_real(
    rates: tuple[int, int], windows_s: tuple[int, int], quick: bool, costs: Costs
) -> tuple[Series, Series, str]:
    """Return the latency until results are handed over with one and two workers: real, simulated, and the error."""
    load = load_of(rates, windows_s)
    seconds = 1.5 if quick else 10.0
    real = tuple(latency_ms(rates, windows_s, seconds, layout) for layout in LAYOUTS.values())
    guess = tuple(called(layout, load, costs).done_s * 1e3 for layout in LAYOUTS.values())
    places = tuple(map(float, LAYOUTS))
    error = ", ".join(f"{g / r - 1:+.0%} at {n}" for g, r, n in zip(guess, real, LAYOUTS, strict=True))
    label = "until handed over, this engine"
    return (
        Series(label, places, real, "measured"),
        Series(label, places, guess, "simulated"),
        f"Latency until results are handed over by a push, simulated against real: {error} workers.",
    )


def _order(taken: dict[str, float]) -> str:
    """Return names and values, least first."""
    return ", ".join(f"{name} {taken[name]:.3g} ms" for name in sorted(taken, key=lambda name: taken[name]))


def figure_6a(quick: bool) -> Figure:
    """Show the mean latency of 16 workers by layout."""
    costs, load = _costs(), load_of((2_500, 2_500), (300, 300))
    columns = tuple(float(layout[1]) for layout in _SIXTEEN.values())
    silent = tuple(streamed(layout, load, _silent(costs)).found_s * 1e3 for layout in _SIXTEEN.values())
    loud = tuple(streamed(layout, load, costs).found_s * 1e3 for layout in _SIXTEEN.values())
    model = tuple(_model_ms(layout, load, costs) for layout in _SIXTEEN.values())
    theirs = tuple(published.LATENCY_16_MS.values())
    _, _, note = _against_real((2_500, 2_500), (300, 300), quick, costs)
    return Figure(
        "dpjoin",
        "figure-6a",
        "Latency of 16 workers by layout, streams alike",
        "The square layout answers soonest, 0.95 ms on average, the linear one after 2.42 ms, a rectangular one lies "
        "between them (2,500 tuples/s, 300-second windows).",
        "columns of the layout (16 workers)",
        "mean latency, ms",
        (
            Series("until found", (4.0, 16.0), theirs, "published"),
            Series("until found, equations 5 to 7", columns, model, "simulated"),
            Series("until found, messages cost nothing", columns, silent, "simulated"),
            Series("until found, with message costs", columns, loud, "simulated"),
        ),
        f"Soonest first, the simulation has {_order(dict(zip(_SIXTEEN, silent, strict=True)))} (published: square, "
        f"rectangular, linear); the linear layout takes {silent[2] / silent[0]:.1f} times as long as the square one "
        f"(published: {theirs[1] / theirs[0]:.1f} times). Equations 5 to 7 and the simulation differ by at most "
        f"{max(abs(a / b - 1) for a, b in zip(model, silent, strict=True)):.0%}.",
        f"A scan of the window takes {theirs[0] / silent[0]:.0f} times less than there, so that waking sleeping "
        f"workers ({costs.hop_ns / 1e3:.1f} us each) weighs more than it did for the paper's threads, which never "
        f"slept: with it, layouts take {', '.join(f'{value:.3g}' for value in loud)} ms.",
        "crosswind lab run dpjoin figure-6a",
        log_y=True,
        notes=(note,),
    )


def figure_6_handshake(quick: bool) -> Figure:
    """Show how late the results of a row of workers come."""
    window_s, rate = (20, 500) if quick else (60, 1_000)
    real = tuple(row_lateness(workers, window_s, rate) for workers in (1, 2, 4))
    places = (1, 2, 4, 8, 16, 32)
    model = tuple(model_row_latency_s(1.0, workers) for workers in places)
    theirs = published.HANDSHAKE_LATENCY_S / 300
    errors = ", ".join(
        f"{model[k] - value:+.3f} at {n}" for k, (n, value) in enumerate(zip((1, 2, 4), real, strict=True))
    )
    return Figure(
        "dpjoin",
        "figure-6-handshake",
        "How late Handshake Join's results come",
        "Handshake Join's mean latency is 67 s with 300-second windows and 16 workers: tuples stay T / N with each "
        "worker, whatever the rate.",
        "workers",
        "mean latency, in windows",
        (
            Series("row of workers", (16.0,), (theirs,), "published"),
            Series("row of workers", (1.0, 2.0, 4.0), real, "measured"),
            Series("row of workers, T / 4 (1 - 1 / N)", tuple(map(float, places)), model, "simulated"),
        ),
        f"With 2 workers results come {real[1]:.3f} windows late, with 4 {real[2]:.3f}; for 16 our estimate is "
        f"{model[4]:.3f}, which would be {300 * model[4]:.0f} s where 67 s were published. A grid answers in "
        "milliseconds, whatever the window.",
        "Lateness goes by the clock of the streams, so it could be measured with more workers than cores. The formula "
        "is "
        "ours; the paper states only how long a tuple stays with a worker.",
        "crosswind lab run dpjoin figure-6-handshake",
        notes=(f"Estimate less real, in windows: {errors} workers.",),
    )


def _by_degree(
    name: str,
    title: str,
    claim: str,
    load: Load,
    agrees: str,
    differs: str,
    more: tuple[Series, ...],
    notes: tuple[str, ...],
) -> Figure:
    costs = _silent(_costs())
    series = list(more)
    for kind in _KINDS:
        sides = [(n, layouts_of(n)[kind]) for n in _DEGREES]
        known = [(n, layout) for n, layout in sides if layout is not None]
        places = tuple(float(n) for n, _ in known)
        series.append(Series(kind, places, tuple(_best_ms(layout, load, costs) for _, layout in known), "simulated"))
    return Figure(
        "dpjoin",
        name,
        title,
        claim,
        "workers",
        "mean latency until found, ms",
        tuple(series),
        agrees,
        differs,
        f"crosswind lab run dpjoin {name}",
        log_y=True,
        notes=notes,
    )


def _best_ms(layout: Layout, load: Load, costs: Costs) -> float:
    """Return the latency of a layout, turned so that the larger window is cut up more."""
    m, n = layout
    turned = (m, n) if load.windows[1] >= load.windows[0] else (n, m)
    return streamed(turned, load, costs).found_s * 1e3


def figure_6b(quick: bool) -> Figure:
    """Show the mean latency by workers and layout, streams alike."""
    load = load_of((1_000, 1_000), (300, 300))
    costs = _costs()
    real, guess, note = _against_real((1_000, 1_000), (300, 300), quick, costs)
    by_kind = {kind: _best_ms(layout, load, _silent(costs)) for kind, layout in _SIXTEEN.items()}
    return _by_degree(
        "figure-6b",
        "Latency by workers and layout, streams alike",
        "The square layout is the best at every number of workers that has one, and latency falls with the workers "
        "(1,000 tuples/s, 300-second windows).",
        load,
        f"With 16 workers, soonest first: {_order(by_kind)} (published: square, rectangular, linear).",
        "Lines are without message costs, as equations 5 to 7 have it (see figure 6a for what those do here). The real "
        "points go to the return of push, with all rows made, not to where a match is found.",
        (real, guess),
        (note,),
    )


def figure_7a(quick: bool) -> Figure:
    """Show the mean latency by layout when one stream is faster."""
    rates = (1_000, 3_000)
    load, costs = load_of(rates, (300, 300)), _costs()
    real, guess, note = _against_real(rates, (300, 300), quick, costs)
    silent = _silent(costs)
    compared = {layout: streamed(layout, load, silent).found_s * 1e3 for layout in published.ASYMMETRIC_MS}
    ours, theirs = compared[3, 5] / compared[4, 4], 0.26 / 0.30
    return _by_degree(
        "figure-7a",
        "Latency by workers and layout, one stream three times as fast",
        "The larger window wants more columns: 3 x 5 workers answer in 0.26 ms, 4 x 4 in 0.30 ms (1,000 and 3,000 "
        "tuples/s, 300-second windows).",
        load,
        f"3 x 5 takes {ours:.2f} of the time of 4 x 4 in the simulation, with one worker less (published: "
        f"{theirs:.2f}).",
        f"A scan is faster by as much as the processor: 4 x 4 takes {compared[4, 4]:.3g} ms here and 0.30 ms there.",
        (
            Series("3 x 5", (15.0,), (published.ASYMMETRIC_MS[3, 5],), "published"),
            Series("4 x 4", (16.0,), (published.ASYMMETRIC_MS[4, 4],), "published"),
            Series("3 x 5", (15.0,), (compared[3, 5],), "simulated"),
            real,
            guess,
        ),
        (note,),
    )


def figure_7b(quick: bool) -> Figure:
    """Show the mean latency by layout when one window is longer."""
    windows = (150, 300)
    load, costs = load_of((1_000, 1_000), windows), _costs()
    real, guess, note = _against_real((1_000, 1_000), windows, quick, costs)
    silent = _silent(costs)
    by_layout = {(m, 16 // m): streamed((m, 16 // m), load, silent).found_s * 1e3 for m in (1, 2, 4, 8)}
    twelve = {(m, 12 // m): streamed((m, 12 // m), load, silent).found_s * 1e3 for m in (2, 3, 4)}
    best = min(twelve, key=lambda layout: twelve[layout])
    return _by_degree(
        "figure-7b",
        "Latency by workers and layout, one window twice as long",
        "Again a rectangular layout is the best: the longer window is cut up among more workers (windows of 150 and "
        "300 s, 1,000 tuples/s).",
        load,
        f"Of 12 workers {best[0]} x {best[1]} answers soonest; of 16, "
        + ", ".join(f"{m} x {n} takes {value:.3g} ms" for (m, n), value in by_layout.items())
        + ".",
        "With 16 workers a layout of exactly the right shape, about 2.8 x 5.7, does not exist.",
        (real, guess),
        (note,),
    )
