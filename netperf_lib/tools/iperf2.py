"""iperf 2 (the program ``iperf``): throughput over TCP and UDP in one direction, as the end that printed it saw it.

No row is labelled as the result: it is the row that begins at the start of the test and that no row continues. A TCP
client knows only what it sent; the received data are in the server's log. For UDP the server sends its report to the
client. Text is read, plain and enhanced (``-e``); what goes both ways, CSV and tests of messages are refused by name.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from ..errors import UsageError
from ..metrics import to_us
from .draft import Contradictory, Damaged, Draft, Figure, added, line_start, or_above
from .interface import Commands
from .iperf_rows import BYTES, LOSS, Interval, Row, columns, counter, is_share, row, stream_number
from .options import Option, arguments, bits_per_second, checked, levels
from .parsed import ParsedRun
from .request import Request

NAME = "iperf2"
PACKAGE = "iperf"
VERSION = ("iperf", "--version")
TESTS = LOAD_TESTS = ("tcp", "udp")
OPTIONS = (
    Option(
        "bitrate",
        "rate",
        "rate that each stream sends at; the default of UDP is 1M",
        "-b",
        unit="bit/s",
    ),
    Option("congestion", "word", "congestion control algorithm of TCP", "-Z", tests=("tcp",)),
    Option("reverse", bool, "the server sends", "-R", default=False),
    Option(
        "nodelay",
        bool,
        "send small segments at once (TCP_NODELAY)",
        "-N",
        default=False,
        tests=("tcp",),
    ),
    Option("interval_s", float, "time between two rows of the log", default=1.0, unit="s"),
)
MARKS = (
    "Client connecting to ",
    "Server listening on ",
    "connected with ",
    "connect failed",
    "iperf: ",
    ",0.0-",
)


def commands(request: Request, server_address: str, port: int) -> Commands:
    """Return the argument lists of both ends for one trial; the received data are in the server's log."""
    settings = checked(request, TESTS, OPTIONS)
    if request.omit_s:
        raise UsageError(
            "iperf2 cannot leave out the first seconds; set omit_s to 0, or measure with iperf3"
        )
    # -f k: without it, figures are cut to three digits
    both = ["-p", str(port), "-e", "-f", "k", "-i", f"{float(settings.get('interval_s', 1)):g}"]
    if ":" in server_address:
        both.append("-V")  # IPv6; without it the server listens on IPv4 only
    client = ["iperf", "-c", server_address, *both, "-t", f"{request.duration_s:g}"]
    server = ["iperf", "-s", *both]
    client += levels(request, streams="-P", buffer="-w", message="-l")
    server += levels(request, buffer="-w", message="-l" if request.test == "udp" else "")
    if request.test == "udp":
        client.append("-u")
        server.append("-u")
        settings.setdefault("bitrate", "1m")
    if "bitrate" in settings:
        # its own M is 2^20, its m 10^6
        settings["bitrate"] = f"{bits_per_second(settings['bitrate']):.0f}"
    return Commands(
        client=(*client, *arguments(OPTIONS, settings)),
        server=tuple(server),
        listens=(("udp" if request.test == "udp" else "tcp", port),),
        timeout_s=request.duration_s + 30,
    )


def rate_bps(request: Request) -> float:
    """Return the bits per second that a trial sends; without a rate, UDP 1 Mbit/s per stream, TCP `math.inf`."""
    rate = request.options.get("bitrate")
    if rate is None:
        return 1e6 * request.streams if request.test == "udp" else math.inf
    return bits_per_second(rate) * request.streams or math.inf


# --- where tests are --------------------------------------------------------------------------------------------------

_START = re.compile(  # each begins with a literal character: the engine looks for these first
    r"Client connecting to (?P<target>\S+), (?:TCP|UDP) port(?P<client>)"
    r"|Server listening on (?:TCP|UDP) port(?P<server>)"
    r"|\[\s*[^\]\n]{1,20}\] local \S+ port \d+ connected with (?P<peer>\S+)(?P<local>)"
    r"|\[\s*(?P<id>[^\]\[\n]{1,20}?)\s*\]\s*(?P<from>\d+\.\d+)\s*-\s*(?P<to>\d+\.\d+)\s+sec\s+[\d.]+ [KMGT]?B"
    r"(?P<row>)"
    r"|i(?<=\bi)perf: (?!done)\S(?P<error>)|listener bind failed|connect failed: ",
)
_CSV = re.compile(r"^\d{14}(?:\.\d{3})?(?:[-+]\d{4})?,[^,\n]*,\d+,[^,\n]*,\d+,-?\d+,0\.0-", re.M)
_RULE = re.compile(r"[ >]*-----")
_BEFORE_AN_ERROR = 60
"""Number of characters that may precede a message in its line."""


