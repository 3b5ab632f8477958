"""Zones over subscriptions, the distribution of all packets, changes and drifts: against what was planted."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import netperf_lib as npl
from netperf_lib.data.layout import Store
from netperf_lib.data.synth import synth
from netperf_lib.errors import StatsError, UsageError
from netperf_lib.questions import fleet


@pytest.fixture(scope="module")
def year(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve deployments over a year: qperf alone."""
    root = tmp_path_factory.mktemp("year")
    synth(root, runs=12 * 160, experiments=12, tools=("qperf",), deployment_sd=0.03, run_sd=0.02)
    npl.ingest(root)
    return root


def test_zone_pairs_are_joined_on_the_physical_zone(year: Path) -> None:
    truth = json.loads((year / "truth.json").read_text())
    found = fleet.zone_matrix(year, "latency_oneway_us", where={"placement": "cross-zone"})
    assert found.attrs["unknown"] == 0
    assert int(found.attrs["deployments"].to_numpy().sum()) == 12
    assert int(found.attrs["runs"].to_numpy().sum()) == 12 * 40
    for client in found.index:
        for server in found.columns:
            if pd.notna(found.loc[client, server]):
                pair = "-".join(sorted((client[-3:], server[-3:])))
                planted = truth["latency_us"]["cross-zone"] * truth["zone_pair"][pair]
                assert found.loc[client, server] == pytest.approx(planted, rel=0.15)
    # the logical zones say nothing: every deployment calls its own 1 and 2
    runs = npl.load(npl.experiments(year))
    crossing = runs[runs["placement"] == "cross-zone"]
    assert set(zip(crossing["client_zone"], crossing["server_zone"], strict=True)) == {("1", "2")}
    same = fleet.zone_matrix(runs, "latency_oneway_us", where={"placement": "cross-zone"})
    pd.testing.assert_frame_equal(found, same)


def test_runs_without_a_physical_zone_are_counted_not_guessed(year: Path) -> None:
    runs = npl.load(npl.experiments(year))
    runs.loc[runs["experiment"] == "fleet-0001", "client_zone_physical"] = None
    found = fleet.zone_matrix(runs, "latency_oneway_us")
    assert found.attrs["unknown"] == 160
    runs["client_zone_physical"] = None
    with pytest.raises(StatsError, match="known physical zone"):
        fleet.zone_matrix(runs, "latency_oneway_us")
    with pytest.raises(UsageError, match="nosuch"):
        fleet.zone_matrix(runs, "nosuch_us")


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


def test_percentiles_over_all_packets_in_one_pass(tmp_path: Path) -> None:
    synth(tmp_path, runs=16, experiments=2, samples=1000, tools=("sockperf",))
    npl.ingest(tmp_path)
    found = fleet.latencies(tmp_path)
    runs = npl.load(npl.experiments(tmp_path))
    samples = npl.load(npl.experiments(tmp_path), "samples").merge(runs[["experiment", "run_id", "placement"]])
    assert set(found) == {(p,) for p in samples["placement"].unique()}
    for (placement,), histogram in found.items():
        values = np.sort(samples.loc[samples["placement"] == placement, "latency_us"].to_numpy(dtype=float))
        assert histogram.count == len(values)
        for q in (50, 99, 99.9):
            true = values[int(np.ceil(q / 100 * len(values))) - 1]
            assert histogram.percentile(q)[0] == pytest.approx(true, rel=histogram.relative_error + 1e-5)
    assert fleet.latencies(tmp_path, by=(), where={"placement": "ppg"})[()] == found[("ppg",)]
    assert fleet.latencies(tmp_path, workers=2) == found
    assert sum(h.count for h in fleet.latencies(tmp_path, by=("experiment", "placement")).values()) == 16 * 1000


def test_failed_runs_and_round_trips_are_in_no_distribution_of_one_way_latencies(tmp_path: Path) -> None:
    """A failed run of round trips has no metric that tells its basis, and packets all the same."""
    synth(tmp_path, runs=8, samples=200, tools=("sockperf",))
    store = Store(tmp_path, "fleet-0001")
    run_id = store.run_ids()[0]
    record = store.run(run_id) | {"status": "failed", "error": "cut", "run_id": f"{run_id}-a2", "attempt": 2}
    log = store.path / "raw" / run_id / "client.out"
    with store.new_run(f"{run_id}-a2") as place:
        (place / "client.out").write_bytes(log.read_bytes())
        store.write_record(place, record | {"trial": record["trial"] | {"full_rtt": True}})
    assert npl.load(tmp_path / "fleet-0001", "samples")["run_id"].nunique() == 9
    assert sum(h.count for h in fleet.latencies(tmp_path).values()) == 8 * 200


def test_a_filter_that_fits_no_column_is_one_sentence(tmp_path: Path) -> None:
    synth(tmp_path, runs=4, samples=20)
    for where in ({"tol": "qperf"}, {"streams": "many"}):
        for ask in (fleet.latencies, partial(fleet.series, metric="rtt_us")):
            with pytest.raises(UsageError, match=next(iter(where))):
                ask(tmp_path, where=where)
