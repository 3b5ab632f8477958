"""Further questions of single pages: what was measured, and the percentile that is judged."""

from __future__ import annotations

from typing import Any

import pandas as pd

from ..experiment.placements import PLACES
from ..metrics import format_span, format_value
from ..metrics import metric as metric_of
from .runs import measurement

MANY = 12
"""Of more conditions than this a headline says where they lie."""


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


def levels_words(table: pd.DataFrame, metric: str) -> str:
    """Return the levels of conditions in a sentence, for a headline."""
    info, medians = metric_of(metric), table["median"].dropna()
    if len(medians) > MANY:
        ends = format_span(medians.min(), medians.max(), info.unit)
        return f"{info.label}: {ends} in {len(medians)} conditions."
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
    runs = measurement(data).complete
    only = runs[one_way].isna().all() and runs[round_trip].notna().any()
    return round_trip if only else one_way
