"""Throughput: how it grows with streams, what window and distance allow, and the share of the advertised bandwidth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.ticker import NullFormatter, PercentFormatter

from ..analysis.colours import colours
from ..analysis.limits import Held, limits, streams_of
from ..analysis.observe import Observations, ladders, level_of
from ..analysis.streams import advertised_bps as declared_bps
from ..analysis.words import interval_words
from ..errors import NothingToReport
from ..experiment.attached import attached
from ..metrics import format_value
from .drawing import Draws, plot
from .figure import (
    BIG,
    DOT,
    INK,
    MUTE,
    axis,
    conditions,
    each,
    interval,
    legend,
    legend_height,
    round_ticks,
    rows_of,
)
from .places import is_levels, levels_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..analysis.streams import Streams


@Draws("throughput_bps", by="streams")
def streams(
    obs: Observations, *, fits: Mapping[str, Streams] | None = None, ax: Axes | None = None
) -> Axes:
    """Throughput against the number of parallel streams, with the band that counts as saturated.

    There is a line for each combination of the other factors.

    Parameters
    ----------
    fits : mapping of str to Streams, optional
        The result of `netperf_lib.analysis.saturation`: the band is shaded and the number marked.

    Examples
    --------
    >>> axes = npl.plots.streams(exp, "throughput_bps")
    """
    fits = fits or {}
    metric, lines = obs.metric, ladders(obs, "streams")
    runs, painted = pd.concat(lines.values()), colours(list(lines))
    counts = runs.groupby(["condition", "streams"])[metric].count()
    words = interval_words(counts, deployments=len(set(runs["unit"])))
    shares = sorted({f"{100 * f.share:g} %" for f in fits.values()})
    caption = (
        f"Throughput against parallel streams: every round (thin), median and {words} (thick)"
        + (
            f"; shaded: at least {' or '.join(shares)} of the best median, ringed: the fewest streams shown to reach it"
            if fits
            else ""
        )
        + f". n = {each(counts)} per point."
    )
    levels = {
        name: {int(n): level_of(g, metric) for n, g in rows.groupby(rows["streams"].astype(int))}
        for name, rows in lines.items()
    }
    points = {
        name: {n: format_value(v.median, "bps") for n, v in steps.items()}
        for name, steps in levels.items()
    }
    alt = "; ".join(
        f"{name}: {', '.join(f'{n} {v}' for n, v in steps.items())}"
        for name, steps in points.items()
    )
    with plot(2.2 + legend_height(list(painted)), caption, alt + ".", ax=ax) as axes:
        for name, look in painted.items():
            for _, one in lines[name].sort_values("streams").groupby(["unit", "round"]):
                x, y = one["streams"].astype(float), one[metric].astype(float)
                axes.plot(x, y, color=look[0], lw=0.6, alpha=0.3)
            _ladder(axes, levels[name], look, fits.get(name))
        axes.set_xscale("log", base=2)
        every = sorted(runs["streams"].astype(int).unique())
        axes.set_xticks(every, [str(v) for v in every])
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("Parallel streams (log scale)")
        axis(axes, metric, runs[metric].astype(float), zero=True)
        legend(axes, painted)
    return axes  # type: ignore[no-any-return]


def _ladder(
    axes: Axes, levels: Mapping[int, Any], look: tuple[str, str], fit: Streams | None
) -> None:
    """The medians by streams, the band that counts as saturated, and the number that reaches it."""
    colour, marker = look
    medians = [v.median for v in levels.values()]
    axes.plot(list(levels), medians, marker, color=colour, **(BIG | {"ls": "-", "ms": 6}))
    for n, v in levels.items():
        axes.plot([n, n], [v.low, v.high], color=colour, lw=2.4, solid_capstyle="butt")
    if fit is not None:
        axes.axhspan(fit.share * max(medians), max(medians), color=colour, alpha=0.12, lw=0)
        if fit.enough is not None and fit.enough in levels:
            axes.plot(
                [fit.enough],
                [levels[fit.enough].median],
                "o",
                ms=14,
                mfc="none",
                mec=colour,
                mew=1.4,
            )


WINDOWS = (64 * 2**10, 256 * 2**10, 2**20, 4 * 2**20, 16 * 2**20, 64 * 2**20, 256 * 2**20)


@Draws("throughput_bps")
def roofline(obs: Observations, *, ax: Axes | None = None) -> Axes:
    """Throughput against round-trip time, with the limits that windows set for a stream: window / RTT.

    Throughput is divided by the number of streams.

    Examples
    --------
    >>> axes = npl.plots.roofline(exp, where={"streams": 1})
    """
    runs = obs.runs.dropna(subset=["rtt_loaded_us", "throughput_bps"])
    if runs.empty:
        raise NothingToReport(
            "the tool did not report the round-trip time under load; there is no roof to draw"
        )
    x = runs["rtt_loaded_us"].astype(float)
    rows: list[dict[str, Any]] = runs.to_dict("records")  # type: ignore[assignment]
    y = runs["throughput_bps"].astype(float) / list(map(streams_of, rows))
    painted = colours(conditions(runs))
    groups = pd.DataFrame({"x": x, "y": y}).groupby(runs["condition"].astype(str))
    medians = groups.median().iterrows()
    summary = "; ".join(
        f"{n}: {format_value(r.y, 'bps')} at {format_value(r.x, 'us')}" for n, r in medians
    )
    caption = (
        "Throughput of a stream against its round-trip time under load. The lines are roofs: a stream whose window is "
        "that large can carry no more (window / RTT). Points on a roof are limited by their window, points below all "
        f"roofs by something else. n = {each(groups.size())} per condition."
    )
    left, right = float(x.min()) / 2.2, float(x.max()) * 2.2
    bottom, top = float(y.min()) / 3, float(y.max()) * 4
    with plot(2.5 + legend_height(list(painted)), caption, summary + ".", ax=ax) as axes:
        for window in WINDOWS:
            _roof(axes, window, (left, right), (bottom, top))
        for name, (colour, marker) in painted.items():
            here = (runs["condition"].astype(str) == name).to_numpy()
            axes.plot(x[here], y[here], marker, color=colour, alpha=0.9, **(DOT | {"ms": 6}))
        axes.set(xscale="log", yscale="log", xlim=(left, right), ylim=(bottom, top))
        round_ticks(axes.xaxis, "us")
        round_ticks(axes.yaxis, "bps")
        axes.set_xlabel("Round-trip time under load (log scale)")
        axes.set_ylabel("Throughput of a stream (log scale)")
        legend(axes, painted)
    return axes  # type: ignore[no-any-return]


def _roof(axes: Axes, window: int, across: tuple[float, float], up: tuple[float, float]) -> None:
    """The most that a stream with this window can carry, labelled just under the top of the picture."""
    (left, right), (bottom, top) = across, up
    rtt_us = np.array(across)
    axes.plot(rtt_us, window * 8 / (rtt_us * 1e-6), color=MUTE, lw=0.8, ls=(0, (4, 2)), zorder=1)
    at, height = window * 8 / (top / 1.6 * 1e-6), top / 1.6
    if at > right / 1.15:
        at, height = right / 1.25, window * 8 / (right / 1.25 * 1e-6)
    if left * 1.1 < at and bottom * 1.2 < height < top:
        look: Any = {"fontsize": 7.5, "color": MUTE, "va": "center", "ha": "center", "zorder": 1.5}
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1.2}
        axes.text(at, height, format_value(window, "bytes"), bbox=box, **look)


def _advertised(data: Any, metric: Any) -> tuple[Any, Any, dict[str, Any]]:
    """A number in the place of the metric is the advertised bandwidth, in Gbit/s."""
    return (
        (data, None, {"advertised_bps": 1e9 * metric})
        if isinstance(metric, int | float)
        else (data, metric, {})
    )


@Draws("throughput_bps", drawable=is_levels, arrange=_advertised)
def share(
    data: Observations | pd.DataFrame,
    *,
    advertised_bps: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Median throughput of each condition as a share of the advertised bandwidth.

    A table of `netperf_lib.levels` can be drawn, too.

    Parameters
    ----------
    advertised_bps : float, optional
        The bandwidth that counts as 100 %; default: the smallest that the experiment declares. A number in the place
        of `metric` is one in Gbit/s.

    Examples
    --------
    >>> axes = npl.plots.share(exp, advertised_bps=10e9)
    """
    levels = levels_of(data)
    if advertised_bps is None and isinstance(data, Observations):
        advertised_bps = declared_bps(data)
    if not advertised_bps:
        raise NothingToReport(
            "no advertised bandwidth is known: bandwidth_mbps of an experiment declares it"
        )
    names = [str(n) for n in levels["condition"]]
    rows: Any = list(levels.itertuples())
    summary = "; ".join(
        f"{n} {100 * m / advertised_bps:.0f} %"
        for n, m in zip(names, levels["median"], strict=True)
    )
    words = interval_words((int(n) for n in levels["n"]), deployments=attached(levels).deployments)
    caption = (
        f"Median throughput as a share of the advertised bandwidth of {format_value(advertised_bps, 'bps')}, with "
        f"{words}. n = {each(levels['n'])} per condition."
    )
    with plot(0.7 + 0.22 * len(names), caption, summary + ".", ax=ax) as axes:
        for y, (row, (colour, marker)) in enumerate(
            zip(rows, colours(names).values(), strict=True)
        ):
            part = row.median / advertised_bps
            low, high = (None if v is None else v / advertised_bps for v in (row.low, row.high))
            axes.barh([y], [part], color=colour, alpha=0.28, height=0.6, lw=0)
            interval(axes, y, low, high, colour)
            axes.plot([part], [y], marker, color=colour, **BIG)
            beside: dict[str, Any] = {
                "textcoords": "offset points",
                "va": "center",
                "fontsize": 8.5,
            }
            axes.annotate(f"{100 * part:.0f} %", (part, y), (9, 0), **beside)
        axes.axvline(1, color=INK, lw=0.9)
        rows_of(axes, names)
        axes.set_xlim(0, max(1.12, 1.12 * float(levels["median"].max()) / advertised_bps))
        axes.xaxis.set_major_formatter(PercentFormatter(1, 0, " %"))
        axes.set_xlabel("Share of the advertised bandwidth")
        axes.grid(axis="y", visible=False)
    return axes  # type: ignore[no-any-return]


