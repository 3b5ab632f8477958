"""iperf 2 (the program ``iperf``).

Throughput over TCP and UDP in one direction, as the end that printed it saw it.

No row is labelled as the result: it is the row that begins at the start of the test and that no row
continues. A TCP client knows only what it sent; the received data are in the server's log. For UDP
the server sends its report to the client. Text is read, plain and enhanced (``-e``); what goes both
ways, CSV and tests of messages are refused by name. Latencies of ``-e`` are not read: they rest on
the clocks of both hosts being the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from ..errors import UsageError
from .interface import Commands
from .iperf_rows import (
    BYTES,
    LOSS,
    Row,
    columns,
    complete_streams,
    connections,
    read_rows,
    row_pattern,
    take_loss,
    take_path,
    take_rate,
    total_of,
)
from .options import Option, arguments, bits_per_second, checked, levels
from .parsed import ParsedRun
from .request import Request
from .shared import Contradictory, Damaged, added, fill_run, found, line_start, or_above

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
    Option(
        "congestion", "word", "congestion control algorithm of TCP", "-Z", tests=("tcp",)
    ),
    Option("reverse", bool, "the server sends", "-R", default=False),
    Option(
        "nodelay",
        bool,
        "send small segments at once (TCP_NODELAY)",
        "-N",
        default=False,
        tests=("tcp",),
    ),
    Option(
        "interval_s", float, "time between two rows of the log", default=1.0, unit="s"
    ),
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
    """Return the argument lists of both ends for one trial.

    The received data are in the server's log.
    """
    settings = checked(request, TESTS, OPTIONS)
    if request.omit_s:
        raise UsageError(
            "iperf2 cannot leave out the first seconds; set omit_s to 0, or measure with iperf3"
        )
    # -f k: without it, figures are cut to three digits
    both = f"-p {port} -e -f k -i {float(settings.get('interval_s', 1)):g}".split()
    if ":" in server_address:
        both.append("-V")  # IPv6; without it the server listens on IPv4 only
    udp = request.test == "udp"
    client = ["iperf", "-c", server_address, *both, "-t", f"{request.duration_s:g}"]
    client += [*levels(request, streams="-P", buffer="-w", message="-l"), *["-u"][:udp]]
    server = [
        "iperf",
        "-s",
        *both,
        *levels(request, buffer="-w", message="-l" if udp else ""),
    ]
    if udp:
        server.append("-u")
        settings.setdefault("bitrate", "1M")
    return Commands(
        client=(*client, *arguments(OPTIONS, settings)),
        server=tuple(server),
        listens=((request.test, port),),
        timeout_s=request.duration_s + 30,
    )


def rate_bps(request: Request) -> float:
    """Return the bits per second that a trial sends.

    Without a rate, UDP 1 Mbit/s per stream, TCP `math.inf`.
    """
    rate = request.options.get("bitrate")
    if rate is None:
        return 1e6 * request.streams if request.test == "udp" else math.inf
    return bits_per_second(rate) * request.streams or math.inf


# --- where tests are -----------------------------------------------------------------------------

_START = re.compile(  # each begins with a literal character: the engine looks for these first
    r"Client connecting to (?P<target>\S+), (?:TCP|UDP) port(?P<client>)"
    r"|Server listening on (?:TCP|UDP) port(?P<server>)"
    r"|\[\s*[^\]\n]{1,20}\] local \S+ port \d+ connected with (?P<peer>\S+)(?P<local>)"
    r"|i(?<=\bi)perf: (?!done)\S(?P<error>)|listener bind failed|connect failed: ",
)
_ROW = re.compile(
    r"\[\s*[^\]\[\n]{1,20}?\s*\]\s*(\d+\.\d+)\s*-\s*\d+\.\d+\s+sec\s+[\d.]+ [KMGT]?B"
)
_CSV = re.compile(
    r"^(?:[-+]\d{4}:)?\d{14}(?:\.\d{3})?(?:[-+]\d{4})?,[^,\n]*,\d+,[^,\n]*,\d+,-?\d+,0\.0-",
    re.MULTILINE,
)
_RULE = re.compile(r"[ >]*-----")
_PROGRAM = re.compile(r"[^\[\n]*\biperf(?:\.exe)? +-|```|[^\s\[]*[$#] |#+ ")
"""A command, a prompt, a code fence or a heading: the program before it has ended."""
_HEAD = re.compile(r".*\n(?:\[.*\] local .*\n)*\[ ID\]")
_BEFORE_AN_ERROR = 60
"""Number of characters that may precede a message in its line."""
_BANNERS = {"client", "server"}


def find_runs(text: str) -> Iterator[int]:
    """Yield the offsets where a program starts."""
    if ",0.0-" in text and (m := _CSV.search(text)):
        yield m.start()
    seen: set[str] = set()
    peers: set[str] = set()
    last = 0
    for m in _START.finditer(text):
        kind, at = m.lastgroup or "error", line_start(text, m.start())
        row = _last_row(text, last, at) if seen else None
        if row:
            seen.add("row")
        if kind == "error":
            # an error before a banner is of the same program, and so is one before the rows
            new = "row" in seen
            if m.start() - at > _BEFORE_AN_ERROR:
                continue
        elif kind == "local":
            # a line of a connection and a head after a whole result begin the next test
            whole = row and float(row[1]) == 0
            new = bool(whole and not seen & _BANNERS and _HEAD.match(text, at))
        else:
            rule = or_above(text, at, _RULE)
            ended = "row" in seen and or_above(text, rule, _PROGRAM) < rule
            failed = "error" in seen and seen & _BANNERS
            # with -d and -r a server connects back to its client, in the same program
            back = m["target"] in peers and not ended
            new = bool(seen & {"row", kind} or failed) and not back
        last = m.end()
        if new or not seen:
            seen, peers = set(), set()
            yield or_above(text, at, _RULE)
        seen.add(kind)
        if kind == "local" and "client" not in seen:
            peers.add(m["peer"])


def _last_row(text: str, start: int, end: int) -> re.Match[str] | None:
    """Return the last row of a part of a text."""
    at = text.rfind("/sec", start, end)
    while at >= 0:
        above = line_start(text, at)
        if m := _ROW.search(text, above, at):
            return m
        at = text.rfind("/sec", start, above)
    return None


def read(text: str) -> list[ParsedRun]:
    """Read the test of one program."""
    form = next((option for mark, option in _NOT_READ.items() if mark in text), "")
    if all(mark in text for mark in MARKS[:2]):
        form = "-d or -r"
    if _CSV.match(text):
        form = "CSV (-y C)"
    if form:
        error = f"a log of iperf 2 with {form} is not read"
        return [ParsedRun(tool=NAME, error=error)]
    log = _log(text)
    run = fill_run(ParsedRun(tool=NAME), _fill, log)
    if log.rows and run.status == "failed":
        run.status, run.intervals = "partial", columns(log.rows)
    return [run]


# --- one test ------------------------------------------------------------------------------------

_NOT_READ = {
    "(full-duplex)": "--full-duplex",
    "[FD": "--full-duplex",
    "(bb ": "--bounceback",
    "BB cnt": "--bounceback",
    "bounceback": "--bounceback",
    "(isoch)": "--isochronous",
    "isochronous": "--isochronous",
    "Frames": "--isochronous",
    "Burst (start-end)": "--burst-size",
    "three-way-handshake (3WHS) only": "--connect-only",
}
"""What a log shows of an option with which it is not read."""
_ERROR = re.compile(
    # lines without any of these words are passed over
    r"^(?=.*(?:failed: |unable |iperf: |error: |WARNING: ))"
    r"(?!.*/sec).{0,60}?((?:tcp |udp )?connect failed: .+|unable to connect.*|iperf: .+"
    r"|(?:listener )?bind failed: .+|(?:write|read|recv|accept|getsockopt|setsockopt)\w* failed: .+"
    r"|(?<![^\s>])(?<!, )error: .+|WARNING: did not receive ack of last datagram.*)",
    re.MULTILINE,
)
_NOT_FATAL = ("listener", "recvack failed", "WARNING")
"""Messages after which the test goes on: a port that is taken, a server that is silent."""
_BANNER = re.compile(
    r"(?:Client connecting to|Server listening on) (?:(\S+), )?(TCP|UDP) port (\d+)"
)
_BUFFER = re.compile(
    r"TCP window size:\s*([\d.]+) ([KMG]?)Byte(?! \(default)(?:.*requested ([\d.]+) ([KMG]?)Byte)?"
)
_MESSAGE = re.compile(r"(?:Write buffer size|Sending|Receiving):? (\d+) [Bb]yte")
_REPORT = re.compile(r"Server Report:.*\n")
_SENT = re.compile(r"\[\s*\*?([^\]]+?)\s*\] Sent (\d+) datagrams\s*$", re.MULTILINE)
_FOUR = r"-?\d+(?:\.\d+)?(?:/ *-?\d+(?:\.\d+)?){3} ms"
_ROWS = row_pattern(
    r" +(?P<writes>\d+)/\d+(?:"
    # since 2.2 windows are also printed in packets; --histograms adds times of writes
    r" +(?P<retransmits>-?\d+)"
    r"(?: +(?:\d+[KM](?:\(\d+\))?/)?(?P<cwnd>-?\d+)(?P<unit>[KM])(?:\(\d+\))?"
    r"(?:/(?P<rtt>\d+)(?:\(\d+\))? us(?: +(?:\d+(?:\.\d+)?|inf|NAN)"
    r"(?: +[\d.]+(?:/[\d.]+){3} ms \(\d+\))?)?)?)?(?P<of_client>)"
    r"|(?:/\d+)? +-?\d+ pps(?P<of_udp>))"
    rf"|{LOSS}(?: +(?:{_FOUR}|-/-/-/- ms)(?: +-?\d+ pps.*)?)?(?P<of_loss>)"
    r"| +(?P<reads>\d+)(?:=| +)\d+(?::\d+){7}"
    # of the sum of UDP, of servers
    r"| +-?\d+/ *-?\d+ +\(-?(?:[\d.]+(?:e-\d+)?|nan|inf)%\)"
    rf"| +{_FOUR} \(\d+/\d+\)(?: .*)?|"
)
"""The last name that a row matches is that of its form."""
_CONNECT = re.compile(r"\[\s*([^\]]+?)\s*\] local .*\(ct=(\d+\.\d+) ms\)")
_CONNECTS = re.compile(
    r"final connect times \(min/avg/max/stdev\) = [\d.]+/([\d.]+)/\S+ ms"
)
_PROCESSES = "lines of two processes: "


@dataclass(frozen=True, slots=True)
class _Log:
    """What the lines of one test say."""

    text: str
    words: str
    """The text without its rows."""
    banners: list[tuple[str, str, str]]
    """Server, protocol and port."""
    direction: str
    rows: list[Row]
    streams: dict[str, list[Row]]
    reports: dict[str, Row]
    """The server's report in the log of a UDP client."""
    sent: dict[str, str]
    """The datagrams of each stream."""
    damage: Damaged | None


