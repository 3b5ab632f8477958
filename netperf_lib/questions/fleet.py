"""Many experiments at once: series over days, trends and change points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds

from ..data.load import Places, scan
from ..errors import StatsError, UsageError
from ..metrics import metric as metric_called
from .runs import ok_runs

__all__ = ["series"]


def __dir__() -> list[str]:
    return sorted(__all__)


def _ok_runs(path: Places | pd.DataFrame, columns: Sequence[str], where: dict[str, Any] | None, metric: str) -> Any:
    """Good runs that have the metric: only the columns asked for are read."""
    metric_called(metric)
    needed = list(dict.fromkeys(["experiment", "run_id", "status", *columns]))
    if not isinstance(path, pd.DataFrame):
        return _ok_rows(scan(path), needed, where).dropna(subset=[metric])
    if missing := [c for c in needed if c not in path]:
        raise UsageError(f"the table of runs lacks {', '.join(missing)}")
    runs = ok_runs(path)[needed].dropna(subset=[metric])
    for name, value in (where or {}).items():
        runs = runs[runs[name].isna() if value is None else runs[name] == value]
    return runs


def _ok_rows(runs: ds.Dataset, columns: Sequence[str], where: dict[str, Any] | None) -> pd.DataFrame:
    """Good runs with these values; only these columns are read."""
    if missing := [c for c in (*columns, *(where or {})) if c not in runs.schema.names]:
        raise UsageError(f"the table of runs has no column {', '.join(missing)}")
    chosen = ds.field("status") == "ok"
    for name, value in (where or {}).items():
        try:
            level = pa.scalar(value, runs.schema.field(name).type)
        except (pa.ArrowException, TypeError, ValueError):
            raise UsageError(f"{name}={value!r}: a level of {name} is {runs.schema.field(name).type}") from None
        chosen &= ds.field(name).is_null() if value is None else ds.field(name) == level
    table: pd.DataFrame = runs.to_table(columns=list(dict.fromkeys(columns)), filter=chosen).to_pandas()
    return table


# -- months ----------------------------------------------------------------------------------------------------------


def series(
    path: Places | pd.DataFrame, metric: str, *, where: dict[str, Any] | None = None, every: str = "D"
) -> pd.Series[float]:
    """Return the median of a metric over the runs of each day (or other period), in time order.

    Runs of one day share the conditions of that day, so a change over months is counted in days, not in runs.

    Parameters
    ----------
    path : path, URL, several, or DataFrame
        Experiments or a data root; or a table of runs.
    metric : str
        A column of ``runs``.
    where : dict, optional
        Only runs with these values, for example ``{"tool": "qperf"}``.
    every : str
        Length of a period, as pandas names it: ``"D"``, ``"W"``, ``"6h"``.

    Examples
    --------
    >>> npl.fleet.series("data/recorded/day", "rtt_us", every="6h").size
    4
    """
    runs = _ok_runs(path, [metric, "started_utc", *(where or {})], where, metric)
    values = runs.dropna(subset=["started_utc"]).set_index("started_utc")[metric].astype(float)
    if values.empty:
        raise StatsError(f"no run of {metric} has a start time")
    daily: pd.Series[float] = values.resample(every).median().dropna()
    return daily
