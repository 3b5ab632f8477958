"""iperf 2 as people read it: plain rows, and the enhanced ones (``-e``) with writes, windows, latencies, loss.

There is no row that calls itself the result: it is the one that reaches back to the start of the test. A client of TCP
knows only what it sent; what arrived is in the server's log. Of UDP the server sends its report back.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from ...metrics import to_bytes, to_us
from ..iperf_rows import LOSS, Interval, Row, Unreadable, columns, consistent, counter, row
from ..parsed import ParsedRun

NAME = "iperf2"

ERROR = re.compile(
    r"^.{0,60}?(?P<text>(?:tcp |udp )?connect failed: .+|unable to connect.*|iperf: .+|(?:listener )?bind failed: .+"
    r"|(?:write|read|recv|accept|getsockopt|setsockopt)\w* failed: .+|(?<![^\s>])(?<!, )error: .+"
    r"|WARNING: did not receive ack of last datagram.*)"
)
_TROUBLE = ("failed: ", "error: ", "iperf: ", "unable to connect", "did not receive ack")
"""One of these is in each line that `ERROR` matches."""
_LOCAL = re.compile(
    r"\[\s*(?P<id>[^\]]+?)\s*\] local \S+ port (?P<here>\d+) connected with \S+ port (?P<there>\d+)(?P<rest>.*)"
)
_FLOAT = r"-?\d+(?:\.\d+)?"
_PACKETS, _IN_FLIGHT = r"(?:\(\d+\))?", r"\d+[KM](?:\(\d+\))?"
"""Since 2.2 windows are told in packets, too."""
_FOUR = rf"(?P<mean>{_FLOAT})/\s*(?P<low>{_FLOAT})/\s*(?P<high>{_FLOAT})/\s*(?P<stdev>{_FLOAT}) (?P<unit>ms)"
_FORMS = (
    re.compile(
        r"\s+(?P<writes>\d+)/(?P<failed>\d+)\s+(?P<retr>-?\d+)"
        rf"(?:\s+(?:{_IN_FLIGHT}/)?(?P<cwnd>-?\d+)(?P<cwnd_unit>[KM]){_PACKETS}"
        r"(?:/(?P<rtt>\d+)(?:\(\d+\))? us(?:\s+(?P<power>[\d.]+|inf|NAN)"
        r"(?:\s+[\d.]+(?:/[\d.]+){3} ms \(\d+\))?)?)?)?\s*$"  # --histograms: times of writes
    ),
    # --isochronous: frames sent, missed, late
    re.compile(r"\s+(?P<writes>\d+)/(?P<failed>\d+)(?:/\d+)?\s+(?P<pps>-?\d+) pps(?:\s+\d+/\d+/\d+)?\s*$"),
    re.compile(LOSS + rf"(?:\s+(?:{_FOUR}|-/-/-/- ms)(?:\s+(?P<pps>-?\d+) pps(?P<more>.*))?)?\s*$"),
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
_DISORDER = re.compile(r"\[\s*(?P<id>[^\]]+?)\s*\] .*?sec\s+(?P<count>\d+) datagrams received out-of-order")
_REPORT = re.compile(r"[^\[]{0,80}\[\s*([^\]]+?)\s*\] (?:Sent (\d+) datagrams|Server Report:)\s*$")
_BANNER = re.compile(r"(Client connecting to|Server listening on) (?:(\S+), )?(TCP|UDP) port (\d+)")
_BUFFER = re.compile(r"(TCP window|UDP buffer) size:\s*([\d.]+) ([KMG]?)Byte(.*)")
_MESSAGE = re.compile(r"(?:Write buffer size|Sending|Receiving):? (\d+) [Bb]yte")
_CONNECT = re.compile(r"\[ CT\] final connect times \(min/avg/max/stdev\) = [\d.]+/(?P<mean>[\d.]+)/\S+ (?P<unit>\w+)")


@dataclass
class _Stream:
    """One connection: its rows in order, each with what stands behind the rate."""

    rows: list[tuple[Row, dict[str, Any]]] = field(default_factory=list)
    report: tuple[Row, dict[str, Any]] | None = None
    """The server's report, in the log of a client of UDP."""
    reverse: bool = False
    sent: int | None = None
    """Datagrams that the client of UDP says it sent."""

    @property
    def total(self) -> tuple[Row, dict[str, Any]] | None:
        """The row that reaches back to the start; the only row may be one."""
        if not self.rows:
            return None
        last = self.rows[-1][0]
        if last.start_s > 0:
            return None
        if len(self.rows) == 1:
            # A lone row over the first second, or ending on the dot where TCP's clock is printed to 0.1 ms, is the
            # first interval of a test that never came to its result.
            fine = len(last.text.partition(" sec")[0].rpartition(".")[2].strip()) >= 4
            if (fine and "lost" not in self.rows[0][1] and last.end_s == int(last.end_s)) or last.end_s == 1:
                return None
        return self.rows[-1]


