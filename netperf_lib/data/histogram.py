"""Distributions that merge: log-bucketed histograms in the layout of HdrHistogram.

A percentile of 10^9 latencies from one pass over them, in any order and in as many pieces as there are workers: the
histograms of the pieces add up. Values of one bucket differ by less than ``10**-digits`` of themselves.

Source of the layout and of the encoding: HdrHistogram (http://hdrhistogram.org), encoding V2.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import numpy.typing as npt

from ..errors import StatsError, UsageError

__all__ = ["Histogram"]

Values = npt.ArrayLike

_COOKIE_V2 = 0x1C849303 | 0x10
_COOKIE_V2_COMPRESSED = 0x1C849304 | 0x10


@dataclass(slots=True)
class Histogram:
    """How often each latency was seen, in nanoseconds from 1 to about 2.5 hours.

    Parameters
    ----------
    digits : {1, 2, 3, 4, 5}
        Significant decimal digits that are kept.
    """

    digits: int = 3
    count: int = 0
    """Values recorded."""
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64), repr=False)
    """Values in each bucket, up to the last that is not empty."""
    _magnitude: int = field(init=False, repr=False)

    HIGHEST_NS = (1 << 43) - 1
    """Largest value that is told apart; HdrHistogram must know it ahead."""

    def __post_init__(self) -> None:
        if self.digits not in range(1, 6):
            raise UsageError(f"a histogram keeps 1 to 5 digits, not {self.digits}")
        # so many sub-buckets that two neighbours in the upper half differ by less than 10**-digits
        self._magnitude = math.ceil(math.log2(2 * 10**self.digits))

    @property
    def relative_error(self) -> float:
        """Largest error of a percentile relative to it: half the width of a bucket over its lowest value."""
        return 0.5 / (1 << (self._magnitude - 1))

    @classmethod
    def of(cls, latencies_us: Values, digits: int = 3) -> Self:
        """Return the histogram of latencies (any shape, µs); missing values are left out."""
        return cls(digits).add(latencies_us)

    def add(self, latencies_us: Values) -> Self:
        """Record latencies (any shape, µs); missing values are left out.

        Raises
        ------
        StatsError
            A latency is negative or larger than about 2.5 hours: it is no latency.
        """
        us = np.asarray(latencies_us, dtype=np.float64).ravel()
        us = us[~np.isnan(us)]
        if not us.size:
            return self
        if us.min() < 0 or us.max() * 1000 > self.HIGHEST_NS:
            raise StatsError(
                f"latencies from {us.min():g} to {us.max():g} µs: outside 0 … {self.HIGHEST_NS / 1e3:g} µs"
            )
        return self._merge(np.bincount(self._index(np.rint(us * 1000).astype(np.int64))))

    def _index(self, ns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Bucket of each value: its leading bits, and how many bits they were shifted by."""
        half = 1 << (self._magnitude - 1)
        # the exponent of a float64 is exact below 2**53
        bits = np.frexp(np.maximum(ns, 1).astype(np.float64))[1].astype(np.int64)
        shift = np.maximum(bits - self._magnitude, 0)
        index: npt.NDArray[np.int64] = shift * half + (ns >> shift)
        return index

    def _lowest(self) -> npt.NDArray[np.int64]:
        """Lowest value of each bucket in `counts`, ns."""
        half = 1 << (self._magnitude - 1)
        index = np.arange(len(self.counts))
        shift = np.maximum(index // half - 1, 0)
        lowest: npt.NDArray[np.int64] = (index - shift * half) << shift
        return lowest

    def _merge(self, counts: npt.NDArray[np.int64]) -> Self:
        if len(counts) > len(self.counts):
            self.counts = np.concatenate([self.counts, np.zeros(len(counts) - len(self.counts), np.int64)])
        self.counts[: len(counts)] += counts
        self.count += int(counts.sum())
        return self

    def __add__(self, other: Histogram) -> Histogram:
        if other.digits != self.digits:
            raise UsageError(f"histograms of {self.digits} and of {other.digits} digits do not add up")
        return Histogram(self.digits)._merge(self.counts)._merge(other.counts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Histogram):
            return NotImplemented
        mine, its = np.trim_zeros(self.counts, "b"), np.trim_zeros(other.counts, "b")
        return self.digits == other.digits and np.array_equal(mine, its)

    __hash__ = None  # type: ignore[assignment]  # it changes

    @classmethod
    def sum(cls, several: Iterable[Histogram]) -> Histogram:
        """Merge several; one without values of none."""
        total: Histogram | None = None
        for one in several:
            total = one if total is None else total + one
        return total if total is not None else cls()

    def percentile(self, q: float | Iterable[float]) -> npt.NDArray[np.float64]:
        """Return the latencies (µs) at or below which `q` percent of the values lie; NaN of none.

        Each is within `relative_error` of the value of that rank, ⌈q/100 · count⌉.
        """
        wanted = np.atleast_1d(np.asarray(list(q) if isinstance(q, Iterable) else q, dtype=np.float64))
        if wanted.size and not (wanted.min() >= 0 and wanted.max() <= 100):
            raise UsageError("percentiles lie between 0 and 100")
        if not self.count:
            return np.full(wanted.shape, np.nan)
        ranks = np.clip(np.ceil(wanted / 100 * self.count), 1, self.count)
        index = np.searchsorted(np.cumsum(self.counts), ranks)
        return self._middle()[index] / 1000.0

    def beyond(self, q: float) -> int:
        """How many values lie above the rank of percentile `q`: below ten, that percentile says little."""
        return self.count - math.ceil(q / 100 * self.count)

    def _middle(self) -> npt.NDArray[np.float64]:
        half = 1 << (self._magnitude - 1)
        shift = np.maximum(np.arange(len(self.counts)) // half - 1, 0)
        return self._lowest() + ((1 << shift) - 1) / 2

    @property
    def mean(self) -> float:
        """Mean latency (µs) within `relative_error`; NaN of none."""
        return float(self._middle() @ self.counts / self.count / 1000) if self.count else math.nan

    # -- the format of HdrHistogram --------------------------------------------------------------------------------

    def to_hdr(self) -> str:
        """Encode as HdrHistogram does (V2, compressed, base64): its log files hold such text. The unit is ns."""
        payload = _zigzag_runs(np.trim_zeros(self.counts, "b"))
        header = struct.pack(">iiiiqqd", _COOKIE_V2, len(payload), 0, self.digits, 1, self.HIGHEST_NS, 1.0)
        packed = zlib.compress(header + payload)
        return base64.b64encode(struct.pack(">ii", _COOKIE_V2_COMPRESSED, len(packed)) + packed).decode()

    @classmethod
    def from_hdr(cls, text: str | bytes) -> Histogram:
        """Decode what HdrHistogram or `to_hdr` encoded (V2, compressed); its unit must be ns, its lowest value 1.

        Raises
        ------
        StatsError
            It is damaged, or of another kind.
        """
        try:
            data = base64.b64decode(text, validate=True)
            cookie, length = struct.unpack_from(">ii", data)
            if cookie != _COOKIE_V2_COMPRESSED:
                raise StatsError(f"not a compressed HdrHistogram of version 2 (cookie {cookie:#x})")
            data = zlib.decompress(data[8 : 8 + length])
            cookie, length, _, digits, lowest, _, _ = struct.unpack_from(">iiiiqqd", data)
        except (ValueError, struct.error, zlib.error) as error:
            raise StatsError(f"not an HdrHistogram, or a damaged one ({error})") from None
        if cookie != _COOKIE_V2 or lowest != 1:
            raise StatsError(
                f"an HdrHistogram of another kind (cookie {cookie:#x}, lowest value {lowest}; 1 is needed)"
            )
        return cls(digits)._merge(_read_zigzag_runs(data[40 : 40 + length]))


def _zigzag_runs(counts: npt.NDArray[np.int64]) -> bytes:
    """Counts as ZigZag LEB128 numbers; a run of empty buckets is one negative number."""
    out = bytearray()
    empty = 0
    for count in counts.tolist():
        if count == 0:
            empty += 1
            continue
        if empty:
            _put(out, -empty)
            empty = 0
        _put(out, count)
    return bytes(out)


def _put(out: bytearray, number: int) -> None:
    rest = (number << 1) ^ (number >> 63)
    for _ in range(8):
        if rest < 0x80:
            out.append(rest)
            return
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)  # the ninth byte holds eight bits


def _read_zigzag_runs(data: bytes) -> npt.NDArray[np.int64]:
    counts: list[int] = []
    at = 0
    while at < len(data):
        value = 0
        for i in range(9):
            byte = data[at]
            at += 1
            value |= (byte if i == 8 else byte & 0x7F) << (7 * i)
            if byte < 0x80 or i == 8 or at >= len(data):
                break
        number = (value >> 1) ^ -(value & 1)
        if number < 0:
            counts += [0] * -number
        else:
            counts.append(number)
    return np.array(counts, np.int64)
