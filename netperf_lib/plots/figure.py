"""What every figure has in common: looks, axes, legend, caption.

Colours are those of Okabe and Ito, with a marker for every colour. A `Plot` shows itself in Jupyter with its caption,
and goes into a report as a vector picture whose text can be selected.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from textwrap import fill
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from ..analysis.runs import is_details
from ..analysis.words import Words
from ..errors import UsageError
from ..metrics import WRITTEN, format_value
from ..metrics import metric as metric_of

WIDTH = 6.54
"""Inches between the margins of a report's page."""
UPRIGHT = 18
"""Characters of an upright label on a line, which is as long as a small figure is high."""
INK, MUTE, GRID = "#1f2937", "#5b6472", "#e5e9ef"
VERDICTS = {
    "better": "#00795a",
    "worse": "#b8420a",
    "equivalent": "#0072b2",
    "inconclusive": "#8a5a00",
}
STYLE: Any = {
    "font.family": ["DejaVu Sans"],
    "font.size": 8,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#9aa3ae",
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.titlesize": 8.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": MUTE,
    "ytick.color": MUTE,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "legend.frameon": False,
    "legend.fontsize": 7.5,
    "lines.linewidth": 1.4,
    "text.parse_math": False,  # a label may hold a price: $5
    "svg.fonttype": "none",
    "svg.hashsalt": "netperf_lib",
    "figure.facecolor": "white",
}
DOT: Any = {"ls": "", "ms": 4, "mec": "white", "mew": 0.5}
"""A point: small, with a white edge."""
_SCALED_FOR: ContextVar[Mapping[str, Sequence[float]]] = ContextVar("_SCALED_FOR", default={})  # noqa: B039 - never changed
BIG: Any = {"ls": "", "ms": 6.5, "mec": "white", "mew": 0.6}
"""A median."""


class Plot(Figure):
    """A figure with a caption and an alternative text.

    Attributes
    ----------
    caption : str
        What the figure shows, n and method.
    alt : str
        Alternative text for readers who cannot see it.
    empty : str
        Why there is nothing to draw, shown instead of the figure.
    """

    caption: str = ""
    alt: str = ""
    empty: str = ""

    def __repr__(self) -> str:
        return self.empty or f"{self.caption} {self.alt}"

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
        if self.empty:
            return {"text/plain": self.empty, "text/markdown": Words(self.empty)._repr_markdown_()}
        alt = {"image/svg+xml": {"alt": f"{self.caption} {self.alt}"}}
        return {"text/plain": repr(self), "image/svg+xml": self.svg()}, alt


class Chart(Axes):
    """Axes of a `Plot`. In Jupyter and in a report they show the figure as a vector graphic with its caption."""

    @property
    def drawn(self) -> Plot:
        """The figure."""
        assert isinstance(self.figure, Plot)
        return self.figure

    def __repr__(self) -> str:
        return repr(self.drawn)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return self.drawn._repr_mimebundle_()


@contextmanager
def scaled_for(metric: str, values: Iterable[float]) -> Iterator[None]:
    """Choose the unit and scale of every axis of the metric by these values: panels that are compared have one."""
    token = _SCALED_FOR.set({metric: list(values)})
    try:
        yield
    finally:
        _SCALED_FOR.reset(token)


def axis(
    axes: Axes,
    metric: str,
    values: Iterable[float],
    *,
    which: str = "y",
    zero: bool = False,
    label: bool = True,
) -> None:
    """Label an axis with the metric and its unit; a wide range gets a log axis."""
    info = metric_of(metric)
    values = _SCALED_FOR.get().get(metric, values)
    x = np.asarray([v for v in values if v is not None and np.isfinite(v)], float)
    axis = getattr(axes, f"{which}axis")
    wide = x.size > 0 and x.min() > 0 and x.max() / x.min() > 8 and not zero
    unit, factor = _unit(info.unit, x)
    if wide:
        getattr(axes, f"set_{which}scale")("log")
        round_ticks(axis, info.unit)
        words = f"{info.label} (log scale)" if label else "log scale"
        getattr(axes, f"set_{which}label")(words if which == "x" else fill(words, UPRIGHT))
        return
    axis.set_major_locator(MaxNLocator(6))
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v / factor:,.6g}"))
    words = f"{info.label}{f' ({unit})' if unit else ''}" if label else unit
    getattr(axes, f"set_{which}label")(words if which == "x" else fill(words, UPRIGHT))
    if zero:
        getattr(axes, f"set_{which}lim")(0, None)


STEPS = ((1, 2, 3, 5, 7), (1, 2, 5), (1, 3))
"""Ticks of a decade, the most first."""
TICK_WIDTH, TICK_HEIGHT = 0.75, 0.22
"""Inches that a tick with its label takes on an axis."""


class RoundTicks(LogLocator):
    """Ticks of a log axis at round values, as many as there is room for; those of bytes are powers of four."""

    def __init__(self, unit: str) -> None:
        super().__init__(base=4 if unit == "bytes" else 10)

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """Return the ticks between two values."""
        if self._base == 10:  # type: ignore[attr-defined]
            axes, tall = self.axis.axes, self.axis.axis_name == "y"  # type: ignore[union-attr]
            inches = (
                axes.get_window_extent().height if tall else axes.get_window_extent().width
            ) / axes.figure.dpi
            most = inches / (TICK_HEIGHT if tall else TICK_WIDTH) / math.log10(vmax / vmin)
            self.set_params(subs=next((s for s in STEPS if len(s) <= most), (1,)))
        return super().tick_values(vmin, vmax)


def round_ticks(axis: Any, unit: str) -> None:
    """Write round values with their unit on a log axis."""
    axis.set_major_locator(RoundTicks(unit))
    tick_words(axis, lambda v: format_value(v, unit))