def _log(text: str) -> _Log:
    own, *others = _REPORT.split(text)
    rows, words, damage = read_rows(own, _ROWS)
    reports: dict[str, Row] = {}
    for part in others:
        # the report is the row below the words
        more, rest, wrong = read_rows(part, _ROWS)
        words += f"\n{rest}"
        damage = damage or wrong
        reports |= {row.name: row for row in more[:1]}
        rows += more[1:]
    direction = "forward"
    if re.search(r"\(reverse\)|\[ *\*", text):
        direction = "reverse"
    streams: dict[str, list[Row]] = {}
    for row in rows:
        row.direction = direction
        if row.stream != -1:
            streams.setdefault(row.name, []).append(row)
    banners, sent = _BANNER.findall(words), dict(_SENT.findall(words))
    return _Log(text, words, banners, direction, rows, streams, reports, sent, damage)


def _fill(run: ParsedRun, log: _Log) -> None:
    host, protocol, port = (log.banners or [("", "", "")])[-1]
    datagrams = any(row.match["lost"] for row in log.rows)
    if log.streams or port:
        run.test = "udp" if datagrams or protocol == "UDP" else "tcp"
    run.parameters["server"] = host or None
    if m := _BUFFER.search(log.words):
        size = float(m[3] or m[1]) * BYTES[m[4] or m[2]]
        run.parameters["tcp_buffer_bytes"] = int(size)
    if m := _MESSAGE.search(log.words):
        run.parameters["message_bytes"] = int(m[1])
    if log.streams:
        run.parameters |= {"protocol": run.test, "streams": len(log.streams)}
        run.parameters["direction"] = log.direction
    errors = list(map(str.strip, _ERROR.findall(log.words)))
    if fatal := [error for error in errors if not error.startswith(_NOT_FATAL)]:
        raise Damaged("; ".join(fatal))
    run.warnings += [error for error in errors if not error.startswith("WARNING")]
    if datagrams and protocol == "TCP":
        raise Contradictory(f"{_PROCESSES}datagrams under a banner of TCP")
    if log.damage:
        raise log.damage
    if log.rows and not log.streams and not errors:
        raise Damaged("a log of iperf 2 with --sum-only is not read")
    if not log.streams:
        raise Damaged((errors or ["the test did not run: there are no rows"])[0])
    _result(run, log)


