"""Levels, tails, streams, buffers, planning: what they find in data whose truth is planted."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.random import default_rng

from netperf_lib import analysis
from netperf_lib.analysis.compare import judge
from netperf_lib.analysis.streams import streams
from netperf_lib.errors import StatsError

from . import planted

VALUES = arrays(float, st.integers(1, 40), elements=st.floats(1e-3, 1e12))


# --- levels ---------------------------------------------------------------------------------------


@given(VALUES)
def test_a_level_is_ordered(values):
    found = analysis.level(values)
    assert found.low <= found.median <= found.high
    assert found.n == values.size


@given(VALUES, st.floats(1e-3, 1e3))
def test_a_level_scales_with_its_unit(values, factor):
    one, other = analysis.level(values), analysis.level(values * factor)
    assert np.allclose(
        [other.median, other.low, other.high],
        np.array([one.median, one.low, one.high]) * factor,
    )


@given(VALUES, st.randoms(use_true_random=False))
def test_the_order_of_runs_does_not_move_a_level(values, random):
    shuffled = list(values)
    random.shuffle(shuffled)
    one, other = analysis.level(values), analysis.level(shuffled)
    assert (one.median, one.low, one.high) == (other.median, other.low, other.high)


@pytest.mark.parametrize(
    ("n", "confidence"), [(1, 0), (2, 0.5), (3, 0.75), (5, 0.9375), (6, 0.95)]
)
def test_few_runs_give_their_range_and_its_confidence(n, confidence):
    found = analysis.level(np.arange(1.0, n + 1))
    assert found.confidence == confidence
    if n < 6:
        assert (found.low, found.high) == (1, n)


def test_a_day_of_runs_has_as_many_observations_as_hours():
    rng = default_rng(1)
    hours = np.arange(1320) // 60
    values = 46 * np.exp(
        0.05 * rng.standard_normal(22)[hours] + 0.02 * rng.standard_normal(1320)
    )
    found = analysis.level(values, hours=hours)
    assert (found.n, found.counted) == (22, "hour")
    assert found.low < 46 < found.high
    assert found.high / found.low > 1.02
    assert analysis.level(values[:599], hours=hours[:599]).counted == "run"


def test_missing_values_are_dropped_and_bad_ones_refused():
    assert analysis.level([1.0, None, math.nan, 2.0]).n == 2
    assert analysis.level(pd.Series([1, pd.NA, 3], dtype="Int64")).n == 2
    with pytest.raises(StatsError, match="confidence must lie between"):
        analysis.level([1.0], confidence=95)
    with pytest.raises(StatsError, match="one row of numbers"):
        analysis.level([[1.0]])


# --- streams --------------------------------------------------------------------------------------

COUNTS = np.array([1, 2, 4, 8, 16, 32, 64])


def scaling(rounds=12, seed=0, **law):
    rng = default_rng(seed)
    rates = planted.law(COUNTS, **law) * np.exp(
        planted.drift(rng, 1, rounds).T + 0.02 * rng.standard_normal((rounds, 7))
    )
    return pd.DataFrame(rates, columns=COUNTS)


def test_how_many_streams_are_enough():
    found = streams(scaling(40, sigma=0.2, kappa=1e-3))
    assert found.enough == 16  # 16 streams carry 3.77 Gbit/s, 32 the most, 3.90
    assert "16 streams fill the path" in found.words
    assert found.counts == list(COUNTS)


def test_the_largest_number_may_not_be_the_best():
    rates = 1e9 * COUNTS * np.exp(0.001 * default_rng(1).standard_normal((10, 7)))
    found = streams(pd.DataFrame(rates, columns=COUNTS))
    assert found.enough == 64
    assert "may carry more" in found.words


def test_few_rounds_of_streams_are_refused_and_missing_ones_counted():
    data = scaling(8)
    data.loc[2, 8] = np.nan
    found = streams(data)
    assert (found.n, found.enough is not None) == (7, True)
    data.loc[4, 8] = 0.0
    found = streams(data)
    assert found.enough is None
    assert "6 whole rounds, 1 more" in found.words


# --- planning -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "rounds", "runs"), [(1, 6, 4), (6, 8, 5), (1000, 16, 9)]
)
def test_fewest_rounds_of_a_family_and_runs_without_rounds(family, rounds, runs):
    assert analysis.rounds_required(0.05, family) == rounds
    assert analysis.rounds_required(0.05, family, paired=False) == runs


def measured(rounds, seed=5, cv=0.02):
    rng = default_rng(seed)
    logs = cv * rng.standard_normal((rounds, 3)) + np.array([0, -0.4, 0.0])
    return pd.DataFrame(
        {
            "round": np.repeat(np.arange(rounds), 3),
            "placement": ["same-zone", "ppg", "cross-zone"] * rounds,
            "latency_oneway_us": 80 * np.exp(logs.ravel()),
        }
    )


ASKED = [
    {
        "metric": "latency_oneway_us",
        "a": {"placement": p},
        "b": {"placement": "same-zone"},
        "margin": 0.05,
    }
    for p in ("ppg", "cross-zone")
]


def looked(runs):
    return judge(runs, ASKED, design="sequential")


def test_a_running_experiment_stops_when_every_contrast_is_settled():
    runs = measured(40)
    looks = [
        analysis.until_decided(looked(runs[runs["round"] < n]), rounds_left=40 - n)
        for n in range(4, 41)
    ]
    stop = next(i for i, p in enumerate(looks) if p.stop)
    assert looks[stop].words == "stop: 2 of 2 contrasts settled"
    assert looks[0].words.startswith("continue: 0 of 2 contrasts settled")


def test_a_running_experiment_gives_up_what_the_rounds_left_cannot_settle():
    progress = analysis.until_decided(looked(measured(20, cv=0.6)), rounds_left=5)
    assert progress.stop
    assert "that the remaining rounds will not settle" in progress.words
