"""A panel for exploring runs, in a notebook or as a separate page: choose, look, point at a run, save.

The controls are ipywidgets. The picture is the same SVG as in a report, shown by anywidget: a point shows its run under
the cursor in both, and here a click opens the run's log. Voilà serves the panel as a page without code.
"""

from __future__ import annotations

import ast
import base64
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

from ..data.layout import Store
from ..data.load import load
from ..errors import NetperfError, UsageError, pip_install
from ..experiment.factors import dimensions, residue
from ..metrics import METRICS
from ..metrics import metric as metric_of
from ..questions.conditions import label, levels, ok_runs, select
from .blocks import callout, findings, say, table
from .workshop import usual_experiment

if TYPE_CHECKING:
    import pandas as pd

MOST_USED = "the most used"
NONE = "none"
SCRIPT = """
function render({ model, el }) {
  const draw = () => { el.innerHTML = model.get("svg"); };
  el.addEventListener("click", event => {
    const point = event.target.closest("[data-run]");
    if (point) { model.set("run", point.dataset.run); model.save_changes(); }
  });
  // a page of its own keeps the choice in its address: reloaded, or sent to a colleague, it shows the same
  const keep = () => { if (model.get("choice")) history.replaceState(null, "", "?" + model.get("choice")); };
  model.on("change:svg", draw);
  model.on("change:choice", keep);
  draw();
}
export default { render };
"""
STYLE = "svg { max-width: 100%; height: auto; background: white } [data-run] { cursor: pointer }"


def explore(
    experiment: pd.DataFrame | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    metric: str | None = None,
    factor: str = "placement",
    where: str = "",
) -> Any:
    """Show a panel of widgets over the runs of one experiment, or of several side by side.

    Parameters
    ----------
    experiment : DataFrame or path or sequence of paths
        The table of runs, or the folders of one or several experiments.
    metric : str, optional
        Metric to begin with; default: the first that has values.
    factor : str
        Factor to begin with.
    where : str
        Filter to begin with: a condition on the columns, such as ``round > 3``.

    Returns
    -------
    ipywidgets.VBox
        Its children are the controls, the picture, and the parts below it.

    Raises
    ------
    UsageError
        There is no such metric with values, or nothing varies.
    """
    import anywidget
    import ipywidgets
    import traitlets
    from IPython.utils.capture import capture_output

    runs: Any = experiment if hasattr(experiment, "columns") else load(experiment)
    widgets: Any = ipywidgets
    complete = ok_runs(runs)
    metrics = [m for m in METRICS if m in complete and complete[m].notna().any()]
    factors = [f for f in ("experiment", *dimensions(complete.columns)) if len(complete[f].astype(object).unique()) > 1]
    if metric is not None and metric not in metrics:
        raise UsageError(f"no run has a value of {metric!r} (metrics with values: {', '.join(metrics)})")
    if not factors:
        raise UsageError("nothing varies in these runs: there is no factor to look at")

    def menu(words: str, options: Sequence[Any], value: Any) -> Any:
        style, layout = {"description_width": "7em"}, widgets.Layout(width="34em")
        return widgets.Dropdown(options=options, value=value, description=words, style=style, layout=layout)

    named = [(f.replace("_", " "), f) for f in factors]
    tools = sorted(complete["tool"].dropna().unique())
    controls = {
        "metric": menu("Metric", [(metric_of(m).label, m) for m in metrics], metric or metrics[0]),
        "factor": menu("Factor", named, factor if factor in factors else factors[0]),
        "second": menu("Second factor", [NONE, *named], "experiment" if "experiment" in factors else NONE),
        "tool": menu("Tool", [MOST_USED, *tools], MOST_USED),
        "where": widgets.Text(
            value=where, description="Filter", placeholder="round > 3", continuous_update=False,
            style={"description_width": "7em"}, layout=widgets.Layout(width="34em"),
        ),
    }  # fmt: skip

    class Picture(anywidget.AnyWidget):
        _esm, _css = SCRIPT, STYLE
        svg = traitlets.Unicode("").tag(sync=True)
        run = traitlets.Unicode("").tag(sync=True)
        choice = traitlets.Unicode("").tag(sync=True)

    kept = dict(parse_qsl(os.environ.get("QUERY_STRING", ""))) if _is_page() else {}
    for name, control in controls.items():
        options = [o[-1] if isinstance(o, tuple) else o for o in getattr(control, "options", [kept.get(name)])]
        if name in kept and kept[name] in options and (name != "where" or _harmless(kept[name])):
            control.value = kept[name]
    picture, shown, one, links = Picture(), widgets.Output(), widgets.Output(), widgets.HTML()

    def into(output: Any, show: Callable[[], None]) -> None:
        # Not `with output:`, for which nbclient (that is, Voilà and reports) sends messages to the kernel while it
        # waits for its answer, and then may never see that (jupyter/nbclient#312).
        with capture_output() as captured:
            show()
        rich = [{"output_type": "display_data", "data": o.data, "metadata": o.metadata} for o in captured.outputs]
        plain = [{"output_type": "stream", "name": "stdout", "text": captured.stdout}] if captured.stdout else []
        output.outputs = (*rich, *plain)

    def draw(_: Any = None) -> None:
        choice = {name: control.value for name, control in controls.items()}
        view = View(runs, **choice)
        if _is_page():
            picture.choice = urlencode(choice)
        try:
            chosen = view.chosen()
            figure = view.figure(chosen)
            picture.svg, links.value = figure.svg(), _links(figure, chosen)
            into(shown, lambda: view.show(chosen))
        except NetperfError as error:
            words = str(error)
            picture.svg = links.value = ""
            into(shown, lambda: print(words))

    for control in controls.values():
        control.observe(draw, names="value")
    picture.observe(lambda change: into(one, lambda: _show_run(runs, change["new"])), names="run")
    draw()
    return widgets.VBox([*controls.values(), picture, links, one, shown])