@dataclass
class _Program:
    """What the lines say about the program that prints them: it holds for all its tests."""

    serving: bool = False
    end_known: bool = False
    """Whether a line says from which end the log is."""
    listening: set[str] = field(default_factory=set)
    """Ports it listens on: a client does, too, with -d and -r."""
    connecting: set[str] = field(default_factory=set)
    """Ports it connects to."""
    accepting: bool = False
    """A connection came in before it opened one of its own: it is the server, which connects back with -d and -r."""
    port: int | None = None
    damage: str | None = None
    """A connection that cannot be told: of what follows it is not sure which end it is."""


@dataclass
class _Log:
    program: _Program = field(default_factory=_Program)
    ports: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Stream -> port of its connection here and there."""
    udp: bool = False
    bounceback: bool = False
    streams: dict[str, _Stream] = field(default_factory=dict)
    sums: dict[str, _Stream] = field(default_factory=dict)
    """[SUM] rows (forward), [FD…] rows (both directions)."""
    errors: list[str] = field(default_factory=list)
    damage: str | None = None
    warnings: list[str] = field(default_factory=list)
    disorder: dict[str, int] = field(default_factory=dict)
    connect_us: list[float] = field(default_factory=list)
    connect_mean_us: float | None = None
    reversed_ids: set[str] = field(default_factory=set)
    local: int = 0
    full_duplex: bool = False
    blank: list[int] = field(default_factory=list)
    """Empty lines: no program prints one between its rows."""
    parameters: dict[str, Any] = field(default_factory=dict)
    form: re.Pattern[str] = _FORMS[0]
    """What the last row had behind its rate."""
    columns: str = ""
    """What the head of the table promises behind the rate."""

    @property
    def known_columns(self) -> bool:
        """Whether this is a table that the forms of rows below are for."""
        return not self.columns or self.columns.startswith(_COLUMNS)


def read_text(text: str, starts: list[int]) -> list[ParsedRun]:
    """Read the tests of one program; all but the first begin at `starts`."""
    program = _Program()
    return [
        replace(_test(text[start:end], program), line=1 + text.count("\n", 0, start))
        for start, end in pairwise([0, *starts, len(text)])
    ]


def _test(text: str, program: _Program) -> ParsedRun:
    log = _Log(program)
    reports: set[str] = set()
    for index, line in enumerate(text.split("\n")):
        if "[" in line and _special(log, line, reports):
            continue
        if "[" in line or " sec " in line:
            try:
                found = row(line, index)
            except Unreadable as e:
                log.damage = log.damage or str(e)
                continue
            if found is not None:
                _take(log, found, reports)
                continue
        if not line.strip():
            log.blank.append(index)
        _context(log, line)
    _ways(log)
    return _run(log)


def _special(log: _Log, line: str, reports: set[str]) -> bool:
    if "PDF" in line or "Clock sync check" in line:
        return True
    if "datagrams" in line and (m := _DISORDER.search(line)):
        log.disorder[m["id"]] = int(m["count"])
        return True
    if " local " in line and (m := _LOCAL.search(line)):
        log.local += 1
        program = log.program
        if not program.end_known and "5001" in (m["here"], m["there"]):
            program.serving, program.end_known = m["here"] == "5001", True
        log.ports[m["id"].strip("* ")] = m["here"], m["there"]
        program.accepting |= program.serving and m["here"] in program.listening
        if m["id"].startswith("*"):  # only a server marks its connection itself, when it connects back
            program.serving = program.accepting = program.end_known = True
        if "(reverse)" in m["rest"]:
            log.reversed_ids.add(m["id"].strip("*"))
        log.full_duplex |= "(full-duplex)" in m["rest"]
        if "(bb" in m["rest"]:
            log.bounceback = True
        c = re.search(r"\(ct=(\d+\.\d+) ms\)", m["rest"])
        if c is None and "ct=" in m["rest"]:
            log.warnings.append("the time of a connection is damaged and is left out")
        if c:
            log.connect_us.append(to_us(float(c[1]), "ms"))
        return True
    if ("Sent " in line or "Report:" in line) and (m := _REPORT.match(line)):
        if line.rstrip().endswith("Server Report:"):
            reports.add(m[1])
        elif m[2] and m[1] in log.streams:
            log.streams[m[1]].sent = int(m[2])
        return True
    if "[ ID]" in line and "Interval" in line:
        log.udp |= "Jitter" in line or "PPS" in line
        log.columns = line.partition("Bandwidth")[2].strip() or line.partition("Bitrate")[2].strip()
        return True
    if "[ CT]" in line and (m := _CONNECT.search(line)):
        log.connect_mean_us = to_us(float(m["mean"]), m["unit"])
        return True
    return False


def _context(log: _Log, line: str) -> None:
    if " port " in line and (m := _BANNER.search(line)):
        program = log.program
        log.udp = m[3] == "UDP"
        if not m[2]:
            program.serving |= not program.end_known
            program.listening.add(m[4])
            program.port = int(m[4])
        else:
            program.connecting.add(m[4])
            if not program.accepting:
                program.serving = False
                program.port = int(m[4])
                log.parameters["server"] = m[2]
        program.end_known = True
    elif " size:" in line and (m := _BUFFER.search(line)):
        asked = re.search(r"requested ([\d.]+) ([KMG]?)Byte", m[4])
        if asked or ("default" not in m[4] and m[1] == "TCP window"):
            size, unit = (asked[1], asked[2]) if asked else (m[2], m[3])
            log.parameters["tcp_buffer_bytes"] = int(to_bytes(float(size), unit + "i" if unit else ""))
    elif m := _MESSAGE.search(line):
        log.parameters["message_bytes"] = int(m[1])
    elif any(map(line.__contains__, _TROUBLE)) and (m := ERROR.search(line)):
        log.errors.append(m["text"].strip())


def _take(log: _Log, found: Row, reports: set[str]) -> None:
    details: dict[str, Any] = {}
    if found.rest.strip():
        for form in (log.form, *_FORMS):  # the rows of a table are of one form: no two match the same row
            if m := form.match(found.rest):
                details = {k: v for k, v in m.groupdict().items() if v is not None}
                log.form = form
                break
        else:
            if log.known_columns:
                log.damage = log.damage or f"a row is damaged or cut short: {found.text.strip()!r}"
                return
            if not any("columns" in w for w in log.warnings):
                log.warnings.append(f"columns that are not known are left out: {found.rest.strip()!r}")
    name = found.stream
    short = ("lost" in details and "mean" not in details and "Latency" in log.columns and "-/-" not in found.rest) or (
        "retr" in details
        and not details.keys() & {"cwnd", "RPS"}
        and "Cwnd" in log.columns
        and not name.startswith("SUM")
    )
    if short:
        log.damage = log.damage or f"a row is cut short: {found.text.strip()!r}"
        return
    if name.startswith(("SUM", "FD")):
        log.sums.setdefault(name[:3], _Stream()).rows.append((found, details))
        return
    if name in reports:
        reports.discard(name)
        log.streams.setdefault(name, _Stream()).report = (found, details)
        return
    stream = log.streams.setdefault(name, _Stream(reverse=name.startswith("*") or name in log.reversed_ids))
    if stream.rows and stream.rows[-1][1].keys() and not details and log.known_columns:
        log.damage = log.damage or f"a row is cut short: {found.text.strip()!r}"
        return
    log.bounceback |= "bounces" in details
    log.udp |= "lost" in details
    stream.rows.append((found, details))


def _ways(log: _Log) -> None:
    """Tell apart what goes from the client to the server and what goes back, where a test goes both ways."""
    program = log.program
    if not log.streams and "SUM" in log.sums:  # --sum-only
        log.streams["SUM"] = log.sums.pop("SUM")
    _leave_out_other_tests(log)
    connecting = set(program.connecting)
    for base in map(int, program.connecting):  # --incr-dstport
        each = {str(base + i) for i in range(len(log.ports))}
        connecting |= each if each == {there for _, there in log.ports.values()} else set()
    for name, (here, there) in log.ports.items():
        came, went = here in program.listening, there in connecting
        if (program.listening or program.connecting) and not came and not went:
            program.damage = f"stream {name} is of no port that is listened on or connected to: {here}, {there}"
        for stream in (log.streams.get(name), log.streams.get(f"*{name}")):
            # a connection that the other end opened carries its data here, unless it is marked as reversed
            if stream is not None and came != went and went == program.serving:
                stream.reverse = True
    for name, stream in log.streams.items():
        # what a stream's own rows count: calls that write, or that read
        wrote, read = (any(word in d for _, d in stream.rows) for word in ("writes", "reads"))
        sends = program.serving == stream.reverse
        if (wrote and not sends) or (read and sends):
            program.damage = f"the rows of stream {name} tell of the other direction: a line is damaged"
    lost = [k for k in log.streams if k.strip("* ") not in log.ports and k != "SUM"]
    marked = {k.strip("* ") for k in log.streams if k.startswith("*")}
    plain = {k for k in log.streams if not k.startswith("*")}
    # without any such line, both ways are told apart only where each stream goes both ways
    either = bool(program.listening and program.connecting)
    if lost and (log.ports or either or (marked and plain and marked != plain)):
        program.damage = f"rows of stream {lost[0]}, and no line of its connection: a line is damaged"
    log.damage = log.damage or program.damage
    if program.port is not None:
        log.parameters.setdefault("port", program.port)


def _leave_out_other_tests(log: _Log) -> None:
    """Drop rows that follow the result, of a stream that never connected: another command printed them."""
    known = {k: s for k, s in log.streams.items() if k.strip("* ") in log.ports}
    if not known or log.local != len(known) or not all(s.total for s in known.values()):
        return
    last = max(s.rows[-1][0].index for s in known.values())
    for name in set(log.streams) - set(known) - {"SUM"}:
        first = log.streams[name].rows[0][0] if log.streams[name].rows else None
        if first is not None and "SUM" not in log.sums and any(last < i < first.index for i in log.blank):
            log.warnings.append(f"a row after the result is of another test and is left out: {first.text.strip()!r}")
            del log.streams[name]


def _run(log: _Log) -> ParsedRun:
    metrics: dict[str, float] = {}
    error = log.damage
    fatal = [e for e in log.errors if not e.startswith(("listener bind failed", "WARNING"))]
    log.warnings += [e for e in log.errors if e.startswith("listener")]
    rows = [s for s in log.streams.values() if s.rows]
    if fatal:
        error = "; ".join(fatal)
    if error is None and rows:
        try:
            metrics = _metrics(log)
        except Unreadable as e:
            error = str(e)
    elif error is None:
        error = "; ".join(log.errors) or "the test did not run: there are no rows"
    intervals = _intervals(log, salvage=error is not None)
    test = "bounceback" if log.bounceback else "udp" if log.udp else "tcp"
    both = any(s.reverse for s in rows) and any(not s.reverse for s in rows)
    if rows:
        log.parameters |= {
            "protocol": "udp" if log.udp else "tcp",
            "streams": _number(rows[0].rows[0][0].stream)
            if "SUM" in log.streams
            else max(sum(1 for s in rows if s.reverse == way) for way in (True, False)),
            "direction": "bidir" if both else "reverse" if rows[0].reverse else "forward",
        }
    return ParsedRun(
        tool=NAME,
        test=test if rows or log.parameters else None,
        status="ok" if error is None else "partial" if rows else "failed",
        error=error,
        warnings=tuple(dict.fromkeys(log.warnings)),
        metrics=metrics if error is None else {},
        parameters=log.parameters,
        intervals=intervals,
    )


def _metrics(log: _Log) -> dict[str, float]:
    if not log.program.end_known:
        raise Unreadable("the log does not say whether it is the client's or the server's: its head is missing")
    found: dict[str, float] = {}
    ways = {s.reverse for s in log.streams.values() if s.rows}
    for reverse in sorted(ways):
        word = "_reverse" if reverse and len(ways) > 1 else ""
        streams = {k: s for k, s in log.streams.items() if s.reverse == reverse and (s.rows or s.report)}
        # The client of TCP sees what it sends, and with -R what it receives.
        here_receives = log.program.serving != reverse
        rate, size, length, details = _total(log, streams, reverse)
        names = (
            ("throughput{}_bps", "transferred{}_bytes") if here_receives else ("throughput{}_sent_bps", "sent{}_bytes")
        )
        if not log.bounceback:
            found |= {names[0].format(word): rate, names[1].format(word): size}
        if not word:
            found["duration_measured_s"] = length
        reported = here_receives or not log.program.serving or any(s.report for s in streams.values())
        if log.udp and reported and not (_is_multicast(log) and not here_receives):  # else nobody reports what arrived
            _datagrams(log, found, streams, here_receives=here_receives, word=word)
        retries = [counter(d["retr"]) for d in details if "retr" in d]
        if retries and None not in retries and len(retries) == len(details):
            found[f"retransmits{word}_count"] = sum(r for r in retries if r is not None)
            _check_retries(log, streams)
        if not word:
            _path(found, streams, log)
    if log.connect_mean_us is not None or (log.connect_us and len(log.connect_us) == log.local):
        found["connect_us"] = log.connect_mean_us or sum(log.connect_us) / len(log.connect_us)
    return found


def _total(log: _Log, streams: dict[str, _Stream], reverse: bool) -> tuple[float, float, float, list[dict[str, Any]]]:
    """Return rate, bytes and seconds of all streams of one direction, and the details of each stream's result."""
    totals = [s.total for s in streams.values() if s.rows]
    whole = [t for t in totals if t is not None]
    fewer = log.local > len(log.streams) and "SUM" not in log.streams
    if len(whole) < len(totals) or (not log.full_duplex and fewer):
        raise Unreadable("the test has no result: the log ends before the row over the whole test")
    _refuse_gaps(streams)
    rows = [r for r, _ in whole]
    details = [d for _, d in whole]
    both = any(s.reverse != reverse for s in log.streams.values() if s.rows)
    summed = log.sums.get("SUM") if both or not reverse else None
    if len(rows) == 1:
        r = rows[0]
        if (
            summed
            and not both
            and (t := summed.total)
            and not consistent(t[0].size_bytes, [r.size_bytes], 2 * r.tolerance)
        ):
            log.warnings.append(f"the row [SUM] is not that of its one stream and is left out: {t[0].text.strip()!r}")
        return r.rate_bps, r.size_bytes, r.length_s, details
    size = sum(r.size_bytes for r in rows)
    tolerance = 2 * max(r.tolerance for r in rows)
    whole_sums = [t for t in summed.rows if t[0].start_s == rows[0].start_s] if summed else []
    if both:  # a sum says not of which way it is
        together = sum(r.rate_bps for r in rows)
        whole_sums = [t for t in whole_sums if consistent(t[0].size_bytes, [r.size_bytes for r in rows], tolerance)]
        whole_sums.sort(key=lambda t: -abs(t[0].rate_bps - together))
    t = whole_sums[-1] if whole_sums and summed and (both or whole_sums[-1] is summed.rows[-1]) else None
    # 2.2 counts the last write of a stream a second late at times: its sum is as long as another stream, then
    if t is None or all(abs(t[0].length_s - r.length_s) > 0.1 * r.length_s + 0.1 for r in rows):
        if len({r.length_s for r in rows}) and max(r.length_s for r in rows) - min(r.length_s for r in rows) > 1:
            raise Unreadable("the row [SUM] of the result is missing, and the streams are not of one length")
        if summed is not None or not reverse:
            log.warnings.append("there is no row [SUM] of the result; the streams are added")
    elif consistent(t[0].size_bytes, [r.size_bytes for r in rows], tolerance):
        return t[0].rate_bps, t[0].size_bytes, t[0].length_s, details
    else:
        # iperf 2.0.5 as a server counts the first interval twice in [SUM].
        first = sum(s.rows[0][0].size_bytes for s in streams.values())
        if not consistent(t[0].size_bytes, [size, first], tolerance):
            raise Unreadable(f"the row [SUM] contradicts its streams: {t[0].text.strip()!r}")
        log.warnings.append(
            f"the row [SUM] counts the first interval twice; the streams are added: {t[0].text.strip()!r}"
        )
    longest, shortest = max(r.length_s for r in rows), min(r.length_s for r in rows)
    # rates over different times do not add up
    rate = sum(r.rate_bps for r in rows) if longest < 1.01 * shortest else size * 8 / longest
    return rate, size, longest, details


