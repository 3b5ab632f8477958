"""A metric over days and weeks: against the clock, and by hour of the day or weekday."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

from ..analysis.colours import colours
from ..analysis.history import History, ask_history
from ..analysis.runs import headline_metrics
from ..errors import NothingToReport, UsageError
from ..metrics import METRICS, format_value
from ..metrics import metric as metric_of
from .drawing import Draws, plot
from .figure import DOT, INK, MUTE, axis, conditions, each, legend, legend_height, room

if TYPE_CHECKING:
    from matplotlib.axes import Axes


DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def _is_history(data: Any) -> bool:
    return isinstance(data, History)


def _first(data: Any) -> str:
    return next(iter(headline_metrics(data)), "latency_oneway_us")


def _part(data: Any, metric: Any) -> tuple[Any, Any, dict[str, Any]]:
    """A part of the calendar may stand where else the metric stands."""
    return (
        (data, metric, {})
        if metric is None or str(metric) in METRICS
        else (data, None, {"part": metric})
    )


@Draws(_first, drawable=_is_history, make=ask_history)
def over_time(history: History, *, ax: Axes | None = None) -> Axes:
    """Every run over time, the median of each period, and where the level changed.

    The result of `netperf_lib.analysis.ask_history` can be drawn, too.

    Examples
    --------
    >>> axes = npl.plots.over_time(exp, "latency_oneway_us")
    """
    info = metric_of(history.metric)
    runs = history.runs
    painted = colours(conditions(runs))
    changes = [(name, p) for name, points in history.changes.items() for p in points]
    caption = (
        f"{info.label} over time: every run (points) and the median of each {history.period} (line)"
        + ("; vertical lines: changes of level" if changes else "")
        + f". {history.span}."
    )
    summary = "; ".join(
        f"{name}: {format_value(float(s.iloc[0]), info.unit)} first, {format_value(float(s.iloc[-1]), info.unit)} last"
        for name, s in history.series.items()
    )
    with plot(2.9 + legend_height(list(painted)), caption, summary + ".", ax=ax) as axes:
        size = 3.5 if len(runs) < 300 else 1.8
        for name, (colour, marker) in painted.items():
            rows = runs[runs["condition"].astype(str) == name]
            axes.plot(
                rows["started_utc"],
                rows[history.metric],
                marker,
                color=colour,
                ms=size,
                mew=0,
                alpha=0.35,
            )
            line = history.series[name]
            if len(line) > 1:  # each median at the middle of its period
                half = line.index.to_series().diff().median() / 2
                axes.plot(line.index + half, line, color=colour, lw=1.8, solid_capstyle="round")
        for _, point in changes:
            for edge in filter(None, (point.at, point.until)):
                axes.axvline(edge, color=INK, lw=0.9, ls=(0, (4, 2)))
            at: Any = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
            axes.annotate(
                f"×{point.ratio:.3g}", (point.at, 1), (3, -9), fontsize=8, color=INK, **at
            )
        axis(axes, history.metric, runs[history.metric].astype(float))
        room(axes, 0.1)
        locator: Any = AutoDateLocator(minticks=3, maxticks=8)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        axes.set_xlabel("Time (UTC)")
        legend(axes, painted)
    return axes  # type: ignore[no-any-return]


@Draws(_first, drawable=_is_history, make=ask_history, arrange=_part)
def by_clock(history: History, *, part: str = "hour", ax: Axes | None = None) -> Axes:
    """Median and quartiles of the runs by hour of the day or by weekday.

    Parameters
    ----------
    part : {"hour", "weekday"}
        It may stand in the place of `metric`.

    Raises
    ------
    UsageError
        There is no such part.

    Examples
    --------
    >>> axes = npl.plots.by_clock(exp, "throughput_bps", part="hour")
    """
    if part not in ("hour", "weekday"):
        raise UsageError(f"part is 'hour' or 'weekday', not {part!r}")
    table = history.by(part)
    words = "hour of the day" if part == "hour" else "weekday"
    if table["part"].nunique() < 2:
        raise NothingToReport(f"all runs fall into one {words}")
    started = history.runs["started_utc"]
    if part == "weekday" and (started.max() - started.min()).days < 6:
        raise NothingToReport("the runs cover less than a week")
    info = metric_of(history.metric)
    painted = colours([str(c) for c in dict.fromkeys(table["condition"].astype(str))])
    caption = (
        f"{info.label} by {words} (UTC): median of the runs, and the range from the first to the third quartile. "
        f"n = {each(table['n'], 'run')} per point."
    )
    spread = table.groupby("condition", observed=True, sort=False)["median"].agg(["min", "max"])
    ranges = (
        f"{name}: {format_value(low, info.unit)} to {format_value(high, info.unit)}"
        for name, low, high in spread.itertuples()
    )
    alt = f"Medians by {words}: {'; '.join(ranges)}."
    with plot(2.4 + legend_height(list(painted)), caption, alt, ax=ax) as axes:
        for i, (name, (colour, marker)) in enumerate(painted.items()):
            rows: Any = table[table["condition"].astype(str) == name].sort_values("part")
            x = rows["part"] + 0.08 * (i - (len(painted) - 1) / 2)
            axes.vlines(x, rows["low"], rows["high"], color=colour, lw=2, alpha=0.55)
            axes.plot(
                x, rows["median"], marker, color=colour, **(DOT | {"ls": "-", "lw": 0.8, "ms": 5})
            )
        axis(axes, history.metric, table["median"].astype(float))
        room(axes, 0.1)
        if part == "hour":
            axes.set_xticks(range(0, 24, 3), [f"{h:02d}" for h in range(0, 24, 3)])
            axes.set_xlim(-0.7, 23.7)
        else:
            axes.set_xticks(range(7), DAYS)
            axes.set_xlim(-0.5, 6.5)
        axes.set_xlabel(f"{words[:1].upper()}{words[1:]} (UTC)")
        axes.tick_params(axis="x", colors=MUTE)
        legend(axes, painted)
    return axes  # type: ignore[no-any-return]
