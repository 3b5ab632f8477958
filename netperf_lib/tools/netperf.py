"""netperf: bulk transfer and request/response, in the classic tables and in the outputs of omni (2.4 to 2.7).

Units of transfers: capital letters are bytes in powers of two, ``10^6bits`` are decimal (netperf.man, ``-f``). Over TCP
all sent data have arrived when the clock stops; over UDP the figure of omni is the sender's, and the table has both
ends. -1 means "not measured".
The latencies of omni are round trips in request/response tests. In streams they time only the send call, and in
connect/request/response tests they include the connection; in both cases they are not kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from itertools import pairwise

from ..metrics import to_bps
from .draft import CONTRADICTION, Contradictory, Damaged, Draft, Figure, drafted, interval_columns
from .parsed import ParsedRun, Percentile

NAME = "netperf"
MARKS = (
    " TEST from ",
    "THROUGHPUT=",
    "_LATENCY=",
    "TRANSACTION_RATE=",
    "establish control",
    "netperf: ",
    "netperf -",
)

_BANNER = re.compile(
    r"(?:^[ \t>]*|(?=MIGRATED ))(?:MIGRATED )?"
    r"(?P<name>OMNI(?: (?:Send|Recv|Receive|Send\|Recv))?|"
    r"(?:TCP|UDP|SCTP|DCCP|UDPLITE|STREAM|DG) (?:STREAM|MAERTS|SENDFILE|BIDIR|"
    r"UNIDIRECTIONAL SEND|REQUEST/RESPONSE|Connect/Request/Response|Connect/Close)(?: MANY)?) TEST(?:\([^)\n]*\))?"
    r" from \S+ (?:.*\n)??.* to\s(?P<server>\S+)",
    re.MULTILINE,
)
_KEY = re.compile(r"^[ \t]*([A-Z][A-Z0-9_]*)=.*\n*", re.MULTILINE)
_COMPLAINT = re.compile(
    r"^(?:establish control: are you sure.*|netperf: .*(?:fail|cannot|error|invalid).*)",
    re.MULTILINE,
)
_COMMAND = re.compile(r"^.*\bnetperf (?P<options>-.*)$", re.MULTILINE)
_TESTS = {"RR": "REQUEST/RESPONSE", "CRR": "Connect/Request/Response", "CC": "Connect/Close"}
"""Name of a test on a command line to its name in a banner, if they differ."""
_FACTORS = {"10^3bits": 1e3, "10^6bits": 1e6, "10^9bits": 1e9}
_FACTORS |= {f"{p}Bytes": to_bps(1, p and f"{p}i", "byte") for p in ("", "K", "M", "G")}
_UNIT = re.compile(r"(10\^[369]bits|[KMG]?Bytes|Trans)/s(?:ec)?")
_TITLES = {
    f"{title} Latency Microseconds": f"{key}_LATENCY"
    for title, key in (
        *(("Mean", "MEAN"), ("Minimum", "MIN"), ("Maximum", "MAX"), ("Stddev", "STDDEV")),
        *(("50th Percentile", "P50"), ("90th Percentile", "P90"), ("99th Percentile", "P99")),
    )
} | {
    "Throughput": "THROUGHPUT",
    "Throughput Units": "THROUGHPUT_UNITS",
    "Elapsed Time (sec)": "ELAPSED_TIME",
    "Local CPU Util %": "LOCAL_CPU_UTIL",
    "Remote CPU Util %": "REMOTE_CPU_UTIL",
    "Local Transport Retransmissions": "LOCAL_TRANSPORT_RETRANS",
    "Local Send Throughput": "LOCAL_SEND_THROUGHPUT",
    "Remote Recv Throughput": "REMOTE_RECV_THROUGHPUT",
    "Transaction Rate Tran/s": "TRANSACTION_RATE",
}
_KEYS = frozenset(_TITLES.values())
_KNOWN_TITLES = {*_TITLES, "Throughput Confidence Width (%)", "Confidence Iterations Run"} | {
    "Remote Transport Retransmissions",
    "Transport MSS bytes",
}
"""With only these titles, a row that is longer than its titles can be trusted."""
_PART_OF_A_TITLE = re.compile(r"Throughput|Latency|Percentile|Microseconds")
_LATENCIES = {"rtt_us": "MEAN", "rtt_stdev_us": "STDDEV"} | {
    f"rtt_{key.lower()}_us": key for key in ("MIN", "P50", "P90", "P99", "MAX")
}
"""Mean and deviation, then the others in ascending order."""


# --- where runs are ---------------------------------------------------------------------------------------------------


def sightings(text: str) -> Iterator[int]:
    """Yield the offsets of banners; without a banner, of the command, the first key or the complaint."""
    starts = [m.start() for m in _BANNER.finditer(text)]
    commands = {m.start() for m in _COMMAND.finditer(text)}
    for at, end in pairwise(sorted({*commands, *starts, len(text)})):
        if at in commands and end not in starts and _without_banner(text[at:end]):
            starts.append(at)
    for at in _keyed_blocks(text):
        before = max((s for s in starts if s < at), default=None)
        # keys belong to a banner if there are no other figures between them
        if before is None or re.search(
            r"^[ \t]*(?:[A-Z][A-Z0-9_]*=|-?\d)", text[before:at], re.MULTILINE
        ):
            starts.append(at)
    complaint = _COMPLAINT.search(text)
    if complaint and not any(s < complaint.start() for s in starts):
        starts.append(complaint.start())
    return iter(sorted(starts))


def _keyed_blocks(text: str) -> Iterator[int]:
    """Yield the offsets of blocks of ``NAME=value`` lines; a block ends at other lines, or when a name is repeated."""
    groups: list[list[tuple[int, set[str]]]] = []  # each of blocks that follow each other
    end: int | None = None
    for m in _KEY.finditer(text):
        if m.start() != end:
            groups.append([])
        if m.start() != end or m[1] in groups[-1][-1][1]:
            groups[-1].append((m.start(), set()))
        groups[-1][-1][1].add(m[1])
        end = m.end()
    for blocks in groups:
        # one process prints the same names in each block, except in a last one that is cut; two processes do not
        alike = (
            all(names == blocks[0][1] for _, names in blocks[:-1]) and blocks[-1][1] <= blocks[0][1]
        )
        yield from (start for start, names in (blocks if alike else blocks[:1]) if names & _KEYS)


def _without_banner(text: str) -> bool:
    """Return whether a result follows the command at the start of a text."""
    try:
        return bool(_result(Draft(NAME, test=_requested(text)[0]), text.partition("\n")[2]))
    except Damaged:
        return False


def _requested(text: str) -> tuple[str, str | None]:
    """Return the test and the server that the command in the first line requests."""
    options = m["options"] if (m := _COMMAND.match(text)) else ""
    name = re.search(r"-t ?(TCP|UDP|SCTP)_(\w+)", options)
    server = re.search(r"-H ?(\S+)", options)
    return f"{name[1]} {_TESTS.get(name[2], name[2])}" if name else "TCP STREAM", server[
        1
    ] if server else None


# --- one run ----------------------------------------------------------------------------------------------------------


def read(text: str) -> list[ParsedRun]:
    """Read one run; without banners (``-P 0``) also the runs that follow it as further rows of its table."""
    runs: list[ParsedRun] = []
    waiting = [text]
    while waiting:
        text = waiting.pop()
        runs.append(drafted(Draft(NAME, line=len(runs) + 1), partial(_fill, further=waiting), text))
    return runs


def _fill(run: Draft, text: str, further: list[str]) -> None:
    """Read one run; if another run's row is below it, the text of that run goes to `further`."""
    banner = _BANNER.match(text)
    body, burst = text, 0
    if banner:
        run.test, run.parameters["server"] = banner["name"].strip(), banner["server"]
        body = text[banner.end() :]
        if m := re.match(r".*: first burst (\d+)", body):
            burst = int(m[1])
    elif _COMMAND.match(text):
        run.test, run.parameters["server"] = _requested(text)
        body = text.partition("\n")[2]
    test = run.test or ""
    if m := re.match(r"TCP|UDP|SCTP", test):
        run.parameters["protocol"] = m[0].lower()
    reverse = "MAERTS" in test
    run.parameters["direction"] = "reverse" if reverse else None
    _interim(run, text, "reverse" if reverse else "forward")
    result = _result(run, body)
    if following := result.pop("further", ""):
        further.append(text[: len(text) - len(body)] + following)
    if not result:
        if complaint := _COMPLAINT.search(text):
            raise Damaged(complaint[0].strip())
        raise Damaged("no result: the log ends before it", "partial" if run.intervals else "failed")
    iterations = _number(result.get("Confidence Iterations Run")) or 0
    if banner and iterations > 1 and "conf." not in body.partition("\n")[0]:
        raise Contradictory(
            "an average of several iterations, which the banner does not mention: of another process"
        )
    _metrics(run, result, test, burst)
    if all(v is None for v in run.metrics.values()):
        raise Damaged(
            "; ".join(run.warnings) or "nothing was measured: every figure is missing or -1"
        )
    run.warnings += [
        w.strip()
        for w in re.findall(
            r"^!!! (Desired confidence .*|Confidence intervals: .*)", text, re.MULTILINE
        )
    ]


