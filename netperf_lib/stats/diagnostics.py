"""Possible problems of a series of runs: trends, order, autocorrelation, several modes.

Nothing here deletes a value: an outlier is a measurement too, and is excluded only for a recorded cause.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from ..errors import StatsError
from ..metrics import plural
from .median_ci import median_interval
from .rank_tests import EXACT, PERMUTATIONS, centred_ranks, hodges_lehmann, lag1_p, permutations
from .result import Floats, Result, numbers

ALARM = 0.01


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Diagnosis(Result):
    """What a series of runs shows besides its level; a p is None if it could not be computed.

    Attributes
    ----------
    lag1_p : float or None
        Do neighbouring rounds resemble each other? Rank permutation at lag 1, one-sided.
    trend_p, trend_per_run : float or None
        Does it rise or fall? Rank correlation with time, and the Theil-Sen slope as a share of the median per run.
    order_p : float or None
        Does a run's place in its round matter? Rank correlation with the order.
    several_modes : bool
        The interval of the median excludes the Hodges-Lehmann estimate.
    """

    lag1_p: float | None = None
    trend_p: float | None = None
    trend_per_run: float | None = None
    order_p: float | None = None
    several_modes: bool = False

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not self.warnings

    @property
    def words(self) -> str:
        """The findings in a sentence."""
        return "; ".join(self.warnings) if self.warnings else f"nothing suspicious in {plural(self.n, 'run')}"

    @property
    def basis(self) -> str:
        """What the statement rests on, in a line."""
        return f"{plural(self.n, 'run')}; {self.method}"


def correlated_p(place: Floats, x: Floats) -> float:
    """Two-sided p of Spearman's rank correlation of values with their places.

    Parameters
    ----------
    place, x : ndarray, shape (n,)
        Neither all alike.

    Notes
    -----
    By permutation; for long series by the normal distribution. Against a trend it is as powerful as
    Mann-Kendall's test (Yue, Pilon and Cavadias, Journal of Hydrology 259 (2002) 254-271).
    """
    a, b = centred_ranks(np.stack([place, x]))
    seen = abs(float(a @ b))
    if x.size > EXACT:
        z = seen * math.sqrt(x.size - 1) / math.sqrt(float(a @ a) * float(b @ b))
        return float(2 * scipy.special.ndtr(-z))
    order = permutations(x.size)
    beyond = int((np.abs(b[order] @ a) >= seen - 1e-9).sum())
    return (1 + beyond) / (len(order) + 1)


def _slope(x: Floats) -> float:
    """Theil-Sen slope; of long series Theil's incomplete one, from values half a series apart."""
    n = x.size
    if n <= EXACT:
        i, j = np.triu_indices(n, 1)
        return float(np.median((x[j] - x[i]) / (j - i)))
    half = n // 2
    return float(np.median(x[half:] - x[: n - half])) / half


def diagnose(
    values: npt.ArrayLike,
    *,
    order: npt.ArrayLike | None = None,
    series: int = 1,
) -> Diagnosis:
    """Look for what would make a level or a contrast misleading.

    Parameters
    ----------
    values : array_like, shape (runs,)
        One value per run in time order; or, better, the log ratio of two conditions by round: what they share cancels.
    order : array_like, shape (runs,), optional
        Each run's place in its round. A place in the whole schedule, which only rises, says nothing about rounds and
        is not tested.
    series : int, default 1
        Series that are diagnosed together: with this many clean series, 5 % of reports have an alarm.

    Returns
    -------
    Diagnosis
        Its warnings name what was found at p < 0.01 / `series`.

    Raises
    ------
    StatsError
        Values that are not numbers, or an order of another length.

    Notes
    -----
    Tests of stationarity that are designed for long series (augmented Dickey-Fuller) say nothing about ten rounds, and
    are not used.

    Examples
    --------
    >>> npl.stats.diagnose([50.1, 49.8, 50.3, 49.9, 50.0, 50.2]).warnings
    ()
    """
    alarm = max(ALARM / max(1, series), 2 / PERMUTATIONS)
    x = numbers(values)
    place = None if order is None else numbers(order, "order")
    if place is not None and place.size != x.size:
        raise StatsError(f"order has {plural(place.size, 'value')} and values {x.size}: give one per run")
    ok = np.isfinite(x)
    x, place = x[ok], None if place is None else place[ok]
    n = x.size
    varied = n >= 6 and bool((x != x[0]).any())
    if not varied:
        method = "fewer than 6 runs, or all alike: nothing can be tested"
        return Diagnosis(n=n, confidence=1 - alarm, method=method)
    method = f"lag-1 rank permutation, rank correlation with time and order; each at p < {alarm:.2g}"
    return _tested(x, place, alarm, n=n, confidence=1 - alarm, method=method)


def _tested(x: Floats, place: Floats | None, alarm: float, **fields: Any) -> Diagnosis:
    warnings = []
    p_lag = float(lag1_p(x[None, :])[0])
    if p_lag < alarm:
        warnings.append(f"neighbouring runs resemble each other (p = {p_lag:.2g})")
    p_trend = correlated_p(np.arange(float(x.size)), x)
    slope = _slope(x) / (abs(float(np.median(x))) or 1.0)
    if p_trend < alarm:
        warnings.append(f"the level {'rises' if slope > 0 else 'falls'} from run to run (p = {p_trend:.2g})")
    _, low, high, _ = median_interval(x[None, :])
    modes = not low[0] <= hodges_lehmann(x) <= high[0]
    if modes:
        warnings.append("more than one mode, or a strong skew (the median's interval excludes Hodges-Lehmann's)")
    p_order = None
    if place is not None and np.isfinite(place).all() and (np.diff(place) <= 0).any() and np.ptp(place) > 0:
        p_order = correlated_p(place, x)
        if p_order < alarm:
            warnings.append(f"the place in the round matters (p = {p_order:.2g})")
    return Diagnosis(
        lag1_p=p_lag,
        trend_p=p_trend,
        trend_per_run=slope,
        order_p=p_order,
        several_modes=modes,
        warnings=tuple(warnings),
        **fields,
    )
