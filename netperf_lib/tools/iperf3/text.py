"""Text output of iperf3: rows per interval, a rule, and rows of results for sender and receiver."""

from __future__ import annotations

import re
from typing import Any

from ..draft import Contradictory, Damaged, Draft, Figure, add_cpu_costs, added
from ..iperf_rows import BYTES, DISORDER, LOSS, Row, columns, counter, is_share, read_row
from ..parsed import ParsedRun

NAME = "iperf3"

ERROR = re.compile(
    r"iperf3(?:\.exe)?: ((?:error|interrupt|the server|unable|parameter)\b.*"
    r"|unrecognized option.*|(?:command )?not found.*)"
)
AFTER_RESULT = "error - unable to receive results"
"""What a server prints that knows its own result, but not the client's."""
COMMAND = re.compile(r"\biperf3(?:\.exe)? +(-[^|>;&\n]*)")
_NESTED = re.compile(r"^.*Server output:\n(?:.*\S.*\n)*", re.MULTILINE)
_CLOSED = re.compile(r"iperf Done\.|Server listening on")
_RESULTS = re.compile(r"(?:- - - - -|---)\s*\n[^\n]*\[ ID\][^\n]*Interval")
"""A rule and a new head of the table."""
_TCP = re.compile(r"\s+(-?\d+)(?: +(-?\d+(?:\.\d+)?) +([KMGT]?)Bytes)?\s*$")
"""Retransmits and window, or the packets of a sender of UDP."""
_UDP = re.compile(LOSS + r"\s*$")
_AFTER_OMITTED = re.compile(r"\]\s+0\.0[1-9]-\d+\.\d\d\s+sec ")
"""With ``-O`` a server prints other times for this row than those of its rate (seen with 3.16)."""
_VERSION = re.compile(r"(?:^|\s)iperf (3\.\S+)\s*$", re.MULTILINE)
_CONNECTING = re.compile(r"Connecting to host (\S+), port (\d+)")
_LOCAL = re.compile(r"\[\s*(\d+)\] local (\S+ port \d+) connected to (\S+ port \d+)")
_CONGESTION = re.compile(r"snd_tcp_congestion (\S+)")
_VERBOSE = re.compile(
    r"Starting Test: protocol: (?P<protocol>\w+), \d+ streams, (?P<message_bytes>\d+) byte blocks, "
    r"omitting (?P<omit_s>\d+) seconds, (?:(?P<duration_s>\d+) second test)?"
)
_CPU = re.compile(r"(local|remote)/\w+ (\d+\.\d)% \((\d+\.\d)%u/(\d+\.\d)%s\)")


