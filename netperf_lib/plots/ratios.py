"""Ratios of two conditions with their intervals: contrast by contrast, and percentile by percentile."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import NothingToReport
from ..questions.compare import compare
from ..questions.details import tail_metric, tail_shift
from ..questions.observe import Observations
from ..questions.words import effect
from ..stats import Comparison, Family, Quantiles
from ..stats.tail import FEW_BEYOND
from .drawing import Draws, plot
from .figure import INK, MUTE, VERDICTS, at_right, each, rows_of, tick_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FAR = 4.0
"""A ratio beyond this, or below its inverse, is an arrow where it would squeeze the others."""


def _ratio_text(v: float) -> str:
    """A ratio as the tick of an axis."""
    if v >= 2:
        return f"×{v:,.3g}"
    change = 100 * (v - 1)
    return (
        "equal"
        if abs(change) < 0.05
        else f"{change:+{'.3g' if v < 0.1 else '.0f'}} %".replace("-", "−")
    )


def _declared(data: Any, metric: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Of an answer, its comparisons; without a metric, those that an experiment declares."""
    data = data.verdicts if hasattr(data, "observations") else data
    if metric is None and not isinstance(data, Observations) and not _compared(data):
        data = compare(data)
    return getattr(data, "family", data), metric, {}


def _compared(data: Any) -> bool:
    return isinstance(data, Family) or (
        isinstance(data, list | tuple) and all(isinstance(c, Comparison) for c in data)
    )


@Draws(drawable=_compared, make=compare, arrange=_declared)
def forest(family: Iterable[Comparison], *, ax: Axes | None = None) -> Axes:
    """Ratios with their intervals, against the margin within which conditions count as equivalent.

    The result of `netperf_lib.compare` can be drawn, too. For an experiment, the comparisons are the declared ones or,
    with a metric, those between the levels of `by`.

    Examples
    --------
    >>> axes = npl.plots.forest(exp)
    """
    every = list(family)
    if not every:
        raise NothingToReport("no contrast was declared, and there is nothing to compare")
    several = (
        len({c.metric for c in every}) > 1 == len({c.names for c in every})
    )  # else the names tell them apart
    names = [textwrap.fill(f"{c.label}: {c.quantity}" if several else c.label, 44) for c in every]
    band = " or ".join(f"{100 * m:.3g} %" for m in sorted({c.margin for c in every}))
    units = each((c.n for c in every), every[0].unit)
    low, high = _window(every)
    beyond = any(0 < c.ratio < math.inf and not low <= c.ratio <= high for c in every)
    caption = (
        f"Ratio of the first to the second condition with its interval; shaded: the margin of {band} within "
        f"which conditions count as equivalent. n = {units} per contrast. "
        "Log scale."
        + (
            " Arrows mark ratios outside the axis; their numbers are at the right."
            if beyond
            else ""
        )
    )
    alt = "; ".join(c.words for c in every) + "."
    lines = max(name.count("\n") for name in names) + 1
    row_height = min(
        max(0.3, 0.15 * lines), 7.4 / len(names)
    )  # a figure fits a page, whatever it shows
    with plot(0.75 + row_height * len(names), caption, alt, ax=ax) as axes:
        for y, c in enumerate(every):
            _ratio(axes, y, c, low, high)
        axes.axvline(1, color=INK, lw=0.8)
        axes.set_xscale("log")
        axes.set_xlim(low, high)
        axes.set_xticks(_ratio_ticks(low, high))
        tick_words(axes.xaxis, _ratio_text)
        rows_of(axes, names)
        at_right(axes, [f"{effect(c.ratio)}, {c.verdict}" for c in every], labelcolor=INK)
        axes.grid(axis="y", visible=False)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("First condition against second (ratio, log scale)")
        axes.spines["left"].set_visible(False)
    return axes  # type: ignore[no-any-return]


def _ratio(axes: Axes, y: float, c: Comparison, low: float, high: float) -> None:
    """A ratio with its interval and its margin in a row; an arrow where it lies outside of the axis."""
    axes.fill_betweenx(
        [y - 0.42, y + 0.42], 1 / (1 + c.margin), 1 + c.margin, color="#0072b2", alpha=0.13, lw=0
    )
    if not 0 < c.ratio < math.inf:
        axes.text(1, y, "no value", ha="center", va="center", color=MUTE, fontsize=8)
        return
    colour = VERDICTS.get(c.verdict, MUTE)
    x, marker = c.ratio, {"better": "^", "worse": "v", "equivalent": "s"}.get(c.verdict, "o")
    if c.low > 0 and math.isfinite(c.high):
        axes.plot([c.low, c.high], [y, y], color=colour, lw=2.2, solid_capstyle="butt")
    if not low <= c.ratio <= high:
        x, marker = (low * 1.03, "<") if c.ratio < low else (high / 1.03, ">")
    axes.plot([x], [y], marker, color=colour, ms=7, mec="white", mew=0.7)