def _refuse_gaps(streams: dict[str, _Stream]) -> None:
    """Find a test that went on long after its last interval: nothing moved any more."""
    for s in streams.values():
        if len(s.rows) >= 2:
            lengths = [r.length_s for r, _ in s.rows[:-1]]
            last, total = s.rows[-2][0], s.rows[-1][0]
            if total.end_s - last.end_s > 1.005 * max(lengths):
                raise Unreadable(
                    f"intervals are missing, or the test stalled: they end at {last.end_s:g} s, "
                    f"and the test after {total.end_s:g} s"
                )
            steps = [r for r, _ in s.rows[:-1]]
            if steps[0].start_s > 0 or any(abs(b.start_s - a.end_s) > 0.011 for a, b in pairwise(steps)):
                raise Unreadable("an interval is missing from the log")
            if total.end_s < last.end_s - 0.01 - 0.02 * total.end_s or not _covered(s, total):
                raise Unreadable(f"the result contradicts its intervals: {total.text.strip()!r}")


def _covered(s: _Stream, total: Row) -> bool:
    """Whether the bytes of the intervals are not more than those of the result, and not far below."""
    each = [r.size_bytes for r, _ in s.rows[:-1]]
    slack = 0.05 * total.size_bytes + 2 * max(each)
    return abs(total.size_bytes - sum(each)) <= slack


