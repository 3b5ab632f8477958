"""The promise on measurements that nobody here made; NOTICE names their sources."""

import numpy as np
import pandas as pd
import pytest

import netperf_lib as npl
from netperf_lib.analysis.verdicts import judge_samples

from .planted import sample
from .power import SERIES, power
from .validate import chained

BETTER = {"telstra_download": "higher"}
REPORTS = 200


def labelled(x, rng, n, k):
    """Return consecutive measurements as n rounds of k conditions, which do not differ."""
    start = rng.integers(0, x.size - n * k + 1)
    values = x[start : start + n * k].reshape(n, k)
    wide = np.empty((n, k))
    np.put_along_axis(wide, chained(rng, n, k), values, axis=1)
    return pd.DataFrame(wide, index=pd.RangeIndex(1, n + 1, name="round"))


DESIGNS = [(10, 2), (20, 2), (8, 7)]
CASES = [(name, *design) for name in SERIES for design in DESIGNS]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "n", "k"), CASES)
def test_no_more_false_reports_than_promised(name, n, k):
    rng = np.random.default_rng(1)
    better = BETTER.get(name, "lower")
    families = [
        npl.judge(labelled(SERIES[name], rng, n, k), baseline=0, better=better)
        for _ in range(REPORTS)
    ]
    false = sum(bool({"better", "worse"} & set(family.verdicts)) for family in families)
    assert false <= REPORTS * 0.05 + 3 * np.sqrt(REPORTS * 0.05 * 0.95)


A, B = np.exp(np.random.default_rng(3).normal([[3.0], [2.85]], 0.06, (2, 12)))
B[4] *= 2  # one slow run


def test_a_larger_family_decides_nothing_more():
    rng = np.random.default_rng(0)
    asked = sample(A, B, better="lower")
    others = [sample(100 + rng.random(12), 100 + rng.random(12)) for _ in range(7)]
    settled = [
        judge_samples([asked, *others[: m - 1]])[0].settled for m in (1, 2, 4, 5, 8)
    ]
    assert settled == sorted(settled, reverse=True)


@pytest.mark.parametrize("error", [0.2, 0.05, 0.0101, 0.0099, 0.002])
def test_a_smaller_error_never_narrows_an_interval(error):
    rounds = npl.analysis.intervals.Rounds(np.log(A) - np.log(B))
    wide, narrow = rounds.interval(error / 1.5), rounds.interval(error)
    assert wide[0] <= narrow[0] <= narrow[1] <= wide[1]


@pytest.mark.parametrize("name", SERIES)
def test_power_is_near_the_best_test_of_each_series(name):
    ours, *others = power(name, 10, 0.2, 100).values()
    assert ours >= max(others) - 10


@pytest.mark.parametrize("rounds", [10, 20])
def test_frequent_slow_runs_cost_less_power_than_a_signed_rank(rounds):
    found = power("made: 15 % of runs slow", rounds, 0.5, 100)
    assert found["this library"] >= found["signed rank"] + 15
