"""The comparisons as a picture.

Both values, the change with its interval, and the verdict in words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from matplotlib.ticker import NullFormatter
from matplotlib.transforms import blended_transform_factory

from ..analysis.compare import compare
from ..analysis.comparison import Comparison, Family, confidences
from ..analysis.lead import ABBREVIATIONS, abbreviations
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
WRITTEN_OUT = {
    **ABBREVIATIONS,
    "TCP": "Transmission Control Protocol",
    "UDP": "User Datagram Protocol",
}
"""What a caption writes out, as a picture is the first thing on a page."""
LEFT, RIGHT = 0.5, 0.775
"""Shares of the width at which the axis begins and ends."""
THIN_LINE: Any = {"color": "#d8dee6", "lw": 0.6, "clip_on": False}


@dataclass(frozen=True)
class AnswerRow:
    """A comparison, and its words in lines."""

    comparison: Comparison
    names: list[str]
    values: list[str]
    verdict: str
    interval: list[str]

    @property
    def height(self) -> float:
        """Height with the space to the next, in lines."""
        return max(len(self.names) + len(self.values), 1 + len(self.interval)) + 0.7


def _row(c: Comparison) -> AnswerRow:
    unit = METRICS[c.metric].unit if c.metric in METRICS else ""
    values = [format_value(value, unit) for value in c.medians if math.isfinite(value)]
    quantity = c.quantity[:1].upper() + c.quantity[1:]
    context = f" ({c.context})" if c.context else ""
    joined = ": " if c.threshold is not None else " against "
    return AnswerRow(
        comparison=c,
        names=wrap(joined.join(c.names), 45, break_on_hyphens=False),
        values=wrap(
            f"{quantity}: {' and '.join(values)}{context}", 58, break_on_hyphens=False
        ),
        verdict=f"{effect(c.ratio)}  {LOOKS.get(c.verdict, OTHER)[0]} {c.verdict}",
        interval=wrap(span(c.ratio, c.low, c.high).removesuffix("–"), 28),
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

    Examples
    --------
    >>> ax = npl.plots.forest(npl.compare(exp))
    """
    data = data.verdicts if hasattr(data, "observations") else data
    given = isinstance(data, list | tuple) and all(
        isinstance(c, Comparison) for c in data
    )
    if not (given or isinstance(data, Family)):
        data = compare(data, metric=metric, by=by, where=where)
    every = list(data)
    some(every, "no contrast was declared, and there is nothing to compare")
    rows = list(map(_row, every))
    lines = accumulate(row.height for row in rows)
    rows = [row for row, line in zip(rows, lines, strict=True) if line <= MAX_LINES]
    shown = [row.comparison for row in rows]
    alt = "; ".join(c.words for c in shown) + "."
    height = 0.65 + LINE_HEIGHT * sum(row.height for row in rows)
    with canvas(data, height, _caption(every, shown), alt, ax) as (box,):
        box.set_axis_off()
        tall = box.get_window_extent().height / box.figure.dpi
        axes = box.inset_axes((LEFT, 0.25 / tall, RIGHT - LEFT, 1 - 0.45 / tall))
        _draw(axes, rows)
        box.plot([0, 1], [1 - 0.2 / tall] * 2, **THIN_LINE)
        box.set(xlim=(0, 1), ylim=(0, 1))
        box.text(0, 1, "Answers", weight="bold", size=9, va="top")
    return box  # type: ignore[no-any-return]


def _caption(every: Sequence[Comparison], shown: Sequence[Comparison]) -> str:
    sure = confidences(shown)
    at = f" at {' to '.join(sure)} %" if sure else ""
    units = each((c.n for c in shown), shown[0].unit)
    words = " ".join(f"{c.topic} {c.quantity} {c.context}" for c in shown)
    names = abbreviations(words, WRITTEN_OUT)
    # once: rows of one family lack the same, and would be twice as high
    reasons = dict.fromkeys(
        c.reason for c in shown if c.verdict == "no verdict" and c.reason
    )
    sentences = [
        f"The first condition against the second: its change with its interval{at}.",
        f"Shaded: the margin of equivalence. n = {units} per comparison.",
        f"{len(every) - len(shown)} more stand in the table."
        if len(every) > len(shown)
        else "",
        f"{names}." if names else "",
        f"No verdict: {'; '.join(reasons)}." if reasons else "",
    ]
    caption = ""
    for sentence in filter(None, sentences):
        longer = f"{caption} {sentence}".strip()
        if len(wrap(longer, CAPTION)) <= 2:
            caption = longer
    return caption


