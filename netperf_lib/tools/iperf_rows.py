"""The text rows of iperf 2 and iperf3: ``[  5]   0.00-1.00   sec  1.02 GBytes  8.80 Gbits/sec``, and further columns.

Both count bytes in powers of 1024 and bits in powers of 1000, and cut numbers to three digits. A row gives its
throughput twice, as a rate and as bytes over time. If the two differ by more than the rounding, the row is damaged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..metrics import to_bps, to_bytes
from .draft import Contradictory, Damaged, interval_columns
from .parsed import Columns

_ROW = re.compile(  # the figures may be missing: a row without them is damaged, not some other line
    r"\[\s*([^\]\[\n]{1,40}?)\s*\](?:\[([TR]X-[CS])\])?\s*(\d+\.\d+)\s*-\s*(\d+\.\d+)\s+sec\s+"
    r"(?:(\d+(?:\.\d+)?)\s+([KMGT]?)Bytes\s+(\d+(?:\.\d+)?(?:e[-+]?\d+)?)\s+([KMGT]?)(bits|Bytes)/sec(.*))?"
)
_TORN = re.compile(r"\[\s*\w+\]\s+\d[\d.]*(?:\s*-\s*[\d.]*)?\s*$")
"""The start of a row that lost its end, before another row in the same line."""
_PREFIXES = ("", "K", "M", "G", "T")
BYTES = {prefix: to_bytes(1, f"{prefix}i" if prefix else "") for prefix in _PREFIXES}
"""Bytes by the letter before "Bytes"."""
_BITS_S = {("bits", prefix): to_bps(1, prefix, "bit") for prefix in _PREFIXES}
# -f K, M, G: bytes per second, in powers of 1024 as every number of bytes
_BITS_S |= {("Bytes", prefix): to_bps(1, f"{prefix}i" if prefix else "", "byte") for prefix in _PREFIXES}
LOSS = (
    r"\s+(?P<jitter>\d+(?:\.\d+)?) ms\s+(?P<lost>-?\d+)/\s*(?P<total>-?\d+)\s+"
    r"\((?P<percent>-?\d+(?:\.\d+)?(?:e[-+]?\d+)?|-?nan)%\)"
)
"""Jitter, lost datagrams, all datagrams, and the share, as both programs print them.

More received than sent is printed as a loss of 2^64 - n and a negative share.
"""
_TRACES = (
    re.compile(r"\[\s*[^\]\[\s][^\]\[]{0,20}\]"),
    re.compile(r"\d\.\d*\s*-\s*\d+\.\d"),
    re.compile(r"\bsec\b"),
    re.compile(r"Bytes\b"),
    re.compile(r"(?:bits|Bytes)/sec"),
)


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
    """The text after the rate."""
    tolerance: float
    """Relative rounding error of rate, bytes and times together."""
    text: str
    index: int = 0
    """Line number in its log, from 0."""

    @property
    def length_s(self) -> float:
        """Duration of the row in seconds."""
        return self.end_s - self.start_s


def _half_ulp(number: str) -> float:
    point = number.find(".")
    if point < 0:
        return 0.5
    end = number.find("e", point) if "e" in number else len(number)
    return 0.5 * 10.0 ** (point + 1 - end)


def row(line: str, index: int = 0) -> Row | None:
    """Read a row; None if the line is not a row. `Damaged` if it is cut, in unknown units, or contradicts itself."""
    if "sec" not in line and "Bytes" not in line:
        return None  # two traces at most
    m = _ROW.search(line)
    if m is None or m[5] is None:
        # One damaged byte breaks one or two traces of a row; the others still show that there was a row.
        if sum(t.search(line) is not None for t in _TRACES) >= 3 and "PDF" not in line:
            raise Damaged(f"a row is damaged, cut short or in an unknown unit: {line.strip()!r}")
        return None
    if m.start() > 3 and _TORN.search(line, 0, m.start()):
        raise Damaged(f"a row is cut short before another one: {line.strip()!r}")
    stream, role, begins, ends, amount, amount_prefix, speed, speed_prefix, per, rest = m.groups()
    size, rate, start, end = float(amount), float(speed), float(begins), float(ends)
    length = end - start
    factor, rate_factor = BYTES[amount_prefix], _BITS_S[per, speed_prefix]
    size_bytes, rate_bps = size * factor, rate * rate_factor
    tolerance = 0.0
    if length < 0:
        raise Damaged(f"a row ends before it starts: {line.strip()!r}")
    if length > 0 and (size or rate):
        half_size, half_rate = _half_ulp(amount), _half_ulp(speed)
        if size:
            tolerance += half_size / size
        if rate:
            tolerance += half_rate / rate
        clock = (_half_ulp(begins) + _half_ulp(ends)) / length
        if clock < 0.5:
            moved_bps = size_bytes * 8 / length
            if size and rate:
                slack = 1.02 * (tolerance + clock) * max(rate_bps, moved_bps)
            else:
                smallest = half_size * (factor if size else 1) * 8 / length
                slack = 1.05 * max(smallest, half_rate * rate_factor)
            if abs(moved_bps - rate_bps) > slack:
                raise Contradictory(f"the bytes of a row contradict its rate: {line.strip()!r}")
            if size and not rate:
                rate_bps = moved_bps  # too slow for the unit that was asked for (-f)
        tolerance += clock
    return Row(stream, role, start, end, size_bytes, rate_bps, rest, tolerance, line, index)


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


def columns(intervals: Sequence[Interval]) -> Columns:
    """Return the table of intervals; without sums, the rows of a direction's only stream are also its sums."""
    ways = {i.direction for i in intervals}
    single = all(i.stream != -1 for i in intervals) and len({(i.direction, i.stream) for i in intervals}) == len(ways)
    each = [(n, i) for i in intervals for n in ((i.stream, -1) if single else (i.stream,))]
    return interval_columns(
        [i.row.start_s for _, i in each],
        [i.row.end_s for _, i in each],
        stream=[n for n, _ in each],
        direction=[i.direction for _, i in each],
        omitted=[i.omitted for _, i in each],
        # a rate over no time is meaningless
        throughput_bps=[i.row.rate_bps if i.row.length_s > 0 else None for _, i in each],
        retransmits_count=[i.retransmits for _, i in each],
        rtt_loaded_us=[i.rtt_us if n != -1 else None for n, i in each],
        cwnd_bytes=[i.cwnd_bytes if n != -1 else None for n, i in each],
    )


def stream_number(name: str) -> int:
    """Return the number in the name of a stream, 0 if it has none."""
    digits = re.search(r"\d+", name)
    return int(digits[0]) if digits else 0


def counter(text: str) -> int | None:
    """Read a 32-bit counter; None if it is negative or wrapped around, which means that it was never set."""
    value = int(text)
    return value if 0 <= value < 2**31 else None


def consistent(total: float, parts: Sequence[float], tolerance: float) -> bool:
    """Return whether a sum agrees with its parts within their rounding."""
    return abs(total - sum(parts)) <= tolerance * max(total, sum(parts))
