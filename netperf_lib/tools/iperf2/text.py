"""Text output of iperf 2: plain rows, and enhanced ones (``-e``) with writes, windows, latencies, loss.

No row is labelled as the result: it is the row that begins at the start of the test. A TCP client knows only what it
sent; the received data are in the server's log. For UDP the server sends its report to the client.
"""

from __future__ import annotations

import ipaddress
import math
import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from ...metrics import to_us
from ..draft import Contradictory, Damaged, Draft, Figure, added
from ..iperf_rows import BYTES, LOSS, Interval, Row, columns, counter, is_share, row, stream_number
from ..parsed import Columns, ParsedRun

NAME = "iperf2"

ERROR = re.compile(
    r".{0,60}?(?P<text>(?:tcp |udp )?connect failed: .+|unable to connect.*|iperf: .+|(?:listener )?bind failed: .+"
    r"|(?:write|read|recv|accept|getsockopt|setsockopt)\w* failed: .+|(?<![^\s>])(?<!, )error: .+"
    r"|WARNING: did not receive ack of last datagram.*)"
)
_NOT_FATAL = ("listener", "recvack failed")
"""Messages after which the test goes on: a port that is taken, a server that does not say its version."""
_LOCAL = re.compile(
    r"\[\s*(?P<id>[^\]]+?)\s*\] local (?P<host>[^\s%]+)\S* port (?P<here>\d+) connected with (?P<peer>\S+) port "
    r"(?P<there>\d+)(?P<remarks>.*)"
)
_GLUED = re.compile(r"\[[^\]\n]{1,20}\] .*?\[\s*(?:\*?\d{1,4}|SUM(?:-\d+)?|ID|CT)\] ")
"""A line that lost its end, followed by the next one."""
_LOOPBACK = re.compile(r"127\..*")
_PROCESSES = "lines of two processes: "
_FLOAT = r"-?\d+(?:\.\d+)?"
_PACKETS, _IN_FLIGHT = r"(?:\(\d+\))?", r"\d+[KM](?:\(\d+\))?"
"""Since 2.2 windows are also printed in packets."""
_FOUR = rf"(?P<mean>{_FLOAT})/\s*(?P<low>{_FLOAT})/\s*(?P<high>{_FLOAT})/\s*(?P<stdev>{_FLOAT}) (?P<unit>ms)"
_SUM_OF_DATAGRAMS = re.compile(
    r"\s+(?P<lost>-?\d+)/\s*(?P<total>-?\d+)\s+\((?P<percent>-?[\d.]+(?:e-\d+)?|-?nan)%\)\s*$"
)
"""Since 2.1 the row of the sum of UDP has no jitter."""
_FORMS = (
    re.compile(
        r"\s+(?P<writes>\d+)/(?P<failed>\d+)\s+(?P<retr>-?\d+)"
        rf"(?:\s+(?:{_IN_FLIGHT}/)?(?P<cwnd>-?\d+)(?P<cwnd_unit>[KM]){_PACKETS}"
        r"(?:/(?P<rtt>\d+)(?:\(\d+\))? us(?:\s+(?:\d+(?:\.\d+)?|inf|NAN)"
        r"(?:\s+[\d.]+(?:/[\d.]+){3} ms \(\d+\))?)?)?)?\s*$"  # --histograms: times of writes
    ),
    # --isochronous: frames sent, missed, late
    re.compile(
        r"\s+(?P<writes>\d+)/(?P<failed>\d+)(?:/\d+)?\s+(?P<pps>-?\d+) pps(?:\s+\d+/\d+/\d+)?\s*$"
    ),
    re.compile(LOSS + rf"(?:\s+(?:{_FOUR}|-/-/-/- ms)(?:\s+(?P<pps>-?\d+) pps(?P<more>.*))?)?\s*$"),
    _SUM_OF_DATAGRAMS,
    re.compile(rf"\s+{_FOUR} \((?P<bursts>\d+)/(?P<burst>\d+)\)(?P<more>\s.*)?$"),
    re.compile(
        rf"\s+(?P<bounces>\d+)={_FOUR}\s+(?P<retr>-?\d+)\s+"
        rf"(?:(?P<cwnd>-?\d+)(?P<cwnd_unit>[KM])/?{_PACKETS}/(?P<rtt>\d+)(?:\(\d+\))? us|-\(-\)/-\(-\))\s+"
        r"(?:Tx=\d+ Byte Rx=\d+ Byte\s+RPS=(?P<RPS>\d+)|(?P<rps>\d+) rps)\s*$"
    ),
    re.compile(r"\s+(?P<reads>\d+)=\d+(?::\d+){7}\s*$"),
    re.compile(r"\s+(?P<reads>\d+)\s+\d+(?::\d+){7}\s*$"),
)
_COLUMNS = ("Write/Err", "Reads", "Jitter", "Burst Latency", "BB cnt", "Latency avg")
_OF_ALL_BURSTS = re.compile(r"\d/[\d.]+/[\d.]+/[\d.]+ ms\b")
"""Mean, minimum, maximum and deviation of the times of bursts."""
_DISORDER = re.compile(
    r"\[\s*(?P<id>[^\]]+?)\s*\] .*?sec\s+(?P<count>\d+) datagrams received out-of-order"
)
_REPORT = re.compile(r"[^\[]{0,80}\[\s*([^\]]+?)\s*\] (?:Sent (\d+) datagrams|Server Report:)\s*$")
_BANNER = re.compile(r"(Client connecting to|Server listening on) (?:(\S+), )?(TCP|UDP) port (\d+)")
_BUFFER = re.compile(r"(TCP window|UDP buffer) size:\s*([\d.]+) ([KMG]?)Byte(.*)")
_MESSAGE = re.compile(r"(?:Write buffer size|Sending|Receiving):? (\d+) [Bb]yte")
_CONNECT = re.compile(
    r"\[ CT\] final connect times \(min/avg/max/stdev\) = [\d.]+/(?P<mean>[\d.]+)/\S+ (?P<unit>[mun]?s)\b"
)


