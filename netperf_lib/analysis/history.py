"""A metric over the time of one experiment or many.

It is shown by the clock, by hour and by weekday, with changes of its level.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ..data.files import Location, last_name
from ..data.layout import experiments
from ..errors import NothingToReport
from ..metrics import MARGIN, format_value, plural
from ..metrics import metric as metric_of
from .observe import observe
from .runs import MEASUREMENT, Data, headline_metrics
from .series import changes
from .words import Headline, Words, levels_words, log_size, percent, size_words

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
        """Return the change: ``from 15:00 to 19:00 18 % slower than before and after``."""
        info, more = metric_of(metric), self.ratio > 1
        how = "slower" if more == (info.better == "lower") else "faster"
        size = f"{size_words(self.ratio)} {'as high as' if self.ratio >= 3 else f'{how} than'}"
        after, before = (format_value(v, info.unit) for v in (self.after, self.before))
        begun, than = f"{self.at:%d %B %Y, %H:%M}", f"({after} against {before})"
        if self.until is None:
            return f"since {begun} UTC {size} before, which has not ended {than}"
        same_day = self.until.date() == self.at.date()
        end = f"{self.until:%H:%M}" if same_day else f"{self.until:%d %B, %H:%M}"
        return f"from {begun} to {end} UTC {size} before and after {than}"


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
    changes : dict of str to list of ChangePoint
        Abrupt changes of level, of conditions with at least ten periods.
    """

    metric: str
    runs: pd.DataFrame
    period: str
    series: dict[str, pd.Series[float]]
    changes: dict[str, list[ChangePoint]]

    @property
    def span(self) -> str:
        """From when to when, and how many runs."""
        first, last = (
            f"{t:%Y-%m-%d %H:%M}" for t in self.runs["started_utc"].agg(["min", "max"])
        )
        return f"{plural(len(self.runs), 'run')} from {first} to {last} UTC"

    @property
    def headline(self) -> Headline:
        """The headline of a page: what changed, else the level of each condition."""
        points = [(name, p) for name, some in self.changes.items() for p in some]
        if points:
            name, p = max(points, key=lambda point: log_size(point[1].ratio))
            return Headline(
                f"{metric_of(self.metric).label} of {name}: {p.words(self.metric)}."
            )
        medians = self.runs.groupby("condition", observed=True)[self.metric].median()
        change = "No change of level" if self.changes else "Too few periods for changes"
        levels = levels_words(medians.to_frame("median"), self.metric)
        return Headline(f"{levels} {change} in {self.span}.")

    @property
    def words(self) -> Words:
        """The changes, in sentences."""
        lines = []
        for name, points in self.changes.items():
            lines += [f"{name}: {p.words(self.metric)}" for p in points]
        if not self.changes:
            lines.append(f"Too few periods to look for changes: {FEWEST} are needed")
        elif not any(self.changes.values()):
            lines.append(
                f"No abrupt change of level by more than {percent(MARGIN)} was found"
            )
        return Words("\n".join(f"- {line}." for line in lines))


def name_of(location: Location) -> str:
    """Name of an experiment from its folder.

    One that was set aside has the time of its first run behind its name.
    """
    return re.sub(r"-\d{8}T\d{6}(-\d+)?$", "", last_name(location))


def measurements(location: Location, name: str | None = None) -> Location | list[str]:
    """Return the data of one history.

    It is an experiment, or in a data root all measurements of this name, also renamed ones.

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
    observed = hasattr(data, "metric")
    if metric is None and not observed:
        metric = next(iter(headline_metrics(data)), "latency_oneway_us")
    pool = () if observed or isinstance(data, Mapping) else MEASUREMENT
    obs = observe(data, metric, where=where, pool=pool)
    chosen, metric = obs.runs, obs.metric
    chosen = chosen[chosen["started_utc"].notna()].sort_values("started_utc")
    if chosen.empty:
        raise NothingToReport(f"no run with a value of {metric} has a start time")
    started = chosen["started_utc"]
    days = (started.max() - started.min()) / pd.Timedelta(days=1)
    every, period = next((e, w) for e, w, least in PERIODS if days >= least)
    search = "h" if days > FINE_DAYS else "10min"
    found = History(metric, chosen, period, {}, {})
    by_time = chosen.set_index("started_utc").groupby("condition", observed=True)[metric]
    for condition, values in by_time:
        name = str(condition)
        medians = found.series[name] = values.resample(every).median().dropna()
        if len(medians) < FEWEST or (medians <= 0).any():
            continue
        fine = values.resample(search).median().dropna()
        at = pd.DatetimeIndex(fine.index)
        hours = ((at - at[0]) / pd.Timedelta(hours=1)).to_numpy()
        result = changes(
            fine.to_numpy(float), hours, alpha=CHANGE_ALPHA / by_time.ngroups
        )
        found.changes[name] = [
            ChangePoint(
                at[c.start], at[c.end] if c.end else None, c.ratio, c.before, c.level
            )
            for c in result
        ]
    return found
