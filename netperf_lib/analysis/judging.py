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
from functools import cache, cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from ..errors import NothingToReport, StatsError, UsageError
from ..experiment.contrasts import threshold
from ..experiment.factors import factor, level_words
from ..experiment.model import Contrast
from ..metrics import ALPHA, MARGIN, METRICS, format_value, in_words, plural
from .comparison import Family
from .observe import (
    MEASUREMENT,
    SEVERAL,
    Data,
    Observations,
    Observed,
    level_names,
    observe,
    unchained,
)
from .result import Floats, unit_of, value_words
from .runs import ENDS, HOSTS, nearest, status_counts
from .samples import Design, Mask, Sample, half_step, judge_samples

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

    pairs = paired_conditions(source, map(as_contrast, contrasts))
    ok, failed, excluded = status_counts(source.runs)
    samples = list(map(_sample, pairs))
    return judge_samples(
        samples,
        alpha=alpha,
        design=design,
        ok=ok,
        failed=failed,
        excluded=excluded,
        warnings=warnings,
    )


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


def _named(obs: Observations, side: Levels) -> str:
    """Return the condition that a side of a contrast names; empty if there is none.

    Raises UsageError for a name that is no factor, and where the side names several conditions.
    """
    for name in side:
        if name not in obs.facts:
            varying = [
                str(f) for f, levels in obs.facts.items() if len(levels.map(repr).unique()) > 1
            ]
            raise UsageError(
                f"no factor {name!r} in these runs; {nearest(name, list(map(str, obs.facts)), varying)}"
            )
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
    """Judge pairs of conditions together, as one family; runs of two measurements share no round: unpaired."""
    counts = [blocks_of(obs).counts for obs in {p.obs for p in pairs} if obs]
    ok, failed = (sum(both[i] for both in counts) for i in (0, 1))
    return replace(
        judge_samples(list(map(_sample, pairs)), alpha=alpha or ALPHA, ok=ok, failed=failed),
        declared=0,
    )


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
        where = ".".join(map(str, problem["loc"]))
        raise StatsError(
            f"not a contrast: {fields!r}; needed: metric, a, and b (with a margin) or one of below, at_least "
            f"({f'{where}: ' if where else ''}{problem['msg']})"
        ) from None


# -- observations by block -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Side:
    """What a condition gave in each block: a round of a deployment."""

    value: Floats
    """NaN: none."""
    failed: Mask
    present: Mask
    """Whether there is a run, complete or not."""
    expected: Mask
    """Whether a run was measured or planned, and was not excluded."""


class Blocks:
    """Observations as arrays by block, in the order of time."""

    def __init__(self, obs: Observations) -> None:
        self.obs = obs
        t = obs.table
        unit, number = t["unit"].to_numpy(), t["round"].to_numpy(float)
        order = np.lexsort((t["order"].to_numpy(float), number, unit))
        unit, number = unit[order], number[order]
        first = np.concatenate([[True], (unit[1:] != unit[:-1]) | (number[1:] != number[:-1])])
        self.block = np.cumsum(first) - 1
        self.row = order
        state = t["state"].to_numpy(object)[order]
        self.ok, self.missing = state == "ok", state == "missing"
        self.failed = (state == "failed") | t["repeated"].to_numpy(bool)[order]
        self.counts = int(self.ok.sum()), int((state == "failed").sum())
        self.value = t["value"].to_numpy(float)[order]
        self.condition = t["condition"].cat.codes.to_numpy()[order]
        self.names: list[str] = list(t["condition"].cat.categories)
        self.two = MEASUREMENT in obs.by
        self.unit = unit[first]
        experiments = t["experiment"].astype(object).factorize(use_na_sentinel=False)[0]
        self.experiment = experiments[order][first].astype(np.intp)
        self.placed = not self.two and any(
            bool(t[c].notna().any()) for c in ("deployment", "experiment", *HOSTS)
        )
        levels = {f: {repr(v) for v in obs.facts[f]} for f in map(str, obs.facts)}
        self.varying = [f for f, reprs in levels.items() if len(reprs) > 1]
        self._sides: dict[str, Side] = {}

    @cached_property
    def unchained(self) -> bool:
        """Whether what one condition leaves behind for the next does not cancel."""
        return unchained(self.obs)

    def side(self, name: str) -> Side:
        """Return what a condition gave; made once, for several contrasts may share it."""
        if name not in self._sides:
            self._sides[name] = self._side(name)
        return self._sides[name]

    def _side(self, name: str) -> Side:
        size = self.unit.size
        code = self.names.index(name) if name else -2
        chosen = np.flatnonzero(self.condition == code)
        side = Side(np.full(size, np.nan), *(np.zeros(size, bool) for _ in range(3)))
        block = self.block[chosen]
        side.expected[block] = True
        side.present[block[~self.missing[chosen]]] = True
        side.failed[block[self.failed[chosen]]] = True
        side.value[block] = np.where(self.ok[chosen], self.value[chosen], np.nan)
        return side

    def used(self, *sides: Side) -> Mask:
        """Return the blocks that count: of both sides, or of either if they share none."""
        apart = not np.logical_and.reduce([side.present for side in sides]).any()
        both = np.logical_or if apart and len(sides) > 1 else np.logical_and
        chosen: Mask = both.reduce([side.expected for side in sides])
        return chosen

    def hosts(self, name: str) -> dict[str, list[str]]:
        """Return the clients and the servers of a condition."""
        if self.two or not name:
            return {}
        columns = {host: self.obs.column(host, [name]).dropna() for host in HOSTS}
        return {host: list(dict.fromkeys(map(str, column))) for host, column in columns.items()}

    def hours(self, name: str) -> npt.NDArray[np.intp] | None:
        """Return the hour in which the run of each block began; None where that is not known of all."""
        import pandas as pd

        if "started_utc" not in self.obs.table or not name:
            return None
        rows = np.flatnonzero((self.condition == self.names.index(name)) & self.ok)
        started = pd.to_datetime(
            self.obs.table["started_utc"].iloc[self.row[rows]], utc=True, errors="coerce"
        )
        if started.isna().any():
            return None
        hour = np.full(self.unit.size, -1, np.intp)
        hour[self.block[rows]] = (started - pd.Timestamp(0, tz="UTC")) // pd.Timedelta(hours=1)
        return hour