def tick_words(axis: Any, words: Callable[[float], str]) -> None:
    """Write the major ticks of an axis in words, and no others."""
    axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(lambda v, _: words(v)))


def interval(axes: Axes, y: float, low: Any, high: Any, colour: str) -> None:
    """Draw the interval of a level as a horizontal bar; without bounds, nothing."""
    bounds = [float(v) for v in (low, high) if pd.notna(v) and math.isfinite(v)]
    if len(bounds) == 2:
        axes.plot(bounds, [y, y], color=colour, lw=2.4, solid_capstyle="butt")


def _unit(unit: str, x: Any) -> tuple[str, float]:
    """The unit that keeps numbers short, and its size in stored units."""
    top = float(np.median(np.abs(x))) if x.size else 1.0
    sizes = {**WRITTEN, "ratio": (("%", 0.01),), "per_s": (("per second", 1.0),)}.get(
        unit, (("", 1.0),)
    )
    return next(((name, size) for name, size in sizes if top >= size), sizes[-1])


def each(counts: Iterable[int], noun: str = "run") -> str:
    """Say how many: ``12 runs``, ``11 to 12 runs``, or ``no runs`` where nothing was counted."""
    distinct = sorted(set(counts))
    if not distinct:
        return f"no {noun}s"
    count = f"{distinct[0]}" if len(distinct) == 1 else f"{distinct[0]} to {distinct[-1]}"
    return f"{count} {noun}{'' if distinct[-1] == 1 else 's'}"


def clusters(medians: dict[str, float]) -> list[list[str]]:
    """Conditions that can share a linear axis; all in one group if there would be too many groups."""
    order = sorted(
        (n for n in medians if math.isfinite(medians[n])), key=lambda n: medians[n], reverse=True
    )
    groups: list[list[str]] = []
    for name in order:
        if groups and medians[groups[-1][-1]] < 3 * medians[name]:
            groups[-1].append(name)
        else:
            groups.append([name])
    return groups if 0 < len(groups) <= 4 else [order]


def conditions(table: pd.DataFrame) -> list[str]:
    """Names of the conditions that a table holds, in their order."""
    column = table["condition"]
    if isinstance(column.dtype, pd.CategoricalDtype):
        return [str(c) for c in column.cat.remove_unused_categories().cat.categories]
    return list(dict.fromkeys(column.astype(str)))


def round_label(runs: pd.DataFrame) -> str:
    """Label of an axis of rounds."""
    deployments = runs["deployment"].nunique()
    return "Round" if deployments == 1 else f"Round ({deployments} deployments, one after another)"


def room(axes: Axes, share: float = 0.25) -> None:
    """Leave room on a linear axis, so that noise of a few per cent does not look large."""
    if axes.get_yscale() == "linear":
        low, high = axes.get_ylim()
        centre = (low + high) / 2
        half = max((high - low) / 2, 0.05 * abs(centre)) * (1 + share)
        axes.set_ylim(max(0.0, centre - half) if low >= 0 else low, centre + half)


def _columns(names: Sequence[str]) -> int:
    return max(1, min(len(names), int(112 / (max(map(len, names), default=1) + 6))))


def legend_height(names: Sequence[str]) -> float:
    """Inches that a legend of these names takes beyond its first line."""
    return 0.17 * (math.ceil(len(names) / _columns(names)) - 1)


def table_first(data: Any, metric: Any) -> tuple[Any, Any, dict[str, Any]]:
    """A table of details may come first, and then its runs, which else are named by the column ``condition``."""
    if not is_details(data):
        return data, metric, {}
    if metric is not None:
        return metric, None, {"table": data}
    if "condition" not in data:
        raise UsageError(
            "give the runs of these details too, as in plots.intervals(exp.intervals, exp), or exp alone"
        )
    return data, None, {}


COMPACT: Any = {"handletextpad": 0.1, "columnspacing": 1.2}


def legend(axes: Axes, colours: dict[str, tuple[str, str]]) -> None:
    """One legend in the order of the conditions: above everything, or inside of axes that were given."""
    handles = [
        Line2D([], [], color=c, marker=m, ls="", ms=5, mec="white", mew=0.5)
        for c, m in colours.values()
    ]
    if not isinstance(axes, Chart):
        axes.legend(handles, list(colours))
        return
    axes.drawn.legend(
        handles, list(colours), ncols=_columns(list(colours)), loc="outside upper left", **COMPACT
    )


def title_above(axes: Axes, words: str) -> float:
    """Give a panel its title, with its legend between that and the picture; returns the inches of the legend."""
    inside, height = axes.get_legend(), 0.0
    if inside is not None:
        names = [text.get_text() for text in inside.get_texts()]
        columns = max(1, _columns(names) // 2)  # two panels stand side by side
        above: Any = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0, **COMPACT}
        handles: Any = inside.legend_handles  # with types that no legend takes
        axes.legend(handles, names, ncols=columns, **above)
        height = 0.18 * math.ceil(len(names) / columns) + 0.1
    axes.set_title(words, pad=72 * height + 6)
    return height


def rows_of(axes: Axes, names: Sequence[str]) -> None:
    """Name the rows of a figure, whose first one is on top."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)


def at_right(axes: Axes, words: Sequence[str], **look: Any) -> None:
    """Write words at the right end of each row."""
    right = axes.secondary_yaxis("right")
    right.set_yticks(range(len(words)), words)
    right.tick_params(length=0, **look)
    right.spines["right"].set_visible(False)


def listed(values: Mapping[Any, Any], unit: str) -> str:
    """Names with their values, for an alternative text."""
    return "; ".join(f"{name} {format_value(float(value), unit)}" for name, value in values.items())
