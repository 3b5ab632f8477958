"""Comparisons of conditions: the contrasts of an experiment, the levels of a factor, or two measurements."""

from __future__ import annotations

import math
import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import TypeAdapter, ValidationError

from ..data.imports import are_logs
from ..data.load import Fleet, Results
from ..errors import NothingToReport, UsageError, did_you_mean
from ..experiment.contrasts import threshold
from ..experiment.factors import FACTORS, dimensions, factor, level_words, plain, sort_levels
from ..experiment.model import Contrast, Margin
from ..experiment.origin import joined
from ..metrics import ALPHA, COMPARED, MARGIN, METRICS, format_value, plural
from ..metrics import metric as metric_of
from .comparison import Comparison, Family
from .families import judged_by_rule, of_main_tools, ordinary
from .judging import Pair, as_contrast, check_factors, judge, judge_pairs
from .limits import with_causes
from .observe import (
    POOLS,
    Data,
    Observations,
    as_tuple,
    level_names,
    observe,
)
from .result import unit_of
from .runs import (
    ENDS,
    MEASUREMENT,
    Observed,
    check_levels,
    nearest,
    ok_runs,
    present,
    read_data,
    runs_of,
    wished,
)
from .samples import QUOTIENT, UNPAIRED, Design
from .tables import Table
from .words import contrasts as declared_contrasts
from .words import effect, factor_of, span

_TIME = (
    "runs are not paired, and the sides were measured at different times, so a difference may have other causes than "
    "what was changed"
)


def pairs(obs: Observations, baseline: Any = None) -> list[tuple[str, str]]:
    """Conditions that differ in the factors asked for and in nothing else, as (condition, baseline).

    Each with each other, the later level first; or each with those that have the level `baseline` of the first factor.
    Raises UsageError if no condition has that level.
    """
    conditions = obs.conditions
    name = obs.asked[0] if obs.asked else obs.by[0]
    level = factor(name).cast(baseline)
    if baseline is not None and level not in set(conditions[name]):
        levels = ", ".join(map(str, dict.fromkeys(conditions[name])))
        raise UsageError(
            f"no condition of {obs.metric} has {name} {baseline!r}, the baseline; levels: {levels}"
        )
    if baseline is None:
        candidates = [(a, b) for b, a in combinations(conditions.index, 2)]
    else:
        base = [c for c in conditions.index if conditions.loc[c, name] == level]
        candidates = [(a, b) for a in conditions.index if a not in base for b in base]
    return [(a, b) for a, b in candidates if obs.same(a, b, *obs.asked, name)]


def usual_level(obs: Observations) -> Any:
    """The level of the first factor that others are compared with; None where there is none."""
    factors = obs.asked or obs.by
    return ordinary(obs, factors[0], asked=True) if factors else None


