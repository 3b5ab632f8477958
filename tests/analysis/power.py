"""How often a planted difference is found in measured noise, by this library and by other tests."""

from pathlib import Path

import numpy as np
import pandas as pd
import scipy

import netperf_lib as npl

from .planted import often_slow

DATA = pd.read_csv(Path(__file__).with_name("real.csv.gz"))
SERIES = {str(name): rows["value"].to_numpy() for name, rows in DATA.groupby("series")}
"""Measurements that nobody here made; NOTICE names their sources."""


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
