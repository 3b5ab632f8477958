"""Which runs make a condition: the one place that decides it.

A question projects the runs on some factors. Whatever else varies is the residue: it splits the
conditions, and a note says so. Nothing is held at a level or pooled unless ``where`` or ``pool``
says it. The model is the package benchproc of golang.org/x/perf (``Projection``, ``Residue``).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..errors import NothingToReport, UsageError
from ..experiment.factors import (
    FACTORS,
    LOG_NAME,
    Factor,
    factor,
    is_address,
    level_words,
    plain,
    sort_levels,
)
from ..experiment.origin import Origin
from ..metrics import METRICS, PAGES, in_words, plural
from ..metrics import metric as metric_of
from .median_ci import LONG_SERIES, MedianInterval, level
from .runs import (
    ENDS,
    HOSTS,
    MEASUREMENT,
    MOST_LEVELS,
    UNIT,
    Bools,
    Codes,
    Observed,
    check_levels,
    combined,
    factorized,
    has_level,
    no_factor,
    states,
    wished,
)
from .samples import merged
from .tables import Table

if TYPE_CHECKING:
    from ..experiment.model import Contrast


class HasRuns(Protocol):
    """An experiment, several experiments, observations, an answer."""

    @property
    def runs(self) -> pd.DataFrame:
        """The table of runs."""


Data: TypeAlias = "HasRuns | pd.DataFrame | str | os.PathLike[str] | Mapping[str, Any]"
"""What can be observed: an experiment, runs, a folder; or names with them, which adds a factor."""

PAIR = "pair"
"""The factors that describe the two ends of a path are one."""
SEVERAL = "(several)"
"""Stands in `Observations.facts` for a factor that varies within a condition."""
PAIRS = (
    *HOSTS,
    *(f"{host}_{zone}" for zone in ("zone", "zone_physical") for host in HOSTS),
)
"""What ``pool="pairs"`` pools: the hosts, and what follows from them."""
TEXT = "free text, and no factor"
"""How the note about labels ends that are no factors."""
UNBLOCKED = (
    "rounds are not known: each run is a round of its own, and comparisons are not paired"
)

_CARRIED = ("run_id", "started_utc", *UNIT)
"""Columns of the runs that observations have, too."""
_MEANS = ("tool", "test", "protocol", "direction")
_GIVES = ("tool", "test", "during", "full_rtt")
"""Whether a run gives a metric follows from these."""
_SENTENCE, _PHRASE = 5, 3
"""Words of a label that is a sentence; and of one that some runs have and others have not."""
_FIGURES = "n median low high smallest largest confidence".split()
_ORDER = {name: number for number, name in enumerate(FACTORS)}


@dataclass(frozen=True, eq=False)
class Observations:
    """The value of each condition in each round, and how the conditions differ.

    Attributes
    ----------
    metric : str
        What was observed.
    table : DataFrame
        A row for each condition, unit (an experiment's deployment) and round: ``value`` (null:
        none), ``state`` (``ok``, ``failed``, ``missing``), ``run_id``, ``order`` within the round.
    conditions : DataFrame
        A row for each condition, with its name as the index; a column for each factor in `by`.
    by : tuple of str
        The factors asked for, then the other factors that split the conditions.
    asked : tuple of str
        The factors asked for.
    notes : tuple of str
        What split the conditions, what was pooled, and what was left out, computed from the data.
    facts : DataFrame
        The level of every factor, by condition; ``"(several)"`` if it varies within the condition.
    origin : Origin
        Where the runs come from, and what was declared.
    blocked : bool
        Whether rounds are known, so that conditions can be compared within them.
    where : mapping
        Factors held constant, and their levels.
    """

    metric: str
    table: pd.DataFrame
    conditions: pd.DataFrame
    by: tuple[str, ...]
    asked: tuple[str, ...]
    notes: tuple[str, ...]
    facts: pd.DataFrame
    origin: Origin
    blocked: bool
    where: Mapping[str, Any]
    _source: Observed
    _condition: pd.Series
    """The condition of each complete run, by its row in the source."""

    @cached_property
    def runs(self) -> pd.DataFrame:
        """The complete runs, with ``condition`` and ``unit`` as `table` has them."""
        rows = self._condition.index
        runs = self._source.runs.loc[rows].assign(unit=self._source.units[rows])
        return runs.assign(condition=self._condition).reset_index(drop=True)

    @property
    def exploratory(self) -> bool:
        """Whether these are rows of an experiment that declared contrasts, without those."""
        return self._source.exploratory

    @property
    def complete(self) -> pd.DataFrame:
        """The rows of `table` that have a value, by unit and round."""
        rows = self.table[self.table["state"] == "ok"]
        return rows.sort_values(["unit", "round"], kind="stable", ignore_index=True)

    @property
    def wide(self) -> pd.DataFrame:
        """The values: rounds down, conditions across, NaN where there is none.

        With several deployments a row is a deployment and a round.
        """
        table = self.table.astype({"round": int, "condition": object})
        keys = [c for c in UNIT if table[c].nunique() > 1]  # noqa: PD101
        cells = table.set_index([*keys, "round", "condition"])["value"].astype(float)
        wide = cells.unstack("condition")  # noqa: PD010  pivot_table drops rows without a value
        return wide.sort_index().reindex(columns=pd.Index(self.names, name="condition"))

    @property
    def unit(self) -> str:
        """Unit of the metric's stored numbers."""
        return METRICS[self.metric].unit

    @property
    def names(self) -> list[str]:
        """Names of the conditions."""
        return list(self.conditions.index)

    @property
    def factors(self) -> list[str]:
        """What splits the conditions; the columns of the two ends of a path are one, ``pair``."""
        names = (PAIR if any(f in pair for pair in ENDS) else f for f in self.by)
        return list(dict.fromkeys(sorted(names, key=PAIR.__eq__)))

    @cached_property
    def _facts(self) -> dict[Any, dict[Any, Any]]:
        return self.facts.to_dict("index")

    @cached_property
    def _levels(self) -> dict[Any, dict[Any, Any]]:
        return levels(self).to_dict("index")

    def at(self, condition: str, name: str) -> Any:
        """Return the level of a factor in a condition, None if it is not known.

        Of ``pair`` that is the condition.
        """
        return condition if name == PAIR else self._facts[condition].get(name)

    def value(self, condition: str, column: str = "median") -> float:
        """Return a figure of a condition's level, as `levels` calls it."""
        return float(self._levels[condition][column])

    def matching(self, side: Mapping[str, Any]) -> list[str]:
        """Return the conditions that a side of a contrast names."""
        levels = {name: factor(name).cast(wish) for name, wish in side.items()}
        return [
            c for c in self.names if all(self.at(c, f) == v for f, v in levels.items())
        ]

    def condition(self, side: Mapping[str, Any] | None) -> str:
        """Return the condition that a side of a contrast names; empty if several, or none."""
        names = [] if side is None else self.matching(side)
        return names[0] if len(names) == 1 else ""

    def same(self, one: str, two: str, *factors: str) -> bool:
        """Return whether a condition differs from another one in nothing but these factors.

        The two ends of a path are one factor, and all of them are ``pair``. A label that only the
        first one has is no difference, for null means that there is none; but two measurements have
        the same labels, or other conditions.
        """
        ends = {f for pair in ENDS if {PAIR, *pair} & {*factors} for f in pair}
        others = [f for f in self.by if f not in ends and f not in factors]
        differ = [f for f in others if self.at(one, f) != self.at(two, f)]
        whole = MEASUREMENT in factors
        return not [
            f for f in differ if whole or not is_label(f) or self.at(two, f) is not None
        ]

    def only(self, names: Mapping[str, str] | Collection[str]) -> Observations:
        """Return the observations of these conditions alone; a mapping gives them other names."""
        called = names if isinstance(names, Mapping) else {name: name for name in names}
        chosen = [c for c in self.names if c in called]
        index = pd.Index([called[c] for c in chosen], name="condition", dtype=object)

        def part(column: pd.Series) -> pd.Series:
            column = column[column.isin(chosen)]
            return column.cat.set_categories(chosen).cat.rename_categories([*index])

        column = part(self.table["condition"])
        return replace(
            self,
            table=self.table.loc[column.index].assign(condition=column),
            conditions=self.conditions.loc[chosen].set_axis(index),
            facts=self.facts.loc[chosen].set_axis(index),
            _condition=part(self._condition),
        )

    def main(self, contrasts: Sequence[Contrast] = ()) -> Observations:
        """Return the conditions that a figure shows: see `usual`. What all share goes unsaid."""
        small = self.only(self.usual(self.asked, contrasts))
        varying = [f for f in self.by if len(set(small.conditions[f])) > 1]
        return small.only(level_names(small, varying)) if varying else small

    def usual(
        self, factors: Sequence[str], contrasts: Sequence[Contrast] = ()
    ) -> list[str]:
        """Return the conditions in which some factors are looked at; every other is at one level.

        That is the level that all `contrasts` name, else one at which most levels of these factors
        were measured, the ordinary one first. Hosts and their properties stay, and so does a label
        where there is no such level: the gateway of a path.
        """
        names = [c for c in self.names if c in {*self.complete["condition"]}]
        sides = [
            side
            for c in contrasts
            if c.metric == self.metric
            for side in (c.a, c.b or {})
        ]
        for name in self.by:
            if name in factors or name.startswith(HOSTS):
                continue
            named = [side.get(name, SEVERAL) for side in sides]
            measured: dict[Any, list[tuple[Any, ...]]] = {}
            for c in names:
                combination = tuple(self.at(c, f) for f in factors)
                measured.setdefault(self.at(c, name), []).append(combination)

            def weight(level: Any) -> tuple[Any, ...]:
                agreed = {*named} == {level}  # noqa: B023  called in this turn
                ordinary = level in (None, factor(name).ordinary)  # noqa: B023
                rows = measured[level]  # noqa: B023
                return agreed, len({*rows}), level in named, ordinary, len(rows)  # noqa: B023

            best = max(measured, key=weight, default=None)
            there = measured.get(best, ()) if is_label(name) and factors else None
            names = [
                c
                for c in names
                if self.at(c, name) == best
                or (
                    there is not None
                    and tuple(self.at(c, f) for f in factors) not in there
                )
            ]
        return names

    def __repr__(self) -> str:
        what = f"{plural(len(self.names), 'condition')} by {', '.join(self.by)}"
        return "\n  ".join([f"<{self.metric}: {what}>", *self.notes])


