"""iperf 2's CSV (``-y C``): a row an interval and a stream, the last one over the whole test; the sum has the id -1.

The columns are timestamp, this end's address and port, the other end's, id, interval, bytes, bits per second; for UDP,
where it is received, also jitter, lost, datagrams, percent lost and out of order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ..parsed import Columns, ParsedRun

NAME = "iperf2"

_LINE = re.compile(
    r"^(?P<time>\d{14}(?:\.\d{3})?(?:[-+]\d{4})?),(?P<local>[^,\n]*),(?P<local_port>\d+),(?P<remote>[^,\n]*),"
    r"(?P<remote_port>\d+),(?P<id>-?\d+),(?P<start>\d+\.\d+)-(?P<end>\d+\.\d+),(?P<rest>[^\n]*)$",
    re.MULTILINE,
)
_FIGURES = re.compile(
    r"(?P<bytes>-?\d+),(?P<bps>-?\d+)"
    r"(?:,(?P<jitter>-?\d+\.\d+),(?P<lost>-?\d+),(?P<packets>-?\d+),(?P<percent>-?\d+\.\d+),(?P<disorder>-?\d+))?\s*$"
)


def sightings(text: str) -> Iterator[int]:
    """Offsets where a run starts: a stream that has its result, or another port, is of another run."""
    ports: dict[str, tuple[str, str]] = {}
    own: dict[str, tuple[str, ...]] = {}
    finished: set[str] = set()
    shared: set[tuple[str, str]] = set()
    previous = ""
    begun = False
    for m in _LINE.finditer(text):
        key = (m["local_port"], m["remote_port"])
        if begun and _reports(m, own):
            finished.add(m["id"])
            continue
        other = m["id"] in finished or (m["id"] != "-1" and ports.get(m["id"], key) != key)
        other |= bool(finished) and m["id"] != "-1" and m["id"] not in ports
        ends = {(m["local"], m["local_port"]), (m["remote"], m["remote_port"])}
        other |= not (ends & shared)  # the streams of a run have one end in common
        other |= m[0] == previous  # a run is not printed twice: the next one was as fast, to the byte
        previous = m[0]
        if other or not begun:
            ports, own, finished, begun, shared = {}, {}, set(), True, ends
            yield m.start()
        if m["id"] in ports and float(m["start"]) == 0:
            finished.add(m["id"])
        ports[m["id"]] = key
        own[m["id"]] = _ends(m)


def _ends(m: re.Match[str]) -> tuple[str, ...]:
    return m["local"], m["local_port"], m["remote"], m["remote_port"]


def _reports(m: re.Match[str], own: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether a row of a client is what its server reports: it has the ends of an `own` row the other way round.

    One of its id and its ends may be damaged.
    """
    if m["rest"].count(",") < 2:
        return False
    alike = {k: sum(a == b for a, b in zip(_ends(m), ends[2:] + ends[:2], strict=True)) for k, ends in own.items()}
    return alike.get(m["id"], 0) >= 3 or 4 in alike.values()


@dataclass(frozen=True, slots=True)
class _Row:
    start: float
    end: float
    size: int
    bps: int
    index: int
    udp: re.Match[str] | None = None


@dataclass
class _Found:
    streams: dict[int, list[_Row]] = field(default_factory=dict)
    reports: list[_Row] = field(default_factory=list)
    """What the server of UDP reports to its client, a row a stream."""
    damage: str | None = None
    wrong: dict[int, str] = field(default_factory=dict)
    """Rows of which the bytes contradict the rate: iperf 2.0.5 with -P prints such results of single streams."""


def read_csv(text: str) -> list[ParsedRun]:
    """Read one run."""
    found = _Found()
    own: dict[str, tuple[str, ...]] = {}
    time = ""
    for index, line in enumerate(text.split("\n")):
        m = _LINE.match(line)
        f = _FIGURES.match(m["rest"]) if m else None
        if m is None or f is None:
            if line.count(",") >= 5:
                found.damage = found.damage or f"a row is damaged or cut short: {line.strip()!r}"
            continue
        time = time or m["time"]
        start, end, size, bps = float(m["start"]), float(m["end"]), int(f["bytes"]), int(f["bps"])
        # times are cut to 0.1 s; over so short a time they check nothing
        slack = 0.15 / (end - start) if end > start else 1.0
        if end < start or size < 0 or bps < 0:
            found.damage = found.damage or f"a row is damaged: {line.strip()!r}"
            continue
        if slack < 0.5 and abs(size * 8 - bps * (end - start)) > slack * max(size * 8, 8):
            found.wrong[index] = line.strip()
        made = _Row(start, end, size, bps, index, f if f["packets"] is not None else None)
        if _reports(m, own):
            found.reports.append(made)
        else:
            own[m["id"]] = _ends(m)
            found.streams.setdefault(int(m["id"]), []).append(made)
    return [_run(found, time)]


