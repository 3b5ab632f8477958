"""Contrasts before the data.

Expand `compare:`, read thresholds, refuse contrasts that no run could answer.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from itertools import product
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

_LENGTHS = {"duration_s", "omit_s"}
_HOSTS = {"client", "server"}
_SHARE = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*%(?:\s*of\s+(.+?))?\s*")
"""A threshold in per cent, and of what."""
_SPLIT = tuple(
    "placement accelerated tool test streams tcp_buffer_bytes message_bytes during".split()
)
"""Factors that a side of a contrast names where they vary: it names one condition."""
_MEASURED = {"protocol", "direction"} | {
    n for n, f in FACTORS.items() if f.role != "condition"
} - {"advertised_bps"}
"""Factors whose levels are known only once the hosts are placed or the log is read."""


def gives(trial: Trial, metric: str) -> bool:
    """Return whether a run of this trial can have a value of a metric."""
    latency, tool = is_latency(trial.test.test), trial.test.tool
    loaded = trial.test.during is not None
    if metric.startswith(("latency_oneway_loaded", "rtt_loaded")):
        return loaded or not latency
    if metric.startswith(("latency_oneway", "rtt")):
        round_trips = bool(trial.options.get("full_rtt"))
        single = tool != "qperf" or metric in HEADLINES
        return latency and single and round_trips == metric.startswith("rtt")
    if metric.startswith(("throughput", "transferred", "sent_", "retransmits", "cwnd")):
        at_receiver = tool != "sockperf" or metric in (
            "throughput_sent_bps",
            "sent_bytes",
        )
        return loaded or (not latency and at_receiver)
    return True


class _Wrong(Exception):  # noqa: N818  where, and what is wrong there
    def __init__(self, message: str, *loc: str | int) -> None:
        self.loc, self.message = loc, message


def expand_compare(experiment: Experiment) -> tuple[Experiment, list[tuple[Loc, str]]]:
    """Expand `compare`, resolve thresholds, and look for contrasts that no run could answer.

    Also return the errors, each with its location.
    """
    rows = [(trial, trial_levels(trial)) for trial in conditions(experiment)]
    wrong: list[tuple[Loc, str]] = []
    contrasts: list[Contrast] = []
    for number, contrast in enumerate(experiment.contrasts):
        try:
            contrasts.append(_with_threshold(contrast))
            if rows:
                _check(contrast, rows)
        except _Wrong as error:
            wrong.append((("contrasts", number, *error.loc), error.message))
    for number, compare in enumerate(experiment.compare):
        try:
            contrasts += [c for c in _family(compare, rows) if c not in contrasts]
        except _Wrong as error:
            wrong.append((("compare", number, *error.loc), error.message))
    done = experiment.model_copy(update={"contrasts": tuple(contrasts), "compare": ()})
    done.__pydantic_fields_set__.discard("compare")
    return done, wrong


# -- compare: a family in one line ---------------------------------------------------------------


def _family(compare: Compare, rows: _Rows) -> list[Contrast]:
    """Return the contrasts of a family: for each metric, every level against the baseline."""
    name = compare.factor
    _check_levels(rows, compare.where, "where")
    if not any(name in row for _, row in rows):
        raise _Wrong(_unknown(name, rows), "factor")
    chosen = [(t, r) for t, r in rows if _matches(r, compare.where)]
    measured = [m for m in HEADLINES if any(gives(t, m) for t, _ in chosen)]
    varying = [
        m for m in measured if len({r.get(name) for t, r in chosen if gives(t, m)}) > 1
    ]
    contrasts: list[Contrast] = []
    for number, metric in enumerate(compare.metrics or varying or measured):
        measuring = _measuring(chosen, metric, "metrics", number)
        contrasts += _against(compare, metric, measuring)
    return contrasts


def _against(compare: Compare, metric: str, rows: Sequence[_Row]) -> list[Contrast]:
    """Return the contrasts of a family for one metric: every level against the baseline."""
    name, cast = compare.factor, factor(compare.factor).cast
    levels = sort_levels(name, (r.get(name) for r in rows))
    if len(levels) < 2:
        raise _Wrong(f"{name} has one level where {metric} is measured", "factor")
    named = "baseline" in compare.model_fields_set
    baseline = cast(compare.baseline) if named else levels[0]
    chosen = list(map(cast, compare.levels or levels))
    for key, level in (("baseline", baseline), *(("levels", level) for level in chosen)):
        if level not in levels:
            raise _Wrong(_not_measured(level, levels), key)
    # properties of the pairs vary with the placement, and hosts with everything else
    columns = dimensions(dict.fromkeys(f for r in rows for f in r))
    ignored = {name, *_LENGTHS, *({"placement"} if name in _HOSTS else _HOSTS)}
    if name == "placement":
        ignored |= {"gateway_sku", *(f for f in columns if f not in FACTORS)}
    varying = [
        f for f in columns if f not in ignored and len({r.get(f) for r in rows}) > 1
    ]
    strata: dict[tuple[Level, ...], set[Level]] = {}
    for row in rows:
        strata.setdefault(tuple(row.get(f) for f in varying), set()).add(row.get(name))
    contrasts = []
    for level, (stratum, there) in product(chosen, strata.items()):
        if level != baseline and {level, baseline} <= there:
            held = {**compare.where, **dict(zip(varying, stratum, strict=True))}
            a, b = {**held, name: level}, {**held, name: baseline}
            contrasts.append(Contrast(metric=metric, a=a, b=b, margin=compare.margin))
    if not contrasts:
        words = (
            f"no two conditions differ in {name} alone ({', '.join(varying)} also differ)"
        )
        raise _Wrong(words, "factor")
    return contrasts


# -- thresholds ----------------------------------------------------------------------------------


def _with_threshold(contrast: Contrast) -> Contrast:
    """Check a threshold; one in per cent is split into the share and what it is of."""
    if contrast.b is not None or contrast.metric not in METRICS:
        return contrast
    key = "below" if contrast.below is not None else "at_least"
    try:
        threshold(contrast)
    except StatsError as error:
        raise _Wrong(str(error), key) from None
    share = _SHARE.fullmatch(str(getattr(contrast, key)))
    if share is None or share[2] is None:
        return contrast
    return contrast.model_copy(update={key: f"{share[1]} %", "of": share[2]})


def threshold(contrast: Contrast) -> float:
    """Return the threshold of a contrast in the unit of its metric, or raise StatsError."""
    text = str(contrast.at_least if contrast.below is None else contrast.below)
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


# -- contrasts no run answers --------------------------------------------------------------------


def _check(contrast: Contrast, rows: _Rows) -> None:
    """Raise the error of a contrast that no run of the experiment could answer."""
    measuring = _measuring(rows, contrast.metric, "metric")
    sides: list[list[_Row]] = []
    for side, levels in (("a", contrast.a), ("b", contrast.b)):
        if levels is None:
            return
        _check_levels(rows, levels, side)
        found = [r for r in measuring if _matches(r, levels)]
        several = [f for f in _SPLIT if len({r.get(f) for r in found}) > 1]
        if not found:
            words = (
                f"no run that measures {contrast.metric} has all of these levels together"
            )
            raise _Wrong(words, side)
        if several:
            raise _Wrong(
                f"names several conditions; name also {', '.join(several)}", side
            )
        sides.append(found)
    # what is known only later may distinguish the sides
    known = all(contrast.a.get(f) == (contrast.b or {}).get(f) for f in _MEASURED)
    if known and sides[0] == sides[1]:
        raise _Wrong("is the same as a: both sides have the same runs", "b")


def _measuring(rows: _Rows, metric: str, *loc: str | int) -> list[_Row]:
    """Return the levels of the trials that give a metric."""
    if metric not in METRICS:
        raise _Wrong(unknown_metric(metric), *loc)
    measuring = [r for t, r in rows if gives(t, metric)]
    if not measuring:
        measured = [m for m in HEADLINES if any(gives(t, m) for t, _ in rows)]
        words = f"no test here measures {metric}; measured are {', '.join(measured)}"
        raise _Wrong(words, *loc)
    return measuring


def _matches(row: _Row, levels: _Row) -> bool:
    return all(
        row.get(f) == v for f, v in levels.items() if f in row or f not in _MEASURED
    )


def _check_levels(rows: _Rows, levels: _Row, *loc: str) -> None:
    """Raise the error of a name that is no factor, or of a level that is not measured."""
    for name, level in levels.items():
        if any(name in row for _, row in rows):
            measured = sort_levels(name, (r.get(name) for _, r in rows))
            if level not in measured:
                raise _Wrong(_not_measured(level, measured), *loc, name)
        elif name not in _MEASURED and not name.startswith(("client_", "server_")):
            raise _Wrong(_unknown(name, rows), *loc, name)


def _not_measured(level: Level, measured: Sequence[Level]) -> str:
    there = [json.dumps(v) if v is None else str(v) for v in measured]
    return f"{level} is not measured; {did_you_mean(level, there)}measured are {', '.join(there)}"


def _unknown(name: str, rows: _Rows) -> str:
    known = dimensions(dict.fromkeys(f for _, r in rows for f in r))
    hint = did_you_mean(name, [*known, *FACTORS])
    return (
        f"is not a factor of this experiment; {hint}factors here are {', '.join(known)}"
    )
