"""iperf 2 (the program ``iperf``): throughput over TCP and UDP in one direction, as the end that printed it saw it.

No row is labelled as the result: it is the row that begins at the start of the test and that no row continues. A TCP
client knows only what it sent; the received data are in the server's log. For UDP the server sends its report to the
client. Text is read, plain and enhanced (``-e``); what goes both ways, CSV and tests of messages are refused by name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from ..errors import UsageError
from .draft import Contradictory, Damaged, Draft, Figure, added, line_start, or_above
from .interface import Commands
from .iperf_rows import BYTES, DISORDER, LOSS, Row, columns, counter, is_share, read_row
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


# --- where tests are -----------------------------------------------------------------------------

_START = re.compile(  # each begins with a literal character: the engine looks for these first
    r"Client connecting to (?P<target>\S+), (?:TCP|UDP) port(?P<client>)"
    r"|Server listening on (?:TCP|UDP) port(?P<server>)"
    r"|\[\s*[^\]\n]{1,20}\] local \S+ port \d+ connected with (?P<peer>\S+)(?P<local>)"
    r"|\[\s*(?P<id>[^\]\[\n]{1,20}?)\s*\]\s*(?P<from>\d+\.\d+)\s*-\s*(?P<to>\d+\.\d+)\s+sec\s+"
    r"[\d.]+ [KMGT]?B(?P<row>)"
    r"|i(?<=\bi)perf: (?!done)\S(?P<error>)|listener bind failed|connect failed: ",
)
_CSV = re.compile(
    r"^\d{14}(?:\.\d{3})?(?:[-+]\d{4})?,[^,\n]*,\d+,[^,\n]*,\d+,-?\d+,0\.0-", re.MULTILINE
)
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
    kind = ""
    rows = finished = False
    names: set[str] = set()
    peers: set[str] = set()
    for m in _START.finditer(text):
        now = m.lastgroup or "error"
        if now == "row":
            # what begins at 0 is the result, or the first interval of its stream
            first = m["id"] not in names and "SUM" not in m["id"] and float(m["to"]) <= 1
            rows, finished = bool(kind), float(m["from"]) == 0 and not first
            names.add(m["id"])
            continue
        at = line_start(text, m.start())
        if now == "error" and (m.start() - at > _BEFORE_AN_ERROR or (kind and not rows)):
            # an error before a banner is of the same program, and one after it ends the program
            kind = "failed" if kind in ("client", "server", "local") else kind
            continue
        banner = now in ("client", "server")
        program = not kind or now == "error"
        if banner:
            # with -d and -r a server connects back to its client, in the same program
            program = m["target"] not in peers and (not kind or rows or kind in ("failed", now))
        new = program or (now == "local" and finished)
        if new:
            rows = finished = False
            names = set()
            peers = set() if program else peers
            yield or_above(text, at, _RULE) if banner else at, program
        kind = kind if kind and not banner and not new else now
        if m["peer"] and kind != "client":
            peers.add(m["peer"])


def read(text: str) -> list[ParsedRun]:
    """Read the tests of one program."""
    if _CSV.match(text):
        error = "CSV (-y C) is not read, as it does not say which end printed it: leave out -y"
        return [Draft(NAME).run("failed", error)]
    ports = {port for _, _, port in _BANNER.findall(text)} or {"5001"}
    here, there = ({ends[end] for ends in _LOCAL.findall(text)} for end in (3, 4))
    if all(banner in text for banner in MARKS[:2]) or (here & ports and there & ports):
        return [Draft(NAME).run("failed", "a log of iperf 2 with -d or -r is not read")]
    starts = [0, *[at for at, _ in _tests(text)][1:], len(text)]
    runs = []
    for start, end in pairwise(starts):
        draft = Draft(NAME, 1 + text[:start].count("\n"))
        runs.append(draft.filled(_fill, _Log(text[start:end], _BANNER.findall(text))))
    return runs


# --- lines ---------------------------------------------------------------------------------------

_OTHER_FORMS = {
    "--full-duplex": r"\(full-duplex\)|\[FD\d*\]",
    "--bounceback": r"\(bb |BB cnt|bounceback",
    "--isochronous": r"\(isoch\)|isochronous|Frames",
    "--burst-size": r"Burst \(start-end\)",
    "--connect-only": r"three-way-handshake \(3WHS\) only",
}
"""Options with what their logs show."""
_ERROR = re.compile(
    r"^.{0,60}?((?:tcp |udp )?connect failed: .+|unable to connect.*|iperf: .+"
    r"|(?:listener )?bind failed: .+|(?:write|read|recv|accept|getsockopt|setsockopt)\w* failed: .+"
    r"|(?<![^\s>])(?<!, )error: .+|WARNING: did not receive ack of last datagram.*)",
    re.MULTILINE,
)
_NOT_FATAL = ("listener", "recvack failed")
"""Messages after which the test goes on: a port that is taken, a server that is silent."""
_BANNER = re.compile(
    r"(?:Client connecting to|Server listening on) (?:(\S+), )?(TCP|UDP) port (\d+)"
)
_LOCAL = re.compile(
    r"\[\s*(\*?)([^\]]+?)\s*\] local ([^\s%]+)\S* port (\d+) connected with \S+ port (\d+)(.*)"
)
_BUFFER = re.compile(
    r"TCP window size:\s*([\d.]+) ([KMG]?)Byte(?! \(default)|requested ([\d.]+) ([KMG]?)Byte"
)
_MESSAGE = re.compile(r"(?:Write buffer size|Sending|Receiving):? (\d+) [Bb]yte")
_SENT = re.compile(r"\[\s*\*?([^\]]+?)\s*\] Sent (\d+) datagrams\s*$", re.MULTILINE)
_REPORT = re.compile(r"[^\[]{0,80}\[\s*\*?([^\]]+?)\s*\] Server Report:\s*$")
_FOUR = (
    r"(?P<mean>-?\d+(?:\.\d+)?)/\s*(?P<low>-?\d+(?:\.\d+)?)/\s*(?P<high>-?\d+(?:\.\d+)?)/\s*"
    r"(?P<stdev>-?\d+(?:\.\d+)?) ms"
)
_FIGURES = [
    re.compile(form)
    for form in (
        # since 2.2 windows are also printed in packets; --histograms adds times of writes
        (
            r"\s+(?P<writes>\d+)/\d+\s+(?P<retransmits>-?\d+)"
            r"(?:\s+(?:\d+[KM](?:\(\d+\))?/)?(?P<cwnd>-?\d+)(?P<unit>[KM])(?:\(\d+\))?"
            r"(?:/(?P<rtt>\d+)(?:\(\d+\))? us(?:\s+(?:\d+(?:\.\d+)?|inf|NAN)"
            r"(?:\s+[\d.]+(?:/[\d.]+){3} ms \(\d+\))?)?)?)?\s*$"
        ),
        r"\s+(?P<writes>\d+)/\d+(?:/\d+)?\s+-?\d+ pps\s*$",
        rf"{LOSS}(?:\s+(?:{_FOUR}|-/-/-/- ms)(?:\s+-?\d+ pps.*)?)?\s*$",
        # since 2.1 the sum of UDP has no jitter
        r"\s+(?P<lost>-?\d+)/\s*(?P<total>-?\d+)\s+\(-?(?:[\d.]+(?:e-\d+)?|nan|inf)%\)\s*$",
        rf"\s+{_FOUR} \(\d+/\d+\)(?:\s.*)?$",
        r"\s+(?P<reads>\d+)(?:=|\s+)\d+(?::\d+){7}\s*$",
    )
]
"""What may follow the rate in a row: of a TCP or UDP client, of datagrams, of a server."""
_CONNECT = re.compile(r"\[\s*([^\]]+?)\s*\] local .*\(ct=(\d+\.\d+) ms\)")
_CONNECTS = re.compile(r"final connect times \(min/avg/max/stdev\) = [\d.]+/([\d.]+)/\S+ ms")
_PROCESSES = "lines of two processes: "


class _Log:
    """What the lines of one test say."""

    def __init__(self, text: str, banners: list[tuple[str, str, str]]) -> None:
        self.text = text
        self.banners = banners
        self.udp = any(protocol == "UDP" for _, protocol, _ in banners)
        self.serving: bool | None = None
        """Whether it is the server's; None: no line says."""
        self.ends: dict[str, tuple[str, str]] = {}
        """Stream to local and remote port of its connection."""
        self.hosts: set[str] = set()
        self.ways: set[bool] = set()
        """Whether streams are marked as reversed."""
        self.rows: list[Row] = []
        self.streams: dict[str, list[Row]] = {}
        self.sums: list[Row] = []
        self.reports: dict[str, Row] = {}
        """The server's report in the log of a UDP client."""
        self.sent = {name: int(count) for name, count in _SENT.findall(text)}
        self.errors = [error.strip() for error in _ERROR.findall(text)]
        self.damage: Damaged | None = None
        for star, name, host, here, there, remarks in _LOCAL.findall(text):
            if self.ends.setdefault(name, (here, there)) != (here, there):
                self.damage = Contradictory(f"{_PROCESSES}two connections of stream {name}")
            self.hosts.add(host)
            self.ways.add("(reverse)" in remarks or bool(star))
        if banners:
            self.serving = any(not server for server, _, _ in banners)
        elif any("5001" in ends for ends in self.ends.values()):
            self.serving = any(here == "5001" for here, _ in self.ends.values())
        self._read_rows()

    @property
    def reverse(self) -> bool:
        """Whether the server sends."""
        return True in self.ways

    @property
    def receives(self) -> bool:
        """Whether this end receives."""
        return self.serving != self.reverse

    def _read_rows(self) -> None:
        reported, head = "", ""
        for line in self.text.split("\n"):
            if "[ ID]" in line:
                head = line.partition("Bandwidth")[2].strip()
            elif "Server Report:" in line and (m := _REPORT.match(line)):
                reported = m[1]
            try:
                row = read_row(line)
                if row is not None:
                    self._add(row, reported, head)
                    reported = "" if row.stream == reported else reported
            except Damaged as error:
                self.damage = self.damage or error

    def _add(self, row: Row, reported: str, head: str) -> None:
        m = next(filter(None, (form.match(row.figures) for form in _FIGURES)), None)
        if m is None and row.figures.strip():
            raise Damaged(f"a row is damaged, cut short or of an unknown form: {row.text!r}")
        details: dict[str, Any] = {}
        if m is not None:
            details = {name: text for name, text in m.groupdict().items() if text is not None}
        if row.stream.startswith("*"):
            self.ways.add(True)
            row.stream = row.stream[1:]
        rows = self.streams.setdefault(row.stream, []) if row.number != -1 else self.sums
        if row.stream == reported:
            self.reports[row.stream] = row
        elif row.number != -1 and _is_short(details, head, row, rows):
            raise Damaged(f"a row is cut short: {row.text!r}")
        else:
            rows.append(row)
            self.rows.append(row)
        if "lost" in details and not self.udp and self.banners:
            raise Contradictory(f"{_PROCESSES}datagrams under a banner of TCP")
        self.udp |= "lost" in details
        if "retransmits" in details:
            details["retransmits"] = counter(details["retransmits"])
        if "cwnd" in details:
            size = int(details["cwnd"])
            details["cwnd"] = size * BYTES[details["unit"]] if size > 0 else None
        details["rtt"] = int(details.get("rtt", 0)) or None
        row.details = details


