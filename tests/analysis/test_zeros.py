"""Values of zero (no loss, no jitter, no throughput): judged by their rank, part of the level,
and never a failure."""

import numpy as np
import pytest

import netperf_lib as npl
from netperf_lib import analysis

from . import planted
from .planted import compared

LOSS = [0.00744, 0, 0, 0, 0, 0]
SOME = [0.02, 0.019, 0.021, 0.02, 0.022] * 2


def lost(**sides):
    """Runs with shares of lost datagrams, a value for each round."""
    rounds = len(next(iter(sides.values())))
    return planted.runs(sides, rounds, metric="lost_ratio", test="udp")


def judged(**sides):
    a, b = ({"placement": side} for side in sides)
    contrast = {"metric": "lost_ratio", "a": a, "b": b, "margin": 0.1}
    [c] = npl.compare(lost(**sides), contrasts=[contrast])
    return c


def test_six_rounds_of_which_five_had_no_loss_are_six_rounds():
    c = judged(a=LOSS, b=LOSS[::-1])
    assert (c.n, c.failed, c.runs, c.medians) == (6, (0, 0), (6, 6), (0, 0))
    assert not any("failed" in w for w in c.warnings)
    row = npl.levels(lost(a=LOSS, b=LOSS), "lost_ratio", by="placement").loc["a"]
    assert (row["n"], row["median"], row["largest"], row["failed"]) == (6, 0, 0.00744, 0)


def test_no_loss_is_better_than_two_per_cent():
    c, back = judged(none=[0.0] * 10, some=SOME), judged(some=SOME, none=[0.0] * 10)
    assert (c.verdict, c.ratio, c.n) == ("better", 0, 10)
    assert c.words == (
        "none against some: share of datagrams lost 0 % and 2 % (no interval), better, "
        "for these VMs"
    )
    assert (back.verdict, back.ratio) == ("worse", np.inf)
    assert "Infinity" not in str(npl.analysis.Family((back,)).to_dict())


@pytest.mark.parametrize("paired", [True, False])
def test_a_round_of_zero_throughput_counts_as_the_lowest(paired):
    a = 9e9 + 1e7 * np.arange(12)
    a[0] = 0
    c = compared(a, 1e9 + 1e7 * np.arange(12), paired=paired)
    assert (c.verdict, c.failed, c.runs) == ("better", (0, 0), (12, 12))
    assert 7 < c.ratio < 10


def test_the_level_of_deployments_without_loss_counts_deployments():
    found = analysis.level([0, 0, 0, 0.01, 0, 0], deployments=[1, 1, 2, 2, 3, 3])
    assert (found.counted, found.n, found.median) == ("deployment", 3, 0)


def test_where_zeros_are_ranked_no_number_of_rounds_is_promised_and_no_size_is_said():
    c = compared([0.0] * 8 + [0.1] * 4, [0.0] * 12, better="lower")
    assert (c.verdict, c.ratio, c.more_rounds) == ("inconclusive", np.inf, 0)
    assert "(no interval), inconclusive" in c.words
    assert "how many more rounds would settle it is not known" in c.words


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        (LOSS, "inconclusive"),  # five rounds of zero are not missing
        ([0] * 8, "better"),
        ([0.00744, *[0] * 11], "better"),
        ([0.006, 0.007, 0.008, 0.009] * 3, "worse"),
    ],
)
def test_rounds_without_loss_count_against_a_threshold(values, verdict):
    limit = {"metric": "lost_ratio", "a": {"placement": "a"}, "below": "0.1 %"}
    [c] = npl.compare(lost(a=values), contrasts=[limit])
    assert (c.verdict, c.n) == (verdict, len(values))
