"""What may be wrong with a series of runs: trends, breaks, order, autocorrelation, several modes.

Nothing here deletes a value: an outlier is a measurement too, and is excluded only for a recorded cause.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from ..errors import StatsError
from .levels import median_interval
from .rank import EXACT, hodges_lehmann, lag1_p, permutations
from .result import Floats, Result, numbers, plural

__all__ = ["Diagnosis", "diagnose", "effective_size", "pettitt"]

ALARM = 0.01


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Diagnosis(Result):
    """What a series of runs shows beside its level; a p is None where it could not be computed.

    Attributes
    ----------
    lag1_p : float or None
        Do neighbouring rounds resemble each other? Rank permutation at lag 1, one-sided.
    break_p, break_after : float or None, int or None
        Does the level break, and after how many runs? Pettitt's test, by permutation.
    trend_p, trend_per_run : float or None
        Does it rise or fall? Mann-Kendall, and the Theil-Sen slope as a share of the median per run.
    order_p : float or None
        Does a run's place in its round matter? Kendall's tau against the order.
    within_lag1 : float or None
        Median autocorrelation of neighbouring intervals within a run.
    effective : float or None
        Median number of independent intervals in a run: why seconds are no sample size.
    several_modes : bool
        The interval of the median excludes the Hodges-Lehmann estimate.
    """

    lag1_p: float | None
    break_p: float | None
    break_after: int | None
    trend_p: float | None
    trend_per_run: float | None
    order_p: float | None
    within_lag1: float | None
    effective: float | None
    several_modes: bool

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

    def __repr__(self) -> str:
        return f"Diagnosis: {self.words}\n  {self.basis}"


def pettitt(x: Floats) -> tuple[float, int]:
    """Test for one break of level; return its p and how many values lie before the break.

    Parameters
    ----------
    x : ndarray, shape (n,)
        Values in time order.

    Notes
    -----
    Pettitt, "A non-parametric approach to the change-point problem", Applied Statistics 28 (1979) 126-135:
    K = max over t of abs(2 · (sum of the first t ranks) - t (n + 1)). The p is by permutation, which is right for
    short series and ties; for long ones (beyond 400) it is Pettitt's own formula.
    """
    n = x.size
    ranks = np.asarray(scipy.stats.rankdata(x))
    t = np.arange(1, n)

    def u(r: Floats) -> Floats:
        return np.asarray(np.abs(2 * np.cumsum(r, axis=-1)[..., :-1] - t * (n + 1)))

    seen = u(ranks)
    k = float(seen.max())
    at = int(seen.argmax()) + 1
    if n > EXACT:
        return min(1.0, 2 * math.exp(-6 * k**2 / (n**3 + n**2))), at
    order = permutations(n)
    p = (1 + int((u(ranks[order]).max(axis=1) >= k - 1e-9).sum())) / (order.shape[0] + 1)
    return p, at


def effective_size(series: npt.ArrayLike) -> tuple[float, float]:
    """Lag-1 autocorrelation of a series, and how many independent values it is worth.

    Parameters
    ----------
    series : array_like, shape (intervals,)
        Values in time order.

    Notes
    -----
    Of a first-order autoregression: n (1 - r) / (1 + r), at most n.
    """
    x = numbers(series, "series")
    x = x[np.isfinite(x)]
    e = x - x.mean() if x.size else x
    v = float((e * e).sum())
    if x.size < 3 or v == 0:
        return math.nan, math.nan
    r = min(max(float((e[1:] * e[:-1]).sum()) / v, -0.99), 0.99)
    return r, min(float(x.size), x.size * (1 - r) / (1 + r))


def _slope(x: Floats) -> float:
    """Theil-Sen slope; of long series Theil's incomplete one, from values half a series apart."""
    n = x.size
    if n <= EXACT:
        return float(scipy.stats.theilslopes(x, np.arange(n)).slope)
    half = n // 2
    return float(np.median(x[half:] - x[: n - half])) / half


def diagnose(
    values: npt.ArrayLike,
    *,
    order: npt.ArrayLike | None = None,
    intervals: Iterable[npt.ArrayLike] | None = None,
) -> Diagnosis:
    """Look for what would make a level or a contrast misleading.

    Parameters
    ----------
    values : array_like, shape (runs,)
        One value a run in time order; or, better, the log ratio of two conditions by round: what they share cancels.
    order : array_like, shape (runs,), optional
        Each run's place in its round.
    intervals : iterable of array_like, optional
        Each run's values over time.

    Returns
    -------
    Diagnosis
        Its warnings name what was found at p < 0.01.

    Raises
    ------
    StatsError
        Values that are no numbers, or an order of another length.

    Notes
    -----
    Tests of stationarity that are built for long series (augmented Dickey-Fuller) say nothing on ten rounds, and are
    not used.
    """
    x = numbers(values)
    place = None if order is None else numbers(order, "order")
    if place is not None and place.size != x.size:
        raise StatsError(f"order holds {plural(place.size, 'value')} and values {x.size}: one each a run")
    ok = np.isfinite(x)
    x, place = x[ok], None if place is None else place[ok]
    n = x.size
    varied = n >= 6 and bool((x != x[0]).any())
    found: list[str] = []
    p_lag = p_break = p_trend = slope = p_order = None
    at = None
    modes = False
    if varied:
        p_lag = float(lag1_p(x[None, :])[0])
        p_break, at = pettitt(x)
        time = np.arange(n)
        p_trend = float(scipy.stats.kendalltau(time, x).pvalue)
        centre = float(np.median(x))
        slope = _slope(x) / (abs(centre) or 1.0)
        _, low, high, _ = median_interval(x[None, :])
        modes = not low[0] <= hodges_lehmann(x) <= high[0]
        if p_lag < ALARM:
            found.append(f"neighbouring runs resemble each other (p = {p_lag:.2g})")
        if p_trend < ALARM:
            found.append(f"the level {'rises' if slope > 0 else 'falls'} from run to run (p = {p_trend:.2g})")
        if p_break < ALARM:
            found.append(f"the level breaks after run {at} (p = {p_break:.2g})")
        if modes:
            found.append("more than one mode, or a strong skew (the median's interval excludes Hodges-Lehmann's)")
        if place is not None and np.unique(place[np.isfinite(place)]).size > 1:
            p_order = float(scipy.stats.kendalltau(place, x, nan_policy="omit").pvalue)
            if p_order < ALARM:
                found.append(f"the place in the round matters (p = {p_order:.2g})")
    inner = np.array([effective_size(s) for s in intervals]) if intervals is not None else np.empty((0, 2))
    inner = inner[np.isfinite(inner).all(axis=1)] if inner.size else inner
    within, effective = (float(v) for v in np.median(inner, axis=0)) if len(inner) else (None, None)
    return Diagnosis(
        lag1_p=p_lag,
        break_p=p_break,
        break_after=at,
        trend_p=p_trend,
        trend_per_run=slope,
        order_p=p_order,
        within_lag1=within,
        effective=effective,
        several_modes=modes,
        n=n,
        confidence=1 - ALARM,
        method="lag-1 rank permutation, Pettitt, Mann-Kendall, order, autocorrelation; each at p < 0.01"
        if varied
        else "fewer than 6 runs, or all alike: nothing can be tested",
        warnings=tuple(found),
    )