# --- the four formats of a result: each is read under omni's names ----------------------------------------------------


def _result(run: Draft, body: str) -> dict[str, str]:
    """Read the result under omni's names, and columns of tables only: ``message``, ``packets``, ``received`` …"""
    lines = body.split("\n")
    # a line without its end may be cut, unless its last figure shows that it is complete
    cut = re.search(r"\.\d\d\d?$|/s$", lines[-1]) is None
    rows = lines[:-1] if cut else lines
    keyed = _keyed(rows)
    titles = next(
        (
            i
            for i, x in enumerate(rows)
            if not _TITLES.keys().isdisjoint(map(str.strip, x.split(",")))
        ),
        None,
    )
    units = next(
        (i for i, x in enumerate(rows) if re.match(r"[ \t>]*bytes +bytes", x, re.IGNORECASE)), None
    )
    table = _table(run.test or "", rows, units) if units is not None and not keyed else {}
    if (keyed and (titles, units) != (None, None)) or (table and titles is not None):
        raise Contradictory("results in two forms: two processes wrote into one log")
    if keyed or table:
        return keyed or table
    if titles is not None:
        return _separated(run, lines[titles:], cut=cut)
    for i, line in enumerate(rows):
        if re.match(r"[ \t]*[A-Z0-9]", line) and (columns := _columns(rows[i:])):
            return columns
    return {}


