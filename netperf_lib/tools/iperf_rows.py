"""The rows of iperf 2 and iperf3: ``[  5]   0.00-1.00   sec  1.02 GBytes  8.80 Gbits/sec …``.

Both count bytes in powers of 1024 and bits in powers of 1000, and cut numbers to three digits. A
row gives its throughput twice, as a rate and as bytes over time. If the two differ by more than the
rounding, the row is damaged.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, pairwise
from operator import attrgetter
from typing import Any

from .parsed import Columns, ParsedRun
from .shared import (
    Contradictory,
    Damaged,
    Figure,
    add_path,
    added,
    half_unit,
    rate_fits,
)

_NUMBER = r"-?nan|-?inf|\d+(?:\.\d+)?"
_ROW = (
    rf"\[(?: *\*?(?P<name>[^\]\[\n]{{1,40}}?) *\](?:\[(?P<role>[TR]X-[CS])\])? *"
    rf"(?P<start>\d+\.\d+) *- *(?P<finish>\d+\.\d+) +sec"
    rf" +(?P<size>{_NUMBER}) +(?P<prefix>[KMGT]?)Bytes +(?P<rate>{_NUMBER})"
    r" +(?P<per>[KMGT]?(?:bits|Bytes))/sec(?:DETAILS) *$"
    # what begins like a row
    r"|[^\]\[\n]{1,40}\](?:\[.X-.\])? *\d+\.\d* *-(?!.*(?:PDF|out-of-order)).*)"
)
_DISORDER = re.compile(
    r"\[\s*\*?([^\]]+?)\s*\] .*?sec\s+(\d+) datagrams received out-of-order"
)
"""A line of its own: the stream, and its datagrams out of order."""
CONNECTION = re.compile(
    r"\[\s*\*?([^\]\n]{1,20}?)\s*\] local ([^\s%]+)\S* port (\d+) "
    r"connected (?:to|with) ([^\s%]+)\S* port (\d+)"
)
"""The stream, and address and port of this end and of the other."""
BYTES = {prefix: 1024**power for power, prefix in enumerate(["", *"KMGT"])}
"""Bytes by the letter before "Bytes"."""
_RATES = {f"{prefix}bits": 1000**power for power, prefix in enumerate(BYTES)} | {
    # -f K, M, G
    f"{prefix}Bytes": 8 * size
    for prefix, size in BYTES.items()
}
LOSS = (
    r" +(?P<jitter>\d+(?:\.\d+)?) ms +(?P<lost>-?\d+)/ *(?P<total>-?\d+) +"
    r"\((?P<percent>-?\d+(?:\.\d+)?(?:e[-+]?\d+)?|-?nan|-?inf)%\)"
)
"""Jitter, lost datagrams, all datagrams, and the share, as both programs print them.

More received than sent is printed as a loss of 2^64 - n and a negative share.
"""


@dataclass(slots=True)
class Row:
    """One row, in the library's units."""

    match: re.Match[str]
    """The row as printed, by the names of its parts."""
    name: str
    """The stream as printed."""
    stream: int
    """Its number; -1 is the sum of all."""
    start_s: float
    end_s: float
    length_s: float
    size_bytes: float
    half_bytes: float
    """Half a unit of the last digit of the bytes."""
    rate_bps: float | None
    """None if it is printed as nan or inf."""
    retransmits_count: float | None
    rtt_loaded_us: int | None
    cwnd_bytes: float | None
    direction: str | None = "forward"
    omitted: bool = False

    @property
    def text(self) -> str:
        """The row as printed."""
        return self.match[0].rstrip()

    @property
    def size(self) -> Figure:
        """The bytes, as a figure with its rounding."""
        return Figure(self.size_bytes, self.half_bytes)

    @property
    def throughput_bps(self) -> float | None:
        """The rate; None over no time, where it is meaningless."""
        return self.rate_bps if self.length_s else None