TIMES = {"path": INK, "receive window": "#0072b2", "send buffer": "#e69f00", "program": "#cc79a7"}


def _is_held(data: Any) -> bool:
    return isinstance(data, list | tuple) and all(isinstance(one, Held) for one in data)


@Draws("throughput_bps", drawable=_is_held, make=limits)
def waits(held: Sequence[Held], *, ax: Axes | None = None) -> Axes:
    """What the sender waited for: the time of each condition as a stacked bar.

    The result of `netperf_lib.limits` can be drawn, too. Conditions whose connections were not sampled are left out.

    Examples
    --------
    >>> axes = npl.plots.waits(exp)
    """
    rows = [one for one in held if one.times]
    if not rows:
        raise NothingToReport(
            "no connection was sampled while it ran: what its sender waited for is not known"
        )
    alt = "; ".join(
        f"{h.condition}: " + ", ".join(f"{k} {100 * v:.0f} %" for k, v in h.times.items())
        for h in rows
    )
    caption = (
        "What the sender waited for, according to the kernel's statistics: for the receiver's window, its own send "
        "buffer, or the program; the rest of the time data were on the path, or a link or processor held them. Medians "
        "of the runs."
    )
    with plot(0.8 + 0.2 * len(rows), caption, alt + ".", ax=ax) as axes:
        for y, one in enumerate(rows):
            left = 0.0
            for name, colour in TIMES.items():
                axes.barh(
                    [y], [one.times[name]], left=left, color=colour, alpha=0.75, height=0.62, lw=0
                )
                left += one.times[name]
        rows_of(axes, [one.condition for one in rows])
        axes.set_xlim(0, 1)
        axes.xaxis.set_major_formatter(PercentFormatter(1, 0, " %"))
        axes.set_xlabel("Share of the time after slow start")
        axes.grid(axis="y", visible=False)
        legend(axes, {name: (colour, "s") for name, colour in TIMES.items()})
    return axes  # type: ignore[no-any-return]


