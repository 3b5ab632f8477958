"""Questions of single pages on tables with planted truth."""

import pandas as pd
import pytest

import netperf_lib as npl
from netperf_lib.errors import NothingToReport

LEVELS = {("a", "b"): 400.0, ("b", "c"): 300.0, ("c", "a"): 100.0}


def zones():
    """Three zones, both directions of each pair, the way back 2 % slower, eight rounds."""
    both = LEVELS | {(b, a): 1.02 * us for (a, b), us in LEVELS.items()}
    rows = [
        {
            "run_id": f"r{n}-{a}{b}-a1",
            "experiment": "x",
            "deployment": 1,
            "round": n,
            "order": n * 6 + i,
            "attempt": 1,
        }
        | {
            "client": f"vm-{a}",
            "server": f"vm-{b}",
            "client_zone": a,
            "server_zone": b,
            "placement": "cross-zone",
        }
        | {
            "status": "ok",
            "tool": "qperf",
            "test": "tcp_lat",
            "latency_oneway_us": us,
            "error": None,
        }
        for n in range(1, 9)
        for i, ((a, b), us) in enumerate(both.items())
    ]
    return pd.DataFrame(rows)


def test_pairs_tell_the_best_and_the_worst():
    obs = npl.observe(
        zones(),
        "latency_oneway_us",
        by=npl.analysis.ends_of(zones(), "latency_oneway_us"),
    ).main()
    words = npl.analysis.pairs_words(obs)
    assert words == "Best is c → a with 100 µs, worst b → a with 408 µs."
    one_way = zones()[zones()["client"] < zones()["server"]]
    with pytest.raises(NothingToReport, match="several pairs"):
        npl.analysis.ends_of(one_way[one_way["client"] == "vm-a"], "latency_oneway_us")
