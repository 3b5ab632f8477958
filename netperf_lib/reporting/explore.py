"""A panel to look around with: metric, factor and filter; the table, the figure and the words follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import NetperfError, UsageError
from ..experiment.factors import dimensions
from ..metrics import METRICS
from ..metrics import metric as metric_of
from ..questions.conditions import levels, ok_runs, select
from .blocks import findings, table

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["explore"]


def explore(runs: pd.DataFrame, *, metric: str | None = None, factor: str = "placement", where: str = "") -> Any:
    """Show a panel of widgets over the table of runs.

    Parameters
    ----------
    runs : DataFrame
        The table of runs.
    metric : str, optional
        Metric to begin with; default: the first that has values.
    factor : str
        Factor to begin with.
    where : str
        Filter to begin with, as `DataFrame.query` takes it.

    Returns
    -------
    ipywidgets.VBox
        Its children are the controls and the output.

    Raises
    ------
    UsageError
        There is no such metric or factor with values.
    """
    import ipywidgets

    widgets: Any = ipywidgets
    complete = ok_runs(runs)
    metrics = [m for m in METRICS if m in complete and complete[m].notna().any()]
    factors = [f for f in dimensions(complete.columns) if len(complete[f].astype(object).unique()) > 1]
    if metric is not None and metric not in metrics:
        raise UsageError(f"no run has a value of {metric!r} (metrics with values: {', '.join(metrics)})")
    if not factors:
        raise UsageError("nothing varies in these runs: there is no factor to look at")
    wide = widgets.Layout(width="32em")
    style = {"description_width": "5em"}
    choose = {"style": style, "layout": wide}
    by_metric = widgets.Dropdown(
        options=[(metric_of(m).label, m) for m in metrics], value=metric or metrics[0], description="Metric", **choose
    )
    by_factor = widgets.Dropdown(
        options=[(f.replace("_", " "), f) for f in factors],
        value=factor if factor in factors else factors[0],
        description="Factor",
        **choose,
    )
    tools = sorted(complete["tool"].dropna().unique())
    by_tool = widgets.Dropdown(
        options=[("the most used", None), *zip(tools, tools, strict=True)], description="Tool", **choose
    )
    by_filter = widgets.Text(
        value=where, description="Filter", placeholder="tool == 'qperf'", continuous_update=False, **choose
    )
    shown = widgets.Output()

    def draw(_: Any = None) -> None:
        with shown:
            shown.clear_output(wait=True)
            _draw(runs, by_metric.value, by_factor.value, by_tool.value, by_filter.value)

    for control in (by_metric, by_factor, by_tool, by_filter):
        control.observe(draw, names="value")
    draw()
    return widgets.VBox([by_metric, by_factor, by_tool, by_filter, shown])


def _draw(runs: pd.DataFrame, metric: str, factor: str, tool: str | None, where: str) -> None:
    """Show what a choice gives, or the one sentence that says why it gives nothing."""
    from IPython import display as ipython

    from .. import plots
    from ..stats.verdict import compare

    display: Any = ipython.display
    attrs = runs.attrs
    if where.strip():
        try:
            runs = runs.query(where)
        except Exception as error:  # noqa: BLE001  # pandas raises anything for a text that is no condition
            print(f"The filter {where!r} is not understood: {error}")
            return
        runs.attrs = attrs
    try:
        chosen = select(runs, metric, about=factor, tool=tool)
        display(table(levels(chosen, metric), metric=metric))
        display(plots.rounds(chosen, metric))
        if len(chosen["condition"].cat.categories) > 1:
            display(findings(compare(chosen, metric, by="condition")))
    except NetperfError as error:
        print(error)
