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
    found,
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
Figures = dict[str, str]
"""Texts of the figures by their printed names."""


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
    version = found(r"(?:NTTTCP for Linux|Copyright Version) (\S+)", text)
    run = ParsedRun(tool=NAME, tool_version=version)
    return [fill_run(run, form, text)]


def _figure(figures: Figures, key: str, factor: float = 1) -> Figure:
    """Return a figure by its name; `Damaged` if it is missing or no number."""
    text = figures.get(key, "missing")
    m = re.fullmatch(r"(\d+(?:\.\d+)?)(?: seconds|%|([KMGT]?)bps)?", text)
    if m is None:
        raise Damaged(f"{key!r} is {text}: the log is cut or damaged")
    return Figure.printed(m[1], factor * to_bps(1, m[2] or "", "bit"))


def _optional(figures: Figures, key: str) -> float | None:
    if figures.get(key) in ("-1", "NA"):
        return None
    return _figure(figures, key).value


def _totals(
    run: ParsedRun, figures: Figures, keys: str, rate: float, size: float, slack: float
) -> None:
    """Store the totals under the names of the end that printed them.

    `keys` name rate, bytes, seconds, retransmits and CPU share; `rate` and `size` are their units.
    """
    rate_key, size_key, seconds_key, resent_key, cpu_key = keys.split("|")
    seconds = _figure(figures, seconds_key)
    speed, moved = _figure(figures, rate_key, rate), _figure(figures, size_key, size)
    share = _optional(figures, cpu_key)
    if not moved.value or not seconds.value or not speed.value:
        raise Damaged("nothing was transferred")
    if not rate_fits(moved, seconds, speed, slack):
        raise Contradictory(f"bytes in {seconds.value:g} s and {speed.value:g} bit/s")
    names = ["throughput_bps", "transferred_bytes", "cpu_server_ratio"]
    if run.test == "sender":
        names = ["throughput_sent_bps", "sent_bytes", "cpu_client_ratio"]
    values = (speed.value, round(moved.value), share and share / 100)
    run.metrics |= zip(names, values, strict=True)
    run.metrics["duration_measured_s"] = seconds.value
    if resent_key in figures:
        run.metrics["retransmits_count"] = _optional(figures, resent_key)


def _document(run: ParsedRun, text: str) -> None:
    """Read a document; its figures are named by element and ``metric``."""
    inside, end, _ = text.partition(f"</{text.lstrip()[1:8]}>")
    try:
        root = ET.fromstring(inside.lstrip() + end)  # noqa: S314 - it begins with its root
    except ET.ParseError as error:
        raise Damaged(f"the document is cut or damaged: {error}") from None
    figures = {"packets_retransmitted": "missing"}
    for leaf in (*root, *root.findall("parameters/*")):
        key = f"{leaf.tag} {leaf.get('metric', '')}".strip()
        value = (leaf.text or "").strip()
        if figures.get(key, "missing") not in (value, "missing"):
            raise Contradictory(f"two different values of {key!r} in the document")
        figures[key] = value
    run.test = "sender" if root.tag == "ntttcps" else "receiver"
    run.tool_version = root.get("version", "")
    udp = figures.get("udp")
    if udp not in ("False", "True"):
        raise Damaged("'udp' is missing: the document is damaged")
    # UDP never retransmits: its 0 says nothing
    protocol, resent = "tcp", "packets_retransmitted"
    if udp == "True":
        protocol, resent = "udp", ""
    megabyte, ticks = 2**20, 1000
    if run.tool_version.endswith("-linux"):
        megabyte, ticks = 10**6, 1
        if run.test == "sender":
            trip = _optional(figures, "tcp_average_rtt us")
            run.metrics["rtt_loaded_us"] = trip or None
    again = _figure(figures, "throughput MB/s", 8.0 * megabyte)
    if not again.agrees(_figure(figures, "throughput mbps", 1e6), 1e-5):
        raise Contradictory("MB/s and mbps contradict each other")
    cpu = "cpu_busy_all %"
    if cpu not in figures:
        cpu = "cpu %"
    keys = f"throughput mbps|total_bytes MB|realtime s|{resent}|{cpu}"
    _totals(run, figures, keys, 1e6, megabyte, 6e-4)
    run.parameters["protocol"] = protocol
    lasted, message = _optional(figures, "run_time"), _optional(figures, "bufferLen")
    run.parameters["duration_s"] = lasted and lasted / ticks
    run.parameters["message_bytes"] = int(message) if message else None


