"""Comparisons of conditions: declared contrasts, the levels of a factor, or two measurements."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import TypeAdapter, ValidationError

from ..data.load import Results
from ..errors import NothingToReport, UsageError
from ..experiment.factors import dimensions, factor, plain
from ..experiment.model import Contrast, Margin
from ..experiment.origin import joined
from ..metrics import ALPHA, COMPARED, MARGIN, format_value, plural
from ..metrics import metric as metric_of
from .comparison import Family
from .families import judged_by_rule, of_main_tools, ordinary
from .judging import (
    Sides,
    as_contrast,
    check_factors,
    judge,
    judge_pairs,
    paired_conditions,
)
from .observe import Data, Observations, as_tuple, level_names, observe
from .result import unit_of
from .runs import (
    ENDS,
    HOSTS,
    MEASUREMENT,
    Observed,
    check_levels,
    no_factor,
    ok_runs,
    read_data,
    runs_of,
    wished,
)
from .samples import QUOTIENT, UNPAIRED
from .tables import Table
from .words import contrasts as declared_contrasts
from .words import effect, factor_of, span

_TIME = (
    "runs are not paired, and the sides were measured at different times, so a difference may have "
    "other causes than what was changed"
)
_CHANGE = (
    "change: the typical ratio of a run after to a run before; the ratio of the two medians "
    "may differ"
)


def pairs(obs: Observations, baseline: Any = None) -> list[tuple[str, str]]:
    """Return conditions that differ in the factors asked for alone, as (condition, baseline).

    Each with each other, the later level first; or each with those that have the level `baseline`
    of the first factor. Raises UsageError if no condition has that level.
    """
    name = (obs.asked or obs.by)[0]
    candidates = [(a, b) for b, a in combinations(obs.names, 2)]
    if baseline is not None:
        level = factor(name).cast(baseline)
        base = [c for c in obs.names if obs.at(c, name) == level]
        if not base:
            levels = ", ".join(map(str, dict.fromkeys(obs.conditions[name])))
            raise UsageError(
                f"no condition of {obs.metric} has {name} {baseline!r}, the baseline; levels: "
                f"{levels}"
            )
        candidates = [(a, b) for a in obs.names if a not in base for b in base]
    return [(a, b) for a, b in candidates if obs.same(a, b, *obs.asked, name)]


def usual_level(obs: Observations) -> Any:
    """Return the level of the first factor that others are compared with.

    None where there is none.
    """
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
    pattern: str | None = None,
    contrasts: Iterable[Contrast | Mapping[str, Any]] | None = None,
    margin: float | str | None = None,
) -> Family:
    """Compare the conditions of one experiment, or two experiments condition by condition.

    Parameters
    ----------
    data, after
        What `observe` takes, or raw logs: a file, a folder, a pattern. With `after`, `data` is the
        side before. A mapping of two names to data compares these two.
    metric : str, optional
        Only this metric; needed with `by`.
    by : str or sequence of str, optional
        The factors whose levels are compared, among conditions that differ in nothing else.
        Comparisons that were not declared are exploratory. Default: the declared contrasts or, if
        there are none, every level of each factor against the usual one; all of them share the
        error of 5 %.
    baseline : optional
        Level of the first factor in `by` that the others are compared with; default: the usual
        one, as in the terminal, or every level with every other where there is none.
    where, where_after : mapping, optional
        Only runs with these levels; `where_after` is for the side after, by default the same.
    pattern
        As `netperf_lib.import_logs` takes it.
    contrasts : iterable of Contrast or mapping, optional
        Contrasts to judge instead of the declared ones. If none is declared, these count as
        declared.
    margin : float, optional
        Ratios between 1/(1 + margin) and 1 + margin are equivalent (0.05 or "5 %"). Default: as
        declared, else 0.05.

    Returns
    -------
    Family
        For two measurements: a comparison for each metric and condition that both have. They are
        not paired, as `Family.warnings` states.

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
    """  # noqa: E501  (an example is one line)
    margin = None if margin is None else read_margin(margin)
    if after is not None or (by is None and isinstance(data, Mapping) and len(data) == 2):
        sides = _two_sides(data, after, where, where_after, pattern)
        return between(sides, metric, as_tuple(by), margin)
    results = read_data(data, pattern)
    if by is not None or isinstance(results, Observations):
        return _by(results, metric, by or (), baseline, where or {}, margin)
    if isinstance(results, Sequence | Mapping):
        raise UsageError(
            f"expected an experiment or its table of runs; got {len(results)}: "
            "for two write compare(before, after)"
        )
    if contrasts is not None or declared_contrasts(results):
        family, chosen = judge_declared(results, metric, where, margin, contrasts)
        if not chosen:
            about = [metric_of(metric).name] if metric else []
            about += [f"{k}={v}" for k, v in (where or {}).items()]
            raise UsageError(
                f"no contrast is about {', '.join(about)}, with runs on both sides; "
                "name a factor to compare"
            )
        return family
    source = runs_of(results, where)
    family, chosen = judged_by_rule(of_main_tools(source, metric), margin)
    if not chosen:
        raise UsageError(
            "the experiment declares no contrast, and each metric has one condition"
        )
    return replace(family, notice=source.origin.notice)


def read_margin(margin: Any) -> float:
    """Return a share, or a percentage as text; raises UsageError for anything else."""
    try:
        return float(TypeAdapter(Margin).validate_python(margin))
    except ValidationError:
        raise UsageError(
            f"margin {margin!r}: write a share above 0 and below 1, for example 0.05 or '5 %'"
        ) from None


# -- declared contrasts --------------------------------------------------------------------------


def judge_declared(
    data: Data,
    metric: str | None = None,
    where: Mapping[str, Any] | None = None,
    margin: float | None = None,
    contrasts: Iterable[Contrast | Mapping[str, Any]] | None = None,
) -> tuple[Family, list[Sides]]:
    """Judge contrasts; every one that was declared before the data, shown or not, shares the error.

    Shown are the declared ones, or `contrasts`, about the metric and between conditions with the
    levels `where`. Another margin, or what was declared later, is another question: exploratory.
    """
    check_levels(where or {})
    source, levels = (
        Observed.of(data),
        {f: wished(f, wish) for f, wish in (where or {}).items()},
    )
    origin, declared, warnings = source.origin, declared_contrasts(source), []
    asked = [*declared, *(data.added if isinstance(data, Results) else ())]
    if contrasts is not None:
        given = (
            c if isinstance(c, Contrast) else {"metric": metric, **c} for c in contrasts
        )
        asked = [_as_declared(as_contrast(c), declared) for c in given]
        if not declared:
            declared = asked
            warnings.append(
                "the contrasts were named with the analysis, not declared with the experiment"
            )
    asked = [c for c in asked if metric in (None, c.metric)]
    if margin is not None:
        if any(c.margin != margin for c in asked if c in declared):
            warnings.append(
                "exploratory, for another margin was declared: for verdicts leave margin out"
            )
        asked = [c.model_copy(update={"margin": margin}) for c in asked]
    every = [*declared, *(c for c in asked if c not in declared)]
    looked = origin.looked or origin.declared.get("design") == "sequential"
    judged = judge(
        source,
        every,
        alpha=float(origin.declared.get("alpha") or ALPHA),
        design="sequential" if looked else None,
        declared=len(declared),
    )
    pairs = paired_conditions(source, asked)
    found = [
        (p, judged[every.index(c)])
        for p, c in zip(pairs, asked, strict=True)
        if _is_within(p, levels)
    ]
    if left := len(pairs) - len(found):
        words = ", ".join(f"{k}={v}" for k, v in (where or {}).items())
        warnings.append(
            f"{plural(left, 'contrast')} left out: no runs with {words} on both sides"
        )
    family = replace(
        judged,
        comparisons=tuple(c for _, c in found),
        experiment=str(origin.declared.get("name") or ""),
        warnings=(*warnings, *judged.warnings),
        notice=origin.notice,
    )
    return family, [p for p, _ in found]


def _as_declared(c: Contrast, declared: Iterable[Contrast]) -> Contrast:
    """Return the declared contrast that asks the same, or the contrast itself."""
    unsaid = {"question", "margin"} - (c.model_fields_set - {"question"})
    asked = c.model_dump(exclude=unsaid)
    return next((d for d in declared if d.model_dump(exclude=unsaid) == asked), c)


def _is_within(p: Sides, levels: Mapping[str, Sequence[Any]]) -> bool:
    """Return whether all runs of both sides have these levels."""
    if p.obs is None:
        return True
    check_factors(p.obs, levels)
    conditions = [c for c in (p.a, p.b) if c]
    return all(p.obs.at(c, f) in wish for c in conditions for f, wish in levels.items())


# -- the levels of a factor ----------------------------------------------------------------------


def _by(
    results: Data,
    metric: str | None,
    by: str | Sequence[str],
    baseline: Any,
    where: Mapping[str, Any],
    margin: float | None,
) -> Family:
    """Judge every level of some factors: as the report does where declared, else exploratory."""
    if metric is None and not isinstance(results, Observations):
        raise UsageError(
            "a comparison by a factor needs a metric, for example throughput_bps"
        )
    obs = observe(results, metric, by, where=where)
    level = usual_level(obs) if baseline is None else baseline
    asked = obs.asked or obs.by
    name = asked[0] if len(asked) == 1 else ""
    margin_used = margin or MARGIN
    chosen = [Sides(obs, a, b, margin_used, factor=name) for a, b in pairs(obs, level)]
    if not chosen:
        names = ", ".join(obs.asked or obs.by)
        raise UsageError(
            f"nothing to compare: no two conditions of {obs.metric} differ in {names} alone"
        )
    family = judge_pairs(chosen, declared=False)

    def sides(c: Contrast) -> frozenset[str]:
        return frozenset(obs.condition(side) for side in (c.a, c.b))

    # several experiments may declare different contrasts
    several = isinstance(results, Observations | Sequence | Mapping)
    declared = [] if several else declared_contrasts(results)
    both = [frozenset((p.a, p.b)) for p in chosen]
    if any(sides(c) in both for c in declared if c.metric == obs.metric):
        report, known = judge_declared(results, obs.metric, where, margin)
        judged = {
            sides(p.contrast): c for p, c in zip(known, report, strict=True) if p.contrast
        }
        shown = [judged.get(names, c) for names, c in zip(both, family, strict=True)]
        family = replace(report, comparisons=tuple(shown))
    return replace(
        family, warnings=(*family.warnings, *obs.notes), notice=obs.origin.notice
    )


def asked_about(
    obs: Observations, contrasts: Iterable[Contrast], where: Mapping[str, Any]
) -> list[Contrast]:
    """Return the contrasts about the metric and the factors asked for, between observed conditions.

    With `where` only those whose sides name these levels: a part of a condition is not what was
    declared.
    """
    ends = {f for both in ENDS for f in both}
    held = {*where} - {*obs.asked}

    def relevant(c: Contrast) -> bool:
        sides = [side for side in (c.a, c.b) if side is not None]
        differ = {
            f for side in sides for f in side if c.b is None or c.a.get(f) != c.b.get(f)
        }
        asked = factor_of(c) in obs.asked or (differ and differ <= {*obs.asked, *ends})
        whole = all(held <= side.keys() and obs.matching(side) for side in sides)
        return bool((asked or not obs.asked) and whole)

    return [c for c in contrasts if c.metric == obs.metric and relevant(c)]


# -- two measurements ----------------------------------------------------------------------------


def _two_sides(
    data: Any,
    after: Data | None,
    where: Mapping[str, Any] | None,
    where_after: Mapping[str, Any] | None,
    pattern: str | None,
) -> dict[str, Observed]:
    """Return the runs before and after, by name."""
    if after is None:
        return {str(name): runs_of(one, where, pattern) for name, one in data.items()}
    names = [_name(side) for side in (data, after)]
    if names[0] == names[1]:
        names = [f"{names[0]} (before)", f"{names[1]} (after)"]
    first = runs_of(data, where, pattern)
    second = runs_of(after, where if where_after is None else where_after, pattern)
    return {names[0]: first, names[1]: second}


def _name(data: Data) -> str:
    if isinstance(data, str | os.PathLike):
        return Path(data).name
    return str(getattr(data, "name", "runs"))


def between(
    sides: Mapping[str, Observed],
    metric: str | None = None,
    by: Sequence[str] = (),
    margin: float | None = None,
) -> Family:
    """Compare two measurements, condition by condition; `compare` has the parameters.

    The measurement is the factor that is asked about. What has no level in common on the two sides
    was changed with it, and splits nothing. Raises UsageError if a side has no run, or there is no
    such metric or factor.
    """
    for name, side in sides.items():
        if side.runs.empty:
            raise UsageError(f"{name}: there are no runs to compare")
    (before, one), (after, two) = ((name, side.runs) for name, side in sides.items())
    again = _shared(one, two)
    notes = [f"{after} against {before}: {_TIME}"]
    if again.all() and len(one) == len(two):
        notes = [f"{after} against {before}: both sides are the same runs"]
    elif again.all():
        raise UsageError(f"every run of {after} is one of {before}: nothing to compare")
    elif again.any():
        two = two[~again].reset_index(drop=True)
        sides = {before: sides[before], after: replace(sides[after], runs=two)}
        runs = plural(int(again.sum()), "run")
        notes.append(f"{runs} of {after} are those of {before}, and count once")
    levels = {
        f: [_levels(side, f) for side in (one, two)] for f in dimensions({**one, **two})
    }
    both = [f for f in levels if f in one and f in two]
    if unknown := [f for f in by if f not in both]:
        raise no_factor(unknown[0], two[both])
    changed = [
        f for f in levels if not (by or f in HOSTS or set.intersection(*levels[f]))
    ]
    asked = (MEASUREMENT, *(f for f in by if len(set.union(*levels[f])) > 1))
    every = [
        replace(observe(sides, m, asked, pool=changed), asked=(MEASUREMENT,))
        for m in _common(one, two, metric)
    ]
    if not every:
        raise NothingToReport(f"{before} and {after} have no metric in common")
    chosen = [
        Sides(obs, a, b, margin or MARGIN, factor=MEASUREMENT)
        for obs in every
        for a, b in pairs(obs, before)
    ]
    notes += [_CHANGE]
    for f in changed:
        words = (
            ", ".join(sorted(map(factor(f).level_words, side))) for side in levels[f]
        )
        notes.append("changed: {}: {} before, {} after".format(f, *words))
    notes += _alone(every, chosen)
    family = judge_pairs(chosen)
    said = (UNPAIRED, QUOTIENT)
    comparisons = [
        replace(c, warnings=tuple(w for w in c.warnings if w not in said)) for c in family
    ]
    return replace(
        family,
        comparisons=tuple(comparisons),
        experiment=f"{after} against {before}",
        warnings=(*notes, *family.warnings),
        notice=joined([sides[after].origin, sides[before].origin]).notice,
    )


def _levels(side: pd.DataFrame, name: str) -> set[Any]:
    return {plain(v) for v in side[name].unique()} if name in side else {None}


def _common(before: pd.DataFrame, after: pd.DataFrame, metric: str | None) -> list[str]:
    """Return the metrics of both sides; the sender's throughput where no receiver's is known."""
    asked = COMPARED if metric is None else [metric_of(metric).name]
    sides = [ok_runs(side) for side in (before, after)]
    names = [m for m in asked if all(m in s and s[m].notna().any() for s in sides)]
    if "throughput_bps" in names and metric is None:
        names = [m for m in names if m != "throughput_sent_bps"]
    return names


def _shared(one: pd.DataFrame, two: pd.DataFrame) -> pd.Series[bool]:
    """Return which runs of the second side are among the first: by what they hold, not by name."""
    names = ("experiment", "run_id", "started_utc", *COMPARED)
    both = [c for c in names if c in one and c in two]
    if "run_id" not in both:
        return pd.Series(data=False, index=two.index)
    held = (side[both].astype(str).fillna("") for side in (one, two))
    first, second = (rows.agg("|".join, axis=1) for rows in held)
    return second.isin(first)


def _alone(every: Sequence[Observations], chosen: Sequence[Sides]) -> list[str]:
    """Return the conditions that only one side has, in words."""
    compared = {(p.obs, name) for p in chosen for name in (p.a, p.b)}
    notes = []
    for obs in every:
        words = level_names(obs, [f for f in obs.by if f != MEASUREMENT])
        alone = [c for c in obs.names if (obs, c) not in compared]
        notes += [f"only in {obs.at(c, MEASUREMENT)}: {words[c]}" for c in alone]
    return list(dict.fromkeys(notes))


def compared_table(family: Family) -> Table:
    """Return the comparisons of two measurements as a table for a page.

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
        change = f"{effect(c.ratio)} ({span(c.ratio, c.low, c.high)})".removesuffix(
            " (–)"
        )
        rows.append(
            (c.context or c.label, c.quantity, before, after, change, str(c.verdict))
        )
    names = ("condition", "metric", one, two, "change", "verdict")
    frame = pd.DataFrame(rows, columns=list(names))
    caption = "Median of each side, the change with its interval, and the verdict."
    return Table.of(
        frame, caption, columns={n: n if n in (one, two) else n.title() for n in names}
    )
