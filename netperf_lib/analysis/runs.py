"""A measurement as the analysis takes it: its runs, its factors, and what was declared.

`measurement` gives the runs of `npl.read` every column that a run may have. Nothing behind it asks
again what it was given, which columns there are, or which of them are factors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..data.door import read
from ..data.tables import SCHEMAS
from ..errors import UsageError, did_you_mean
from ..experiment.factors import FACTORS, dimensions, factor
from ..experiment.model import Contrast
from ..experiment.origin import Origin, joined
from ..metrics import ALPHA, METRICS, PAGES, plural

Data: TypeAlias = Any
"""What a person may give: what `npl.read` takes, names with it, or what was observed."""

Levels: TypeAlias = Mapping[str, Any]
"""Levels by factor: those of a side, or those that ``where`` asks for."""
Names: TypeAlias = str | Sequence[str]
"""One name, or several."""
Codes: TypeAlias = Mapping[str, npt.NDArray[np.int64]]
"""The numbers of the levels of several factors, a row for each run."""

MEASUREMENT = "measurement"
"""The factor that tells apart several measurements, such as before and after."""
PAIR = "pair"
"""The factors that describe the two ends of a path are one."""
LENGTHS = ("duration_s", "omit_s")
"""The length of a test is not part of what it measures."""
HOSTS = ("client", "server")
ENDS = (
    ("client_vm_size", "server_vm_size"),
    ("client_region", "server_region"),
    ("client_zone_physical", "server_zone_physical"),
    ("client_zone", "server_zone"),
    HOSTS,
)
"""Factors that describe the two ends of a path: both of a pair split, or none."""
OF_ENDS = frozenset(name for pair in ENDS for name in pair)
"""The factors of either end."""
UNIT = ["experiment", "deployment"]
"""A deployment of an experiment is one draw of where VMs land."""
GIVES = ("tool", "test", "during", "full_rtt")
"""Whether a run gives a metric follows from these."""
MEANS = ("tool", "test", "protocol", "direction")
"""How something was measured splits after what was measured."""
COLUMNS: Mapping[str, Any] = {"run_id": None, "excluded": None, "started_utc": pd.NaT}
"""What a table without this column has in it, where that is no missing number."""
MOST_LEVELS = 12
"""A label with more different fractions is measured, and no factor."""
ROWS_ALONE = (
    "exploratory, for the experiment of these runs declared its contrasts: for verdicts compare "
    "the experiment, and name some of its runs by where=, as in "
    "compare(exp, where={'placement': 'ppg'})"
)
"""Why a table of a declared experiment's runs gets no verdict, and what to type."""