_ROW = re.compile(r"[ \t]*([a-z][a-z ()/]*?)[ \t]*:[ \t]*(.*)\n")
_SENDS = re.compile(
    r"connections (?:created|tested)|\bsender: |^\*\*\* sender role", re.MULTILINE
)


def _is_sender(text: str) -> bool | None:
    """Return whether the command above is the sender's; None without one."""
    command = _ROLE.match(text)
    return command and command[1].lower() == "s"


_NO_ROLE = "the log does not tell whether it is the sender's or the receiver's"


def _linux(run: ParsedRun, text: str) -> None:
    head, there, totals = text.partition(_TOTALS)
    sends = bool(_SENDS.search(head)) or _is_sender(text)
    run.test = "sender" if sends else "receiver"
    if streams := re.search(r"\b(\d+) connections (?:tested|created)", text):
        run.parameters["streams"] = int(streams[1])
    if complaint := re.search(r"\bERR : (.*)", text):
        raise Damaged(complaint[1].strip())
    if not there:
        raise Damaged("the log ends before its totals")
    if _TOTALS in totals:
        raise Contradictory(
            "totals of several tests, or of two processes: pass one test per log"
        )
    if sends is None and not run.tool_version:
        raise Damaged(_NO_ROLE)
    figures = dict(reversed(_ROW.findall(totals)))  # the first of each name
    keys = "throughput|total bytes|test duration|retrans segs|cpu busy (all)"
    _totals(run, figures, keys, 1, 1, 1e-4)
    udp = re.search(r"\bUDP\b|.*\bntttcp .* -u ", text, re.IGNORECASE)
    if "retrans segs" not in figures and not udp:
        # only a test of TCP has the row, and the command may not be there
        run.warnings.append(
            "there is no row 'retrans segs': a test of UDP, or it is lost"
        )


_TITLES = (
    "Throughput(Buffers/s)|Throughput(MB/s)|Avg Frame Size|Packets Received|Packets Sent|Bytes(MEG)"
    "|realtime(s)|Cycles/Byte|DPCs(count/s)|Pkts(num/DPC)|Intr(count/s)|Pkts(num/intr)|Retransmits"
    "|Avg. CPU %|Buffers|Errors"
)
"""Titles of the totals, in four small tables or a wide one; longer titles before their prefixes."""
_TITLE = re.compile(re.escape(_TITLES).replace(r"\|", "|"))
_TABLE = re.compile(r"^(.*)\n[= \t]+\n(.*\S.*)\n", re.MULTILINE)


def _windows(run: ParsedRun, text: str) -> None:
    figures = {"Retransmits": "missing"}
    for head, row in _TABLE.findall(text):
        titles, values = _TITLE.findall(head), row.split()
        if titles and len(values) != len(titles):
            raise Damaged(f"not readable: {' '.join(values)!r}")
        figures |= zip(titles, values, strict=False)
    if "Avg. CPU %" not in figures:
        complaint = re.search(r"(?im)^.*(?:\berror\b|failed).*", text)
        raise Damaged(
            complaint[0].strip() if complaint else "the log ends before its totals"
        )
    sends = _is_sender(text)
    if sends is None:
        raise Damaged(_NO_ROLE)
    run.test = "sender" if sends else "receiver"
    keys = "Throughput(MB/s)|Bytes(MEG)|realtime(s)|Retransmits|Avg. CPU %"
    _totals(run, figures, keys, 8 * 2**20, 2**20, 6e-4)
