"""What the pages of a report ask besides verdicts, on small tables whose truth is planted."""

import numpy as np
import pandas as pd
import pytest

import netperf_lib as npl
from netperf_lib.analysis.contents import ends_of
from netperf_lib.analysis.series import measurements, name_of
from netperf_lib.errors import NothingToReport
from netperf_lib.reporting.answer import pairs_words

from . import planted

q = npl.analysis
BPS = "throughput_bps"


def runs(rates, rounds=8, **columns):
    return planted.runs(rates, rounds, metric=BPS, **columns)


# -- pairs -----------------------------------------------------------------------------------------


def pairs(rates, **columns):
    """Runs of pairs of hosts: ``ab`` is from a to b."""
    ends = {(client, server): rate for (client, server), rate in rates.items()}
    return runs(ends, by=["client", "server"], **columns)


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        ({"ab": 1e9, "ba": 1e9, "ac": 1e9, "cb": 1e9}, "All pairs have 1 Gbit/s."),
        ({"ab": 1e9, "ba": 1.01e9, "cb": 1e9}, "All pairs have 1 to 1.01 Gbit/s."),
        (
            {"ab": 2e9, "cd": 1e9},
            "Best is a → b with 2 Gbit/s, worst c → d with 1 Gbit/s.",
        ),
    ],
)
def test_what_pairs_say(rates, words):
    table = pairs(rates)
    assert pairs_words(npl.observe(table, BPS, by=("client", "server"))) == words


def test_pairs_need_hosts_and_values_and_are_those_of_zones_where_these_differ():
    with pytest.raises(NothingToReport, match="several pairs"):
        ends_of(runs({"ppg": 1e9}), BPS)
    with pytest.raises(NothingToReport, match="several pairs"):
        ends_of(pairs({"ab": 1e9}), BPS)
    zones = {"client_zone": "1", "server_zone": lambda t: t["server"]}
    assert ends_of(pairs({"ab": 2e9, "cd": 1e9}, **zones), BPS) == tuple(zones)


def test_the_verdict_and_the_levels_pool_pairs_alike():
    far = npl.load(npl.recorded().parent / "zones").assign(placement="cross-zone")
    near = far.drop_duplicates(["round", "test"]).assign(
        placement="same-zone", server="x", client="y", run_id=lambda t: "n" + t["run_id"]
    )
    both, metric = pd.concat([far, near]), "latency_oneway_us"
    levels = npl.ask(both, "placement", metric, pool="pairs").levels["median"]
    a, b = ({"placement": place} for place in ("cross-zone", "same-zone"))
    (found,) = npl.compare(both, contrasts=[{"metric": metric, "a": a, "b": b}])
    assert found.medians == pytest.approx((levels["cross-zone"], levels["same-zone"]))


# -- time ------------------------------------------------------------------------------------------


def test_a_history_says_from_when_to_when():
    history = q.ask_history(runs({"ppg": 1e9}, 24))
    assert history.span == "24 runs from 2026-03-02 06:00 to 2026-03-02 09:50 UTC"


def test_few_periods_have_no_changes_and_none_without_a_start():
    few = runs({"ppg": 1e9}, 3)
    assert "Too few periods to look for changes" in q.ask_history(few).words
    with pytest.raises(NothingToReport, match="has a start time"):
        q.ask_history(few.assign(started_utc=pd.NaT), BPS)


@pytest.mark.parametrize(
    ("size", "phrase"),
    [
        (0.5, "50 % slower than before, which has not ended"),
        (4.0, "4.0 times as high as before, which has not ended"),
    ],
)
def test_a_lasting_change_is_dated(size, phrase):
    rates = 1e9 * np.where(np.arange(60) < 30, 1, size)
    history = q.ask_history(runs({"ppg": rates}, 60, noise=0.01), BPS)
    [[change]] = history.changes.values()
    assert (change.end, change.start.hour) == (None, 11)
    assert phrase in history.headline
    assert change.ratio == pytest.approx(size, rel=0.02)


def test_the_measurements_of_a_name(tmp_path):
    assert name_of("results/lab-20260302T060000-2") == "lab"
    for name in ("lab", "lab-20260302T060000", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "experiment.yaml").touch()
    found = measurements(f"{tmp_path}/*", "lab")
    assert [folder.name for folder in found] == ["lab", "lab-20260302T060000"]
    with pytest.raises(NothingToReport, match="holds no experiment 'x'"):
        measurements(tmp_path / "lab", "x")


# -- single pages ----------------------------------------------------------------------------------


def test_places_are_those_of_a_table_that_has_several():
    assert q.places(runs({"ppg": 1e9})) is None
    assert q.places(runs({"ppg": 1e9, "cross-zone": 1e9})) == ["ppg", "cross-zone"]