def row_pattern(details: str) -> re.Pattern[str]:
    """Return the pattern of the rows of a program, which prints `details` after the rate.

    A blank is one or a tab; no row reaches into the next line. `details` name loss (`LOSS`),
    ``retransmits``, ``cwnd`` and its ``unit``, and ``rtt``; a group that a program never prints is
    empty.
    """
    pattern = _ROW.replace("DETAILS", details).replace(" ", "[ \t]")
    return re.compile(pattern, re.MULTILINE)


def read_rows(
    text: str, pattern: re.Pattern[str]
) -> tuple[list[Row], str, Damaged | None]:
    """Return the rows of a text, all else, and the first damage.

    A row is damaged if it is cut, or contradicts itself.
    """
    rows: list[Row] = []
    others: list[str] = []
    damage, last = None, 0
    for m in pattern.finditer(text):
        try:
            rows.append(_row(m))
        except Damaged as error:
            damage = damage or error
            continue
        others.append(text[last : m.start()])
        last = m.end() + 1
    others.append(text[last:])
    return rows, "".join(others), damage


_PARTS = "name start finish size prefix rate per retransmits cwnd unit rtt".split()


def _row(m: re.Match[str]) -> Row:
    name, begin, finish, amount, prefix, speed, per, *path = m.group(*_PARTS)
    if name is None:
        text = m[0].rstrip()
        raise Damaged(f"a row is damaged, cut short or of an unknown form: {text!r}")
    start, end = float(begin), float(finish)
    length = end - start
    scale, rate_unit = BYTES[prefix], _RATES[per]
    size, half = float(amount) * scale, half_unit(amount) * scale
    rate = float(speed) * rate_unit
    rate_bps: float | None = rate
    if not math.isfinite(size + rate):
        size, half, rate_bps = 0.0, math.inf, None
    # most rows fit without their rounding, which takes longer to compute
    elif length < 0 or abs(8 * size - rate * length) > 1e-3 * rate * length:
        rounding = half_unit(begin) + half_unit(finish)
        if not _fits(amount, scale, speed, rate_unit, length, rounding):
            text = m[0].rstrip()
            raise Contradictory(f"the bytes of a row contradict its rate: {text!r}")
        if length and not rate:
            rate_bps = 8 * size / length  # too slow for the unit of -f
    resent, cwnd, unit, rtt = path
    window = max(float(cwnd or 0) * BYTES[unit or ""], 0) or None
    trip = int(rtt or 0) or None
    stream, resent = _stream(name), counter(resent)
    return Row(
        m, name, stream, start, end, length, size, half, rate_bps, resent, trip, window
    )


@lru_cache(1 << 14)
def _fits(
    amount: str, scale: int, speed: str, unit: int, length: float, half: float
) -> bool:
    """Return whether printed bytes within seconds can be a printed rate."""
    size, rate = Figure.printed(amount, scale), Figure.printed(speed, unit)
    return length >= 0 and rate_fits(size, Figure(length, half), rate)


@lru_cache
def _stream(name: str) -> int:
    if name.startswith("SUM"):
        return -1
    return int(re.sub(r"\D", "", name) or 0)


def connections(text: str) -> dict[str, tuple[str, ...]]:
    """Return the connection of each stream; `Contradictory` if two share one, or one has two."""
    found: dict[str, tuple[str, ...]] = {}
    for name, *ends in CONNECTION.findall(text):
        pair = tuple(ends)
        if found.get(name) != pair and (name in found or pair in found.values()):
            raise Contradictory(
                f"lines of two processes: two connections of stream {name}"
            )
        found[name] = pair
    return found


_COLUMNS = (
    "stream direction start_s end_s omitted throughput_bps retransmits_count rtt_loaded_us "
    "cwnd_bytes"
).split()


