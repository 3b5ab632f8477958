"""What a report shows: a page for each question that the data can answer, and the proofs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from ..data.declaration import claims, declaration, read_plan
from ..data.door import Readable, read
from ..data.layout import experiment_folder, trial_of
from ..data.load import Results
from ..errors import NothingToReport, NotMeasured, StoreError
from ..experiment.factors import dimensions, factor, sort_levels
from ..experiment.model import Contrast
from ..experiment.placements import PLACEMENTS, PLACES, is_place
from ..metrics import METRICS, plural
from .history import measurements, name_of
from .observe import observe
from .runs import (
    HOSTS,
    LENGTHS,
    Data,
    headline_metrics,
    measurement,
    numbered,
    without_sent,
)
from .verdicts import factor_of
from .words import Words, capital, heading

LONG_H, OVER_TIME_H = 10.0, 6.0
"""Hours from which on one measurement is shown over time: of a data root, and in its own report."""
OWN = {
    "placement": "01-placement",
    "accelerated": "02-accelerated",
    "streams": "03-streams",
    "tcp_buffer_bytes": "04-tcp-buffers",
}
"""Notebooks of factors; any other factor has the notebook ``factor``."""
MEASURED = {
    "08-limits": ("limit_bps",),
    "06-tails": ("latency_oneway_p99_us", "rtt_p99_us"),
}
"""Notebooks that a report has where one of these columns has a value."""
OF_THROUGHPUT = ("streams", "tcp_buffer_bytes")
"""Factors whose pages are about throughput alone."""
UNASKED = (
    *LENGTHS,
    "client",
    "server",
    "tool",
    "test",
    "protocol",
    "direction",
    "during",
    "interval_s",
    "full_rtt",
)
"""Columns that differ between tests by nature, and are not questions."""
SHORT = {
    "latency_oneway_us": "latency",
    "rtt_us": "rtt",
    "throughput_bps": "throughput",
    "throughput_sent_bps": "throughput-sent",
    "transaction_rate_per_s": "transactions",
}


@dataclass(frozen=True, slots=True)
class Page:
    """A notebook, executed once.

    Attributes
    ----------
    notebook : str
        Name of a notebook of the library.
    parameters : dict
        The parameters it is executed with.
    title : str
        Heading of the page; empty: that of the notebook.
    """

    notebook: str
    parameters: dict[str, Any] = field(default_factory=dict)
    title: str = ""

    @property
    def subject(self) -> dict[str, Any]:
        """The parameters that tell it from other pages of its notebook."""
        names = ("factor", "name", "metric")
        return {name: self.parameters[name] for name in names if name in self.parameters}

    @property
    def key(self) -> str:
        """Name of its files, unique in a report: ``01-placement-throughput``."""
        parts = map(str, self.subject.values())
        name = "-".join([self.notebook, *(SHORT.get(part, part) for part in parts)])
        plain = re.sub(r"[^\w.-]+", "-", name)[
            :50
        ]  # a factor of the user may be called ../../x
        if plain == name:
            return name
        return f"{plain}-{hashlib.blake2s(name.encode(), digest_size=4).hexdigest()}"


def pages(data: Any) -> list[Page]:
    """Return the pages that an experiment has data for.

    Declared questions always have a page; what was not measured is left out. They are in the order
    of a report: the summary, the questions, the quality of the data.

    Examples
    --------
    >>> [page.key for page in npl.analysis.pages(npl.read("data/recorded/zones"))][:2]
    ['summary', 'pairs-latency']
    """
    source = measurement(data)
    good, declared = without_sent(source.complete), source.contrasts
    names = [name for name in dimensions(good.columns) if name not in UNASKED]
    metrics = headline_metrics(source)
    placements = good["placement"]
    known = [p for p in placements.dropna().unique() if p in PLACEMENTS]
    has_paths = not all(map(is_place, known))
    several = [
        m for m in metrics if len(placements[good[m].notna()].dropna().unique()) > 1
    ]
    found = [Page("summary")] if metrics or declared else []
    for metric in metrics:
        with suppress(NothingToReport):
            ends_of(source, metric)
            found.append(_page("pairs", "Every pair", metric))

    @cache
    def splitting(metric: str) -> tuple[str, ...]:
        """Factors that split a metric: observed once, however many of them are asked about."""
        return observe(good, metric).by

    for name in names:
        if name == "placement" and has_paths:
            continue
        asked = several if name == "placement" else metrics
        chosen = _asked(good, name, asked, declared, splitting)
        found += [_of_factor(name, metric) for metric in chosen]
    found += [_page("05-paths", "Paths", m) for m in several if has_paths]
    columns = {*good.columns[good.notna().any()]}
    found += [Page(name) for name, some in MEASURED.items() if columns & {*some}]
    found += [
        _page("time", "Over time", m) for m in metrics if _hours(good) >= OVER_TIME_H
    ]
    return [*found, Page("07-quality")]


def _page(notebook: str, title: str, metric: str, **parameters: str) -> Page:
    return Page(notebook, {**parameters, "metric": metric}, heading(title, metric))


def _of_factor(name: str, metric: str) -> Page:
    """The page of a factor and a metric."""
    if name == "tcp_buffer_bytes":
        return Page(OWN[name], title=heading("TCP buffers", metric))
    label = capital(factor(name).label or name.replace("_", " "))
    if name in OWN:
        return _page(OWN[name], label, metric)
    return _page("factor", label, metric, factor=name)


def _asked(
    runs: pd.DataFrame,
    name: str,
    metrics: Sequence[str],
    declared: Sequence[Contrast],
    splitting: Callable[[str], tuple[str, ...]],
) -> list[str]:
    """The metrics for which a factor varies within a tool, or was declared to be compared."""
    found = []
    for metric in metrics:
        if name in OF_THROUGHPUT and not metric.startswith("throughput"):
            continue
        if name == "tcp_buffer_bytes" and metric != "throughput_bps":
            continue
        levels = runs[runs[metric].notna()].groupby("tool")[name].nunique(dropna=False)
        asked = any(factor_of(c) == name and c.metric == metric for c in declared)
        # of runs that all differ, page one shows what there is
        repeated = runs.loc[runs[metric].notna(), name].dropna().duplicated().any()
        if asked or ((levels > 1).any() and repeated and name in splitting(metric)):
            found.append(metric)
    return found


def pages_of_several(folders: Sequence[Path]) -> list[Page]:
    """Return the pages of several experiments.

    A line for each experiment, and what was measured again, or for long, over time.
    """
    names = list(map(name_of, folders))
    chosen = [Page("summary")]
    for name in dict.fromkeys(names):
        try:
            runs = read(measurements(folders, name)).runs
        except NotMeasured:  # the first page says so
            continue
        if names.count(name) > 1 or _hours(runs) >= LONG_H:
            chosen += [_page("time", name, m, name=name) for m in headline_metrics(runs)]
    return chosen


def _hours(runs: pd.DataFrame) -> float:
    started = runs["started_utc"].dropna() if "started_utc" in runs else ()
    return (max(started) - min(started)).total_seconds() / 3600 if len(started) else 0.0


def at_a_glance(location: Readable) -> list[dict[str, Any]]:
    """Return what is in each experiment of a folder: runs, rounds, factors, metrics."""
    results = read(location)
    return [_summary(one) for one in results.parts or [results]]


def _summary(exp: Results) -> dict[str, Any]:
    named = {
        "experiment": exp.name,
        "title": declaration(exp.own_folder).experiment.title,
    }
    try:
        runs = exp.runs
    except NotMeasured:
        return {**named, "runs": "nothing was measured yet"}
    states = runs["status"].value_counts()
    counts = ", ".join(f"{n} {status}" for status, n in states.items())
    varying = {f: sort_levels(f, runs[f].unique()) for f in exp.factors}
    return {
        **named,
        "runs": f"{len(runs)} ({counts}){_incomplete(exp)}",
        "rounds": _rounds(exp),
        "factors": {
            factor(f).label or f: ", ".join(map(factor(f).level_words, levels))
            for f, levels in varying.items()
        },
        "metrics": {m: METRICS[m].label for m in exp.metrics},
        "contrasts": str(len(exp.contrasts)),
        "notice": exp.notice or "",
    }


def _incomplete(exp: Results) -> str:
    """Say how many of the planned trials are missing; empty where none is, or no plan is kept."""
    origin = exp.origin
    planned = (read_plan(exp.own_folder) or {}).get("trials", ())
    if origin.looked or not origin.planned:  # rounds end when all is decided
        return ""
    measured = set(map(trial_of, exp.runs["run_id"]))
    missing = len(planned) - len(measured)
    if missing <= 0:
        return ""
    return f"; incomplete: {missing:,} of {len(planned):,} trials were not measured"


def _rounds(exp: Results) -> str:
    """Say how many rounds were measured, of those that were planned, in which deployments."""
    if "round" not in exp.runs:
        return "not known"
    deployments = plural(int(exp.runs["deployment"].nunique()), "deployment")
    measured, planned = int(exp.runs["round"].nunique()), exp.origin.planned
    few = measured < planned and not exp.origin.looked
    return f"{measured}{f' of {planned}' if few else ''} in {deployments}"


# -- what single pages ask -------------------------------------------------------------------------

END_NAMES = ("zone_physical", "zone", "region")
"""Names for the two ends of a pair, the most informative first."""


def ends_of(data: Data, metric: str) -> tuple[str, str]:
    """Return the two factors that name the ends of the pairs, so that a cell is one pair.

    Raises NothingToReport if there are not several pairs that differ in their hosts alone.
    """
    obs = observe(data, metric)
    runs = obs.runs.dropna(subset=[*HOSTS])
    others = [name for name in obs.by if not name.startswith(HOSTS)]
    counts = runs.groupby(numbered(runs, others))[[*HOSTS]].nunique()
    if not counts.gt(1).all(axis="columns").any():
        raise NothingToReport(
            "a matrix needs several pairs of one placement, with several clients and servers"
        )
    pairs = runs.drop_duplicates([*HOSTS])
    for end in END_NAMES:
        ends = [f"{host}_{end}" for host in HOSTS]
        named = pairs[ends].dropna().drop_duplicates()
        if len(named) == len(pairs):
            return ends[0], ends[1]
    return HOSTS


def places(data: Any) -> list[str] | None:
    """Return the placements that are locations, not paths, if there are several.

    Else None (all).

    Examples
    --------
    >>> npl.analysis.places(exp)
    ['ppg', 'same-zone', 'cross-zone', 'cross-region']
    """
    measured = {*measurement(data).complete["placement"].dropna()}
    names = [p for p in PLACES if p in measured]
    return names if len(names) > 1 else None


def tail_metric(data: Any) -> str:
    """Return the percentile that gets a verdict: the 99th one-way, else of the round trip.

    Examples
    --------
    >>> npl.analysis.tail_metric(exp)
    'latency_oneway_p99_us'
    """
    one_way, round_trip = "latency_oneway_p99_us", "rtt_p99_us"
    runs = measurement(data).complete
    only = runs[one_way].isna().all() and runs[round_trip].notna().any()
    return round_trip if only else one_way


# -- proofs ----------------------------------------------------------------------------------------

SHOWN = ["host", "claim", "holds", "evidence"]
HOLDS = {True: "holds", False: "does NOT hold", None: "not shown"}


def stored(data: Data) -> list[dict[str, Any]]:
    """Return the claims about the hosts as they are stored; a table made by hand has none."""
    folder = folder_of(data)
    return claims(folder) if folder else []


def folder_of(data: Data) -> Path | None:
    """Return the folder that runs come from; None for a table made by hand."""
    folder = measurement(data).origin.folder
    try:
        return experiment_folder(folder) if folder else None
    except StoreError:
        return None


def proofs(data: Data) -> pd.DataFrame | Words:
    """Return the evidence of where the hosts were and how they were set up.

    Examples
    --------
    >>> npl.analysis.proofs(exp).columns.to_list()
    ['claim', 'holds', 'evidence']
    """
    rows = pd.DataFrame(stored(data), columns=["deployment", *SHOWN])
    if rows.empty:
        return Words(
            "The source of the hosts recorded no proof of where they were: the placements are as "
            "declared."
        )
    rows["holds"] = [HOLDS[holds] for holds in rows["holds"]]
    named = rows["host"].fillna("") != ""
    rows["host"] = rows["host"].where(named, rows["deployment"])
    return rows[SHOWN].set_index("host").rename_axis(None)
