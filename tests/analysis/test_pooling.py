"""Several pairs of one placement: what a verdict calls the level of a side is the level on the
page."""

import pandas as pd
import pytest

import netperf_lib as npl


def test_the_verdict_and_the_levels_pool_pairs_alike():
    runs = npl.load(npl.recorded().parent / "zones").assign(placement="cross-zone")
    near = runs.assign(
        placement="same-zone", server="x", client="y", run_id="n" + runs["run_id"]
    )
    both = pd.concat([runs, near.drop_duplicates(["round", "test"])])
    levels = npl.ask(both, "placement", "latency_oneway_us", pool="pairs").levels[
        "median"
    ]
    contrast = {
        "metric": "latency_oneway_us",
        "a": {"placement": "cross-zone"},
        "b": {"placement": "same-zone"},
    }
    (found,) = npl.analysis.judge(both, [contrast])
    assert found.medians == pytest.approx((levels["cross-zone"], levels["same-zone"]))
