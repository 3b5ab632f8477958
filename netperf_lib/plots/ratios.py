"""Ratios of two conditions with their intervals: contrast by contrast, and percentile by percentile."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..errors import NothingToReport
from ..questions.details import tail_metric, tail_shift
from ..stats import Quantiles
from ..stats.tail import FEW_BEYOND
from .answers import _ratio_text, _ticks
from .drawing import Draws, plot
from .figure import INK, MUTE, VERDICTS, each, tick_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
        axes.set_yticks(_ticks(low, high))
        tick_words(axes.yaxis, _ratio_text)
        axes.set_xticks(range(len(comparisons)), [f"{p:g}" for p in quantiles.percentiles])
        axes.grid(axis="x", visible=False)
        axes.set_xlabel("Percentile of latency")
        axes.set_ylabel("Ratio (log scale)")
    return axes  # type: ignore[no-any-return]
