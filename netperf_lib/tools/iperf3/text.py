"""Text output of iperf3: rows per interval, a rule, and a row of results for the sender and one for the receiver."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..draft import Contradictory, Damaged, Draft, Figure, add_cpu_costs
from ..iperf_rows import BYTES, LOSS, Interval, Row, columns, counter, is_share, row
from ..parsed import ParsedRun

NAME = "iperf3"

ERROR = re.compile(
    r"iperf3(?:\.exe)?: (?P<text>(?:error|interrupt|the server|unable|parameter)\b.*"
    r"|unrecognized option.*|(?:command )?not found.*)"
)
AFTER_RESULT = "error - unable to receive results"
"""What a server prints that knows its own result, but not the client's."""
_SENT_OR_TCP = re.compile(r"\s+(-?\d+)(?: +(-?\d+(?:\.\d+)?) +([KMGT]?)Bytes)?\s*$")
_UDP = re.compile(LOSS + r"\s*$")
_DISORDER = re.compile(
    r"\[\s*(?P<id>\w+)\s*\]\s*[\d.]+-\s*[\d.]+\s+sec\s+(?P<count>\d+) datagrams received out-of-order"
)
_AFTER_OMITTED = re.compile(r"\]\s+0\.0[1-9]-\d+\.\d\d\s+sec ")
"""With ``-O`` a server prints other times for this row than those that its rate is computed from (seen with 3.16)."""
_VERSION = re.compile(r"(?:^|\s)iperf (3\.\S+)\s*$")
_CONNECTING = re.compile(r"Connecting to host (\S+), port (\d+)")
_LOCAL = re.compile(
    r"\[\s*(?P<id>\d+)\] local (?P<here>\S+ port \d+) connected to (?P<there>\S+ port \d+)"
)
_CONGESTION = re.compile(r"snd_tcp_congestion (\S+)")
_VERBOSE = re.compile(
    r"Starting Test: protocol: (?P<protocol>\w+), (?P<streams>\d+) streams, (?P<block>\d+) byte blocks, "
    r"omitting (?P<omit>\d+) seconds, (?:(?P<seconds>\d+) second test)?"
)
COMMAND = re.compile(r"\biperf3(?:\.exe)? +(-[^|>;&\n]*)")
_CPU = re.compile(r"(local|remote)/\w+ (\d+\.\d)% \((\d+\.\d)%u/(\d+\.\d)%s\)")


@dataclass
class _Side:
    """The result rows of one direction, as seen from one end."""

    streams: dict[str, Row] = field(default_factory=dict)
    total: Row | None = None