def sightings(text: str) -> Iterator[int]:
    """Yield the offsets where a program starts."""
    if m := _CSV.search(text):
        yield m.start()
    yield from (at for at, program in _tests(text) if program)


def _tests(text: str) -> Iterator[tuple[int, bool]]:
    """Yield the offsets where a test begins, and whether a program begins with it."""
    matches = list(_START.finditer(text))
    results = _results(matches)
    kind = ""
    rows = finished = False
    peers: set[str] = set()
    for number, m in enumerate(matches):
        now = m.lastgroup or "error"
        if now == "row":
            rows, finished = rows or bool(kind), number in results
            continue
        at = line_start(text, m.start())
        if now == "error" and (m.start() - at > _BEFORE_AN_ERROR or (kind and not rows)):
            # an error before a banner is of the same program, and one after it ends the program
            kind = "failed" if kind in ("client", "server", "local") else kind
            continue
        banner = now in ("client", "server")
        # with -d and -r a server connects back to its client: both directions are one program
        back = m["target"] in peers
        if banner and not back:
            program = new = not kind or rows or kind in ("failed", now)
        elif now == "local":
            new, program = not kind or finished, not kind
        else:
            new, program = not kind or now == "error", not kind or now == "error"
        if new:
            rows = finished = False
            peers = set() if program else peers
            yield or_above(text, at, _RULE) if banner else at, program
        if m["peer"]:
            peers.add(m["peer"])
        kind = kind if kind and not banner and not new else now


def _results(matches: list[re.Match[str]]) -> set[int]:
    """Return the rows over a whole test that has ended: no row of the same stream continues from there."""
    last: dict[str, int] = {}
    results: set[int] = set()
    for number, m in enumerate(matches):
        if not m["to"]:
            continue
        before = last.get(m["id"])
        if before is not None and abs(float(m["from"]) - float(matches[before]["to"])) < 0.011:
            results.discard(before)
        alone = before is None and float(m["to"]) == 1 and "SUM" not in m["id"]
        if float(m["from"]) == 0 and not alone:
            results.add(number)
        last[m["id"]] = number
    return results


def read(text: str) -> list[ParsedRun]:
    """Read the tests of one program."""
    if _CSV.match(text):
        error = "CSV (-y C) is not read, as it does not say which end printed it: leave out -y"
        return [Draft(NAME).run("failed", error)]
    if all(banner in text for banner in MARKS[:2]):
        return [Draft(NAME).run("failed", "a log of iperf 2 with -d or -r is not read")]
    inside = [at for at, _ in _tests(text)][1:]
    program = _Program()
    return [
        _test(text[start:end], _Log(Draft(NAME, 1 + text[:start].count("\n")), program))
        for start, end in pairwise([0, *inside, len(text)])
    ]


# --- lines ------------------------------------------------------------------------------------------------------------