def _keyed(lines: list[str]) -> dict[str, str]:
    result = {"keyed": ""}
    for line in lines:
        m = re.fullmatch(r"[ \t]*([A-Z0-9_]+)=(.*?)[ \t]*", line)
        if m and result.setdefault(m[1], m[2]) != m[2]:
            raise Contradictory(f"two different values of {m[1]}")
    return result if result.keys() & _KEYS else {}


def _first_row(lines: list[str], end: str) -> int:
    """Return the index of the first line that begins with a number before `end`, or 0."""
    return next(
        (i for i, line in enumerate(lines) if re.match(rf"[ \t]*-?\d+(?:\.\d+)?(?:{end}|$)", line)),
        0,
    )


def _separated(run: Draft, lines: list[str], *, cut: bool) -> dict[str, str]:
    """Read comma-separated titles and values; an editor may have wrapped the titles, and the last line may be `cut`."""
    row = _first_row(lines, r"[ \t]*,|[ \t]+")
    if not row:
        return {}
    titles = [t.strip() for t in " ".join(lines[:row]).split(",")]
    values = lines[row].split(",")
    if cut and row == len(lines) - 1 and len(values) == len(titles):
        run.warnings.append(
            f"the log ends without the end of its line: {titles.pop()!r} may be cut and is left out"
        )
        values.pop()
    surplus = len(values) - len(titles)
    # a comma in the only value is a decimal one
    if not 0 <= surplus <= 1 or (
        surplus and (len(titles) == 1 or not set(titles) <= _KNOWN_TITLES)
    ):
        raise Damaged(f"{len(values)} values for {len(titles)} titles: {lines[row][:60]!r}")
    if broken := [t for t in titles if t not in _KNOWN_TITLES and _PART_OF_A_TITLE.search(t)]:
        run.warnings.append(f"unknown or damaged titles: {', '.join(map(repr, broken))}")
    if surplus:
        run.warnings.append(
            f"{len(values)} values for {len(titles)} titles: those without a title are left out"
        )
    result = {_TITLES.get(t, t): v.strip() for t, v in zip(titles, values, strict=False)}
    if not _UNIT.fullmatch(unit := result.get("THROUGHPUT_UNITS", "Trans/s")):
        raise Damaged(
            f"the values are not under their titles: {unit!r} is not a unit of throughput"
        )
    return result


