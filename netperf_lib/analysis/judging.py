"""Verdicts on conditions: what was observed on both sides of a comparison, judged together as one family.

`judge` takes contrasts as they are declared, `judge_pairs` pairs of conditions. Both stand on `observe`, which decides
what a condition is; a side of a contrast names one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pydantic import ValidationError

from ..errors import NothingToReport, StatsError, UsageError
from ..experiment.contrasts import threshold
from ..experiment.factors import factor, level_words
from ..experiment.model import Contrast
from ..metrics import ALPHA, MARGIN, METRICS, format_value, in_words, plural
from .comparison import Family
from .median_ci import LONG_SERIES
from .observe import (
    SEVERAL,
    Data,
    Observations,
    level_names,
    observe,
)
from .result import unit_of, value_words
from .runs import ENDS, HOSTS, MEASUREMENT, Observed, nearest, status_counts
from .samples import Design, Sample, judge_samples

THESE = "for these VMs"
"""What the statements of one deployment apply to."""
PLACES = (
    *("placement", *HOSTS),
    *(f"{host}_{what}" for what in ("zone", "region", "zone_physical") for host in HOSTS),
)
"""Factors that describe where the VMs landed."""
HARDWARE = ("client_cpu", "server_cpu", "nic_driver", "server_nic_driver")
"""What VMs of one size may land on."""
FEW_BEYOND = 10
"""A percentile with fewer packets beyond it is not yet a property of the network."""
NOTICEABLE = 0.01
"""Share of lost datagrams from which on a throughput is not shown without it."""
Levels = Mapping[str, Any]


def lost_share(obs: Observations, conditions: Collection[str]) -> float:
    """Return the median share of datagrams that runs of these conditions lost; 0: none was counted."""
    shares = obs.column("lost_ratio", conditions).dropna()
    return float(shares.median()) if len(shares) else 0.0


@dataclass(frozen=True, slots=True)
class Pair:
    """What is compared: two conditions of the same observations, or one and a threshold.

    Attributes
    ----------
    obs : Observations or None
        None: no complete run has a value.
    a, b : str
        Names of the conditions; empty where none was observed, or for a threshold.
    margin : float
        Ratios within 1/(1 + margin) … 1 + margin are equivalent.
    declared : bool
        Whether it belongs to the family; else it is exploratory.
    contrast : Contrast or None
        What was declared; None: the conditions are compared as they are, all that splits them being named.
    """

    obs: Observations | None
    a: str
    b: str
    margin: float = MARGIN
    declared: bool = True
    contrast: Contrast | None = None

    @property
    def sides(self) -> list[Levels]:
        """The levels that are named of each side."""
        if self.contrast is not None:
            return [side for side in (self.contrast.a, self.contrast.b) if side is not None]
        assert self.obs is not None
        return [{f: self.obs.at(c, f) for f in self.obs.by} for c in (self.a, self.b)]

    @property
    def differ(self) -> set[str]:
        """The factors that make two sides of them."""
        one, two = self.sides
        return {f for f in [*one, *two] if one.get(f) != two.get(f)}

    @property
    def conditions(self) -> tuple[Observations | None, str, str]:
        """The observations, and the condition of each side."""
        return self.obs, self.a, self.b

    def as_contrast(self) -> Contrast:
        """The contrast that names exactly these conditions."""
        assert self.obs is not None
        a, b = ({**side, **self.obs.where} for side in self.sides)
        return self.contrast or Contrast(metric=self.obs.metric, a=a, b=b, margin=self.margin)


def judge(
    data: Data,
    contrasts: Iterable[Contrast | Mapping[str, Any]],
    *,
    alpha: float = ALPHA,
    design: Design | None = None,
    rounds: int | None = None,
) -> Family:
    """Judge the declared contrasts of a report from its runs.

    Parameters
    ----------
    data : Results, DataFrame, path, or several of these
        As `observe` takes it. A table has one row per run and attempt. Columns: ``experiment``, ``deployment``,
        ``round``, ``order``, ``attempt``, ``status``, ``tool``, ``test``, the factors, the metrics; runs that failed
        have null metrics. A missing column has a default (one experiment, one deployment, first attempt, ok).
    contrasts : iterable of dict or Contrast
        As in the yaml: ``{"metric": …, "a": {factor: level}, "b": {factor: level}, "margin": 0.1}``, or against a
        threshold: ``{"metric": …, "a": {…}, "below": "1 ms"}``, ``{"metric": …, "a": {…}, "at_least": "900 Mbit/s"}``,
        ``{"metric": …, "a": {…}, "at_least": "90 %", "of": "10 Gbit/s"}`` (a number is in the unit of the metric).
        Margin: a share or a percentage, default 0.05. ``"declared": False``: exploratory, an interval but no verdict;
        it takes no share of `alpha`.
    alpha : float, default 0.05
        Share of reports that may contain a false verdict.
    design : {"fixed", "sequential"}, optional
        "fixed": the number of rounds was chosen before the data, and this is the only look. "sequential": rounds are
        added until the contrasts are settled; intervals then hold at all looks together, so adding rounds is always
        allowed. Default: the column ``design`` of the runs where there is one, else "fixed".
    rounds : int, optional
        Rounds planned in each deployment: those not measured count as lost, and in a fixed design any further rounds
        are not used. Default: as the experiment declares, if `data` is an experiment or its folder.

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
    source, design, warnings = _used(Observed.of(data, rounds), design)
    ok, failed, excluded = status_counts(source.runs)
    counts = {"ok": ok, "failed": failed, "excluded": excluded}
    samples = list(map(_sample, paired_conditions(source, map(as_contrast, contrasts))))
    return judge_samples(samples, alpha=alpha, design=design, warnings=warnings, **counts)


