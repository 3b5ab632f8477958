"""Where the data come from: the facts on the first page and the provenance on the last, read from the runs."""

from __future__ import annotations

import datetime as dt
import hashlib
import importlib.metadata
import platform
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..analysis.claims import HOLDS, store_of, stored
from ..analysis.runs import present, status_counts, table_of
from ..analysis.tables import markdown_table
from ..hosts import SOURCES, source
from ..metrics import plural

if TYPE_CHECKING:
    import pandas as pd

    from ..data.load import Fleet, Results

SOFTWARE = (
    "netperf_lib",
    "papermill",
    "typst",
    "numpy",
    "pandas",
    "scipy",
    "matplotlib",
    "seaborn",
    "pyarrow",
)


def _levels(runs: pd.DataFrame, *columns: str) -> list[str]:
    return sorted({str(v) for c in columns if c in runs for v in runs[c].dropna().unique()})


def _some(values: list[str], most: int = 3) -> str:
    more = f" and {len(values) - most} more" if len(values) > most else ""
    return ", ".join(values[:most]) + more


@dataclass(frozen=True)
class Cover:
    """What a report is based on.

    Attributes
    ----------
    subtitle : str
        Title of the experiment.
    facts : dict
        What was measured where, when and how, in a few words each.
    notice : str, optional
        What must be known first.
    date : datetime, optional
        Start of the last run.
    provenance : str
        How the report was made, in markdown.
    """

    subtitle: str
    facts: dict[str, str]
    notice: str | None
    date: dt.datetime | None
    provenance: str


def cover(data: Results | Fleet) -> Cover:
    """Return what a report is based on."""
    runs, known = table_of(data), data.origin
    started = runs["started_utc"].dropna()
    return Cover(
        subtitle=str(known.declared.get("title") or ""),
        facts=_facts(data),
        notice=known.notice,
        date=started.max().to_pydatetime() if len(started) else None,
        provenance=_provenance(data),
    )


def _facts(data: Results | Fleet) -> dict[str, str]:
    runs, experiment, added = table_of(data), data.origin.declared, data.origin.added
    ok, failed, excluded = status_counts(runs)
    names = _levels(runs, "experiment")
    several = len(names) > 1
    declared = len(experiment.get("contrasts") or ())
    source = (experiment.get("hosts") or {}).get("source")
    hosts, rounds = len(_levels(runs, "client", "server")), runs["round"].nunique()
    deployments = plural(runs["deployment"].nunique(), "deployment")
    claimed = Counter(HOLDS[c["holds"]] for c in stored(data))
    facts = {
        "Experiment": f"{len(names)} experiments" if several else _name(data),
        "Hosts": f"{hosts}{f' ({source})' if source else ''}" if hosts else "",
        "Machine size": _some(_levels(runs, "client_vm_size", "server_vm_size"), 2),
        "Comparisons": f"{declared} declared{f', {added} added later' if added else ''}",
        "Regions": _some(_levels(runs, "client_region", "server_region"), 2),
        "Rounds": f"{rounds} in {deployments}" if rounds else "",
        "Runs": f"{ok} ok, {failed} failed{f', {excluded} excluded' if excluded else ''}",
        "Tools": _some(_levels(runs, "tool"), 4),
        "Measured": _period(runs),
        "Placement": _checked(claimed) if claimed else "",
        "Digest": (root_of(data) or "")[:16],
    }
    without = {"Comparisons", "Rounds"} if several else set() if declared else {"Comparisons"}
    return {name: value for name, value in facts.items() if value and name not in without}


def _name(data: Results | Fleet) -> str:
    return str(data.origin.declared.get("name") or _some(_levels(table_of(data), "experiment")))


def _period(runs: pd.DataFrame) -> str:
    started = runs["started_utc"].dropna()
    if not len(started):
        return ""
    first, last = started.min(), started.max()
    one_day = first.date() == last.date()
    return f"{first:%d %B %Y}" if one_day else f"{first:%d %b} – {last:%d %b %Y}"


def _checked(claimed: Mapping[str, int]) -> str:
    """How many claims about the hosts are proven, and how many are not."""
    others = [f"{words}: {n}" for words, n in claimed.items() if words != HOLDS[True]]
    total = f"{claimed[HOLDS[True]]} of {sum(claimed.values())} claims checked"
    return "; ".join([total, *others])


def root_of(data: Results | Fleet) -> str | None:
    """The digest that ties this page to a folder; a table made by hand has none."""
    store = store_of(data)
    return store.root_digest() if store else None


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _spent(data: Results | Fleet, plan: Mapping[str, Any]) -> str:
    """What the hosts did cost, by the prices that were planned with."""
    declared, store = data.origin.declared.get("hosts") or {}, store_of(data)
    if declared.get("source") not in SOURCES or not plan.get("trials") or store is None:
        return ""
    planned = sum(not row.get("leading") for row in plan["trials"])
    done = min(1.0, len(data.runs) / planned)
    amount = source(declared["source"]).spent(state=store.path / "hosts", done=done)
    currency = (declared.get("options") or {}).get("currency", "USD")
    return "" if amount is None else f"about {amount:.2f} {currency}, by the price list"


def _provenance(data: Results | Fleet) -> str:
    """How the report was made: data, hosts, tools, seed, versions, digests."""
    runs, experiment = table_of(data), data.origin.declared
    store = store_of(data)
    plan: dict[str, Any] = (store.read_plan() if store else None) or {}
    pairs = zip(runs["run_id"], runs["raw_sha256"], strict=True)
    hashes = "\n".join(sorted(f"{run} {digest}" for run, digest in pairs))
    started = runs["started_utc"].dropna()
    versions = zip(runs["tool"], runs["tool_version"], strict=True)
    tools = {f"{tool} {version}" if present(version) else str(tool) for tool, version in versions}
    software = ", ".join(f"{name} {_version(name)}" for name in SOFTWARE)
    facts = {
        "seed of the order": str(plan.get("seed", experiment.get("seed") or "not recorded")),
        "measured": f"{started.min():%Y-%m-%d %H:%M} to {started.max():%Y-%m-%d %H:%M} UTC"
        if len(started)
        else "",
        "SHA-256 of all raw logs": hashlib.sha256(hashes.encode()).hexdigest(),
        "digest": root_of(data) or "",
        "version of the readers": _some(_levels(runs, "reader_version")),
        "cost of the hosts": _spent(data, plan),
        "tools": _some(sorted(tools), 8),
        "kernels": _some(_levels(runs, "kernel")),
        "congestion control": _some(_levels(runs, "congestion_control")),
        "network drivers": _some(_levels(runs, "nic_driver")),
        "hosts": _some(_levels(runs, "client", "server"), 16),
        "software": f"Python {platform.python_version()}, {software}",
    }
    order = "Measured in rounds, in an order drawn at random within each round; the"
    planned = (experiment.get("hosts") or {}).get("source") != "imported"
    text = (
        f"{order if planned else 'The'} run is the unit of every statistic. Raw logs are kept "
        "unchanged; the notebooks make tables, figures and words from them, and anyone can "
        "execute them again."
    )
    rows = [(name, value) for name, value in facts.items() if value]
    parts = ["# How this report was made", text, markdown_table(("What", "Value"), rows)]
    uncounted = [
        (str(r.run_id), str(r.excluded if present(r.excluded) else r.error or r.status))
        for r in runs.reindex(columns=["run_id", "status", "error", "excluded"]).itertuples()
        if r.status != "ok" or present(r.excluded)
    ]
    if uncounted:
        parts += ["## Runs that do not count", markdown_table(("Run", "Why"), uncounted)]
    return "\n\n".join(parts)
