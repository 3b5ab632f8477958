"""The intervals of an iperf3 document as columns, and the path metrics from them."""

from __future__ import annotations

from typing import Any

from ..parsed import Columns
from .document import WRAPPED, as_dict, as_list, count, number

RATE_TOLERANCE = 3e-5
"""The oldest versions print only six digits."""


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
    "snd_cwnd": WRAPPED,
}
"""The keys read from a row: finite numbers (None), counters below a limit, or anything (0)."""


def _counted(column: list[Any], omitted: list[Any]) -> list[Any]:
    """Return the values of the seconds that are not omitted."""
    return (
        [v for v, out in zip(column, omitted, strict=True) if out is not True]
        if True in omitted
        else column
    )


def _column(rows: list[dict[str, Any]], key: str, below: int | None) -> list[Any]:
    """Return a column of the table; what is no finite number or no counter below a limit is None."""
    column = [row.get(key) for row in rows]
    if below is None:
        return [number(v) for v in column]
    return [v if type(v) is int and 0 <= v < below else None for v in column] if below else column


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
        for interval in map(as_dict, as_list(doc.get("intervals"))):
            self._streams += [r for r in as_list(interval.get("streams")) if isinstance(r, dict)]
            sums = (interval.get(k) for k in ("sum", "sum_bidir_reverse"))
            self._sums += [r for r in sums if isinstance(r, dict)]
            self.count += 1
        rows = self._streams + self._sums
        self._table = (
            {key: _column(rows, key, below) for key, below in _KEYS.items()} if rows else {}
        )
        if rows:
            self._check()

    def __bool__(self) -> bool:
        return bool(self._table)

    def _check(self) -> None:
        """Remove rates that contradict their bytes."""
        table = self._table
        rates = table["bits_per_second"]
        for i, (s, b, r) in enumerate(zip(table["seconds"], table["bytes"], rates, strict=True)):
            if (
                None not in (s, b, r)
                and s >= 1e-6
                and abs(b * 8 - r * s) <= RATE_TOLERANCE * abs(r * s)
            ):
                continue
            start, end = table["start"][i], table["end"][i]
            length = end - start if start is not None and end is not None else 0.0
            if s is None or s >= 1e-6:
                if None not in (r, b) and abs(b * 8 - r * length) <= 1e-4 * abs(r * length):
                    continue
                self.warnings.append(
                    "intervals contradict themselves: their throughput is left out"
                )
            rates[i] = None  # also over no time, where a rate is meaningless

    def columns(self) -> Columns:
        """Return the table of intervals (`ParsedRun.intervals`); rates that contradict their bytes are None."""
        table = self._table
        if not table:
            return {}
        # Before 3.6 a row does not say who sends: a test has one direction.
        default = self._reverse if self._serving else not self._reverse
        sends = (default if s is None else s for s in table["sender"])
        return {
            "stream": [s if type(s) is int else 0 for s in table["socket"][: len(self._streams)]]
            + [-1] * len(self._sums),
            "direction": ["forward" if s is not self._serving else "reverse" for s in sends],
            "start_s": table["start"],
            "end_s": table["end"],
            "omitted": [o is True for o in table["omitted"]],
            "throughput_bps": table["bits_per_second"],
            "retransmits_count": table["retransmits"],
            "rtt_loaded_us": [v or None for v in table["rtt"]],
            "cwnd_bytes": table["snd_cwnd"],
        }

    def path(self, senders: list[dict[str, Any]]) -> dict[str, float]:
        """Return the path metrics of the kernel of the `senders` in ``end``: round trips under load, windows."""
        if not self.count:
            means, lows, highs = (
                [count(s.get(k)) or 0 for s in senders] for k in ("mean_rtt", "min_rtt", "max_rtt")
            )
            if not senders or not all((*means, *lows, *highs)):
                return {}
            return _round_trips(sum(means) / len(means), min(lows), max(highs))
        if not senders:
            return {}
        sockets = [s.get("socket") for s in senders]
        every = self._table.get("socket", [])[: len(self._streams)]
        width = len(every) // self.count
        if (
            not width
            or every != every[:width] * self.count
            or not set(sockets) <= set(every[:width])
        ):
            if self._streams:
                self.warnings.append(
                    "intervals lack streams: round-trip times and congestion windows are left out"
                )
            return {}
        omitted, rtts, windows = (
            [self._table[key][every.index(s) : len(every) : width] for s in sockets]
            for key in ("omitted", "rtt", "snd_cwnd")
        )
        return self._rtts(senders, rtts, omitted) | self._windows(senders, windows, omitted)

    def _rtts(
        self, senders: list[dict[str, Any]], rtts: list[list[Any]], omitted: list[list[Any]]
    ) -> dict[str, float]:
        results: list[list[Any]] = [
            [count(s.get(k)) for k in ("mean_rtt", "min_rtt", "max_rtt")] for s in senders
        ]
        complete = not any(None in column for column in rtts)
        if (not complete and all(c.count(None) == len(c) for c in rtts)) or not all(
            map(all, results)
        ):
            if any(None in s and any(s) for s in results):
                self.warnings.append("a line of the round-trip times is missing: they are left out")
            return {}  # the version, the system or the protocol has none
        counted = list(map(_counted, rtts, omitted))
        fits = complete and all(
            m in (sum(c) // len(c), sum(k) // len(k) if k else None)
            for c, k, (m, _, _) in zip(rtts, counted, results, strict=True)
        )
        extremes = min(s[1] for s in results), max(s[2] for s in results)
        if not fits or (min(map(min, rtts)), max(map(max, rtts))) != extremes:
            self.warnings.append(
                "the round-trip times of the result contradict those of the intervals and are left out"
            )
            return {}
        if not all(counted):
            return {}
        # iperf3's own mean, minimum and maximum include the omitted seconds
        mean = sum(map(sum, counted)) / sum(map(len, counted))
        return _round_trips(mean, min(map(min, counted)), max(map(max, counted)))

    def _windows(
        self, senders: list[dict[str, Any]], windows: list[list[Any]], omitted: list[list[Any]]
    ) -> dict[str, float]:
        """Add up the streams' last and largest congestion windows, without the omitted seconds."""
        if all(column.count(None) == len(column) for column in windows):
            return {}
        last = largest = 0
        for s, column, out in zip(senders, windows, omitted, strict=True):
            complete = None not in column
            if complete and not max(column):
                return {}
            if not complete or count(s.get("max_snd_cwnd")) not in (None, max(column)):
                self.warnings.append(
                    "the congestion windows contradict each other and are left out"
                )
                return {}
            counted = _counted(column, out)
            if not counted:
                return {}
            last, largest = last + counted[-1], largest + max(counted)
        return {"cwnd_bytes": last, "cwnd_max_bytes": largest}


def _round_trips(mean: float, low: float, high: float) -> dict[str, float]:
    return {"rtt_loaded_us": mean, "rtt_loaded_min_us": low, "rtt_loaded_max_us": high}
