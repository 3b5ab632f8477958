"""Contrasts before the data: expand `compare:`, read thresholds, refuse contrasts that no run could answer."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from ..errors import StatsError, did_you_mean
from ..metrics import HEADLINES, METRICS, format_value, unknown_metric
from ..quantities import read_quantity
from .factors import FACTORS, Level, dimensions, factor, is_latency, sort_levels
from .model import Compare, Contrast, Experiment, Trial
from .schedule import conditions, trial_levels

Loc: TypeAlias = tuple[str | int, ...]
ConditionLevels: TypeAlias = Mapping[str, Level]

_LENGTHS = {"duration_s", "omit_s"}
_HOSTS = {"client", "server"}
_SPLIT = (
    "placement",
    "accelerated",
    "tool",
    "test",
    "streams",
    "tcp_buffer_bytes",
    "message_bytes",
    "during",
)
"""Factors that a side of a contrast names where they vary: it names one condition."""
_MEASURED = {"protocol", "direction"} | {n for n, f in FACTORS.items() if f.role != "condition"} - {
    "advertised_bps"
}
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
        at_receiver = tool != "sockperf" or metric in ("throughput_sent_bps", "sent_bytes")
        return loaded or (not latency and at_receiver)
    return True


def name(contrast: Contrast) -> str:
    """Return the name of a contrast: its question, or its metric and sides."""
    sides = [
        ", ".join(factor(f).level_words(v) for f, v in side.items())
        for side in (contrast.a, contrast.b or {})
    ]
    return contrast.question or f"{contrast.metric}: " + " / ".join(s for s in sides if s)


# -- compare: a family in one line -------------------------------------------------------------------------------------


def expand_compare(experiment: Experiment) -> tuple[Experiment, list[tuple[Loc, str]]]:
    """Expand `compare` and resolve thresholds; also return the errors in them, each with its location."""
    rows = [(trial, trial_levels(trial)) for trial in conditions(experiment)]
    wrong: list[tuple[Loc, str]] = []
    contrasts = list(experiment.contrasts)
    for number, compare in enumerate(experiment.compare):
        errors: list[tuple[Loc, str]] = []
        contrasts += [c for c in _family(compare, rows, errors) if c not in contrasts]
        wrong += [(("compare", number, *loc), message) for loc, message in errors]
    read = []
    for number, contrast in enumerate(contrasts):
        try:
            read.append(_with_bandwidth(contrast, rows))
        except ValueError as error:
            wrong.append(
                (
                    ("contrasts", number, "below" if contrast.below is not None else "at_least"),
                    str(error),
                )
            )
            read.append(contrast)
    done = experiment.model_copy(update={"contrasts": tuple(read), "compare": ()})
    done.__pydantic_fields_set__.discard("compare")
    return done, wrong


def _family(
    compare: Compare, rows: Sequence[tuple[Trial, ConditionLevels]], errors: list[tuple[Loc, str]]
) -> list[Contrast]:
    """The contrasts of a family; what is wrong is added to `errors`."""
    chosen = [(t, r) for t, r in rows if all(r.get(f) == v for f, v in compare.where.items())]
    errors += (
        (("where", *loc), message) for loc, message in _side([r for _, r in rows], compare.where)
    )
    factors = dict.fromkeys(f for _, r in rows for f in r)
    if compare.factor not in factors:
        errors.append((("factor",), _unknown(compare.factor, factors)))
    if errors:
        return []
    contrasts: list[Contrast] = []
    for number, metric in enumerate(compare.metrics or _varying(compare.factor, chosen)):
        measuring = [r for t, r in chosen if gives(t, metric)]
        levels = sort_levels(compare.factor, (r.get(compare.factor) for r in measuring))
        if metric not in METRICS:
            errors.append((("metrics", number), unknown_metric(metric)))
        elif not measuring:
            errors.append((("metrics", number), f"no test here measures {metric}"))
        elif len(levels) < 2:
            level = ", ".join(map(_as_yaml, levels))
            errors.append(
                (("factor",), f"{compare.factor} has one level where {metric} is measured: {level}")
            )
        else:
            contrasts += _against(compare, metric, measuring, levels, errors)
    return contrasts


def _varying(name_: str, rows: Sequence[tuple[Trial, ConditionLevels]]) -> list[str]:
    """Headline metrics that are measured at several levels of a factor; all measured ones if there are none."""
    measured = [m for m in HEADLINES if any(gives(t, m) for t, _ in rows)]
    return [
        m for m in measured if len({r.get(name_) for t, r in rows if gives(t, m)}) > 1
    ] or measured


def _against(
    compare: Compare,
    metric: str,
    rows: Sequence[ConditionLevels],
    levels: Sequence[Level],
    errors: list[tuple[Loc, str]],
) -> list[Contrast]:
    """The contrasts of a family for one metric: every level against the baseline."""
    compared, before = factor(compare.factor), len(errors)
    baseline = (
        compared.cast(compare.baseline) if "baseline" in compare.model_fields_set else levels[0]
    )
    others = (
        [compared.cast(v) for v in compare.levels]
        if compare.levels
        else [v for v in levels if v != baseline]
    )
    if baseline not in levels:
        errors.append((("baseline",), _not_measured(baseline, levels)))
    elif strange := [v for v in others if v not in levels or v == baseline]:
        errors.append(
            (("levels",), _not_measured(strange[0], [v for v in levels if v != baseline]))
        )
    if errors[before:]:
        return []
    columns = dimensions(dict.fromkeys(f for r in rows for f in r))
    others_varying = [f for f in columns if f != compare.factor and f not in _LENGTHS]
    if compare.factor == "placement":  # properties of the pairs vary with the placement
        others_varying = [
            f for f in others_varying if f in FACTORS and f not in _HOSTS | {"gateway_sku"}
        ]
    elif compare.factor in _HOSTS:
        others_varying = [f for f in others_varying if f != "placement"]
    else:
        others_varying = [f for f in others_varying if f not in _HOSTS]
    others_varying = [f for f in others_varying if len({r.get(f) for r in rows}) > 1]
    strata: dict[tuple[Level, ...], set[Level]] = {}
    for row in rows:
        strata.setdefault(tuple(row.get(f) for f in others_varying), set()).add(
            row.get(compare.factor)
        )
    contrasts: list[Contrast] = []
    for level in others:
        both = [s for s, measured in strata.items() if {level, baseline} <= measured]
        for stratum in both:
            shared = dict(compare.where) | dict(zip(others_varying, stratum, strict=True))
            sides = ({**shared, compare.factor: level}, {**shared, compare.factor: baseline})
            contrasts.append(Contrast(metric=metric, a=sides[0], b=sides[1], margin=compare.margin))
        if not both and compare.levels:
            differ = ", ".join(others_varying) or "the hosts"
            message = (
                f"no condition with {compare.factor} {_as_yaml(level)} differs from the baseline in that alone; "
                f"give both the same {differ}"
            )
            errors.append((("levels",), message))
    if not contrasts and not errors[before:]:
        message = f"no two conditions differ in {compare.factor} alone ({', '.join(others_varying)} also differ)"
        errors.append((("factor",), message))
    return contrasts


def _limit(contrast: Contrast) -> tuple[str, str, str, str | None]:
    """The threshold as declared, the unit of its metric; and of a share its per cent, and what it is a share of."""
    text = str(contrast.at_least if contrast.below is None else contrast.below)
    share = re.fullmatch(r"\s*([0-9]*\.?[0-9]+\s*%)(?:\s*of\s+(.+?))?\s*", text)
    unit = METRICS[contrast.metric].unit if contrast.metric in METRICS else ""
    return text, unit, share[1] if share else "", (share and share[2]) or contrast.of


def _with_bandwidth(contrast: Contrast, rows: Sequence[tuple[Trial, ConditionLevels]]) -> Contrast:
    """Write a threshold in per cent of the bandwidth with the bandwidth as a number."""
    text, unit, share, base = _limit(contrast)
    if contrast.b is not None or not unit:
        return contrast
    if share and base is None and unit != "ratio":
        raise ValueError(
            f"{text!r} does not say of what; write for example '90 % of bandwidth' or '90 % of 10 Gbit/s'"
        )
    if base == "bandwidth":
        speeds = {
            t.advertised_bps
            for t, r in rows
            if gives(t, contrast.metric) and _matches(r, contrast.a)
        }
        if len(speeds) != 1 or None in speeds:
            what = "several bandwidths are" if len(speeds - {None}) > 1 else "no bandwidth_mbps is"
            raise ValueError(
                f"{what} declared for these runs; write for example '90 % of 10 Gbit/s'"
            )
        base = format_value(next(s for s in speeds if s is not None), "bps", 6)
    key = "below" if contrast.below is not None else "at_least"
    done = contrast.model_copy(update={key: share, "of": base}) if base else contrast
    if not 0 < _read(done) < math.inf:
        raise ValueError(f"{text!r} is not a threshold above zero")
    return done


def _read(contrast: Contrast) -> float:
    text, unit, share, base = _limit(contrast)
    value = (
        read_quantity(text, unit)
        if not share
        else 1.0
        if base is None
        else read_quantity(base, unit)
    )
    return value * (float(share.rstrip("% ")) / 100 if share else 1)


def threshold(contrast: Contrast) -> float:
    """The threshold of a contrast, in the unit of its metric; raise StatsError if it is none."""
    try:
        if 0 < (value := _read(contrast)) < math.inf:
            return value
    except ValueError as error:
        raise StatsError(f"not a threshold for {contrast.metric}: {error}") from None
    raise StatsError(
        f"a threshold must be above zero; got {_limit(contrast)[0]} for {contrast.metric}"
    )


# -- contrasts no run answers ------------------------------------------------------------------------------------------


def problems(experiment: Experiment) -> Iterator[tuple[Loc, str]]:
    """Contrasts that no run of the experiment could answer, with their location in the declaration."""
    rows = [(trial, trial_levels(trial)) for trial in conditions(experiment)]
    for number, contrast in enumerate(experiment.contrasts):
        loc: Loc = ("contrasts", number)
        if contrast.metric not in METRICS:
            yield (*loc, "metric"), unknown_metric(contrast.metric)
            continue
        measuring = [r for t, r in rows if gives(t, contrast.metric)]
        if not measuring:
            measured = ", ".join(m for m in HEADLINES if any(gives(t, m) for t, _ in rows))
            message = f"no test here measures {contrast.metric}; measured are {measured} and related metrics"
            yield (*loc, "metric"), message
            continue
        errors, matched = [], []
        for side, levels in (("a", contrast.a), ("b", contrast.b)):
            if levels is not None:
                wrong = [
                    ((*loc, side, *inner), message)
                    for inner, message in _side([r for _, r in rows], levels)
                ]
                matched.append([i for i, r in enumerate(measuring) if _matches(r, levels)])
                if not wrong and not matched[-1]:
                    message = (
                        f"no run that measures {contrast.metric} has all of these levels together"
                    )
                    wrong = [((*loc, side), message)]
                elif not wrong:
                    named = [measuring[i] for i in matched[-1]]
                    several = [f for f in _SPLIT if len({row.get(f) for row in named}) > 1]
                    if several:
                        message = f"names several conditions; name also {', '.join(several)}"
                        wrong = [((*loc, side), message)]
                errors += wrong
        yield from errors
        if errors or contrast.b is None:
            continue
        if any(
            contrast.a.get(f) != contrast.b.get(f) for f in _MEASURED & {*contrast.a, *contrast.b}
        ):
            continue  # these are known only later, and may distinguish the sides
        if matched[0] == matched[1]:
            yield (*loc, "b"), "is the same as a: both sides have the same runs"


def _matches(row: ConditionLevels, levels: Mapping[str, Level]) -> bool:
    return all(row.get(f) == v for f, v in levels.items() if f in row or f not in _MEASURED)


def _side(
    rows: Sequence[ConditionLevels], levels: Mapping[str, Level]
) -> Iterator[tuple[Loc, str]]:
    factors = dict.fromkeys(f for r in rows for f in r)
    for name_, level in levels.items():
        if name_ in factors:
            measured = sort_levels(name_, (r.get(name_) for r in rows))
            if level not in measured:
                yield (name_,), _not_measured(level, measured)
        elif name_ not in _MEASURED and not re.match(r"(client|server)_.", name_):
            yield (name_,), _unknown(name_, factors)


def _not_measured(level: Level, measured: Sequence[Level]) -> str:
    hint = did_you_mean(level, map(str, measured))
    return f"{_as_yaml(level)} is not measured; {hint}measured are {', '.join(map(_as_yaml, measured))}"


def _as_yaml(level: Level) -> str:
    return (
        "null" if level is None else str(level).lower() if isinstance(level, bool) else str(level)
    )


def _unknown(name_: str, factors: Iterable[str]) -> str:
    legal = [f for f in dimensions(factors) if f not in _LENGTHS]
    hint = did_you_mean(name_, [*legal, *FACTORS])
    return f"is not a factor of this experiment; {hint}factors here are {', '.join(legal)}"
