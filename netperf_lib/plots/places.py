"""Levels by place: any number of conditions side by side, and every pair of ends as a matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize

from ..errors import NothingToReport, UsageError
from ..experiment.factors import sort_levels
from ..metrics import format_value
from ..metrics import metric as metric_of
from ..questions.colours import colours
from ..questions.observe import Data, observed
from ..questions.observe import levels as observed_levels
from ..questions.pairs import ends_of
from ..questions.words import interval_words
from .figure import INK, MUTE, Drawn, axis, drawing, each, interval, legend, legend_height, plot

BLUES = LinearSegmentedColormap.from_list("netperf", ["#eef4fb", "#c3dbf0", "#86b9e0", "#4190c7", "#1565a5", "#0b3c70"])
"""One hue from light to dark: the order remains visible in grey print and with every kind of colour blindness."""


def levels_of(data: Any, metric: str | None, by: str | Sequence[str] = (), **options: Any) -> pd.DataFrame:
    """A table of levels with the column ``condition``: made of what is given, or given."""
    if not isinstance(metric, str | None):
        raise UsageError(f"a metric is a name, not {metric!r}, for example 'throughput_bps'")
    if not (isinstance(data, pd.DataFrame) and "median" in data):
        every = observed_levels(observed(data, metric, by, **options))
        data = every[every["n"] > 0]
    table: pd.DataFrame = data if "condition" in data else data.reset_index()
    return table


@drawing
def levels(
    data: Data,
    metric: str | None = None,
    *,
    by: str | Sequence[str] = (),
    where: Mapping[str, Any] | None = None,
    pool: str | Sequence[str] = (),
    ax: Axes | None = None,
) -> Drawn:
    """Median and interval of every condition, one under the other.

    Parameters
    ----------
    data, metric, by, where, pool
        What to draw, as `observe` takes it, or an answer; or a table of `netperf_lib.levels`, whose column ``source``,
        if there is one, names who measured.
    ax : Axes, optional
        Where to draw; default: a figure of its own, with a caption.

    Examples
    --------
    >>> figure = npl.plots.levels(exp, "latency_oneway_us", by="placement")
    """
    table = levels_of(data, metric, by, where=where, pool=pool)
    metric = metric or table.attrs["metric"]
    info = metric_of(metric)
    names = [str(n) for n in table["condition"]]
    groups = [str(s) for s in table["source"]] if "source" in table else names
    painted = colours(list(dict.fromkeys(groups)))
    told = "; ".join(f"{n} {format_value(float(m), info.unit)}" for n, m in zip(names, table["median"], strict=True))
    rows: Any = list(table.itertuples())
    if table.empty:
        raise NothingToReport(f"there is no value of {info.label[0].lower()}{info.label[1:]}")
    several = (table["n"] > 1).any()
    deployments = table.attrs.get("deployments", 1)
    caption = (
        f"{info.label}: median of the runs"
        + (f" and {interval_words((int(n) for n in table['n']), deployments=deployments)}" if several else "")
        + f". n = {each(int(n) for n in table['n'])} per row."
    )
    several_sources = "source" in table and len(painted) > 1
    row_height = min(0.25, 7.4 / len(names))  # a figure fits a page, whatever it shows
    height = 0.85 + row_height * len(names) + (legend_height(list(painted)) + 0.2 if several_sources else 0)
    with plot(height, caption, told + ".", ax=ax) as (fig, axes):
        for y, (row, group) in enumerate(zip(rows, groups, strict=True)):
            colour, marker = painted[group]
            interval(axes, y, row.low, row.high, colour)
            axes.plot([row.median], [y], marker, color=colour, ms=6.5, mec="white", mew=0.6)
        axis(axes, metric, table["median"].astype(float), which="x")
        axes.margins(x=0.06)
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.4, -0.6)
        right = axes.secondary_yaxis("right")
        right.set_yticks(range(len(names)), [format_value(float(m), info.unit) for m in table["median"]])
        right.tick_params(length=0)
        right.spines["right"].set_visible(False)
        if several_sources:
            legend(fig, painted)
    return fig


@drawing
def matrix(
    data: Data,
    metric: str | None = None,
    *,
    by: str | Sequence[str] = (),
    where: Mapping[str, Any] | None = None,
    pool: str | Sequence[str] = (),
    intervals: bool = False,
    ax: Axes | None = None,
) -> Drawn:
    """Medians by client (row) and server (column): each direction is a cell of its own.

    Parameters
    ----------
    data, metric, by, where, pool
        What to draw, as `observe` takes it, or an answer: `by` are the two ends, by default as
        `netperf_lib.questions.ends_of` finds them.
    intervals : bool
        Write the interval below each median.
    ax : Axes, optional
        Where to draw; default: a figure of its own, with a caption.

    Examples
    --------
    >>> figure = npl.plots.matrix("data/recorded/zones", "latency_oneway_us")
    """
    import seaborn as sns  # takes a while to import

    if metric is not None and not by and not hasattr(data, "asked") and not hasattr(data, "observations"):
        by = ends_of(data, metric)
    obs = observed(data, metric, by, where=where, pool=pool)
    obs = obs if set(obs.by) == set(obs.asked) else obs.main()
    info, table = metric_of(obs.metric), levels_of(obs, None)
    if len(obs.asked) != 2 or table.empty:
        raise NothingToReport("a matrix needs a factor for each of the two ends")
    table = table.rename(columns=dict(zip(obs.asked, ("client", "server"), strict=True)))
    rows, columns = (
        [str(v) for v in sort_levels(end, table[side])]
        for end, side in zip(obs.asked, ("client", "server"), strict=True)
    )
    pairs: Any = list(table.itertuples())
    cells = {(str(r.client), str(r.server)): r for r in pairs}
    grid = np.full((len(rows), len(columns)), np.nan)
    for (a, b), row in cells.items():
        grid[rows.index(a), columns.index(b)] = float(row.median)
    told = "; ".join(f"{a} to {b} {format_value(float(r.median), info.unit)}" for (a, b), r in cells.items())
    words = (
        interval_words((int(n) for n in table["n"]), deployments=table.attrs.get("deployments", 1)) if intervals else ""
    )
    caption = (
        f"{info.label} by client (row) and server (column): median of the runs"
        + (f", and below it {words}" if intervals else "")
        + f". n = {each(int(n) for n in table['n'])} per cell. Darker is "
        + {"lower": "slower", "higher": "faster"}.get(info.better or "", "more")
        + "; an empty cell was not measured."
    )
    middle = float(np.nanmedian(grid))
    # noise of a few per cent must not look like a difference
    low, high = min(float(np.nanmin(grid)), 0.9 * middle), max(float(np.nanmax(grid)), 1.1 * middle)
    norm: Any = LogNorm(low, high) if low > 0 and high / low > 8 else Normalize(low, high)
    height = 0.75 + (0.52 if intervals else 0.42) * len(rows)
    with plot(height, caption, told + ".", ax=ax) as (fig, axes):
        texts = np.full(grid.shape, "", dtype=object)
        for (a, b), row in cells.items():
            text = format_value(float(row.median), info.unit)
            ends = [row.low, row.high]
            if intervals and not any(v is None or pd.isna(v) for v in ends):
                text += "\n" + " … ".join(format_value(float(v), info.unit) for v in ends)
            texts[rows.index(a), columns.index(b)] = text
        size = {"fontsize": 9 if len(columns) < 7 else 7.5, "linespacing": 1.35}
        options: Any = {"annot": texts, "fmt": "", "annot_kws": size, "linewidths": 2, "cbar": False}
        heatmap: Any = sns.heatmap  # without types
        heatmap(grid, cmap=BLUES, norm=norm, xticklabels=columns, yticklabels=rows, ax=axes, **options)
        for text, value in zip(axes.texts, grid[~np.isnan(grid)], strict=True):
            text.set_color("white" if norm(value) > 0.55 else INK)
        for i, j in zip(*np.where(np.isnan(grid)), strict=True):
            axes.text(j + 0.5, i + 0.5, "–", ha="center", va="center", color=MUTE)
        axes.xaxis.tick_top()
        axes.xaxis.set_label_position("top")
        axes.set_xlabel("Server")
        axes.set_ylabel("Client")
        axes.tick_params(length=0, rotation=0)
        axes.grid(visible=False)
    return fig
