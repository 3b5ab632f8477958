"""Families of contrasts from the table of runs: pairing, the correction, what is warned of, and
what is refused."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng

import netperf_lib as npl
from netperf_lib.analysis import Family
from netperf_lib.errors import UsageError
from netperf_lib.experiment.origin import Measured, Origin

LATENCY = {"ppg": 58.0, "same-zone": 84.0, "cross-zone": 190.0}
PPG = {
    "metric": "latency_oneway_us",
    "a": {"placement": "ppg"},
    "b": {"placement": "same-zone"},
    "margin": 0.05,
}
XZONE = {
    "metric": "latency_oneway_us",
    "a": {"placement": "cross-zone"},
    "b": {"placement": "same-zone"},
}


def table(
    rounds=12,
    deployments=1,
    seed=0,
    spread=0.0,
):
    rng, k = default_rng(seed), len(LATENCY)
    index = pd.MultiIndex.from_product(
        [range(1, deployments + 1), range(1, rounds + 1), LATENCY],
        names=["deployment", "round", "placement"],
    )
    runs = index.to_frame(index=False)
    landed = np.repeat(spread * rng.standard_normal((deployments, k)), rounds, axis=0)
    drift = 0.1 * rng.standard_normal((deployments * rounds, 1))
    noise = landed + drift + 0.02 * rng.standard_normal(landed.shape)
    runs["latency_oneway_us"] = (list(LATENCY.values()) * np.exp(noise)).ravel()
    return runs.assign(
        client="client",
        server="host-" + runs["placement"],
        status="ok",
        excluded=None,
        tool="qperf",
        test="tcp_lat",
        run_id=runs.index.map("run{}".format),
        accelerated=pd.array([True] * len(runs), dtype="boolean"),
        streams=pd.array([pd.NA] * len(runs), dtype="Int64"),
    )


def compare(runs, *options, contrasts=(PPG, XZONE), origin=(), **named):
    """What `npl.compare` says of runs for which these contrasts were declared."""
    declared = {"name": "test", "alpha": 0.05, "contrasts": [dict(c) for c in contrasts]}
    return npl.compare(
        Measured(runs, Origin(declared, **dict(origin))), *options, **named
    )


def test_the_sentence_names_the_direction_and_what_it_holds_for():
    family = compare(table())
    assert [c.verdict for c in family] == ["better", "worse"]
    assert family[0].words == (
        "ppg against same-zone: one-way latency −31 % (−32 % to −29 %), better, "
        "for these VMs"
    )
    assert family[1].words.startswith("cross-zone against same-zone: one-way latency +1")
    assert family[0].family == 2


def test_the_order_of_the_rows_changes_nothing():
    runs = table(rounds=8)
    expected = compare(runs).to_dict()

    @given(st.permutations(range(len(runs))))
    def check(order):
        assert compare(runs.iloc[order]).to_dict() == expected

    check()


def test_every_declared_contrast_counts_shown_or_not():
    runs = table()
    runs["rtt_us"] = runs["latency_oneway_us"] * 2
    declared = (PPG, XZONE, {**PPG, "metric": "rtt_us"})
    family = compare(runs, metric="rtt_us", contrasts=declared)
    assert len(family) == 1
    assert family.declared == 3
    alone = compare(table(), metric="latency_oneway_us", contrasts=(PPG,))[0]
    shared = compare(runs, metric="latency_oneway_us", contrasts=declared)[0]
    assert shared.family > alone.family


def test_contrasts_named_with_the_analysis_stand_for_a_declaration_only_where_there_is_none():
    family = npl.compare(table(), contrasts=[PPG])
    assert family[0].verdict == "better"
    assert "named with the analysis" in family.warnings[0]
    declared = Origin({"contrasts": [XZONE]})
    family = npl.compare(Measured(table(), declared), contrasts=[PPG])
    assert family[0].verdict == "exploratory"


def test_rounds_pair_and_a_missing_side_is_counted():
    runs = table()
    lost = (runs["placement"] == "ppg") & (runs["round"] == 3)
    runs.loc[lost, ["status", "latency_oneway_us"]] = ["failed", np.nan]
    runs.loc[(runs["placement"] == "ppg") & (runs["round"] == 5), "excluded"] = (
        "the neighbour VM was rebooted"
    )
    family = compare(runs)
    assert (family.ok, family.failed, family.excluded) == (34, 1, 1)
    assert (family[0].n, family[0].failed) == (10, (1, 0))
    told = next(
        w for w in family[0].warnings if w.startswith("failed, missing or repeated")
    )
    assert "ppg in 1 of 11 rounds" in told
    assert told in repr(family)


def test_a_side_of_several_conditions_is_refused():
    runs = table()
    both = pd.concat([runs.assign(streams=1), runs.assign(streams=8)], ignore_index=True)
    with pytest.raises(UsageError, match="ppg names 2 conditions; name also streams"):
        compare(both)
    sides = {side: {**PPG[side], "streams": 1} for side in "ab"}
    [single] = compare(both, contrasts=[{**PPG, **sides}])
    assert "(1 stream)" in single.words


@pytest.mark.parametrize("up", [True, False, None])
def test_what_a_declared_factor_implies_is_its_proof(up):
    runs = table()
    accelerated = runs["placement"] == "ppg"
    runs["accelerated"] = pd.array(accelerated, dtype="boolean")
    runs["placement"] = "same-zone"
    on_off = {
        "metric": "latency_oneway_us",
        "a": {"accelerated": True},
        "b": {"accelerated": False},
        "margin": 0.1,
    }
    proven = runs.assign(
        vf_up=pd.array(accelerated, dtype="boolean"),
        nic_driver=np.where(accelerated, "mlx5", "netvsc"),
    )
    assert not any(
        "vf_up" in w or "nic_driver" in w
        for w in npl.compare(proven, contrasts=[on_off])[0].warnings
    )
    unproven = runs.assign(vf_up=pd.array([up] * len(runs), dtype="boolean"))
    warned = any(
        "it was not switched" in w
        for w in npl.compare(unproven, contrasts=[on_off])[0].warnings
    )
    assert warned == (up is not None)


@pytest.mark.parametrize(
    ("deployments", "said"),
    [
        (1, "the sides also differ in server's processor"),
        (4, "the sides also differ in server's processor .in some runs"),
    ],
)
def test_other_hardware_may_be_the_difference(deployments, said):
    runs = table(deployments=deployments, spread=0.01)
    older = (runs["placement"] == "ppg") & (runs["deployment"] <= 2)
    runs["server_cpu"] = np.where(older, "8272CL", "8370C")
    ppg, zone = compare(runs)
    assert re.search(said, " ".join(ppg.warnings))
    assert "processor" not in " ".join(zone.warnings)


def test_deployments_are_the_replicates_of_a_placement():
    few, enough = (
        compare(table(deployments=3, spread=0.01)),
        compare(table(deployments=5, spread=0.05)),
    )
    assert few[0].scope == "over 3 deployments"
    assert (enough[0].counted, enough[0].n, enough[0].scope) == (
        "deployment",
        5,
        "over 5 deployments",
    )
    assert "Student" in enough[0].method


def test_a_side_that_was_not_measured_says_so():
    c = compare(table(), contrasts=[{**PPG, "a": {"placement": "vpn"}}])[0]
    assert c.verdict == "no verdict"
    assert c.words == (
        "vpn against same-zone: one-way latency – (no interval), no verdict, for these VMs: "
        "no run of vpn has a value of latency_oneway_us"
    )


def test_one_slow_round_of_as_few_as_are_needed_hides_no_difference_of_many_times():
    runs = table(rounds=7)
    far = runs["placement"] == "cross-zone"
    runs.loc[far, "latency_oneway_us"] *= 60
    runs.loc[
        (runs["placement"] == "same-zone") & (runs["round"] == 3), "latency_oneway_us"
    ] *= 3
    assert compare(runs)[1].verdict == "worse"


def test_claims_that_do_not_hold_are_told_once_beside_the_verdicts_that_rest_on_them():
    runs = table()
    slow = {
        "host": "host-ppg",
        "claim": "one way takes 40 µs",
        "evidence": "median 70 µs",
    }
    ppg, cross_zone = compare(runs, origin={"failed_claims": [slow]})
    assert (
        ppg.warnings[0]
        == "it rests on a claim that does not hold: one way takes 40 µs (median 70 µs)"
    )
    assert not any("claim" in w for w in cross_zone.warnings)
    setup = [
        {"host": f"host-{p}", "claim": "set up as asked", "evidence": p} for p in LATENCY
    ]
    ppg, cross_zone = compare(runs, origin={"failed_claims": [slow, *setup]})
    assert len([w for w in ppg.warnings if "claim" in w]) == 2
    assert len([w for w in cross_zone.warnings if "claim" in w]) == 1


def test_a_family_shows_itself_everywhere():
    family = compare(table())
    frame = family.to_frame()
    assert list(frame["verdict"]) == ["better", "worse"]
    assert {"ratio", "low", "high", "n", "confidence", "words", "warnings"} <= set(
        frame.columns
    )
    told = json.loads(json.dumps(family.to_dict(), allow_nan=False))
    assert told["runs"] == {"ok": 36, "failed": 0, "excluded": 0}
    assert isinstance(family, Family)
    assert "2 compared: 1 worse, 1 better" in repr(family)
    assert (family.summary, list(frame["median_a"])) == (
        "2 compared: 1 worse, 1 better, 0 equivalent, 0 not decided",
        [c.medians[0] for c in family],
    )


def test_rounds_that_were_stopped_on_the_width_get_wider_intervals():
    runs = table(rounds=20)
    plain, looked = compare(runs)[0], compare(runs, origin={"looked": True})[0]
    assert looked.low < plain.low < plain.high < looked.high
    assert "valid at every look" in looked.method


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda r: compare(r.iloc[:0]), "the table of runs is empty"),
        (
            lambda r: compare(r, metric="latency_onway_us", by="placement"),
            "did you mean latency_oneway_us",
        ),
        (
            lambda r: compare(r, metric="latency_oneway_us", by="tool"),
            "tool does not vary in runs of latency_oneway_us; these do: placement",
        ),
        (
            lambda r: compare(r, metric="throughput_bps"),
            "no contrast is about throughput_bps",
        ),
        (lambda r: npl.compare(r, contrasts=[{"metric": "rtt_us"}]), "not a contrast"),
        (lambda _: npl.compare([1, 2]), "table of runs; got 2: for two"),
    ],
)
def test_a_wrong_question_gets_one_sentence(call, text):
    with pytest.raises(UsageError, match=text) as error:
        call(table(rounds=2))
    assert "\n" not in str(error.value)
