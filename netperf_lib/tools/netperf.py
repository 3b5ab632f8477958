"""netperf: bulk transfer and request/response, in the tables of old and in the outputs of omni (2.4 to 2.7).

Units of transfers: capital letters are bytes in powers of two, ``10^6bits`` are decimal (netperf.man, ``-f``). Over TCP
all that was sent has arrived when the clock stops; over UDP the figure of omni is the sender's, and the table has both
ends. -1 stands for "not measured".
The latencies of omni are round trips in request/response tests; in streams they time the send call alone, and in
connect/request/response tests the connection as well: then they are not kept.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from .parsed import Columns, ParsedRun, Percentile

NAME = "netperf"
MARKS = (" TEST from ", "THROUGHPUT=", "_LATENCY=", "TRANSACTION_RATE=", "establish control", "netperf: ", "netperf -")

_BANNER = re.compile(
    r"(?:^[ \t>]*|(?=MIGRATED ))(?:MIGRATED )?"
    r"(?P<name>OMNI|(?:TCP|UDP|SCTP|DCCP|UDPLITE|STREAM|DG) (?:STREAM|MAERTS|SENDFILE|BIDIR|"
    r"UNIDIRECTIONAL SEND|REQUEST/RESPONSE|Connect/Request/Response|Connect/Close)(?: MANY)?) TEST(?:\([^)\n]*\))?"
    r" from \S+ (?:.*\n)??.* to\s(?P<server>\S+)",
    re.MULTILINE,
)
_KEY = re.compile(r"^[ \t]*([A-Z][A-Z0-9_]*)=.*\n*", re.MULTILINE)
_COMPLAINT = re.compile(
    r"^(?:establish control: are you sure.*|netperf: .*(?:fail|cannot|error|invalid).*)", re.MULTILINE
)
_RATE = re.compile(r"(10\^[369]bits|[KMG]?Bytes|Trans)/s(?:ec)?")
_FACTORS = {
    "10^3bits": 1e3,
    "10^6bits": 1e6,
    "10^9bits": 1e9,
    "Bytes": 8.0,
    "KBytes": 8.0 * 2**10,
    "MBytes": 8.0 * 2**20,
    "GBytes": 8.0 * 2**30,
}


_COMMAND = re.compile(r"^.*\bnetperf (?P<options>-.*)$", re.MULTILINE)
_TESTS = {
    "STREAM": "STREAM",
    "MAERTS": "MAERTS",
    "SENDFILE": "SENDFILE",
    "RR": "REQUEST/RESPONSE",
    "CRR": "Connect/Request/Response",
    "CC": "Connect/Close",
}
"""Tests as a banner calls them, by the name on a command line."""


def sightings(text: str) -> Iterator[int]:
    """Offsets of banners; of the command, the first key or the complaint where no banner is before it."""
    starts = [m.start() for m in _BANNER.finditer(text)]
    commands = [m.start() for m in _COMMAND.finditer(text)]
    for at, end in pairwise(sorted({*commands, *starts, len(text)})):
        if at in commands and _without_banner(text[at:end]) and end not in starts:
            starts.append(at)
    for at in _keyed_blocks(text):
        before = max((s for s in starts if s < at), default=None)
        # keys are a banner's when nothing but chatter is between them
        if before is None or re.search(r"^[ \t]*(?:[A-Z][A-Z0-9_]*=|-?\d)", text[before:at], re.MULTILINE):
            starts.append(at)
    complaint = _COMPLAINT.search(text)
    if complaint and not any(s < complaint.start() for s in starts):
        starts.append(complaint.start())
    return iter(sorted(starts))


def _keyed_blocks(text: str) -> Iterator[int]:
    """Offsets of blocks of ``NAME=value`` lines: a block ends where other lines follow, or a name comes again."""
    start, end = 0, -1
    names: set[str] = set()
    for m in _KEY.finditer(text):
        if m.start() != end or m[1] in names:
            if names & _TITLES_OF_KEYS:
                yield start
            start, names = m.start(), set()
        names.add(m[1])
        end = m.end()
    if names & _TITLES_OF_KEYS:
        yield start


def _without_banner(text: str) -> bool:
    """Whether a result follows the command at the start of a text."""
    test, _ = _asked(text)
    try:
        return bool(_figures(text.partition("\n")[2], test)[0])
    except ValueError:
        return False


def _asked(text: str) -> tuple[str, str | None]:
    """The test and the server that the command in the first line asks for."""
    m = _COMMAND.match(text)
    options = m["options"] if m else ""
    name = re.search(r"-t ?(TCP|UDP|SCTP)_(\w+)", options)
    server = re.search(r"-H ?(\S+)", options)
    test = f"{name[1]} {_TESTS.get(name[2], name[2])}" if name else "TCP STREAM"
    return test, server[1] if server else None


def read(text: str) -> list[ParsedRun]:
    """Read one run; without banners (``-P 0``) those that follow it as further rows of its table."""
    runs: list[ParsedRun] = []
    while text:
        run, text = _read(text)
        line = runs[-1].line + 1 if runs else 1
        runs.append(replace(run, line=line))
    return runs


def _read(text: str) -> tuple[ParsedRun, str]:
    """Read one run; return with it the text of another one, whose row stands under it, or nothing."""
    banner = _BANNER.match(text)
    parameters: dict[str, str | int | float | bool] = {}
    test, server, burst = None, None, 0
    if banner:
        test, server = banner["name"].strip(), banner["server"]
        if m := re.match(r".*: first burst (\d+)", text[banner.end() :]):
            burst = int(m[1])
    elif _COMMAND.match(text):
        test, server = _asked(text)
    if server:
        parameters["server"] = server
    if m := re.match(r"TCP|UDP|SCTP", test or ""):
        parameters["protocol"] = m[0].lower()
    if test and "MAERTS" in test:
        parameters["direction"] = "reverse"
    further = ""

    def result(**what: Any) -> tuple[ParsedRun, str]:
        return ParsedRun(tool=NAME, test=test, parameters=parameters, **what), further

    body = text[banner.end() :] if banner else text.partition("\n")[2] if test else text
    intervals = _interim(text, "reverse" if "MAERTS" in (test or "") else "forward")
    try:
        figures, notes = _figures(body, test or "")
        further = figures.pop("further", "")
        if further:
            further = text[: len(text) - len(body)] + further
        metrics, points = _metrics(figures, test or "", notes, burst)
    except ValueError as e:
        return result(status="failed", error=str(e))
    if not figures:
        if said := _COMPLAINT.search(text):
            return result(status="failed", error=said[0].strip())
        if intervals["start_s"]:
            return result(status="partial", error="the log ends before its result", intervals=intervals)
        return result(status="failed", error="no result: the log ends before it")
    if not metrics:
        error = "; ".join(notes) or "nothing was measured: every figure is missing or -1"
        return result(status="failed", error=error)
    if "message" in figures:
        parameters["message_bytes"] = int(figures["message"])
    notes += [
        w.strip() for w in re.findall(r"^!!! (Desired confidence .*|Confidence intervals: .*)", text, re.MULTILINE)
    ]
    return result(
        status="ok",
        metrics=metrics,
        percentiles=points,
        percentile_basis="rtt" if points else None,
        intervals=intervals if intervals["start_s"] else {},
        warnings=tuple(notes),
    )


def _bps(number: str, unit: str, line: str, digits: str = r"\d\d") -> float:
    """Convert a rate of data.

    Raises
    ------
    ValueError
        A unit that netperf does not print.
    """
    m = _RATE.fullmatch(unit)
    if not m or m[1] == "Trans" or not re.fullmatch(rf"\d+\.{digits}", number):
        raise ValueError(f"unknown unit {unit!r} or damaged number {number!r} in {line.strip()!r}")
    return round(float(number) * _FACTORS[m[1]], 3)


# --- the three ways to print a result ---------------------------------------------------------------------------------


def _figures(body: str, test: str) -> tuple[dict[str, Any], list[str]]:
    """Read the result by name: those of omni in capitals, and ``bps``, ``sent_bps``, ``rate``, ``seconds`` …

    Raises
    ------
    ValueError
        A result that is there and cannot be read.
    """
    lines = body.split("\n")
    # a line without its end may be cut, unless its last figure shows that it is whole
    cut = re.search(r"\.\d\d\d?$|/s$", lines[-1]) is None
    whole = lines[:-1] if cut else lines
    keyed = any(m[1] in _TITLES_OF_KEYS for line in whole if (m := _KEY.match(line)))
    titles = next((i for i, x in enumerate(whole) if not _TITLES.keys().isdisjoint(map(str.strip, x.split(",")))), None)
    if keyed and (titles is not None or any(re.match(r"[ \t>]*bytes +bytes", x, re.IGNORECASE) for x in whole)):
        raise ValueError("results in two forms: two processes wrote into one log")
    if keyed:
        return _keyed(whole) | {"keyed": True}, []
    found = _table(whole, test)
    if titles is not None:
        if found:
            raise ValueError("results in two forms: two processes wrote into one log")
        return _separated(lines[titles:], cut=cut)
    if found:
        return found, []
    for i, line in enumerate(whole):
        if re.match(r"[ \t]*[A-Z0-9]", line) and (found := _columns(whole[i:])):
            return found, []
    return {}, []


_TITLES = {
    "Throughput": "THROUGHPUT",
    "Throughput Units": "THROUGHPUT_UNITS",
    "Elapsed Time (sec)": "ELAPSED_TIME",
    "Mean Latency Microseconds": "MEAN_LATENCY",
    "Minimum Latency Microseconds": "MIN_LATENCY",
    "Maximum Latency Microseconds": "MAX_LATENCY",
    "Stddev Latency Microseconds": "STDDEV_LATENCY",
    "50th Percentile Latency Microseconds": "P50_LATENCY",
    "90th Percentile Latency Microseconds": "P90_LATENCY",
    "99th Percentile Latency Microseconds": "P99_LATENCY",
    "Local CPU Util %": "LOCAL_CPU_UTIL",
    "Remote CPU Util %": "REMOTE_CPU_UTIL",
    "Local Transport Retransmissions": "LOCAL_TRANSPORT_RETRANS",
    "Local Send Throughput": "LOCAL_SEND_THROUGHPUT",
    "Remote Recv Throughput": "REMOTE_RECV_THROUGHPUT",
    "Transaction Rate Tran/s": "TRANSACTION_RATE",
}
_TITLES_OF_KEYS = frozenset(_TITLES.values())


_OTHER_TITLES = {
    "Throughput Confidence Width (%)",
    "Confidence Iterations Run",
    "Remote Transport Retransmissions",
    "Transport MSS bytes",
}
"""Titles that are known and not used: with these a row that is longer than its titles can be trusted."""
_KNOWN_TITLES = {*_TITLES, *_OTHER_TITLES}
_MOST_TITLE_LINES = 8
"""No title for people goes over more lines than this, empty ones counted."""


def _keyed(lines: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for line in lines:
        m = re.fullmatch(r"[ \t]*([A-Z0-9_]+)=(.*?)[ \t]*", line)
        if m and found.setdefault(m[1], m[2]) != m[2]:
            raise ValueError(f"two different values of {m[1]}")
    return found


def _separated(lines: list[str], *, cut: bool) -> tuple[dict[str, Any], list[str]]:
    """Read titles and values with commas; titles may be wrapped by an editor, and the last line may be `cut`."""
    row = next((i for i, line in enumerate(lines) if re.match(r"[ \t]*-?\d+(?:\.\d+)?(?:,|[ \t]*$)", line)), None)
    if row is None:
        return {}, []
    titles = [t.strip() for t in " ".join(lines[:row]).split(",")]
    values = lines[row].split(",")
    notes = []
    if cut and row == len(lines) - 1 and len(values) == len(titles):
        notes.append(f"the log ends without the end of its line: {titles.pop()!r} may be cut and is left out")
        values.pop()
    decimals = len(values) == 2 * len(titles) and "." not in lines[row]  # commas of another country
    if decimals or len(values) < len(titles) or (len(values) > len(titles) and not set(titles) <= _KNOWN_TITLES):
        raise ValueError(f"{len(values)} values for {len(titles)} titles: {lines[row][:60]!r}")
    if len(values) > len(titles):
        notes.append(f"{len(values)} values for {len(titles)} titles: those without a title are left out")
    return {_TITLES.get(t, t): v.strip() for t, v in zip(titles, values, strict=False)}, notes


def _columns(lines: list[str]) -> dict[str, Any]:
    """Read the columns for people: a title goes over several lines, at the place of its value."""
    row = next((i for i, line in enumerate(lines) if re.match(r"[ \t]*-?\d+(?:\.\d+)?(?:[ \t]|$)", line)), None)
    if not row or row > _MOST_TITLE_LINES:
        return {}
    starts = [m.start() for m in re.finditer(r"\S+", lines[0])]
    spans = list(zip(starts, [*starts[1:], None], strict=True))
    titles = [" ".join(" ".join(line[a:b].strip() for line in lines[:row]).split()) for a, b in spans]
    if _TITLES.keys().isdisjoint(titles):
        return {}
    values = [lines[row][a:b].strip() for a, b in spans]
    if any(not re.fullmatch(r"-?[\d.]+|[\w^/]+", v) for v in values):
        raise ValueError(f"the columns do not stand under their titles: {lines[row].strip()!r}")
    return {_TITLES.get(t, t): v for t, v in zip(titles, values, strict=True)}


def _table(lines: list[str], test: str) -> dict[str, Any]:
    """Read the table of a classic test: the row of numbers under the line of units."""
    at = next((i for i, line in enumerate(lines) if re.match(r"[ \t>]*bytes +bytes", line, re.IGNORECASE)), None)
    if at is None:
        return {}
    rows = [line for line in lines[at + 1 :] if line.strip()]
    if not rows or not re.match(r"[ \t>]*\d", rows[0]):
        return {}
    values = rows[0].strip(" \t>").split()
    numeric = [all(re.fullmatch(r"-?\d+(?:\.\d+)?", v) for v in row.strip(" \t>").split()) for row in rows]
    second = rows[1].split() if len(rows) > 1 and numeric[1] else []
    # decimals that are always two show that the row is whole
    if not numeric[0]:
        raise ValueError(f"not readable: {rows[0].strip()!r}")
    units = lines[at].strip(" \t>").split()
    names: tuple[str, ...]
    two_rows = False
    if "REQUEST/RESPONSE" in test.upper():
        by_bits = "per sec" not in lines[at]  # -f
        if lines[at].count("per sec") != 1 and not any(map(_RATE.fullmatch, units)):
            raise ValueError(f"unknown units: {lines[at].strip()!r}")
        rate = "answered" if by_bits else "rate"
        names = ("", "", "message", "answer", "seconds", rate, "cpu_local", "cpu_remote", "", "")
        two_rows = len(second) == 2
    elif _sends_datagrams(test):
        names = ("", "message", "seconds", "packets", "", "sent", "cpu_local", "")
        two_rows = True
    else:
        names = ("", "", "message", "seconds", "throughput", "cpu_local", "cpu_remote", "", "")
    needed = max(i for i, n in enumerate(names) if n in ("rate", "answered", "sent", "throughput")) + 1
    if not needed <= len(values) <= (len(names) if "%" in units else needed):
        raise ValueError(f"not a row of {test}: {rows[0].strip()!r}")
    found: dict[str, Any] = {n: v for n, v in zip(names, values, strict=False) if n}
    # with the processors beside it the rate of datagrams has one digit; the columns behind it show that it is whole
    digits = r"\d\d?" if "sent" in found and "%" in units else r"\d\d"
    for name in ("seconds", "rate", "answered", "sent", "throughput"):
        if name in found and not re.fullmatch(r"\d+\." + (r"\d\d" if name == "seconds" else digits), found[name]):
            raise ValueError(f"damaged number {found[name]!r} in {rows[0].strip()!r}")
    rest = rows[1 + two_rows :]
    if rest and len(rest[0].split()) == len(values) and numeric[1 + two_rows]:  # -P 0: the row of another run
        found["further"] = "\n".join(["", *lines[: at + 1], *rest, ""])
    unit = next((u for u in units if _RATE.fullmatch(u)), units[-1])
    if "throughput" in found:
        found["bps"] = _bps(found["throughput"], unit, lines[at])
    if "answered" in found:
        size = float(found["message"]) + float(found["answer"])
        found["rate"] = f"{_bps(found['answered'], unit, lines[at]) / 8 / size:.2f}"
        found["note"] = "the rate of transactions is computed from the throughput (-f)"
    if "sent" in found:
        found["sent_bps"] = _bps(found["sent"], unit, lines[at], digits)
        if len(second) < 4:
            raise ValueError("the row of the receiver is missing")
        found |= {"received_packets": second[2], "bps": _bps(second[3], unit, lines[at], digits)}
        size, seconds = float(found["message"]), float(found["seconds"])
        half = (0.01 if re.search(r"\.\d\d$", found["sent"]) else 0.06) * seconds * _FACTORS["10^6bits"]
        for packets, bps in ((float(found["packets"]), found["sent_bps"]), (float(second[2]), found["bps"])):
            if abs(packets * size * 8 - bps * seconds) > bps * 0.02 + size * 8 + half:
                raise ValueError(f"{packets:.0f} messages of {size:.0f} bytes in {seconds:g} s, {bps / 1e6:.2f} Mbit/s")
    verbose = next(
        (i for i, line in enumerate(lines) if line.startswith("Send   Recv    Send   Recv    usec/Tran")), None
    )
    trips = lines[verbose + 1 : verbose + 2] if verbose else []
    if "rate" in found and trips and re.match(r"(?: +\d+){4} +\d+\.\d{3} +\d+\.\d{3} ", trips[0]):  # -v 2
        trip, told = trips[0].split()[4:6]
        waiting = max(1, round(float(trip) * float(told) / 1e6))  # -b: so many requests are on their way
        if abs(float(told) - float(found["rate"])) > (0.01 if "answered" not in found else 0.01 * float(told)) or abs(
            float(trip) * float(told) - 1e6 * waiting
        ) > 0.001 * float(told):
            raise ValueError(f"the figures contradict each other, the log is damaged: {trips[0].strip()!r}")
        if waiting == 1:
            found["trip_us"] = trip
    return found


def _sends_datagrams(test: str) -> bool:
    return test.startswith("UDP") and ("STREAM" in test or "UNIDIRECTIONAL" in test)


# --- names and units of the library -----------------------------------------------------------------------------------


def _number(text: Any) -> float | None:
    """Give a number; None for what is missing and for -1, netperf's word for it."""
    if text is None or not re.fullmatch(r"-?\d+(?:\.\d+)?", str(text)):
        return None
    value = float(text)
    return None if value < 0 else value