def _is_short(details: dict[str, Any], head: str, row: Row, rows: list[Row]) -> bool:
    """Return whether a row lacks what the head of its table or the row before it has."""
    return (
        (
            "Latency" in head
            and "lost" in details
            and "mean" not in details
            and "-/-" not in row.text
        )
        or ("Cwnd" in head and "retransmits" in details and "cwnd" not in details)
        or (not details and (head.startswith("Write/Err") or any(len(r.details) > 1 for r in rows)))
    )


# --- the result ----------------------------------------------------------------------------------


def _fill(draft: Draft, log: _Log) -> None:
    streams = {name: rows for name, rows in log.streams.items() if rows}
    direction = "reverse" if log.reverse else "forward"
    for row in log.rows:
        row.direction = direction
    draft.intervals, draft.begun = columns(log.rows), bool(streams)
    server, _, port = (log.banners or [("", "", "")])[-1]
    draft.parameters = {"port": int(port) if port else None, "server": server or None}
    if streams or port:
        draft.test = "udp" if log.udp else "tcp"
    if streams:
        draft.parameters |= {
            "protocol": draft.test,
            "streams": len(streams),
            "direction": direction,
        }
    if sizes := _BUFFER.findall(log.text):
        size, letter, asked, asked_letter = sizes[-1]
        draft.parameters["tcp_buffer_bytes"] = int(
            float(asked or size) * BYTES[asked_letter or letter]
        )
    if message := _MESSAGE.search(log.text):
        draft.parameters["message_bytes"] = int(message[1])
    for form, trace in _OTHER_FORMS.items():
        if re.search(trace, log.text):
            raise Damaged(f"a log of iperf 2 with {form} is not read", "failed")
    fatal = [e for e in log.errors if not e.startswith((*_NOT_FATAL, "WARNING"))]
    draft.warnings += [e for e in log.errors if e.startswith(_NOT_FATAL)]
    if fatal:
        raise Damaged("; ".join(fatal))
    if log.damage:
        raise log.damage
    if not streams:
        raise Damaged((log.errors or ["the test did not run: there are no rows"])[0])
    log.streams = streams
    _refuse_processes(log)
    totals = _totals(log)
    whole = [*totals.values(), *(row for row in log.sums[-1:] if row.start_s == 0)]
    draft.intervals = columns([row for row in log.rows if not any(row is other for other in whole)])
    _throughput(draft, log, totals)
    if log.udp and (log.receives or not log.serving):
        _datagrams(draft, log, totals)
    _path(draft, log)


