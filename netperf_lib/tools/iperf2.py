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
from functools import lru_cache
from typing import Any

from ..errors import UsageError
from .interface import Commands
from .iperf_rows import (
    BYTES,
    LOSS,
    Row,
    check_intervals,
    check_sum,
    columns,
    counter,
    read_rows,
    take_loss,
    take_path,
)
from .options import Option, arguments, bits_per_second, checked, levels
from .parsed import ParsedRun
from .request import Request
from .shared import Contradictory, Damaged, added, fill_run, line_start, or_above

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
    r"|\[\s*[^\]\[\n]{1,20}?\s*\]\s*(?P<begin>\d+\.\d+)\s*-\s*\d+\.\d+\s+sec\s+[\d.]+ [KMGT]?B"
    r"(?P<row>)"
    r"|i(?<=\bi)perf: (?!done)\S(?P<error>)|listener bind failed|connect failed: ",
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


def find_runs(text: str) -> Iterator[int]:
    """Yield the offsets where a program starts."""
    if m := _CSV.search(text):
        yield m.start()
    seen: set[str] = set()
    peers: set[str] = set()
    whole = False
    """Whether the last row may be a result."""
    for m in _START.finditer(text):
        now = m.lastgroup or "error"
        at = line_start(text, m.start())
        if (now == "row" and not seen) or (
            now == "error" and m.start() - at > _BEFORE_AN_ERROR
        ):
            continue
        # an error before a banner is of the same program, and so is one before the rows
        new = not seen or ("row" in seen and now == "error")
        if now in ("client", "server") and seen:
            failed = "error" in seen and not seen.isdisjoint(("client", "server"))
            # with -d and -r a server connects back to its client, in the same program
            new = "row" in seen or now in seen or failed
            rule = or_above(text, at, _RULE)
            ended = "row" in seen and or_above(text, rule, _PROGRAM) < rule
            new = new and (ended or m["target"] not in peers)
        elif now == "local" and whole and seen.isdisjoint(("client", "server")):
            # a line of a connection and a head after a whole result begin the next test
            new = new or _HEAD.match(text, at) is not None
        if now == "row":
            whole = float(m["begin"]) == 0
        if new:
            whole = now == "row" and whole
            seen, peers = set(), set()
            yield or_above(text, at, _RULE)
        seen.add(now)
        peers |= {m["peer"]} if m["peer"] and "client" not in seen else set()


def read(text: str) -> list[ParsedRun]:
    """Read the test of one program."""
    forms = [
        form for form, words in _NOT_READ.items() if any(map(text.__contains__, words))
    ]
    if all(mark in text for mark in MARKS[:2]):
        forms.insert(0, "-d or -r")
    if re.match(r"(?:[-+]\d{4}:)?\d{14}[^ ]*,", text):
        forms.insert(0, "CSV (-y C)")
    if forms:
        error = f"a log of iperf 2 with {forms[0]} is not read"
        return [ParsedRun(tool=NAME, error=error)]
    return [fill_run(ParsedRun(tool=NAME), _fill, text)]


# --- one test ------------------------------------------------------------------------------------

