"""Comparisons of conditions: the contrasts of an experiment, the levels of a factor, or two measurements."""

from __future__ import annotations

import math
import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import combinations
from typing import Any

import pandas as pd
from pydantic import TypeAdapter, ValidationError

from ..data.imports import are_logs
from ..data.load import Fleet, Results
from ..errors import NothingToReport, UsageError
from ..experiment.attached import attached
from ..experiment.contrasts import threshold
from ..experiment.factors import FACTORS, dimensions, factor, level_words, plain, sort_levels
from ..experiment.model import Contrast, Margin
from ..experiment.placements import USUAL
from ..metrics import ALPHA, COMPARED, MARGIN, METRICS, format_value, plural
from ..metrics import metric as metric_of
from .comparison import Comparison, Family
from .families import judged_by_rule, of_main_tools
from .judging import Pair, as_contrast, judge, judge_pairs
from .limits import with_causes
from .observe import (
    MEASUREMENT,
    POOLS,
    SEVERAL,
    Data,
    Observations,
    Observed,
    as_tuple,
    level_names,
    observe,
)
from .result import unit_of
from .runs import (
    ENDS,
    check_levels,
    nearest,
    ok_runs,
    present,
    read_data,
    runs_of,
    table_of,
    wished,
)
from .samples import QUOTIENT, UNPAIRED
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
    name = obs.asked[0] if obs.asked else obs.by[0] if obs.by else ""
    known = [plain(level) for level in obs.conditions[name]] if name else []
    if name == "accelerated" and False in known:
        return False  # the question is what switching it on brings
    usual = USUAL if name == "placement" else (factor(name).ordinary,)
    return next((level for level in usual if level is not None and level in known), None)


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
        runs = Observed.of(runs_of(results, where)).runs
        family, chosen = judged_by_rule(of_main_tools(runs, metric), margin, alpha)
        if not chosen:
            raise UsageError(
                "the experiment declares no contrast, and each metric has one condition"
            )
        return replace(
            with_causes(family, (p.conditions for p in chosen)), notice=attached(runs).notice
        )
    return _of_contrasts(results, metric, contrasts, where or {}, margin, alpha, looked)


