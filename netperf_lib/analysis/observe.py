"""Which runs make a condition: the one place that decides it.

A question projects the runs on some factors. Whatever else varies is the residue: it splits the conditions, and a note
says so. Nothing is held at a level or pooled unless ``where`` or ``pool`` says it. The model is the package benchproc
of golang.org/x/perf (``Projection``, ``Residue``).
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..errors import NothingToReport, UsageError, no_table
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
from .median_ci import LONG_SERIES, Level, level
from .runs import (
    ENDS,
    HOSTS,
    MEASUREMENT,
    MOST_LEVELS,
    Codes,
    Observed,
    check_levels,
    combined,
    factorized,
    nearest,
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


Data: TypeAlias = (
    "HasRuns | pd.DataFrame | str | os.PathLike[str] | Sequence[Any] | Mapping[str, Any]"
)
"""What can be observed: an experiment, runs, a folder; several of them; or names with them, which adds a factor."""

PAIR = "pair"
"""The factors that describe the two ends of a path are one."""
SEVERAL = "(several)"
"""Stands in `Observations.facts` for a factor that varies within a condition."""
POOLS = {
    "pairs": (
        "client",
        "server",
        "client_zone",
        "server_zone",
        "client_zone_physical",
        "server_zone_physical",
    ),
    "measurements": (MEASUREMENT,),
}
"""Names for several factors that are pooled together."""

TEXT = "free text, and no factor"
"""How the note about labels ends that are no factors."""
UNBLOCKED = "rounds are not known: each run is a round of its own, and comparisons are not paired"

_CARRIED = ("run_id", "started_utc", "experiment", "deployment", "client", "server")
"""Columns of the runs that observations have, too."""
_PROPERTIES = ("vm_size", "region", "zone")
_MEANS = ("tool", "test", "protocol", "direction")
_MOST_LEVELS = 12
"""A column of the user's with more different fractions, or values of one run each, is no factor."""
_SENTENCE, _PHRASE = 5, 3
"""Words of a label that is a sentence; and of one that some runs have and others have not."""