_ERROR = re.compile(
    r".{0,60}?(?P<text>(?:tcp |udp )?connect failed: .+|unable to connect.*|iperf: .+|(?:listener )?bind failed: .+"
    r"|(?:write|read|recv|accept|getsockopt|setsockopt)\w* failed: .+|(?<![^\s>])(?<!, )error: .+"
    r"|WARNING: did not receive ack of last datagram.*)"
)
_NOT_FATAL = ("listener", "recvack failed")
"""Messages after which the test goes on: a port that is taken, a server that does not say its version."""
_OTHER_FORMS = (
    ("--full-duplex", re.compile(r"\(full-duplex\)|\[FD\d*\]")),
    ("--bounceback", re.compile(r"\(bb |BB cnt|bounceback")),
    ("--isochronous", re.compile(r"\(isoch\)|isochronous|Frames")),
    ("--burst-size", re.compile(r"Burst \(start-end\)")),
    ("--connect-only", re.compile(r"three-way-handshake \(3WHS\) only")),
)
"""Options with what their logs show."""
_LOCAL = re.compile(
    r"\[\s*(?P<id>[^\]]+?)\s*\] local (?P<host>[^\s%]+)\S* port (?P<here>\d+) connected with (?P<peer>\S+) port "
    r"(?P<there>\d+)(?P<remarks>.*)"
)
_PROCESSES = "lines of two processes: "
_FLOAT = r"-?\d+(?:\.\d+)?"
_PACKETS, _IN_FLIGHT = r"(?:\(\d+\))?", r"\d+[KM](?:\(\d+\))?"
"""Since 2.2 windows are also printed in packets."""
_FOUR = rf"(?P<mean>{_FLOAT})/\s*(?P<low>{_FLOAT})/\s*(?P<high>{_FLOAT})/\s*(?P<stdev>{_FLOAT}) (?P<unit>ms)"
_FORMS = (
    re.compile(
        r"\s+(?P<writes>\d+)/(?P<failed>\d+)\s+(?P<retr>-?\d+)"
        rf"(?:\s+(?:{_IN_FLIGHT}/)?(?P<cwnd>-?\d+)(?P<cwnd_unit>[KM]){_PACKETS}"
        r"(?:/(?P<rtt>\d+)(?:\(\d+\))? us(?:\s+(?:\d+(?:\.\d+)?|inf|NAN)"
        r"(?:\s+[\d.]+(?:/[\d.]+){3} ms \(\d+\))?)?)?)?\s*$"  # --histograms: times of writes
    ),
    re.compile(r"\s+(?P<writes>\d+)/(?P<failed>\d+)(?:/\d+)?\s+(?P<pps>-?\d+) pps\s*$"),
    re.compile(LOSS + rf"(?:\s+(?:{_FOUR}|-/-/-/- ms)(?:\s+(?P<pps>-?\d+) pps(?P<more>.*))?)?\s*$"),
    # since 2.1 the sum of UDP has no jitter
    re.compile(
        r"\s+(?P<lost>-?\d+)/\s*(?P<total>-?\d+)\s+\((?P<percent>-?[\d.]+(?:e-\d+)?|-?nan)%\)\s*$"
    ),
    re.compile(rf"\s+{_FOUR} \((?P<bursts>\d+)/(?P<burst>\d+)\)(?P<more>\s.*)?$"),
    re.compile(r"\s+(?P<reads>\d+)(?:=|\s+)\d+(?::\d+){7}\s*$"),
)
_DISORDER = re.compile(
    r"\[\s*(?P<id>[^\]]+?)\s*\] .*?sec\s+(?P<count>\d+) datagrams received out-of-order"
)
_REPORT = re.compile(r"[^\[]{0,80}\[\s*([^\]]+?)\s*\] (?:Sent (\d+) datagrams|Server Report:)\s*$")
_BANNER = re.compile(
    r"(?:Client connecting to|Server listening on) (?:(\S+), )?(TCP|UDP) port (\d+)"
)
_BUFFER = re.compile(r"(TCP window|UDP buffer) size:\s*([\d.]+) ([KMG]?)Byte(.*)")
_MESSAGE = re.compile(r"(?:Write buffer size|Sending|Receiving):? (\d+) [Bb]yte")
_CONNECT = re.compile(
    r"\[ CT\] final connect times \(min/avg/max/stdev\) = [\d.]+/(?P<mean>[\d.]+)/\S+ (?P<unit>[mun]?s)\b"
)

_Result = tuple[Row, dict[str, Any]]
"""A row, and the figures after its rate."""


@dataclass
class _Stream:
    """One connection: its rows in order."""

    rows: list[_Result] = field(default_factory=list)
    report: _Result | None = None
    """The server's report, in the log of a UDP client."""
    sent: int | None = None
    """Datagrams that the UDP client reports as sent."""

    @property
    def steps(self) -> list[Row]:
        """The intervals before the last row."""
        return [r for r, _ in self.rows[:-1]]


@dataclass
class _Program:
    """What the lines say about the program that printed them; valid for all its tests."""

    serving: bool | None = None
    """Whether it is the server; None: no line says."""
    ports: set[str] = field(default_factory=set)
    """Ports that its banners name."""
    port: int | None = None
    server: str | None = None
    udp: bool | None = None


