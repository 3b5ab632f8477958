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
_START = re.compile(
    "|".join(
        f"(?:{pattern})(?P<{kind}>)"
        for kind, pattern in {
            # each begins with a literal character: the engine looks for these first
            "json": r'\{(?<=^\{)\s*"(?:start|title|intervals|end|error)"\s*:',
            "event": r'\{(?<=^\{)\s*"event"\s*:\s*"\w+"',
            "nested": r"Server output:\n(?:.*\S.*\n)*",  # what --get-server-output repeats
            "s0": r"i(?<=\bi)perf 3\.\d+[^\n\x22]*$(?=(?:\n.*){1,9}\n(?:Connecting to|Server "
            r"listening))",
            "s1": r"Connecting to host \S+, port \d+",
            "s1_server": r"Accepted connection from ",
            "s2": r"\]\s+local \S+ port \d+ connected to ",
            "s4": r"- - -.*\n[^\n]*\[ ID\][^\n]*Interval",
            # iperf 2 has other columns
            "s3": r"\[ ID\].*\sInterval\s+Transfer\s.*(?:Retr\b|Bitrate|[^/]Total "
            r"Datagrams|\[Role\])",
            "s5": r"\]\s*0\.00-\d+\.\d+\s+sec\s[^\n]*/sec[^\n]*\s(?:sender|receiver)[ \t]*$",
            "done": r"iperf Done\.",
            "error": r"i(?<=\bi)perf3(?:\.exe)?: (?!warning|exiting)(?=\S)",
        }.items()
    ),
    re.MULTILINE,
)
"""The lines of a text in printed order: a step back begins another run; and others."""
_RESULT, _OVER = 5, 6
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
        stage = int(kind[1]) if kind[1].isdigit() else _OVER
        new = stage < reached if reached < _OVER else kind not in ("nested", "done")
        if reached == _RESULT and _ANOTHER.search(text, last, at):
            reached = _OVER
        last = m.end()
        if kind == "event":
            what = m[0].rsplit('"', 2)[1]
            over = what == "error" and _END.search(text, begun, at) is not None
            new = what == "start" or not text.startswith("{", begun) or over
        elif kind == "json":
            new = True
        elif kind == "s5" and reached == _OVER:
            # what ran iperf3 may repeat the row of the result
            new, stage = (
                "connected with" not in text[:at] and m[0] not in text[begun:at],
                3,
            )
        elif kind == "error":
            new, stage = _error_is_new(
                text, m.end(), text[begun:at], over=reached >= _RESULT
            )
        if new:
            begun = (
                at
                if text[at] == "{"
                else or_above(text, or_above(text, at, _RULE), _COMMAND)
            )
            yield begun
        if new or kind != "nested":
            reached = stage


def _error_is_new(text: str, end: int, run: str, *, over: bool) -> tuple[bool, int]:
    """Return whether a message is of another run than those before it, and the stage reached."""
    if text.startswith("interrupt", end):
        # with 2>&1 it comes before the log that it ends
        return not run, _OVER if run else 0
    unsaid = (
        run.startswith("{") and '"error"' not in run and text.startswith("error", end)
    )
    own = unsaid or text.startswith(AFTER_RESULT, end)
    return not run or (over and not own), _OVER


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
