"""What limits the throughput of each condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.ticker import LogLocator

from ..analysis.colours import colours
from ..analysis.limits import Held
from ..analysis.limits import limits as limits_of
from ..metrics import format_value
from .figure import (
    DOT,
    MUTE,
    canvas,
    legend_height,
    round_ticks,
    rows_of,
    some,
    title,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BESIDE_NAMES = 36
"""Characters of a legend on a line, beside the names of the conditions."""


def limits(
    data: Any, *, where: Mapping[str, Any] | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the throughput of each condition with the rate that each limit allows.

    Parameters
    ----------
    data : list of Held, or what `observe` takes
        What to draw; of the former, what `netperf_lib.limits` returns.
    where : mapping, optional
        Factor and level: only these runs.
    ax : Axes, optional
        Where to draw; default: a new figure with a caption.

    Examples
    --------
    >>> ax = npl.plots.limits(exp)
    """
    given = isinstance(data, list | tuple) and all(isinstance(one, Held) for one in data)
    rows: Sequence[Held] = data if given else limits_of(data, where=where)
    some(rows, "no throughput was measured")
    names = list(dict.fromkeys(name for one in rows for name in one.roofs))
    caption = (
        "Bar: throughput; marks: the rate that each limit allows. A bar that ends at a mark is "
        "limited by it."
    )
    height = 0.8 + 0.18 * len(rows) + legend_height(names, BESIDE_NAMES)
    alt = "; ".join(map(_words, rows)) + "."
    with canvas(rows[0], height, caption, alt, ax) as (chart,):
        _roofs(chart, rows, colours(names))
    return chart  # type: ignore[no-any-return]


def _words(one: Held) -> str:
    roofs = (f"{name} {format_value(rate, 'bps')}" for name, rate in one.roofs.items())
    return f"{one.condition}: {format_value(one.bps, 'bps')} of {', '.join(roofs)}"


def _roofs(
    chart: Axes, rows: Sequence[Held], painted: Mapping[str, tuple[str, str]]
) -> None:
    """Draw the throughput as bars, and the limits as marks."""
    for y, one in enumerate(rows):
        chart.barh(y, one.bps, color=MUTE, alpha=0.3, height=0.62)
        for name, rate in one.roofs.items():
            colour, marker = painted[name]
            chart.plot(rate, y, marker=marker, color=colour, **(DOT | {"ms": 6.5}))
    every = [rate for one in rows for rate in (one.bps, *one.roofs.values())]
    chart.set(xscale="log", xlim=(min(every) / 2, max(every) * 1.5))
    chart.set_xlabel("Throughput (log scale)")
    round_ticks(chart.xaxis, "bps", every)
    chart.xaxis.set_major_locator(LogLocator(numticks=2))  # the panel is narrow
    rows_of(chart, [one.condition for one in rows])
    title(chart, "Throughput and limits", painted, BESIDE_NAMES)
