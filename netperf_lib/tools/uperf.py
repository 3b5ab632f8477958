"""uperf: transactions of a profile, as its master counts them.

The rate is in decimal bits, the data next to it in binary bytes (numbers.c, `decimal_to_string`). The master counts the
bytes of all its flow-ops, written and read, so the throughput is the master's own: "sent" for profiles that stream.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby, pairwise
from statistics import fmean
from typing import NamedTuple

from ..metrics import to_bps, to_bytes
from .draft import (
    CONTRADICTION,
    Contradictory,
    Damaged,
    Draft,
    Figure,
    drafted,
    first_or_starts,
    interval_columns,
)
from .parsed import ParsedRun

NAME = "uperf"
MARKS = ("running profile:", "Txn")

_START = re.compile(
    r"^Starting \d+ (?:threads?|process\w*) running profile:(\S+) \.\.\.", re.MULTILINE
)
_ROW = re.compile(
    r"^(Txn\d+|Total)[ \t]+(0|\d+\.\d\d)([KMGT]?)B?[ \t]*/[ \t]*(\d+\.\d\d)\(s\) = +"
    r"(0|\d+\.\d\d)([KMGT]?)(?:b/s)?(?:[ \t]+(\d+)op/s(?!\S)|(?=[ \t]*\n))",
    re.MULTILINE,
)
_ANY_ROW = re.compile(r"^(?:Txn\d+|Total)[ \t]+[\d.].*", re.MULTILINE)
_TABLE = re.compile(r"^(?:Txn|Flowop)[ \t]+Count[ \t]+avg.*\n(?:[^\n]+\n)*", re.MULTILINE)
"""The output of ``-a``: times of each transaction, no rates."""
_MASTER = re.compile(
    r"^master[ \t]+(\d+\.\d\d)s[ \t]+(\d+\.\d\d)([KMGT]?)B?[ \t]+(\d+\.\d\d)([KMGT]?)b/s[ \t]+(\d+)[ \t]",
    re.MULTILINE,
)
_RAW = re.compile(
    r"^timestamp_ms:(\d+\.\d+) name:(\w+) nr_bytes:(\d+) nr_ops:(\d+)[ \t]*$", re.MULTILINE
)


def sightings(text: str) -> Iterator[int]:
    """Yield the offsets of lines that name the profile; without one, that of the first row."""
    rows = (p.search(text) for p in (_ROW, _RAW))
    return first_or_starts(
        (m.start() for m in _START.finditer(text)), *(m and m.start() for m in rows)
    )


def read(text: str) -> list[ParsedRun]:
    """Read one run, as text or as raw rows (``-R``)."""
    profile = _START.search(text)
    return [drafted(Draft(NAME, test=profile[1] if profile else None), _fill, _TABLE.sub("", text))]


class _Moved(NamedTuple):
    """Data that a transaction moved, its duration and its operations."""

    size: Figure
    seconds: Figure
    bps: Figure
    operations: Figure

    @classmethod
    def printed(
        cls, size: str, prefix: str, seconds: str, rate: str, rate_prefix: str, operations: Figure
    ) -> _Moved:
        """Convert printed figures; raises `Damaged` if they contradict each other."""
        of = Figure.printed
        amount, bps = (
            of(size, to_bytes(1, f"{prefix}i" if prefix else "")),
            of(rate, to_bps(1, rate_prefix, "bit")),
        )
        moved = cls(amount, of(seconds), bps, operations)
        if moved.size.value and not (moved.size * 8 / moved.seconds).agrees(
            moved.bps, relative=1e-4
        ):
            raise Contradictory(
                f"{CONTRADICTION}{size}{prefix} in {seconds} s, {rate} {rate_prefix}b/s"
            )
        return moved

    def metrics(self) -> dict[str, float | None]:
        """Return the metrics of the moved data; `Damaged` if they took no time."""
        if not self.seconds.value:
            raise Damaged(f"{self.size.value:.0f} bytes in 0 s: the log is damaged")
        return {
            "throughput_sent_bps": self.bps.value,
            "sent_bytes": round(self.size.value),
            "transaction_rate_per_s": self.operations.value / self.seconds.value or None,
            "duration_measured_s": self.seconds.value,
        }


def _fill(run: Draft, text: str) -> None:
    readable = {m.group() for m in _ROW.finditer(text)}
    for other in _ANY_ROW.findall(text):
        if not any(other.startswith(w) for w in readable):
            raise Damaged(f"not readable: {other.strip()!r}")
    moved: dict[str, _Moved] = {}
    for name, size, prefix, seconds, rate, rate_prefix, each in _ROW.findall(text):
        operations = Figure.printed(each or "0") * Figure.printed(seconds)
        moved[name] = _Moved.printed(size, prefix, seconds, rate, rate_prefix, operations)
    total = moved.pop("Total", None)
    if [*moved] != [f"Txn{i}" for i in range(1, len(moved) + 1)]:
        raise Contradictory(f"{CONTRADICTION}rows of transactions are missing")
    statistics = None
    if m := _MASTER.search(text):
        statistics = _Moved.printed(m[2], m[3], m[1], m[4], m[5], Figure(float(m[6])))
    of_all = _Moved(*(Figure.sum([row[i] for row in moved.values()]) for i in range(4)))
    for what, other in (
        ("transactions", of_all if moved else None),
        ("run statistics", statistics),
    ):
        for i in (0, 3):  # data and operations
            if (
                total
                and other
                and total[i].value
                and other[i].value
                and not total[i].agrees(other[i], 0.005)
            ):
                raise Contradictory(f"{CONTRADICTION}the total is not that of the {what}")
    if run.test is None or not re.search("stream|write", run.test):
        run.warnings.append("written and read bytes may be counted together")
    # the transaction that moves the data; the total if several do
    best = max(
        (m for m in (*moved.values(), total) if m), key=lambda row: row.size.value, default=None
    )
    if best and best.size.value:
        run.metrics = best.metrics()
        run.warnings += [] if total else ["the line Total is missing: the log may be cut"]
        return
    raw = [
        _Sample(float(t) / 1000, name, int(size), int(n)) for t, name, size, n in _RAW.findall(text)
    ]
    if not raw:
        complaint = re.search(r"(?i)^.*(?:error|cannot|failed|refused).*", text, re.MULTILINE)
        raise Damaged(
            complaint[0].strip() if complaint else "no row of figures: the log ends before it"
        )
    _raw_rows(run, raw, statistics)


class _Sample(NamedTuple):
    """A raw row: the counts of a transaction at a time."""

    time_s: float
    name: str
    size: int
    operations: int


def _raw_rows(run: Draft, raw: list[_Sample], statistics: _Moved | None) -> None:
    transactions = [list(group) for _, group in groupby(raw, key=lambda r: r.name)]
    names = [name for name, _ in groupby(raw, key=lambda r: r.name) if name.startswith("Txn")]
    if names != [f"Txn{i}" for i in range(1, len(names) + 1)]:
        raise Contradictory(
            f"{CONTRADICTION}the rows of a transaction are among those of another one"
        )
    pairs = [pair for rows in transactions for pair in pairwise(rows)]
    if any(b.time_s < a.time_s or b.size < a.size or b.operations < a.operations for a, b in pairs):
        raise Damaged("the rows count down: the log is damaged")
    main = max(transactions, key=lambda rows: rows[-1].size)
    first, last = main[0], main[-1]
    if statistics and not statistics.size.agrees(
        Figure(last.size), 0.01
    ):  # the rows are an excerpt
        run.metrics = statistics.metrics() | {"transaction_rate_per_s": None}
        run.warnings.append("rows are missing: the figures are those of the run statistics")
        return
    seconds = last.time_s - first.time_s
    if not seconds or not last.size:
        raise Damaged("no transaction moved data")
    spans = [(a, b) for a, b in pairwise(main) if b.time_s > a.time_s]
    run.intervals = interval_columns(
        [round(a.time_s - first.time_s, 6) for a, _ in spans],
        [round(b.time_s - first.time_s, 6) for _, b in spans],
        throughput_bps=[(b.size - a.size) * 8 / (b.time_s - a.time_s) for a, b in spans],
    )
    if main is transactions[-1]:
        raise Damaged("the log ends inside a transaction", "partial")
    run.metrics = {
        "throughput_sent_bps": (last.size - first.size) * 8 / seconds,
        "sent_bytes": last.size - first.size,
        "transaction_rate_per_s": (last.operations - first.operations) / seconds,
        "duration_measured_s": seconds,
    }
    gaps = [b.time_s - a.time_s for a, b in spans]
    if max(gaps) > 2 * fmean(gaps) + 0.1:
        run.warnings.append(f"rows are missing: one gap is {max(gaps):.1f} s long")