def _result(run: ParsedRun, log: _Log) -> None:
    serving = _is_server(log)
    alone = not log.reports and not log.sent
    totals = _totals(log.streams, alone=alone)
    # what is torn before its last row ends with another one
    sums = [row for row in log.rows[-1:] if row.stream == -1 and row.start_s == 0]
    results = {id(row) for row in (*totals, *sums)}
    run.status = "partial"
    run.intervals = columns([row for row in log.rows if id(row) not in results])
    # a TCP client knows what it sends, and with -R what it receives
    receives = serving == (log.direction == "forward")
    foreign = "writes" if receives else "reads"
    if any(row.match[foreign] for row in totals):
        raise Damaged("rows of the other direction: a line is damaged")
    # the sum of a server that sends (2.1) is not that of its rows
    whole = total_of(run, totals if log.direction == "reverse" else [*sums, *totals])
    if not whole or whole.rate_bps == 0:
        raise Damaged("nothing was transferred")
    names = ("throughput_sent_bps", "sent_bytes")
    if receives:
        names = ("throughput_bps", "transferred_bytes")
    take_rate(run, whole, *names)
    run.metrics["duration_measured_s"] = whole.length_s
    run.metrics["retransmits_count"] = whole.retransmits_count
    intervals: list[Row] = []
    for first, *steps in log.streams.values():
        if steps and first.start_s > 0:
            raise Damaged("the first interval is missing")
        intervals += [first, *steps][:-1]
    by_name = {row.name: row for row in totals}
    take_path(run, intervals, complete_streams(intervals, by_name, 2))
    empty = sum(row.size_bytes == 0 for row in intervals)
    if 2 * empty > len(intervals):
        raise Damaged(
            f"nothing passed in {empty} of {len(intervals)} intervals: the network was lost, "
            "or the clock was stepped"
        )
    if run.test == "udp" and receives:
        take_loss(run, log.words, totals)
    elif run.test == "udp" and not serving:
        _reports(run, log, totals)
    timed = any(row.end_s == int(row.end_s) or row.match["retransmits"] for row in totals)
    if timed and alone and not intervals:
        run.warnings.append(
            "each stream has one row: the result, or the first interval of a log that was cut"
        )
    connects = dict(_CONNECT.findall(log.words))
    if mean := found(_CONNECTS, log.words):
        connects = dict.fromkeys(log.streams, mean)
    if len(connects) == len(totals):
        run.metrics["connect_us"] = 1e3 * fmean(map(float, connects.values()))


