"""Which conditions are compared: the declared contrasts, or a family made by a rule from labels alone.

The rule reads no measured value. For each factor that varies and each headline metric, every level is compared with the
ordinary one, at the ordinary level of every other factor. What is set on hosts (streams, buffers, acceleration) may
matter on one path only, so it is compared at each placement. All of these comparisons share the 5 %.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from ..experiment.factors import factor, plain, sort_levels
from ..experiment.model import Contrast
from ..experiment.placements import FAR_PLACES, GATEWAYS, USUAL
from ..metrics import MARGIN
from ..metrics import metric as metric_of
from ..stats import Family
from .judging import Pair, judge_pairs
from .observe import Observations, levels, observe
from .runs import ENDS

PAIR = "pair"
"""The factors that describe the two ends of a path are one."""


class Measure:
    """The conditions in which a metric was measured by its main tool, and how they lie to each other.

    Parameters
    ----------
    runs : DataFrame
        The table of runs.
    name : str
        The metric.
    contrasts : sequence of Contrast
        Declared contrasts: their tool is the main one, and their levels are the ordinary ones.

    Attributes
    ----------
    obs, every : Observations
        Those of the main tool, and all.
    levels : DataFrame
        A row for each condition: ``n``, ``median``, ``low``, ``high``, ``smallest``, ``largest``.
    names : list of str
        Names of the conditions.
    factors : list of str
        What splits the conditions; the columns that describe the two ends of a path are one factor, ``pair``.
    """

    def __init__(self, runs: pd.DataFrame, name: str, contrasts: Sequence[Contrast] = ()) -> None:
        self.name, self.runs = name, runs
        self.unit, self.better = metric_of(name).unit, metric_of(name).better
        self.contrasts = [c for c in contrasts if c.metric == name]
        self.where: dict[str, Any] = {}
        self.obs: Observations = observe(runs, name)
        self.every = self.obs
        if "during" in self.obs.by and self.unit == "bps" and None in set(self.obs.conditions["during"]):
            self._narrow("during", None)  # under load that is the throughput of the load itself
        for name_of_means in ("tool", "test"):
            if name_of_means in self.obs.by:
                sides = [side for c in self.contrasts for side in (c.a, c.b or {})]
                declared = Counter(side[name_of_means] for side in sides if name_of_means in side)
                counts = declared or Counter(self.obs.conditions[name_of_means].dropna())
                self._narrow(name_of_means, counts.most_common(1)[0][0])
        every = levels(self.obs)
        self.levels = every[every["n"] > 0]  # a condition whose runs all failed has no level
        ends = [f for f in self.obs.by if any(f in pair for pair in ENDS)]
        self.factors = [f for f in self.obs.by if f not in ends] + ([PAIR] if ends else [])
        self._facts = self.obs.facts.to_dict("index")
        self._rows = self.levels.to_dict("index")
        self.names: list[str] = list(self.levels.index)
        self._slices: dict[str, list[str]] = {}
        self._alike: dict[str, Callable[[str, str], bool]] = {}
        self._sides: dict[Hashable, str | None] = {}

    def _narrow(self, name: str, level: Any) -> None:
        self.where[name] = level
        self.obs = observe(self.runs, self.name, where=self.where)

    def fact(self, condition: str, name: str) -> Any:
        """Level of any factor in a condition; None if it is not known."""
        return plain(self._facts[condition].get(name))

    def value(self, condition: str, column: str = "median") -> float:
        """A figure of a condition's level."""
        return float(self._rows[condition][column])

    def at(self, condition: str, name: str) -> Any:
        """Level of a factor in a condition; a pair is its condition."""
        return condition if name == PAIR else self._rows[condition][name]

    def other_factors(self, name: str) -> list[str]:
        """The factors that split besides this one."""
        return [g for g in self.factors if g not in (name, PAIR)]

    def varying(self, name: str) -> list[str]:
        """The other factors that vary among the conditions in which this one varies."""
        if name not in self._slices:
            wide = [c for c in self.names if any(c != d and self.same(c, d, name) for d in self.names)]
            self._slices[name] = [g for g in self.other_factors(name) if len({self.at(c, g) for c in wide}) > 1]
        return self._slices[name]

    def same(self, one: str, two: str, name: str) -> bool:
        """Whether two conditions differ in nothing but this factor."""
        if name not in self._alike:
            self._alike[name] = self.obs.alike((name, *(f for ends in ENDS for f in ends)))
        return self._alike[name](one, two)

    def ordinary(self, name: str) -> Any:
        """The level that others are compared with: by its name, else the default, else the first."""
        present = list(dict.fromkeys(self.at(c, name) for c in self.names))
        declared = Counter(
            side[name]
            for c in self.contrasts
            for side in (c.a, c.b or {})
            if side.get(name) in present and name in side
        )
        usual = next((p for p in USUAL if p in present), None) if name == "placement" else factor(name).ordinary
        if usual is not None and usual in present:
            return usual
        if None in present:
            return None
        return declared.most_common(1)[0][0] if declared else sort_levels(name, present)[0]

    def main(self, name: str, within: Sequence[str] | None = None) -> list[str]:
        """The conditions at which every other factor is ordinary; a level without such a one keeps those it has."""
        rows: list[str] = []
        within = self.names if within is None else within
        if name == PAIR:  # pairs are compared within a placement, and where nothing else differs
            within = [c for c in within if "→" in c]
            for g in self.other_factors(PAIR):
                ordinary = [c for c in within if g == "placement" or self.at(c, g) == self.ordinary(g)]
                within = ordinary if len(ordinary) > 1 else within
            count = Counter(self.at(c, "placement") for c in within) if "placement" in self.factors else {}
            within = [c for c in within if count.get(self.at(c, "placement")) != 1] if count else within
        levels: dict[Any, list[str]] = {}
        for c in within:
            levels.setdefault(self.at(c, name), []).append(c)
        for some in levels.values():
            for g in self.other_factors(name):
                some = [c for c in some if self.at(c, g) == self.ordinary(g)] or some
            rows += some
        return rows

    def is_far(self, condition: str) -> bool:
        """Whether a path leads to another region: it is compared with the direct way there."""
        one, two = (self.fact(condition, f"{side}_region") for side in ("client", "server"))
        placement = self.fact(condition, "placement")
        return placement in GATEWAYS if one is None is two else bool(one != two) and placement not in FAR_PLACES

    def find(self, side: dict[str, Any]) -> str | None:
        """The one condition that a side of a contrast names; None if there are several or none."""
        key = frozenset(side.items())
        if key not in self._sides:
            matches = [c for c in self.obs.matching(side) if c in self._rows]
            self._sides[key] = matches[0] if len(matches) == 1 else None
        return self._sides[key]

    def side(self, condition: str) -> dict[str, Any]:
        """A side of a contrast that names exactly this condition."""
        levels = {f: self._rows[condition][f] for f in self.obs.by} | self.where
        self._sides[frozenset(levels.items())] = condition
        return levels


