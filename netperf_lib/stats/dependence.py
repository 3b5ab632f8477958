"""Do rounds depend on each other, on what ran before, or on the place in the round? Tests over a whole family."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy

from .rank_tests import permutations
from .result import Floats

ALARM = 0.007
"""False-alarm rate of each of the two tests of a family's rounds: share of reports on independent rounds."""
_SHUFFLES = 999


@dataclass(frozen=True, slots=True)
class Dependence:
    """How rounds of a family resemble their neighbours.

    Attributes
    ----------
    rho : float
        Autocorrelation at lag 1 of all conditions together, less what chance alone gives; 0 if none is seen.
    own : ndarray, shape (conditions,)
        The same for each condition that stands out on its own, else 0.
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


def winsorized(logs: Floats) -> Floats:
    """Residuals of logs (rounds by conditions) without the level of each condition and of each round.

    Each condition in units of its own spread; values beyond 3 units count as 3.
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

    The logs are (rounds, conditions) in time order; what all conditions of a round share cancels. Autocorrelation of a
    short series is too small by (1 + 3 rho) / n (Marriott and Pope, Biometrika 41 (1954) 390-402), which is put back.
    The tests shuffle whole rounds, so they are exact whatever the conditions share. Where all together are not
    significant at 5 %, one standard error is taken off: chance must not widen intervals.
    """
    n, k = logs.shape
    if n < 6 or k < 1:
        return Dependence(0.0, np.zeros(k), 1.0)
    left = winsorized(logs)
    if k == 2:  # one is the mirror image of the other
        left = left[:, :1]
    square = (left * left).sum(axis=0) + 1e-12
    r = (left[1:] * left[:-1]).sum(axis=0) / square
    shuffled = left[permutations(n, _SHUFFLES)]
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


@dataclass(frozen=True, slots=True)
class States:
    """Conditions that changed between two states while they were measured.

    Attributes
    ----------
    upper : dict of int to ndarray of bool
        Index of a condition to the rounds in which it was in its upper state; with only two conditions it is not known
        which of them changed, so both are included.
    gap : float
        Log distance of the states, where it is clear that they last for several rounds or are equally common; else 0.
        A condition that was seen in only one state may then have another one too.
    """

    upper: dict[int, npt.NDArray[np.bool_]]
    gap: float = 0.0


def path_states(logs: Floats) -> States:
    """Find conditions whose rounds fall into two states, each condition against the others of its round.

    A path that changes its state from time to time gives rounds of two kinds. How often each occurs is as uncertain as
    the few changes that were seen, so an interval must cover both. The logs are (rounds, conditions) in time order; of
    a single column, the values themselves.

    The likelihood of a hidden Markov chain of two normal states that stays where it is with a chance of 0.8, at the
    best of a grid of states, against that of one normal state; the ratio is compared with that of normal samples. Rare
    rounds that lie apart (fewer than a fifth) are a state only where they follow each other, by the runs test of Wald
    and Wolfowitz (Ann. Math. Statist. 11 (1940) 147-162); else see `evidence.without_far`.
    """
    n, k = logs.shape
    if n < 6:
        return States({})
    if k > 2:
        level = logs - np.median(logs, axis=0)
        rest = np.stack([level[:, c] - np.median(np.delete(level, c, axis=1), axis=1) for c in range(k)])
    else:
        rest = (logs[:, :1] - logs[:, 1:] if k == 2 else logs).T
    ratio, split = _two_states(rest)
    p = (1 + _CHAINS - np.searchsorted(_two_states_null(n if n < 20 else n // 5 * 5), ratio)) / (1 + _CHAINS)
    upper: dict[int, npt.NDArray[np.bool_]] = {}
    gaps, orders, common = [], [], False
    for c in np.flatnonzero(p < 0.01):
        high = rest[c] > split[c]
        few = int(min(high.sum(), n - high.sum()))
        order = _runs_p(1 + int((high[1:] != high[:-1]).sum()), few, n - few) if few else 1.0
        if few >= max(2, 0.2 * n) or (few > 1 and order <= 0.12):
            upper[int(c)] = high
            gaps.append(float(rest[c][high].mean() - rest[c][~high].mean()) if p[c] < 0.0015 else 0.0)
            orders.append(order)
            common |= p[c] < 0.0015 and few >= 0.3 * n
    lasting = bool(orders) and float(scipy.special.gammaincc(len(orders), -np.log(orders).sum())) < 0.15  # Fisher's
    gap = max(gaps) if common or lasting else 0.0
    return States(upper | {1: upper[0]} if k == 2 and upper else upper, gap)


_CHAINS = 1999
# shares of the rounds in the upper state, and distances of the states in units of the spread within them
_SHARES, _APART = (v.ravel() for v in np.meshgrid([0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9], [2.5, 3.5, 5.0, 8.0]))


def _two_states(x: Floats) -> tuple[Floats, Floats]:
    """Log likelihood ratio of two lasting states against one, of each row; and the value between the states."""
    middle, spread = x.mean(axis=1, keepdims=True), x.std(axis=1, keepdims=True) + 1e-12
    z = (x - middle) / spread
    within = 1 / np.sqrt(1 + _SHARES * (1 - _SHARES) * _APART**2)  # of a variance of one
    low, high = -_SHARES * _APART * within, (1 - _SHARES) * _APART * within
    one = np.full((z.shape[0], _SHARES.size), 0.5)
    two, total = one, np.zeros_like(one)
    for t in range(z.shape[1]):
        v = z[:, t : t + 1]
        one = one * np.exp(-(((v - low) / within) ** 2) / 2)
        two = two * np.exp(-(((v - high) / within) ** 2) / 2)
        weight = one + two + 1e-300
        total += np.log(weight / within)
        one, two = (0.8 * one + 0.2 * two) / weight, (0.2 * one + 0.8 * two) / weight
    best = total.argmax(axis=1)
    ratio = total.max(axis=1) + (z * z).sum(axis=1) / 2
    return ratio, middle[:, 0] + spread[:, 0] * ((low + high) / 2)[best]


@lru_cache(maxsize=64)
def _two_states_null(n: int) -> Floats:
    return np.sort(_two_states(np.random.default_rng(n).standard_normal((_CHAINS, n)))[0])


@lru_cache(maxsize=4096)
def _runs_p(runs: int, a: int, b: int) -> float:
    """Chance of so few runs in a random order of `a` and `b` things of two kinds."""
    ways = 0
    for r in range(2, runs + 1):
        one, other = math.comb(a - 1, r // 2 - 1), math.comb(b - 1, r // 2 - 1)
        ways += math.comb(a - 1, r // 2) * other + one * math.comb(b - 1, r // 2) if r % 2 else 2 * one * other
    return ways / math.comb(a + b, a)


def _centred(x: Floats) -> Floats:
    return np.asarray(x - x.mean(axis=0) - x.mean(axis=1, keepdims=True) + x.mean())


def _slope(logs: Floats, by: Floats) -> tuple[float, float]:
    """Regress the residuals of logs on those of `by`; return the slope and its two-sided p."""
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


def carry_over(logs: Floats, before: npt.NDArray[np.intp]) -> dict[int, float]:
    """Conditions that change the values measured right after them, and by how much (log).

    Both arrays are (rounds, conditions); `before` holds the code of the condition measured just before (-1: none). A
    false alarm occurs in 0.4 % of clean experiments; with two or three conditions, whose order cannot balance what
    precedes them, in a fifth.
    """
    level = 0.2 if logs.shape[1] <= 3 else 0.004
    if logs.shape[1] < 2:
        return {}
    codes = [c for c in np.unique(before) if c >= 0 and 3 <= (before == c).sum() <= before.size - 3]
    found = {}
    for c in codes:
        slope, p = _slope(logs, (before == c).astype(float))
        if p < level / len(codes):
            found[int(c)] = slope
    return found


def place_effect(logs: Floats, place: Floats) -> float:
    """Change of the log from one place in the round to the next; 0 where chance explains it."""
    if logs.shape[1] < 2 or not np.isfinite(place).all():
        return 0.0
    slope, p = _slope(logs, place)
    return slope if p < 0.004 else 0.0
