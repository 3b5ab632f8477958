"""ntttcp for Linux and for Windows.

Throughput of many connections, as the end that printed it saw it.

"MB" are 10^6 bytes on Linux and 2^20 bytes on Windows, "mbps" are 10^6 bits on both. ``-r`` is the
receiver, whose throughput is the main result; ``-s`` is the sender. The CPU share is that of the
whole machine on Windows, and the number of busy processors on Linux. Consoles and XML are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.etree import ElementTree as ET

from ..metrics import to_bps
from .parsed import ParsedRun
from .shared import (
    Contradictory,
    Damaged,
    Figure,
    fill_run,
    line_start,
    or_above,
    rate_fits,
)

NAME = "ntttcp"
_TOTALS = "#####  Totals:  #####"
MARKS = ("NTTTCP for Linux", "<ntttcp", "Copyright Version ", _TOTALS)

_START = re.compile(
    r"^NTTTCP for Linux \S+[ \t]*\n|^Copyright Version \d+\.\d+[ \t]*$|^[ \t]*<ntttcp[sr](?=[ >])",
    re.MULTILINE,
)
_COMMAND = re.compile(r"(?i).*\bntttcp(?:\.exe)? .*-[smr]")
_ROLE = re.compile(r"(?i).*?\bntttcp(?:\.exe)?(?: [^\n]*?)?(?: |/)-([sr])(?![a-z-])")
"""The option of a command that says which end it is: the one after a blank, not within a word."""
_MEGABYTE = {True: 10**6, False: 2**20}
"""Bytes of a megabyte, on Linux and on Windows."""


def find_runs(text: str) -> Iterable[int]:
    """Yield where a run starts: at its version or its document; a command above belongs to it."""
    starts = [or_above(text, m.start(), _COMMAND) for m in _START.finditer(text)]
    totals = text.find(_TOTALS)
    if totals >= 0 and not any(start <= totals for start in starts):
        starts.append(line_start(text, totals))
    return starts


def read(text: str) -> list[ParsedRun]:
    """Read one run: console of Linux or Windows, or XML."""
    form = _linux
    if re.match(r"\s*<ntttcp", text):
        form = _document
    elif "Copyright Version" in text:
        form = _windows
    return [fill_run(ParsedRun(tool=NAME), form, text)]


def _figure(figures: dict[str, str], key: str, factor: float = 1) -> Figure:
    """Return a figure by its name; `Damaged` if it is missing or no number."""
    text = figures.get(key, "missing")
    if not re.fullmatch(r"\d+(\.\d+)?", text):
        raise Damaged(f"{key!r} is {text}: the log is cut or damaged")
    return Figure.printed(text, factor)


def _optional(figures: dict[str, str], key: str) -> float | None:
    return None if figures.get(key) in ("-1", "NA") else _figure(figures, key).value


def _totals(
    run: ParsedRun,
    rate: Figure,
    size: Figure,
    seconds: Figure,
    cpu: float | None,
    slack: float = 6e-4,
) -> None:
    """Store the totals under the names of the end that printed them; the share in percent."""
    if not size.value or not seconds.value or not rate.value:
        raise Damaged("nothing was transferred")
    if not rate_fits(size, seconds, rate, slack):
        raise Contradictory(f"bytes in {seconds.value:g} s and {rate.value:g} bit/s")
    sends = run.test == "sender"
    run.metrics |= {
        "throughput_sent_bps" if sends else "throughput_bps": rate.value,
        "sent_bytes" if sends else "transferred_bytes": round(size.value),
        "duration_measured_s": seconds.value,
        "cpu_client_ratio" if sends else "cpu_server_ratio": None
        if cpu is None
        else cpu / 100,
    }


def _document(run: ParsedRun, text: str) -> None:
    """Read a document; its figures are named by element and ``metric``."""
    inside, end, _ = text.partition(f"</{text.lstrip()[1:8]}>")
    try:
        root = ET.fromstring(inside.lstrip() + end)  # noqa: S314 - it begins with its root
    except ET.ParseError as error:
        raise Damaged(f"the document is cut or damaged: {error}") from None
    figures: dict[str, str] = {}
    for leaf in (*root, *root.findall("parameters/*")):
        key, value = (
            f"{leaf.tag} {leaf.get('metric', '')}".strip(),
            (leaf.text or "").strip(),
        )
        if figures.setdefault(key, value) != value:
            raise Contradictory(f"two different values of {key!r} in the document")
    run.test = "sender" if root.tag == "ntttcps" else "receiver"
    run.tool_version = root.get("version", "")
    if "udp" not in figures:
        raise Damaged("'udp' is missing: the document is damaged")
    linux, tcp = run.tool_version.endswith("-linux"), figures["udp"] == "False"
    rate = _figure(figures, "throughput mbps", factor=1e6)
    again = _figure(figures, "throughput MB/s", factor=8.0 * _MEGABYTE[linux])
    if not again.agrees(rate, 1e-5):
        raise Contradictory(f"MB/s and {rate.value:g} bit/s")
    cpu = "cpu_busy_all %" if "cpu_busy_all %" in figures else "cpu %"
    size = _figure(figures, "total_bytes MB", factor=_MEGABYTE[linux])
    _totals(run, rate, size, _figure(figures, "realtime s"), _optional(figures, cpu))
    if tcp:  # UDP never retransmits: its 0 says nothing
        run.metrics["retransmits_count"] = _optional(figures, "packets_retransmitted")
    if linux and run.test == "sender":
        run.metrics["rtt_loaded_us"] = _optional(figures, "tcp_average_rtt us") or None
    lasted, message = _optional(figures, "run_time"), _optional(figures, "bufferLen")
    run.parameters = {
        "protocol": {"False": "tcp", "True": "udp"}.get(figures.get("udp", "")),
        "duration_s": lasted and lasted / (1 if linux else 1000),
        "message_bytes": int(message) if message else None,
    }


_LINUX = re.compile(
    r"""
    test\ duration\s*:\s*(\d+\.\d\d)\ seconds\s*\n
    (?s:.*?)total\ bytes\s*:\s*(\d+)\s*\n
    (?s:.*?)throughput\s*:\s*(\d+\.\d\d)([KMGT]?)bps\s*\n
    (?:(?s:.*?)retrans\ segs\s*:\s*(\d+)\s*\n)?
    (?s:.*?)cpu\ busy\ \(all\)\s*:\s*(\d+\.\d\d)%\s*\n
    """,
    re.VERBOSE,
)
_SENDS = re.compile(
    r"connections (?:created|tested)|\bsender: |^\*\*\* sender role", re.MULTILINE
)
_LABELS = (
    "test duration",
    "total bytes",
    "throughput",
    "cpu busy (all)",
)
"""The rows of the totals that are read, in printed order."""


def _linux(run: ParsedRun, text: str) -> None:
    head, found, totals = text.partition(_TOTALS)
    version = re.search(r"NTTTCP for Linux (\S+)", text)
    run.tool_version = version[1] if version else None
    command = _ROLE.match(text)
    sends = _SENDS.search(head) or (command and command[1].lower() == "s")
    run.test = "sender" if sends else "receiver"
    if streams := re.search(r"\b(\d+) connections (?:tested|created)", text):
        run.parameters["streams"] = int(streams[1])
    if complaint := re.search(r"\bERR : (.*)", text):
        raise Damaged(complaint[1].strip())
    if not found:
        raise Damaged("the log ends before its totals")
    if _TOTALS in totals:
        raise Contradictory(
            "totals of several tests, or of two processes: pass one test per log"
        )
    if not version and not command and run.test == "receiver":
        raise Damaged(
            "the log does not tell whether it is the sender's or the receiver's"
        )
    m = _LINUX.search(totals)
    if m is None:
        raise Damaged(_unreadable(totals))
    rate = Figure.printed(m[3], to_bps(1, m[4], "bit"))
    _totals(run, rate, Figure.printed(m[2]), Figure.printed(m[1]), float(m[6]), 1e-4)
    if m[5]:
        run.metrics["retransmits_count"] = int(m[5])
    elif not re.search(r"\bUDP\b|.*\bntttcp .* -u ", text, re.IGNORECASE):
        # only a test of TCP has the row, and the command may not be there
        run.warnings.append(
            "there is no row 'retrans segs': a test of UDP, or it is lost"
        )


def _unreadable(totals: str) -> str:
    """Say which row of the totals is missing, or is not as the tool prints it."""
    for row in totals.split("\n"):
        if re.match(r"\W*\*\*\d", row):
            return f"a row begins with '**', which ntttcp does not print: {row.strip()!r}"
    gone = [label for label in _LABELS if label not in totals]
    if gone:
        return f"{gone[0]!r} is missing: the log is cut or damaged"
    return "a figure is no number: the log is cut or damaged"


_TITLES = (
    "Throughput(Buffers/s)|Throughput(MB/s)|Avg Frame Size|Packets Received|Packets Sent|Bytes(MEG)"
    "|realtime(s)|Cycles/Byte|DPCs(count/s)|Pkts(num/DPC)|Intr(count/s)|Pkts(num/intr)|Retransmits"
    "|Avg. CPU %|Buffers|Errors"
)
"""Titles of the totals, in four small tables or a wide one; longer titles before their prefixes."""
_TITLE = re.compile(re.escape(_TITLES).replace(r"\|", "|"))


def _windows(run: ParsedRun, text: str) -> None:
    version = re.search(r"Copyright Version (\d+\.\d+)", text)
    run.tool_version = version[1] if version else None
    figures: dict[str, str] = {}
    rows = [" ".join(row.split()) for row in text.split("\n")[:-1]]  # the last may be cut
    for row, below in zip(rows, rows[2:], strict=False):
        titles, values = _TITLE.findall(row), below.split()
        if titles and " ".join(titles) == row:
            if not values:
                break
            if len(values) != len(titles):
                raise Damaged(f"not readable: {below!r}")
            figures |= zip(titles, values, strict=True)
    if "Avg. CPU %" not in figures:
        complaint = next((r for r in rows if re.search(r"(?i)\berror\b|failed", r)), None)
        raise Damaged(complaint or "the log ends before its totals")
    command = _ROLE.match(text)
    if command is None:
        raise Damaged(
            "the log does not tell whether it is the sender's or the receiver's"
        )
    run.test = "sender" if command[1].lower() == "s" else "receiver"
    seconds = _figure(figures, "realtime(s)")
    rate = _figure(figures, "Throughput(MB/s)", factor=8 * 2**20)
    size = _figure(figures, "Bytes(MEG)", factor=2**20)
    _totals(run, rate, size, seconds, _optional(figures, "Avg. CPU %"))
    run.metrics["retransmits_count"] = _optional(figures, "Retransmits")