def observe(
    data: Data,
    metric: str | None = None,
    by: str | Sequence[str] = (),
    *,
    where: Mapping[str, Any] | None = None,
    pool: str | Sequence[str] = (),
) -> Observations:
    """Project runs on factors: what each condition gave in each round.

    Every factor that varies splits the conditions, unless `by`, `where` or `pool` names it.

    Parameters
    ----------
    data : Results, DataFrame or path
        An experiment, its runs (all, or some of them), or a folder. A mapping of names to these
        adds the factor ``measurement``, as in ``{"before": "results/may", "after":
        "results/june"}``. Observations and answers are returned unchanged; another metric or factor
        is then an error.
    metric : str
        The metric; needed unless `data` was observed already.
    by : str or sequence of str
        The factors that are asked about.
    where : mapping, optional
        Factor and level, or a list of levels: only these runs.
    pool : str or sequence of str
        Factors that must not split, or ``"pairs"`` for the two hosts and their zones: the runs of a
        round are merged to their geometric mean.

    Returns
    -------
    Observations
        A row for each condition and round, the conditions, and notes.

    Raises
    ------
    UsageError
        Unknown metric, factor or level, with the nearest ones; a factor that does not vary, with
        those that do; no complete run has a value.

    Examples
    --------
    >>> obs = observe("data/recorded/lab-full", "throughput_bps", by="streams")
    >>> obs.by
    ('streams', 'placement', 'accelerated', 'tcp_buffer_bytes', 'during')
    """
    asked, pool, where = as_tuple(by), as_tuple(pool), where or {}
    inside = getattr(data, "observations", data)  # those of an answer
    if isinstance(inside, Observations):
        other = metric not in (None, inside.metric) or {*asked} - {*inside.by}
        if other or where or pool:
            raise UsageError(
                f"these are observations of {inside.metric}: give the experiment"
            )
        return inside
    if metric is None or metric in FACTORS:
        named = f"{metric!r} is a factor, not a metric: " if metric else ""
        raise UsageError(f"{named}name a metric, for example 'throughput_bps'")
    metric_of(metric)  # an unknown one is an error with the nearest names
    check_levels(where)
    source = Observed.of(data)
    known = (*PAIRS, MEASUREMENT)  # which there need not be
    every = (f for p in pool for f in (PAIRS if p == "pairs" else (p,)))
    pooled = [f for f in every if f in source.codes or f not in known]
    if unknown := [f for f in (*asked, *where, *pooled) if f not in source.codes]:
        raise no_factor(unknown[0], source.runs)
    chosen = select_runs(source, metric, where)
    by, notes = choose_factors(chosen, metric, asked, pooled)
    condition, facts = name_conditions(chosen, by)
    table, counted = tabulate(chosen, condition, facts, by, pooled)
    complete = chosen.rows[chosen.ok]
    return Observations(
        metric=metric,
        table=table,
        conditions=facts[by],
        by=tuple(by),
        asked=asked,
        notes=(*chosen.notes, *notes, *counted),
        facts=facts,
        origin=source.origin,
        blocked=chosen.blocked,
        where=where,
        _source=source,
        _condition=_named(condition[chosen.ok], facts, complete),
    )


