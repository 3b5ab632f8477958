"""Which conditions are compared: as declared, by rule, by a factor, or before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations, product
from typing import Any

import pandas as pd
from pydantic import ValidationError

from ..data.door import read
from ..errors import NothingToReport, StatsError, UsageError
from ..experiment.factors import LOG_NAME, factor, plain
from ..experiment.model import Contrast
from ..experiment.placements import FAR_PLACES, GATEWAYS, USUAL
from ..metrics import COMPARED, MARGIN, METRICS, format_value, in_words, plural
from ..metrics import metric as metric_of
from .judging import judge_questions, read_margin
from .observe import Observations, as_tuple, is_label, observe, slice_for
from .runs import (
    HOSTS,
    MEASUREMENT,
    OF_ENDS,
    PAIR,
    UNIT,
    Data,
    Levels,
    Measurement,
    Names,
    check_levels,
    headline_metrics,
    measurement,
    numbered,
    together,
    varying,
    wished,
    without_sent,
)
from .verdicts import (
    Comparison,
    Family,
    Question,
    differing,
    factor_of,
    sides_of,
)
from .words import DASH, SEVERAL, effect, levels_text, span, unit_of

_TIME = (
    "runs are not paired, and the sides were measured at different times, so a difference may have "
    "other causes than what was changed"
)
_CHANGE = (
    "change: the typical ratio of a run after to a run before; the ratio of the two medians "
    "may differ"
)
BASELINES = ("default", "off", "none", "before", "vorher", "baseline")
"""Names of a level of a label with which the others are compared."""


def compare(
    data: Data,
    after: Data | None = None,
    *,
    metric: str | None = None,
    by: Names | None = None,
    baseline: Any = None,
    where: Levels | None = None,
    where_after: Levels | None = None,
    pattern: str | None = None,
    contrasts: Iterable[Contrast | Levels] | None = None,
    margin: float | str | None = None,
) -> Family:
    """Compare the conditions of one experiment, or two experiments condition by condition.

    Parameters
    ----------
    data, after
        What `observe` takes, or raw logs: a file, a folder, a pattern. With `after`, `data` is the
        side before. A mapping of two names to data compares these two.
    metric : str, optional
        Only this metric; default with `by`: each headline metric for which the factors vary.
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
        Contrasts to judge instead of the declared ones, as in the yaml: ``{"metric": …, "a":
        {factor: level}, "b": {factor: level}, "margin": 0.1}``, or against a threshold:
        ``{"metric": …, "a": {…}, "below": "1 ms"}``, ``{"metric": …, "a": {…}, "at_least": "90 %",
        "of": "10 Gbit/s"}`` (a number is in the unit of the metric). If none is declared, these
        count as declared.
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
    share = None if margin is None else read_margin(margin)
    if isinstance(after, str) and after in METRICS:
        raise UsageError(
            f"{after!r} is a metric: write compare(data, metric={after!r}, by=…)"
        )
    if after is not None or (by is None and isinstance(data, Mapping)):
        sides = _two_sides(data, after, pattern, where, where_after)
        return between(sides, metric, as_tuple(by), share)
    inside = getattr(data, "observations", data)
    if isinstance(inside, Observations):
        return _compare_observed(inside, by, baseline, share)
    source = measurement(data, pattern)
    check_levels(where or {})
    if by is not None:
        return _compare_levels(source, metric, by, baseline, where or {}, share)
    if contrasts is not None or source.contrasts or source.added:
        family = judge_declared(source, metric, where, share, contrasts)
        if not family:
            about = [metric_of(metric).name] if metric else []
            about += [f"{name}={level}" for name, level in (where or {}).items()]
            raise UsageError(
                f"no contrast is about {', '.join(about)}, with runs on both sides; "
                "name a factor to compare"
            )
        return family
    some = source.only(where)
    questions = questions_by_rule(of_main_tools(some, metric), share)
    family = judge_questions(questions, some)
    if not family:
        raise UsageError(
            "the experiment declares no contrast, and each metric has one condition"
        )
    return family


