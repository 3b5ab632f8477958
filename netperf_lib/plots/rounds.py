"""Runs in time order: rounds, what a round has in common, drift, seconds within a run."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from ..analysis.colours import colours
from ..analysis.details import measured_intervals, totals
from ..analysis.observe import Observations, details, level_of, observe
from ..analysis.runs import is_details
from ..analysis.words import interval_words
from ..errors import NothingToReport
from ..metrics import metric as metric_of
from ..metrics import plural
from .drawing import Draws, plot
from .figure import (
    DOT,
    INK,
    axis,
    clusters,
    conditions,
    each,
    legend,
    legend_height,
    listed,
    room,
    round_label,
    table_first,
)

SPARSE = 5
"""Points up to which a line shows each of them."""
MANY = 12
"""Conditions up to which a figure without room beside it has a legend."""
PAUSE = 5
"""A pause between runs this many times longer than the median one interrupts a running median."""


@Draws()
def rounds(obs: Observations, *, confidence: float = 0.95, ax: Axes | None = None) -> Axes:
    """Every run in time order, with the median of each condition.

    Conditions that are far apart get separate panels, each with its own axis. With `ax`, only the runs are drawn, in
    one panel.

    Parameters
    ----------
    confidence : float
        Confidence of the interval of the median.

    Examples
    --------
    >>> axes = npl.plots.rounds(exp, "latency_oneway_us", by="placement")
    """
    metric, runs = obs.metric, obs.complete
    runs = runs.assign(condition=runs["condition"].cat.remove_unused_categories())
    one = len(set(runs["unit"])) == 1
    runs["time"] = runs["round"] if one else runs.groupby(["unit", "round"], sort=True).ngroup() + 1
    info = metric_of(metric)
    groups = {str(n): runs[runs["condition"] == n] for n in runs["condition"].cat.categories}
    levels = {n: level_of(g, metric, confidence) for n, g in groups.items()}
    medians = {n: v.median for n, v in levels.items()}
    panels = clusters(medians) if ax is None else [list(groups)]
    counts = [len(g) for g in groups.values()]
    caption = (
        f"{info.label}: every run in time order (left), and the median of each condition with "
        f"{interval_words(counts, confidence, len(set(runs['unit'])))} (right). n = {each(counts)} per condition."
        + (" The panels have different scales." if len(panels) > 1 else "")
    )
    heights = [1.0 + 0.35 * len(names) for names in panels]
    height = max(2.2, 0.7 + 0.62 * sum(heights)) + legend_height(list(groups))
    grid: dict[str, Any] = {"width_ratios": [3.4, 1], "height_ratios": heights}
    grid = {
        "nrows": len(panels),
        "ncols": 2,
        "squeeze": False,
        "sharey": "row",
        "gridspec_kw": grid,
    }
    painted = colours(list(groups))
    with plot(height, caption, f"Medians: {listed(medians, info.unit)}.", ax=ax, **grid) as axes:
        rows = [(ax, None)] if ax is not None else axes
        for (left, right), members in zip(rows, panels, strict=True):
            names = [n for n in groups if n in members]
            for name in names:
                _line(left, groups[name], metric, painted[name])
            axis(
                left,
                metric,
                [x for n in names for x in groups[n][metric].astype(float)],
                label=len(panels) == 1,
            )
            room(left)
            left.xaxis.set_major_locator(MaxNLocator(10, integer=True, min_n_ticks=1))
            left.margins(x=0.02)
            if right is not None:
                _medians(right, [(levels[n], painted[n]) for n in names])
                left.label_outer()
        first, last = rows[0][0], rows[-1]
        last[0].set_xlabel(round_label(runs))
        if last[1] is not None:
            last[1].set_xlabel("Median, interval")
        if len(panels) > 1:
            first.figure.supylabel(info.label, fontsize=9)
        legend(first, painted)
    return first


def _line(axes: Axes, runs: pd.DataFrame, metric: str, look: tuple[str, str]) -> None:
    """The runs of a condition: a pale line, and a point each that tells its run."""
    colour, marker = look
    values = runs[metric].astype(float)
    axes.plot(runs["time"], values, color=colour, lw=0.9, alpha=0.45)
    axes.plot(runs["time"], values, marker, color=colour, **(DOT | {"ms": 4.5}))


def _medians(axes: Axes, levels: Sequence[tuple[Any, tuple[str, str]]]) -> None:
    """The medians with their intervals, side by side."""
    for x, (v, (colour, marker)) in enumerate(levels):
        axes.plot([x, x], [v.low, v.high], color=colour, lw=2.4, solid_capstyle="butt")
        axes.plot([x], [v.median], marker, color=colour, **(DOT | {"ms": 6, "mew": 0.7}))
    axes.set_xticks([])
    axes.set_xlim(-0.6, len(levels) - 0.4)
    axes.tick_params(labelleft=False, left=False)
    axes.spines["left"].set_visible(False)


@Draws()
def paired(obs: Observations, *, ax: Axes | None = None) -> Axes:
    """The runs of two or more conditions, joined by a line in each round.

    Examples
    --------
    >>> where = {"placement": "same-zone", "tool": "qperf"}
    >>> axes = npl.plots.paired(exp, "latency_oneway_us", by="accelerated", where=where)
    """
    metric = obs.metric
    info = metric_of(metric)
    wide = obs.complete.set_index(["unit", "round", "condition"])[metric].astype(float).unstack()  # noqa: PD010
    names = [str(c) for c in wide.columns]
    complete = wide.dropna()
    caption = (
        f"{info.label}: each line is a round, each large mark the median of a condition. "
        f"n = {plural(len(complete), 'round')} with every condition."
    )
    alt = f"Medians: {listed({n: float(wide[n].median()) for n in names}, info.unit)}."
    with plot(2.0, caption, alt, ax=ax) as axes:
        for row in complete.to_numpy():
            axes.plot(range(len(names)), row, color="#9aa3ae", lw=0.8, alpha=0.8)
        for x, (name, (colour, marker)) in enumerate(colours(names).items()):
            values = wide[name].dropna()
            axes.plot([x] * len(values), values, marker, color=colour, **(DOT | {"mew": 0.4}))
            axes.plot([x], [values.median()], marker, color=colour, ms=10, mec=INK, mew=0.9)
        axis(axes, metric, wide.to_numpy().ravel())
        room(axes)
        room_of_one = max(10, 78 // len(names))
        axes.set_xticks(range(len(names)), [fill(name, room_of_one) for name in names])
        axes.set_xlim(-0.4, len(names) - 0.6)
        axes.grid(axis="x", visible=False)
        axes.set_xlabel("Condition")
    return axes  # type: ignore[no-any-return]


def _change(ratio: float) -> str:
    change = 100 * (ratio - 1)
    return "0 %" if abs(change) < 1e-9 else f"{change:+.3g} %".replace("-", "−")


@Draws()
def drift(obs: Observations, *, ax: Axes | None = None) -> Axes:
    """Every run relative to the median of its condition, over time: drift and disturbances that all conditions share.

    Examples
    --------
    >>> axes = npl.plots.drift(exp, "throughput_bps", by="streams")
    """
    metric, runs = obs.metric, obs.complete
    info = metric_of(metric)
    runs = runs[runs["started_utc"].notna() & runs[metric].notna()].sort_values(
        "started_utc", ignore_index=True
    )
    if runs.empty:
        raise NothingToReport(f"{info.label}: no run has a start time")
    values = runs[metric].astype(float)
    relative = values / values.groupby(runs["condition"], observed=True).transform("median")
    minutes = (runs["started_utc"] - runs["started_utc"].min()).dt.total_seconds() / 60
    width = max(5, len(runs) // 12) | 1
    smooth = relative.rolling(width, center=True, min_periods=max(2, width // 2)).median()
    worst = float((relative - 1).abs().max())
    caption = (
        f"{info.label}: every run divided by the median of its condition, over the time of the experiment; the line is "
        f"a running median over {width} runs. n = {plural(len(runs), 'run')}. A level line means no drift."
    )
    painted = colours(conditions(runs))
    named, further = _legend_of(painted)
    alt = f"The largest deviation of a run from its condition is {100 * worst:.0f} %."
    with plot(1.6 + legend_height(list(named)), caption + further, alt, ax=ax) as axes:
        axes.axhline(1, color=INK, lw=0.8)
        for name, (colour, marker) in painted.items():
            rows = (runs["condition"] == name).to_numpy()
            axes.plot(
                minutes[rows],
                relative[rows],
                marker,
                color=colour,
                alpha=0.85,
                **(DOT | {"mew": 0.4}),
            )
        pauses = minutes.diff()
        for _, stretch in smooth.groupby((pauses > PAUSE * pauses.median()).cumsum()):
            axes.plot(minutes[stretch.index], stretch, color=INK, lw=1.6)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: _change(v)))
        axes.set_ylabel("Deviation")
        axes.set_xlabel("Minutes since the first run")
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, 0.95), max(high, 1.05))
        if named:
            legend(axes, named)
    return axes  # type: ignore[no-any-return]


def _legend_of(painted: dict[str, tuple[str, str]]) -> tuple[dict[str, tuple[str, str]], str]:
    """The conditions of a legend, and what the caption says where it would be larger than the figure."""
    many = len(painted) > MANY
    return ({}, f" Colours distinguish {len(painted)} conditions.") if many else (painted, "")


def _seconds(runs: pd.DataFrame, resent: bool) -> tuple[str, str]:
    """Caption and alternative text of the seconds within the runs."""
    by_condition = runs.groupby("condition", observed=True)
    caption = (
        "Throughput within the runs: mean over the runs of a condition (line) and every run (thin). "
        + ("Below: retransmitted segments per interval, mean over the runs. " if resent else "")
        + f"n = {each(by_condition['run_id'].nunique())} per condition; intervals of a run are not independent and are "
        "not counted."
    )
    return caption, f"Means: {listed(by_condition['throughput_bps'].mean().to_dict(), 'bps')}."


MEASURES = {"throughput_bps": 2, "retransmits_count": 1.4}
"""What is drawn of intervals, one below the other, and how wide its line is."""


@Draws("throughput_bps", drawable=is_details, arrange=table_first)
def intervals(
    data: Observations | pd.DataFrame,
    *,
    table: pd.DataFrame | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The seconds within each run: mean curve of each condition, retransmits below.

    Rows of stream -1 (the sum) are used if there are any. With `ax`, retransmits are not drawn.

    Parameters
    ----------
    table : DataFrame, optional
        The table of intervals; default: that of the experiment.

    Examples
    --------
    >>> axes = npl.plots.intervals(exp, by="streams", where={"placement": "cross-region"})
    """
    table = measured_intervals(
        data
        if isinstance(data, pd.DataFrame)
        else details(data, "intervals" if table is None else table)
    )
    if not len(table):
        raise NothingToReport("no tool reported intervals of these runs")
    groups = totals(table).groupby(["condition", "run_id", "start_s", "end_s"], observed=True)
    runs = groups[[*MEASURES]].sum(min_count=1).reset_index()
    runs["at"] = (runs["start_s"] + runs["end_s"]) / 2
    resent = ax is None and bool(runs["retransmits_count"].notna().any())
    painted = colours(conditions(table))
    shape: dict[str, Any] = {"nrows": 1 + resent, "sharex": True, "squeeze": False}
    shape["gridspec_kw"] = {"height_ratios": [3, 1][: 1 + resent]}
    named, further = _legend_of(painted)
    caption, alt = _seconds(runs, resent)
    height = (3.1 if resent else 2.4) + legend_height(list(named))
    with plot(height, caption + further, alt, ax=ax, **shape) as grid:
        charts: Sequence[Axes] = [ax] if ax is not None else [row[0] for row in grid]
        for name, look in painted.items():
            _curves(charts, runs[runs["condition"].astype(str) == name], look)
        axis(charts[0], "throughput_bps", runs["throughput_bps"])
        if charts[0].get_yscale() == "linear":
            charts[0].set_ylim(0, None)
        if resent:
            charts[1].set_ylabel("Retransmits\n(segments)")
            charts[1].set_ylim(0, None)
            charts[1].yaxis.set_major_locator(MaxNLocator(3, prune="upper"))
        charts[-1].set_xlabel("Seconds since the start of the run")
        charts[-1].set_xlim(0, float(runs["end_s"].max()))
        if named:
            legend(charts[0], named)
    return charts[0]