@dataclass
class _Log:
    """What the lines of one test say."""

    draft: Draft
    program: _Program
    udp: bool | None = None
    ways: set[bool] = field(default_factory=set)
    """Whether the connections are marked as reversed."""
    ports: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Stream -> local and remote port of its connection."""
    hosts: set[tuple[str, str]] = field(default_factory=set)
    streams: dict[str, _Stream] = field(default_factory=dict)
    sums: list[_Result] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    damage: str | Damaged | None = None
    disorder: dict[str, int] = field(default_factory=dict)
    connect_us: list[float] = field(default_factory=list)
    connect_mean_us: float | None = None
    columns: str = ""
    """The columns after the rate, from the table head."""

    @property
    def reverse(self) -> bool:
        """Whether the server sends."""
        return True in self.ways

    def damaged(self, error: str | Damaged) -> None:
        """Keep the first error."""
        self.damage = self.damage or error


def _test(text: str, log: _Log) -> ParsedRun:
    """Read one test."""
    for option, pattern in _OTHER_FORMS:
        if pattern.search(text):
            return log.draft.run("failed", f"a log of iperf 2 with {option} is not read")
    reports: set[str] = set()
    for index, line in enumerate(text.split("\n")):
        if "[" in line and _special(log, line, reports):
            continue
        try:
            entry = row(line, index)
        except Damaged as error:
            log.damaged(error)
            continue
        if entry is not None:
            _take(log, entry, reports)
        else:
            _context(log, line)
    return _run(log)


def _special(log: _Log, line: str, reports: set[str]) -> bool:
    """Read a line in brackets that is not a row of figures; return whether it was such a line."""
    if "datagrams" in line and (m := _DISORDER.search(line)):
        log.disorder[m["id"].removeprefix("*")] = int(m["count"])
    elif " local " in line and (m := _LOCAL.search(line)):
        _connection(log, m)
    elif ("Sent " in line or "Report:" in line) and (m := _REPORT.match(line)):
        log.udp = True
        if m[2] is None:
            reports.add(m[1].removeprefix("*"))
        elif stream := log.streams.get(m[1].removeprefix("*")):
            stream.sent = int(m[2])
    elif "[ ID]" in line and "Interval" in line:
        log.columns = line.partition("Bandwidth")[2].strip()
    elif "[ CT]" in line and (m := _CONNECT.search(line)):
        log.connect_mean_us = to_us(float(m["mean"]), m["unit"])
    else:
        return False
    return True


def _connection(log: _Log, m: re.Match[str]) -> None:
    program, ends = log.program, (m["here"], m["there"])
    name = m["id"].removeprefix("*")
    if program.serving is None and "5001" in ends:
        program.serving = ends[0] == "5001"
    if log.ports.setdefault(name, ends) != ends:
        log.damaged(Contradictory(f"{_PROCESSES}two connections of stream {name}"))
    log.hosts.add((re.sub(r"^127\..*", "127", m["host"]), m["peer"]))
    log.ways.add("(reverse)" in m["remarks"] or name != m["id"])
    if c := re.search(r"\(ct=(\d+\.\d+) ms\)", m["remarks"]):
        log.connect_us.append(to_us(float(c[1]), "ms"))


def _context(log: _Log, line: str) -> None:
    program, parameters = log.program, log.draft.parameters
    if " port " in line and (m := _BANNER.search(line)):
        if program.udp is not None and program.udp != (m[2] == "UDP"):
            log.damaged(Contradictory(f"{_PROCESSES}banners of both protocols"))
        program.udp = log.udp = m[2] == "UDP"
        program.serving, program.port, program.server = not m[1], int(m[3]), m[1]
        program.ports.add(m[3])
    elif " size:" in line and (m := _BUFFER.search(line)):
        requested = re.search(r"requested ([\d.]+) ([KMG]?)Byte", m[4])
        size, unit = (requested[1], requested[2]) if requested else (m[2], m[3])
        if requested or ("default" not in m[4] and m[1] == "TCP window"):
            parameters["tcp_buffer_bytes"] = int(float(size) * BYTES[unit])
    elif m := _MESSAGE.search(line):
        parameters["message_bytes"] = int(m[1])
    elif m := _ERROR.match(line):
        log.errors.append(m["text"].strip())


def _take(log: _Log, entry: Row, reports: set[str]) -> None:
    """Add a row; it is the server's report if `reports` contains its stream."""
    program = log.program
    forms = (form.match(entry.figures) for form in _FORMS)
    m = next(filter(None, forms), None)
    details = {k: v for k, v in m.groupdict().items() if v is not None} if m else {}
    summed = entry.stream.startswith("SUM")
    if entry.figures.strip() and not m:
        log.damaged(f"a row is damaged, cut short or of an unknown form: {entry.text.strip()!r}")
        return
    name = entry.stream.removeprefix("*")
    log.ways |= {True} if name != entry.stream else set()
    stream = log.streams.setdefault(name, _Stream()) if not summed else _Stream()
    reported = name in reports
    before = stream.rows[-1][1] if stream.rows else {}
    if not summed and not reported and _is_short(log, entry, details, before):
        log.damaged(f"a row is cut short: {entry.text.strip()!r}")
        return
    log.udp = log.udp or "lost" in details
    if log.udp and program.udp is False:
        log.damaged(Contradictory(f"{_PROCESSES}datagrams under a banner of TCP"))
    if summed:
        log.sums.append((entry, details))
    elif reported:
        reports.discard(name)
        stream.report = entry, details
    else:
        stream.rows.append((entry, details))