_NOT_READ = {
    "--full-duplex": ("(full-duplex)", "[FD"),
    "--bounceback": ("(bb ", "BB cnt", "bounceback"),
    "--isochronous": ("(isoch)", "isochronous", "Frames"),
    "--burst-size": ("Burst (start-end)",),
    "--connect-only": ("three-way-handshake (3WHS) only",),
}
"""Options with what their logs show."""
_ERROR = re.compile(
    r"^.{0,60}?((?:tcp |udp )?connect failed: .+|unable to connect.*|iperf: .+"
    r"|(?:listener )?bind failed: .+|(?:write|read|recv|accept|getsockopt|setsockopt)\w* failed: .+"
    r"|(?<![^\s>])(?<!, )error: .+|WARNING: did not receive ack of last datagram.*)",
    re.MULTILINE,
)
_COMPLAINTS = ("failed: ", "unable to connect", "iperf: ", "error: ", "WARNING: ")
"""An error has one of these."""
_NOT_FATAL = ("listener", "recvack failed", "WARNING")
"""Messages after which the test goes on: a port that is taken, a server that is silent."""
_BANNER = re.compile(
    r"(?:Client connecting to|Server listening on) (?:(\S+), )?(TCP|UDP) port (\d+)"
)
_LOCAL = re.compile(
    r"\[\s*\*?([^\]]+?)\s*\] local ([^\s%]+)\S* port (\d+) connected with \S+ port (\d+)"
)
_BUFFER = re.compile(
    r"TCP window size:\s*([\d.]+) ([KMG]?)Byte(?! \(default)(?:.*requested ([\d.]+) ([KMG]?)Byte)?"
)
_MESSAGE = re.compile(r"(?:Write buffer size|Sending|Receiving):? (\d+) [Bb]yte")
_SENT = re.compile(r"\[\s*\*?([^\]]+?)\s*\] Sent (\d+) datagrams\s*$", re.MULTILINE)
_FOUR = r"-?\d+(?:\.\d+)?(?:/\s*-?\d+(?:\.\d+)?){3} ms"
_FIGURES = [
    re.compile(form)
    for form in (
        r"\s*$",
        # since 2.2 windows are also printed in packets; --histograms adds times of writes
        (
            r"\s+(?P<writes>\d+)/\d+\s+(?P<retransmits>-?\d+)"
            r"(?:\s+(?:\d+[KM](?:\(\d+\))?/)?(?P<cwnd>-?\d+)(?P<unit>[KM])(?:\(\d+\))?"
            r"(?:/(?P<rtt>\d+)(?:\(\d+\))? us(?:\s+(?:\d+(?:\.\d+)?|inf|NAN)"
            r"(?:\s+[\d.]+(?:/[\d.]+){3} ms \(\d+\))?)?)?)?\s*$"
        ),
        rf"{LOSS}(?:\s+(?:{_FOUR}|-/-/-/- ms)(?:\s+-?\d+ pps.*)?)?\s*$",
        # of a UDP client, of the sum of UDP, of servers
        r"\s+(?P<writes>\d+)/\d+(?:/\d+)?\s+-?\d+ pps\s*$",
        r"\s+-?\d+/\s*-?\d+\s+\(-?(?:[\d.]+(?:e-\d+)?|nan|inf)%\)\s*$",
        rf"\s+{_FOUR} \(\d+/\d+\)(?:\s.*)?$",
        r"\s+(?P<reads>\d+)(?:=|\s+)\d+(?::\d+){7}\s*$",
    )
]
"""What may follow the rate in a row."""


@lru_cache(1 << 14)
def _details(figures: str) -> dict[str, str] | None:
    """Return what follows the rate, by name; None if iperf does not print it."""
    m = next(filter(None, (form.match(figures) for form in _FIGURES)), None)
    return m and m.groupdict()


_CONNECT = re.compile(r"\[\s*([^\]]+?)\s*\] local .*\(ct=(\d+\.\d+) ms\)")
_CONNECTS = re.compile(
    r"final connect times \(min/avg/max/stdev\) = [\d.]+/([\d.]+)/\S+ ms"
)
_PROCESSES = "lines of two processes: "


class _Log:
    """The rows of one test."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.banners = _BANNER.findall(text)
        self.connections = _LOCAL.findall(text)
        self.sent = {name: int(number) for name, number in _SENT.findall(text)}
        self.reverse = re.search(r"\(reverse\)|\[ *\*", text) is not None
        self.rows: list[Row] = []
        self.streams: dict[str, list[Row]] = {}
        self.reports: dict[str, Row] = {}
        """The server's report in the log of a UDP client."""
        self.damage = read_rows(text, self._take)

    def _take(self, row: Row, above: str) -> None:
        details = _details(row.figures)
        if details is None:
            raise Damaged(
                f"a row is damaged, cut short or of an unknown form: {row.text!r}"
            )
        row.details = details
        row.direction = "reverse" if self.reverse else "forward"
        if "retransmits" in details:
            row.retransmits_count = counter(details["retransmits"])
            size = int(details["cwnd"] or 0)
            row.cwnd_bytes = size * BYTES[details["unit"]] if size > 0 else None
            row.rtt_loaded_us = int(details["rtt"] or 0) or None
        if "Server Report:" in above:
            self.reports[row.name] = row
            return
        self.rows.append(row)
        if row.stream == -1:
            return
        rows = self.streams.setdefault(row.name, [])
        rows.append(row)
        if details.keys() != rows[0].details.keys():
            raise Damaged(f"a row is cut short: {row.text!r}")


