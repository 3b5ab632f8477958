"""Intervals of log ratios, and what a family of them decides: arrays in, codes out; no words."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import scipy

from .median_ci import LONG_SERIES, median_interval
from .result import Floats

ABOVE, BELOW, EQUIVALENT, OPEN = 1, -1, 2, 0
DEPLOYMENTS = 2
"""Fewest deployments from which anything can be said about a placement in general."""
MAX_PAIRED = 400
"""Of more rounds than this neighbours are merged, so that the exact distribution stays cheap."""
BLOCKS = 24
"""Parts of a long series against a threshold."""
MIXED_VARIANCE = 0.5
"""Variance of the effects that the mixture of `nominal_level` weighs: narrowest near 10 to 20
rounds."""
_SLACK = 1e-12

Bounds: TypeAlias = tuple[float, float, float]
"""Lower end, upper end and actual error."""
UNBOUNDED: Bounds = (-math.inf, math.inf, 1.0)


@lru_cache(maxsize=8192)
def nominal_level(n: int, alpha: float) -> float:
    """Return the level of the fixed-n test at which all looks together err with at most `alpha`.

    The bound of Student's t that holds at any time (Lai, Ann. Statist. 4 (1976) 265-280; Wang and
    Ramdas, 2023) is turned into the level of a rank test. No theorem covers that step: it is
    checked by simulation.
    """
    if n < 3:
        return 0.0
    spread = 1 + n * MIXED_VARIANCE
    c = (math.sqrt(spread) / alpha) ** (2 / n)
    if c >= spread:
        return 0.0
    t = math.sqrt((n - 1) * (c - 1) / (1 - c / spread))
    return 2 * float(scipy.special.stdtr(n - 1, -t))


class Rounds:
    """Log ratios of paired rounds: the Hodges-Lehmann estimate, and an exact signed-rank interval.

    The scores are the ranks, capped at a third of the rounds: one slow run in a dozen must not
    decide. It is one statistic for differences and for equality, at every error, so that a larger
    family never narrows an interval.
    """

    method = "paired by {}, Hodges-Lehmann, exact capped signed rank"
    assumed = "the ratios of the {}s scatter evenly around their median, on a log scale"

    def __init__(self, d: Floats) -> None:
        self.n = d.size
        if d.size > MAX_PAIRED:
            d = np.array([np.median(part) for part in np.array_split(d, MAX_PAIRED)])
        self.d = d
        one, two = np.triu_indices(d.size)
        self.walsh = np.sort((d[one] + d[two]) / 2)
        self.centre = float(np.median(self.walsh)) if d.size else math.nan

    def interval(self, error: float) -> Bounds:
        """Return the interval with at most this error, never beyond the range of the rounds."""
        n = self.d.size
        cap = max(2, -(-n // 3))
        k, tail = cut(signed_rank_cdf(n, cap), error / 2)
        if k < 0:
            return UNBOUNDED
        low = _end(self.d, self.walsh, k, cap)
        high = -_end(-self.d, -self.walsh[::-1], k, cap)
        return min(low, self.centre), max(high, self.centre), 2 * tail


@lru_cache(maxsize=512)
def signed_rank_cdf(n: int, cap: int) -> Floats:
    """Return P(T <= t) of the sum of the scores min(rank, cap) of the positive differences."""
    p = np.ones(1)
    for rank in range(
        1, n + 1
    ):  # each score is in the sum, or not, with probability one half
        score = min(rank, cap)
        p = (np.pad(p, (0, score)) + np.pad(p, (score, 0))) / 2
    return np.cumsum(p)


def cut(cdf: Floats, tail: float) -> tuple[int, float]:
    """Return the largest k with P(T <= k) <= `tail`, and that probability.

    -1 where there is none.
    """
    k = int(np.searchsorted(cdf, tail + _SLACK, side="right")) - 1
    return (k, float(cdf[k])) if k >= 0 and tail > 0 else (-1, 0.0)


def _end(d: Floats, walsh: Floats, k: int, cap: int) -> float:
    """Return the smallest Walsh average just above which the values below have scores beyond k.

    The statistic changes at Walsh averages alone (Hollander, Wolfe and Chicken, Nonparametric
    Statistical Methods, section 3.3).
    """
    scores = np.minimum(np.arange(1.0, d.size + 1), cap)
    distinct = np.unique(walsh)
    between = np.append((distinct[:-1] + distinct[1:]) / 2, math.inf)

    def beyond(at: float) -> bool:
        left = d - at
        return bool(scores @ (left[np.abs(left).argsort()] < 0) > k)

    return float(distinct[bisect_left(between, x=True, key=beyond)])


class Median:
    """Log ratios to a threshold: the median, and the interval that a level has.

    Runs of an hour resemble each other: of a long series the medians of `BLOCKS` parts count.
    """

    method = "by {}, median, interpolated order statistics"
    assumed = "the runs measure one level"

    def __init__(self, d: Floats) -> None:
        if d.size >= LONG_SERIES:
            d = np.array([np.median(part) for part in np.array_split(d, BLOCKS)])
        self.n = d.size
        self.d = d
        self.centre = float(np.median(d)) if d.size else math.nan

    def interval(self, error: float) -> Bounds:
        """Return the interval of the values themselves, as a level has it."""
        if not 0 < error < 1:
            return UNBOUNDED
        low, high, confidence = median_interval(np.exp(self.d), 1 - error)
        if confidence < 1 - error:
            return UNBOUNDED
        return math.log(low), math.log(high), error


class Units:
    """Log ratios of independent units, such as deployments: Student's t over them.

    Logs of two sides that share no unit: Welch's t (Biometrika 34 (1947) 28-35).
    """

    assumed = "each {} is an independent draw of where VMs land, and their means are near normal"

    def __init__(self, *sides: Floats) -> None:
        self.n = min(side.size for side in sides)
        self.d = sides[0]
        self.centre = float(sides[0].mean() - sum(side.mean() for side in sides[1:]))
        self.parts = [
            (float(v.var(ddof=1)) / v.size, v.size - 1) for v in sides if v.size > 1
        ]
        apart = len(sides) > 1
        self.method = (
            "unpaired, Welch over {}s" if apart else "paired by {}, Student's t over them"
        )

    def interval(self, error: float) -> Bounds:
        """Return the interval of the mean, or of the difference of two means."""
        if self.n < 2 or error <= 0:
            return UNBOUNDED
        variance = sum(part for part, _ in self.parts)
        df = min(df for _, df in self.parts) * 1.0
        if variance:
            df = variance**2 / sum(part**2 / df for part, df in self.parts)
        half = float(scipy.special.stdtrit(df, 1 - error / 2)) * math.sqrt(variance)
        return self.centre - half, self.centre + half, error


class Unpaired:
    """Logs of two samples that share no round: the interval that inverts the Mann-Whitney test."""

    method = "unpaired, Mann-Whitney shift"
    assumed = (
        "runs are independent, of distributions of one shape, and nothing drifted between"
    )

    def __init__(self, x: Floats, y: Floats) -> None:
        self.sizes = x.size, y.size
        self.n = min(self.sizes)
        self.d = np.sort((x[:, None] - y[None, :]).ravel())
        self.centre = float(np.median(self.d)) if self.n else math.nan

    def interval(self, error: float) -> Bounds:
        """Return the interval of the shift (Hollander, Wolfe and Chicken, section 4.3)."""
        n, m = self.sizes
        if error <= 0 or not self.n:
            return UNBOUNDED
        if n * m > 2500:  # the alternating sums of the exact distribution lose digits
            spread = math.sqrt(n * m * (n + m + 1) / 12)
            k = math.floor(
                n * m / 2 + float(scipy.special.ndtri(error / 2)) * spread - 0.5
            )
            tail = error / 2
        else:
            k, tail = cut(rank_sum_cdf(n, m), error / 2)
        if k < 0:
            return UNBOUNDED
        return float(self.d[k]), float(self.d[-1 - k]), 2 * tail


@lru_cache(maxsize=256)
def rank_sum_cdf(n: int, m: int) -> Floats:
    """Return P(U <= u) of the Mann-Whitney statistic: the Gaussian binomial coefficients."""
    top = n * m
    counts = np.zeros(top + 1)
    counts[0] = 1.0
    for i in range(1, min(n, m) + 1):
        big = max(n, m) + i
        if big <= top:  # times (1 - q^big)
            counts[big:] -= counts[:-big].copy()
        for r in range(i):  # divided by (1 - q^i): a running sum with step i
            counts[r::i] = np.cumsum(counts[r::i])
    return np.minimum(np.cumsum(counts / math.comb(n + m, n)), 1.0)


Estimate: TypeAlias = Rounds | Median | Units | Unpaired


@dataclass(frozen=True, slots=True)
class Decision:
    """What an interval decided: log ratios, and the actual confidence of the interval."""

    code: int
    low: float
    high: float
    confidence: float
    share: int
    """Contrasts that shared alpha when this one was decided."""


def decide(
    estimates: Sequence[Estimate | None],
    edges: Sequence[float],
    alpha: float,
    *,
    sequential: bool = False,
) -> list[Decision]:
    """Judge the contrasts of a family together.

    At most `alpha` of families contain a false verdict.

    Without an estimate no verdict is possible, and the contrast keeps its share of alpha. An edge
    is the log of 1 + margin; 0 for a threshold, at which nothing is equivalent. Sequential: the
    data are looked at as they come in, and intervals hold at all looks together.

    Each contrast begins with alpha / m. One whose interval lies wholly beyond the margin can no
    longer be called falsely (neither equivalent nor, if the interval holds, in the wrong direction)
    and hands its share on, a stricter rule than Holm's (Scand. J. Statist. 6 (1979) 65-70).
    Equivalence is the two one-sided tests of Schuirmann (1987), and the interval given for it is
    theirs.
    """

    def interval(i: int, error: float) -> Bounds:
        estimate = estimates[i]
        if estimate is None:
            return UNBOUNDED
        level = nominal_level(estimate.n, error) if sequential else error
        low, high, actual = estimate.interval(level)
        return low, high, error if sequential and actual < 1 else actual

    size = len(estimates)
    decided: dict[int, Decision] = {}
    while True:
        share = max(1, size - len(decided))
        ends = {i: interval(i, alpha / share) for i in range(size) if i not in decided}
        beyond = {
            i: Decision(ABOVE if low > 0 else BELOW, low, high, 1 - error, share)
            for i, (low, high, error) in ends.items()
            if low > edges[i] or high < -edges[i]
        }
        decided |= beyond
        if not beyond:
            break
    for i, (low, high, error) in ends.items():
        inside = interval(i, 2 * alpha / share)
        code = ABOVE if low > 0 else BELOW if high < 0 else OPEN
        if high - low < math.inf and -edges[i] < inside[0] and inside[1] < edges[i]:
            code, (low, high, error) = EQUIVALENT, inside
        decided[i] = Decision(code, low, high, 1 - error, share)
    return [decided[i] for i in range(size)]


def more_rounds(n: int, estimate: float, half_width: float, edge: float) -> int:
    """Return about how many more rounds an inconclusive contrast needs.

    The interval must become narrower than the distance of the estimate from no difference, or from
    the edge of the margin, whichever is farther; its width falls with the square root of the
    rounds, and 1.44 allows for chance.
    """
    target = max(abs(estimate), edge - abs(estimate))
    if not (math.isfinite(half_width) and target > 0):
        return 1
    return max(1, math.ceil(min(n * (half_width / target) ** 2 * 1.44, 1e9)) - n)
