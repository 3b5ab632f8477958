"""Intervals of log ratios, and what a family of them decides: arrays in, codes out; `samples` puts them into words."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import scipy

from .median_ci import median_interval
from .rank_tests import (
    EXACT,
    hodges_lehmann,
    median,
    median_of_sorted,
    rank_sum_cut,
    signed_rank_interval,
    walsh,
)
from .result import Floats

ABOVE, BELOW, EQUIVALENT, OPEN = 1, -1, 2, 0
DEPLOYMENTS = 2
"""Fewest deployments from which anything can be said about a placement in general."""
SMALL_SHARE = 0.01
"""Differences that are tested at no more than this are tested with ranks capped at half of the rounds."""
MIXED_VARIANCE = 0.5
"""Variance of the standardised effects that the mixture of `nominal_level` weighs: narrowest near 10 to 20 rounds."""


@lru_cache(maxsize=8192)
def nominal_level(n: int, alpha: float) -> float:
    """Two-sided level at which to test after `n` rounds so that all looks together err with at most `alpha`.

    The likelihood ratio of Student's t with a normal mixture over the standardised effect is a nonnegative
    martingale under the null hypothesis (Lai, Ann. Statist. 4 (1976) 265-280; Wang and Ramdas, "Anytime-valid t-tests
    and confidence sequences for Gaussian means with unknown variance", 2023), so it exceeds 1 / alpha at any time with
    a chance of at most alpha. The value of t at which it does so is turned into the level of the fixed-n test.
    """
    if n < 3:
        return 0.0
    spread = 1 + n * MIXED_VARIANCE
    c = (math.sqrt(spread) / alpha) ** (2 / n)
    if c >= spread:
        return 0.0
    t = math.sqrt((n - 1) * (c - 1) / (1 - c / spread))
    return 2 * float(scipy.special.stdtr(n - 1, -t))


def rank_cap(n: int, error: float, equality: bool) -> int:
    """Cap of the scores of the signed-rank test at this error.

    One slow run in a dozen must not decide. For equality the scores are capped at a third of the rounds; for a
    difference at half of them where the error is a small share, and else not at all: Wilcoxon's test.
    """
    if equality:
        return max(2, -(-n // 3))
    return n if error > SMALL_SHARE else max(2, -(-n // 2))


Bounds: TypeAlias = tuple[float, float, float]
"""Lower end, upper end and actual error."""
UNBOUNDED: Bounds = (-math.inf, math.inf, 0.0)


class Estimate(ABC):
    """An estimate of a log ratio that can give its interval at any error."""

    n: int
    """Independent observations."""
    centre: float
    """The estimate; NaN without observations."""

    @abstractmethod
    def interval(self, error: float, equality: bool = False) -> Bounds:
        """The interval with at most this error; `UNBOUNDED` if none reaches it."""


class Rounds(Estimate):
    """Log ratios of paired rounds: the Hodges-Lehmann estimate, and the interval that inverts a signed-rank test."""

    def __init__(self, d: Floats) -> None:
        self.d, self.n = d, d.size
        self._walsh = walsh(d) if 0 < d.size <= EXACT else None
        averages = hodges_lehmann(d) if d.size > EXACT else math.nan
        self.centre = averages if self._walsh is None else median_of_sorted(self._walsh)
        self._intervals: dict[tuple[float, bool], Bounds] = {}

    def interval(self, error: float, equality: bool = False) -> Bounds:
        """The interval, never beyond the range of the rounds."""
        if (error, equality) not in self._intervals:
            cap = rank_cap(self.n, error, equality)
            low, high, tail = signed_rank_interval(self.d, error / 2, cap, self._walsh)
            self._intervals[error, equality] = (
                min(low, self.centre),
                max(high, self.centre),
                2 * tail,
            )
        return self._intervals[error, equality]


class Median(Estimate):
    """Log ratios to a threshold: the median, and the interval that a level has."""

    def __init__(self, d: Floats) -> None:
        self.d, self.n = d, d.size
        self.centre = float(np.median(d)) if d.size else math.nan

    def interval(self, error: float, equality: bool = False) -> Bounds:
        """The interval of the values themselves, as a level has it."""
        _, low, high, confidence = median_interval(np.exp(self.d)[None, :], 1 - error)
        if not 0 < error < 1 or confidence < 1 - error:
            return UNBOUNDED
        return math.log(low[0]), math.log(high[0]), error


class Units(Estimate):
    """Means of independent units (deployments, experiments), a log ratio each: Student's t.

    The variance of a unit and its degrees of freedom may be pooled over a family.
    """

    def __init__(self, y: Floats, variance: float, df: float) -> None:
        self.n, self.variance, self.df = y.size, variance, df
        self.centre = float(y.mean()) if y.size else math.nan

    def interval(self, error: float, equality: bool = False) -> Bounds:
        """The interval of Student's t."""
        if self.df < 1 or error <= 0:
            return UNBOUNDED
        half = student(self.df, error / 2) * math.sqrt(self.variance / self.n)
        return self.centre - half, self.centre + half, error


class Unblocked(Estimate):
    """Logs of two samples that share no rounds.

    The Hodges-Lehmann shift and the interval that inverts the Mann-Whitney test (Hollander, Wolfe and Chicken,
    section 4.3); of units (deployments) Welch's interval (Biometrika 34 (1947) 28-35).
    """

    def __init__(self, x: Floats, y: Floats, *, units: bool = False) -> None:
        self.x, self.y, self.units, self.n = x, y, units, min(x.size, y.size)
        self._shifts = np.sort((x[:, None] - y[None, :]).ravel())
        self.centre = math.nan
        if self.n:
            self.centre = float(x.mean() - y.mean() if units else np.median(self._shifts))

    def interval(self, error: float, equality: bool = False) -> Bounds:
        """The interval of Mann and Whitney's test, or of Welch's."""
        n, m = self.x.size, self.y.size
        if error <= 0 or self.n < 2:
            return UNBOUNDED
        if self.units:
            a, b = float(self.x.var(ddof=1)) / n, float(self.y.var(ddof=1)) / m
            df = (a + b) ** 2 / (a * a / (n - 1) + b * b / (m - 1)) if a + b else min(n, m) - 1.0
            half = student(df, error / 2) * math.sqrt(a + b)
            return self.centre - half, self.centre + half, error
        k, tail = rank_sum_cut(n, m, error / 2)
        if k < 0:
            return UNBOUNDED
        return float(self._shifts[k]), float(self._shifts[n * m - 1 - k]), 2 * tail


def student(df: float, tail: float) -> float:
    """Quantile of Student's t with this tail above it."""
    return float(scipy.special.stdtrit(df, 1 - tail))


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
    """Judge the contrasts of a family together, so that at most `alpha` of families contain a false verdict.

    Without an estimate no verdict is possible, and the contrast keeps its share of alpha. An edge is the log of
    1 + margin; 0 for a threshold, at which nothing is equivalent. Sequential: the data are looked at as they come in,
    and intervals hold at all looks together.

    Each contrast begins with alpha / m. One whose interval lies wholly beyond the margin can no longer be called
    falsely (neither equivalent nor, if the interval holds, in the wrong direction) and hands its share on, as in the
    closed procedure of Holm (Scand. J. Statist. 6 (1979) 65-70) but by a stricter rule: a contrast that is only shown
    to differ, or to be equivalent, keeps its share. Equivalence is the two one-sided tests of Schuirmann (1987), and
    the interval given for it is theirs.
    """
    m = len(estimates)
    freed: dict[int, tuple[float, float, float, int]] = {}
    while True:
        share = max(1, m - len(freed))
        intervals = {
            i: _interval(e, alpha / share, sequential)
            for i, e in enumerate(estimates)
            if e is not None and i not in freed
        }
        beyond = {
            i: (*v, share) for i, v in intervals.items() if v[0] > edges[i] or v[1] < -edges[i]
        }
        freed |= beyond
        if not beyond:
            break
    decisions = []
    for i, e in enumerate(estimates):
        if i in freed:
            low, high, error, count = freed[i]
            decisions.append(Decision(ABOVE if low > 0 else BELOW, low, high, 1 - error, count))
            continue
        if e is None:
            decisions.append(Decision(OPEN, -math.inf, math.inf, 0.0, share))
            continue
        if abs(e.centre) < edges[i]:
            low, high, error = _interval(e, 2 * alpha / share, sequential, equality=True)
            if -edges[i] < low and high < edges[i]:
                decisions.append(Decision(EQUIVALENT, low, high, 1 - error, share))
                continue
        low, high, error = intervals[i]
        decisions.append(
            Decision(ABOVE if low > 0 else BELOW if high < 0 else OPEN, low, high, 1 - error, share)
        )
    return decisions


def _interval(e: Estimate, alpha: float, sequential: bool, equality: bool = False) -> Bounds:
    """Bounds with an error of at most `alpha`, at all looks together if `sequential`."""
    low, high, error = e.interval(nominal_level(e.n, alpha) if sequential else alpha, equality)
    return low, high, alpha if sequential and error else error


def without_far(x: Floats) -> npt.NDArray[np.bool_]:
    """Which values remain without those far from the others; all of them if nearly a third would go."""
    distance = np.abs(x - median(x))
    near = distance <= max(5 * 1.4826 * median(distance), 0.05)
    return near if x.size and near.mean() > 0.7 else np.ones(x.size, dtype=bool)


def more_rounds(n: int, estimate: float, half_width: float, edge: float) -> int:
    """About how many more rounds an inconclusive contrast needs.

    The interval must become narrower than the distance of the estimate from no difference, or from the edge of the
    margin, whichever is farther; its width falls with the square root of the rounds, and 1.44 allows for chance.
    """
    target = max(abs(estimate), edge - abs(estimate))
    if not (math.isfinite(half_width) and target > 0):
        return 1
    return max(1, math.ceil(min(n * (half_width / target) ** 2 * 1.44, 1e9)) - n)
