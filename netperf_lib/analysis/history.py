"""A metric over the time of one experiment or many: by the clock, hour and weekday, with trend and changes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..data.files import Location, split
from ..data.layout import experiments
from ..errors import NothingToReport
from ..metrics import format_value, plural
from ..metrics import metric as metric_of
from .observe import Data, observe
from .result import size_words
from .runs import headline_metrics
from .series import Changes, Trend, changes, trend
from .words import Headline, Words, effect, span

ALPHA = 0.01
"""False-alarm rate of the change points of one page."""
PERIODS = (("W", "week", 7 * 60), ("D", "day", 14), ("h", "hour", 1), ("10min", "10 minutes", 0.2))
"""Periods of the picture and of the trend: name in pandas, words, and the least span in days."""
SEARCHED = [(name, least) for name, _, least in PERIODS if least <= 1]
"""Periods in which changes are searched: a week of data hides an incident no better than a day of them."""


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A change of level, with its time.

    Attributes
    ----------
    at : Timestamp
        When it began.
    until : Timestamp or None
        When the previous level returned; None if it did not.
    ratio, before, after : float
        New level over the one before, and both in the unit of the metric.
    """

    at: pd.Timestamp
    until: pd.Timestamp | None
    ratio: float
    before: float
    after: float

    def words(self, metric: str) -> str:
        """The change in a phrase: ``from 15:00 to 19:00 18 % slower than before and after``."""
        info = metric_of(metric)
        more = self.ratio > 1
        how = ("higher" if more else "lower") if info.unit not in ("us", "bps") else (
            "slower" if more == (info.better == "lower") else "faster"
        )  # fmt: skip
        times = self.ratio >= 3
        size = f"{size_words(self.ratio)} as high" if times else f"{size_words(self.ratio)} {how}"
        figures = (
            f"{format_value(self.after, info.unit)} against {format_value(self.before, info.unit)}"
        )
        if self.until is None:
            return f"since {self.at:%d %B %Y, %H:%M} UTC {size} than before ({figures})"
        end = (
            f"{self.until:%H:%M}"
            if self.until.date() == self.at.date()
            else f"{self.until:%d %B, %H:%M}"
        )
        return (
            f"from {self.at:%d %B %Y, %H:%M} to {end} UTC {size} than before and after ({figures})"
        )


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
    trends : dict of str to Trend
        Only conditions with at least ten periods.
    changes : dict of str to list of ChangePoint
        Abrupt changes of level.
    waves : dict of str to str
        Slow waves, as from day to night, in a phrase.
    alpha : float
        False-alarm rate over all conditions together.
    """

    metric: str
    runs: pd.DataFrame
    period: str
    series: dict[str, pd.Series[float]]
    trends: dict[str, Trend]
    changes: dict[str, list[ChangePoint]]
    waves: dict[str, str]
    alpha: float

    @property
    def _days(self) -> float:
        started = self.runs["started_utc"]
        return float((started.max() - started.min()).total_seconds() / 86_400)

    @property
    def _length(self) -> str:
        days = self._days
        return (
            f"{days:.3g} days"
            if days >= 2
            else f"{24 * days:.3g} hours"
            if days >= 2 / 24
            else "the time measured"
        )

    @property
    def span(self) -> str:
        """From when to when, and how many runs."""
        started = self.runs["started_utc"]
        return f"{plural(len(self.runs), 'run')} from {started.min():%Y-%m-%d %H:%M} to {started.max():%Y-%m-%d %H:%M} UTC"

    @property
    def headline(self) -> Headline:
        """The headline of a page: what changed, else the level of each condition."""
        info = metric_of(self.metric)
        changed = {name: points for name, points in self.changes.items() if points}
        if changed:
            name, points = max(
                changed.items(), key=lambda item: max(abs(math.log(p.ratio)) for p in item[1])
            )
            p = max(points, key=lambda p: abs(math.log(p.ratio)))
            return Headline(f"{info.label} of {name}: {p.words(self.metric)}.")
        medians = self.runs.groupby("condition", observed=True)[self.metric].median()
        levels = ", ".join(
            f"{format_value(float(v), info.unit)} ({name})" for name, v in medians.items()
        )
        change = "no change of level" if self.trends else "too short for a trend"
        return Headline(f"{info.label}: {levels}; {change} in {self.span}.")

    @property
    def words(self) -> Words:
        """Trends and changes, in sentences."""
        lines = []
        for name, change in self.trends.items():
            # over the time that was measured: a month would be an extrapolation of hours
            factor, low, high = change.over(self._days)
            drift, ends = f"{effect(factor)} in {self._length}", span(factor, low, high)
            sure = "a trend" if not change.low <= 0 <= change.high else "no trend beyond chance"
            lines.append(
                f"- {name}: {sure} ({drift}; {100 * change.confidence:g} % interval {ends}; the median of "
                f"each {self.period}, {change.periods} in all)."
            )
        lines += [
            f"- {name}: {p.words(self.metric)}."
            for name, points in self.changes.items()
            for p in points
        ]
        lines += [f"- {name}: {wave}." for name, wave in self.waves.items()]
        if self.trends and not any(self.changes.values()):
            lines.append("- No abrupt change of level was found.")
        if self.trends:
            lines.append(
                f"- Where nothing changes, at most {100 * self.alpha:g} % of such pages report a change of level "
                "(somewhat more where neighbouring periods resemble each other)."
            )
        else:
            lines.append("- Too few periods for a trend: ten are needed.")
        return Words("\n".join(lines))

    def by(self, part: str) -> pd.DataFrame:
        """Median and quartiles by hour of the day or weekday (UTC).

        ``condition``, ``part`` (0 to 23, or 0 for Monday to 6), ``n``, ``median``, ``low``, ``high`` (quartiles).
        """
        import pandas as pd

        clock = self.runs["started_utc"].dt
        keyed = self.runs.assign(part=clock.hour if part == "hour" else clock.day_of_week)
        grouped = keyed.groupby(["condition", "part"], observed=True)[self.metric]
        summary = grouped.agg(
            n="size",
            median="median",
            low=lambda v: v.quantile(0.25),
            high=lambda v: v.quantile(0.75),
        ).reset_index()
        return pd.DataFrame(summary)


def name_of(location: Location) -> str:
    """Name of an experiment from its folder; one that was set aside has the time of its first run behind its name."""
    return re.sub(r"-\d{8}T\d{6}(-\d+)?$", "", split(location)[1])


def measurements(location: Location, name: str | None = None) -> Location | list[str]:
    """The data of one history: an experiment; or, in a data root, all measurements of this name, also renamed ones.

    Examples
    --------
    >>> npl.analysis.measurements("data/recorded/day")
    'data/recorded/day'
    """
    inside = experiments(location)
    if not inside and name == name_of(location):
        return location
    if name is not None and name not in map(name_of, inside):
        raise NothingToReport(f"{location} holds no experiment {name!r}")
    return [p for p in inside if name in (None, name_of(p))] or location


def ask_history(
    data: Data, metric: str | None = None, *, where: Mapping[str, Any] | None = None
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
    if metric is None and not hasattr(data, "metric"):
        metric = next(iter(headline_metrics(data)), "latency_oneway_us")
    pool = () if hasattr(data, "metric") or isinstance(data, Mapping) else "measurements"
    obs = observe(data, metric, where=where, pool=pool)
    chosen, metric = obs.runs, obs.metric
    chosen = chosen[chosen["started_utc"].notna()].sort_values("started_utc")
    if chosen.empty:
        raise NothingToReport(f"no run with a value of {metric} has a start time")
    days = (chosen["started_utc"].max() - chosen["started_utc"].min()).total_seconds() / 86_400
    every, period = next(((e, w) for e, w, least in PERIODS if days >= least), ("min", "minute"))
    search = next((name for name, least in SEARCHED if days >= least), "min")
    names = [str(c) for c in chosen["condition"].cat.categories if (chosen["condition"] == c).any()]
    by_time = chosen.set_index("started_utc")
    levels = {
        n: by_time.loc[by_time["condition"] == n, metric].resample(every).median().dropna()
        for n in names
    }
    trends, points, waves = {}, {}, {}
    for name, values in levels.items():
        if len(values) < 10 or (values <= 0).any():
            continue
        index = pd.DatetimeIndex(values.index)
        y = np.asarray(values, dtype=np.float64)
        trends[name] = trend(
            np.asarray((index - index[0]).total_seconds(), dtype=np.float64) / 86_400, y
        )
        fine = by_time.loc[by_time["condition"] == name, metric].resample(search).median().dropna()
        index = pd.DatetimeIndex(fine.index)
        result = changes(np.asarray(fine, dtype=np.float64), alpha=ALPHA / len(names))
        points[name] = _on_the_clock(result, index)
        if result.wave is not None:
            low, high = (index[i] for i in result.wave)
            waves[name] = (
                f"it moves slowly, lowest around {low:%d %B, %H:%M} and highest around {high:%d %B, %H:%M} UTC, "
                f"{size_words(result.wave_ratio)} apart"
            )
    return History(metric, chosen, period, levels, trends, points, waves, ALPHA)


def _on_the_clock(result: Changes, index: pd.DatetimeIndex) -> list[ChangePoint]:
    """Changes with the times of their periods."""
    return [
        ChangePoint(
            index[c.start], None if c.end is None else index[c.end], c.ratio, c.before, c.level
        )
        for c in result.abrupt
    ]