def _is_short(log: _Log, entry: Row, details: dict[str, Any], before: dict[str, Any]) -> bool:
    """Return whether a row lacks what the head of its table or the row before it has."""
    late = "lost" in details and "mean" not in details and "-/-" not in entry.figures
    return (
        (late and "Latency" in log.columns)
        or ("retr" in details and "cwnd" not in details and "Cwnd" in log.columns)
        or (not details and bool(before or log.columns.startswith("Write/Err")))
    )


# --- the result -------------------------------------------------------------------------------------------------------


def _run(log: _Log) -> ParsedRun:
    """Return the run that the collected lines tell."""
    draft, program = log.draft, log.program
    streams = {name: s for name, s in log.streams.items() if s.rows}
    fatal = [e for e in log.errors if not e.startswith((*_NOT_FATAL, "WARNING"))]
    draft.warnings += [e for e in log.errors if e.startswith(_NOT_FATAL)]
    error: str | Damaged | None = "; ".join(fatal) or log.damage
    if error is None and not streams:
        error = (log.errors or ["the test did not run: there are no rows"])[0]
    totals: dict[str, Row] = {}
    if error is None:
        try:
            _refuse_processes(log, streams)
            totals = _totals(log, streams)
            _metrics(log, streams, totals)
        except Damaged as damage:
            error = damage
    draft.intervals = columns(_intervals(log, streams, totals))
    draft.parameters |= {"port": program.port, "server": program.server}
    if streams or program.port:
        draft.test = "udp" if log.udp else "tcp"
    if streams:
        draft.parameters |= {
            "protocol": draft.test,
            "streams": len(streams),
            "direction": "reverse" if log.reverse else "forward",
        }
    return draft.run("ok" if error is None else "partial" if streams else "failed", error)


def _refuse_processes(log: _Log, streams: dict[str, _Stream]) -> None:
    """Refuse lines that cannot be of one test of one program."""
    program = log.program
    if program.serving is None:
        raise Damaged(
            "the log does not say whether it is the client's or the server's: its head is missing"
        )
    if len({here for here, _ in log.hosts}) > 1:
        raise Contradictory(f"{_PROCESSES}connections of several addresses")
    ends = [pair[not program.serving] for pair in log.ports.values()]
    # --incr-dstport counts up from the port of the banner
    ports = program.ports or {"5001"}
    known = {str(int(port) + step) for port in ports for step in range(len(ends))}
    if not set(ends) <= known:
        raise Damaged(f"a connection is not to port {', '.join(sorted(ports))}")
    if len(log.ways) > 1:
        raise Damaged("a log of iperf 2 with -d or -r is not read")
    lost = [name for name in streams if name not in log.ports]
    if lost and (log.ports or program.serving or log.reverse):
        raise Damaged(f"stream {lost[0]} has rows, but no line of its connection")
    sends = bool(program.serving) == log.reverse
    details = [d for s in streams.values() for _, d in s.rows]
    if any("reads" in d if sends else "writes" in d for d in details):
        raise Damaged("rows of the other direction: a line is damaged")


