"""What the pages of a report ask besides verdicts, on small tables whose truth is planted."""

import numpy as np
import pandas as pd
import pytest

import netperf_lib as npl
from netperf_lib.analysis.history import measurements, name_of
from netperf_lib.analysis.pairs import has_pairs
from netperf_lib.errors import NothingToReport

q = npl.analysis
ROUNDS = 8


def runs(values, rounds=ROUNDS, **common):
    """A run of each placement in each round; a value is a number, or a function of the round."""
    rows = [
        {
            "run_id": f"{p}-r{n}",
            "experiment": "x",
            "deployment": 1,
            "round": n,
            "order": i,
            "attempt": 1,
        }
        | {
            "placement": p,
            "client": "a",
            "server": f"b-{p}",
            "status": "ok",
            "tool": "iperf3",
            "test": "tcp",
        }
        | {
            "throughput_bps": v(n) if callable(v) else v,
            "error": None,
            "streams": 1,
            "duration_s": 10.0,
        }
        | {
            "started_utc": pd.Timestamp("2026-03-02T06:00Z")
            + pd.Timedelta(minutes=10 * n + i)
        }
        | common
        for n in range(1, rounds + 1)
        for i, (p, v) in enumerate(values.items())
    ]
    return pd.DataFrame(rows)


# -- pairs -----------------------------------------------------------------------------------------


def pairs(levels, rounds=4):
    parts = [runs({"p": v}, rounds, client=a, server=b) for (a, b), v in levels.items()]
    table = pd.concat(parts, ignore_index=True)
    return table.assign(run_id=table["run_id"] + table["client"] + table["server"])


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        (
            {("a", "b"): 1e9, ("b", "a"): 1e9, ("a", "c"): 1e9, ("c", "b"): 1e9},
            "All pairs have 1 Gbit/s.",
        ),
        (
            {("a", "b"): 1e9, ("b", "a"): 1.01e9, ("c", "b"): 1e9},
            "All pairs have 1 to 1.01 Gbit/s.",
        ),
        (
            {("a", "b"): 2e9, ("c", "d"): 1e9},
            "Best is a → b with 2 Gbit/s, worst c → d with 1 Gbit/s.",
        ),
    ],
)
def test_what_pairs_say(levels, words):
    table = pairs(levels)
    assert has_pairs(table, "throughput_bps")
    said = q.pairs_words(npl.observe(table, "throughput_bps", by=("client", "server")))
    assert said.startswith(words)


def test_no_matrix_without_hosts_or_values():
    assert not has_pairs(runs({"ppg": 1e9}), "rtt_us")
    assert not has_pairs(runs({"ppg": 1e9}).drop(columns="client"), "throughput_bps")
    table = pairs({("a", "b"): 2e9, ("c", "d"): 1e9}).assign(
        client_zone="1", server_zone=lambda t: t["server"]
    )
    assert q.ends_of(table, "throughput_bps") == ("client_zone", "server_zone")


# -- time ------------------------------------------------------------------------------------------


def test_a_history_says_from_when_to_when():
    history = q.ask_history(runs({"ppg": 1e9}, rounds=24))
    assert history.span == "24 runs from 2026-03-02 06:10 to 2026-03-02 10:00 UTC"


def test_few_periods_have_no_changes_and_none_without_a_start():
    history = q.ask_history(runs({"ppg": 1e9}, rounds=3))
    assert "Too few periods to look for changes" in history.words
    assert "Too few periods for changes" in history.headline
    with pytest.raises(NothingToReport, match="has a start time"):
        q.ask_history(runs({"ppg": 1e9}).assign(started_utc=pd.NaT), "throughput_bps")


@pytest.mark.parametrize(
    ("size", "phrase"),
    [
        (0.5, "50 % slower than before, which has not ended"),
        (4.0, "4.0 times as high as before, which has not ended"),
    ],
)
def test_a_lasting_change_is_dated(size, phrase):
    rng = np.random.default_rng(1)
    table = runs(
        {
            "ppg": lambda n: (
                1e9 * np.exp(0.01 * rng.standard_normal()) * (size if n > 30 else 1)
            )
        },
        rounds=60,
    )
    history = q.ask_history(table, "throughput_bps")
    [[change]] = history.changes.values()
    assert (change.until, change.at.hour) == (None, 11)
    assert phrase in history.headline
    assert change.ratio == pytest.approx(size, rel=0.02)


def test_the_measurements_of_a_name(tmp_path):
    assert name_of("results/lab-20260302T060000-2") == "lab"
    assert measurements(tmp_path / "lab", "lab") == tmp_path / "lab"
    with pytest.raises(NothingToReport, match="holds no experiment 'x'"):
        measurements(tmp_path, "x")


# -- single pages ----------------------------------------------------------------------------------


def test_how_many_streams_are_enough():
    ladder = [
        runs({"ppg": rate}).assign(streams=k)
        for k, rate in ((1, 1e9), (2, 2e9), (4, 4e9), (8, 4e9))
    ]
    table = pd.concat(
        [t.assign(run_id=t["run_id"] + f"-{i}") for i, t in enumerate(ladder)],
        ignore_index=True,
    )
    assert q.saturation(table)["ppg"].words.startswith("4 streams")
    assert (q.places(table), q.places(runs({"ppg": 1e9, "cross-zone": 1e9}))) == (
        None,
        ["ppg", "cross-zone"],
    )
