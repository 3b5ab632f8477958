"""iperf3: throughput over TCP, UDP and SCTP, with the retransmits, windows and round-trip times that the kernel knows.

What it prints is read from its JSON (3.0 and later), its JSON stream (3.17 and later) and its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import orjson

from ..errors import UsageError
from . import Commands
from ._alternatives import alternatives
from ._iperf3_document import decode_documents, from_events, has_doubles, salvage
from ._iperf3_intervals import decode_large
from ._iperf3_json import read_document
from ._iperf3_text import read_text
from ._options import Known, checked
from .parsed import ParsedRun

if TYPE_CHECKING:
    from ..experiment.model import Trial

NAME = "iperf3"
_STRONG = (
    '"start"',
    '"event"',
    '"bits_per_second"',
    "iperf3",
    "iperf 3.",
    "connected to",
    "Connecting to host",
    "Bitrate",
)
MARKS = (*_STRONG, "its/sec", "Bytes/sec")
PACKAGE = "iperf3"
VERSION = ("iperf3", "--version")
TESTS = ("tcp", "udp")
OPTIONS: Final[Known] = {
    "reverse": bool,
    "bidir": bool,
    "bitrate": str,
    "congestion": str,
    "mss": int,
    "zerocopy": bool,
    "interval_s": float,
}
"""What `TestSpec.options` may hold, and of which kind."""

_START = alternatives(
    {
        "json": r'\{\s*"(?:start|intervals|streams|error)"\s*:',
        "event": r'\{\s*"event"\s*:\s*"\w+"',
        "part": r'"(?:sum_sent|sum_received|bits_per_second)"\s*:',
        "banner": r"\biperf 3\.\d+[^\n\x22]*$",
        "client": r"Connecting to host \S+, port \d+",
        "server": r"Accepted connection from ",
        "done": r"iperf Done\.",
        "nested": r"Server output:",
        "error": r"\biperf3(?:\.exe)?: (?!warning)\S",
        "usage": r"^Usage: iperf3 ",
        "header": r"\[ ID\](?:\[Role\])?\s+Interval\s+Transfer\s+(?:Bandwidth|Bitrate)",
        "local": r"\]\s+local \S+ port \d+ connected to ",
        "row": r"\]\s*\d+\.\d+-\d+\.\d+\s+sec\s[^\n]*/sec\s+\d+\s+[\d.]+ [KMGT]?Bytes",
        "result": r"\]\s*0\.00-\d+\.\d+\s+sec\s[^\n]*/sec[^\n]*\s(?:sender|receiver)[ \t]*$",
    }
)

_CLIENT = ("client", "banner", "fragment")
_TEXT = (*_CLIENT, "server", "nested")
_RESULT = re.compile(r'"sum_received"|"sum"\s*:[^}]*"lost_percent"|/sec.*\breceiver\s*$', re.MULTILINE)
"""Shows that a test has a result: an error after it is another run's."""
_OWN_COLUMNS = re.compile(r"Retr\b|Bitrate|(?<!/)Total Datagrams|\[Role\]")
"""Heads of columns that iperf 2 does not have."""


def sightings(text: str) -> Iterator[int]:
    """Offsets where a run starts."""
    if not any(map(text.__contains__, _STRONG)) and "connected with" in text:
        return  # rows of iperf 2
    begun, kind = -1, ""
    for m in _START.finditer(text):
        now = m.lastgroup or ""
        if kind and (now in ("row", "result") or (now == "part" and kind in ("json", "event", "part"))):
            continue  # of the run that is begun
        at = m.start()
        line = text.rfind("\n", 0, at) + 1
        if now == "json":
            before = text[line:at].rstrip()
            if before:
                nested = before[-1] in "[," or re.search(r'"\s*:$', before) is not None
            else:
                nested = at != line and kind in ("json", "part") and text[:line].rstrip()[-1:] in (":", "[", ",")
            if nested:
                continue
            yield_at, new = at, True
        elif now == "event":
            kind_of_event = m[0].rsplit('"', 2)[1]
            first = kind_of_event == "start"
            new = (
                first
                or kind != "event"
                or (kind_of_event == "error" and '"event":"end"' in text[begun:at].replace(" ", ""))
            )
            yield_at = at
        elif now == "part":
            new, yield_at = True, _fragment(text, line)
        elif now == "banner":
            if at - line > 40 or '"' in text[line:at]:
                continue  # not the program's own line: a text about it, or the version in a document
            new, yield_at = (
                "\nConnecting to" in text[line : line + 600] or "\nServer listening" in text[line : line + 600],
                line,
            )
            now = "banner" if new else kind
        elif now == "client":
            new, yield_at = kind != "banner", line
        elif now == "server":
            inside = kind in _CLIENT and "Server listening on" not in text[begun:at]
            new, yield_at = kind != "nested" and not inside, line
            now = kind if inside else now
        elif now == "nested":
            kind = "nested" if kind in ("client", "fragment", "banner") else kind
            continue
        elif now == "done":
            kind = ""
            continue
        elif now in ("error", "usage"):
            told = kind in ("json", "event") and '"error"' in text[begun:at]
            over = not text.startswith("interrupt", m.end() - 1) and _RESULT.search(text, begun, at) is not None
            new, yield_at = not kind or told or over or kind == "error", line
            if now == "usage" or kind == "usage":
                new = not kind or (over and kind != "error")
            now = "error" if now == "error" else "usage"
            if not new and kind in ("json", "event"):
                now = ""  # a message on stderr closes the document that it belongs to
            elif not new:
                now = kind
        elif now == "header":
            plain = text[line:at].strip(" >\t")
            told = _OWN_COLUMNS.search(text[at : text.find("\n", at) + 1 or None]) is not None
            again = (
                kind in ("fragment", "client")
                and re.search(r"\breceiver\s*$", text[begun:at], re.MULTILINE) is not None
            )
            new = (kind not in _TEXT and told) or (again and kind == "fragment")
            yield_at, now = _rule_above(text, line), "fragment"
            if len(plain) > 60:
                continue
        elif now == "local":
            new = kind not in _TEXT or (kind != "nested" and _RESULT.search(text, begun, at) is not None)
            yield_at, now = line, "fragment" if new else kind
        else:
            new, yield_at, now = "connected with" not in text[:at], line, "fragment"
        if new:
            begun = yield_at
            kind = now
            yield yield_at
        elif now in ("", "client"):
            kind = now


