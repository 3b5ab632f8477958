"""What every plot function has in common: what it takes, where it draws, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from inspect import Signature, signature
from textwrap import fill, wrap
from typing import Any, Protocol, overload

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes

from ..analysis.colours import document_colours
from ..analysis.observe import Observations, levels_by, observe
from ..analysis.runs import read_data
from ..analysis.words import shortened
from ..errors import NothingToReport
from ..experiment.attached import attached
from ..metrics import metric as metric_of
from .figure import MUTE, STYLE, WIDTH, Chart, Plot, scaled_for, title_above

PANELS_IN_A_ROW = 2
CAPTION = 128
"""Characters of a caption on a line."""
CHARACTERS_PER_INCH = 12
"""Of a sentence in a figure."""


class Panels(np.ndarray[Any, Any]):
    """The axes of the panels of a figure, from left to right: an array, which shows the figure."""

    def __repr__(self) -> str:
        return repr(self.flat[0].figure)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return self.flat[0].figure._repr_mimebundle_()


class Drawing(Protocol):
    """A plot function, as it is called."""

    @overload
    def __call__(
        self, data: Any, metric: Any = None, *, ax: Axes | None = None, **options: Any
    ) -> Axes: ...
    @overload
    def __call__(self, data: Any, metric: Any = None, *, col: str, **options: Any) -> Panels: ...


COMMON = """    Parameters
    ----------
    data : Observations, or what `observe` takes
        What to draw: an experiment, its runs, its folder, observations or an answer.
    metric : str, optional
        The metric, where `data` does not imply it.
    hue, by : str or sequence of str, optional
        The factors to compare; `hue` and `by` are the same parameter.
    col : str, optional
        A factor: each of its levels gets a panel, all on one scale.
    where, pool : optional
        As `observe` takes them.
    ax : Axes, optional
        Where to draw; default: a new figure with a caption.
"""
RETURNS = """
    Returns
    -------
    Axes or Panels
        The axes drawn on, or the first of several panels; with `col`, an array of all.