@dataclass(frozen=True, eq=False)
class Observations:
    """The value of each condition in each round, and how the conditions differ.

    Attributes
    ----------
    metric : str
        What was observed.
    table : DataFrame
        A row for each condition, unit (an experiment's deployment) and round: ``value`` (null: none), ``state``
        (``ok``, ``failed``, ``missing``), ``run_id``, ``order`` within the round.
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
    _source: Observed = field(repr=False)
    _rows: Codes = field(repr=False)
    _names: npt.NDArray[np.object_] = field(repr=False)
    _cache: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def runs(self) -> pd.DataFrame:
        """The complete runs behind the observations, with the name of their condition in the column ``condition``."""
        runs = self._source.runs.iloc[self._rows].reset_index(drop=True)
        return runs.assign(condition=self._ordered(self._names))

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What `make` returns, made once: a thousand comparisons ask for the same."""
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]

    def matching(self, side: Mapping[str, Any]) -> tuple[str, ...]:
        """The conditions that a side of a contrast names."""
        names: tuple[str, ...] = self.once(
            ("matching", frozenset(side.items())), lambda: self._matching(side)
        )
        return names

    def _matching(self, side: Mapping[str, Any]) -> tuple[str, ...]:
        rows = np.ones(len(self.facts), bool)
        for name, wish in side.items():
            level = factor(name).cast(wish)
            rows &= [plain(v) == level for v in self.facts.get(name, [None] * len(rows))]
        return tuple(map(str, self.facts.index[rows]))

    def condition(self, side: Mapping[str, Any] | None) -> str:
        """The one condition that a side of a contrast names; empty if it names several, or none."""
        names = () if side is None else self.matching(side)
        return names[0] if len(names) == 1 else ""

    def __getattr__(self, name: str) -> Any:
        if hasattr(pd.DataFrame, name) and not name.startswith("_"):
            raise no_table("an observation", name, "obs.table")
        raise AttributeError(f"an observation has no {name!r}; did you mean obs.table or obs.wide?")

    @property
    def wide(self) -> pd.DataFrame:
        """The values: rounds down, conditions across, NaN where there is none.

        With several deployments a row is a deployment and a round.
        """
        table = self.table
        several = [c for c in ("experiment", "deployment") if len(table[c].dropna().unique()) > 1]
        keys = {c: table[c] for c in several}
        keys["round"] = table["round"].astype(int)
        keys["condition"] = table["condition"].astype(str)
        index = pd.MultiIndex.from_frame(pd.DataFrame(keys))
        values = pd.Series(table["value"].to_numpy(float), index)
        wide = values.unstack("condition")  # noqa: PD010  pivot_table drops rows without a value
        return wide.sort_index().reindex(columns=pd.Index(self.names, name="condition"))

    @property
    def unit(self) -> str:
        """Unit of the metric's stored numbers."""
        return METRICS[self.metric].unit

    @property
    def names(self) -> list[str]:
        """Names of the conditions."""
        return list(map(str, self.conditions.index))

    @cached_property
    def _levels(self) -> dict[str, dict[str, Any]]:
        return _by_name(self.conditions)

    @cached_property
    def _facts(self) -> dict[str, dict[str, Any]]:
        return _by_name(self.facts)

    @cached_property
    def _figures(self) -> dict[str, dict[str, Any]]:
        return _by_name(levels(self))

    def value(self, condition: str, column: str = "median") -> float:
        """A figure of a condition's level, as `levels` calls it."""
        return float(self._figures[condition][column])

    def fact(self, condition: str, name: str) -> Any:
        """Level of any factor in a condition; None if it is not known."""
        return plain(self._facts[condition].get(name))

    def at(self, condition: str, name: str) -> Any:
        """Level of a factor that splits; of the factor ``pair`` that is the condition."""
        return condition if name == PAIR else self._levels[condition][name]

    @property
    def factors(self) -> list[str]:
        """What splits the conditions; the columns that describe the two ends of a path are one factor, ``pair``."""
        ends = [f for f in self.by if any(f in pair for pair in ENDS)]
        return [f for f in self.by if f not in ends] + ([PAIR] if ends else [])

    def other_factors(self, name: str) -> list[str]:
        """The factors that split besides this one."""
        return [f for f in self.factors if f not in (name, PAIR)]

    def varying(self, name: str) -> list[str]:
        """The other factors that vary among the conditions in which this one varies."""

        def others() -> list[str]:
            wide = [
                c
                for c in self.names
                if any(c != d and self.same(c, d, name, PAIR) for d in self.names)
            ]
            return [f for f in self.other_factors(name) if len({self.at(c, f) for c in wide}) > 1]

        factors: list[str] = self.once(("varying", name), others)
        return factors

    def same(self, one: str, two: str, *factors: str) -> bool:
        """Whether a condition differs from another one in nothing but these factors.

        The two ends of a path are one factor, and all of them are ``pair``. A label that only the first one has is no
        difference, for null means that there is none; but two measurements have the same labels, or other conditions.
        """
        others, labels = self.once(factors, lambda: self._others(factors))
        a, b = self._levels[one], self._levels[two]
        return all(a[f] == b[f] or (f in labels and b[f] is None) for f in others)

    def _others(self, factors: tuple[str, ...]) -> tuple[list[str], list[str]]:
        ends = {f for pair in ENDS for f in pair if PAIR in factors or {*pair} & {*factors}}
        others = [f for f in self.by if f not in ends and f not in factors]
        return others, [] if MEASUREMENT in factors else [f for f in others if is_label(f)]

    def column(self, name: str, conditions: Collection[str]) -> pd.Series:
        """A column of the complete runs of these conditions; empty if there is no such column."""
        if name not in self._source.runs:
            return pd.Series(dtype=float)
        return self._source.runs[name].iloc[
            self._rows[np.isin(self._names.astype(str), list(conditions))]
        ]

    def levels_by_unit(self, condition: str, names: Sequence[str]) -> dict[int, set[str]]:
        """Return what the complete runs of a condition have in these columns, by unit."""
        rows = self._rows[self._names == condition]
        frame = self._source.runs[[n for n in names if n in self._source.runs]].iloc[rows]
        found: dict[int, set[str]] = {}
        for unit, levels in zip(self._source.units[rows], map(repr, frame.values), strict=True):
            found.setdefault(int(unit), set()).add(levels)
        return found

    def _ordered(self, names: Any) -> pd.Categorical:
        return pd.Categorical(names, categories=list(self.conditions.index), ordered=True)

    @property
    def complete(self) -> pd.DataFrame:
        """The rows of `table` that have a value, by unit and round; the value is called as the metric."""
        rows = self.table[self.table["state"] == "ok"].sort_values(
            ["unit", "round"], kind="stable", ignore_index=True
        )
        return rows.rename(columns={"value": self.metric})

    def only(self, names: Mapping[str, str] | Collection[str]) -> Observations:
        """The same observations, of these conditions alone; a mapping gives them other names."""
        called = names if isinstance(names, Mapping) else {name: name for name in names}
        chosen = [c for c in self.conditions.index if c in called]
        index = pd.Index([called[c] for c in chosen], name="condition", dtype=object)
        table = self.table[self.table["condition"].isin(chosen)]
        rows = np.isin(self._names.astype(str), chosen)
        small = replace(
            self,
            conditions=self.conditions.loc[chosen].set_axis(index),
            facts=self.facts.loc[chosen].set_axis(index),
            _rows=self._rows[rows],
            _names=np.array([called[c] for c in self._names[rows]], dtype=object),
        )
        condition = small._ordered(table["condition"].astype(object).map(called))
        return replace(small, table=table.assign(condition=condition))

    def main(self, contrasts: Sequence[Contrast] = ()) -> Observations:
        """The conditions that a figure shows: see `usual`. What all of them share is left out of their names."""
        small = self.only(self.usual(self.asked, contrasts))
        varying = [f for f in self.by if f not in small.shared]
        return small.only(level_names(small, varying)) if varying else small

    def usual(self, factors: Sequence[str], contrasts: Sequence[Contrast] = ()) -> list[str]:
        """The conditions in which some factors are looked at: every other factor is at one level.

        That is the level that all `contrasts` name, else one at which most levels of these factors were measured, the
        ordinary one first. Hosts and their properties stay, and so does a label where there is no such level: the
        gateway of a path.
        """
        measured = self.table.loc[self.table["state"] == "ok", "condition"]
        rows = self.conditions[self.conditions.index.isin(measured)]
        sides = [side for c in contrasts if c.metric == self.metric for side in (c.a, c.b or {})]
        for name in self.by:
            if name not in factors and not name.startswith(("client", "server")):
                levels = rows[name].map(plain)
                named = [side.get(name, SEVERAL) for side in sides]
                if not (named and len(set(map(repr, named))) == 1 and named[0] in list(levels)):
                    named = [
                        max(dict.fromkeys(levels), key=partial(_weight, rows, name, factors, named))
                    ]
                held = levels.map(repr) == repr(named[0])
                if is_label(name) and factors:
                    combinations = rows[list(factors)].map(repr).agg(tuple, axis=1)
                    held |= ~combinations.isin(set(combinations[held]))
                rows = rows[held]
        return list(map(str, rows.index))

    @property
    def shared(self) -> dict[str, Any]:
        """Levels that all of these conditions share, of the factors that split."""
        return {
            f: plain(self.conditions[f].iloc[0])
            for f in self.by
            if len(set(map(repr, self.conditions[f]))) == 1
        }

    def __repr__(self) -> str:
        names = ", ".join(map(str, self.conditions.index[:3])) + (
            " …" if len(self.conditions) > 3 else ""
        )
        notes = "".join(f"\n  {note}" for note in self.notes)
        return f"<{self.metric}: {plural(len(self.conditions), 'condition')} by {', '.join(self.by)} ({names})>{notes}"


