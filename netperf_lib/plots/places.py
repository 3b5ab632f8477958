"""Levels by place: any number of conditions side by side, and every pair of ends as a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize

from ..analysis.colours import colours
from ..analysis.observe import Observations
from ..analysis.observe import levels as observed_levels
from ..analysis.pairs import ends_of
from ..analysis.words import interval_words
from ..errors import NothingToReport
from ..experiment.attached import attach, attached
from ..experiment.factors import sort_levels
from ..metrics import format_value
from ..metrics import metric as metric_of
from .drawing import Draws, plot
from .figure import (
    BIG,
    INK,
    MUTE,
    at_right,
    axis,
    each,
    interval,
    legend,
    legend_height,
    listed,
    rows_of,
)

BLUES = LinearSegmentedColormap.from_list(
    "netperf", ["#eef4fb", "#c3dbf0", "#86b9e0", "#4190c7", "#1565a5", "#0b3c70"]
)
"""One hue from light to dark: the order remains visible in grey print and with every kind of colour blindness."""


def is_levels(data: Any) -> bool:
    """Whether this is a table as `netperf_lib.levels` gives it."""
    return isinstance(data, pd.DataFrame) and "median" in data


def levels_of(data: pd.DataFrame | Observations) -> pd.DataFrame:
    """A table of levels with the column ``condition``: made of observations, or given."""
    if isinstance(data, Observations):
        data = observed_levels(data)
        data = data[data["n"] > 0]
    return data if "condition" in data else data.reset_index()


def _named(data: Any, metric: Any) -> tuple[Any, Any, dict[str, Any]]:
    """A table of levels need not know its metric."""
    if is_levels(data) and metric is not None:
        data = data.copy(deep=False)
        attach(data, metric=metric)
    return data, metric, {}


@Draws(drawable=is_levels, arrange=_named)
def levels(data: Observations | pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Median and interval of every condition, in rows.

    A table of `netperf_lib.levels` can be drawn, too; its column ``source``, if there is one, names who measured.

    Examples
    --------
    >>> axes = npl.plots.levels(exp, "latency_oneway_us", by="placement")
    """
    table = levels_of(data)
    metric = attached(table).metric or ""
    info = metric_of(metric)
    names = [str(n) for n in table["condition"]]
    groups = [str(s) for s in table["source"]] if "source" in table else names
    painted = colours(list(dict.fromkeys(groups)))
    if table.empty:
        raise NothingToReport(f"there is no value of {info.label[0].lower()}{info.label[1:]}")
    counts, deployments = [int(n) for n in table["n"]], attached(table).deployments
    caption = (
        f"{info.label}: median of the runs"
        + (f" and {interval_words(counts, deployments=deployments)}" if max(counts) > 1 else "")
        + f". n = {each(counts)} per row."
    )
    several_sources = "source" in table and len(painted) > 1
    row_height = min(0.25, 7.4 / len(names))  # a figure fits a page, whatever it shows
    height = (
        0.85
        + row_height * len(names)
        + (legend_height(list(painted)) + 0.2 if several_sources else 0)
    )
    medians = table["median"].astype(float)
    words = [format_value(m, info.unit) for m in medians]
    alt = "; ".join(map(" ".join, zip(names, words, strict=True))) + "."
    rows: Any = table.itertuples()
    with plot(height, caption, alt, ax=ax) as axes:
        for y, (row, group) in enumerate(zip(rows, groups, strict=True)):
            colour, marker = painted[group]
            interval(axes, y, row.low, row.high, colour)
            axes.plot([row.median], [y], marker, color=colour, **BIG)
        axis(axes, metric, medians, which="x")
        axes.margins(x=0.06)
        rows_of(axes, names)
        at_right(axes, words)
        if several_sources:
            legend(axes, painted)
    return axes  # type: ignore[no-any-return]


@Draws(by=ends_of)
def matrix(obs: Observations, *, intervals: bool = False, ax: Axes | None = None) -> Axes:
    """Medians by client (row) and server (column): each direction is a cell of its own.

    `by` are the two ends, by default as `netperf_lib.analysis.ends_of` finds them.

    Parameters
    ----------
    intervals : bool
        Write the interval below each median.

    Examples
    --------
    >>> axes = npl.plots.matrix("data/recorded/zones", "latency_oneway_us")
    """
    obs = obs if set(obs.by) == set(obs.asked) else obs.main()
    info, table = metric_of(obs.metric), levels_of(obs)
    if len(obs.asked) != 2 or table.empty:
        raise NothingToReport("a matrix needs a factor for each of the two ends")
    table = table.rename(columns=dict(zip(obs.asked, ("client", "server"), strict=True)))
    rows, columns = (
        list(map(str, sort_levels(*pair)))
        for pair in zip(obs.asked, (table["client"], table["server"]), strict=True)
    )
    pairs: Any = table.itertuples()
    cells = {(str(r.client), str(r.server)): r for r in pairs}
    grid = np.full((len(rows), len(columns)), np.nan)
    texts = np.full(grid.shape, "", dtype=object)
    for (a, b), row in cells.items():
        cell = rows.index(a), columns.index(b)
        grid[cell] = float(row.median)
        texts[cell] = format_value(float(row.median), info.unit)
        if intervals and not (pd.isna(row.low) or pd.isna(row.high)):
            texts[cell] += "\n" + " … ".join(
                format_value(float(v), info.unit) for v in (row.low, row.high)
            )
    alt = listed({f"{a} to {b}": row.median for (a, b), row in cells.items()}, info.unit)
    counts, deployments = [int(n) for n in table["n"]], attached(table).deployments
    caption = (
        f"{info.label} by client (row) and server (column): median of the runs"
        + (f", and below it {interval_words(counts, deployments=deployments)}" if intervals else "")
        + f". n = {each(counts)} per cell. Darker is "
        + {"lower": "slower", "higher": "faster"}.get(info.better or "", "more")
        + "; an empty cell was not measured."
    )
    with plot(0.75 + (0.52 if intervals else 0.42) * len(rows), caption, alt + ".", ax=ax) as axes:
        _cells(axes, grid, texts, rows, columns)
        axes.xaxis.tick_top()
        axes.xaxis.set_label_position("top")
        axes.set_xlabel("Server")
        axes.set_ylabel("Client")
        axes.tick_params(length=0, rotation=0)
        axes.grid(visible=False)
    return axes  # type: ignore[no-any-return]


def _cells(axes: Axes, grid: Any, texts: Any, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Draw the cells of a matrix, darker where the value is larger, with their words."""
    import seaborn as sns  # takes a while to import

    median = float(np.nanmedian(grid))
    # noise of a few per cent must not look like a difference
    low, high = min(float(np.nanmin(grid)), 0.9 * median), max(float(np.nanmax(grid)), 1.1 * median)
    norm: Any = LogNorm(low, high) if low > 0 and high / low > 8 else Normalize(low, high)
    size = {"fontsize": 9 if len(columns) < 7 else 7.5, "linespacing": 1.35}
    options: Any = {"annot": texts, "fmt": "", "annot_kws": size, "linewidths": 2, "cbar": False}
    heatmap: Any = sns.heatmap  # without types
    heatmap(grid, cmap=BLUES, norm=norm, xticklabels=columns, yticklabels=rows, ax=axes, **options)
    for text, value in zip(axes.texts, grid[~np.isnan(grid)], strict=True):
        text.set_color("white" if norm(value) > 0.55 else INK)
    for i, j in zip(*np.where(np.isnan(grid)), strict=True):
        axes.text(j + 0.5, i + 0.5, "–", ha="center", va="center", color=MUTE)
