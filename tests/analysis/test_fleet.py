"""A day with an incident: dated and sized, and no reason to doubt a threshold."""

import numpy as np
import pandas as pd

import netperf_lib as npl


def day(minutes=1320, slower=1.18):
    """A run a minute from 6:00, and from 15:00 to 19:00 slower."""
    rng = np.random.default_rng(1)
    at = pd.Timestamp("2026-03-02T06:00Z") + pd.to_timedelta(
        np.arange(minutes), unit="min"
    )
    incident = (at.hour >= 15) & (at.hour < 19)
    values = (
        46
        * np.exp(0.04 * rng.standard_normal(minutes))
        * np.where(rng.random(minutes) < 0.03, 1.5, 1.0)
    )
    return pd.DataFrame(
        {
            "experiment": "day",
            "deployment": 1,
            "round": np.arange(1, minutes + 1),
            "status": "ok",
            "order": np.arange(minutes),
            "run_id": [f"r{i}" for i in range(minutes)],
            "tool": "sockperf",
            "test": "ping-pong",
            "placement": "ppg",
            "client": "a",
            "server": "b",
            "started_utc": at,
            "latency_oneway_us": values * np.where(incident, slower, 1.0),
        }
    )


def test_an_incident_of_some_hours_is_dated_and_sized():
    runs = day()
    history = npl.analysis.ask_history(runs, "latency_oneway_us")
    [change] = (
        history.changes["ppg"]
        if "ppg" in history.changes
        else next(iter(history.changes.values()))
    )
    words = change.words("latency_oneway_us")
    assert words.startswith(
        "from 02 March 2026, 15:00 to 19:00 UTC 18 % slower than before and after"
    )
    assert words in history.headline
    assert words in history.words


def test_a_day_with_an_incident_is_below_its_threshold():
    """No run was at the threshold, and neighbouring rounds resemble each other: that is no
    reason for no verdict."""
    [c] = npl.analysis.judge(
        day(),
        [{"metric": "latency_oneway_us", "a": {"placement": "ppg"}, "below": "100 us"}],
    )
    assert (c.verdict, c.counted, c.n) == ("better", "part", 24)
    assert 46 * 0.97 < c.ratio * 100 < 46 * 1.05
