"""Which conditions are compared where nothing is declared: a family made from labels alone.

The rule reads no measured value. For each factor that varies and each headline metric, every level
is compared with the usual one, while every other factor is at one level. What is set on hosts
(streams, buffers, acceleration) may matter on one path only, so it is compared at each placement.
All of these comparisons share the 5 %.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..experiment.factors import LOG_NAME, factor, plain
from ..experiment.model import Contrast
from ..experiment.placements import FAR_PLACES, GATEWAYS, USUAL
from ..metrics import MARGIN
from .observe import Observations, is_label, observe, slice_for
from .runs import OF_ENDS, PAIR, Measurement, headline_metrics, without_sent
from .verdicts import Question, sides_of

BASELINES = ("default", "off", "none", "before", "vorher", "baseline")
"""Names of a level of a label with which the others are compared."""


def of_main_tools(
    source: Measurement, metric: str | None = None, contrasts: Sequence[Contrast] = ()
) -> list[Observations]:
    """Return the conditions of a metric, or of each headline metric, as `of_main_tool` has them."""
    names = [metric] if metric else headline_metrics(source)
    if metric is None:
        source = replace(source, runs=without_sent(source.runs))
    if any(name.endswith("_us") for name in names):
        # a rate of transactions says the same
        names = [name for name in names if name != "transaction_rate_per_s"]
    observed = [of_main_tool(source, name, contrasts) for name in names]
    return [obs for obs in observed if obs.names]


def of_main_tool(
    source: Measurement, metric: str, contrasts: Sequence[Contrast] = ()
) -> Observations:
    """Return the conditions in which a metric was measured by its main tool, and that have a value.

    The tool is that of the declared contrasts, else the one with most conditions.
    """
    obs = _measured(observe(source, metric))
    where: dict[str, Any] = {}
    for name in ("during", "tool", "test"):
        if name not in obs.by:
            continue
        levels = obs.facts[name]
        if name == "during":
            # under load a throughput is that of the load itself
            if obs.unit != "bps" or levels.notna().all():
                continue
            where[name] = None
        else:
            named = _declared(name, metric, contrasts) or levels.dropna()
            [(where[name], _)] = Counter(named).most_common(1)
        obs = _measured(observe(source, metric, where=where))
    return obs


def _declared(name: str, metric: str, contrasts: Sequence[Contrast]) -> list[Any]:
    """Return the levels of a factor that contrasts of a metric name."""
    levels = []
    for c in contrasts:
        if c.metric == metric:
            levels += [side.get(name) for side in sides_of(c)]
    return [level for level in levels if level is not None]


def _measured(obs: Observations) -> Observations:
    """Return the conditions that have a value."""
    return obs if obs.measured == obs.names else obs.only(obs.measured)


def questions_by_rule(
    observed: Sequence[Observations], margin: float = MARGIN
) -> list[Question]:
    """Return what is asked of an experiment that declares nothing."""
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
