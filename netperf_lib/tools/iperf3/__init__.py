"""iperf3: throughput over TCP, UDP and SCTP, with the kernel's retransmits, windows and round-trip times.

Its JSON (3.0 and later), its JSON stream (3.17 and later) and its text are read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from ...errors import UsageError
from ..draft import line_start, or_above
from ..interface import Commands
from ..options import Option, arguments, bits_per_second, checked, levels
from ..parsed import ParsedRun
from ..request import Request
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
    Option("congestion", "word", "congestion control algorithm of TCP", "-C", tests=("tcp",)),
    Option("mss", int, "maximum segment size of TCP", "-M", unit="bytes", tests=("tcp",)),
    Option("zerocopy", bool, "send with sendfile, which needs less CPU", "-Z", default=False),
    Option("interval_s", float, "time between two rows of the log", default=1.0, unit="s"),
)


def commands(request: Request, server_address: str, port: int) -> Commands:
    """Return the argument lists of both ends for one trial."""
    settings = checked(request, TESTS, OPTIONS)
    if request.duration_s != int(request.duration_s) or request.omit_s != int(request.omit_s):
        raise UsageError(
            f"iperf3 counts whole seconds, not {request.duration_s:g} and {request.omit_s:g}; round duration_s and "
            "omit_s"
        )
    if settings.get("reverse") and settings.get("bidir"):
        raise UsageError("iperf3 takes reverse or bidir, not both")
    client = [
        "iperf3",
        "-c",
        server_address,
        "-p",
        str(port),
        "-J",
        "-t",
        str(int(request.duration_s)),
    ]
    client += ["-i", f"{float(settings.get('interval_s', 1)):g}", "--connect-timeout", "5000"]
    if request.omit_s:
        client += ["-O", str(int(request.omit_s))]
    client += levels(request, streams="-P", buffer="-w", message="-l")
    if request.test == "udp":
        client.append("-u")
        settings.setdefault("bitrate", 0)  # without a rate iperf3 sends UDP at 1 Mbit/s
    return Commands(
        client=(*client, *arguments(OPTIONS, settings)),
        server=("iperf3", "-s", "-1", "-p", str(port), "-J"),
        listens=(("tcp", port),),
        timeout_s=request.duration_s + request.omit_s + 30,
        server_ends=True,
    )


def rate_bps(request: Request) -> float:
    """Return the bits per second that a trial sends; `math.inf` without a rate, also for UDP (see `commands`)."""
    options = request.options
    each = bits_per_second(options.get("bitrate", 0)) or math.inf
    return each * request.streams * (2 if options.get("bidir") else 1)


# --- where runs are ------------------------------------------------------------------------------

MARKS = ("iperf", "onnect", '"start"', '"bits_per_second"', "/sec")
_START = re.compile(  # each alternative begins with a literal character: the engine searches for these first
    "|".join(
        f"{pattern}(?P<{kind}>)"
        for kind, pattern in {
            "json": r'\{\s*"(?:start|title|intervals|end|error)"\s*:',
            "event": r'\{\s*"event"\s*:\s*"\w+"',
            "banner": r"i(?<=\bi)perf 3\.\d+[^\n\x22]*$",
            "client": r"Connecting to host \S+, port \d+",
            "server": r"Accepted connection from ",
            "done": r"iperf Done\.",
            "nested": r"Server output:",
            "error": r"i(?<=\bi)perf3(?:\.exe)?: (?!warning|exiting)(?=\S)",
            "header": r"\[ ID\](?:\[Role\])?\s+Interval\s+Transfer\s+(?:Bandwidth|Bitrate)[^\n]*",
            "local": r"\]\s+local \S+ port \d+ connected to ",
            "row": r"\]\s*\d+\.\d+-\d+\.\d+\s+sec\s[^\n]*/sec\s+\d+\s+[\d.]+ [KMGT]?Bytes",
            "result": r"\]\s*0\.00-\d+\.\d+\s+sec\s[^\n]*/sec[^\n]*\s(?:sender|receiver)[ \t]*$",
        }.items()
    ),
    re.MULTILINE,
)

_COMMAND = re.compile(".*" + COMMAND.pattern)
_RULE = re.compile(r"[ >]*- - -")
_CLIENT = ("client", "banner", "fragment")
_TEXT = (*_CLIENT, "server", "nested")
_RESULT = re.compile(
    r'"sum_received"|"sum"\s*:[^}]*"lost_percent"|/sec.*\breceiver\s*$', re.MULTILINE
)
"""Shows that a test has a result; an error after it belongs to another run."""
_OWN_COLUMNS = re.compile(r"Retr\b|Bitrate|(?<!/)Total Datagrams|\[Role\]")
"""Column heads that iperf 2 does not have."""


def sightings(text: str) -> Iterator[int]:
    """Yield the offsets where a run starts."""
    begun, kind = len(text), ""
    for m in _START.finditer(text):
        now = m.lastgroup or ""
        if kind and now in ("row", "result"):
            continue  # part of the current run
        line = line_start(text, m.start())
        step = (_in_json if now in ("json", "event") else _in_text)(text, m, line, begun, kind)
        if step is None:
            continue
        start, new, now = step
        if new:
            begun, kind = start, now
            yield start
        elif now in ("", "client", "nested") or kind == "listening":
            kind = now


_Step = tuple[int, bool, str] | None
"""Where a run may start, whether one does, and the kind of what is there; None: it says nothing."""


def _in_json(text: str, m: re.Match[str], line: int, begun: int, kind: str) -> _Step:
    """Judge what a match in a document says; `line` is where its line starts, `begun` and `kind` are the run's."""
    at, now = m.start(), m.lastgroup or ""
    if now == "event":
        what = m[0].rsplit('"', 2)[1]
        over = what == "error" and re.search(r'"event"\s*:\s*"end"', text[begun:at]) is not None
        return at, what == "start" or kind != "event" or over, now
    if before := text[line:at].rstrip():
        nested = before[-1] in "[," or re.search(r'"\s*:$', before) is not None
    else:
        above = text[max(0, line - 200) : line].rstrip()
        nested = at != line and kind == "json" and above.endswith(("[", ","))
    return None if nested else (at, True, now)


