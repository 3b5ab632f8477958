"""uperf: transactions of a profile, as its master counts them.

The rate is in decimal bits, the data beside it in binary bytes (numbers.c, `decimal_to_string`). The master counts the
bytes of all its flow-ops, written and read alike, so the throughput is its own: "sent" for profiles that stream.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby, pairwise

from ..metrics import to_bps, to_bytes
from .parsed import Columns, ParsedRun

NAME = "uperf"
MARKS = ("running profile:", "name:Txn", "Txn1 ", "Txn2 ")

_START = re.compile(r"^Starting \d+ (?:threads?|process\w*) running profile:(\S+) \.\.\.", re.MULTILINE)
_ROW = re.compile(
    r"^(Txn\d+|Total)[ \t]+(0|\d+\.\d\d)([KMGTPE]?)B?[ \t]*/[ \t]*(\d+\.\d\d)\(s\) = +"
    r"(0|\d+\.\d\d)([KMGTPE]?)(?:b/s)?(?:[ \t]+(\d+)op/s)?(?=\s)",
    re.MULTILINE,
)
_ANY_ROW = re.compile(r"^(?:Txn\d+|Total)[ \t]+[\d.].*", re.MULTILINE)
_TABLE = re.compile(r"^(?:Txn|Flowop)[ \t]+Count[ \t]+avg.*\n(?:[^\n]+\n)*", re.MULTILINE)
"""What ``-a`` adds: times of each transaction, no rates."""
_MASTER = re.compile(
    r"^master[ \t]+(\d+\.\d\d)s[ \t]+(\d+\.\d\d)([KMGTPE]?)B?[ \t]+(\d+\.\d\d)([KMGTPE]?)b/s[ \t]+(\d+)[ \t]",
    re.MULTILINE,
)
_RAW = re.compile(r"^timestamp_ms:(\d+\.\d+) name:(\w+) nr_bytes:(\d+) nr_ops:(\d+)[ \t]*$", re.MULTILINE)


def sightings(text: str) -> Iterator[int]:
    """Offsets of the line that names the profile; without it, of the first row."""
    starts = [m.start() for m in _START.finditer(text)]
    rows = [m.start() for pattern in (_ROW, _RAW) if (m := pattern.search(text))]
    if rows and not any(s < min(rows) for s in starts):
        starts.append(min(rows))
    return iter(sorted(starts))


def read(text: str) -> list[ParsedRun]:
    """Read one run, in the format for people or in raw rows (``-R``)."""
    text = _TABLE.sub("", text)
    profile = _START.search(text)
    test = profile[1] if profile else None

    def result(**what: object) -> list[ParsedRun]:
        return [ParsedRun(tool=NAME, test=test, **what)]  # type: ignore[arg-type]

    def damaged(what: str) -> list[ParsedRun]:
        return result(status="failed", error=f"the figures contradict each other, the log is damaged: {what}")

    rows = _ROW.findall(text)
    whole = {m.group() for m in _ROW.finditer(text)}
    for other in _ANY_ROW.findall(text):
        if not any(other.startswith(w) for w in whole):
            return result(status="failed", error=f"not readable: {other.strip()!r}")
    moved: dict[str, tuple[float, float, float, float | None]] = {}
    for name, size, prefix, seconds, rate, rate_prefix, operations in rows:
        amount = float(to_bytes(float(size), prefix + "i" if prefix else ""))
        bps = to_bps(float(rate), rate_prefix, "bit")
        time = float(seconds)
        if amount and time and abs(amount * 8 / time - bps) > bps * (0.0001 + 0.006 / time + 0.006 / float(size)):
            return damaged(f"{size}{prefix} in {seconds} s, {rate} {rate_prefix}b/s")
        moved[name] = amount, time, bps, float(operations) if operations else None
    transactions_of = [n for n in moved if n != "Total"]
    if transactions_of != [f"Txn{i}" for i in range(1, len(transactions_of) + 1)]:
        return damaged("rows of transactions are missing")
    whole_bytes = moved["Total"][0] if "Total" in moved else 0.0
    if whole_bytes and abs(sum(moved[n][0] for n in transactions_of) - whole_bytes) > 0.006 * whole_bytes:
        return damaged("the transactions do not add up to the total")
    operations = [o * t for n, (_, t, _, o) in moved.items() if n != "Total" and o]
    if moved.get("Total", (0, 0, 0, None))[3] and operations:
        _, time, _, operations_s = moved["Total"]
        if abs(sum(operations) - (operations_s or 0) * time) > 0.01 * sum(operations) + time + sum(
            t for _, t, _, _ in moved.values()
        ):
            return damaged("the operations of the transactions do not add up to the total")
    told = _master(text)
    if told and "Total" in moved:
        amount, time, _, operations_s = moved["Total"]
        for what, one, other in (("bytes", amount, told[0]), ("operations", (operations_s or 0) * time, told[3])):
            if one and abs(one - other) > 0.01 * one + time:
                return damaged(f"the {what} of the total are not those of the run statistics")
    # the transaction that moves the data; all, where several do
    best = max(moved.values(), key=lambda row: row[0], default=None)
    warnings = () if test and re.search("stream|write", test) else ("written and read bytes may be counted together",)
    if best and best[0]:
        amount, time, bps, operations_s = best
        metrics = {"throughput_sent_bps": bps, "sent_bytes": round(amount), "duration_measured_s": time}
        if operations_s:
            metrics["transaction_rate_per_s"] = operations_s
        return result(status="ok", metrics=metrics, warnings=warnings)

    raw = [(float(t) / 1000, name, int(size), int(n)) for t, name, size, n in _RAW.findall(text)]
    if not raw:
        said = re.search(r"(?i)^.*(?:error|cannot|failed|refused).*", text, re.MULTILINE)
        return result(status="failed", error=said[0].strip() if said else "no row of figures: the log ends before it")
    transactions = [list(group) for _, group in groupby(raw, key=lambda r: r[1])]
    names = [group[0][1] for group in transactions if group[0][1].startswith("Txn")]
    if names != [f"Txn{i}" for i in range(1, len(names) + 1)]:
        return damaged("the rows of a transaction stand among those of another one")
    for rows_of in transactions:
        if any(b[0] < a[0] or b[2] < a[2] or b[3] < a[3] for a, b in pairwise(rows_of)):
            return result(status="failed", error="the rows count down: the log is damaged")
    main = max(transactions, key=lambda r: r[-1][2])
    if told and abs(main[-1][2] - told[0]) > 0.01 * told[0]:  # the rows are an excerpt
        amount, time, bps, _ = told
        metrics = {"throughput_sent_bps": bps, "sent_bytes": round(amount), "duration_measured_s": time}
        warnings = (*warnings, "rows are missing: the figures are those of the run statistics")
        return result(status="ok", metrics=metrics, warnings=warnings)
    seconds_all = main[-1][0] - main[0][0]
    if seconds_all <= 0 or main[-1][2] == 0:
        return result(status="failed", error="no transaction moved data")
    intervals = _intervals(main)
    gap = max(b[0] - a[0] for a, b in pairwise(main))
    if main is transactions[-1]:
        error = "the log ends inside a transaction"
        return result(status="partial", error=error, intervals=intervals)
    metrics = {
        "throughput_sent_bps": (main[-1][2] - main[0][2]) * 8 / seconds_all,
        "sent_bytes": main[-1][2] - main[0][2],
        "transaction_rate_per_s": (main[-1][3] - main[0][3]) / seconds_all,
        "duration_measured_s": round(seconds_all, 6),
    }
    if len(main) > 2 and gap > 2 * seconds_all / (len(main) - 1) + 0.1:
        warnings = (*warnings, f"rows are missing: one gap is {gap:.1f} s long")
    return result(status="ok", metrics=metrics, intervals=intervals, warnings=warnings)


def _master(text: str) -> tuple[float, float, float, float] | None:
    """Bytes, seconds, bits per second and operations as the run statistics give them; None where they contradict."""
    m = _MASTER.search(text)
    if not m:
        return None
    seconds, amount, bps = (
        float(m[1]),
        to_bytes(float(m[2]), m[3] + "i" if m[3] else ""),
        to_bps(float(m[4]), m[5], "bit"),
    )
    fits = (
        seconds and abs(amount * 8 / seconds - bps) <= bps * (0.0001 + 0.006 / seconds + 0.006 / float(m[2] or 1)) + 1e4
    )
    return (amount, seconds, bps, float(m[6])) if fits and amount else None


def _intervals(rows: list[tuple[float, str, int, int]]) -> Columns:
    spans = [(a, b) for a, b in pairwise(rows) if b[0] > a[0]]
    start = rows[0][0]
    return {
        "stream": [-1] * len(spans),
        "direction": ["forward"] * len(spans),
        "start_s": [round(a[0] - start, 6) for a, _ in spans],
        "end_s": [round(b[0] - start, 6) for _, b in spans],
        "omitted": [False] * len(spans),
        "throughput_bps": [(b[2] - a[2]) * 8 / (b[0] - a[0]) for a, b in spans],
        "retransmits_count": [None] * len(spans),
        "rtt_loaded_us": [None] * len(spans),
        "cwnd_bytes": [None] * len(spans),
    }