Result = tuple[Row, dict[str, Any]]
"""A row, and the figures after its rate."""


@dataclass
class _Stream:
    """One connection: its rows in order."""

    rows: list[Result] = field(default_factory=list)
    report: Result | None = None
    """The server's report, in the log of a UDP client."""
    reverse: bool = False
    sent: int | None = None
    """Datagrams that the UDP client reports as sent."""
    settled: bool = False
    """Another stream of the test has a result: a row that stands alone is one, too."""

    @property
    def total(self) -> Result | None:
        """The row over the whole test; a single row may be one."""
        if not self.rows or self.rows[-1][0].start_s > 0:
            return None
        last, details = self.rows[-1]
        alone = len(self.rows) == 1 and not self.report and self.sent is None and not self.settled
        if alone and _is_interval(last, "lost" in details):
            return None
        return self.rows[-1]


def _is_interval(alone: Row, datagrams: bool) -> bool:
    """Return whether a row that stands alone is the first interval of a test that has no result.

    Intervals end exactly on the clock of ``-i``. The result of TCP does not where times are printed to 0.1 ms. Where
    they are printed to 0.1 s, and for datagrams, only an interval of one second (or less, of TCP) is known as such.
    """
    if _decimals(alone) < 4:
        return alone.end_s <= 1
    step = 0.05 if alone.end_s < 1 else 0.1
    on_clock = abs(alone.end_s / step - round(alone.end_s / step)) < 1e-6
    return alone.end_s == 1 or (on_clock and not datagrams)


def _decimals(line: Row) -> int:
    return len(line.text.partition(" sec")[0].rpartition(".")[2].strip())


@dataclass
class Program:
    """What the lines say about the program that printed them; valid for all its tests."""

    serving: bool = False
    end_known: bool = False
    """Whether a line says which end the log is from."""
    listening: set[str] = field(default_factory=set)
    """Ports it listens on; with -d and -r a client listens, too."""
    connecting: set[str] = field(default_factory=set)
    """Ports it connects to."""
    accepting: bool = False
    """It accepted a connection before it opened one: it is the server, which connects back with -d and -r."""
    port: int | None = None
    damage: str | Damaged | None = None
    """A connection that cannot be assigned; for what follows, the end is uncertain."""


@dataclass
class Log:
    """What the lines of one test say."""

    draft: Draft
    program: Program
    csv: bool = False
    hosts: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Stream -> local and remote address of its connection."""
    ports: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Stream -> local and remote port of its connection."""
    banners: set[str] = field(default_factory=set)
    """Protocols that the banners name."""
    udp: bool = False
    bounceback: bool = False
    connect_only: bool = False
    streams: dict[str, _Stream] = field(default_factory=dict)
    sums: dict[str, _Stream] = field(default_factory=dict)
    """[SUM] rows (forward), [FD…] rows (both directions)."""
    errors: list[str] = field(default_factory=list)
    damage: str | Damaged | None = None
    disorder: dict[str, int] = field(default_factory=dict)
    connect_us: list[float] = field(default_factory=list)
    connect_mean_us: float | None = None
    reversed_ids: set[str] = field(default_factory=set)
    local: int = 0
    full_duplex: bool = False
    enhanced: bool = False
    blank: list[int] = field(default_factory=list)
    """Empty lines; no program prints them between its rows."""
    columns: str = ""
    """The columns after the rate, from the table head."""
    bursts: bool = False
    """The rows are of bursts (``--burst-size``), and only the last one is of the test."""

    @property
    def known_columns(self) -> bool:
        """Whether `_FORMS` covers this table."""
        return not self.columns or self.columns.startswith(_COLUMNS)

    def damaged(self, error: str | Damaged) -> None:
        """Keep the first error."""
        self.damage = self.damage or error


