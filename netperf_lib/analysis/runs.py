"""The table of runs: which runs count, and which headline metrics they have."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..errors import UsageError, did_you_mean
from ..experiment.factors import FACTORS, NOT_FACTORS, dimensions, factor, plain
from ..experiment.origin import Origin, joined
from ..metrics import METRICS, PAGES, plural

Codes: TypeAlias = npt.NDArray[np.int64]
"""The number of each row's level; -1 stands for null."""
Bools: TypeAlias = npt.NDArray[np.bool_]

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
UNIT = ("experiment", "deployment")


def read_data(data: Any, pattern: str | None = None) -> Any:
    """Read the path of an experiment, a data root, or logs; anything else is given back."""
    if not isinstance(data, str | os.PathLike):
        return data
    # the readers of tables are not needed for runs that are there
    from ..data.imports import are_logs, read_logs
    from ..data.load import read
    from ..data.shipped import located

    return read_logs(data, pattern=pattern) if are_logs(data) else read(located(data)[0])


def table_of(data: Any) -> pd.DataFrame:
    """Return the runs of an experiment, of its folder, or the table that is given."""
    data = read_data(data)
    runs = getattr(data, "runs", data)
    if not isinstance(runs, pd.DataFrame):
        kind = type(data).__name__
        raise UsageError(
            f"expected an experiment, its table of runs, a folder, or several of these; got {kind}"
        )
    if "raw_path" not in runs:
        return runs
    # what was read leaves out the columns without a value
    every = _no_runs()
    # every run has a status: a table without it was cut by hand
    missing = [c for c in every if c not in runs and c != "status"]
    every = every[missing].reindex(runs.index)
    # copied, else pandas warns that the columns lie scattered
    return pd.concat([runs, every], axis="columns").copy() if missing else runs


@cache
def _no_runs() -> pd.DataFrame:
    """Every column of the table of runs, without a row."""
    from ..data.load import data_frame
    from ..data.tables import SCHEMAS

    return data_frame(SCHEMAS["runs"].empty_table()).assign(excluded=None)


def origin_of(data: Any) -> Origin:
    """Return where data come from; of a table that was made by hand the notice of its runs."""
    found = getattr(data, "origin", None)
    if isinstance(found, Origin):
        return found
    runs = getattr(data, "runs", data)
    named = isinstance(runs, pd.DataFrame) and "notice" in runs
    notices = sorted(runs["notice"].dropna().unique()) if named else ()
    return Origin(notice=" ".join(map(str, notices)) or None)


ROWS_ALONE = (
    "exploratory, for the experiment of these runs declared its contrasts: for verdicts compare "
    "the experiment, and name some of its runs by where=, as in "
    "compare(exp, where={'placement': 'ppg'})"
)
"""Why a table of a declared experiment's runs gets no verdict, and what to type."""


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
        data = read_data(data)
        if isinstance(data, Mapping) and data:
            several = {str(name): cls.of(one) for name, one in data.items()}
            parts = [
                one.runs.assign(measurement=n, experiment=n) for n, one in several.items()
            ]
            origin = joined([one.origin for one in several.values()])
            return cls(pd.concat(parts, ignore_index=True).copy(), origin)
        runs, origin = table_of(data), origin_of(data)
        if "status" not in runs and {"percentile", "start_s", "median"} & {*runs}:
            raise UsageError(
                "a table of levels, intervals or percentiles does not hold runs: give the "
                "experiment"
            )
        if MEASUREMENT not in runs and len(set(runs.get("experiment", ()))) > 1:
            runs = runs.copy().assign(measurement=runs["experiment"])
        planned = origin.planned if rounds is None else rounds
        return cls(runs.reset_index(drop=True), origin, planned)

    @property
    def exploratory(self) -> bool:
        """Whether these are rows of an experiment that declared contrasts, without those."""
        if "declared" not in self.runs or self.origin.declared.get("contrasts"):
            return False
        return bool(self.runs["declared"].fillna(value=False).astype(bool).any())

    @cached_property
    def codes(self) -> dict[str, Codes]:
        """The codes of each column that may tell conditions apart."""
        others = {*METRICS, *NOT_FACTORS, "design", "condition"}
        found = {str(c): _codes(self.runs[c]) for c in self.runs if c not in others}
        return {c: codes for c, codes in found.items() if codes is not None}

    @cached_property
    def units(self) -> Codes:
        """The deployment of each run, numbered over all experiments."""
        columns = [self.runs[c] for c in UNIT if c in self.runs]
        return combined(len(self.runs), *map(factorized, columns))

    def joined(self, names: Iterable[str]) -> Codes:
        """Return the codes of the combinations of some columns, of those that there are."""
        return combined(
            len(self.runs), *(self.codes[c] for c in names if c in self.codes)
        )

    def late(self) -> Bools:
        """Return which runs belong to rounds beyond those planned."""
        if not self.planned or "round" not in self.runs:
            return np.zeros(len(self.runs), bool)
        rank = self.runs["round"].groupby(self.units).rank(method="dense")
        return (rank > self.planned).fillna(value=False).to_numpy(bool)