def compare(
    data: Data,
    after: Data | None = None,
    *,
    metric: str | None = None,
    by: str | Sequence[str] | None = None,
    baseline: Any = None,
    where: Mapping[str, Any] | None = None,
    where_after: Mapping[str, Any] | None = None,
    pool: str | Sequence[str] = (),
    pattern: str | None = None,
    contrasts: Iterable[Contrast | Mapping[str, Any]] | None = None,
    margin: float | str | None = None,
    alpha: float | None = None,
    looked: bool | None = None,
) -> Family:
    """Compare the conditions of one experiment, or two experiments condition by condition.

    Parameters
    ----------
    data, after
        What `observe` takes, or raw logs: a file, a folder, a pattern. With `after`, `data` is the side before. A
        mapping of two names to data compares these two. The name of a metric as `after` means `metric`.
    metric : str, optional
        Only this metric; needed with `by`.
    by : str or sequence of str, optional
        The factors whose levels are compared, among conditions that differ in nothing else. Comparisons that were not
        declared are exploratory. Default: the declared contrasts or, if there are none, every level of each factor
        against the usual one; all of them share `alpha`.
    baseline : optional
        Level of the first factor in `by` that the others are compared with; default: the usual
        one, as in the terminal, or every level with every other where there is none.
    where, where_after : mapping, optional
        Only runs with these levels; `where_after` is for the side after, by default the same.
    pool, pattern
        As `observe` and `netperf_lib.import_logs` take them.
    contrasts : iterable of Contrast or mapping, optional
        Contrasts to judge instead of the declared ones. If none is declared, these count as declared.
    margin, alpha : float, optional
        Ratios between 1/(1 + margin) and 1 + margin are equivalent (0.05 or "5 %"); `alpha` is the share of reports
        that may contain a false verdict. Default: as declared, else 0.05.
    looked : bool, optional
        Whether rounds were added while looking at the results; default: as recorded.

    Returns
    -------
    Family
        For two measurements: a comparison for each metric and condition that both have. They are not paired, as
        `Family.warnings` states.

    Raises
    ------
    UsageError
        There is nothing to compare, or a factor, level, metric or folder is not known.

    Examples
    --------
    >>> import netperf_lib as npl
    >>> family = npl.compare("data/recorded/lab-full", metric="throughput_bps", by="placement")
    >>> {str(c.verdict) for c in family} <= {"better", "worse", "equivalent", "inconclusive", "exploratory"}
    True
    """
    if isinstance(after, str) and metric is None and after in METRICS:
        metric, after = after, None
    margin = None if margin is None else read_margin(margin)
    two = _two_sides(data, after, where, where_after, pattern, pairs=by is None)
    if two:
        return between(two, metric, (by,) if isinstance(by, str) else by or (), margin, alpha)
    results = read_data(data, pattern)
    if by is None and isinstance(results, Sequence | Mapping):
        raise UsageError(
            f"expected an experiment or its table of runs; got {len(results)}: for two write compare(before, after)"
        )
    if by is not None or isinstance(results, Observations):
        return _by(results, metric, by or (), baseline, where or {}, pool, margin, alpha)
    if contrasts is None and isinstance(results, Results) and results.added:
        # the others were declared before the data, and alone get a verdict
        contrasts = [c for c in (*results.contrasts, *results.added) if metric in (None, c.metric)]
    if contrasts is None and not declared_contrasts(results):
        source = runs_of(results, where)
        family, chosen = judged_by_rule(of_main_tools(source, metric), margin, alpha)
        if not chosen:
            raise UsageError(
                "the experiment declares no contrast, and each metric has one condition"
            )
        family = with_causes(family, (p.conditions for p in chosen))
        return replace(family, notice=source.origin.notice)
    return _of_contrasts(results, metric, contrasts, where or {}, margin, alpha, looked)


def _two_sides(
    data: Data,
    after: Data | None,
    where: Mapping[str, Any] | None,
    where_after: Mapping[str, Any] | None,
    pattern: str | None,
    *,
    pairs: bool,
) -> dict[str, Observed]:
    """The runs before and after, by name; empty for one experiment. `pairs`: a mapping may name them."""
    if after is None:
        if not (pairs and isinstance(data, Mapping) and len(data) == 2):
            return {}
        return {str(name): runs_of(one, where, pattern) for name, one in data.items()}
    others = where if where_after is None else where_after
    names = (_name(data, where), _name(after, others))
    names = names if names[0] != names[1] else (f"{names[0]} (before)", f"{names[1]} (after)")
    sides = (read_data(data, pattern), read_data(_existing(after), pattern))
    tables = (
        runs_of(_of_one_declaration(side), w)
        for side, w in zip(sides, (where, others), strict=True)
    )
    return dict(zip(names, tables, strict=True))


def _of_one_declaration(data: Data) -> Data:
    """The same; raise UsageError if it is a data root whose experiments ask different questions."""
    if not isinstance(data, Fleet):
        return data
    first, *others = (one.store.declared().contrasts for one in data)
    if any(other != first for other in others):
        names = ", ".join(one.name for one in data)
        raise UsageError(
            f"{data.path} holds experiments that declare different contrasts: name one of {names}"
        )
    return data


