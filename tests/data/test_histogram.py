"""Histograms merge and keep their stated error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netperf_lib.data.histogram import Histogram
from netperf_lib.errors import StatsError, UsageError

latencies = st.lists(st.floats(0.001, 1e9), min_size=1, max_size=300)
QS = (0, 1, 25, 50, 75, 90, 99, 99.9, 99.99, 100)


@given(latencies, st.sampled_from([1, 2, 3, 4]), st.sampled_from(QS))
def test_a_percentile_is_within_the_stated_error(values: list[float], digits: int, q: float) -> None:
    found = Histogram.of(values, digits)
    rank = max(1, int(np.ceil(q / 100 * len(values))))
    true = sorted(values)[rank - 1]
    assert abs(found.percentile(q)[0] - true) <= found.relative_error * true + 0.0005001
    assert found.relative_error <= 10**-digits


@given(latencies, latencies)
def test_the_histogram_of_the_whole_is_the_sum_of_those_of_its_pieces(a: list[float], b: list[float]) -> None:
    whole = Histogram.of([*a, *b])
    assert Histogram.of(a) + Histogram.of(b) == whole
    assert Histogram.of(b).add(a) == whole
    assert whole.count == len(a) + len(b)


def test_a_sum_does_not_share_its_counts() -> None:
    part = Histogram.of([1.0])
    total = Histogram() + part
    total.add([2.0])
    assert (part.count, total.count) == (1, 2)


def test_missing_values_are_left_out_and_impossible_ones_refused() -> None:
    assert Histogram.of([np.nan, 1.0]).count == 1
    assert np.isnan(Histogram().percentile(50)).all()
    for bad in ([-1.0], [1e16]):
        with pytest.raises(StatsError, match="outside"):
            Histogram.of(bad)
    with pytest.raises(UsageError, match="do not add up"):
        Histogram(2) + Histogram(3)
    with pytest.raises(UsageError, match="1 to 5 digits"):
        Histogram(9)


def test_how_many_values_lie_beyond_a_percentile() -> None:
    assert Histogram.of(np.arange(1, 1001)).beyond(99) == 10
