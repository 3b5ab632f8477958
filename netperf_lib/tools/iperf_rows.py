"""The rows of iperf 2 and iperf3: ``[  5]   0.00-1.00   sec  1.02 GBytes  8.80 Gbits/sec``, and more.

Both count bytes in powers of 1024 and bits in powers of 1000, and cut numbers to three digits. A row
gives its throughput twice, as a rate and as bytes over time. If the two differ by more than the
rounding, the row is damaged.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..metrics import to_bps, to_bytes
from .draft import Contradictory, Damaged, Figure
from .parsed import Columns

_FIGURE = r"(-?nan|-?inf|\d+(?:\.\d+)?(?:e[-+]?\d+)?)"
_ROW = re.compile(  # the figures may be missing: such a row is damaged, and not some other line
    r"\[\s*([^\]\[\n]{1,40}?)\s*\](?:\[([TR]X-[CS])\])?\s*(\d+\.\d+)\s*-\s*(\d+\.\d+)\s+sec\s+"
    rf"(?:{_FIGURE}\s+([KMGT]?)Bytes\s+{_FIGURE}\s+([KMGT]?)(bits|Bytes)/sec(.*))?"
)
DISORDER = re.compile(r"\[\s*\*?([^\]]+?)\s*\] .*?sec\s+(\d+) datagrams received out-of-order")
"""A line of its own: the stream, and its datagrams out of order."""
_TORN = re.compile(r"\[\s*\w+\]\s+\d[\d.]*(?:\s*-\s*[\d.]*)?\s*$")
"""The start of a row that lost its end, before another row in the same line."""
_PREFIXES = ("", "K", "M", "G", "T")
BYTES = {prefix: to_bytes(1, f"{prefix}i" if prefix else "") for prefix in _PREFIXES}
"""Bytes by the letter before "Bytes"."""
LOSS = (
    r"\s+(?P<jitter>\d+(?:\.\d+)?) ms\s+(?P<lost>-?\d+)/\s*(?P<total>-?\d+)\s+"
    r"\((?P<percent>-?\d+(?:\.\d+)?(?:e[-+]?\d+)?|-?nan|-?inf)%\)"
)
"""Jitter, lost datagrams, all datagrams, and the share, as both programs print them.

More received than sent is printed as a loss of 2^64 - n and a negative share.
"""
_TRACES = [
    re.compile(trace)
    for trace in (
        r"\d\.\d*\s*-\s*\d+\.\d",
        r"Bytes\b",
        r"\[\s*[^\]\[\s][^\]\[]{0,20}\]",
        r"\bsec\b",
        r"(?:bits|Bytes)/sec",
    )
]
"""Parts of a row: an interval and an amount, which a script does not print about a run; others."""


@dataclass(slots=True)
class Row:
    """One row, in the library's units."""

    stream: str
    role: str | None
    start_s: float
    end_s: float
    size: Figure
    """Bytes."""
    rate_bps: float | None
    """None if it is printed as nan or inf."""
    figures: str
    """The text after the rate."""
    text: str
    direction: str | None = "forward"
    omitted: bool = False
    details: dict[str, Any] = field(default_factory=dict)
    """`retransmits`, `rtt` in µs and `cwnd` in bytes; others of the program."""

    @property
    def length_s(self) -> float:
        """Duration of the row in seconds."""
        return self.end_s - self.start_s

    @property
    def number(self) -> int:
        """The number of the stream; -1 is the sum of all."""
        digits = re.search(r"\d+", self.stream)
        return -1 if self.stream.startswith("SUM") else int(digits[0]) if digits else 0


def read_row(line: str) -> Row | None:
    """Read a row; None if the line is none. `Damaged` if it is cut, or contradicts itself."""
    if "sec" not in line or ("order" in line and DISORDER.search(line)):
        return None
    m, text = _ROW.search(line), line.strip()
    if m is None or m[5] is None:
        # one damaged byte breaks one or two parts of a row; the others still show that it was one
        traces = [trace.search(line) is not None for trace in _TRACES]
        if sum(traces) >= 3 and any(traces[:2]) and "PDF" not in line:
            raise Damaged(f"a row is damaged, cut short or in an unknown unit: {text!r}")
        return None
    if _TORN.search(line[: m.start()]):
        raise Damaged(f"a row is cut short before another one: {text!r}")
    stream, role, begin, finish, amount, prefix, speed, letter, unit, figures = m.groups()
    start, end = Figure.printed(begin), Figure.printed(finish)
    length = Figure(end.value - start.value, end.half + start.half)
    if length.value < 0:
        raise Damaged(f"a row ends before it starts: {text!r}")
    size = Figure.printed(amount, BYTES[prefix])
    # -f K, M, G: bytes per second, in powers of 1024 as every number of bytes
    rate = Figure.printed(speed, to_bps(1, letter, "bit") if unit == "bits" else 8 * BYTES[letter])
    bps: float | None = rate.value
    if not math.isfinite(size.value + rate.value):
        size, bps = Figure(0.0, math.inf), None
    elif length.value:
        moved = size * 8 / length
        if not moved.agrees(rate, 0):
            raise Contradictory(f"the bytes of a row contradict its rate: {text!r}")
        bps = rate.value or moved.value  # too slow for the unit that was asked for (-f)
    return Row(stream, role, start.value, end.value, size, bps, figures, text)


def columns(rows: Sequence[Row]) -> Columns:
    """Return the table of intervals; a direction's only stream is also its sum."""
    streams = {(row.direction, row.number) for row in rows}
    alone = all(number != -1 for _, number in streams)
    alone &= len(streams) == len({way for way, _ in streams})
    each = [(n, row) for row in rows for n in ((row.number, -1) if alone else (row.number,))]
    if not each:
        return {}
    return {
        "stream": [n for n, _ in each],
        "direction": [row.direction for _, row in each],
        "start_s": [row.start_s for _, row in each],
        "end_s": [row.end_s for _, row in each],
        "omitted": [row.omitted for _, row in each],
        # a rate over no time is meaningless
        "throughput_bps": [row.rate_bps if row.length_s else None for _, row in each],
        "retransmits_count": [row.details.get("retransmits") for _, row in each],
        "rtt_loaded_us": [row.details.get("rtt") if n != -1 else None for n, row in each],
        "cwnd_bytes": [row.details.get("cwnd") if n != -1 else None for n, row in each],
    }


def is_share(percent: float, lost: int, total: int) -> bool:
    """Return whether a printed loss, of two digits or to a thousandth, is that of the counts."""
    return math.isclose(percent, 100 * lost / total, rel_tol=0.06, abs_tol=1e-3)


def counter(text: str) -> int | None:
    """Read a 32-bit counter; None if it wrapped around or is negative: it was never set."""
    value = int(text)
    return value if 0 <= value < 2**31 else None