# --- lines ------------------------------------------------------------------------------------------------------------


def read_text(text: str, starts: list[int]) -> list[ParsedRun]:
    """Read the tests of one program; all but the first begin at `starts`."""
    program = Program()
    return [
        _test(text[start:end], Log(Draft(NAME, 1 + text[:start].count("\n")), program))
        for start, end in pairwise([0, *starts, len(text)])
    ]


def _test(text: str, log: Log) -> ParsedRun:
    reports: set[str] = set()
    for index, line in enumerate(text.split("\n")):
        if "[" in line and _special(log, line, reports):
            continue
        try:
            entry = row(line, index)
        except Damaged as e:
            log.damaged(str(e))
            continue
        if entry is not None:
            take(log, entry, reports)
            continue
        if not line.strip():
            log.blank.append(index)
        _context(log, line)
    return read_log(log)


def _special(log: Log, line: str, reports: set[str]) -> bool:
    """Read a line in brackets that is not a row of figures; return whether it was such a line."""
    if line.count("[") > 1 and _GLUED.search(line):
        log.draft.warnings.append(
            f"a line is cut, and the next one follows without a line end: {line.strip()!r}"
        )
    if "datagrams" in line and (m := _DISORDER.search(line)):
        log.disorder[m["id"]] = int(m["count"])
    elif " local " in line and (m := _LOCAL.search(line)):
        _connection(log, m)
    elif ("Sent " in line or "Report:" in line) and (m := _REPORT.match(line)):
        log.udp = True
        if line.rstrip().endswith("Server Report:"):
            reports.add(m[1])
        elif m[2] and (stream := log.streams.get(m[1]) or log.streams.get(f"*{m[1]}")):
            stream.sent = int(m[2])
    elif "[ ID]" in line and ("Interval" in line or "Burst (start-end)" in line):
        log.bursts = "Interval" not in line
        log.columns = line.partition("Bandwidth")[2].strip()
    elif "[ CT]" in line and (m := _CONNECT.search(line)):
        log.connect_mean_us = to_us(float(m["mean"]), m["unit"])
    else:
        return False
    return True


def _connection(log: Log, m: re.Match[str]) -> None:
    log.local += 1
    program = log.program
    if not program.end_known and "5001" in (m["here"], m["there"]):
        program.serving, program.end_known = m["here"] == "5001", True
    name, ports = m["id"].removeprefix("*"), (m["here"], m["there"])
    if log.ports.setdefault(name, ports) != ports and not log.connect_only:
        log.damaged(Contradictory(f"{_PROCESSES}two connections of stream {name}"))
    log.hosts[name] = m["host"], m["peer"]
    program.accepting |= program.serving and m["here"] in program.listening
    if m["id"] != name:  # only a server that connects back marks its connection itself
        program.serving = program.accepting = program.end_known = True
    if "(reverse)" in m["remarks"]:
        log.reversed_ids.add(name)
    log.full_duplex |= "(full-duplex)" in m["remarks"]
    log.enhanced |= "(sock=" in m["remarks"]
    log.bounceback |= "(bb" in m["remarks"]
    if c := re.search(r"\(ct=(\d+\.\d+) ms\)", m["remarks"]):
        log.connect_us.append(to_us(float(c[1]), "ms"))
    elif "ct=" in m["remarks"]:
        log.draft.warnings.append("the time of a connection is damaged and is left out")


def _context(log: Log, line: str) -> None:
    parameters = log.draft.parameters
    if " port " in line and (m := _BANNER.search(line)):
        program = log.program
        log.banners.add(m[3])
        log.udp = m[3] == "UDP"
        if not m[2]:
            program.serving |= not program.end_known
            program.listening.add(m[4])
            program.port = int(m[4])
        else:
            program.connecting.add(m[4])
            if not program.accepting:
                program.serving, program.port, parameters["server"] = False, int(m[4]), m[2]
        program.end_known = True
    elif " size:" in line and (m := _BUFFER.search(line)):
        requested = re.search(r"requested ([\d.]+) ([KMG]?)Byte", m[4])
        if requested or ("default" not in m[4] and m[1] == "TCP window"):
            size, unit = (requested[1], requested[2]) if requested else (m[2], m[3])
            parameters["tcp_buffer_bytes"] = int(float(size) * BYTES[unit])
    elif m := _MESSAGE.search(line):
        parameters["message_bytes"] = int(m[1])
    elif "three-way-handshake (3WHS) only" in line:
        log.connect_only = True
    elif m := ERROR.match(line):
        log.errors.append(m["text"].strip())


