"""The rows of iperf 2 and iperf3: ``[  5]   0.00-1.00   sec  1.02 GBytes  8.80 Gbits/sec …``.

Both count bytes in powers of 1024 and bits in powers of 1000, and cut numbers to three digits. A
row gives its throughput twice, as a rate and as bytes over time. If the two differ by more than the
rounding, the row is damaged.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, pairwise
from operator import attrgetter
from typing import Any

from .parsed import Columns, ParsedRun
from .shared import Contradictory, Damaged, Figure, add_path, added, rate_fits

_FIGURE = r"(-?nan|-?inf|\d+(?:\.\d+)?)"
_ROW = re.compile(
    r"\[\s*\*?([^\]\[\n]{1,40}?)\s*\](?:\[([TR]X-[CS])\])?\s*(\d+\.\d+)\s*-\s*(\d+\.\d+)\s+sec\s+"
    rf"{_FIGURE}\s+([KMGT]?)Bytes\s+{_FIGURE}\s+([KMGT]?(?:bits|Bytes))/sec(.*)"
)
_BROKEN = re.compile(
    r"\[[^\]\[\n]{1,40}\]\s*\d+\.\d*\s*-\s*[\d.]*(?!.*(?:PDF|out-of-order))"
)
"""The start of a row."""
_DISORDER = re.compile(
    r"\[\s*\*?([^\]]+?)\s*\] .*?sec\s+(\d+) datagrams received out-of-order"
)
"""A line of its own: the stream, and its datagrams out of order."""
BYTES = {prefix: 1024**power for power, prefix in enumerate(["", *"KMGT"])}
"""Bytes by the letter before "Bytes"."""
_RATES = {f"{prefix}bits": 1000**power for power, prefix in enumerate(BYTES)} | {
    # -f K, M, G
    f"{prefix}Bytes": 8 * size
    for prefix, size in BYTES.items()
}
LOSS = (
    r"\s+(?P<jitter>\d+(?:\.\d+)?) ms\s+(?P<lost>-?\d+)/\s*(?P<total>-?\d+)\s+"
    r"\((?P<percent>-?\d+(?:\.\d+)?(?:e[-+]?\d+)?|-?nan|-?inf)%\)"
)
"""Jitter, lost datagrams, all datagrams, and the share, as both programs print them.

More received than sent is printed as a loss of 2^64 - n and a negative share.
"""


@dataclass(slots=True)
class Row:
    """One row, in the library's units."""

    name: str
    """The stream as printed."""
    stream: int
    """Its number; -1 is the sum of all."""
    role: str | None
    start_s: float
    end_s: float
    length_s: float
    size: Figure
    """Bytes."""
    rate_bps: float | None
    """None if it is printed as nan or inf."""
    figures: str
    """The text after the rate."""
    text: str
    direction: str | None = "forward"
    omitted: bool = False
    retransmits_count: int | None = None
    rtt_loaded_us: int | None = None
    cwnd_bytes: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    """What the program prints after the rate."""

    @property
    def throughput_bps(self) -> float | None:
        """The rate; None over no time, where it is meaningless."""
        return self.rate_bps if self.length_s else None


def read_row(line: str) -> Row | None:
    """Read a row; None if the line is none. `Damaged` if it is cut, or contradicts itself."""
    m, text = _ROW.search(line), line.strip()
    if m is None:
        if _BROKEN.search(line):
            raise Damaged(f"a row is damaged, cut short or in an unknown unit: {text!r}")
        return None
    name, role, begin, finish, amount, prefix, speed, unit, figures = m.groups()
    start, end = Figure.printed(begin), Figure.printed(finish)
    length = end.value - start.value
    size, bps = _transfer(amount, prefix, speed, unit, length, end.half + start.half)
    if size is None:
        raise Contradictory(f"the bytes of a row contradict its rate: {text!r}")
    return Row(
        name,
        _number(name),
        role,
        start.value,
        end.value,
        length,
        size,
        bps,
        figures,
        text,
    )


@lru_cache(1 << 14)
def _number(name: str) -> int:
    return (
        -1 if name.startswith("SUM") else int("".join(filter(str.isdecimal, name)) or 0)
    )


@lru_cache(1 << 14)
def _transfer(
    amount: str, prefix: str, speed: str, unit: str, seconds: float, half: float
) -> tuple[Figure | None, float | None]:
    """Return bytes and bit/s of a row; no bytes if they contradict each other."""
    size = Figure.printed(amount, BYTES[prefix])
    rate = Figure.printed(speed, _RATES[unit])
    if not math.isfinite(size.value + rate.value):
        return Figure(0.0, math.inf), None
    if seconds < 0 or not rate_fits(size, Figure(seconds, half), rate):
        return None, None
    if seconds and not rate.value:
        return size, 8 * size.value / seconds  # too slow for the unit of -f
    return size, rate.value


def read_rows(text: str, take: Callable[[Row, str], None]) -> Damaged | None:
    """Have `take` look at each row and the line above it; return the first damage."""
    damage, above = None, ""
    for line in text.split("\n"):
        try:
            if row := read_row(line):
                take(row, above)
        except Damaged as error:
            damage = damage or error
        if "[ ID]" not in line:
            above = line
    return damage


_COLUMNS = (
    "stream direction start_s end_s omitted throughput_bps retransmits_count rtt_loaded_us "
    "cwnd_bytes"
).split()


