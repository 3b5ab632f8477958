"""Figures: a tidy table in, a figure out.

Every figure names its units on the axes, tells n and method in its caption, is legible in print and to colour-blind
readers (the palette of Okabe and Ito, and a marker for every colour), and says in words what it shows to those who
cannot see it. A `Plot` shows itself in Jupyter with its caption, and goes into a report as a vector picture whose text
can be selected.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterable, Sequence
from contextlib import contextmanager
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from .metrics import format_value
from .metrics import metric as metric_of
from .report.show import MIME
from .stats import level

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .stats import Comparison

__all__ = ["Plot", "forest", "rounds"]

WIDTH = 6.54
"""Inches between the margins of a report's page."""
INK, MUTE, GRID = "#1f2937", "#5b6472", "#e5e9ef"
PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#000000", "#8a7f00")
"""Okabe and Ito; yellow is replaced by a dark one that print can show."""
MARKERS = "osD^vPX*"
VERDICTS = {"better": "#00795a", "worse": "#b8420a", "equivalent": "#0072b2", "inconclusive": "#8a5a00"}
STYLE: Any = {
    "font.family": ["Source Sans Pro", "DejaVu Sans"],
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#9aa3ae",
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.titlesize": 9.5,
    "axes.titleweight": "semibold",
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
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.4,
    "svg.fonttype": "none",
    "svg.hashsalt": "netperf_lib",
    "figure.facecolor": "white",
}


def _fonts() -> None:
    """Tell matplotlib of the report's font, so that text is measured as it will be set."""
    spec = find_spec("font_source_sans_pro")
    if spec and spec.origin and not any(f.name == "Source Sans Pro" for f in font_manager.fontManager.ttflist):
        for weight in ("Regular", "It", "Semibold", "Bold"):
            file = Path(spec.origin).parent / "files" / f"SourceSansPro-{weight}.ttf"
            if file.is_file():
                font_manager.fontManager.addfont(str(file))


_fonts()


class Plot(Figure):
    """A figure that knows its caption, and tells in words what it shows.

    Attributes
    ----------
    caption : str
        What is seen, n and method.
    alt : str
        Alternative text for those who cannot see it.
    """

    caption: str = ""
    alt: str = ""

    def svg(self) -> str:
        """Return the figure as SVG; the same figure gives the same text."""
        out = io.StringIO()
        with mpl.rc_context(STYLE):
            self.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
        return out.getvalue()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        data = base64.b64encode(self.svg().encode()).decode()
        html = (
            f'<figure style="margin:0"><img style="max-width:100%;background:white" alt="{escape(self.alt)}" '
            f'src="data:image/svg+xml;base64,{data}">'
            f'<figcaption style="max-width:54em"><small>{escape(self.caption)}</small></figcaption></figure>'
        )
        return {
            "text/plain": f"{self.caption} {self.alt}",
            "text/html": html,
            MIME: {"kind": "figure", "caption": self.caption, "alt": self.alt},
        }


@contextmanager
def _plot(height: float, caption: str, alt: str, **grid: Any) -> Iterator[tuple[Plot, Any]]:
    with mpl.rc_context(STYLE):
        figure = Plot(figsize=(WIDTH, height), layout="constrained")
        figure.caption, figure.alt = caption, alt
        yield figure, figure.subplots(**grid)


def _colours(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    return {n: (PALETTE[i % len(PALETTE)], MARKERS[i % len(MARKERS)]) for i, n in enumerate(names)}


def _axis(
    axes: Axes, metric: str, values: Iterable[float], *, which: str = "y", zero: bool = False, label: bool = True
) -> None:
    """Label an axis with the metric and its unit; a wide range gets a log axis."""
    info = metric_of(metric)
    x = np.asarray([v for v in values if v is not None and np.isfinite(v)], float)
    axis = getattr(axes, f"{which}axis")
    wide = x.size > 0 and x.min() > 0 and x.max() / x.min() > 8 and not zero
    unit, factor = _unit(info.unit, x, wide)
    if wide:
        getattr(axes, f"set_{which}scale")("log")
        axis.set_major_locator(LogLocator(10, subs=(1, 2, 5) if x.max() / x.min() < 300 else (1,)))
        axis.set_minor_formatter(NullFormatter())
        axis.set_major_formatter(FuncFormatter(lambda v, _: format_value(v, info.unit)))
        getattr(axes, f"set_{which}label")(f"{info.label} (log scale)" if label else "log scale")
        return
    axis.set_major_locator(MaxNLocator(6))
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v / factor:,.6g}"))
    getattr(axes, f"set_{which}label")(f"{info.label}{f' ({unit})' if unit else ''}" if label else unit)
    if zero:
        getattr(axes, f"set_{which}lim")(0, None)