def _columns(lines: list[str]) -> dict[str, str]:
    """Read text columns; a title takes several lines, above its value."""
    row = _first_row(lines, r"[ \t]")
    if not row:
        return {}
    starts = [m.start() for m in re.finditer(r"\S+", lines[0])]
    spans = list(zip(starts, [*starts[1:], None], strict=True))
    titles = [
        " ".join(" ".join(line[a:b].strip() for line in lines[:row]).split()) for a, b in spans
    ]
    if _TITLES.keys().isdisjoint(titles):
        return {}
    values = [lines[row][a:b].strip() for a, b in spans]
    if any(not re.fullmatch(r"-?[\d.]+|[\w^/]+", v) for v in values):
        raise Damaged(f"the columns are not under their titles: {lines[row].strip()!r}")
    return {_TITLES.get(t, t): v for t, v in zip(titles, values, strict=True)}


_CLASSIC = {
    "answered": "- - message answer ELAPSED_TIME TRANSACTION_RATE LOCAL_CPU_UTIL REMOTE_CPU_UTIL - -".split(),
    "datagrams": "- message ELAPSED_TIME packets - LOCAL_SEND_THROUGHPUT LOCAL_CPU_UTIL -".split(),
    "stream": "- - message ELAPSED_TIME THROUGHPUT LOCAL_CPU_UTIL REMOTE_CPU_UTIL - -".split(),
}
"""Columns of the classic tables, under omni's names; CPU columns only with ``-c`` or ``-C``."""


def _table(test: str, lines: list[str], at: int) -> dict[str, str]:
    """Read the table of a classic test: the row of numbers under the line of units."""
    rows = [line.split() for line in lines[at + 1 :] if line.strip()]
    if not rows or not rows[0] or not rows[0][0][0].isdigit():
        return {}
    printed = " ".join(rows[0])
    numeric = [all(re.fullmatch(r"-?\d+(?:\.\d+)?", v) for v in row) for row in rows]
    if not numeric[0]:
        raise Damaged(f"not readable: {printed!r}")
    units = lines[at].replace("Bytes  /s", "Bytes/s").split()
    unit = next((u for u in units if _UNIT.fullmatch(u)), units[-1])
    kind = "answered" if _is_answered(test) else "datagrams" if _sends_datagrams(test) else "stream"
    by_bits = kind == "answered" and "per sec" not in lines[at]  # -f
    if (
        kind == "answered"
        and not (by_bits and _UNIT.fullmatch(unit))
        and lines[at].count("per sec") != 1
    ):
        raise Damaged(f"unknown units: {lines[at].strip()!r}")
    names = _CLASSIC[kind]
    rate = next(n for n in names if n.endswith(("THROUGHPUT", "RATE")))
    needed = names.index(rate) + 1
    if len(rows[0]) != (len(names) if "%" in units else needed):
        raise Damaged(f"not a row of {test}: {printed!r}")
    result = {n: v for n, v in zip(names, rows[0], strict=False) if n != "-"}
    # two decimals show that the row is complete; with CPU columns the rate of datagrams has one decimal, and the
    # columns after it show that it is complete
    digits = r"\d\d?" if kind == "datagrams" and "%" in units else r"\d\d"
    if not re.fullmatch(r"\d+\.\d\d", result["ELAPSED_TIME"]) or not re.fullmatch(
        rf"\d+\.{digits}", result[rate]
    ):
        raise Damaged(f"a damaged number in {printed!r}")
    two_rows = kind == "datagrams" or (
        kind == "answered" and len(rows) > 1 and numeric[1] and len(rows[1]) == 2
    )
    below = lines[at + 1 :]
    for _ in range(1 + two_rows):  # -P 0: the row of another run is below
        below = below[next((i for i, line in enumerate(below) if line.strip()), 0) + 1 :]
    if (
        len(rows) > 1 + two_rows
        and len(rows[1 + two_rows]) == len(rows[0])
        and numeric[1 + two_rows]
    ):
        result["further"] = "\n".join(["", *lines[: at + 1], *below, ""])
    result["THROUGHPUT_UNITS"] = unit
    if by_bits:
        size = float(result["message"]) + float(result["answer"])
        if not size:
            raise Damaged(f"messages of 0 bytes in {printed!r}")
        result["TRANSACTION_RATE"] = f"{_bps(result[rate], unit).value / 8 / size:.2f}"
        result["note"] = "the rate of transactions is computed from the throughput (-f)"
    if kind == "datagrams":
        if len(rows) < 2 or not numeric[1] or len(rows[1]) < 4:
            raise Damaged("the row of the receiver is missing")
        result |= {"received": rows[1][2], "REMOTE_RECV_THROUGHPUT": rows[1][3]}
        size, seconds = float(result["message"]), Figure.printed(result["ELAPSED_TIME"])
        for packets, moved in ((result["packets"], result[rate]), (rows[1][2], rows[1][3])):
            if not (_bps(moved, unit, digits) * seconds / 8).agrees(
                Figure(float(packets) * size, size), 0.02
            ):
                raise Damaged(
                    f"{packets} messages of {size:.0f} bytes in {seconds.value:g} s, {moved} {unit}"
                )
    if kind == "answered":
        _round_trips(result, lines, by_bits=by_bits)
    return result