class _Log:
    """What the lines of one run say."""

    def __init__(self, text: str) -> None:
        before, nested, _ = text.partition("Server output:")
        if nested and ("/sec" in before or _CONNECTING.search(before)):
            text = _NESTED.sub("", text)
        first = max(text.find("/sec"), 0)
        closed = _CLOSED.search(text, first)
        self.text = text[: closed.start()] if closed else text
        self.closed = closed is not None
        self.heads = re.findall(r"\[ ID\].*Interval.*", self.text)
        command = COMMAND.search(self.text[:first])
        self.command = f" {command[1]} " if command else ""
        self.serving = "Accepted connection from" in self.text
        asked = re.search(r" (?:-c|--client)[ =]", self.command) is not None
        self.bidir = asked and " --bidir " in self.command
        # a server does not print "Reverse mode": that it sends shows in the columns only
        head = self.heads[0] if self.heads else "[Role]"
        sends = "Retr" in head or ("Total Datagrams" in head and "Lost" not in head)
        self.reverse = (
            "Reverse mode, remote host" in self.text
            or (asked and re.search(r" (?:-R|--reverse) ", self.command) is not None)
            or (self.serving and sends and "[Role]" not in head)
        )
        # letters in one word, as -uR, may be options or a value
        asked &= re.search(r" -\w*R\w* ", self.command.replace(" -R ", " ")) is None
        self.headed = asked or self.serving or _CONNECTING.search(self.text) is not None
        self.udp = any("Datagrams" in head for head in self.heads)
        self.old = any("Bandwidth" in head for head in self.heads)
        """Before 3.2 the result of UDP did not name its end."""
        self.ends: dict[str, tuple[str, str]] = {}
        self.intervals: list[Row] = []
        self.results: list[Row] = []
        self.warnings: list[str] = []
        self.damage: Damaged | None = None
        for name, *ends in _LOCAL.findall(self.text):
            same = self.ends.setdefault(name, (ends[0], ends[1])) == (ends[0], ends[1])
            if not same or len({*self.ends.values()}) < len(self.ends):
                self.damage = Contradictory(f"lines of two processes: connections of stream {name}")
        parts = _RESULTS.split(self.text)
        for part in parts:
            for line in part.split("\n"):
                try:
                    self._add(line, finished=part is not parts[0])
                except Damaged as error:
                    self.damage = self.damage or error

    def _add(self, line: str, *, finished: bool) -> None:
        try:
            row = read_row(line)
        except Damaged as error:
            if not self.serving or finished or not _AFTER_OMITTED.search(line):
                raise
            self.warnings.append(f"{error}: the first interval after omitted ones is left out")
            return
        if row is None:
            return
        end, figures = _details(row, udp=self.udp)
        self.bidir |= row.role is not None
        backwards = row.role in ("TX-S", "RX-C") if row.role else self.reverse
        row.direction = "reverse" if backwards else "forward"
        self.udp |= "lost" in row.details
        if figures:
            raise Damaged(f"a row is damaged or cut short: {row.text!r}")
        if not end and not finished:
            if row.stream != "SUM" and not row.stream.isdigit():
                raise Damaged(f"a row that belongs to no stream: {row.text!r}")
            if self.intervals and self.intervals[-1].text == row.text:
                self.warnings.append("an interval is printed twice; counted once")
            else:
                self.intervals.append(row)
            return
        if end and "packets" in row.details:  # UDP prints it with the loss
            raise Contradictory(
                f"lines of two processes: retransmits among datagrams: {row.text!r}"
            )
        if not end and ("lost" not in row.details or not self.old):
            raise Damaged(f"a row of the result does not say whose it is: {row.text!r}")
        if any(row.stream == other.stream for other in self.side(row.direction, end)):
            raise Damaged(
                f"a second result: the head of another test is damaged above {row.text!r}"
            )
        self.results.append(row)

    def side(self, direction: str | None, end: str) -> list[Row]:
        """Return the rows of the result of one direction, as one end saw them."""
        return [r for r in self.results if (r.direction, r.details["end"]) == (direction, end)]

    def measured(self, direction: str | None) -> list[Row]:
        """Return the intervals of a direction that are not omitted."""
        return [row for row in self.intervals if row.direction == direction and not row.omitted]


def _details(row: Row, *, udp: bool) -> tuple[str, str]:
    """Read what follows the rate into the row; return whose row it is, and what was not readable."""
    figures = row.figures.rstrip()
    end = next((name for name in ("sender", "receiver") if figures.endswith(name)), "")
    figures = figures.removesuffix(end).rstrip()
    row.omitted = figures.endswith("(omitted)")
    figures = figures.removesuffix("(omitted)").rstrip()
    if m := _TCP.match(figures):
        count, window, prefix = m.groups()
        row.details = {"packets" if udp and window is None else "retransmits": counter(count)}
        row.details["cwnd"] = max(float(window or 0), 0.0) * BYTES[prefix or ""] or None
    elif m := _UDP.match(figures):
        row.details = m.groupdict()
    elif figures:
        return end, figures
    row.details["end"] = end
    return end, ""


def read_text(text: str) -> list[ParsedRun]:
    """Read one run."""
    return [Draft(NAME).filled(_fill, _Log(text))]