def blocks_of(obs: Observations) -> Blocks:
    """The observations as arrays, made once."""
    blocks: Blocks = obs.once("blocks", lambda: Blocks(obs))
    return blocks


# -- from two sides to a sample ------------------------------------------------------------------------------------


def _sample(p: Pair) -> Sample:
    """What was observed for a pair, as the statistics take it."""
    c, sides = p.contrast, p.sides
    more: dict[str, Any] = {"margin": p.margin, "declared": p.declared}
    subject: dict[str, Any] = {"question": (c and c.question) or ""}
    limit = ""
    if c is not None and c.b is None:
        word = "below" if c.below is not None else "at least"
        more |= {"threshold": threshold(c), "limit": word}
        limit = f"{word} {value_words(more['threshold'], unit_of(c.metric))}"
    if p.obs is None:
        subject |= {
            "names": tuple(
                ", ".join(level_words(f, v) for f, v in side.items()) or "all" for side in sides
            )
        }
        return _nothing(c, subject, limit, more)
    of, obs, both = blocks_of(p.obs), p.obs, [p.a] if limit else [p.a, p.b]
    a, b = of.side(p.a), None if limit else of.side(p.b)
    names, subject["context"] = _names(of, p)
    subject["names"] = names[0], limit or names[1]
    hosts = [of.hosts(name) for name in both]
    warnings = []
    for name, condition in zip(names, both, strict=False):
        loss = lost_share(obs, [condition]) if obs.unit == "bps" else 0.0
        if loss > NOTICEABLE:
            warnings.append(f"{name} lost {format_value(loss, 'ratio')} of its datagrams")
    empty = [
        name
        for name, condition in zip(names, both, strict=False)
        if not condition or not np.isfinite(of.side(condition).value).any()
    ]
    found = [a] if b is None else [a, b]
    apart = b is not None and not bool((a.present & b.present).any())
    used = of.used(*found)
    several = not of.two and np.unique(of.experiment[used]).size > 1
    if b is not None and not empty and not of.two:
        named = {f for side in p.sides for f in side}
        differ = {f for f in named if p.sides[0].get(f) != p.sides[1].get(f)}
        warnings += _confounded(of, p, named, differ)
        more["moved"] = bool(differ & {*PLACES}) or any(
            set(hosts[0][h]) != set(hosts[1][h]) for h in HOSTS
        )
        if not apart and of.unchained:
            warnings.append(
                "rounds were not chained: what one condition leaves behind for the next does not cancel"
            )
    if not empty:  # the level that every table and figure gives
        subject["medians"] = obs.value(p.a), math.nan if b is None else obs.value(p.b)
    every = [host for end in HOSTS for side in hosts for host in side.get(end, ())]
    subject |= {
        "metric": obs.metric,
        "hosts": tuple(dict.fromkeys(every)),
        "scope": THESE if of.placed else "",
    }
    refusal = f"no run of {empty[0]} has a value of {obs.metric}" if empty else ""
    hour = of.hours(p.a) if b is None else None
    sample = Sample(
        a=a.value[used],
        b=None if b is None else b.value[used],
        failed_a=a.failed[used],
        failed_b=None if b is None else b.failed[used],
        unit=(of.experiment if several else of.unit)[used],
        unit_name="experiment" if several else "deployment",
        hour=None if hour is None else hour[used],
        better=METRICS[obs.metric].better,
        step=sum(half_step(side.value) for side in found),
        refusal=refusal or _few_packets(obs, both, names),
        warnings=tuple(warnings),
        subject=subject,
        **more,
    )
    if b is None or empty or of.two:
        return sample
    note = _hardware(of, p, differ, sample)
    return replace(sample, warnings=(*sample.warnings, *note))