def judge_conditions(measures: Sequence[Measure], contrasts: Sequence[Contrast], alpha: float) -> Family:
    """Judge contrasts by rule, each of which names two conditions, together."""
    by_name = {m.name: m for m in measures}
    rows = [(by_name[c.metric], c) for c in contrasts]
    chosen = [Pair(m.obs, m.find(c.a) or "", m.find(c.b or {}) or "", c.margin) for m, c in rows]
    family = judge_pairs(chosen, alpha)
    names = [_names(m.obs, p.a, p.b) for (m, _), p in zip(rows, chosen, strict=True)]
    named = [replace(c, names=both, context=shared) for c, (both, shared) in zip(family, names, strict=True)]
    return replace(family, comparisons=tuple(named))


def _names(obs: Observations, one: str, two: str) -> tuple[tuple[str, str], str]:
    """Two conditions by the levels in which they differ, and the levels that they share."""
    a, b = (obs.conditions.loc[c].map(plain).to_dict() for c in (one, two))
    differ = [f for f in obs.by if a[f] != b[f]]
    if "→" in one or not differ:
        return (one, two), ""
    sides = [", ".join(factor(f).level_words(levels[f]) for f in differ) for levels in (a, b)]
    shared = [factor(f).level_words(a[f]) for f in obs.by if f not in differ and a[f] is not None]
    return (sides[0], sides[1]), ", ".join(shared)


def by_rule(measures: Sequence[Measure], margin: float = MARGIN) -> list[Contrast]:
    """The family of an experiment without declared contrasts, from labels alone."""
    contrasts = []
    for m in measures:
        for name in m.factors:
            on_hosts = name not in ("placement", PAIR) and "placement" in m.factors
            for placement in sort_levels("placement", m.levels["placement"]) if on_hosts else [None]:
                main = [c for c in m.names if m.at(c, "placement") == placement] if on_hosts else m.main(name)
                for g in m.other_factors(name):
                    most = name == "gateway_sku" and g == "streams"  # a gateway limits what many streams carry
                    level = max((m.at(c, g) for c in main), default=1) if most else m.ordinary(g)
                    held = [c for c in main if m.at(c, g) == level]
                    main = held if len({m.at(c, name) for c in held}) > 1 else main
                contrasts += _against_the_ordinary(m, name, main, margin)
    return contrasts


def _against_the_ordinary(m: Measure, name: str, conditions: Sequence[str], margin: float) -> list[Contrast]:
    """Each condition against the ordinary one; a far path against the direct way to its region."""
    if not conditions:
        return []
    base = next((c for c in conditions if name == PAIR or m.at(c, name) == m.ordinary(name)), conditions[0])
    direct = next((c for c in conditions if name == "placement" and m.at(c, name) in FAR_PLACES), base)
    sides = [(c, direct if m.is_far(c) else base) for c in conditions]
    return [
        Contrast(metric=m.name, a=m.side(a), b=m.side(b), margin=margin)
        for a, b in sides
        if a != b and m.same(a, b, name)
    ]