@dataclass(frozen=True, eq=False)
class Measurement:
    """Runs, the factors that describe their conditions, and what was declared before them.

    Attributes
    ----------
    runs : DataFrame
        A row for each attempt at a run: every column of the schema, factors, labels. A null
        status: nobody says whether the run failed.
    factors : tuple of str
        The columns that describe a condition, in the order in which they may split.
    origin : Origin
        Where the runs come from, and what must be said of them.
    contrasts, added : tuple of Contrast
        Declared before the first run, and after it.
    planned : int
        Rounds planned in each deployment; 0: not known.
    sequential : bool
        Whether rounds were added while looking at the results.
    exploratory : bool
        Whether these are rows of an experiment that declared contrasts, without those.
    """

    runs: pd.DataFrame
    factors: tuple[str, ...]
    origin: Origin = field(default_factory=Origin)
    contrasts: tuple[Contrast, ...] = ()
    added: tuple[Contrast, ...] = ()
    planned: int = 0
    sequential: bool = False
    exploratory: bool = False

    @property
    def name(self) -> str:
        """Name of the experiment."""
        return str(self.origin.declared.get("name") or "")

    @property
    def alpha(self) -> float:
        """Share of reports that may contain a false verdict."""
        return float(self.origin.declared.get("alpha") or ALPHA)

    def only(self, where: Levels | None) -> Measurement:
        """Return the measurement with the runs of these levels alone."""
        if not where:
            return self
        check_levels(where)
        runs = self.runs
        for name, wish in where.items():
            if name not in runs:
                raise self._no_factor(name)
            runs = runs[has_level(runs[name], wished(name, wish))]
        return replace(self, runs=runs.reset_index(drop=True), planned=0)

    @property
    def complete(self) -> pd.DataFrame:
        """The runs that count: complete, and not excluded."""
        return self.runs[states(self.runs)[0]]

    @cached_property
    def codes(self) -> Codes:
        """The number of each run's level of every factor; null is −1.

        Numbers are grouped far faster than texts, and every observation groups by them.
        """
        return {name: pd.factorize(self.runs[name])[0] for name in self.factors}

    @cached_property
    def replicate(self) -> pd.Series[int]:
        """The number of each run's deployment, over all experiments."""
        return pd.Series(numbered(self.runs, UNIT), self.runs.index)

    @cached_property
    def trial(self) -> pd.Series[str]:
        """What the attempts at one run have in common."""
        runs = self.runs
        rows = pd.Series(runs.index.astype(str), runs.index)
        if (runs["attempt"] == 1).all():
            return rows
        # two measurements may have the same names
        names = runs["run_id"].fillna(rows).str.replace(r"-a\d+$", "", regex=True)
        return self.replicate.astype(str) + "/" + names

    @cached_property
    def last(self) -> pd.Series[bool]:
        """Which runs are the last attempt."""
        return ~self.trial.duplicated(keep="last")

    @cached_property
    def repeated(self) -> pd.Series[bool]:
        """Which runs were begun anew after an attempt had failed."""
        started = self.runs["started_utc"].notna()
        begun = started | states(self.runs)[0]
        if not started.any():
            begun[:] = True
        # the next attempt does not repeat one that found no host or tool
        return begun & self.trial.where(begun).duplicated(keep=False)

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """The rounds of each deployment: those with any run, and those that were planned."""
        every = {"replicate": self.replicate, "round": self.runs["round"]}
        rounds = pd.DataFrame(every).dropna().drop_duplicates()
        parts = [rounds]
        # a deployment that was cut short lacks the rounds that were planned
        for replicate, known in rounds.groupby("replicate")["round"]:
            planned = np.setdiff1d(np.arange(1.0, self.planned + 1), known)
            lacking = planned[: max(0, self.planned - len(known))]
            parts.append(pd.DataFrame({"replicate": replicate, "round": lacking}))
        return pd.concat(parts, ignore_index=True)

    def measured(self, metrics: Iterable[str]) -> list[str]:
        """Return which of some metrics a run has that counts."""
        known = self.complete.notna().any()
        return [name for name in metrics if known[name]]

    def check_factors(self, names: Iterable[str]) -> None:
        """Raise UsageError for a name that is no factor of these runs, with the nearest ones."""
        for name in names:
            if name not in self.factors:
                raise self._no_factor(name)

    def _no_factor(self, name: str) -> UsageError:
        """Return the error for a name that is no factor of these runs."""
        # a zone is that of the client, or of the server
        ends = [one for one in self.factors if one.endswith(f"_{name}")]
        hint = did_you_mean(name, self.factors).strip()
        if ends:
            hint = f"did you mean {' or '.join(ends)}?"
        if name in METRICS:
            hint = f"that is a metric: write metric={name!r}"
        if not hint:
            roles = ("condition", "host", "observed")
            known = varying(self.runs, self.factors) or self.factors
            hint = f"there are: {', '.join(dimensions(known, roles=roles)) or 'none'}"
        return UsageError(f"no factor {name!r} in these runs; {hint}")


# -- at the door -----------------------------------------------------------------------------------


