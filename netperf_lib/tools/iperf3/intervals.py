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
        self._serving = "accepted_connection" in start
        self._reverse = bool(as_dict(start.get("test_start")).get("reverse"))
        each = [as_dict(interval) for interval in as_list(doc.get("intervals"))]
        streams = [row for one in each for row in as_list(one.get("streams"))]
        sums = [one.get(name) for one in each for name in ("sum", "sum_bidir_reverse")]
        rows = [row for row in streams if isinstance(row, dict)]
        self._of_streams, self.count = len(rows), len(each)
        rows += [row for row in sums if isinstance(row, dict)]
        self._table = {key: _column(rows, key, below) for key, below in _KEYS.items()}
        self._leave_out_contradictions()

    def __bool__(self) -> bool:
        return bool(self._table["start"])

    def _leave_out_contradictions(self) -> None:
        """Leave out rates that contradict their bytes, and those over no time."""
        table, rates = self._table, self._table["bits_per_second"]
        for i, (s, size, rate) in enumerate(
            zip(table["seconds"], table["bytes"], rates, strict=True)
        ):
            known = None not in (s, size, rate)
            if known and s >= 1e-6 and abs(size * 8 - rate * s) <= RATE_TOLERANCE * abs(rate * s):
                continue
            rates[i] = None
            if s is None or s >= 1e-6:
                self.warnings.append(
                    "intervals contradict themselves: their throughput is left out"
                )

    def columns(self) -> Columns:
        """Return the table of intervals (`ParsedRun.intervals`)."""
        if not self:
            return {}
        table, n = self._table, self._of_streams
        # before 3.6 a row does not say who sends: a test has one direction
        default = self._reverse if self._serving else not self._reverse
        sends = [default if sender is None else sender for sender in table["sender"]]
        return {
            "stream": [s if type(s) is int else 0 for s in table["socket"][:n]]
            + [-1] * (len(sends) - n),
            "direction": ["forward" if s is not self._serving else "reverse" for s in sends],
            "start_s": table["start"],
            "end_s": table["end"],
            "omitted": [omitted is True for omitted in table["omitted"]],
            "throughput_bps": table["bits_per_second"],
            "retransmits_count": table["retransmits"],
            "rtt_loaded_us": [rtt or None for rtt in table["rtt"]],
            "cwnd_bytes": table["snd_cwnd"],
        }

    def path(self, senders: list[dict[str, Any]]) -> dict[str, float]:
        """Return round trips under load and windows, as the kernel of the `senders` in ``end`` says."""
        told = [[count(s.get(f"{k}_rtt")) or 0 for k in ("mean", "min", "max")] for s in senders]
        every = self._table["socket"][: self._of_streams]
        width = len(every) // max(self.count, 1)
        sockets = [s.get("socket") for s in senders]
        if not self.count:
            return (
                _round_trips(told, [[mean] for mean, _, _ in told]) if all(map(all, told)) else {}
            )
        if every != every[:width] * self.count or not {*sockets} <= {*every}:
            self.warnings.append(
                "intervals lack streams: round-trip times and windows are left out"
            )
            return {}
        if not senders or not width:
            return {}
        columns = [
            {k: self._table[k][every.index(s) :: width][: self.count] for k in _PATH}
            for s in sockets
        ]
        largest = [count(s.get("max_snd_cwnd")) for s in senders]
        return self._rtts(told, columns) | self._windows(largest, columns)

    def _rtts(self, told: list[list[int]], columns: list[dict[str, list[Any]]]) -> dict[str, float]:
        rtts = [column["rtt"] for column in columns]
        if not any(map(any, told)) or not any(map(any, rtts)):
            return {}  # the version, the system or the protocol has none
        kept = [_counted(column, "rtt") for column in columns]
        fits = all(map(all, told)) and not any(None in column for column in rtts)
        # iperf3's own mean, minimum and maximum include the omitted seconds
        if (
            not fits
            or min(map(min, rtts)) != min(low for _, low, _ in told)
            or max(map(max, rtts)) != max(high for _, _, high in told)
            or any(
                mean not in [sum(c) // len(c) for c in (whole, part) if c]
                for (mean, _, _), whole, part in zip(told, rtts, kept, strict=True)
            )
        ):
            self.warnings.append(
                "the round-trip times of the result contradict those of the intervals and are left out"
            )
            return {}
        return _round_trips([[0, min(c), max(c)] for c in kept], kept) if all(kept) else {}

    def _windows(
        self, largest: list[int | None], columns: list[dict[str, list[Any]]]
    ) -> dict[str, float]:
        """Add up the streams' last and largest congestion windows, without the omitted seconds."""
        windows = [column["snd_cwnd"] for column in columns]
        kept = [_counted(column, "snd_cwnd") for column in columns]
        if not all(map(any, windows)) or not all(kept):
            return {}
        told = zip(largest, windows, strict=True)
        if any(None in column or most not in (None, max(column)) for most, column in told):
            self.warnings.append("the congestion windows contradict each other and are left out")
            return {}
        return {
            "cwnd_bytes": sum(column[-1] for column in kept),
            "cwnd_max_bytes": sum(map(max, kept)),
        }


_PATH = ("rtt", "snd_cwnd", "omitted")


def _counted(column: dict[str, list[Any]], key: str) -> list[Any]:
    """Return the values of the seconds that are not omitted."""
    pairs = zip(column[key], column["omitted"], strict=True)
    return [value for value, omitted in pairs if omitted is not True]


def _round_trips(extremes: list[list[int]], columns: list[list[Any]]) -> dict[str, float]:
    return {
        "rtt_loaded_us": sum(map(sum, columns)) / sum(map(len, columns)),
        "rtt_loaded_min_us": min(low for _, low, _ in extremes),
        "rtt_loaded_max_us": max(high for _, _, high in extremes),
    }
