"""The intervals of an iperf3 document as columns, and the path metrics from them.

A document may have hundreds of thousands of rows: they are read column by column, without an object per row.
"""

from __future__ import annotations

import math
from operator import attrgetter
from typing import Any

import msgspec

from ..parsed import Columns
from .document import WRAPPED, as_dict, as_list, count, number

RATE_TOLERANCE = 3e-5
"""The oldest versions print only six digits."""


_BATCH = 256
_KEYS: dict[str, int | None] = {
    "socket": 0,
    "start": None,
    "end": None,
    "seconds": None,
    "bytes": None,
    "bits_per_second": None,
    "omitted": 0,
    "sender": 0,
    "retransmits": WRAPPED,
    "rtt": WRAPPED,
    "snd_cwnd": WRAPPED * 8,
}
"""The keys read from a row: finite numbers (None), counters below a limit, or anything (0)."""
_VALUES = attrgetter(*_KEYS)


class Row(msgspec.Struct, gc=False):
    """A row of a large document: cheaper to create than a dict, and read in half the time."""

    start: float
    end: float
    seconds: float
    bytes: int
    bits_per_second: float
    socket: int | None = None
    omitted: bool = False
    sender: bool | None = None
    retransmits: int | None = None
    rtt: int | None = None
    snd_cwnd: int | None = None


class Interval(msgspec.Struct, gc=False):
    """An interval of a large document."""

    streams: list[Row]
    sum: Row
    sum_bidir_reverse: Row | None = None


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    start: dict[str, Any]
    intervals: list[Interval]
    end: dict[str, Any]
    error: Any = None
    title: Any = None
    extra_data: Any = None
    server_output_text: Any = None


_DOCUMENT = msgspec.json.Decoder(_Document)


def decode_large(data: bytes) -> dict[str, Any] | None:
    """Decode a document of the usual form, with its intervals as `Interval`; None for any other form."""
    try:
        doc = _DOCUMENT.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    found = {"start": doc.start, "intervals": doc.intervals, "end": doc.end, "error": doc.error}
    return {k: v for k, v in found.items() if v is not None}


def _counted(column: list[Any], omitted: list[Any]) -> list[Any]:
    """Return the values of the seconds that are not omitted."""
    return [v for v, out in zip(column, omitted, strict=True) if out is not True] if True in omitted else column


def _finite(column: list[Any]) -> bool:
    try:
        total: float = sum(column)
        return math.isfinite(total)
    except (TypeError, OverflowError):
        return False


def _within(column: list[Any], below: int) -> bool:
    try:
        return bool(min(column) >= 0 and max(column) < below)
    except TypeError:
        return column.count(None) == len(column)


