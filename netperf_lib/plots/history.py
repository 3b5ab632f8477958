"""A metric over days and weeks: against the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

from ..analysis.runs import measurement
from ..analysis.series import History, ask_history
from ..metrics import metric as metric_of
from .colours import colours
from .figure import (
    INK,
    MOST_LINES,
    MOST_PANELS,
    canvas,
    label_axis,
    legend,
    legend_height,
    listed,
    room,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    history = data
    if not isinstance(data, History):
        history = ask_history(data, metric, where=where)
    info, names = metric_of(history.metric), list(history.series)
    panels = [names]
    if ax is None:
        panels = [names[i : i + MOST_LINES] for i in range(0, len(names), MOST_LINES)]
        panels = panels[:MOST_PANELS]
    caption = (
        f"{info.label} over time: every run (points) and the median of each {history.period} "
        f"(line); a vertical line is a change of level. {history.span}."
    )
    shown = sum(map(len, panels))
    if shown < len(names):
        caption += f" The first {shown} of {len(names)} conditions."
    last = {name: medians.iloc[-1] for name, medians in history.series.items()}
    alt = f"Last: {listed(last, info.unit)}."
    height = 0.8 + sum(max(1.3, legend_height(part)) for part in panels)
    grid = {"nrows": len(panels), "sharex": True}
    notice = measurement(history.runs).origin.notice
    with canvas(notice, height, caption, alt, ax, **grid) as charts:
        for chart, part in zip(charts, panels, strict=True):
            _panel(chart, history, part)
        charts[0].set_title(f"{info.label} over time")
        locator: Any = AutoDateLocator(minticks=3, maxticks=8)  # type: ignore[no-untyped-call]
        charts[-1].xaxis.set_major_locator(locator)
        dates = ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
        charts[-1].xaxis.set_major_formatter(dates)
        charts[-1].set_xlabel("Time (UTC)")
    return charts[0]  # type: ignore[no-any-return]


def _panel(chart: Axes, history: History, names: Sequence[str]) -> None:
    """Draw the runs of some conditions, their medians and their changes."""
    import seaborn as sns  # takes a while to import

    palette = {name: colour for name, (colour, _) in colours(names).items()}
    runs = history.runs[history.runs["condition"].isin(names)]
    size = 12 if len(history.runs) < 300 else 3
    axes: Any = {"x": "started_utc", "y": history.metric, "hue": "condition"}
    look: Any = {"palette": palette, "hue_order": names, "alpha": 0.35, "lw": 0}
    sns.scatterplot(runs.astype({"condition": str}), **axes, **look, s=size, ax=chart)
    for name in names:
        medians = history.series[name]
        if len(medians) > 1:  # each median at the middle of its period
            half = medians.index.to_series().diff().median() / 2
            chart.plot(medians.index + half, medians, color=palette[name], lw=1.8)
        for point in history.changes.get(name, ()):
            for edge in filter(None, (point.start, point.end)):
                at_edge: Any = edge  # pandas registers its times with matplotlib
                chart.axvline(at_edge, color=INK, lw=0.9, ls="--")
            place: Any = {"xycoords": ("data", "axes fraction"), "fontsize": 8}
            chart.annotate(
                f"×{point.ratio:.3g}",
                (point.start, 1),
                (3, -9),
                textcoords="offset points",
                **place,
            )
    label_axis(chart, history.metric, "y", runs[history.metric])
    room(chart)
    legend(chart)