# -- by rule ---------------------------------------------------------------------------------------
#
# The rule reads no measured value. For each factor that varies and each headline metric, each level
# is compared with the usual one, while every other factor is at one level. What is set on hosts
# (streams, buffers, acceleration) may matter on one path only, so it is compared at each placement.


def of_main_tools(
    source: Measurement, metric: str | None = None, contrasts: Sequence[Contrast] = ()
) -> list[Observations]:
    """Return the conditions of a metric, or of each headline metric, as `of_main_tool` has them."""
    names = [metric] if metric else headline_metrics(source)
    if metric is None:
        source = replace(source, runs=without_sent(source.runs))
    latency = any(name.endswith("_us") for name in names)
    observed = []
    for name in names:
        if latency and name == "transaction_rate_per_s":
            continue  # it says the same
        obs = of_main_tool(source, name, contrasts)
        if obs.names:
            observed.append(obs)
    return observed


def of_main_tool(
    source: Measurement, metric: str, contrasts: Sequence[Contrast] = ()
) -> Observations:
    """Return the conditions in which a metric was measured by its main tool, and that have a value.

    The tool is that of the declared contrasts, else the one with most conditions.
    """
    obs = observe(source, metric)
    where: dict[str, Any] = {}
    for name in ("during", "tool", "test"):
        if name not in obs.by:
            continue
        levels = obs.facts.loc[obs.measured, name]
        if name == "during":
            # under load a throughput is that of the load itself
            if obs.unit != "bps" or levels.notna().all():
                continue
            where[name] = None
        else:
            named = _declared(name, metric, contrasts) or levels.dropna()
            [(where[name], _)] = Counter(named).most_common(1)
        obs = observe(source, metric, where=where)
    return obs.only(obs.measured)


def _declared(name: str, metric: str, contrasts: Sequence[Contrast]) -> list[Any]:
    """Return the levels of a factor that contrasts of a metric name."""
    levels = []
    for c in contrasts:
        if c.metric == metric:
            levels += [side[name] for side in sides_of(c) if side.get(name) is not None]
    return levels


def questions_by_rule(
    observed: Sequence[Observations], margin: float | None = None
) -> list[Question]:
    """Return what is asked of an experiment that declares nothing."""
    margin = margin or MARGIN
    questions, decidable = list[Question](), list[Question]()
    for obs in observed:
        for name in obs.factors:
            # only the names of logs tell some conditions apart, and not in what
            if LOG_NAME in obs.by:
                continue
            # a requested rate is no gain
            if name == "bitrate" and obs.unit == "bps":
                continue
            for conditions in _slices(obs, name):
                for a, b in _against_the_usual(obs, name, conditions):
                    q = Question(obs=obs, a=a, b=b, margin=margin, factor=name)
                    questions.append(q)
                    if min(obs.value(a, "n"), obs.value(b, "n")) > 1:
                        decidable.append(q)
    # what one run a side cannot decide takes no share of the 5 %
    return decidable or questions


def _slices(obs: Observations, name: str) -> list[list[str]]:
    """Return the conditions in which a factor is compared: of what is set on hosts by placement."""
    if name in ("placement", PAIR) or "placement" not in obs.by:
        return [usual(obs, name, elsewhere=False)]
    slices = []
    for place in obs.levels_of("placement"):
        conditions = obs.having("placement", place, obs.names)
        if name == "gateway_sku" and "streams" in obs.by:
            # a gateway limits what many streams carry
            most = max(obs.at(c, "streams") or 0 for c in conditions)
            many = obs.having("streams", most, conditions)
            if len({obs.at(c, name) for c in many}) > 1:
                conditions = many
        slices.append(slice_for(obs, [name], conditions, elsewhere=False))
    return slices


