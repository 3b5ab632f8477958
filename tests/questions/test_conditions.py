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