def paired_conditions(source: Observed, contrasts: Iterable[tuple[Contrast, bool]]) -> list[Pair]:
    """Return the conditions that contrasts name; with each, whether it belongs to the family."""

    @cache
    def observed(metric: str, by: tuple[str, ...], pool: tuple[str, ...]) -> Observations | None:
        with suppress(NothingToReport):
            return observe(source, metric, by, pool=pool)
        return None

    pairs = []
    for c, declared in contrasts:
        named = {**c.a, **(c.b or {})}
        # the pairs of hosts of one condition are merged by round, unless a side names them
        pool = () if any(f.startswith(HOSTS) for f in named) else ("pairs",)
        if (obs := observed(c.metric, (), pool)) is not None:
            hidden = [f for f in named if f in obs.facts and f not in obs.by]
            split = tuple(f for f in hidden if SEVERAL in set(obs.facts[f]))
            obs = observed(c.metric, split, pool)
        a, b = ("" if side is None or not obs else _named(obs, side) for side in (c.a, c.b))
        pairs.append(Pair(obs, a, b, MARGIN if c.b is None else c.margin, declared, c))
    return pairs


def check_factors(obs: Observations, names: Iterable[str]) -> None:
    """Raise UsageError for a name that is no factor of these runs."""
    for name in names:
        if name not in obs.facts:
            near = nearest(name, list(map(str, obs.facts)), _varying(obs))
            raise UsageError(f"no factor {name!r} in these runs; {near}")


def _named(obs: Observations, side: Levels) -> str:
    """Return the condition that a side of a contrast names; empty if there is none.

    Raises UsageError for a name that is no factor, and where the side names several conditions.
    """
    check_factors(obs, side)
    names = obs.matching(side)
    if len(names) < 2:
        return names[0] if names else ""
    levels = ", ".join(level_words(f, v) for f, v in side.items()) or "a side without levels"
    differ = [f for f in obs.by if len({repr(obs.at(c, f)) for c in names}) > 1]
    raise UsageError(
        f"{obs.metric}: {levels} names {len(names)} conditions; name also {in_words(differ)}"
    )


def _used(source: Observed, design: Design | None) -> tuple[Observed, Design, tuple[str, ...]]:
    """The runs that count by their design, that design, and a warning if others were left out."""
    if source.runs.empty:
        raise StatsError(
            "the table of runs is empty: nothing was measured, or nothing was ingested"
        )
    if design is None:
        design = "sequential" if "sequential" in set(source.runs.get("design", ())) else "fixed"
    late = source.late()
    if design != "fixed" or not late.any():
        return source, design, ()
    count = len(source.runs.loc[late, ["deployment", "round"]].drop_duplicates())
    source = replace(source, runs=source.runs[~late].reset_index(drop=True))
    words = f"{plural(count, 'round')} beyond the {source.planned} planned are not used"
    return (
        source,
        design,
        (f"{words}: to add rounds until contrasts are settled, use a sequential design",),
    )


