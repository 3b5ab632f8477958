"""Conditions side by side.

Every run in time order, and levels in rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from ..analysis.colours import colours
from ..analysis.observe import Observations, as_tuple, level_names, level_of, observe
from ..analysis.words import interval_words
from ..metrics import format_value
from ..metrics import metric as metric_of
from .figure import (
    DOT,
    MOST_LINES,
    MOST_PANELS,
    canvas,
    each,
    label_axis,
    legend_height,
    listed,
    room,
    rows_of,
    some,
    title,
)

Factors = str | Sequence[str]


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
    info, complete = metric_of(obs.metric), obs.complete
    groups = complete.groupby("condition", observed=True)
    medians = {str(name): level_of(rows).median for name, rows in groups}
    number = "round" if obs.blocked else "run"
    words = f"{info.label} by {number}"
    panels = [obs] if ax is not None else [obs.only(names) for names in _near(medians)]
    units = len(set(complete["replicate"]))
    interval = interval_words(groups.size(), deployments=units)
    caption = (
        f"{info.label}: every run in time order; line and band: median of each condition and "
        f"{interval}. n = {each(groups.size())} per condition."
        + (" The panels have different scales." if len(panels) > 1 else "")
    )
    alt = f"Medians: {listed(medians, info.unit)}."
    height = 0.5 + sum(1.2 + legend_height(part.names) for part in panels)
    grid = {"nrows": len(panels), "sharex": True}
    with canvas(obs, height, caption, alt, ax, **grid) as charts:
        for chart, part in zip(charts, panels, strict=True):
            _rounds(
                chart, part, as_tuple(hue), "" if chart is not charts[0] else words, units
            )
            label_axis(chart, part, "y")
            chart.margins(y=0.15)
            room(chart)
        deployments = "" if units == 1 else f" ({units} deployments, one after another)"
        charts[-1].set_xlabel(f"{number.capitalize()}{deployments}")
        charts[-1].xaxis.set_major_locator(MaxNLocator(10, integer=True, min_n_ticks=1))
    return charts[0]  # type: ignore[no-any-return]


def _near(medians: Mapping[str, float]) -> list[list[str]]:
    """The conditions in panels: a few in each that can share a linear axis."""
    order = sorted(medians, key=lambda name: medians[name], reverse=True)
    panels: list[list[str]] = []
    for name in order:
        last = panels[-1] if panels else []
        if 0 < len(last) < MOST_LINES and medians[last[-1]] < 3 * medians[name]:
            last.append(name)
        else:
            panels.append([name])
    if len(panels) <= MOST_PANELS:
        return panels
    return [order[i : i + MOST_LINES] for i in range(0, len(order), MOST_LINES)]


def _rounds(
    chart: Axes, obs: Observations, hue: Sequence[str], words: str, units: int
) -> None:
    """Draw the runs of a panel, each condition with its median and interval."""
    called = (
        level_names(obs, hue) if hue else dict(zip(obs.names, obs.names, strict=True))
    )
    painted = colours(list(dict.fromkeys(called.values())))
    runs = obs.complete
    runs["at"] = (
        runs["round"] if units == 1 else runs.groupby(["replicate", "round"]).ngroup() + 1
    )
    for name, rows in runs.groupby("condition", observed=True):
        colour, marker = painted[called[str(name)]]
        level = level_of(rows)
        chart.plot(rows["at"], rows["value"], marker=marker, color=colour, lw=0.5, **DOT)
        chart.axhline(level.median, color=colour, lw=1)
        if level.low < level.high:
            chart.axhspan(level.low, level.high, color=colour, alpha=0.12, lw=0)
    title(chart, words, painted)


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
    obs = observe(data, metric, by, where=where)
    info = metric_of(obs.metric)
    rows = obs.levels[obs.levels["n"] > 0]
    some(rows, f"there is no value of {info.label}")
    names = [str(name) for name in rows.index]
    interval = interval_words(rows["n"], obs.table["replicate"].nunique())
    caption = (
        f"{info.label}: every run (points), median and {interval}. "
        f"n = {each(rows['n'])} per row."
    )
    alt = listed(dict(zip(names, rows["median"], strict=True)), info.unit)
    row_height = min(0.21, 7.4 / len(names))  # a figure fits a page, whatever it shows
    with canvas(obs, 0.75 + row_height * len(names), caption, alt, ax) as (chart,):
        painted = colours(names)
        _runs(chart, obs.complete, names, painted)
        for y, (name, row) in enumerate(zip(names, rows.itertuples(), strict=True)):
            _level(chart, y, row, painted[name])
        rows_of(chart, names)
        label_axis(chart, info.name, values=rows["median"])
        chart.set(title=info.label, ylabel="")
        right = chart.secondary_yaxis("right")
        medians = [format_value(v, info.unit) for v in rows["median"]]
        right.set_yticks(range(len(names)), medians)
        right.tick_params(length=0)
        right.spines["right"].set_visible(False)
    return chart  # type: ignore[no-any-return]


def _runs(
    chart: Axes,
    runs: pd.DataFrame,
    names: Sequence[str],
    painted: Mapping[str, tuple[str, str]],
) -> None:
    """Draw every run as a point of its condition's row."""
    import seaborn as sns  # takes a while to import

    palette = {name: colour for name, (colour, _) in painted.items()}
    row_of = {name: y for y, name in enumerate(names)}
    rows = runs["condition"].astype(str)
    places: Any = sns.stripplot  # without types
    look: Any = {"size": 3, "alpha": 0.45, "jitter": 0.28, "legend": False, "zorder": 1}
    places(
        x=runs["value"],
        y=rows.map(row_of),
        hue=rows,
        palette=palette,
        orient="h",
        native_scale=True,
        ax=chart,
        **look,
    )


def _level(chart: Axes, y: float, row: Any, look: tuple[str, str]) -> None:
    """Draw a median with its interval."""
    colour, marker = look
    below, above = row.median - row.low, row.high - row.median
    ends = None if pd.isna(row.low) else [[below], [above]]
    chart.errorbar(row.median, y, xerr=ends, color=colour, elinewidth=2.4, fmt="none")
    chart.plot(row.median, y, marker=marker, color=colour, **(DOT | {"ms": 6.5}))