def _fill(draft: Draft, log: _Log) -> None:
    draft.begun = bool(log.intervals or log.results)
    draft.warnings = log.warnings
    draft.intervals = columns(log.intervals)
    direction = "bidir" if log.bidir else "reverse" if log.reverse else "forward"
    if direction == "forward" and not log.headed:
        direction = ""
        if log.intervals:
            draft.intervals = {
                **draft.intervals,
                "direction": [None] * len(draft.intervals["stream"]),
            }
    version = _VERSION.search(log.text)
    draft.version = version[1] if version else None
    draft.parameters = _parameters(log)
    try:
        _result(draft, log)
    finally:
        # intervals show their protocol; results alone may have nothing that is specific to one
        tcp = log.intervals or "retransmits_count" in draft.metrics
        sctp = draft.parameters.pop("sctp")
        draft.test = "udp" if log.udp else "sctp" if sctp else "tcp" if tcp else None
        draft.parameters["protocol"] = draft.test
        draft.parameters["direction"] = direction or None if draft.begun else None
        draft.parameters["streams"] = _streams(log) if draft.begun else None


def _parameters(log: _Log) -> dict[str, Any]:
    verbose = _VERBOSE.search(log.text)
    parameters: dict[str, Any] = dict(verbose.groupdict()) if verbose else {}
    protocol = parameters.pop("protocol", "")
    parameters = {name: int(value) for name, value in parameters.items() if value}
    parameters["sctp"] = protocol == "SCTP" or " --sctp " in log.command
    if m := _CONNECTING.search(log.text):
        parameters |= {"server": m[1], "port": int(m[2])}
    if m := _CONGESTION.search(log.text):
        parameters["congestion_control"] = m[1]
    return parameters


def _streams(log: _Log) -> int | None:
    rows = log.intervals if any(r.number != -1 for r in log.intervals) else log.results
    found = {(row.stream, row.direction) for row in rows if row.number != -1}
    if not found:
        asked = re.search(r" (?:-P *|--parallel[ =])(\d+) ", log.command)
        return int(asked[1]) if asked else None
    names = {name for name, _ in found}
    return len(names) // 2 if log.bidir and len(names) > 1 else len(names)


def _result(draft: Draft, log: _Log) -> None:
    error = ERROR.search(log.text)
    if error and error[1].startswith(AFTER_RESULT) and log.results:
        draft.warnings.append(error[1].strip())
    elif error and not (log.closed and error[1].startswith("interrupt - the server")):
        raise Damaged(error[1].strip())
    if log.damage:
        raise log.damage
    directions = sorted({str(row.direction) for row in log.results})
    if log.bidir and len(directions) == 1:
        raise Damaged(
            f"the result is of one direction only ({directions[0]}): the log is cut short"
        )
    if directions and {row.direction for row in log.intervals} - {*directions}:
        raise Damaged("the result of one direction is missing: the log is cut short or damaged")
    gaps = _gaps(draft, log)
    for direction in directions:
        word = "_reverse" if log.bidir and direction == "reverse" else ""
        _one_way(draft, log, direction, word, gaps=gaps)
    metrics = draft.metrics
    if not metrics:
        left = "the test has no result: the log ends after its intervals"
        none = "the test did not run: there are no intervals and no result"
        raise Damaged(left if log.intervals else none)
    if "cwnd_bytes" not in metrics and not gaps and any("Cwnd" in head for head in log.heads):
        draft.warnings.append(
            "without cwnd_bytes: congestion windows are missing from the intervals"
        )
    if not log.intervals:
        draft.warnings.append(
            "there are no intervals: none were asked for (-i 0), or they are missing"
        )
    for end, total, user, system in _CPU.findall(log.text):
        side = "server" if log.serving == (end == "local") else "client"
        if abs(float(total) - float(user) - float(system)) >= 0.16:
            draft.warnings.append(f"the {end} CPU time contradicts its parts and is left out")
        elif float(total) or end == "local":
            metrics[f"cpu_{side}_ratio"] = float(total) / 100
    add_cpu_costs(metrics)