def judge_pairs(pairs: Sequence[Pair], alpha: float | None = None) -> Family:
    """Judge pairs of conditions as one family; runs of two measurements share no round: unpaired."""
    states = [obs.table["state"] for obs in {p.obs for p in pairs} if obs]
    ok, failed = (sum(int((state == what).sum()) for state in states) for what in ("ok", "failed"))
    samples = list(map(_sample, pairs))
    return judge_samples(samples, alpha=alpha or ALPHA, ok=ok, failed=failed, declared=0)


def as_contrast(c: Contrast | Mapping[str, Any]) -> tuple[Contrast, bool]:
    """A contrast, and whether it belongs to the family; raise StatsError if it is not valid."""
    if isinstance(c, Contrast):
        return c, True
    fields = {k: v for k, v in dict(c).items() if v is not None}
    declared = bool(fields.pop("declared", True))
    try:
        return Contrast.model_validate(fields), declared
    except ValidationError as error:
        problem = error.errors()[0]
        what = ": ".join([*map(str, problem["loc"]), problem["msg"]])
        raise StatsError(
            f"not a contrast: {fields!r}; needed: metric, a, and b (with a margin) or one of below, "
            f"at_least ({what})"
        ) from None


# -- from two conditions to a sample -------------------------------------------------------------