def _refuse_processes(log: _Log) -> None:
    """Refuse lines that cannot be of one test of one program."""
    if log.serving is None:
        raise Damaged("the log does not say whether it is the client's or the server's")
    if len({udp for _, udp, _ in log.banners}) > 1:
        raise Contradictory(f"{_PROCESSES}banners of both protocols")
    if len(log.hosts) > 1:
        raise Contradictory(f"{_PROCESSES}connections of several addresses")
    ports = {port for _, _, port in log.banners} or {"5001"}
    if not {ends[not log.serving] for ends in log.ends.values()} <= ports:
        raise Damaged(f"a connection is not to port {', '.join(sorted(ports))}")
    if len(log.ways) > 1:
        raise Damaged("a log of iperf 2 with -d or -r is not read")
    lost = log.streams.keys() - log.ends.keys()
    if lost and (log.ends or log.serving or log.reverse):
        raise Damaged(f"stream {min(lost)} has rows, but no line of its connection")
    foreign = "writes" if log.receives else "reads"
    if any(foreign in row.details for rows in log.streams.values() for row in rows):
        raise Damaged("rows of the other direction: a line is damaged")


def _totals(log: _Log) -> dict[str, Row]:
    """Return the row over the whole test of each stream; `Damaged` if one has none."""
    alone = {name for name, rows in log.streams.items() if len(rows) == 1}
    known = any(
        name in log.reports or name in log.sent or not _is_interval(log.streams[name][0])
        for name in alone
    )
    totals = {
        name: rows[-1]
        for name, rows in log.streams.items()
        if rows[-1].start_s == 0 and (known or name not in alone)
    }
    if len(totals) < max(len(log.streams), len(log.ends)):
        raise Damaged("the test has no result: the log ends before the row over the whole test")
    return totals


