"""Contrasts before the data: expand `compare:`, read thresholds."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ..errors import StatsError, did_you_mean
from ..metrics import HEADLINES, METRICS, unknown_metric
from ..quantities import read_quantity
from .factors import FACTORS, Level, dimensions, factor, is_latency, sort_levels
from .model import Compare, Contrast, Experiment, Trial
from .schedule import conditions, trial_levels

Loc: TypeAlias = tuple[str | int, ...]
_Row: TypeAlias = Mapping[str, Level]
"""The levels of a condition."""
_Rows: TypeAlias = Sequence[tuple[Trial, _Row]]

_HOSTS = {"client", "server"}
_SHARE = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*%(?:\s*of\s+(.+?))?\s*")
"""A threshold in per cent, and of what."""


def gives(trial: Trial, metric: str) -> bool:
    """Return whether a run of this trial can have a value of a headline metric."""
    if is_latency(trial.test.test):
        is_round_trip = bool(trial.options.get("full_rtt"))
        loaded = trial.test.during is not None and metric == "throughput_bps"
        wanted = "rtt_us" if is_round_trip else "latency_oneway_us"
        return loaded or metric == wanted
    return metric == "throughput_bps" and trial.test.tool != "sockperf"


def expand_compare(experiment: Experiment) -> tuple[Experiment, list[tuple[Loc, str]]]:
    """Expand `compare`, and resolve thresholds; also return the errors with their locations."""
    rows = [(trial, trial_levels(trial)) for trial in conditions(experiment)]
    wrong: list[tuple[Loc, str]] = []
    contrasts: list[Contrast] = []
    for number, contrast in enumerate(experiment.contrasts):
        key = _threshold_key(contrast)
        if rows and contrast.metric not in METRICS:
            wrong.append(
                (("contrasts", number, "metric"), unknown_metric(contrast.metric))
            )
            continue
        try:
            contrasts.append(_with_threshold(contrast))
        except StatsError as error:
            wrong.append((("contrasts", number, key), str(error)))
    for number, compare in enumerate(experiment.compare):
        try:
            family = _family(compare, rows)
        except StatsError as error:
            wrong.append((("compare", number), str(error)))
        else:
            contrasts += [c for c in family if c not in contrasts]
    done = experiment.model_copy(update={"contrasts": tuple(contrasts), "compare": ()})
    done.__pydantic_fields_set__.discard("compare")
    return done, wrong


# -- compare: a family in one line ---------------------------------------------------------------


def _family(compare: Compare, rows: _Rows) -> list[Contrast]:
    """Return the contrasts of a family: for each metric, every level against the baseline.

    StatsError if there is none.
    """
    name = compare.factor
    chosen = [(trial, row) for trial, row in rows if compare.where.items() <= row.items()]
    contrasts: list[Contrast] = []
    for metric in compare.metrics or HEADLINES:
        if metric not in METRICS:
            raise StatsError(unknown_metric(metric))
        # of another metric than the headlines any run may have a value
        measuring = [
            row
            for trial, row in chosen
            if metric not in HEADLINES or gives(trial, metric)
        ]
        contrasts += _against(compare, metric, measuring)
    if not contrasts:
        raise StatsError(_nothing(name, [row for _, row in rows]))
    return contrasts


def _against(compare: Compare, metric: str, rows: Sequence[_Row]) -> list[Contrast]:
    """Return the contrasts of a family for one metric: every level against the baseline."""
    name, cast = compare.factor, factor(compare.factor).cast
    levels = sort_levels(name, (row.get(name) for row in rows))
    if len(levels) < 2:
        return []
    named = "baseline" in compare.model_fields_set
    baseline = cast(compare.baseline) if named else levels[0]
    chosen = list(map(cast, compare.levels or levels))
    for level in (baseline, *chosen):
        if level not in levels:
            known = ["null" if known is None else str(known) for known in levels]
            hint = did_you_mean(level, known)
            raise StatsError(
                f"{name} is never {level}; {hint}it is {', '.join(known)} where {metric} is "
                "measured"
            )
    others = _others(name, rows)
    strata: defaultdict[tuple[Level, ...], set[Level]] = defaultdict(set)
    for row in rows:
        strata[tuple(row.get(other) for other in others)].add(row.get(name))
    contrasts = []
    for level in chosen:
        for stratum, present in strata.items():
            if level == baseline or not {level, baseline} <= present:
                continue
            shared = compare.where | dict(zip(others, stratum, strict=True))
            a, b = {**shared, name: level}, {**shared, name: baseline}
            contrasts.append(Contrast(metric=metric, a=a, b=b, margin=compare.margin))
    return contrasts


def _others(name: str, rows: Sequence[_Row]) -> list[str]:
    """Return the other factors that vary, whose levels both sides of a contrast share."""
    columns = dimensions(dict.fromkeys(column for row in rows for column in row))
    # properties of the pairs vary with the placement, and hosts with everything else
    ignored = {name, "duration_s", "omit_s"}
    ignored |= {"placement"} if name in _HOSTS else _HOSTS
    if name == "placement":
        ignored |= {"gateway_sku", *(set(columns) - FACTORS.keys())}
    levels = {column: {row.get(column) for row in rows} for column in columns}
    return [c for c in columns if c not in ignored and len(levels[c]) > 1]


def _nothing(name: str, rows: Sequence[_Row]) -> str:
    """Say why a family has no contrast."""
    known = dimensions(dict.fromkeys(column for row in rows for column in row))
    if name not in known:
        hint = did_you_mean(name, [*known, *FACTORS])
        return f"{name} is no factor here; {hint}factors here are {', '.join(known)}"
    return f"no two conditions differ in {name} alone"


# -- thresholds ----------------------------------------------------------------------------------


def _threshold_key(contrast: Contrast) -> str:
    return "below" if contrast.below is not None else "at_least"


def _with_threshold(contrast: Contrast) -> Contrast:
    """Check a threshold; one in per cent is split into the share and what it is of."""
    if contrast.b is not None or contrast.metric not in METRICS:
        return contrast
    threshold(contrast)
    key = _threshold_key(contrast)
    share = _SHARE.fullmatch(str(getattr(contrast, key)))
    if share is None or share[2] is None:
        return contrast
    return contrast.model_copy(update={key: f"{share[1]} %", "of": share[2]})


def threshold(contrast: Contrast) -> float:
    """Return the threshold of a contrast in the unit of its metric, or raise StatsError."""
    text = str(getattr(contrast, _threshold_key(contrast)))
    unit = METRICS[contrast.metric].unit if contrast.metric in METRICS else ""
    share = _SHARE.fullmatch(text)
    base = share and (share[2] or contrast.of)
    if share and not base and unit != "ratio":
        raise StatsError(
            f"{text!r} does not say of what; write for example '90 % of 10 Gbit/s'"
        )
    try:
        value = read_quantity(base or ("1" if share else text), unit)
        value *= float(share[1]) / 100 if share else 1
    except ValueError as error:
        raise StatsError(str(error)) from None
    if not 0 < value < math.inf:
        raise StatsError(f"{text!r} is not a threshold above zero")
    return value