def _totals(log: _Log, streams: dict[str, _Stream]) -> dict[str, Row]:
    """Return the row over the whole test of each stream; `Damaged` if one has none."""
    alone = {name for name, s in streams.items() if len(s.rows) == 1}
    known = {n for n in alone if streams[n].report or streams[n].sent is not None}
    known |= {n for n in alone if not _is_interval(streams[n].rows[0])}
    known = alone if known else known
    totals = {
        name: s.rows[-1][0]
        for name, s in streams.items()
        if s.rows[-1][0].start_s == 0 and (name in known or name not in alone)
    }
    if len(totals) < len(streams) or len(log.ports) > len(streams):
        raise Damaged("the test has no result: the log ends before the row over the whole test")
    for name, s in streams.items():
        _refuse_gaps(log, s.steps, totals[name])
    return totals


def _is_interval(alone: _Result) -> bool:
    """Return whether a row that stands alone is the first interval of a test that has no result.

    Intervals end exactly on the clock of ``-i``. The result of TCP does not where times are printed to 0.1 ms. Where
    they are printed to 0.1 s, and for datagrams, only an interval of one second (or less, of TCP) is known as such.
    """
    line, details = alone
    if len(line.text.partition(" sec")[0].rpartition(".")[2].strip()) < 4:
        return line.end_s <= 1
    step = 0.05 if line.end_s < 1 else 0.1
    on_clock = abs(line.end_s / step - round(line.end_s / step)) < 1e-6
    return line.end_s == 1 or (on_clock and "lost" not in details)


def _refuse_gaps(log: _Log, steps: list[Row], total: Row) -> None:
    """Refuse missing intervals, and a test that lasted long after its last one: it stalled."""
    if not steps:
        return
    last = steps[-1]
    if total.end_s - last.end_s > 1.005 * max(r.length_s for r in steps):
        error = f"they end at {last.end_s:g} s, and the test after {total.end_s:g} s"
        if total.end_s - last.end_s > 0.1 * total.end_s:
            raise Damaged(f"intervals are missing, or the test stalled: {error}")
        log.draft.warnings.append(f"the last intervals are missing: {error}")
    if steps[0].start_s > 0 or any(abs(b.start_s - a.end_s) > 0.011 for a, b in pairwise(steps)):
        raise Damaged("an interval is missing from the log")
    # the intervals have the bytes of the result, except for the last ones
    sizes = [r.size.value for r in steps]
    covered = abs(total.size.value - sum(sizes)) <= 0.05 * total.size.value + 2 * max(sizes)
    if total.end_s < last.end_s - 0.01 - 0.02 * total.end_s or not covered:
        raise Contradictory(f"the result contradicts its intervals: {total.text.strip()!r}")


def _metrics(log: _Log, streams: dict[str, _Stream], totals: dict[str, Row]) -> None:
    metrics, warnings = log.draft.metrics, log.draft.warnings
    # a TCP client knows what it sends, and with -R what it receives
    here_receives = log.program.serving != log.reverse
    rate, size, length = _total(log, streams, totals)
    sent, side = ("", "transferred") if here_receives else ("_sent", "sent")
    metrics |= {
        f"throughput{sent}_bps": rate,
        f"{side}_bytes": size,
        "duration_measured_s": length,
    }
    steps = [r for s in streams.values() for r in s.steps]
    if 2 * (empty := sum(not r.size.value for r in steps)) > len(steps):
        warnings.append(
            f"nothing passed in {empty} of {len(steps)} intervals: the network was lost, or the clock was stepped"
        )
    alone = [s for s in streams.values() if len(s.rows) == 1 and not s.report and s.sent is None]
    if alone and any(r.end_s == int(r.end_s) for r in totals.values()):
        warnings.append(
            "each stream has one row: the result, or the first interval of a log that was cut"
        )
    if log.udp and (here_receives or not (log.program.serving or _is_multicast(log))):
        _datagrams(log, streams, totals, here_receives=here_receives)
    reported = [s.report[0].length_s for s in streams.values() if s.report]
    if reported and abs(length - max(reported)) > 0.2 * max(reported) + 1:
        _choose_clock(log, streams, length, max(reported))
    metrics["retransmits_count"] = added(_retries(s.rows[-1][1]) for s in streams.values())
    _path(log, streams)
    if log.connect_mean_us is not None:
        metrics["connect_us"] = log.connect_mean_us
    elif log.connect_us and len(log.connect_us) == len(log.ports):
        metrics["connect_us"] = sum(log.connect_us) / len(log.connect_us)