def _is_page() -> bool:
    """Whether this is the kernel of a page that Voilà serves."""
    return os.environ.get("SERVER_SOFTWARE", "").startswith("voila")


class View:
    """The current view: a choice of runs by metric, factors, tool and filter."""

    def __init__(self, runs: Any, *, metric: str, factor: str, second: str, tool: str, where: str) -> None:
        self.runs, self.metric, self.where = runs, metric, where.strip()
        self.factors = list(dict.fromkeys(f for f in (factor, second) if f != NONE))
        self.tool = None if tool == MOST_USED else tool

    def chosen(self) -> pd.DataFrame:
        """The runs; raises UsageError if the filter is not a condition on the columns."""
        runs = self.runs
        if self.where:
            runs = runs[_mask(runs, self.where)]
            # nothing was declared about the rounds that a filter keeps, and those that it leaves out did not fail
            experiment = self.runs.attrs.get("experiment") or {}
            plain = {k: v for k, v in experiment.items() if k not in ("rounds", "contrasts")}
            runs.attrs = {**self.runs.attrs, "experiment": plain}
            if not ok_runs(runs)[self.metric].notna().any():
                raise UsageError(
                    f"no run that the filter {self.where!r} keeps has a value of {metric_of(self.metric).label}"
                )
        if len(self.factors) == 1 and self.factors != ["experiment"]:
            return select(runs, self.metric, about=self.factors[0], tool=self.tool)
        return select(runs, self.metric, factors=self.factors, tool=self.tool)

    def figure(self, chosen: pd.DataFrame) -> Any:
        """The picture: every run in time order."""
        from .. import plots

        return plots.rounds(chosen, self.metric)

    def code(self) -> str:
        """The current view as Python code to paste."""
        path = self.runs.attrs.get("path", "…")
        where = f".loc[lambda runs: runs.eval({self.where!r})]" if self.where else ""
        one = len(self.factors) == 1 and self.factors != ["experiment"]
        by = f"about={self.factors[0]!r}" if one else f"factors={self.factors!r}"
        tool = f", tool={self.tool!r}" if self.tool else ""
        return (
            f"import netperf_lib as npl\n"
            f"chosen = npl.questions.select(npl.load({path!r}){where}, {self.metric!r}, {by}{tool})\n"
            f"npl.plots.rounds(chosen, {self.metric!r})"
        )

    def show(self, chosen: pd.DataFrame) -> None:
        """Show table, words and code below the picture."""
        from IPython import display as ipython

        from ..stats.verdict import compare

        display: Any = ipython.display
        if notice := self.runs.attrs.get("notice"):
            display(callout(notice, level="warning"))
        display(table(levels(chosen, self.metric), metric=self.metric))
        if mixed := [f for f in residue(chosen, ["condition"]) if f not in self.factors]:
            display(say(f"Each condition mixes levels of: {', '.join(mixed)}."))
        if len(chosen["condition"].cat.categories) > 1:
            try:
                display(findings(compare(chosen, self.metric, by="condition")))
            except NetperfError as error:
                display(say(str(error)))
        display(say(f"```python\n{self.code()}\n```"))


