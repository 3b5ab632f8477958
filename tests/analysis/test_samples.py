"""Verdicts from arrays: what decides them, when they are refused, and what may not change them."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng

import netperf_lib as npl
from netperf_lib import analysis
from netperf_lib.analysis.verdicts import judge_samples
from netperf_lib.errors import StatsError, UsageError

from .planted import compared, sample

ROUNDS = st.integers(6, 24)
SEEDS = st.integers(0, 2**32 - 1)
MIRROR = {"better": "worse", "worse": "better"}


def sides(seed, n, ratio=1.0):
    """Two conditions that share a drift."""
    rng = default_rng(seed)
    drift = rng.normal(0, 0.1, n)
    a, b = np.exp(drift + rng.normal(0, 0.02, (2, n)))
    return ratio * a, b


def figures(c):
    return np.array([c.low, c.ratio, c.high])


@given(SEEDS, ROUNDS, st.floats(0.5, 2), st.sampled_from(["higher", "lower"]))
def test_swapped_sides_mirror_the_verdict(seed, n, ratio, better):
    a, b = sides(seed, n, ratio)
    there, back = compared(a, b, better=better), compared(b, a, better=better)
    assert back.verdict == MIRROR.get(there.verdict, there.verdict)
    assert np.allclose(figures(back), 1 / figures(there)[::-1])
    assert back.more_rounds == pytest.approx(there.more_rounds, abs=1)


@given(SEEDS, ROUNDS, st.floats(1e-9, 1e12))
def test_the_unit_does_not_matter(seed, n, factor):
    a, b = sides(seed, n, 1.03)
    one, other = compared(a, b), compared(a * factor, b * factor)
    assert one.verdict == other.verdict
    assert np.allclose(figures(one), figures(other))


@given(
    st.lists(st.sampled_from([1.0, 2.0, 2.0, 3.0]), min_size=1, max_size=20),
    st.booleans(),
)
def test_ties_and_constants_have_a_result(values, paired):
    for b in (values, values[::-1], [2.0] * len(values)):
        c = compared(values, b, paired=paired)
        assert c.low <= c.ratio <= c.high
        assert c.words in repr(c)
    equal = compared([5.001] * 8, [5.001] * 8)
    assert equal.verdict == "equivalent"
    assert np.array_equal(figures(equal), [1, 1, 1])


@given(SEEDS, st.integers(1, 12), st.integers(1, 30))
def test_too_few_rounds_are_always_refused(seed, n, family):
    need = analysis.rounds_required(0.05, family)
    a, b = sides(seed, min(n, need - 1), 2.0)
    c = compared(a, b, family=family)
    assert (c.verdict, c.more_rounds) == ("no verdict", need - len(a))
    assert f"at least {need} are needed" in c.words


@given(SEEDS, st.integers(8, 24), st.floats(0.9, 1.1), st.integers(1, 6))
def test_no_interval_leaves_its_data(seed, n, ratio, family):
    a, b = sides(seed, n, ratio)
    c = compared(a, b, family=family)
    assert (a / b).min() <= c.low * (1 + 1e-12)
    assert c.high <= (a / b).max() * (1 + 1e-12)


def test_neighbours_that_resemble_each_other_are_a_note():
    step = np.exp([0.2] * 10 + [0.4] * 10)
    c = compared(step, np.exp(default_rng(0).normal(0, 0.005, 20)))
    assert c.verdict == "better"
    assert "neighbouring rounds resemble each other" in c.warnings[0]


def test_one_slow_run_does_not_hide_equality():
    a, b = np.exp(default_rng(4).normal(0, 0.01, (2, 16)))
    a[5] *= 1.5
    c = compared(a, b, margin=0.1, family=6, better="lower")
    assert c.verdict == "equivalent"
    assert c.method == "paired by round, Hodges-Lehmann, exact capped signed rank"


def test_failures_by_chance_cost_no_verdict():
    a, b = np.exp(0.08 * default_rng(5).standard_normal((2, 24)))
    a[[2, 9]], b[17] = np.inf, np.nan
    c = compared(1.2 * a, b, better="lower")
    assert (c.verdict, c.n, c.failed) == ("worse", 21, (2, 1))


def test_failures_beyond_chance_cost_the_verdict():
    slowest, b = np.exp(0.2 * default_rng(5).standard_normal((2, 24)))
    slowest[slowest > 1] = np.nan
    c = compared(slowest, b, better="lower")
    assert c.verdict in ("no verdict", "inconclusive")
    assert "failed, missing or repeated: A in 9 of 24" in " ".join(c.warnings)


@pytest.mark.parametrize(
    ("subject", "ratio", "expected"),
    [
        ({"better": "higher"}, 1.2, "better"),
        ({"better": "higher"}, 0.8, "worse"),
        ({"better": "lower"}, 1.2, "worse"),
        ({"better": "lower"}, 0.8, "better"),
        ({"better": None}, 1.2, "no verdict"),
        ({"better": None}, 1.0, "equivalent"),
        ({"declared": False}, 1.2, "exploratory"),
    ],
)
def test_the_direction_is_the_users(subject, ratio, expected):
    c = compared(*sides(1, 12, ratio), **subject)
    assert c.verdict == expected
    assert c.low < ratio < c.high


@pytest.mark.parametrize(
    ("runs", "family", "verdict"),
    [(3, 6, "no verdict"), (4, 1, "worse"), (5, 2, "worse"), (6, 11, "worse")],
)
def test_unpaired_runs_need_what_their_own_test_needs(runs, family, verdict):
    a, b = 95 + np.arange(runs), 58 + np.arange(runs)
    c = compared(a, b, better="lower", paired=False, family=family)
    assert (c.verdict, c.paired) == (verdict, False)
    assert "unpaired" in c.method
    few = "3 runs per side, at least 5 are needed for a family of 6 contrasts (2 more)"
    assert c.reason == (few if runs == 3 else "")


def test_a_long_series_counts_its_parts_against_a_threshold():
    """Half of a day is above the threshold, by an hour each: a thousand runs decide nothing."""
    hours = np.exp([-0.1, 0.1] * 12).repeat(60)
    limit = np.full(hours.size, 1.001)
    [c] = judge_samples([sample(hours, limit, to_threshold=True)])
    assert (c.verdict, c.n) == ("inconclusive", 24)


def test_values_below_zero_have_no_ratio():
    c = compared([-1.0, -1, 2, 3, 4, 5], [1.0] * 6)
    assert math.isnan(c.ratio)
    assert "2 values below zero" in c.reason


# -- a plain table -------------------------------------------------------------------------------


def plain(a, b):
    return pd.DataFrame({"ppg": a, "far": b}, index=pd.RangeIndex(1, 13, name="round"))


def judged(table, **options):
    return npl.judge(table, **{"baseline": "far", "better": "lower"} | options)


def test_a_plain_table_is_judged_like_its_samples():
    a, b = sides(1, 12, 1.3)
    a[2], b[5] = np.inf, np.nan
    [c] = judged(plain(a, b))
    assert c == compared(a, b, margin=0.1, better="lower", names=("ppg", "far"))
    assert (c.n, c.failed) == (10, (1, 1))


def test_deployments_of_a_plain_table_are_the_replicates():
    table = plain(*sides(1, 12, 1.3))
    pairs = [[1, 2, 3], [1, 2, 3, 4]]
    table.index = pd.MultiIndex.from_product(pairs, names=["deployment", "round"])
    [c] = judged(table)
    assert (c.counted, c.n, c.scope) == ("deployment", 3, "over 3 deployments")


def test_rounds_of_one_side_only_promise_no_share():
    a, b = sides(1, 12, 1.3)
    assert "at most 5 %" in judged(plain(a, b)).note
    a[:6], b[6:] = np.nan, np.nan
    family = judged(plain(a, b))
    assert (family[0].paired, family[0].runs) == (False, (6, 6))
    assert "no share of false verdicts is promised" in family.note


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        (
            {"baseline": "mars"},
            UsageError,
            "no column 'mars', the baseline; it has ppg, far",
        ),
        ({"better": "less"}, UsageError, "better is 'lower' or 'higher'; got 'less'"),
        ({"margin": 5}, UsageError, "margin 5: write a share above 0"),
        ({"alpha": 0}, StatsError, "alpha must lie between"),
    ],
)
def test_a_wrong_plain_table_gets_one_sentence(options, error, text):
    with pytest.raises(error, match=text):
        judged(plain(1.0, 2.0), **options)
