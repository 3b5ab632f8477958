"""The rows that iperf 2 and iperf3 print for people: ``[  5]   0.00-1.00   sec  1.02 GBytes  8.80 Gbits/sec``, and on.

Both count bytes in powers of 1024 and bits in powers of 1000, and cut numbers to three digits. A row says its
throughput twice, as a rate and as bytes over time: where the two differ by more than the rounding, it is damaged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..metrics import to_bps, to_bytes
from ..model import Columns

_ROW = re.compile(
    r"\[\s*(?P<id>[^\]\[\n]{1,40}?)\s*\](?:\[(?P<role>[TR]X-[CS])\])?\s*"
    r"(?P<start>\d+\.\d+)\s*-\s*(?P<end>\d+\.\d+)\s+sec\s+(?P<rest>.*)"
)
_FIGURES = re.compile(
    r"(?P<size>\d+(?:\.\d+)?)\s+(?P<size_unit>[KMGT]?)Bytes\s+"
    r"(?P<rate>\d+(?:\.\d+)?(?:e[-+]?\d+)?)\s+(?P<rate_unit>[KMGT]?)(?P<per>bits|Bytes)/sec(?P<rest>.*)"
)
LOSS = (
    r"\s+(?P<jitter>\d+(?:\.\d+)?) ms\s+(?P<lost>-?\d+)/\s*(?P<total>-?\d+)\s+"
    r"\((?P<percent>\d+(?:\.\d+)?(?:e[-+]?\d+)?|-?nan)%\)"
)
"""Jitter, lost and all datagrams, and the share, as both programs print them."""
_TRACES = (
    re.compile(r"\[\s*[^\]\[\s][^\]\[]{0,20}\]"),
    re.compile(r"\d\.\d*\s*-\s*\d+\.\d"),
    re.compile(r"\bsec\b"),
    re.compile(r"Bytes\b"),
    re.compile(r"(?:bits|Bytes)/sec"),
)


class Unreadable(Exception):  # noqa: N818 - not an error of the program: a finding about the log
    """A row that is one, and cannot be read."""


@dataclass(slots=True)
class Row:
    """One row, in the library's units."""

    stream: str
    role: str | None
    start_s: float
    end_s: float
    size_bytes: float
    rate_bps: float
    rest: str
    """What stands behind the rate."""
    tolerance: float
    """Relative width of the rounding of rate, bytes and times together."""
    text: str
    index: int = 0
    """Number of the line in its log, from 0."""

    @property
    def length_s(self) -> float:
        """Seconds that the row is over."""
        return self.end_s - self.start_s

    @property
    def throughput_bps(self) -> float | None:
        """The rate, or None over no time at all, where it has no meaning."""
        return self.rate_bps if self.length_s > 0 else None


def _half_ulp(number: str) -> float:
    mantissa = number.partition("e")[0]
    return 0.5 * 10.0 ** -len(mantissa.partition(".")[2])


def row(line: str, index: int = 0) -> Row | None:
    """Read a row; None when the line is none.

    Raises
    ------
    Unreadable
        It is a row, and cut short, in unknown units, or contradicts itself.
    """
    if "sec" not in line and "Bytes" not in line:
        return None  # two traces at most
    m = _ROW.search(line)
    f = _FIGURES.match(m["rest"]) if m else None
    if m is None or f is None:
        # One damaged byte breaks one trace of a row, or two; the others still show that there was one.
        if sum(t.search(line) is not None for t in _TRACES) >= 3 and "PDF" not in line:
            raise Unreadable(f"a row is damaged, cut short or in an unknown unit: {line.strip()!r}")
        return None
    size, rate, start, end = float(f["size"]), float(f["rate"]), float(m["start"]), float(m["end"])
    length = end - start
    size_bytes = to_bytes(size, f["size_unit"] + "i" if f["size_unit"] else "")
    # -f K, M, G: bytes per second, in powers of 1024 as every number of bytes
    prefix = f["rate_unit"] + "i" if f["per"] == "Bytes" and f["rate_unit"] else f["rate_unit"]
    rate_bps = to_bps(rate, prefix, "byte" if f["per"] == "Bytes" else "bit")
    tolerance = 0.0
    if length < 0:
        raise Unreadable(f"a row ends before it starts: {line.strip()!r}")
    if length > 0 and (size or rate):
        for number, value in ((f["size"], size), (f["rate"], rate)):
            tolerance += _half_ulp(number) / value if value else 0.0
        clock = (_half_ulp(m["start"]) + _half_ulp(m["end"])) / length
        off = abs(size_bytes * 8 / length - rate_bps)
        slack = 1.02 * (tolerance + clock) * max(rate_bps, size_bytes * 8 / length)
        if clock < 0.5 and (not size or not rate):
            smallest = _half_ulp(f["size"]) * (size_bytes / size if size else 1) * 8 / length
            slack = max(smallest, _half_ulp(f["rate"]) * (rate_bps / rate if rate else 1)) * 1.05
        if clock < 0.5 and off > slack:
            raise Unreadable(f"the bytes of a row contradict its rate: {line.strip()!r}")
        tolerance += clock
    return Row(
        stream=m["id"],
        role=m["role"],
        start_s=start,
        end_s=end,
        size_bytes=size_bytes,
        rate_bps=rate_bps,
        rest=f["rest"],
        tolerance=tolerance,
        text=line,
        index=index,
    )


@dataclass(slots=True)
class Interval:
    """A row of the table of intervals."""

    stream: int
    direction: str
    row: Row
    omitted: bool = False
    retransmits: int | None = None
    rtt_us: float | None = None
    cwnd_bytes: float | None = None


def columns(intervals: Sequence[Interval], *, single: bool) -> Columns:
    """Return the table of intervals; with a `single` stream its rows are also those of the sum (stream -1)."""
    if not intervals:
        return {}
    rows = [x for i in intervals for x in ((i.stream, i), (-1, i))] if single else [(i.stream, i) for i in intervals]
    return {
        "stream": [s for s, _ in rows],
        "direction": [i.direction for _, i in rows],
        "start_s": [i.row.start_s for _, i in rows],
        "end_s": [i.row.end_s for _, i in rows],
        "omitted": [i.omitted for _, i in rows],
        "throughput_bps": [i.row.throughput_bps for _, i in rows],
        "retransmits_count": [i.retransmits for _, i in rows],
        "rtt_loaded_us": [i.rtt_us if s != -1 else None for s, i in rows],
        "cwnd_bytes": [i.cwnd_bytes if s != -1 else None for s, i in rows],
    }


def counter(text: str) -> int | None:
    """Read a counter of 32 bits: below zero, or wrapped around, it was never set."""
    value = int(text)
    return value if 0 <= value < 2**31 else None


def consistent(total: float, parts: Sequence[float], tolerance: float) -> bool:
    """Whether a sum agrees with its parts within the rounding of them all."""
    return abs(total - sum(parts)) <= tolerance * max(total, sum(parts)) + 1e-9
