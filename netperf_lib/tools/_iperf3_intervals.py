"""The intervals of an iperf3 document, in columns, and what they tell of the path.

A document may hold hundreds of thousands of rows: they are read column by column, with no object a row.
"""

from __future__ import annotations

import math
from typing import Any

from ..model import Columns
from ._iperf3_document import WRAPPED, as_dict, count, number

RATE_TOLERANCE = 3e-5
"""The oldest versions print six digits."""


class Intervals:
    """The rows of ``intervals``: those of the streams in the order of time, then those of the sums.

    Parameters
    ----------
    doc : dict
        The document.

    Attributes
    ----------
    warnings : list of str
        What was noticed.
    """

    def __init__(self, doc: dict[str, Any]) -> None:
        start = as_dict(doc.get("start"))
        self.warnings: list[str] = []
        self.count = 0
        self._serving = "accepted_connection" in start
        self._reverse = bool(as_dict(start.get("test_start")).get("reverse"))
        self._streams: list[dict[str, Any]] = []
        self._sums: list[dict[str, Any]] = []
        raw = doc.get("intervals")
        last: Any = None
        for interval in raw if isinstance(raw, list) else ():
            if not isinstance(interval, dict):
                continue
            if interval == last:
                self.warnings.append("an interval is printed twice; counted once")
                continue
            last = interval
            self.count += 1
            streams = interval.get("streams")
            if isinstance(streams, list):
                self._streams += streams
            for key in ("sum", "sum_bidir_reverse"):
                if isinstance(row := interval.get(key), dict):
                    self._sums.append(row)
        if {type(r) for r in self._streams} - {dict}:
            self._streams = [r for r in self._streams if isinstance(r, dict)]
        self._rows = self._streams + self._sums

    def __bool__(self) -> bool:
        return bool(self._rows)

    def _column(self, key: str) -> list[Any]:
        try:
            return [row[key] for row in self._rows]
        except KeyError:
            return [row.get(key) for row in self._rows]

    def _numbers(self, key: str) -> list[Any]:
        column = self._column(key)
        if {type(v) for v in column} <= {int, float} and all(map(math.isfinite, column)):
            return column
        return [number(v) for v in column]

    def _counters(self, key: str, below: int = WRAPPED) -> list[Any]:
        column = self._column(key)
        if {type(v) for v in column} == {int} and min(column) >= 0 and max(column) < below:
            return column
        return [v if type(v) is int and 0 <= v < below else None for v in column]

    def columns(self) -> Columns:
        """Return the table of intervals (`ParsedRun.intervals`); rates that contradict their bytes are None in it."""
        if not self._rows:
            return {}
        begins, ends, rates = self._numbers("start"), self._numbers("end"), self._rates()
        # Before 3.6 a row does not say who sends: a test has one direction.
        default = self._reverse if self._serving else not self._reverse
        senders = self._column("sender")
        if len(set(map(bool, senders))) == 1 and senders[0] is not None:
            directions = ["forward" if senders[0] is not self._serving else "reverse"] * len(senders)
        else:
            chosen = (default if s is None else s for s in senders)
            directions = ["forward" if s is not self._serving else "reverse" for s in chosen]
        return {
            "stream": [s if isinstance(s := r.get("socket"), int) else 0 for r in self._streams]
            + [-1] * len(self._sums),
            "direction": directions,
            "start_s": begins,
            "end_s": ends,
            "omitted": [o is True for o in self._column("omitted")],
            "throughput_bps": rates,
            "retransmits_count": self._counters("retransmits"),
            "rtt_loaded_us": [v or None for v in self._counters("rtt")],
            "cwnd_bytes": self._counters("snd_cwnd", WRAPPED * 8),
        }

    def _rates(self) -> list[Any]:
        rates, sizes, seconds = (self._numbers(k) for k in ("bits_per_second", "bytes", "seconds"))
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
                if s is None or b is None or r is None or s < 1e-6 or abs(b * 8 - r * s) > RATE_TOLERANCE * abs(r * s)
            ]
        if wrong:
            rates = list(rates)
        for i in wrong:
            row = self._rows[i]
            a, b = number(row.get("start")), number(row.get("end"))
            length = b - a if a is not None and b is not None else 0.0
            if seconds[i] is None or seconds[i] >= 1e-6:
                rate, size = rates[i], sizes[i]
                if (
                    None not in (rate, size)
                    and length > 0
                    and abs(size * 8 - rate * length) <= 1e-4 * abs(rate * length)
                ):
                    continue
                if len(self.warnings) < 5:
                    self.warnings.append(f"the interval at {a} s contradicts itself: its throughput is left out")
            rates[i] = None  # also over no time at all: such a rate has no meaning
        return rates

    def path(self, senders: list[dict[str, Any]], *, linux: bool) -> dict[str, float]:
        """Return what the kernel of the sender knows of the path: round-trip times under load, congestion windows.

        Parameters
        ----------
        senders : list of dict
            The records of the sending streams in ``end``: what they say must agree with the intervals.
        linux : bool
            The windows are Linux's: multiples of the size of a segment.
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
        every = [r.get("socket") for r in self._streams]
        width = len(every) // self.count if every else 0
        if not width or every != every[:width] * self.count or not set(sockets) <= set(every[:width]):
            if self._streams:
                self.warnings.append("intervals lack streams: round-trip times and congestion windows are left out")
            return found
        places = [every.index(s) for s in sockets]
        size = len(every)
        omitted = [self._column("omitted")[:size][p::width] for p in places]
        rtts = [self._column("rtt")[:size][p::width] for p in places]
        windows = [self._column("snd_cwnd")[:size][p::width] for p in places]
        self._round_trips(found, senders, rtts, omitted)
        self._windows(found, senders, windows, omitted, linux=linux)
        return found

    def _round_trips(
        self, found: dict[str, float], senders: list[dict[str, Any]], rtts: list[list[Any]], omitted: list[list[Any]]
    ) -> None:
        seen = {type(r) for column in rtts for r in column}
        said = [[count(s.get(k)) for k in ("mean_rtt", "min_rtt", "max_rtt")] for s in senders]
        if seen <= {type(None)} or not all(map(all, said)):
            return  # the version, the system or the protocol does not tell
        kept = [[r for r, o in zip(c, om, strict=True) if o is not True] for c, om in zip(rtts, omitted, strict=True)]
        fits = seen == {int} and all(
            m in (sum(c) // len(c), sum(k) // len(k) if k else None)
            for c, k, (m, _, _) in zip(rtts, kept, said, strict=True)
        )
        ends = min(s[1] or 0 for s in said), max(s[2] or 0 for s in said)
        if not fits or (min(map(min, rtts)), max(map(max, rtts))) != ends:
            self.warnings.append(
                "the round-trip times of the result contradict those of the intervals and are left out"
            )
        elif all(kept):
            # iperf3's own mean, least and largest count the omitted seconds too
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
        """Add the streams' congestion windows, the last ones and the largest ones, the omitted seconds left out."""
        seen = {type(w) for column in windows for w in column}
        if seen <= {type(None)}:
            return
        last = largest = 0
        for s, column, out in zip(senders, windows, omitted, strict=True):
            said = count(s.get("max_snd_cwnd"))
            whole = seen == {int} and min(column) >= 0 and max(column) < WRAPPED
            if whole and not max(column):
                return
            # Linux counts its window in segments, so that all are multiples of one size: 88 bytes is its smallest.
            if (
                not whole
                or (said is not None and said != max(column))
                or (linux and len(column) > 1 and math.gcd(*column) < 88)
            ):
                self.warnings.append("the congestion windows contradict each other and are left out")
                return
            counted = [w for w, o in zip(column, out, strict=True) if o is not True]
            if not counted:
                return
            last, largest = last + counted[-1], largest + max(counted)
        found["cwnd_bytes"], found["cwnd_max_bytes"] = last, largest
