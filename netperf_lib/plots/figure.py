"""What every figure has in common: looks, axes, legend, caption.

Colours are those of Okabe and Ito, with a marker for every colour. A `Plot` shows itself in Jupyter
with its caption, and goes into a report as a vector picture whose text can be selected.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill, wrap
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.category import StrCategoryFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from ..analysis.observe import Observations
from ..analysis.words import shortened
from ..errors import NothingToReport
from ..metrics import WRITTEN, format_value, plural
from ..metrics import metric as metric_of

WIDTH = 6.54
"""Inches between the margins of a report's page."""
CAPTION = 118
"""Characters of a caption on a line."""
LEGEND = 26
"""Characters of a legend on a line."""
UPRIGHT = 18
"""Characters of an upright label on a line, which is as long as a small figure is high."""
LINE_HEIGHT = 0.13
"""Inches from a line of text to the next."""
MOST_LINES = 6
"""Conditions in a panel: of more, nobody can tell which is which."""
MOST_PANELS = 4
"""Panels of a figure, which fits a page."""
WIDE_RANGE = 8
"""An axis is logarithmic where the largest value is so many times the smallest."""
INK, MUTE = "#1f2937", "#5b6472"
STYLE: Any = mpl.rc_params_from_file(  # without math: a label may hold a price: $5
    Path(__file__).with_name("matplotlibrc"), use_default_template=False
)


class Plot(Figure):
    """A figure with a caption and an alternative text.

    Attributes
    ----------
    caption : str
        What the figure shows, n and method.
    alt : str
        Alternative text for readers who cannot see it.
    """

    caption: str = ""
    alt: str = ""

    def __repr__(self) -> str:
        return f"{self.caption} {self.alt}"

    def svg(self) -> str:
        """Return the figure as SVG; the same figure gives the same text."""
        out = io.StringIO()
        # savefig would draw everything twice: once for the layout
        before, dpi = self.canvas, self.dpi
        canvas: Any = FigureCanvasSVG(self)  # without types
        with mpl.rc_context(STYLE):
            canvas.print_svg(out, metadata={"Date": None, "Creator": None})
        self.set_canvas(before)
        self.dpi = dpi
        # a browser without this font takes its own, which are narrower
        return out.getvalue().replace("'DejaVu Sans'", "'DejaVu Sans', sans-serif")

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        alt = {"image/svg+xml": {"alt": repr(self)}}
        return {"text/plain": repr(self), "image/svg+xml": self.svg()}, alt


class Chart(Axes):
    """Axes of a `Plot`.

    In Jupyter and in a report they show the figure as a vector graphic with its caption.
    """

    @property
    def drawn(self) -> Plot:
        """The figure."""
        assert isinstance(self.figure, Plot)
        return self.figure

    def savefig(self, *place: Any, **options: Any) -> None:
        """Write the figure, as its own `savefig` does."""
        self.drawn.savefig(*place, **options)

    def __repr__(self) -> str:
        return repr(self.drawn)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return self.drawn._repr_mimebundle_()


@contextmanager
def canvas(
    notice: str | None,
    height: float,
    caption: str,
    alt: str,
    ax: Axes | None = None,
    **grid: Any,
) -> Iterator[list[Any]]:
    """Begin a figure of this height in inches, in the common style.

    Yields its axes, or the axes given.

    The notice of the data is written into the figure, so that it stays with a copy.
    """
    with mpl.rc_context(STYLE):
        if ax is not None:
            yield [ax]
            return
        lines = wrap(caption, CAPTION)
        if notice:
            lines.append(shortened(notice))
        figure = Plot(
            figsize=(WIDTH, height + LINE_HEIGHT * len(lines)), layout="constrained"
        )
        figure.caption, figure.alt = caption, alt
        figure.supxlabel("\n".join(lines), fontsize=7, color=MUTE, x=0.005, ha="left")
        charts = figure.subplots(squeeze=False, subplot_kw={"axes_class": Chart}, **grid)
        yield list(charts.ravel())