def take(log: Log, entry: Row, reports: set[str]) -> None:
    """Add a row; it is the server's report if `reports` contains its stream."""
    details: dict[str, Any] = {}
    if log.bursts and not _OF_ALL_BURSTS.search(entry.figures):
        return
    if entry.figures.strip():
        for form in _FORMS:
            if (m := form.match(entry.figures)) and (
                form is not _SUM_OF_DATAGRAMS or entry.stream.startswith("SUM")
            ):
                details = {k: v for k, v in m.groupdict().items() if v is not None}
                break
        else:
            if log.known_columns:
                log.damaged(f"a row is damaged or cut short: {entry.text.strip()!r}")
                return
            if not any("columns" in w for w in log.draft.warnings):
                log.draft.warnings.append(
                    f"unknown columns are left out: {entry.figures.strip()!r}"
                )
    name = entry.stream
    reported = (
        name in reports or name.lstrip("*") in reports
    )  # -d: the report on [ *2] is announced as one on [  2]
    short = (
        "lost" in details
        and "mean" not in details
        and "Latency" in log.columns
        and "-/-" not in entry.figures
    )
    if not name.startswith("SUM"):
        short |= (
            "retr" in details and not details.keys() & {"cwnd", "RPS"} and "Cwnd" in log.columns
        )
        short |= not entry.figures.strip() and log.columns.startswith("Write/Err")
    stream = log.streams.get(name)
    if (
        stream
        and stream.rows
        and stream.rows[-1][1]
        and not details
        and log.known_columns
        and not reported
    ):
        short = True
    if short:
        log.damaged(f"a row is cut short: {entry.text.strip()!r}")
        return
    if name.startswith(("SUM", "FD")):
        log.sums.setdefault(name[:3], _Stream()).rows.append((entry, details))
        return
    if stream is None:
        stream = log.streams[name] = _Stream(
            reverse=name.startswith("*") or name in log.reversed_ids
        )
    if reported:
        reports.difference_update((name, name.lstrip("*")))
        stream.report = entry, details
        return
    log.bounceback |= "bounces" in details
    log.udp |= "lost" in details
    stream.rows.append((entry, details))


# --- directions of the rows -------------------------------------------------------------------------------------------


def _ways(log: Log) -> None:
    """Separate the directions of a test that goes both ways, from the client to the server and back."""
    program = log.program
    if (
        not log.streams and "SUM" in log.sums and len(log.ports) != 1
    ):  # --sum-only; nothing is added up of one stream
        log.streams["SUM"] = log.sums.pop("SUM")
    _leave_out_other_tests(log)
    listening, connecting = program.listening, set(program.connecting)
    if not listening and not connecting:  # the default port of iperf
        listening = connecting = {"5001"}
    for base in map(int, program.connecting):  # --incr-dstport
        each = {str(base + i) for i in range(len(log.ports))}
        connecting |= each if each == {there for _, there in log.ports.values()} else set()
    for name, (here, there) in log.ports.items():
        came, went = here in listening, there in connecting
        if (program.listening or program.connecting) and not came and not went:
            program.damage = (
                f"stream {name} has no port that is listened on or connected to: {here}, {there}"
            )
        for stream in (log.streams.get(name), log.streams.get(f"*{name}")):
            # a connection that the other end opened carries data to this end, unless it is marked as reversed
            if stream is not None and came != went and went == program.serving:
                stream.reverse = True
    _refuse_other_hosts(log)
    for name, stream in log.streams.items():
        # the rows of a stream count its write or read calls
        wrote, read = (any(word in d for _, d in stream.rows) for word in ("writes", "reads"))
        sends = program.serving == stream.reverse
        if (wrote and not sends) or (read and sends):
            program.damage = (
                f"the rows of stream {name} belong to the other direction: a line is damaged"
            )
    lost = [k for k in log.streams if k.strip("*") not in log.ports and k != "SUM"]
    marked = {k[1:] for k in log.streams if k.startswith("*")}
    plain = {k for k in log.streams if not k.startswith("*")}
    # without any such line, directions can be separated only if each stream goes both ways; a server prints them all
    if lost and (log.ports or program.listening or (marked and plain and marked != plain)):
        program.damage = (
            f"stream {lost[0]} has rows, but its connection has no line: a line is damaged"
        )
    if program.damage:
        log.damaged(program.damage)
    log.draft.parameters.setdefault("port", program.port)