def _in_text(text: str, m: re.Match[str], line: int, begun: int, kind: str) -> _Step:
    """Judge what a match in text output says, as `_in_json`."""
    at, now = m.start(), m.lastgroup or ""
    if now == "banner":
        if at - line > 40 or '"' in text[line:at]:
            return None  # not a line of the program: a text about it, or the version in a document
        ahead = text[line : line + 600]
        waits = "\nServer listening" in ahead.partition("\nConnecting to")[0]
        new = waits or "\nConnecting to" in ahead
        return line, new, "listening" if waits else "banner" if new else kind
    if now == "client":
        return or_above(text, line, _COMMAND), kind != "banner", now
    if now == "server":
        inside = kind in _CLIENT and "Server listening on" not in text[begun:at]
        return line, kind not in ("nested", "listening") and not inside, kind if inside else now
    if now == "nested":  # a new run without a client before it
        return line, not kind, now if kind in ("", *_CLIENT) else kind
    if now == "done":
        return line, False, ""
    if now == "error":
        reported = kind in ("json", "event") and '"error"' in text[begun:at]
        interrupted = text.startswith("interrupt", m.end())
        own = interrupted or text.startswith(AFTER_RESULT, m.end())
        over = not own and _RESULT.search(text, begun, at) is not None
        if over and text.startswith("the client has terminated", m.end()):
            return None  # a server that waits for another test
        new = not kind or reported or over or kind == "error"
        if new and interrupted:
            return line, new, "banner"  # with 2>&1 it comes before the log that it ends
        # a message on stderr ends the document that it belongs to
        return line, new, now if new else "" if kind == "json" else kind
    if now == "header":
        own = _OWN_COLUMNS.search(m[0]) is not None
        again = (
            kind == "fragment"
            and re.search(r"\breceiver\s*$", text[begun:at], re.MULTILINE) is not None
        )
        new = (kind not in _TEXT and own) or again
        above = or_above(text, or_above(text, line, _RULE), _COMMAND)
        return above, new, "fragment"
    if now == "local":
        new = kind not in _TEXT or (
            kind != "nested" and _RESULT.search(text, begun, at) is not None
        )
        return line, new, "fragment" if new else kind
    # what ran iperf3 may repeat the row of the result
    if now == "result" and text[text.rfind("[", line, at) : m.end()].rstrip() in text[begun:line]:
        return None
    return or_above(text, line, _COMMAND), "connected with" not in text[:at], "fragment"


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