def _by_name(table: pd.DataFrame) -> dict[str, dict[str, Any]]:
    rows = table.astype(object).to_numpy().tolist()
    heads = list(map(str, table))
    return {
        str(name): dict(zip(heads, row, strict=True))
        for name, row in zip(table.index, rows, strict=True)
    }


def _weight(
    rows: pd.DataFrame, name: str, factors: Sequence[str], named: Sequence[Any], level: Any
) -> tuple[Any, ...]:
    """How much a level of a factor says about the factors asked for."""
    some = rows[rows[name].map(plain).map(repr) == repr(level)]
    combinations = len(some[list(factors)].map(repr).drop_duplicates())
    return combinations, level in named, level in (None, factor(name).ordinary), len(some)


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
    data : Results, DataFrame, path, or several of these
        An experiment, its runs (all, or some of them), or a folder. A mapping of names to these adds the factor
        ``measurement``, as in ``{"before": "results/may", "after": "results/june"}``. Observations and answers are
        returned unchanged; another metric or factor is then an error.
    metric : str
        The metric; needed unless `data` was observed already.
    by : str or sequence of str
        The factors that are asked about.
    where : mapping, optional
        Factor and level, or a list of levels: only these runs.
    pool : str or sequence of str
        Factors that must not split, or ``"pairs"`` for the two hosts and their zones: the runs of a round are merged to
        their geometric mean.

    Returns
    -------
    Observations
        A row for each condition and round, the conditions, and notes.

    Raises
    ------
    UsageError
        Unknown metric, factor or level, with the nearest ones; a factor that does not vary, with those that do; no
        complete run has a value.

    Examples
    --------
    >>> obs = observe("data/recorded/lab-full", "throughput_bps", by="streams")
    >>> obs.by
    ('streams', 'placement', 'accelerated', 'tcp_buffer_bytes', 'during')
    """
    inside = getattr(data, "observations", data)  # those of an answer
    if isinstance(inside, Observations):
        strange = (
            [metric]
            if metric not in (None, inside.metric)
            else [f for f in as_tuple(by) if f not in inside.by]
        )
        if strange or where or pool:
            what = strange[0] if strange else "other runs"
            raise UsageError(
                f"these are observations of {inside.metric} already: for {what} give the experiment"
            )
        return inside
    if metric is None:
        raise UsageError("name a metric, for example 'throughput_bps'")
    asked, where, pool = as_tuple(by), where or {}, as_tuple(pool)
    source = _known(data, metric, (*asked, *where, *(p for p in pool if p not in POOLS)), where)
    pooled = [f for p in pool for f in POOLS.get(p, (p,))]
    runs = select_runs(source, metric, where)
    chosen, said = choose_factors(runs, metric, asked, pooled)
    condition, conditions, facts = name_conditions(runs, chosen)
    names = conditions.index
    pooled = [name for name in pooled if name in runs.codes]
    table, counted = tabulate(runs, condition, names, chosen, pooled)
    sides = source.runs.get(MEASUREMENT, ())
    order = _in_order(conditions, list(dict.fromkeys(sides)))
    table["condition"] = pd.Categorical(table["condition"], categories=order, ordered=True)
    return Observations(
        metric=metric,
        table=table,
        conditions=conditions.loc[order],
        by=tuple(chosen),
        asked=asked,
        notes=(*runs.notes, *said, *counted),
        facts=facts.loc[order],
        origin=source.origin,
        blocked=runs.blocked,
        where=where,
        _source=source,
        _rows=runs.rows[runs.ok],
        _names=names.to_numpy(object)[condition[runs.ok]],
    )


def _known(data: Any, metric: str, names: Sequence[str], where: Mapping[str, Any]) -> Observed:
    """Read what is observed; UsageError for a metric or a factor that there is not."""
    if metric in FACTORS:
        raise UsageError(f"{metric!r} is a factor, not a metric: name it in by")
    check_levels(where)
    metric_of(metric)  # an unknown one is an error with the nearest names
    source = Observed.of(data)
    for name in names:
        if name not in source.codes:
            hint = _hint(name, source.runs, [*source.codes, *POOLS])
            raise UsageError(f"no factor {name!r} in these runs; {hint}")
    return source


def levels(
    data: Data,
    metric: str | None = None,
    by: str | Sequence[str] = (),
    *,
    where: Mapping[str, Any] | None = None,
    pool: str | Sequence[str] = (),
    confidence: float = 0.95,
) -> Table:
    """Level of each condition: the median of its observations, with interval, range and counts.

    Parameters
    ----------
    data, metric, by, where, pool
        As `observe` takes them; or the result of `observe` alone.
    confidence : float
        Confidence of the intervals.

    Returns
    -------
    DataFrame
        A row for each condition, with its name as the index: its levels, ``n``, ``median``, ``low``, ``high``,
        ``smallest``, ``largest``, ``confidence`` (the actual one of the interval), ``share_of_limit``, ``failed``,
        ``missing``. A single observation has no interval.

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
    obs = observe(data, metric, by, where=where, pool=pool)
    needed = obs.complete[
        ["condition", "unit", "started_utc", obs.metric]
    ]  # pandas takes its time for every column
    groups = dict(iter(needed.groupby("condition", sort=False, observed=True)))
    states = Counter(zip(obs.table["condition"], obs.table["state"], strict=True))
    rows = []
    for name in obs.conditions.index:
        row: dict[str, Any] = (
            _level_row(groups[name], obs.metric, confidence) if name in groups else {"n": 0}
        )
        limit = obs.fact(str(name), "advertised_bps")
        if obs.metric.startswith("throughput") and isinstance(limit, float) and row["n"]:
            row["share_of_limit"] = row["median"] / limit
        rows.append(row | {state: states[name, state] for state in ("failed", "missing")})
    heads = "n median low high smallest largest confidence share_of_limit failed missing".split()
    table = pd.DataFrame(rows, index=obs.conditions.index).reindex(columns=heads)
    table = pd.concat([obs.conditions, table], axis=1)
    return Table.of(
        table,
        metric=obs.metric,
        deployments=obs.table["unit"].nunique(),
        notice=obs.origin.notice,
    )