def _refuse_other_hosts(log: Log) -> None:
    """Refuse connections that are not between the two hosts of one test."""
    here, there = ({_LOOPBACK.sub("127", ends[i]) for ends in log.hosts.values()} for i in (0, 1))
    if len(here) > 1:
        log.damaged(Contradictory(f"{_PROCESSES}connections of {' and '.join(sorted(here))}"))
    both = len({s.reverse for s in log.streams.values()}) > 1 and not log.full_duplex
    marked = log.reversed_ids or any(name.startswith("*") for name in log.streams)
    if both and (len(there) > 1 or (marked and not log.program.serving)):
        log.damaged(Contradictory(f"{_PROCESSES}both directions, but not between the same hosts"))
    if log.banners - {"UDP" if log.udp else "TCP"}:
        log.damaged(
            Contradictory(f"{_PROCESSES}datagrams under a TCP banner, or banners of both protocols")
        )


def _leave_out_other_tests(log: Log) -> None:
    """Drop rows after the result, of a stream that never connected: another command printed them."""
    connected = {k: s for k, s in log.streams.items() if k.removeprefix("*") in log.ports}
    last = max((s.total[0].index for s in connected.values() if s.total), default=math.inf)
    for name in log.streams.keys() - connected.keys():
        first = next((r for r, _ in log.streams[name].rows), None)
        if first is not None and any(last < i < first.index for i in log.blank):
            warning = (
                f"a row after the result is of another test and is left out: {first.text.strip()!r}"
            )
            log.draft.warnings.append(warning)
            del log.streams[name]


# --- the result -------------------------------------------------------------------------------------------------------


def read_log(log: Log) -> ParsedRun:
    """Read the collected lines of one test."""
    _ways(log)
    draft = log.draft
    settled = any(len(s.rows) == 1 and s.total for s in log.streams.values())
    for s in log.streams.values():
        s.settled = settled
    error: str | Damaged | None = log.damage
    rows = [s for s in log.streams.values() if s.rows]
    if fatal := [e for e in log.errors if not e.startswith((*_NOT_FATAL, "WARNING"))]:
        error = "; ".join(fatal)
    draft.warnings += [e for e in log.errors if e.startswith(_NOT_FATAL)]
    # with -e a line of all of them follows
    if (
        error is None
        and log.connect_only
        and not rows
        and (log.connect_mean_us or (log.connect_us and not log.enhanced))
    ):
        draft.metrics["connect_us"] = log.connect_mean_us or sum(log.connect_us) / len(
            log.connect_us
        )
        if log.connect_mean_us is None:
            draft.warnings.append("without -e the log does not say how many connections there were")
    elif error is None and rows:
        try:
            _metrics(log)
        except Damaged as e:
            error = e
    elif error is None:
        error = (log.errors or ["the test did not run: there are no rows"])[0]
    draft.intervals = _intervals(log, salvage=error is not None)
    if rows or any(v is not None for v in draft.parameters.values()):
        draft.test = _test_name(log)
    if rows:
        ways = [s.reverse for s in rows]
        both = "bidir" if len(set(ways)) > 1 else "reverse" if ways[0] else "forward"
        sums = "SUM" in log.streams  # SUM-4
        draft.parameters |= {
            "protocol": "udp" if log.udp else "tcp",
            "streams": stream_number(rows[0].rows[0][0].stream)
            if sums
            else max(map(ways.count, ways)),
            "direction": None if log.csv else both,
        }
    return draft.run("ok" if error is None else "partial" if rows else "failed", error)


def _bounces(stream: _Stream) -> bool:
    return any("bounces" in details for _, details in stream.rows)


def _test_name(log: Log) -> str:
    """Return the name of the test; round trips beside a load (``--bounceback-congest``) are one of its own."""
    if log.bounceback:
        alone = all(_bounces(s) for s in log.streams.values() if s.rows)
        return "bounceback" if alone else "bounceback-congest"
    return "connect" if log.connect_only else "udp" if log.udp else "tcp"


