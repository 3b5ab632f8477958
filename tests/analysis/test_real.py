"""The promise on measurements that nobody here made, and how often a difference that was planted in
their noise is found; NOTICE names their sources."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy

import netperf_lib as npl
from netperf_lib.analysis.verdicts import judge_samples

from .planted import sample
from .validate import chained

DATA = pd.read_csv(Path(__file__).with_name("real.csv.gz"))
SERIES = {str(name): rows["value"].to_numpy() for name, rows in DATA.groupby("series")}
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


def this_library(a, b):
    wide = pd.DataFrame(
        {"a": a, "b": b}, index=pd.RangeIndex(1, a.size + 1, name="round")
    )
    [found] = npl.judge(wide, baseline="b", better="lower", margin=0.05)
    return found.verdict == "worse"


def signed_rank(a, b):
    d = np.log(a / b)
    return bool(
        np.median(d) > 0 and scipy.stats.wilcoxon(d, method="exact").pvalue < 0.05
    )


def mann_whitney(a, b):
    p = scipy.stats.mannwhitneyu(a, b, method="exact").pvalue
    return bool(np.median(a) > np.median(b) and p < 0.05)


def bootstrap(a, b):
    one, two = np.random.default_rng(1).integers(0, a.size, (2, 1000, a.size))
    ratios = np.median(a[one], axis=1) / np.median(b[two], axis=1)
    return bool(np.quantile(ratios, 0.025) > 1)


TESTS = {
    "this library": this_library,
    "signed rank": signed_rank,
    "Mann-Whitney": mann_whitney,
    "bootstrap of the ratio of medians": bootstrap,
}


def consecutive(name):
    """Consecutive measurements from a random place of a series."""
    windows = np.lib.stride_tricks.sliding_window_view
    return lambda rng, size: rng.choice(windows(SERIES[name], size))


def often_slow(rng, size):
    """Latencies of which 15 % are slow."""
    return np.exp(0.1 * rng.standard_normal(size) + np.log(3) * (rng.random(size) < 0.15))


NOISE = {name: consecutive(name) for name in SERIES} | {
    "made: 15 % of runs slow": often_slow
}


def power(name, rounds, effect, count, seed=1):
    """Percent of experiments in which each test finds that A is slower by `effect`."""
    found, rng = dict.fromkeys(TESTS, 0.0), np.random.default_rng(seed)
    for _ in range(count):
        values = NOISE[name](rng, 2 * rounds).reshape(rounds, 2)
        values = rng.permuted(values, axis=1)
        for test, finds in TESTS.items():
            found[test] += 100 / count * finds(values[:, 0] * (1 + effect), values[:, 1])
    return found


@pytest.mark.parametrize("name", SERIES)
def test_power_is_near_the_best_test_of_each_series(name):
    ours, *others = power(name, 10, 0.2, 60).values()
    assert ours >= max(others) - 10


@pytest.mark.parametrize("rounds", [10, 20])
def test_frequent_slow_runs_cost_less_power_than_a_signed_rank(rounds):
    found = power("made: 15 % of runs slow", rounds, 0.5, 60)
    assert found["this library"] >= found["signed rank"] + 15