def _level_row(group: pd.DataFrame, metric: str, confidence: float) -> dict[str, Any]:
    x = group[metric].to_numpy(float)
    level = level_of(group, metric, confidence)
    row: dict[str, Any] = {"n": len(x), "median": level.median}
    if len(x) > 1:
        row |= {"low": level.low, "high": level.high, "smallest": x.min(), "largest": x.max()}
        row["confidence"] = level.confidence
    return row


def level_of(rows: pd.DataFrame, metric: str, confidence: float = 0.95) -> Level:
    """The level of one condition from its complete observations: the one place that says what is counted.

    With several deployments these are the replicates; from `median_ci.LONG_SERIES` runs the hours are, if known.
    """
    started, hours = rows.get("started_utc") if len(rows) >= LONG_SERIES else None, None
    if started is not None and not started.isna().any() and hasattr(started, "dt"):
        hours = np.asarray(started.dt.tz_localize(None), dtype="datetime64[h]")
    return level(
        rows[metric].astype(float), confidence, metric=metric, units=rows["unit"], hours=hours
    )


def describe(obs: Observations) -> str:
    """Describe in a sentence what was observed: metric, tools, conditions, rounds, lengths."""
    info, runs, table = metric_of(obs.metric), obs.runs, obs.complete
    # some logs do not say which test they are of
    named = runs[["tool", "test"]].astype(object).fillna("").astype(str)
    tests = sorted(set((named["tool"] + " " + named["test"]).str.strip()))
    seconds = sorted(runs["duration_s"].dropna().unique()) if "duration_s" in runs else []
    counts = table["condition"].value_counts()
    counts = counts[counts > 0]
    each = (
        f"{counts.min()}" if counts.min() == counts.max() else f"{counts.min()} to {counts.max()}"
    )
    basis = f" ({info.basis})" if info.basis and info.basis not in info.label.lower() else ""
    better = {"lower": " Lower is better.", "higher": " Higher is better."}.get(
        info.better or "", ""
    )
    length = f", {' or '.join(f'{s:g}' for s in seconds)} s per run" if seconds else ""
    return (
        f"The metric is {info.label[0].lower()}{info.label[1:]}{basis}, measured by {' and '.join(tests)} in "
        f"{plural(table['round'].nunique(), 'round')} of {plural(table['unit'].nunique(), 'deployment')}: "
        f"{plural(len(counts), 'condition')}, {each} complete run{'' if counts.max() == 1 else 's'}"
        f"{' each' if len(counts) > 1 else ''}{length}.{better}"
    )


def ladders(obs: Observations, name: str) -> dict[str, pd.DataFrame]:
    """What was observed along a factor: for each combination of the others, the rows with its level in a column.

    Only combinations in which the factor varies; raises NothingToReport if there is none.
    """
    others = [f for f in obs.by if f != name]
    words = level_names(obs, others)
    rows = obs.complete
    rows[name] = (
        rows["condition"].astype(object).map(obs.conditions[name]) if name in obs.by else None
    )
    rows["condition"] = rows["condition"].astype(object).map(words)
    groups = {
        str(key): group
        for key, group in rows.groupby("condition", sort=False)
        if len(set(group[name])) > 1
    }
    if not groups:
        raise NothingToReport(f"{name} does not vary in any condition with a value of {obs.metric}")
    return {key: groups[key] for key in dict.fromkeys(words.values()) if key in groups}


def levels_by(obs: Observations, name: str) -> dict[str, Observations]:
    """The observations at each level of a factor, by the level in words."""
    words = level_names(obs, [f for f in obs.by if f != name])
    column = obs.conditions[name].map(plain)
    parts = {
        level_words(name, level): column.index[column.map(repr) == repr(level)]
        for level in dict.fromkeys(column)
    }
    return {level: obs.only({str(c): words[str(c)] for c in rows}) for level, rows in parts.items()}


def as_tuple(names: str | Sequence[str] | None) -> tuple[str, ...]:
    """Names as they may be given: one, several, or none; each once."""
    return (names,) if isinstance(names, str) else tuple(dict.fromkeys(map(str, names or ())))


def _hint(name: str, runs: pd.DataFrame, factors: Sequence[str]) -> str:
    """What to write instead of a name that is no factor."""
    if name == "experiment":
        return f"name the experiments, as in {{'may': …, 'june': …}}, which adds the factor {MEASUREMENT}"
    if name in METRICS:
        return "it is a metric"
    suffix = any(k.endswith(f"_{name}") for k in factors)
    varying = [f for f in factors if f in runs and len(runs[f].astype(str).unique()) > 1]
    named = [f for f in factors if not suffix and f in runs and factor(f).always_splits]
    of = next((f for f in named if (runs[f].astype(object) == name).any()), None)
    return f"it is a level of {of}" if of else nearest(name, factors, varying)