def _codes(column: pd.Series) -> Codes | None:
    """Codes of a column; None where a column of the user's holds lists or measured values."""
    try:
        codes, levels = pd.factorize(column)
    except TypeError:
        return None
    measured = column.name not in FACTORS and pd.api.types.is_float_dtype(column)
    return None if measured and len(levels) > MOST_LEVELS else codes.astype(np.int64)


def factorized(values: Any) -> Codes:
    """Return the code of each value; -1 stands for null."""
    codes: Codes = pd.factorize(values)[0].astype(np.int64)
    return codes


def combined(size: int, *codes: Codes) -> Codes:
    """Return the codes of the combinations of several columns."""
    total, levels = np.zeros(size, np.int64), 1
    for more in codes:
        width = int(more.max(initial=0)) + 2
        if levels * width >= 2**62:
            total = factorized(total)
            levels = size
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
    ok, excluded = states(table_of(data))
    return int(ok.sum()), int((~ok & ~excluded).sum()), int(excluded.sum())


def states(runs: pd.DataFrame) -> tuple[pd.Series[bool], pd.Series[bool]]:
    """Return which runs are complete and count, and which are excluded for a recorded cause."""
    none = pd.Series(data=False, index=runs.index)
    excluded = runs["excluded"].notna() if "excluded" in runs else none
    return (runs["status"] == "ok" if "status" in runs else ~none) & ~excluded, excluded


def ok_runs(data: Any) -> pd.DataFrame:
    """Return the runs that count, of an experiment or its table: complete, and not excluded."""
    runs = table_of(data)
    return runs[states(runs)[0]].copy()


def warned(runs: pd.DataFrame, name: str = "") -> str:
    """Return how many of these runs carry a warning, with a frequent one; empty if none does.

    The collector warns of a busy processor, of segments sent again, of a clock that jumped; a
    reader of what a log leaves open. `name` is what the runs are of.
    """
    if "warnings" not in runs or not runs["warnings"].notna().any():
        return ""
    told = runs["warnings"].dropna()
    whose = f" of {name}" if name else ""
    number = f"{len(told):,} of {plural(len(runs), 'run')}{whose}"
    verb = "carries" if len(told) == 1 else "carry"
    return f"{number} {verb} a warning, such as “{told.value_counts().index[0]}”"


def headline_metrics(data: Any) -> list[str]:
    """Return the headline metrics that the complete runs have, in the order of a report.

    Examples
    --------
    >>> npl.analysis.headline_metrics(exp)
    ['latency_oneway_us', 'throughput_bps']
    """
    complete = without_sent(ok_runs(data))
    return [m for m in PAGES if m in complete and complete[m].notna().any()]


def without_sent(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs with what was sent only where no run of their tool says what arrived."""
    if not {"throughput_bps", "throughput_sent_bps"} <= {*runs}:
        return runs
    arrived = (
        runs["throughput_bps"].groupby(runs["tool"], dropna=False).transform("count") > 0
    )
    return runs.assign(throughput_sent_bps=runs["throughput_sent_bps"].mask(arrived))


def wished(name: str, wish: Any) -> list[Any]:
    """Return the levels that a value of ``where`` names: one, or several."""
    several = wish if isinstance(wish, list | tuple | set) else [wish]
    return [factor(name).cast(w) for w in several]


def has_level(column: pd.Series, levels: Sequence[Any]) -> Bools:
    """Return which rows have one of these levels; None is a null."""
    cast = factor(str(column.name)).cast
    codes, found = pd.factorize(column, use_na_sentinel=False)
    return np.array([cast(level) in levels for level in found], bool)[codes]


def runs_of(
    data: Any, where: Mapping[str, Any] | None = None, pattern: str | None = None
) -> Observed:
    """Return the runs of what `compare` takes, those with the levels `where`."""
    source = Observed.of(read_data(data, pattern))
    runs = source.runs
    check_levels(where or {})
    for name, wish in (where or {}).items():
        if name not in runs:
            raise no_factor(name, runs)
        runs = runs[has_level(runs[name], wished(name, wish))]
    return source if not where else Observed(runs.reset_index(drop=True), source.origin)


def no_factor(name: str, runs: pd.DataFrame) -> UsageError:
    """Return the error for a name that is no factor of these runs."""
    factors = dimensions(map(str, runs), roles=("condition", "host", "observed"))
    parts = [f for f in factors if f.endswith(f"_{name}")]
    hint = f"did you mean {' or '.join(parts)}?" if parts else did_you_mean(name, factors)
    varying = [f for f in factors if len({*map(plain, runs[f])}) > 1]
    hint = hint.strip() or f"there are: {', '.join(varying or factors) or 'none'}"
    return UsageError(f"no factor {name!r} in these runs; {hint}")