def _total(rows: list[Row], what: str) -> Row | None:
    """Return the row for all streams of a side; `Damaged` if they do not add up."""
    streams = [row for row in rows if row.number != -1]
    if len(rows) == len(streams):
        if len(rows) > 1:
            raise Damaged(
                f"the row [SUM] of the {what or 'result'} is missing: the log is cut short"
            )
        return rows[0] if rows else None
    total = next(row for row in rows if row.number == -1)
    if streams and not total.size.agrees(Figure.sum([row.size for row in streams]), 0):
        raise Contradictory(f"the row [SUM] contradicts its streams: {total.text!r}")
    return total


def _one_way(draft: Draft, log: _Log, direction: str, word: str, *, gaps: bool) -> None:
    """Take the metrics of one direction."""
    metrics = draft.metrics
    sides = {end: log.side(direction, end) for end in ("sender", "receiver", "")}
    measured = {row.number for row in log.intervals if row.direction == direction} - {-1}
    expected = len(measured) or (0 if log.bidir else len(log.ends))
    counts = {sum(row.number != -1 for row in rows) for rows in sides.values() if rows}
    if (expected and counts != {expected}) or (not log.serving and len(counts - {0}) > 1):
        raise Damaged(f"the result is not of the {expected} streams of the test: rows are missing")
    sent, received, plain = (_total(rows, end) for end, rows in sides.items())
    loss = received
    if plain and not sent and not received:
        # before 3.2 UDP has one result row: the sender's rate, the receiver's loss and jitter
        sent, received, loss = (None, plain, plain) if log.serving else (plain, None, plain)
    # before it printed "Bitrate", a server printed both rows, too
    elif not (sent and received) and (not log.serving or (log.old and not log.udp and log.reverse)):
        lost = "sender" if received else "receiver"
        raise Damaged(f"the {lost}'s row of the result is missing: the log is cut short or damaged")
    for row, rate, size in ((sent, "_sent_bps", "sent"), (received, "_bps", "transferred")):
        if row is None:
            continue
        if row.rate_bps is None:
            draft.warnings.append(
                f"a row of the result is no number, and is left out: {row.text!r}"
            )
        elif row.rate_bps or row.size.value:
            metrics |= {
                f"throughput{word}{rate}": row.rate_bps,
                f"{size}{word}_bytes": row.size.value,
            }
        elif row is received and not log.serving:
            raise Damaged("the receiver's figures are missing from the result")
        elif row is received and any(i.size.value for i in log.intervals):
            draft.warnings.append("the total is given as 0 bytes: the throughput is left out")
    if not gaps:
        here, there = (
            (sent, received) if log.serving == (direction == "reverse") else (received, sent)
        )
        _check_bytes(draft, log.measured(direction), here, there)
    if not word and (row := received or sent):
        metrics["duration_measured_s"] = row.length_s
    if sent and (count := sent.details.get("retransmits")) is not None:
        if log.serving and not log.bidir and direction == "forward":
            raise Contradictory(
                "lines of two processes: a server that receives knows no retransmits"
            )
        metrics[f"retransmits{word}_count"] = count
    if loss and "lost" in loss.details:
        _loss(draft, log, loss, sides["receiver"] or sides[""], word, sent)
    if not word and not gaps:
        _windows(draft, log, direction)


def _gaps(draft: Draft, log: _Log) -> bool:
    """Return, with a warning, whether intervals of a stream are missing or not in order."""
    ended: dict[tuple[int, str | None, bool], float] = {}
    for row in log.intervals:
        key = row.number, row.direction, row.omitted
        if abs(row.start_s - ended.get(key, row.start_s)) > 0.011:
            draft.warnings.append(f"intervals are missing, or not in order: before {row.text!r}")
            return True
        ended[key] = row.end_s
    measured = [row for row in log.intervals if not row.omitted]
    results = [row.end_s for row in log.results if row.number != -1]
    if not measured or not results:
        return False
    last, test = measured[-1].end_s, min(results)
    late = last < test - 0.5 * max(row.length_s for row in measured)
    if late:
        draft.warnings.append(
            f"intervals are missing: they end at {last:g} s, and the test at {test:g} s"
        )
    return late