def _is_interval(row: Row) -> bool:
    """Return whether a row that stands alone is an interval of a test that has no result.

    Intervals end exactly on the clock of ``-i``. The result of TCP does not where times are printed to
    0.1 ms. Where they are printed to 0.1 s, and for datagrams, only an interval of one second (or
    less, of TCP) is known as such.
    """
    digits = row.text.partition(" sec")[0].rpartition(".")[2].strip()
    if len(digits) < 4:
        return row.end_s <= 1
    step = 0.05 if row.end_s < 1 else 0.1
    on_clock = abs(row.end_s / step - round(row.end_s / step)) < 1e-6
    return row.end_s == 1 or (on_clock and "lost" not in row.details)


def _refuse_gaps(draft: Draft, steps: list[Row], total: Row) -> None:
    """Refuse missing intervals, and a test that lasted long after its last one: it stalled."""
    if not steps:
        return
    last = steps[-1].end_s
    if total.end_s - last > 1.005 * max(row.length_s for row in steps):
        error = f"they end at {last:g} s, and the test after {total.end_s:g} s"
        if total.end_s - last > 0.1 * total.end_s:
            raise Damaged(f"intervals are missing, or the test stalled: {error}")
        draft.warnings.append(f"the last intervals are missing: {error}")
    if steps[0].start_s > 0 or any(abs(b.start_s - a.end_s) > 0.011 for a, b in pairwise(steps)):
        raise Damaged("an interval is missing from the log")
    # the intervals have the bytes of the result, except for the last ones
    sizes = [row.size.value for row in steps]
    missing = abs(total.size.value - sum(sizes)) - total.size.half
    covered = missing <= 0.05 * total.size.value + 2 * max(sizes)
    if total.end_s < last - 0.01 - 0.02 * total.end_s or not covered:
        raise Contradictory(f"the result contradicts its intervals: {total.text!r}")