def _total(
    log: _Log, streams: dict[str, _Stream], totals: dict[str, Row]
) -> tuple[float, float, float]:
    """Return rate, bytes and seconds of all streams; the row [SUM] must be their sum."""
    rows = list(totals.values())
    lengths = [r.length_s for r in rows]
    size = Figure.sum([r.size for r in rows])
    # the sum of a server that sends (2.1) is not that of its rows
    summed = log.sums if not log.reverse else []
    last = summed[-1][0] if summed and not summed[-1][0].start_s else None
    if len(rows) == 1 and (last is None or last.size.agrees(size, 1e-3)):
        return rows[0].rate_bps, size.value, lengths[0]
    # 2.2 sometimes counts the last write of a stream a second late; the sum is then as long as another stream
    if last and any(abs(last.length_s - length) <= 0.1 * length + 0.1 for length in lengths):
        if last.size.agrees(size, 1e-3):
            return last.rate_bps, last.size.value, last.length_s
        # iperf 2.0.5 as a server counts the first interval twice in [SUM]
        twice = Figure.sum([size, *(s.rows[0][0].size for s in streams.values())])
        if not last.size.agrees(twice, 1e-3):
            raise Contradictory(
                f"the row of the sum contradicts its streams: {last.text.strip()!r}"
            )
        log.draft.warnings.append("the row [SUM] counts the first interval twice")
    elif max(lengths) - min(lengths) > 1:
        raise Damaged("the row of the sum of the result is missing")
    else:
        log.draft.warnings.append("there is no row [SUM] of the result; the streams are added")
    # rates over different times do not add up
    even = max(lengths) < 1.01 * min(lengths)
    rate = sum(r.rate_bps for r in rows) if even else size.value * 8 / max(lengths)
    return rate, size.value, max(lengths)


def _choose_clock(log: _Log, streams: dict[str, _Stream], here: float, there: float) -> None:
    """Leave out the rate of the end whose clock was stepped; of both where no interval tells which."""
    metrics = log.draft.metrics
    rates = [[r.rate_bps for r in s.steps] for s in streams.values()]
    known = all(len(each) > 1 for each in rates)
    even = known and all(max(each) < 2 * min(each) for each in rates)
    if not even:
        metrics["throughput_sent_bps"] = None
        metrics["duration_measured_s"] = there if known else None
    if even or not known:
        metrics["throughput_bps"] = None
    end = "the server's clock" if even else "the client's clock" if known else "a clock"
    log.draft.warnings.append(
        f"{end} was stepped: {here:g} s at the client, {there:g} s at the server"
    )


def _retries(details: dict[str, Any]) -> int | None:
    return counter(details["retr"]) if "retr" in details else None


def _is_multicast(log: _Log) -> bool:
    try:
        return ipaddress.ip_address(log.program.server or "").is_multicast
    except ValueError:
        return False