def _round_trips(result: dict[str, str], lines: list[str], *, by_bits: bool) -> None:
    """Take the round-trip time of ``-v 2`` if only one request was in flight at a time."""
    row = next(
        (line for line in lines if re.match(r"(?: +\d+){4} +\d+\.\d{3} +\d+\.\d{3} ", line)), ""
    )
    if not row and any("usec/Tran" in line or "RoundTrip" in line for line in lines):
        result["note"] = "without rtt_us: the row of round trips is missing"
    elif row:
        trip, rate = map(float, row.split()[4:6])
        waiting = max(1, round(trip * rate / 1e6))  # -b: number of requests in flight
        off = abs(rate - float(result["TRANSACTION_RATE"]))
        if (
            off > (0.01 * rate if by_bits else 0.01)
            or abs(trip * rate - 1e6 * waiting) > 0.001 * rate
        ):
            raise Contradictory(f"{CONTRADICTION}{row.strip()!r}")
        if waiting == 1:
            result["MEAN_LATENCY"] = row.split()[4]


def _is_answered(test: str) -> bool:
    return re.search("REQUEST/RESPONSE|CONNECT", test.upper()) is not None


def _sends_datagrams(test: str) -> bool:
    return test.startswith("UDP") and ("STREAM" in test or "UNIDIRECTIONAL" in test)


# --- names and units of the library -----------------------------------------------------------------------------------


def _bps(number: str, unit: str, digits: str = r"\d\d?") -> Figure:
    """Convert a data rate; raises `Damaged` for anything that netperf does not print."""
    m = _UNIT.fullmatch(unit)
    if not m or m[1] == "Trans" or not re.fullmatch(rf"\d+\.{digits}", number):
        raise Damaged(f"unknown unit {unit!r} or damaged number {number!r}")
    return Figure.printed(number, _FACTORS[m[1]])


def _number(text: str | None) -> float | None:
    """Return a number; None if it is missing or -1, which netperf prints for missing values."""
    return float(text) if text is not None and re.fullmatch(r"\d+(?:\.\d+)?", text) else None


