"""Values of zero (no loss, no jitter, no throughput): judged by their rank, part of the level,
and never a failure."""

import numpy as np
import pandas as pd
import pytest

import netperf_lib as npl
from netperf_lib import analysis

from .planted import compared

LOSS = [0.00744, 0, 0, 0, 0, 0]


def table(metric, **sides):
    rows = [
        {
            "deployment": 1,
            "round": i + 1,
            "order": j,
            "placement": p,
            "status": "ok",
            "tool": "iperf3",
            "test": "udp",
        }
        | {metric: v, "client": "c", "server": "s"}
        for j, (p, values) in enumerate(sides.items())
        for i, v in enumerate(values)
    ]
    return pd.DataFrame(rows)


def judged(metric, **sides):
    names = list(sides)
    contrast = {
        "metric": metric,
        "a": {"placement": names[0]},
        "b": {"placement": names[1]},
        "margin": 0.1,
    }
    [c] = npl.analysis.judge(table(metric, **sides), [contrast])
    return c


def test_six_rounds_of_which_five_had_no_loss_are_six_rounds():
    c = judged("lost_ratio", a=LOSS, b=LOSS[::-1])
    assert (c.n, c.failed, c.runs) == (6, (0, 0), (6, 6))
    assert not any("failed" in w for w in c.warnings)
    assert c.medians == (0, 0)
    row = npl.levels(
        table("lost_ratio", a=LOSS, b=LOSS), "lost_ratio", by="placement"
    ).loc["a"]
    assert (row["n"], row["median"], row["largest"], row["failed"]) == (6, 0, 0.00744, 0)


def test_no_loss_is_better_than_two_per_cent():
    c = judged("lost_ratio", none=[0.0] * 10, some=[0.02, 0.019, 0.021, 0.02, 0.022] * 2)
    assert (c.verdict, c.ratio, c.n) == ("better", 0, 10)
    assert c.words == (
        "none against some: share of datagrams lost 0 % and 2 % (no interval), better, "
        "for these VMs"
    )
    back = judged(
        "lost_ratio", some=[0.02, 0.019, 0.021, 0.02, 0.022] * 2, none=[0.0] * 10
    )
    assert (back.verdict, back.ratio) == ("worse", np.inf)
    assert back.words == (
        "some against none: share of datagrams lost 2 % and 0 % (no interval), worse, "
        "for these VMs"
    )
    assert "Infinity" not in str(back.to_dict())


@pytest.mark.parametrize("paired", [True, False])
def test_a_round_of_zero_throughput_counts_as_the_lowest(paired):
    a, b = [9e9 + 1e7 * i for i in range(12)], [1e9 + 1e7 * i for i in range(12)]
    none = compared([0.0] * 10, [0.02] * 10, better="lower", paired=paired)
    assert (none.verdict, none.ratio) == ("better", 0)
    c = compared([0.0, *a[1:]], b, paired=paired)
    assert (c.verdict, c.failed, c.runs) == ("better", (0, 0), (12, 12))
    assert 7 < c.ratio < 10


def test_the_level_of_deployments_without_loss_counts_deployments():
    found = analysis.level(
        [0.0, 0.0, 0.0, 0.01, 0.0, 0.0], deployments=[1, 1, 2, 2, 3, 3]
    )
    assert (found.counted, found.n, found.median) == ("deployment", 3, 0)


def test_where_zeros_are_ranked_no_number_of_rounds_is_promised_and_no_size_is_said():
    c = compared([0.0] * 8 + [0.1] * 4, [0.0] * 12, better="lower")
    assert (c.verdict, c.ratio, c.high, c.more_rounds) == (
        "inconclusive",
        np.inf,
        np.inf,
        0,
    )
    assert "(no interval), inconclusive" in c.words
    assert "how many more rounds would settle it is not known" in c.words


@pytest.mark.parametrize(
    ("lost", "verdict"),
    [
        (LOSS, "inconclusive"),  # five rounds of zero are not missing
        ([0] * 8, "better"),
        ([0.00744, *[0] * 11], "better"),
        ([0.006, 0.007, 0.008, 0.009] * 3, "worse"),
    ],
)
def test_rounds_without_loss_count_against_a_threshold(lost, verdict):
    limit = {"metric": "lost_ratio", "a": {"placement": "a"}, "below": "0.1 %"}
    [c] = npl.analysis.judge(table("lost_ratio", a=lost), [limit])
    assert (c.verdict, c.n) == (verdict, len(lost))
