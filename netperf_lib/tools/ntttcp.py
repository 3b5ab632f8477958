"""ntttcp for Linux and for Windows: throughput of many connections, as the end that printed it saw it.

"MB" are 10^6 bytes on Linux and 2^20 bytes on Windows, "mbps" are 10^6 bits on both. ``-r`` is the receiver, whose
throughput is the main result; ``-s`` is the sender. The CPU share is that of the whole machine on Windows, and the
number of busy processors on Linux.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree as ET

import orjson

from ..metrics import to_bps
from .draft import (
    CONTRADICTION,
    Contradictory,
    Damaged,
    Draft,
    Figure,
    drafted,
    first_or_starts,
    line_start,
    or_above,
)
from .parsed import ParsedRun

NAME = "ntttcp"
_TOTALS = "#####  Totals:  #####"
MARKS = ("NTTTCP for Linux", "<ntttcp", '"ntttcp', "Copyright Version ", _TOTALS)

_START = re.compile(
    r"^NTTTCP for Linux \S+[ \t]*\n|^Copyright Version \d+\.\d+[ \t]*$|^[ \t]*<ntttcp[sr](?=[ >])"
    r'|^\{\s*"ntttcp[sr]"\s*:',
    re.MULTILINE,
)

_COMMAND = re.compile(r"(?i).*\bntttcp(?:\.exe)? .*-[smr]")


def sightings(text: str) -> Iterator[int]:
    """Yield the offsets of version lines or document starts; the command just before belongs to the run."""
    starts = (or_above(text, m.start(), _COMMAND) for m in _START.finditer(text))
    totals = line_start(text, text.find(_TOTALS)) if _TOTALS in text else None
    return first_or_starts(starts, totals)


def read(text: str) -> list[ParsedRun]:
    """Read one run: console of Linux or Windows, XML or JSON."""
    return [drafted(Draft(NAME), _fill, text)]


def _fill(run: Draft, text: str) -> None:
    if text.count(_TOTALS) > 1:
        raise Contradictory(
            "totals of several tests, possibly of two processes: pass one test per log"
        )
    if re.match(r"\s*<ntttcp", text):
        _document(run, _xml(text))
    elif re.match(r"\s*\{", text):
        _document(run, _json(text))
    elif "Copyright Version" in text:
        _windows(run, text)
    else:
        _linux(run, text)


def _totals(
    run: Draft, bps: Figure, size: Figure, seconds: Figure, *, slack: float, **others: Any
) -> None:
    """Store the totals under the names of the end that printed them; `cpu` in percent, other metrics by name."""
    if not size.value or not seconds.value or not bps.value:
        raise Damaged("nothing was transferred")
    if not (size * 8 / seconds).agrees(bps, slack):
        raise Contradictory(
            f"{CONTRADICTION}{size.value:.0f} bytes in {seconds.value:g} s, {bps.value / 1e6:.2f} Mbit/s"
        )
    sender, cpu = run.test == "sender", others.pop("cpu", None)
    run.metrics = {
        "throughput_sent_bps" if sender else "throughput_bps": bps.value,
        "sent_bytes" if sender else "transferred_bytes": round(size.value),
        "duration_measured_s": seconds.value,
        "cpu_client_ratio" if sender else "cpu_server_ratio": None
        if cpu is None
        else float(cpu) / 100,
        **others,
    }


# --- XML and JSON -----------------------------------------------------------------------------------------------------


def _xml(text: str) -> dict[str, str]:
    """Flatten the totals of a document: ``name`` or ``name metric`` to text; ``role`` and ``version`` from its root."""
    name = text.lstrip()[1:8]
    inside, last, _ = text.partition(f"</{name}>")
    if not last:
        raise Damaged("the document ends before its last element")
    try:
        root = ET.fromstring(inside.lstrip() + last)  # noqa: S314 - it begins with its root
    except ET.ParseError as e:
        raise Damaged(f"the document is damaged: {e}") from None
    figures = {"role": root.tag, "version": root.get("version", "")}
    for leaf in (*root, *root.findall("parameters/*")):
        key = " ".join(filter(None, (leaf.tag, leaf.get("metric"))))
        if figures.setdefault(key, value := (leaf.text or "").strip()) != value:
            raise Contradictory(f"two different values of {key!r} in the document")
    return figures


_JSON_NAMES = {"totalBytes": "total_bytes", "realTime": "realtime", "runTime": "run_time"}


def _json(text: str) -> dict[str, str]:
    """Flatten the JSON under the same names as `_xml`."""
    end = re.search(r"^\}", text, re.MULTILINE)
    try:
        [(root, document)] = orjson.loads(text[: end.end()] if end else text).items()
        figures = {"role": root}
        for key, value in (*document["parameters"].items(), *document.items()):
            name = _JSON_NAMES.get(key, key)
            if isinstance(value, dict) and "metric" in value:
                figures[f"{name} {value['metric']}"] = str(value["value"])
            elif key == "throughputs":
                figures |= {f"throughput {v['metric']}": str(v["value"]) for v in value}
            elif not isinstance(value, dict | list):
                figures[name] = str(value)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Damaged("the JSON document is cut or damaged") from None
    return figures


def _document(run: Draft, figures: dict[str, str]) -> None:
    def number(key: str, factor: float = 1.0) -> Figure:
        if not re.fullmatch(r"\d+(?:\.\d+)?", text := figures.get(key, "missing")):
            raise Damaged(f"{key!r} is not a number in the document: {text!r}")
        return Figure.printed(text, factor)

    def optional(key: str) -> float | None:
        return number(key).value if figures.get(key, "") not in ("", "-1", "NA") else None

    run.test = "sender" if figures["role"] == "ntttcps" else "receiver"
    run.version = figures.get("version", "")
    linux = run.version.endswith("-linux")
    megabyte = 1e6 if linux else 2**20
    bps, bytes_per_s = number("throughput mbps", 1e6), optional("throughput Bps")
    if not (number("throughput MB/s", megabyte) * 8).agrees(bps, 1e-4):
        raise Contradictory(f"{CONTRADICTION}MB/s and {bps.value / 1e6:g} mbps")
    if bytes_per_s is not None and not bps.agrees(Figure(bytes_per_s * 8), 1e-5):
        raise Contradictory(f"{CONTRADICTION}Bps and {bps.value / 1e6:g} mbps")
    tcp = figures.get("udp") == "False"  # UDP never retransmits: its 0 says nothing
    cpu, lasted, message = optional("cpu_busy_all %"), optional("run_time"), optional("bufferLen")
    _totals(
        run, bps, number("total_bytes MB", megabyte), number("realtime s"), slack=0.0006,
        cpu=cpu if cpu is not None else optional("cpu %"),
        retransmits_count=optional("packets_retransmitted") if tcp else None,
        rtt_loaded_us=optional("tcp_average_rtt us") or None,
    )  # fmt: skip
    keys = [
        "udp",
        "packets_retransmitted",
        *(["tcp_average_rtt us"] if linux and run.test == "sender" else []),
    ]
    keys += [] if "cpu_busy_all %" in figures else ["cpu %"]
    if gone := [key for key in keys if key not in figures]:
        run.warnings.append(f"the document lacks {', '.join(gone)}")
    run.parameters = {
        "protocol": "tcp" if tcp else "udp" if figures.get("udp") == "True" else None,
        "duration_s": None if lasted is None else lasted / (1 if linux else 1000),
        "message_bytes": int(message) if message else None,
    }


# --- consoles ---------------------------------------------------------------------------------------------------------

_KEY = re.compile(r"(?:[\d:]{8} INFO: )?[ \t]*([a-z][^:\t]*?)[ \t]*:[ \t]*(\S.*?)[ \t]*")
_VALUES = {
    "test duration": r"(\d+\.\d\d) seconds",
    "total bytes": r"(\d+)",
    "throughput": r"(\d+\.\d\d)([KMGT]?)bps",
    "retrans segs": r"(\d+)",
    "cpu busy (all)": r"(\d+\.\d\d)%",
}


def _linux(run: Draft, text: str) -> None:
    run.version = m[1] if (m := re.search(r"NTTTCP for Linux (\S+)", text)) else None
    role = r"connections (?:created|tested)|\bsender: |^\*\*\* sender role|\bntttcp .*-s"
    run.test = "sender" if re.search(role, text.partition(_TOTALS)[0], re.MULTILINE) else "receiver"
    if streams := re.search(r"\b(\d+) connections (?:tested|created)", text):
        run.parameters["streams"] = int(streams[1])
    if complaint := re.search(r"\bERR : (.*)", text):
        raise Damaged(complaint[1].strip())
    if _TOTALS not in text:
        has_rates = "Real-time throughput" in text  # rates without times
        raise Damaged("the log ends before its totals", "partial" if has_rates else "failed")
    if not run.version and run.test == "receiver":
        raise Damaged("the log does not tell whether it is the sender's or the receiver's")
    figures: dict[str, str] = {}
    for row in text[text.index(_TOTALS) :].split("\n")[1:-1]:  # a line without its end may be cut
        if m := _KEY.fullmatch(row):
            figures.setdefault(m[1], m[2])
    values = {key: re.fullmatch(pattern, figures.get(key, "")) for key, pattern in _VALUES.items()}
    lost = [
        k
        for k, m in values.items()
        if not m and (k in figures or k not in ("retrans segs", "cpu busy (all)"))
    ]
    seconds, size, rate, retransmits, cpu = values.values()
    if lost or not (seconds and size and rate):
        raise Damaged(
            f"{lost[0]!r} is {figures.get(lost[0], 'missing')}: the log is cut or damaged"
        )
    _totals(
        run, Figure.printed(rate[1], to_bps(1, rate[2], "bit")), Figure.printed(size[1]), Figure.printed(seconds[1]),
        slack=1e-4, cpu=cpu and cpu[1], retransmits_count=int(retransmits[1]) if retransmits else None,
    )  # fmt: skip
    if not cpu:
        run.warnings.append("the log ends early")
    elif not retransmits and not re.search(r"\bUDP\b", text, re.IGNORECASE):
        run.warnings.append("without retransmits_count: its line is missing, or the test is of UDP")


_TITLES = (
    "Throughput(Buffers/s)|Throughput(MB/s)|Avg Frame Size|Packets Received|Packets Sent|Bytes(MEG)|realtime(s)|"
    "Cycles/Byte|DPCs(count/s)|Pkts(num/DPC)|Intr(count/s)|Pkts(num/intr)|Retransmits|Avg. CPU %|Buffers|Errors"
).split("|")
"""Titles of the totals, which are four small tables or one wide one; longer titles before their prefixes."""
_TITLE = re.compile("|".join(map(re.escape, _TITLES)))


def _windows(run: Draft, text: str) -> None:
    run.version = m[1] if (m := re.search(r"Copyright Version (\d+\.\d+)", text)) else None
    fields: dict[str, str] = {}
    rows = [" ".join(r.split()) for r in text.split("\n")[:-1]]  # a line without its end may be cut
    for row, below in zip(rows, rows[2:], strict=False):
        titles = _TITLE.findall(row)
        if titles and " ".join(titles) == row:
            values = below.split()
            if len(values) != len(titles) or not all(
                re.fullmatch(r"\d+(?:\.\d{3,6})?", v) for v in values
            ):
                raise Damaged(f"not readable: {below!r}")
            fields |= zip(titles, values, strict=True)
    if "Throughput(MB/s)" not in fields:
        complaint = next((r for r in rows if re.search(r"(?i)\berror\b|failed", r)), None)
        raise Damaged(complaint or "the log ends before its totals")
    figures = {k: Figure.printed(v) for k, v in fields.items()}
    sent, received = figures.get("Packets Sent"), figures.get("Packets Received")
    command = re.match(r"(?i).*ntttcp(?:\.exe)? .*?-([sr])\b", text)
    if not command and not (sent and received):
        raise Damaged("the log does not tell whether it is the sender's or the receiver's")
    sends = (
        command[1] == "s"
        if command
        else sent is not None and received is not None and sent.value > received.value
    )
    run.test = "sender" if sends else "receiver"
    if not command:
        run.warnings.append(f"taken for the {run.test}'s log, from the packets sent and received")
    seconds, buffers = figures["realtime(s)"], figures.get("Buffers")
    if (
        buffers
        and buffers.value
        and not (buffers / seconds).agrees(figures["Throughput(Buffers/s)"], 1e-4)
    ):
        raise Contradictory(f"{CONTRADICTION}buffers, time and buffers per second")
    retransmits, cpu = figures.get("Retransmits"), fields.get("Avg. CPU %")
    _totals(
        run, figures["Throughput(MB/s)"] * (8 * 2**20), figures["Bytes(MEG)"] * 2**20, seconds, slack=0.0006,
        cpu=cpu, retransmits_count=int(retransmits.value) if retransmits else None,
    )  # fmt: skip
    if cpu is None:
        run.warnings.append("the table of packets is missing, and with it retransmits and CPU")