def _of_contrasts(
    data: Data,
    metric: str | None,
    contrasts: Iterable[Contrast | Mapping[str, Any]] | None,
    where: Mapping[str, Any],
    margin: float | None,
    alpha: float | None,
    looked: bool | None,
) -> Family:
    """Judge contrasts, by default those that are declared; every declared one, shown or not, shares `alpha`."""
    check_levels(where)
    source = Observed.of(_of_one_declaration(data) if contrasts is None else data)
    origin, experiment = source.origin, source.origin.declared
    declared = [as_contrast(c)[0] for c in experiment.get("contrasts") or ()]
    warnings: list[str] = []
    if contrasts is not None:
        filled = (c if isinstance(c, Contrast) else {"metric": metric, **c} for c in contrasts)
        named = [as_contrast(c) for c in filled]
        chosen = [c for c, _ in named]
        if not declared and (declared := [c for c, in_family in named if in_family]):
            warnings.append(
                "the contrasts were named with the analysis, not declared with the experiment"
            )
    else:
        chosen = [c for c in declared if metric in (None, c.metric)]
        if not chosen:
            if metric:
                metric_of(metric)  # an unknown one is an error with the nearest names
            metrics = ", ".join(sorted({c.metric for c in declared})) or "none"
            of = f" of {metric}" if metric else ""
            raise UsageError(
                f"the experiment declares no contrast{of} (declared: {metrics}); name a factor to compare"
            )
    every, chosen = chosen, within(source, chosen, where)
    levels = ", ".join(f"{k}={v}" for k, v in where.items())
    if not chosen:
        raise UsageError(
            f"no contrast is about {levels}, with runs on both sides; name a factor to compare"
        )
    if left := len(every) - len(chosen):
        warnings.append(f"{plural(left, 'contrast')} left out: no runs with {levels} on both sides")
    family, extra, answered = _family(declared, chosen, margin)
    if looked is None:
        looked = origin.looked
    design: Design | None = (
        "sequential" if looked or experiment.get("design") == "sequential" else None
    )
    if alpha is None:
        alpha = float(experiment.get("alpha") or ALPHA)
    exploratory = ({**c.model_dump(), "declared": False} for c in extra)
    judged = judge(source, [*family, *exploratory], alpha=alpha, design=design)
    results = dict(zip(map(id, [*family, *extra]), judged, strict=True))
    shown = (_with_claims(results[id(c)], origin.failed_claims) for c in answered)
    return replace(
        judged,
        comparisons=tuple(shown),
        declared=len(family),
        experiment=str(experiment.get("name") or ""),
        warnings=(*warnings, *judged.warnings),
        notice=origin.notice,
    )


def _family(
    declared: Iterable[Contrast], chosen: Iterable[Contrast], margin: float | None
) -> tuple[list[Contrast], list[Contrast], list[Contrast]]:
    """What is judged together, what is exploratory, and which of them are shown: one for each that is chosen."""
    family: dict[Any, Contrast] = {_question(c): c for c in declared}
    extra, answered, taken = list[Contrast](), list[Contrast](), set[int]()
    for c in chosen:
        twin = family.get(_question(c))
        size = margin if margin is not None else c.margin if twin is None else twin.margin
        c = c.model_copy(update={"margin": size})
        if twin is not None and math.isclose(size, twin.margin) and id(twin) not in taken:
            family[_question(c)] = c  # asked in this direction
            taken.add(id(c))
        else:  # another margin is another question
            extra.append(c)
        answered.append(c)
    return [*family.values()], extra, answered


def asked_about(
    obs: Observations, contrasts: Iterable[Contrast], where: Mapping[str, Any]
) -> list[Contrast]:
    """The contrasts about the metric and the factors that were asked for, between conditions that were observed.

    With `where` only those whose sides name these levels: a part of a condition is not what was declared.
    """
    ends = {f for both in ENDS for f in both}
    held = [f for f in where if f not in obs.asked]

    def relevant(c: Contrast) -> bool:
        sides = [side for side in (c.a, c.b) if side is not None]
        differ = {f for side in sides for f in side if c.b is None or c.a.get(f) != c.b.get(f)}
        asked = factor_of(c) in obs.asked or (differ and differ <= {*obs.asked, *ends})
        complete = all(f in side for f in held for side in sides)
        return bool((asked or not obs.asked) and complete and all(map(obs.matching, sides)))

    return [c for c in contrasts if c.metric == obs.metric and relevant(c)]