def _draw(axes: Axes, rows: Sequence[AnswerRow]) -> None:
    low, high = _window([row.comparison for row in rows])
    axes.set(xscale="log", xlim=(low, high), ylim=(sum(row.height for row in rows), 0))
    axes.set_yticks([])
    ticks = _ticks(low, high)
    axes.set_xticks(ticks, list(map(_ratio_text, ticks)), size=7)
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.spines["left"].set_visible(False)
    axes.axvline(1, color=INK, lw=0.8)
    top = 0.0
    for row in rows:
        _words(axes, row, top)
        _effect(axes, row.comparison, (top, top + row.height), (low, high))
        top += row.height


def _words(axes: Axes, row: AnswerRow, top: float) -> None:
    """Names and values at the left, change and verdict at the right, and a line below."""
    across = blended_transform_factory(axes.transAxes, axes.transData)
    place: dict[str, Any] = {"transform": across, "va": "center", "clip_on": False}
    width = RIGHT - LEFT
    left, right, beside = -LEFT / width, (1 - LEFT) / width, 1 + 0.015 / width
    axes.plot([left, right], [top + row.height] * 2, transform=across, **THIN_LINE)
    strong: dict[str, Any] = {"weight": "bold", "size": 7.5}
    plain: dict[str, Any] = {"size": 7, "color": MUTE}
    verdict = strong | {"size": 8, "color": LOOKS.get(row.comparison.verdict, OTHER)[2]}
    lines = [(left, i, line, strong) for i, line in enumerate(row.names)]
    lines += [(left, i, line, plain) for i, line in enumerate(row.values, len(row.names))]
    lines += [(beside, 0, row.verdict, verdict)]
    lines += [(beside, i, line, plain) for i, line in enumerate(row.interval, 1)]
    for x, i, line, look in lines:
        axes.text(x, top + 0.85 + i, line, **place, **look)


def _effect(
    axes: Axes, c: Comparison, row: tuple[float, float], window: tuple[float, float]
) -> None:
    """The change with its interval and its margin; an arrow where it lies outside of the axis."""
    (top, bottom), (low, high) = row, window
    middle, margin = (top + bottom) / 2, (top + 0.1, bottom - 0.1)
    axes.fill_betweenx(
        margin, 1 / (1 + c.margin), 1 + c.margin, color="#0072b2", alpha=0.14, lw=0
    )
    if not 0 < c.ratio < math.inf:
        axes.text(1, middle, "no value", ha="center", va="center", color=MUTE, fontsize=7)
        return
    _, marker, colour = LOOKS.get(c.verdict, OTHER)
    x = c.ratio
    if not low <= x <= high:
        x, marker = (low * 1.06, "<") if x < low else (high / 1.06, ">")
    if c.low > 0 and math.isfinite(c.high):
        ends = [min(max(end, low), high) for end in (c.low, c.high)]
        axes.plot(ends, [middle] * 2, color=colour, lw=2.4, solid_capstyle="butt")
    axes.plot(x, middle, marker, color=colour, ms=6.5, mec="white", mew=0.7)


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
    finite = [c for c in comparisons if 0 < c.ratio < math.inf]
    ends = [v for c in finite for v in (c.ratio, c.low, c.high)]
    values = [v for v in ends if 0 < v < math.inf]
    margins = [1 + 1.6 * c.margin for c in comparisons]
    values += [*margins, *(1 / margin for margin in margins)]
    low, high = min(values) / 1.08, max(values) * 1.08
    if high / low <= WIDEST_RATIO**2 or not any(
        1 / WIDEST_RATIO <= c.ratio <= WIDEST_RATIO for c in finite
    ):
        return low, high
    return max(low, 1 / (1.15 * WIDEST_RATIO)), min(high, 1.15 * WIDEST_RATIO)


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