def usual(
    obs: Observations,
    name: str,
    contrasts: Sequence[Contrast] = (),
    *,
    elsewhere: bool = True,
) -> list[str]:
    """Return the conditions in which a factor is looked at.

    Pairs are compared within a placement that has several.
    """
    if name != PAIR:
        return slice_for(obs, [name], obs.measured, contrasts, elsewhere=elsewhere)
    ends = [one for one in obs.by if one in OF_ENDS]
    known = obs.conditions[ends].notna().any(axis=1)
    places = ["placement"] if "placement" in obs.by else []
    names = slice_for(obs, places, list(known.index[known]), contrasts)
    count = Counter(obs.at(c, "placement") for c in names)
    return [c for c in names if count[obs.at(c, "placement")] > 1]


def other_factors(obs: Observations, name: str) -> list[str]:
    """Return the factors that split besides this one and the ends of paths."""
    return [one for one in obs.factors if one not in (name, PAIR)]


def usual_level(obs: Observations, name: str) -> Any:
    """Return the level that others are compared with, by its name or the default; None: none."""
    levels = obs.levels_of(name)
    if name == "accelerated" and False in levels:
        return False  # the question is what switching it on brings
    if is_label(name):
        return first_of_label(obs, name)
    known = [*USUAL] if name == "placement" else [factor(name).ordinary]
    for level in known:
        if level is not None and level in levels:
            return level
    return None


def first_of_label(obs: Observations, name: str) -> Any:
    """Return the level of a label that others are compared with: by its name, else its time.

    None where no level has the name of a baseline, and they were not measured one after the other.
    """
    levels = obs.facts[name]
    for level in levels:
        if str(level).casefold() in BASELINES:
            return level
    runs = obs.complete
    if runs["started_utc"].isna().any():
        return None
    of_run = runs["condition"].astype(object).map(levels)
    spans = runs["started_utc"].groupby(of_run, dropna=False).agg(["min", "max"])
    spans = spans.sort_values("min")
    apart = spans["max"].shift().iloc[1:] < spans["min"].iloc[1:]
    if apart.all():
        return plain(spans.index[0])
    return None


def _against_the_usual(
    obs: Observations, name: str, conditions: Sequence[str]
) -> list[tuple[str, str]]:
    """Return each condition with the usual one, a far path with the direct way to its region."""
    if not conditions:
        return []
    base = conditions[0]
    if name != PAIR:
        level = usual_level(obs, name)
        if level is None:
            level = obs.levels_of(name)[0]
        base = next(iter(obs.having(name, level, conditions)), base)
    direct = base
    if name == "placement":
        far = (c for c in conditions if obs.at(c, name) in FAR_PLACES)
        direct = next(far, base)
    pairs = []
    for a in conditions:
        b = base
        if _is_far(obs, a):
            # a gateway is compared with the direct way to the same region
            b = direct
        alike = obs.at(a, name) == obs.at(b, name)
        if a == b or (alike and name != "placement"):
            continue  # only the hosts differ
        if obs.same(a, b, name, PAIR):
            pairs.append((a, b))
    return pairs


def _is_far(obs: Observations, condition: str) -> bool:
    """Return whether a path leads to another region: it is compared with the direct way there."""
    one = obs.at(condition, "client_region")
    two = obs.at(condition, "server_region")
    placement = obs.at(condition, "placement")
    if one is None and two is None:
        return placement in GATEWAYS
    return bool(one != two) and placement not in FAR_PLACES


# -- declared contrasts ----------------------------------------------------------------------------


def contrasts(
    data: Any, about: str | None = None, metric: str | None = None
) -> list[Contrast]:
    """Return the contrasts that the experiment declares.

    Optionally only those of `metric` or whose sides differ in `about`.

    Raises UsageError if the table has no such factor.

    Examples
    --------
    >>> len(npl.analysis.contrasts(exp, metric="throughput_bps"))
    5
    """
    source = measurement(data)
    if about is not None:
        source.check_factors([about])
    found = [c for c in source.contrasts if about in (None, factor_of(c))]
    return [c for c in found if metric in (None, c.metric)]


def as_contrast(c: Contrast | Levels) -> Contrast:
    """Return a contrast; StatsError if it is not valid."""
    try:
        return Contrast.model_validate(c)
    except ValidationError as error:
        problem = error.errors()[0]
        what = ": ".join([*map(str, problem["loc"]), problem["msg"]])
        how = "{'metric': 'rtt_us', 'a': {'placement': 'ppg'}, 'b': {'placement': 'same-zone'}}"
        raise StatsError(f"not a contrast: {c!r} ({what}); write as in {how}") from None


