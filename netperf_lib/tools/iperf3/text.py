"""Text output of iperf3: rows per interval, a rule, and rows of results for sender and receiver."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..iperf_rows import (
    LOSS,
    Row,
    columns,
    complete_streams,
    connections,
    counter,
    read_rows,
    row_pattern,
    take_loss,
    take_path,
    take_rate,
    total_of,
)
from ..parsed import ParsedRun
from ..shared import Contradictory, Damaged, fill_run, found
from .document import ERROR, NAME

AFTER_RESULT = "error - unable to receive results"
"""What a server prints that knows its own result, but not the client's."""
COMMAND = re.compile(r"\biperf3(?:\.exe)? +(-(?:[^|;&\n]|(?<=>)&|&(?=>))*)")
"""A command up to a pipe or its end, with what it writes elsewhere (``2>&1``)."""
_UNKNOWN = re.compile(
    r"(?<!\S)(?!-)(?<! -[cptPbwliOnkABCMfFTLS] )(?<!> )[^\s>&]*[$`<\\%…\[]"
    # letters in one word, as -uR, may be options or a value
    r"|(?<!\S)-(?:\w+R\w*|R\w+)(?!\S)"
)
"""A word that may stand for options: a variable or placeholder that is no value of an option."""
_CLOSED = re.compile(r"iperf Done\.|Server listening on")
_NESTED = re.compile(r"Server output:\n(?:.*\S.*\n)*")
_RESULTS = re.compile(r"(?:- - - - -|---)\s*\n(?=[^\n]*\[ ID\][^\n]*Interval)")
"""A rule above a new head of the table."""
_ROWS = row_pattern(
    r"(?: +(?P<retransmits>-?\d+)(?: +(?P<cwnd>-?\d+(?:\.\d+)?) +(?P<unit>[KMGT]?)Bytes)?"
    rf"|{LOSS})?(?P<rtt>)? *(?P<omitted>\(omitted\))? *(?P<end>sender|receiver)?"
)
"""Retransmits and window, or the packets of a sender of UDP; or what arrived."""
_VERSION = re.compile(r"iperf (3\.[^\s\"]+)\s*$", re.MULTILINE)
_CONNECTING = re.compile(r"Connecting to host (\S+), port \d+")
_ACCEPTED = "Accepted connection from"
_TITLES = re.compile(r"\[ ID\].*Interval.*")
_SENDS = re.compile(r"(?!.*\[Role\]).*(?:Retr|(?<!Lost/)Total Datagrams)")
"""A server does not print "Reverse mode": that it sends shows in the columns only."""
_WAYS = {"TX-C": "forward", "RX-S": "forward", "TX-S": "reverse", "RX-C": "reverse"}
"""The direction of a row by what it says of its end, with ``--bidir``."""


@dataclass(frozen=True, slots=True)
class _Log:
    """What the lines of one run say."""

    words: str
    """The text without its rows."""
    closed: bool
    """A line says that the test is over."""
    command: str
    serving: bool
    bidir: bool
    old: bool
    """Before 3.2 the result of UDP did not name its end."""
    udp: bool
    direction: str | None
    """Of rows that do not say it; None if unknown."""
    intervals: list[Row]
    results: list[Row]
    damage: Damaged | None


def _log(whole: str) -> _Log:
    """Return what the lines say; of `whole`, the lines of the other end are left out."""
    first = max(whole.find("/sec"), 0)
    text = whole
    if closed := _CLOSED.search(whole, first):
        text = whole[: closed.start()]
    text = _NESTED.sub("", text)
    command = found(COMMAND, text[:first]) or ""
    options = {*command.split()}
    if options.isdisjoint(("-c", "--client")):
        options.clear()
    intervals: list[Row] = []
    results: list[Row] = []
    words, damage = "", None
    for number, part in enumerate(_RESULTS.split(text)):
        rows, rest, wrong = read_rows(part, _ROWS)
        words += f"\n{rest}"
        damage = damage or wrong
        for row in rows:
            row.omitted = row.match["omitted"] is not None
            if number or row.match["end"]:
                results.append(row)
            elif intervals and row.text == intervals[-1].text:
                twice = "an interval is printed twice: the other end was killed"
                damage = damage or Damaged(twice)
            else:
                intervals.append(row)
    titles = "\n".join(_TITLES.findall(words))
    serving = _ACCEPTED in words
    clear = not _UNKNOWN.search(f" {command}")
    direction = _direction(whole, titles, options, serving=serving, clear=clear)
    bidir = "[Role]" in titles or "--bidir" in options
    udp = "Datagrams" in titles
    for row in (*intervals, *results):
        row.direction = _WAYS.get(row.match["role"], direction)
        bidir |= row.match["role"] is not None
        udp |= row.match["lost"] is not None
    if udp:
        for row in (*intervals, *results):
            row.retransmits_count = None  # the number is that of datagrams
    return _Log(
        words=words,
        closed=closed is not None,
        command=command,
        serving=serving,
        bidir=bidir,
        old="Bandwidth" in titles,
        udp=udp,
        direction=direction,
        intervals=intervals,
        results=results,
        damage=damage,
    )


def _direction(
    whole: str, titles: str, options: set[str], *, serving: bool, clear: bool
) -> str | None:
    """Return the direction of rows that do not say it; None if the log does not tell.

    `options` are those of the client's command, and `clear` is whether that is known whole.
    """
    sends = serving and _SENDS.match(titles)
    if sends or options & {"-R", "--reverse"} or "Reverse mode, remote host" in whole:
        return "reverse"
    if (options and clear) or serving or _CONNECTING.search(whole):
        return "forward"
    return None