def _metrics(run: Draft, result: dict[str, str], test: str, burst: int) -> None:
    def value(key: str, divisor: float = 1.0) -> float | None:
        number = _number(result.get(key))
        return None if number is None else number / divisor

    def count(key: str) -> int | None:
        return None if (number := value(key)) is None else int(number)

    run.warnings += [result["note"]] if "note" in result else []
    run.parameters["message_bytes"] = count("message")
    run.metrics |= {
        "duration_measured_s": value("ELAPSED_TIME"),
        "retransmits_count": count("LOCAL_TRANSPORT_RETRANS"),
        "packets_count": count("packets"),
        "cpu_client_ratio": value("LOCAL_CPU_UTIL", 100),
        "cpu_server_ratio": value("REMOTE_CPU_UTIL", 100),
    }
    sent, received = count("packets"), count("received")
    if received is not None and sent:
        run.metrics |= {"lost_count": sent - received, "lost_ratio": (sent - received) / sent}
    answered = _is_answered(test)
    number, unit = result.get("THROUGHPUT"), result.get("THROUGHPUT_UNITS")
    if unit == "Trans/s" and re.search("STREAM|MAERTS|SENDFILE", test):
        raise Contradictory(f"transactions in a {test}: two processes wrote into one log")
    if unit == "Trans/s" or answered:
        rate = number if unit == "Trans/s" else result.get("TRANSACTION_RATE")
        if rate is not None and re.fullmatch(r"\d+\.\d\d\d?", rate):
            run.metrics["transaction_rate_per_s"] = float(rate)
        elif number is not None:
            warning = f"a throughput of {number} {unit or 'without its unit'} is not a transaction rate: left out"
            run.warnings.append(warning)
    elif unit is None and number is not None:
        run.warnings.append(
            f"a throughput of {number} without its unit is left out; also ask for THROUGHPUT_UNITS"
        )
    elif unit is not None:  # counted at this end: over UDP these are the sent data
        here = "throughput_sent_bps" if _sends_datagrams(test) else "throughput_bps"
        names = {"": here, "LOCAL_SEND_": "throughput_sent_bps", "REMOTE_RECV_": "throughput_bps"}
        for key, name in names.items():
            if _number(throughput := result.get(f"{key}THROUGHPUT")) is not None and throughput:
                run.metrics[name] = _bps(
                    throughput, unit, r"\d\d?" if "received" in result else r"\d\d"
                ).value
        if not test and number is not None:
            run.warnings.append("no banner names the test: taken as a transfer over TCP")
    latencies = {name: value(f"{key}_LATENCY") for name, key in _LATENCIES.items()}
    if any(v is not None for v in latencies.values()):
        if "CONNECT" in test.upper():
            run.warnings.append("the latencies hold the time to connect: left out")
        elif not answered and unit != "Trans/s":
            what = "of the send call, not of the network" if test or unit else "of an unknown test"
            run.warnings.append(f"the latencies are those {what}: left out")
        else:
            _latencies(run, latencies, burst)
    # each name has a line of its own, so a lost line leaves no trace
    expected = (
        [*_LATENCIES, "transaction_rate_per_s"]
        if "keyed" in result and (answered or unit == "Trans/s")
        else []
    )
    if gone := [k for k in expected if run.metrics.get(k) is None]:
        run.warnings.append(f"without {', '.join(gone)}")


def _latencies(run: Draft, latencies: dict[str, float | None], burst: int) -> None:
    mean, deviation, *others = latencies.values()
    ordered = [v for v in others if v is not None]
    most = latencies["rtt_max_us"]
    if ordered != sorted(ordered) or (most is not None and most < max(mean or 0, deviation or 0)):
        raise Contradictory(f"{CONTRADICTION}latencies out of order")
    rate = run.metrics.get("transaction_rate_per_s")
    # one transaction after the other, or as many at a time as the burst has
    if mean and rate and not 0.5 < mean * rate / 1e6 / (1 + burst) < 1.1:
        raise Contradictory(f"{CONTRADICTION}{mean:g} us, {rate:g} transactions per second")
    run.metrics |= latencies
    points = ((p, latencies[f"rtt_p{p}_us"]) for p in (50, 90, 99))
    run.percentiles, run.basis = (
        tuple(Percentile(float(p), v) for p, v in points if v is not None),
        "rtt",
    )


_INTERIM = re.compile(
    r"^Interim result: +(\d+\.\d\d) (\S+) over (\d+\.\d+) seconds ending at (\d+\.\d+)[ \t]*$",
    re.MULTILINE,
)


def _interim(run: Draft, text: str, direction: str) -> None:
    """Read the interim results of a transfer (``-D``); the table has no column for those of transactions."""
    rows = [
        (float(n), m[1], float(s), float(t))
        for n, u, s, t in _INTERIM.findall(text)
        if (m := _UNIT.fullmatch(u))
    ]
    rows = [r for r in rows if r[1] != "Trans"]
    start = rows[0][3] - rows[0][2] if rows else 0.0
    run.intervals = interval_columns(
        [max(0.0, round(t - s - start, 3)) for _, _, s, t in rows],
        [round(t - start, 3) for _, _, _, t in rows],
        direction=direction,
        throughput_bps=[n * _FACTORS[u] for n, u, _, _ in rows],
    )
