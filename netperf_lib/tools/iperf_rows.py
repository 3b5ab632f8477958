"""The text rows of iperf 2 and iperf3: ``[  5]   0.00-1.00   sec  1.02 GBytes  8.80 Gbits/sec``, and further columns.

Both count bytes in powers of 1024 and bits in powers of 1000, and cut numbers to three digits. A row gives its
throughput twice, as a rate and as bytes over time. If the two differ by more than the rounding, the row is damaged.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..metrics import to_bps, to_bytes
from .draft import Contradictory, Damaged, Figure, interval_columns
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
_BITS_S |= {
    ("Bytes", prefix): to_bps(1, f"{prefix}i" if prefix else "", "byte") for prefix in _PREFIXES
}
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
    size: Figure
    """Bytes."""
    rate_bps: float
    figures: str
    """The text after the rate."""
    text: str
    index: int
    """Line number in its log, from 0."""

    @property
    def length_s(self) -> float:
        """Duration of the row in seconds."""
        return self.end_s - self.start_s


def row(line: str, index: int) -> Row | None:
    """Read a row; None if the line is not a row. `Damaged` if it is cut, in unknown units, or contradicts itself."""
    if "sec" not in line:
        return None
    m = _ROW.search(line)
    if m is None or m[5] is None:
        # One damaged byte breaks one or two traces of a row; the others still show that there was a row. What a script
        # prints about a run has a rate, but neither an interval nor an amount.
        traces = [t.search(line) is not None for t in _TRACES]
        if sum(traces) >= 3 and (traces[1] or traces[3]) and "PDF" not in line:
            raise Damaged(f"a row is damaged, cut short or in an unknown unit: {line.strip()!r}")
        return None
    if _TORN.search(line[: m.start()]):
        raise Damaged(f"a row is cut short before another one: {line.strip()!r}")
    stream, role, begin, finish, amount, amount_prefix, speed, speed_prefix, per, figures = (
        m.groups()
    )
    size, rate = (
        Figure.printed(amount, BYTES[amount_prefix]),
        Figure.printed(speed, _BITS_S[per, speed_prefix]),
    )
    start, end = Figure.printed(begin), Figure.printed(finish)
    length = Figure(end.value - start.value, end.half + start.half)
    if length.value < 0:
        raise Damaged(f"a row ends before it starts: {line.strip()!r}")
    if length.value and (size.value or rate.value):
        moved = size * 8 / length
        if not moved.agrees(rate, 0):
            raise Contradictory(f"the bytes of a row contradict its rate: {line.strip()!r}")
        if not rate.value:
            rate = moved  # too slow for the unit that was asked for (-f)
    return Row(stream, role, start.value, end.value, size, rate.value, figures, line, index)


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
    single = all(i.stream != -1 for i in intervals) and len(
        {(i.direction, i.stream) for i in intervals}
    ) == len(ways)
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


def is_share(percent: float, lost: int, total: int) -> bool:
    """Return whether a printed loss, of two digits or to a thousandth, is that of the counts."""
    return math.isclose(percent, 100 * lost / total, rel_tol=0.06, abs_tol=1e-3)


def counter(text: str) -> int | None:
    """Read a 32-bit counter; None if it is negative or wrapped around, which means that it was never set."""
    value = int(text)
    return value if 0 <= value < 2**31 else None
