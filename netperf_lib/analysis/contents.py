"""Which pages an experiment's report has: a notebook for each question that the data can answer, and its parameters."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pandas as pd

from ..data.files import Location
from ..data.layout import experiments, trial_of
from ..data.load import Results, read
from ..data.shipped import shipped
from ..errors import NotMeasured
from ..experiment.factors import dimensions, factor, sort_levels
from ..experiment.model import Contrast
from ..experiment.placements import is_place
from ..metrics import METRICS, plural
from .history import measurements, name_of
from .pairs import has_pairs
from .runs import LENGTHS, headline_metrics, ok_runs, table_of
from .words import contrasts, factor_of, heading

LONG_H = 10.0
"""Hours from which on one measurement is shown over time."""
UNASKED = (
    *LENGTHS,
    "client",
    "server",
    "tool",
    "test",
    "protocol",
    "direction",
    "interval_s",
    "samples",
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
    key : str
        Name of its files: unique in a report.
    """

    notebook: str
    parameters: dict[str, Any] = field(default_factory=dict)
    title: str = ""

    @property
    def subject(self) -> dict[str, Any]:
        """The parameters that tell it from other pages of its notebook."""
        return {
            name: self.parameters[name]
            for name in ("factor", "name", "metric")
            if name in self.parameters
        }

    @property
    def key(self) -> str:
        """Name of its files: ``01-placement-throughput``."""
        values = map(str, self.subject.values())
        name = "-".join([self.notebook, *(SHORT.get(part, part) for part in values)])
        plain = re.sub(r"[^\w.-]+", "-", name)[:50]  # a factor of the user may be called ../../x
        return (
            plain
            if plain == name
            else f"{plain}-{hashlib.blake2s(name.encode(), digest_size=4).hexdigest()}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """What a notebook says of itself in its metadata, under ``netperf_lib``: when a report has it."""

    notebook: str
    place: int
    """Position in a report; those of factors are in the order of the list of factors."""
    factor: str | None = None
    """The factor that it is about: at least two levels were measured or declared; ``*``: any without its own."""
    excluded: tuple[str, ...] = ()
    """With ``*``: factors that have no page."""
    metrics: tuple[str, ...] | None = None
    """Headline metrics that it can show; None: any."""
    each: bool = False
    """Whether there is a page for each metric, its parameter `metric`."""
    columns: tuple[str, ...] = ()
    """One of these columns has values."""
    when: str | None = None
    """A further condition, by its name in `WHEN`."""
    heading: str = ""
    """Heading of its pages, before the metric; default: the label of the factor."""

    def pages(
        self, runs: pd.DataFrame, names: Sequence[str], declared: Sequence[Contrast]
    ) -> Iterator[tuple[int, Page]]:
        """Yield its pages for good runs in which these factors may vary, each with its position among factors."""
        if self.columns and not any(c in runs and runs[c].notna().any() for c in self.columns):
            return
        measured = [m for m in headline_metrics(runs) if self.metrics is None or m in self.metrics]
        for name in names if self.factor == "*" else [self.factor]:
            if name in self.excluded or (name is not None and name not in names):
                continue
            for metric in measured if self.each or name else [None]:
                if self.when and not WHEN[self.when](runs, metric, declared):
                    continue
                if name and metric and not _is_question(runs, name, metric, declared):
                    continue
                values = (
                    ("factor", name if self.factor == "*" else None),
                    ("metric", metric if self.each else None),
                )
                label = self.heading or (
                    factor(name).label or name.replace("_", " ") if name else ""
                )
                title = heading(label[:1].upper() + label[1:], metric) if metric else ""
                position = names.index(name) if name else 0
                yield (
                    position,
                    Page(self.notebook, {key: value for key, value in values if value}, title),
                )


def _is_question(runs: pd.DataFrame, name: str, metric: str, declared: Sequence[Contrast]) -> bool:
    """Whether a factor was asked about in a declared contrast, or varies within a tool."""
    if any(factor_of(c) == name and c.metric == metric for c in declared):
        return True
    by_tool = runs[runs[metric].notna()].groupby("tool")[name]
    return any(len(levels.drop_duplicates()) > 1 for _, levels in by_tool)


def _placements(runs: pd.DataFrame, metric: str | None) -> set[str]:
    if "placement" not in runs:
        return set()
    return set((runs if metric is None else runs[runs[metric].notna()])["placement"].dropna())


def _has_paths(runs: pd.DataFrame) -> bool:
    """Whether a placement is none of the known ones: its pages then answer for all."""
    return not all(map(is_place, _placements(runs, None)))


WHEN: Mapping[str, Callable[[Any, Any, Sequence[Contrast]], bool]] = {
    "answers": lambda runs, _, declared: bool(headline_metrics(runs) or declared),
    "long": lambda runs, _, __: _hours(runs) >= 6,
    "pairs": lambda runs, metric, _: has_pairs(runs, metric),
    "paths": lambda runs, metric, _: _has_paths(runs) and len(_placements(runs, metric)) > 1,
    "zones": lambda runs, metric, _: not _has_paths(runs) and len(_placements(runs, metric)) > 1,
}
"""Conditions of chapters, by name: from good runs, a metric, and the declared contrasts."""


@cache
def chapters() -> tuple[Chapter, ...]:
    """Return the chapters of the notebooks that come with the library, in the order of a report."""
    rows = []
    for file in shipped("notebooks").glob("*.ipynb"):
        metadata = json.loads(file.read_text("utf-8"))["metadata"].get("netperf_lib")
        if metadata is not None:
            rows.append(Chapter(notebook=file.stem, **metadata))
    return tuple(sorted(rows, key=lambda chapter: (chapter.place, chapter.notebook)))


def pages(data: Any) -> list[Page]:
    """The pages that an experiment has data for, as the metadata of each notebook define.

    Declared questions always have a page; what was not measured is left out. They are in the order of a report: the
    summary, the questions, the quality of the data.

    Examples
    --------
    >>> [page.key for page in npl.analysis.pages(npl.read("data/recorded/zones"))][:2]
    ['summary', 'pairs-latency']
    """
    good, declared = ok_runs(data), contrasts(data)
    own = {chapter.factor for chapter in chapters()}
    names = [name for name in dimensions(good.columns) if name not in UNASKED]
    if _said_twice(good, names):
        good = good.drop(columns="throughput_sent_bps")
    rows = [
        ((chapter.place, position), page)
        for chapter in chapters()
        for position, page in chapter.pages(good, names, declared)
        if chapter.factor != "*" or page.parameters["factor"] not in own
    ]
    return [page for _, page in sorted(rows, key=lambda row: row[0])]


def _said_twice(runs: pd.DataFrame, factors: Sequence[str]) -> bool:
    """Whether the sender's throughput is the receiver's to two digits, in every condition."""
    both = ["throughput_bps", "throughput_sent_bps"]
    if not factors or not set(both) <= set(runs):
        return False
    medians = runs.groupby(list(factors), dropna=False, observed=True)[both].median()
    medians = medians.dropna(subset="throughput_sent_bps")
    received, sent = (medians[name].map("{:.2g}".format) for name in both)
    return bool((received == sent).all())


def fleet_pages(root: Location) -> list[Page]:
    """The pages of a data root: a line for each experiment, and what was measured again, or for long, over time."""
    names = list(map(name_of, experiments(root)))
    chosen = [Page("summary")]
    for name in dict.fromkeys(names):
        try:
            runs = read(measurements(root, name)).runs
        except NotMeasured:  # the first page says so
            continue
        if names.count(name) > 1 or _hours(runs) >= LONG_H:
            chosen += [
                Page("time", {"name": name, "metric": m}, heading(name, m))
                for m in headline_metrics(runs)
            ]
    return chosen


def _hours(runs: pd.DataFrame) -> float:
    if "started_utc" not in runs:
        return 0.0
    started = runs["started_utc"].dropna()
    return (
        float((started.max() - started.min()).total_seconds()) / 3600 if len(started) > 1 else 0.0
    )


def at_a_glance(location: Location) -> list[dict[str, Any]]:
    """What is in each experiment of a folder: runs, rounds, factors, metrics, contrasts, and whether it is complete."""
    results = read(location)
    return [_summary(one) for one in ([results] if isinstance(results, Results) else results)]


def _summary(exp: Results) -> dict[str, Any]:
    try:
        runs = table_of(exp)  # also without a value: a start that no log states
    except NotMeasured:
        named = {"experiment": exp.name, "title": exp.store.declared().title}
        return {**named, "runs": "nothing was measured yet", "folder": exp.path}
    counts = ", ".join(f"{n} {status}" for status, n in runs["status"].value_counts().items())
    trials = (exp.store.read_plan() or {}).get("trials", ())
    planned = sum(not row.get("leading") for row in trials)
    done = runs.loc[runs["status"] == "ok", "run_id"].map(trial_of).nunique()
    started = runs["started_utc"].dropna()
    values = {
        f: sort_levels(f, runs[f].unique()) for f in dimensions(runs.columns) if f not in LENGTHS
    }
    for f in ("client", "server", "direction"):  # what a log does not say is no level
        values[f] = [v for v in values.get(f, []) if v is not None]
    complete = (
        f"{done} of {planned} planned trials are complete"
        if planned
        else "imported: nothing was planned"
    )
    return {
        "experiment": exp.name,
        "title": exp.declaration.title,
        "runs": f"{len(runs)} ({counts}); {complete}",
        "rounds": f"{runs['round'].nunique()} in {plural(int(runs['deployment'].nunique()), 'deployment')}",
        "measured": f"{started.min():%Y-%m-%d %H:%M} to {started.max():%Y-%m-%d %H:%M} UTC"
        if len(started)
        else "",
        "factors": {
            factor(f).label or f: ", ".join(factor(f).level_words(v) for v in levels)
            for f, levels in values.items()
            if len(levels) > 1
        },
        "metrics": {
            m: f"{METRICS[m].label}, {runs[m].count()} runs"
            for m in METRICS
            if m in runs and runs[m].any()
        },
        "contrasts": {str(i): c.question or _in_words(c) for i, c in enumerate(exp.contrasts, 1)},
        "notice": exp.notice or "",
        "folder": exp.path,
    }


def _in_words(contrast: Contrast) -> str:
    """``One-way latency: ppg against same-zone``."""
    sides = (side for side in (contrast.a, contrast.b) if side is not None)
    words = [
        ", ".join(factor(f).level_words(v) for f, v in side.items()) or "all runs" for side in sides
    ]
    words += [f"below {contrast.below}"] if contrast.below is not None else []
    words += [f"at least {contrast.at_least}"] if contrast.at_least is not None else []
    return f"{METRICS[contrast.metric].label}: {(' against ' if contrast.b is not None else ', ').join(words)}"