"""


@dataclass(frozen=True)
class Draws:
    """Let a function that draws one thing take what `observe` takes, the caller's axes, and factors for panels.

    Where there is nothing to draw, the axes show a sentence.

    Attributes
    ----------
    metric, by
        The metric, and what is asked about, where none is named; or what finds them in the data.
    drawable : function
        Whether the data can be drawn as they are.
    make : function
        What turns observations into what is drawn.
    arrange : function
        What puts other orders of the first two arguments right: data, metric, and further options.
    """

    metric: str | Callable[[Any], str] | None = None
    by: str | Callable[[Any, Any], Sequence[str]] = ""
    drawable: Callable[[Any], bool] = lambda _: False
    make: Callable[[Observations], Any] = lambda obs: obs
    arrange: Callable[[Any, Any], tuple[Any, Any, dict[str, Any]]] = lambda data, metric: (
        data,
        metric,
        {},
    )

    def look(self, data: Any, metric: Any, by: Any, **options: Any) -> Any:
        """Observe the data, unless they can be drawn as they are."""
        if self.drawable(data):
            return data
        if not hasattr(data, "metric") and not hasattr(data, "observations"):
            if metric is None:
                metric = self.metric(_one(data)) if callable(self.metric) else self.metric
            by = (
                by
                or ((metric and self.by(_one(data), metric)) if callable(self.by) else self.by)
                or ()
            )
        return observe(data, metric, by, **options)

    def __call__(self, function: Callable[..., Axes]) -> Drawing:
        """Make the plot function."""

        @wraps(function, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
        def draw(
            data: Any,
            metric: Any = None,
            *,
            by: str | Sequence[str] = (),
            hue: str | Sequence[str] = (),
            col: str | None = None,
            where: Mapping[str, Any] | None = None,
            pool: str | Sequence[str] = (),
            ax: Axes | None = None,
            **options: Any,
        ) -> Any:
            notice = next(filter(None, map(_notice, (data, metric, *options.values()))), None)
            by = hue or by
            drawn: Any
            try:
                data, metric, more = self.arrange(data, metric)
                options |= more
                if col is None:
                    seen = self.look(data, metric, by, where=where, pool=pool)
                    notice = notice or _notice(seen)
                    if isinstance(seen, Observations):
                        with document_colours(seen):
                            drawn = function(self.make(seen), ax=ax, **options)
                    else:
                        drawn = function(seen, ax=ax, **options)
                    figure: Any = drawn.figure
                else:
                    by = (by, col) if isinstance(by, str) else (*by, col)
                    drawn = _panels(
                        draw, self.look(data, metric, by, where=where, pool=pool), col, options
                    )
                    figure = drawn[0].figure
            except NothingToReport as nothing:
                return _empty(str(nothing), ax)
            if notice:
                _mark(figure, notice)
            return drawn

        _document(draw, function)
        return draw


def _one(data: Any) -> Any:
    """The data, or the first of several."""
    data = list(data.values()) if isinstance(data, Mapping) else data
    return _one(data[0]) if isinstance(data, list | tuple) and data else read_data(data)


def _document(draw: Any, function: Callable[..., Axes]) -> None:
    """Give a plot function the parameters that all have, and those of its own."""
    own = [p for p in signature(function).parameters.values() if p.name != "ax"][1:]
    shared = [
        p for p in signature(draw, follow_wrapped=False).parameters.values() if p.name != "options"
    ]
    draw.__signature__ = Signature([*shared, *own], return_annotation="Axes | Panels")
    text, _, example = (function.__doc__ or "").partition("    Examples\n")
    summary, _, parameters = text.partition("    Parameters\n    ----------\n")
    draw.__doc__ = f"{summary}{COMMON}{parameters.rstrip()}\n{RETURNS}    Examples\n{example}"


def _notice(data: Any) -> str | None:
    """The caveat to show with these data."""
    tables = (data, getattr(data, "runs", None), getattr(data, "table", None))
    first = data[0] if isinstance(data, list | tuple) and data else data
    notices = (*(attached(table).notice for table in tables), getattr(first, "notice", None))
    return next((notice for notice in notices if notice and isinstance(notice, str)), None)


def _mark(figure: Any, notice: str) -> None:
    """Write the beginning of a notice into the figure, so that it stays with a copy."""
    words = figure.get_supxlabel()
    said = shortened(notice)
    if not words.endswith(said):
        figure.supxlabel(f"{words}\n{said}".strip(), fontsize=7, color=MUTE, x=0.005, ha="left")


def _empty(reason: str, ax: Axes | None) -> Axes:
    """Say why there is nothing to draw."""
    with plot(0.6, "", "", ax=ax) as axes:
        axes.set_axis_off()
        width = int(axes.get_window_extent().width / axes.figure.dpi * CHARACTERS_PER_INCH)
        words = fill(reason, max(width, 16))
        # its size must not take the place of the other panels' axes
        axes.text(
            0.5, 0.5, words, ha="center", va="center", transform=axes.transAxes
        ).set_in_layout(False)
        if isinstance(axes, Chart):
            axes.drawn.empty = reason[:1].upper() + reason[1:].rstrip(".") + "."
    return axes  # type: ignore[no-any-return]


def _panels(
    draw: Callable[..., Any], obs: Observations, col: str, options: Mapping[str, Any]
) -> Panels:
    """Draw each level of a factor in a panel of its own, side by side, on a common scale."""
    groups = levels_by(obs, col)
    rows = -(-len(groups) // PANELS_IN_A_ROW)
    columns = -(-len(groups) // rows)
    with mpl.rc_context(STYLE), scaled_for(obs.metric, obs.complete[obs.metric]):
        figure = Plot(figsize=(WIDTH, 0.6 + 2.6 * rows), layout="constrained")
        cells = figure.subplots(rows, columns, squeeze=False).ravel()
        panels = cells[: len(groups)]
        for cell in cells[len(groups) :]:
            cell.remove()
        legends = [0.0]
        for axes, (words, part) in zip(panels, groups.items(), strict=True):
            draw(part, ax=axes, **options)
            legends.append(title_above(axes, words))
        figure.set_figheight(figure.get_figheight() + rows * max(legends))
        _one_scale([axes for axes in panels if axes.axison])
    figure.caption = (
        f"{metric_of(obs.metric).label}: a panel for each level of {col}, on one scale."
    )
    figure.alt = f"Panels: {', '.join(groups)}."
    return panels.view(Panels)


def _one_scale(panels: Sequence[Axes]) -> None:
    """Give panels the same limits and ticks on an axis that has the same label in all of them."""
    for which in "xy":
        if len(
            labels := {getattr(axes, f"get_{which}label")() for axes in panels}
        ) != 1 or labels == {""}:
            continue
        limits = np.array([getattr(axes, f"get_{which}lim")() for axes in panels])
        low, high = limits[:, 0].min(), limits[:, 1].max()
        log = getattr(panels[0], f"get_{which}scale")() == "log"
        # the margins of a panel whose runs are close to each other are too small for points at the edge of all
        edge = (high / low) ** 0.04 if log else 1
        for axes in panels:
            getattr(axes, f"set_{which}lim")(low / edge, high * edge)
            if which == "y" and axes.get_subplotspec().colspan.start:  # type: ignore[union-attr]
                axes.set_ylabel("")
                axes.tick_params(labelleft=False)


@contextmanager
def plot(
    height: float, caption: str, alt: str, ax: Axes | None = None, **grid: Any
) -> Iterator[Any]:
    """Begin a figure of this height in inches, in the common style; yields its axes, or the axes given."""
    with mpl.rc_context(STYLE):
        if ax is not None:
            yield ax
            return
        lines = wrap(caption, CAPTION)
        figure = Plot(figsize=(WIDTH, height + 0.13 * len(lines)), layout="constrained")
        figure.caption, figure.alt = caption, alt
        words = "\n".join(lines)
        figure.supxlabel(words, fontsize=7, color=MUTE, x=0.005, ha="left")
        yield figure.subplots(**grid, subplot_kw={"axes_class": Chart})