def by_round(obs: Observations) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return what each condition gave and whether it was asked; a row for each unit and round, made once.

    Infinity: the run failed or was repeated; NaN: it is missing. What was excluded for a recorded
    cause, or is of a unit without the condition, was not asked.
    """

    def make() -> tuple[pd.DataFrame, pd.DataFrame]:
        t = obs.table
        failed = (t["state"] == "failed") | t["repeated"].astype(bool)
        keys = [t["unit"], t["round"].astype(float), t["condition"].astype(str)]
        values = t["value"].where(t["state"] == "ok").mask(failed, math.inf)
        cells = pd.DataFrame({"value": values.astype(float), "here": 1.0})
        wide: Any = cells.set_index(keys).unstack()  # noqa: PD010  pivot_table drops empty rows
        return wide["value"], wide["here"].notna()

    tables: tuple[pd.DataFrame, pd.DataFrame] = obs.once("by round", make)
    return tables


def _sample(p: Pair) -> Sample:
    """What was observed for a pair, as the statistics take it."""
    c, obs = p.contrast, p.obs
    about: dict[str, Any] = {"margin": p.margin, "declared": p.declared}
    about["question"] = (c and c.question) or ""
    limit = ""
    if c is not None and c.b is None:
        about |= {"threshold": threshold(c), "better": "lower" if c.below is not None else "higher"}
        word = "below" if c.below is not None else "at least"
        limit = f"{word} {value_words(about['threshold'], unit_of(c.metric))}"
    if obs is None:
        assert c is not None
        words = [", ".join(level_words(f, v) for f, v in side.items()) for side in p.sides]
        about |= {"metric": c.metric, "names": (words[0] or "all", limit or words[-1] or "all")}
        none = np.zeros(0)
        refusal = f"no complete run has a value of {c.metric}"
        return Sample(a=none, b=None if limit else none, refusal=refusal, **about)
    both = [p.a] if limit else [p.a, p.b]
    if not limit:
        about["better"] = METRICS[obs.metric].better
    names, context = _names(p)
    names = names[0], limit or names[1]
    # sides by number: where neither was measured, both have the empty name
    value, here = (
        cells.reindex(columns=both).set_axis(range(len(both)), axis=1) for cells in by_round(obs)
    )
    here = here.eq(other=True)  # a condition that is not there was not asked
    paired = bool(value.notna().all(axis=1).any()) or not value.notna().any().all()
    used = here.all(axis=1) if paired else here.any(axis=1)
    value = value[used]
    empty = [n for n, v in zip(names, value, strict=False) if not np.isfinite(value[v]).any()]
    two = MEASUREMENT in obs.by
    warnings = _lost(obs, names, both)
    if not limit and not empty and not two:
        confounded, about["moved"] = _confounded(p)
        warnings += confounded
    if not empty:  # the level that every table and figure gives
        about["medians"] = obs.value(p.a), math.nan if limit else obs.value(p.b)
    refusal = f"no run of {empty[0]} has a value of {obs.metric}" if empty else ""
    places = ("deployment", "experiment", *HOSTS)
    placed = not two and any(bool(obs.table[c].notna().any()) for c in places)
    ends = () if two else HOSTS
    hosts = sorted({str(host) for end in ends for host in obs.column(end, both).dropna()})
    sample = Sample(
        a=value[0].to_numpy(),
        b=None if limit else value[1].to_numpy(),
        unit=value.index.get_level_values(0).to_numpy(),
        hour=_hours(obs, p.a, value.index) if limit else None,
        refusal=refusal or _few_packets(obs, both, names),
        warnings=tuple(warnings),
        metric=obs.metric,
        names=names,
        context=context,
        hosts=tuple(hosts),
        scope=THESE if placed else "",
        **about,
    )
    if limit or empty or two:
        return sample
    return replace(sample, warnings=(*sample.warnings, *_hardware(p, sample)))


def _hardware(p: Pair, sample: Sample) -> list[str]:
    """Warn that some deployments put the sides on other hardware, and give what the others show."""
    obs = p.obs
    assert obs is not None
    varying = [f for f in HARDWARE if f in _varying(obs)]
    names = [f for f in varying if not p.differ & {*factor(f).follows}]
    if not any(SEVERAL in (obs.fact(p.a, f), obs.fact(p.b, f)) for f in names):
        return []
    one, two = (obs.levels_by_unit(condition, names) for condition in (p.a, p.b))
    alike = [unit for unit, levels in one.items() if levels == two.get(unit)]
    if len(alike) == len(one):
        return []
    text = (
        f"in {len(one) - len(alike)} of {plural(len(one), 'deployment')} the sides ran on "
        "different processors or network cards: the difference may be due to that"
    )
    assert sample.unit is not None
    inside = np.isin(sample.unit, alike)
    if not inside.any():
        return [text]
    part = {name: getattr(sample, name)[inside] for name in ("a", "b", "unit")}
    beside = judge_samples([replace(sample, **part, warnings=(), declared=False)])[0]
    return [f"{text}; within equal hardware, {beside.words}"]


def _hours(obs: Observations, name: str, rounds: pd.Index) -> npt.NDArray[np.intp] | None:
    """Return the hour in which the run of each round began; None where one is not known."""
    rows = obs.table[(obs.table["condition"] == name) & (obs.table["state"] == "ok")]
    if "started_utc" not in rows or len(rows) < LONG_SERIES:
        return None
    hour = pd.to_datetime(rows["started_utc"], utc=True, errors="coerce").dt.floor("h")
    hour.index = pd.MultiIndex.from_arrays([rows["unit"], rows["round"].astype(float)])
    return None if hour.isna().any() else hour.reindex(rounds).factorize()[0]


# -- what the reader must know -------------------------------------------------------------------------------------


def _names(p: Pair) -> tuple[tuple[str, str], str]:
    """Return the names of both sides from what differs between them, and the words for what they share."""
    if p.contrast is None:
        return side_words(p)
    obs = p.obs
    assert obs is not None
    sides = [dict(p.sides[0]), dict(p.sides[-1])]
    factors = list(dict.fromkeys([*sides[0], *sides[1]]))
    for levels, condition in zip(sides, (p.a, p.b), strict=True):
        # a factor that only the other side names: the runs themselves show its level here
        shown = {f: obs.fact(condition, f) for f in factors if condition}
        levels |= {f: v for f, v in shown.items() if f not in levels and v != SEVERAL}
    one, two = sides
    unknown = object()
    alone = p.contrast.b is None
    differ = [f for f in factors if alone or one.get(f, unknown) != two.get(f, unknown)]
    a, b = (
        ", ".join(level_words(f, levels[f]) for f in differ if f in levels) or "all"
        for levels in sides
    )
    if differ and {*differ} <= {*HOSTS}:
        a, b = _path(obs, p.a) or a, _path(obs, p.b) or b
    shared = [f for f in factors if f not in differ and f in _varying(obs)]
    return (a, b), ", ".join(level_words(f, one[f]) for f in shared)


def _varying(obs: Observations) -> list[str]:
    """The factors that differ between conditions."""
    found: list[str] = obs.once(
        "varying", lambda: [str(f) for f in obs.facts if len({*map(repr, obs.facts[f])}) > 1]
    )
    return found


def side_words(p: Pair) -> tuple[tuple[str, str], str]:
    """What two conditions are called, and what they share."""
    obs, a, b = p.obs, p.a, p.b
    assert obs is not None
    differ = {f for f in obs.by if obs.at(a, f) != obs.at(b, f)}
    # a path has one name: "zone 1 → 2"
    ends = {f for pair in ENDS for f in pair if {*pair} & differ}
    named = [f for f in obs.by if f in ends | differ]
    names = obs.conditions[MEASUREMENT] if named == [MEASUREMENT] else level_names(obs, named)
    shared = [f for f in obs.by if f not in named]
    context = level_names(obs, shared)[a] if shared or MEASUREMENT in named else ""
    return (names[a], names[b]), context


def _path(obs: Observations, condition: str) -> str:
    """Return the pair of zones, or of hosts, of a condition, as conditions name it; empty if there is none."""
    for title, what in (("zone ", "_zone"), ("", "")):
        ends = [obs.fact(condition, f"{host}{what}") if condition else None for host in HOSTS]
        if not {None, SEVERAL} & {*ends}:
            return f"{title}{ends[0]} → {ends[1]}"
    return ""


def _lost(obs: Observations, names: Sequence[str], both: Sequence[str]) -> list[str]:
    """Warn about a side that lost datagrams."""
    if obs.unit != "bps":
        return []
    losses = {name: lost_share(obs, [v]) for name, v in zip(names, both, strict=False)}
    return [
        f"{name} lost {format_value(loss, 'ratio')} of its datagrams"
        for name, loss in losses.items()
        if loss > NOTICEABLE
    ]


def _confounded(p: Pair) -> tuple[list[str], bool]:
    """Warn about what the sides differ in besides what makes them two; and whether their VMs differ."""
    obs = p.obs
    assert obs is not None
    named, differ = {f for side in p.sides for f in side}, p.differ
    implied = named | {*HOSTS} | ({*PLACES} if differ & {*PLACES} else set())
    remarks = []
    for f in _varying(obs):
        one, two = (obs.fact(condition, f) for condition in (p.a, p.b))
        if f in implied or one == two or SEVERAL in (one, two) or differ & {*factor(f).follows}:
            continue
        levels = f"{level_words(f, one)} and {level_words(f, two)}"
        remarks.append(
            f"the sides also differ in {factor(f).label or f} ({levels}): "
            "the difference may be due to that"
        )
    # the virtual function of accelerated networking must differ with it
    up = {obs.fact(v, "vf_up") for v in (p.a, p.b)} if "vf_up" in obs.facts else set()
    if "accelerated" in differ and len(up) == 1 and not up & {None, SEVERAL}:
        had = f"both had {'a' if up.pop() else 'no'} virtual function"
        remarks.append(
            f"the sides differ in accelerated networking, but {had}: it was not switched"
        )
    hosts = [[{*obs.column(end, [v]).dropna()} for end in HOSTS] for v in (p.a, p.b)]
    return remarks, bool(differ & {*PLACES}) or hosts[0] != hosts[1]


def _few_packets(obs: Observations, both: Sequence[str], names: tuple[str, str]) -> str:
    """Return why there is no verdict if too few packets lie beyond a percentile, else nothing."""
    match = re.search(r"_p(9+|[0-9]{2})(?=_|$)", obs.metric)
    if match is None:
        return ""
    share = 1 - float(f"0.{match[1]}")
    for condition, name in zip(both, names, strict=False):
        for column in ("packets_count", "messages_count"):
            count = obs.column(column, [condition]).dropna()
            if len(count) and (fewest := float(count.min())) * share < FEW_BEYOND - 1e-9:
                return (
                    f"a run of {name} has {fewest:.0f} packets, about {fewest * share:.2g} beyond this percentile; "
                    f"at least {FEW_BEYOND} are needed: measure longer"
                )
    return ""
