"""Where the data come from: the facts on the first page and the provenance on the last, read from the runs."""

from __future__ import annotations

import datetime as dt
import hashlib
import importlib.metadata
import platform
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..analysis.claims import HOLDS, claims, store_of
from ..analysis.lead import conclude
from ..analysis.runs import present, status_counts
from ..analysis.tables import markdown_table
from ..analysis.words import shortened
from ..errors import UsageError
from ..experiment.attached import attached
from ..hosts import SOURCES, source
from ..metrics import plural

if TYPE_CHECKING:
    import pandas as pd

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
    if not values:
        return "–"
    return ", ".join(values[:most]) + (
        f" and {len(values) - most} more" if len(values) > most else ""
    )


@dataclass(frozen=True)
class Cover:
    """What a report is based on.

    Attributes
    ----------
    subtitle : str
        Title of the experiment.
    facts : list
        Names and values.
    notice, notice_short : str, optional
        What must be known first, and its first words for the foot of a page.
    running : str
        Experiment and date, for the head of a page.
    date : datetime, optional
        Start of the last run.
    """

    subtitle: str
    facts: list[list[str]]
    notice: str | None
    notice_short: str | None
    running: str
    date: dt.datetime | None


def cover(runs: pd.DataFrame) -> Cover:
    """Return what a report is based on."""
    experiment, notice = attached(runs).declared, attached(runs).notice
    facts = _facts(runs, experiment)
    started = runs["started_utc"].dropna()
    named = [value for name, value in facts if name in ("Experiment", "Measured")]
    return Cover(
        subtitle=str(experiment.get("title") or ""),
        facts=facts,
        notice=notice,
        notice_short=shortened(notice) if notice else None,
        running=" · ".join(named),
        date=started.max().to_pydatetime() if len(started) else None,
    )


def _facts(runs: pd.DataFrame, experiment: Mapping[str, Any]) -> list[list[str]]:
    """What was measured where, when and how, in a few words each."""
    ok, failed, excluded = status_counts(runs)
    started = runs["started_utc"].dropna()
    first, last = started.min(), started.max()
    one_day = len(started) and first.date() == last.date()
    measured = (
        f"{first:%d %B %Y}"
        if one_day
        else f"{first:%d %b} – {last:%d %b %Y}"
        if len(started)
        else "–"
    )
    added = attached(runs).added
    names = _levels(runs, "experiment")
    name = (
        f"{len(names)} experiments"
        if len(names) > 1
        else str(experiment.get("name") or _some(names))
    )
    sizes = _levels(runs, "client_vm_size", "server_vm_size")
    source = (experiment.get("hosts") or {}).get("source")
    hosts, rounds = len(_levels(runs, "client", "server")), runs["round"].nunique()
    facts = [
        ["Experiment", name],
        ["Hosts", f"{hosts}{f' ({source})' if source else ''}" if hosts else "–"],
        ["VM size", _some(sizes, 2)],
        [
            "Comparisons",
            f"{len(experiment.get('contrasts') or ())} declared{f', {added} added later' if added else ''}",
        ],
        ["Regions", _some(_levels(runs, "client_region", "server_region"), 2)],
        [
            "Rounds",
            f"{rounds} in {plural(runs['deployment'].nunique(), 'deployment')}" if rounds else "–",
        ],
        ["Runs", f"{ok} ok, {failed} failed" + (f", {excluded} excluded" if excluded else "")],
        ["Tools", _some(_levels(runs, "tool"), 4)],
        ["Measured", measured],
    ]
    if claimed := claims(runs):
        facts.append(["Placement", _proven(claimed)])
    if root := root_of(runs):
        facts.append(["Digest", root[:16]])
    without = (
        {"Comparisons", "Rounds"} if len(names) > 1 else set()
    )  # of these the experiments have different ones
    if source == "imported" and not experiment.get("contrasts"):  # they are compared by rule
        without.add("Comparisons")
    return [row for row in facts if row[0] not in without and row[1] != "–"]


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "–"


PROOFS = "proofs of placement"
"""Title of a group of rows that a report with a page on quality does not repeat."""


def root_of(runs: pd.DataFrame) -> str | None:
    """The digest that ties this page to a folder, for `npl verify --root`; a table made by hand has none."""
    store = store_of(runs)
    return store.root_digest() if store else None


def _proven(claimed: list[tuple[str, str, str, str]]) -> str:
    """How many claims about the hosts are proven, and how many are not."""
    count = Counter(holds for _, _, holds, _ in claimed)
    flagged = [
        f"{n} {words if n == 1 else words.replace('does', 'do')}"
        for words, n in count.items()
        if words != HOLDS[True]
    ]
    return f"{count[HOLDS[True]]} of {len(claimed)} claims checked" + (
        f"; {', '.join(flagged)}" if flagged else ""
    )


