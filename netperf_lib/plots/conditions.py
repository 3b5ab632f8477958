"""Conditions side by side: every run in time order, and levels in rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
    info, runs, table = metric_of(obs.metric), obs.complete, obs.levels
    table = table[table["n"] > 0]
    deployments = runs["replicate"].nunique()
    called = {name: name for name in table.index}
    if hue:
        called = obs.called(as_tuple(hue))
    runs["called"] = runs["condition"].astype(str).map(called)
    runs["place"] = runs["round"]
    order = "Round" if obs.blocked else "Run"
    axis = order
    if deployments > 1:
        runs["place"] = runs.groupby(["replicate", "round"]).ngroup() + 1
        axis += f" ({deployments} deployments, one after another)"
    panels = [list(table.index)] if ax is not None else _near(table["median"])
    caption = (
        f"{_measured(obs)}: runs in time order; line and band: median and "
        f"{interval_words(table['n'], deployments)}. n = {each(table['n'])} per condition."
    )
    if len(panels) > 1:
        caption += " The panels have different scales."
    alt = f"Medians: {listed(table['median'], info.unit)}."
    names = [list(dict.fromkeys(called[name] for name in panel)) for panel in panels]
    height = 0.8 + sum(max(1.1, legend_height(part)) for part in names)
    grid = {"nrows": len(panels), "sharex": True}
    with canvas(obs.origin.notice, height, caption, alt, ax, **grid) as charts:
        for chart, panel, part in zip(charts, panels, names, strict=True):
            shown = runs[runs["condition"].isin(panel)]
            _panel(chart, shown, table.loc[panel], called, part)
            label_axis(chart, obs.metric, "y", shown["value"])
            chart.margins(y=0.15)
            room(chart)
        charts[0].set_title(f"{info.label} by {order.lower()}")
        charts[-1].set_xlabel(axis)
        charts[-1].xaxis.set_major_locator(MaxNLocator(10, integer=True, min_n_ticks=1))
    return charts[0]  # type: ignore[no-any-return]


def _measured(obs: Observations) -> str:
    return f"Measured by {measured_by(obs)}"


def _near(medians: pd.Series[float]) -> list[list[str]]:
    """The conditions in panels: a few in each that can share a linear axis."""
    ordered = medians.sort_values(ascending=False, kind="stable")
    panels: list[list[str]] = []
    above = 0.0
    for name, median in ordered.items():
        if not panels or len(panels[-1]) == MOST_LINES or above >= 3 * median:
            panels.append([])
        panels[-1].append(str(name))
        above = median
    if len(panels) <= MOST_PANELS:
        return panels
    names = list(ordered.index)
    return [names[i : i + MOST_LINES] for i in range(0, len(names), MOST_LINES)]


def _panel(
    chart: Axes,
    runs: pd.DataFrame,
    table: pd.DataFrame,
    called: Mapping[str, str],
    names: Sequence[str],
) -> None:
    """Draw the runs of a panel, each condition with its median and interval."""
    import seaborn as sns  # takes a while to import

    looks = colours(names)
    look: Any = {
        "palette": {name: colour for name, (colour, _) in looks.items()},
        "markers": {name: marker for name, (_, marker) in looks.items()},
    }
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
    for name, level in table.iterrows():
        colour, _ = looks[called[str(name)]]
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
    info, table = metric_of(obs.metric), obs.levels
    known = table[table["n"] > 0]
    some(known, f"there is no value of {info.label}")
    table = known.head(MOST_ROWS)
    deployments = obs.complete["replicate"].nunique()
    caption = (
        f"{_measured(obs)}: every run (points), median and "
        f"{interval_words(table['n'], deployments)}. n = {each(table['n'])} per row."
    )
    if len(known) > len(table):
        caption += f" The first {len(table)} of {len(known)} conditions."
    alt = listed(table["median"], info.unit)
    names = list(map(str, table.index))
    palette = {name: colour for name, (colour, _) in colours(names).items()}
    with canvas(obs.origin.notice, 0.75 + 0.21 * len(names), caption, alt, ax) as (
        chart,
    ):
        runs = obs.complete.astype({"condition": str})
        runs = runs[runs["condition"].isin(names)]
        rows: Any = {"x": "value", "y": "condition", "hue": "condition", "order": names}
        points: Any = {"size": 3, "alpha": 0.45, "jitter": 0.28, "legend": False}
        sns.stripplot(runs, **rows, **points, palette=palette, zorder=1, ax=chart)
        places, medians, ink = range(len(names)), table["median"], list(palette.values())
        ends = [medians - table["low"], table["high"] - medians]
        chart.errorbar(medians, places, xerr=ends, fmt="none", ecolor=ink, elinewidth=2.4)
        chart.scatter(medians, places, s=42, c=ink, ec="white", lw=0.5, zorder=3)
        label_axis(chart, info.name, values=medians)
        chart.grid(axis="y", visible=False)
        chart.set_ylim(len(names) - 0.4, -0.6)
        chart.set(title=info.label, ylabel="")
        right = chart.secondary_yaxis("right")
        right.set_yticks(places, [format_value(v, info.unit) for v in medians])
        right.tick_params(length=0)
        right.spines["right"].set_visible(False)
    return chart  # type: ignore[no-any-return]
