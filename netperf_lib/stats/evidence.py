"""Intervals of log ratios and what they decide: arrays in, codes out; `verdict` puts them into words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import scipy

from .rank_tests import rank_sum_cut, signed_rank_cut, walsh
from .result import Floats
from .sequential import nominal_level

ABOVE, BELOW, EQUIVALENT, OPEN = 1, -1, 2, 0
DEPLOYMENTS = 2
"""Fewest deployments from which anything can be said about a placement in general."""


def rounds_required(alpha: float = 0.05, family: int = 1) -> int:
    """Smallest number of paired rounds from which a verdict is possible at all.

    With n rounds an exact paired test cannot reach a p below 2 ** (1 - n); `family` contrasts share alpha.
    """
    return max(6, math.ceil(math.log2(2 * family / alpha)))


def autocorrelation_factor(rho: float) -> float:
    """How many dependent rounds count as one: (1 + rho) / (1 - rho), of a first-order autoregression."""
    rho = min(max(rho, 0.0), 0.8)  # beyond that, a few rounds cannot show how much
    return (1 + rho) / (1 - rho)


def _t(df: float, tail: float) -> float:
    return float(scipy.special.stdtrit(df, 1 - tail))


class Estimate(Protocol):
    """An estimate of a log ratio that can give its interval at any level."""

    n: int
    """Independent observations."""
    middle: float
    """The estimate."""

    def ends(self, tail: float) -> tuple[float, float, float]:
        """Lower end, upper end, and the actual tail beyond each; infinite if no interval reaches `tail`."""
        ...


@dataclass(slots=True)
class Rounds:
    """Log ratios of paired rounds: the Hodges-Lehmann estimate and the interval that inverts the signed-rank test.

    Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, section 3.3.
    """

    d: Floats
    factor: float = 1.0
    """This many rounds count as one (`autocorrelation_factor`): the interval widens by its square root, and its
    quantile is that of Student's t with the rounds that are left."""
    groups: tuple[npt.NDArray[np.bool_], ...] = ()
    """Ways in which rounds fall into two states (`dependence.path_states`): the interval covers the mean of each."""
    reach: float = 0.0
    """Added to both ends: a bias of known size, or a step of the values."""
    n: int = field(init=False)
    middle: float = field(init=False)
    _walsh: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._walsh = walsh(self.d[None, :])[0]
        self.n = int(self.d.size)
        self.middle = float(np.median(self._walsh)) if self.n else math.nan

    def ends(self, tail: float) -> tuple[float, float, float]:
        """Lower end, upper end, and the actual tail beyond each."""
        k, real = signed_rank_cut(self.n, tail) if tail > 0 else (-1, 0.0)
        if k < 0:
            return -math.inf, math.inf, 0.0
        w, middle = self._walsh, self.middle
        f = math.sqrt(self.factor)
        if self.factor > 1:
            worth = max(self.n / self.factor, 3.0)
            f *= _t(worth - 1, tail) / _t(self.n - 1, tail)
        low, high = (middle + (float(w[j]) - middle) * f for j in (k, w.size - 1 - k))
        for upper in self.groups:
            states = [v for v in (self.d[upper], self.d[~upper]) if v.size]
            spread = math.sqrt(sum(v.size * float(v.var()) for v in states) / (self.n - len(states)))
            for v in states:
                centre, half = float(v.mean()), _t(self.n - len(states), tail) * spread / math.sqrt(v.size)
                low, high = min(low, centre - half), max(high, centre + half)
        return low - self.reach, high + self.reach, real


@dataclass(slots=True)
class Units:
    """Means of independent units (deployments, experiments), a log ratio each: Student's t.

    The variance of a unit and its degrees of freedom may be pooled over a family.
    """

    y: Floats
    variance: float
    df: float
    reach: float = 0.0
    n: int = field(init=False)
    middle: float = field(init=False)

    def __post_init__(self) -> None:
        self.n = int(self.y.size)
        self.middle = float(self.y.mean()) if self.n else math.nan

    def ends(self, tail: float) -> tuple[float, float, float]:
        """Lower end, upper end, and the actual tail beyond each."""
        if self.df < 1 or tail <= 0:
            return -math.inf, math.inf, 0.0
        half = _t(self.df, tail) * math.sqrt(self.variance / self.n) + self.reach
        return self.middle - half, self.middle + half, tail