_CONDITION = (
    *(ast.Expression, ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.Compare, ast.Name, ast.Constant, ast.List, ast.Tuple),
    *(ast.boolop, ast.unaryop, ast.cmpop, ast.expr_context),
    *(ast.BitAnd, ast.BitOr, ast.Add, ast.Sub, ast.Mult, ast.Div),
)
"""What a filter from an address may consist of: columns compared with values, without any calls."""


def _harmless(where: str) -> bool:
    """Whether a filter only compares: pandas would run more than that, and anyone can write an address."""
    try:
        return all(isinstance(node, _CONDITION) for node in ast.walk(ast.parse(where.strip() or "True", mode="eval")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _mask(runs: pd.DataFrame, where: str) -> Any:
    """Which runs a filter keeps."""
    try:
        mask: Any = runs.eval(where)
    except Exception as error:  # noqa: BLE001  # pandas raises anything for a text that is not a condition
        known = ", ".join(str(c) for c in runs.columns if runs[c].notna().any())
        raise UsageError(f"the filter {where!r} is not understood: {error} (columns: {known})") from None
    if getattr(mask, "dtype", None) not in ("bool", "boolean") or len(mask) != len(runs):
        raise UsageError(f"the filter {where!r} is not a condition: compare a column with a value, such as round > 3")
    return mask.fillna(False).astype(bool)


def _links(figure: Any, chosen: pd.DataFrame) -> str:
    """Links that save the current view; they work in a browser without a server."""
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=160)
    kept = chosen.dropna(axis=1, how="all").to_csv(index=False)
    files = {"png": png.getvalue(), "svg": figure.svg().encode(), "csv": kept.encode()}
    mimes = {"png": "image/png", "svg": "image/svg+xml", "csv": "text/csv"}
    return "Save as " + ", ".join(
        f'<a download="explore.{kind}" href="data:{mimes[kind]};base64,{base64.b64encode(data).decode()}">'
        f"{kind.upper()}</a>"
        for kind, data in files.items()
    )


def _show_run(runs: pd.DataFrame, run_id: str) -> None:
    """Show the log of a run that was clicked, and its intervals."""
    from IPython import display as ipython

    from .. import plots

    display: Any = ipython.display
    row = runs[runs["run_id"] == run_id].iloc[0]
    paths = runs.attrs.get("path")
    try:
        places = [paths] if isinstance(paths, str) else [p for p in paths or () if Path(p).name == row["experiment"]]
        store = Store.at(places[0])
        seconds = load(store.location, "intervals")
        seconds = seconds[seconds["run_id"] == run_id]
        if len(seconds) and seconds["throughput_bps"].notna().any():
            display(plots.intervals(label(seconds, runs[runs["run_id"] == run_id].assign(condition=run_id))))
        with store.raw(run_id) as folder:
            print(run_id)
            logs = (p for p in folder.rglob("*") if p.is_file() and p.name != "run.json" and p.stat().st_size)
            for log in sorted(logs):
                print(f"── {log.relative_to(folder)}\n{log.read_text('utf-8', 'replace')[:8000]}")
    except (IndexError, NetperfError, OSError) as error:
        print(f"{run_id}: its log is not available ({error})")


def serve(places: Sequence[str | os.PathLike[str]], *, browser: bool = True, port: int = 0) -> int:
    """Serve the panel as a page without code, until it is interrupted; returns Voilà's exit code.

    Without `places`, the panel is that of the lab's experiment, or of the recorded one; port 0 means a free port.
    """
    import importlib.util
    import socket

    if importlib.util.find_spec("voila") is None:
        raise UsageError(f"the page needs Voilà: {pip_install('voila')}")
    found = [str(usual_experiment(p)) for p in places] or [str(usual_experiment(None))]
    code = f"import netperf_lib as npl\nnpl.explore({(found[0] if len(found) == 1 else found)!r})"
    cells: list[Any] = [{"cell_type": "code", "metadata": {}, "source": code, "outputs": [], "execution_count": None}]
    spec = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    with tempfile.TemporaryDirectory(prefix="netperf-explore-") as folder:
        page = Path(folder, "explore.ipynb")
        page.write_text(json.dumps({"cells": cells, "metadata": spec, "nbformat": 4, "nbformat_minor": 4}), "utf-8")
        if not port:  # Voilà picks a free one itself, and then prints an address with port 0
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
        options = ["--strip_sources=True", f"--port={port}", "--show_tracebacks=True"]
        command = [sys.executable, "-P", "-m", "voila", str(page), *options, *([] if browser else ["--no-browser"])]
        try:
            return subprocess.run(command, check=False).returncode
        except KeyboardInterrupt:
            return 0
