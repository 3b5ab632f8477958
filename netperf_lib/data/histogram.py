"""Distributions that merge: log-bucketed histograms.

They give a percentile of 10^9 latencies from one pass, in any order and split among any number of workers: the
histograms of the pieces add up. A bucket holds the values with equal exponent and leading bits of the significand, so
that each percentile, including the far tail, has a bounded relative error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import numpy.typing as npt

from ..errors import StatsError, UsageError

LOWEST_US, HIGHEST_US = 2.0**-10, 2.0**33
"""Values below about 1 ns share a bucket; above about 2.4 hours they are not latencies."""


@dataclass(slots=True, eq=False)
class Histogram:
    """How often each latency was seen.

    Parameters
    ----------
    digits : {1, 2, 3, 4, 5}
        Significant decimal digits to keep: percentiles have a relative error below ``10**-digits``.
    """

    digits: int = 3
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64), repr=False)
    """Values in each bucket, up to the last that is not empty."""

    def __post_init__(self) -> None:
        if self.digits not in range(1, 6):
            raise UsageError(f"a histogram keeps 1 to 5 digits, not {self.digits}")

    @property
    def count(self) -> int:
        """Values recorded."""
        return int(self.counts.sum())

    @property
    def relative_error(self) -> float:
        """Largest relative error of a percentile: half the width of a bucket over its lowest value."""
        return 0.5 / (1 << self._bits)

    @property
    def _bits(self) -> int:
        return math.ceil(self.digits * math.log2(10))

    def _index(self, us: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Bucket of each value: the exponent and the leading bits of the significand."""
        index: npt.NDArray[np.int64] = us.view(np.int64) >> (52 - self._bits)
        return index

    @classmethod
    def of(cls, latencies_us: npt.ArrayLike, digits: int = 3) -> Self:
        """Return the histogram of latencies (any shape, µs); missing values are left out."""
        return cls(digits).add(latencies_us)

    def add(self, latencies_us: npt.ArrayLike) -> Self:
        """Record latencies (any shape, µs); missing values are left out.

        Raises
        ------
        StatsError
            A latency is negative or larger than about 2.4 hours.
        """
        us = np.asarray(latencies_us, dtype=np.float64).ravel()
        us = us[~np.isnan(us)]
        if us.size:
            if us.min() < 0 or us.max() >= HIGHEST_US:
                raise StatsError(f"latencies from {us.min():g} to {us.max():g} µs: outside 0 … {HIGHEST_US:g} µs")
            first = self._index(np.array([LOWEST_US]))[0]
            self._merge(np.bincount(self._index(np.maximum(us, LOWEST_US)) - first))
        return self

    def _merge(self, counts: npt.NDArray[np.int64]) -> Self:
        size = max(len(counts), len(self.counts))
        self.counts = np.pad(self.counts, (0, size - len(self.counts)))  # a copy: no histogram shares its counts
        self.counts[: len(counts)] += counts
        return self

    def __add__(self, other: Histogram) -> Histogram:
        if other.digits != self.digits:
            raise UsageError(f"histograms of {self.digits} and of {other.digits} digits do not add up")
        return Histogram(self.digits)._merge(self.counts)._merge(other.counts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Histogram):
            return NotImplemented
        return self.digits == other.digits and np.array_equal(
            np.trim_zeros(self.counts, "b"), np.trim_zeros(other.counts, "b")
        )

    __hash__ = None  # type: ignore[assignment]  # it changes

    def percentile(self, q: float | Iterable[float]) -> npt.NDArray[np.float64]:
        """Return the latencies (µs) at or below which `q` percent of the values lie; NaN if there are no values.

        Each is within `relative_error` of the value of that rank, ⌈q/100 · count⌉.
        """
        wanted = np.atleast_1d(np.asarray(list(q) if isinstance(q, Iterable) else q, dtype=np.float64))
        if wanted.size and not (wanted.min() >= 0 and wanted.max() <= 100):
            raise UsageError("percentiles lie between 0 and 100")
        if not self.count:
            return np.full(wanted.shape, np.nan)
        ranks = np.clip(np.ceil(wanted / 100 * self.count), 1, self.count)
        bucket = np.searchsorted(np.cumsum(self.counts), ranks) + self._index(np.array([LOWEST_US]))[0]
        low, high = ((b << (52 - self._bits)).view(np.float64) for b in (bucket, bucket + 1))
        middle: npt.NDArray[np.float64] = (low + high) / 2
        return middle

    def beyond(self, q: float) -> int:
        """How many values lie above the rank of percentile `q`; with fewer than ten, that percentile says little."""
        return self.count - math.ceil(q / 100 * self.count)
