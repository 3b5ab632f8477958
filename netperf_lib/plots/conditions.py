"""Conditions side by side: every run in time order, and levels in rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from ..analysis.observe import Observations, as_tuple, measured_by, observe
from ..analysis.words import interval_words
from ..metrics import format_value
from ..metrics import metric as metric_of
from .colours import colours
from .figure import (
    MOST_LINES,
    MOST_PANELS,
    canvas,
    each,
    label_axis,
    legend,
    legend_height,
    listed,
    right_ticks,
    room,
    some,
)

Factors = str | Sequence[str]
MOST_ROWS = 36
"""Conditions in rows of a figure, which fits a page."""


def rounds(
    data: Any,
    metric: str | None = None,
    *,
    hue: Factors = (),
    by: Factors = (),
    where: Mapping[str, Any] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw every run in time order, and the median of each condition.

    Conditions that are far apart get separate panels, each with its own axis.

    Parameters
    ----------
    data : Observations, or what `observe` takes
        What to draw: an experiment, its runs, its folder, observations or an answer.
    metric : str, optional
        The metric, where `data` does not imply it.
    hue : str or sequence of str, optional
        Factors whose levels get a colour each; other factors that vary get lines, and no
        colours.
    by, where : optional
        As `observe` takes them; each condition gets a colour.
    ax : Axes, optional
        Where to draw; default: a new figure with a caption.

    Returns
    -------
    Axes
        The axes drawn on, or the first of several; `figure.axes` are all.

    Examples
    --------
    >>> ax = npl.plots.rounds(exp, "latency_oneway_us", by="placement")
    """
    obs = observe(data, metric, hue or by, where=where)
    info = metric_of(obs.metric)
    table = obs.levels[obs.levels["n"] > 0].assign(called=lambda one: one.index)
    if hue:
        table["called"] = table.index.map(obs.called(as_tuple(hue)))
    panels = [table] if ax is not None else _near(table)
    caption = _caption(obs, table, "runs in time order; line and band:", "condition")
    if len(panels) > 1:
        caption += " The panels have different scales."
    alt = f"Medians: {listed(table['median'], info.unit)}."
    runs = obs.complete.join(table["called"], on="condition")
    runs["place"] = runs["round"]
    order = axis = "Round" if obs.blocked else "Run"
    deployments = runs["replicate"].nunique()
    if deployments > 1:
        runs["place"] = runs.groupby(["replicate", "round"]).ngroup() + 1
        axis += f" ({deployments} deployments, one after another)"
    heights = [legend_height(panel["called"].unique()) for panel in panels]
    height = 0.8 + np.maximum(heights, 1.1).sum()
    grid = {"nrows": len(panels), "sharex": True}
    with canvas(obs.origin.notice, height, caption, alt, ax, **grid) as charts:
        for chart, panel in zip(charts, panels, strict=True):
            shown = runs[runs["condition"].isin(panel.index)]
            _panel(chart, shown, panel)
            label_axis(chart, obs.metric, "y", shown["value"])
            chart.margins(y=0.15)
            room(chart)
        charts[0].set_title(f"{info.label} by {order.lower()}")
        charts[-1].set_xlabel(axis)
        charts[-1].xaxis.set_major_locator(MaxNLocator(10, integer=True, min_n_ticks=1))
    return charts[0]  # type: ignore[no-any-return]


def _caption(obs: Observations, table: pd.DataFrame, drawn: str, row: str) -> str:
    """What is drawn, of how many runs."""
    interval = interval_words(table["n"], obs.complete["replicate"].nunique())
    counts = f"n = {each(table['n'])} per {row}"
    return f"Measured by {measured_by(obs)}: {drawn} median and {interval}. {counts}."


def _near(table: pd.DataFrame) -> list[pd.DataFrame]:
    """The conditions in panels: a few in each that can share a linear axis."""
    ordered = table.sort_values("median", ascending=False, kind="stable")
    scale = (ordered["median"].shift() >= 3 * ordered["median"]).cumsum()
    place = scale.groupby(scale).cumcount() // MOST_LINES
    panels = ordered.groupby([scale, place])
    if panels.ngroups > MOST_PANELS:
        panels = ordered.groupby(np.arange(len(ordered)) // MOST_LINES)
    return [panel for _, panel in panels]


def _panel(chart: Axes, runs: pd.DataFrame, table: pd.DataFrame) -> None:
    """Draw the runs of a panel, each condition with its median and interval."""
    import seaborn as sns  # takes a while to import

    looks = colours(list(table["called"].unique()))
    look: Any = pd.DataFrame(looks, index=["palette", "markers"]).to_dict("index")
    names = list(looks)
    sns.lineplot(
        runs,
        x="place",
        y="value",
        hue="called",
        style="called",
        hue_order=names,
        style_order=names,
        units="condition",
        estimator=None,
        dashes=False,
        lw=0.5,
        ax=chart,
        **look,
    )
    for _, level in table.iterrows():
        colour, _ = looks[level["called"]]
        chart.axhline(level["median"], color=colour, lw=1)
        if level["low"] < level["high"]:
            chart.axhspan(level["low"], level["high"], color=colour, alpha=0.12, lw=0)
    legend(chart)


def levels(
    data: Any,
    metric: str | None = None,
    *,
    by: Factors = (),
    where: Mapping[str, Any] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw every run, and the median with its interval, of every condition in rows.

    Parameters
    ----------
    data : Observations, or what `observe` takes
        What to draw.
    metric : str, optional
        The metric, where `data` does not imply it.
    by, where : optional
        As `observe` takes them.
    ax : Axes, optional
        Where to draw; default: a new figure with a caption.

    Returns
    -------
    Axes
        The axes drawn on.

    Examples
    --------
    >>> ax = npl.plots.levels(exp, "latency_oneway_us", by="placement")
    """
    import seaborn as sns  # takes a while to import

    obs = observe(data, metric, by, where=where)
    info = metric_of(obs.metric)
    known = obs.levels[obs.levels["n"] > 0]
    some(known, f"there is no value of {info.label}")
    table = known.head(MOST_ROWS)
    caption = _caption(obs, table, "every run (points),", "row")
    if len(known) > len(table):
        caption += f" The first {len(table)} of {len(known)} conditions."
    medians, names = table["median"], list(table.index)
    ink = [colour for colour, _ in colours(names).values()]
    height, alt = 0.75 + 0.21 * len(names), listed(medians, info.unit)
    with canvas(obs.origin.notice, height, caption, alt, ax) as (chart,):
        runs = obs.complete.astype({"condition": str})
        runs = runs[runs["condition"].isin(names)]
        rows: Any = {"y": "condition", "order": names}
        rows |= {"hue": "condition", "hue_order": names, "palette": ink}
        points: Any = {"size": 3, "alpha": 0.45, "jitter": 0.28, "legend": False}
        sns.stripplot(runs, x="value", **rows, **points, zorder=1, ax=chart)
        places = range(len(names))
        ends = [medians - table["low"], table["high"] - medians]
        chart.errorbar(medians, places, xerr=ends, fmt="none", ecolor=ink, elinewidth=2.4)
        chart.scatter(medians, places, s=42, c=ink, ec="white", lw=0.5, zorder=3)
        label_axis(chart, info.name, values=medians)
        chart.grid(axis="y", visible=False)
        chart.set_ylim(len(names) - 0.4, -0.6)
        chart.set(title=info.label, ylabel="")
        right_ticks(chart).set_yticks(
            places, [format_value(v, info.unit) for v in medians]
        )
    return chart  # type: ignore[no-any-return]
