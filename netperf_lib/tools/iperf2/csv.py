"""iperf 2's CSV (``-y C``): one row per interval and stream, the last one over the whole test; the sum has the id -1.

The columns are timestamp, this end's address and port, the other end's, id, interval, bytes, bits per second; at the
receiver of UDP also jitter, lost, datagrams, percent lost and out of order. Each row is converted to the equivalent
text row, which is then read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from operator import eq

from ..draft import Damaged, Draft, or_above
from ..iperf_rows import row
from ..parsed import ParsedRun
from .text import NAME, Log, Program, read_log, take

_LINE = re.compile(
    r"^(?P<time>\d{14}(?:\.\d{3})?(?:[-+]\d{4})?),(?P<local>[^,\n]*),(?P<local_port>\d+),(?P<remote>[^,\n]*),"
    r"(?P<remote_port>\d+),(?P<id>-?\d+),(?P<start>\d+\.\d+)-(?P<end>\d+\.\d+),(?P<figures>[^\n]*)$",
    re.MULTILINE,
)
_FIGURES = re.compile(
    r"(?P<bytes>-?\d+),(?P<bps>-?\d+)"
    r"(?:,(?P<jitter>-?\d+\.\d+),(?P<lost>-?\d+),(?P<packets>-?\d+),(?P<percent>-?\d+\.\d+|-?nan),(?P<disorder>-?\d+))?\s*$"
)

_CUT = re.compile(r"\d{14},")


def sightings(text: str) -> Iterator[int]:
    """Yield the offsets where a run starts; a stream that has its result already, or another port, begins a run."""
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
        other = m["id"] in finished or ports.get(m["id"], key) != key
        other |= bool(finished) and m["id"] != "-1" and m["id"] not in ports
        ends = {(m["local"], m["local_port"]), (m["remote"], m["remote_port"])}
        other |= not (ends & shared)  # the streams of a run have one end in common
        other |= m[0] == previous  # a run is not printed twice: another run had the same figures
        previous = m[0]
        if other or not begun:
            yield m.start() if begun else or_above(text, m.start(), _CUT)
            ports, own, finished, begun, shared = {}, {}, set(), True, ends
        if m["id"] in ports and float(m["start"]) == 0:
            finished.add(m["id"])
        ports[m["id"]] = key
        own[m["id"]] = _ends(m)


def _ends(m: re.Match[str]) -> tuple[str, ...]:
    return m["local"], m["local_port"], m["remote"], m["remote_port"]


def _reports(m: re.Match[str], own: Mapping[str, tuple[str, ...]]) -> bool:
    """Return whether a client's row is its server's report: its ends are those of an `own` row, swapped.

    Either the id or one of the ends may be damaged. Only a receiver prints a figure with a point.
    """
    alike = {k: sum(map(eq, _ends(m), ends[2:] + ends[:2])) for k, ends in own.items()}
    return "." in m["figures"] and (alike.get(m["id"], 0) >= 3 or 4 in alike.values())


def read_csv(text: str) -> list[ParsedRun]:
    """Read one run."""
    log = Log(Draft(NAME), Program(end_known=True), csv=True)
    own: dict[str, tuple[str, ...]] = {}
    several = len({m["id"] for m in _LINE.finditer(text)}) > 1
    # a client of 2.1 also prints the columns of a receiver: it knows none of them, and its last row has -1 datagrams
    sending = re.search(r"^\d{14}[^\n]*,-1,-?\d+\.\d+,-?\d+\s*$", text, re.MULTILINE) is not None
    for index, line in enumerate(text.split("\n")):
        m = _LINE.match(line)
        f = _FIGURES.match(m["figures"]) if m else None
        if m is None or f is None:
            if line.count(",") >= 5:
                log.damaged(f"a row is damaged or cut short: {line.strip()!r}")
            continue
        report = _reports(m, own)
        name = m["id"]
        if not report:
            own[name] = _ends(m)
        elif name not in own:
            name = next(iter(own))
        size, bps, length = int(f["bytes"]), int(f["bps"]), float(m["end"]) - float(m["start"])
        exact = size * 8 / length if length else bps
        if several and name != "-1" and abs(exact - bps) > 0.15 * exact:
            log.draft.warnings.append(f"the bytes of a row contradict its rate: {line.strip()!r}")
            bps = round(exact)  # iperf 2.0.5 with -P prints such results of single streams
        loss = ""
        if f["packets"] is not None:
            log.udp = True
            sending |= report
            if report or not sending:
                loss = f"  {f['jitter']} ms {f['lost']}/ {f['packets']} ({f['percent']}%)"
                log.disorder[name] = int(f["disorder"])
        written = f"[{'SUM' if name == '-1' else name}] {m['start']}-{m['end']} sec {size} Bytes {bps} bits/sec{loss}"
        try:
            if entry := row(written, index):
                take(log, entry, {name} if report else set())
        except Damaged as e:
            log.damaged(e)
            continue
        time = m["time"]
        if not time.startswith("1970"):
            started = f"{time[:4]}-{time[4:6]}-{time[6:8]}T{time[8:10]}:{time[10:12]}:{time[12:14]}"
            log.draft.parameters.setdefault("started_local", started)
    # the rows do not say which end they are from, but only a receiver of UDP prints loss
    log.program.serving = log.udp and not sending
    if not log.udp:
        warning = "the rows do not say whether they are the sender's; the throughput is taken as the sender's"
        log.draft.warnings.append(warning)
    elif sending and not any(s.report for s in log.streams.values()):
        warning = (
            "what arrived is not told: the server's report is missing, or it is in the server's log"
        )
        log.draft.warnings.append(warning)
    return [read_log(log)]
