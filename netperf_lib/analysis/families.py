"""Which conditions are compared where nothing is declared.

A family made by a rule from labels alone.

The rule reads no measured value. For each factor that varies and each headline metric, every level
is compared with the ordinary one, at the ordinary level of every other factor. What is set on hosts
(streams, buffers, acceleration) may matter on one path only, so it is compared at each placement.
All of these comparisons share the 5 %.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from ..experiment.factors import LOG_NAME, factor, plain, sort_levels
from ..experiment.model import Contrast
from ..experiment.placements import FAR_PLACES, GATEWAYS, USUAL
from ..metrics import MARGIN, METRICS
from .comparison import Family
from .judging import Sides, judge_pairs
from .observe import PAIR, Data, Observations, is_label, observe
from .runs import Observed, headline_metrics, without_sent

BASELINES = ("default", "off", "none", "before", "vorher", "baseline")
"""Names of a level of a label with which the others are compared."""


def of_main_tool(
    data: Data, metric: str, contrasts: Sequence[Contrast] = ()
) -> Observations:
    """Return the conditions in which a metric was measured by its main tool, and that have a value.

    The tool is that of the declared contrasts, else the one with most conditions.
    """
    source, where = Observed.of(data), dict[str, Any]()
    obs = _measured(observe(source, metric))
    sides = [side for c in contrasts if c.metric == metric for side in (c.a, c.b or {})]
    for name in ("during", "tool", "test"):
        levels = obs.conditions.get(name, pd.Series(dtype=object))
        if name == "during":
            # under load a throughput is that of the load itself
            idle = METRICS[metric].unit == "bps" and None in set(levels)
            chosen: list[Any] = [None] if idle else []
        else:
            declared = [side[name] for side in sides if name in side]
            chosen = declared if declared and len(levels) else list(levels.dropna())
        if chosen:
            where[name] = Counter(chosen).most_common(1)[0][0]
            obs = _measured(observe(source, metric, where=where))
    return obs


def _measured(obs: Observations) -> Observations:
    """Return the conditions that have a value."""
    names = [c for c in obs.names if obs.value(c, "n") > 0]
    return obs if names == obs.names else obs.only(names)


def of_main_tools(
    source: Observed, metric: str | None = None, contrasts: Sequence[Contrast] = ()
) -> list[Observations]:
    """Return the conditions of a metric, or of each headline metric, as `of_main_tool` has them."""
    names = [metric] if metric else headline_metrics(source.runs)
    if any(n.endswith("_us") for n in names):  # a rate of transactions says the same
        names = [n for n in names if n != "transaction_rate_per_s"]
    if metric is None:
        source = replace(source, runs=without_sent(source.runs))
    every = (of_main_tool(source, name, contrasts) for name in names)
    return [obs for obs in every if obs.names]


def judged_by_rule(
    observed: Sequence[Observations], margin: float | None = None
) -> tuple[Family, list[Sides]]:
    """Return the judged family of an experiment without declared contrasts, and its pairs.

    What one run a side cannot decide takes no share of the 5 %.
    """
    pairs = by_rule(observed, margin or MARGIN)
    decidable = [
        p for p in pairs if p.obs and min(p.obs.value(c, "n") for c in (p.a, p.b)) > 1
    ]
    pairs = decidable or pairs
    alone = any(obs.exploratory for obs in observed)
    return judge_pairs(pairs, declared=not alone), pairs


def other_factors(obs: Observations, name: str) -> list[str]:
    """Return the factors that split besides this one and the ends of paths."""
    return [f for f in obs.factors if f not in (name, PAIR)]


def by_rule(observed: Sequence[Observations], margin: float = MARGIN) -> list[Sides]:
    """Return the pairs that are compared without declared contrasts, from labels alone."""
    pairs = []
    for obs in observed:
        for name in obs.factors if LOG_NAME not in obs.by else ():
            if (name, obs.unit) == ("bitrate", "bps"):
                continue  # a requested rate is no gain
            for conditions in _slices(obs, name):
                both = _against_the_ordinary(obs, name, conditions)
                pairs += [Sides(obs, a, b, margin, factor=name) for a, b in both]
    return pairs


def _slices(obs: Observations, name: str) -> Iterator[list[str]]:
    """Yield the conditions in which a factor is compared: the others are at their ordinary level.

    What is set on hosts is compared at each placement.
    """
    slices = [usual(obs, name)]
    if name not in ("placement", PAIR) and "placement" in obs.by:
        places = sort_levels("placement", obs.conditions["placement"])
        slices = [[c for c in obs.names if obs.at(c, "placement") == p] for p in places]
    for conditions in slices:
        main = conditions
        for other in other_factors(obs, name):
            level = _held(obs, other)
            if (name, other) == ("gateway_sku", "streams"):
                # a gateway limits what many streams carry
                level = max((obs.at(c, other) for c in main), default=1)
            held = [c for c in main if obs.at(c, other) == level]
            main = held if len({obs.at(c, name) for c in held}) > 1 else main
        yield main


def ordinary(obs: Observations, name: str, *, asked: bool = False) -> Any:
    """Return the level that others are compared with, by its name or the default.

    None where there is none.
    """
    levels = {obs.at(c, name) for c in obs.names}
    if asked and name == "accelerated" and False in levels:
        return False  # the question is what switching it on brings
    if is_label(name):
        return first_of_label(obs, name)
    known = USUAL if name == "placement" else (factor(name).ordinary,)
    return next((level for level in known if level is not None and level in levels), None)


def first_of_label(obs: Observations, name: str) -> Any:
    """Return the level of a label that others are compared with: by its name, else its time.

    None where no level has the name of a baseline, and they were not measured one after the other.
    """
    levels = [obs.at(c, name) for c in obs.names]
    for level in levels:
        if str(level).casefold() in BASELINES:
            return level
    runs = obs.complete.assign(level=obs.complete["condition"].astype(object))
    runs["level"] = runs["level"].map(dict(zip(obs.names, levels, strict=True)))
    if runs["started_utc"].isna().any():
        return None
    spans = runs.groupby("level", dropna=False)["started_utc"].agg(["min", "max"])
    spans = spans.sort_values("min")
    apart = spans["max"].iloc[:-1].to_numpy() < spans["min"].iloc[1:].to_numpy()
    return plain(spans.index[0]) if apart.all() else None


def _held(obs: Observations, name: str, *, asked: bool = False) -> Any:
    """The level at which a factor is held, or compared with: the ordinary one, else the first."""
    level = ordinary(obs, name, asked=asked)
    if level is not None or name == PAIR:
        return level
    return sort_levels(name, (obs.at(c, name) for c in obs.names))[0]


def usual(obs: Observations, name: str, contrasts: Sequence[Contrast] = ()) -> list[str]:
    """Return the conditions in which a factor is looked at.

    Pairs are compared within a placement that has several.
    """
    if name != PAIR:
        return obs.usual([name], contrasts)
    ends = [f for f in obs.by if f not in obs.factors]
    with_ends = obs.conditions.index[obs.conditions[ends].notna().any(axis=1)]
    names = obs.only(with_ends).usual(
        ["placement"] if "placement" in obs.by else [], contrasts
    )
    count = Counter(obs.at(c, "placement") for c in names)
    return [c for c in names if count[obs.at(c, "placement")] > 1]


def _against_the_ordinary(
    obs: Observations, name: str, conditions: Sequence[str]
) -> list[tuple[str, str]]:
    """Each condition against the ordinary one; a far path against the direct way to its region."""
    if not conditions:
        return []
    level = _held(obs, name, asked=True)
    bases = (c for c in conditions if name == PAIR or obs.at(c, name) == level)
    base = direct = next(bases, conditions[0])
    if name == "placement":
        far = (c for c in conditions if obs.at(c, name) in FAR_PLACES)
        direct = next(far, base)
    sides = [(c, direct if _is_far(obs, c) else base) for c in conditions]
    if name not in ("placement", PAIR):  # only the hosts differ
        sides = [(a, b) for a, b in sides if obs.at(a, name) != obs.at(b, name)]
    return [(a, b) for a, b in sides if a != b and obs.same(a, b, name, PAIR)]


def _is_far(obs: Observations, condition: str) -> bool:
    """Whether a path leads to another region: it is compared with the direct way there."""
    one, two = (obs.at(condition, f"{side}_region") for side in ("client", "server"))
    placement = obs.at(condition, "placement")
    return (
        placement in GATEWAYS
        if one is None is two
        else bool(one != two) and placement not in FAR_PLACES
    )