def _two_sides(
    data: Data,
    after: Data | None,
    where: Mapping[str, Any] | None,
    where_after: Mapping[str, Any] | None,
    pattern: str | None,
    *,
    pairs: bool,
) -> dict[str, pd.DataFrame]:
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
    source, attachment = (
        Observed.of(_of_one_declaration(data) if contrasts is None else data),
        attached(table_of(data)),
    )
    experiment = attachment.declared
    declared = [as_contrast(c)[0] for c in experiment.get("contrasts") or ()]
    warnings: list[str] = []
    if contrasts is not None:
        filled = (c if isinstance(c, Contrast) else {"metric": metric, **c} for c in contrasts)
        named = [as_contrast(c) for c in filled]
        if not declared and (declared := [c for c, in_family in named if in_family]):
            warnings.append(
                "the contrasts were named with the analysis, not declared with the experiment"
            )
        chosen = [c for c, _ in named]
    else:
        chosen = [c for c in declared if metric is None or c.metric == metric]
        if not chosen:
            metrics = ", ".join(sorted({c.metric for c in declared})) or "none"
            of = f" of {metric}" if metric else ""
            raise UsageError(
                f"the experiment declares no contrast{of} (declared: {metrics}); name a factor to compare"
            )
    every, chosen = chosen, within(source, chosen, where)
    if len(chosen) < len(every):
        levels = ", ".join(f"{k}={v}" for k, v in where.items())
        if not chosen:
            raise UsageError(
                f"no contrast is about {levels}, with runs on both sides; name a factor to compare"
            )
        warnings.append(
            f"{plural(len(every) - len(chosen), 'contrast')} left out: no runs with {levels} on both sides"
        )
    held = {f: level for f, level in where.items() if not isinstance(level, list | tuple | set)}
    chosen = [c if within(source, [c], where, every=True) else _narrowed(c, held) for c in chosen]
    family, extra, answered = _family(declared, chosen, margin)
    sequential = (attachment.looked if looked is None else looked) or experiment.get(
        "design"
    ) == "sequential"
    exploratory = ({**c.model_dump(), "declared": False} for c in extra)
    alpha = alpha if alpha is not None else float(experiment.get("alpha") or ALPHA)
    judged = judge(
        source, [*family, *exploratory], alpha=alpha, design="sequential" if sequential else None
    )
    position = {id(c): i for i, c in enumerate([*family, *extra])}
    return replace(
        judged,
        comparisons=tuple(
            _with_claims(judged[position[id(c)]], attachment.failed_claims) for c in answered
        ),
        declared=len(family),
        experiment=str(experiment.get("name") or ""),
        warnings=(*warnings, *judged.warnings),
        notice=attachment.notice,
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
    rows = []
    ends = {f for both in ENDS for f in both}
    for c in contrasts:
        sides = [side for side in (c.a, c.b) if side is not None]
        differ = {f for side in sides for f in side if c.b is None or c.a.get(f) != c.b.get(f)}
        complete = all(f in side for f in where if f not in obs.asked for side in sides)
        relevant = (
            not obs.asked or factor_of(c) in obs.asked or (differ and differ <= {*obs.asked, *ends})
        )
        if (
            c.metric == obs.metric
            and relevant
            and complete
            and all(obs.matching(side) for side in sides)
        ):
            rows.append(c)
    return rows


def within(
    data: Data, contrasts: Iterable[Contrast], where: Mapping[str, Any], *, every: bool = False
) -> list[Contrast]:
    """The contrasts whose sides have runs with the levels `where`; `every`: and no others."""
    observed: dict[str, Observations] = {}

    def fits(obs: Observations, side: Mapping[str, Any]) -> bool:
        levels = {f: wished(f, wish) for f, wish in where.items()}
        if not all(factor(f).cast(side[f]) in levels[f] for f in levels.keys() & side.keys()):
            return False
        facts = [
            {f: obs.fact(c, f) if f in obs.facts else SEVERAL for f in where}
            for c in obs.matching(side)
        ]
        rows = (
            all(v[f] in w or (v[f] == SEVERAL and not every) for f, w in levels.items())
            for v in facts
        )
        return not facts or (all if every else any)(rows)

    def matches(c: Contrast) -> bool:
        with suppress(NothingToReport):
            if c.metric not in observed:
                observed[c.metric] = observe(data, c.metric)
            obs = observed[c.metric]
            return fits(obs, c.a) and fits(obs, c.b or c.a)
        return True

    return [c for c in contrasts if not where or matches(c)]


def _narrowed(c: Contrast, held: Mapping[str, Any]) -> Contrast:
    """A contrast between the runs with these levels alone."""
    return c.model_copy(
        update={
            side: {**held, **levels} for side in "ab" if (levels := getattr(c, side)) is not None
        }
    )


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
    if len(false) == 1:
        (claim, evidence), *_ = false.items()
        warning = f"it rests on a claim that does not hold: {claim}" + (
            f" ({evidence})" if evidence else ""
        )
    else:
        warning = f"it rests on {len(false)} claims that do not hold: {'; '.join(false)}"
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
    if baseline is None:
        baseline = usual_level(obs)
    chosen = [Pair(obs, a, b, size, declared=False) for a, b in pairs(obs, baseline)]
    for name in as_tuple(pool):
        for a, b in (pair.conditions[1:] for pair in chosen if name not in POOLS):
            _check_pooled(obs, name, a, b)
    if not chosen:
        names = ", ".join(obs.asked or obs.by)
        raise UsageError(
            f"nothing to compare: no two conditions of {obs.metric} differ in {names} alone"
        )
    family = judge_pairs(chosen, alpha)
    named: dict[tuple[str, str], Contrast] = {}
    several = isinstance(
        results, Observations | Sequence | Mapping
    )  # experiments that may declare different contrasts
    meant = [] if several else within(results, declared_contrasts(results), where, every=True)
    for c in asked_about(obs, meant, {}):
        one, two = obs.condition(c.a), obs.condition(c.b)
        if one and two and margin in (None, c.margin):
            named[one, two] = c
            named[two, one] = c.model_copy(update={"a": c.b, "b": c.a})
    keys = [p.conditions[1:] for p in chosen]
    declared = {key: named[key] for key in keys if key in named}
    if declared:
        judged = compare(results, contrasts=declared.values(), alpha=alpha)
        verdicts = dict(zip(declared, judged, strict=True))
        every = [
            replace(verdict, names=c.names, context=c.context)
            if (verdict := verdicts.get(key))
            else c
            for key, c in zip(keys, family, strict=True)
        ]
        family = replace(
            judged, comparisons=tuple(every), warnings=(*judged.warnings, *family.warnings)
        )
    family = with_causes(family, (p.conditions for p in chosen))
    return replace(
        family, warnings=(*family.warnings, *obs.notes), notice=attached(obs.table).notice
    )


def _check_pooled(obs: Observations, name: str, a: str, b: str) -> None:
    """Raise UsageError unless two conditions have the same levels of what is pooled: the others would be the effect."""
    one, two = (set(map(plain, obs.column(name, [side]))) for side in (a, b))
    if one != two:
        alone = ", ".join(level_words(name, level) for level in sort_levels(name, one ^ two))
        what = f"{name} is pooled, but {a} and {b} do not both have {alone}"
        raise UsageError(f"{what}: select one level with where, or let it split the conditions")


def between(
    sides: Mapping[str, pd.DataFrame],
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
        if side.empty:
            raise UsageError(f"{name}: there are no runs to compare")
    (before, one), (after, two) = sides.items()
    shared = _shared(one, two)
    same = bool(shared.all()) and len(one) == len(two)
    if shared.any() and not same:
        two = two[~shared]
        sides = {before: one, after: two}
    both = dimensions([str(c) for c in one if c in two])
    if unknown := [f for f in by if f not in both]:
        varying = [f for f in both if len(_levels(one, f) | _levels(two, f)) > 1]
        raise UsageError(
            f"{unknown[0]!r} is not a factor of both sides; {nearest(unknown[0], both, varying)}"
        )
    changed = {} if by else _changed(one, two)
    varying = [f for f in by if len(_levels(one, f) | _levels(two, f)) > 1]
    pool = list(changed)
    every = [
        observe(sides, m, (MEASUREMENT, *varying), pool=pool) for m in _common(one, two, metric)
    ]
    every = [replace(obs, asked=(MEASUREMENT,)) for obs in every]
    size = MARGIN if margin is None else margin
    chosen = [(obs, a, b) for obs in every for a, b in pairs(obs, before)]
    if not every:
        raise NothingToReport(f"{before} and {after} have no metric in common")
    family = judge_pairs([Pair(obs, a, b, size) for obs, a, b in chosen], alpha)
    notes = [
        f"{after} against {before}: {'both sides are the same runs' if same else _TIME + _when(one, two)}"
    ]
    if shared.any() and not same:
        runs = plural(int(shared.sum()), "run")
        notes.append(f"{runs} of {after} are those of {before}, and count once")
    notes += [
        "change: the typical ratio of a run after to a run before; the ratio of the two medians may differ"
    ]
    notes += [f"changed: {name}: {a} before, {b} after" for name, (a, b) in changed.items()]
    compared = {_words(obs)[a] for obs, a, _ in chosen}
    for name in sides:
        named = ((obs, obs.conditions[MEASUREMENT] == name) for obs in every)
        words = (_words(obs)[str(c)] for obs, here in named for c in obs.conditions.index[here])
        alone = [w for w in dict.fromkeys(words) if w not in compared]
        notes += [f"only in {name}: {'; '.join(alone)}"] if alone else []
    family, notes_of_all = with_causes(family, chosen), (UNPAIRED, QUOTIENT)
    return replace(
        family,
        comparisons=tuple(
            replace(c, warnings=tuple(w for w in c.warnings if w not in notes_of_all))
            for c in family
        ),
        experiment=f"{after} against {before}",
        warnings=(*notes, *family.warnings),
        notice=" ".join(dict.fromkeys(filter(None, (attached(side).notice for side in (two, one)))))
        or None,
    )


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


def _words(obs: Observations) -> dict[str, str]:
    """What to call each condition, whatever the measurement."""
    return level_names(obs, [f for f in obs.by if f != MEASUREMENT])


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
    rows = []
    for c in family:
        after, before = (format_value(v, unit_of(c.metric)) for v in c.medians)
        change = f"{effect(c.ratio)} ({span(c.ratio, c.low, c.high)})".removesuffix(" (–)")
        rows.append((c.context or c.label, c.quantity, before, after, change, str(c.verdict)))
    sides = {c.names[::-1] for c in family}
    heads = [
        "condition",
        "metric",
        *(sides.pop() if len(sides) == 1 else ("baseline", "condition")),
        "change",
        "verdict",
    ]
    frame = pd.DataFrame(rows, columns=heads)
    named = {h: h if h in heads[2:4] else h.capitalize() for h in heads}
    return Table.of(
        frame, "Median of each side, the change with its interval, and the verdict.", columns=named
    )


def _existing(data: Data) -> Data:
    """The same; raise UsageError if it is a name of nothing."""
    if isinstance(data, str) and data in FACTORS:
        raise UsageError(
            f"{data!r} is a factor: write by={data!r}, and a metric, as in metric='throughput_bps'"
        )
    if isinstance(data, str) and not (are_logs(data) or "/" in data or os.path.exists(data)):  # noqa: PTH110
        candidates = [
            *METRICS,
            *(p.name for p in os.scandir() if p.is_dir() and not p.name.startswith(".")),
        ]
        near = f"; {words}" if "did you mean" in (words := nearest(data, candidates)) else ""
        raise UsageError(f"{data!r} is neither a folder nor a metric{near}")
    return data


def _name(data: Data, where: Mapping[str, Any] | None) -> str:
    if isinstance(data, str | os.PathLike):
        name = os.fspath(data).rstrip("/").rpartition("/")[2]
    else:
        name = data.name if isinstance(data, Results) else "runs"
    slice_ = ", ".join(f"{k}={v}" for k, v in (where or {}).items())
    return f"{name} ({slice_})" if slice_ else name