def _throughput(draft: Draft, log: _Log, totals: dict[str, Row]) -> None:
    for name, total in totals.items():
        _refuse_gaps(draft, log.streams[name][:-1], total)
    rate, size, length = _total(draft, log, list(totals.values()))
    # a TCP client knows what it sends, and with -R what it receives
    sent, side = ("", "transferred") if log.receives else ("_sent", "sent")
    if rate is None:
        draft.warnings.append("the result is no number: the throughput is left out")
    else:
        draft.metrics |= {f"throughput{sent}_bps": rate, f"{side}_bytes": size}
    draft.metrics["duration_measured_s"] = length
    steps = [row for rows in log.streams.values() for row in rows[:-1]]
    empty = sum(not row.size.value for row in steps)
    if 2 * empty > len(steps):
        draft.warnings.append(
            f"nothing passed in {empty} of {len(steps)} intervals: the network was lost, or the clock "
            "was stepped"
        )
    known = log.reports.keys() | log.sent.keys()
    alone = any(len(rows) == 1 and name not in known for name, rows in log.streams.items())
    if alone and any(row.end_s == int(row.end_s) for row in totals.values()):
        draft.warnings.append(
            "each stream has one row: the result, or the first interval of a log that was cut"
        )
    draft.metrics["retransmits_count"] = added(
        rows[-1].details.get("retransmits") for rows in log.streams.values()
    )


def _total(draft: Draft, log: _Log, rows: list[Row]) -> tuple[float | None, float, float]:
    """Return rate, bytes and seconds of all streams; the row [SUM] must be their sum."""
    lengths = [row.length_s for row in rows]
    size = Figure.sum([row.size for row in rows])
    # the sum of a server that sends (2.1) is not that of its rows
    summed = [] if log.reverse else [row for row in log.sums[-1:] if not row.start_s]
    for last in summed:
        near = any(abs(last.length_s - length) <= 0.1 * length + 0.1 for length in lengths)
        if near and not last.size.agrees(size, 1e-3):
            raise Contradictory(f"the row of the sum contradicts its streams: {last.text!r}")
        # 2.2 sometimes counts the last write of a stream a second late; the sum is then shorter
        if near and len(rows) > 1:
            return last.rate_bps, last.size.value, last.length_s
    if len(rows) == 1:
        return rows[0].rate_bps, size.value, lengths[0]
    if max(lengths) - min(lengths) > 1:
        raise Damaged("the row of the sum of the result is missing")
    draft.warnings.append("there is no row [SUM] of the result; the streams are added")
    rates = [row.rate_bps for row in rows]
    # rates over different times do not add up
    even = max(lengths) < 1.01 * min(lengths)
    return added(rates) if even else size.value * 8 / max(lengths), size.value, max(lengths)