def _curves(charts: Sequence[Axes], runs: pd.DataFrame, look: tuple[str, str]) -> None:
    """Every run of a condition, and their means: throughput above, retransmits below."""
    colour, marker = look
    for _, run in runs.groupby("run_id"):
        charts[0].plot(run["at"], run["throughput_bps"], color=colour, lw=0.5, alpha=0.25)
    means = runs.groupby(runs["at"].round(2))[[*MEASURES]].mean()
    # a run of one interval is a point
    dots: dict[str, Any] = {"marker": marker, **DOT, "mew": 0.4} if len(means) <= SPARSE else {}
    for axes, (measure, width) in zip(charts, MEASURES.items(), strict=False):
        axes.plot(means.index, means[measure], color=colour, **({"lw": width} | dots | {"ls": "-"}))


@Draws()
def under_load(obs: Observations, *, ax: Axes | None = None) -> Axes:
    """The same tool on the same path, idle and while another tool fills it.

    Examples
    --------
    >>> axes = npl.plots.under_load(exp, "latency_oneway_us")
    """
    runs = obs.runs
    if not (runs["during"].notna().any() and runs["during"].isna().any()):
        raise NothingToReport(
            "no latency was measured while another tool filled the path (`during` in a test)"
        )
    return rounds(observe(runs, obs.metric, by="during").main(), ax=ax)
