"""Families of contrasts from the table of runs: pairing, the correction, what is warned of, and
what is refused."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng

import netperf_lib as npl
from netperf_lib.errors import UsageError
from netperf_lib.experiment.origin import Measured, Origin

from . import planted

US = "latency_oneway_us"
LATENCY = {"ppg": 58.0, "same-zone": 84.0, "cross-zone": 190.0}


def against(a, b="same-zone", **more):
    return {"metric": US, "a": {"placement": a}, "b": {"placement": b}} | more


PPG, XZONE = against("ppg", margin=0.05), against("cross-zone")


def table(rounds=12, deployments=1, spread=0.0):
    """Runs of three placements, which share a drift; where a deployment landed is a draw."""
    rng, parts = default_rng(0), []
    for deployment in range(1, deployments + 1):
        drift = np.exp(0.1 * rng.standard_normal(rounds))
        levels = {p: us * drift * rng.lognormal(0, spread) for p, us in LATENCY.items()}
        parts.append(planted.runs(levels, rounds, noise=0.02, deployment=deployment))
    runs = pd.concat(parts, ignore_index=True)
    return runs.assign(
        client="client",
        server="host-" + runs["placement"],
        excluded=None,
        run_id=[f"run{number}" for number in range(len(runs))],
    )


def compare(runs, *, contrasts=(PPG, XZONE), origin=(), **named):
    """What `npl.compare` says of runs for which these contrasts were declared."""
    declared = {"name": "test", "alpha": 0.05, "contrasts": [dict(c) for c in contrasts]}
    return npl.compare(Measured(runs, Origin(declared, **dict(origin))), **named)


def test_the_sentence_names_the_direction_and_what_it_holds_for():
    family = compare(table())
    assert list(family.verdicts) == ["better", "worse"]
    assert re.fullmatch(
        r"ppg against same-zone: one-way latency −3\d % \(−3\d % to −\d\d %\), better, "
        "for these VMs",
        family[0].words,
    )
    assert family[0].family == 2


def test_the_order_of_the_rows_changes_nothing():
    runs = table(rounds=8)
    expected = compare(runs).to_dict()

    @settings(max_examples=4)
    @given(st.permutations(range(len(runs))))
    def check(order):
        assert compare(runs.iloc[order]).to_dict() == expected

    check()


def test_every_declared_contrast_counts_shown_or_not():
    runs = table().assign(rtt_us=lambda t: 2 * t[US])
    declared = (PPG, XZONE, PPG | {"metric": "rtt_us"})
    family = compare(runs, metric="rtt_us", contrasts=declared)
    assert (len(family), family.declared) == (1, 3)
    (alone,) = compare(runs, contrasts=[PPG])
    assert compare(runs, metric=US, contrasts=declared)[0].family > alone.family


def test_contrasts_named_with_the_analysis_stand_for_a_declaration_only_where_there_is_none():
    family = npl.compare(table(), contrasts=[PPG])
    assert family[0].verdict == "better"
    assert "named with the analysis" in family.warnings[0]
    declared = Measured(table(), Origin({"contrasts": [XZONE]}))
    assert npl.compare(declared, contrasts=[PPG])[0].verdict == "exploratory"


def test_rounds_pair_and_a_missing_side_is_counted():
    runs = table()
    ppg = runs["placement"] == "ppg"
    runs.loc[ppg & runs["round"].eq(3), ["status", US]] = ["failed", np.nan]
    runs.loc[ppg & runs["round"].eq(5), "excluded"] = "the neighbour VM was rebooted"
    family = compare(runs)
    assert (family.ok, family.failed, family.excluded) == (34, 1, 1)
    assert (family[0].n, family[0].failed) == (10, (1, 0))
    lost = "failed, missing or repeated: ppg in 1 of 11 rounds"
    assert any(w.startswith(lost) for w in family[0].warnings)
    assert lost in repr(family)


def test_a_side_of_several_conditions_is_refused():
    both = pd.concat([table().assign(streams=n) for n in (1, 8)], ignore_index=True)
    with pytest.raises(UsageError, match="ppg names 2 conditions; name also streams"):
        compare(both)
    sides = {side: PPG[side] | {"streams": 1} for side in "ab"}
    [single] = compare(both, contrasts=[PPG | sides])
    assert "(1 stream)" in single.words


@pytest.mark.parametrize(
    ("up", "warned"), [("as asked", False), (True, True), (False, True), (None, False)]
)
def test_what_a_declared_factor_implies_is_its_proof(up, warned):
    runs = planted.runs({True: 40, False: 120}, by="accelerated", noise=0.02)
    asked = runs["accelerated"]
    seen = asked if up == "as asked" else [up] * len(runs)
    runs["vf_up"] = pd.array([*seen], dtype="boolean")
    if up == "as asked":
        runs["nic_driver"] = np.where(asked, "mlx5", "netvsc")
    on, off = ({"accelerated": side} for side in (True, False))
    [c] = npl.compare(runs, contrasts=[{"metric": US, "a": on, "b": off}])
    assert any("it was not switched" in w for w in c.warnings) == warned
    assert not any("vf_up" in w or "nic_driver" in w for w in c.warnings if not warned)


@pytest.mark.parametrize(
    ("deployments", "words"),
    [
        (1, "the sides also differ in server's processor"),
        (4, "the sides also differ in server's processor .in some runs"),
    ],
)
def test_other_hardware_may_be_the_difference(deployments, words):
    runs = table(deployments=deployments, spread=0.01)
    older = (runs["placement"] == "ppg") & (runs["deployment"] <= 2)
    runs["server_cpu"] = np.where(older, "8272CL", "8370C")
    ppg, zone = compare(runs)
    assert re.search(words, " ".join(ppg.warnings))
    assert "processor" not in " ".join(zone.warnings)


def test_a_side_that_was_not_measured_says_so():
    [c] = compare(table(), contrasts=[against("vpn")])
    assert c.words == (
        "vpn against same-zone: one-way latency – (no interval), no verdict, for these VMs: "
        "no run of vpn has a value of latency_oneway_us"
    )


def test_one_slow_round_of_as_few_as_are_needed_hides_no_difference_of_many_times():
    runs = table(rounds=7)
    runs.loc[runs["placement"] == "cross-zone", US] *= 60
    runs.loc[runs["placement"].eq("same-zone") & runs["round"].eq(3), US] *= 3
    assert compare(runs)[1].verdict == "worse"


def test_claims_that_do_not_hold_are_told_once_beside_the_verdicts_that_rest_on_them():
    slow = {
        "host": "host-ppg",
        "claim": "one way takes 40 µs",
        "evidence": "median 70 µs",
    }
    setup = [
        {"host": f"host-{p}", "claim": "set up as asked", "evidence": p} for p in LATENCY
    ]
    warnings = [
        c.warnings for c in compare(table(), origin={"failed_claims": [slow, *setup]})
    ]
    rests = "it rests on a claim that does not hold: one way takes 40 µs (median 70 µs)"
    assert [rests in told for told in warnings] == [True, False]
    assert [sum("claim" in w for w in told) for told in warnings] == [2, 1]


def test_a_family_shows_itself_everywhere():
    family = compare(table())
    frame = family.to_frame()
    assert {"ratio", "low", "high", "n", "confidence", "words", "warnings"} <= {*frame}
    assert list(frame["median_a"]) == [c.medians[0] for c in family]
    told = json.loads(json.dumps(family.to_dict(), allow_nan=False))
    assert told["runs"] == {"ok": 36, "failed": 0, "excluded": 0}
    assert family.summary == "2 compared: 1 worse, 1 better, 0 equivalent, 0 not decided"
    assert "2 compared: 1 worse, 1 better" in repr(family)


def test_rounds_that_were_stopped_on_the_width_get_wider_intervals():
    runs = table(rounds=20)
    plain, looked = compare(runs)[0], compare(runs, origin={"looked": True})[0]
    assert looked.low < plain.low < plain.high < looked.high
    assert "valid at every look" in looked.method


def test_no_runs_are_refused():
    with pytest.raises(UsageError, match="the table of runs is empty"):
        compare(table(2).iloc[:0])