def measurement(data: Any, pattern: str | None = None) -> Measurement:
    """Return the measurement that a person gave: the one place that asks what it is.

    Several, by their names, are one with the factor `MEASUREMENT`.
    """
    if isinstance(data, Measurement):
        return data
    if isinstance(data, Mapping) and data:
        sides = {str(name): measurement(one, pattern) for name, one in data.items()}
        return together(sides)
    results = read(data, pattern=pattern)
    runs, origin = results.runs, results.origin
    if "status" not in runs and {"percentile", "start_s", "median"} & {*runs}:
        raise UsageError(
            "a table of levels, intervals or percentiles does not hold runs: give the experiment"
        )
    if "run_id" not in runs and runs.columns.name == "condition":
        raise UsageError(
            "rounds down and conditions across are no runs: npl.judge(table, baseline=…, "
            "better=…) judges such a table"
        )
    declared = "declared" in runs and runs["declared"].eq(other=True).any()
    runs = _with_every_column(runs)
    runs["round"] = pd.to_numeric(runs["round"], errors="coerce").astype(float)
    runs["attempt"] = runs["attempt"].fillna(1)
    if MEASUREMENT not in runs and varying(runs, ["experiment"]):
        runs[MEASUREMENT] = runs["experiment"]
    contrasts = results.contrasts
    return Measurement(
        runs=runs,
        factors=factors_of(runs, origin),
        origin=origin,
        contrasts=contrasts,
        added=results.added,
        planned=origin.planned,
        sequential=origin.looked or origin.declared.get("design") == "sequential",
        exploratory=bool(declared) and not contrasts,
    )


def _with_every_column(runs: pd.DataFrame) -> pd.DataFrame:
    """Return a table with every column of a run: a missing one has its default, or no value."""
    runs = runs.reset_index(drop=True)
    defaults = {**dict.fromkeys(SCHEMAS["runs"].names, np.nan), **COLUMNS}
    missing = {name: value for name, value in defaults.items() if name not in runs}
    return pd.concat([runs, pd.DataFrame(missing, index=runs.index)], axis="columns")


def together(sides: Mapping[str, Measurement]) -> Measurement:
    """Return several measurements as one, with the factor `MEASUREMENT`.

    A round belongs to its measurement: whatever their numbers, two are never paired.
    """
    parts, factors = [], [MEASUREMENT]
    for name, side in sides.items():
        # the name of the side is that of its experiment: two may have been called alike
        parts.append(side.runs.assign(**{MEASUREMENT: name, "experiment": name}))
        factors += side.factors
    every = list(sides.values())
    return Measurement(
        runs=pd.concat(parts, ignore_index=True).copy(),
        factors=tuple(dict.fromkeys(factors)),
        origin=joined([side.origin for side in every]),
        planned=min(side.planned for side in every),
        exploratory=any(side.exploratory for side in every),
    )


# -- which columns are factors ---------------------------------------------------------------------


def factors_of(runs: pd.DataFrame, origin: Origin) -> tuple[str, ...]:
    """Return the columns that describe a condition, in the order in which they may split.

    What was declared comes first, then the ends of the path, then how it was measured. A host, a
    length or what was found while measuring comes last: it tells apart runs of one round only. An
    import lists its factors, and a person may edit the list.
    """
    imported = origin.source in ("", "imported")
    listed = origin.declared.get("factors")
    test = numbered(runs, ["tool", "test"])
    ranks: dict[str, float] = {}
    for name in dimensions(map(str, runs), roles=("condition", "host", "observed")):
        if not _is_plain(runs[name]):
            continue
        unlisted = imported and listed is not None and name not in listed
        # what does not vary tells nothing apart
        if unlisted and factor(name).role != "observed" and varying(runs, [name]):
            continue
        ranks[name] = _rank(name)
        if imported and _tells_of_a_test(runs[name], test):
            ranks[name] = 3
    return tuple(sorted(ranks, key=ranks.__getitem__))


def _rank(name: str) -> float:
    """Return the place of a factor among those that may split."""
    if name in HOSTS:
        return 4
    if not factor(name).always_splits:
        return 5
    if name in MEANS:
        return 2
    return int(name in OF_ENDS)


def _is_plain(column: pd.Series) -> bool:
    """Return whether a column has values that can be told apart: no lists, nothing measured."""
    if pd.api.types.is_float_dtype(column) and column.name not in FACTORS:
        return bool(column.nunique() <= MOST_LEVELS)
    if column.dtype != object:
        return True
    try:
        pd.factorize(column)
    except TypeError:
        return False
    return True


