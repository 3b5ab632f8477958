"""A metric over the time of one experiment or many: medians of periods, and changes of level."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from ..data.files import Location, last_name
from ..data.layout import experiment_folders
from ..data.shipped import located
from ..errors import NothingToReport
from ..metrics import MARGIN, plural
from ..metrics import metric as metric_of
from .observe import Observations, observe
from .runs import MEASUREMENT, Data, Levels, headline_metrics
from .series import Change, changes
from .words import Headline, Words, levels_words, log_size, percent

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
    every, period = next(
        (every, words) for every, words, least in PERIODS if days >= least
    )
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