def read_text(text: str) -> list[ParsedRun]:
    """Read one run."""
    return [fill_run(ParsedRun(tool=NAME), _fill, _log(text))]


def _fill(run: ParsedRun, log: _Log) -> None:
    run.intervals = columns(log.intervals)
    run.tool_version = found(_VERSION, log.words)
    run.parameters["server"] = found(_CONNECTING, log.words)
    resent = any(row.retransmits_count is not None for row in log.results)
    # intervals show their protocol; results alone may have nothing that is specific to one
    if log.udp or log.intervals or resent:
        run.test = "udp" if log.udp else "tcp"
    run.parameters["protocol"] = run.test
    if log.intervals or log.results:
        run.status = "partial"
        run.parameters["direction"] = "bidir" if log.bidir else log.direction
        run.parameters["streams"] = _streams(log)
    _refuse(run, log)
    directions = dict.fromkeys(row.direction for row in log.results)
    shown = {row.direction for row in log.intervals}
    if (log.bidir and len(directions) == 1) or shown - directions.keys():
        raise Damaged(
            "the result of one direction is missing: the log is cut short or damaged"
        )
    for direction in directions:
        back = log.bidir and direction == "reverse"
        _one_way(run, log, direction, "_reverse" if back else "")
    if not run.metrics:
        raise Damaged("the result has no figures")
    if not log.intervals:
        run.warnings.append(
            "there are no intervals: none were asked for (-i 0), or they are missing"
        )


def _refuse(run: ParsedRun, log: _Log) -> None:
    """Refuse a log that has an error or no result; a message after the result is a warning."""
    if error := ERROR.search(log.words):
        message = error[1].strip()
        if log.results and message.startswith(AFTER_RESULT):
            run.warnings.append(message)
        elif not (log.closed and message.startswith("interrupt - the server")):
            raise Damaged(message)
    if "protocol: SCTP" in log.words or "--sctp" in log.words:
        raise Damaged("text of a test of SCTP is not read: save its JSON (-J)")
    connections(log.words)
    if log.damage:
        raise log.damage
    if not log.results:
        raise Damaged("the test did not run, or has no result: the log ends before it")


def _streams(log: _Log) -> int | None:
    """Return the number of streams of one direction; None if only sums are there."""
    names = {row.name for row in log.results} - {"SUM"}
    names = names or {row.name for row in log.intervals} - {"SUM"}
    if log.bidir and len(names) > 1:
        return len(names) // 2
    asked = re.search(r"(?:-P *|--parallel[ =])(\d+)", log.command)
    if asked and not names:
        return int(asked[1])
    return len(names) or None


def _ends(log: _Log, direction: str | None) -> dict[str, list[Row]]:
    """Return the rows of the result of one direction, by the end that saw them."""
    ends: dict[str, list[Row]] = {"sender": [], "receiver": [], "both": []}
    for row in log.results:
        end = row.match["end"]
        named = end or (log.old and log.udp)
        if not named or (log.udp and row.match["lost"] is None):
            raise Contradictory(
                f"a row of the result is of another process: {row.text!r}"
            )
        if row.direction == direction:
            ends[end or "both"].append(row)
    for rows in ends.values():
        names = {row.name for row in rows}
        if len(names) < len(rows):
            raise Damaged(f"a second result, whose head is damaged: {rows[-1].text!r}")
        if len(names) > 1 and "SUM" not in names:
            raise Damaged("the row [SUM] of the result is missing: the log is cut short")
    return ends


def _one_way(run: ParsedRun, log: _Log, direction: str | None, word: str) -> None:
    """Take the metrics of one direction."""
    ends = _ends(log, direction)
    sent = total_of(run, ends["sender"])
    received = total_of(run, ends["receiver"])
    told = ends["receiver"]
    if ends["both"] and not sent and not received:
        # before 3.2 UDP has one result row: the sender's rate, the receiver's loss and jitter
        told = ends["both"]
        both = total_of(run, told)
        if log.serving:
            received = both
        else:
            sent = both
    # before it printed "Bitrate", a server that sends printed both rows, too
    elif not (sent and received) and (not log.serving or (log.old and not log.udp)):
        lost = "sender" if received else "receiver"
        raise Damaged(
            f"the {lost}'s row of the result is missing: the log is cut short or damaged"
        )
    take_rate(run, sent, f"throughput{word}_sent_bps", f"sent{word}_bytes")
    take_rate(run, received, f"throughput{word}_bps", f"transferred{word}_bytes")
    if received and received.rate_bps == 0:
        raise Damaged("the receiver's figures are missing from the result")
    datagrams = 0
    if sent:
        run.metrics[f"retransmits{word}_count"] = sent.retransmits_count
        datagrams = counter(sent.match["total"]) or 0
    receives = log.serving and not log.bidir and direction == "forward"
    if receives and run.metrics.get(f"retransmits{word}_count") is not None:
        raise Contradictory(
            "lines of two processes: a server that receives knows no retransmits"
        )
    if log.udp and told:
        take_loss(run, log.words, told, word, datagrams)
    sends = log.serving == (direction == "reverse")
    local = ends["sender" if sends else "receiver"]
    known = [row for rows in (*ends.values(), local) for row in rows]
    results = {row.name: row for row in known}
    # since 3.16 intervals lack some bytes: two ends that agree are right
    agree = sent and received and sent.size.agrees(received.size, 0.01)
    steps = [row for row in log.intervals if row.direction == direction]
    streams = complete_streams(steps, results, 2 if agree else 0)
    result = received or sent
    if result and not word:
        run.metrics["duration_measured_s"] = result.length_s
        take_path(run, steps, streams)