def _check_retries(log: _Log, streams: dict[str, _Stream]) -> None:
    for s in streams.values():
        each = [counter(d["retr"]) for _, d in s.rows[:-1] if "retr" in d]
        total = counter(s.rows[-1][1]["retr"]) if s.rows and "retr" in s.rows[-1][1] else None
        if each and None not in each and total is not None and sum(e for e in each if e is not None) > total:
            log.warnings.append(f"the result counts {total} retransmits, its intervals more")


def _is_multicast(log: _Log) -> bool:
    try:
        return ipaddress.ip_address(str(log.parameters.get("server", ""))).is_multicast
    except ValueError:
        return False


def _datagrams(
    log: _Log, found: dict[str, float], streams: dict[str, _Stream], *, here_receives: bool, word: str
) -> None:
    """Take loss, jitter and latency from where the datagrams arrive: here, or in the server's reports."""
    views = [s.total if here_receives else s.report for s in streams.values()]
    seen = [v for v in views if v is not None and "lost" in v[1]]
    if len(seen) < len(views):
        raise Unreadable(
            "the server's report is missing: " + ("; ".join(log.errors) or "the log is cut short or damaged")
        )
    if not here_receives:
        found[f"throughput{word}_bps"] = sum(r.rate_bps for r, _ in seen)
        found[f"transferred{word}_bytes"] = sum(r.size_bytes for r, _ in seen)
    lost, packets = ([counter(d[k]) for _, d in seen] for k in ("lost", "total"))
    if not here_receives:
        for s in streams.values():
            received = counter(s.report[1]["total"]) if s.report else None
            if s.sent is not None and received is not None and received > s.sent + 2:
                raise Unreadable(f"the server reports {received} datagrams, and the client sent {s.sent}")
    for r, d in seen:
        percent, total = float(d["percent"]), counter(d["total"])
        if total and d["percent"] == "0" and 0 < int(d["lost"]) < 0.005 * total:  # some versions cut the share to 0
            log.warnings.append(f"the loss is left out, its share is given as 0 %: {r.text.strip()!r}")
            lost = [None]
            continue
        if total and abs(100 * int(d["lost"]) / total - percent) > 0.06 * percent + (0.5 if percent >= 10 else 1e-9):
            raise Unreadable(f"the loss contradicts itself: {r.text.strip()!r}")
    count = sum(p for p in packets if p)
    if None in packets or not count:
        return
    found[f"packets{word}_count"] = count
    if None not in lost:
        gone = sum(x for x in lost if x)
        found |= {f"lost{word}_count": gone, f"lost{word}_ratio": gone / count}
    found[f"jitter{word}_us"] = to_us(sum(float(d["jitter"]) for _, d in seen) / len(seen), "ms")
    if not word and log.disorder:
        found["out_of_order_count"] = sum(log.disorder.get(k, 0) for k in streams)


