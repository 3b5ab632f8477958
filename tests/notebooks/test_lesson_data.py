"""What the lessons claim about the recorded experiment is computed from it."""

from pathlib import Path

import netperf_lib as npl

REPO = Path(__file__).parents[2]
WORKSHOP = REPO / "notebooks" / "workshop"


def test_a_single_round_ranks_equal_zones_by_chance():
    runs = npl.load(REPO / "data" / "recorded" / "lab-full")
    where = {"tool": "qperf", "placement": ["same-zone", "cross-zone"]}
    obs = npl.observe(runs, "latency_oneway_us", by="placement", where=where).main()
    wide = obs.runs.pivot_table(
        index="round", columns="placement", values="latency_oneway_us", observed=True
    )
    nearer = wide["cross-zone"] < wide["same-zone"]
    guide = (WORKSHOP / "TEACHER.md").read_text("utf-8")
    assert 0.3 <= nearer.mean() <= 0.7
    assert f"nearer one in {nearer.sum()} of {len(wide)} rounds" in guide