def _fragment(text: str, line: int) -> int:
    """Return where a piece of JSON without a document around it starts: at the first of its lines."""
    above = text.rfind("\n\n", 0, line)
    at = above + 2 if above >= 0 else 0
    while at < line and text[at : text.find("\n", at)].strip()[:1] not in ('"', "{", "}", "[", "]"):
        at = text.find("\n", at) + 1
    return at


def _rule_above(text: str, line: int) -> int:
    above = text.rfind("\n", 0, max(line - 1, 0)) + 1
    return above if text[above:line].strip(" >\n").startswith("- - -") else line


def read(text: str) -> list[ParsedRun]:
    """Read one run, of whichever format."""
    head = text.lstrip()
    if head.startswith("{"):
        if re.match(r'\{\s*"event"\s*:', head):
            made, cut = from_events(text)
            return [read_document(made, after=text, cut=cut)]
        doc, after, warnings = decode_documents(head)
        if doc is not None and "bits_per_second" in doc:
            row = {"intervals": [{"streams": [doc]}]}
            return [read_document(row, warnings=warnings, cut="one row of an interval, and no document around it")]
        if doc is not None and ("start" in doc or "intervals" in doc or "end" in doc or "error" in doc):
            return [read_document(doc, after=after, warnings=warnings)]
        if '"bits_per_second"' not in text and '"start"' not in text:
            return []
        return _salvaged(text)
    if '"bits_per_second"' in text and "bits/sec" not in text:
        return _salvaged(text)
    return read_text(text)


def _salvaged(text: str) -> list[ParsedRun]:
    doc, cut = salvage(text)
    return [read_document(doc, after=text, cut=cut)]


def read_whole(data: bytes) -> list[ParsedRun] | None:
    """Read a large file that is one JSON document."""
    head = data[:200].lstrip(b"\xef\xbb\xbf \t\r\n")
    if not re.match(rb'\{\s*"start"\s*:', head) or not data[-200:].rstrip().endswith(b"}"):
        return None
    doc: Any = decode_large(data)
    if doc is None:
        try:
            doc = orjson.loads(data)
        except orjson.JSONDecodeError:
            return None
    return [read_document(doc)] if isinstance(doc, dict) and not has_doubles(doc) else None


def commands(trial: Trial, server_address: str, port: int) -> Commands:
    """Argument lists of both ends for one trial.

    Raises
    ------
    UsageError
        The trial asks for something that iperf3 does not offer.
    """
    spec = trial.test
    o = checked(spec, TESTS, OPTIONS)
    if spec.duration_s != int(spec.duration_s) or spec.omit_s != int(spec.omit_s):
        raise UsageError(
            f"iperf3 counts whole seconds, not {spec.duration_s:g} and {spec.omit_s:g}; round duration_s and omit_s"
        )
    if o.get("reverse") and o.get("bidir"):
        raise UsageError("iperf3 takes reverse or bidir, not both")
    client = ["iperf3", "-c", server_address, "-p", str(port), "-J", "-t", str(int(spec.duration_s))]
    client += ["-i", f"{float(o.get('interval_s', 1)):g}", "--connect-timeout", "5000"]
    if spec.omit_s:
        client += ["-O", str(int(spec.omit_s))]
    if trial.streams > 1:
        client += ["-P", str(trial.streams)]
    if trial.tcp_buffer_bytes not in (None, trial.pair.tcp_buffer_bytes):
        # a level of the test; what the hosts of the pair allow is theirs, and -w would switch off autotuning
        client += ["-w", str(trial.tcp_buffer_bytes)]
    if trial.message_bytes is not None:
        client += ["-l", str(trial.message_bytes)]
    if spec.test == "udp":
        # without a rate iperf3 sends one Mbit/s of UDP; 0 is as fast as it can
        client += ["-u", "-b", str(o.get("bitrate", 0))]
    elif "bitrate" in o:
        client += ["-b", str(o["bitrate"])]
    for name, flag in (("congestion", "-C"), ("mss", "-M")):
        if name in o:
            client += [flag, str(o[name])]
    for name, flag in (("reverse", "-R"), ("bidir", "--bidir"), ("zerocopy", "-Z")):
        if o.get(name):
            client.append(flag)
    return Commands(
        client=tuple(client),
        server=("iperf3", "-s", "-1", "-p", str(port), "-J"),
        listens=(("tcp", port),),
        timeout_s=spec.duration_s + spec.omit_s + 30,
        server_ends=True,
    )