def levels(
    data: Data,
    metric: str | None = None,
    by: str | Sequence[str] = (),
    *,
    where: Mapping[str, Any] | None = None,
) -> Table:
    """Return the level of each condition: its median, with interval, range and counts.

    Parameters
    ----------
    data, metric, by, where
        As `observe` takes them; or the result of `observe` alone.

    Returns
    -------
    DataFrame
        A row for each condition, with its name as the index: its levels, ``n``, ``median``,
        ``low``, ``high``, ``smallest``, ``largest``, ``confidence`` (the actual one of the
        interval), ``failed``, ``missing``. A single observation has no interval.

    Raises
    ------
    UsageError
        See `observe`.

    Examples
    --------
    >>> table = levels("data/recorded/lab-full", "throughput_bps", by="streams")
    >>> set(table["n"])
    {12}
    """
    obs = observe(data, metric, by, where=where)
    # pandas takes its time for every column
    complete = obs.complete[["condition", "unit", "started_utc", "value"]]
    groups = complete.groupby("condition", sort=False, observed=True)
    figures = {name: _figures(rows) for name, rows in groups}
    rows = [figures.get(name, {"n": 0}) for name in obs.names]
    table = pd.DataFrame(rows, obs.conditions.index, _FIGURES)
    states = pd.crosstab(obs.table["condition"], obs.table["state"])
    states = states.reindex(table.index, columns=["failed", "missing"], fill_value=0)
    return Table.of(
        pd.concat([obs.conditions, table, states], axis=1),
        metric=obs.metric,
        deployments=obs.table["unit"].nunique(),
        notice=obs.origin.notice,
    )


