"""Further questions of single pages: network cards, bandwidth, completeness, tails, windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import pandas as pd

from ..experiment.factors import FACTORS, factor, plain
from ..experiment.placements import PLACES
from ..metrics import format_value, plural
from ..metrics import metric as metric_of
from .observe import Data, Observations, level_names, levels, observe
from .result import quantity
from .runs import HOSTS, headline_metrics, ok_runs, status_counts, table_of
from .tables import Table
from .words import Headline, Words


def network_cards(data: Data, metric: str | None = None) -> Table | Words:
    """Network cards as the guests saw them, by condition; a sentence if nothing was recorded.

    Examples
    --------
    >>> npl.analysis.network_cards(exp, "latency_oneway_us")
    'The network cards of these hosts were not recorded.'
    """
    runs = observe(data, metric).runs
    cards = runs.groupby("condition", observed=True)[["nic_driver", "vf_up"]].first()
    cards = cards.dropna(how="all").reset_index()
    if cards.empty:
        return Words("The network cards of these hosts were not recorded.")
    cards = cards.set_axis(["condition", "driver", "virtual_function_up"], axis=1)
    return Table.of(cards, "Network cards as the guests see them.")


def places(data: Any) -> list[str] | None:
    """Placements that are locations, not paths, if there are several: ``ppg`` to ``cross-region``; else None (all).

    Examples
    --------
    >>> npl.analysis.places(exp)
    ['ppg', 'same-zone', 'cross-zone', 'cross-region']
    """
    names = [p for p in PLACES if p in set(ok_runs(data)["placement"].dropna())]
    return names if len(names) > 1 else None


def levels_words(table: pd.DataFrame, metric: str) -> str:
    """The levels of conditions in a sentence, for a headline."""
    info = metric_of(metric)
    figures = ", ".join(
        f"{format_value(float(m), info.unit)} ({c})"
        for c, m in table["median"].items()
        if not isnan(m)
    )
    return f"{info.label}: {figures}."


def tail_metric(data: Any) -> str:
    """The percentile that gets a verdict: the 99th of one-way latency, else of the round trip.

    Examples
    --------
    >>> npl.analysis.tail_metric(exp)
    'latency_oneway_p99_us'
    """
    runs = ok_runs(data)
    for name in ("latency_oneway_p99_us", "rtt_p99_us"):
        if runs[name].notna().any():
            return name
    return "latency_oneway_p99_us"


BESIDE = (
    "cpu_client_ratio",
    "cpu_server_ratio",
    "retransmits_count",
    "cwnd_max_bytes",
    "connect_us",
    "rtt_loaded_us",
    "jitter_us",
    "lost_ratio",
)
"""What the tools measure together with a headline metric."""


def beside(obs: Observations) -> tuple[pd.DataFrame, list[str]]:
    """Medians, by condition, of what was measured along with a metric: CPU, retransmits, congestion window.

    A column for each metric of `BESIDE` that at least half of the conditions have, and the names of the others.
    """
    names = [m for m in BESIDE if m in obs.runs and m != obs.metric]
    medians: pd.DataFrame = obs.runs.groupby("condition", observed=True)[names].median()
    share = medians.notna().mean()
    labels = [
        metric_of(str(m)).label.partition(",")[0] for m in share.index[(share > 0) & (share < 0.5)]
    ]
    few = [label if label[1:2].isupper() else label[:1].lower() + label[1:] for label in labels]
    return medians.loc[:, share >= 0.5].reset_index(), few


def overview(data: Data) -> pd.DataFrame:
    """What was measured, in one table: a row for each kind of pair, a column for each headline metric and kind of test.

    Medians with their units, as text. Several pairs of one kind are merged to their geometric mean in each round. With
    many kinds of test and few kinds of pairs, the table is transposed.

    Examples
    --------
    >>> npl.analysis.overview(exp).shape
    (12, 6)
    """
    metrics = headline_metrics(data)
    columns: dict[str, dict[str, str]] = {}
    order: dict[str, Any] = {}
    observed = [observe(data, metric, pool="pairs") for metric in metrics]
    places = _place_names(observed)
    for obs in observed:
        info = metric_of(obs.metric)
        label = (
            info.label
            if "throughput_sent_bps" in metrics
            else info.label.removesuffix(" at the receiver")
        )
        kinds = [f for f in obs.by if not _of_the_pair(obs.runs, f)]
        tests = level_names(obs, kinds) if kinds else {}
        for condition, value in zip(
            map(str, obs.conditions.index), levels(obs)["median"], strict=True
        ):
            placement = plain(obs.facts.loc[condition].get("placement"))
            row = places[obs.metric, condition]
            head = f"{label}, {tests[condition]}" if tests else label
            if not isnan(value):
                columns.setdefault(head, {})[row] = format_value(float(value), info.unit)
                order.setdefault(row, factor("placement").key(placement))
    table = pd.DataFrame(columns, index=sorted(order, key=order.__getitem__)).rename_axis(
        "condition"
    )
    if table.shape[1] > max(4, table.shape[0]):
        table = table.T.rename_axis("measured")
    return table.reset_index()


def _place_names(observed: Sequence[Observations]) -> dict[tuple[str, str], str]:
    """What to call the pair of each condition, the same for every metric: its placement, and what else varies there."""
    names: dict[tuple[str, str], str] = {}
    placed = list(
        dict.fromkeys(
            f for o in observed for f in o.by if f != "placement" and _of_the_pair(o.runs, f)
        )
    )
    seen: dict[Any, dict[str, set[Any]]] = {}
    for obs in observed:
        for facts in obs.facts.to_dict("records"):
            levels_there = seen.setdefault(plain(facts.get("placement")), {})
            for f in placed:
                levels_there.setdefault(f, set()).add(plain(facts.get(f)))
    for obs in observed:
        pairs = [f for f in obs.by if _of_the_pair(obs.runs, f)]
        own = level_names(obs, pairs) if pairs else {}
        for condition, facts in zip(
            map(str, obs.conditions.index), obs.facts.to_dict("records"), strict=True
        ):
            placement = plain(facts.get("placement"))
            more = [f for f in placed if len(seen[placement][f]) > 1]
            levels = {f: plain(facts.get(f)) for f in more}
            name = own.get(condition) or str(placement or "all runs")
            if placement is not None and all(isinstance(v, str) for v in levels.values()):
                name = ", ".join(
                    [str(placement), *(factor(f).level_words(v) for f, v in levels.items())]
                )
            names[obs.metric, condition] = name
    return names


def _of_the_pair(runs: pd.DataFrame, name: str) -> bool:
    """Whether a factor is a property of the pair of hosts; where these are not known, whether it is a label."""
    if runs[list(HOSTS)].isna().any(axis=None):
        return name == "placement" or name not in FACTORS
    return bool(runs.groupby(list(HOSTS), dropna=False)[name].nunique(dropna=False).max() < 2)


@dataclass(frozen=True, slots=True)
class Counts:
    """How complete the data are: a sentence, a table by condition, and the fate of the runs that do not count."""

    words: Headline
    table: pd.DataFrame
    causes: Table
    share: str
    """How many conditions are complete in every round."""

    @property
    def incomplete(self) -> Table | Words:
        """The rows of the table in which an observation failed or is missing; a sentence if there is none.

        Where all are complete, the headline counts only the runs.
        """
        t: Any = self.table
        rows = t[(t["failed"] > 0) | (t["missing"] > 0)]
        if rows.empty:
            return Words(self.share)
        return Table.of(rows, "Conditions with observations that failed or are missing.")


def counts(data: Data) -> Counts:
    """Count what was measured, by metric and condition: complete, failed, missing.

    Examples
    --------
    >>> npl.analysis.counts(exp).words[:10]
    '264 runs o'
    """
    runs = table_of(data)
    ok, failed, excluded = status_counts(runs)
    tables = [
        levels(data, m)[["n", "failed", "missing"]].assign(metric=quantity(m))
        for m in headline_metrics(runs)
    ]
    heads = ["condition", "metric", "n", "failed", "missing"]
    table = pd.concat(tables).reset_index()[heads] if tables else pd.DataFrame(columns=heads)
    rounds = int(runs.groupby("deployment", dropna=False)["round"].nunique().sum())
    # rounds that nobody planned are not known to be missing
    full = int(((table["failed"] == 0) & (table["missing"] == 0) & (table["n"] >= rounds)).sum())
    every = plural(len(table), "condition")
    share = (
        f"all {every}"
        if 1 < full == len(table)
        else every
        if full == len(table)
        else f"{full} of {every}"
    )
    share += " is" if 1 in (full, len(table)) else " are"
    every = (
        f" in every one of {plural(rounds, 'round')}."
        if rounds
        else "; which round a run is of is not known."
    )
    share = f"{share} complete{every}" if len(table) else ""
    words = f"{plural(ok, 'run')} ok, {failed} failed or cut short, {excluded} excluded"
    words += "." if full == len(table) else f"; {share}"
    bad = runs[
        (runs["status"] != "ok") | (runs["excluded"].notna() if "excluded" in runs else False)
    ]
    what = bad["excluded"].fillna(bad["status"]) if "excluded" in bad else bad["status"]
    causes = pd.DataFrame({"run": bad["run_id"], "what": what, "cause": bad["error"]})
    return Counts(
        Headline(words),
        table,
        Table.of(causes, "Runs that do not count, and why."),
        share[:1].upper() + share[1:],
    )