def within(data: Data, contrasts: Iterable[Contrast], where: Mapping[str, Any]) -> list[Contrast]:
    """The contrasts of which both sides have runs with the levels `where`, and no others."""
    levels = {f: wished(f, wish) for f, wish in where.items()}

    @cache
    def observed(metric: str) -> Observations | None:
        with suppress(NothingToReport):
            return observe(data, metric)
        return None

    def fits(obs: Observations, side: Mapping[str, Any]) -> bool:
        if any(factor(f).cast(side[f]) not in levels[f] for f in levels.keys() & side.keys()):
            return False
        check_factors(obs, levels)
        facts = obs.facts.loc[list(obs.matching(side))]
        return all(set(map(plain, facts[f])) <= {*wish} for f, wish in levels.items())

    def matches(c: Contrast) -> bool:
        obs = observed(c.metric)
        return obs is None or (fits(obs, c.a) and fits(obs, c.b or c.a))

    return [c for c in contrasts if not where or matches(c)]


def read_margin(margin: Any) -> float:
    """A share, or a percentage as text; raises UsageError for anything else."""
    try:
        return float(TypeAdapter(Margin).validate_python(margin))
    except ValidationError:
        raise UsageError(
            f"margin {margin!r}: write a share above 0 and below 1, for example 0.05 or '5 %'"
        ) from None


def _question(c: Contrast) -> Hashable:
    """What a contrast asks, regardless of direction."""
    sides = frozenset(frozenset(side.items()) for side in (c.a, c.b) if side is not None)
    return c.metric, sides, None if c.b is not None else (c.below is None, threshold(c))


def _with_claims(c: Comparison, claims: Iterable[Mapping[str, Any]]) -> Comparison:
    """Warn if claims about the hosts of a contrast turned out false: the verdict rests on them."""
    concerned = [claim for claim in claims if claim["host"] is None or claim["host"] in c.hosts]
    false = {str(claim["claim"]): claim.get("evidence") for claim in concerned}
    if not false:
        return c
    warning = f"it rests on {len(false)} claims that do not hold: {'; '.join(false)}"
    if len(false) == 1:
        [(claim, evidence)] = false.items()
        proof = f" ({evidence})" if evidence else ""
        warning = f"it rests on a claim that does not hold: {claim}{proof}"
    return replace(c, warnings=(warning, *c.warnings))


def _by(
    results: Data,
    metric: str | None,
    by: str | Sequence[str],
    baseline: Any,
    where: Mapping[str, Any],
    pool: str | Sequence[str],
    margin: float | None,
    alpha: float | None,
) -> Family:
    """Every level of some factors: as the report judges it where that was declared, else exploratory."""
    if metric is None and not isinstance(results, Observations):
        raise UsageError("a comparison by a factor needs a metric, for example throughput_bps")
    obs = observe(results, metric, by, where=where, pool=pool)
    size = MARGIN if margin is None else margin
    level = usual_level(obs) if baseline is None else baseline
    chosen = [Pair(obs, a, b, size, declared=False) for a, b in pairs(obs, level)]
    for name in as_tuple(pool):
        for p in chosen if name not in POOLS else ():
            _check_pooled(obs, name, p.a, p.b)
    if not chosen:
        names = ", ".join(obs.asked or obs.by)
        raise UsageError(
            f"nothing to compare: no two conditions of {obs.metric} differ in {names} alone"
        )
    family = judge_pairs(chosen, alpha)
    named = _declared_pairs(results, obs, where, margin)
    asked = {(p.a, p.b): i for i, p in enumerate(chosen) if (p.a, p.b) in named}
    if asked:
        judged = compare(results, contrasts=[named[key] for key in asked], alpha=alpha)
        every = list(family)
        for i, c in zip(asked.values(), judged, strict=True):
            every[i] = replace(c, names=every[i].names, context=every[i].context)
        warnings = (*judged.warnings, *family.warnings)
        family = replace(judged, comparisons=tuple(every), warnings=warnings)
    family = with_causes(family, (p.conditions for p in chosen))
    warnings = (*family.warnings, *obs.notes)
    return replace(family, warnings=warnings, notice=obs.origin.notice)


def _declared_pairs(
    results: Data, obs: Observations, where: Mapping[str, Any], margin: float | None
) -> dict[tuple[str, str], Contrast]:
    """Two conditions, in both directions, to the declared contrast between them."""
    # several experiments may declare different contrasts
    several = isinstance(results, Observations | Sequence | Mapping)
    declared = [] if several else within(results, declared_contrasts(results), where)
    named: dict[tuple[str, str], Contrast] = {}
    for c in asked_about(obs, declared, {}):
        one, two = obs.condition(c.a), obs.condition(c.b)
        if one and two and margin in (None, c.margin):
            named[one, two] = c
            named[two, one] = c.model_copy(update={"a": c.b, "b": c.a})
    return named


