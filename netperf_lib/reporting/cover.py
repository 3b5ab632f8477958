"""Where the data come from: the facts on the first page and the provenance on the last."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import platform
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..analysis.contents import HOLDS, folder_of, stored
from ..analysis.runs import measurement, status_counts
from ..analysis.words import shortened
from ..data.declaration import read_plan
from ..data.raw import digest_of
from ..metrics import plural
from .blocks import markdown_table

if TYPE_CHECKING:
    import pandas as pd

    from ..data.load import Results

MAX_VALUES = 8
"""Values of a column that are named."""
SOFTWARE = ("netperf_lib", "numpy", "pandas", "scipy", "matplotlib", "seaborn", "typst")


@dataclass(frozen=True)
class Cover:
    """What a report is based on; without arguments that of what rests on no experiment.

    Attributes
    ----------
    subtitle : str
        Title of the experiment.
    facts : dict
        What was measured where, when and how, in a few words each.
    notice : str
        What must be known first.
    short : str
        The same in a footer.
    date : datetime
        Start of the last run.
    provenance : str
        How the report was made, in markdown.
    """

    subtitle: str = ""
    facts: dict[str, str] = field(default_factory=dict)
    notice: str = ""
    short: str = ""
    date: dt.datetime = dt.datetime(1980, 1, 1, tzinfo=dt.UTC)
    provenance: str = ""


def cover(data: Results) -> Cover:
    """Return what a report is based on."""
    known, date = data.origin, Cover.date
    started = measurement(data).runs["started_utc"].dropna()
    if len(started):
        date = started.max().floor("s").to_pydatetime()
    return Cover(
        subtitle=str(known.declared.get("title") or ""),
        facts={name: value for name, value in _facts(data).items() if value},
        notice=known.notice or "",
        short=shortened(known.notice or ""),
        date=date,
        provenance=_provenance(data),
    )


def root_of(data: Results) -> str:
    """Return the digest that ties this page to a folder; empty for a table made by hand."""
    folder = folder_of(data)
    return digest_of(folder) if folder else ""


def _some(runs: pd.DataFrame, *columns: str) -> str:
    """The first distinct values of some columns."""
    cells = runs.reindex(columns=columns).melt()["value"].dropna()
    values = sorted(set(cells.astype(str)))
    words = ", ".join(values[:MAX_VALUES])
    more = len(values) - MAX_VALUES
    return f"{words} and {more} more" if more > 0 else words


def _facts(data: Results) -> dict[str, str]:
    """What the band on top says, in its order."""
    runs, experiment = measurement(data).runs, data.origin.declared
    facts = {"Experiment": experiment.get("name") or _some(runs, "experiment")}
    hosts = {*runs["client"].dropna(), *runs["server"].dropna()}
    source = (experiment.get("hosts") or {}).get("source")
    if hosts:
        facts["Hosts"] = f"{len(hosts)} ({source})" if source else str(len(hosts))
    facts["Machine size"] = _some(runs, "client_vm_size", "server_vm_size")
    facts["Regions"] = _some(runs, "client_region", "server_region")
    rounds = runs["round"].nunique()
    if rounds and len(set(runs["experiment"])) == 1:
        deployments = plural(runs["deployment"].nunique(), "deployment")
        facts["Rounds"] = f"{rounds} in {deployments}"
    ok, failed, excluded = status_counts(runs)
    facts["Runs"] = f"{ok} ok, {failed} failed"
    if excluded:
        facts["Runs"] += f", {excluded} excluded"
    facts["Tools"] = _some(runs, "tool")
    started = runs["started_utc"].dropna()
    if len(started):
        days = started.agg(["min", "max"]).dt.strftime("%d %b %Y")
        facts["Measured"] = " – ".join(days.unique())
    claims = Counter(HOLDS[claim["holds"]] for claim in stored(data))
    if claims:
        held = claims.pop(HOLDS[True], 0)
        checked = f"{held} of {held + claims.total()} claims checked"
        others = [f"{words}: {n}" for words, n in claims.items()]
        facts["Placement"] = "; ".join([checked, *others])
    facts["Digest"] = root_of(data)[:16]
    return facts


def _provenance(data: Results) -> str:
    """How the report was made: data, hosts, tools, seed, versions, digest."""
    runs, folder = measurement(data).runs, folder_of(data)
    plan = None
    if folder and data.origin.source != "imported":
        plan = read_plan(folder)
    seed = (plan or {}).get("seed")
    versions = runs["tool_version"].astype(object).fillna("")
    versions = runs["tool"].str.cat(versions, " ").str.strip()
    software = [f"{name} {importlib.metadata.version(name)}" for name in SOFTWARE]
    facts = {
        "digest": root_of(data),
        "seed of the order": "" if seed is None else str(seed),
        "kernels": _some(runs, "kernel"),
        "congestion control": _some(runs, "congestion_control"),
        "network drivers": _some(runs, "nic_driver"),
        "tools": _some(versions.to_frame("tool"), "tool"),
        "software": ", ".join([f"Python {platform.python_version()}", *software]),
    }
    text = (
        "The run is the unit of every statistic. Raw logs are kept unchanged; the notebooks make "
        "tables, figures and words from them, and anyone can execute them again."
    )
    if seed is not None:
        text = f"Measured in rounds, in an order drawn at random within each. {text}"
    rows = [(name, value) for name, value in facts.items() if value]
    return f"# How this report was made\n\n{text}\n\n{markdown_table(('What', 'Value'), rows)}"
