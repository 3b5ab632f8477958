"""Comparisons of conditions: the contrasts of an experiment, the levels of a factor, or two measurements."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from ..data.imports import are_logs
from ..data.load import Results
from ..errors import UsageError
from ..experiment.factors import FACTORS, dimensions, factor, plain
from ..experiment.model import Contrast
from ..metrics import ALPHA, MARGIN, METRICS
from ..stats import Family
from ..stats.verdict import compare as compare_runs
from .before_after import BeforeAfter, before_after
from .judging import Pair, judge_pairs, side_words
from .observe import Data, Observations, nearest, observe
from .runs import read_data, table_of
from .words import contrasts

if TYPE_CHECKING:
    import pandas as pd

_ENDS = tuple({f"client{what}", f"server{what}"} for what in ("", "_zone", "_region", "_vm_size"))


def pairs(obs: Observations, baseline: Any = None) -> list[tuple[str, str]]:
    """Conditions that differ in the factors asked for and in nothing else, as (condition, baseline).

    Each with each other, the later level first; or each with those that have the level `baseline` of the first factor.
    Raises UsageError if no condition has that level.
    """
    conditions = obs.conditions
    name = obs.asked[0] if obs.asked else obs.by[0]
    wanted = factor(name).cast(baseline)
    if baseline is not None and wanted not in set(conditions[name]):
        levels = ", ".join(map(str, dict.fromkeys(conditions[name])))
        raise UsageError(f"no condition of {obs.metric} has {name} {baseline!r}, the baseline; levels: {levels}")
    asked = {*obs.asked, name}
    asked |= {f for ends in _ENDS if ends & asked for f in ends}  # the two ends of a pair are one factor
    rest = [f for f in obs.by if f not in asked]
    # of a label null means that there is none
    labels = [f for f in rest if factor(f).null == "none" and (f == "gateway_sku" or f not in FACTORS)]

    def alike(a: str, b: str) -> bool:
        one, two = (conditions.loc[c] for c in (a, b))
        return all(one[f] == two[f] or (f in labels and two[f] is None) for f in rest)

    if baseline is None:
        candidates = [(a, b) for b, a in combinations(conditions.index, 2)]
    else:
        base = [c for c in conditions.index if conditions.loc[c, name] == wanted]
        candidates = [(a, b) for a in conditions.index if a not in base for b in base]
    return [(a, b) for a, b in candidates if alike(a, b)]


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
    margin: float | None = None,
    alpha: float | None = None,
    **options: Any,
) -> Family | BeforeAfter:
    """Compare the conditions of one experiment, or two experiments condition by condition.

    Parameters
    ----------
    data : Results, Observations, DataFrame or path
        An experiment, as `netperf_lib.read` gives it, its table of runs, or its folder; or raw logs: a file, a folder
        or a pattern such as ``"before/*.txt"``.
    after : Results, DataFrame or path, optional
        A second one: the two are then compared, with `data` as the side before. A metric's name here means `metric`.
    metric : str, optional
        Only this metric; needed with `by`.
    by : str or sequence of str, optional
        The factors whose levels are compared; default: what the experiment declares. Conditions that differ in
        anything else are not compared with each other. What was not declared is exploratory.
    baseline : optional
        Level of the first factor of `by` that the others are compared with; default: each with each other.
    where, where_after : dict, optional
        Only runs with these levels; `where_after` is for the side after, by default the same as `where`.
    pool : str or sequence of str
        Factors that do not split conditions; see `observe`.
    pattern : str, optional
        Pattern of the paths of raw logs, for example ``"{placement}/r{round}.txt"``; see `netperf_lib.import_logs`.
    margin, alpha : float, optional
        Ratios within 1/(1 + margin) … 1 + margin are equivalent; the share of answers that may hold a false verdict.
        Default: as declared, else 0.05.
    **options
        Further parameters of `netperf_lib.stats.compare`, for the declared contrasts of one experiment.

    Returns
    -------
    Family or BeforeAfter
        The comparisons of one experiment, or a row for each condition of two.

    Raises
    ------
    UsageError
        There is nothing to compare, or a factor, level, metric or folder is not known.

    Examples
    --------
    >>> import netperf_lib as npl
    >>> found = npl.compare("data/recorded/lab-full", metric="throughput_bps", by="placement")
    >>> {str(c.verdict) for c in found} <= {"better", "worse", "equivalent", "inconclusive", "exploratory"}
    True
    """
    if isinstance(after, str) and metric is None and after in METRICS:
        metric, after = after, None
    if after is not None:
        others = where if where_after is None else where_after
        names = (_name(data, where), _name(after, others))
        return before_after(
            runs_of(data, where, pattern),
            runs_of(_existing(after), others, pattern),
            names=names if names[0] != names[1] else (f"{names[0]} (before)", f"{names[1]} (after)"),
            metrics=None if metric is None else [metric],
            by=[by] if isinstance(by, str) else by,
            margin=MARGIN if margin is None else margin,
            alpha=ALPHA if alpha is None else alpha,
        )
    results = read_data(data, pattern)
    if by is not None or isinstance(results, Observations):
        return _by(results, metric, by or (), baseline, where or {}, pool, margin, alpha)
    runs = table_of(results)
    options |= {"where": dict(where or {}), "margin": margin, "alpha": alpha}
    if isinstance(results, Results) and options.get("contrasts") is None:
        added = [{**c.model_dump(), "declared": False} for c in results.added if metric in (None, c.metric)]
        if added:  # the others were declared before the data, and alone get a verdict
            options["contrasts"] = [*(c for c in results.contrasts if metric in (None, c.metric)), *added]
    return compare_runs(runs, metric, **options)


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
    obs = observe(results, metric or "", by, where=where, pool=pool)
    chosen = [Pair(obs, a, b, MARGIN if margin is None else margin) for a, b in pairs(obs, baseline)]
    if not chosen:
        names = ", ".join(obs.asked or obs.by)
        raise UsageError(f"nothing to compare: no two conditions of {obs.metric} differ in {names} alone")
    runs = None if isinstance(results, Observations) else runs_of(results)
    known = {} if runs is None else _declared(obs, runs, where, margin)
    family = judge_pairs(chosen, ALPHA if alpha is None else alpha, declared=False)
    found = {key: c for key in {(p.a, p.b) for p in chosen} if (c := known.get(key)) is not None}
    if found:
        assert runs is not None
        judged = compare_runs(runs, contrasts=list(found.values()), alpha=alpha)
        verdicts = dict(zip(found, judged, strict=True))
        every = [
            replace(verdicts[p.a, p.b], **side_words(p)) if (p.a, p.b) in verdicts else c
            for p, c in zip(chosen, family, strict=True)
        ]
        family = replace(judged, comparisons=tuple(every), warnings=(*judged.warnings, *family.warnings))
    notes = tuple(obs.notes)
    notice = None if runs is None else runs.attrs.get("notice")
    return replace(family, warnings=(*family.warnings, *notes), notice=notice)


def _declared(
    obs: Observations, runs: pd.DataFrame, where: Mapping[str, Any], margin: float | None
) -> dict[tuple[str, str], Contrast]:
    """The declared contrasts by the conditions that they compare, in both directions."""
    if any(name not in obs.facts or not factor(name).always_splits for name in where):
        return {}  # a part of a condition is not what was declared
    found: dict[tuple[str, str], Contrast] = {}
    for c in contrasts(runs, metric=obs.metric):
        if c.b is None or (margin is not None and margin != c.margin):
            continue
        sides = [find(obs, side) for side in (c.a, c.b)]
        if sides[0] is not None and sides[1] is not None:
            a, b = sides[0], sides[1]
            found[a, b] = c
            found[b, a] = c.model_copy(update={"a": c.b, "b": c.a})
    return found


def matching(obs: Observations, side: Mapping[str, Any]) -> list[str]:
    """The conditions that a side of a contrast names."""

    def level(condition: str, name: str) -> Any:
        table = obs.conditions if name in obs.by else obs.facts
        return plain(table.loc[condition, name]) if name in table else None

    return [c for c in obs.conditions.index if all(level(c, f) == factor(f).cast(v) for f, v in side.items())]


def find(obs: Observations, side: Mapping[str, Any]) -> str | None:
    """The one condition that a side of a contrast names; None if there are several or none."""
    names = matching(obs, side)
    return names[0] if len(names) == 1 else None


def _existing(data: Data) -> Data:
    """The same; raise UsageError if it is a name of nothing."""
    if isinstance(data, str) and not (are_logs(data) or "/" in data or os.path.exists(data)):  # noqa: PTH110
        known = [*METRICS, *(p.name for p in os.scandir() if p.is_dir() and not p.name.startswith("."))]
        near = f"; {words}" if "did you mean" in (words := nearest(data, known)) else ""
        raise UsageError(f"{data!r} is neither a folder nor a metric{near}")
    return data


def runs_of(data: Data, where: Mapping[str, Any] | None = None, pattern: str | None = None) -> pd.DataFrame:
    """The runs of what `compare` takes, those with the levels `where`; raises UsageError for an unknown factor."""
    found = read_data(data, pattern)
    runs = table_of(found)
    for name, wish in (where or {}).items():
        if name not in runs.columns:
            raise UsageError(f"the runs have no factor {name!r}; {nearest(name, dimensions(runs.columns))}")
        runs = runs[[_same(plain(v), wish) for v in runs[name]]]
    return runs


def _same(level: Any, wanted: Any) -> bool:
    return level == wanted or str(level).lower() == str(wanted).lower()


def _name(data: Data, where: Mapping[str, Any] | None) -> str:
    if isinstance(data, str | os.PathLike):
        name = os.fspath(data).rstrip("/").rpartition("/")[2]
    else:
        name = data.name if isinstance(data, Results) else "runs"
    slice_ = ", ".join(f"{k}={v}" for k, v in (where or {}).items())
    return f"{name} ({slice_})" if slice_ else name