def columns(rows: Sequence[Row]) -> Columns:
    """Return the table of intervals; a direction's only stream is also its sum."""
    if not rows:
        return {}
    streams = {(row.direction, row.stream) for row in rows}
    values = zip(*map(attrgetter(*_COLUMNS), rows), strict=True)
    table: dict[str, list[Any]] = dict(zip(_COLUMNS, map(list, values), strict=True))
    if -1 in table["stream"] or len(streams) > len({way for way, _ in streams}):
        return table
    nothing = [None] * len(rows)
    sums = table | {
        "stream": [-1] * len(rows),
        "rtt_loaded_us": nothing,
        "cwnd_bytes": nothing,
    }
    return {
        name: [*chain.from_iterable(zip(table[name], sums[name], strict=True))]
        for name in table
    }


def counter(text: str | None) -> int | None:
    """Read a 32-bit counter; None if it wrapped around or is negative: it was never set."""
    value = int(text or -1)
    return value if 0 <= value < 2**31 else None


def check_sum(total: Row, streams: Iterable[Row], slack: float = 0.0) -> None:
    """Refuse a row [SUM] that is not the sum of its streams."""
    sizes = [row.size for row in streams]
    both = Figure(sum(s.value for s in sizes), sum(s.half for s in sizes))
    if sizes and not total.size.agrees(both, slack):
        raise Contradictory(f"the row [SUM] contradicts its streams: {total.text!r}")


def check_intervals(
    steps: Sequence[Row], total: Row | None, late: float, lost: int
) -> None:
    """Refuse intervals of a stream with a gap, and those that the result does not continue.

    The last interval may be missing for `late` times its length, and the bytes of `lost` intervals.
    """
    for a, b in pairwise(steps):
        if abs(b.start_s - a.end_s) > 0.011:
            raise Damaged(f"an interval is missing from the log: before {b.text!r}")
    if not steps or total is None:
        return
    last, sizes = steps[-1].end_s, [row.size.value for row in steps]
    if total.end_s - last > late * max(row.length_s for row in steps):
        raise Damaged(
            f"intervals are missing, or the test stalled: they end at {last:g} s, "
            f"and the test after {total.end_s:g} s"
        )
    more = total.size.value - sum(sizes)
    # bytes of intervals can be lost; a result never has fewer than they have
    lost_intervals: float = lost if more > 0 else 0
    if len(steps) <= lost:
        # of one or two intervals none is lost, but the one that the test ended in
        longest = max(row.length_s for row in steps)
        lost_intervals = min(lost_intervals, max(total.end_s - last, 0) / longest)
    lost_bytes = lost_intervals * max(sizes)
    apart = abs(more) - total.size.half
    whole = steps[0].start_s == 0 and all(
        math.isfinite(r.size.half) for r in (*steps, total)
    )
    if total.end_s < last - 0.01 - 0.02 * total.end_s or (
        whole and apart > 0.05 * total.size.value + lost_bytes
    ):
        raise Contradictory(f"the result contradicts its intervals: {total.text!r}")


def take_path(run: ParsedRun, streams: Sequence[Sequence[Row]]) -> None:
    """Take round trips and congestion windows of all streams from their intervals."""
    rtts = [row.rtt_loaded_us for rows in streams for row in rows if row.rtt_loaded_us]
    windows = [[row.cwnd_bytes for row in rows if row.cwnd_bytes] for rows in streams]
    add_path(run.metrics, rtts, windows)


def take_loss(
    run: ParsedRun,
    text: str,
    streams: Sequence[Row],
    total: Row | None,
    word: str = "",
    sent: int = 0,
) -> None:
    """Take loss and jitter of the receiver from the rows of its streams, or from their sum."""
    rows = [total] if total else streams
    every = [*rows, *streams]
    if short := [row.text for row in every if "jitter" not in row.details]:
        raise Damaged(f"a row has no loss: the log is cut short or damaged: {short[0]!r}")
    counts = [
        added(counter(row.details[key]) for row in part)
        for part in (rows, streams)
        for key in ("lost", "total")
    ]
    lost, count = counts[:2]
    if not count:
        return
    if sent and count > sent:
        raise Damaged(f"{count} datagrams received, and {sent} sent")
    for row in every:
        percent, of, gone = (
            float(row.details[key]) for key in ("percent", "total", "lost")
        )
        # of several streams --bidir of iperf3 prints the share of what was sent
        shares = [100 * gone / n for n in (of, sent if row is total else 0) if n]
        if shares and not any(
            math.isclose(percent, s, rel_tol=0.06, abs_tol=1e-3) for s in shares
        ):
            raise Contradictory(f"the loss contradicts itself: {row.text!r}")
    if streams and counts[2:] != [lost, count]:
        raise Contradictory("the datagrams contradict those of the streams")
    jitter = sum(1e3 * float(row.details["jitter"]) for row in rows) / len(rows)
    if (lost or 0) > count or jitter > 1e6 * rows[0].length_s:
        raise Contradictory(
            f"{lost} of {count} lost, jitter of {jitter:g} us: impossible"
        )
    run.metrics |= {
        f"packets{word}_count": count,
        f"lost{word}_count": lost,
        f"lost{word}_ratio": None if lost is None else lost / count,
        f"jitter{word}_us": jitter,
    }
    disorder = {name: int(number) for name, number in _DISORDER.findall(text)}
    if not word and disorder:
        run.metrics["out_of_order_count"] = disorder.get("SUM", sum(disorder.values()))
