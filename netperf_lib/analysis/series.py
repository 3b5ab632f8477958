"""A metric over the time of one experiment or many: medians of periods, and changes of level."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import special

from ..data.files import Location, last_name
from ..data.layout import experiment_folders
from ..data.shipped import located
from ..errors import NothingToReport, StatsError
from ..metrics import MARGIN, format_value, plural
from ..metrics import metric as metric_of
from .intervals import Floats, check_share
from .observe import Observations, observe
from .runs import MEASUREMENT, Data, Levels, headline_metrics
from .words import TIMES, Headline, Words, levels_words, log_size, percent, size_words

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
NORMAL_QUARTILE = float(special.ndtri(0.75))
"""Standard deviations within which half of normal noise is."""
TINY = 1e-12
"""Keeps what is divided by above zero."""
CHANGE_ALPHA = 0.0025
"""False-alarm rate of the changes of one page: of real days without a change, few report one."""
PERIODS = (
    ("W", "week", 7 * 60),
    ("D", "day", 14),
    ("h", "hour", 1),
    ("10min", "10 minutes", 0),
)
"""Periods of the picture: name in pandas, words, and the least span in days."""
FINE_DAYS = 3
"""Changes are searched in ten minutes up to this span, and in hours above it."""
FEWEST = 10
"""Periods in which changes are looked for."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of level: what happened at this hour.

    Attributes
    ----------
    start : Timestamp
        First period of the new level.
    end : Timestamp or None
        First period after it; None if it lasts to the end of the series.
    ratio : float
        New level over the one that would have been.
    before, level : float
        Median of the series without the changes that are not there at the time, and during it.
    """

    start: pd.Timestamp
    end: pd.Timestamp | None
    ratio: float
    before: float
    level: float

    def words(self, metric: str) -> str:
        """Return the change: ``from 15:00 to 19:00 18 % slower than before and after``."""
        info, more = metric_of(metric), self.ratio > 1
        how = "slower" if more == (info.better == "lower") else "faster"
        than = "as high as" if self.ratio >= TIMES else f"{how} than"
        size = f"{size_words(self.ratio)} {than}"
        level, before = (format_value(v, info.unit) for v in (self.level, self.before))
        levels = f"({level} against {before})"
        since = f"{self.start:%d %B %Y, %H:%M}"
        if self.end is None:
            return f"since {since} UTC {size} before, which has not ended {levels}"
        until = f"{self.end:%d %B, %H:%M}"
        if self.end.date() == self.start.date():
            until = f"{self.end:%H:%M}"
        return f"from {since} to {until} UTC {size} before and after {levels}"


def changes(series: pd.Series[float], *, alpha: float = 0.01) -> list[Change]:
    """Return the abrupt changes of level of a series.

    Parameters
    ----------
    series : Series
        A positive value of each period, such as the medians of ten minutes, by its time.
    alpha : float, default 0.01
        Share of series without a change in which one may be found.

    Raises
    ------
    StatsError
        A value that is missing or not positive.

    Notes
    -----
    The logarithms are levels that begin and end abruptly, on a base: constant, a drift, or the
    first two harmonics of a day. The arc that stands out most (Olshen et al., Biostatistics 5
    (2004) 557-572) is added while its t test allows it, Bonferroni over arcs a quarter of the
    shortest apart, by generalised least squares, for noise resembles its neighbours (AR(1)); and
    it must be larger than the margin of equivalence. The base is the one with the least
    information criterion (BIC; an arc counts three numbers: two ends and a height), so that what
    a wave explains with fewer numbers is a wave.

    Examples
    --------
    >>> times = pd.date_range("2026-03-02", periods=96, freq="10min")
    >>> level = np.where((np.arange(96) >= 40) & (np.arange(96) < 60), 54.0, 46.0)
    >>> noise = np.exp(0.01 * np.random.default_rng(1).standard_normal(96))
    >>> [change] = npl.analysis.changes(pd.Series(level * noise, times))
    >>> f"{change.start:%H:%M} {change.end:%H:%M} {change.ratio:.2f}"
    '06:40 10:00 1.17'
    """
    check_share(alpha, "alpha", below=0.5)
    values = series.to_numpy(float)
    if not (np.isfinite(values) & (values > 0)).all():
        raise StatsError(
            "every period of a series needs a positive value: drop its missing periods first"
        )
    times = pd.DatetimeIndex(series.index)
    hours = ((times - times.min()) / pd.Timedelta(hours=1)).to_numpy()
    period_h = float(np.median(np.diff(hours))) if hours.size > 1 else 1.0
    shortest = max(SHORTEST_PERIODS, math.ceil(SHORTEST_H / period_h))
    longest = math.ceil(LONGEST_H / period_h)
    if values.size < 3 * shortest or np.ptp(values) == 0:
        return []
    log = np.log(values)
    fits = [_search(log, base, shortest, longest, alpha) for base in _bases(hours)]
    best = min(fits, key=_criterion)
    found = []
    for number, (start, end) in enumerate(best.arcs):
        # sized by medians of what is left without the base and the other arcs
        others = best.coefficients.copy()
        others[number - len(best.arcs)] = 0
        left = log - best.design @ others
        rest = np.delete(left, slice(start, end))
        ratio = float(np.exp(np.median(left[start:end]) - np.median(rest)))
        level = float(np.median(values[start:end]))
        until = times[end] if end < log.size else None
        found.append(Change(times[start], until, ratio, level / ratio, level))
    return sorted(found, key=lambda change: change.start)


def _bases(hours: Floats) -> list[Floats]:
    """Return what a series may be without abrupt changes, each as columns of a regression."""
    constant = np.ones_like(hours)
    drift = (hours - hours.mean()) / max(float(np.ptp(hours)), TINY)
    angle = 2 * np.pi / DAY_H * hours
    shape = [np.cos(angle), np.sin(angle), np.cos(2 * angle), np.sin(2 * angle)]
    if np.ptp(hours) < WHOLE_DAY_H or np.median(np.diff(hours)) > DAY_H / 8:
        shape = [drift**2]
    columns = [constant], [constant, drift], [constant, drift, *shape]
    return list(map(np.column_stack, columns))


@dataclass(frozen=True, slots=True, eq=False)
class _Fit:
    """Levels on a base: `noise` is what is left, and `correlation` that of neighbours."""

    arcs: list[tuple[int, int]]
    design: Floats
    coefficients: Floats
    noise: Floats
    correlation: float

    @property
    def heights(self) -> Floats:
        """How far the level of each arc is from what would have been."""
        return self.coefficients[self.coefficients.size - len(self.arcs) :]


def _fit(log: Floats, base: Floats, arcs: list[tuple[int, int]]) -> _Fit:
    """Return the fit of levels, each from a period to before another one, on a base.

    Outliers are drawn to `FAR`.
    """
    periods = np.arange(log.size)
    levels = [(periods >= start) & (periods < end) for start, end in arcs]
    design = np.column_stack([base, *levels]).astype(float)
    drawn = log
    for _ in range(4):
        coefficients = np.linalg.lstsq(design, drawn, rcond=None)[0]
        left = log - design @ coefficients
        far = FAR * _spread(left) + TINY
        noise = np.clip(left, -far, far)
        drawn = log - left + noise
    r = noise[1:] @ noise[:-1] / max(float(noise @ noise), TINY)
    n, numbers = design.shape
    # a fit has taken away as much of it as it has numbers for n
    correlation = float(np.clip((n * r + numbers) / (n - numbers), 0, 0.95))
    return _Fit(arcs, design, coefficients, noise, correlation)


def _spread(left: Floats) -> float:
    """Return the standard deviation of normal noise, from its median absolute deviation."""
    return float(np.median(np.abs(left - np.median(left)))) / NORMAL_QUARTILE


def _search(log: Floats, base: Floats, shortest: int, longest: int, alpha: float) -> _Fit:
    """Return the levels on a base: the clearest is added while chance does not explain it."""
    places = 4 * log.size / shortest
    tests = max(1.0, places * min(places, 4 * longest / shortest) / 2)
    fit = _fit(log, base, [])
    while len(fit.arcs) < MAX_CHANGES:
        more = _fit(log, base, [*fit.arcs, _clearest_arc(fit, shortest, longest)])
        if more.arcs[-1] in fit.arcs or _p_value(more) * tests > alpha:
            break
        fit = more
    large = np.flatnonzero(np.abs(fit.heights) >= math.log1p(MARGIN))
    return _fit(log, base, [fit.arcs[number] for number in large])


def _clearest_arc(fit: _Fit, shortest: int, longest: int) -> tuple[int, int]:
    """Return the arc that takes most of the noise away, from running sums."""
    n = fit.noise.size
    lengths = np.arange(shortest, min(longest, n) + 1)
    starts = np.arange(shortest, n - shortest + 1)
    start, end = np.broadcast_arrays(starts[:, None], starts[:, None] + lengths)
    returns = end <= n - shortest
    start = np.append(start[returns], starts)
    end = np.append(end[returns], np.full(starts.size, n))
    columns = np.column_stack([fit.noise, np.linalg.qr(fit.design)[0]])
    sums = np.vstack([np.zeros(columns.shape[1]), np.cumsum(columns, axis=0)])
    inside = sums[end] - sums[start]
    # what of an arc the design does not hold yet
    size = end - start - (inside[:, 1:] ** 2).sum(axis=1)
    best = int((inside[:, 0] ** 2 / np.maximum(size, 0.1)).argmax())
    return int(start[best]), int(end[best])


def _p_value(fit: _Fit) -> float:
    """Return the p value of the last arc, by generalised least squares."""
    columns = _whiten(fit.design, fit.correlation)
    new = _whiten(fit.design @ fit.coefficients + fit.noise, fit.correlation)
    coefficients = np.linalg.lstsq(columns, new, rcond=None)[0]
    left = new - columns @ coefficients
    freedom = new.size - coefficients.size - 1
    variance = left @ left / freedom * np.linalg.pinv(columns.T @ columns)[-1, -1]
    size = abs(coefficients[-1]) / math.sqrt(max(float(variance), TINY**2))
    return float(2 * special.stdtr(freedom, -size))


def _criterion(fit: _Fit) -> float:
    """Return the information criterion (BIC) of a fit."""
    n, columns = fit.design.shape
    new = _whiten(fit.noise, fit.correlation)
    spread = max(float(new @ new) / n, TINY**2)
    return float(n * math.log(spread) + (columns + 2 * len(fit.arcs)) * math.log(n))


def _whiten(columns: Floats, correlation: float) -> Floats:
    """Return what is new in each period (Prais and Winsten 1954)."""
    new = columns.copy()
    new[1:] -= correlation * columns[:-1]
    new[0] *= math.sqrt(1 - correlation**2)
    return new


# -- over time -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class History:
    """How a metric changed over time.

    Attributes
    ----------
    metric : str
    runs : DataFrame
        The runs with a start time and ``condition``.
    period : str
        The period of each median: ``"day"``, ``"hour"``.
    series : dict of str to Series
        Median of each period, by condition.
    changes : dict of str to list of Change
        Abrupt changes of level, of conditions with at least ten periods.
    """

    metric: str
    runs: pd.DataFrame
    period: str
    series: dict[str, pd.Series[float]]
    changes: dict[str, list[Change]]

    @property
    def span(self) -> str:
        """From when to when, and how many runs."""
        first, last = self.runs["started_utc"].agg(["min", "max"])
        runs = plural(len(self.runs), "run")
        return f"{runs} from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC"

    @property
    def headline(self) -> Headline:
        """The headline of a page: what changed, else the level of each condition."""
        points = [
            (name, change) for name, some in self.changes.items() for change in some
        ]
        if points:
            name, clearest = max(points, key=lambda point: log_size(point[1].ratio))
            label = metric_of(self.metric).label
            return Headline(f"{label} of {name}: {clearest.words(self.metric)}.")
        medians = self.runs.groupby("condition", observed=True)[self.metric].median()
        levels = levels_words(medians.to_frame("median"), self.metric)
        change = "No change of level" if self.changes else "Too few periods for changes"
        return Headline(f"{levels} {change} in {self.span}.")

    @property
    def words(self) -> Words:
        """The changes, in sentences."""
        lines = []
        for name, some in self.changes.items():
            lines += [f"- {name}: {change.words(self.metric)}." for change in some]
        if not self.changes:
            lines.append(f"- Too few periods to look for changes: {FEWEST} are needed.")
        elif not lines:
            margin = percent(MARGIN)
            lines.append(f"- No abrupt change of level by more than {margin} was found.")
        return Words("\n".join(lines))


def name_of(location: Location) -> str:
    """Name of an experiment from its folder.

    One that was set aside has the time of its first run behind its name.
    """
    return re.sub(r"-\d{8}T\d{6}(-\d+)?$", "", last_name(location))


def measurements(
    location: Location | Iterable[Location], name: str | None = None
) -> list[Path]:
    """Return the folders of one history, also of measurements that were renamed.

    They are an experiment, or those of a pattern or a list; with a name only its measurements.

    Examples
    --------
    >>> [folder.name for folder in npl.analysis.measurements("data/recorded/d*")]
    ['day']
    """
    if isinstance(location, str | os.PathLike):
        location, _ = located(location)
    folders = experiment_folders(location)
    chosen = [folder for folder in folders if name in (None, name_of(folder))]
    if not chosen:
        raise NothingToReport(f"{location} holds no experiment {name!r}")
    return chosen


def ask_history(
    data: Data | Observations,
    metric: str | None = None,
    *,
    where: Levels | None = None,
) -> History:
    """Return how a metric changed over time, in each condition.

    Parameters
    ----------
    data : what `observe` takes
        One experiment, or many of the same name.
    metric : str, optional
        Default: the first headline metric.
    where : mapping, optional
        Factor and level: only these runs.

    Raises
    ------
    NothingToReport
        No run of the metric has a start time.

    Examples
    --------
    >>> npl.analysis.ask_history(npl.read("data/recorded/day"), "rtt_us").period
    '10 minutes'
    """
    obs = getattr(data, "observations", data)
    if not isinstance(obs, Observations):
        metric = metric or next(iter(headline_metrics(data)), "latency_oneway_us")
        pool = () if isinstance(data, Mapping) else MEASUREMENT
        obs = observe(data, metric, where=where, pool=pool)
    runs = obs.runs.dropna(subset="started_utc").sort_values("started_utc")
    if runs.empty:
        raise NothingToReport(f"no run with a value of {obs.metric} has a start time")
    started = runs["started_utc"]
    days = (started.max() - started.min()) / pd.Timedelta(days=1)
    every, period, _ = next(row for row in PERIODS if days >= row[2])
    found = History(obs.metric, runs, period, {}, {})
    by_condition = runs.set_index("started_utc").groupby("condition", observed=True)
    for condition, rows in by_condition:
        values = rows[obs.metric]
        medians = values.resample(every).median().dropna()
        found.series[str(condition)] = medians
        if len(medians) >= FEWEST and (values > 0).all():
            fine = values.resample("h" if days > FINE_DAYS else "10min").median().dropna()
            some = changes(fine, alpha=CHANGE_ALPHA / by_condition.ngroups)
            found.changes[str(condition)] = some
    return found