def _spent(
    runs: pd.DataFrame, experiment: Mapping[str, Any], plan: dict[str, Any]
) -> list[list[str]]:
    """What the hosts did cost, by the prices that were planned with, and per answered question."""
    declared = experiment.get("hosts") or {}
    if declared.get("source") not in SOURCES or not plan.get("trials"):
        return []
    planned = sum(not row.get("leading") for row in plan["trials"])
    done = min(1.0, len(runs) / planned)
    store = store_of(runs)
    amount = (
        source(declared["source"]).spent(state=store.path / "hosts", done=done) if store else None
    )
    if amount is None:
        return []
    currency = (declared.get("options") or {}).get("currency", "USD")
    each = ""
    with suppress(UsageError):
        if answered := sum(c.settled for c in conclude(runs)[0]):
            each = f"; {amount / answered:.2f} for each of {plural(answered, 'answered question')}"
    return [["cost of the hosts", f"about {amount:.2f} {currency}, by the price list{each}"]]


def _machines(runs: pd.DataFrame) -> list[list[str]]:
    """Tools, kernels, drivers and hosts of the runs, and the software that made the report."""
    tools = sorted(
        {
            f"{t} {v}" if present(v) else str(t)
            for t, v in zip(runs["tool"], runs["tool_version"], strict=True)
        }
    )
    software = ", ".join(f"{p} {_version(p)}" for p in SOFTWARE)
    rows = [
        ["tools", _some(tools, 8)],
        ["kernels", _some(_levels(runs, "kernel"))],
        ["congestion control", _some(_levels(runs, "congestion_control"))],
        ["network drivers", _some(_levels(runs, "nic_driver"))],
        ["hosts", _some(_levels(runs, "client", "server"), 16)],
        ["software", f"Python {platform.python_version()}, {software}"],
    ]
    return [row for row in rows if row[1] != "–"]


def provenance(runs: pd.DataFrame) -> str:
    """Return, in markdown, how the report was made: data, hosts and the proof of their placement, tools, seed, versions, hashes."""
    experiment = attached(runs).declared
    ok, failed, excluded = status_counts(runs)
    store = store_of(runs)
    plan: dict[str, Any] = (store.read_plan() if store else None) or {}
    hashes = "\n".join(
        sorted(f"{i} {h}" for i, h in zip(runs["run_id"], runs["raw_sha256"], strict=True))
    )
    started = runs["started_utc"].dropna()
    data = [
        ["experiment", str(experiment.get("name") or _some(_levels(runs, "experiment")))],
        ["runs", f"{ok} ok, {failed} failed or cut short, {excluded} excluded"],
        ["rounds", f"{runs['round'].nunique()}"],
        ["seed of the order", str(plan.get("seed", experiment.get("seed") or "not recorded"))],
        [
            "measured",
            f"{started.min():%Y-%m-%d %H:%M} to {started.max():%Y-%m-%d %H:%M} UTC"
            if len(started)
            else "–",
        ],
        ["SHA-256 of all raw logs", hashlib.sha256(hashes.encode()).hexdigest()],
        ["digest", root_of(runs) or "–"],
        ["version of the readers", _some(_levels(runs, "reader_version"))],
    ]
    data += _spent(runs, experiment, plan)
    failures = [
        [str(r.run_id), str(r.excluded if present(r.excluded) else r.error or r.status)]
        for r in runs.filter(["run_id", "status", "error", "excluded"]).itertuples()
        if r.status != "ok" or present(getattr(r, "excluded", None))
    ]
    proofs = [
        [f"{where}: {what}", holds + (f" ({shows})" if shows else "")]
        for where, what, holds, shows in claims(runs)
    ]
    groups: list[dict[str, Any]] = [
        {"title": "data", "rows": data},
        {"title": "machines and tools", "rows": _machines(runs)},
        {
            "title": PROOFS,
            "rows": proofs or [["none", "the source of the hosts recorded no proof"]],
        },
        *([{"title": "runs that do not count", "rows": failures}] if failures else []),
    ]
    planned = (experiment.get("hosts") or {}).get("source") != "imported"
    text = (
        (
            "Measured in rounds, in an order drawn at random within each round; the"
            if planned
            else "The"
        )
        + " run is the unit of every statistic. "
        "Raw logs are kept unchanged; the notebooks make tables, figures and words from them, and anyone can execute "
        "them again."
    )
    parts = ["# How this report was made", text]
    for group in groups:
        title = group["title"]
        parts.append(f"## {title[:1].upper()}{title[1:]}")
        parts.append(markdown_table(("What", "Value"), group["rows"]))
    return "\n\n".join(parts)
