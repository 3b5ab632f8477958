"""Contrasts before the data.

Expand `compare:`, read thresholds, refuse contrasts that no run could answer.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import TypeAlias

from ..errors import StatsError, did_you_mean
from ..metrics import HEADLINES, METRICS, format_value, unknown_metric
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
    """Whether a run of this trial can have a value of a metric."""
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


# -- compare: a family in one line ---------------------------------------------------------------


class _Wrong(Exception):  # noqa: N818  where, and what is wrong there
    def __init__(self, message: str, *loc: str | int) -> None:
        self.loc, self.message = loc, message


def expand_compare(experiment: Experiment) -> tuple[Experiment, list[tuple[Loc, str]]]:
    """Expand `compare` and resolve thresholds.

    Also return the errors in them, each with its location.
    """
    rows = _rows(experiment)
    wrong: list[tuple[Loc, str]] = []
    contrasts = list(experiment.contrasts)
    for number, compare in enumerate(experiment.compare):
        try:
            contrasts += [c for c in _family(compare, rows) if c not in contrasts]
        except _Wrong as error:
            wrong.append((("compare", number, *error.loc), error.message))
    for number, contrast in enumerate(contrasts):
        key = "below" if contrast.below is not None else "at_least"
        try:
            contrasts[number] = _with_bandwidth(contrast, key, rows)
        except ValueError as error:
            wrong.append((("contrasts", number, key), str(error)))
    done = experiment.model_copy(update={"contrasts": tuple(contrasts), "compare": ()})
    done.__pydantic_fields_set__.discard("compare")
    return done, wrong


def _rows(experiment: Experiment) -> _Rows:
    return [(trial, trial_levels(trial)) for trial in conditions(experiment)]


def _measured(rows: _Rows) -> list[str]:
    return [m for m in HEADLINES if any(gives(t, m) for t, _ in rows)]


def _family(compare: Compare, rows: _Rows) -> list[Contrast]:
    """Return the contrasts of a family: for each metric, every level against the baseline."""
    name, every = compare.factor, [r for _, r in rows]
    for loc, message in _side(every, compare.where):
        raise _Wrong(message, "where", *loc)
    if not any(name in row for row in every):
        raise _Wrong(_unknown(name, every), "factor")
    chosen = [(t, r) for t, r in rows if _matches(r, compare.where)]
    measured = _measured(chosen)
    varying = [
        m for m in measured if len({r.get(name) for t, r in chosen if gives(t, m)}) > 1
    ]
    contrasts: list[Contrast] = []
    for number, metric in enumerate(compare.metrics or varying or measured):
        if metric not in METRICS:
            raise _Wrong(unknown_metric(metric), "metrics", number)
        measuring = [r for t, r in chosen if gives(t, metric)]
        if not measuring:
            raise _Wrong(f"no test here measures {metric}", "metrics", number)
        contrasts += _against(compare, metric, measuring)
    return contrasts


def _against(compare: Compare, metric: str, rows: Sequence[_Row]) -> list[Contrast]:
    """Return the contrasts of a family for one metric: every level against the baseline."""
    name, cast = compare.factor, factor(compare.factor).cast
    levels = sort_levels(name, (r.get(name) for r in rows))
    if len(levels) < 2:
        words = f"{name} has one level where {metric} is measured: {_as_yaml(levels[0])}"
        raise _Wrong(words, "factor")
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


def _with_bandwidth(contrast: Contrast, key: str, rows: _Rows) -> Contrast:
    """Write a threshold in per cent of the bandwidth with the bandwidth as a number."""
    if contrast.b is not None or contrast.metric not in METRICS:
        return contrast
    share = _SHARE.fullmatch(str(getattr(contrast, key)))
    base = share and (share[2] or contrast.of)
    if base == "bandwidth":
        measuring = [
            t for t, r in rows if gives(t, contrast.metric) and _matches(r, contrast.a)
        ]
        speeds = {t.advertised_bps for t in measuring}
        speed = next(iter(speeds), None)
        if len(speeds) != 1 or speed is None:
            raise ValueError(
                "not one bandwidth_mbps is declared for these runs; write for example "
                "'90 % of 10 Gbit/s'"
            )
        base = format_value(speed, "bps", 6)
    if share and base:
        contrast = contrast.model_copy(update={key: f"{share[1]} %", "of": base})
    _threshold(contrast)
    return contrast


def _threshold(contrast: Contrast) -> float:
    text = str(contrast.at_least if contrast.below is None else contrast.below)
    unit = METRICS[contrast.metric].unit if contrast.metric in METRICS else ""
    share = _SHARE.fullmatch(text)
    base = share and (share[2] or contrast.of)
    if share and not base and unit != "ratio":
        raise ValueError(
            f"{text!r} does not say of what; write for example '90 % of 10 Gbit/s'"
        )
    value = read_quantity(base or ("1" if share else text), unit)
    value *= float(share[1]) / 100 if share else 1
    if not 0 < value < math.inf:
        raise ValueError(f"{text!r} is not a threshold above zero")
    return value


def threshold(contrast: Contrast) -> float:
    """The threshold of a contrast, in the unit of its metric; raise StatsError if it is none."""
    try:
        return _threshold(contrast)
    except ValueError as error:
        raise StatsError(f"no threshold for {contrast.metric}: {error}") from None


# -- contrasts no run answers --------------------------------------------------------------------


def problems(experiment: Experiment) -> Iterator[tuple[Loc, str]]:
    """Contrasts that no run of the experiment could answer.

    With their location in the declaration.
    """
    rows = _rows(experiment)
    for number, contrast in enumerate(experiment.contrasts):
        for loc, message in _problems(contrast, rows):
            yield ("contrasts", number, *loc), message


def _problems(contrast: Contrast, rows: _Rows) -> Iterator[tuple[Loc, str]]:
    metric = contrast.metric
    measuring = [r for t, r in rows if gives(t, metric)]
    if metric not in METRICS or not measuring:
        words = (
            f"no test here measures {metric}; measured are {', '.join(_measured(rows))}"
        )
        yield ("metric",), words if metric in METRICS else unknown_metric(metric)
        return
    sides: list[list[_Row]] = []
    for side, levels in (("a", contrast.a), ("b", contrast.b)):
        if levels is None:
            return
        wrong = list(_side([r for _, r in rows], levels))
        yield from (((side, *loc), message) for loc, message in wrong)
        sides.append([r for r in measuring if _matches(r, levels)])
        several = [f for f in _SPLIT if len({r.get(f) for r in sides[-1]}) > 1]
        if wrong:
            return
        if not sides[-1]:
            yield (
                (side,),
                f"no run that measures {metric} has all of these levels together",
            )
        elif several:
            yield (side,), f"names several conditions; name also {', '.join(several)}"
    # what is known only later may distinguish the sides
    known = all(contrast.a.get(f) == (contrast.b or {}).get(f) for f in _MEASURED)
    if known and sides[0] == sides[1] != []:
        yield ("b",), "is the same as a: both sides have the same runs"


def _matches(row: _Row, levels: _Row) -> bool:
    return all(
        row.get(f) == v for f, v in levels.items() if f in row or f not in _MEASURED
    )


def _side(rows: Sequence[_Row], levels: _Row) -> Iterator[tuple[Loc, str]]:
    for name, level in levels.items():
        if any(name in row for row in rows):
            measured = sort_levels(name, (r.get(name) for r in rows))
            if level not in measured:
                yield (name,), _not_measured(level, measured)
        elif name not in _MEASURED and not re.match(r"(client|server)_.", name):
            yield (name,), _unknown(name, rows)


def _not_measured(level: Level, measured: Sequence[Level]) -> str:
    there = list(map(_as_yaml, measured))
    hint = did_you_mean(level, there)
    return f"{_as_yaml(level)} is not measured; {hint}measured are {', '.join(there)}"


def _as_yaml(level: Level) -> str:
    return json.dumps(level) if level is None or isinstance(level, bool) else str(level)


def _unknown(name: str, rows: Iterable[_Row]) -> str:
    legal = [
        f
        for f in dimensions(dict.fromkeys(f for r in rows for f in r))
        if f not in _LENGTHS
    ]
    hint = did_you_mean(name, [*legal, *FACTORS])
    return (
        f"is not a factor of this experiment; {hint}factors here are {', '.join(legal)}"
    )
