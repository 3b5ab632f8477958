"""Which runs make one condition of a report."""

from __future__ import annotations

import shutil
from pathlib import Path

import netperf_lib as npl


def test_tcp_and_udp_are_never_one_condition(tmp_path: Path) -> None:
    runs = npl.load(shutil.copytree(npl.recorded(), tmp_path / "lab-full"))
    alone = npl.questions.select(runs, "latency_oneway_us", tool="sockperf")["condition"]
    assert not alone.str.contains("TCP|UDP").any()  # what does not vary is not said
    runs.loc[(runs["tool"] == "sockperf") & (runs["round"] % 2 == 0), "protocol"] = "udp"
    mixed = npl.questions.select(runs, "latency_oneway_us", tool="sockperf")
    assert mixed.groupby("condition", observed=True)["protocol"].nunique().max() == 1
    assert mixed["condition"].nunique() == 2 * alone.nunique()


def test_one_run_of_each_condition_is_not_called_runs() -> None:
    runs = npl.questions.select(npl.load(npl.recorded()), "latency_oneway_us", tool="qperf", round=1)
    assert " 1 complete run each" in npl.questions.describe(runs, "latency_oneway_us")