def _metrics(
    found: Mapping[str, Any], test: str, notes: list[str], burst: int
) -> tuple[dict[str, float], tuple[Percentile, ...]]:
    notes += [found["note"]] if "note" in found else []
    metrics: dict[str, float | None] = {
        "throughput_bps": found.get("bps"),
        "throughput_sent_bps": found.get("sent_bps"),
        "transaction_rate_per_s": _number(found.get("rate")),
        "rtt_us": _number(found.get("trip_us")),
        "duration_measured_s": _number(found.get("seconds", found.get("ELAPSED_TIME"))),
        "retransmits_count": _number(found.get("LOCAL_TRANSPORT_RETRANS")),
        "packets_count": _number(found.get("packets")),
    }
    for name, key in (("cpu_client_ratio", "local"), ("cpu_server_ratio", "remote")):
        share = _number(found.get(f"cpu_{key}", found.get(f"{key.upper()}_CPU_UTIL")))
        metrics[name] = None if share is None else round(share / 100, 7)
    received = _number(found.get("received_packets"))
    if received is not None and metrics["packets_count"]:
        lost = metrics["packets_count"] - received
        metrics |= {"lost_count": lost, "lost_ratio": lost / metrics["packets_count"]}
    points: tuple[Percentile, ...] = ()
    answered = "REQUEST/RESPONSE" in test.upper()
    number, unit = found.get("THROUGHPUT"), found.get("THROUGHPUT_UNITS")
    if unit == "Trans/s" and re.search("STREAM|MAERTS|SENDFILE", test):
        raise ValueError(f"transactions in a {test}: two processes wrote into one log")
    if unit == "Trans/s" or answered:
        rate = number if unit == "Trans/s" else found.get("TRANSACTION_RATE")
        if rate is not None and re.fullmatch(r"\d+\.\d\d\d?", rate):
            metrics["transaction_rate_per_s"] = float(rate)
        elif number is not None:
            notes.append(f"a throughput of {number} {unit or 'without its unit'} is no rate of transactions: left out")
    elif number is not None and unit is None:
        notes.append(f"a throughput of {number} without its unit is left out; ask for THROUGHPUT_UNITS beside it")
    elif number is not None and unit is not None:  # counted at this end: over UDP that is what was sent
        name = "throughput_sent_bps" if _sends_datagrams(test) else "throughput_bps"
        metrics[name] = _bps(number, unit, f"{number} {unit}")
        for name, key in (("throughput_sent_bps", "LOCAL_SEND"), ("throughput_bps", "REMOTE_RECV")):
            if _number(found.get(f"{key}_THROUGHPUT")) is not None:
                metrics[name] = _bps(found[f"{key}_THROUGHPUT"], unit, f"{found[f'{key}_THROUGHPUT']} {unit}")
        if not test:
            notes.append("no banner tells the test: taken for a transfer over TCP")
    latencies = {
        name: _number(found.get(f"{key}_LATENCY"))
        for name, key in (
            ("rtt_us", "MEAN"),
            ("rtt_min_us", "MIN"),
            ("rtt_p50_us", "P50"),
            ("rtt_p90_us", "P90"),
            ("rtt_p99_us", "P99"),
            ("rtt_max_us", "MAX"),
            ("rtt_stdev_us", "STDDEV"),
        )
    }
    if any(v is not None for v in latencies.values()):
        if "CONNECT" in test.upper():
            notes.append("the latencies hold the time to connect: left out")
        elif not answered and unit != "Trans/s":
            what = (
                "are those of the send call, not of the network" if test or unit else "are of a test that is not told"
            )
            notes.append(f"the latencies {what}: left out")
        else:
            ordered = [v for k, v in latencies.items() if v is not None and k not in ("rtt_us", "rtt_stdev_us")]
            most = latencies["rtt_max_us"] or math.inf
            if ordered != sorted(ordered) or max(latencies["rtt_us"] or 0, latencies["rtt_stdev_us"] or 0) > most:
                raise ValueError("the figures contradict each other, the log is damaged: latencies out of order")
            mean, transactions = latencies["rtt_us"], metrics["transaction_rate_per_s"]
            # one transaction after the other, or as many at a time as the burst is long
            if mean and transactions and not 0.5 < mean * transactions / 1e6 / (1 + burst) < 1.1:
                raise ValueError(
                    f"the figures contradict each other: {mean:g} us, {transactions:g} transactions a second"
                )
            metrics |= latencies
            gone = [k for k, v in latencies.items() if v is None]
            if gone and found.get("keyed"):  # names are given one by one, so that a lost line leaves no trace
                notes.append(f"without {', '.join(gone)}")
            points = tuple(
                Percentile(float(p), v) for p in (50, 90, 99) if (v := latencies[f"rtt_p{p}_us"]) is not None
            )
    kept = {k: int(v) if k.endswith("_count") else v for k, v in metrics.items() if v is not None}
    return kept, points


_INTERIM = re.compile(
    r"^Interim result: +(\d+\.\d\d) (\S+) over (\d+\.\d+) seconds ending at (\d+\.\d+)[ \t]*$", re.MULTILINE
)


def _interim(text: str, direction: str) -> Columns:
    """Read the interim results of a transfer (``-D``); those of transactions have no place in the table."""
    rows = [(float(n), m[1], float(s), float(t)) for n, u, s, t in _INTERIM.findall(text) if (m := _RATE.fullmatch(u))]
    rows = [r for r in rows if r[1] != "Trans"]
    start = rows[0][3] - rows[0][2] if rows else 0.0
    return {
        "stream": [-1] * len(rows),
        "direction": [direction] * len(rows),
        "start_s": [max(0.0, round(t - s - start, 3)) for _, _, s, t in rows],
        "end_s": [round(t - start, 3) for _, _, _, t in rows],
        "omitted": [False] * len(rows),
        "throughput_bps": [round(n * _FACTORS[u], 3) for n, u, _, _ in rows],
        "retransmits_count": [None] * len(rows),
        "rtt_loaded_us": [None] * len(rows),
        "cwnd_bytes": [None] * len(rows),
    }