def _is_server(log: _Log) -> bool:
    """Return whether the log is the server's; refuse lines that are not of one test."""
    ends = connections(log.words)
    _, protocols, ports = map(set, zip(*(log.banners or [("", "", "5001")]), strict=True))
    hosts, here, there = set(), set(), set()
    for host, port, _, peer in ends.values():
        hosts.add(host)
        here.add(port)
        there.add(peer)
    if len(protocols) > 1 or len(hosts) > 1:
        raise Contradictory(f"{_PROCESSES}two protocols, or several addresses")
    if log.text.rfind("] local ") > log.text.find("/sec"):
        raise Damaged("several tests of one server: save the log of each by itself")
    if not log.banners and not ends:
        raise Damaged("the log does not say whether it is the client's or the server's")
    serving, served = here <= ports, there
    if log.banners:
        serving = not log.banners[0][0]
    if serving:
        served = here
    if not served <= ports:
        raise Damaged(f"a connection is not to port {', '.join(sorted(ports))}")
    if lost := log.streams.keys() ^ ends.keys():
        raise Damaged(f"stream {min(lost)} has no rows, or no line of its connection")
    return serving


def _totals(streams: dict[str, list[Row]], *, alone: bool) -> list[Row]:
    """Return the row over the whole test of each stream; `Damaged` if one has none."""
    if len({*map(len, streams.values())}) > 1:
        raise Damaged("rows of a stream are missing")
    totals = []
    for rows in streams.values():
        first, total = rows[0], rows[-1]
        totals.append(total)
        if any(row.match.lastgroup != first.match.lastgroup for row in rows):
            raise Damaged(f"a row is cut short: {total.text!r}")
        single = alone and len(rows) == 1
        if total.start_s > 0 or (single and _is_interval(total)):
            raise Damaged(
                "the test has no result: the log ends before the row over the whole test"
            )
    return totals


