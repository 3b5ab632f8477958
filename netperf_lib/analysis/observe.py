"""Which runs make a condition: the one place that decides it.

A condition is one level of each factor that splits. A question names some factors; whatever else
varies is the residue: it splits too, and a note says so. Nothing is pooled unless ``pool`` says it,
and no run is left out unless ``where`` says it. The model is the package benchproc of
golang.org/x/perf (``Projection``, ``Residue``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..errors import NothingToReport, UsageError
from ..experiment.factors import FACTORS, factor, plain, sort_levels
from ..experiment.model import Contrast
from ..experiment.origin import Origin
from ..metrics import METRICS, PAGES, in_words, plural
from ..metrics import metric as metric_of
from .intervals import LONG_SERIES, level
from .runs import (
    ENDS,
    GIVES,
    HOSTS,
    MEASUREMENT,
    OF_ENDS,
    PAIR,
    UNIT,
    Codes,
    Data,
    Levels,
    Measurement,
    Names,
    check_levels,
    combined,
    has_level,
    measurement,
    numbered,
    states,
    varying,
    wished,
)
from .words import SEVERAL, condition_names, label, shortened

PAIRS = (
    *HOSTS,
    "client_zone",
    "server_zone",
    "client_zone_physical",
    "server_zone_physical",
)
"""What ``pool="pairs"`` pools: the hosts, and what follows from them."""
CELL = ["condition", "replicate", "round"]
"""An observation is what one condition gave in one round of a deployment."""
UNBLOCKED = (
    "rounds are not known: each run is a round of its own, and comparisons are not paired"
)


@dataclass(frozen=True, eq=False)
class Observations:
    """The value of each condition in each round, and how the conditions differ.

    Attributes
    ----------
    metric : str
        What was observed.
    table : DataFrame
        A row for each condition, deployment and round: ``value`` (null: none), ``state`` (``ok``,
        ``failed``, ``missing``, ``excluded``), ``run_id``, ``order`` within the round,
        ``replicate`` (the number of the deployment over all experiments), ``repeated`` (begun anew
        after a failure).
    facts : DataFrame
        The level of every factor, by condition; ``"(several)"`` if it varies within the condition.
    by : tuple of str
        The factors asked for, then the other factors that split the conditions.
    asked : tuple of str
        The factors asked for.
    notes : tuple of str
        What split the conditions, what was pooled, and what was left out.
    runs : DataFrame
        The complete runs, with their ``condition`` and ``replicate``.
    where : mapping
        Factors of which some levels were asked for.
    blocked : bool
        Whether rounds are known, so that conditions can be compared within them.
    origin : Origin
        Where the runs come from, and what was declared.
    """

    metric: str
    table: pd.DataFrame
    facts: pd.DataFrame
    by: tuple[str, ...]
    asked: tuple[str, ...]
    notes: tuple[str, ...]
    runs: pd.DataFrame
    where: Levels
    blocked: bool
    origin: Origin
    _called: dict[tuple[str, ...], dict[str, str]] = field(
        default_factory=dict, repr=False
    )
    """Names of the conditions by some factors: a thousand comparisons ask for the same."""

    @property
    def unit(self) -> str:
        """Unit of the metric's stored numbers."""
        return METRICS[self.metric].unit

    @property
    def names(self) -> list[str]:
        """Names of the conditions."""
        return list(self.facts.index)

    @property
    def measured(self) -> list[str]:
        """Names of the conditions that have a value."""
        return list(self.levels.index[self.levels["n"] > 0])

    @property
    def conditions(self) -> pd.DataFrame:
        """The levels of the factors that split; a row for each condition."""
        return self.facts[list(self.by)]

    @property
    def factors(self) -> list[str]:
        """What splits the conditions; the two ends of a path are one factor, ``pair``, the last."""
        names = [name for name in self.by if name not in OF_ENDS]
        if len(names) < len(self.by):
            names.append(PAIR)
        return names

    @property
    def complete(self) -> pd.DataFrame:
        """The rows of `table` that have a value, by deployment and round."""
        rows = self.table[self.table["state"] == "ok"]
        return rows.sort_values(["replicate", "round"], kind="stable", ignore_index=True)

    @property
    def due(self) -> pd.DataFrame:
        """The rows of `table` that were due: what was excluded for a recorded cause was not."""
        return self.table[self.table["state"] != "excluded"]

    @property
    def wide(self) -> pd.DataFrame:
        """The values: rounds down, conditions across, NaN where there is none.

        With several deployments a row is a deployment and a round.
        """
        table = self.due.astype({"round": int, "condition": object})
        rows = [*varying(table, UNIT), "round"]
        wide = table.pivot(index=rows, columns="condition", values="value")  # noqa: PD010
        return wide.reindex(columns=pd.Index(self.names, name="condition"))

    @cached_property
    def levels(self) -> pd.DataFrame:
        """The level of each condition: ``n`` runs, ``median``, its interval, and the extremes.

        The one place that says what is counted: with several deployments these are the replicates;
        from `intervals.LONG_SERIES` runs the hours are, if known.
        """
        columns = "n median low high smallest largest confidence".split()
        found = {}
        measured = self.complete[["condition", "replicate", "value", "started_utc"]]
        for name, rows in measured.groupby("condition", observed=True):
            x, started = rows["value"], rows["started_utc"]
            hours = None
            if len(x) >= LONG_SERIES and started.notna().all():
                hours = pd.to_datetime(started).dt.floor("h")
            one = level(x, deployments=rows["replicate"], hours=hours)
            ends = one.low, one.high, x.min(), x.max()
            found[name] = len(x), one.median, *ends, one.confidence
        table = pd.DataFrame.from_dict(found, orient="index", columns=columns)
        # a single observation has no interval
        table.loc[table["n"] < 2, columns[2:]] = np.nan
        table = table.reindex(self.facts.index).fillna({"n": 0})
        return table.astype({"n": int})

    @cached_property
    def rounds(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """What each condition gave in each round, and whether it was due.

        A row for each deployment and round, a column for each condition, and one without a name for
        one that was not observed. NaN: the run is missing; infinity: it failed or was repeated.
        """
        table = self.due
        failed = (table["state"] == "failed") | table["repeated"]
        given = table.assign(value=table["value"].mask(failed, np.inf), due=1.0)
        given = given.astype({"condition": object})
        frames = []
        for figure in ("value", "due"):
            cells = given.pivot(index=CELL[1:], columns=CELL[0], values=figure)  # noqa: PD010
            frames.append(cells.reindex(columns=[*self.names, ""]))
        value, due = frames
        return value, due.notna()

    @cached_property
    def hosts(self) -> Mapping[str, set[str]]:
        """The hosts between which each condition was measured."""
        hosts = defaultdict[str, set[str]](set)
        for end in HOSTS:
            known = self.runs[["condition", end]].dropna().drop_duplicates()
            for condition, host in known.itertuples(index=False):
                hosts[condition].add(str(host))
        return dict(hosts)

    @cached_property
    def apart(self) -> list[str]:
        """The factors in which conditions differ."""
        return [
            str(name)
            for name, levels in self.facts.items()
            if len({*map(str, levels)}) > 1
        ]

    @cached_property
    def varying(self) -> set[str]:
        """The factors of which not all runs have one level."""
        several = (self.facts == SEVERAL).any()
        return {*self.apart, *several.index[several]}

    @cached_property
    def _facts(self) -> dict[Any, dict[Any, Any]]:
        return self.facts.to_dict("index")

    def at(self, condition: str, name: str) -> Any:
        """Return the level of a factor in a condition, None if it is not known.

        The level of ``pair`` is the condition itself.
        """
        if name == PAIR:
            return condition
        return self._facts[condition].get(name)

    def side(self, condition: str) -> Levels:
        """Return the levels of the factors that split in a condition."""
        return {name: self.at(condition, name) for name in self.by}

    def value(self, condition: str, column: str = "median") -> float:
        """Return a figure of a condition's level, as `levels` calls it."""
        return float(self.levels[column][condition])

    def levels_of(self, name: str) -> list[Any]:
        """Return the levels of a factor in their natural order."""
        return sort_levels(name, self.facts[name])

    def having(self, name: str, level: Any, names: Sequence[str]) -> list[str]:
        """Return which of some conditions have a level of a factor."""
        return [c for c in names if self.at(c, name) == level]

    def matching(self, side: Levels) -> list[str]:
        """Return the conditions that a side of a contrast names."""
        names = self.names
        for name, wish in side.items():
            names = self.having(name, factor(name).cast(wish), names)
        return names

    def condition(self, side: Levels | None) -> str:
        """Return the condition that a side of a contrast names; empty if several, or none."""
        if side is None:
            return ""
        first, *others = self.matching(side) or [""]
        return "" if others else first

    def same(self, one: str, two: str, *factors: str) -> bool:
        """Return whether a condition differs from another one in nothing but these factors.

        The two ends of a path are one factor, and all of them are ``pair``. A label that only the
        first one has is no difference, for null means that there is none; but two measurements have
        the same labels, or other conditions.
        """
        free = {*factors}
        for pair in ENDS:
            if free & {PAIR, *pair}:
                free.update(pair)
        for name in self.by:
            first, second = self.at(one, name), self.at(two, name)
            if name in free or first == second:
                continue
            only_first = second is None and is_label(name)
            if MEASUREMENT in free or not only_first:
                return False
        return True

    def only(self, names: Mapping[str, str] | Collection[str]) -> Observations:
        """Return the observations of these conditions alone; a mapping gives them other names."""
        called = names if isinstance(names, Mapping) else {name: name for name in names}
        facts = self.facts[self.facts.index.isin([*called])].rename(index=called)
        frames = []
        for frame in (self.table, self.runs):
            named = frame["condition"].astype(object).map(called)
            condition = pd.Categorical(named, facts.index, ordered=True)
            frames.append(frame.assign(condition=condition).dropna(subset="condition"))
        table, runs = frames
        runs = runs.reset_index(drop=True)
        return replace(self, table=table, facts=facts, runs=runs, _called={})

    def main(self, contrasts: Sequence[Contrast] = ()) -> Observations:
        """Return the conditions that a figure shows (see `slice_for`); what all share is unsaid."""
        small = self.only(self.usual(self.asked, contrasts))
        names = varying(small.facts.astype(str), small.by)
        if names:
            return small.only(small.called(names))
        return small

    def usual(
        self, factors: Sequence[str], contrasts: Sequence[Contrast] = ()
    ) -> list[str]:
        """Return the conditions in which some factors are looked at: see `slice_for`."""
        return slice_for(self, factors, self.measured, contrasts)

    def called(self, names: Sequence[str]) -> dict[str, str]:
        """Return what to call each condition by the levels of these factors alone."""
        key = tuple(names)
        if key not in self._called:
            words = condition_names(self.facts, key, self.varying)
            self._called[key] = dict(zip(self.names, words, strict=True))
        return self._called[key]

    def __repr__(self) -> str:
        what = f"{plural(len(self.names), 'condition')} by {', '.join(self.by)}"
        return "\n  ".join([f"<{self.metric}: {what}>", *self.notes])

    def _repr_html_(self) -> str:
        return str(levels(self).to_html())


def slice_for(
    obs: Observations,
    factors: Sequence[str],
    names: Sequence[str],
    contrasts: Sequence[Contrast] = (),
    *,
    elsewhere: bool = True,
) -> list[str]:
    """Return those of some conditions in which factors are looked at: the others at one level.

    That is the level that all `contrasts` name, else the one at which most levels of these factors
    were measured, the ordinary one first. Hosts and their properties stay. A level that was only
    measured at another level of a label, as behind a gateway of its own, is shown `elsewhere`, or
    left out; but a factor of which nothing is left to compare is held at no level.
    """
    named = list[Levels]()
    for c in contrasts:
        if c.metric == obs.metric:
            named += [c.a, c.b or {}]
    chosen = {name: tuple(obs.at(name, one) for one in factors) for name in names}
    for name in obs.by:
        if name in factors or name.startswith(HOSTS) or not chosen:
            continue
        # by level: what of the factors was measured there
        measured: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
        for condition, combination in chosen.items():
            measured[obs.at(condition, name)].append(combination)
        best = _most_usual(name, measured, {side.get(name, SEVERAL) for side in named})
        there = {*measured[best]}
        if factors and not elsewhere and len(there) < 2:
            continue
        stays = elsewhere and factors and is_label(name)
        kept = {}
        for condition, combination in chosen.items():
            alone = stays and combination not in there
            if alone or obs.at(condition, name) == best:
                kept[condition] = combination
        chosen = kept
    return list(chosen)


def _most_usual(
    name: str, measured: Mapping[Any, Sequence[tuple[Any, ...]]], named: Collection[Any]
) -> Any:
    """Return the level at which a factor is kept, the first of those that suit best."""

    def weight(one: Any) -> tuple[bool, int, bool, bool, int]:
        agreed, ordinary = {*named} == {one}, one in (None, factor(name).ordinary)
        here = measured[one]
        return agreed, len({*here}), one in named, ordinary, len(here)

    return max(measured, key=weight)


def is_label(name: str) -> bool:
    """Return whether a factor is a label of which null means that there is none."""
    if name in FACTORS and name != "gateway_sku":
        return False
    return factor(name).null == "none"


def as_tuple(names: Names | None) -> tuple[str, ...]:
    """Return the names as they may be given: one, several, or none; each once."""
    if isinstance(names, str):
        return (names,)
    return tuple(dict.fromkeys(map(str, names or ())))


def observe(
    data: Data | Measurement | Observations,
    metric: str | None = None,
    by: Names = (),
    *,
    where: Levels | None = None,
    pool: Names = (),
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
    asked, where = as_tuple(by), where or {}
    inside = getattr(data, "observations", data)  # those of an answer
    if isinstance(inside, Observations):
        other = metric not in (None, inside.metric) or {*asked} - {*inside.by}
        if other or where or pool:
            raise UsageError(
                f"these are observations of {inside.metric}: give the experiment"
            )
        return inside
    source = measurement(data)
    if metric is None or metric in FACTORS or metric == "round":
        named = f"{metric!r} is a factor, not a metric: " if metric else ""
        raise UsageError(f"{named}name a metric, for example 'throughput_bps'")
    metric_of(metric)  # an unknown one is an error with the nearest names
    check_levels(where)
    pooled = _pooled(source, pool)
    source.check_factors([*asked, *where, *pooled])

    # which runs
    runs = _runs_that_may_give(source, metric, where)
    # of logs without labels each run is a round of its own
    blocked = bool(runs["round"].notna().all())
    if not blocked:
        runs["round"] = runs.index.astype(float)
    used = int((runs["state"] != "excluded").sum())

    # what splits
    rows = runs.index.to_numpy()
    codes = {name: code[rows] for name, code in source.codes.items()}
    of_used = {name: code[:used] for name, code in codes.items()}
    differing = [name for name, code in of_used.items() if (code != code[:1]).any()]
    for name in asked:
        if name not in differing:
            others = [one for one in differing if factor(one).always_splits]
            hint = ", ".join(others) or "none"
            raise NothingToReport(
                f"{name} does not vary in runs of {metric}; these do: {hint}"
            )
    split = _splitting(runs[:used], of_used, differing, asked, pooled)

    # the conditions
    number = combined([codes[name] for name in split], len(rows))
    facts = _facts(source.runs, rows[:used], of_used, number[:used], split)
    names = condition_names(facts, split, differing)
    # what was excluded has one where another run of it was used
    place = facts.index.get_indexer(pd.Index(number))
    condition = pd.CategoricalDtype(names, ordered=True)
    runs["condition"] = pd.Categorical.from_codes(place, dtype=condition)
    runs["part"] = combined([number, *(codes[name] for name in pooled)], len(rows))
    facts.index = pd.Index(names, name="condition", dtype=object)

    # what they gave
    table, most = _tabulate(runs.dropna(subset="condition"), pooled)
    # nobody knows what was planned of logs
    if blocked and source.origin.source != "imported":
        table = _with_missing(table, source.rounds)
    ok = runs.loc[runs["state"] == "ok", ["condition", "replicate"]]
    complete = source.runs.loc[ok.index].assign(**ok)
    complete.index = pd.RangeIndex(len(ok))
    residue = split[len(asked) :] if asked else []
    notes = _notes(runs, table, residue, pooled, most)
    if not blocked:
        notes.append(UNBLOCKED)
    return Observations(
        metric=metric,
        table=table,
        facts=facts,
        by=tuple(split),
        asked=asked,
        notes=tuple(notes),
        runs=complete,
        where=where,
        blocked=blocked,
        origin=source.origin,
    )


def _pooled(source: Measurement, pool: Names) -> list[str]:
    """Return the factors that must not split; those of pairs where there are any."""
    names: list[str] = []
    for name in as_tuple(pool):
        if name == "pairs":
            names += [one for one in PAIRS if one in source.factors]
        elif name != MEASUREMENT or name in source.factors:  # there need not be several
            names.append(name)
    return names


def _notes(
    runs: pd.DataFrame,
    table: pd.DataFrame,
    residue: Sequence[str],
    pooled: Sequence[str],
    most: int,
) -> list[str]:
    """Return what was left out, what else splits, what was pooled, and what has no value."""
    notes = []
    excluded = int((runs["state"] == "excluded").sum())
    if excluded:
        notes.append(f"{plural(excluded, 'excluded run')} left out")
    if residue:
        vary = "varies" if len(residue) == 1 else "vary"
        names = in_words(map(label, residue))
        notes.append(f"{names} {vary} too: each level is a condition of its own")
    if pooled and most > 1:
        names = ", ".join(map(label, pooled))
        notes.append(f"pooled: {names}: geometric mean of up to {most} runs of a round")
    for state in ("failed", "missing"):
        count = int((table["state"] == state).sum())
        if count:
            notes.append(f"{plural(count, 'observation')} {state}")
    return notes


# -- which runs ------------------------------------------------------------------------------------


def _runs_that_may_give(source: Measurement, metric: str, where: Levels) -> pd.DataFrame:
    """Return the last attempt at each run of the tests that give a metric, with its value.

    Runs that are excluded come last.
    """
    runs = source.runs
    ran, excluded = states(runs)
    value = pd.to_numeric(runs[metric], errors="coerce").astype(float)
    ok = ran & np.isfinite(value)
    if not ok.any():
        there = source.measured(METRICS)
        named = [one for one in there if one in PAGES] or there
        raise NothingToReport(
            f"no complete run has a value of {metric}; there are: "
            f"{', '.join(named) or 'none'}"
        )
    # where nobody says that a run failed, a null is a value that is missing
    unsaid = runs["status"].isna()
    state = np.select([ok, excluded, unsaid], ["ok", "excluded", "missing"], "failed")
    # only runs of tests that give a metric can fail at giving it
    kind, like = numbered(runs, GIVES), numbered(runs, ["tool", "test"])
    gives, ended = ok.groupby(kind).transform("any"), ran.groupby(kind).transform("any")
    # of a test that never ran to its end nobody knows; it counts where its like gives the metric
    kept = (gives | (~ended & ok.groupby(like).transform("any"))) & source.last
    for name, wish in where.items():
        levels = wished(name, wish)
        cast = map(factor(name).cast, runs.loc[kept, name].unique())
        known = sort_levels(name, cast)
        strange = [one for one in levels if one not in known]
        if strange:
            words = ", ".join(map(factor(name).written, known))
            raise NothingToReport(
                f"{name} is never {strange[0]!r} in runs of {metric}; it is {words}"
            )
        kept &= has_level(runs[name], levels)
    chosen = runs[["run_id", "started_utc", "order", "round", *UNIT]].assign(
        replicate=source.replicate,
        value=value.where(ok),
        state=state,
        repeated=source.repeated,
    )
    return chosen.loc[excluded[kept].sort_values(kind="stable").index]


# -- what splits -----------------------------------------------------------------------------------


def _splitting(
    used: pd.DataFrame,
    codes: Codes,
    differing: Sequence[str],
    asked: Sequence[str],
    pooled: Sequence[str],
) -> list[str]:
    """Return the factors that split: those asked for, then each that adds to those chosen.

    What follows from the factors chosen adds nothing, and neither does what follows from a pooled
    one; but hosts determine everything.
    """
    chosen = list(asked)
    alone = [name for name in pooled if name not in PAIRS]
    count = len(used)
    group = combined([codes[name] for name in (*asked, *alone)], count)
    cell = numbered(used, ["replicate", "round"])
    cell = combined([cell, *(codes[name] for name in pooled)], count)
    for name in differing:
        names = [name]
        for pair in ENDS:  # both ends of a path split, or none
            if name in pair:
                names = [end for end in pair if end in differing]
        names = [end for end in names if end not in (*chosen, *pooled)]
        if not names:
            continue
        levels = [codes[end] for end in names]
        kind = factor(names[0])
        # without rounds, other hosts are another path
        other_path = names[0] in HOSTS and used["round"].is_unique
        # a log that does not say its streams may have others than one that does; but an end of
        # which nothing is known is no other one
        known = np.any([level >= 0 for level in levels], axis=0)
        if names == ["streams"] or (kind.null != "unknown" and kind.always_splits):
            known[:] = True
        # what changes between rounds says nothing; two runs of a round are two conditions
        always = kind.always_splits or other_path
        apart = always and _vary(levels, group, known)
        if apart or _vary(levels, combined([group, cell], count)):
            chosen += names
            group = combined([group, *levels], count)
    return chosen


def _vary(
    levels: Sequence[npt.NDArray[np.int64]],
    group: npt.NDArray[np.int64],
    known: npt.NDArray[np.bool_] | slice = slice(None),
) -> bool:
    """Return whether some factors vary within groups of the runs of which they are known."""
    both = combined([group, *levels], len(group))
    return bool(np.unique(both[known]).size > np.unique(group[known]).size)


# -- conditions ------------------------------------------------------------------------------------


def _facts(
    runs: pd.DataFrame,
    used: npt.NDArray[np.int64],
    codes: Codes,
    number: npt.NDArray[np.int64],
    split: Sequence[str],
) -> pd.DataFrame:
    """Return the level of every factor, a row for each condition, in the order of its levels."""
    first = np.unique(number, return_index=True)[1]
    levels = runs.loc[used[first], [*codes]]
    facts = {}
    for name, code in codes.items():
        facts[name] = list(map(plain, levels[name]))
        for condition in np.unique(number[code != code[first][number]]):
            facts[name][condition] = SEVERAL
    ranks = []
    for name in split:
        order = sort_levels(name, facts[name])
        if name == MEASUREMENT:  # in the order in which they were given
            order = list(dict.fromkeys(facts[name]))
        ranks.append(list(map(order.index, facts[name])))
    table = pd.DataFrame(facts, dtype=object)
    if not split:
        return table
    return table.iloc[np.lexsort(ranks[::-1])]


# -- what they gave --------------------------------------------------------------------------------


def _tabulate(runs: pd.DataFrame, pooled: Sequence[str]) -> tuple[pd.DataFrame, int]:
    """Return an observation for each condition and round, and the most runs that one has."""
    most = 1
    used = runs[runs["state"] != "excluded"]
    if used.duplicated(CELL).any():
        if not pooled:
            _refuse_collisions(used)
        used, most = _merged(used)
        runs = pd.concat([used, runs[runs["state"] == "excluded"]])
    # an excluded run is no gap where another one took its place
    table = runs.drop_duplicates(CELL)
    carried = ["value", "state", "order", "repeated", "run_id", "started_utc"]
    return table[[*CELL, *carried, *UNIT]].reset_index(drop=True), most


def _refuse_collisions(runs: pd.DataFrame) -> None:
    """Raise UsageError where two complete runs of a round differ in nothing known."""
    ok = runs[runs["state"] == "ok"]
    again = ok[ok.duplicated(CELL, keep=False)]
    for (_, _, number), same in again.groupby(CELL, observed=True):
        names = in_words(same["run_id"].fillna("a run without a name").astype(str))
        raise UsageError(
            f"{names} differ in nothing known, and are of one round ({number:g}): "
            "label what they differ in, or leave the round out"
        )


def _merged(runs: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Return runs with the mean of their cell, and the most runs of a cell.

    It is geometric, of pairs brought to one level: a pair of hosts that is missing in a round then
    shifts nothing.
    """
    cell, value = numbered(runs, CELL), runs["value"]
    size = np.bincount(cell)[cell]
    if (value <= 0).any():  # zeros have no geometric mean
        mean = value.groupby(cell).transform("mean")
    else:
        logs = np.log(value)
        of_part = logs.groupby(runs["part"]).transform("mean")
        # each part counts once in the level of its condition
        once = of_part.mask(runs["part"].duplicated())
        of_condition = once.groupby(runs["condition"].cat.codes).transform("mean")
        mean = np.exp((logs - of_part + of_condition).groupby(cell).transform("mean"))
    # one failed run spoils its round: the mean of the others is another mixture
    ok = runs["state"] == "ok"
    spoiled = ok & ~ok.groupby(cell).transform("all")
    merged = mean.mask(size == 1, value).where(ok & ~spoiled)
    state = runs["state"].mask(spoiled, "failed")
    return runs.assign(value=merged, state=state), int(np.max(size))


def _with_missing(table: pd.DataFrame, rounds: pd.DataFrame) -> pd.DataFrame:
    """Add a row for each round of a deployment that lacks a condition that was measured there."""
    used = table[table["state"] != "excluded"]
    # a condition is due in the deployments in which it was measured at all
    there = used[["condition", "replicate", *UNIT]].drop_duplicates()
    due = there.merge(rounds, on="replicate")
    if len(due) == len(used):
        return table
    due = due.assign(state="missing", repeated=False)
    whole = pd.concat([table, due]).drop_duplicates(CELL, ignore_index=True)
    return whole if len(whole) > len(table) else table


def levels(
    data: Data | Measurement | Observations,
    metric: str | None = None,
    by: Names = (),
    *,
    where: Levels | None = None,
) -> pd.DataFrame:
    """Return the level of each condition: its median, with interval, range and counts.

    Parameters
    ----------
    data, metric, by, where
        As `observe` takes them; or the result of `observe` alone.

    Returns
    -------
    DataFrame
        A row for each condition, with its name as the index: its levels, ``metric``, ``unit`` (of
        the stored numbers), ``n``, ``median``, ``low``, ``high``, ``smallest``, ``largest``,
        ``confidence`` (the actual one of the interval), ``failed``, ``missing``. A single
        observation has no interval. A label that has the name of a figure gets the ending
        ``_label``. What the data are, where they are no measurement of a network, is the name of
        the columns: the first words that are shown.

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
    figures = obs.levels.copy()
    figures.insert(0, "metric", obs.metric)
    figures.insert(1, "unit", obs.unit)
    conditions = obs.table["condition"].astype(object)
    for state in ("failed", "missing"):
        count = (obs.table["state"] == state).groupby(conditions).sum()
        figures[state] = count.reindex(obs.names, fill_value=0)
    same = obs.conditions.columns.intersection(figures.columns)
    about = obs.conditions.rename(columns=dict(zip(same, same + "_label", strict=True)))
    table = about.join(figures)
    notice = obs.origin.notice
    return table.rename_axis(columns=shortened(notice) if notice else None)


def measured_by(obs: Observations) -> str:
    """Return the tools that measured it, with their tests: ``iperf3 tcp and qperf tcp_bw``."""
    # some logs do not say which test they are of
    kinds = obs.runs[["tool", "test"]].astype(object).fillna("").drop_duplicates()
    tests = sorted(" ".join(kind).strip() for kind in kinds.itertuples(index=False))
    return " and ".join(tests)