def _check_pooled(obs: Observations, name: str, a: str, b: str) -> None:
    """Raise UsageError unless two conditions have the same levels of what is pooled: the others would be the effect."""
    one, two = (set(map(plain, obs.column(name, [side]))) for side in (a, b))
    if one != two:
        alone = ", ".join(level_words(name, level) for level in sort_levels(name, one ^ two))
        what = f"{name} is pooled, but {a} and {b} do not both have {alone}"
        raise UsageError(f"{what}: select one level with where, or let it split the conditions")


def between(
    sides: Mapping[str, Observed],
    metric: str | None = None,
    by: Sequence[str] = (),
    margin: float | None = None,
    alpha: float | None = None,
) -> Family:
    """Compare two measurements, condition by condition; `compare` has the parameters.

    The measurement is the factor that is asked about. What has no level in common on the two sides was changed with
    it, and splits nothing. Raises UsageError if a side has no run, or there is no such metric or factor.
    """
    for name, side in sides.items():
        if side.runs.empty:
            raise UsageError(f"{name}: there are no runs to compare")
    (before, first), (after, second) = sides.items()
    one, two = first.runs, second.runs
    shared = _shared(one, two)
    same = bool(shared.all()) and len(one) == len(two)
    when = "both sides are the same runs" if same else _TIME + _when(one, two)
    notes = [f"{after} against {before}: {when}"]
    if shared.any() and not same:
        two = two[~shared]
        sides = {before: first, after: Observed(two.reset_index(drop=True), second.origin)}
        runs = plural(int(shared.sum()), "run")
        notes.append(f"{runs} of {after} are those of {before}, and count once")
    both = dimensions([str(c) for c in one if c in two])
    differ = [f for f in both if len(_levels(one, f) | _levels(two, f)) > 1]
    if unknown := [f for f in by if f not in both]:
        near = nearest(unknown[0], both, differ)
        raise UsageError(f"{unknown[0]!r} is not a factor of both sides; {near}")
    changed = {} if by else _changed(one, two)
    asked = (MEASUREMENT, *(f for f in by if f in differ))
    every = [
        replace(observe(sides, m, asked, pool=list(changed)), asked=(MEASUREMENT,))
        for m in _common(one, two, metric)
    ]
    if not every:
        raise NothingToReport(f"{before} and {after} have no metric in common")
    size = MARGIN if margin is None else margin
    chosen = [Pair(obs, a, b, size) for obs in every for a, b in pairs(obs, before)]
    family = with_causes(judge_pairs(chosen, alpha), (p.conditions for p in chosen))
    notes.append(
        "change: the typical ratio of a run after to a run before; the ratio of the two medians may differ"
    )
    notes += [f"changed: {name}: {a} before, {b} after" for name, (a, b) in changed.items()]
    notes += _alone(every, chosen, sides)
    said = (UNPAIRED, QUOTIENT)
    comparisons = [
        replace(c, warnings=tuple(w for w in c.warnings if w not in said)) for c in family
    ]
    return replace(
        family,
        comparisons=tuple(comparisons),
        experiment=f"{after} against {before}",
        warnings=(*notes, *family.warnings),
        notice=joined([second.origin, first.origin]).notice,
    )


def _alone(
    every: Sequence[Observations], chosen: Sequence[Pair], sides: Iterable[str]
) -> list[str]:
    """The conditions that only one side has."""
    compared = {(id(p.obs), name) for p in chosen for name in (p.a, p.b)}
    alone: dict[str, dict[str, None]] = {side: {} for side in sides}
    for obs in every:
        words = level_names(obs, [f for f in obs.by if f != MEASUREMENT])
        for name in obs.names:
            if (id(obs), name) not in compared:
                alone[obs.at(name, MEASUREMENT)][words[name]] = None
    return [f"only in {side}: {'; '.join(names)}" for side, names in alone.items() if names]


