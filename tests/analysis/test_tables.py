"""Tables and proofs show what they hold: planted cells and claims, and the words for each."""

import re

import pandas as pd

import netperf_lib as npl
from netperf_lib.analysis.contents import folder_of
from netperf_lib.data.declaration import claims
from netperf_lib.experiment.origin import Measured, Origin
from netperf_lib.metrics import format_value
from netperf_lib.terminal import levels_block, text


def test_levels_state_their_metric_and_unit():
    table = npl.levels(npl.recorded(), "throughput_bps", by="streams")
    assert set(zip(table["metric"], table["unit"], strict=True)) == {
        ("throughput_bps", "bps")
    }


def test_a_table_made_by_hand_has_no_proof(tmp_path):
    runs = npl.load(npl.recorded())
    by_hand = pd.DataFrame(runs.to_dict("list"))
    assert folder_of(by_hand) is None
    assert str(npl.analysis.proofs(by_hand)).endswith("the placements are as declared.")
    gone = Measured(by_hand, Origin(path=str(tmp_path / "gone")))
    assert str(npl.analysis.proofs(gone)).endswith("the placements are as declared.")


def test_levels_on_a_terminal_show_their_figures():
    runs = npl.load(npl.recorded())
    runs.loc[runs["placement"].eq("ppg") & runs["round"].eq(1), "status"] = "failed"
    table = npl.levels(runs, "throughput_bps", where={"streams": 1})
    _, head, *shown = text([levels_block(table)], 200).splitlines()
    assert head.split() == ["n", "failed", "median", "low", "high"]
    rows = [
        [name, str(n), str(failed), *(format_value(v, "bps") for v in level)]
        for name, n, failed, *level in table[
            ["n", "failed", "median", "low", "high"]
        ].itertuples()
    ]
    assert [re.split("  +", line.strip()) for line in shown] == rows


def test_proofs_that_do_not_all_hold_say_which(monkeypatch):
    exp = npl.read(npl.recorded())
    assert {*npl.analysis.proofs(exp)["holds"]} == {"holds"}
    claim = claims(exp.folder)[0]
    planted = [claim | {"holds": holds} for holds in (False, None, True)]
    monkeypatch.setattr("netperf_lib.analysis.contents.stored", lambda _: planted)
    shown = [*npl.analysis.proofs(exp)["holds"]]
    assert shown == ["does NOT hold", "not shown", "holds"]
