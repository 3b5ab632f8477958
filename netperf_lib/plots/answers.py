"""The comparisons as a picture: both values, the change with its interval, and the verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from ..analysis.compare import compare
from ..analysis.verdicts import Comparison, Family, confidences
from ..analysis.words import capital, effect, span, unit_of
from ..metrics import format_value
from .figure import INK, LINE_HEIGHT, MUTE, canvas, each, right_ticks, some

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDEST_RATIO = 4.6
"""A ratio beyond this, or below its inverse, is an arrow where it would squeeze the others."""
MAX_LINES = 42
"""Lines of a picture, which fits page one; a table shows all rows."""
GAP = 0.25
"""Lines between two rows."""
LOOKS = {
    "better": ("▲", "^", "#00795a"),
    "worse": ("▼", "v", "#b8420a"),
    "equivalent": ("■", "s", "#0072b2"),
    "inconclusive": ("○", "o", "#8a5a00"),
}
"""Shape of a verdict, which is told by it and by its word; the colour only supports."""
OTHER = ("·", "o", MUTE)
HINT = "Green is better for the user; shaded: the margin of equivalence."


def forest(data: Any, *, ax: Axes | None = None) -> Axes:
    """Draw comparisons as rows: both values, the change with interval and margin, and the verdict.

    Parameters
    ----------
    data : comparisons, an answer, or what `netperf_lib.compare` takes
        What to draw; of an experiment, its declared comparisons.
    ax : Axes, optional
        Where to draw; default: a new figure with a caption.

    Returns
    -------
    Axes
        The axes drawn on.

    Examples
    --------
    >>> ax = npl.plots.forest(npl.compare(exp))
    """
    data = data.verdicts if hasattr(data, "observations") else data
    several = isinstance(data, list | tuple | Family)
    if not several or not all(isinstance(c, Comparison) for c in data):
        data = compare(data)
    some(data, "no contrast was declared, and there is nothing to compare")
    rows = _rows(data)
    more = len(data) - len(rows)
    shown = data[: len(rows)]
    alt = "; ".join(c.words for c in shown) + "."
    height = 0.55 + LINE_HEIGHT * rows["end"].max()
    notice = getattr(data, "notice", None)
    with canvas(notice, height, _caption(shown, more), alt, ax) as (chart,):
        low, high = _window(rows)
        chart.set(xscale="log", xlim=(low, high), title="Answers")
        chart.set_ylim(rows["end"].max(), 0)
        narrow = high < 3 * low
        ticks = MaxNLocator(5) if narrow else LogLocator(base=2, numticks=6)
        chart.xaxis.set_major_locator(ticks)
        chart.xaxis.set_major_formatter(lambda v, _: _ratio_text(v))
        chart.xaxis.set_minor_formatter(NullFormatter())
        chart.tick_params("x", labelsize=7)
        chart.grid(axis="y", visible=False)
        chart.axvline(1, color=INK, lw=0.8)
        for row in rows.itertuples():
            _effect(chart, row, low, high)
        _words(chart, rows)
    return chart  # type: ignore[no-any-return]


def _rows(comparisons: Iterable[Comparison]) -> pd.DataFrame:
    """What stands in each row, and where: as many rows as a picture has room for."""
    found = []
    for c in comparisons:
        known = filter(math.isfinite, c.medians)
        medians = []
        for value in known:
            written = format_value(value, unit_of(c.metric))
            # a number and its unit stand on one line
            medians.append(written.replace(" ", "\N{NO-BREAK SPACE}"))
        values = f"{capital(c.quantity)}: {' and '.join(medians)}"
        if c.context:
            values += f" ({c.context})"
        sign, marker, colour = LOOKS.get(c.verdict, OTHER)
        joined = " against " if c.threshold is None else ": "
        row: dict[str, Any] = {
            "ratio": c.ratio,
            "low": c.low,
            "high": c.high,
            "margin": 1 + c.margin,
        }
        row["names"] = fill(joined.join(c.names), 45, break_on_hyphens=False)
        row["values"] = fill(values, 52, break_on_hyphens=False)
        row["verdict"] = f"{effect(c.ratio)}  {sign} {c.verdict}"
        row["interval"] = span(c.ratio, c.low, c.high).removesuffix("–")
        found.append(row | {"marker": marker, "colour": colour})
    rows = pd.DataFrame(found)
    below = rows["values"].str.count("\n") + 1
    rows["height"] = rows["names"].str.count("\n") + 1 + below + GAP
    rows["end"] = rows["height"].cumsum()
    rows["y"] = rows["end"] - GAP / 2 - below
    fits = rows["end"] <= MAX_LINES
    fits[0] = True
    return rows[fits]


def _caption(shown: Sequence[Comparison], more: int) -> str:
    caption = "The first against the second: its change with its interval"
    if sure := confidences(shown):
        caption += f" at {' to '.join(sure)} %"
    units = each((c.n for c in shown), shown[0].counted)
    caption += f". {HINT} n = {units} per comparison."
    if more:
        caption += f" {more} more stand in the table."
    return caption


def _words(chart: Axes, rows: pd.DataFrame) -> None:
    """Write names over values at the left axis, and verdict over interval at a right one."""
    right = right_ticks(chart)
    chart.tick_params("y", which="both", length=0)
    over: Any = {"size": 7.5, "weight": "bold", "va": "bottom"}
    under: Any = {"size": 7, "color": MUTE, "va": "top", "minor": True}
    chart.set_yticks(rows["y"] - 0.1, rows["names"], **over)
    chart.set_yticks(rows["y"] + 0.1, rows["values"], **under)
    right.set_yticks(rows["y"] - 0.1, rows["verdict"], **over)
    right.set_yticks(rows["y"] + 0.1, rows["interval"], **under)
    for label, colour in zip(right.get_yticklabels(), rows["colour"], strict=True):
        label.set_color(colour)


def _effect(chart: Axes, row: Any, low: float, high: float) -> None:
    """Draw margin, interval and change of a row; an arrow where that is outside of the axis."""
    chart.axhline(row.end, color="#d8dee6", lw=0.6)
    band: Any = {"color": "#0072b2", "alpha": 0.14, "lw": 0}
    chart.fill_betweenx(
        [row.end - row.height, row.end], 1 / row.margin, row.margin, **band
    )
    if row.low > 0 and math.isfinite(row.high):
        begin, end = np.clip([row.low, row.high], low, high)
        chart.hlines(row.y, begin, end, row.colour, lw=2.4)
    if not 0 < row.ratio < math.inf:  # one side is zero: it has no size
        return
    marker = row.marker
    if row.ratio < low:
        marker = "<"
    if row.ratio > high:
        marker = ">"
    place = np.clip(row.ratio, low * 1.06, high / 1.06)
    chart.plot(place, row.y, marker, color=row.colour, ms=6.5, mec="white", mew=0.7)


def _ratio_text(v: float) -> str:
    """A ratio as the tick of an axis."""
    if v >= 2:
        return f"×{v:,.3g}"
    change = 100 * (v - 1)
    if abs(change) < 0.05:
        return "same"
    return f"{change:+.3g} %".replace("-", "−")


def _window(rows: pd.DataFrame) -> tuple[float, float]:
    """Limits of the axis: all intervals, or what is near if the margin could not be seen."""
    margins = 1 + 1.6 * (rows["margin"] - 1)
    drawn = pd.concat([rows["ratio"], rows["low"], rows["high"], margins, 1 / margins])
    drawn = drawn[np.isfinite(drawn) & (drawn > 0)]
    low, high = drawn.min() / 1.08, drawn.max() * 1.08
    near = rows["ratio"].between(1 / WIDEST_RATIO, WIDEST_RATIO).any()
    if near and high > WIDEST_RATIO**2 * low:
        return max(low, 1 / WIDEST_RATIO), min(high, WIDEST_RATIO)
    return low, high