def _shared(one: pd.DataFrame, two: pd.DataFrame) -> pd.Series[bool]:
    """Which runs of the second side are among those of the first: by what they hold, not by name."""
    names = [c for c in ("experiment", "run_id", "started_utc") if c in one and c in two]
    values = [c for c in COMPARED if c in one and c in two]
    if "run_id" not in names:
        return pd.Series(data=False, index=two.index)
    digests = []
    for side in (one, two):
        held = side[names].astype(str).join(side[values].astype(float))
        digests.append(pd.util.hash_pandas_object(held, index=False))
    return digests[1].isin(digests[0])


def _common(before: pd.DataFrame, after: pd.DataFrame, metric: str | None) -> list[str]:
    """The metrics that both sides measured; the sender's throughput where no receiver's is known."""
    if metric is not None:
        metric_of(metric)  # an unknown one is an error with the nearest names
    sides = [ok_runs(side) for side in (before, after)]
    names = [
        m
        for m in (COMPARED if metric is None else [metric])
        if all(m in s and s[m].notna().any() for s in sides)
    ]
    return [
        m
        for m in names
        if m != "throughput_sent_bps" or m == metric or "throughput_bps" not in names
    ]


def _changed(before: pd.DataFrame, after: pd.DataFrame) -> dict[str, tuple[str, str]]:
    """Factors that have no level in common on the two sides, with the levels of both in words."""
    changed: dict[str, tuple[str, str]] = {}
    for name in dimensions(dict.fromkeys(map(str, [*before, *after]))):
        levels = [_levels(side, name) for side in (before, after)]
        if not levels[0] & levels[1] and name not in ("client", "server"):
            one, two = (
                ", ".join(sorted(factor(name).level_words(v) for v in side)) for side in levels
            )
            changed[name] = (one, two)
    return changed


def _levels(side: pd.DataFrame, name: str) -> set[Any]:
    return {plain(v) for v in side[name].unique()} if name in side else {None}


def _when(*sides: pd.DataFrame) -> str:
    """The days on which the sides began, in words; empty where one is not known."""
    starts = [side["started_utc"].min() if "started_utc" in side else None for side in sides]
    if not all(map(present, starts)):
        return ""
    one, two = (f"{start:%-d %B %Y}" for start in starts)
    return f" ({one} and {two})" if one != two else f" (both on {one})"


def compared_table(family: Family) -> Table:
    """The comparisons as a table for a page: condition, metric, both medians, the change with its interval, verdict.

    Examples
    --------
    >>> change = npl.compare("data/recorded/before", "data/recorded/after")
    >>> npl.analysis.compared_table(change).columns.to_list()[2:4]
    ['before', 'after']
    """
    sides = {c.names[::-1] for c in family}
    one, two = sides.pop() if len(sides) == 1 else ("baseline", "condition")
    rows = []
    for c in family:
        after, before = (format_value(v, unit_of(c.metric)) for v in c.medians)
        change = f"{effect(c.ratio)} ({span(c.ratio, c.low, c.high)})".removesuffix(" (–)")
        rows.append((c.context or c.label, c.quantity, before, after, change, str(c.verdict)))
    names = ("condition", "metric", one, two, "change", "verdict")
    frame = pd.DataFrame(rows, columns=list(names))
    caption = "Median of each side, the change with its interval, and the verdict."
    return Table.of(frame, caption, columns={n: n if n in (one, two) else n.title() for n in names})


def _existing(data: Data) -> Data:
    """The same; raise UsageError if it is a name of nothing."""
    if not isinstance(data, str) or are_logs(data) or "/" in data or Path(data).exists():
        return data
    if data in FACTORS:
        raise UsageError(
            f"{data!r} is a factor: name it with `by`, and a metric with `metric`, "
            f"as in metric='throughput_bps' or --metric throughput_bps"
        )
    folders = [p.name for p in Path().iterdir() if p.is_dir() and not p.name.startswith(".")]
    near = did_you_mean(data, [*METRICS, *folders])
    raise UsageError(f"{data!r} is neither a folder nor a metric; {near}".rstrip("; "))


def _name(data: Data, where: Mapping[str, Any] | None) -> str:
    if isinstance(data, str | os.PathLike):
        name = os.fspath(data).rstrip("/").rpartition("/")[2]
    else:
        name = data.name if isinstance(data, Results) else "runs"
    slice_ = ", ".join(f"{k}={v}" for k, v in (where or {}).items())
    return f"{name} ({slice_})" if slice_ else name
