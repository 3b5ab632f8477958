"""Where scipy gives the same, it must be the same."""

from itertools import combinations, product

import numpy as np
import pytest
import scipy
from numpy.random import default_rng

from netperf_lib.analysis.intervals import (
    Deployments,
    Rounds,
    cut,
    median_interval,
    neighbours_p,
    rank_sum_cdf,
    signed_rank_cdf,
)


def test_null_distributions_count_every_case():
    signs = np.array(list(product([0, 1], repeat=8)))
    sums = np.bincount(signs @ np.minimum(np.arange(1, 9), 3))
    assert np.allclose(signed_rank_cdf(8, 3), np.cumsum(sums) / 2**8)
    ranks = np.array(list(combinations(range(9), 4))).sum(axis=1) - 6
    assert np.allclose(rank_sum_cdf(4, 5), np.cumsum(np.bincount(ranks)) / 126)
    many = np.diff(rank_sum_cdf(49, 50), prepend=0)
    assert np.allclose(many, many[::-1], atol=1e-12)


def test_the_cut_is_where_the_p_of_scipy_crosses_the_tail():
    k, tail = cut(signed_rank_cdf(10, 10), 0.025)
    d = np.arange(1.0, 11) * np.where(np.arange(1, 11) == k, 1, -1)
    p = scipy.stats.wilcoxon(d, alternative="less", method="exact").pvalue
    assert (p, k) == (pytest.approx(tail), 8)


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


def test_welch():
    rng = default_rng(1)
    for _ in range(10):
        x, y = rng.normal(0, 0.05, 6), rng.normal(0.02, 0.02, 4)
        low, high, _ = Deployments(x, y).interval(0.05)
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
