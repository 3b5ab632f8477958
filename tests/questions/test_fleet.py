"""Changes and drifts over a year: against what was planted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import netperf_lib as npl
from netperf_lib.errors import StatsError, UsageError
from netperf_lib.questions import fleet

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
    changed = fleet.series(year, "latency_oneway_us", where={"placement": "same-zone"}, every="3D")
    [one] = fleet.change_points(changed)
    assert abs(one.at - pd.Timestamp(truth["changed_utc"])) <= pd.Timedelta(days=9)
    assert one.ratio == pytest.approx(truth["change"], rel=0.04)
    assert one.p == pytest.approx(0.001)
    steady = fleet.series(year, "latency_oneway_us", where={"placement": "ppg"}, every="3D")
    assert fleet.change_points(steady, alpha=0.001) == []


def test_two_changes_and_their_order() -> None:
    rng = np.random.default_rng(3)
    level = np.repeat([50.0, 58.0, 52.0], 40)
    values = pd.Series(
        level * np.exp(0.02 * rng.standard_normal(120)), pd.date_range("2026-01-01", periods=120, tz="UTC")
    )
    first, second = fleet.change_points(values)
    assert first.at == values.index[40]
    assert second.at == values.index[80]
    assert (first.ratio > 1) is True
    assert (second.ratio < 1) is True
    assert fleet.change_points(pd.Series(np.ones(50), values.index[:50])) == []
    with pytest.raises(UsageError, match="permutations"):
        fleet.change_points(values, alpha=0.0001)


def test_false_alarms_are_as_rare_as_stated() -> None:
    """300 series in which nothing changes; heavy tails. The bound is the 99.9 % quantile of the binomial."""
    rng = np.random.default_rng(11)
    index = pd.date_range("2026-01-01", periods=60, tz="UTC")
    alarms = sum(
        bool(fleet.change_points(pd.Series(np.exp(0.05 * rng.standard_t(3, 60)), index), alpha=0.05, permutations=99))
        for _ in range(300)
    )
    assert alarms <= 28
    assert alarms >= 4  # and it is not deaf


def test_a_drift_is_measured_and_neighbours_are_not_evidence() -> None:
    rng = np.random.default_rng(5)
    index = pd.date_range("2026-01-01", periods=180, tz="UTC")
    drift = np.exp(np.log(1.02) / 30 * np.arange(180))
    found = fleet.trend(pd.Series(50 * drift * np.exp(0.02 * rng.standard_normal(180)), index))
    assert found.low < 1.02 < found.high
    assert found.p < 1e-6
    covered = accepted = 0
    for _ in range(200):
        noise = np.zeros(120)
        for t in range(1, 120):
            noise[t] = 0.5 * noise[t - 1] + 0.02 * rng.standard_normal()
        one = fleet.trend(pd.Series(np.exp(noise), index[:120]))
        covered += one.low <= 1 <= one.high
        accepted += one.p >= 0.05
    assert covered >= 179  # 190 expected; without the widening some 150
    assert accepted >= 179
    with pytest.raises(StatsError, match="at least 10"):
        fleet.trend(pd.Series([1.0, 2.0], index[:2]))


def test_a_filter_that_fits_no_column_is_one_sentence(tmp_path: Path) -> None:
    synth(tmp_path, runs=4, samples=20)
    for where in ({"tol": "qperf"}, {"streams": "many"}):
        with pytest.raises(UsageError, match=next(iter(where))):
            fleet.series(tmp_path, "rtt_us", where=where)