def judge_declared(
    source: Measurement,
    metric: str | None = None,
    where: Levels | None = None,
    margin: float | None = None,
    contrasts: Iterable[Contrast | Levels] | None = None,
) -> Family:
    """Judge contrasts; every one that was declared before the data, shown or not, shares the error.

    Shown are the declared ones, or `contrasts`, about the metric and between conditions with the
    levels `where`. Another margin, or what was declared later, is another question: exploratory.
    """
    where = where or {}
    source.check_factors(where)
    declared, asked, warnings = _asked_of(source, metric, margin, contrasts)
    if source.runs.empty:
        raise StatsError(
            "the table of runs is empty: nothing was measured, or nothing was ingested"
        )
    used, beyond = _planned_only(source)
    questions = questions_of(used, declared)
    for q in questions_of(used, [c for c in asked if c not in declared]):
        questions.append(replace(q, declared=False))
    family = judge_questions(
        questions, used, alpha=source.alpha, sequential=source.sequential
    )
    shown, left = list[Comparison](), 0
    for c in family:
        if c.question.contrast not in asked:
            continue
        if _is_within(c.question, where):
            shown.append(c)
        else:
            left += 1
    if left:
        levels = ", ".join(f"{name}={level}" for name, level in where.items())
        warnings.append(
            f"{plural(left, 'contrast')} left out: no runs with {levels} on both sides"
        )
    notes = (*warnings, *beyond, *family.warnings)
    return replace(family, comparisons=tuple(shown), warnings=notes)


def _asked_of(
    source: Measurement,
    metric: str | None,
    margin: float | None,
    contrasts: Iterable[Contrast | Levels] | None,
) -> tuple[list[Contrast], list[Contrast], list[str]]:
    """Return the contrasts that share the error, those that are asked for, and what to know."""
    declared = list(source.contrasts)
    asked = [*declared, *source.added]
    warnings = []
    if contrasts is not None:
        asked = _named(contrasts, metric, declared)
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
    return declared, asked, warnings


def _named(
    contrasts: Iterable[Contrast | Levels],
    metric: str | None,
    declared: Sequence[Contrast],
) -> list[Contrast]:
    """Return contrasts that were named with the analysis: a declared one that asks the same."""
    found = []
    for given in contrasts:
        if isinstance(given, Mapping):
            given = {"metric": metric, **given}
        c = as_contrast(given)
        unsaid = {"question", "margin"} - (c.model_fields_set - {"question"})
        asked = c.model_dump(exclude=unsaid)
        same = (one for one in declared if one.model_dump(exclude=unsaid) == asked)
        found.append(next(same, c))
    return found


def _planned_only(source: Measurement) -> tuple[Measurement, list[str]]:
    """Return the runs of the planned rounds, and a note on those beyond them.

    In a fixed design the number of rounds was chosen before the data.
    """
    if not source.planned or source.sequential:
        return source, []
    runs = source.runs
    late = runs["round"].groupby(source.replicate).rank("dense") > source.planned
    if not late.any():
        return source, []
    beyond = runs.loc[late, [*UNIT, "round"]].drop_duplicates()
    note = (
        f"{plural(len(beyond), 'round')} beyond the {source.planned} planned are not used: "
        "to add rounds until contrasts are settled, use a sequential design"
    )
    return replace(source, runs=runs[~late].reset_index(drop=True)), [note]