def _is_interval(row: Row) -> bool:
    """Return whether a row that stands alone may be an interval.

    These end on the clock of ``-i``.
    """
    digits = row.match["finish"].partition(".")[2]
    return digits.endswith("000") or (len(digits) < 4 and row.end_s <= 1)


def _reports(run: ParsedRun, log: _Log, totals: list[Row]) -> None:
    """Take the receiver's figures of UDP from the server's reports."""
    if not log.reports.keys() >= log.streams.keys():
        silent = "the log is cut short, damaged, or the server was silent"
        raise Damaged(f"the server's report is missing: {silent}")
    views = [log.reports[row.name] for row in totals]
    rate = added(row.rate_bps for row in views)
    if rate is None:
        run.warnings.append("the server's report is no number, and is left out")
        return
    sent = 0
    if log.sent.keys() >= log.streams.keys():
        sent = 2 + sum(int(log.sent[row.name]) for row in totals)
    take_loss(run, log.words, views, sent=sent)
    size = here = there = 0.0
    for whole, row in zip(totals, views, strict=True):
        if row.size_bytes > 1.1 * whole.size_bytes:
            raise Damaged(f"more received than sent: {row.text!r}")
        size += row.size_bytes
        here = max(here, whole.length_s)
        there = max(there, row.length_s)
    run.metrics["transferred_bytes"] = size
    if abs(here - there) <= 0.2 * there + 1:
        run.metrics["throughput_bps"] = rate
        return
    # the end whose intervals add up is believed
    run.warnings.append(
        f"a clock was stepped: {here:g} s at the client, {there:g} s at the server"
    )
    for rows in log.streams.values():
        rates = [row.rate_bps or 0 for row in rows[:-1]]
        if len(rates) < 2 or max(rates) >= 2 * min(rates):
            run.metrics |= {"throughput_sent_bps": None, "duration_measured_s": None}