def _figures(rows: pd.DataFrame) -> dict[str, Any]:
    x, found = rows["value"], level_of(rows)
    ends = {name: getattr(found, name) for name in ("low", "high", "confidence")}
    ends |= {"smallest": x.min(), "largest": x.max()}
    return {"n": len(x), "median": found.median} | (ends if len(x) > 1 else {})


def level_of(rows: pd.DataFrame) -> MedianInterval:
    """Return the level of one condition from its complete observations.

    The one place that says what is counted.

    With several deployments these are the replicates; from `median_ci.LONG_SERIES` runs the hours
    are, if known.
    """
    started, hours = rows["started_utc"] if len(rows) >= LONG_SERIES else None, None
    if started is not None and started.notna().all() and hasattr(started, "dt"):
        hours = np.asarray(started.dt.tz_localize(None), dtype="datetime64[h]")
    values = rows["value"].astype(float)
    return level(values, units=rows["unit"], hours=hours)


def describe(obs: Observations) -> str:
    """Describe in a sentence what was observed: metric, tools, conditions, rounds."""
    info, runs, table = metric_of(obs.metric), obs.runs, obs.complete
    # some logs do not say which test they are of
    names = runs[["tool", "test"]].astype(object).fillna("").drop_duplicates()
    tests = sorted(" ".join(name).strip() for name in names.itertuples(index=False))
    found = (
        plural(len({*table["condition"]}), "condition"),
        plural(table["round"].nunique(), "round"),
        plural(table["unit"].nunique(), "deployment"),
        plural(len(table), "complete run"),
    )
    better = f" {info.better.capitalize()} is better." if info.better else ""
    new = info.basis and info.basis not in info.label.lower()
    basis = f" ({info.basis})" if new else ""
    label = f"{info.label}{basis}, measured by {' and '.join(tests)}"
    return f"{label}: {in_words(found)}.{better}"