def _window(comparisons: Sequence[Comparison]) -> tuple[float, float]:
    """Limits of the axis: all intervals, or, if the margin would not be visible beside them, what is near."""
    finite = [c for c in comparisons if 0 < c.ratio < math.inf]
    values = [v for c in finite for v in (c.ratio, c.low, c.high) if 0 < v < math.inf]
    values += [v for c in comparisons for v in (1 / (1 + 1.6 * c.margin), 1 + 1.6 * c.margin)]
    low, high = min(values) / 1.08, max(values) * 1.08
    if high / low <= FAR**2 or not any(1 / FAR <= c.ratio <= FAR for c in finite):
        return low, high
    return max(low, 1 / (1.15 * FAR)), min(high, 1.15 * FAR)


def _ratio_ticks(low: float, high: float) -> list[float]:
    """A few round ratios between two values, none so near to another that their labels touch."""
    fine = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.2, 1.3, 1.5, 1.75, 2]
    coarse = [s * 10.0**e for e in range(-5, 6) for s in (1, 2, 5)]
    medium = [0.25, 0.5, 0.7, 1, 1.5, 2, 3, 4]
    choice = fine if low > 0.4 and high < 2.6 else medium if low > 0.2 and high < 5 else coarse
    choice = choice if high / low < 2000 else [10.0**e for e in range(-6, 7)]
    least = 0.12 * math.log(high / low)
    ticks = [1.0]
    for v in sorted((v for v in choice if low <= v <= high), key=lambda v: abs(math.log(v))):
        if all(abs(math.log(v / t)) >= least for t in ticks):
            ticks.append(v)
    return sorted(ticks)


def _is_shift(data: Any) -> bool:
    return data is None or isinstance(data, Quantiles)


@Draws(tail_metric, drawable=_is_shift, make=tail_shift)
def shift(quantiles: Quantiles | None, *, ax: Axes | None = None) -> Axes:
    """Shift function: how much two distributions differ, from the fastest packets to the slowest.

    The result of `netperf_lib.questions.tail_shift` can be drawn, too; otherwise the first two conditions are compared.

    Examples
    --------
    >>> axes = npl.plots.shift(exp)
    """
    if quantiles is None:
        raise NothingToReport("there is only one condition, so there is no difference to show")
    comparisons = list(quantiles)
    a, b = comparisons[0].names
    margin = comparisons[0].margin
    points = zip(quantiles.percentiles, comparisons, strict=True)
    ratios = "; ".join(f"{p:g}: {_ratio_text(c.ratio)}" for p, c in points)
    caption = (
        f"Shift function: {a} divided by {b} at each percentile of latency, with its interval at the "
        f"confidence that all percentiles together require; shaded: the margin of {100 * margin:.3g} %. "
        f"Open marks: fewer than {FEW_BEYOND} packets lie beyond the percentile in a run. "
        f"n = {each((c.n for c in comparisons), 'round')}."
    )
    with plot(2.3, caption, f"Ratio by percentile: {ratios}.", ax=ax) as axes:
        axes.axhspan(1 / (1 + margin), 1 + margin, color="#0072b2", alpha=0.13, lw=0)
        axes.axhline(1, color=INK, lw=0.8)
        for x, (p, c) in enumerate(zip(quantiles.percentiles, comparisons, strict=True)):
            if not math.isfinite(c.ratio):
                continue
            colour = VERDICTS.get(c.verdict, MUTE)
            if c.low > 0 and math.isfinite(c.high):
                axes.plot([x, x], [c.low, c.high], color=colour, lw=2.2, solid_capstyle="butt")
            thin = p in quantiles.flagged
            axes.plot(
                [x], [c.ratio], "o", color=colour, mfc="white" if thin else colour, ms=6, mew=1.2
            )
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        axes.set_yticks(_ratio_ticks(low, high))
        tick_words(axes.yaxis, _ratio_text)
        axes.set_xticks(range(len(comparisons)), [f"{p:g}" for p in quantiles.percentiles])
        axes.grid(axis="x", visible=False)
        axes.set_xlabel("Percentile of latency")
        axes.set_ylabel("Ratio (log scale)")
    return axes  # type: ignore[no-any-return]
