"""Where the data come from: the facts on the first page and the provenance on the last."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import platform
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..analysis.claims import HOLDS, folder_of, stored
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
    """What a report is based on.

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

    subtitle: str
    facts: dict[str, str]
    notice: str
    short: str
    date: dt.datetime
    provenance: str


NONE = Cover("", {}, "", "", dt.datetime(1980, 1, 1, tzinfo=dt.UTC), "")
"""That of what rests on no experiment."""


def cover(data: Results) -> Cover:
    """Return what a report is based on."""
    known, started = data.origin, measurement(data).runs["started_utc"].dropna()
    return Cover(
        subtitle=str(known.declared.get("title") or ""),
        facts={name: value for name, value in _facts(data).items() if value},
        notice=known.notice or "",
        short=shortened(known.notice or ""),
        date=started.max().floor("s").to_pydatetime() if len(started) else NONE.date,
        provenance=_provenance(data),
    )


def root_of(data: Results) -> str:
    """Return the digest that ties this page to a folder; empty for a table made by hand."""
    folder = folder_of(data)
    return digest_of(folder) if folder else ""


def _some(runs: pd.DataFrame, *columns: str) -> str:
    """The first distinct values of some columns."""
    known = [runs[column].dropna() for column in columns if column in runs]
    values = sorted({str(v) for column in known for v in column})
    more = f" and {len(values) - MAX_VALUES} more" if len(values) > MAX_VALUES else ""
    return ", ".join(values[:MAX_VALUES]) + more


def _facts(data: Results) -> dict[str, str]:
    runs, experiment = measurement(data).runs, data.origin.declared
    ok, failed, excluded = status_counts(runs)
    several = len(set(runs["experiment"])) > 1
    kind = (experiment.get("hosts") or {}).get("source")
    hosts = len({*runs["client"].dropna(), *runs["server"].dropna()})
    source = f" ({kind})" if kind else ""
    claimed = Counter(HOLDS[claim["holds"]] for claim in stored(data))
    placement = [f"{claimed[HOLDS[True]]} of {claimed.total()} claims checked"]
    placement += [f"{words}: {n}" for words, n in claimed.items() if words != HOLDS[True]]
    rounds, deployments = runs["round"].nunique(), runs["deployment"].nunique()
    return {
        "Experiment": experiment.get("name") or _some(runs, "experiment"),
        "Hosts": f"{hosts}{source}" if hosts else "",
        "Machine size": _some(runs, "client_vm_size", "server_vm_size"),
        "Regions": _some(runs, "client_region", "server_region"),
        "Rounds": f"{rounds} in {plural(deployments, 'deployment')}"
        if rounds and not several
        else "",
        "Runs": f"{ok} ok, {failed} failed{f', {excluded} excluded' if excluded else ''}",
        "Tools": _some(runs, "tool"),
        "Measured": _period(runs["started_utc"].dropna()),
        "Placement": "; ".join(placement) if claimed else "",
        "Digest": root_of(data)[:16],
    }


def _period(started: pd.Series[Any]) -> str:
    days = [f"{day:%d %b %Y}" for day in (started.min(), started.max()) if started.size]
    return " – ".join(dict.fromkeys(days))


def _provenance(data: Results) -> str:
    """How the report was made: data, hosts, tools, seed, versions, digest."""
    runs, folder = measurement(data).runs, folder_of(data)
    plan = (read_plan(folder) if folder else None) or {}
    tools = runs.assign(
        tool=runs["tool"].str.cat(runs["tool_version"].fillna(""), " ").str.strip()
    )
    software = (f"{name} {importlib.metadata.version(name)}" for name in SOFTWARE)
    facts = {
        "digest": root_of(data),
        "seed of the order": str(plan.get("seed", "")),
        "kernels": _some(runs, "kernel"),
        "congestion control": _some(runs, "congestion_control"),
        "network drivers": _some(runs, "nic_driver"),
        "tools": _some(tools, "tool"),
        "software": ", ".join([f"Python {platform.python_version()}", *software]),
    }
    text = (
        "The run is the unit of every statistic. Raw logs are kept unchanged; the notebooks make "
        "tables, figures and words from them, and anyone can execute them again."
    )
    imported = (data.origin.declared.get("hosts") or {}).get("source") == "imported"
    if plan.get("seed") is not None and not imported:
        text = f"Measured in rounds, in an order drawn at random within each. {text}"
    rows = [(name, value) for name, value in facts.items() if value]
    return f"# How this report was made\n\n{text}\n\n{markdown_table(('What', 'Value'), rows)}"
