"""Which pages an experiment's report has: a notebook for each question that the data can answer, and its parameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..data.files import Location
from ..data.layout import experiments, trial_of
from ..data.load import Results, load, read
from ..experiment.factors import dimensions, factor, plain, sort_levels
from ..experiment.placements import PLACES
from ..metrics import METRICS, plural
from .conditions import LENGTHS, condition_factors, heading, ok_runs
from .history import measurements, name_of
from .pairs import has_pairs
from .question import headline_metrics
from .words import contrasts, factor_of

if TYPE_CHECKING:
    import pandas as pd

LONG_H = 10.0
"""Hours from which on one measurement is shown over time."""
SPECIAL = {
    "placement": "01-placement",
    "accelerated": "02-accelerated",
    "streams": "03-streams",
    "tcp_buffer_bytes": "04-tcp-buffers",
    "during": "06-tails",
}
"""Factors that have a notebook of their own instead of the general one."""
ONLY_THROUGHPUT = ("03-streams", "04-tcp-buffers")
UNASKED = (*LENGTHS, "client", "server", "tool", "test", "protocol", "direction", "interval_s", "samples", "full_rtt")
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
        What it is executed with.
    title : str
        Heading of the page; empty: that of the notebook.
    key : str
        Name of its files: unique in a report.
    """

    notebook: str
    parameters: dict[str, Any] = field(default_factory=dict)
    title: str = ""

    @property
    def key(self) -> str:
        """Name of its files: ``01-placement-throughput``."""
        told = (str(self.parameters[name]) for name in ("factor", "name", "metric") if name in self.parameters)
        return "-".join([self.notebook, *(SHORT.get(part, part) for part in told)])


def pages(runs: pd.DataFrame) -> list[Page]:
    """The pages that an experiment can fill: each factor that varies, by each headline metric that it varies in.

    Declared questions always have a page; what was not measured is left out. In the order of a report: the summary,
    the questions, the quality of the data.

    Examples
    --------
    >>> [page.key for page in pages(exp.runs)]
    ['summary', '01-placement-latency', '01-placement-throughput', '03-streams-throughput', '07-quality']
    """
    kept = ok_runs(runs)
    metrics = headline_metrics(kept)
    declared = contrasts(runs)
    found = [Page("summary")] if metrics or declared else []
    placements = set(kept["placement"].dropna())
    found += [Page("pairs", {"metric": m}, heading("Every pair", m)) for m in metrics if has_pairs(kept, m)]
    for name in dimensions(kept.columns):
        if name in UNASKED:
            continue
        for metric in metrics:
            with_value = kept[kept[metric].notna()]
            levels = with_value[name].drop_duplicates()
            asked = any(factor_of(c) == name and c.metric == metric for c in declared)
            if len(levels) < 2 and not asked:
                continue
            if not asked and not _asked_by_itself(with_value, name):
                continue
            if name == "placement":
                # a report with paths answers both on the pages of the paths
                if not placements - set(PLACES) and len(set(with_value["placement"].dropna()) & set(PLACES)) > 1:
                    found.append(Page("01-placement", {"metric": metric}, heading("Placement", metric)))
                continue
            book = SPECIAL.get(name, "factor")
            if book == "06-tails" or (book in ONLY_THROUGHPUT and not metric.startswith("throughput")):
                continue
            parameters = {"metric": metric} | ({"factor": name} if book == "factor" else {})
            if book == "04-tcp-buffers":
                if metric != "throughput_bps":  # the notebook is about the receiver's
                    continue
                parameters = {}
            label = "TCP buffers" if book == "04-tcp-buffers" else factor(name).label or name.replace("_", " ")
            found.append(Page(book, parameters, heading(label[:1].upper() + label[1:], metric)))
    if placements - set(PLACES) and len(placements) > 1:
        found += [
            Page("05-paths", {"metric": m}, heading("Paths", m))
            for m in metrics
            if len(set(kept.loc[kept[m].notna(), "placement"])) > 1
        ]
    if "limit_bps" in kept and kept["limit_bps"].notna().any():
        found.append(Page("08-limits"))
    if "latency_oneway_p99_us" in kept and kept[["latency_oneway_p99_us", "rtt_p99_us"]].notna().any(axis=None):
        found.append(Page("06-tails"))
    if _hours(kept) >= 6:
        found += [Page("time", {"metric": m}, heading("Over time", m)) for m in metrics]
    return [*found, Page("07-quality")]


def fleet_pages(root: Location) -> list[Page]:
    """The pages of a data root: a line for each experiment, and what was measured again, or for long, over time."""
    names = list(map(name_of, experiments(root)))
    found = [Page("summary")]
    for name in dict.fromkeys(names):
        runs = load(measurements(root, name))
        if names.count(name) > 1 or _hours(runs) >= LONG_H:
            found += [Page("time", {"name": name, "metric": m}, heading(name, m)) for m in headline_metrics(runs)]
    return found


def _hours(runs: pd.DataFrame) -> float:
    started = runs["started_utc"].dropna()
    return float((started.max() - started.min()).total_seconds()) / 3600 if len(started) > 1 else 0.0


def _asked_by_itself(runs: pd.DataFrame, name: str) -> bool:
    """Whether a factor varies within a tool, and not merely because two tools differ in it."""
    return any(len(group[name].drop_duplicates()) > 1 for _, group in runs.groupby("tool"))


def summary(place: Location) -> list[dict[str, Any]]:
    """What is in each experiment of a folder: runs, rounds, factors, metrics, contrasts, and whether it is complete."""
    results = read(place)
    return [_summary(one) for one in ([results] if isinstance(results, Results) else results)]


def _summary(exp: Results) -> dict[str, Any]:
    runs = exp.runs
    counts = ", ".join(f"{n} {status}" for status, n in runs["status"].value_counts().items())
    planned = len((exp.store.read_plan() or {}).get("trials", ()))
    done = runs.loc[runs["status"] == "ok", "run_id"].map(trial_of).nunique()
    started = runs["started_utc"].dropna()
    values = {f: sort_levels(f, [plain(v) for v in runs[f].unique()]) for f in condition_factors(runs) if f in runs}
    complete = f"{done} of {planned} planned trials have a run" if planned else "imported: nothing was planned"
    return {
        "experiment": exp.name,
        "title": exp.declaration.title,
        "runs": f"{len(runs)} ({counts}); {complete}",
        "rounds": f"{runs['round'].nunique()} in {plural(int(runs['deployment'].nunique()), 'deployment')}",
        "measured": f"{started.min():%Y-%m-%d %H:%M} to {started.max():%Y-%m-%d %H:%M} UTC" if len(started) else "",
        "factors": {
            factor(f).label or f: ", ".join(factor(f).level_words(v) for v in levels)
            for f, levels in values.items()
            if len(levels) > 1
        },
        "metrics": {m: f"{METRICS[m].label}, {runs[m].count()} runs" for m in METRICS if m in runs and runs[m].any()},
        "contrasts": {str(i): c.question or f"{c.a} against {c.b}" for i, c in enumerate(exp.contrasts, 1)},
        "notice": exp.notice or "",
        "folder": exp.path,
    }