def _metrics(log: Log) -> None:
    if not log.program.end_known:
        raise Damaged(
            "the log does not say whether it is the client's or the server's: its head is missing"
        )
    metrics = log.draft.metrics
    ways = {s.reverse for s in log.streams.values() if s.rows}
    for reverse in sorted(ways):
        word = "_reverse" if reverse and len(ways) > 1 else ""
        streams = {
            k: s for k, s in log.streams.items() if s.reverse == reverse and (s.rows or s.report)
        }
        if log.bounceback:
            streams = {k: s for k, s in streams.items() if _bounces(s)} or streams
        # A TCP client knows what it sends, and with -R what it receives.
        here_receives = log.program.serving != reverse
        rate, size, length = _total(log, streams, reverse)
        if not log.bounceback:
            sent, side = ("", "transferred") if here_receives else ("_sent", "sent")
            metrics |= {f"throughput{word}{sent}_bps": rate, f"{side}{word}_bytes": size}
        reports = [s.report[0].length_s for s in streams.values() if s.report and s.report[1]]
        other = max(reports, default=0.0)
        apart = bool(reports) and not here_receives and abs(length - other) > 0.2 * other + 1
        if not word:
            metrics["duration_measured_s"] = length
        silent = log.program.serving or log.csv or log.full_duplex
        reported = any(s.report for s in streams.values()) or not silent
        if log.udp and (
            here_receives or (reported and not _is_multicast(log))
        ):  # else nobody reports what arrived
            _datagrams(log, streams, here_receives=here_receives, word=word)
        if apart:
            _choose_clock(log, streams, word, length, other)
        retries = added(_retries(s.rows[-1][1]) for s in streams.values() if s.rows)
        if retries is not None:
            metrics[f"retransmits{word}_count"] = retries
            for s in streams.values():
                *each, total = map(_retries, (d for _, d in s.rows))
                if total is not None and (counted := added(each)) is not None and counted > total:
                    log.draft.warnings.append(
                        f"the result counts {total} retransmits, its intervals more"
                    )
        if not word:
            _path(log, streams)
    enhanced = any(d.keys() & {"retr", "reads"} for s in log.streams.values() for _, d in s.rows)
    if enhanced and not log.ports and not log.program.serving:
        log.draft.warnings.append("without connect_us: the lines of the connections are missing")
    if log.connect_mean_us is not None or (log.connect_us and len(log.connect_us) == log.local):
        metrics["connect_us"] = log.connect_mean_us or sum(log.connect_us) / len(log.connect_us)


def _choose_clock(
    log: Log, streams: dict[str, _Stream], word: str, here: float, there: float
) -> None:
    """Leave out the rate of the end whose clock was stepped; of both where no interval tells which."""
    metrics = log.draft.metrics
    steps = [[r for r, _ in s.rows[:-1]] for s in streams.values()]
    known = all(len(rows) > 1 for rows in steps)
    even = known and all(
        max(r.rate_bps for r in rows) < 2 * min(r.rate_bps for r in rows) for rows in steps
    )
    if not even:
        metrics.pop(f"throughput{word}_sent_bps", None)
        if not word:
            metrics["duration_measured_s"] = there if known else None
    if even or not known:
        metrics.pop(f"throughput{word}_bps", None)
    end = "the server's clock" if even else "the client's clock" if known else "a clock"
    log.draft.warnings.append(
        f"{end} was stepped: {here:g} s at the client, {there:g} s at the server"
    )


def _total(log: Log, streams: dict[str, _Stream], reverse: bool) -> tuple[float, float, float]:
    """Return rate, bytes and seconds of all streams of one direction."""
    rows = [total[0] for s in streams.values() if s.rows and (total := s.total)]
    fewer = log.local > sum(1 for s in log.streams.values() if s.rows) and "SUM" not in log.streams
    if (
        len(rows) < sum(1 for s in streams.values() if s.rows)
        or not rows
        or (not log.full_duplex and fewer)
    ):
        raise Damaged("the test has no result: the log ends before the row over the whole test")
    _refuse_gaps(log, streams)
    every = [r for s in streams.values() for r, _ in s.rows[:-1]]
    if 2 * (empty := sum(not r.size.value for r in every)) > len(every):
        warning = f"nothing passed in {empty} of {len(every)} intervals: the network was lost, or the clock was stepped"
        log.draft.warnings.append(warning)
    alone = [
        s.rows[0][0]
        for s in streams.values()
        if len(s.rows) == 1 and not s.report and s.sent is None
    ]
    if not log.csv and any(r.end_s == int(r.end_s) for r in alone):
        log.draft.warnings.append(
            "each stream has one row: the result, or the first interval of a log that was cut"
        )
    both = any(s.reverse != reverse for s in log.streams.values() if s.rows)
    summed = log.sums.get("SUM") if (both or not reverse) and not log.bounceback else None
    sizes, lengths = [r.size.value for r in rows], [r.length_s for r in rows]
    added_up = Figure.sum([r.size for r in rows])
    warnings = log.draft.warnings
    if len(rows) == 1:
        other = summed.rows[-1] if summed and not both and summed.rows[-1][0].start_s == 0 else None
        if other and not other[0].size.agrees(added_up, 1e-3):
            if log.csv:
                raise Damaged("rows of a stream are missing: the sum is of more than one")
            warnings.append(
                f"the row [SUM] is not that of its one stream and is left out: {other[0].text.strip()!r}"
            )
        return rows[0].rate_bps, sizes[0], lengths[0]
    sums = [r for r, _ in summed.rows if not r.start_s] if summed else []
    if both:  # a sum does not state its direction
        together = sum(r.rate_bps for r in rows)
        each = sum(1 for r in sums if r.length_s > 0.9 * max(lengths)) > 1
        sums = [r for r in sums if each and r.size.agrees(added_up, 1e-3)]
        sums.sort(key=lambda r: -abs(r.rate_bps - together))
    t = sums[-1] if sums and summed and (both or sums[-1] is summed.rows[-1][0]) else None
    # 2.2 sometimes counts the last write of a stream a second late; the sum is then as long as another stream
    if t is None or all(abs(t.length_s - length) > 0.1 * length + 0.1 for length in lengths):
        # the CSV of 2.0 has a row of the sum; that of 2.1, which counts its streams from 1, has none
        if max(lengths) - min(lengths) > 1 or (log.csv and "1" not in log.streams):
            raise Damaged("the row of the sum of the result is missing")
        if summed is not None or not reverse:
            warnings.append("there is no row [SUM] of the result; the streams are added")
    elif t.size.agrees(added_up, 1e-3):
        return t.rate_bps, t.size.value, t.length_s
    else:
        # iperf 2.0.5 as a server counts the first interval twice in [SUM].
        twice = Figure.sum([added_up, *(s.rows[0][0].size for s in streams.values())])
        if log.csv or not t.size.agrees(twice, 1e-3):
            raise Contradictory(f"the row of the sum contradicts its streams: {t.text.strip()!r}")
        warnings.append(
            f"the row [SUM] counts the first interval twice; the streams are added: {t.text.strip()!r}"
        )
    # rates over different times do not add up
    even = max(lengths) < 1.01 * min(lengths)
    return (
        sum(r.rate_bps for r in rows) if even else sum(sizes) * 8 / max(lengths),
        sum(sizes),
        max(lengths),
    )


