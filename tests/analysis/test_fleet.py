"""Changes and drifts over a year: against what was planted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import netperf_lib as npl

from ..synth import synth


@pytest.fixture(scope="module")
def year(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve deployments over a year: qperf alone."""
    root = tmp_path_factory.mktemp("year")
    synth(root, runs=12 * 160, experiments=12, tools=("qperf",), deployment_sd=0.03, run_sd=0.02)
    npl.ingest(root)
    return root


def test_the_planted_change_is_found_and_no_other(year: Path) -> None:
    truth = json.loads((year / "truth.json").read_text())
    runs = (
        npl.load(npl.experiments(year))
        .dropna(subset=["latency_oneway_us"])
        .set_index("started_utc")
    )
    of = runs.groupby("placement")["latency_oneway_us"]
    changed, steady = (
        of.get_group(p).resample("3D").median().dropna() for p in ("same-zone", "ppg")
    )
    [one] = npl.analysis.changes(changed.to_numpy()).abrupt
    assert abs(changed.index[one.start] - pd.Timestamp(truth["changed_utc"])) <= pd.Timedelta(
        days=9
    )
    assert one.ratio == pytest.approx(truth["change"], rel=0.04)
    assert not npl.analysis.changes(steady.to_numpy()).abrupt


def day(minutes: int = 1320, slower: float = 1.18) -> pd.DataFrame:
    """A run a minute from 6:00, and from 15:00 to 19:00 slower."""
    rng = np.random.default_rng(1)
    at = pd.Timestamp("2026-03-02T06:00Z") + pd.to_timedelta(np.arange(minutes), unit="min")
    incident = (at.hour >= 15) & (at.hour < 19)
    values = (
        46
        * np.exp(0.04 * rng.standard_normal(minutes))
        * np.where(rng.random(minutes) < 0.03, 1.5, 1.0)
    )
    return pd.DataFrame(
        {
            "experiment": "day", "deployment": 1, "round": np.arange(1, minutes + 1),
            "status": "ok", "order": np.arange(minutes), "run_id": [f"r{i}" for i in range(minutes)],
             "tool": "sockperf", "test": "ping-pong", "placement": "ppg", "client": "a", "server": "b",
            "started_utc": at, "latency_oneway_us": values * np.where(incident, slower, 1.0),
        }
    )  # fmt: skip


def test_an_incident_of_some_hours_is_dated_and_sized() -> None:
    runs = day()
    history = npl.analysis.ask_history(runs, "latency_oneway_us")
    [change] = (
        history.changes["ppg"] if "ppg" in history.changes else next(iter(history.changes.values()))
    )
    words = change.words("latency_oneway_us")
    assert words.startswith(
        "from 02 March 2026, 15:00 to 19:00 UTC 18 % slower than before and after"
    )
    assert words in history.headline
    assert words in history.words


def test_a_day_with_an_incident_is_below_its_threshold() -> None:
    """No run was at the threshold, and neighbouring rounds resemble each other: that is no reason for no verdict."""
    [c] = npl.analysis.judge(
        day(), [{"metric": "latency_oneway_us", "a": {"placement": "ppg"}, "below": "100 us"}]
    )
    assert (c.verdict, c.unit, c.n) == ("better", "part", 24)
    assert 46 * 0.97 < c.ratio * 100 < 46 * 1.05


def test_a_trend_of_hours_is_told_for_the_time_measured() -> None:
    runs = day(180)
    runs["latency_oneway_us"] *= np.exp(np.linspace(0, 3, 180))
    assert "×inf" not in npl.analysis.ask_history(runs, "latency_oneway_us").words