def columns(rows: Sequence[Row]) -> Columns:
    """Return the table of intervals; a direction's only stream is also its sum."""
    if not rows:
        return {}
    table: dict[str, list[Any]] = {}
    for name in _COLUMNS:
        table[name] = list(map(attrgetter(name), rows))
    streams = {*zip(table["direction"], table["stream"], strict=True)}
    if -1 in table["stream"] or len(streams) > len({*table["direction"]}):
        return table
    unknown: list[Any] = [None] * len(rows)
    sums = {"rtt_loaded_us": unknown, "cwnd_bytes": unknown, "stream": [-1] * len(rows)}
    for name, cells in table.items():
        pairs = zip(cells, sums.get(name, cells), strict=True)
        table[name] = list(chain.from_iterable(pairs))
    return table


def counter(text: str | None) -> int | None:
    """Read a 32-bit counter; None if it wrapped around or is negative: it was never set."""
    value = int(text or -1)
    return value if 0 <= value < 2**31 else None


def split_sum(rows: Iterable[Row]) -> tuple[Row | None, list[Row]]:
    """Return the row [SUM], None without one, and those of the streams."""
    total, streams = None, []
    for row in rows:
        if row.stream != -1:
            streams.append(row)
        elif total is None:
            total = row
    return total, streams


def total_of(run: ParsedRun, rows: Sequence[Row]) -> Row | None:
    """Return the row of all streams: their [SUM], or what they add up to; None without rows."""
    total, streams = split_sum(rows)
    if not streams:
        return total
    rates, resent, lengths = [], [], []
    size = half = 0.0
    for row in streams:
        rates.append(row.rate_bps)
        resent.append(row.retransmits_count)
        lengths.append(row.length_s)
        size += row.size_bytes
        half += row.half_bytes
    # iperf 2.2 sometimes counts the last write of a stream a second late, in its sum only
    if total and not total.size.agrees(Figure(size, half), 1e-3):
        raise Contradictory(f"the row [SUM] contradicts its streams: {total.text!r}")
    if total or len(streams) == 1:
        return total or streams[0]
    length = max(lengths)
    if length - min(lengths) > 1:
        raise Damaged("the row of the sum of the result is missing")
    run.warnings.append("there is no row [SUM] of the result; the streams are added")
    rate: float | None = 8 * size / length
    # rates over different times do not add up
    if length < 1.01 * min(lengths):
        rate = added(rates)
    return replace(
        streams[0],
        length_s=length,
        size_bytes=size,
        half_bytes=half,
        rate_bps=rate,
        retransmits_count=added(resent),
    )


def take_rate(run: ParsedRun, row: Row | None, rate: str, size: str) -> None:
    """Take throughput and bytes of a result."""
    if row and row.rate_bps is None:
        run.warnings.append(f"a result is no number, and is left out: {row.text!r}")
    elif row and row.rate_bps:
        run.metrics |= {rate: row.rate_bps, size: row.size_bytes}


def complete_streams(
    rows: Sequence[Row], results: Mapping[str, Row], lost: int
) -> list[list[Row]] | None:
    """Return the intervals of each stream of one direction; None if some are missing.

    `results` are the rows of the result by stream; bytes of `lost` intervals may be missing.
    """
    series: dict[tuple[bool, str], list[Row]] = {}
    for row in rows:
        series.setdefault((row.omitted, row.name), []).append(row)
    shown = {row.name for row in rows if row.stream != -1}
    ended = {name for name, row in results.items() if row.stream != -1}
    if ended and shown - ended:
        raise Damaged("the result is not of all streams of the test: rows are missing")
    complete = shown >= ended
    streams = []
    for (omitted, name), steps in series.items():
        result = None if omitted or shown < ended else results.get(name)
        missing_s = _check_steps(steps, result, lost)
        if not omitted and steps[0].stream != -1:
            streams.append(steps)
            complete &= steps[0].start_s == 0 and missing_s <= 0.5 * steps[0].length_s
    return streams if complete else None