def _tells_of_a_test(column: pd.Series, test: npt.NDArray[np.int64]) -> bool:
    """Return whether logs say this of some tests only, such as the size of messages.

    It then follows from the test, and is no level of the others.
    """
    name = str(column.name)
    if name not in FACTORS or name in MEANS or not factor(name).always_splits:
        return False
    if name == "message_bytes":
        return True
    known = column.notna()
    if known.all():
        return False
    if not known.any():
        return True
    return bool(known.groupby(test).nunique().max() == 1)


# -- tables of runs --------------------------------------------------------------------------------


def numbered(table: pd.DataFrame, names: Iterable[str]) -> npt.NDArray[np.int64]:
    """Return the number of the combination of levels of each row, by its first appearance."""
    codes = [pd.factorize(table[name].array)[0] for name in names]
    return combined(codes, len(table))


def combined(codes: Iterable[npt.NDArray[np.int64]], rows: int) -> npt.NDArray[np.int64]:
    """Return the number of the combination of codes of each row, by its first appearance."""
    total = np.zeros(rows, np.int64)
    for code in codes:
        # numbered anew at each step, so that the product does not grow
        total = pd.factorize(total * (np.max(code, initial=0) + 2) + code)[0]
    return total.astype(np.int64)


def varying(table: pd.DataFrame, names: Iterable[str]) -> list[str]:
    """Return which columns have several levels; null is one."""
    return [name for name in names if numbered(table, [name]).any()]


def check_levels(where: Any) -> None:
    """Raise UsageError unless this is a mapping of factors to levels."""
    if isinstance(where, Mapping) and all(isinstance(name, str) for name in where):
        return
    got = type(where).__name__ if isinstance(where, pd.Series) else repr(where)
    raise UsageError(
        f"where is a mapping of factor to level, as in {{'placement': 'ppg'}}; got {got}"
    )


def wished(name: str, wish: Any) -> list[Any]:
    """Return the levels that a value of ``where`` names: one, or several."""
    if not isinstance(wish, list | tuple | set):
        wish = [wish]
    return list(map(factor(name).cast, wish))


def has_level(column: pd.Series, levels: Sequence[Any]) -> npt.NDArray[np.bool_]:
    """Return which rows have one of these levels; None is a null."""
    cast = factor(str(column.name)).cast
    # each level is cast once, and not each run
    codes, found = pd.factorize(column, use_na_sentinel=False)
    return np.array([cast(level) in levels for level in found], bool)[codes]


def states(runs: pd.DataFrame) -> tuple[pd.Series[bool], pd.Series[bool]]:
    """Return which runs are complete and count, and which are excluded for a recorded cause."""
    excluded = runs["excluded"].notna()
    ran = runs["status"].isna() | (runs["status"] == "ok")
    return ran & ~excluded, excluded


def status_counts(runs: pd.DataFrame) -> tuple[int, int, int]:
    """Count runs that are complete, that failed or were cut short, and that are excluded."""
    ok, excluded = (int(state.sum()) for state in states(runs))
    return ok, len(runs) - ok - excluded, excluded


def warned(runs: pd.DataFrame, name: str = "") -> str:
    """Return how many of these runs carry a warning, with a frequent one; empty if none does.

    The collector warns of a busy processor, of segments sent again, of a clock that jumped; a
    reader of what a log leaves open. `name` is what the runs are of.
    """
    told = runs["warnings"].dropna()
    if told.empty:
        return ""
    number = f"{len(told):,} of {plural(len(runs), 'run')}"
    if name:
        number += f" of {name}"
    verb = "carries" if len(told) == 1 else "carry"
    return f"{number} {verb} a warning, such as “{told.value_counts().index[0]}”"


def headline_metrics(data: Any) -> list[str]:
    """Return the headline metrics that the complete runs have, in the order of a report.

    Examples
    --------
    >>> npl.analysis.headline_metrics(exp)
    ['latency_oneway_us', 'throughput_bps']
    """
    known = without_sent(measurement(data).complete).notna().any()
    return [name for name in PAGES if known[name]]


def without_sent(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs with what was sent only where no run of their tool says what arrived."""
    tools = runs.groupby("tool", dropna=False)
    arrived = tools["throughput_bps"].transform("count")
    return runs.assign(throughput_sent_bps=runs["throughput_sent_bps"].mask(arrived > 0))