def _path(found: dict[str, float], streams: dict[str, _Stream], log: _Log) -> None:
    intervals = {k: s.rows[:-1] or s.rows for k, s in streams.items() if s.rows}
    _check_power([row for rows in intervals.values() for row in rows])
    rtts = [int(d["rtt"]) for rows in intervals.values() for _, d in rows if int(d.get("rtt", 0)) > 0]
    if rtts and not log.bounceback:
        found |= {
            "rtt_loaded_us": sum(rtts) / len(rtts),
            "rtt_loaded_min_us": min(rtts),
            "rtt_loaded_max_us": max(rtts),
        }
    windows = [[w for _, d in rows if (w := _window(d))] for rows in intervals.values()]
    if windows and all(windows):
        found |= {"cwnd_bytes": sum(w[-1] for w in windows), "cwnd_max_bytes": sum(max(w) for w in windows)}
    timed = [s.report or s.total for s in streams.values()]
    ways = [d for t in timed if t is not None for d in [t[1]] if "mean" in d]
    if len(ways) != 1:
        return  # the latencies of several streams cannot be merged into one distribution
    values = {k: to_us(float(ways[0][k]), ways[0]["unit"]) for k in ("mean", "low", "high", "stdev")}
    if not 0 <= values["low"] <= values["mean"] <= values["high"]:
        log.warnings.append("the latencies contradict each other, or the clocks of the hosts; they are left out")
        return
    kind = "rtt" if "bounces" in ways[0] else "latency_oneway_loaded"
    if kind != "rtt":
        log.warnings.append("the one-way latency rests on the clocks of both hosts being the same")
    for statistic, key in (("", "mean"), ("min_", "low"), ("max_", "high"), ("stdev_", "stdev")):
        found[f"{kind}_{statistic}us"] = values[key]
    if "bounces" in ways[0]:
        rate = ways[0].get("rps") or ways[0]["RPS"]
        found |= {"messages_count": int(ways[0]["bounces"]), "transaction_rate_per_s": int(rate)}


