"""When a long series changed its level, for how long and by how much.

Arrays only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from ..errors import StatsError
from ..metrics import MARGIN
from .intervals import Floats, check_share

Arc = tuple[int, int]
"""First period of a level, and first period after it."""

SHORTEST_H, SHORTEST_PERIODS = 1.0, 4
"""Least time, and least number of periods, of a level: fewer are an outlier or two."""
LONGEST_H = 7 * 24.0
"""Longest time of a level that returns; what lasts longer is found as two lasting changes."""
DAY_H, WHOLE_DAY_H = 24.0, 18.0
"""From `WHOLE_DAY_H` on, a series can show the shape of its day."""
MAX_CHANGES = 8
"""Changes that are told of one series."""
FAR = 4.0
"""Standard deviations from its level beyond which a period counts no more than this."""


@dataclass(frozen=True, slots=True)
class LevelChange:
    """A change of level.

    Attributes
    ----------
    start : int
        First period of the new level.
    end : int or None
        First period after it; None if it lasts to the end of the series.
    ratio : float
        New level over the one that would have been.
    before, level : float
        Median of the series without the changes that are not there at the time, and during it.
    """

    start: int
    end: int | None
    ratio: float
    before: float
    level: float


def changes(
    values: Floats, hours: Floats | None = None, *, alpha: float = 0.01
) -> tuple[LevelChange, ...]:
    """Return the abrupt changes of level of a series.

    Parameters
    ----------
    values : ndarray, shape (periods,)
        One positive value per period, in time order, such as the medians of ten minutes.
    hours : ndarray, shape (periods,), optional
        When each period began, in hours; by default one every ten minutes.
    alpha : float, default 0.01
        Share of series without a change in which one may be found.

    Raises
    ------
    StatsError
        A value that is missing or not positive.

    Notes
    -----
    The logarithms are levels that begin and end abruptly, on a base: constant, a drift, or the
    first two harmonics of a day. Noise resembles its neighbours (AR(1)); both are fitted together
    by generalised least squares. The most significant arc (Olshen et al., Biostatistics 5 (2004)
    557-572) is added while its t test, Bonferroni over arcs a quarter of the shortest apart, allows
    it, and it is larger than the margin of equivalence. The base is the one with the least
    information criterion (BIC; an arc counts three numbers: two ends and a height), so that what
    a wave explains with fewer numbers is a wave.

    Examples
    --------
    >>> hours = np.where((np.arange(96) >= 40) & (np.arange(96) < 60), 54.0, 46.0)
    >>> hours = hours * np.exp(0.01 * np.random.default_rng(1).standard_normal(96))
    >>> [c] = npl.analysis.changes(hours)
    >>> c.start, c.end, round(c.ratio, 2)
    (40, 60, 1.17)
    """
    x = np.asarray(values, dtype=float)
    check_share(alpha, "alpha", below=0.5)
    if not (np.isfinite(x) & (x > 0)).all():
        raise StatsError(
            "every period of a series needs a positive value: drop its missing periods first"
        )
    times = np.arange(x.size) / 6 if hours is None else np.asarray(hours, dtype=float)
    period_h = float(np.median(np.diff(times))) if x.size > 1 else 1.0
    shortest = max(SHORTEST_PERIODS, math.ceil(SHORTEST_H / period_h))
    longest = math.ceil(LONGEST_H / period_h)
    if x.size < 3 * shortest or np.ptp(x) == 0:
        return ()
    y = np.log(x)
    fits = [_search(y, base, shortest, longest, alpha) for base in _bases(times)]
    best = min(fits, key=lambda fit: fit.criterion)
    return tuple(_change(y, arc, best) for arc in sorted(best.arcs))


class _Fit:
    """Levels on a base, fitted to a series whose outliers are drawn to `FAR`.

    `coefficients` are those of the base, then the heights of the arcs.
    """

    def __init__(self, y: Floats, base: Floats, arcs: list[Arc]) -> None:
        self.base, self.arcs, self.design = base, arcs, _design(base, arcs)
        self.drawn = y
        for _ in range(4):
            self.coefficients = np.linalg.lstsq(self.design, self.drawn, rcond=None)[0]
            fitted = self.design @ self.coefficients
            far = FAR * 1.4826 * float(np.median(np.abs(y - fitted))) + 1e-12
            self.drawn = fitted + np.clip(y - fitted, -far, far)
        self.noise = self.drawn - fitted
        r = float(self.noise[1:] @ self.noise[:-1]) / max(
            float(self.noise @ self.noise), 1e-12
        )
        n, numbers = self.design.shape
        # of neighbours; a fit has taken away as much of it as it has numbers for n
        self.correlation = float(np.clip((n * r + numbers) / (n - numbers), 0, 0.95))

    @property
    def criterion(self) -> float:
        """The information criterion (BIC)."""
        n, new = self.noise.size, _whiten(self.noise, self.correlation)
        numbers = self.base.shape[1] + 3 * len(self.arcs)
        spread = max(float(new @ new) / n, 1e-18)
        return float(n * math.log(spread) + numbers * math.log(n))

    def p_value(self) -> float:
        """Return that of the last column of the design."""
        columns = _whiten(self.design, self.correlation)
        new = _whiten(self.drawn, self.correlation)
        others = np.linalg.qr(columns[:, :-1])[0]
        level = columns[:, -1] - others @ (others.T @ columns[:, -1])
        left = new - others @ (others.T @ new)
        gain = float(level @ left) ** 2 / max(float(level @ level), 1e-12)
        freedom = new.size - columns.shape[1] - 1
        variance = max((float(left @ left) - gain) / freedom, 1e-18)
        return float(2 * scipy.stats.t.sf(math.sqrt(gain / variance), freedom))


def _bases(times: Floats) -> list[Floats]:
    """Return what a series may be without abrupt changes, each as columns of a regression."""
    constant = np.ones_like(times)
    drift = (times - times.mean()) / max(float(np.ptp(times)), 1e-9)
    if np.ptp(times) < WHOLE_DAY_H or np.median(np.diff(times)) > DAY_H / 8:
        return [np.column_stack(c) for c in ([constant], [constant, drift, drift**2])]
    angle = 2 * np.pi / DAY_H * times
    day = [f(k * angle) for k in (1, 2) for f in (np.cos, np.sin)]
    columns = ([constant], [constant, drift], [constant, *day], [constant, drift, *day])
    return [np.column_stack(c) for c in columns]


def _search(y: Floats, base: Floats, shortest: int, longest: int, alpha: float) -> _Fit:
    """Return the levels on a base.

    The most significant is added while chance does not explain it.
    """
    places = 4 * y.size / shortest
    tests = max(1.0, places * min(places, 4 * longest / shortest) / 2)
    fit = _Fit(y, base, [])
    while len(fit.arcs) < MAX_CHANGES:
        arc = _best_arc(fit, fit.correlation, shortest, longest)
        # the change itself looks like correlation: search again with what is left without it
        correlation = _Fit(y, base, [*fit.arcs, arc]).correlation
        arc = _best_arc(fit, correlation, shortest, longest)
        more = _Fit(y, base, [*fit.arcs, arc])
        if arc in fit.arcs or more.p_value() * tests > alpha:
            break
        fit = more
    heights = fit.coefficients[base.shape[1] :]
    large = [
        a for a, h in zip(fit.arcs, heights, strict=True) if abs(h) >= math.log1p(MARGIN)
    ]
    return _Fit(y, base, large)


def _design(base: Floats, arcs: list[Arc]) -> Floats:
    periods = np.arange(len(base))
    levels = [(periods >= start) & (periods < end) for start, end in arcs]
    return np.column_stack([base, *levels]).astype(float)


def _whiten(columns: Floats, correlation: float) -> Floats:
    """Return what is new in each period (Prais and Winsten 1954)."""
    new = columns.copy()
    new[1:] -= correlation * columns[:-1]
    new[0] *= math.sqrt(1 - correlation**2)
    return new


def _best_arc(fit: _Fit, correlation: float, shortest: int, longest: int) -> Arc:
    """Return the arc that takes most of the noise away, from running sums."""
    n = fit.noise.size
    basis = np.linalg.qr(_whiten(fit.design, correlation))[0]
    new = _whiten(fit.drawn, correlation)
    left = new - basis @ (basis.T @ new)
    rows = np.column_stack([left, basis])
    rows = np.vstack([rows, np.zeros(rows.shape[1])])
    sums = np.vstack([np.zeros(rows.shape[1]), np.cumsum(rows[:-1], axis=0)])
    inside = 1 - correlation

    def gains(start: slice, end: slice, length: Floats) -> Floats:
        # whitened, a level is 1 where it starts, less inside, and undone where it ends
        parts = inside * (sums[end] - sums[start])
        parts += correlation * (rows[start] - rows[end])
        size = 1 + inside**2 * (length - 1) - (parts[:, 1:] ** 2).sum(axis=1)
        size += correlation**2 * (end.stop <= n)
        return np.where(size > 1e-3, parts[:, 0] ** 2 / np.maximum(size, 1e-3), 0.0)

    starts = slice(shortest, n - shortest + 1)
    lasting = gains(starts, slice(n, n + 1), n - np.arange(shortest, n - shortest + 1.0))
    best, arc = float(lasting.max()), (shortest + int(lasting.argmax()), n)
    for length in range(shortest, min(longest, n - 2 * shortest) + 1):
        starts = slice(shortest, n - length - shortest + 1)
        ends = slice(shortest + length, n - shortest + 1)
        gain = gains(starts, ends, np.full(1, float(length)))
        if gain.max() > best:
            first = shortest + int(gain.argmax())
            best, arc = float(gain.max()), (first, first + length)
    return arc


def _change(y: Floats, arc: Arc, fit: _Fit) -> LevelChange:
    """Return a change, sized by medians of what is left without the base and the other arcs."""
    start, end = arc
    coefficients = fit.coefficients.copy()
    coefficients[fit.base.shape[1] + fit.arcs.index(arc)] = 0
    left = y - fit.design @ coefficients
    inside = _design(fit.base, [arc])[:, -1] > 0
    height = float(np.median(left[inside]) - np.median(left[~inside]))
    level = float(np.exp(np.median(y[inside])))
    until = None if end == y.size else end
    return LevelChange(start, until, math.exp(height), level / math.exp(height), level)
