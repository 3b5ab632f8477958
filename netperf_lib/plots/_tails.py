"""Distributions of latency with their tails."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from ..analysis.colours import colours
from ..analysis.details import tail_metric
from ..analysis.judging import FEW_BEYOND
from ..analysis.observe import Observations, details
from ..analysis.runs import is_details
from ..errors import NothingToReport, UsageError
from ..metrics import metric as metric_of
from .drawing import Draws, plot
from .figure import MUTE, conditions, each, legend, legend_height, listed, round_ticks, table_first

BASIS = {
    "latency_oneway": "One-way latency",
    "rtt": "Round-trip time",
    "rtt_loaded": "Round-trip time under load",
}


@Draws(tail_metric, drawable=is_details, arrange=table_first)
def ecdf(
    data: Observations | pd.DataFrame, *, table: pd.DataFrame | None = None, ax: Axes | None = None
) -> Axes:
    """Share of packets that are slower than each latency, on a log axis: 99 %, 99.9 % and 99.99 % are equally spaced.

    Parameters
    ----------
    table : DataFrame, optional
        The table of percentiles; default: that of the experiment.

    Examples
    --------
    >>> axes = npl.plots.ecdf(exp, by="placement")
    """
    if isinstance(data, Observations) and metric_of(data.metric).unit != "us":
        raise UsageError(f"a distribution has percentiles of latency; {data.metric} is none")
    percentiles = (
        data
        if isinstance(data, pd.DataFrame)
        else details(data, "percentiles" if table is None else table)
    )
    if not len(percentiles):
        raise NothingToReport("no tool reported percentiles")
    basis = "; ".join(BASIS.get(str(b), str(b)) for b in percentiles["basis"].unique())
    below_maximum = percentiles[percentiles["percentile"] < 100]
    names = conditions(below_maximum)
    painted = colours(names)
    counts = below_maximum.groupby("condition", observed=True)["run_id"].nunique()
    medians = (
        below_maximum.groupby(["condition", "percentile"], observed=True)
        .agg(latency_us=("latency_us", "median"), beyond=("beyond", "min"))
        .reset_index()
    )
    distance = (medians["percentile"] - 99).abs()
    near = medians[distance == distance.min()]
    summary = listed(
        dict(zip(near["condition"].astype(str), near["latency_us"], strict=True)), "us"
    )
    caption = (
        f"{basis}: share of packets that are slower, on a log axis. Each point is the median over the runs of a "
        f"percentile of a run (thin lines: every run); open where fewer than {FEW_BEYOND} packets of a run lie "
        f"beyond it. n = {each(counts)} per condition."
    )
    with plot(2.5 + legend_height(names), caption, f"99th percentile: {summary}.", ax=ax) as axes:
        for name, (colour, marker) in painted.items():
            group = below_maximum[below_maximum["condition"].astype(str) == name]
            for _, run in group.sort_values("percentile").groupby("run_id"):
                axes.plot(
                    run["latency_us"], 1 - run["percentile"] / 100, color=colour, lw=0.5, alpha=0.25
                )
            line = medians[medians["condition"].astype(str) == name].sort_values("percentile")
            beyond = 1 - line["percentile"] / 100
            axes.plot(line["latency_us"], beyond, color=colour, lw=1.8)
            few = (line["beyond"].astype(float) < FEW_BEYOND).to_numpy()
            for mask, fill in ((few, "white"), (~few, colour)):
                axes.plot(
                    line["latency_us"][mask],
                    beyond[mask],
                    marker,
                    color=colour,
                    mfc=fill,
                    ms=5.5,
                    mew=1.1,
                )
        _nines(axes, float((1 - below_maximum["percentile"] / 100).min()))
        axes.set_xscale("log")
        round_ticks(axes.xaxis, "us")
        axes.set_xlabel(f"{basis} (log scale)")
        legend(axes, painted)
    return axes  # type: ignore[no-any-return]


def _nines(axes: Axes, least: float) -> None:
    """An axis of shares that gives each nine of a percentile the same space, down to the least share."""
    axes.set_yscale("log")
    axes.invert_yaxis()
    ticks = [0.5, *[v for v in (0.1, 0.01, 1e-3, 1e-4, 1e-5) if v >= least * 0.9]]
    axes.set_yticks(ticks, [f"{100 * v:g} %" for v in ticks])
    axes.yaxis.set_minor_formatter(NullFormatter())
    for v in set(ticks) & {0.01, 0.001}:
        axes.axhline(v, color=MUTE, lw=0.7, ls=(0, (3, 3)))
    axes.set_ylabel("Slower packets (log scale)")