def _varies(group: Codes, codes: Codes, *, null_is_level: bool) -> bool:
    """Whether a column has several levels within any group."""
    rows = slice(None) if null_is_level else codes >= 0
    groups, held = group[rows], codes[rows]
    first = np.full(int(groups.max(initial=0)) + 1, -2)
    first[groups[::-1]] = held[::-1]
    return bool((first[groups] != held).any())


def _rank(name: str) -> tuple[bool, float]:
    """Order of factors in a name: that of the list, a user's before the hosts; tool and test last."""
    order = {factor_name: i for i, factor_name in enumerate(FACTORS)}
    return name in _MEANS, order.get(name, order["client"] - 0.5)


@dataclass(frozen=True, eq=False)
class Selection:
    """The runs that are observed; all arrays have a row for each of them.

    Attributes
    ----------
    source : Observed
    rows : array of int
        Where each run stands in the table of the source.
    value : array of float
    ok : array of bool
        Which runs have a value.
    unit, round, block : array
        The deployment, the round, and both together.
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
    ok: npt.NDArray[np.bool_]
    unit: Codes
    round: npt.NDArray[np.float64]
    block: Codes
    blocked: bool
    excluded: Codes
    repeated: npt.NDArray[np.bool_]
    notes: tuple[str, ...]

    @cached_property
    def codes(self) -> dict[str, Codes]:
        """The codes of each column that varies among these runs."""
        parts = {c: codes[self.rows] for c, codes in self.source.codes.items()}
        return {c: part for c, part in parts.items() if (part != part[0]).any()}

    @property
    def imported(self) -> bool:
        """Whether the runs are logs that were not planned here."""
        return self.source.origin.source in ("", "imported")

    def joined(self, names: Iterable[str], *more: Codes) -> Codes:
        """The codes of the combinations of some columns; a column that does not vary adds none."""
        return combined(len(self.rows), *more, *(self.codes[c] for c in names if c in self.codes))


def _numbers(runs: pd.DataFrame, name: str) -> npt.NDArray[np.float64]:
    if name not in runs:
        return np.full(len(runs), np.nan)
    return pd.to_numeric(runs[name], errors="coerce").to_numpy(float, na_value=np.nan)


# -- which runs ----------------------------------------------------------------------------------


def select_runs(source: Observed, metric: str, where: Mapping[str, Any]) -> Selection:
    """Return the runs of the tests that give a metric: only these can fail at giving it."""
    runs, codes = source.runs, source.codes
    ran, excluded = (rows.to_numpy(bool) for rows in states(runs))
    value = _numbers(runs, metric)
    gives, use = _tests_that_give(runs, codes, metric, ran)
    notes = list[str]()
    if dropped := int((excluded & gives).sum()):
        notes.append(f"{plural(dropped, 'excluded run')} left out")
    repeated = np.zeros(len(runs), bool)
    use &= ~excluded
    if (_numbers(runs, "attempt") > 1).any():
        trial, begun = _trials(runs, codes), _begun(runs, ran)
        repeated = begun & trial.where(begun).duplicated(keep=False).to_numpy()
        use &= ~trial.duplicated(keep="last").to_numpy()
    for name, wish in where.items():
        use &= _matching(runs, name, wish, use, metric)
    rows = np.flatnonzero(use)
    number = _numbers(runs, "round")
    blocked = bool(np.isfinite(number).all())
    if not blocked:
        number = np.arange(len(runs), dtype=np.float64)
    unit = source.units[rows]
    return Selection(
        source=source,
        rows=rows,
        value=value[rows],
        ok=(ran & np.isfinite(value))[rows],
        unit=unit,
        round=number[rows],
        block=combined(len(rows), unit, factorized(number[rows])),
        blocked=blocked,
        excluded=np.flatnonzero(excluded),
        repeated=repeated[rows],
        notes=tuple(notes),
    )


def _tests_that_give(
    runs: pd.DataFrame, codes: Mapping[str, Codes], metric: str, ran: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Which runs are of a test that gives a metric; and these with tests that never ran."""
    n = len(runs)
    fine = combined(n, *(codes[c] for c in ("tool", "test", "during", "full_rtt") if c in codes))
    coarse = combined(n, *(codes[c] for c in ("tool", "test") if c in codes))
    gives = np.isin(fine, fine[ran & np.isfinite(_numbers(runs, metric))])
    if not gives.any():
        measured = [m for m in METRICS if m in runs and runs[m][ran].notna().any()]
        names = ", ".join([m for m in measured if m in PAGES] or measured) or "none"
        raise NothingToReport(f"no complete run has a value of {metric}; there are: {names}")
    never_ran = ~np.isin(fine, fine[ran])
    return gives, gives | (never_ran & np.isin(coarse, coarse[gives]))


