"""The table of runs: which runs count, and which headline metrics they have."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..errors import UsageError
from ..experiment.factors import FACTORS, NOT_FACTORS, dimensions, factor, plain
from ..experiment.origin import Measured, Origin, joined
from ..metrics import METRICS, PAGES

Codes: TypeAlias = npt.NDArray[np.int64]
"""The number of each row's level; -1 stands for null."""

MEASUREMENT = "measurement"
"""The factor that tells apart the experiments of a mapping, such as before and after."""
MOST_LEVELS = 12
"""A column of the user's with more different fractions, or values of one run each, is no factor."""

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
    return _whole(runs) if "raw_path" in runs else runs


def _whole(runs: pd.DataFrame) -> pd.DataFrame:
    """Return runs that were read with the columns without a value, which `Results.runs` leaves out."""
    from ..data.load import data_frame
    from ..data.tables import SCHEMAS

    every = data_frame(SCHEMAS["runs"].empty_table()).assign(excluded=None)
    # every run has a status: a table without it was cut by hand
    missing = [c for c in every if c not in runs and c != "status"]
    if not missing:
        return runs
    names = [c for c in every if c in runs or c in missing]
    names += [c for c in runs if c not in every]
    nulls = every[missing].reindex(runs.index)
    every = pd.concat([runs, nulls], axis="columns")[names]
    return every.copy()  # else pandas warns that the columns lie scattered


def origin_of(data: Any) -> Origin:
    """Where data come from; of a table that was cut or made by hand the notice of its runs alone."""
    found = getattr(data, "origin", None)
    if isinstance(found, Origin):
        return found
    runs = getattr(data, "runs", data)
    named = isinstance(runs, pd.DataFrame) and "notice" in runs
    notices = sorted(runs["notice"].dropna().unique()) if named else ()
    return Origin(notice=" ".join(map(str, notices)) or None)


def is_details(data: Any) -> bool:
    """Whether this is a table of details: of intervals or percentiles, with a row for each of several of a run."""
    return (
        isinstance(data, pd.DataFrame)
        and "status" not in data
        and bool({"percentile", "start_s"} & set(data))
    )


@dataclass(frozen=True, eq=False)
class Observed:
    """Runs that are observed.

    Attributes
    ----------
    runs : DataFrame
    origin : Origin
        Where they come from, and what was declared.
    planned : int
        Rounds planned in each deployment; 0: not known.
    """

    runs: pd.DataFrame
    origin: Origin
    planned: int = 0

    @classmethod
    def of(cls, data: Any, rounds: int | None = None) -> Observed:
        """Read what `observe` takes; `rounds` are planned, whatever is declared."""
        if isinstance(data, Observed):
            return data
        if isinstance(data, Mapping) and data:
            parts = {str(name): cls.of(one) for name, one in data.items()}
            frames = [
                one.runs.assign(**{MEASUREMENT: name, "experiment": name})
                for name, one in parts.items()
            ]
            origin = joined([one.origin for one in parts.values()])
            return cls(pd.concat(frames, ignore_index=True), origin)
        data = read_data(data)
        if isinstance(data, Sequence) and data:
            return cls._of_several(list(map(cls.of, data)))
        runs, origin = table_of(data), origin_of(data)
        if is_details(runs) or {"n", "median"} <= set(runs):
            what = (
                "a table of levels" if "median" in runs else "a table of intervals or percentiles"
            )
            raise UsageError(
                f"{what} does not hold runs: give the experiment, or its table of runs"
            )
        several = "experiment" in runs and len(runs["experiment"].dropna().unique()) > 1
        if several and MEASUREMENT not in runs:
            runs = runs.assign(**{MEASUREMENT: runs["experiment"]})
        return cls(
            runs.reset_index(drop=True), origin, origin.planned if rounds is None else rounds
        )

    @classmethod
    def _of_several(cls, parts: Sequence[Observed]) -> Observed:
        every = pd.concat([one.runs for one in parts], ignore_index=True)
        names = ["experiment", "run_id"]
        if set(names) <= set(every) and every.duplicated(names).any():
            raise UsageError(
                "two of these have one name, and equal runs: name them, as in {'may': …, 'june': …}"
            )
        origin = joined([one.origin for one in parts])
        return cls.of(Measured(every, replace(origin, declared={})))

    @cached_property
    def codes(self) -> dict[str, Codes]:
        """The codes of each column that may tell conditions apart."""
        names = [
            c
            for c in map(str, self.runs)
            if c not in METRICS and c not in (*NOT_FACTORS, "design", "condition")
        ]
        return {c: codes for c in names if (codes := _codes(self.runs[c])) is not None}

    @cached_property
    def units(self) -> Codes:
        """The deployment of each run, numbered over all experiments."""
        columns = [c for c in ("experiment", "deployment") if c in self.runs]
        return combined(len(self.runs), *(factorized(self.runs[c]) for c in columns))

    def late(self) -> npt.NDArray[np.bool_]:
        """Which runs belong to rounds beyond those planned."""
        if not self.planned or "round" not in self.runs:
            return np.zeros(len(self.runs), bool)
        unit = [self.runs[c] for c in ("experiment", "deployment") if c in self.runs]
        number = self.runs["round"]
        rank = (number.groupby(unit, dropna=False) if unit else number).rank(method="dense")
        return (rank > self.planned).fillna(value=False).to_numpy(bool)


def _codes(column: pd.Series) -> Codes | None:
    """Codes of a column; None where a column of the user's holds lists or measured values."""
    if column.isna().all():
        return np.full(len(column), -1)
    try:
        codes, levels = pd.factorize(column)
    except TypeError:
        return None
    fractions = (
        column.name not in FACTORS
        and pd.api.types.is_float_dtype(column)
        and len(levels) > MOST_LEVELS
    )
    return None if fractions else codes.astype(np.int64)


def factorized(values: Any) -> Codes:
    """Return the code of each value; -1 stands for null."""
    codes: Codes = pd.factorize(values)[0].astype(np.int64)
    return codes


def combined(size: int, *codes: Codes) -> Codes:
    """Codes of the combinations of several columns."""
    total, levels = np.zeros(size, np.int64), 1
    for more in codes:
        width = int(more.max(initial=0)) + 2
        if levels * width >= 2**62:
            total = factorized(total)
            levels = int(total.max(initial=0)) + 1
        total, levels = total * width + more + 1, levels * width
    return factorized(total)


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
) -> Observed:
    """The runs of what `compare` takes, those with the levels `where`; raises UsageError for an unknown factor."""
    source = Observed.of(read_data(data, pattern))
    runs = source.runs
    check_levels(where or {})
    for name, wish in (where or {}).items():
        if name not in runs.columns:
            factors = dimensions(runs.columns)
            varying = [f for f in factors if len(runs[f].astype(str).unique()) > 1]
            raise UsageError(f"the runs have no factor {name!r}; {nearest(name, factors, varying)}")
        wishes = {str(level).lower() for level in (*several(wish), *wished(name, wish))}
        runs = runs[[str(plain(v)).lower() in wishes for v in runs[name]]]
    return source if not where else Observed(runs.reset_index(drop=True), source.origin)


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
