"""Possible problems of a series of runs: trends, order, autocorrelation, several modes.

Nothing here deletes a value: an outlier is a measurement too, and is excluded only for a recorded cause.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

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
    """What a series of runs shows besides its level, as warnings."""

    @property
    def words(self) -> str:
        """The findings in a sentence."""
        return (
            "; ".join(self.warnings)
            if self.warnings
            else f"nothing suspicious in {plural(self.n, 'run')}"
        )

    @property
    def basis(self) -> str:
        """What the statement rests on, in a line."""
        return f"{plural(self.n, 'run')}; {self.method}"


def rank_correlation(positions: Floats, x: Floats) -> tuple[bool, float]:
    """Whether values rise with their positions by Spearman's rank correlation, and its two-sided p.

    Parameters
    ----------
    positions, x : ndarray, shape (n,)
        Neither all alike.

    Notes
    -----
    By permutation; for long series by the normal distribution. Against a trend it is as powerful as
    Mann-Kendall's test (Yue, Pilon and Cavadias, Journal of Hydrology 259 (2002) 254-271).
    """
    a, b = centred_ranks(np.stack([positions, x]))
    statistic = float(a @ b)
    if x.size > EXACT:
        z = abs(statistic) * math.sqrt(x.size - 1) / math.sqrt(float(a @ a) * float(b @ b))
        return statistic > 0, float(2 * scipy.special.ndtr(-z))
    order = permutations(x.size)
    beyond = int((np.abs(b[order] @ a) >= abs(statistic) - 1e-9).sum())
    return statistic > 0, (1 + beyond) / (len(order) + 1)


def diagnose(
    values: npt.ArrayLike, *, order: npt.ArrayLike | None = None, series: int = 1
) -> Diagnosis:
    """Look for anything that would make a level or a contrast misleading.

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
    position = np.arange(float(x.size)) if order is None else numbers(order, "order")
    if position.size != x.size:
        raise StatsError(
            f"order has {plural(position.size, 'value')} and values {x.size}: give one per run"
        )
    ok = np.isfinite(x)
    x, position = x[ok], position[ok]
    if x.size < 6 or (x == x[0]).all():
        method = "fewer than 6 runs, or all alike: nothing can be tested"
        return Diagnosis(n=x.size, confidence=1 - alarm, method=method)
    return Diagnosis(
        n=x.size,
        confidence=1 - alarm,
        method=f"lag-1 rank permutation, rank correlation with time and order; each at p < {alarm:.2g}",
        warnings=tuple(_findings(x, position, alarm)),
    )


def _findings(x: Floats, position: Floats, alarm: float) -> Iterator[str]:
    p = float(lag1_p(x[None, :])[0])
    if p < alarm:
        yield f"neighbouring runs resemble each other (p = {p:.2g})"
    rises, p = rank_correlation(np.arange(float(x.size)), x)
    if p < alarm:
        yield f"the level {'rises' if rises else 'falls'} from run to run (p = {p:.2g})"
    _, low, high, _ = median_interval(x[None, :])
    if not low[0] <= hodges_lehmann(x) <= high[0]:
        yield "more than one mode, or a strong skew (the median's interval excludes Hodges-Lehmann's)"
    if np.isfinite(position).all() and (np.diff(position) <= 0).any() and np.ptp(position) > 0:
        p = rank_correlation(position, x)[1]
        if p < alarm:
            yield f"the place in the round matters (p = {p:.2g})"