def _begun(runs: pd.DataFrame, ran: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Attempts whose tool was started; the next does not repeat one that found no host or tool."""
    if "started_utc" not in runs or runs["started_utc"].isna().all():
        return np.ones(len(runs), bool)
    return ran | runs["started_utc"].notna().to_numpy(bool)


def _trials(runs: pd.DataFrame, codes: Mapping[str, Codes]) -> pd.Series:
    """What is the same for each attempt at a trial."""
    if "run_id" in runs:
        ids: pd.Series = runs["run_id"].str.replace(r"-a\d+$", "", regex=True)
        return ids
    names = [c for c in codes if factor(c).role == "condition"]
    rounds = [c for c in ("experiment", "deployment", "round") if c in runs]
    parts = [factorized(runs[c]) for c in rounds]
    return pd.Series(combined(len(runs), *parts, *(codes[c] for c in names)))


def _matching(
    runs: pd.DataFrame, name: str, wish: Any, use: npt.NDArray[np.bool_], metric: str
) -> npt.NDArray[np.bool_]:
    """Which runs have a level that ``where`` names; an error for a level that no run has."""
    present = list(dict.fromkeys(plain(v) for v in runs[name][use].unique()))
    wishes = wished(name, wish)
    if strange := [w for w in wishes if w not in present]:
        ordered = sort_levels(name, present)
        words = [v if isinstance(v, str) else level_words(name, v) for v in ordered]
        raise NothingToReport(
            f"{name} is never {strange[0]!r} in runs of {metric}; it is {', '.join(words)}"
        )
    match = runs[name].isin([w for w in wishes if w is not None]).to_numpy(bool)
    return match | (runs[name].isna().to_numpy() & (None in wishes))


# -- what splits ---------------------------------------------------------------------------------


def choose_factors(
    runs: Selection, metric: str, asked: Sequence[str], pooled: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the factors that split, those asked for first, and what must be said of the others."""
    codes = runs.codes
    if fixed := [name for name in asked if name not in codes]:
        others = sorted((c for c in codes if factor(c).always_splits), key=_rank)
        hint = f"these do: {', '.join(others)}" if others else "and nothing else does"
        raise NothingToReport(f"{fixed[0]} does not vary in runs of {metric}; {hint}")
    texts = [c for c in codes if c not in asked and _is_text(runs, c)]
    notes = []
    if texts:
        words = in_words(map(_label, texts))
        notes.append(f"{words} {'are' if len(texts) > 1 else 'is'} {TEXT}")
    chosen = list(asked)
    # what follows from a pooled factor is pooled with it; but hosts determine everything
    group = runs.joined([*chosen, *(c for c in pooled if c not in POOLS["pairs"])])
    hosts = runs.joined(pooled)
    for names in _candidates(runs, {*asked, *pooled, *texts}):
        code = runs.joined(names) if len(names) > 1 else codes[names[0]]
        ephemeral = names[0] in HOSTS and _are_ephemeral(runs, names, group, code)
        if not ephemeral and _splits(runs, factor(names[0]), group, hosts, code):
            chosen += names
            group = runs.joined(names, group)
        elif factor(names[0]).role == "observed" and _varies(
            combined(len(code), group, hosts), code, null_is_level=False
        ):
            notes.append(f"{_label(names[0])} changes between rounds of one condition")
        elif ephemeral and _varies(group, code, null_is_level=False):
            notes.append("addresses of hosts change from run to run, and split nothing")
    if asked and (residue := [_label(c) for c in chosen[len(asked) :]]):
        verb = "varies" if len(residue) == 1 else "vary"
        notes.append(f"{in_words(residue)} {verb} too: each level is a condition of its own")
    return chosen, notes


def _is_text(runs: Selection, name: str) -> bool:
    """Whether a label of the user's is free text: a sentence, or a value for each run or round."""
    if name in FACTORS or name in (MEASUREMENT, LOG_NAME):
        return False
    held = runs.codes[name] >= 0
    codes = runs.codes[name][held]
    number = len(np.unique(codes))
    values = runs.source.runs[name].iloc[runs.rows[held]].unique()
    longest = max((len(str(value).split()) for value in values), default=0)
    if longest >= (_SENTENCE if held.all() else _PHRASE):
        return True
    rounds = len(np.unique(runs.block))
    if runs.blocked and 1 < rounds < len(runs.rows):
        of_round = len(np.unique(combined(len(codes), codes, runs.block[held])))
        if number == rounds == of_round == len(np.unique(runs.block[held])):
            return True
    others = [c for c in runs.codes if c in FACTORS and factor(c).always_splits]
    repeated = len(np.unique(runs.joined(others))) < len(runs.rows)
    return number == len(codes) == len(runs.rows) and (
        number > MOST_LEVELS or (bool(others) and repeated)
    )


def _are_ephemeral(runs: Selection, names: Sequence[str], group: Codes, code: Codes) -> bool:
    """Whether hosts are addresses of which one has a single run: pods get new ones each time."""
    if runs.blocked:
        return False
    held = runs.source.runs[list(names)].iloc[runs.rows]
    levels = {level for name in names for level in held[name].dropna().unique()}
    counts = np.bincount(combined(len(code), group, code)[code >= 0])
    return all(map(is_address, levels)) and bool((counts[counts > 0] == 1).any())


def _candidates(runs: Selection, others: Collection[str]) -> list[tuple[str, ...]]:
    """Factors that may split, in order; both hosts are one, and so is a property of both."""
    names = sorted((c for c in runs.codes if c not in others), key=_rank)
    both = [tuple(f"{side}_{what}" for side in HOSTS) for what in _PROPERTIES]
    *properties, hosts = (tuple(c for c in pair if c in names) for pair in (*both, HOSTS))
    ends = {c for pair in (*properties, hosts) for c in pair}
    alone = [c for c in names if c not in ends]
    means = [c for c in alone if c in _MEANS]
    first = [c for c in alone if factor(c).always_splits and c not in means]
    last = [c for c in alone if not factor(c).always_splits]
    # what a log says of some tests only tells the tests apart, and is no level of the others
    stated = [c for c in first if runs.imported and c in FACTORS and _follows_test(runs, c)]
    first = [c for c in first if c not in stated]
    single = [[(c,) for c in part] for part in (first, means, stated, last)]
    order = (*single[0], *properties, *single[1], *single[2], hosts, *single[3])
    return [c for c in order if c]


def _follows_test(runs: Selection, name: str) -> bool:
    """Whether a factor stands in all runs of a test or in none, as the size of messages does."""
    stated = (runs.codes[name] >= 0).astype(np.int64)
    test = runs.joined(("tool", "test"))
    partial = (stated == 0).any() and not _varies(test, stated, null_is_level=True)
    return bool(partial) or name == "message_bytes"


def _splits(runs: Selection, one: Factor, group: Codes, hosts: Codes, code: Codes) -> bool:
    unknown = one.null == "unknown"
    if one.always_splits and _varies(group, code, null_is_level=not unknown):
        return True
    if not runs.blocked:  # without rounds, other hosts are another path
        return one.name in HOSTS and _varies(group, code, null_is_level=False)
    if one.always_splits and not unknown:
        return False
    # a null between rounds says nothing; two runs of a round, one with a null, are two conditions
    return _varies(combined(len(code), group, hosts, runs.block), code, null_is_level=True)


# -- what they are called ------------------------------------------------------------------------


def name_conditions(
    runs: Selection, chosen: Sequence[str]
) -> tuple[Codes, pd.DataFrame, pd.DataFrame]:
    """Return the condition of each run, its levels, and its facts: the level of every factor."""
    every = runs.source.runs
    condition = runs.joined(chosen)
    first = np.unique(condition, return_index=True)[1]
    held = {c: [*map(plain, every[c].array.take(runs.rows[first]))] for c in runs.source.codes}
    called = condition_names(chosen, held, runs.codes)
    names = pd.Index(called, name="condition", dtype=object)
    conditions = pd.DataFrame({c: held[c] for c in chosen}, dtype=object, index=names)
    for c, codes in runs.codes.items():
        several = np.unique(condition[codes != codes[first][condition]])
        held[c] = [SEVERAL if i in several else v for i, v in enumerate(held[c])]
    return condition, conditions, pd.DataFrame(held, index=names, dtype=object)


def _in_order(conditions: pd.DataFrame, measurements: Sequence[str]) -> pd.Index:
    """The conditions in the order of their levels; measurements in the order they were given."""

    def key(column: pd.Series) -> pd.Series:
        by_name: Callable[[Any], Any] = factor(str(column.name)).key
        return column.map(measurements.index if column.name == MEASUREMENT else by_name)

    by = list(map(str, conditions))
    return conditions.sort_values(by, key=key).index if by else conditions.index


# -- what they gave ------------------------------------------------------------------------------


def tabulate(
    runs: Selection, condition: Codes, names: pd.Index, chosen: Sequence[str], pooled: Sequence[str]
) -> tuple[pd.DataFrame, list[str]]:
    """Return an observation for each condition and round, a row for each missing one, and notes."""
    every = runs.source.runs
    cell = combined(len(runs.rows), condition, runs.block)
    at, size = np.unique(cell, return_index=True)[1], np.bincount(cell)
    rows = runs.rows[at]
    failed = np.bincount(cell, weights=~runs.ok) > 0
    value, notes = runs.value[at].copy(), list[str]()
    if size.max() > 1:
        _refuse_collisions(runs, cell, pooled)
        value = np.where(size == 1, value, _merged(runs, condition, cell, pooled))
        if pooled:
            what = f"pooled: {', '.join(map(_label, pooled))}"
            notes.append(f"{what}: geometric mean of up to {size.max()} runs of a round")
    table = pd.DataFrame(
        {
            "condition": names.to_numpy(object)[condition[at]],
            "unit": runs.unit[at],
            "round": runs.round[at],
            "value": np.where(failed & (size == 1), np.nan, value),
            # where nobody says that a run failed, a null is a value that is missing
            "state": np.where(failed, "failed" if "status" in every else "missing", "ok"),
            "order": _numbers(every, "order")[rows],
            "repeated": runs.repeated[at],
        }
        | {c: every[c].array.take(rows) if c in every else None for c in _CARRIED}
    )
    for c in [c for c in HOSTS if c in pooled and size.max() > 1]:
        hosts = pd.Series(every[c].take(runs.rows).astype(str).array)
        both = hosts.groupby(cell).agg(lambda v: "+".join(sorted(set(v.dropna()))))
        table[c] = both.where(both != "", None).to_numpy()
    if runs.blocked and runs.source.origin.source != "imported":
        table = _with_missing(runs, table, condition, at, chosen)
    counts = table["state"].value_counts()
    for state in ("failed", "missing"):
        if state in counts:
            notes.append(f"{plural(int(counts[state]), 'observation')} {state}")
    if not runs.blocked:
        notes.append(UNBLOCKED)
    return table, notes


def _refuse_collisions(runs: Selection, cell: Codes, pooled: Sequence[str]) -> None:
    """Raise UsageError where two complete runs of a round differ in nothing known."""
    own = runs.joined(pooled, cell)[runs.ok]
    rows = runs.rows[runs.ok]
    several = np.flatnonzero(np.bincount(own) > 1)
    if pooled or not several.size:
        return
    one = rows[own == several[0]]
    every = runs.source.runs
    ids = every["run_id"] if "run_id" in every else every.index.to_series()
    number = runs.round[runs.ok][own == several[0]][0]
    raise UsageError(
        f"{in_words(ids.iloc[one].astype(str))} differ in nothing known, and are of one round "
        f"({number:g}): label what they differ in, or leave the round out"
    )


def _merged(
    runs: Selection, condition: Codes, cell: Codes, pooled: Sequence[str]
) -> npt.NDArray[np.float64]:
    """Mean of the runs of a cell; NaN where none is complete."""
    rows = np.flatnonzero(runs.ok)
    cells, which = np.unique(cell[rows], return_inverse=True)
    part = runs.joined(pooled, condition) if pooled else np.zeros(len(cell), np.int64)
    group = condition if pooled else part
    mean = np.full(int(cell.max()) + 1, np.nan)
    mean[cells] = merged(runs.value[rows], which, part[rows], group[rows])
    return mean


def _with_missing(
    runs: Selection, table: pd.DataFrame, condition: Codes, at: Codes, chosen: Sequence[str]
) -> pd.DataFrame:
    """Add a row for each round of a deployment that lacks a condition that was measured there."""
    source = runs.source
    number = _numbers(source.runs, "round")
    excluded = _conditions_of(runs, runs.excluded, condition, chosen)
    rows, rounds = [], []
    for unit in np.unique(source.units):
        numbers = np.unique(number[source.units == unit])
        planned = np.setdiff1d(np.arange(1.0, source.planned + 1), numbers)
        numbers = np.concatenate([numbers, planned[: max(0, source.planned - numbers.size)]])
        here = np.flatnonzero(runs.unit[at] == unit)
        names, first, which = np.unique(condition[at[here]], return_index=True, return_inverse=True)
        column = pd.Index(numbers)
        absent = np.ones((names.size, numbers.size), bool)
        absent[which, column.get_indexer(runs.round[at[here]])] = False
        out = (source.units[runs.excluded] == unit) & np.isin(excluded, names)
        absent[
            np.searchsorted(names, excluded[out]),
            column.get_indexer(number[runs.excluded[out]]),
        ] = False
        cells = np.argwhere(absent)
        rows.append(here[first][cells[:, 0]])
        rounds.append(numbers[cells[:, 1]])
    missing = np.concatenate(rows)
    if not missing.size:
        return table
    shared = ["condition", "unit", "experiment", "deployment", "client", "server"]
    lost = table[shared].take(missing)
    lost = lost.assign(round=np.concatenate(rounds), state="missing", repeated=False)
    return pd.concat([table, lost.assign(value=math.nan, order=math.nan)], ignore_index=True)


def _conditions_of(runs: Selection, rows: Codes, condition: Codes, chosen: Sequence[str]) -> Codes:
    """The conditions that other runs belong to; -1: none that was measured."""
    every = runs.source.runs
    key = combined(len(every), *(factorized(every[c]) for c in chosen))
    number = np.full(int(key.max(initial=0)) + 1, -1)
    number[key[runs.rows]] = condition
    return number[key[rows]]


def is_label(name: str) -> bool:
    """Whether a factor is a label of which null means that there is none."""
    return factor(name).null == "none" and (name not in FACTORS or name == "gateway_sku")


def _label(name: str) -> str:
    return (factor(name).label or name).replace("_", " ")


def level_names(obs: Observations, names: Sequence[str]) -> dict[str, str]:
    """What to call each condition by the levels of these factors alone; made once for `obs`.

    Without a factor all have one name: their placement, where it is known.
    """
    if not names:
        places = set(map(plain, obs.facts["placement"])) if "placement" in obs.facts else {None}
        placement = places.pop() if len(places) == 1 else None
        return dict.fromkeys(
            obs.names, "all runs" if placement in (None, SEVERAL) else str(placement)
        )
    by_condition: dict[str, str] = obs.once(("names", *names), lambda: _level_names(obs, names))
    return by_condition


def _level_names(obs: Observations, names: Sequence[str]) -> dict[str, str]:
    unique = obs.conditions[list(names)].drop_duplicates()
    held = {str(c): [*map(plain, column)] for c, column in obs.facts.loc[unique.index].items()}
    held |= {c: [*map(plain, unique[c])] for c in names}
    facts = {str(c): set(map(repr, column)) for c, column in obs.facts.items()}
    varying = [c for c, levels in facts.items() if len(levels) > 1 or repr(SEVERAL) in levels]
    words = dict(
        zip(
            zip(*(held[c] for c in names), strict=True),
            condition_names(names, held, varying),
            strict=True,
        )
    )
    keys = zip(*(map(plain, obs.conditions[c]) for c in names), strict=True)
    return dict(zip(obs.names, map(words.__getitem__, keys), strict=True))


def condition_names(
    by: Sequence[str], held: Mapping[str, Sequence[Any]], varying: Collection[str]
) -> list[str]:
    """The one place that names a condition: its levels in words; ordinary ones go unsaid where the rest is unique.

    `held` has the level of each factor by condition, and `varying` the factors that vary in the data.
    """
    if not by:
        return [str(held.get("placement", [None])[0] or "all runs")]
    full, short = [], []
    for i in range(len(held[by[0]])):
        words: dict[str, str] = {}
        always = set[str]()
        for name in sorted(by, key=_rank):
            side, _, what = name.partition("_")
            pair = [f"{s}{'_' + what if what else ''}" for s in ("client", "server")]
            if side in ("client", "server") and all(p in by or p not in varying for p in pair):
                one, two = (held[p][i] if p in held else None for p in pair)
                if one is two is None:
                    continue
                ends = f"{one} → {two}" if one and two else f"from {one}" if one else f"to {two}"
                words[pair[1]] = f"{what} {ends}" if what == "zone" else ends
                always.add(pair[1])
            else:
                words[name] = level_words(name, held[name][i])
        full.append(", ".join(words.values()) or "unknown")
        ordinary = {c: (None, factor(c).ordinary) for c in words}
        if "during" in by and held["during"][i] and "streams" in words:
            ordinary["streams"] = (
                None,
                1,
            )  # of the probe beside the load, whose own streams its name tells
        needed = [w for c, w in words.items() if c in always or held[c][i] not in ordinary[c]]
        short.append(", ".join(needed) or full[-1])
    return [s if short.count(s) == 1 else f for s, f in zip(short, full, strict=True)]
