"""Removes what other programs put around the lines of a log: times, names, quote marks, colours, markup.

Removed times are kept. Lines that several hosts or containers wrote into one file under their names are separated
again.
"""

from __future__ import annotations

import html
import json
import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
_CTIME = r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]?\d \d\d:\d\d:\d\d (?:[A-Z]{3,4} )?\d{4}"
_END = r"(?:[ \t]|$)"
_LEVEL = rf"(?:\[?(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR)\]?:?{_END})?"
_UNIT = rf"(?:\S+ [\w./@-]+\[\d+\]:{_END})?"
"""Host and program, as in the journal and in syslog."""
_HEADS = (  # each is followed by a blank, or by the end of an empty line
    # kubectl logs --timestamps, GitHub Actions, containerd, journalctl -o short-iso, logging of Python, awk
    rf"\[?({_ISO})\]?:?{_END}(?:std(?:out|err) [FP]{_END})?{_UNIT}{_LEVEL}",
    rf"\[?({_CTIME})\]?:?{_END}",  # iperf3 --timestamps, date
    rf"\[?(\d{{10}}(?:\.\d{{1,9}})?)\]?:?{_END}",  # ts %.s
    rf"[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?{_END}{_UNIT}()",  # ts, syslog, journal
    rf"[IWEF]\d{{4}} \d\d:\d\d:\d\d\.\d+ +\d+ [\w.-]+:\d+\]{_END}()",  # klog
    # ts -s and awk; ntttcp has such times itself
    rf"\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?:?(?! *(?:INFO|ERR|WARN|DBG)){_END}()",
)
_HEAD_PATTERNS = [re.compile(f"^(?:{head})", re.MULTILINE) for head in _HEADS]
_ANY_HEAD = re.compile("|".join(_HEADS), re.MULTILINE)
_TAIL = re.compile(rf"[ \t]+-{{2,3}}[ \t]+({_CTIME}|{_ISO})[ \t]*$", re.MULTILINE)
"""A time at the end of a line, as from a shell loop with strftime."""
_NAME = re.compile(
    r"^([\w.-]+ *\||\[(?:pod/)?[A-Za-z][\w./:-]*\]|[A-Za-z][\w.-]*:)(?: |$)", re.MULTILINE
)
"""A host or container before each line."""
_NO_NAMES = re.compile(
    r"(?:sockperf|vperf|iperf3?|qperf|server|error|\[SUM|\[(?:TX|RX)-)", re.IGNORECASE
)
_QUOTE = re.compile(r"^[ \t]*(?:>(?=[ \t>]|$)[ \t]?)+", re.MULTILINE)
_ARROW = re.compile(r"<(?<=[\w) \t]<)(?:--|==).*$", re.MULTILINE)
"""``9.42 Gbits/sec  <--* too slow``: an annotation on a web page."""
_ITEM = re.compile(
    r"^[ \t]*(?:- (?P<q>['\"])(?P<a>.*)(?P=q)|\"(?P<b>.*)\",?|'(?P<c>.*)',?)[ \t]*$", re.MULTILINE
)
"""An item of a list, as Ansible prints lines."""
_MOST = 0.6
"""Share of the lines that must have such a head before it is removed."""


@dataclass(frozen=True, slots=True)
class Voice:
    """The lines of one source, as the tool printed them."""

    text: str
    lines: list[int] | None = None
    """Number of each line in the file, from 1; None if all lines are present."""
    stamps: dict[int, str] = field(default_factory=dict)
    """Index of a line, from 0, to the time before or after it."""

    def line_in_file(self, line: int) -> int:
        """Return the line number in the file of a line of this text, both from 1."""
        return self.lines[min(line, len(self.lines)) - 1] if self.lines else line