class Intervals:
    """The rows of ``intervals``: those of the streams in time order, then those of the sums."""

    def __init__(self, doc: dict[str, Any]) -> None:
        start = as_dict(doc.get("start"))
        self.warnings: list[str] = []
        self.count = 0
        self._serving = "accepted_connection" in start
        self._reverse = bool(as_dict(start.get("test_start")).get("reverse"))
        self._streams: list[Any] = []
        self._sums: list[Any] = []
        raw = doc.get("intervals")
        last: Any = None
        for interval in raw if isinstance(raw, list) else ():
            if interval == last:
                self.warnings.append("an interval is printed twice; counted once")
                continue
            last = interval
            if type(interval) is Interval:
                self._streams += interval.streams
                self._sums.append(interval.sum)
                if interval.sum_bidir_reverse is not None:
                    self._sums.append(interval.sum_bidir_reverse)
            elif isinstance(interval, dict):
                self._streams += [r for r in as_list(interval.get("streams")) if isinstance(r, dict)]
                self._sums += [r for k in ("sum", "sum_bidir_reverse") if isinstance(r := interval.get(k), dict)]
            else:
                continue
            self.count += 1
        self._table: dict[str, list[Any]] = {}
        for rows in (self._streams, self._sums):
            for first in range(0, len(rows), _BATCH):
                self._take(rows[first : first + _BATCH])

    def __bool__(self) -> bool:
        return bool(self._table)

    def _take(self, rows: list[Any]) -> None:
        """Add some rows, few enough to stay in the processor's cache while their columns are read one by one."""
        typed = type(rows[0]) is Row
        if typed:
            parts = dict(zip(_KEYS, map(list, zip(*map(_VALUES, rows), strict=True)), strict=True))
        else:
            parts = {key: [row.get(key) for row in rows] for key in _KEYS}
        for key, below in _KEYS.items():
            part = parts[key]
            if below is None:
                if not (typed and _finite(part)):
                    part = [number(v) for v in part]
            elif below and not (typed and _within(part, below)):
                part = [v if type(v) is int and 0 <= v < below else None for v in part]
            self._table.setdefault(key, []).extend(part)
            if key == "bits_per_second":
                self._check(len(self._table[key]) - len(rows))

    def _check(self, first: int) -> None:
        """Remove rates of the last rows that contradict their bytes."""
        rates, sizes, seconds = (self._table[k][first:] for k in ("bits_per_second", "bytes", "seconds"))
        try:
            wrong = [
                i
                for i, (s, b, r) in enumerate(zip(seconds, sizes, rates, strict=True))
                if s < 1e-6 or abs(b * 8 - r * s) > RATE_TOLERANCE * r * s
            ]
        except TypeError:
            wrong = [
                i
                for i, (s, b, r) in enumerate(zip(seconds, sizes, rates, strict=True))
                if None in (s, b, r) or s < 1e-6 or abs(b * 8 - r * s) > RATE_TOLERANCE * abs(r * s)
            ]
        for i in wrong:
            a, b = self._table["start"][first + i], self._table["end"][first + i]
            length = b - a if a is not None and b is not None else 0.0
            if seconds[i] is None or seconds[i] >= 1e-6:
                rate, size = rates[i], sizes[i]
                if None not in (rate, size) and abs(size * 8 - rate * length) <= 1e-4 * abs(rate * length):
                    continue
                if len(self.warnings) < 5:
                    self.warnings.append(f"the interval at {a} s contradicts itself: its throughput is left out")
            self._table["bits_per_second"][first + i] = None  # also over no time, where a rate is meaningless

    def columns(self) -> Columns:
        """Return the table of intervals (`ParsedRun.intervals`); rates that contradict their bytes are None."""
        table = self._table
        if not table:
            return {}
        # Before 3.6 a row does not say who sends: a test has one direction.
        default = self._reverse if self._serving else not self._reverse
        senders = table["sender"]
        if senders.count(True) == len(senders) or senders.count(False) == len(senders):
            directions = ["forward" if senders[0] is not self._serving else "reverse"] * len(senders)
        else:
            chosen = (default if s is None else s for s in senders)
            directions = ["forward" if s is not self._serving else "reverse" for s in chosen]
        omitted = table["omitted"]
        none = omitted.count(False) == len(omitted)
        return {
            "stream": [s if type(s) is int else 0 for s in table["socket"][: len(self._streams)]]
            + [-1] * len(self._sums),
            "direction": directions,
            "start_s": table["start"],
            "end_s": table["end"],
            "omitted": omitted if none else [o is True for o in omitted],
            "throughput_bps": table["bits_per_second"],
            "retransmits_count": table["retransmits"],
            "rtt_loaded_us": table["rtt"] if 0 not in table["rtt"] else [v or None for v in table["rtt"]],
            "cwnd_bytes": table["snd_cwnd"],
        }

    def path(self, senders: list[dict[str, Any]], *, linux: bool) -> dict[str, float]:
        """Return the path metrics of the sender's kernel: round-trip times under load, congestion windows.

        The `senders` in ``end`` must agree with the intervals; windows of `linux` are multiples of a segment.
        """
        sockets = [s.get("socket") for s in senders]
        found: dict[str, float] = {}
        if not self.count:
            means, lows, highs = ([count(s.get(k)) for s in senders] for k in ("mean_rtt", "min_rtt", "max_rtt"))
            if senders and all(means) and all(lows) and all(highs):
                found["rtt_loaded_us"] = sum(m for m in means if m) / len(means)
                found["rtt_loaded_min_us"] = min(x for x in lows if x)
                found["rtt_loaded_max_us"] = max(x for x in highs if x)
            return found
        if not senders:
            return found
        every = self._table.get("socket", [])[: len(self._streams)]
        width = len(every) // self.count
        if not width or every != every[:width] * self.count or not set(sockets) <= set(every[:width]):
            if self._streams:
                self.warnings.append("intervals lack streams: round-trip times and congestion windows are left out")
            return found
        places = [every.index(s) for s in sockets]
        omitted, rtts, windows = (
            [self._table[key][p : len(every) : width] for p in places] for key in ("omitted", "rtt", "snd_cwnd")
        )
        self._round_trips(found, senders, rtts, omitted)
        self._windows(found, senders, windows, omitted, linux=linux)
        return found

    def _round_trips(
        self, found: dict[str, float], senders: list[dict[str, Any]], rtts: list[list[Any]], omitted: list[list[Any]]
    ) -> None:
        said = [[count(s.get(k)) for k in ("mean_rtt", "min_rtt", "max_rtt")] for s in senders]
        known = not any(None in column for column in rtts)
        if (not known and all(c.count(None) == len(c) for c in rtts)) or not all(map(all, said)):
            if any(None in s and any(s) for s in said):
                self.warnings.append("a line of the round-trip times is missing: they are left out")
            return  # the version, the system or the protocol has none
        kept = list(map(_counted, rtts, omitted))
        fits = known and all(
            m in (sum(c) // len(c), sum(k) // len(k) if k else None)
            for c, k, (m, _, _) in zip(rtts, kept, said, strict=True)
        )
        ends = min(s[1] or 0 for s in said), max(s[2] or 0 for s in said)
        if not fits or (min(map(min, rtts)), max(map(max, rtts))) != ends:
            self.warnings.append(
                "the round-trip times of the result contradict those of the intervals and are left out"
            )
        elif all(kept):
            # iperf3's own mean, minimum and maximum include the omitted seconds
            found["rtt_loaded_us"] = sum(map(sum, kept)) / sum(map(len, kept))
            found["rtt_loaded_min_us"], found["rtt_loaded_max_us"] = min(map(min, kept)), max(map(max, kept))

    def _windows(
        self,
        found: dict[str, float],
        senders: list[dict[str, Any]],
        windows: list[list[Any]],
        omitted: list[list[Any]],
        *,
        linux: bool,
    ) -> None:
        """Add up the streams' last and largest congestion windows, without the omitted seconds."""
        if all(column.count(None) == len(column) for column in windows):
            return
        last = largest = 0
        for s, column, out in zip(senders, windows, omitted, strict=True):
            said = count(s.get("max_snd_cwnd"))
            whole = None not in column
            if whole and not max(column):
                return
            # Linux counts its window in segments, so all are multiples of one size, which is at least 88 bytes.
            if (
                not whole
                or (said is not None and said != max(column))
                or (linux and len(column) > 1 and math.gcd(*column) < 88)
            ):
                self.warnings.append("the congestion windows contradict each other and are left out")
                return
            counted = _counted(column, out)
            if not counted:
                return
            last, largest = last + counted[-1], largest + max(counted)
        found["cwnd_bytes"], found["cwnd_max_bytes"] = last, largest
