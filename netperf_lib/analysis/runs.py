"""The table of runs: which runs count, and which headline metrics they have."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ..errors import UsageError
from ..experiment.attached import attached
from ..experiment.factors import NOT_FACTORS, dimensions, factor, plain
from ..metrics import PAGES

LENGTHS = ("duration_s", "omit_s")
"""The length of a test is not part of what it measures."""
HOSTS = ("client", "server")
ENDS = tuple(
    tuple(f"{host}{what}" for host in HOSTS)
    for what in ("_vm_size", "_region", "_zone_physical", "_zone", "")
)
"""Factors that describe the two ends of a pair."""


def read_data(data: Any, pattern: str | None = None) -> Any:
    """Read the path of an experiment, a data root, or logs; anything else is given back."""
    if not isinstance(data, str | os.PathLike):
        return data
    from ..data.imports import (
        are_logs,
        read_logs,
    )  # the readers of tables are not needed for runs that are there
    from ..data.load import read
    from ..data.shipped import located

    return read_logs(data, pattern=pattern) if are_logs(data) else read(located(data)[0])


def table_of(data: Any) -> pd.DataFrame:
    """The table of runs of an experiment or its folder, or the table that is given; UsageError for anything else."""
    data = read_data(data)
    runs = getattr(data, "runs", data)
    if not isinstance(runs, pd.DataFrame):
        kind = type(data).__name__
        raise UsageError(
            f"expected an experiment, its table of runs, a folder, or several of these; got {kind}"
        )
    return _whole(runs) if attached(runs).path and "status" in runs else runs


def _whole(runs: pd.DataFrame) -> pd.DataFrame:
    """Return runs that were read with the columns without a value, which `Results.runs` leaves out."""
    from ..data.load import data_frame
    from ..data.tables import SCHEMAS

    every = data_frame(SCHEMAS["runs"].empty_table()).assign(excluded=None)
    missing = [c for c in every if c not in runs]
    if not missing:
        return runs
    names = [*every, *(c for c in runs if c not in every)]
    nulls = every[missing].reindex(runs.index)
    whole = pd.concat([runs, nulls], axis="columns")[names]
    whole.attrs = runs.attrs
    return whole


def is_details(data: Any) -> bool:
    """Whether this is a table of details: of intervals or percentiles, with a row for each of several of a run."""
    return (
        isinstance(data, pd.DataFrame)
        and "status" not in data
        and bool({"percentile", "start_s"} & set(data))
    )


def check_levels(where: Any) -> None:
    """Raise UsageError unless this is a mapping of factors to levels."""
    if not (isinstance(where, Mapping) and all(isinstance(name, str) for name in where)):
        raise UsageError(
            f"where is a mapping of factor to level, as in {{'placement': 'ppg'}}; got {where!r}"
        )


def status_counts(data: Any) -> tuple[int, int, int]:
    """Count runs that are complete, that failed or were cut short, and that are excluded."""
    runs = table_of(data)
    ok, excluded = states(runs)
    return int(ok.sum()), int((~ok & ~excluded).sum()), int(excluded.sum())


def states(runs: pd.DataFrame) -> tuple[pd.Series[bool], pd.Series[bool]]:
    """Which runs are complete and count, and which are excluded for a recorded cause: neither failed nor missing."""
    none = pd.Series(data=False, index=runs.index)
    excluded = runs["excluded"].notna() if "excluded" in runs else none
    return (runs["status"] == "ok" if "status" in runs else ~none) & ~excluded, excluded


def ok_runs(data: Any) -> pd.DataFrame:
    """Runs that count, of an experiment or its table: complete, and not excluded."""
    runs = table_of(data)
    return runs[states(runs)[0]].copy()


def present(value: Any) -> bool:
    """Whether a cell of a table holds something."""
    return not pd.isna(value)


def objects(column: Any) -> Any:
    """A column, or a table, whose missing values are None and whose others are Python's own."""
    return column.astype(object).where(column.notna(), None)


def headline_metrics(data: Any) -> list[str]:
    """Headline metrics that the complete runs of an experiment have, in the order of a report.

    Examples
    --------
    >>> npl.analysis.headline_metrics(exp)
    ['latency_oneway_us', 'throughput_bps']
    """
    complete = ok_runs(data)
    names = [m for m in PAGES if m in complete and complete[m].notna().any()]
    if "throughput_bps" in names and "throughput_sent_bps" in names:
        # the sender's figure is used where a tool reports no other, as in the client's log of iperf 2
        counted = complete.groupby("tool")[["throughput_bps", "throughput_sent_bps"]].count() > 0
        if not (counted["throughput_sent_bps"] & ~counted["throughput_bps"]).any():
            names.remove("throughput_sent_bps")
    return names


def several(wish: Any) -> list[Any]:
    """The values of ``where`` for a factor: one, or several."""
    return list(wish) if isinstance(wish, list | tuple | set) else [wish]


def wished(name: str, wish: Any) -> list[Any]:
    """The levels that a value of ``where`` names: one, or several."""
    return [factor(name).cast(w) for w in several(wish)]


def runs_of(
    data: Any, where: Mapping[str, Any] | None = None, pattern: str | None = None
) -> pd.DataFrame:
    """The runs of what `compare` takes, those with the levels `where`; raises UsageError for an unknown factor."""
    loaded = read_data(data, pattern)
    runs = table_of(loaded)
    check_levels(where or {})
    for name, wish in (where or {}).items():
        if name not in runs.columns:
            factors = dimensions(runs.columns)
            varying = [f for f in factors if len(runs[f].astype(str).unique()) > 1]
            raise UsageError(f"the runs have no factor {name!r}; {nearest(name, factors, varying)}")
        wishes = {str(level).lower() for level in (*several(wish), *wished(name, wish))}
        runs = runs[[str(plain(v)).lower() in wishes for v in runs[name]]]
    return runs


def nearest(name: str, names: Sequence[str], varying: Sequence[str] = ()) -> str:
    """Say which of the known names were meant, or which there are: of many factors those that vary, `varying`."""
    if name in NOT_FACTORS:
        return f"it tells runs apart, and no conditions; these vary: {', '.join(varying or names)}"
    close = [k for k in names if k.endswith(f"_{name}")] or difflib.get_close_matches(
        name, names, n=3, cutoff=0.4
    )
    return (
        f"did you mean {' or '.join(close)}?"
        if close
        else f"there are: {', '.join(varying or names) or 'none'}"
    )
