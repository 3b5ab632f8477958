"""Do rounds depend on each other, on what ran before, or on the place in the round? Tests over a whole family."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy.special

from .result import Floats

__all__ = ["ALARM", "Dependence", "carry_over", "dependence", "place_effect", "winsorized"]

ALARM = 0.007
"""Each of the two tests of a family's rounds alarms in so many reports on independent rounds."""
_SHUFFLES = 999


@dataclass(frozen=True, slots=True)
class Dependence:
    """How rounds of a family resemble their neighbours.

    Attributes
    ----------
    rho : float
        Autocorrelation at lag 1 of all conditions together, what chance alone gives taken off; 0 where none is seen.
    own : ndarray, shape (conditions,)
        That of each condition which stands out by itself, else 0.
    p : float
        Chance of such resemblance among independent rounds (all together, or the worst condition; doubled).
    """

    rho: float
    own: Floats
    p: float

    @property
    def alarm(self) -> bool:
        """Whether the rounds are not independent."""
        return self.p < 2 * ALARM


@lru_cache(maxsize=64)
def _orders(n: int) -> npt.NDArray[np.intp]:
    """The same random orders for the same n: a verdict does not change when it is computed again."""
    return np.random.default_rng(n).permuted(np.tile(np.arange(n), (_SHUFFLES, 1)), axis=1)


def winsorized(logs: Floats) -> Floats:
    """What is left of logs (rounds by conditions) without the level of each condition and of each round.

    Each condition in units of its own spread; what lies beyond 3 of them counts as 3.
    """
    left = logs - np.median(logs, axis=0)
    if logs.shape[1] > 1:
        left = left - (np.median if logs.shape[1] > 2 else np.mean)(left, axis=1, keepdims=True)
    left = left - np.median(left, axis=0)
    spread = 1.4826 * np.median(np.abs(left), axis=0)
    spread = np.where(spread > 0, spread, left.std(axis=0) + 1e-12)
    left = np.clip(left / spread, -3, 3)
    return np.asarray(left - left.mean(axis=0))


def dependence(logs: Floats) -> Dependence:
    """Lag-1 autocorrelation of a family's conditions, each against the others of its round.

    Parameters
    ----------
    logs : ndarray, shape (rounds, conditions)
        Logs of the values in time order. What all conditions of a round share cancels.

    Notes
    -----
    Autocorrelation of a short series is too small by (1 + 3 rho) / n (Marriott and Pope, Biometrika 41 (1954)
    390-402), which is put back. The tests shuffle whole rounds, so they are exact whatever the conditions share. Where
    all together are not significant at 5 %, one standard error is taken off: chance must not widen intervals.
    """
    n, k = logs.shape
    if n < 6 or k < 1:
        return Dependence(0.0, np.zeros(k), 1.0)
    left = winsorized(logs)
    if k == 2:  # one is the mirror image of the other
        left = left[:, :1]
    square = (left * left).sum(axis=0) + 1e-12
    r = (left[1:] * left[:-1]).sum(axis=0) / square
    shuffled = left[_orders(n)]
    by_chance = np.einsum("bnk,bnk->bk", shuffled[:, 1:], shuffled[:, :-1]) / square
    most = _SHUFFLES + 1

    def p_of(seen: float, chance: Floats) -> float:
        return (1 + int((chance >= seen - 1e-12).sum())) / most

    together = float(r.mean())
    p = p_of(together, by_chance.mean(axis=1))
    rho = (n * together + 1) / (n - 3)
    if p >= 0.05:
        rho -= n / (n - 3) * float(by_chance.mean(axis=1).std())
    alone = np.array([p_of(float(v), by_chance[:, i]) < 0.01 for i, v in enumerate(r)])
    own = np.where(alone, (n * r + 1) / (n - 3), 0.0)
    worst = p_of(float(r.max()), by_chance.max(axis=1)) if k > 2 else 1.0
    p = min(1.0, 2 * min(p, worst)) if k > 2 else min(1.0, 2 * p)
    return Dependence(max(0.0, rho), np.repeat(own, 2) if k == 2 else own, p)


def _centred(x: Floats) -> Floats:
    return np.asarray(x - x.mean(axis=0) - x.mean(axis=1, keepdims=True) + x.mean())


def _slope(logs: Floats, by: Floats) -> tuple[float, float]:
    """Regress what is left of logs on what is left of `by`; the slope, and its two-sided p."""
    n, k = logs.shape
    df = (n - 1) * (k - 1) - 1
    z = _centred(by)
    zz = float((z * z).sum())
    if df < 3 or zz < 1e-9:
        return 0.0, 1.0
    y = _centred(logs)
    spread = 1.4826 * float(np.median(np.abs(y)))
    y = _centred(np.clip(y, -4 * spread, 4 * spread)) if spread > 0 else y
    slope = float((z * y).sum()) / zz
    error = y - slope * z
    s = float(np.sqrt((error * error).sum() / df / zz))
    if s <= 0:
        return slope, 1.0
    return slope, 2 * float(scipy.special.stdtr(df, -abs(slope) / s))


def carry_over(logs: Floats, before: npt.NDArray[np.intp], level: float = 0.004) -> dict[int, float]:
    """Which condition changes what is measured right after it, and by how much (log).

    Parameters
    ----------
    logs : ndarray, shape (rounds, conditions)
    before : ndarray, shape (rounds, conditions)
        Code of the condition that was measured just before; -1: none.
    level : float
        Chance of a false alarm, over all conditions.
    """
    if logs.shape[1] < 2:
        return {}
    codes = [c for c in np.unique(before) if c >= 0 and 3 <= (before == c).sum() <= before.size - 3]
    found = {}
    for c in codes:
        slope, p = _slope(logs, (before == c).astype(float))
        if p < level / len(codes):
            found[int(c)] = slope
    return found


def place_effect(logs: Floats, place: Floats, level: float = 0.004) -> float:
    """Change of the log from one place in the round to the next; 0 where chance explains it."""
    if logs.shape[1] < 2 or not np.isfinite(place).all():
        return 0.0
    slope, p = _slope(logs, place)
    return slope if p < level else 0.0
