"""Changes of level and drifts: against what was planted."""

from functools import partial

import numpy as np
import pandas as pd
import pytest

from netperf_lib import analysis
from netperf_lib.errors import StatsError

from . import series_yardstick


def day(seed, rho=0.0):
    """Logs of the medians of ten minutes of 22 hours, with a standard deviation of 2.5 %."""
    noise = np.random.default_rng(seed).standard_normal(132)
    for t in range(1, 132):
        noise[t] = rho * noise[t - 1] + noise[t] * np.sqrt(1 - rho * rho)
    return 0.025 * noise


@pytest.mark.parametrize(("hours", "ratio"), [(2, 1.18), (8, 1.18), (4, 2.0)])
def test_a_temporary_change_is_found(hours, ratio):
    hits = 0
    for seed in range(4):
        y, start = day(seed), 30 + seed
        y[start : start + 6 * hours] += np.log(ratio)
        result = analysis.changes(np.exp(y))
        hits += [(c.start, c.end) for c in result] == [(start, start + 6 * hours)] or (
            len(result) == 1
            and abs(result[0].start - start) <= 1
            and abs((result[0].end or 0) - start - 6 * hours) <= 1
        )
    assert hits >= 3


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.7])
def test_a_series_without_a_change_has_none(rho):
    alarms = sum(bool(analysis.changes(np.exp(day(seed, rho)))) for seed in range(12))
    assert alarms <= 2


@pytest.mark.parametrize("noise", [0.02, 0.05])
@pytest.mark.parametrize("periods", [48, 144])
def test_a_smooth_day_has_no_abrupt_change(noise, periods):
    days = series_yardstick.simulated_days(12, periods, noise, 0.0, 0.15)
    assert sum(bool(analysis.changes(*one)) for one in days) <= 1


@pytest.mark.parametrize(
    ("name", "size", "found", "dated"),
    [("telstra_ping", 1.2, 30, 25), ("telstra_download", 1 / 1.2, 75, 60)],
)
def test_a_change_of_real_days_is_dated(name, size, found, dated):
    find = partial(series_yardstick.ours, alpha=0.01)
    shares = series_yardstick.shares(find, series_yardstick.real_days(name, 3), size)
    assert shares[1] >= found
    assert shares[2] >= dated


def test_a_change_that_lasts_has_no_end():
    y = day(3)
    y[90:] += 0.2
    result = analysis.changes(np.exp(y))
    assert [(c.start, c.end) for c in result] == [(90, None)]


def test_two_incidents_and_a_lasting_change():
    y = day(3)
    y[20:32] += 0.2
    y[60:72] -= 0.2
    y[100:] += 0.1
    found = analysis.changes(np.exp(y))
    assert [(c.start, c.end) for c in found] == [(20, 32), (60, 72), (100, None)]
    assert [round(c.ratio, 1) for c in found] == [1.2, 0.8, 1.1]


def test_a_daily_wave_is_no_change():
    t = np.arange(3 * 144)
    noise = 0.02 * np.random.default_rng(1).standard_normal(t.size)
    result = analysis.changes(np.exp(0.08 * np.sin(2 * np.pi * t / 144) + noise))
    assert not result


def test_short_constant_and_wrong_series():
    assert not analysis.changes(np.ones(50))
    assert not analysis.changes(np.array([1.0, 2.0]))
    with pytest.raises(StatsError, match="positive"):
        analysis.changes(np.array([1.0, np.nan, 2.0] * 8))


def test_more_days_do_not_hide_an_incident():
    series = pd.read_csv(series_yardstick.DATA).query("series == 'nab_ec2_latency'")
    at = pd.DatetimeIndex(pd.to_datetime(series["time"], utc=True))
    slow = (at >= "2014-03-12T04:00Z") & (at < "2014-03-14T04:00Z")
    values = series["value"].to_numpy() * np.where(slow, 2.0, 1.0)
    runs = pd.DataFrame(
        {
            "round": np.arange(1, at.size + 1),
            "status": "ok",
            "tool": "qperf",
            "test": "tcp_lat",
            "placement": "ppg",
            "started_utc": at,
            "latency_oneway_us": values,
        }
    )
    history = analysis.ask_history(runs, "latency_oneway_us")
    [[change]] = history.changes.values()
    assert history.period == "day"
    assert (change.at, change.until) == (
        pd.Timestamp("2014-03-12T04:00Z"),
        pd.Timestamp("2014-03-14T04:00Z"),
    )
    assert change.ratio == pytest.approx(2, rel=0.05)