def _fill(run: ParsedRun, text: str) -> None:
    log = _Log(text)
    rows, streams = log.rows, log.streams
    run.intervals, run.status = columns(rows), "partial" if rows else "failed"
    host, protocol, port = (log.banners or [("", "", "")])[-1]
    datagrams = any("lost" in row.details for row in rows)
    udp = datagrams or protocol == "UDP"
    if streams or port:
        run.test = "udp" if udp else "tcp"
    run.parameters = _parameters(text) | {"server": host or None}
    if streams:
        direction = "reverse" if log.reverse else "forward"
        run.parameters |= {
            "protocol": run.test,
            "streams": len(streams),
            "direction": direction,
        }
    errors: list[str] = []
    if any(map(text.__contains__, _COMPLAINTS)):
        others = [line for line in text.split("\n") if "/sec" not in line]
        errors = [m[1].strip() for m in map(_ERROR.match, others) if m]
    if fatal := [error for error in errors if not error.startswith(_NOT_FATAL)]:
        raise Damaged("; ".join(fatal))
    run.warnings += [error for error in errors if not error.startswith("WARNING")]
    if datagrams and protocol == "TCP":
        raise Contradictory(f"{_PROCESSES}datagrams under a banner of TCP")
    if log.damage:
        raise log.damage
    if rows and not streams and not errors:
        raise Damaged("a log of iperf 2 with --sum-only is not read")
    if not streams:
        raise Damaged((errors or ["the test did not run: there are no rows"])[0])
    serving = _check_connections(log)
    totals = _totals(log)
    # what is torn before its last row ends with another one
    sums = [row for row in rows[-1:] if row.stream == -1 and row.start_s == 0]
    whole = {id(row) for row in (*totals, *sums)}
    run.intervals = columns([row for row in rows if id(row) not in whole])
    # a TCP client knows what it sends, and with -R what it receives
    receives = serving != log.reverse
    foreign = "writes" if receives else "reads"
    if any(foreign in row.details for row in totals):
        raise Damaged("rows of the other direction: a line is damaged")
    # the sum of a server that sends (2.1) is not that of its rows
    _throughput(
        run, log, totals, [] if log.reverse else sums, "" if receives else "_sent"
    )
    if udp and receives:
        take_loss(run, text, totals, None)
    elif udp and not serving:
        _reports(run, log, totals)
    _path(run, log)


def _parameters(text: str) -> dict[str, Any]:
    parameters = {}
    if m := _BUFFER.search(text):
        parameters["tcp_buffer_bytes"] = int(float(m[3] or m[1]) * BYTES[m[4] or m[2]])
    if m := _MESSAGE.search(text):
        parameters["message_bytes"] = int(m[1])
    return parameters


def _check_connections(log: _Log) -> bool:
    """Return whether the log is the server's; refuse lines that are not of one test."""
    ports = {port for _, _, port in log.banners} or {"5001"}
    ends: dict[str, list[str]] = {}
    for name, _, *pair in log.connections:
        if ends.setdefault(name, pair) != pair:
            raise Contradictory(f"{_PROCESSES}two connections of stream {name}")
    protocols = {protocol for _, protocol, _ in log.banners}
    if max(len(protocols), len({host for _, host, *_ in log.connections})) > 1:
        raise Contradictory(f"{_PROCESSES}two protocols, or several addresses")
    if log.text.rfind("] local ") > log.text.find("/sec"):
        raise Damaged("several tests of one server: save the log of each by itself")
    if not log.banners and not ends:
        raise Damaged("the log does not say whether it is the client's or the server's")
    here = all(pair[0] in ports for pair in ends.values())
    serving = not log.banners[0][0] if log.banners else here
    if not {pair[not serving] for pair in ends.values()} <= ports:
        raise Damaged(f"a connection is not to port {', '.join(sorted(ports))}")
    if lost := log.streams.keys() ^ ends.keys():
        raise Damaged(f"stream {min(lost)} has no rows, or no line of its connection")
    return serving


def _totals(log: _Log) -> list[Row]:
    """Return the row over the whole test of each stream; `Damaged` if one has none."""
    totals = [rows[-1] for rows in log.streams.values()]
    lengths = {len(rows) for rows in log.streams.values()}
    if len(lengths) > 1:
        raise Damaged("rows of a stream are missing")
    alone = lengths == {1} and not log.reports and not log.sent
    if any(row.start_s > 0 or (alone and _is_interval(row)) for row in totals):
        raise Damaged(
            "the test has no result: the log ends before the row over the whole test"
        )
    return totals


def _is_interval(row: Row) -> bool:
    """Return whether a row that stands alone may be an interval.

    These end on the clock of ``-i``.
    """
    digits = row.text.partition(" sec")[0].rpartition(".")[2].strip()
    return row.end_s <= 1 if len(digits) < 4 else digits.endswith("000")


