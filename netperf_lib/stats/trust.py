"""How far the rounds of contrasts can be trusted: dependence, carry-over, drift within the round, states of a path."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..experiment.factors import level_words
from .dependence import Dependence, States, carry_over, dependence, path_states, place_effect
from .evidence import autocorrelation_factor
from .result import Floats, percent
from .runs_table import Mask, RunsTable
from .sides import Measured, Sides


@dataclass(slots=True)
class Trust:
    """How far the rounds of a contrast can be trusted."""

    factor: float = 1.0
    reach: float = 0.0
    states: list[Mask] = field(default_factory=list)
    """Rounds (of the log ratios) in which a side was in its upper state."""
    alarm: str = ""
    warnings: list[str] = field(default_factory=list)

    def depends(self, found: Dependence, own: float) -> None:
        """Count rounds that resemble their neighbours as fewer, or raise the alarm."""
        self.factor = autocorrelation_factor(max(found.rho, own))
        if found.alarm:
            self.alarm = (
                f"the rounds are not independent (neighbours resemble each other, p = {found.p:.2g}): "
                "measure with more time between rounds"
            )
        elif self.factor > 1.5:
            self.warnings.append(
                f"neighbouring rounds resemble each other: {self.factor:.1f} rounds count as one, the interval is wider"
            )


def trusts(family: Sequence[Measured], sides: Sides) -> list[Trust]:
    """The dependences of the rounds of a family, and the steps and states of their values."""
    found = [Trust() for _ in family]
    for m, trust in zip(family, found, strict=True):
        trust.reach = m.a.step + (m.b.step if m.b is not None else 0.0)
        if m.b is None and m.unblocked is None and len(m.unknown) == 1:
            alone = dependence(m.d[:, None])
            trust.depends(alone, float(alone.own[0]) if alone.own.size else 0.0)
        if m.unblocked is not None and len(m.unknown) <= 2:
            x, y = (dependence(v[:, None]) for v in m.unblocked)
            trust.depends(x if x.p < y.p else y, max(float(v.own.max(initial=0.0)) for v in (x, y)))
    for metric in dict.fromkeys(m.asked.metric for m in family):
        mine = [i for i, m in enumerate(family) if m.asked.metric == metric and m.b is not None and m.d.size]
        mine = [i for i in mine if family[i].unblocked is None]
        if mine:
            _together([family[i] for i in mine], [found[i] for i in mine], sides)
    for m, trust in zip(family, found, strict=True):
        if not trust.states and len(m.unknown) == 1 and m.unblocked is None:
            trust.states += path_states(m.d[:, None]).upper.values()
    return found


def _together(family: Sequence[Measured], found: Sequence[Trust], sides: Sides) -> None:
    """The same for the contrasts of one metric, whose conditions are looked at together."""
    t = sides.table
    members = {side.key: side for m in family for side in (m.a, m.b) if side is not None}
    keys = list(members)
    logs = np.stack([members[k].log for k in keys], axis=1)
    whole = np.asarray(np.isfinite(logs).all(axis=1))
    if whole.sum() < 6:
        return
    logs = logs[whole]
    single = np.unique(sides.deployment[whole]).size == 1
    together = dependence(logs) if single else Dependence(0.0, np.zeros(len(keys)), 1.0)
    previous, place = _sequence(t, [members[k].rows for k in keys], whole)
    carried = carry_over(logs, previous)
    drift = place_effect(logs, place)
    names = _condition_names(t, carried)
    states = path_states(logs) if single else States({})
    for m, trust in zip(family, found, strict=True):
        a, b = keys.index(m.a.key), keys.index(m.b.key if m.b is not None else m.a.key)
        trust.depends(together, max(together.own[a], together.own[b]))
        for code, effect in carried.items():
            bias = effect * float((previous[:, a] == code).mean() - (previous[:, b] == code).mean())
            trust.reach += 2 * abs(bias)
            trust.warnings.append(
                f"values measured right after {names[code]} are {percent(abs(math.expm1(effect)))} "
                f"{'higher' if effect > 0 else 'lower'}: the interval is widened for this; pause longer between trials"
            )
        if drift:
            bias = drift * float((place[:, a] - place[:, b]).mean())
            trust.reach += 2 * abs(bias)
            trust.warnings.append(
                f"values change by {percent(abs(math.expm1(drift)))} from one place in the round to the next: "
                "the interval is widened for this"
            )
        for c in {a, b} & states.upper.keys():
            labels = np.zeros(whole.size, dtype=bool)
            labels[np.flatnonzero(whole)] = states.upper[c]
            trust.states.append(labels[m.block])
        if states.gap and not trust.states:
            trust.reach += states.gap
            trust.warnings.append(
                f"another path of this experiment changed its state by {percent(math.expm1(states.gap))} during the "
                "measurement, as one of these may have done before or after it: the interval is widened"
            )


def _sequence(t: RunsTable, rows: Sequence[npt.NDArray[np.intp]], whole: Mask) -> tuple[Any, Floats]:
    """Condition measured before, and place in the round, of each condition in each whole round."""
    before, place = t.before(), t.place()
    previous = np.full((whole.size, len(rows)), -1, dtype=np.intp)
    places = np.full((whole.size, len(rows)), np.nan)
    for i, mine in enumerate(rows):
        previous[t.block[mine], i] = before[mine]
        places[t.block[mine], i] = place[mine]
    return previous[whole], places[whole]


def _condition_names(t: RunsTable, codes: Iterable[int]) -> dict[int, str]:
    """Name of a condition for a sentence: the levels of the factors that vary."""
    every = np.arange(len(t.runs))
    varying = list(t.varying(every, t.factors, {}))
    found = {}
    for code in codes:
        row = np.flatnonzero(t.condition == code)[0]
        found[code] = ", ".join(level_words(f, t.level_of(f, row)) for f in varying) or "the other condition"
    return found