def questions_of(source: Measurement, contrasts: Iterable[Contrast]) -> list[Question]:
    """Return the questions that contrasts ask.

    Raises UsageError where a side names several conditions, or what is no factor.
    """

    @cache
    def observed(metric: str, by: tuple[str, ...], pool: str) -> Observations | None:
        """Contrasts of one metric mostly stand on the same observations."""
        try:
            return observe(source, metric, by, pool=pool or ())
        except NothingToReport:
            return None

    questions = []
    for c in contrasts:
        named = {**c.a, **(c.b or {})}
        # the pairs of hosts of one condition are merged by round, unless a side names them
        pool = "" if any(name.startswith(HOSTS) for name in named) else "pairs"
        obs = observed(c.metric, (), pool)
        if obs is not None:
            source.check_factors(named)
            # what is named splits, even if it would not by itself
            several = [name for name in named if (obs.facts[name] == SEVERAL).any()]
            obs = observed(c.metric, tuple(several), pool)
        q = Question(
            obs=obs,
            a=_condition(obs, c.a),
            b=_condition(obs, c.b),
            margin=c.margin,
            factor=factor_of(c),
            contrast=c,
        )
        questions.append(q)
    return questions


def _condition(obs: Observations | None, side: Levels | None) -> str:
    """Return the condition that a side names; empty if none, UsageError if several."""
    if obs is None or side is None:
        return ""
    names = obs.matching(side)
    if len(names) > 1:
        # nothing is pooled behind the reader's back
        differ = in_words(varying(obs.conditions.loc[names].map(repr), obs.by))
        what = levels_text(side) or "a side without levels"
        raise UsageError(
            f"{obs.metric}: {what} names {len(names)} conditions; name also {differ}"
        )
    return "".join(names)


def _is_within(q: Question, where: Levels) -> bool:
    """Return whether all runs of both sides have these levels."""
    if q.obs is None:
        return True
    for condition in filter(None, q.conditions):
        for name, wish in where.items():
            if q.obs.at(condition, name) not in wished(name, wish):
                return False
    return True


# -- the levels of a factor ------------------------------------------------------------------------


def pairs(obs: Observations, baseline: Any = None) -> list[tuple[str, str]]:
    """Return conditions that differ in the factors asked for alone, as (condition, baseline).

    Each with each other, the later level first; or each with those that have the level `baseline`
    of the first factor. Raises UsageError if no condition has that level.
    """
    name = (obs.asked or obs.by)[0]
    candidates = [(a, b) for b, a in combinations(obs.names, 2)]
    if baseline is not None:
        base = obs.matching({name: baseline})
        if not base:
            levels = ", ".join(map(str, obs.levels_of(name)))
            raise UsageError(
                f"no condition of {obs.metric} has {name} {baseline!r}, the baseline; levels: "
                f"{levels}"
            )
        candidates = [(a, b) for a, b in product(obs.names, base) if a not in base]
    return [(a, b) for a, b in candidates if obs.same(a, b, *obs.asked, name)]


def _questions(obs: Observations, baseline: Any, margin: float | None) -> list[Question]:
    """Return the questions on the levels of the factors that were asked for."""
    margin = margin or MARGIN
    names = obs.asked or obs.by
    if baseline is None and names:
        baseline = usual_level(obs, names[0])
    compared = names[0] if len(names) == 1 else ""
    questions = []
    for a, b in pairs(obs, baseline):
        q = Question(obs=obs, a=a, b=b, margin=margin, factor=compared, declared=False)
        questions.append(q)
    if not questions:
        raise UsageError(
            f"nothing to compare: no two conditions of {obs.metric} differ in "
            f"{', '.join(names)} alone"
        )
    return questions


def _compare_observed(
    obs: Observations,
    by: Names | None,
    baseline: Any,
    margin: float | None,
) -> Family:
    """Judge the levels of what was observed; nobody knows what was declared of it."""
    observe(obs, None, by or ())  # another factor is an error
    if not obs.by:
        raise UsageError(f"nothing to compare: {obs.metric} has one condition")
    questions = _questions(obs, baseline, margin)
    source = Measurement(obs.runs, (), origin=obs.origin)
    return replace(judge_questions(questions, source), warnings=obs.notes)