def _throughput(
    run: ParsedRun, log: _Log, totals: list[Row], sums: list[Row], side: str
) -> None:
    steps = [rows[:-1] for rows in log.streams.values()]
    for total, rows in zip(totals, steps, strict=True):
        if rows and rows[0].start_s > 0:
            raise Damaged("the first interval is missing")
        check_intervals(rows, total, 1.005, 2)
    sizes = [row.size.value for rows in steps for row in rows]
    if 2 * sizes.count(0) > len(sizes):
        raise Damaged(
            f"nothing passed in {sizes.count(0)} of {len(sizes)} intervals: the network was lost, "
            "or the clock was stepped"
        )
    if sums:
        # 2.2 sometimes counts the last write of a stream a second late; the sum is then shorter
        check_sum(sums[0], totals, 1e-3)
    whole = sums[0] if sums and len(totals) > 1 else totals[0]
    length, size, rate = whole.length_s, whole.size.value, whole.rate_bps
    if not sums and len(totals) > 1:
        lengths = [row.length_s for row in totals]
        length, size = max(lengths), sum(row.size.value for row in totals)
        if length - min(lengths) > 1:
            raise Damaged("the row of the sum of the result is missing")
        run.warnings.append("there is no row [SUM] of the result; the streams are added")
        # rates over different times do not add up
        same = length < 1.01 * min(lengths)
        rate = added(row.rate_bps for row in totals) if same else 8 * size / length
    if rate is None:
        run.warnings.append("the result is no number: the throughput is left out")
    else:
        done = "sent" if side else "transferred"
        run.metrics |= {f"throughput{side}_bps": rate, f"{done}_bytes": size}
    run.metrics["duration_measured_s"] = length
    run.metrics["retransmits_count"] = added(row.retransmits_count for row in totals)
    alone = not sizes and not log.reports and not log.sent
    if alone and any(
        row.end_s == int(row.end_s) or "rtt" in row.details for row in totals
    ):
        run.warnings.append(
            "each stream has one row: the result, or the first interval of a log that was cut"
        )


def _reports(run: ParsedRun, log: _Log, totals: list[Row]) -> None:
    """Take the receiver's figures of UDP from the server's reports."""
    views = [log.reports[row.name] for row in totals if row.name in log.reports]
    if len(views) < len(totals):
        silent = "the log is cut short, damaged, or the server was silent"
        raise Damaged(f"the server's report is missing: {silent}")
    rate = added(row.rate_bps for row in views)
    if rate is None:
        run.warnings.append("the server's report is no number, and is left out")
        return
    sent = added(log.sent.get(row.name) for row in totals)
    take_loss(run, log.text, views, None, sent=0 if sent is None else int(sent) + 2)
    for whole, row in zip(totals, views, strict=True):
        if row.size.value > 1.1 * whole.size.value:
            raise Damaged(f"more received than sent: {row.text!r}")
    run.metrics["transferred_bytes"] = sum(row.size.value for row in views)
    here, there = (max(row.length_s for row in rows) for rows in (totals, views))
    if abs(here - there) <= 0.2 * there + 1:
        run.metrics["throughput_bps"] = rate
        return
    # the end whose intervals add up is believed
    run.warnings.append(
        f"a clock was stepped: {here:g} s at the client, {there:g} s at the server"
    )
    steps = [[row.rate_bps or 0 for row in rows[:-1]] for rows in log.streams.values()]
    if not all(len(each) > 1 and max(each) < 2 * min(each) for each in steps):
        run.metrics |= {"throughput_sent_bps": None, "duration_measured_s": None}


def _path(run: ParsedRun, log: _Log) -> None:
    """Take round trips under load, windows, and the time of connecting."""
    steps = [rows[:-1] for rows in log.streams.values()]
    if all(
        rows[1:] and rows[-1].end_s - rows[-2].end_s <= 0.5 * rows[0].length_s
        for rows in log.streams.values()
    ):
        take_path(run, steps)
    elif any(row.rtt_loaded_us for rows in steps for row in rows):
        run.warnings.append(
            "the last interval is missing: windows and round trips are left out"
        )
    connects = [float(ms) for ms in dict(_CONNECT.findall(log.text)).values()]
    if printed := _CONNECTS.search(log.text):
        run.metrics["connect_us"] = 1e3 * float(printed[1])
    elif len(connects) == len(steps):
        run.metrics["connect_us"] = 1e3 * sum(connects) / len(connects)
