"""Histograms merge, keep their stated error, and are those of HdrHistogram."""

from __future__ import annotations

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
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
    assert abs(found.percentile(q)[0] - true) <= found.relative_error * true + 0.0005001  # it counts whole ns
    assert found.relative_error <= 10**-digits


@given(latencies, latencies)
def test_the_histogram_of_the_whole_is_the_sum_of_those_of_its_pieces(a: list[float], b: list[float]) -> None:
    whole = Histogram.of([*a, *b])
    assert Histogram.of(a) + Histogram.of(b) == whole
    assert Histogram.of(b).add(a) == whole
    assert whole.count == len(a) + len(b)
    assert Histogram.sum([Histogram.of(a), Histogram.of(b)]) == whole


@settings(deadline=None, max_examples=50)  # theirs is slow
@given(latencies, st.sampled_from([2, 3]))
def test_hdrhistogram_reads_what_we_write_and_we_what_it_writes(values: list[float], digits: int) -> None:
    ours = Histogram.of(values, digits)
    recorded = HdrHistogram(1, Histogram.HIGHEST_NS, digits)
    for value in values:
        recorded.record_value(round(value * 1000))
    assert Histogram.from_hdr(recorded.encode()) == ours
    assert Histogram.from_hdr(ours.to_hdr()) == ours
    theirs = HdrHistogram.decode(ours.to_hdr())
    assert theirs.get_total_count() == len(values)
    for value in values:
        ns = round(value * 1000)
        assert theirs.get_count_at_value(ns) == recorded.get_count_at_value(ns)
    assert theirs.get_value_at_percentile(100) == recorded.get_value_at_percentile(100)


def test_missing_values_are_left_out_and_impossible_ones_refused() -> None:
    assert Histogram.of([np.nan, 1.0]).count == 1
    assert np.isnan(Histogram().percentile(50)).all()
    assert np.isnan(Histogram().mean)
    for bad in ([-1.0], [1e16]):
        with pytest.raises(StatsError, match="outside"):
            Histogram.of(bad)
    with pytest.raises(UsageError, match="do not add up"):
        Histogram(2) + Histogram(3)
    with pytest.raises(UsageError, match="1 to 5 digits"):
        Histogram(9)
    for text in ("", "nonsense", "AAAAAAAAAAAA"):
        with pytest.raises(StatsError, match="HdrHistogram"):
            Histogram.from_hdr(text)


def test_how_many_values_lie_beyond_a_percentile() -> None:
    assert Histogram.of(np.arange(1, 1001)).beyond(99) == 10
    assert Histogram.of(np.arange(1, 1001)).mean == pytest.approx(500.5, rel=1e-3)
