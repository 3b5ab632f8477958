"""A metric over days and weeks: against the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

from ..analysis.colours import colours
from ..analysis.history import History, ask_history
from ..metrics import metric as metric_of
from .figure import (
    INK,
    MOST_LINES,
    MOST_PANELS,
    canvas,
    label_axis,
    legend_height,
    listed,
    room,
    title,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes


def over_time(
    data: Any,
    metric: str | None = None,
    *,
    where: Mapping[str, Any] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw every run over time, the median of each period, and where the level changed.

    Parameters
    ----------
    data : History, or what `observe` takes
        What to draw; of the former, what `netperf_lib.analysis.ask_history` returns.
    metric : str, optional
        Default: the first headline metric.
    where : mapping, optional
        Factor and level: only these runs.
    ax : Axes, optional
        Where to draw; default: a new figure with a caption.

    Examples
    --------
    >>> ax = npl.plots.over_time("data/recorded/day")
    """
    history = (
        data if isinstance(data, History) else ask_history(data, metric, where=where)
    )
    info, names = metric_of(history.metric), list(history.series)
    most = MOST_LINES * MOST_PANELS
    panels = [names[i : i + MOST_LINES] for i in range(0, len(names), MOST_LINES)][
        :MOST_PANELS
    ]
    caption = (
        f"{info.label} over time: every run (points) and the median of each {history.period} "
        f"(line); a vertical line is a change of level. {history.span}."
        + (f" The first {most} of {len(names)} conditions." if len(names) > most else "")
    )
    last = {name: medians.iloc[-1] for name, medians in history.series.items()}
    height = 0.5 + sum(1.4 + legend_height(part) for part in panels)
    grid = {"nrows": len(panels) if ax is None else 1, "sharex": True}
    alt = f"Last: {listed(last, info.unit)}."
    with canvas(history.runs, height, caption, alt, ax, **grid) as charts:
        painted = colours(names)
        for chart, part in zip(charts, panels if ax is None else [names], strict=True):
            for name in part:
                _line(chart, history, name, painted[name][0])
            values = history.runs.loc[
                history.runs["condition"].isin(part), history.metric
            ]
            label_axis(chart, history.metric, "y", values)
            room(chart)
            first = chart is charts[0]
            words = f"{info.label} over time" if first else ""
            title(chart, words, {name: painted[name] for name in part})
        locator: Any = AutoDateLocator(minticks=3, maxticks=8)  # type: ignore[no-untyped-call]
        charts[-1].xaxis.set_major_locator(locator)
        dates = ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
        charts[-1].xaxis.set_major_formatter(dates)
        charts[-1].set_xlabel("Time (UTC)")
    return charts[0]  # type: ignore[no-any-return]


def _line(chart: Axes, history: History, name: str, colour: str) -> None:
    """Draw the runs of a condition, its medians and its changes."""
    rows = history.runs[history.runs["condition"] == name]
    size = 12 if len(history.runs) < 300 else 3
    chart.scatter(
        rows["started_utc"], rows[history.metric], s=size, color=colour, alpha=0.35, lw=0
    )
    medians = history.series[name]
    if len(medians) > 1:  # each median at the middle of its period
        half = medians.index.to_series().diff().median() / 2
        chart.plot(medians.index + half, medians, color=colour, lw=1.8)
    for point in history.changes.get(name, ()):
        for edge in filter(None, (point.at, point.until)):
            at_edge: Any = edge  # pandas registers its times with matplotlib
            chart.axvline(at_edge, color=INK, lw=0.9, ls="--")
        at: Any = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
        chart.annotate(f"×{point.ratio:.3g}", (point.at, 1), (3, -9), fontsize=8, **at)
