"""Exact rank distributions and the estimates that rest on them, for many samples at once (one per row)."""

from __future__ import annotations

import math
from bisect import bisect_right
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy

from .result import Floats

EXACT = 400
"""Up to this many values the exact distribution costs milliseconds; beyond it the normal one is exact enough."""
_SLACK = 1e-12


@lru_cache(maxsize=512)
def _signed_rank_cdf(n: int, cap: int) -> Floats:
    """P(T <= t) of the signed-rank statistic with scores min(rank, cap), without ties."""
    p = np.zeros(1)
    p[0] = 1.0
    for k in range(1, n + 1):  # each score is in the sum, or not, with probability one half
        score = min(k, cap)
        p = (np.pad(p, (0, score)) + np.pad(p, (score, 0))) / 2
    return np.cumsum(p)


@lru_cache(maxsize=256)
def _rank_sum_cdf(n: int, m: int) -> Floats:
    """P(U <= u) of the Mann-Whitney statistic without ties, u = 0 … nm: the Gaussian binomial coefficients."""
    top = n * m
    c = np.zeros(top + 1)
    c[0] = 1.0
    for i in range(1, min(n, m) + 1):
        big = max(n, m) + i
        if big <= top:  # times (1 - q^big)
            c[big:] -= c[:-big].copy()
        for r in range(i):  # divided by (1 - q^i): a running sum with step i
            c[r::i] = np.cumsum(c[r::i])
    p = np.cumsum(c / math.comb(n + m, n))
    return np.minimum(p, 1.0)


@lru_cache(maxsize=4096)
def signed_rank_cut(n: int, tail: float, cap: int | None = None) -> tuple[int, float]:
    """Largest k with P(T <= k) <= `tail`, and that probability; k is -1 where there is none.

    T is the sum of the scores min(rank, cap) of the positive differences: Wilcoxon's statistic for a cap of n (the
    default), that of the sign test for 1.
    """
    if n > EXACT:
        scores = np.minimum(np.arange(1.0, n + 1), cap or n)
        k = math.floor(
            scores.sum() / 2
            + float(scipy.special.ndtri(tail)) * math.sqrt((scores**2).sum()) / 2
            - 0.5
        )
        return (k, tail) if k >= 0 else (-1, 0.0)
    return _cut(_signed_rank_cdf(n, min(cap or n, n)), tail)


def _cut(cdf: Floats, tail: float) -> tuple[int, float]:
    k = int(np.searchsorted(cdf, tail + _SLACK, side="right")) - 1
    return k, float(cdf[k]) if k >= 0 else 0.0


def signed_rank_interval(
    d: Floats, tail: float, cap: int | None = None, averages: Floats | None = None
) -> tuple[float, float, float]:
    """The interval that inverts the signed-rank test with scores min(rank, cap), and its actual tail on each side.

    It never leaves the range of the values; infinite where no interval reaches `tail`. Its ends are Walsh averages,
    at which alone the statistic changes (Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, section 3.3).
    """
    n = d.size
    k, real = signed_rank_cut(n, tail, cap) if tail > 0 and n else (-1, 0.0)
    if k < 0:
        return -math.inf, math.inf, 0.0
    if n <= EXACT:
        w = walsh(d) if averages is None else averages
        if cap is None or cap >= n:
            return float(w[k]), float(w[-1 - k]), real
        return _first_beyond(d, w, k, cap), -_first_beyond(-d, -w[::-1], k, cap), real
    return _lower_end(d, k, cap or n), -_lower_end(-d, k, cap or n), real


def _scores_below(d: Floats, at: float, scores: Floats) -> float:
    """Sum of the scores of the values below `at`."""
    left = d - at
    return float(scores @ (left.take(np.abs(left).argsort()) < 0))


def _first_beyond(d: Floats, w: Floats, k: int, cap: int) -> float:
    """Smallest of the sorted Walsh averages `w` just above which the values below have a sum of scores beyond k."""
    scores = np.minimum(np.arange(1.0, d.size + 1), cap)
    averages = w.tolist()
    low, high = 0, w.size - 1
    while low < high:
        j = (low + high) // 2
        later = bisect_right(averages, averages[j], j)
        between = averages[j] + (averages[later] - averages[j]) / 2 if later < w.size else math.inf
        if _scores_below(d, between, scores) > k:
            high = j
        else:
            low = j + 1
    return float(averages[low])


def _lower_end(d: Floats, k: int, cap: int) -> float:
    """The same for many values, by halving the range: their Walsh averages are too many to make."""
    scores = np.minimum(np.arange(1.0, d.size + 1), cap)
    low, high = float(d.min()), float(np.median(d))
    while low < (t := low + (high - low) / 2) < high and high - low > 1e-9 * abs(high):
        if _scores_below(d, t, scores) > k:
            high = t
        else:
            low = t
    return high


@lru_cache(maxsize=4096)
def rank_sum_cut(n: int, m: int, tail: float) -> tuple[int, float]:
    """Largest k with P(U <= k) <= `tail`, and that probability; k is -1 where there is none."""
    if n * m > 2500:  # the alternating sums of the exact distribution lose digits beyond this
        k = math.floor(
            n * m / 2 + float(scipy.special.ndtri(tail)) * math.sqrt(n * m * (n + m + 1) / 12) - 0.5
        )
        return (k, tail) if k >= 0 else (-1, 0.0)
    return _cut(_rank_sum_cdf(n, m), tail)


@lru_cache(maxsize=64)
def _pairs(n: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    return np.triu_indices(n)


def walsh(d: Floats) -> Floats:
    """Sorted Walsh averages (means of all pairs, each value with itself too): n (n + 1) / 2 of n values."""
    one, two = _pairs(d.size)
    return np.sort((d[one] + d[two]) / 2)


def median_of_sorted(s: Floats) -> float:
    """Median of sorted values."""
    return float((s[(s.size - 1) // 2] + s[s.size // 2]) / 2)


def median(x: Floats) -> float:
    """Median of finite values, NaN of none: of a few, several times as fast as numpy's."""
    return median_of_sorted(np.sort(x)) if x.size else math.nan


def hodges_lehmann(x: Floats) -> float:
    """Median of the Walsh averages (Hodges and Lehmann, Ann. Math. Statist. 34 (1963) 598-611).

    Beyond some hundred values the averages are counted, not made: their number grows with the square.
    """
    n = x.size
    if n <= EXACT:
        return median_of_sorted(walsh(x))
    s = np.sort(x)
    half = (n * (n + 1) // 2 + 1) // 2
    low, high = float(s[0]), float(s[-1])
    while True:  # halve the range that holds the middle average until no number lies inside
        t = low + (high - low) / 2
        if not low < t < high:
            return high
        partners = np.searchsorted(s, 2 * t - s, side="right") - np.arange(n)
        if int(np.maximum(partners, 0).sum()) >= half:
            high = t
        else:
            low = t


def neighbours_p(x: Floats) -> float:
    """Return the one-sided p of neighbours in a series that resemble each other.

    Rank correlation at lag 1, by its normal distribution (Wald and Wolfowitz, Ann. Math. Statist. 14
    (1943) 378-388); 1 for fewer than 6 values, or values that are all alike.
    """
    if x.size < 6 or np.ptp(x) == 0:
        return 1.0
    _, which, count = np.unique(x, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(count) - count / 2)[which] - x.size / 2
    variance = float((ranks**2).mean())
    z = (float(ranks[1:] @ ranks[:-1]) + variance) / (variance * math.sqrt(x.size))
    return float(scipy.special.ndtr(-z))
