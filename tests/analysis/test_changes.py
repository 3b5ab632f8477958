"""Changes of level and drifts: against what was planted."""

from functools import partial

import numpy as np
import pandas as pd
import pytest

from netperf_lib import analysis
from netperf_lib.errors import StatsError

from . import planted, series_yardstick
from .series_yardstick import ours, simulated_days

TEN_MINUTES = 132
"""Of 22 hours."""


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


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.7])
def test_a_series_without_a_change_has_none(correlation):
    days = simulated_days(12, TEN_MINUTES, 0.025, correlation, 0.0)
    assert sum(bool(ours(*one)) for one in days) <= 2


@pytest.mark.parametrize("noise", [0.02, 0.05])
@pytest.mark.parametrize("periods", [48, 144])
def test_a_smooth_day_has_no_abrupt_change(noise, periods):
    days = simulated_days(12, periods, noise, 0.0, 0.15)
    assert sum(bool(ours(*one)) for one in days) <= 1


@pytest.mark.parametrize(
    ("name", "size", "found", "dated"),
    [("telstra_ping", 1.2, 30, 25), ("telstra_download", 1 / 1.2, 75, 60)],
)
def test_a_change_of_real_days_is_dated(name, size, found, dated):
    find = partial(ours, alpha=0.01)
    shares = series_yardstick.shares(find, series_yardstick.real_days(name, 3), size)
    assert shares[1] >= found
    assert shares[2] >= dated


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
    series = pd.read_csv(series_yardstick.DATA).query("series == 'nab_ec2_latency'")
    at = pd.DatetimeIndex(pd.to_datetime(series["time"], utc=True))
    start, end = map(pd.Timestamp, ("2014-03-12T04:00Z", "2014-03-14T04:00Z"))
    values = series["value"].to_numpy() * np.where((at >= start) & (at < end), 2.0, 1.0)
    runs = planted.runs({"ppg": values}, at.size, started_utc=at)
    history = analysis.ask_history(runs, "latency_oneway_us")
    [[change]] = history.changes.values()
    assert (history.period, change.start, change.end) == ("day", start, end)
    assert change.ratio == pytest.approx(2, rel=0.05)