def _check_power(rows: list[tuple[Row, dict[str, Any]]]) -> None:
    """Compare round-trip times with the network power beside them: bytes per microsecond, over a round trip."""
    found = []
    for r, d in rows:
        power, rtt = d.get("power", "inf"), int(d.get("rtt", 0))
        if power not in ("inf", "NAN") and rtt and float(power) and r.rate_bps:
            slack = 2 * r.tolerance + 0.5 / rtt + 10.0 ** -len(power.partition(".")[2]) / float(power)
            found.append((r.rate_bps / 8 / rtt / float(power), slack, r))
    like = [share for share, _, _ in found if abs(share - 1) < 0.05]
    for share, slack, r in found:
        if len(like) > len(found) / 2 and abs(share - 1) > 0.05 + slack:
            raise Unreadable(f"the round-trip time contradicts the network power: {r.text.strip()!r}")


def _window(details: dict[str, Any]) -> float | None:
    if int(details.get("cwnd", -1)) <= 0:
        return None
    unit = details.get("cwnd_unit", "")
    return to_bytes(int(details["cwnd"]), unit + "i" if unit else "")


def _number(name: str) -> int:
    digits = re.search(r"\d+", name)
    return int(digits[0]) if digits else 0


def _intervals(log: _Log, *, salvage: bool) -> Any:
    """Return the rows that are not over the whole test, in the order of the log; of a damaged log every row."""
    found: list[Interval] = []
    both = len({s.reverse for s in log.streams.values() if s.rows}) > 1
    for name, s in sorted({**log.sums, **log.streams}.items()):
        if name.startswith("FD") or (name == "SUM" and both):
            continue  # a sum of both ways, or of one that it does not tell
        total = s.total
        if name == "SUM" and s.rows and len(s.rows) > 1 and s.rows[-1][0].start_s == s.rows[0][0].start_s:
            total = s.rows[-1]
        for r, d in s.rows:
            if total is not None and r is total[0] and not salvage:
                continue
            found.append(
                Interval(
                    stream=-1 if name == "SUM" else _number(name),
                    direction="reverse" if s.reverse else "forward",
                    row=r,
                    retransmits=counter(d["retr"]) if "retr" in d else None,
                    rtt_us=int(d["rtt"]) or None if "rtt" in d else None,
                    cwnd_bytes=_window(d),
                )
            )
    found.sort(key=lambda i: i.row.index)
    return columns(found, single=not any(i.stream == -1 for i in found))