def _refuse_gaps(log: Log, streams: dict[str, _Stream]) -> None:
    """Refuse missing intervals, and a test that lasted long after its last one: it stalled."""
    for s in streams.values():
        steps = [r for r, _ in s.rows[:-1]]
        if not steps:
            continue
        last, total = steps[-1], s.rows[-1][0]
        if total.end_s - last.end_s > 1.005 * max(r.length_s for r in steps):
            error = f"they end at {last.end_s:g} s, and the test after {total.end_s:g} s"
            if total.end_s - last.end_s > 0.1 * total.end_s:
                raise Damaged(f"intervals are missing, or the test stalled: {error}")
            log.draft.warnings.append(f"the last intervals are missing: {error}")
        if steps[0].start_s > 0 or any(
            abs(b.start_s - a.end_s) > 0.011 for a, b in pairwise(steps)
        ):
            raise Damaged("an interval is missing from the log")
        # the intervals have the bytes of the result, except for the last ones
        sizes = [r.size.value for r in steps]
        covered = abs(total.size.value - sum(sizes)) <= 0.05 * total.size.value + 2 * max(sizes)
        if total.end_s < last.end_s - 0.01 - 0.02 * total.end_s or not covered:
            raise Contradictory(f"the result contradicts its intervals: {total.text.strip()!r}")


def _retries(details: dict[str, Any]) -> int | None:
    return counter(details["retr"]) if "retr" in details else None


def _is_multicast(log: Log) -> bool:
    try:
        return ipaddress.ip_address(str(log.draft.parameters.get("server", ""))).is_multicast
    except ValueError:
        return False


def _datagrams(log: Log, streams: dict[str, _Stream], *, here_receives: bool, word: str) -> None:
    """Take loss, jitter and latency from the receiver: this end, or the server's reports."""
    metrics = log.draft.metrics
    views = [s.total if here_receives else s.report for s in streams.values()]
    seen = [v for v in views if v is not None and "lost" in v[1]]
    if len(seen) < len(views):
        raise Damaged(
            "the server's report is missing: "
            + (log.errors or ["the log is cut short or damaged"])[0]
        )
    lost, packets = ([counter(d[k]) for _, d in seen] for k in ("lost", "total"))
    if not here_receives:
        metrics[f"throughput{word}_bps"] = sum(r.rate_bps for r, _ in seen)
        metrics[f"transferred{word}_bytes"] = sum(r.size.value for r, _ in seen)
        for s, received in zip(streams.values(), packets, strict=True):
            if s.sent is not None and received is not None and received > s.sent + 2:
                raise Damaged(
                    f"the server reports {received} datagrams, and the client sent {s.sent}"
                )
            if s.total and s.report and s.report[0].size.value > 1.1 * s.total[0].size.value:
                raise Damaged(
                    f"the server reports more data than the client sent: {s.report[0].text.strip()!r}"
                )
    for r, d in seen:
        percent, total = float(d["percent"]), counter(d["total"])
        if (
            total and d["percent"] == "0" and 0 < int(d["lost"]) < 0.005 * total
        ):  # some versions print this share as 0
            log.draft.warnings.append(
                f"the loss is left out, its share is given as 0 %: {r.text.strip()!r}"
            )
            lost = [None]
        elif total and not is_share(percent, int(d["lost"]), total):
            raise Contradictory(f"the loss contradicts itself: {r.text.strip()!r}")
    if not (count := added(packets)):
        return
    metrics[f"packets{word}_count"] = count
    if (gone := added(lost)) is not None:
        metrics |= {f"lost{word}_count": gone, f"lost{word}_ratio": gone / count}
    metrics[f"jitter{word}_us"] = to_us(sum(float(d["jitter"]) for _, d in seen) / len(seen), "ms")
    if not word and log.disorder:
        metrics["out_of_order_count"] = sum(log.disorder.get(k, 0) for k in streams)


