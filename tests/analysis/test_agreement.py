"""Where scipy gives the same, it must be the same."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy
from numpy.random import default_rng

from netperf_lib.analysis.intervals import (
    Rounds,
    UnpairedUnits,
    cut,
    rank_sum_cdf,
    signed_rank_cdf,
)
from netperf_lib.analysis.median_ci import median_interval, neighbours_p


@pytest.mark.parametrize("n", [6, 8, 13, 30, 49])
def test_signed_rank_distribution(n):
    """The cut is where scipy's exact Wilcoxon p crosses the tail."""
    for tail in (0.05, 0.025, 0.0012):
        k, real = cut(signed_rank_cdf(n, n), tail)
        ranks = np.arange(1.0, n + 1)
        for statistic in (k, k + 1):
            if statistic < 0:
                continue
            signs, left = -np.ones(n), statistic
            for r in range(n, 0, -1):  # a sample whose positive ranks add up to the statistic
                if left >= r:
                    signs[r - 1], left = 1, left - r
            p = scipy.stats.wilcoxon(ranks * signs, alternative="less", method="exact").pvalue
            assert (p <= tail) == (statistic == k)
            if statistic == k:
                assert p == pytest.approx(real)


@pytest.mark.parametrize(("n", "m"), [(6, 6), (7, 10), (20, 25), (49, 50)])
def test_rank_sum_distribution(n, m):
    x, y = np.arange(n) + 0.5, np.arange(m) + 100.0
    for tail in (0.05, 0.025, 0.0012):
        k, real = cut(rank_sum_cdf(n, m), tail)
        if k < 0:
            assert 1 / scipy.special.comb(n + m, n) > tail
            continue
        # move x upwards until U = k
        shifted, left = x.copy(), k
        for i in range(n - 1, -1, -1):
            above = min(m, left)
            shifted[i] = 99.5 + above if above else x[i]
            left -= above
        u, p = scipy.stats.mannwhitneyu(shifted, y, alternative="less", method="exact")
        assert u == k
        assert p == pytest.approx(real, rel=1e-6)
        assert p <= tail


@pytest.mark.parametrize("n", [6, 10, 25])
def test_the_interval_inverts_the_capped_test(n):
    """A ratio is inside the interval exactly when the test of all signs does not reject it."""
    rng = default_rng(n)
    scores = np.minimum(np.arange(1, n + 1), max(2, -(-n // 3)))
    null = signed_rank_cdf(n, int(scores.max()))
    for _ in range(20):
        d = rng.normal(0.01, 0.02, n)
        low, high, _ = Rounds(d).interval(0.05)
        for at in (low, high):
            for step in (-1e-9, 1e-9):
                left = d - at - step
                below = scores @ (left[np.abs(left).argsort()] < 0)
                p = 2 * null[int(min(below, scores.sum() - below))]
                assert (p > 0.05) == (low < at + step < high)


@pytest.mark.parametrize(("n", "cap"), [(6, 2), (10, 4)])
def test_the_null_distribution_counts_all_signs(n, cap):
    signs = np.array(list(product([0, 1], repeat=n)))
    sums = signs @ np.minimum(np.arange(1, n + 1), cap)
    counted = np.cumsum(np.bincount(sums)) / 2**n
    assert np.allclose(signed_rank_cdf(n, cap), counted)


def test_welch():
    rng = default_rng(1)
    for _ in range(10):
        x, y = rng.normal(0, 0.05, 6), rng.normal(0.02, 0.02, 4)
        low, high, _ = UnpairedUnits(x, y).interval(0.05)
        theirs = scipy.stats.ttest_ind(x, y, equal_var=False).confidence_interval(0.95)
        assert np.allclose([low, high], [theirs.low, theirs.high])


@pytest.mark.parametrize("n", [6, 10, 21])
def test_median_interval_lies_between_the_exact_ones(n):
    """scipy's quantile test gives the order statistics that the interpolation runs between."""
    x = default_rng(n).lognormal(0, 0.3, n)
    low, high, confidence = median_interval(x, 0.95)
    outer = scipy.stats.quantile_test(x, p=0.5).confidence_interval(0.95)
    s = np.sort(x)
    k = int(np.searchsorted(s, outer.low))
    assert confidence == 0.95
    assert s[k] <= low <= s[k + 1]
    assert s[n - 2 - k] <= high <= s[n - 1 - k]


def test_median_interval_as_published_by_others():
    """Ten values 1 … 10: the interpolation between 97.85 % (x2, x9) and 89.06 % (x3, x8), by hand."""
    low, high, _ = median_interval(np.arange(1.0, 11), 0.95)
    share = (0.978515625 - 0.95) / (0.978515625 - 0.890625)
    weight = 8 * share / (2 + 6 * share)
    assert low == pytest.approx(2 + weight)
    assert high == pytest.approx(9 - weight)


def test_hodges_lehmann_by_hand():
    assert Rounds(np.array([1.0, 2.0, 10.0])).centre == 3.75  # of 1, 1.5, 2, 5.5, 6, 10


def test_many_rounds_are_merged_and_none_is_lost():
    d = default_rng(7).normal(0.05, 0.02, 2001)
    found = Rounds(d)
    low, high, _ = found.interval(0.05)
    assert found.n == 2001
    assert low < 0.05 < high
    assert high - low < 0.004


def test_neighbours_resemble_each_other_as_often_as_chance_has_it():
    rng = default_rng(2)
    p = np.array([neighbours_p(x) for x in rng.standard_normal((2000, 20))])
    assert (p < 0.05).mean() == pytest.approx(0.05, abs=0.02)
    assert neighbours_p(np.repeat(rng.standard_normal(5), 8)) < 0.001
