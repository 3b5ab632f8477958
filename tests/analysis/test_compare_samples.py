"""Contrasts: what a verdict says, when it is refused, and what may not change it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng

import netperf_lib as npl
from netperf_lib import analysis
from netperf_lib.errors import StatsError, UsageError

ROUNDS = st.integers(6, 24)
SEEDS = st.integers(0, 2**32 - 1)
MIRROR = {"better": "worse", "worse": "better"}


def sides(seed: int, n: int, ratio: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = default_rng(seed)
    drift = rng.normal(0, 0.1, n)
    return ratio * np.exp(drift + rng.normal(0, 0.02, n)), np.exp(drift + rng.normal(0, 0.02, n))


@given(SEEDS, ROUNDS, st.floats(0.5, 2), st.sampled_from(["higher", "lower"]))
def test_swapping_sides_inverts_the_ratio_and_mirrors_the_verdict(seed, n, ratio, better):
    a, b = sides(seed, n, ratio)
    there, back = (
        analysis.compare_samples(a, b, better=better),
        analysis.compare_samples(b, a, better=better),
    )
    assert back.verdict == MIRROR.get(there.verdict, there.verdict)
    assert np.allclose(
        [back.ratio, back.low, back.high], [1 / there.ratio, 1 / there.high, 1 / there.low]
    )
    assert back.more_rounds == pytest.approx(there.more_rounds, abs=1)


@given(SEEDS, ROUNDS, st.floats(1e-9, 1e12))
def test_the_unit_does_not_matter(seed, n, factor):
    a, b = sides(seed, n, 1.03)
    one, other = analysis.compare_samples(a, b), analysis.compare_samples(a * factor, b * factor)
    assert one.verdict == other.verdict
    assert np.allclose([one.ratio, one.low, one.high], [other.ratio, other.low, other.high])


@given(st.lists(st.sampled_from([1.0, 2.0, 2.0, 3.0]), min_size=1, max_size=20), st.booleans())
def test_ties_and_constants_do_not_crash(values, paired):
    for b in (values, values[::-1], [2.0] * len(values)):
        c = analysis.compare_samples(values, b, paired=paired)
        assert c.low <= c.ratio <= c.high
        assert repr(c)
        assert c._repr_html_()


def test_equal_constants_are_equivalent():
    c = analysis.compare_samples([5.001] * 8, [5.001] * 8)
    assert (c.verdict, c.low, c.ratio, c.high) == ("equivalent", 1, 1, 1)


@given(SEEDS, st.integers(1, 12), st.integers(1, 30))
def test_too_few_rounds_are_always_refused(seed, n, family):
    need = analysis.rounds_required(0.05, family)
    a, b = sides(seed, min(n, need - 1), 2.0)
    c = analysis.compare_samples(a, b, family=family)
    assert c.verdict == "no verdict"
    assert c.more_rounds == need - len(a)
    assert f"at least {need} are needed" in c.words


def test_rounds_that_follow_each_other_get_a_note_and_no_refusal():
    step = np.exp(np.where(np.arange(20) < 10, 0.2, 0.4))
    c = analysis.compare_samples(step, np.exp(default_rng(0).normal(0, 0.005, 20)))
    assert c.verdict == "better"
    assert "neighbouring rounds resemble each other" in c.warnings[0]


@given(SEEDS, ROUNDS, st.floats(0.9, 1.1), st.integers(1, 13))
def test_no_interval_leaves_its_data(seed, n, ratio, family):
    a, b = sides(seed, n, ratio)
    c = analysis.compare_samples(a, b, family=family)
    assert (a / b).min() <= c.low * (1 + 1e-12)
    assert c.high <= (a / b).max() * (1 + 1e-12)


def test_one_slow_run_does_not_hide_that_two_conditions_are_equal():
    a, b = np.exp(default_rng(4).normal(0, 0.01, (2, 16)))
    a[5] *= 1.5
    c = analysis.compare_samples(a, b, margin=0.1, family=6, better="lower")
    assert c.verdict == "equivalent"
    assert c.method == "paired by round, Hodges-Lehmann, exact capped signed rank"


def test_failures_by_chance_cost_no_verdict_and_those_of_slow_runs_do():
    rng = default_rng(5)
    a, b = np.exp(0.08 * rng.standard_normal((2, 24)) + np.array([[np.log(1.2)], [0.0]]))
    by_chance, slowest = a.copy(), np.exp(0.2 * rng.standard_normal(24))
    by_chance[[2, 9]], b[17] = np.inf, np.nan
    c = analysis.compare_samples(by_chance, b, better="lower")
    assert (c.verdict, c.n, c.failed) == ("worse", 21, (2, 1))
    slowest[slowest > 1] = np.nan
    c = analysis.compare_samples(slowest, np.exp(0.2 * rng.standard_normal(24)), better="lower")
    assert c.verdict in ("no verdict", "inconclusive")
    assert "one side fails more often than the other" in " ".join(c.warnings)


def test_an_undeclared_contrast_is_exploratory():
    a, b = sides(1, 12, 1.2)
    c = analysis.compare_samples(a, b, declared=False)
    assert c.verdict == "exploratory"
    assert c.words.endswith("; exploratory")
    assert 1.1 < c.low < c.ratio < c.high < 1.3


@pytest.mark.parametrize(
    ("better", "ratio", "expected"),
    [
        ("higher", 1.2, "better"),
        ("higher", 0.8, "worse"),
        ("lower", 1.2, "worse"),
        ("lower", 0.8, "better"),
        (None, 1.2, "no verdict"),
        (None, 1.0, "equivalent"),
    ],
)
def test_the_direction_is_the_users(better, ratio, expected):
    assert analysis.compare_samples(*sides(1, 12, ratio), better=better).verdict == expected


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: analysis.compare_samples([1, 2], [1]), "paired=False"),
        (lambda: analysis.compare_samples([1], [1], margin=5), "margin must lie between"),
        (lambda: analysis.compare_samples([1], [1], alpha=0), "alpha must lie between"),
        (lambda: analysis.compare_samples([1], [1], family=0), "family"),
        (lambda: analysis.compare_samples(["x"], [1]), "numbers"),
        (lambda: analysis.compare_samples([[1.0]], [1]), "shape"),
        (lambda: analysis.compare_samples([1], [1], better="up"), "better"),
    ],
)
def test_bad_input_gets_one_sentence(call, text):
    with pytest.raises(StatsError, match=text) as error:
        call()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("runs", "family", "verdict"),
    [(3, 1, "no verdict"), (4, 1, "worse"), (5, 2, "worse"), (6, 11, "worse")],
)
def test_unpaired_runs_need_what_their_own_test_needs(runs, family, verdict):
    a, b = 95 + np.arange(float(runs)), 58 + np.arange(float(runs))
    c = analysis.compare_samples(a, b, better="lower", paired=False, family=family)
    assert c.verdict == verdict
    assert "unpaired" in c.method


def test_few_unpaired_runs_say_how_many_are_needed():
    c = analysis.compare_samples([95.0, 96, 97], [58.0, 59, 60], paired=False, family=6)
    assert c.reason == "3 runs per side, at least 5 are needed for a family of 6 contrasts (2 more)"


def rounds_of(**columns: list[float]) -> pd.DataFrame:
    rounds = range(1, len(next(iter(columns.values()))) + 1)
    return pd.DataFrame(columns, index=pd.Index(rounds, name="round"))


def test_a_plain_table_is_judged_like_its_samples():
    a, b = sides(1, 12, 1.3)
    [c] = npl.judge(rounds_of(ppg=a, far=b), baseline="far", better="lower")
    other = analysis.compare_samples(a, b, margin=0.1, better="lower", names=("ppg", "far"))
    assert c == other


def test_missing_and_failed_rounds_are_dropped_and_counted():
    a, b = sides(1, 12, 1.3)
    a[2], b[5] = np.inf, np.nan
    [c] = npl.judge(rounds_of(ppg=a, far=b), baseline="far", better="lower")
    assert (c.n, c.dropped, c.failed) == (10, 2, (1, 1))
    assert "2 rounds of 12 dropped" in c.warnings[1]


def test_deployments_of_a_plain_table_are_the_replicates():
    a, b = sides(1, 12, 1.3)
    table = rounds_of(ppg=a, far=b)
    table.index = pd.MultiIndex.from_product(
        [[1, 2, 3], [1, 2, 3, 4]], names=["deployment", "round"]
    )
    [c] = npl.judge(table, baseline="far", better="lower")
    assert (c.unit, c.n, c.scope) == ("deployment", 3, "over 3 deployments")


def test_rounds_of_one_side_only_are_unpaired_and_promise_no_share():
    a, b = sides(1, 12, 1.3)
    paired = npl.judge(rounds_of(ppg=a, far=b), baseline="far", better="lower")
    assert "at most 5 %" in paired.note
    a[:6], b[6:] = np.nan, np.nan
    family = npl.judge(rounds_of(ppg=a, far=b), baseline="far", better="lower")
    assert (family[0].paired, family[0].runs) == (False, (6, 6))
    assert "no share of false verdicts is promised" in family.note


@pytest.mark.parametrize(
    ("how", "text"),
    [
        (
            {"baseline": "mars", "better": "lower"},
            "no column 'mars', the baseline; it has ppg, far",
        ),
        ({"baseline": "far", "better": "less"}, "better is 'lower' or 'higher'; got 'less'"),
    ],
)
def test_a_wrong_plain_table_gets_one_sentence(how, text):
    with pytest.raises(UsageError, match=text):
        npl.judge(rounds_of(ppg=[1.0], far=[2.0]), **how)
