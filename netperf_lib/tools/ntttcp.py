"""ntttcp for Linux and for Windows: throughput of many connections, as the end that printed it saw it.

"MB" are 10^6 bytes on Linux and 2^20 bytes on Windows, "mbps" are 10^6 bits on both. ``-r`` is the receiver, whose
throughput is the headline; ``-s`` the sender. Its share of processors is that of the whole machine on Windows, and the
number of busy ones on Linux.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from ..metrics import to_bps
from .parsed import ParsedRun

NAME = "ntttcp"
MARKS = ("NTTTCP for Linux", "<ntttcp", '"ntttcp', "Copyright Version ", "#####  Totals:  #####", "<tcp_retransmits")

_START = re.compile(
    r"^NTTTCP for Linux \S+[ \t]*\n|^Copyright Version \d+\.\d+[ \t]*$|^[ \t]*<ntttcp[sr](?=[ >])"
    r'|^\{\s*"ntttcp[sr]"\s*:|^[ \t]*\.\.\.\n(?=(?:.*\n){0,3}[ \t]*<tcp_retransmits )',
    re.MULTILINE,
)
_TOTALS = "#####  Totals:  #####"


def sightings(text: str) -> Iterator[int]:
    """Offsets of a version line or of the start of a document; the command just before belongs to the run."""
    found = False
    for m in _START.finditer(text):
        found = True
        before = text.rfind("\n", 0, max(m.start() - 1, 0)) + 1
        yield before if re.match(r"(?i).*\bntttcp(?:\.exe)? .*-[smr]", text[before : m.start()]) else m.start()
    if not found and _TOTALS in text:
        yield text.rfind("\n", 0, text.find(_TOTALS)) + 1


def read(text: str) -> list[ParsedRun]:
    """Read one run: console of Linux or Windows, XML or JSON."""
    try:
        if re.match(r"\s*<ntttcp", text):
            return [_document(_xml(text))]
        if re.match(r"\s*\{", text):
            return [_document(_json(text))]
        if "Copyright Version" in text:
            return [_windows(text)]
        if "NTTTCP for Linux" in text or _TOTALS in text:
            return [_linux(text)]
    except ValueError as e:
        return [ParsedRun(tool=NAME, status="failed", error=str(e))]
    return [ParsedRun(tool=NAME, status="failed", error="a fragment of an XML document: no totals and no end in it")]


def _near(a: float, b: float, relative: float, absolute: float = 0.0) -> bool:
    return abs(a - b) <= relative * max(abs(a), abs(b)) + absolute


def _metrics(role: str, bps: float, size: float, seconds: float) -> dict[str, float]:
    """Throughput, data and time under the names of the end that saw them."""
    if not _near(size * 8 / seconds, bps, 0.0006, 0.006 * size * 8 / seconds**2):
        raise ValueError(
            "the figures contradict each other, the log is damaged: "
            f"{size:.0f} bytes in {seconds:g} s, {bps / 1e6:.2f} Mbit/s"
        )
    if role == "sender":
        return {"throughput_sent_bps": bps, "sent_bytes": round(size), "duration_measured_s": seconds}
    return {"throughput_bps": bps, "transferred_bytes": round(size), "duration_measured_s": seconds}


# --- XML and JSON -----------------------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r'\s*(?:<(?P<leaf>\w+)(?: \w+="(?P<metric>[^"<>]*)")?>(?P<value>[^<>]*)</(?P=leaf)>'
    r'|<(?P<open>\w+)(?: \w+="[^"<>]*")*>|</(?P<close>\w+)>)'
)


def _xml(text: str) -> dict[str, Any]:
    """Flatten the totals of a document: ``name`` or ``name metric`` to text; ``role`` and ``version`` from its root.

    Raises
    ------
    ValueError
        The document is cut or damaged.
    """
    root = re.match(r'\s*<(ntttcp[sr]) computername="[^"<>]*" version="([^"<>]*)">', text)
    if not root:
        raise ValueError("the first line of the document is damaged")
    found: dict[str, Any] = {"role": root[1], "version": root[2]}
    place, inside = root.end(), [root[1]]
    while inside:
        m = _TOKEN.match(text, place)
        if not m:
            rest = text[place:].strip()
            what = f"cannot be read at {rest[:40]!r}" if rest else "ends before its last element"
            raise ValueError(f"the document {what}")
        place = m.end()
        if m["leaf"]:
            if len(inside) == 1 or inside[-1] == "parameters":
                key = m["leaf"] if m["metric"] is None else f"{m['leaf']} {m['metric']}"
                if found.setdefault(key, m["value"].strip()) != m["value"].strip():
                    raise ValueError(f"two different values of {key!r} in the document")
        elif m["open"]:
            inside.append(m["open"])
        elif inside.pop() != m["close"]:
            raise ValueError(f"the document closes {m['close']!r} where it is not open")
    return found


_JSON_NAMES = {"totalBytes": "total_bytes", "realTime": "realtime", "runTime": "run_time", "recvSocketBuff": ""}


def _json(text: str) -> dict[str, Any]:
    """Give the JSON of the same names as `_xml`.

    Raises
    ------
    ValueError
        The document is cut or damaged.
    """
    end = re.search(r"^\}", text, re.MULTILINE)
    try:
        [(root, document)] = orjson.loads(text[: end.end()] if end else text).items()
        found = {"role": root, "version": document["version"]}
        for key, value in (*document["parameters"].items(), *document.items()):
            name = _JSON_NAMES.get(key, key)
            if isinstance(value, dict) and "metric" in value:
                found[f"{name} {value['metric']}"] = value["value"]
            elif key == "throughputs":
                found |= {f"throughput {v['metric']}": v["value"] for v in value}
            elif isinstance(value, str):
                found[name] = value
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError("the JSON document is cut or damaged") from None
    return found


def _document(found: Mapping[str, str]) -> ParsedRun:
    def number(key: str) -> float:
        text = found.get(key, "")
        if not re.fullmatch(r"\d+(?:\.\d+)?", text):
            raise ValueError(f"{key!r} is {text!r}, not a number" if text else f"{key!r} is missing in the document")
        return float(text)

    def known(key: str) -> bool:
        return found.get(key, "") not in ("", "-1", "NA")

    role = "sender" if found["role"] == "ntttcps" else "receiver"
    linux = found["version"].endswith("-linux")
    seconds, rate, bits = number("realtime s"), number("throughput MB/s"), number("throughput mbps")
    megabyte = 1e6 if linux else 2**20
    if seconds <= 0 or bits <= 0:
        raise ValueError("nothing was transferred")
    if not _near(rate * megabyte * 8, bits * 1e6, 1e-4, 0.002 * megabyte * 8):
        raise ValueError(f"the figures contradict each other, the log is damaged: {rate:g} MB/s, {bits:g} mbps")
    if known("throughput Bps") and not _near(number("throughput Bps") * 8, bits * 1e6, 1e-5, 1000):
        raise ValueError(f"the figures contradict each other, the log is damaged: {bits:g} mbps and Bps")
    metrics = _metrics(role, round(bits * 1e6, 3), number("total_bytes MB") * megabyte, seconds)
    if known("packets_retransmitted") and found.get("udp") == "False":  # UDP sends nothing again: its 0 says nothing
        metrics["retransmits_count"] = int(number("packets_retransmitted"))
    if known("tcp_average_rtt us") and number("tcp_average_rtt us") > 0:
        metrics["rtt_loaded_us"] = number("tcp_average_rtt us")
    for key in ("cpu_busy_all %", "cpu %"):
        if known(key):
            metrics["cpu_client_ratio" if role == "sender" else "cpu_server_ratio"] = round(number(key) / 100, 7)
            break
    parameters: dict[str, str | int | float | bool] = {}
    if found.get("udp") in ("True", "False"):
        parameters["protocol"] = "udp" if found["udp"] == "True" else "tcp"
    if known("run_time"):
        parameters["duration_s"] = number("run_time") / (1 if linux else 1000)
    if known("bufferLen") and number("bufferLen") > 0:
        parameters["message_bytes"] = int(number("bufferLen"))
    return ParsedRun(
        tool=NAME, tool_version=found["version"], test=role, status="ok", metrics=metrics, parameters=parameters
    )


# --- consoles ---------------------------------------------------------------------------------------------------------

_RATE = re.compile(r"(\d+\.\d\d)([KMGT]?)bps")
_KEY = re.compile(r"(?:[\d:]{8} INFO: )?[ \t]*([a-z][^:\t]*?)[ \t]*:[ \t]*(\S.*?)[ \t]*")
_WORDS = {"test duration": r"(\d+\.\d\d) seconds", "total bytes": r"(\d+)", "retrans segs": r"(\d+)"}


def _linux(text: str) -> ParsedRun:
    version = m[1] if (m := re.search(r"NTTTCP for Linux (\S+)", text)) else None
    sender = re.search(
        r"connections (?:created|tested)|\bsender: |^\*\*\* sender role|\bntttcp .*-s", text, re.MULTILINE
    )
    test = "sender" if sender else "receiver"

    def ended(status: Any, error: str) -> ParsedRun:
        return ParsedRun(tool=NAME, tool_version=version, test=test, status=status, error=error)

    if said := re.search(r"\bERR : (.*)", text):
        return ended("failed", said[1].strip())
    if _TOTALS not in text:
        if "Real-time throughput" in text:
            return ended("partial", "the log ends before its totals; the rates that it shows have no times")
        return ended("failed", "the log ends before its totals")
    if text.count(_TOTALS) > 1:
        return ended("failed", "totals of several tests, which may be of two processes: pass one test a log")
    found: dict[str, str] = {}
    body = text[text.index(_TOTALS) :].split("\n")
    for row in body[1:-1]:  # what has no line end may be cut
        m = _KEY.fullmatch(row)
        if m and m[1] not in found:
            found[m[1]] = m[2]
        if m and m[1] == "cpu busy (all)":
            break
    if not version and not sender:
        return ended("failed", "the log tells not whether it is the sender's or the receiver's")
    figures: dict[str, float] = {}
    for key, pattern in _WORDS.items():
        m = re.fullmatch(pattern, found.get(key, ""))
        if m:
            figures[key] = float(m[1])
        elif key in found or key != "retrans segs":
            return ended("failed", f"{key!r} is {found.get(key, 'missing')}: the log is cut or damaged")
    rate = _RATE.fullmatch(found.get("throughput", ""))
    if not rate:
        return ended("failed", f"'throughput' is {found.get('throughput', 'missing')}: the log is cut or damaged")
    if figures["test duration"] == 0 or figures["total bytes"] == 0:
        return ended("failed", "nothing was transferred")
    bps = to_bps(float(rate[1]), rate[2], "bit")
    half = to_bps(0.006, rate[2], "bit") / bps
    if not _near(figures["total bytes"] * 8 / figures["test duration"], bps, half + 0.006 / figures["test duration"]):
        return ended("failed", "the figures contradict each other, the log is damaged: bytes, duration and throughput")
    size, seconds = int(figures["total bytes"]), figures["test duration"]
    side = "sent_bytes" if sender else "transferred_bytes"
    metrics: dict[str, float] = {
        "throughput_sent_bps" if sender else "throughput_bps": bps,
        side: size,
        "duration_measured_s": seconds,
    }
    if "retrans segs" in figures:
        metrics["retransmits_count"] = int(figures["retrans segs"])
    if m := re.fullmatch(r"(\d+\.\d\d)%", found.get("cpu busy (all)", "")):
        metrics["cpu_client_ratio" if sender else "cpu_server_ratio"] = round(float(m[1]) / 100, 7)
    warnings = () if "cpu busy (all)" in found else ("the log ends early",)
    return ParsedRun(tool=NAME, tool_version=version, test=test, status="ok", metrics=metrics, warnings=warnings)


_COLUMNS = {
    "Bytes(MEG)": "megabytes",
    "realtime(s)": "seconds",
    "Avg Frame Size": "",
    "Throughput(MB/s)": "rate",
    "Throughput(Buffers/s)": "buffers_s",
    "Cycles/Byte": "",
    "Buffers": "buffers",
    "DPCs(count/s)": "",
    "Pkts(num/DPC)": "",
    "Intr(count/s)": "",
    "Pkts(num/intr)": "",
    "Packets Sent": "sent",
    "Packets Received": "received",
    "Retransmits": "retransmits",
    "Errors": "",
    "Avg. CPU %": "cpu",
}
"""Titles of the totals, which are four small tables or one wide one."""
_TITLE = re.compile("|".join(re.escape(t) for t in sorted(_COLUMNS, key=len, reverse=True)))


def _windows(text: str) -> ParsedRun:
    version = m[1] if (m := re.search(r"Copyright Version (\d+\.\d+)", text)) else None
    found: dict[str, float] = {}
    rows = [" ".join(r.split()) for r in text.split("\n")[:-1]]  # what has no line end may be cut
    for place, row in enumerate(rows):
        titles = _TITLE.findall(row)
        if not titles or " ".join(titles) != row or place + 2 >= len(rows):
            continue
        names = [_COLUMNS[t] for t in titles]
        values = rows[place + 2].split()
        if len(values) != len(names) or not all(re.fullmatch(r"\d+(?:\.\d{3,6})?", v) for v in values):
            raise ValueError(f"not readable: {rows[place + 2]!r}")
        found |= {n: float(v) for n, v in zip(names, values, strict=True) if n}
    if "rate" not in found:
        said = next((r for r in rows if re.search(r"(?i)\berror\b|failed", r)), None)
        raise ValueError(said or "the log ends before its totals")
    if not found["seconds"] or not found["megabytes"]:
        raise ValueError("nothing was transferred")
    # "MB" of Windows are 2^20 bytes: buffers of 64 KiB over the time give the same
    bps = found["rate"] * 2**20 * 8
    if found.get("buffers") and not _near(found["buffers"] / found["seconds"], found["buffers_s"], 1e-4):
        raise ValueError("the figures contradict each other, the log is damaged: buffers, time and buffers a second")
    command = re.match(r"(?i).*ntttcp(?:\.exe)? .*?-([sr])\b", text)
    warnings: tuple[str, ...] = ()
    if command:
        role = "sender" if command[1] == "s" else "receiver"
    elif "sent" in found:
        role = "sender" if found["sent"] > found["received"] else "receiver"
        warnings = (f"taken for the {role}'s log, from the packets sent and received",)
    else:
        raise ValueError("the log tells not whether it is the sender's or the receiver's")
    metrics = _metrics(role, bps, found["megabytes"] * 2**20, found["seconds"])
    if "cpu" not in found:
        warnings = (*warnings, "the table of packets is missing, and with it retransmits and CPU")
    else:
        metrics["retransmits_count"] = int(found["retransmits"])
        metrics["cpu_client_ratio" if role == "sender" else "cpu_server_ratio"] = round(found["cpu"] / 100, 7)
    return ParsedRun(tool=NAME, tool_version=version, test=role, status="ok", metrics=metrics, warnings=warnings)
