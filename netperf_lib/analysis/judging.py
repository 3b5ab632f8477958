"""Verdicts on conditions: what was observed on both sides of a comparison, judged as one family.

`judge` takes contrasts as they are declared, `judge_pairs` pairs of conditions. Both stand on
`observe`, which decides what a condition is; a side of a contrast names one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import pandas as pd
from pydantic import ValidationError

from ..errors import NothingToReport, StatsError, UsageError
from ..experiment.contrasts import threshold
from ..experiment.factors import factor, level_words
from ..experiment.model import Contrast
from ..metrics import ALPHA, MARGIN, METRICS, format_value, in_words, plural
from .comparison import Family
from .limits import of_conditions
from .observe import (
    PAIR,
    SEVERAL,
    Data,
    Observations,
    condition_names,
    level_names,
    observe,
)
from .result import unit_of, value_words
from .runs import (
    ENDS,
    HOSTS,
    MEASUREMENT,
    ROWS_ALONE,
    Observed,
    no_factor,
    status_counts,
    warned,
)
from .samples import Sample, judge_samples

THESE = "for these VMs"
"""What the statements of one deployment apply to."""
PLACE_FACTORS = (
    *("placement", *HOSTS),
    *(f"{host}_{what}" for what in ("zone", "region", "zone_physical") for host in HOSTS),
)
"""Factors that describe where the VMs landed."""
ZONES = ("client_zone", "server_zone")
HARDWARE = ("client_cpu", "server_cpu", "nic_driver", "server_nic_driver")
"""What VMs of one size may land on."""
NOTICEABLE = 0.01
"""Share of lost datagrams from which on a throughput is not shown without it."""
Levels = Mapping[str, Any]


def lost_share(obs: Observations, conditions: Collection[str]) -> float:
    """Return the median share of datagrams that runs of these conditions lost.

    0: none was counted.
    """
    shares = _held(obs, "lost_ratio", conditions)
    return float(shares.median()) if len(shares) else 0.0


def _held(obs: Observations, name: str, conditions: Collection[str]) -> pd.Series:
    """Return what the complete runs of these conditions have in a column, without nulls."""
    if name not in obs.runs:
        return pd.Series(dtype=float)
    return obs.runs.loc[obs.runs["condition"].isin(conditions), name].dropna()


@dataclass(frozen=True, slots=True)
class Sides:
    """What is compared: two conditions of the same observations, or one and a threshold.

    Attributes
    ----------
    obs : Observations or None
        None: no complete run has a value.
    a, b : str
        Names of the conditions; empty where none was observed, or for a threshold.
    margin : float
        Ratios within 1/(1 + margin) … 1 + margin are equivalent.
    contrast : Contrast or None
        What was declared; None: the conditions are compared as they are, and all that splits them
        is named.
    factor : str
        The factor that was asked about; empty: it follows from the levels that are named.
    """

    obs: Observations | None
    a: str
    b: str
    margin: float = MARGIN
    contrast: Contrast | None = None
    factor: str = ""

    @property
    def conditions(self) -> tuple[Observations | None, str, str]:
        """The observations, and the condition of each side."""
        return self.obs, self.a, self.b

    @property
    def limit(self) -> bool:
        """Whether the second side is a threshold."""
        return self.contrast is not None and self.contrast.b is None

    def sides(self) -> list[Levels]:
        """Return the levels that are named of each side."""
        if self.contrast is not None:
            return [
                side for side in (self.contrast.a, self.contrast.b) if side is not None
            ]
        assert self.obs is not None
        return [{f: self.obs.at(c, f) for f in self.obs.by} for c in (self.a, self.b)]

    def differ(self) -> set[str]:
        """Return the factors that make two sides of them; all that is named against a threshold."""
        one, two = (*self.sides(), {})[:2]
        return {f for f in [*one, *two] if self.limit or one.get(f) != two.get(f)}

    def compared(self) -> str:
        """Return the factor whose levels are compared; empty if there are several, or none."""
        if self.factor or self.limit:
            return self.factor
        names = self.differ()
        if "placement" in names:
            return "placement"
        ends = {name for pair in ENDS for name in pair}
        others = names - ends
        if names and not others:
            return PAIR
        return others.pop() if len(others) == 1 else ""

    def as_contrast(self) -> Contrast:
        """Return the contrast that names exactly these conditions."""
        assert self.obs is not None
        a, b = ({**side, **self.obs.where} for side in self.sides())
        return self.contrast or Contrast(
            metric=self.obs.metric, a=a, b=b, margin=self.margin
        )


def judge(
    data: Data,
    contrasts: Iterable[Contrast | Mapping[str, Any]],
    *,
    alpha: float = ALPHA,
    design: Literal["fixed", "sequential"] | None = None,
    rounds: int | None = None,
    declared: int | None = None,
) -> Family:
    """Judge the declared contrasts of a report from its runs.

    Parameters
    ----------
    data : Results, DataFrame, path, or several of these
        As `observe` takes it. A table has one row per run and attempt. Columns: ``experiment``,
        ``deployment``, ``round``, ``order``, ``attempt``, ``status``, ``tool``, ``test``, the
        factors, the metrics; runs that failed have null metrics. A missing column has a default
        (one experiment, one deployment, first attempt, ok).
    contrasts : iterable of dict or Contrast
        As in the yaml: ``{"metric": …, "a": {factor: level}, "b": {factor: level}, "margin":
        0.1}``, or against a threshold: ``{"metric": …, "a": {…}, "below": "1 ms"}``, ``{"metric":
        …, "a": {…}, "at_least": "900 Mbit/s"}``, ``{"metric": …, "a": {…}, "at_least": "90 %",
        "of": "10 Gbit/s"}`` (a number is in the unit of the metric). Margin: a share or a
        percentage, default 0.05.
    alpha : float, default 0.05
        Share of reports that may contain a false verdict.
    design : {"fixed", "sequential"}, optional
        "fixed": the number of rounds was chosen before the data, and this is the only look.
        "sequential": rounds are added until the contrasts are settled; intervals then hold at all
        looks together, so adding rounds is always allowed. Default: the column ``design`` of the
        runs where there is one, else "fixed".
    rounds : int, optional
        Rounds planned in each deployment: those not measured count as lost, and in a fixed design
        any further rounds are not used. Default: as the experiment declares, if `data` is an
        experiment or its folder.
    declared : int, optional
        How many of the contrasts, from the first, share `alpha`; the others are exploratory: an
        interval but no verdict. Default: all.

    Returns
    -------
    Family
        `Family.verdicts` in the order of `contrasts`.

    Raises
    ------
    UsageError
        No such factor or metric, an invalid contrast, or a table without runs.

    Examples
    --------
    >>> exp = npl.read("data/recorded/lab-full")
    >>> npl.analysis.judge(exp, exp.contrasts).counts
    '264 runs ok, 0 failed, 0 excluded'
    """
    source = Observed.of(data, rounds)
    runs, late = source.runs, source.late()
    if runs.empty:
        raise StatsError(
            "the table of runs is empty: nothing was measured, or nothing was ingested"
        )
    sequential = "sequential" in ({design} if design else set(runs.get("design", ())))
    warnings = []
    if late.any() and not sequential:
        beyond = plural(
            len(runs.loc[late, ["deployment", "round"]].drop_duplicates()), "round"
        )
        warnings.append(
            f"{beyond} beyond the {source.planned} planned are not used: "
            "to add rounds until contrasts are settled, use a sequential design"
        )
        source = replace(source, runs=runs[~late].reset_index(drop=True))
    ok, failed, excluded = status_counts(source.runs)
    pairs = paired_conditions(source, map(as_contrast, contrasts))
    kept = len(pairs) if declared is None else declared
    if source.exploratory:
        kept = 0
        warnings.append(ROWS_ALONE)
    samples = [sample_of(p, declared=i < kept) for i, p in enumerate(pairs)]
    family = judge_samples(samples, alpha=alpha, sequential=sequential)
    return replace(
        family, warnings=tuple(warnings), ok=ok, failed=failed, excluded=excluded
    )


def judge_pairs(pairs: Sequence[Sides], *, declared: bool = True) -> Family:
    """Judge pairs of conditions as one family, or each alone, as exploratory."""
    states = [obs.table["state"] for obs in {p.obs for p in pairs} if obs]
    ok, failed = (
        sum(int((state == what).sum()) for state in states) for what in ("ok", "failed")
    )
    family = judge_samples([sample_of(p, declared=declared) for p in pairs])
    alone = any(p.obs.exploratory for p in pairs if p.obs)
    warnings = (ROWS_ALONE,) if alone and not declared else ()
    return replace(family, ok=ok, failed=failed, declared=0, warnings=warnings)


# -- from a contrast to two conditions -----------------------------------------------------------


def paired_conditions(source: Observed, contrasts: Iterable[Contrast]) -> list[Sides]:
    """Return the conditions that contrasts name.

    Raises UsageError where a side names several conditions, or what is no factor.
    """
    pairs = []
    for c in contrasts:
        named = {**c.a, **(c.b or {})}
        # the pairs of hosts of one condition are merged by round, unless a side names them
        pool = () if any(f.startswith(HOSTS) for f in named) else ("pairs",)
        obs = _observed(source, c.metric, (), pool)
        if obs is not None:
            check_factors(obs, named)
            split = (f for f in named if f not in obs.by and SEVERAL in set(obs.facts[f]))
            obs = _observed(source, c.metric, tuple(split), pool)
        a, b = (
            "" if side is None or not obs else _named(obs, side) for side in (c.a, c.b)
        )
        pairs.append(Sides(obs, a, b, c.margin, c))
    return pairs


@lru_cache(maxsize=16)  # contrasts of one metric stand on the same observations
def _observed(
    source: Observed, metric: str, by: tuple[str, ...], pool: tuple[str, ...]
) -> Observations | None:
    with suppress(NothingToReport):
        return observe(source, metric, by, pool=pool)
    return None


def as_contrast(c: Contrast | Mapping[str, Any]) -> Contrast:
    """Return a contrast; StatsError if it is not valid."""
    try:
        return Contrast.model_validate(c)
    except ValidationError as error:
        problem = error.errors()[0]
        what = ": ".join([*map(str, problem["loc"]), problem["msg"]])
        raise StatsError(f"not a contrast: {c!r} ({what})") from None


def check_factors(obs: Observations, names: Iterable[str]) -> None:
    """Raise UsageError for a name that is no factor of these runs."""
    for name in names:
        if name not in obs.facts:
            raise no_factor(name, obs.runs)


def _named(obs: Observations, side: Levels) -> str:
    """Return the condition that a side names; empty if none, UsageError if several."""
    names = obs.matching(side)
    if len(names) < 2:
        return names[0] if names else ""
    differ = [f for f in obs.by if len({repr(obs.at(c, f)) for c in names}) > 1]
    raise UsageError(
        f"{obs.metric}: {_words(side) or 'a side without levels'} names {len(names)} conditions; "
        f"name also {in_words(differ)}"
    )


@lru_cache(maxsize=64)
def _varying(obs: Observations) -> list[str]:
    """Return the factors that differ between conditions."""
    return [str(f) for f in obs.facts if len(set(obs.facts[f])) > 1]


# -- from two conditions to a sample -------------------------------------------------------------


@lru_cache(maxsize=64)  # a thousand comparisons ask for the same
def by_round(obs: Observations) -> pd.DataFrame:
    """Return what each condition gave; a row for each unit and round.

    Infinity: the run failed or was repeated; NaN: it is missing. Minus infinity: it was excluded
    for a recorded cause, or its unit is without the condition.
    """
    t = obs.table
    failed = (t["state"] == "failed") | t["repeated"].astype(bool)
    values = t["value"].astype(float).where(t["state"] == "ok").mask(failed, np.inf)
    keys = [t["unit"], t["round"].astype(float), t["condition"].astype(str)]
    wide: Any = values.set_axis(pd.MultiIndex.from_arrays(keys))
    table: pd.DataFrame = wide.unstack(fill_value=-np.inf)  # noqa: PD010  keeps empty rows
    return table


def sample_of(p: Sides, *, declared: bool = True) -> Sample:
    """Return what was observed for a pair, as the statistics take it."""
    c, obs = p.contrast, p.obs
    (one, *two), context = _names(p)
    metric = obs.metric if obs else c.metric  # type: ignore[union-attr]
    about: dict[str, Any] = {"margin": p.margin, "declared": declared, "context": context}
    about |= {"metric": metric, "better": METRICS[metric].better}
    about |= {"factor": p.compared()}
    if c is not None and c.b is None:
        lower = c.below is not None
        about |= {"threshold": threshold(c), "better": "lower" if lower else "higher"}
        limit = value_words(about["threshold"], unit_of(metric))
        two = [f"{'below' if lower else 'at least'} {limit}"]
    names = about["names"] = one, two[0]
    if obs is None:
        none, refusal = np.zeros(0), f"no complete run has a value of {metric}"
        return Sample(a=none, b=None if p.limit else none, refusal=refusal, **about)
    held = of_conditions(obs)
    about["held_back"] = tuple(
        held[name].cause if name in held else "" for name in (p.a, p.b)
    )
    both = [p.a] if p.limit else [p.a, p.b]
    # sides by number: where neither was measured, both have the empty name
    value = by_round(obs).reindex(columns=both, fill_value=-np.inf)
    value = value.set_axis(range(len(both)), axis=1)
    asked = value != -np.inf
    value = value.where(asked)
    paired = value.notna().all(axis=1).any() or not value.notna().any().all()
    value = value[asked.all(axis=1) if paired else asked.any(axis=1)]
    empty = [
        n for n, v in zip(names, value, strict=False) if not np.isfinite(value[v]).any()
    ]
    if not empty:  # the level that every table and figure gives
        about["medians"] = obs.value(p.a), np.nan if p.limit else obs.value(p.b)
    warnings = [*_lost(obs, names, both), *_warned(obs, names, both)]
    if MEASUREMENT not in obs.by:
        hosts = [{*_held(obs, end, [c])} for c in both for end in HOSTS]
        warnings = _false_claims(obs, {*map(str, set().union(*hosts))}) + warnings
        places = [
            obs.table["deployment"],
            obs.table["experiment"],
            *map(obs.facts.get, HOSTS),
        ]
        if any(column is not None and column.notna().any() for column in places):
            about["scope"] = THESE
        if not p.limit and not empty:
            warnings += _confounded(p)
            about["moved"] = hosts[:2] != hosts[2:] or bool(p.differ() & {*PLACE_FACTORS})
    return Sample(
        a=value[0].to_numpy(),
        b=None if p.limit else value[1].to_numpy(),
        unit=value.index.get_level_values(0).to_numpy(),
        refusal=f"no run of {empty[0]} has a value of {metric}" if empty else "",
        warnings=tuple(warnings),
        **about,
    )


def _words(levels: Levels) -> str:
    return ", ".join(level_words(f, v) for f, v in levels.items())


def _names(p: Sides) -> tuple[list[str], str]:
    """Return the names of both sides from what differs between them.

    And what they share in words.
    """
    obs, sides = p.obs, p.sides()
    known = [p.a] if p.limit else [p.a, p.b]
    if obs is None or not all(known):
        return [_words(side) or "all" for side in sides], ""
    facts, varying = obs.facts.loc[known], _varying(obs)
    factors = list(dict.fromkeys(f for side in sides for f in side))
    differ = {f for f in factors if p.limit or len(set(facts[f])) > 1}
    # a path has one name: "zone 1 → 2"
    ends = {f for pair in ENDS for f in pair if {*pair} & differ}
    named = [f for f in factors if f in differ | ends]
    shared = [f for f in factors if f not in named and f in varying]
    context = _words({f: obs.at(p.a, f) for f in shared})
    if p.contrast is None:
        context = level_names(obs, shared)[p.a] if shared or MEASUREMENT in named else ""
    if named == [MEASUREMENT]:
        return list(facts[MEASUREMENT]), context
    if named and {*named} <= {*HOSTS}:
        paths = [
            e
            for e in (ZONES, HOSTS)
            if {*e} <= {*facts} and facts[[*e]].notna().all(axis=None)
        ]
        named = list([*paths, named][0])
    return condition_names(facts, named, varying), context


# -- what the reader must know -------------------------------------------------------------------


def _lost(obs: Observations, names: Sequence[str], both: Sequence[str]) -> list[str]:
    """Warn about a side that lost datagrams."""
    losses = {n: lost_share(obs, [c]) for n, c in zip(names, both, strict=False)}
    return [
        f"{name} lost {format_value(loss, 'ratio')} of its datagrams"
        for name, loss in losses.items()
        if loss > NOTICEABLE and obs.unit == "bps"
    ]


def _warned(obs: Observations, names: Sequence[str], both: Sequence[str]) -> list[str]:
    """Count the runs of each side that carry a warning."""
    sides = [obs.runs[obs.runs["condition"] == c] for c in both]
    told = [warned(runs, name) for name, runs in zip(names, sides, strict=False)]
    return [words for words in told if words]


def _false_claims(obs: Observations, hosts: Collection[str]) -> list[str]:
    """Warn of claims about the hosts that turned out false: a verdict rests on them."""
    failed = [
        c for c in obs.origin.failed_claims if c["host"] is None or c["host"] in hosts
    ]
    false = {
        str(c["claim"]): f" ({c['evidence']})" if c.get("evidence") else ""
        for c in failed
    }
    return [
        f"it rests on a claim that does not hold: {claim}{proof}"
        for claim, proof in false.items()
    ]


def _confounded(p: Sides) -> list[str]:
    """Warn about what the sides differ in besides what makes them two."""
    obs, differ = p.obs, p.differ()
    assert obs is not None
    implied = {f for side in p.sides() for f in side} | {*HOSTS}
    implied |= {*PLACE_FACTORS} if differ & {*PLACE_FACTORS} else set()
    remarks = []
    for f in _varying(obs):
        levels = [obs.at(c, f) for c in (p.a, p.b)]
        if f in implied or differ & {*factor(f).follows}:
            continue
        words, apart = (
            " and ".join(level_words(f, v) for v in levels),
            levels[0] != levels[1],
        )
        if SEVERAL in levels:
            both = [{*_held(obs, f, [c])} for c in (p.a, p.b)]
            words, apart = "in some runs", f in HARDWARE and both[0] != both[1]
        if apart:
            label = factor(f).label or f
            remarks.append(
                f"the sides also differ in {label} ({words}): the difference may be due to that"
            )
    # the virtual function of accelerated networking must differ with it
    up = {obs.at(c, "vf_up") for c in (p.a, p.b)}
    if "accelerated" in differ and len(up) == 1 and not up & {None, SEVERAL}:
        had = f"both had {'a' if True in up else 'no'} virtual function"
        remarks.append(
            f"the sides differ in accelerated networking, but {had}: it was not switched"
        )
    return remarks
