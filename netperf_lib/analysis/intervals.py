"""Intervals, and what a family of them decides: arrays in, codes out; no words.

A level is the median of a condition. A comparison is a log ratio, whose interval inverts an exact
rank test. `decide` shares the error of a report among its comparisons.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from ..errors import StatsError

Floats: TypeAlias = npt.NDArray[np.float64]
Bounds: TypeAlias = tuple[float, float, float]
"""Lower end, upper end and actual error."""

ABOVE, BELOW, EQUIVALENT, OPEN = 1, -1, 2, 0
DEPLOYMENTS = 2
"""Fewest deployments from which anything can be said about a placement in general."""
UNBOUNDED: Bounds = (-math.inf, math.inf, 1.0)
LONG_SERIES = 600
"""From this many runs the hour is the unit of a level, and a part that of a threshold."""
PARTS = 24
"""Parts of a long series against a threshold."""
MAX_PAIRED = 400
"""Of more rounds than this neighbours are merged, so that the exact distribution stays cheap."""
MAX_PRODUCT = 2500
"""Beyond this product of sizes the alternating sums of the exact distribution lose digits."""
MIXED_VARIANCE = 0.5
"""Variance of the effects that `nominal_level` weighs: narrowest near 10 to 20 rounds."""
ALLOWANCE = 1.44
"""For chance, in the number of rounds that would decide."""
SLACK = 1e-12


# -- what may be given -----------------------------------------------------------------------------


def numbers(values: npt.ArrayLike) -> Floats:
    """Return one row of numbers as floats; missing values (None, pandas' NA) become NaN."""
    try:
        if isinstance(values, pd.Series | pd.Index):
            # its nullable types need to know what a missing value becomes
            values = values.to_numpy(dtype=float, na_value=np.nan)
        x = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        kind = type(values).__name__
        raise StatsError(f"values must be numbers, one per run; got {kind}") from None
    if x.ndim != 1:
        raise StatsError(
            f"values must be one row of numbers, one per run; got an array of shape {x.shape}"
        )
    return x


def check_share(
    value: Any, name: str, *, below: float = 1.0, above: float = 0.0
) -> float:
    """Return a value that lies strictly between `above` and `below`; StatsError otherwise."""
    if not isinstance(value, int | float | np.number) or not above < value < below:
        raise StatsError(
            f"{name} must lie between {above:g} and {below:g}; got {value!r}"
        )
    return float(value)


# -- the level of a condition ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Level:
    """The median of a condition, with its interval.

    Attributes
    ----------
    n : int
        Independent observations.
    counted : str
        What `n` counts: run, hour or deployment.
    median, low, high : float
        In the unit of the values.
    confidence : float
        The actual one: of few runs the interval is their range.
    """

    n: int
    counted: str
    median: float
    low: float
    high: float
    confidence: float


NO_LEVEL = Level(0, "run", math.nan, math.nan, math.nan, 0.0)


def level(
    values: npt.ArrayLike,
    confidence: float = 0.95,
    *,
    deployments: npt.ArrayLike | None = None,
    hours: npt.ArrayLike | None = None,
) -> Level:
    """Return the level of a condition: the median over its runs, with an interval.

    Parameters
    ----------
    values : array_like, shape (runs,)
        One value per run, in the order of the rounds, in any unit; missing values are dropped.
    confidence : float, default 0.95
        With fewer than 6 runs no interval of the median reaches 95 %; the range of the runs is then
        returned, with its actual confidence.
    deployments : array_like, shape (runs,), optional
        Deployment of each run. Runs of one deployment measure one draw of where VMs land: with
        several, these are the replicates, and the level is the geometric mean of their medians.
    hours : array_like, shape (runs,), optional
        Hour in which each run was measured. Runs of an hour resemble each other: from `LONG_SERIES`
        runs on the medians of the hours count.

    Raises
    ------
    StatsError
        Values that are not numbers, or a confidence outside 0.5 … 1.

    Examples
    --------
    >>> level([58.1, 57.9, 58.4, 58.0, 58.8, 58.3, 58.2]).median
    58.2
    """
    check_share(confidence, "confidence", above=0.5)
    x = numbers(values)
    known = np.isfinite(x)
    x = x[known]
    if not x.size:
        return NO_LEVEL
    if deployments is not None:
        labels = np.asarray(deployments)[known]
        if (labels != labels[0]).any():
            return _level_of_deployments(_medians(x, labels), confidence)
    counted = "run"
    if hours is not None and x.size >= LONG_SERIES:
        # thousands of runs of a day are not thousands of observations
        x = _medians(x, np.asarray(hours)[known])
        counted = "hour"
    ends = median_interval(x, confidence)
    return Level(x.size, counted, float(np.median(x)), *ends)


def _level_of_deployments(medians: Floats, confidence: float) -> Level:
    """Return the geometric mean of deployments, with Student's t over them."""
    n = medians.size
    if (medians <= 0).any():  # zeros have no geometric mean
        middle = float(np.median(medians))
        return Level(n, "deployment", middle, *median_interval(medians, confidence))
    logs = np.log(medians)
    t = special.stdtrit(n - 1, 0.5 + confidence / 2)
    half = t * logs.std(ddof=1) / math.sqrt(n)
    low, middle, high = np.exp(logs.mean() + half * np.array([-1, 0, 1])).tolist()
    return Level(n, "deployment", middle, low, high, confidence)


def _medians(x: Floats, labels: npt.NDArray[Any]) -> Floats:
    """Return the median of the values with each label."""
    medians = pd.Series(x).groupby(labels).median()
    return np.asarray(medians, dtype=np.float64)


def median_interval(x: Floats, confidence: float = 0.95) -> Bounds:
    """Return the ends of the median's interval, and its confidence.

    The two intervals of order statistics whose exact binomial confidences enclose the one that is
    wanted are interpolated (Hettmansperger and Sheather, Statistics & Probability Letters 4 (1986)
    75-79). Where none reaches it, the range is returned with its own confidence.
    """
    s = np.sort(x)
    n = s.size
    # confidence of the interval between the k-th values from both ends, k = 1, 2 …
    reached = 1 - 2 * special.bdtr(np.arange(n // 2), n, 0.5)
    k = int((reached >= confidence).sum())
    if not k:
        of_range = max(float(reached[0]), 0.0) if n > 1 else 0.0
        return float(s[0]), float(s[-1]), of_range
    following = float(reached[k]) if k < reached.size else 0.0
    share = (reached[k - 1] - confidence) / (reached[k - 1] - following)
    weight = (n - k) * share / (k + (n - 2 * k) * share)
    low = s[k - 1] + weight * (s[k] - s[k - 1])
    high = s[n - k] - weight * (s[n - k] - s[n - k - 1])
    return float(low), float(high), confidence


# -- estimates of a log ratio ----------------------------------------------------------------------


class Rounds:
    """Log ratios of paired rounds: Hodges and Lehmann's estimate, an exact signed-rank interval.

    The scores are the ranks, capped at a third of the rounds: one slow run in a dozen must not
    decide. It is one statistic for differences and for equality, at every error, so that a larger
    family never narrows an interval.
    """

    def __init__(self, d: Floats) -> None:
        self.n = d.size
        if d.size > MAX_PAIRED:
            # the exact distribution of thousands of ranks is not worth its time
            d = _medians_of_parts(d, MAX_PAIRED)
        self.d = d
        one, two = np.triu_indices(d.size)
        self.walsh = np.sort((d[one] + d[two]) / 2)
        self.centre = float(np.median(self.walsh))

    def interval(self, error: float) -> Bounds:
        """Return the interval with at most this error, never beyond the range of the rounds."""
        n = self.d.size
        # a third, rounded up
        cap = max(2, -(-n // 3))
        k, tail = cut(signed_rank_cdf(n, cap), error / 2)
        if k < 0:
            return UNBOUNDED
        # the upper end is the lower one of the mirrored differences
        low = _end(self.d, self.walsh, k, cap)
        high = -_end(-self.d, -self.walsh[::-1], k, cap)
        return min(low, self.centre), max(high, self.centre), 2 * tail


def _medians_of_parts(d: Floats, parts: int) -> Floats:
    return np.array([np.median(part) for part in np.array_split(d, parts)])


@lru_cache(maxsize=512)
def signed_rank_cdf(n: int, cap: int) -> Floats:
    """Return P(T <= t) of the sum of the scores min(rank, cap) of the positive differences."""
    p = np.ones(1)
    for rank in range(1, n + 1):
        score = min(rank, cap)
        # each score is in the sum, or not, with probability one half
        p = (np.pad(p, (0, score)) + np.pad(p, (score, 0))) / 2
    return np.cumsum(p)


def cut(cdf: Floats, tail: float) -> tuple[int, float]:
    """Return the largest k with P(T <= k) <= `tail`, and that probability; -1 if there is none."""
    k = int(np.searchsorted(cdf, tail + SLACK, side="right")) - 1
    if k < 0 or tail <= 0:
        return -1, 0.0
    return k, float(cdf[k])


def _end(d: Floats, walsh: Floats, k: int, cap: int) -> float:
    """Return the smallest Walsh average just above which the values below have scores beyond k.

    The statistic changes at Walsh averages alone (Hollander, Wolfe and Chicken, Nonparametric
    Statistical Methods, section 3.3).
    """
    scores = np.minimum(np.arange(1.0, d.size + 1), cap)
    distinct = np.unique(walsh)
    between = np.append((distinct[:-1] + distinct[1:]) / 2, math.inf)

    def beyond(middle: float) -> bool:
        left = d - middle
        by_size = left[np.abs(left).argsort()]
        return bool(scores @ (by_size < 0) > k)

    return float(distinct[bisect_left(between, x=True, key=beyond)])


class Median:
    """Log ratios to a threshold: the median, and the interval that a level has.

    Runs of an hour resemble each other: of a long series the medians of `PARTS` parts count.
    """

    def __init__(self, d: Floats) -> None:
        if d.size >= LONG_SERIES:
            d = _medians_of_parts(d, PARTS)
        self.n = d.size
        self.d = d
        self.centre = float(np.median(d))

    def interval(self, error: float) -> Bounds:
        """Return the interval of the values themselves, as a level has it."""
        if not 0 < error < 1:
            return UNBOUNDED
        # interpolated between values, as the level on the page is, and not between logs
        low, high, confidence = median_interval(np.exp(self.d), 1 - error)
        if confidence < 1 - error:
            return UNBOUNDED
        return math.log(low), math.log(high), error


class Deployments:
    """One log ratio per deployment: Student's t over them.

    Logs of two sides that share no deployment: Welch's t (Biometrika 34 (1947) 28-35).
    """

    def __init__(self, *sides: Floats) -> None:
        self.n = min(side.size for side in sides)
        self.d = sides[0]
        self.centre = float(sides[0].mean())
        if len(sides) > 1:
            self.centre -= float(sides[1].mean())
        # variance of each mean, with its degrees of freedom
        self.parts: list[tuple[float, int]] = []
        for side in sides:
            if side.size > 1:
                self.parts.append((float(side.var(ddof=1)) / side.size, side.size - 1))

    def interval(self, error: float) -> Bounds:
        """Return the interval of the mean, or of the difference of two means."""
        if self.n < 2 or error <= 0:
            return UNBOUNDED
        parts, degrees = np.array(self.parts).T
        variance = float(parts.sum())
        # where nothing varies any number of degrees of freedom gives the same
        freedom = degrees.min()
        if variance:
            freedom = variance**2 / (parts**2 / degrees).sum()
        half = float(special.stdtrit(freedom, 1 - error / 2)) * math.sqrt(variance)
        return self.centre - half, self.centre + half, error


class Unpaired:
    """Logs of two samples that share no round: the interval of Mann and Whitney's test."""

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
        if n * m > MAX_PRODUCT:
            # the normal distribution, with a correction for continuity
            spread = math.sqrt(n * m * (n + m + 1) / 12)
            tail = error / 2
            k = math.floor(n * m / 2 + float(special.ndtri(tail)) * spread - 0.5)
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


Estimate: TypeAlias = Rounds | Median | Deployments | Unpaired


# -- a family --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Decision:
    """What an interval decided: log ratios, and the actual confidence of the interval."""

    code: int
    low: float
    high: float
    confidence: float
    share: int
    """Comparisons that shared alpha when this one was decided."""


def decide(
    estimates: Sequence[Estimate | None],
    edges: Sequence[float],
    alpha: float,
    *,
    sequential: bool = False,
) -> list[Decision]:
    """Judge the comparisons of a family together.

    At most `alpha` of families contain a false verdict. Each comparison begins with alpha / m.
    One whose interval lies wholly beyond the margin can no longer be called falsely (neither
    equivalent nor, if the interval holds, in the wrong direction) and hands its share on, a
    stricter rule than Holm's (Scand. J. Statist. 6 (1979) 65-70). Equivalence is the two one-sided
    tests of Schuirmann (1987), and the interval given for it is theirs.

    An edge is the log of 1 + margin; 0 for a threshold, at which nothing is equivalent. Without an
    estimate no verdict is possible, and the comparison keeps its share. Sequential: the data are
    looked at as they come in, and intervals hold at all looks together.
    """
    decided: dict[int, Decision] = {}
    while True:
        # one that was decided has handed its share on
        share = max(1, len(estimates) - len(decided))
        open_: dict[int, Bounds] = {}
        beyond: dict[int, Decision] = {}
        for i, estimate in enumerate(estimates):
            if i in decided:
                continue
            low, high, error = _interval(estimate, alpha / share, sequential)
            if low > edges[i]:
                beyond[i] = Decision(ABOVE, low, high, 1 - error, share)
            elif high < -edges[i]:
                beyond[i] = Decision(BELOW, low, high, 1 - error, share)
            else:
                open_[i] = low, high, error
        decided.update(beyond)
        if not beyond:
            break
    # two one-sided tests at alpha are an interval at twice alpha
    for i, bounds in open_.items():
        inside = _interval(estimates[i], 2 * alpha / share, sequential)
        decided[i] = _decision(bounds, inside, edges[i], share)
    return [decided[i] for i in sorted(decided)]


def _interval(estimate: Estimate | None, error: float, sequential: bool) -> Bounds:
    if estimate is None:
        return UNBOUNDED
    if not sequential:
        return estimate.interval(error)
    low, high, actual = estimate.interval(nominal_level(estimate.n, error))
    # what is valid at every look has the error that was asked for
    return low, high, error if actual < 1 else actual


def _decision(bounds: Bounds, inside: Bounds, edge: float, share: int) -> Decision:
    """Decide a comparison whose interval is not wholly beyond the margin."""
    low, high, error = bounds
    # what has too few rounds for a difference has too few for equality
    if math.isfinite(high - low) and -edge < inside[0] and inside[1] < edge:
        low, high, error = inside
        return Decision(EQUIVALENT, low, high, 1 - error, share)
    code = OPEN
    if low > 0:
        code = ABOVE
    elif high < 0:
        code = BELOW
    return Decision(code, low, high, 1 - error, share)


@lru_cache(maxsize=8192)
def nominal_level(n: int, alpha: float) -> float:
    """Return the level of the fixed-n test at which all looks together err with at most `alpha`.

    The bound of Student's t that holds at any time (Lai, Ann. Statist. 4 (1976) 265-280; Wang and
    Ramdas, 2023) is turned into the level of a rank test. No theorem covers that step: it is
    checked by simulation.
    """
    if n < 3:
        return 0.0  # no look at two rounds can decide
    spread = 1 + n * MIXED_VARIANCE
    c = (math.sqrt(spread) / alpha) ** (2 / n)
    if c >= spread:
        return 0.0
    t = math.sqrt((n - 1) * (c - 1) / (1 - c / spread))
    return 2 * float(special.stdtr(n - 1, -t))


def observations_needed(estimate: Estimate, alpha: float, *, sequential: bool) -> int:
    """Return how many observations, more than there are, let the clearest difference decide."""
    for n in count(estimate.n + 1):
        error = nominal_level(n, alpha) if sequential else alpha
        if isinstance(estimate, Deployments):
            extreme = 0.0  # Student's t has no smallest p
        elif isinstance(estimate, Unpaired):
            extreme = 2 / math.comb(2 * n, n)
        else:
            extreme = 2.0 ** (1 - n)
        if error > 0 and extreme <= error:
            return n
    raise AssertionError


def more_observations(n: int, centre: float, half_width: float, edge: float) -> int:
    """Return about how many more observations an open comparison needs.

    The interval must become narrower than the distance of the estimate from no difference, or from
    the edge of the margin, whichever is farther; its width falls with the square root of `n`.
    """
    target = max(abs(centre), edge - abs(centre))
    if not math.isfinite(half_width) or target <= 0:
        return 1
    # what is nearly at the edge would take for ever
    whole = min(n * (half_width / target) ** 2 * ALLOWANCE, 1e9)
    return max(1, math.ceil(whole) - n)


def neighbours_p(x: Floats) -> float:
    """Return the one-sided p of neighbours in a series that resemble each other.

    Rank correlation at lag 1, by its normal distribution (Wald and Wolfowitz, Ann. Math. Statist.
    14 (1943) 378-388); 1 for fewer than 6 values, or values that are all alike.
    """
    if x.size < 6 or np.ptp(x) == 0:
        return 1.0
    # ties have the mean of their ranks
    _, which, counts = np.unique(x, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - counts / 2)[which] - x.size / 2
    variance = float((ranks**2).mean())
    z = (float(ranks[1:] @ ranks[:-1]) + variance) / (variance * math.sqrt(x.size))
    return float(special.ndtr(-z))