def _compare_levels(
    source: Measurement,
    metric: str | None,
    by: Names,
    baseline: Any,
    where: Levels,
    margin: float | None,
) -> Family:
    """Judge every level of some factors: as the report does where declared, else exploratory."""
    every = _observed_by(source, metric, by, where)
    asked: list[Question] = []
    notes: list[str] = []
    for obs in every:
        asked += _questions(obs, baseline, margin)
        notes += obs.notes
    family = judge_questions(asked, source)
    notes += family.warnings
    shown = dict[Any, Comparison]()
    for c in family:
        shown[c.metric, frozenset(c.question.conditions)] = c
    declared = {_conditions(obs, c) for obs in every for c in source.contrasts}
    if declared & shown.keys():
        report = judge_declared(source, metric, where, margin)
        for obs, c in product(every, report):
            key = _conditions(obs, c.question.contrast)
            if key in shown:
                shown[key] = c
        family = replace(family, declared=report.declared)
        notes = [*report.warnings, *notes]
    comparisons = tuple(shown.values())
    return replace(family, comparisons=comparisons, warnings=tuple(dict.fromkeys(notes)))


def _conditions(
    obs: Observations, c: Contrast | None
) -> tuple[str, frozenset[str]] | None:
    """Return the metric and the two conditions of a contrast; None if not both were observed."""
    if c is None or c.b is None or c.metric != obs.metric:
        return None
    names = frozenset((obs.condition(c.a), obs.condition(c.b)))
    return None if "" in names else (obs.metric, names)


def _observed_by(
    source: Measurement,
    metric: str | None,
    by: Names,
    where: Levels,
) -> list[Observations]:
    """Return the observations of a metric, or of each headline metric, by some factors."""
    if metric is not None:
        return [observe(source, metric, by, where=where)]
    source.check_factors(as_tuple(by))
    found = []
    problem: NothingToReport | None = None
    for obs in of_main_tools(source):
        try:
            found.append(observe(source, obs.metric, by, where=where or obs.where))
        except NothingToReport as error:
            problem = problem or error
    if not found:
        raise problem or NothingToReport("no complete run has a headline metric")
    return found


def asked_about(
    obs: Observations, contrasts: Iterable[Contrast], where: Levels
) -> list[Contrast]:
    """Return the contrasts about the metric and the factors asked for, between observed conditions.

    With `where` only those whose sides name these levels: a part of a condition is not what was
    declared.
    """
    wanted = {*where} - {*obs.asked}
    found = []
    for c in contrasts:
        sides = sides_of(c)
        differ = differing(sides)
        asked = factor_of(c) in obs.asked or (differ and differ <= OF_ENDS | {*obs.asked})
        whole = all(wanted <= side.keys() and obs.matching(side) for side in sides)
        if c.metric == obs.metric and (asked or not obs.asked) and whole:
            found.append(c)
    return found


# -- two measurements ------------------------------------------------------------------------------


def _two_sides(
    data: Any,
    after: Any,
    pattern: str | None,
    where: Levels | None,
    where_after: Levels | None,
) -> dict[str, Measurement]:
    """Return the runs before and after, by name, with the levels that are asked for."""
    sides = data
    if after is not None:
        one, two = read(data, pattern=pattern), read(after, pattern=pattern)
        sides = {one.name: one, two.name: two}
        if one.name == two.name:
            sides = {f"{one.name} (before)": one, f"{two.name} (after)": two}
    if len(sides) != 2:
        raise UsageError(f"got {len(sides)}: for two write compare(before, after)")
    levels = where, where if where_after is None else where_after
    found = {}
    for (name, side), wanted in zip(sides.items(), levels, strict=True):
        runs = measurement(side).only(wanted)
        if runs.runs.empty:
            raise UsageError(f"{name}: there are no runs to compare")
        found[str(name)] = runs
    return found