@Draws("throughput_bps", drawable=_is_held, make=limits)
def roofs(held: Sequence[Held], *, ax: Axes | None = None) -> Axes:
    """The throughput of each condition, and the rate that each limit allows.

    The result of `netperf_lib.limits` can be drawn, too.

    Examples
    --------
    >>> axes = npl.plots.roofs(exp)
    """
    rows = [one for one in held if one.roofs]
    if not rows:
        raise NothingToReport("no limit is known beside the throughput itself")
    names = list(dict.fromkeys(name for one in rows for name in one.roofs))
    painted = colours(names)
    alt = "; ".join(
        f"{h.condition}: {format_value(h.bps, 'bps')} of "
        + ", ".join(f"{k} {format_value(v, 'bps')}" for k, v in h.roofs.items())
        for h in rows
    )
    caption = (
        "Throughput (bar) and the rate that each limit allows (marks), from settings and the run itself: a bar that "
        "ends at a mark is limited by it. A link has a mark where its bandwidth is advertised."
    )
    with plot(0.8 + 0.2 * len(rows), caption, alt + ".", ax=ax) as axes:
        for y, one in enumerate(rows):
            axes.barh([y], [one.bps], color=MUTE, alpha=0.3, height=0.62, lw=0)
            for name, rate in one.roofs.items():
                colour, marker = painted[name]
                axes.plot([rate], [y], marker, color=colour, **BIG)
        every = [v for one in rows for v in (one.bps, *one.roofs.values())]
        axes.set_xscale("log")
        axes.set_xlim(min(every) / 2, max(every) * 1.5)
        rows_of(axes, [one.condition for one in rows])
        round_ticks(axes.xaxis, "bps")
        axes.set_xlabel("Throughput (log scale)")
        axes.grid(axis="y", visible=False)
        legend(axes, painted)
    return axes  # type: ignore[no-any-return]
