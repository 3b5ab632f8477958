"""Levels, streams, planning: what they find in data whose truth is planted."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.random import default_rng

import netperf_lib as npl
from netperf_lib import analysis
from netperf_lib.analysis.streams import streams
from netperf_lib.errors import StatsError
from netperf_lib.experiment.origin import Measured, Origin

from . import planted

VALUES = arrays(float, st.integers(1, 40), elements=st.floats(1e-3, 1e12))


def figures(values):
    found = analysis.level(values)
    return np.array([found.low, found.median, found.high])


# --- levels ---------------------------------------------------------------------------------------


@given(VALUES, st.floats(1e-3, 1e3), st.randoms(use_true_random=False))
def test_a_level_is_ordered_and_knows_neither_unit_nor_order_of_runs(
    values, factor, random
):
    low, median, high = figures(values)
    assert low <= median <= high
    assert np.allclose(figures(values * factor), factor * figures(values))
    shuffled = list(values)
    random.shuffle(shuffled)
    assert np.array_equal(figures(shuffled), figures(values))


@pytest.mark.parametrize(
    ("n", "confidence"), [(1, 0), (2, 0.5), (3, 0.75), (5, 0.9375), (6, 0.95)]
)
def test_few_runs_give_their_range_and_its_confidence(n, confidence):
    found = analysis.level(np.arange(1.0, n + 1))
    assert (found.n, found.confidence) == (n, confidence)
    if n < 6:
        assert (found.low, found.high) == (1, n)


def test_a_day_of_runs_has_as_many_observations_as_hours():
    rng, hours = default_rng(1), np.arange(1320) // 60
    each = 0.05 * rng.standard_normal(22)
    values = 46 * np.exp(each[hours] + 0.02 * rng.standard_normal(1320))
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


def law(sigma=0.05, kappa=4e-4):
    """Universal Scalability Law."""
    return 1e9 * COUNTS / (1 + sigma * (COUNTS - 1) + kappa * COUNTS * (COUNTS - 1))


def scaling(rounds, rates, noise=0.02):
    """A table of rounds by numbers of streams."""
    noisy = rates * np.exp(noise * default_rng(0).standard_normal((rounds, 7)))
    return pd.DataFrame(noisy, columns=COUNTS)


def test_how_many_streams_are_enough():
    found = streams(scaling(40, law(sigma=0.2, kappa=1e-3)))
    assert found.enough == 16  # 16 streams carry 3.77 Gbit/s, 32 the most, 3.90
    assert "16 streams fill the path" in found.words


def test_the_largest_number_may_not_be_the_best():
    found = streams(scaling(10, 1e9 * COUNTS, noise=0.001))
    assert found.enough == 64
    assert "may carry more" in found.words


def test_few_rounds_of_streams_are_refused_and_missing_ones_counted():
    data = scaling(8, law())
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


def looked(rounds, noise=0.02):
    """Verdicts after so many rounds of an experiment that stops when it may."""
    levels = {"same-zone": 80, "ppg": 54, "cross-zone": 80}
    base = {"metric": "latency_oneway_us", "b": {"placement": "same-zone"}}
    asked = [
        base | {"a": {"placement": p}, "margin": 0.05} for p in ("ppg", "cross-zone")
    ]
    runs = planted.runs(levels, rounds, noise=noise)
    declared = Origin({"design": "sequential"})
    return npl.compare(Measured(runs, declared), contrasts=asked)


def test_a_running_experiment_stops_when_every_contrast_is_settled():
    first = analysis.until_decided(looked(4), rounds_left=36)
    assert not first.stop
    assert first.words.startswith("continue: 0 of 2 contrasts settled")
    last = analysis.until_decided(looked(40), rounds_left=5)
    assert last.stop
    assert last.words == "stop: 2 of 2 contrasts settled"


def test_a_running_experiment_gives_up_what_the_rounds_left_cannot_settle():
    progress = analysis.until_decided(looked(20, noise=0.6), rounds_left=5)
    assert progress.stop
    assert "that the remaining rounds will not settle" in progress.words
