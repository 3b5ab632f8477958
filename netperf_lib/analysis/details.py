"""Further questions of single pages: what was measured, and the percentile that is judged."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Any

import pandas as pd

from ..experiment.factors import FACTORS, factor
from ..experiment.placements import PLACES
from ..metrics import format_value
from ..metrics import metric as metric_of
from .observe import Observations, level_names, observe
from .runs import HOSTS, Data, headline_metrics, ok_runs
from .words import condition_names


def places(data: Any) -> list[str] | None:
    """Return the placements that are locations, not paths, if there are several.

    Else None (all).

    Examples
    --------
    >>> npl.analysis.places(exp)
    ['ppg', 'same-zone', 'cross-zone', 'cross-region']
    """
    measured = {*ok_runs(data)["placement"].dropna()}
    names = [p for p in PLACES if p in measured]
    return names if len(names) > 1 else None


def levels_words(table: pd.DataFrame, metric: str) -> str:
    """Return the levels of conditions in a sentence, for a headline."""
    info, medians = metric_of(metric), table["median"].dropna()
    figures = [f"{format_value(value, info.unit)} ({c})" for c, value in medians.items()]
    return f"{info.label}: {', '.join(figures)}."


def tail_metric(data: Any) -> str:
    """Return the percentile that gets a verdict: the 99th one-way, else of the round trip.

    Examples
    --------
    >>> npl.analysis.tail_metric(exp)
    'latency_oneway_p99_us'
    """
    one_way, round_trip = "latency_oneway_p99_us", "rtt_p99_us"
    runs = ok_runs(data)
    only = runs[one_way].isna().all() and runs[round_trip].notna().any()
    return round_trip if only else one_way


def overview(data: Data) -> pd.DataFrame:
    """Return what was measured, in one table.

    A row for each kind of pair, a column for each headline metric and kind of test.

    Medians with their units, as text. Several pairs of one kind are merged to their geometric mean
    in each round. With many kinds of test and few kinds of pairs, the table is transposed.

    Examples
    --------
    >>> npl.analysis.overview(exp).shape
    (12, 6)
    """
    metrics = headline_metrics(data)
    observed = [observe(data, metric, pool="pairs") for metric in metrics]
    rows = _place_names(observed)
    cells: dict[str, dict[str, str]] = {}
    keys: dict[str, Any] = {}
    for obs in observed:
        label = metric_of(obs.metric).label
        if "throughput_sent_bps" not in metrics:
            label = label.removesuffix(" at the receiver")
        tests = [f for f in obs.by if not _of_the_pair(obs.runs, f)]
        kinds = level_names(obs, tests)
        for condition in obs.names:
            place = rows[obs.metric, condition]
            head = f"{label}, {kinds[condition]}" if tests else label
            if not isnan(value := obs.value(condition)):
                keys[place] = factor("placement").key(obs.at(condition, "placement"))
                cells.setdefault(head, {})[place] = format_value(value, obs.unit)
    shown = sorted(keys, key=keys.__getitem__)
    table = pd.DataFrame(cells, index=shown).rename_axis("condition")
    if table.shape[1] > max(4, table.shape[0]):
        table = table.T.rename_axis("measured")
    return table.reset_index()


def _place_names(observed: Sequence[Observations]) -> dict[tuple[str, str], str]:
    """Return what to call the pair of each condition, the same for every metric.

    That is its placement, and what else varies there.
    """
    found = [f for obs in observed for f in obs.by if _of_the_pair(obs.runs, f)]
    by = list(dict.fromkeys(["placement", *found]))
    facts = pd.concat({obs.metric: obs.facts for obs in observed}).reindex(columns=by)
    facts = facts.astype(object).where(facts.notna(), None)
    names: dict[tuple[str, str], str] = {}
    for place, there in facts.groupby("placement", dropna=False, sort=False):
        pairs = there.drop_duplicates()
        varying = [f for f in by if len(set(pairs[f])) > 1]
        placed = ["placement"] if isinstance(place, str) else []
        said = condition_names(pairs, [*placed, *varying], varying)
        called = dict(zip(pairs.itertuples(index=False, name=None), said, strict=True))
        rows = there.itertuples(index=False, name=None)
        names |= {key: called[row] for key, row in zip(there.index, rows, strict=True)}
    return names


def _of_the_pair(runs: pd.DataFrame, name: str) -> bool:
    """Whether a factor is a property of the pair of hosts.

    Where these are not known, whether it is a label.
    """
    if runs[list(HOSTS)].isna().any(axis=None):
        return name == "placement" or name not in FACTORS
    return bool(
        runs.groupby(list(HOSTS), dropna=False)[name].nunique(dropna=False).max() < 2
    )