def _datagrams(
    log: _Log, streams: dict[str, _Stream], totals: dict[str, Row], *, here_receives: bool
) -> None:
    """Take loss, jitter and latency from the receiver: this end, or the server's reports."""
    metrics = log.draft.metrics
    views = [s.rows[-1] if here_receives else s.report for s in streams.values()]
    seen = [v for v in views if v is not None and "jitter" in v[1]]
    if len(seen) < len(views):
        why = (log.errors or ["the log is cut short or damaged"])[0]
        raise Damaged(f"the server's report is missing: {why}")
    lost, packets = ([counter(d[k]) for _, d in seen] for k in ("lost", "total"))
    if not here_receives:
        metrics["throughput_bps"] = sum(r.rate_bps for r, _ in seen)
        metrics["transferred_bytes"] = sum(r.size.value for r, _ in seen)
        for (name, s), (report, _), arrived in zip(streams.items(), seen, packets, strict=True):
            if s.sent is not None and arrived is not None and arrived > s.sent + 2:
                raise Damaged(f"the server reports {arrived} datagrams, the client sent {s.sent}")
            if report.size.value > 1.1 * totals[name].size.value:
                raise Damaged(f"more data than the client sent: {report.text.strip()!r}")
    for position, (r, d) in enumerate(seen):
        total = packets[position]
        if total and d["percent"] == "0" and 0 < int(d["lost"]) < 0.005 * total:
            # some versions print this share as 0
            log.draft.warnings.append(f"the loss is left out, its share is 0 %: {r.text.strip()!r}")
            lost[position] = None
        elif total and not is_share(float(d["percent"]), int(d["lost"]), total):
            raise Contradictory(f"the loss contradicts itself: {r.text.strip()!r}")
    if not (count := added(packets)):
        return
    metrics["packets_count"] = count
    if (gone := added(lost)) is not None:
        metrics |= {"lost_count": gone, "lost_ratio": gone / count}
    metrics["jitter_us"] = to_us(sum(float(d["jitter"]) for _, d in seen) / len(seen), "ms")
    if log.disorder:
        metrics["out_of_order_count"] = sum(log.disorder.get(name, 0) for name in streams)


def _path(log: _Log, streams: dict[str, _Stream]) -> None:
    """Take round trips under load, windows, and the latencies of messages."""
    metrics = log.draft.metrics
    intervals = [s.rows[:-1] or s.rows for s in streams.values()]
    complete = all(
        not s.steps or s.rows[-1][0].end_s - s.steps[-1].end_s <= 0.5 * s.steps[0].length_s
        for s in streams.values()
    )
    if complete:
        rtts = [int(d["rtt"]) for rows in intervals for _, d in rows if int(d.get("rtt", 0))]
        if rtts:
            metrics["rtt_loaded_us"] = sum(rtts) / len(rtts)
            metrics |= {"rtt_loaded_min_us": min(rtts), "rtt_loaded_max_us": max(rtts)}
        windows = [[w for _, d in rows if (w := _window(d))] for rows in intervals]
        if windows and all(windows):
            metrics["cwnd_bytes"] = sum(w[-1] for w in windows)
            metrics["cwnd_max_bytes"] = sum(max(w) for w in windows)
    timed = [(s.report or s.rows[-1])[1] for s in streams.values()]
    if len(timed) != 1 or "mean" not in timed[0]:
        return  # the latencies of several streams cannot be merged into one distribution
    mean, low, high, stdev = (
        to_us(float(timed[0][k]), timed[0]["unit"]) for k in ("mean", "low", "high", "stdev")
    )
    if not 0 <= low <= mean <= high:
        log.draft.warnings.append(
            "the latencies, or the clocks of the hosts, contradict each other"
        )
        return
    named = {"": mean, "min_": low, "max_": high, "stdev_": stdev}
    metrics |= {f"latency_oneway_loaded_{name}us": value for name, value in named.items()}
    log.draft.warnings.append(
        "the one-way latency rests on the clocks of both hosts being the same"
    )


def _window(details: dict[str, Any]) -> float | None:
    size = int(details.get("cwnd", -1))
    return size * BYTES[details["cwnd_unit"]] if size > 0 else None


def _intervals(log: _Log, streams: dict[str, _Stream], totals: dict[str, Row]) -> list[Interval]:
    """Return the rows that are not over the whole test, in log order; every row of a damaged log."""
    direction = "reverse" if log.reverse else "forward"
    named = [(stream_number(name), s.rows) for name, s in streams.items()]
    named += [(-1, log.sums)]
    whole = [r.index for r in totals.values()]
    if totals and log.sums and log.sums[-1][0].start_s == 0:
        whole.append(log.sums[-1][0].index)
    intervals = [
        Interval(
            stream=number,
            direction=direction,
            row=r,
            retransmits=_retries(d),
            rtt_us=int(d.get("rtt", 0)) or None,
            cwnd_bytes=_window(d),
        )
        for number, rows in named
        for r, d in rows
        if r.index not in whole
    ]
    return sorted(intervals, key=lambda i: (i.row.index, i.stream))