def _check_bytes(draft: Draft, measured: list[Row], total: Row | None, other: Row | None) -> None:
    """Compare this end's result with its intervals: killed by a signal, iperf3 may print a wrong duration.

    Since 3.16 threads count at the same time, and intervals lack some bytes: two ends that agree are right.
    """
    rows = [row for row in measured if row.number == -1] or measured
    if total is None or not rows or not total.length_s or not total.size.value:
        return
    covered = max(row.end_s for row in rows) - min(row.start_s for row in rows)
    size, most = sum(row.size.value for row in rows), 0.03 + 0.06 / total.length_s
    apart = abs(size - total.size.value) > most * max(size, total.size.value)
    if apart and abs(covered - total.length_s) < 0.05:
        error = f"the result contradicts the bytes of its intervals: {total.text!r}"
        if other is None or abs(other.size.value - total.size.value) > 0.01 * total.size.value:
            raise Contradictory(error)
        draft.warnings.append(error)


def _loss(
    draft: Draft, log: _Log, total: Row, side: list[Row], word: str, sent: Row | None
) -> None:
    metrics, details = draft.metrics, total.details
    lost, packets = counter(details["lost"]), counter(details["total"])
    if not packets:
        return
    count = counter(sent.details.get("total", "-1")) if sent else None
    if count and packets > count:
        raise Damaged(f"{packets} datagrams received, and {count} sent")
    streams = [row.details for row in side if row.number != -1]
    jitter, each = float(details["jitter"]), [float(d["jitter"]) for d in streams if "jitter" in d]
    for key, value in (("lost", lost), ("total", packets)):
        if added(counter(d[key]) for d in streams if key in d) not in (None, value):
            raise Contradictory(f"the datagrams contradict those of the streams: {total.text!r}")
    if each and abs(sum(each) / len(each) - jitter) > 0.0011:
        raise Contradictory(f"the jitter contradicts that of the streams: {total.text!r}")
    metrics[f"packets{word}_count"] = packets
    if lost is None or lost > packets:
        draft.warnings.append(f"{lost} of {packets} datagrams lost is impossible and is left out")
    else:
        percent = float(details["percent"])
        # of several streams --bidir prints the share of what was sent
        if not any(is_share(percent, lost, n) for n in (packets, count) if n):
            raise Contradictory(f"the loss contradicts itself: {total.text!r}")
        metrics |= {f"lost{word}_count": lost, f"lost{word}_ratio": lost / packets}
    if jitter > 1e3 * total.length_s:
        draft.warnings.append(f"a jitter of {jitter} ms is longer than the test and is left out")
    else:
        metrics[f"jitter{word}_us"] = jitter * 1e3
    disorder = {name: int(number) for name, number in DISORDER.findall(log.text)}
    counted = [number for name, number in disorder.items() if name != "SUM"]
    if not word and disorder:
        metrics["out_of_order_count"] = disorder.get("SUM", sum(counted))


def _windows(draft: Draft, log: _Log, direction: str) -> None:
    windows: dict[int, list[float]] = {}
    rows = log.measured(direction)
    for row in rows:
        if row.details.get("cwnd"):
            windows.setdefault(row.number, []).append(row.details["cwnd"])
    if windows and windows.keys() == {row.number for row in rows} - {-1}:
        draft.metrics["cwnd_bytes"] = sum(w[-1] for w in windows.values())
        first = min(rows, key=lambda row: row.start_s)
        if first.start_s > 0 and first.length_s > 0:  # after omitted seconds it is 1.00-1.00
            draft.warnings.append(f"the intervals before {first.start_s:g} s are missing")
        else:
            draft.metrics["cwnd_max_bytes"] = sum(max(w) for w in windows.values())