def decode(data: bytes) -> str:
    """Decode a log file: UTF-8, or UTF-16 as PowerShell's ``>`` writes it, even without a byte order mark."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", errors="replace")
    head = data[:64]
    low, high = head[::2].count(0), head[1::2].count(0)
    if max(low, high) > 0.37 * len(head):
        return data.decode("utf-16-le" if high > low else "utf-16-be", errors="replace")
    return data.decode("utf-8", errors="replace")


def cleaned(text: str) -> list[Voice]:
    """Return the lines as the tools printed them, one text for each source."""
    text = _from_docker(text.replace("\ufeff", ""))
    if "\r" in text:
        text = re.sub(r"\r*\n|\r", "\n", text)
    text = without_colours(text)
    text = html.unescape(text).replace("\u00a0", " ")
    stamps: dict[int, str] = {}
    text = _without_times(_without_items(text), stamps)
    voices = []
    for part, lines in _by_name(text):
        inner = (
            {i: stamps[n - 1] for i, n in enumerate(lines) if n - 1 in stamps} if lines else stamps
        )
        voices.append(Voice(_plain(_without_times(part, inner)), lines, inner))
    return voices


def without_colours(text: str) -> str:
    """Remove the codes that colour a terminal; sockperf prints them into files, too."""
    return _ANSI.sub("", text) if "\x1b" in text else text


def _plain(text: str) -> str:
    """Remove quote marks of mails, arrows of web pages, and indentation."""
    text = _QUOTE.sub("", text) if ">" in text else text
    text = _ARROW.sub("", text) if "<" in text else text
    return textwrap.dedent(text) if text[:1].isspace() else text


def _from_docker(text: str) -> str:
    """Extract the lines from a docker log file, one JSON object per line; return any other text unchanged."""
    if not text.startswith('{"log":"'):
        return text
    lines = []
    for line in text.splitlines():
        try:
            record = json.loads(line)
            message, time = record["log"], record.get("time", "")
        except (ValueError, KeyError, TypeError, AttributeError):
            return text
        stamp = f"{time} " if re.fullmatch(_ISO, str(time)) else ""
        lines.append(stamp + str(message).rstrip("\n"))
    return "\n".join(lines) + "\n"


def _without_items(text: str) -> str:
    if text.lstrip()[:1] in "{[" or not re.search(r"^[ \t]*(?:- ['\"]|['\"])", text, re.MULTILINE):
        return text
    items = _ITEM.findall(text)
    if len(items) < 3 or len(items) < _MOST * _count_lines(text):
        return text

    def inner(m: re.Match[str]) -> str:
        line = m["a"] or m["b"] or m["c"] or ""
        return (
            line.replace("''", "'")
            if m["q"] == "'"
            else line.replace('\\"', '"').replace("\\t", "\t")
        )

    return _ITEM.sub(inner, text)


def _count_lines(text: str) -> int:
    return sum(1 for line in text.split("\n") if line.strip())


def _sampled(pattern: re.Pattern[str], text: str) -> bool:
    """Return whether the pattern matches one of some lines: the first, and others from all over the text."""
    starts = [text.find("\n", part * len(text) // 8) + 1 for part in range(8)]
    return any(pattern.match(text, start) for start in [0, *starts])


def _without_times(text: str, stamps: dict[int, str]) -> str:
    """Remove the times from the lines and put them into `stamps`."""
    if "-- " in text:
        text = _taken(_TAIL, text, stamps, least=2)
    for head in _HEAD_PATTERNS if _sampled(_ANY_HEAD, text) else ():
        if _sampled(head, text):
            stripped = _taken(head, text, stamps, least=_MOST * _count_lines(text))
            if stripped is not text:
                return stripped
    return text


def _taken(pattern: re.Pattern[str], text: str, stamps: dict[int, str], least: float) -> str:
    """Return the text without the matches, which go to `stamps`; the same text if too few lines match."""
    matches = {i: m for i, row in enumerate(text.split("\n")) if (m := pattern.search(row))}
    if len(matches) < least:
        return text
    stamps |= {i: m[1] for i, m in matches.items() if m[1]}
    return pattern.sub("", text)


def _by_name(text: str) -> Iterator[tuple[str, list[int] | None]]:
    """Separate the lines under several names; yield the lines and their numbers from 1, None if they are all lines."""
    if not _sampled(_NAME, text):
        yield text, None
        return
    rows = text.split("\n")
    names = [
        m[1] if (m := _NAME.match(row)) and not _NO_NAMES.match(m[1]) else None for row in rows
    ]
    counts = {n: c for n, c in Counter(names).items() if n and c >= 3}
    # these may be other words: nearly all lines must have a name
    if not counts or sum(counts.values()) < (0.9 if len(counts) > 1 else _MOST) * _count_lines(
        text
    ):
        yield text, None
        return
    unnamed = [
        row[m.end() :] if n in counts and (m := _NAME.match(row)) else row
        for n, row in zip(names, rows, strict=True)
    ]
    if len(counts) == 1:
        yield "\n".join(unnamed), None
        return
    for name in counts:
        numbers = [i for i, n in enumerate(names) if n == name]
        yield "\n".join([*(unnamed[i] for i in numbers), ""]), [i + 1 for i in numbers]


_ZONES = {"UTC", "GMT"}


def started(stamp: str) -> dict[str, str]:
    """Return the parameters from a time: `started_utc`, or `started_local` if its zone is unknown."""
    zone = None
    try:
        if re.fullmatch(r"[\d.]+", stamp):
            time = datetime.fromtimestamp(float(stamp), UTC)
        elif re.match(r"\d", stamp):
            time = datetime.fromisoformat(stamp.replace(",", "."))
        else:
            parts = stamp.split()
            zone = parts.pop(4) if len(parts) == 6 else None
            time = datetime.strptime(" ".join(parts), "%a %b %d %H:%M:%S %Y")
            time = time.replace(tzinfo=UTC) if zone in _ZONES else time
    except (ValueError, OverflowError):
        return {}
    if time.tzinfo is None:
        return {"started_local": time.isoformat(timespec="seconds")}
    return {"started_utc": time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}


def clean(text: str) -> str:
    """Return the text of all sources, one after the other."""
    return "".join(voice.text for voice in cleaned(text))


_WIDTH = 80
"""Columns of a terminal."""
_FULL, _WIDER = re.compile(rf"^.{{{_WIDTH}}}$", re.MULTILINE), re.compile(rf".{{{_WIDTH + 1}}}")
_COMMA = re.compile(r"(?<![\d,.])(\d+),(\d+)(?![\d,.])")
_POINT = re.compile(r"(?<![\d,.])\d+\.\d+(?![\d,.])")


def repaired(text: str) -> Iterator[tuple[str, str]]:
    """Yield the log as it may have been before a terminal wrapped it, or with decimal points; and a remark."""
    if not _WIDER.search(text) and _FULL.search(text):
        lines = text.split("\n")
        full = [len(line) == _WIDTH and len(set(line)) > 3 for line in lines]  # not a rule
    else:
        full = []
    if sum(full) > 1:
        joined = "".join(
            line if cut else f"{line}\n" for line, cut in zip(lines, full, strict=True)
        )
        yield joined, f"lines that were wrapped at {_WIDTH} columns are joined"
    if len(_COMMA.findall(text)) > 4 * len(_POINT.findall(text)) + 1:
        yield _COMMA.sub(r"\1.\2", text), "decimal commas are read as points"
