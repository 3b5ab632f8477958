"""Changes of level and drifts: against what was planted.

Into real days a change for four hours is planted at a random hour; counted are the days in which it
is found, and dated within two periods.
"""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from netperf_lib import analysis
from netperf_lib.analysis.series import changes
from netperf_lib.errors import StatsError

from . import planted

DATA = Path(__file__).with_name("real.csv.gz")
HOURS = 4.0
TEN_MINUTES = 132
"""Of 22 hours."""


def ours(values, hours=None):
    """Return first and last period, and ratio, of each change; by default of ten minutes."""
    hours = np.arange(values.size) / 6 if hours is None else hours
    times = pd.Timestamp("2026-03-02") + pd.to_timedelta(np.round(3600 * hours), "s")
    found = changes(pd.Series(values, times), alpha=0.01)
    number = {time: n for n, time in enumerate(times)}
    return [(number[c.start], number.get(c.end, values.size), c.ratio) for c in found]


def day(seed, *steps):
    """Medians of ten minutes, with a standard deviation of 2.5 %; a step is its first period, the
    one after its last, and its ratio."""
    values = np.exp(0.025 * np.random.default_rng(seed).standard_normal(TEN_MINUTES))
    for start, end, ratio in steps:
        values[start:end] *= ratio
    return values


@pytest.mark.parametrize(("hours", "ratio"), [(2, 1.18), (8, 1.18), (4, 2.0)])
def test_a_temporary_change_is_found(hours, ratio):
    hits = 0
    for seed in range(4):
        start, end = 30 + seed, 30 + seed + 6 * hours
        found = ours(day(seed, (start, end, ratio)))
        if len(found) == 1:
            hits += abs(found[0][0] - start) <= 1 and abs(found[0][1] - end) <= 1
    assert hits >= 3


def simulated_days(days, periods, noise, correlation, wave):
    rng = np.random.default_rng(1)
    hours = np.arange(periods) * 24 / periods
    for _ in range(days):
        z = rng.standard_normal(periods)
        for t in range(1, periods):
            z[t] = correlation * z[t - 1] + math.sqrt(1 - correlation**2) * z[t]
        shape = wave * np.sin(2 * np.pi * (hours / 24 + rng.random()))
        yield np.exp(noise * z + shape), hours


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.7])
def test_a_series_without_a_change_has_none(correlation):
    days = simulated_days(12, TEN_MINUTES, 0.025, correlation, 0.0)
    assert sum(bool(ours(*one)) for one in days) <= 2


@pytest.mark.parametrize("noise", [0.02, 0.05])
@pytest.mark.parametrize("periods", [48, 144])
def test_a_smooth_day_has_no_abrupt_change(noise, periods):
    days = simulated_days(12, periods, noise, 0.0, 0.15)
    assert sum(bool(ours(*one)) for one in days) <= 1


def real_days(name, every):
    """Yield every n-th day of a real series, as medians of ten minutes."""
    rows = pd.read_csv(DATA).query("series == @name")
    times = pd.DatetimeIndex(pd.to_datetime(rows["time"]))
    series = pd.Series(rows["value"].to_numpy(), index=times).sort_index()
    for _, day in list(series.groupby(series.index.date))[::every]:
        medians = day.resample("10min").median().dropna()
        if len(medians) >= 40:
            hours = (medians.index - medians.index[0]).total_seconds() / 3600
            yield medians.to_numpy(), np.asarray(hours)


def shares(days, size):
    """Return the percentages of days in which a change of this size is found, and dated."""
    rng = np.random.default_rng(5)
    counts = []
    for values, hours in days:
        start = rng.uniform(2, hours[-1] - HOURS - 2)
        inside = (hours >= start) & (hours < start + HOURS)
        first, last = np.flatnonzero(inside)[[0, -1]]
        end = int(last) + 1
        changed = ours(values * np.where(inside, size, 1.0), hours)
        hits = [
            (a, b)
            for a, b, ratio in changed
            if (ratio > 1) == (size > 1)
            and min(b, end) - max(a, first) >= (end - first) / 2
        ]
        dated = [
            hit for hit in hits if abs(hit[0] - first) <= 2 and abs(hit[1] - end) <= 2
        ]
        counts.append([bool(hits), bool(dated)])
    return 100 * np.mean(counts, axis=0)


@pytest.mark.parametrize(
    ("name", "size", "found", "dated"),
    [("telstra_ping", 1.2, 30, 25), ("telstra_download", 1 / 1.2, 75, 60)],
)
def test_a_change_of_real_days_is_dated(name, size, found, dated):
    of_found, of_dated = shares(real_days(name, 3), size)
    assert of_found >= found
    assert of_dated >= dated


def test_two_incidents_and_a_lasting_change():
    steps = (20, 32, 1.2), (60, 72, 0.8), (100, TEN_MINUTES, 1.1)
    found = ours(day(3, *steps))
    assert tuple((*ends, round(ratio, 1)) for *ends, ratio in found) == steps


def test_short_constant_and_wrong_series():
    assert not ours(np.ones(50))
    assert not ours(np.array([1.0, 2.0]))
    with pytest.raises(StatsError, match="positive"):
        ours(np.array([1.0, np.nan, 2.0] * 8))


def test_more_days_do_not_hide_an_incident():
    series = pd.read_csv(DATA).query("series == 'nab_ec2_latency'")
    at = pd.DatetimeIndex(pd.to_datetime(series["time"], utc=True))
    start, end = map(pd.Timestamp, ("2014-03-12T04:00Z", "2014-03-14T04:00Z"))
    values = series["value"].to_numpy() * np.where((at >= start) & (at < end), 2.0, 1.0)
    runs = planted.runs({"ppg": values}, at.size, started_utc=at)
    history = analysis.ask_history(runs, "latency_oneway_us")
    [[change]] = history.changes.values()
    assert (history.period, change.start, change.end) == ("day", start, end)
    assert change.ratio == pytest.approx(2, rel=0.05)
