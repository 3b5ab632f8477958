"""Where runs of iperf3 start in a text, and which of its formats each one is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import orjson

from ..alternatives import alternatives
from ..iperf_rows import rule_above
from ..parsed import ParsedRun
from .document import decode_documents, from_events, has_doubles, salvage
from .intervals import decode_large
from .results import NAME as NAME
from .results import read_document
from .text import read_text

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
        "error": r"\biperf3(?:\.exe)?: (?!warning|exiting)\S",
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
                nested = (
                    at != line
                    and kind in ("json", "part")
                    and text[max(0, line - 200) : line].rstrip()[-1:] in (":", "[", ",")
                )
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
            above = text.rfind("\n", 0, max(line - 1, 0)) + 1
            new, yield_at = kind != "banner", above if "--sctp" in text[above:line] else line
        elif now == "server":
            inside = kind in _CLIENT and "Server listening on" not in text[begun:at]
            new, yield_at = kind != "nested" and not inside, line
            now = kind if inside else now
        elif now == "nested":
            new, yield_at = not kind, line  # without a client before it
            now = "nested" if kind in ("", "client", "fragment", "banner") else kind
            kind = now
        elif now == "done":
            kind = ""
            continue
        elif now in ("error", "usage"):
            told = kind in ("json", "event") and '"error"' in text[begun:at]
            over = not text.startswith("interrupt", m.end() - 1) and _RESULT.search(text, begun, at) is not None
            if over and text.startswith("the client has terminated", m.end() - 1):
                continue  # a server that waits for another test
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
            new = (kind not in _TEXT and told) or (again and kind == "fragment" and not _one_stream_more(text[at:]))
            yield_at, now = rule_above(text, line, "- - -"), "fragment"
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


def _one_stream_more(text: str) -> bool:
    """Whether the results that begin here are of one stream, and a sum: then the others stand above."""
    names = []
    for m in re.finditer(r"^.*?\[ *(\w+) *\].* sec .*(sender|receiver)[ \t]*\n|^.*\S.*\n", text, re.MULTILINE):
        if m[1]:
            names.append(m[1])
        elif names:
            break
    return "SUM" in names and len(set(names)) == 2


def _fragment(text: str, line: int) -> int:
    """Return where a piece of JSON without a document around it starts: at the first of its lines."""
    above = text.rfind("\n\n", 0, line)
    at = above + 2 if above >= 0 else 0
    while at < line and text[at : text.find("\n", at)].strip()[:1] not in ('"', "{", "}", "[", "]"):
        at = text.find("\n", at) + 1
    return at


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