@dataclass(slots=True)
class Unblocked:
    """Logs of two samples that share no rounds.

    The Hodges-Lehmann shift and the interval that inverts the Mann-Whitney test (Hollander, Wolfe and Chicken,
    section 4.3); of units (deployments) Welch's interval (Biometrika 34 (1947) 28-35).
    """

    x: Floats
    y: Floats
    units: bool = False
    factor: float = 1.0
    reach: float = 0.0
    n: int = field(init=False)
    middle: float = field(init=False, default=math.nan)
    _shifts: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._shifts = np.sort((self.x[:, None] - self.y[None, :]).ravel())
        self.n = int(min(self.x.size, self.y.size))
        if self.n:
            self.middle = float(self.x.mean() - self.y.mean() if self.units else np.median(self._shifts))

    def ends(self, tail: float) -> tuple[float, float, float]:
        """Lower end, upper end, and the actual tail beyond each."""
        n, m = self.x.size, self.y.size
        none = (-math.inf, math.inf, 0.0)
        if tail <= 0 or self.n < 2:
            return none
        if self.units:
            a, b = float(self.x.var(ddof=1)) / n, float(self.y.var(ddof=1)) / m
            df = (a + b) ** 2 / (a * a / (n - 1) + b * b / (m - 1)) if a + b else min(n, m) - 1.0
            half = _t(df, tail) * math.sqrt(a + b) + self.reach
            return self.middle - half, self.middle + half, tail
        k, real = rank_sum_cut(n, m, tail)
        if k < 0:
            return none
        f = math.sqrt(self.factor)
        low, high = (self.middle + (float(self._shifts[j]) - self.middle) * f for j in (k, n * m - 1 - k))
        return low - self.reach, high + self.reach, real


@dataclass(frozen=True, slots=True)
class Decision:
    """What an interval decided: log ratios, and the actual confidence of the interval."""

    code: int
    low: float
    high: float
    confidence: float
    share: float
    """Contrasts that shared alpha when this one was decided."""


def decide(
    estimates: Sequence[Estimate | None],
    edges: Sequence[float],
    alpha: float,
    *,
    sequential: bool = False,
) -> list[Decision]:
    """Judge the contrasts of a family together, so that at most `alpha` of families hold a false verdict.

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
        beyond = {i: (*ends, share) for i, ends in intervals.items() if ends[0] > edges[i] or ends[1] < -edges[i]}
        freed |= beyond
        if not beyond:
            break
    made = []
    for i, e in enumerate(estimates):
        if i in freed:
            low, high, real, count = freed[i]
            made.append(Decision(ABOVE if low > 0 else BELOW, low, high, 1 - real, count))
            continue
        if e is None:
            made.append(Decision(OPEN, -math.inf, math.inf, 0.0, share))
            continue
        low, high, real = intervals[i]
        inner = _interval(e, 2 * alpha / share, sequential)
        if edges[i] > 0 and inner[0] > -edges[i] and inner[1] < edges[i]:
            made.append(Decision(EQUIVALENT, inner[0], inner[1], 1 - inner[2], share))
        else:
            code = ABOVE if low > 0 else BELOW if high < 0 else OPEN
            made.append(Decision(code, low, high, 1 - real, share))
    return made


def _interval(e: Estimate, alpha: float, sequential: bool) -> tuple[float, float, float]:
    """Interval with an error of at most `alpha`, and its actual error."""
    level = nominal_level(e.n, alpha) if sequential else alpha
    low, high, tail = e.ends(level / 2)
    return low, high, alpha if sequential else 2 * tail


def without_far(x: Floats) -> npt.NDArray[np.bool_]:
    """Which values remain without those far from the rest; all of them if nearly a third would go."""
    middle = np.median(x)
    spread = 1.4826 * float(np.median(np.abs(x - middle)))
    near = np.abs(x - middle) <= max(5 * spread, 0.05)
    return near if near.mean() > 0.7 else np.ones(x.size, dtype=bool)


def more_rounds(n: int, estimate: float, half_width: float, edge: float) -> int:
    """About how many more rounds an inconclusive contrast needs.

    The interval must become narrower than the distance of the estimate from no difference, or from the edge of the
    margin, whichever is farther; its width falls with the square root of the rounds, and 1.44 allows for chance.
    """
    target = max(abs(estimate), edge - abs(estimate))
    if not (math.isfinite(half_width) and target > 0):
        return 1
    return max(1, math.ceil(min(n * (half_width / target) ** 2 * 1.44, 1e9)) - n)
