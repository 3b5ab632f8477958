"""Tables and proofs show what they hold: planted cells and claims, and the words for each."""

import re

import pandas as pd

import netperf_lib as npl
from netperf_lib.analysis.contents import folder_of
from netperf_lib.data.declaration import claims
from netperf_lib.experiment.origin import Measured, Origin
from netperf_lib.terminal import levels_block, text

from . import planted


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
    rates = {"ppg": [1e9, 2e9, 3e9, 4e9, 5e9, 6e9], "vpn": 7e8}
    runs = planted.runs(rates, 6, metric="throughput_bps")
    runs.loc[0, "status"] = "failed"
    table = npl.levels(runs, "throughput_bps")
    _, head, *shown = text([levels_block(table)], 200).splitlines()
    assert head.split() == ["n", "failed", "median", "low", "high"]
    assert [re.split("  +", line.strip()) for line in shown] == [
        ["ppg", "5", "1", "4 Gbit/s", "2 Gbit/s", "6 Gbit/s"],
        ["vpn", "6", "0", "700 Mbit/s", "700 Mbit/s", "700 Mbit/s"],
    ]


def test_proofs_that_do_not_all_hold_say_which(exp, monkeypatch):
    assert {*npl.analysis.proofs(exp)["holds"]} == {"holds"}
    claim = claims(exp.folder)[0]
    told = [claim | {"holds": holds} for holds in (False, None, True)]
    monkeypatch.setattr("netperf_lib.analysis.contents.stored", lambda _: told)
    shown = [*npl.analysis.proofs(exp)["holds"]]
    assert shown == ["does NOT hold", "not shown", "holds"]
