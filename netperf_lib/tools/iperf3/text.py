"""Text output of iperf3: rows per interval, a rule, and rows of results for sender and receiver."""

from __future__ import annotations

import re
from functools import lru_cache

from ..iperf_rows import (
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
from ..parsed import ParsedRun
from ..shared import Contradictory, Damaged, fill_run
from .document import ERROR, NAME

AFTER_RESULT = "error - unable to receive results"
"""What a server prints that knows its own result, but not the client's."""
COMMAND = re.compile(r"\biperf3(?:\.exe)? +(-(?:[^|;&\n]|(?<=>)&|&(?=>))*)")
"""A command up to a pipe or its end, with what it writes elsewhere (``2>&1``)."""
_UNKNOWN = re.compile(
    r"(?<!\S)(?!-)(?<! -[cptPbwliOnkABCMfFTLS] )(?<!> )[^\s>&]*[$`<\\%…\[]"
)
"""A word that may stand for options: a variable or placeholder that is no value of an option."""
_CLOSED = re.compile(r"iperf Done\.|Server listening on")
_NESTED = re.compile(r"Server output:\n(?:.*\S.*\n)*")
_RESULTS = re.compile(r"(?:- - - - -|---)\s*\n[^\n]*\[ ID\][^\n]*Interval")
"""A rule and a new head of the table."""
_FIGURES = re.compile(
    r"(?:\s+(?P<count>-?\d+)(?: +(?P<cwnd>-?\d+(?:\.\d+)?) +(?P<unit>[KMGT]?)Bytes)?"
    rf"|{LOSS})?\s*(?P<omitted>\(omitted\))?\s*(?P<end>sender|receiver)?\s*$"
)
"""Retransmits and window, or the packets of a sender of UDP; or what arrived."""
_VERSION = re.compile(r"iperf (3\.[^\s\"]+)\s*$", re.MULTILINE)
_CONNECTING = re.compile(r"Connecting to host (\S+), port \d+")
_LOCAL = re.compile(r"\[\s*(\d+)\] local (\S+ port \d+) connected to (\S+ port \d+)")


@lru_cache(1 << 14)
def _details(figures: str) -> dict[str, str] | None:
    """Return what follows the rate, by name; None if iperf3 does not print it."""
    m = _FIGURES.match(figures)
    return m and {name: text for name, text in m.groupdict().items() if text}


_WAYS = {"TX-C": "forward", "RX-S": "forward", "TX-S": "reverse", "RX-C": "reverse"}
"""The direction of a row by what it says of its end, with ``--bidir``."""


class _Log:
    """What the lines of one run say."""

    def __init__(self, text: str) -> None:
        first = max(text.find("/sec"), 0)
        closed = _CLOSED.search(text, first)
        self.text = _NESTED.sub("", text[: closed.start()] if closed else text)
        self.closed = closed is not None
        self.heads = heads = re.findall(r"\[ ID\].*Interval.*", self.text)
        command = COMMAND.search(text, 0, first)
        self.command = command[1] if command else ""
        options = {*self.command.split()}
        if options.isdisjoint(("-c", "--client")):
            options = set()
        # letters in one word, as -uR, may be options or a value
        unclear = any(re.fullmatch(r"-\w+R\w*|-R\w+", word) for word in options)
        unclear |= _UNKNOWN.search(f" {self.command}") is not None
        self.serving = "Accepted connection from" in self.text
        self.bidir = "[Role]" in text or "--bidir" in options
        # a server does not print "Reverse mode": that it sends shows in the columns only
        head = heads[0] if heads else "[Role]"
        sends = "Retr" in head or ("Total Datagrams" in head and "Lost" not in head)
        self.direction: str | None = None
        """Of rows that do not say it; None if unknown."""
        if (
            "Reverse mode, remote host" in text
            or not options.isdisjoint(("-R", "--reverse"))
            or (self.serving and sends and "[Role]" not in head)
        ):
            self.direction = "reverse"
        elif (options and not unclear) or self.serving or _CONNECTING.search(text):
            self.direction = "forward"
        self.udp = any("Datagrams" in head for head in heads)
        self.old = any("Bandwidth" in head for head in heads)
        """Before 3.2 the result of UDP did not name its end."""
        self.intervals: list[Row] = []
        self.results: list[Row] = []
        self.damage: Damaged | None = None
        ends: dict[str, str] = {}
        for name, *pair in _LOCAL.findall(self.text):
            if ends.setdefault(name, str(pair)) != str(pair) or len(
                {*ends.values()}
            ) < len(ends):
                self.damage = Contradictory(
                    f"lines of two processes: connections of stream {name}"
                )
        self.finished = False
        for part in _RESULTS.split(self.text):
            damage = read_rows(part, self._take)
            self.damage, self.finished = self.damage or damage, True

    def _take(self, row: Row, _: str) -> None:
        details = _details(row.figures)
        if details is None or not (row.name.isdecimal() or row.name == "SUM"):
            raise Damaged(f"a row is damaged or cut short: {row.text!r}")
        row.details, row.omitted = details, "omitted" in details
        end = details.get("end", "")
        if "cwnd" in details or not self.udp:
            row.retransmits_count = counter(details.get("count"))
        if "cwnd" in details:
            size = max(float(details["cwnd"]), 0.0)
            row.cwnd_bytes = size * BYTES[details.get("unit", "")] or None
        self.bidir |= row.role is not None
        row.direction = _WAYS[row.role] if row.role else self.direction
        self.udp |= "lost" in details
        if not end and not self.finished:
            if self.intervals and row.text == self.intervals[-1].text:
                raise Damaged("an interval is printed twice: the other end was killed")
            self.intervals.append(row)
            return
        if (self.udp and "lost" not in details) or not (end or (self.old and self.udp)):
            raise Contradictory(
                f"a row of the result is of another process: {row.text!r}"
            )
        if any(row.name == other.name for other in self.side(row.direction, end)):
            raise Damaged(f"a second result, whose head is damaged: {row.text!r}")
        self.results.append(row)

    def side(self, direction: str | None, end: str) -> list[Row]:
        """Return the rows of the result of one direction, as one end saw them."""
        rows = [row for row in self.results if row.direction == direction]
        return [row for row in rows if row.details.get("end", "") == end]


def read_text(text: str) -> list[ParsedRun]:
    """Read one run."""
    return [fill_run(ParsedRun(tool=NAME), _fill, _Log(text))]


def _fill(run: ParsedRun, log: _Log) -> None:
    begun = bool(log.intervals or log.results)
    run.status = "partial" if begun else "failed"
    run.intervals = columns(log.intervals)
    version = _VERSION.search(log.text)
    run.tool_version = version[1] if version else None
    if m := _CONNECTING.search(log.text):
        run.parameters["server"] = m[1]
    try:
        _result(run, log)
    finally:
        # intervals show their protocol; results alone may have nothing that is specific to one
        tcp = log.intervals or "retransmits_count" in run.metrics
        run.test = "udp" if log.udp else "tcp" if tcp else None
        run.parameters["protocol"] = run.test
        if begun:
            run.parameters["direction"] = "bidir" if log.bidir else log.direction
            run.parameters["streams"] = _streams(log)


def _streams(log: _Log) -> int | None:
    names = {row.name for row in log.results if row.stream != -1}
    names = names or {row.name for row in log.intervals if row.stream != -1}
    if not names:
        asked = re.search(r"(?:-P *|--parallel[ =])(\d+)", log.command)
        return int(asked[1]) if asked else None
    return len(names) // 2 if log.bidir and len(names) > 1 else len(names)


def _result(run: ParsedRun, log: _Log) -> None:
    error = ERROR.search(log.text)
    if error and error[1].startswith(AFTER_RESULT) and log.results:
        run.warnings.append(error[1].strip())
    elif error and not (log.closed and error[1].startswith("interrupt - the server")):
        raise Damaged(error[1].strip())
    if "protocol: SCTP" in log.text or "--sctp" in log.text:
        raise Damaged("text of a test of SCTP is not read: save its JSON (-J)")
    if log.damage:
        raise log.damage
    if not log.results:
        raise Damaged("the test did not run, or has no result: the log ends before it")
    directions = dict.fromkeys(row.direction for row in log.results)
    if (log.bidir and len(directions) == 1) or (
        {row.direction for row in log.intervals} - directions.keys()
    ):
        raise Damaged(
            "the result of one direction is missing: the log is cut short or damaged"
        )
    for direction in directions:
        _one_way(
            run,
            log,
            direction,
            "_reverse" if log.bidir and direction == "reverse" else "",
        )
    if not run.metrics:
        raise Damaged("the result has no figures")
    if not log.intervals:
        run.warnings.append(
            "there are no intervals: none were asked for (-i 0), or they are missing"
        )


def _total(rows: list[Row], what: str) -> Row | None:
    """Return the row for all streams of a side; `Damaged` if they do not add up."""
    streams = [row for row in rows if row.stream != -1]
    sums = [row for row in rows if row.stream == -1]
    if len(streams) > 1 and not sums:
        raise Damaged(
            f"the row [SUM] of the {what or 'result'} is missing: the log is cut short"
        )
    if sums:
        check_sum(sums[0], streams)
    return next(iter([*sums, *rows]), None)


def _one_way(run: ParsedRun, log: _Log, direction: str | None, word: str) -> None:  # noqa: C901
    """Take the metrics of one direction."""
    sides = {end: log.side(direction, end) for end in ("sender", "receiver", "")}
    sent, received, plain = (_total(rows, end) for end, rows in sides.items())
    loss = received
    if plain and not sent and not received:
        # before 3.2 UDP has one result row: the sender's rate, the receiver's loss and jitter
        sent, received, loss = (
            (None, plain, plain) if log.serving else (plain, None, plain)
        )
    # before it printed "Bitrate", a server that sends printed both rows, too
    elif not (sent and received) and (not log.serving or (log.old and not log.udp)):
        lost = "sender" if received else "receiver"
        raise Damaged(
            f"the {lost}'s row of the result is missing: the log is cut short or damaged"
        )
    for row, rate, size in (
        (sent, "_sent_bps", "sent"),
        (received, "_bps", "transferred"),
    ):
        if row is None:
            continue
        if row.rate_bps is None:
            run.warnings.append(
                f"a row of the result is no number, and is left out: {row.text!r}"
            )
        elif row.rate_bps:
            run.metrics[f"throughput{word}{rate}"] = row.rate_bps
            run.metrics[f"{size}{word}_bytes"] = row.size.value
        elif row is received:
            raise Damaged("the receiver's figures are missing from the result")
    here, there = (
        (sent, received) if log.serving == (direction == "reverse") else (received, sent)
    )
    rows = [row for row in log.intervals if row.direction == direction]
    # since 3.16 intervals lack some bytes: two ends that agree are right
    agree = here and there and here.size.agrees(there.size, 0.01)
    several = len({row.stream for row in rows} - {-1}) > 1
    if several and any(row.stream != -1 for row in (sent, received) if row):
        raise Damaged("the result is not of all streams of the test: rows are missing")
    streams = _check_steps(rows, here or there, 2 if agree else 0)
    if not word and (row := received or sent):
        run.metrics["duration_measured_s"] = row.length_s
    if sent and sent.retransmits_count is not None:
        if log.serving and not log.bidir and direction == "forward":
            raise Contradictory(
                "lines of two processes: a server that receives knows no retransmits"
            )
        run.metrics[f"retransmits{word}_count"] = sent.retransmits_count
    if loss and "lost" in loss.details:
        told = sides["receiver"] or sides[""]
        each = [row for row in told if row.stream != -1 and "lost" in row.details]
        total = counter(sent.details.get("total")) if sent else 0
        take_loss(run, log.text, each, loss, word, total or 0)
    if not word:
        late = any(steps[0].start_s > 0 for steps in streams)
        # with streams that have a result and no intervals, windows are not those of all
        shown = {row.stream for row in rows} - {-1}
        ended = {row.stream for row in (*sides["sender"], *sides["receiver"])} - {-1}
        late |= bool(shown) and ended > shown
        if not late:
            take_path(run, streams)
        if "cwnd_bytes" not in run.metrics and (
            late or any("Cwnd" in one for one in log.heads)
        ):
            run.warnings.append(
                "without cwnd_bytes: congestion windows are missing from the intervals"
            )


def _check_steps(rows: list[Row], total: Row | None, lost: int) -> list[list[Row]]:
    """Return the intervals of each stream that are not omitted; `Damaged` if some are missing."""
    series: dict[tuple[bool, int], list[Row]] = {}
    for row in rows:
        series.setdefault((row.omitted, row.stream), []).append(row)
    several = len({stream for _, stream in series}) > 1
    for (omitted, stream), steps in series.items():
        whole = not omitted and (stream == -1 or not several)
        check_intervals(steps, total if whole else None, 0.5, lost)
    return [steps for (omitted, n), steps in series.items() if n != -1 and not omitted]
