"""Contrasts before the data: expand `compare:`, read thresholds."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ..errors import StatsError, UsageError, did_you_mean
from ..metrics import HEADLINES, METRICS, metric, unknown_metric
from ..quantities import read_quantity
from .factors import FACTORS, Level, dimensions, factor, is_latency, sort_levels
from .model import Compare, Contrast, Experiment, Trial
from .schedule import conditions, trial_levels

Loc: TypeAlias = tuple[str | int, ...]
_Row: TypeAlias = Mapping[str, Level]
"""The levels of a condition."""

_HOSTS = {"client", "server"}
_SHARE = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*%(?:\s*of\s+(.+?))?\s*")
"""A threshold in per cent, and of what."""


def expand_compare(experiment: Experiment) -> tuple[Experiment, list[tuple[Loc, str]]]:
    """Expand `compare`, and check thresholds; also return the errors with their locations."""
    trials = list(conditions(experiment))
    wrong: list[tuple[Loc, str]] = []
    contrasts = list(experiment.contrasts)
    for number, contrast in enumerate(experiment.contrasts):
        if trials and contrast.metric not in METRICS:
            loc: Loc = ("contrasts", number, "metric")
            wrong.append((loc, unknown_metric(contrast.metric)))
        elif contrast.b is None:
            try:
                threshold(contrast)
            except StatsError as error:
                key = "at_least" if contrast.below is None else "below"
                wrong.append((("contrasts", number, key), str(error)))
    for number, compare in enumerate(experiment.compare):
        try:
            family = _family(compare, trials)
        except UsageError as error:
            wrong.append((("compare", number), str(error)))
        else:
            contrasts += [c for c in family if c not in contrasts]
    done = experiment.model_copy(update={"contrasts": tuple(contrasts), "compare": ()})
    done.__pydantic_fields_set__.discard("compare")
    return done, wrong


# -- compare: a family in one line ---------------------------------------------------------------


def _family(compare: Compare, trials: Sequence[Trial]) -> list[Contrast]:
    """Return the contrasts of a family: for each metric, every level against the baseline.

    UsageError if there is none.
    """
    contrasts: list[Contrast] = []
    for name in compare.metrics or HEADLINES:
        metric(name)
        rows = []
        for trial in trials:
            row = trial_levels(trial)
            if _gives(trial, name) and compare.where.items() <= row.items():
                rows.append(row)
        contrasts += _against(compare, name, rows)
    if not contrasts:
        raise StatsError(_nothing(compare.factor, trials))
    return contrasts


def _gives(trial: Trial, metric: str) -> bool:
    """Return whether a run of this trial can have a value of a metric."""
    if metric not in HEADLINES:
        return True
    if not is_latency(trial.test.test):
        return metric == "throughput_bps" and trial.test.tool != "sockperf"
    if metric == "throughput_bps":
        return trial.test.during is not None
    is_round_trip = bool(trial.options.get("full_rtt"))
    return is_round_trip == (metric == "rtt_us")


def _against(compare: Compare, metric: str, rows: Sequence[_Row]) -> list[Contrast]:
    """Return the contrasts of a family for one metric: every level against the baseline."""
    name = compare.factor
    known = factor(name)
    levels = sort_levels(name, (row.get(name) for row in rows))
    if len(levels) < 2:
        return []
    baseline = levels[0]
    if "baseline" in compare.model_fields_set:
        baseline = known.cast(compare.baseline)
    chosen = list(map(known.cast, compare.levels or levels))
    for level in (baseline, *chosen):
        if level not in levels:
            written = list(map(known.written, levels))
            hint = did_you_mean(level, written)
            raise StatsError(
                f"{name} is never {level}; {hint}it is {', '.join(written)} where {metric} is "
                "measured"
            )
    others = _others(name, rows)
    strata: defaultdict[tuple[Level, ...], set[Level]] = defaultdict(set)
    for row in rows:
        strata[tuple(map(row.get, others))].add(row.get(name))
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
    columns = _factors(rows)
    # properties of the pairs vary with the placement, and hosts with everything else
    ignored = {name, "duration_s", "omit_s"}
    if name in _HOSTS:
        ignored.add("placement")
    else:
        ignored |= _HOSTS
    if name == "placement":
        ignored |= {"gateway_sku", *(set(columns) - FACTORS.keys())}
    others = []
    for column in columns:
        levels = {row.get(column) for row in rows}
        if column not in ignored and len(levels) > 1:
            others.append(column)
    return others


def _factors(rows: Sequence[_Row]) -> list[str]:
    return dimensions(name for row in rows for name in row)


def _nothing(name: str, trials: Sequence[Trial]) -> str:
    """Say why a family has no contrast."""
    known = _factors(list(map(trial_levels, trials)))
    if name not in known:
        hint = did_you_mean(name, [*known, *FACTORS])
        return f"{name} is no factor here; {hint}factors here are {', '.join(known)}"
    return f"no two conditions differ in {name} alone"


# -- thresholds ----------------------------------------------------------------------------------


def threshold(contrast: Contrast) -> float:
    """Return the threshold of a contrast in the unit of its metric, or raise StatsError."""
    text = str(contrast.at_least if contrast.below is None else contrast.below)
    unit = METRICS[contrast.metric].unit if contrast.metric in METRICS else ""
    share = _SHARE.fullmatch(text)
    base = share and (share[2] or contrast.of)
    try:
        if share and base:
            value = read_quantity(base, unit) * float(share[1]) / 100
        elif share and unit != "ratio":
            raise ValueError(
                f"{text!r} does not say of what; write for example '90 % of 10 Gbit/s'"
            )
        else:
            value = read_quantity(text, unit)
    except ValueError as error:
        raise StatsError(str(error)) from None
    if not 0 < value < math.inf:
        raise StatsError(f"{text!r} is not a threshold above zero")
    return value
