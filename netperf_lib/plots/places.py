"""Levels by place: any number of conditions side by side, and zones against zones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from ..metrics import format_value
from ..metrics import metric as metric_of
from .figure import Plot, axis, colours, each, legend, legend_height, plot

__all__ = ["levels", "zone_pairs"]


def levels(table: pd.DataFrame, metric: str) -> Plot:
    """Median and interval of every condition, one under the other.

    Parameters
    ----------
    table : DataFrame
        ``condition``, ``n``, ``median``, ``low``, ``high``, as `netperf_lib.levels` gives it; a column ``source``,
        where there is one, tells who measured.
    metric : str
        What the numbers are.
    """
    info = metric_of(metric)
    names = [str(n) for n in table["condition"]]
    groups = [str(s) for s in table["source"]] if "source" in table else names
    painted = colours(list(dict.fromkeys(groups)))
    told = "; ".join(f"{n} {format_value(float(m), info.unit)}" for n, m in zip(names, table["median"], strict=True))
    rows: Any = list(table.itertuples())
    several = (table["n"] > 1).any()
    caption = (
        f"{info.label}: median of the runs"
        + (" and its interval by order statistics" if several else "")
        + f". n = {each(int(n) for n in table['n'])} runs a row."
    )
    several_sources = "source" in table and len(painted) > 1
    row_height = min(0.25, 7.4 / len(names))  # a figure fits a page, whatever it shows
    height = 0.85 + row_height * len(names) + (legend_height(list(painted)) + 0.2 if several_sources else 0)
    with plot(height, caption, told + ".") as (fig, axes):
        for y, (row, group) in enumerate(zip(rows, groups, strict=True)):
            colour, marker = painted[group]
            ends = [float(v) for v in (row.low, row.high) if v is not None and not pd.isna(v)]
            if len(ends) == 2 and all(math.isfinite(v) for v in ends):
                axes.plot(ends, [y, y], color=colour, lw=2.4, solid_capstyle="butt")
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


def zone_pairs(runs: pd.DataFrame, metric: str) -> Plot:
    """Medians by zone of the client and zone of the server: each direction is a cell of its own.

    Parameters
    ----------
    runs : DataFrame
        One row a run, with ``client_zone`` and ``server_zone`` (and ``…_zone_physical`` where they are known).
    metric : str
        Column.
    """
    import seaborn as sns  # it takes seconds to import, and only this figure needs it

    info = metric_of(metric)
    physical = runs["client_zone_physical"].notna().all() and runs["server_zone_physical"].notna().all()
    end = "_physical" if physical else ""
    sides = [f"client_zone{end}", f"server_zone{end}"]
    kept = runs[runs[sides[0]].notna() & runs[sides[1]].notna()]
    grid = kept.pivot_table(index=sides[0], columns=sides[1], values=metric, aggfunc="median", observed=True).astype(
        float
    )
    count = kept.groupby(sides, observed=True)[metric].count()
    words = grid.map(lambda v: format_value(v, info.unit))
    told = "; ".join(
        f"{a} to {b} {words.loc[a, b]}" for a in grid.index for b in grid.columns if words.loc[a, b] != "–"
    )
    caption = (
        f"{info.label} by zone of the client (row) and of the server (column): median of the runs. "
        + ("Zones are physical ones. " if physical else "Zones are logical: their numbers are the subscription's own. ")
        + f"n = {each(count)} runs a cell."
    )
    middle = float(kept[metric].astype(float).median())
    with plot(1.2 + 0.55 * len(grid), caption, told + ".") as (fig, axes):
        sns.heatmap(  # type: ignore[no-untyped-call]  # seaborn has no types
            grid,
            ax=axes,
            annot=words.to_numpy(),
            fmt="",
            cmap="cividis_r" if info.better == "lower" else "cividis",
            linewidths=2,
            linecolor="white",
            vmin=min(float(np.nanmin(grid.to_numpy())), 0.85 * middle),  # so that noise does not look like a difference
            vmax=max(float(np.nanmax(grid.to_numpy())), 1.15 * middle),
            annot_kws={"fontsize": 9},
            cbar=False,  # every cell tells its value
        )
        axes.set_xlabel("Zone of the server")
        axes.set_ylabel("Zone of the client")
        axes.tick_params(length=0, rotation=0)
        axes.grid(visible=False)
    return fig
