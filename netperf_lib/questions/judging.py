"""Judge pairs of conditions of observations together, as one family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..experiment.factors import factor, level_words, plain
from ..metrics import ALPHA, MARGIN
from ..stats import Family, judge
from ..stats.runs_table import HOSTS, PLACES
from .observe import MEASUREMENT, SEVERAL, Observations, level_names


@dataclass(frozen=True, slots=True)
class Pair:
    """Two conditions of the same observations that are compared: the names of both, and the margin."""

    obs: Observations
    a: str
    b: str
    margin: float = MARGIN


def judge_pairs(chosen: Sequence[Pair], alpha: float = ALPHA, *, declared: bool = True) -> Family:
    """Judge pairs of conditions together, as one family; `declared` False: each is exploratory.

    Runs of two measurements share no round, and are compared unpaired.
    """
    import pandas as pd

    every = list({id(p.obs): p.obs for p in chosen}.values())
    prefix = {id(obs): f"{i}|" for i, obs in enumerate(every)}
    frames = []
    for obs in every:
        t = obs.table[obs.table["state"] != "missing"]
        names = prefix[id(obs)] + t["condition"].astype(str)
        t = t.assign(status=t["state"], attempt=1 + t["repeated"].astype(int), condition=names)
        if MEASUREMENT in obs.by:
            number = t.groupby(["unit", "round"], sort=True).ngroup()
            t = t.assign(round=number).drop(columns=["experiment", "deployment", "client", "server"])
        frames.append(t.rename(columns={"value": obs.metric}).drop(columns=["unit", "state", "repeated"]))
    runs = pd.concat(frames, ignore_index=True).dropna(axis=1, how="all")
    for obs in every:
        runs[obs.metric] = runs[obs.metric] if obs.metric in runs else float("nan")
    runs = runs.drop(columns=[] if "order" not in runs or runs["order"].notna().all() else ["order"])
    asked = [
        {"metric": p.obs.metric, "margin": p.margin, "declared": declared}
        | {side: {"condition": prefix[id(p.obs)] + name} for side, name in (("a", p.a), ("b", p.b))}
        for p in chosen
    ]
    paired = all(obs.blocked and MEASUREMENT not in obs.by for obs in every)
    family = judge(runs, asked, alpha=alpha, paired=paired)
    named = [
        replace(c, warnings=(*c.warnings, *_confounded(p)), **side_words(p))
        for c, p in zip(family, chosen, strict=True)
    ]
    return replace(family, comparisons=tuple(named), declared=0)


def side_words(pair: Pair) -> dict[str, Any]:
    """What the sides are called, and what they share."""
    obs, rows = pair.obs, pair.obs.conditions.loc[[pair.a, pair.b]]
    differ = [f for f in obs.by if plain(rows[f].iloc[0]) != plain(rows[f].iloc[1])]
    names = level_names(obs, differ)
    shared = [f for f in obs.by if f not in differ]
    return {"names": (names[pair.a], names[pair.b]), "context": level_names(obs, shared)[pair.a] if shared else ""}


def _confounded(pair: Pair) -> list[str]:
    """Warn about what the sides differ in besides the factors that make them two conditions."""
    obs = pair.obs
    if MEASUREMENT in obs.by:  # what was changed is listed once
        return []
    one, two = (obs.facts.loc[c] for c in (pair.a, pair.b))
    differ = {f for f in obs.by if plain(one[f]) != plain(two[f])}
    implied = {*obs.by, *HOSTS} | {f for f in map(str, obs.facts) if differ & set(factor(f).follows)}
    if differ & set(PLACES):
        implied |= {*PLACES, "client_zone_physical", "server_zone_physical"}
    levels = {f: (plain(one[f]), plain(two[f])) for f in map(str, obs.facts) if f not in implied}
    return [
        f"the sides also differ in {f} ({level_words(f, a)} and {level_words(f, b)}): the difference may be due to that"
        for f, (a, b) in levels.items()
        if a != b and SEVERAL not in (a, b)
    ]