def between(
    sides: Mapping[str, Measurement],
    metric: str | None = None,
    by: Sequence[str] = (),
    margin: float | None = None,
) -> Family:
    """Compare two measurements, condition by condition: a question by the factor `MEASUREMENT`.

    `compare` has the parameters. Raises UsageError if there is no such metric or factor.
    """
    (before, one), (after, two) = sides.items()
    notes = [f"{after} against {before}: {_TIME}"]
    again = _shared(one.runs, two.runs)
    if again.all() and len(one.runs) == len(two.runs):
        notes = [f"{after} against {before}: both sides are the same runs"]
    elif again.all():
        raise UsageError(f"every run of {after} is one of {before}: nothing to compare")
    elif again.any():
        two = replace(two, runs=two.runs[~again].reset_index(drop=True))
        runs = plural(int(again.sum()), "run")
        notes.append(f"{runs} of {after} are those of {before}, and count once")
    one.check_factors(by)
    two.check_factors(by)
    if metric is not None:
        metric_of(metric)  # an unknown one is an error with the nearest names
    both = together({before: one, after: two})
    metrics = one.measured(two.measured([metric] if metric else COMPARED))
    if "throughput_bps" in metrics and metric is None:
        # what was sent says less than what arrived
        metrics = [name for name in metrics if name != "throughput_sent_bps"]
    if not metrics:
        raise NothingToReport(f"{before} and {after} have no metric in common")
    share = margin or MARGIN
    questions: list[Question] = []
    alone: list[str] = []
    for name in metrics:
        obs = observe(both, name, [MEASUREMENT, *varying(both.runs, by)])
        obs = replace(obs, asked=(MEASUREMENT,))
        compared = pairs(obs, before)
        for a, b in compared:
            q = Question(obs=obs, a=a, b=b, margin=share, factor=MEASUREMENT)
            questions.append(q)
        alone += _only_one(obs, compared)
    notes.append(_CHANGE)
    if not by:
        notes += _changes(both)
    family = judge_questions(questions, both)
    return replace(
        family,
        experiment=f"{after} against {before}",
        warnings=(*notes, *dict.fromkeys(alone), *family.warnings),
    )


def _only_one(obs: Observations, compared: Sequence[tuple[str, str]]) -> list[str]:
    """Return the conditions that only one of two measurements has, in words."""
    words = obs.called([name for name in obs.by if name != MEASUREMENT])
    alone = {*obs.names}.difference(*compared)
    return [f"only in {obs.at(c, MEASUREMENT)}: {words[c]}" for c in words if c in alone]


def _changes(both: Measurement) -> list[str]:
    """Say which factors have no level in common on the two sides: these were changed."""
    notes = []
    sides = both.runs.groupby(MEASUREMENT, sort=False)
    for name in both.factors:
        if factor(name).role != "condition" or name in (MEASUREMENT, *HOSTS):
            continue
        before, after = (set(map(plain, levels)) for levels in sides[name].unique())
        if not before & after:
            word = factor(name).level_words
            first, second = (", ".join(sorted(map(word, s))) for s in (before, after))
            notes.append(f"changed: {name}: {first} before, {second} after")
    return notes


def _shared(one: pd.DataFrame, two: pd.DataFrame) -> pd.Series[bool]:
    """Return which runs of the second side are among the first: by what they hold, not by name."""
    names = ("experiment", "run_id", "started_utc", *COMPARED)
    both = [name for name in names if name in one and name in two]
    number = pd.concat([one[both], two[both]], ignore_index=True)
    rows = pd.Series(numbered(number, both))
    again = rows[len(one) :].isin(rows[: len(one)]).set_axis(two.index)
    return again & two["run_id"].notna()


def compared_table(family: Family) -> pd.DataFrame:
    """Return the comparisons of two measurements in words: both medians, the change, the verdict.

    Examples
    --------
    >>> change = npl.compare("data/recorded/before", "data/recorded/after")
    >>> npl.analysis.compared_table(change).columns.to_list()[1:3]
    ['before', 'after']
    """
    rows = []
    for c in family:
        after, before = c.names
        two, one = (format_value(value, unit_of(c.metric)) for value in c.medians)
        change, interval = effect(c.ratio), span(c.ratio, c.low, c.high)
        if interval != DASH:
            change = f"{change} ({interval})"
        row = {"condition": c.context or c.label, "metric": c.quantity}
        row |= {before: one, after: two, "change": change, "verdict": str(c.verdict)}
        rows.append(row)
    return pd.DataFrame(rows).set_index("condition").rename_axis(None)
