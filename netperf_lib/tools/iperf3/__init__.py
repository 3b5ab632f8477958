"""iperf3: throughput over TCP, UDP and SCTP, with what the kernel says of a connection.

That is retransmits, congestion windows and round-trip times.

Its JSON (3.0 and later), its JSON stream (3.17 and later) and its text are read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from ...errors import UsageError
from ..interface import Commands
from ..options import Option, arguments, bits_per_second, checked, levels
from ..parsed import ParsedRun
from ..request import Request
from ..shared import line_start, or_above
from .document import NAME as NAME
from .document import first_document, from_events, read_document, whole_document
from .text import AFTER_RESULT, COMMAND, read_text

PACKAGE = "iperf3"
VERSION = ("iperf3", "--version")
TESTS = LOAD_TESTS = ("tcp", "udp")
OPTIONS = (
    Option("reverse", bool, "the server sends", "-R", default=False),
    Option("bidir", bool, "both ends send at the same time", "--bidir", default=False),
    Option(
        "bitrate",
        "rate",
        "rate that each stream sends at; 0 is as fast as possible",
        "-b",
        0,
        "bit/s",
    ),
    Option(
        "congestion", "word", "congestion control algorithm of TCP", "-C", tests=("tcp",)
    ),
    Option("mss", int, "maximum segment size of TCP", "-M", unit="bytes", tests=("tcp",)),
    Option(
        "zerocopy", bool, "send with sendfile, which needs less CPU", "-Z", default=False
    ),
    Option("interval_s", float, "time between two rows of the log", "-i", 1.0, "s"),
)


def commands(request: Request, server_address: str, port: int) -> Commands:
    """Return the argument lists of both ends for one trial."""
    settings = checked(request, TESTS, OPTIONS)
    if request.duration_s != int(request.duration_s) or request.omit_s != int(
        request.omit_s
    ):
        raise UsageError(
            f"iperf3 counts whole seconds, not {request.duration_s:g} and {request.omit_s:g}; "
            "round duration_s and omit_s"
        )
    if settings.get("reverse") and settings.get("bidir"):
        raise UsageError("iperf3 takes reverse or bidir, not both")
    client = (
        f"iperf3 -c {server_address} -p {port} -J -t {int(request.duration_s)}".split()
    )
    client += ["--connect-timeout", "5000"]
    if request.omit_s:
        client += ["-O", str(int(request.omit_s))]
    client += levels(request, streams="-P", buffer="-w", message="-l")
    if request.test == "udp":
        client.append("-u")
        settings.setdefault("bitrate", 0)  # without a rate iperf3 sends UDP at 1 Mbit/s
    return Commands(
        client=(*client, *arguments(OPTIONS, settings)),
        server=tuple(f"iperf3 -s -1 -p {port} -J".split()),
        listens=(("tcp", port),),
        timeout_s=request.duration_s + request.omit_s + 30,
        server_ends=True,
    )


def rate_bps(request: Request) -> float:
    """Return the bits per second that a trial sends; `math.inf` without a rate, also for UDP."""
    options = request.options
    each = bits_per_second(options.get("bitrate", 0)) or math.inf
    return each * request.streams * (2 if options.get("bidir") else 1)


# --- where runs are ------------------------------------------------------------------------------

MARKS = ("iperf", "onnect", '"start"', '"bits_per_second"', "/sec")
_LINES = {
    # each begins with a literal character: the engine looks for these first
    "document": r'\{(?<=^\{)\s*"(?:start|title|intervals|end|error)"\s*:',
    "event": r'\{(?<=^\{)\s*"event"\s*:\s*"(?P<name>\w+)"',
    "nested": r"Server output:\n(?:.*\S.*\n)*",  # what --get-server-output repeats
    "version": r"i(?<=\bi)perf 3\.\d+[^\n\x22]*$"
    r"(?=(?:\n.*){1,9}\n(?:Connecting to|Server listening))",
    "connecting": r"Connecting to host \S+, port \d+",
    "accepted": r"Accepted connection from ",
    "connection": r"\]\s+local \S+ port \d+ connected to ",
    "rule": r"- - -.*\n[^\n]*\[ ID\][^\n]*Interval",
    # iperf 2 has other columns
    "head": r"\[ ID\].*\sInterval\s+Transfer\s.*"
    r"(?:Retr\b|Bitrate|[^/]Total Datagrams|\[Role\])",
    "result": r"\]\s*0\.00-\d+\.\d+\s+sec\s[^\n]*/sec[^\n]*\s(?:sender|receiver)[ \t]*$",
    "done": r"iperf Done\.",
    "error": r"i(?<=\bi)perf3(?:\.exe)?: (?!warning|exiting)(?=\S)",
}
_START = re.compile(
    "|".join(f"(?:{pattern})(?P<{kind}>)" for kind, pattern in _LINES.items()),
    re.MULTILINE,
)
_STAGES = {
    "version": 0,
    "connecting": 1,
    "accepted": 1,
    "connection": 2,
    "head": 3,
    "rule": 4,
    "result": 5,
}
"""The lines of a text in printed order: a step back begins another run."""
_OVER = 6
_COMMAND = re.compile(".*" + COMMAND.pattern)
_ANOTHER = re.compile(r"\biperf3(?:\.exe)? +-|^#{1,6} \S", re.MULTILINE)
"""A command, or a heading of the document: after a result it ends a run."""
_RULE = re.compile(r"[ >]*- - -")
_END = re.compile(r'"event"\s*:\s*"end"')


def find_runs(text: str) -> Iterator[int]:
    """Yield the offsets where a run starts."""
    begun, reached, last = len(text), _OVER, 0
    for m in _START.finditer(text):
        kind, at = str(m.lastgroup), line_start(text, m.start())
        if reached == _STAGES["result"] and _ANOTHER.search(text, last, at):
            reached = _OVER
        last = m.end()
        stage = _STAGES.get(kind, _OVER)
        new = stage < reached or kind == "document"
        if kind == "event":
            again = m["name"] == "error" and _END.search(text, begun, at)
            first = m["name"] == "start" or not text.startswith("{", begun)
            new = first or bool(again)
        elif kind == "result" and reached == _OVER:
            # what ran iperf3 may repeat the row of the result
            new = "connected with" not in text[:at] and m[0] not in text[begun:at]
            stage = _STAGES["head"]
        elif kind == "error":
            new = begun >= at or (
                reached >= _STAGES["result"] and not _own(text, begun, last)
            )
            # with 2>&1 an interrupt comes before the log that it ends
            if begun >= at and text.startswith("interrupt", last):
                stage = 0
        if new:
            begun = at
            if text[at] != "{":
                begun = or_above(text, or_above(text, at, _RULE), _COMMAND)
            yield begun
        if new or kind != "nested":
            reached = stage


def _own(text: str, begun: int, at: int) -> bool:
    """Return whether a message is of the run before it."""
    # 3.9 prints a message that its document does not have
    document = text.startswith("{", begun) and text.startswith("error", at)
    unsaid = document and '"error"' not in text[begun:at]
    return unsaid or text.startswith((AFTER_RESULT, "interrupt"), at)


def read(text: str) -> list[ParsedRun]:
    """Read one run in any of the formats."""
    head = text.lstrip()
    if not head.startswith("{"):
        return read_text(text)
    if re.match(r'\{\s*"event"\s*:', head):
        doc, wrong = from_events(text)
        return [read_document(doc, after=text, cut=wrong)]
    whole, after = first_document(head)
    cut = "" if whole is not None else "the document is cut short or damaged"
    return [read_document(whole or {}, after=after, cut=cut)]


def read_whole(data: bytes) -> ParsedRun | None:
    """Read a large file that is one JSON document; None for any other."""
    doc = whole_document(data) if re.match(rb'\s*\{\s*"start"\s*:', data) else None
    return None if doc is None else read_document(doc)