def _hardware(of: Blocks, p: Pair, differ: set[str], sample: Sample) -> list[str]:
    """Warn that some deployments put the sides on other hardware, and give what the others show."""
    names = [f for f in HARDWARE if f in of.varying and not differ & {*factor(f).follows}]
    if not any(SEVERAL in (of.obs.fact(p.a, f), of.obs.fact(p.b, f)) for f in names):
        return []
    one, two = (of.obs.levels_by_unit(condition, names) for condition in (p.a, p.b))
    alike = [unit for unit, levels in one.items() if levels == two.get(unit)]
    if len(alike) == len(one):
        return []
    text = (
        f"in {len(one) - len(alike)} of {plural(len(one), 'deployment')} the sides ran on "
        "different processors or network cards: the difference may be due to that"
    )
    inside = np.isin(of.unit[of.used(of.side(p.a), of.side(p.b))], alike)
    if not inside.any():
        return [text]
    fields = ("a", "b", "failed_a", "failed_b", "unit")
    part = {name: getattr(sample, name)[inside] for name in fields}
    beside = judge_samples([replace(sample, **part, warnings=(), declared=False)])[0]
    return [f"{text}; within equal hardware, {beside.words}"]


def _nothing(
    c: Contrast | None, of_pair: Mapping[str, Any], limit: str, more: Mapping[str, Any]
) -> Sample:
    """The sample of a metric of which no complete run has a value."""
    assert c is not None
    names, none = of_pair["names"], np.zeros(0)
    subject = {**of_pair, "names": (names[0], limit or names[-1]), "metric": c.metric}
    refusal = f"no complete run has a value of {c.metric}"
    return Sample(a=none, b=None if limit else none, refusal=refusal, subject=subject, **more)


# -- what the reader must know -------------------------------------------------------------------------------------


def _names(of: Blocks, p: Pair) -> tuple[tuple[str, str], str]:
    """Return the names of both sides from what differs between them, and the words for what they share."""
    if p.contrast is None:
        return side_words(p)
    sides = [dict(p.sides[0]), dict(p.sides[-1])]
    factors = list(dict.fromkeys([*sides[0], *sides[1]]))
    for levels, condition in zip(sides, (p.a, p.b), strict=True):
        # a factor that only the other side names: the runs themselves show its level here
        for name in factors:
            level = of.obs.fact(condition, name) if condition else SEVERAL
            if name not in levels and level != SEVERAL:
                levels[name] = level
    one, two = sides
    differ = [
        f
        for f in factors
        if p.contrast.b is None or (f in one) != (f in two) or one.get(f) != two.get(f)
    ]
    a, b = (
        ", ".join(level_words(f, levels[f]) for f in differ if f in levels) or "all"
        for levels in sides
    )
    if differ and {*differ} <= {*HOSTS}:
        a, b = _path(of.obs, p.a) or a, _path(of.obs, p.b) or b
    return (a, b), ", ".join(
        level_words(f, one[f]) for f in factors if f not in differ and f in of.varying
    )


def side_words(p: Pair) -> tuple[tuple[str, str], str]:
    """What two conditions are called, and what they share."""
    obs, a, b = p.obs, p.a, p.b
    assert obs is not None
    differ = [f for f in obs.by if obs.at(a, f) != obs.at(b, f)]
    ends = {
        f for pair in ENDS for f in pair if {*pair} & {*differ}
    }  # a path has one name: "zone 1 → 2"
    differ = [f for f in obs.by if f in ends or f in differ]
    names = obs.conditions[MEASUREMENT] if differ == [MEASUREMENT] else level_names(obs, differ)
    shared = [f for f in obs.by if f not in differ]
    return (names[a], names[b]), level_names(obs, shared)[
        a
    ] if shared or MEASUREMENT in differ else ""


def _path(obs: Observations, condition: str) -> str:
    """Return the pair of zones, or of hosts, of a condition, as conditions name it; empty if there is none."""
    for title, what in (("zone ", "_zone"), ("", "")):
        ends = [obs.fact(condition, f"{host}{what}") if condition else None for host in HOSTS]
        if not {None, SEVERAL} & {*ends}:
            return f"{title}{ends[0]} → {ends[1]}"
    return ""


def _confounded(of: Blocks, p: Pair, named: set[str], differ: set[str]) -> list[str]:
    """Warn about what the sides differ in besides the factors that make them two sides."""
    implied = named | set(HOSTS) | (set(PLACES) if differ & set(PLACES) else set())
    remarks = []
    for f in of.varying:
        one, two = (of.obs.fact(condition, f) for condition in (p.a, p.b))
        if f in implied or one == two or SEVERAL in (one, two) or differ & {*factor(f).follows}:
            continue
        levels = f"{level_words(f, one)} and {level_words(f, two)}"
        remarks.append(
            f"the sides also differ in {factor(f).label or f} ({levels}): "
            "the difference may be due to that"
        )
    # the virtual function of accelerated networking must differ with it
    if "accelerated" in differ and "vf_up" in of.obs.facts:
        up = {of.obs.fact(condition, "vf_up") for condition in (p.a, p.b)}
        if len(up) == 1 and not up & {None, SEVERAL}:
            had = f"both had {'a' if up.pop() else 'no'} virtual function"
            remarks.append(
                f"the sides differ in accelerated networking, but {had}: it was not switched"
            )
    return remarks


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