@dataclass
class _Log:
    """What the lines of one run say."""

    run: Draft = field(default_factory=lambda: Draft(NAME))
    serving: bool = False
    reverse: bool = False
    headed: bool = False
    """The head of the client's log is there, or its command: without -R, the client sends."""
    udp: bool = False
    sctp: bool = False
    windows: bool = False
    """The table head has congestion windows."""
    cpu: dict[str, float] = field(default_factory=dict)
    """CPU share at this end (`local`) and at the other (`remote`)."""
    bidir: bool = False
    asked_streams: int | None = None
    """Streams that the command asks for."""
    old: bool = False
    """Before 3.2 the column was called Bandwidth, and a UDP result did not name its end."""
    finished: bool = False
    """A rule and a new header were read: results follow."""
    closed: bool = False
    """`iperf Done.`, or a server that listens again: the rest does not belong to the test."""
    error: str | None = None
    damage: str | Damaged | None = None
    intervals: list[Interval] = field(default_factory=list)
    sides: dict[tuple[str, str], _Side] = field(default_factory=dict)
    """(direction, ``sender`` or ``receiver`` or ``""`` if the row does not say) -> rows."""
    details: dict[int, dict[str, Any]] = field(default_factory=dict)
    connections: int = 0
    ends: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Stream -> local and remote address and port of its connection."""
    disorder: dict[str, int] = field(default_factory=dict)
    """Stream -> datagrams that arrived out of order, which have lines of their own."""

    def results(self) -> Iterator[Row]:
        """Every row of the result."""
        for side in self.sides.values():
            yield from filter(None, (*side.streams.values(), side.total))

    def damaged(self, error: str | Damaged) -> None:
        """Keep the first error."""
        self.damage = self.damage or error


def read_text(text: str) -> list[ParsedRun]:
    """Read one run."""
    log = _Log()
    rule = of_server = False
    previous: Row | None = None
    for index, line in enumerate(text.split("\n")):
        if of_server:  # it ends at an empty line; with --bidir rows of the result follow
            of_server = bool(line.strip())
            continue
        if m := _DISORDER.search(line):
            log.disorder[m["id"]] = int(m["count"])
            continue
        try:
            current = row(line, index)
        except Damaged as e:
            if log.serving and not rule and _AFTER_OMITTED.search(line):
                log.run.warnings.append(f"{e}: the first interval after omitted ones is left out")
            else:
                log.damaged(e)
            continue
        if current is not None:
            if log.closed and any(
                current.text.strip().endswith(r.text.strip()) for r in log.results()
            ):
                continue  # repeated by what ran iperf3
            if (
                previous is not None
                and current.text.strip() == previous.text.strip()
                and not log.finished
            ):
                log.run.warnings.append("an interval is printed twice; counted once")
            else:
                _take(log, current)
            previous = current
            continue
        stripped = line.strip()
        if "[ ID]" in line and "Interval" in line:
            _head(log, line, after_rule=rule)
            rule = False
        elif stripped.endswith(("- - - - -", "---")):
            rule = True
        elif stripped.endswith("Server output:"):
            if log.sides or log.intervals or log.run.parameters:
                of_server = True
                continue
            log.run.warnings.append(
                "what the client printed is missing: only the server's output is there"
            )
        elif stripped.endswith("iperf Done."):
            log.closed = True
        elif m := ERROR.search(line):
            log.error = log.error or m["text"].strip()
        elif m := _VERSION.search(line):
            log.run.version = m[1]
        else:
            _context(log, line)
            rule = (
                rule and "Accepted connection" not in line
            )  # the rules above it frame the port, not a result
    return [_finished(log)]


def _head(log: _Log, line: str, *, after_rule: bool) -> None:
    """Read the head of a table, whose columns say what its rows hold."""
    log.finished |= after_rule
    log.udp |= "Datagrams" in line
    log.old = "Bandwidth" in line
    log.windows |= "Cwnd" in line
    # a server does not print "Reverse mode": that it sends shows in the columns only
    sends = "Retr" in line or ("Total Datagrams" in line and "Lost" not in line)
    log.reverse |= log.serving and not log.sides and sends and "[Role]" not in line


def _context(log: _Log, line: str) -> None:
    if "Connecting" in line and (m := _CONNECTING.search(line)):
        log.run.parameters |= {"server": m[1], "port": int(m[2])}
        log.headed = True
    elif "Accepted connection from" in line:
        log.serving = True
    elif "Reverse mode, remote host" in line:
        log.reverse = True
    elif m := _LOCAL.search(line):
        log.connections += 1
        ends = m["here"], m["there"]
        if log.ends.setdefault(m["id"], ends) != ends or len(set(log.ends.values())) < len(
            log.ends
        ):
            log.damaged(
                Contradictory(
                    f"lines of two processes: connections of stream {m['id']}: {line.strip()!r}"
                )
            )
    elif m := COMMAND.search(line):
        _command(log, m[1])
    elif "CPU Utilization: " in line:
        for end, total, user, system in _CPU.findall(line):
            if abs(float(total) - float(user) - float(system)) < 0.16:
                log.cpu[end] = float(total) / 100
            else:
                log.run.warnings.append(f"the {end} CPU time contradicts its parts and is left out")
    elif "Server listening on" in line and log.sides:
        log.closed = True
    elif "Starting Test" in line and (m := _VERBOSE.search(line)):
        log.sctp |= m["protocol"] == "SCTP"
        log.run.parameters |= {"message_bytes": int(m["block"]), "omit_s": int(m["omit"])}
        if m["seconds"]:
            log.run.parameters["duration_s"] = int(m["seconds"])
    elif "snd_tcp_congestion " in line and (m := _CONGESTION.search(line)):
        log.run.parameters["congestion_control"] = m[1]


def _command(log: _Log, options: str) -> None:
    """Read what the command of a client says: the protocol, and which end sends."""
    words = options.split()
    log.sctp |= "--sctp" in words
    if m := re.search(r"(?:^| )(?:-P *|--parallel[ =])(\d+)(?: |$)", options):
        log.asked_streams = int(m[1])
    if any(word in words for word in ("-c", "--client")):
        log.reverse |= any(word in words for word in ("-R", "--reverse"))
        log.bidir |= "--bidir" in words
        # letters in one word, as -uR, may be options or a value
        log.headed |= not any(re.fullmatch(r"-\w*R\w*", word) for word in words)


def _take(log: _Log, entry: Row) -> None:
    log.bidir |= entry.role is not None
    backwards = entry.role in ("TX-S", "RX-C") if entry.role else log.reverse
    direction = "reverse" if backwards else "forward"
    figures = entry.figures.rstrip()
    role = next((name for name in ("sender", "receiver") if figures.endswith(name)), "")
    figures = figures.removesuffix(role).rstrip()
    omitted = figures.endswith("(omitted)")
    figures = figures.removesuffix("(omitted)").rstrip()
    details: dict[str, Any] = {}
    if m := _SENT_OR_TCP.match(figures):
        count, window, prefix = m.groups()
        if log.udp and window is None:
            details["packets"] = int(count)
        else:
            details["retransmits"] = counter(count)
            if window is not None and float(window) > 0:
                details["cwnd"] = float(window) * BYTES[prefix]
    elif m := _UDP.match(figures):
        log.udp = True
        details = {
            "jitter": m["jitter"],
            "lost": m["lost"],
            "total": m["total"],
            "percent": m["percent"],
        }
    elif figures:
        log.damaged(f"a row is damaged or cut short: {entry.text.strip()!r}")
        return
    if role and "packets" in details:  # UDP prints it with the loss
        log.damaged(
            Contradictory(
                f"lines of two processes: retransmits among datagrams: {entry.text.strip()!r}"
            )
        )
    if role or log.finished:
        log.details[entry.index] = details
        if not role and ("lost" not in details or not log.old):
            log.damaged(f"a row of the result does not say whose it is: {entry.text.strip()!r}")
            return
        side = log.sides.setdefault((direction, role), _Side())
        if entry.stream in side.streams or (entry.stream == "SUM" and side.total is not None):
            log.damaged(
                f"a second result: the head of another test is damaged above {entry.text.strip()!r}"
            )
        if entry.stream == "SUM":
            side.total = entry
        else:
            side.streams[entry.stream] = entry
        return
    if not entry.stream.isdigit() and entry.stream != "SUM":
        log.damaged(f"a row that belongs to no stream: {entry.text.strip()!r}")
        return
    log.intervals.append(
        Interval(
            stream=-1 if entry.stream == "SUM" else int(entry.stream),
            direction=direction,
            row=entry,
            omitted=omitted,
            retransmits=details.get("retransmits"),
            cwnd_bytes=details.get("cwnd"),
        )
    )


def _finished(log: _Log) -> ParsedRun:
    run = log.run
    run.intervals = columns(log.intervals)
    if run.intervals and _direction(log) is None:
        run.intervals = {**run.intervals, "direction": [None] * len(run.intervals["direction"])}
    error: str | Damaged | None = log.error
    if log.error and log.serving and log.closed and log.error.startswith("interrupt"):
        error = None  # the server was stopped while it waited for another test
    if log.error and log.error.startswith(AFTER_RESULT) and log.sides:
        error = None
        run.warnings.append(log.error)
    error = error or log.damage
    if error is None:
        try:
            _metrics(log)
            if not run.metrics:
                left = "the test has no result: the log ends after its intervals"
                error = (
                    left
                    if log.intervals
                    else "the test did not run: there are no intervals and no result"
                )
        except Damaged as e:
            error, run.metrics = e, {}
    seen = bool(log.intervals or log.sides)
    # Interval rows show their protocol; results alone may have nothing that is specific to one.
    tcp = log.intervals or "retransmits_count" in run.metrics
    run.test = run.parameters["protocol"] = (
        "udp" if log.udp else "sctp" if log.sctp else "tcp" if tcp else None
    )
    if seen:
        run.parameters["direction"] = _direction(log)
        streams = {i.stream for i in log.intervals} - {-1}
        if count := len(streams) or max((len(s.streams) for s in log.sides.values()), default=0):
            run.parameters["streams"] = count // 2 if log.bidir and count > 1 else count
        elif log.asked_streams:
            run.parameters["streams"] = log.asked_streams
    return run.run("ok" if error is None else "partial" if seen else "failed", error)


def _direction(log: _Log) -> str | None:
    """Return the direction of the test; None without the head of the log and its command."""
    if log.bidir or log.reverse:
        return "bidir" if log.bidir else "reverse"
    return "forward" if log.serving or log.headed else None


def _total(side: _Side | None, what: str) -> Row | None:
    """Return the row for all streams of a side; `Damaged` if they do not add up."""
    if side is None:
        return None
    rows = list(side.streams.values())
    if side.total is None:
        if len(rows) > 1:
            raise Damaged(
                f"the row [SUM] of the {what or 'result'} is missing: the log is cut short or damaged"
            )
        return rows[0] if rows else None
    if rows and not side.total.size.agrees(Figure.sum([r.size for r in rows]), 0):
        raise Contradictory(f"the row [SUM] contradicts its streams: {side.total.text.strip()!r}")
    return side.total


def _metrics(log: _Log) -> None:
    metrics = log.run.metrics
    directions = sorted({d for d, _ in log.sides})
    gaps = _gaps(log)
    both_printed = (
        log.old and not log.udp and log.reverse
    )  # also by a server, before it printed "Bitrate"
    if log.bidir and len(directions) == 1:
        raise Damaged(
            f"the result is of one direction only ({directions[0]}): the log is cut short or damaged"
        )
    if directions and (lost := {i.direction for i in log.intervals} - set(directions)):
        raise Damaged(
            f"the result of one direction is missing ({', '.join(lost)}): the log is cut short or damaged"
        )
    for direction in directions:
        word = "_reverse" if log.bidir and direction == "reverse" else ""
        measured = {i.stream for i in log.intervals if i.direction == direction} - {-1}
        expected = len(measured) or (0 if log.bidir else log.connections)
        both = {role: log.sides.get((direction, role)) for role in ("sender", "receiver", "")}
        for side in both.values():
            if side is not None and expected and len(side.streams) != expected:
                raise Damaged(
                    f"the result is of {len(side.streams)} streams, and the test of {expected}"
                )
        sent, received, plain = (_total(side, role) for role, side in both.items())
        if plain is not None and sent is None and received is None:
            # before 3.2 UDP has one result row: the sender's rate, the receiver's loss and jitter
            sent, received = (None, plain) if log.serving else (plain, None)
            loss: Row | None = plain
        elif received is None and (not log.serving or both_printed):
            raise Damaged(
                "the receiver's row of the result is missing: the log is cut short or damaged"
            )
        elif sent is None and (not log.serving or both_printed):
            raise Damaged(
                "the sender's row of the result is missing: the log is cut short or damaged"
            )
        else:
            loss = received
            counts = [
                len(side.streams) for side in both.values() if side is not None and side.streams
            ]
            if not log.serving and len(set(counts)) > 1:
                raise Damaged(
                    "a row of the result is missing: sender and receiver differ in their streams"
                )
        _rates(log, sent, received, word)
        if not gaps:
            here_first = (
                (sent, received) if log.serving == (direction == "reverse") else (received, sent)
            )
            _check_bytes(log, direction, *here_first)
        if not word and (r := received or sent) is not None:
            metrics["duration_measured_s"] = r.length_s
        count = log.details[sent.index].get("retransmits") if sent is not None else None
        if count is not None and log.serving and not log.bidir and direction == "forward":
            raise Contradictory(
                "lines of two processes: a server that receives knows no retransmits"
            )
        if count is not None:
            metrics[f"retransmits{word}_count"] = count
        if loss is not None:
            _loss(log, loss, both["receiver"] or both[""], word, sent)
        if not word and not gaps:
            _windows(log, direction)
    if metrics and log.windows and "cwnd_bytes" not in metrics and not gaps:
        log.run.warnings.append(
            "without cwnd_bytes: congestion windows are missing from the intervals"
        )
    if metrics and not log.intervals:
        why = "none were asked for (-i 0), or they are missing"
        why = (
            why
            if log.serving or "server" in log.run.parameters
            else "the head of the log is missing"
        )
        log.run.warnings.append(f"there are no intervals: {why}")
    for end, share in log.cpu.items():
        if share or end == "local":
            metrics[
                "cpu_server_ratio" if log.serving == (end == "local") else "cpu_client_ratio"
            ] = share
    add_cpu_costs(metrics)


def _rates(log: _Log, sent: Row | None, received: Row | None, word: str) -> None:
    for r, rate, size in (
        (sent, f"throughput{word}_sent_bps", f"sent{word}_bytes"),
        (received, f"throughput{word}_bps", f"transferred{word}_bytes"),
    ):
        if r is None:
            continue
        if r.rate_bps or r.size.value:
            log.run.metrics |= {rate: r.rate_bps, size: r.size.value}
        elif r is received and not log.serving:
            raise Damaged("the receiver's figures are missing from the result")
        elif r is received and any(i.row.size.value for i in log.intervals):
            log.run.warnings.append("the total is given as 0 bytes: the throughput is left out")


def _gaps(log: _Log) -> bool:
    """Return, with a warning, whether intervals of a stream are missing or not in order."""
    ended: dict[tuple[int, str, bool], float] = {}
    for i in log.intervals:
        key = i.stream, i.direction, i.omitted
        if abs(i.row.start_s - ended.get(key, i.row.start_s)) > 0.011:
            log.run.warnings.append(
                f"intervals are missing, or not in order: before {i.row.text.strip()!r}"
            )
            return True
        ended[key] = i.row.end_s
    measured = [i.row for i in log.intervals if not i.omitted]
    results = [r for side in log.sides.values() for r in side.streams.values()]
    if not measured or not results:
        return False
    last, test = measured[-1].end_s, min(r.end_s for r in results)
    if last < test - 0.5 * max(r.length_s for r in measured):
        log.run.warnings.append(
            f"intervals are missing: they end at {last:g} s, and the test at {test:g} s"
        )
        return True
    return False


def _check_bytes(log: _Log, direction: str, total: Row | None, other: Row | None) -> None:
    """Compare this end's result with its intervals: killed by a signal, iperf3 may print a wrong duration.

    Since 3.16 threads count at the same time, and intervals lack some bytes: two ends that agree are right.
    """
    intervals = [i for i in log.intervals if i.direction == direction and not i.omitted]
    rows = [i.row for i in intervals if i.stream == -1] or [i.row for i in intervals]
    if total is None or not rows or not total.length_s or not total.size.value:
        return
    covered = max(r.end_s for r in rows) - min(r.start_s for r in rows)
    size, most = sum(r.size.value for r in rows), 0.03 + 0.06 / total.length_s
    if abs(covered - total.length_s) < 0.05 and abs(size - total.size.value) > most * max(
        size, total.size.value
    ):
        error = f"the result contradicts the bytes of its intervals: {total.text.strip()!r}"
        if other is None or abs(other.size.value - total.size.value) > 0.01 * total.size.value:
            raise Contradictory(error)
        log.run.warnings.append(error)


def _loss(log: _Log, total: Row, side: _Side | None, word: str, sent: Row | None) -> None:
    metrics, details = log.run.metrics, log.details[total.index]
    if "lost" not in details:
        return
    lost, packets = counter(details["lost"]), counter(details["total"])
    if not packets:
        return
    count = counter(log.details[sent.index].get("total", "-1")) if sent is not None else None
    if count and packets > count:
        raise Damaged(f"{packets} datagrams received, and {count} sent")
    each = [log.details[r.index] for r in side.streams.values()] if side else []
    if each:
        for key, value in (("lost", lost), ("total", packets)):
            parts = [counter(d[key]) for d in each if key in d]
            if None not in parts and sum(p for p in parts if p is not None) != value:
                raise Contradictory(
                    f"the datagrams contradict those of the streams: {total.text.strip()!r}"
                )
    metrics[f"packets{word}_count"] = packets
    if lost is None or lost > packets:
        log.run.warnings.append(
            f"{details['lost']} of {details['total']} datagrams lost is impossible and is left out"
        )
    else:
        percent = float(details["percent"])
        # of several streams --bidir prints the share of what was sent
        if not any(is_share(percent, lost, n) for n in (packets, count) if n):
            raise Contradictory(f"the loss contradicts itself: {total.text.strip()!r}")
        metrics |= {f"lost{word}_count": lost, f"lost{word}_ratio": lost / packets}
    jitter = float(details["jitter"])
    if each:
        mean = sum(float(d["jitter"]) for d in each if "jitter" in d) / len(each)
        if abs(mean - jitter) > 0.0011:
            raise Contradictory(
                f"the jitter contradicts that of the streams: {total.text.strip()!r}"
            )
    if jitter > 1e3 * total.length_s:
        log.run.warnings.append(f"a jitter of {jitter} ms is longer than the test and is left out")
    else:
        metrics[f"jitter{word}_us"] = jitter * 1e3
    names = set(side.streams) | {"SUM"} if side else {"SUM"}
    counted = {k: v for k, v in log.disorder.items() if k in names}
    if not word and counted:
        metrics["out_of_order_count"] = (
            counted["SUM"] if "SUM" in counted else sum(counted.values())
        )


def _windows(log: _Log, direction: str) -> None:
    windows: dict[int, list[float]] = {}
    for i in log.intervals:
        if i.direction == direction and i.cwnd_bytes and not i.omitted:
            windows.setdefault(i.stream, []).append(i.cwnd_bytes)
    streams = {i.stream for i in log.intervals if i.direction == direction} - {-1}
    if windows and len(windows) == len(streams):
        log.run.metrics["cwnd_bytes"] = sum(w[-1] for w in windows.values())
        first = min((i.row for i in log.intervals if not i.omitted), key=lambda r: r.start_s)
        if first.start_s > 0 and first.length_s > 0:  # after omitted seconds it is 1.00-1.00
            log.run.warnings.append(f"the intervals before {first.start_s:g} s are missing")
        else:
            log.run.metrics["cwnd_max_bytes"] = sum(max(w) for w in windows.values())