def as_tuple(names: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the names as they may be given: one, several, or none; each once."""
    return (
        (names,)
        if isinstance(names, str)
        else tuple(dict.fromkeys(map(str, names or ())))
    )


def is_label(name: str) -> bool:
    """Return whether a factor is a label of which null means that there is none."""
    return factor(name).null == "none" and (name not in FACTORS or name == "gateway_sku")


# -- which runs ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Selection:
    """The runs that are observed.

    The arrays have an entry for each of them, in the order of `rows`.

    Attributes
    ----------
    source : Observed
    rows : array of int
        Where each run stands in the table of the source.
    value : array of float
    ok : array of bool
        Which runs have a value.
    round : array of float
    blocked : bool
        Whether rounds are known.
    excluded : array of int
        Where the runs stand that are left out for a recorded cause.
    repeated : array of bool
        Which runs were begun anew after an attempt had failed.
    notes : tuple of str
    """

    source: Observed
    rows: Codes
    value: npt.NDArray[np.float64]
    ok: Bools
    round: npt.NDArray[np.float64]
    blocked: bool
    excluded: Codes
    repeated: Bools
    notes: tuple[str, ...]

    @cached_property
    def codes(self) -> dict[str, Codes]:
        """The codes of each column that varies among these runs."""
        found = {c: codes[self.rows] for c, codes in self.source.codes.items()}
        return {c: part for c, part in found.items() if (part != part[0]).any()}

    @cached_property
    def block(self) -> Codes:
        """The deployment and round of each run."""
        return combined(
            len(self.rows), self.source.units[self.rows], factorized(self.round)
        )

    def joined(self, names: Iterable[str], *more: Codes) -> Codes:
        """Return the codes of the combinations of some columns."""
        return combined(
            len(self.rows), *more, *(self.codes[c] for c in names if c in self.codes)
        )

    def levels(self, name: str) -> pd.Series:
        """Return the levels of a factor, with nulls."""
        return self.source.runs[name].iloc[self.rows]


def _numbers(runs: pd.DataFrame, name: str) -> npt.NDArray[np.float64]:
    if name not in runs:
        return np.full(len(runs), np.nan)
    return pd.to_numeric(runs[name], errors="coerce").to_numpy(float, na_value=np.nan)


def select_runs(source: Observed, metric: str, where: Mapping[str, Any]) -> Selection:
    """Return the runs of the tests that give a metric: only these can fail at giving it."""
    runs = source.runs
    ran, excluded = (rows.to_numpy(bool) for rows in states(runs))
    value = _numbers(runs, metric)
    ok = ran & np.isfinite(value)
    fine, coarse = source.joined(_GIVES), source.joined(_GIVES[:2])
    gives = np.isin(fine, fine[ok])
    if not gives.any():
        measured = [m for m in METRICS if m in runs and runs[m][ran].notna().any()]
        names = ", ".join([m for m in measured if m in PAGES] or measured) or "none"
        raise NothingToReport(
            f"no complete run has a value of {metric}; there are: {names}"
        )
    never_ran = ~np.isin(fine, fine[ran])
    use = (gives | (never_ran & np.isin(coarse, coarse[gives]))) & ~excluded
    repeated = np.zeros(len(runs), bool)
    if (_numbers(runs, "attempt") > 1).any() and "run_id" in runs:
        # the next attempt does not repeat one that found no host or tool
        started = runs.reindex(columns=["started_utc"])["started_utc"].notna()
        begun = started | ran | (not started.any())
        trial = runs["run_id"].str.replace(r"-a\d+$", "", regex=True)
        repeated = (begun & trial.where(begun).duplicated(keep=False)).to_numpy(bool)
        use &= ~trial.duplicated(keep="last").to_numpy()
    for name, wish in where.items():
        levels = sort_levels(name, map(factor(name).cast, runs[name][use].unique()))
        if strange := [w for w in wished(name, wish) if w not in levels]:
            raise NothingToReport(
                f"{name} is never {strange[0]!r} in runs of {metric}; "
                f"it is {', '.join(map(factor(name).level_words, levels))}"
            )
        use &= has_level(runs[name], wished(name, wish))
    rows, number = np.flatnonzero(use), _numbers(runs, "round")
    blocked, dropped = bool(np.isfinite(number).all()), int((excluded & gives).sum())
    return Selection(
        source=source,
        rows=rows,
        value=value[rows],
        ok=ok[rows],
        round=number[rows] if blocked else rows.astype(float),
        blocked=blocked,
        excluded=np.flatnonzero(excluded),
        repeated=repeated[rows],
        notes=(f"{plural(dropped, 'excluded run')} left out",) if dropped else (),
    )


# -- what splits ---------------------------------------------------------------------------------


# -- what splits ---------------------------------------------------------------------------------


def choose_factors(
    runs: Selection, metric: str, asked: Sequence[str], pooled: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the factors that split, those asked for first, and what must be said of the others."""
    codes, notes = runs.codes, list[str]()
    if fixed := [name for name in asked if name not in codes]:
        others = sorted((c for c in codes if factor(c).always_splits), key=_rank)
        hint = f"these do: {', '.join(others) or 'none'}"
        raise NothingToReport(f"{fixed[0]} does not vary in runs of {metric}; {hint}")
    if texts := [c for c in codes if c not in asked and _is_text(runs, c)]:
        notes.append(f"{_labels(texts)} {'are' if len(texts) > 1 else 'is'} {TEXT}")
    chosen = list(asked)
    # what follows from a pooled factor is pooled with it; but hosts determine everything
    group = runs.joined([*chosen, *(c for c in pooled if c not in PAIRS)])
    hosts = runs.joined(pooled)
    for names in _candidates(runs, {*asked, *pooled, *texts}):
        one, code = factor(names[0]), runs.joined(names) if names[1:] else codes[names[0]]
        if names[0] in HOSTS and _are_ephemeral(runs, names, group, code):
            notes.append("addresses of hosts change from run to run, and split nothing")
        elif _splits(runs, one, group, hosts, code):
            chosen += names
            group = runs.joined(names, group)
        elif one.role == "observed" and _varies(code, group, hosts, null_is_level=False):
            notes.append(f"{_labels(names[:1])} changes between rounds of one condition")
    if asked and (residue := chosen[len(asked) :]):
        verb = "varies" if len(residue) == 1 else "vary"
        notes.append(
            f"{_labels(residue)} {verb} too: each level is a condition of its own"
        )
    return chosen, notes


def _rank(name: str) -> tuple[bool, float]:
    """Order of factors in a name: that of the list, a user's before the hosts.

    Tool and test last.
    """
    return name in _MEANS, _ORDER.get(name, _ORDER["client"] - 0.5)


def _labels(names: Iterable[str]) -> str:
    return in_words((factor(name).label or name).replace("_", " ") for name in names)


def _varies(codes: Codes, *groups: Codes, null_is_level: bool) -> bool:
    """Whether a column has several levels within any group."""
    group = combined(len(codes), *groups) if groups[1:] else groups[0]
    rows = slice(None) if null_is_level else codes >= 0
    group, held = group[rows], codes[rows]
    first = np.empty(int(group.max(initial=0)) + 1, np.int64)
    first[group] = held
    return bool((first[group] != held).any())


def _is_text(runs: Selection, name: str) -> bool:
    """Whether a label of the user's is free text: a sentence, or a value for each run or round."""
    if name in FACTORS or name in (MEASUREMENT, LOG_NAME):
        return False
    codes, size = runs.codes[name], len(runs.rows)
    held = codes >= 0
    values = runs.levels(name).dropna().unique()
    longest = max((len(str(value).split()) for value in values), default=0)
    if longest >= (_SENTENCE if held.all() else _PHRASE):
        return True
    number, rounds, blocks = len(values), len({*runs.block}), runs.block[held]
    of_rounds = 1 < rounds < size and number == rounds == len({*blocks})
    if (
        runs.blocked
        and of_rounds
        and not _varies(codes[held], blocks, null_is_level=True)
    ):
        return True
    others = [c for c in runs.codes if c in FACTORS and factor(c).always_splits]
    repeated = bool(others) and len({*runs.joined(others)}) < size
    return number == size and (number > MOST_LEVELS or repeated)


def _are_ephemeral(
    runs: Selection, names: Sequence[str], group: Codes, code: Codes
) -> bool:
    """Whether hosts are addresses of which one has a single run: pods get new ones each time."""
    if runs.blocked or not _varies(code, group, null_is_level=False):
        return False
    levels = {level for name in names for level in runs.levels(name).dropna()}
    counts = np.bincount(combined(len(code), group, code)[code >= 0])
    return all(map(is_address, levels)) and bool((counts == 1).any())


def _candidates(runs: Selection, others: Collection[str]) -> list[tuple[str, ...]]:
    """Factors that may split, in order; both hosts are one, and so is a property of both."""
    names = sorted((c for c in runs.codes if c not in others), key=_rank)
    pairs = [
        tuple(c for c in pair if c in names)
        for pair in ENDS
        if "_zone_physical" not in pair[0]
    ]
    alone = [c for c in names if all(c not in pair for pair in pairs)]
    # what a log says of some tests only tells the tests apart, and is no level of the others
    imported = runs.source.origin.source in ("", "imported")
    kinds: tuple[list[tuple[str, ...]], ...] = [], [], [], []
    for c in alone:
        always = factor(c).always_splits
        stated = always and imported and c in FACTORS and _follows_test(runs, c)
        kinds[1 if c in _MEANS else 3 if not always else 2 if stated else 0].append((c,))
    first, means, told, last = kinds
    return [c for c in (*first, *pairs[:-1], *means, *told, pairs[-1], *last) if c]


def _follows_test(runs: Selection, name: str) -> bool:
    """Whether a factor stands in all runs of a test or in none, as the size of messages does."""
    held = (runs.codes[name] >= 0).astype(np.int64)
    partial = not held.all() and not _varies(
        held, runs.joined(_MEANS[:2]), null_is_level=True
    )
    return partial or name == "message_bytes"


def _splits(
    runs: Selection, one: Factor, group: Codes, hosts: Codes, code: Codes
) -> bool:
    unknown = one.null == "unknown"
    if one.always_splits and _varies(code, group, null_is_level=not unknown):
        return True
    if not runs.blocked:  # without rounds, other hosts are another path
        return one.name in HOSTS and _varies(code, group, null_is_level=False)
    if one.always_splits and not unknown:
        return False
    # a null between rounds says nothing; two runs of a round, one with a null, are two conditions
    return _varies(code, group, hosts, runs.block, null_is_level=True)


# -- what they are called ------------------------------------------------------------------------


def name_conditions(runs: Selection, chosen: Sequence[str]) -> tuple[Codes, pd.DataFrame]:
    """Return the condition of each run, and their facts in the order of their levels."""
    every, codes = runs.source.runs, runs.joined(chosen)
    first = np.unique(codes, return_index=True)[1]
    rows = runs.rows[first]
    held = {c: [plain(v) for v in every[c].array.take(rows)] for c in runs.source.codes}
    for c, levels in runs.codes.items():
        for i in {*codes[levels != levels[first][codes]]}:
            held[c][i] = SEVERAL
    given = list(dict.fromkeys(every.get(MEASUREMENT, ())))

    def key(number: int) -> list[Any]:
        at = [(f, held[f][number]) for f in chosen]
        return [
            (given.index(v),) if f == MEASUREMENT else factor(f).key(v) for f, v in at
        ]

    order = sorted(range(len(first)), key=key)
    # one array, as pandas takes its time for every column
    levels = np.array([*held.values()], dtype=object).T
    facts = pd.DataFrame(levels[order], columns=[*held], dtype=object)
    names = condition_names(facts, chosen, runs.codes)
    facts.index = pd.Index(names, name="condition", dtype=object)
    return np.argsort(order)[codes], facts


def _named(condition: Codes, facts: pd.DataFrame, rows: Any = None) -> pd.Series:
    """The names of conditions that are given by number."""
    categories = pd.CategoricalDtype([*facts.index], ordered=True)
    names = pd.Categorical.from_codes(condition, dtype=categories)
    return pd.Series(names, rows)


def level_names(obs: Observations, names: Sequence[str]) -> dict[str, str]:
    """Return what to call each condition by the levels of these factors alone."""
    return _level_names(obs, tuple(names))


@lru_cache(maxsize=64)  # a thousand comparisons ask for the same
def _level_names(obs: Observations, names: tuple[str, ...]) -> dict[str, str]:
    levels = {str(c): set(column) for c, column in obs.facts.items()}
    varying = [c for c, held in levels.items() if len(held) > 1 or SEVERAL in held]
    return dict(zip(obs.names, condition_names(obs.facts, names, varying), strict=True))


def condition_names(
    facts: pd.DataFrame, by: Sequence[str], varying: Collection[str]
) -> list[str]:
    """Return the name of each condition: its levels in words.

    Ordinary ones go unsaid where the rest is unique. Without a factor all have one name: their
    placement, where it is known.
    """
    if not by:
        [place, *others] = {*facts.get("placement", [None])}
        return [str("all runs" if others or place in (None, SEVERAL) else place)] * len(
            facts
        )
    ends = {}
    for name in by:
        host, under, what = name.partition("_")
        pair = [f"{host}{under}{what}" for host in HOSTS]
        if host in HOSTS and all(p in by or p not in varying for p in pair):
            ends[name] = pair
    full, short = [], []
    for at in facts.to_dict("records"):
        words = dict[str, tuple[str, bool]]()
        for name in sorted(by, key=_rank):
            if name not in ends:
                # of a probe beside a load, whose own streams its name tells
                beside = name == "streams" and at.get("during")
                usual = (None, 1 if beside else factor(name).ordinary)
                words[name] = level_words(name, at[name]), at[name] not in usual
                continue
            one, two = map(at.get, ends[name])
            path = (
                f"{one} → {two}" if one and two else f"from {one}" if one else f"to {two}"
            )
            if one or two:
                zone = "zone " if name.endswith("_zone") else ""
                words[ends[name][0]] = f"{zone}{path}", True
        full.append(", ".join(word for word, _ in words.values()) or "unknown")
        short.append(", ".join(word for word, said in words.values() if said) or full[-1])
    unique = Counter(called for called, _ in {*zip(short, full, strict=True)})
    return [s if unique[s] == 1 else f for s, f in zip(short, full, strict=True)]


# -- what they gave ------------------------------------------------------------------------------


# -- what they gave ------------------------------------------------------------------------------


def tabulate(
    runs: Selection,
    condition: Codes,
    facts: pd.DataFrame,
    chosen: Sequence[str],
    pooled: Sequence[str],
) -> tuple[pd.DataFrame, list[str]]:
    """Return an observation for each condition and round, a row for each missing one, and notes."""
    every, notes = runs.source.runs, list[str]()
    cell = combined(len(runs.rows), condition, runs.block)
    at, size = np.unique(cell, return_index=True)[1], np.bincount(cell)
    rows, complete = runs.rows[at], np.bincount(cell, weights=~runs.ok) == 0
    value, most = runs.value[at], int(size.max())
    if most > 1:
        _refuse_collisions(runs, cell, pooled)
        part, ok = runs.joined(pooled, condition), runs.ok
        cells, which = np.unique(cell[ok], return_inverse=True)
        mean = np.full(len(size), np.nan)
        mean[cells] = merged(runs.value[ok], which, part[ok], condition[ok])
        value = np.where(size == 1, value, mean)
    if most > 1 and pooled:
        names = ", ".join(_labels([name]) for name in pooled)
        notes.append(f"pooled: {names}: geometric mean of up to {most} runs of a round")
    table = pd.DataFrame(
        {
            "condition": _named(condition[at], facts),
            "unit": runs.source.units[rows],
            "round": runs.round[at],
            "value": np.where(complete, value, np.nan),
            # where nobody says that a run failed, a null is a value that is missing
            "state": np.where(
                complete, "ok", "failed" if "status" in every else "missing"
            ),
            "order": _numbers(every, "order")[rows],
            "repeated": runs.repeated[at],
        }
        | {c: every[c].array.take(rows) if c in every else None for c in _CARRIED}
    )
    if runs.blocked and runs.source.origin.source != "imported":
        table = _with_missing(runs, table, facts, chosen)
    counts = table["state"].value_counts()
    states = [s for s in ("failed", "missing") if s in counts]
    notes += [f"{plural(int(counts[s]), 'observation')} {s}" for s in states]
    return table, notes if runs.blocked else [*notes, UNBLOCKED]


def _refuse_collisions(runs: Selection, cell: Codes, pooled: Sequence[str]) -> None:
    """Raise UsageError where two complete runs of a round differ in nothing known."""
    several = np.flatnonzero(np.bincount(cell[runs.ok]) > 1)
    if pooled or not several.size:
        return
    one = (cell == several[0]) & runs.ok
    every, rows = runs.source.runs, runs.rows[one]
    ids = every["run_id"].iloc[rows] if "run_id" in every else rows
    raise UsageError(
        f"{in_words(map(str, ids))} differ in nothing known, and are of one round "
        f"({runs.round[one][0]:g}): label what they differ in, or leave the round out"
    )


def _with_missing(
    runs: Selection, table: pd.DataFrame, facts: pd.DataFrame, chosen: Sequence[str]
) -> pd.DataFrame:
    """Add a row for each round of a deployment that lacks a condition that was measured there."""
    source, number = runs.source, _numbers(runs.source.runs, "round")
    cells = ["condition", "unit", "round"]
    known = {*table[cells].itertuples(index=False, name=None)}
    # what was excluded for a recorded cause is neither there nor missing
    names = {tuple(at): name for name, *at in facts[[*chosen]].itertuples(name=None)}
    for row in runs.excluded:
        levels = tuple(plain(source.runs[c].iloc[row]) for c in chosen)
        known.add((names.get(levels), source.units[row], number[row]))
    lost = []
    for unit, here in table.groupby("unit"):
        rounds = {*number[source.units == unit]}
        more = [r for r in range(1, source.planned + 1) if r not in rounds]
        rounds |= {*more[: max(0, source.planned - len(rounds))]}
        every = product(here["condition"].unique(), [unit], sorted(rounds))
        lost += [one for one in every if one not in known]
    if not lost:
        return table
    missing = pd.DataFrame(lost, columns=cells).merge(
        table[["unit", *UNIT]].drop_duplicates("unit")
    )
    missing = missing.assign(value=np.nan, order=np.nan, state="missing", repeated=False)
    missing["condition"] = missing["condition"].astype(table["condition"].dtype)
    return pd.concat([table, missing], ignore_index=True)