def _check_steps(steps: Sequence[Row], total: Row | None, lost: int) -> float:
    """Return the seconds of a stream's result that its intervals lack; refuse gaps."""
    for a, b in pairwise(steps):
        if abs(b.start_s - a.end_s) > 0.011:
            raise Damaged(f"an interval is missing or there twice: before {b.text!r}")
    if total is None:
        return 0
    last = steps[-1].end_s
    missing = total.end_s - last
    sizes, rates, longest = [], [total.rate_bps], 0.0
    for row in steps:
        sizes.append(row.size_bytes)
        rates.append(row.rate_bps)
        longest = max(longest, row.length_s)
    if missing > 1.005 * longest:
        raise Damaged(
            f"intervals are missing, or the test stalled: they end at {last:g} s, "
            f"and the test after {total.end_s:g} s"
        )
    more = total.size_bytes - sum(sizes)
    allowed = 0.05 * total.size_bytes + total.half_bytes
    # bytes of intervals can be lost; a result never has fewer than they have
    if more > 0 and longest:
        # of one or two intervals none is lost, but the one that the test ended in
        unfinished = max(missing, 0) / longest
        allowed += max(sizes) * (lost if len(steps) > lost else min(lost, unfinished))
    whole = steps[0].start_s == 0 and None not in rates
    if missing < -0.01 - 0.02 * total.end_s or (whole and abs(more) > allowed):
        raise Contradictory(f"the result contradicts its intervals: {total.text!r}")
    return missing


def take_path(
    run: ParsedRun, rows: Sequence[Row], streams: Sequence[Sequence[Row]] | None
) -> None:
    """Take round trips and congestion windows from the intervals, if all are there."""
    if streams is None:
        if any(row.cwnd_bytes for row in rows):
            run.warnings.append(
                "without cwnd_bytes: congestion windows are missing from the intervals"
            )
        return
    rtts: list[int] = []
    windows: list[list[float]] = []
    for steps in streams:
        windows.append([])
        for row in steps:
            if row.rtt_loaded_us:
                rtts.append(row.rtt_loaded_us)
            if row.cwnd_bytes:
                windows[-1].append(row.cwnd_bytes)
    add_path(run.metrics, rtts, windows)


def _datagrams(rows: Sequence[Row]) -> tuple[float | None, float | None]:
    """Return how many are lost, and how many there are; None where a counter was never set."""
    lost = added(counter(row.match["lost"]) for row in rows)
    return lost, added(counter(row.match["total"]) for row in rows)


def _check_share(row: Row, sent: int) -> None:
    """Refuse a share of datagrams that is not that of the counts, or of what was `sent`."""
    words = row.match
    lost, share = float(words["lost"] or 0), float(words["percent"] or 0)
    counts = {int(words["total"] or 0), sent} - {0}
    for count in counts:
        if math.isclose(share, 100 * lost / count, rel_tol=0.06, abs_tol=1e-3):
            return
    if counts:
        raise Contradictory(f"the loss contradicts itself: {row.text!r}")


def take_loss(
    run: ParsedRun, text: str, told: Sequence[Row], word: str = "", sent: int = 0
) -> None:
    """Take loss and jitter of the receiver from the row [SUM], or from those of its streams."""
    total, streams = split_sum(told)
    rows = [total] if total else streams
    for row in (*rows, *streams):
        if row.match["jitter"] is None:
            raise Damaged(
                f"a row has no loss: the log is cut short or damaged: {row.text!r}"
            )
    lost, count = _datagrams(rows)
    if not count:
        return
    if sent and count > sent:
        raise Damaged(f"{count} datagrams received, and {sent} sent")
    for row in (*rows, *streams):
        # of several streams --bidir of iperf3 prints the share of what was sent
        _check_share(row, sent if row is total else 0)
    if streams and _datagrams(streams) != (lost, count):
        raise Contradictory("the datagrams contradict those of the streams")
    jitter = sum(1e3 * float(row.match["jitter"] or 0) for row in rows) / len(rows)
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
    disorder = dict(_DISORDER.findall(text))
    if not word and disorder:
        counts = map(int, disorder.values())
        run.metrics["out_of_order_count"] = int(disorder.get("SUM", sum(counts)))
