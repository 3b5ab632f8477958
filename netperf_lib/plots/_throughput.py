"""Throughput: how it grows with streams, what window and distance allow, and the share of the advertised bandwidth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.ticker import FuncFormatter, NullFormatter

from ..errors import NothingToReport
from ..metrics import format_value
from ..questions.colours import colours
from ..questions.details import advertised_bps as declared_bps
from ..questions.observe import Data, ladders, level_of, observed
from ..questions.words import interval_words
from .figure import (
    INK,
    MUTE,
    Drawn,
    axis,
    conditions,
    drawing,
    each,
    interval,
    legend,
    legend_height,
    plot,
    tick_words,
)
from .places import levels_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..questions.limits import Held
    from ..stats import Streams


@drawing
def streams(
    data: Data,
    metric: str = "throughput_bps",
    *,
    fits: Mapping[str, Streams] | None = None,
    where: Mapping[str, Any] | None = None,
    pool: str | Sequence[str] = (),
    ax: Axes | None = None,
) -> Drawn:
    """Throughput against the number of parallel streams, with the band that counts as saturated.

    Parameters
    ----------
    data, metric, where, pool
        What to draw, as `observe` takes it, or an answer: a line for each combination of the other factors.
    fits : mapping of str to Streams, optional
        As `netperf_lib.questions.saturation` gives them: the band is shaded and the number marked.
    ax : Axes, optional
        Where to draw; default: a figure of its own, with a caption.

    Examples
    --------
    >>> figure = npl.plots.streams(exp, "throughput_bps")
    """
    fits = fits or {}
    obs = observed(data, metric, by="streams", where=where, pool=pool)
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
    told = []
    with plot(2.2 + legend_height(list(painted)), caption, "", ax=ax) as (fig, axes):
        for name, (colour, marker) in painted.items():
            mine = lines[name]
            for _, one in mine.sort_values("streams").groupby(["unit", "round"]):
                axes.plot(one["streams"].astype(float), one[metric].astype(float), color=colour, lw=0.6, alpha=0.3)
            found = {int(n): level_of(g, metric) for n, g in mine.groupby(mine["streams"].astype(int))}
            x = list(found)
            axes.plot(x, [v.median for v in found.values()], marker, ls="-", color=colour, ms=6, mec="white", mew=0.6)
            for n, v in found.items():
                axes.plot([n, n], [v.low, v.high], color=colour, lw=2.4, solid_capstyle="butt")
            told.append(f"{name}: " + ", ".join(f"{n} {format_value(v.median, 'bps')}" for n, v in found.items()))
            fit = fits.get(name)
            if fit is not None:
                top = max(v.median for v in found.values())
                axes.axhspan(fit.share * top, top, color=colour, alpha=0.12, lw=0)
                if fit.enough in found:
                    axes.plot([fit.enough], [found[fit.enough].median], "o", ms=14, mfc="none", mec=colour, mew=1.4)
        axes.set_xscale("log", base=2)
        every = sorted(runs["streams"].astype(int).unique())
        axes.set_xticks(every, [str(v) for v in every])
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("Parallel streams (log scale)")
        axis(axes, metric, runs[metric].astype(float), zero=True)
        legend(fig, painted)
        fig.alt = "; ".join(told) + "."
    return fig


WINDOWS = (64 * 2**10, 256 * 2**10, 2**20, 4 * 2**20, 16 * 2**20, 64 * 2**20, 256 * 2**20)


@drawing
def roofline(
    data: Data,
    metric: str = "throughput_bps",
    *,
    by: str | Sequence[str] = (),
    where: Mapping[str, Any] | None = None,
    pool: str | Sequence[str] = (),
    ax: Axes | None = None,
) -> Drawn:
    """Throughput against round-trip time, with the roofs that a window puts over a stream: window / RTT.

    Parameters
    ----------
    data, metric, by, where, pool
        What to draw, as `observe` takes it, or an answer; throughput is divided by the number of streams.
    ax : Axes, optional
        Where to draw; default: a figure of its own, with a caption.

    Examples
    --------
    >>> figure = npl.plots.roofline(exp, where={"streams": 1})
    """
    kept = observed(data, metric, by, where=where, pool=pool).runs.dropna(subset=["rtt_loaded_us", "throughput_bps"])
    if kept.empty:
        raise NothingToReport("the tool did not report the round-trip time under load; there is no roof to draw")
    x = kept["rtt_loaded_us"].astype(float)
    y = kept["throughput_bps"].astype(float) / kept["streams"].astype(float).fillna(1)
    names = conditions(kept)
    painted = colours(names)
    counts = kept.groupby(kept["condition"].astype(str)).size()
    medians = pd.DataFrame({"n": kept["condition"].astype(str), "x": x, "y": y}).groupby("n").median()
    told = "; ".join(f"{n}: {format_value(r.y, 'bps')} at {format_value(r.x, 'us')}" for n, r in medians.iterrows())
    caption = (
        "Throughput of a stream against its round-trip time under load. The lines are roofs: a stream whose window is "
        "that large can carry no more (window / RTT). Points on a roof are limited by their window, points below all "
        f"roofs by something else. n = {each(counts)} per condition."
    )
    with plot(2.5 + legend_height(names), caption, told + ".", ax=ax) as (fig, axes):
        left, right = float(x.min()) / 2.2, float(x.max()) * 2.2
        bottom, top = float(y.min()) / 3, float(y.max()) * 4
        for window in WINDOWS:
            ends = np.array([left, right])
            axes.plot(ends, window * 8 / (ends * 1e-6), color=MUTE, lw=0.8, ls=(0, (4, 2)), zorder=1)
            # the label is on its roof, just under the top of the picture
            at, height = window * 8 / (top / 1.6 * 1e-6), top / 1.6
            if at > right / 1.15:
                at, height = right / 1.25, window * 8 / (right / 1.25 * 1e-6)
            if left * 1.1 < at and bottom * 1.2 < height < top:
                box = {"facecolor": "white", "edgecolor": "none", "pad": 1.2}
                words = format_value(window, "bytes")
                axes.text(at, height, words, fontsize=7.5, color=MUTE, va="center", ha="center", bbox=box, zorder=1.5)
        for name, (colour, marker) in painted.items():
            mine = (kept["condition"].astype(str) == name).to_numpy()
            axes.plot(x[mine], y[mine], marker, color=colour, ms=6, mec="white", mew=0.5, alpha=0.9)
        for which in ("x", "y"):
            getattr(axes, f"set_{which}scale")("log")
        axes.set_xlim(left, right)
        axes.set_ylim(bottom, top)
        for one, unit, span in ((axes.xaxis, "us", right / left), (axes.yaxis, "bps", top / bottom)):
            tick_words(one, partial(format_value, unit=unit), (1, 2, 5) if span < 300 else (1,))
        axes.set_xlabel("Round-trip time under load (log scale)")
        axes.set_ylabel("Throughput of a stream (log scale)")
        legend(fig, painted)
    return fig


@drawing
def share(
    data: Data,
    metric: str = "throughput_bps",
    *,
    advertised_bps: float | None = None,
    by: str | Sequence[str] = (),
    where: Mapping[str, Any] | None = None,
    pool: str | Sequence[str] = (),
    ax: Axes | None = None,
) -> Drawn:
    """Median throughput of each condition as a share of the advertised bandwidth.

    Parameters
    ----------
    data, metric, by, where, pool
        What to draw, as `observe` takes it, or an answer; or a table of `netperf_lib.levels`.
    advertised_bps : float, optional
        The bandwidth that counts as 100 %; default: the smallest that the experiment declares.
    ax : Axes, optional
        Where to draw; default: a figure of its own, with a caption.

    Examples
    --------
    >>> figure = npl.plots.share(exp, advertised_bps=10e9)
    """
    levels = levels_of(data, metric, by, where=where, pool=pool)
    if advertised_bps is None and not isinstance(data, pd.DataFrame):
        advertised_bps = declared_bps(observed(data, metric))
    if not advertised_bps:
        raise NothingToReport("no advertised bandwidth is known: declare bandwidth_mbps, or give advertised_bps")
    names = [str(n) for n in levels["condition"]]
    rows: Any = list(levels.itertuples())
    told = "; ".join(f"{n} {100 * m / advertised_bps:.0f} %" for n, m in zip(names, levels["median"], strict=True))
    words = interval_words((int(n) for n in levels["n"]), deployments=levels.attrs.get("deployments", 1))
    caption = (
        f"Median throughput as a share of the advertised bandwidth of {format_value(advertised_bps, 'bps')}, with "
        f"{words}. n = {each(levels['n'])} per condition."
    )
    with plot(0.9 + 0.34 * len(names), caption, told + ".", ax=ax) as (fig, axes):
        for y, (row, (colour, marker)) in enumerate(zip(rows, colours(names).values(), strict=True)):
            axes.barh([y], [row.median / advertised_bps], color=colour, alpha=0.28, height=0.6, lw=0)
            low, high = (None if v is None else v / advertised_bps for v in (row.low, row.high))
            interval(axes, y, low, high, colour)
            part = row.median / advertised_bps
            axes.plot([part], [y], marker, color=colour, ms=6.5, mec="white", mew=0.6)
            beside: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": 8.5}
            axes.annotate(f"{100 * part:.0f} %", (part, y), (9, 0), **beside)
        axes.axvline(1, color=INK, lw=0.9)
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.set_xlim(0, max(1.12, 1.12 * float(levels["median"].max()) / advertised_bps))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{100 * v:.0f} %"))
        axes.set_xlabel("Share of the advertised bandwidth")
        axes.grid(axis="y", visible=False)
    return fig


TIMES = {"path": INK, "receive window": "#0072b2", "send buffer": "#e69f00", "program": "#cc79a7"}


@drawing
def waits(held: Sequence[Held], *, ax: Axes | None = None) -> Drawn:
    """What the sender waited for: the time of each condition as a stacked bar.

    Parameters
    ----------
    held : sequence of Held
        As `netperf_lib.limits` gives them; those without samples are left out.
    ax : Axes, optional
        Where to draw; default: a figure of its own, with a caption.

    Examples
    --------
    >>> figure = npl.plots.waits(npl.limits(exp))
    """
    rows = [one for one in held if one.times]
    if not rows:
        raise NothingToReport("no connection was sampled while it ran: what its sender waited for is not known")
    alt = "; ".join(f"{h.condition}: " + ", ".join(f"{k} {v:.0%}" for k, v in h.times.items()) for h in rows)
    caption = (
        "What the sender waited for, by the kernel's account: for the receiver's window, its own send buffer, or the "
        "program; the rest of the time data were on the path, or a link or processor held them. Medians of the runs."
    )
    with plot(1.2 + 0.34 * len(rows), caption, alt + ".", ax=ax) as (fig, axes):
        for y, one in enumerate(rows):
            left = 0.0
            for name, colour in TIMES.items():
                axes.barh([y], [one.times[name]], left=left, color=colour, alpha=0.75, height=0.62, lw=0)
                left += one.times[name]
        axes.set_yticks(range(len(rows)), [one.condition for one in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlim(0, 1)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{100 * v:.0f} %"))
        axes.set_xlabel("Share of the time after slow start")
        axes.grid(axis="y", visible=False)
        legend(fig, {name: (colour, "s") for name, colour in TIMES.items()})
    return fig


@drawing
def roofs(held: Sequence[Held], *, ax: Axes | None = None) -> Drawn:
    """The throughput of each condition, and the rate that each limit allows.

    Parameters
    ----------
    held : sequence of Held
        As `netperf_lib.limits` gives them.
    ax : Axes, optional
        Where to draw; default: a figure of its own, with a caption.

    Examples
    --------
    >>> figure = npl.plots.roofs(npl.limits(exp))
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
        "Throughput (bar) and the rate that each limit allows (marks), from settings and the run itself: a bar ends at "
        "the lowest. A link has a mark where its bandwidth is advertised."
    )
    with plot(1.2 + 0.34 * len(rows), caption, alt + ".", ax=ax) as (fig, axes):
        for y, one in enumerate(rows):
            axes.barh([y], [one.bps], color=MUTE, alpha=0.3, height=0.62, lw=0)
            for name, rate in one.roofs.items():
                colour, marker = painted[name]
                axes.plot([rate], [y], marker, color=colour, ms=6.5, mec="white", mew=0.6)
        every = [v for one in rows for v in (one.bps, *one.roofs.values())]
        axes.set_xscale("log")
        axes.set_xlim(min(every) / 2, max(every) * 1.5)
        axes.set_yticks(range(len(rows)), [one.condition for one in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        tick_words(axes.xaxis, partial(format_value, unit="bps"), (1, 2, 5) if max(every) < 300 * min(every) else (1,))
        axes.set_xlabel("Throughput (log scale)")
        axes.grid(axis="y", visible=False)
        legend(fig, painted)
    return fig


@drawing
def lost_by_rate(table: pd.DataFrame, *, loss: float = 0.001, ax: Axes | None = None) -> Drawn:
    """The share of datagrams that is lost against the rate that was asked for.

    Parameters
    ----------
    table : DataFrame
        As `netperf_lib.questions.datagrams` gives it.
    loss : float
        Share that still counts as carried: drawn as a line.
    ax : Axes, optional
        Where to draw; default: a figure of its own, with a caption.

    Examples
    --------
    >>> import pandas as pd
    >>> import netperf_lib as npl
    >>> rates = {"100M": 0.0, "1G": 0.0005, "2G": 0.06}
    >>> common = {"status": "ok", "tool": "iperf3", "test": "udp", "placement": "same-zone", "round": 1}
    >>> runs = pd.DataFrame(
    ...     [{**common, "run_id": rate, "bitrate": rate, "lost_ratio": lost} for rate, lost in rates.items()]
    ... )
    >>> figure = npl.plots.lost_by_rate(npl.questions.datagrams(runs))
    """
    painted = colours(list(dict.fromkeys(table["path"])))
    lines = {path: table[(table["path"] == path) & table["asked_bps"].notna()] for path in painted}
    alt = "; ".join(
        f"{path}: "
        + ", ".join(
            f"{format_value(rate, 'bps')} {format_value(lost, 'ratio')} lost"
            for rate, lost in zip(rates["asked_bps"], rates["lost_ratio"], strict=True)
        )
        for path, rates in lines.items()
    )
    caption = (
        "Share of the datagrams that is lost against the rate asked for: the median of the runs (line) and the largest "
        f"(bar). Dashed: {format_value(loss, 'ratio')}. Below 0.1 % the axis is linear."
    )
    with plot(2.6 + legend_height(list(painted)), caption, alt + ".", ax=ax) as (fig, axes):
        for path, (colour, marker) in painted.items():
            rates = lines[path]
            axes.vlines(rates["asked_bps"], rates["lost_ratio"], rates["lost_most_ratio"], color=colour, lw=2.4)
            axes.plot(rates["asked_bps"], rates["lost_ratio"], marker, ls="-", color=colour, ms=6, mec="white", mew=0.6)
        axes.axhline(loss, color=MUTE, lw=0.9, ls="--")
        axes.set_yscale("symlog", linthresh=0.001)
        axes.set_ylim(-0.0001, 1)
        axes.set_yticks([0, 0.001, 0.01, 0.1, 1], ["0", "0.1 %", "1 %", "10 %", "100 %"])
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_ylabel("Datagrams lost")
        axes.set_xscale("log")
        every = table["asked_bps"].dropna()
        subs = (1, 2, 5) if every.max() < 300 * every.min() else (1,)
        tick_words(axes.xaxis, partial(format_value, unit="bps"), subs)
        axes.set_xlabel("Rate asked for, all streams (log scale)")
        legend(fig, painted)
    return fig