def _run(found: _Found, time: str) -> ParsedRun:
    metrics: dict[str, float] = {}
    warnings: list[str] = []
    error = found.damage
    streams = {k: v for k, v in found.streams.items() if k != -1}
    over = bool(found.reports)  # a lone row over the first second may be an interval
    totals = [
        v[-1] for v in streams.values() if v[-1].start == v[0].start == 0 and (len(v) > 1 or v[0].end != 1 or over)
    ]
    udp = bool(found.reports) or any(r.udp is not None for v in streams.values() for r in v)
    # a client of 2.1 prints the columns of a receiver, too: it knows none of them and says -1 datagrams
    sending = bool(found.reports) or any(t.udp is not None and int(t.udp["packets"]) < 0 for t in totals)
    if error is None and len(totals) < len(streams):
        error = "the test has no result: the log ends before the row over the whole test"
    if error is None and not totals:
        error = "no stream has a row"
    total: _Row | None = None
    if error is None:
        summed = found.streams.get(-1, [])
        total = (
            totals[0] if len(totals) == 1 else summed[-1] if summed and summed[-1].start == totals[0].start else None
        )
        if total is None or (len(totals) > 1 and total.end < max(t.end for t in totals) - 0.2):
            error = "the row of the sum over the whole test is missing"
        elif sum(t.size for t in totals) != total.size:
            error = "the bytes of the sum contradict those of its streams"
        elif total.index in found.wrong:
            error = f"the bytes of a row contradict its rate: {found.wrong[total.index]!r}"
        elif bad := next((r for r in found.reports if r.index in found.wrong), None):
            error = f"the bytes of a row contradict its rate: {found.wrong[bad.index]!r}"
        elif (wrong := _wrong(streams, totals)) is not None:
            error = wrong
    if error is None and total is not None:
        # The rows do not say which end they are from; only a receiver of UDP prints loss.
        received = udp and not sending
        rate, size = ("throughput_bps", "transferred_bytes") if received else ("throughput_sent_bps", "sent_bytes")
        if not udp:
            warnings.append(
                "the rows do not say whether they are the sender's; the throughput is taken as the sender's"
            )
        metrics = {rate: total.bps, size: total.size, "duration_measured_s": total.end - total.start}
        if received:
            error = _datagrams(metrics, totals)
        elif found.reports and len(found.reports) == len(totals):
            error = _datagrams(metrics, found.reports)
            metrics["throughput_bps"] = sum(r.bps for r in found.reports)
            metrics["transferred_bytes"] = sum(r.size for r in found.reports)
        elif udp:
            warnings.append("what arrived is not told: the server's report is missing, or it is in the server's log")
    warnings += [f"the bytes of a row contradict its rate: {line!r}" for line in found.wrong.values()]
    rows = sorted((r.index, k, r) for k, v in found.streams.items() for r in v if error is not None or r not in totals)
    kept = [(k, r) for _, k, r in rows if error is not None or r is not total]
    parameters: dict[str, str | int] = {"protocol": "udp" if udp else "tcp", "streams": len(streams)}
    if time and not time.startswith("1970"):
        parameters["started_local"] = f"{time[:4]}-{time[4:6]}-{time[6:8]}T{time[8:10]}:{time[10:12]}:{time[12:14]}"
    return ParsedRun(
        tool=NAME,
        test="udp" if udp else "tcp",
        status="ok" if error is None else "partial",
        error=error,
        warnings=tuple(warnings),
        metrics=metrics if error is None else {},
        parameters=parameters,
        intervals=_columns(kept, set(found.wrong), single=-1 not in found.streams),
    )


def _wrong(streams: dict[int, list[_Row]], totals: list[_Row]) -> str | None:
    for rows, total in zip(streams.values(), totals, strict=True):
        each = sum(r.size for r in rows[:-1])
        if len(rows) > 1 and abs(each - total.size) > 0.05 * total.size + max(r.size for r in rows[:-1]):
            return "the bytes of the intervals contradict those of the test"
    return None


def _datagrams(metrics: dict[str, float], totals: list[_Row]) -> str | None:
    matches = [t.udp for t in totals if t.udp is not None]
    lost, packets, disorder = (sum(int(m[k]) for m in matches) for k in ("lost", "packets", "disorder"))
    for m in matches:
        count = int(m["packets"])
        if count and abs(100 * int(m["lost"]) / count - float(m["percent"])) > 0.001:
            return "the loss contradicts itself"
    if packets > 0 and 0 <= lost <= packets:
        metrics |= {"packets_count": packets, "lost_count": lost, "lost_ratio": lost / packets}
        metrics |= {"jitter_us": 1e3 * sum(float(m["jitter"]) for m in matches) / len(matches)}
        metrics |= {"out_of_order_count": disorder}
    return None


def _columns(rows: list[tuple[int, _Row]], wrong: set[int], *, single: bool) -> Columns:
    if not rows:
        return {}
    every = [x for k, r in rows for x in ((k, r), (-1, r))] if single else rows
    none = [None] * len(every)
    return {
        "stream": [k for k, _ in every],
        "direction": ["forward"] * len(every),
        "start_s": [r.start for _, r in every],
        "end_s": [r.end for _, r in every],
        "omitted": [False] * len(every),
        "throughput_bps": [r.bps if r.end > r.start and r.index not in wrong else None for _, r in every],
        "retransmits_count": none,
        "rtt_loaded_us": none,
        "cwnd_bytes": none,
    }