def _path(log: Log, streams: dict[str, _Stream]) -> None:
    """Take round trips under load, windows, and the latencies of messages."""
    metrics = log.draft.metrics
    intervals = [s.rows[:-1] or s.rows for s in streams.values() if s.rows]
    for steps, (total, details) in ((s.rows[:-1], s.rows[-1]) for s in streams.values() if s.rows):
        if (
            "rtt" in details
            and steps
            and total.end_s - steps[-1][0].end_s > 0.5 * steps[0][0].length_s
        ):
            log.draft.warnings.append(
                f"the intervals end before the test: no round trips of {total.end_s:g} s"
            )
            intervals = []
    rtts = [int(d["rtt"]) for rows in intervals for _, d in rows if int(d.get("rtt", 0))]
    if rtts and not log.bounceback:
        of_path = {"": sum(rtts) / len(rtts), "min_": min(rtts), "max_": max(rtts)}
        metrics |= {f"rtt_loaded_{statistic}us": value for statistic, value in of_path.items()}
    windows = [[w for _, d in rows if (w := _window(d))] for rows in intervals]
    if windows and all(windows):
        metrics |= {
            "cwnd_bytes": sum(w[-1] for w in windows),
            "cwnd_max_bytes": sum(max(w) for w in windows),
        }
    timed = [s.report or s.total for s in streams.values()]
    ways = [t[1] for t in timed if t is not None and "mean" in t[1]]
    if len(ways) != 1:
        return  # the latencies of several streams cannot be merged into one distribution
    values = {
        k: to_us(float(ways[0][k]), ways[0]["unit"]) for k in ("mean", "low", "high", "stdev")
    }
    if not 0 <= values["low"] <= values["mean"] <= values["high"]:
        warning = (
            "the latencies contradict each other, or the clocks of the hosts; they are left out"
        )
        log.draft.warnings.append(warning)
        return
    kind = "rtt" if "bounces" in ways[0] else "latency_oneway_loaded"
    for statistic, value in zip(("", "min_", "max_", "stdev_"), values.values(), strict=True):
        metrics[f"{kind}_{statistic}us"] = value
    if kind == "rtt":
        rate = ways[0].get("rps") or ways[0]["RPS"]
        metrics |= {"messages_count": int(ways[0]["bounces"]), "transaction_rate_per_s": int(rate)}
    else:
        log.draft.warnings.append(
            "the one-way latency rests on the clocks of both hosts being the same"
        )


def _window(details: dict[str, Any]) -> float | None:
    size = int(details["cwnd"]) if "cwnd" in details else -1
    return size * BYTES[details["cwnd_unit"]] if size > 0 else None


def _intervals(log: Log, *, salvage: bool) -> Columns:
    """Return the rows that are not over the whole test, in log order; every row of a damaged log."""
    intervals: list[Interval] = []
    both = len({s.reverse for s in log.streams.values() if s.rows}) > 1
    for name, s in {**log.sums, **log.streams}.items():
        if name.startswith("FD") or (name == "SUM" and both):
            continue  # a sum of both directions, or of an unknown one
        total = s.total
        intervals += [
            Interval(
                stream=-1 if name == "SUM" else stream_number(name),
                direction="reverse" if s.reverse else "forward",
                row=r,
                retransmits=_retries(d),
                rtt_us=int(d["rtt"]) or None if "rtt" in d else None,
                cwnd_bytes=_window(d),
            )
            for r, d in s.rows
            if salvage or total is None or r is not total[0]
        ]
    return columns(sorted(intervals, key=lambda i: (i.row.index, i.stream)))