def _unit(unit: str, x: Any, wide: bool) -> tuple[str, float]:
    """The unit that makes numbers short, and its size in stored units."""
    top = float(np.median(np.abs(x))) if x.size else 1.0
    known = {
        "us": (("s", 1e6), ("ms", 1e3), ("µs", 1.0)),
        "bps": (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3), ("bit/s", 1.0)),
        "bytes": (("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10), ("B", 1.0)),
        "s": (("s", 1.0),),
        "ratio": (("%", 0.01),),
        "per_s": (("per second", 1.0),),
    }.get(unit, (("", 1.0),))
    return next(((name, size) for name, size in known if top >= size), known[-1])


def _plural(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def _each(counts: Iterable[int]) -> str:
    found = sorted(set(counts))
    return f"{found[0]}" if len(found) == 1 else f"{found[0]} to {found[-1]}"


# -- rounds in time order ----------------------------------------------------------------------------------------------


def _clusters(medians: dict[str, float], gap: float = 3.0, most: int = 4) -> list[list[str]]:
    """Conditions that can share a linear axis; all in one group where there would be too many."""
    order = sorted((n for n in medians if math.isfinite(medians[n])), key=lambda n: medians[n], reverse=True)
    groups: list[list[str]] = []
    for name in order:
        if groups and medians[groups[-1][-1]] < gap * medians[name]:
            groups[-1].append(name)
        else:
            groups.append([name])
    return groups if 0 < len(groups) <= most else [order]


def rounds(runs: pd.DataFrame, metric: str, *, confidence: float = 0.95) -> Plot:
    """Every run in time order, and beside it where each condition lies.

    Conditions that lie far apart get panels of their own, each with its own axis.

    Parameters
    ----------
    runs : DataFrame
        One row a run, with ``deployment``, ``round`` and ``condition``, as `select` gives it.
    metric : str
        Column on the vertical axis.
    confidence : float
        Of the interval of the median.
    """
    names = [str(n) for n in runs["condition"].cat.categories]
    info = metric_of(metric)
    values = {n: runs.loc[runs["condition"] == n, metric].astype(float) for n in names}
    found = {n: level(v, confidence, metric=metric) for n, v in values.items()}
    told = "; ".join(f"{n} {format_value(v.median, info.unit)}" for n, v in found.items())
    groups = _clusters({n: v.median for n, v in found.items()})
    caption = (
        f"{info.label}: every run in time order (left), and the median of each condition with its "
        f"{100 * confidence:g} % interval by order statistics (right). "
        f"n = {_each(v.n for v in found.values())} runs a condition."
        + (" The panels have different scales." if len(groups) > 1 else "")
    )
    heights = [1.0 + 0.35 * len(g) for g in groups]
    time = runs.groupby(["deployment", "round"], sort=True).ngroup() + 1
    grid = {"width_ratios": [3.4, 1], "height_ratios": heights}
    shape = {"nrows": len(groups), "ncols": 2, "squeeze": False, "sharey": "row", "gridspec_kw": grid}
    with _plot(0.75 + 0.85 * sum(heights), caption, f"Medians: {told}.", **shape) as (figure, axes):
        colours = _colours(names)
        for (left, right), group in zip(axes, groups, strict=True):
            for name in group:
                colour, marker = colours[name]
                mine = runs["condition"] == name
                left.plot(time[mine], values[name], color=colour, lw=0.9, alpha=0.45)
                left.plot(time[mine], values[name], marker, color=colour, ms=4.5, mec="white", mew=0.5)
            here = [n for n in names if n in group]
            for x, name in enumerate(here):
                colour, marker = colours[name]
                v = found[name]
                right.plot([x, x], [v.low, v.high], color=colour, lw=2.4, solid_capstyle="butt")
                right.plot([x], [v.median], marker, color=colour, ms=6, mec="white", mew=0.7)
            _axis(left, metric, [x for n in group for x in values[n]], label=len(groups) == 1)
            _room(left)
            left.xaxis.set_major_locator(MaxNLocator(10, integer=True, min_n_ticks=1))
            left.margins(x=0.02)
            right.set_xticks([])
            right.set_xlim(-0.6, len(here) - 0.4)
            right.tick_params(labelleft=False, left=False)
            right.spines["left"].set_visible(False)
            if left is not axes[-1][0]:
                left.tick_params(labelbottom=False)
        axes[-1][0].set_xlabel(_round_label(runs))
        axes[-1][1].set_xlabel("Median, interval")
        if len(groups) > 1:
            figure.supylabel(info.label, fontsize=9)
        _legend(figure, colours)
    return figure


def _round_label(runs: pd.DataFrame) -> str:
    deployments = runs["deployment"].nunique()
    return "Round" if deployments == 1 else f"Round ({deployments} deployments, one after another)"


def _room(axes: Axes, share: float = 0.25) -> None:
    """Leave room on a linear axis, so that a noise of a few per cent does not look like a storm."""
    if axes.get_yscale() == "linear":
        low, high = axes.get_ylim()
        middle = (low + high) / 2
        half = max((high - low) / 2, 0.05 * abs(middle))
        axes.set_ylim(max(0.0, middle - half * (1 + share)) if low >= 0 else low, middle + half * (1 + share))


def _legend(figure: Plot, colours: dict[str, tuple[str, str]]) -> None:
    """One legend above everything, in the order of the conditions."""
    handles = [Line2D([], [], color=c, marker=m, ls="", ms=5, mec="white", mew=0.5) for c, m in colours.values()]
    widest = max(map(len, colours), default=1)
    columns = max(1, min(len(colours), int(92 / (widest + 5))))
    figure.legend(handles, list(colours), loc="outside upper left", ncols=columns, handletextpad=0.1, columnspacing=1.2)


# -- forest of ratios --------------------------------------------------------------------------------------------------


def _ratio_text(v: float) -> str:
    if v >= 2:
        return f"×{v:,.3g}"
    if v <= 0.1:
        return f"÷{1 / v:,.3g}"
    change = 100 * (v - 1)
    return "equal" if abs(change) < 0.05 else f"{change:+.0f} %".replace("-", "−")


def forest(family: Iterable[Comparison], *, names: Sequence[str] | None = None) -> Plot:
    """Ratios with their intervals, against the margin within which conditions count as equivalent.

    Parameters
    ----------
    family : Family
        As `compare` gives it.
    names : sequence of str, optional
        What to call the contrasts.
    """
    every = list(family)
    shown = [(c, names[i] if names else f"{c.names[0]} / {c.names[1]}") for i, c in enumerate(every)]
    finite = [(c, n) for c, n in shown if math.isfinite(c.ratio) and c.ratio > 0]
    margins = sorted({c.margin for c in every})
    band = " or ".join(f"{100 * m:.3g} %" for m in margins)
    units = _each(c.n for c in every) if every else "0"
    caption = (
        "Ratio of the first to the second condition with its interval (Hodges–Lehmann estimate, exact signed-rank "
        f"interval at the confidence that the family of contrasts asks for); shaded: the margin of {band} within which "
        f"conditions count as equivalent. n = {units} {every[0].unit if every else 'round'}s a contrast. "
        "Log scale."
    )
    alt = "; ".join(c.words for c in every) + "."
    with _plot(0.9 + 0.42 * max(len(shown), 1), caption, alt) as (figure, axes):
        for y, (c, _) in enumerate(shown):
            axes.fill_betweenx(
                [y - 0.42, y + 0.42], 1 / (1 + c.margin), 1 + c.margin, color="#0072b2", alpha=0.13, lw=0
            )
            if (c, _) not in finite:
                axes.text(1, y, "no value", ha="center", va="center", color=MUTE, fontsize=8)
                continue
            colour = VERDICTS.get(c.verdict, MUTE)
            marker = {"better": "^", "worse": "v", "equivalent": "s"}.get(c.verdict, "o")
            if c.low > 0 and math.isfinite(c.high):
                axes.plot([c.low, c.high], [y, y], color=colour, lw=2.2, solid_capstyle="butt")
            axes.plot([c.ratio], [y], marker, color=colour, ms=7, mec="white", mew=0.7)
        axes.axvline(1, color=INK, lw=0.8)
        axes.set_xscale("log")
        ends = [v for c, _ in finite for v in (c.ratio, c.low, c.high) if 0 < v < math.inf] + [
            v for c in every for v in (1 / (1 + 1.6 * c.margin), 1 + 1.6 * c.margin)
        ]
        low, high = min(ends) / 1.08, max(ends) * 1.08
        axes.set_xlim(low, high)
        axes.set_xticks(_ratio_ticks(low, high))
        axes.xaxis.set_minor_locator(LogLocator(10, subs=()))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: _ratio_text(v)))
        axes.set_yticks(range(len(shown)), [n for _, n in shown])
        axes.set_ylim(len(shown) - 0.4, -0.6)
        axes.grid(axis="y", visible=False)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("First condition against second (ratio, log scale)")
        right = axes.secondary_yaxis("right")
        right.set_yticks(
            range(len(shown)), [f"{_ratio_text(c.ratio) if (c, n) in finite else '–'}, {c.verdict}" for c, n in shown]
        )
        right.tick_params(length=0, labelcolor=INK)
        right.spines["right"].set_visible(False)
        axes.spines["left"].set_visible(False)
    return figure


def _ratio_ticks(low: float, high: float) -> list[float]:
    """A few round ratios between two ends."""
    fine = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.2, 1.3, 1.5, 1.75, 2]
    coarse = [s * 10.0**e for e in range(-5, 6) for s in (1, 2, 5)]
    wide = [10.0**e for e in range(-6, 7)]
    for choice in (fine, coarse, wide):
        inside = sorted({round(v, 9) for v in choice if low <= v <= high} | {1.0})
        near = [v for v in inside if v == 1 or abs(math.log(v)) > 0.06 * math.log(high / low)]
        ticks: list[float] = []
        for v in near:
            if not ticks or math.log(v / ticks[-1]) > 0.08 * math.log(high / low) or v == 1:
                ticks.append(v)
        if 3 <= len(ticks) <= 9 and (choice is not fine or (low > 0.4 and high < 2.6)):
            return ticks
    return [1.0]
