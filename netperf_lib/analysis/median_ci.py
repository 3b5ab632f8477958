"""The level of a condition: the median over its runs, with an interval that assumes no shape."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from .result import Floats, check_share, numbers

LONG_SERIES = 600
"""From this many rounds the hour is the unit of a level and of a threshold, where it is known."""


@dataclass(frozen=True, slots=True)
class MedianInterval:
    """A condition's level.

    Attributes
    ----------
    n : int
        Independent observations.
    unit : str
        What `n` counts: runs, hours, or deployments.
    median, low, high : float
        The median of the runs and its interval, in the unit of the values.
    confidence : float
        Actual confidence of the interval: of few runs it is their range.
    """

    n: int
    unit: str
    median: float
    low: float
    high: float
    confidence: float


@lru_cache(maxsize=1024)
def _confidences(n: int) -> list[float]:
    """Return the confidence that the median lies between the k-th values from both ends, k = 1.

    2 …
    """
    return [1 - 2 * float(scipy.special.bdtr(k, n, 0.5)) for k in range(n // 2)]


def median_interval(x: Floats, confidence: float = 0.95) -> tuple[float, float, float]:
    """Return the ends of the median's interval, and its confidence.

    As wanted, or that of the range.

    The two order-statistic intervals whose exact binomial confidences enclose the one wanted are
    interpolated after Hettmansperger and Sheather, "Confidence intervals based on interpolated
    order statistics", Statistics & Probability Letters 4 (1986) 75-79.
    """
    s, n = np.sort(x), x.size
    real = _confidences(n)
    k = sum(c >= confidence for c in real)
    if not k:
        return float(s[0]), float(s[-1]), max(real[0], 0.0) if real else 0.0
    after = real[k] if k < len(real) else 0.0
    share = (real[k - 1] - confidence) / (real[k - 1] - after)
    weight = (n - k) * share / (k + (n - 2 * k) * share)
    low = s[k - 1] + weight * (s[k] - s[k - 1])
    high = s[n - k] - weight * (s[n - k] - s[n - k - 1])
    return float(low), float(high), confidence


def neighbours_p(x: Floats) -> float:
    """Return the one-sided p of neighbours in a series that resemble each other.

    Rank correlation at lag 1, by its normal distribution (Wald and Wolfowitz, Ann. Math. Statist.
    14 (1943) 378-388); 1 for fewer than 6 values, or values that are all alike.
    """
    if x.size < 6 or np.ptp(x) == 0:
        return 1.0
    _, which, count = np.unique(x, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(count) - count / 2)[which] - x.size / 2
    variance = float((ranks**2).mean())
    z = (float(ranks[1:] @ ranks[:-1]) + variance) / (variance * math.sqrt(x.size))
    return float(scipy.special.ndtr(-z))


def level(
    values: npt.ArrayLike,
    confidence: float = 0.95,
    *,
    units: npt.ArrayLike | None = None,
    hours: npt.ArrayLike | None = None,
) -> MedianInterval:
    """Return the level of a condition: the median over its runs, with an interval.

    Parameters
    ----------
    values : array_like, shape (runs,)
        One value per run, in the order of the rounds, in any unit; missing values are dropped.
    confidence : float, default 0.95
        Confidence of the interval. With fewer than 6 runs no interval of the median reaches 95 %;
        the range of the runs is then returned, with its actual confidence.
    units : array_like, shape (runs,), optional
        Deployment (or experiment) of each run. Runs of one deployment measure one draw of where VMs
        land: with several, the level is the geometric mean of their medians, and Student's t over
        them gives its interval; where one of the medians is zero, it is the median of them.
    hours : array_like, shape (runs,), optional
        Hour in which each run was measured. From `LONG_SERIES` runs on, hours are counted instead
        of runs, because the runs of an hour resemble each other. The level is then the median of
        the hours' medians.

    Raises
    ------
    StatsError
        Values that are not numbers, or a confidence outside 0.5 … 1.

    Notes
    -----
    See `median_interval` for the source of the interval.

    Examples
    --------
    >>> level([58.1, 57.9, 58.4, 58.0, 58.8, 58.3, 58.2]).median
    58.2
    """
    check_share(confidence, "confidence", above=0.5)
    every = numbers(values)
    good = np.isfinite(every)
    x, unit = every[good], "run"
    medians = x if units is None else _medians(x, np.asarray(units)[good])
    several = units is not None and medians.size > 1
    if several:
        x, unit = medians, "deployment"
    elif hours is not None and x.size >= LONG_SERIES:
        x, unit = _medians(x, np.asarray(hours)[good]), "hour"
    n = x.size
    if several and (x > 0).all():  # levels of zero have no geometric mean
        logs = np.log(x)
        half = float(scipy.special.stdtrit(n - 1, 0.5 + confidence / 2)) * logs.std(
            ddof=1
        )
        middle, *ends = (
            float(np.exp(logs.mean() + by / math.sqrt(n))) for by in (0, -half, half)
        )
        return MedianInterval(n, unit, middle, ends[0], ends[1], confidence)
    if not n:
        return MedianInterval(0, unit, math.nan, math.nan, math.nan, 0.0)
    return MedianInterval(n, unit, float(np.median(x)), *median_interval(x, confidence))


def _medians(x: Floats, labels: npt.NDArray[Any]) -> Floats:
    """The median of the values with each label."""
    return np.array([np.median(x[labels == label]) for label in np.unique(labels)])
