"""What a report shows: a page for each question that the data can answer, and the proofs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
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
from ..experiment.placements import PLACEMENTS, PLACES
from ..metrics import METRICS, plural
from .observe import observe
from .runs import (
    HOSTS,
    LENGTHS,
    Data,
    headline_metrics,
    measurement,
    numbered,
    varying,
    without_sent,
)
from .series import measurements, name_of
from .verdicts import factor_of
from .words import Words, capital, heading, label

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
ABOUT = {"streams": "throughput", "tcp_buffer_bytes": "throughput_bps"}
"""Factors whose pages are about some metrics alone: how the names of these begin."""
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
        parts = [SHORT.get(part, part) for part in self.subject.values()]
        name = "-".join([self.notebook, *map(str, parts)])
        # a factor of the user may be called ../../x
        plain = re.sub(r"[^\w.-]+", "-", name)[:50]
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
    metrics = headline_metrics(source)
    found = [Page("summary")] if metrics or declared else []
    for metric in metrics:
        with suppress(NothingToReport):
            ends_of(source, metric)
            found.append(_page("pairs", "Every pair", metric))
    places = good.dropna(subset="placement")
    placed = [m for m in metrics if varying(places[places[m].notna()], ["placement"])]
    has_paths = good["placement"].isin({*PLACEMENTS} - {*PLACES}).any()
    by = {metric: observe(good, metric).by for metric in metrics}
    for name in dimensions(good.columns):
        asked = [m for m in metrics if m.startswith(ABOUT.get(name, ""))]
        if name == "placement":
            asked = [] if has_paths else placed
        if name not in UNASKED:
            splits = [m for m in metrics if name in by[m]]
            found += _of_factor(good, name, asked, declared, splits)
    if has_paths:
        found += [_page("05-paths", "Paths", metric) for metric in placed]
    for name, columns in MEASURED.items():
        if good[[*columns]].notna().any(axis=None):
            found.append(Page(name))
    if _hours(good) >= OVER_TIME_H:
        found += [_page("time", "Over time", metric) for metric in metrics]
    return [*found, Page("07-quality")]


def _of_factor(
    runs: pd.DataFrame,
    name: str,
    metrics: Sequence[str],
    declared: Sequence[Contrast],
    splits: Sequence[str],
) -> list[Page]:
    """Return a page for each metric for which a factor varies within a tool, or was declared."""
    found = []
    title = capital(label(name))
    for metric in metrics:
        some = runs[runs[metric].notna()]
        levels = some.groupby("tool")[name].nunique(dropna=False)
        # of runs that all differ, page one shows what there is
        repeated = some[name].dropna().duplicated().any()
        asked = any(factor_of(c) == name and c.metric == metric for c in declared)
        varies = metric in splits and repeated and (levels > 1).any()
        if not (asked or varies):
            continue
        if name == "tcp_buffer_bytes":
            found.append(Page(OWN[name], title=heading("TCP buffers", metric)))
        elif name in OWN:
            found.append(_page(OWN[name], title, metric))
        else:
            found.append(_page("factor", title, metric, factor=name))
    return found


def _page(notebook: str, title: str, metric: str, **parameters: str) -> Page:
    return Page(notebook, {**parameters, "metric": metric}, heading(title, metric))


def pages_of_several(folders: Sequence[Path]) -> list[Page]:
    """Return the pages of several experiments.

    A line for each experiment, and what was measured again, or for long, over time.
    """
    names = list(map(name_of, folders))
    chosen = [Page("summary")]
    for name in dict.fromkeys(names):
        try:
            runs = measurement(measurements(folders, name)).runs
        except NotMeasured:  # the first page says so
            continue
        if names.count(name) > 1 or _hours(runs) >= LONG_H:
            chosen += [_page("time", name, m, name=name) for m in headline_metrics(runs)]
    return chosen


def _hours(runs: pd.DataFrame) -> float:
    """Return the hours from the first run to the last; NaN where they are not known."""
    started = runs["started_utc"]
    return float((started.max() - started.min()) / pd.Timedelta(hours=1))


def at_a_glance(location: Readable) -> list[dict[str, Any]]:
    """Return what is in each experiment of a folder: runs, rounds, factors, metrics."""
    results = read(location)
    return [_summary(one) for one in results.parts or [results]]


def _summary(exp: Results) -> dict[str, Any]:
    title = declaration(exp.own_folder).experiment.title
    named = {"experiment": exp.name, "title": title}
    try:
        runs = exp.runs
    except NotMeasured:
        return {**named, "runs": "nothing was measured yet"}
    counts = runs["status"].value_counts().items()
    states = ", ".join(f"{n} {status}" for status, n in counts)
    factors = {}
    for name in exp.factors:
        levels = sort_levels(name, runs[name].unique())
        words = map(factor(name).level_words, levels)
        factors[factor(name).label or name] = ", ".join(words)
    return {
        **named,
        "notice": exp.notice or "",
        "runs": f"{len(runs)} ({states}){_incomplete(exp)}",
        "rounds": _rounds(exp),
        "factors": factors,
        "metrics": {m: METRICS[m].label for m in exp.metrics},
        "contrasts": str(len(exp.contrasts)),
    }


def _incomplete(exp: Results) -> str:
    """Say how many of the planned trials are missing; empty where none is, or no plan is kept."""
    if exp.origin.looked or not exp.origin.planned:  # rounds end when all is decided
        return ""
    planned = len((read_plan(exp.own_folder) or {}).get("trials", ()))
    missing = planned - exp.runs["run_id"].map(trial_of).nunique()
    if missing <= 0:
        return ""
    return f"; incomplete: {missing:,} of {planned:,} trials were not measured"


def _rounds(exp: Results) -> str:
    """Say how many rounds were measured, of those that were planned, in which deployments."""
    if "round" not in exp.runs:
        return "not known"
    deployments = plural(int(exp.runs["deployment"].nunique()), "deployment")
    measured, planned = int(exp.runs["round"].nunique()), exp.origin.planned
    text = str(measured)
    if measured < planned and not exp.origin.looked:
        text += f" of {planned}"
    return f"{text} in {deployments}"


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
        client, server = f"client_{end}", f"server_{end}"
        named = pairs[[client, server]].dropna().drop_duplicates()
        if len(named) == len(pairs):
            return client, server
    return HOSTS


def places(data: Any) -> list[str] | None:
    """Return the placements that are locations, not paths, if there are several.

    Else None (all).

    Examples
    --------
    >>> npl.analysis.places(exp)
    ['ppg', 'same-zone', 'cross-zone', 'cross-region']
    """
    measured = {*measurement(data).complete["placement"]}
    names = [place for place in PLACES if place in measured]
    return names if len(names) > 1 else None


def tail_metric(data: Any) -> str:
    """Return the percentile that gets a verdict: the 99th one-way, else of the round trip.

    Examples
    --------
    >>> npl.analysis.tail_metric(exp)
    'latency_oneway_p99_us'
    """
    one_way, round_trip = "latency_oneway_p99_us", "rtt_p99_us"
    known = measurement(data).measured([one_way, round_trip])
    return round_trip if known == [round_trip] else one_way


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
    rows["host"] = rows["host"].replace("", None).fillna(rows["deployment"])
    return rows[SHOWN].set_index("host").rename_axis(None)
