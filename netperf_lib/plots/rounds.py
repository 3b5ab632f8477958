"""Runs in time order: rounds, what a round has in common, drift, seconds within a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from ..errors import NothingToReport
from ..metrics import format_value, plural
from ..metrics import metric as metric_of
from ..questions.colours import colours
from ..questions.observe import Data, HasRuns, details, level_of, observe, observed
from ..questions.words import interval_words
from ..stats.steady_state import kept, whole
from .figure import (
    INK,
    MUTE,
    Drawn,
    axis,
    clusters,
    conditions,
    detail_table,
    drawing,
    each,
    legend,
    legend_height,
    plot,
    room,
    round_label,
    tell,
)

SPARSE = 5
"""Points up to which a line shows each of them."""
MANY = 12
"""Conditions that a legend holds."""
PAUSE = 10
"""A pause this many times longer than usual between two runs breaks the line of the drift."""


@drawing
def rounds(
    data: Data,
    metric: str | None = None,
    *,
    by: str | Sequence[str] = (),
    where: Mapping[str, Any] | None = None,
    pool: str | Sequence[str] = (),
    confidence: float = 0.95,
    ax: Axes | None = None,
) -> Drawn:
    """Every run in time order, and next to it the median of each condition.

    Conditions that are far apart get separate panels, each with its own axis.

    Parameters
    ----------
    data : Observations, or what `observe` takes
        What to draw: each condition has a colour.
    metric : str, optional
        The metric; observations know theirs.
    by, where, pool : optional
        As `observe` takes them. ``hue`` is another name of `by`; ``col`` gives each level of a factor a panel.
    confidence : float
        Of the interval of the median.
    ax : Axes, optional
        Where to draw the runs, all in one panel; default: a figure of its own, with the medians and a caption.

    Examples
    --------
    >>> figure = npl.plots.rounds(exp, "latency_oneway_us", by="placement")
    """
    obs = observed(data, metric, by, where=where, pool=pool)
    metric, runs = obs.metric, obs.complete
    runs = runs.assign(condition=runs["condition"].cat.remove_unused_categories())
    names = [str(n) for n in runs["condition"].cat.categories]
    info = metric_of(metric)
    groups_of = {n: runs[runs["condition"] == n] for n in names}
    values = {n: g[metric].astype(float) for n, g in groups_of.items()}
    found = {n: level_of(g, metric, confidence) for n, g in groups_of.items()}
    told = "; ".join(f"{n} {format_value(v.median, info.unit)}" for n, v in found.items())
    groups = clusters({n: v.median for n, v in found.items()})
    caption = (
        f"{info.label}: every run in time order (left), and the median of each condition with "
        f"{interval_words((len(v) for v in values.values()), confidence, len(set(runs['unit'])))} (right). "
        f"n = {each(len(v) for v in values.values())} per condition."
        + (" The panels have different scales." if len(groups) > 1 else "")
    )
    heights = [1.0 + 0.35 * len(g) for g in groups]
    one = len(set(runs["unit"])) == 1
    time = runs["round"] if one else runs.groupby(["unit", "round"], sort=True).ngroup() + 1
    grid = {"width_ratios": [3.4, 1], "height_ratios": heights}
    shape: dict[str, Any] = {"nrows": len(groups), "ncols": 2, "squeeze": False, "sharey": "row", "gridspec_kw": grid}
    if ax is not None:
        with plot(0, "", "", ax=ax) as (inset, _):
            painted = colours(names)
            for name, (colour, marker) in painted.items():
                mine = runs["condition"] == name
                ax.plot(time[mine], values[name], marker, ls="-", lw=0.8, color=colour, ms=4.5, mec="white", mew=0.5)
            axis(ax, metric, [x for v in values.values() for x in v])
            ax.set_xlabel(round_label(runs))
            legend(inset, painted)
        return inset
    with plot(max(2.2, 0.7 + 0.62 * sum(heights)) + legend_height(names), caption, f"Medians: {told}.", **shape) as (
        figure,
        axes,
    ):
        painted = colours(names)
        for (left, right), group in zip(axes, groups, strict=True):
            for name in group:
                colour, marker = painted[name]
                mine = runs["condition"] == name
                left.plot(time[mine], values[name], color=colour, lw=0.9, alpha=0.45)
                (points,) = left.plot(time[mine], values[name], marker, color=colour, ms=4.5, mec="white", mew=0.5)
                tell(points, runs[mine], metric)
            here = [n for n in names if n in group]
            for x, name in enumerate(here):
                colour, marker = painted[name]
                v = found[name]
                right.plot([x, x], [v.low, v.high], color=colour, lw=2.4, solid_capstyle="butt")
                right.plot([x], [v.median], marker, color=colour, ms=6, mec="white", mew=0.7)
            axis(left, metric, [x for n in group for x in values[n]], label=len(groups) == 1)
            room(left)
            left.xaxis.set_major_locator(MaxNLocator(10, integer=True, min_n_ticks=1))
            left.margins(x=0.02)
            right.set_xticks([])
            right.set_xlim(-0.6, len(here) - 0.4)
            right.tick_params(labelleft=False, left=False)
            right.spines["left"].set_visible(False)
            if left is not axes[-1][0]:
                left.tick_params(labelbottom=False)
        axes[-1][0].set_xlabel(round_label(runs))
        axes[-1][1].set_xlabel("Median, interval")
        if len(groups) > 1:
            figure.supylabel(info.label, fontsize=9)
        legend(figure, painted)
    return figure


@drawing
def paired(
    data: Data,
    metric: str | None = None,
    *,
    by: str | Sequence[str] = (),
    where: Mapping[str, Any] | None = None,
    pool: str | Sequence[str] = (),
    ax: Axes | None = None,
) -> Drawn:
    """The runs of a round joined by a line, which shows what they have in common.

    Parameters
    ----------
    data, metric, by, where, pool
        What to draw, as `observe` takes it; or its result, or an answer.
    ax : Axes, optional
        Where to draw; default: a figure of its own, with a caption.

    Examples
    --------
    >>> where = {"placement": "same-zone", "tool": "qperf"}
    >>> figure = npl.plots.paired(exp, "latency_oneway_us", by="accelerated", where=where)
    """
    obs = observed(data, metric, by, where=where, pool=pool)
    metric = obs.metric
    info = metric_of(metric)
    wide = obs.complete.set_index(["unit", "round", "condition"])[metric].astype(float).unstack()  # noqa: PD010
    names = [str(c) for c in wide.columns]
    whole = wide.dropna()
    told = "; ".join(f"{n} {format_value(float(wide[n].median()), info.unit)}" for n in names)
    caption = (
        f"{info.label}: each line is a round, each large mark the median of a condition. "
        f"n = {plural(len(whole), 'round')} with every condition."
    )
    with plot(1.8, caption, f"Medians: {told}.", ax=ax) as (fig, axes):
        for row in whole.to_numpy():
            axes.plot(range(len(names)), row, color="#9aa3ae", lw=0.8, alpha=0.8)
        for x, (name, (colour, marker)) in enumerate(colours(names).items()):
            values = wide[name].dropna()
            axes.plot([x] * len(values), values, marker, color=colour, ms=4, mec="white", mew=0.4)
            axes.plot([x], [values.median()], marker, color=colour, ms=10, mec=INK, mew=0.9)
        axis(axes, metric, wide.to_numpy().ravel())
        room(axes)
        axes.set_xticks(range(len(names)), names)
        axes.set_xlim(-0.4, len(names) - 0.6)
        axes.grid(axis="x", visible=False)
        axes.set_xlabel("Condition")
    return fig


def _change(ratio: float) -> str:
    change = 100 * (ratio - 1)
    return "0 %" if abs(change) < 1e-9 else f"{change:+.3g} %".replace("-", "−")


@drawing
def drift(
    data: Data,
    metric: str | None = None,
    *,
    by: str | Sequence[str] = (),
    where: Mapping[str, Any] | None = None,
    pool: str | Sequence[str] = (),
    ax: Axes | None = None,
) -> Drawn:
    """Every run against the median of its condition, over the clock: drift and disturbance that all conditions share.

    Parameters
    ----------
    data, metric, by, where, pool
        What to draw, as `observe` takes it; or its result, or an answer.
    ax : Axes, optional
        Where to draw; default: a figure of its own, with a caption.

    Examples
    --------
    >>> figure = npl.plots.drift(exp, "throughput_bps", by="streams")
    """
    obs = observed(data, metric, by, where=where, pool=pool)
    metric, runs = obs.metric, obs.complete
    info = metric_of(metric)
    runs = runs[runs["started_utc"].notna() & runs[metric].notna()].sort_values("started_utc", ignore_index=True)
    if runs.empty:
        raise NothingToReport(f"{info.label}: no run has a start time")
    values = runs[metric].astype(float)
    relative = values / values.groupby(runs["condition"], observed=True).transform("median")
    minutes = (runs["started_utc"] - runs["started_utc"].min()).dt.total_seconds() / 60
    names = [str(c) for c in runs["condition"].cat.categories if (runs["condition"] == c).any()]
    width = max(5, len(runs) // 12) | 1
    smooth = relative.rolling(width, center=True, min_periods=max(2, width // 2)).median()
    worst = float((relative - 1).abs().max()) if len(relative) else 0.0
    caption = (
        f"{info.label}: every run divided by the median of its condition, over the time of the experiment; the line is "
        f"a running median over {width} runs. n = {plural(len(runs), 'run')}. A level line means no drift."
    )
    alt = f"The largest deviation of a run from its condition is {100 * worst:.0f} %."
    painted = colours(names)
    if len(names) > MANY:  # a legend larger than the figure is of no use
        caption += f" Colours and markers distinguish {len(names)} conditions."
    told = painted if len(names) <= MANY else {}
    with plot(1.6 + legend_height(list(told)), caption, alt, ax=ax) as (fig, axes):
        axes.axhline(1, color=INK, lw=0.8)
        for name, (colour, marker) in painted.items():
            mine = (runs["condition"] == name).to_numpy()
            axes.plot(minutes[mine], relative[mine], marker, color=colour, ms=4, mec="white", mew=0.4, alpha=0.85)
        pauses = minutes.diff()
        for _, stretch in smooth.groupby((pauses > PAUSE * pauses.median()).cumsum()):
            axes.plot(minutes[stretch.index], stretch, color=INK, lw=1.6)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: _change(v)))
        axes.set_ylabel("Deviation")
        axes.set_xlabel("Minutes since the first run")
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, 0.95), max(high, 1.05))
        if told:
            legend(fig, told)
    return fig


@drawing
def intervals(
    table: pd.DataFrame | HasRuns,
    data: Data | None = None,
    *,
    by: str | Sequence[str] = (),
    where: Mapping[str, Any] | None = None,
    pool: str | Sequence[str] = (),
    cut_s: float | None = None,
    ax: Axes | None = None,
) -> Drawn:
    """The seconds within the runs: mean curve of each condition, warm-up shaded, retransmits below.

    Parameters
    ----------
    table : DataFrame or Results
        The table of intervals, or an experiment, which has one. Rows of stream -1 (the sum) are used where there are
        any.
    data, by, where, pool : optional
        The runs whose intervals are drawn, as `observe` takes them. Not needed if `table` has a column ``condition``.
    cut_s : float, optional
        End of the warm-up, as `warmup` finds it.
    ax : Axes, optional
        Where to draw the throughput, without the retransmits; default: a figure of its own, with a caption.

    Examples
    --------
    >>> figure = npl.plots.intervals(exp, by="streams", where={"placement": "cross-region"})
    """
    table, data = detail_table(table, data, "intervals")
    if not len(table):
        raise NothingToReport("no tool reported intervals")
    if data is not None:
        table = details(observed(data, "throughput_bps", by, where=where, pool=pool), table)
    table = kept(table)
    if not len(table):
        raise NothingToReport("no tool reported intervals of these runs")
    each_interval = whole(table).groupby(["condition", "run_id", "start_s", "end_s"], observed=True)
    measures = ["throughput_bps", "retransmits_count"]
    runs = each_interval[measures].sum(min_count=1).reset_index()
    names = conditions(table)
    painted = colours(names)
    counts = runs.groupby("condition", observed=True)["run_id"].nunique()
    resent = ax is None and bool(runs["retransmits_count"].notna().any())
    caption = (
        "Throughput within the runs: mean over the runs of a condition (line) and every run (thin). "
        + ("Below: retransmitted segments per interval, mean over the runs. " if resent else "")
        + (f"Shaded: warm-up of {cut_s:g} s, one cut for all conditions. " if cut_s else "")
        + f"n = {each(counts)} per condition; intervals of a run are not independent and are not counted."
    )
    shape: dict[str, Any] = {"nrows": 2 if resent else 1, "sharex": True, "squeeze": False}
    if resent:
        shape["gridspec_kw"] = {"height_ratios": [3, 1]}
    told = "; ".join(
        f"{n} {format_value(float(g['throughput_bps'].mean()), 'bps')}"
        for n, g in runs.groupby("condition", observed=True)
    )
    with plot((3.1 if resent else 2.4) + legend_height(names), caption, f"Means: {told}.", ax=ax, **shape) as (
        fig,
        grid,
    ):
        grid = [[grid]] if ax is not None else grid
        top = grid[0][0]
        for name, (colour, marker) in painted.items():
            mine = runs[runs["condition"].astype(str) == name]
            middle = (mine["start_s"] + mine["end_s"]) / 2
            for _, run in mine.assign(at=middle).groupby("run_id"):
                top.plot(run["at"], run["throughput_bps"], color=colour, lw=0.5, alpha=0.25)
            mean = mine.assign(at=middle.round(2)).groupby("at")[["throughput_bps", "retransmits_count"]].mean()
            dots: dict[str, Any] = {}
            if len(mean) <= SPARSE:  # a run of one interval is a point
                dots = {"marker": marker, "ms": 4, "mec": "white", "mew": 0.4}
            top.plot(mean.index, mean["throughput_bps"], color=colour, lw=2, **dots)
            if resent:
                grid[1][0].plot(mean.index, mean["retransmits_count"], color=colour, lw=1.4, **dots)
        axis(top, "throughput_bps", runs["throughput_bps"])
        if top.get_yscale() == "linear":
            top.set_ylim(0, None)
        if cut_s:
            for row in grid:
                row[0].axvspan(0, cut_s, color=MUTE, alpha=0.12, lw=0)
        if resent:
            grid[1][0].set_ylabel("Retransmits\n(segments)")
            grid[1][0].set_ylim(0, None)
        grid[-1][0].set_xlabel("Seconds since the start of the run")
        grid[-1][0].set_xlim(0, float(runs["end_s"].max()))
        legend(fig, painted)
    return fig


@drawing
def under_load(data: Data, metric: str | None = None, *, ax: Axes | None = None) -> Drawn:
    """The same tool on the same path, idle and while another tool fills it.

    Parameters
    ----------
    data, metric
        What to draw, as `observe` takes it, or an answer.
    ax : Axes, optional
        Where to draw; default: a figure of its own, with a caption.

    Examples
    --------
    >>> figure = npl.plots.under_load(exp, "latency_oneway_us")
    """
    obs = observed(data, metric)
    runs = obs.runs
    if not (runs["during"].notna().any() and runs["during"].isna().any()):
        raise NothingToReport("no latency was measured while another tool filled the path (`during` in a test)")
    return rounds(observe(runs, obs.metric, by="during").main(), ax=ax)
