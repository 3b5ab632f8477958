"""The comparisons as a picture: both values, the change with its interval, and the verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill, wrap
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import NullFormatter

from ..analysis.compare import compare
from ..analysis.verdicts import Comparison, Family, confidences
from ..analysis.words import effect, span
from ..metrics import METRICS, format_value
from .figure import CAPTION, INK, LINE_HEIGHT, MUTE, canvas, each, some

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDEST_RATIO = 4.0
"""A ratio beyond this, or below its inverse, is an arrow where it would squeeze the others."""
MAX_LINES = 42
"""Lines of a picture, which fits page one; a table shows all rows."""
LOOKS = {
    "better": ("▲", "^", "#00795a"),
    "worse": ("▼", "v", "#b8420a"),
    "equivalent": ("■", "s", "#0072b2"),
    "inconclusive": ("○", "o", "#8a5a00"),
}
"""Shape of a verdict, which is told by it and by its word; the colour only supports."""
OTHER = ("·", "o", MUTE)
HINT = "Green is better for the user; shaded: the margin of equivalence."


@dataclass(frozen=True)
class AnswerRow:
    """A comparison with its words: names over values, and verdict over interval."""

    comparison: Comparison
    names: str
    values: str
    verdict: str
    interval: str

    @property
    def look(self) -> tuple[str, str, str]:
        """Sign, marker and colour of its verdict."""
        return LOOKS.get(self.comparison.verdict, OTHER)

    @property
    def height(self) -> float:
        """Height with the space to the next, in lines."""
        return self.names.count("\n") + self.values.count("\n") + 2.7


def _row(c: Comparison) -> AnswerRow:
    unit = METRICS[c.metric].unit if c.metric in METRICS else ""
    values = [format_value(value, unit) for value in c.medians if math.isfinite(value)]
    quantity = c.quantity[:1].upper() + c.quantity[1:]
    context = f" ({c.context})" if c.context else ""
    joined = ": " if c.threshold is not None else " against "
    sign = LOOKS.get(c.verdict, OTHER)[0]
    return AnswerRow(
        comparison=c,
        names=fill(joined.join(c.names), 45, break_on_hyphens=False),
        values=fill(
            f"{quantity}: {' and '.join(values)}{context}", 52, break_on_hyphens=False
        ),
        verdict=f"{effect(c.ratio)}  {sign} {c.verdict}",
        interval=span(c.ratio, c.low, c.high).removesuffix("–"),
    )


def forest(
    data: Any,
    metric: str | None = None,
    *,
    by: str | Sequence[str] | None = None,
    where: Mapping[str, Any] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw comparisons as rows: both values, the change with interval and margin, and the verdict.

    Parameters
    ----------
    data : comparisons, an answer, or what `netperf_lib.compare` takes
        What to draw.
    metric, by, where : optional
        As `netperf_lib.compare` takes them; without them, the declared comparisons.
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
    answered = isinstance(data, list | tuple) and all(
        isinstance(c, Comparison) for c in data
    )
    if not (answered or isinstance(data, Family)):
        data = compare(data, metric=metric, by=by, where=where)
    every = list(data)
    some(every, "no contrast was declared, and there is nothing to compare")
    rows = [_row(c) for c in every]
    ends = np.cumsum([row.height for row in rows])
    rows = rows[: max(1, int(np.sum(ends <= MAX_LINES)))]
    ends = ends[: len(rows)]
    shown = [row.comparison for row in rows]
    alt = "; ".join(c.words for c in shown) + "."
    height = 0.55 + LINE_HEIGHT * ends[-1]
    with canvas(data, height, _caption(every, shown), alt, ax) as (chart,):
        low, high = _window(shown)
        ticks = _ticks(low, high)
        chart.set(xscale="log", xlim=(low, high), ylim=(ends[-1], 0), title="Answers")
        chart.set_xticks(ticks, [_ratio_text(v) for v in ticks], size=7)
        chart.xaxis.set_minor_formatter(NullFormatter())
        chart.grid(axis="y", visible=False)
        chart.axvline(1, color=INK, lw=0.8)
        tops = ends - [row.height for row in rows]
        for row, top, end in zip(rows, tops, ends, strict=True):
            chart.axhline(end, color="#d8dee6", lw=0.6)
            _effect(chart, row, (top, end), (low, high))
        _words(chart, rows, tops)
    return chart  # type: ignore[no-any-return]


def _caption(every: Sequence[Comparison], shown: Sequence[Comparison]) -> str:
    """What a picture shows, and as much of the rest as two lines hold."""
    sure = confidences(shown)
    confidence = f" at {' to '.join(sure)} %" if sure else ""
    units = each((c.n for c in shown), shown[0].counted)
    sentences = [
        f"The first against the second: its change with its interval{confidence}."
    ]
    sentences += [HINT, f"n = {units} per comparison."]
    if len(every) > len(shown):
        sentences.append(f"{len(every) - len(shown)} more stand in the table.")
    # once: rows of one family lack the same, and would be twice as high
    missing = [c for c in shown if c.verdict == "no verdict" and c.reason]
    if missing:
        reasons = dict.fromkeys(c.reason for c in missing)
        sentences.append(f"No verdict: {'; '.join(reasons)}.")
    caption = ""
    for sentence in sentences:
        longer = f"{caption} {sentence}".strip()
        if len(wrap(longer, CAPTION)) <= 2:
            caption = longer
    return caption


def _words(chart: Axes, rows: Sequence[AnswerRow], tops: Any) -> None:
    """Write names and values on the left axis, change and interval on a right one."""
    right = chart.secondary_yaxis("right")
    right.spines["right"].set_visible(False)
    strong: dict[str, Any] = {"size": 7.5, "weight": "bold", "va": "top"}
    plain: dict[str, Any] = {"size": 7, "color": MUTE, "va": "top"}
    firsts = tops + 0.35
    seconds = firsts + [row.names.count("\n") + 1 for row in rows]
    chart.set_yticks(firsts, [row.names for row in rows], **strong)
    chart.set_yticks(seconds, [row.values for row in rows], minor=True, **plain)
    right.set_yticks(firsts, [row.verdict for row in rows], **strong)
    right.set_yticks(firsts + 1, [row.interval for row in rows], minor=True, **plain)
    for label, row in zip(right.get_yticklabels(), rows, strict=True):
        label.set_color(row.look[2])
    for axes in (chart, right):
        axes.tick_params("y", which="both", length=0)


def _effect(
    chart: Axes,
    row: AnswerRow,
    place: tuple[float, float],
    window: tuple[float, float],
) -> None:
    """The change with its interval and its margin; an arrow where it lies outside of the axis."""
    (top, end), (low, high), c = place, window, row.comparison
    middle = (top + end) / 2
    _, marker, colour = row.look
    margin = (1 / (1 + c.margin), 1 + c.margin)
    chart.fill_betweenx(
        (top + 0.1, end - 0.1), *margin, color="#0072b2", alpha=0.14, lw=0
    )
    if not 0 < c.ratio < math.inf:
        chart.text(1, middle, "no value", ha="center", va="center", color=MUTE, size=7)
        return
    x = c.ratio
    if x < low:
        x, marker = low * 1.06, "<"
    elif x > high:
        x, marker = high / 1.06, ">"
    if c.low > 0 and math.isfinite(c.high):
        ends = np.clip([c.low, c.high], low, high)
        chart.hlines(middle, *ends, color=colour, lw=2.4)
    chart.plot(x, middle, marker, color=colour, ms=6.5, mec="white", mew=0.7)


def _ratio_text(v: float) -> str:
    """A ratio as the tick of an axis."""
    if v >= 2:
        return f"×{v:,.3g}"
    change = 100 * (v - 1)
    if abs(change) < 0.05:
        return "same"
    digits = ".3g" if v < 0.1 else ".0f"
    return f"{change:+{digits}} %".replace("-", "−")


def _window(comparisons: Sequence[Comparison]) -> tuple[float, float]:
    """Limits of the axis: all intervals, or what is near if the margin could not be seen."""
    figures = np.array([[c.ratio, c.low, c.high] for c in comparisons])
    ratios = figures[np.isfinite(figures[:, 0]) & (figures[:, 0] > 0)]
    margins = np.array([1 + 1.6 * c.margin for c in comparisons])
    values = np.concatenate([ratios.ravel(), margins, 1 / margins])
    values = values[np.isfinite(values) & (values > 0)]
    low, high = values.min() / 1.08, values.max() * 1.08
    near = (ratios[:, 0] >= 1 / WIDEST_RATIO) & (ratios[:, 0] <= WIDEST_RATIO)
    if high / low <= WIDEST_RATIO**2 or not near.any():
        return low, high
    widest = 1.15 * WIDEST_RATIO
    return max(low, 1 / widest), min(high, widest)


COARSE = [step * 10.0**decade for decade in range(-6, 7) for step in (1, 2, 5)]
FINE = [0.7, 0.8, 0.9, 0.95, 1.05, 1.1, 1.2, 1.3, 1.5]


def _ticks(low: float, high: float) -> list[float]:
    """A few round ratios between two values, none so near to another that their labels touch."""
    least = 0.22 * math.log(high / low)
    ticks = [1.0]
    for choice in (COARSE, FINE):
        for v in sorted(choice, key=lambda v: abs(math.log(v))):
            if low <= v <= high and all(abs(math.log(v / t)) >= least for t in ticks):
                ticks.append(v)
    return sorted(ticks)