def label_axis(
    ax: Axes,
    data: Observations | str,
    which: str = "x",
    values: Iterable[Any] | None = None,
) -> None:
    """Scale an axis for a metric, and write its name, its unit and round values.

    Parameters
    ----------
    data : Observations or str
        What is drawn, or the name of its metric.
    which : {"x", "y"}
        The axis.
    values : iterable of float, optional
        The values, in the metric's own unit; default: those of the observations. Where the largest
        is much larger than the smallest, the axis is logarithmic.

    Examples
    --------
    >>> import seaborn as sns
    >>> obs = npl.observe(exp, "latency_oneway_us", by="placement")
    >>> ax = sns.stripplot(obs.table, x="value", y="condition")
    >>> npl.plots.label_axis(ax, obs)
    """
    if isinstance(data, Observations):
        metric, drawn = data.metric, [*data.table["value"]]
    else:
        metric, drawn = data, []
    info = metric_of(metric)
    found = np.array(drawn if values is None else [*values], float)
    found = found[np.isfinite(found)]
    words, upright = info.label, which == "y"
    axes: list[Any] = [ax.xaxis, ax.yaxis]
    if upright:
        axes.reverse()
    axis, other = axes
    if found.size and found.min() > 0 and found.max() > WIDE_RANGE * found.min():
        words += " (log scale)"
        ax.set(**{f"{which}scale": "log"})
        decades = math.log10(found.max() / found.min())
        axis.set_major_locator(LogLocator(subs=(1, 3) if decades < 2 else (1,)))
        axis.set_major_formatter(lambda v, _: format_value(v, info.unit))
        axis.set_minor_formatter(NullFormatter())
    else:
        unit, size = _unit(info.unit, found)
        if unit:
            words += f" ({unit})"
        axis.set_major_locator(MaxNLocator(6))
        axis.set_major_formatter(lambda v, _: f"{v / size:,.6g}")
    axis.set_label_text(fill(words, UPRIGHT) if upright else words)
    if isinstance(other.get_major_formatter(), StrCategoryFormatter):
        for text in other.get_ticklabels():
            text.set_parse_math(False)  # a label may hold a price: $5
        figure: Any = ax.figure
        if not upright and figure.axes == [ax] and not isinstance(figure, Plot):
            # as high as its rows need
            figure.set_figheight(0.75 + 0.2 * len(other.get_ticklocs()))


def in_units(values: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return values of a metric as people read them: one unit, in the head, and three digits.

    Parameters
    ----------
    values : DataFrame
        Values in the metric's own unit, such as ``obs.wide``.
    metric : str
        The metric.

    Returns
    -------
    DataFrame
        The same rows and columns as text, empty where nothing was measured; the name of the
        columns is the unit.

    Examples
    --------
    >>> obs = npl.observe(exp, "throughput_bps", by="streams").main()
    >>> npl.plots.in_units(obs.wide, obs.metric).columns.name
    'Gbit/s'
    """
    found = values.to_numpy(float)
    unit, size = _unit(metric_of(metric).unit, found[np.isfinite(found)])
    words = (values / size).map(_three_digits, na_action="ignore")
    return words.astype(object).fillna("").rename_axis(columns=unit)


def _three_digits(v: float) -> str:
    return f"{v:,.0f}" if abs(v) >= 100 else f"{v:.3g}"


def _unit(unit: str, values: Any) -> tuple[str, float]:
    """Return the unit for a linear axis, and its size in stored units."""
    top = values.max() if values.size else 1.0
    others = {"ratio": (("%", 0.01),), "per_s": (("per second", 1.0),)}
    sizes = WRITTEN.get(unit) or others.get(unit, (("", 1.0),))
    return next(((name, size) for name, size in sizes if top >= size), sizes[-1])


def room(ax: Axes) -> None:
    """Leave room on a linear axis, so that noise of a few per cent does not look large."""
    low, high = ax.get_ylim()
    if ax.get_yscale() == "linear" and low >= 0:
        centre = (low + high) / 2
        half = 1.1 * max(high - centre, 0.05 * centre)
        ax.set_ylim(max(0.0, centre - half), centre + half)


def right_ticks(ax: Axes) -> Axes:
    """Return a second axis at the right, for words at the ends of rows."""
    right: Any = ax.secondary_yaxis("right")
    right.tick_params(which="both", length=0)
    right.spines["right"].set_visible(False)
    return right  # type: ignore[no-any-return]


def legend(ax: Axes) -> None:
    """Put the legend beside the picture, long names on several lines."""
    found = ax.get_legend()
    if found is None:
        return
    names = [fill(text.get_text(), LEGEND) for text in found.get_texts()]
    place: Any = {"loc": "upper left", "bbox_to_anchor": (1, 1), "borderaxespad": 0}
    handles: Any = found.legend_handles
    for handle in handles:
        handle.set_alpha(1)
    ax.legend(handles, names, handletextpad=0.2, **place)


def legend_height(names: Iterable[str]) -> float:
    """Return the inches that a legend of these names takes."""
    return 0.15 * sum(len(wrap(name, LEGEND)) for name in names) + 0.1


def each(counts: Iterable[int], noun: str = "run") -> str:
    """Say how many: ``12 runs``, ``11 to 12 runs``, or ``no runs`` where nothing was counted."""
    distinct = sorted(set(counts))
    if not distinct:
        return f"no {noun}s"
    count = plural(distinct[-1], noun)
    return count if len(distinct) == 1 else f"{distinct[0]} to {count}"


def listed(values: Any, unit: str) -> str:
    """Return names with their values, for an alternative text."""
    return "; ".join(
        f"{name} {format_value(float(value), unit)}" for name, value in values.items()
    )


def some(rows: Any, words: str) -> None:
    """Raise NothingToReport with these words where there are no rows to draw."""
    if not len(rows):
        raise NothingToReport(words)
