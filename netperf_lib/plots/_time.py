"""A metric over days and weeks: against the clock, and by hour of the day or weekday."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

from ..errors import NothingToReport, UsageError
from ..metrics import format_value
from ..metrics import metric as metric_of
from ..questions.colours import colours
from ..questions.history import History, ask_history
from ..questions.observe import Data
from .figure import INK, MUTE, Drawn, axis, conditions, drawing, each, legend, legend_height, plot, room

if TYPE_CHECKING:
    from matplotlib.axes import Axes


DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def history_of(data: History | Data, metric: str | None) -> History:
    """The history, or that of an experiment."""
    return data if isinstance(data, History) else ask_history(data, metric)


@drawing
def over_time(history: History | Data, metric: str | None = None, *, ax: Axes | None = None) -> Drawn:
    """Every run against the clock, the median of each period, and where the level changed.

    Parameters
    ----------
    history : History, or what `observe` takes
        As `ask_history` gives it, or an experiment and a metric (default: its first headline metric).
    ax : Axes, optional
        Where to draw; default: a figure of its own, with a caption.

    Examples
    --------
    >>> figure = npl.plots.over_time(exp, "latency_oneway_us")
    """
    history = history_of(history, metric)
    info = metric_of(history.metric)
    runs = history.runs
    painted = colours(conditions(runs))
    changes = [(name, p) for name, points in history.changes.items() for p in points]
    caption = (
        f"{info.label} over time: every run (points) and the median of each {history.period} (line)"
        + ("; vertical lines: changes of level" if changes else "")
        + f". {history.span}."
    )
    told = "; ".join(
        f"{name}: {format_value(float(s.iloc[0]), info.unit)} first, {format_value(float(s.iloc[-1]), info.unit)} last"
        for name, s in history.series.items()
    )
    with plot(2.9 + legend_height(list(painted)), caption, told + ".", ax=ax) as (figure, axes):
        size = 3.5 if len(runs) < 300 else 1.8
        for name, (colour, marker) in painted.items():
            mine = runs[runs["condition"].astype(str) == name]
            axes.plot(mine["started_utc"], mine[history.metric], marker, color=colour, ms=size, mew=0, alpha=0.35)
            line = history.series[name]
            width = line.index.to_series().diff().median()
            middle = line.index + (width / 2 if len(line) > 1 else width)
            if len(line) > 1:
                axes.plot(middle, line, color=colour, lw=1.8, solid_capstyle="round")
        for _, point in changes:
            for edge in filter(None, (point.at, point.until)):
                axes.axvline(edge, color=INK, lw=0.9, ls=(0, (4, 2)))
            at: Any = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
            axes.annotate(f"×{point.ratio:.3g}", (point.at, 1), (3, -9), fontsize=8, color=INK, **at)
        axis(axes, history.metric, runs[history.metric].astype(float))
        room(axes, 0.1)
        locator: Any = AutoDateLocator(minticks=3, maxticks=8)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        axes.set_xlabel("Time (UTC)")
        legend(figure, painted)
    return figure


@drawing
def by_clock(
    history: History | Data, part: str = "hour", *, metric: str | None = None, ax: Axes | None = None
) -> Drawn:
    """Median and quartiles of the runs by hour of the day or by weekday.

    Parameters
    ----------
    history, metric
        As `over_time` takes them.
    part : {"hour", "weekday"}
    ax : Axes, optional
        Where to draw; default: a figure of its own, with a caption.

    Raises
    ------
    NothingToReport
        The runs cover less than two hours of the day, or, for weekdays, less than a week.

    Examples
    --------
    >>> figure = npl.plots.by_clock(exp, "hour", metric="throughput_bps")
    """
    if part not in ("hour", "weekday"):
        raise UsageError(f"part is 'hour' or 'weekday', not {part!r}")
    history = history_of(history, metric)
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
    rows: list[str] = []
    with plot(2.4 + legend_height(list(painted)), caption, "", ax=ax) as (figure, axes):
        for i, (name, (colour, marker)) in enumerate(painted.items()):
            mine: Any = table[table["condition"].astype(str) == name].sort_values("part")
            x = mine["part"] + 0.08 * (i - (len(painted) - 1) / 2)
            axes.vlines(x, mine["low"], mine["high"], color=colour, lw=2, alpha=0.55)
            axes.plot(x, mine["median"], marker, ls="-", lw=0.8, color=colour, ms=5, mec="white", mew=0.5)
            best, worst = mine["median"].min(), mine["median"].max()
            rows.append(f"{name}: {format_value(float(best), info.unit)} to {format_value(float(worst), info.unit)}")
        figure.alt = f"Medians by {words}: " + "; ".join(rows) + "."
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
        legend(figure, painted)
    return figure
