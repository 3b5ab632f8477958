"""Intervals and verdicts of many contrasts at once: arrays in, codes out; `contrast` puts them into words."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .rank import lag1_p, rank_sum_cut, signed_rank_cut, walsh
from .result import Floats

__all__ = [
    "DEPENDENT",
    "Judged",
    "judge_paired",
    "judge_unpaired",
    "more_rounds",
    "rounds_required",
    "verdict_of",
    "widening",
]

DEPENDENT = 0.01
"""Rounds whose lag-1 rank permutation test falls below this are not independent, and get no verdict."""


def rounds_required(alpha: float = 0.05, family: int = 1) -> int:
    """Smallest number of paired rounds from which a verdict is possible at all.

    With n rounds an exact paired test cannot reach a p below 2 ** (1 - n).

    Parameters
    ----------
    alpha : float
        Share of families with a false verdict.
    family : int
        Contrasts that share `alpha`.
    """
    return max(6, math.ceil(math.log2(2 * family / alpha)))


def verdict_of(low: Floats, high: Floats, inner_low: Floats, inner_high: Floats, margin: float) -> npt.NDArray[np.int8]:
    """Judge intervals of log ratios: 1 above, -1 below, 2 equivalent, 0 inconclusive.

    Parameters
    ----------
    low, high : ndarray
        The two-sided interval at 1 - alpha / m.
    inner_low, inner_high : ndarray
        The interval at 1 - 2 alpha / m: inside the margin, it shows equivalence (two one-sided tests, Schuirmann
        1987). A difference that is certain but inside the margin is called equivalent.
    margin : float
        As a share: 0.05 is ±5 %.
    """
    edge = math.log1p(margin)
    side = np.where(low > 0, 1, np.where(high < 0, -1, 0))
    return np.where((inner_low > -edge) & (inner_high < edge), 2, side).astype(np.int8)


def widening(d: Floats) -> Floats:
    """Factor by which rounds that resemble their neighbours widen an interval, for each row of `d`.

    sqrt((1 + r) / (1 - r)) is the factor of a first-order autoregression with lag-1 autocorrelation r, kept in
    0 … 0.9. In short series r is too small by about (1 + 3 r) / n (Marriott and Pope, Biometrika 41 (1954) 390-402);
    the part that grows with r is put back, the constant part is not: it would widen independent rounds too.
    """
    n = d.shape[1]
    e = d - d.mean(axis=1, keepdims=True)
    v = (e * e).sum(axis=1)
    r = np.divide((e[:, 1:] * e[:, :-1]).sum(axis=1), v, out=np.zeros_like(v), where=v > 0)
    r = np.clip(r * (1 + 3 / n), 0, 0.9)
    return np.asarray(np.sqrt((1 + r) / (1 - r)))


@dataclass(frozen=True, slots=True)
class Judged:
    """Intervals and verdicts of many contrasts at once; arrays of shape (samples,), log ratios."""

    estimate: Floats
    low: Floats
    high: Floats
    code: npt.NDArray[np.int8]
    """1 above, -1 below, 2 equivalent, 0 inconclusive, -2 rounds not independent."""
    lag1: Floats
    factor: Floats
    confidence: float


def judge_paired(d: Floats, margin: float, alpha: float, family: int) -> Judged:
    """Judge log ratios of paired rounds.

    Parameters
    ----------
    d : ndarray, shape (samples, n)
        Log ratios in time order; one row a contrast, n at least `rounds_required(alpha, family)`.

    Notes
    -----
    Hodges-Lehmann estimate and the exact interval that inverts Wilcoxon's signed-rank test (Hollander, Wolfe and
    Chicken, Nonparametric Statistical Methods, section 3.3), widened by `widening`.
    """
    n = d.shape[1]
    w = walsh(d)
    estimate = np.median(w, axis=1)
    factor = widening(d)
    ends = []
    confidence = 0.0
    for tail in (alpha / family / 2, alpha / family):
        k, real = signed_rank_cut(n, tail)
        confidence = confidence or 1 - 2 * real
        ends += [estimate + (w[:, j] - estimate) * factor for j in (k, w.shape[1] - 1 - k)]
    code = verdict_of(ends[0], ends[1], ends[2], ends[3], margin)
    p = lag1_p(d)
    code[p < DEPENDENT] = -2
    return Judged(estimate, ends[0], ends[1], code, p, factor, confidence)


def judge_unpaired(x: Floats, y: Floats, margin: float, alpha: float, family: int) -> Judged:
    """Judge logs of two independent samples; rows are contrasts.

    Parameters
    ----------
    x, y : ndarray, shapes (samples, n) and (samples, m)
        Logs of A's and B's values in time order.

    Notes
    -----
    Hodges-Lehmann shift and the interval that inverts the Mann-Whitney test (Hollander, Wolfe and Chicken, section
    4.3), widened by both sides' autocorrelation.
    """
    n, m = x.shape[1], y.shape[1]
    w = (x[:, :, None] - y[:, None, :]).reshape(x.shape[0], n * m)
    w.sort(axis=1)
    estimate = np.median(w, axis=1)
    factor = np.sqrt((widening(x) ** 2 * m + widening(y) ** 2 * n) / (n + m))
    ends = []
    confidence = 0.0
    for tail in (alpha / family / 2, alpha / family):
        k, real = rank_sum_cut(n, m, tail)
        confidence = confidence or 1 - 2 * real
        ends += [estimate + (w[:, j] - estimate) * factor for j in (k, n * m - 1 - k)]
    code = verdict_of(ends[0], ends[1], ends[2], ends[3], margin)
    p = np.minimum(1.0, 2 * np.minimum(lag1_p(x), lag1_p(y)))  # two sides were looked at
    code[p < DEPENDENT] = -2
    return Judged(estimate, ends[0], ends[1], code, p, factor, confidence)


def more_rounds(n: int, estimate: float, half_width: float, margin: float) -> int:
    """About how many more rounds an inconclusive contrast needs.

    The interval must become narrower than the distance of the estimate from no difference, or from the edge of the
    margin, whichever is farther; its width falls with the square root of the rounds, and 1.44 allows for chance.
    """
    edge = math.log1p(margin)
    target = max(abs(estimate), edge - abs(estimate))
    return max(1, math.ceil(n * (half_width / target) ** 2 * 1.44) - n)