def _datagrams(draft: Draft, log: _Log, totals: dict[str, Row]) -> None:
    """Take loss and jitter from the receiver: this end, or the server's reports."""
    metrics = draft.metrics
    seen = [
        rows[-1] if log.receives else log.reports.get(name) for name, rows in log.streams.items()
    ]
    views = [row for row in seen if row is not None and "jitter" in row.details]
    if len(views) < len(seen):
        why = (log.errors or ["the log is cut short or damaged"])[0]
        raise Damaged(f"the server's report is missing: {why}")
    if any(row.rate_bps is None for row in views):
        draft.warnings.append("the server's report is no number, and is left out")
        return
    lost, packets = ([counter(row.details[key]) for row in views] for key in ("lost", "total"))
    for row, total in zip(views, packets, strict=True):
        percent = float(row.details["percent"])
        if total and not is_share(percent, int(row.details["lost"]), total):
            raise Contradictory(f"the loss contradicts itself: {row.text!r}")
    if not log.receives:
        metrics["throughput_bps"] = sum(row.rate_bps or 0 for row in views)
        metrics["transferred_bytes"] = sum(row.size.value for row in views)
        for (name, whole), row, arrived in zip(totals.items(), views, packets, strict=True):
            if arrived and arrived > log.sent.get(name, arrived) + 2:
                raise Damaged(f"{arrived} datagrams received, and {log.sent[name]} sent")
            if row.size.value > 1.1 * whole.size.value:
                raise Damaged(f"more data than the client sent: {row.text!r}")
        _choose_clock(draft, log, max(row.length_s for row in views))
    if count := added(packets):
        metrics["packets_count"] = count
        metrics["lost_count"] = gone = added(lost)
        metrics["lost_ratio"] = None if gone is None else gone / count
        metrics["jitter_us"] = sum(1e3 * float(row.details["jitter"]) for row in views) / len(views)
        if disorder := dict(DISORDER.findall(log.text)):
            metrics["out_of_order_count"] = sum(int(disorder.get(name, 0)) for name in log.streams)


def _choose_clock(draft: Draft, log: _Log, there: float) -> None:
    """Leave out the rate of the end whose clock was stepped; of both where no interval tells."""
    metrics, here = draft.metrics, draft.metrics["duration_measured_s"] or 0
    if abs(here - there) <= 0.2 * there + 1:
        return
    rates = [[row.rate_bps or 0 for row in rows[:-1]] for rows in log.streams.values()]
    known = all(len(each) > 1 for each in rates)
    even = known and all(max(each) < 2 * min(each) for each in rates)
    if not even:
        metrics["throughput_sent_bps"] = None
        metrics["duration_measured_s"] = there if known else None
    if even or not known:
        metrics["throughput_bps"] = None
    end = "the server's clock" if even else "the client's clock" if known else "a clock"
    draft.warnings.append(f"{end} was stepped: {here:g} s at the client, {there:g} s at the server")


def _path(draft: Draft, log: _Log) -> None:
    """Take round trips under load, windows, and the latencies of messages."""
    metrics = draft.metrics
    intervals = [rows[:-1] or rows for rows in log.streams.values()]
    ends = [
        rows[-1].end_s - each[-1].end_s
        for rows, each in zip(log.streams.values(), intervals, strict=True)
    ]
    if all(late <= 0.5 * each[0].length_s for late, each in zip(ends, intervals, strict=True)):
        if rtts := [row.details["rtt"] for rows in intervals for row in rows if row.details["rtt"]]:
            metrics["rtt_loaded_us"] = sum(rtts) / len(rtts)
            metrics |= {"rtt_loaded_min_us": min(rtts), "rtt_loaded_max_us": max(rtts)}
        windows = [[w for row in rows if (w := row.details.get("cwnd"))] for rows in intervals]
        if all(windows):
            metrics["cwnd_bytes"] = sum(w[-1] for w in windows)
            metrics["cwnd_max_bytes"] = sum(max(w) for w in windows)
    connects = [float(ms) for ms in dict(_CONNECT.findall(log.text)).values()]
    if printed := _CONNECTS.search(log.text):
        metrics["connect_us"] = 1e3 * float(printed[1])
    elif connects and len(connects) == len(log.ends):
        metrics["connect_us"] = 1e3 * sum(connects) / len(connects)
    if not log.ends:
        draft.warnings.append("without connect_us: the lines of the connections are missing")
    timed = [log.reports.get(name, rows[-1]).details for name, rows in log.streams.items()]
    if len(timed) != 1 or "mean" not in timed[0]:
        return  # the latencies of several streams cannot be merged into one distribution
    low, mean, high, stdev = (1e3 * float(timed[0][k]) for k in ("low", "mean", "high", "stdev"))
    if not 0 <= low <= mean <= high:
        draft.warnings.append("the latencies, or the clocks of the hosts, contradict each other")
        return
    named = {"": mean, "min_": low, "max_": high, "stdev_": stdev}
    metrics |= {f"latency_oneway_loaded_{name}us": value for name, value in named.items()}
    draft.warnings.append("the one-way latency rests on the clocks of both hosts being the same")
