"""What a reader does at the edge of each of its rules: a text on either side of it, with its true status and figures.

All that is read of them is held in full (`parsed`).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from netperf_lib import tools
from netperf_lib.errors import ParseError
from netperf_lib.tools import reading
from netperf_lib.tools.parsed import ParsedRun

LOGS = Path(__file__).parents[1] / "logs"
RULE = "------------------------------------------------------------\n"


def read(text: str | bytes) -> list[ParsedRun]:
    try:
        return tools.parse(text)
    except ParseError:
        return []


def statuses(text: str | bytes) -> str:
    return " ".join(run.status for run in read(text))


# --- where runs begin -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        ("iperf2", "iperf: option requires an argument -- c\n"),
        ("iperf2", "connect failed: Connection refused\n"),
        ("iperf3", "iperf3: error - unable to connect to server: Connection refused\n"),
        ("iperf3", "Connecting to host 10.0.0.2, port 5201\n"),
        ("iperf3", "[  5] local 10.0.0.1 port 40114 connected to 10.0.0.2 port 5201\n"),
        ("iperf3", '{"start": {"cookie": "x"'),
        ("iperf3", '"end": {"sum_sent": {"bits_per_second": 1e9}}'),
        ("lagscope", "10:00:05 INFO: Ping statistics for 10.0.0.2:\n"),
        (
            "netperf",
            "establish control: are you sure there is a netserver listening on 10.0.0.2?\n",
        ),
        ("netperf", "netperf: cannot resolve the host\n"),
        ("netperf", "THROUGHPUT=9412.10\nTHROUGHPUT_UNITS=10^6bits/s\n"),
        ("netperf", "TRANSACTION_RATE=7826.06\n"),
        ("netperf", "MEAN_LATENCY=12.30\n"),
        ("ntttcp", "Copyright Version 5.28\n"),
        ("qperf", "tcp_mr: bad test; try: qperf --help tests\n"),
        ("sockperf", "sockperf: ERROR: cannot connect\nsockperf: == version #3.7-no.git == \n"),
        ("sockperf", "vperf: [Total Run] RunTime=1.000 sec; SentMessages=4; ReceivedMessages=4\n"),
        ("sockperf", "[ 0] IP = 10.0.0.2 PORT = 11111 # UDP\n"),
        ("sockperf", "perf: Total 50 observations; each percentile contains 0.50 observations\n"),
        ("uperf", "Txn1     10.96GB /  10.00(s) =     9.41Gb/s      413601op/s\n"),
        ("uperf", "Txn2     10.96GB /  10.00(s) =     9.41Gb/s      413601op/s\n"),
        ("uperf", "timestamp_ms:1.0000 name:Txn1 nr_bytes:0 nr_ops:0\n"),
    ],
)
def test_one_line_is_enough_to_name_the_tool(tool: str, text: str) -> None:
    assert {run.tool for run in read(text)} == {tool}


@pytest.mark.parametrize("log", ["gen-ul-fulllog-rtt.csv", "gen-tp-giga.txt", "gen-pp-burst.txt"])
def test_a_log_of_sockperf_whose_head_is_missing_follows_a_complete_one(log: str) -> None:
    text = (LOGS / "sockperf" / log).read_text().partition("------")[0]
    lines = text.splitlines(keepends=True)
    for start in range(1, len(lines)):
        assert statuses(text + "".join(lines[start:])).startswith("ok")


TAIL = """[  3] local 10.0.0.1 port 42928 connected with 10.0.0.2 port 5001
[  3] 0.0000-2.0213 sec  244 MBytes  1.01 Gbits/sec
"""
CLIENT = RULE + "Client connecting to 10.0.0.2, TCP port 5001\n" + RULE


@pytest.mark.parametrize(("before", "found"), [(60, "failed"), (61, "")])
def test_a_message_of_iperf2_stands_near_the_start_of_its_line(before: int, found: str) -> None:
    assert statuses("x" * before + "connect failed: Connection refused\n") == found


@pytest.mark.parametrize(("before", "count"), [(40, 1), (41, 1)])
def test_the_version_of_iperf3_stands_near_the_start_of_its_line(before: int, count: int) -> None:
    text = (LOGS / "iperf3" / "gen-3.12-title.txt").read_text().replace("flow A:  ", "")
    assert len(read(text + "x" * before + " iperf 3.12\n" + text)) == 2


# --- rows of iperf ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "status"),
    [
        ("[  3] 0.0000-1.0500 sec  125 MBytes  1.00 Gbits/sec", "ok"),  # no interval of 0.1 s
        ("[  3] 0.0000-1.1000 sec  131 MBytes  1.00 Gbits/sec", "partial"),
        ("[  3] 0.0000-0.9500 sec  113 MBytes  1.00 Gbits/sec", "partial"),
        ("[  3] 0.0000-0.9300 sec  111 MBytes  1.00 Gbits/sec", "ok"),
        ("[  3]  0.0- 1.0 sec  119 MBytes  1.00 Gbits/sec", "partial"),
        ("[  3]  0.0- 1.1 sec  131 MBytes  1.00 Gbits/sec", "ok"),
        ("[  3] 0.0000-2.0213 sec  244 MBytes  1.01 Gbits/sec", "ok"),
        ("[  3] 0.0000-2.0213 sec  244 MBytes  1.03 Gbits/sec", "failed"),
        ("[  3] 0.0000-2.0213 sec  244 MBytes  0.99 Gbits/sec", "failed"),
        ("[  3] 2.0213-0.0000 sec  244 MBytes  1.01 Gbits/sec", "failed"),
        ("[  3] 0.0000-2.0213 sec  244 MBytes  1.01", "failed"),
        ("[  3] 0.0000-2.0213 sec  2[  3] 0.0000-2.0213 sec  244 MBytes  1.01 Gbits/sec", "failed"),
        ("x [  3] 0.0000-2.0213 sec  244 MBytes  1.01 Gbits/sec", "ok"),
        ("[  3] 0.0000-2.0213 sec  0.00 Bytes  0.00 bits/sec", "ok"),
        ("[  3] 0.0000-2.0213 sec  128 KBytes  0.00 Gbits/sec", "ok"),  # too slow for its unit
        ("[  3] 0.0000-2.0213 sec  244 MBytes  121 MBytes/sec", "ok"),
        ("[  3] 0.0000-2.0213 sec  244 Bytes  966 bits/sec", "ok"),
        ("[  3] 0.0000-2.0213 sec  244 Bytes  121 Bytes/sec", "ok"),
    ],
)
def test_one_row_of_iperf2(row: str, status: str) -> None:
    assert statuses(CLIENT + TAIL.partition("\n")[0] + "\n" + row + "\n") == status


HEADS = {
    "Write/Err  Rtry     Cwnd/RTT        NetPwr": "15625/0          0       -1K/102 us  1",
    "Reads=Dist": "12=1:0:0:0:0:0:0:0",
    "Reads   Dist(bin=16.0K)": "12    1:0:0:0:0:0:0:0",
    "Jitter   Lost/Total Datagrams": "0.022 ms    0/  426 (0%)",
    "Burst Latency avg/min/max/stdev (cnt/size) inP NetPwr": "1.0/0.9/1.2/0.1 ms (10/1000) 1",
    "Latency avg/min/max/stdev PPS": "0.022 ms    0/  426 (0%) 1.0/0.9/1.2/0.1 ms 426 pps",
    "Unknown": "1.5 of them",
}


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("rest", ["whole", "q", ""])
def test_a_row_of_iperf2_that_lacks_what_its_head_names(head: str, rest: str) -> None:
    """Its figures are cut short or damaged; what an unknown head names is left out."""
    serving = head.startswith(("Reads", "Jitter", "Burst", "Latency"))
    top = RULE + "Server listening on TCP port 5001\n" + RULE if serving else CLIENT
    line = TAIL.partition("\n")[0] + "\n"
    if serving:
        line = "[  3] local 10.0.0.2 port 5001 connected with 10.0.0.1 port 42928\n"
    end = HEADS[head] if rest == "whole" else HEADS[head].replace("0", "q") if rest else ""
    text = f"{top}{line}[ ID] Interval       Transfer     Bandwidth       {head}\n"
    assert len(read(f"{text}[  3] 0.0000-2.0213 sec  244 MBytes  1.01 Gbits/sec  {end}\n")) == 1


@pytest.mark.parametrize(
    ("lost", "total", "percent", "status"),
    [
        (30, 1000, "3", "ok"),
        (30, 1000, "3.15", "ok"),
        (30, 1000, "3.3", "partial"),
        (300, 1000, "30", "ok"),
        (300, 1000, "31", "ok"),
        (300, 1000, "32", "partial"),
        (5, 1000, "0.9", "partial"),
        (2**31 - 1, 2**31 - 1, "1e+02", "ok"),
        (2**31, 2**31, "1e+02", "ok"),
        (104, 1000, "11", "ok"),
        (1, 1000, "0", "ok"),
        (2, 1000, "0", "ok"),
        (-3, 1000, "0", "partial"),
        (1, 1000, "0.1", "ok"),
    ],
)
def test_the_share_that_iperf2_prints_is_that_of_its_counts(
    lost: int, total: int, percent: str, status: str
) -> None:
    top = RULE + "Server listening on UDP port 5001\n" + RULE
    line = "[  3] local 10.0.0.2 port 5001 connected with 10.0.0.1 port 42928\n"
    row = (
        f"[  3]  0.0- 2.0 sec  1.38 MBytes  5.80 Mbits/sec  0.022 ms {lost}/{total} ({percent}%)\n"
    )
    assert statuses(top + line + row) == status


UDP_CLIENT = (
    RULE
    + """Client connecting to 10.0.0.2, UDP port 5001
Sending 1470 byte datagrams
"""
    + RULE
    + """[  3] local 10.0.0.1 port 42928 connected with 10.0.0.2 port 5001
[  3] 0.0000-{length} sec  1.25 MBytes  {rate} Kbits/sec
[  3] Sent {sent} datagrams
[  3] Server Report:
[  3] 0.0000-2.5000 sec  {size} MBytes  {reported} Kbits/sec   0.022 ms {lost}/{total} ({percent}%)
"""
)


@pytest.mark.parametrize(
    ("length", "sent", "size", "total", "status"),
    [
        ("2.5000", 890, 1.25, 890, "ok"),
        ("4.0000", 890, 1.25, 890, "ok"),
        ("4.0100", 890, 1.25, 890, "ok"),  # the sender's clock was stepped: a warning
        ("1.0000", 890, 1.25, 890, "ok"),
        ("0.9900", 890, 1.25, 890, "ok"),
        ("2.5000", 890, 1.25, 892, "ok"),
        ("2.5000", 890, 1.25, 893, "partial"),
        ("2.5000", 890, 1.37, 890, "ok"),
        ("2.5000", 890, 1.39, 890, "partial"),
        ("2.5000", 890, 1.25, 2**31 - 1, "partial"),
        ("2.5000", 890, 1.25, 2**31, "ok"),
    ],
)
def test_the_report_that_a_client_of_iperf2_gets(
    length: str, sent: int, size: float, total: int, status: str
) -> None:
    rates = (f"{s * 2**20 * 8 / 1e3 / float(t):.0f}" for s, t in ((1.25, length), (size, "2.5")))
    text = UDP_CLIENT.format(
        length=length,
        rate=next(rates),
        sent=sent,
        size=size,
        reported=next(rates),
        lost=0,
        total=total,
        percent=0,
    )
    (run,) = read(text)
    assert run.status == status, run.error
    assert (run.metrics.get("duration_measured_s") in (None, float(length))) != (
        length in ("4.0100", "0.9900")
    )


def iperf2_streams(*rows: str) -> str:
    names = dict.fromkeys(re.findall(r"\[ *(\d+)\]", " ".join(rows)))
    ends = (
        f"[  {n}] local 10.0.0.1 port 4292{n} connected with 10.0.0.2 port 5001\n" for n in names
    )
    return CLIENT + "".join(ends) + "\n".join(rows) + "\n"


MOVED = "sec  {0} MBytes  {1} Mbits/sec"


@pytest.mark.parametrize(
    ("rows", "status"),
    [
        (("[  3] 0.0-2.0", "[  4] 0.0-2.0", "[SUM] 0.0-2.0"), "ok"),
        (("[  3] 0.0-2.0", "[  4] 0.0-2.0", "[SUM] 0.0-2.2"), "partial"),
        (("[  3] 0.0-2.0", "[  4] 0.0-2.0", "[SUM] 0.0-2.4"), "ok"),
        (("[  3] 0.0-2.0", "[  4] 0.0-3.0", "[SUM] 0.0-3.2"), "partial"),
        (("[  3] 0.0-2.0", "[  4] 0.0-3.1", "[SUM] 0.0-4.0"), "partial"),
        (("[  3] 0.0-2.0", "[  4] 0.0-3.0", "[SUM] 0.0-4.0"), "ok"),
        (("[  3] 0.0-1.0", "[  3] 1.0-2.0", "[  3] 0.0-2.0"), "ok"),
        (("[  3] 0.0-1.0", "[  3] 0.0-2.0"), "ok"),
        (("[  3] 0.0-1.0", "[  3] 1.0-2.0", "[  3] 0.0-3.1"), "partial"),
        (("[  3] 0.0-1.0", "[  3] 1.2-2.2", "[  3] 0.0-3.0"), "partial"),
        (("[  3] 0.0-1.0", "[  3] 1.0-2.0", "[  3] 0.0-1.9"), "partial"),
        (("[  3] 1.0-2.0", "[  3] 2.0-3.0", "[  3] 0.0-3.0"), "partial"),
        (
            ("[  3] 0.0-1.0", "[  3] 1.0-2.0", "[  4] 0.0-1.0", "[  4] 0.0-2.0", "[  3] 0.0-2.0"),
            "ok",
        ),
        (("[SUM] 0.0-1.0", "[SUM] 1.0-2.0", "[SUM] 0.0-2.0"), "ok"),
        (("[  3] 0.0-2.0", "", "[  5] 0.0-3.0"), "ok"),
    ],
)
@pytest.mark.parametrize("scale", [1.0, 1.02, 1.1, 3.5])
def test_rows_of_iperf2_that_are_the_result(
    rows: tuple[str, ...], status: str, scale: float
) -> None:
    """All at 80 Mbit/s; the last row also with more bytes than the others have."""
    lines = []
    for row in rows:
        start, _, end = row.partition("] ")[2].partition("-")
        mega = 80.0 * (2 if "SUM" in row else 1) * (scale if row == rows[-1] else 1)
        size = mega * (float(end or 0) - float(start or 0)) / 8 / 1.048576
        lines.append(f"{row} {MOVED.format(f'{size:.4g}', f'{mega:.4g}')}" if row else row)
    runs = read(iperf2_streams(*lines))
    assert len(runs) >= 1
    if scale == 1:
        assert runs[0].status == status, runs[0].error


# --- text of iperf3 ---------------------------------------------------------------------------------------------------

VERBOSE = (LOGS / "iperf3" / "gen-3.12-title.txt").read_text().replace("flow A:  ", "").rstrip()


@pytest.mark.parametrize(
    ("line", "warned"),
    [
        (
            "CPU Utilization: local/sender 96.6% (1.8%u/94.7%s), remote/receiver 26.4% (1.1%u/25.3%s)",
            False,
        ),
        (
            "CPU Utilization: local/sender 96.6% (1.8%u/94.6%s), remote/receiver 26.4% (1.1%u/25.5%s)",
            True,
        ),
        (
            "CPU Utilization: local/sender 96.6% (1.8%u/94.0%s), remote/receiver 26.4% (1.1%u/25.3%s)",
            True,
        ),
        (
            "CPU Utilization: local/sender 0.0% (0.0%u/0.0%s), remote/receiver 0.0% (0.0%u/0.0%s)",
            False,
        ),
        ("iperf3: error - unable to write to stream socket: Connection reset by peer", False),
        ("iperf3: interrupt - the client has terminated", False),
        ("iperf3: warning: this is no error", False),
        ("rcv_tcp_congestion cubic", False),
        ("snd_tcp_congestion bbr", False),
        (
            "Starting Test: protocol: SCTP, 1 streams, 131072 byte blocks, omitting 0 seconds, 2 second test",
            False,
        ),
        (
            "Starting Test: protocol: TCP, 1 streams, 131072 byte blocks, omitting 1 seconds, 1000 bytes to send",
            False,
        ),
        ("[  7] local 10.0.0.1 port 40114 connected to 10.0.0.2 port 5201", False),
        ("[  5] local 10.0.0.1 port 40999 connected to 10.0.0.2 port 5201", False),
        ("[  5]   0.00-2.00   sec  3 datagrams received out-of-order", False),
        ("[SUM]   0.00-2.00   sec  4 datagrams received out-of-order", False),
    ],
)
def test_a_line_more_in_the_text_of_iperf3(line: str, warned: bool) -> None:
    lines = VERBOSE.split("\n")
    for place in (3, len(lines) - 1, len(lines)):
        runs = read("\n".join([*lines[:place], line, *lines[place:], ""]))
        assert len(runs) in (1, 2)
        assert not warned or any("contradicts its parts" in w for w in runs[0].warnings)


@pytest.mark.parametrize(
    "log",
    [
        p.name
        for p in sorted((LOGS / "iperf3").glob("*.json"))
        if "_bidir_reverse" in p.read_text() and "expected" not in p.name
    ],
)
def test_both_ways_under_one_name_as_some_versions_print_them(log: str) -> None:
    text = (LOGS / "iperf3" / log).read_text()
    assert [r.metrics for r in read(text.replace("_bidir_reverse", ""))] == [
        r.metrics for r in read(text)
    ]


# --- JSON of iperf3 ---------------------------------------------------------------------------------------------------

UDP = json.loads((LOGS / "iperf3" / "gen-3.12-udp.json").read_text())
TCP = json.loads((LOGS / "iperf3" / "gen-3.21-tcp-P2.json").read_text())


def changed(document: dict[str, Any], path: str, value: object) -> str:
    """The document with another value at a path; `...` removes it."""
    text: Any = json.loads(json.dumps(document))
    *way, last = path.split(".")
    place = text
    for key in way:
        place = place[int(key) if key.isdigit() else key]
    if value is ...:
        del place[last]
    else:
        place[last] = value(place[last]) if callable(value) else value
    return json.dumps(text)


ROW = "rtt snd_cwnd retransmits bytes bits_per_second seconds omitted".split()
SUMS = ("sum", "sum_sent", "sum_received")
CHANGES: list[tuple[str, Any]] = [
    ("intervals", ...),
    ("start.timestamp.timesecs", 0),
    ("start.timestamp.timesecs", 1),
    ("start.timestamp.timesecs", 2**31 - 1),
    ("start.timestamp.timesecs", 2**31),
    ("start.test_start.protocol", "SCTP"),
    ("start.test_start.reverse", 1),
    ("start.test_start", ...),
    ("end.sum", ...),
    ("end.sum_sent", ...),
    ("end.sum_received", ...),
    ("end.streams", []),
    ("end.streams.0", {}),
    *((f"end.{s}.{k}", f) for s in SUMS for k in ("bytes", "bits_per_second", "seconds")
      for f in (..., 0, -1, lambda x: x * 1.00002, lambda x: x * 1.0001, lambda x: -x)),
    *((f"end.{s}.{k}", f) for s in SUMS for k in "packets lost_packets lost_percent jitter_ms".split()
      for f in (..., 0, -1, lambda x: x + 1, lambda x: x + 0.5, lambda x: x + 0.0005, lambda x: x + 2e4, "x")),
    *(("end.streams.0.udp.jitter_ms", f) for f in (..., lambda x: x + 0.5, lambda x: x * 1.00002)),
    *(("end.streams.0.udp.out_of_order", f) for f in (..., 3)),
    *((f"end.cpu_utilization_percent.{k}", f) for k in ("host_total", "host_user", "remote_total", "remote_system")
      for f in (..., 0, -1, lambda x: x + 0.01, lambda x: x + 0.5)),
    ("end.cpu_utilization_percent", ...),
    ("start.connecting_to", ...),
    *(("end.sum_sent.retransmits", f) for f in (..., 0, lambda x: x + 1)),
    *((f"end.streams.0.sender.{k}", f) for k in ("mean_rtt", "min_rtt", "max_rtt", "max_snd_cwnd")
      for f in (..., 0, lambda x: x + 1, 2**31)),
    *((f"intervals.0.streams.0.{k}", f) for k in ROW
      for f in (..., 0, 1, lambda x: x + 1, 2**31 - 1, 2**31, 2**34, True)),
    ("intervals.0", {}),
    ("intervals.0.streams", []),
    ("end", {}),
    ("start.version", ...),
]  # fmt: skip


ONCE = {
    "end.streams.0.udp.out_of_order",
    *(path for path, _ in CHANGES if path.startswith("intervals.0.streams.0")),
}


@pytest.mark.parametrize("document", [UDP, TCP], ids=["udp", "tcp"])
def test_one_value_of_a_document_is_another(document: dict[str, Any]) -> None:
    """It contradicts the others or leaves a figure out, or says nothing of the figures."""
    (whole,) = read(json.dumps(document))
    for path, value in CHANGES:
        try:
            text = changed(document, path, value)
        except (KeyError, TypeError):
            continue  # the other protocol's
        for run in read(text):
            names = whole.metrics.keys() & run.metrics.keys()
            right = all(
                abs(run.metrics[n] - whole.metrics[n]) <= 0.02 * abs(whole.metrics[n]) + 1
                for n in names
            )
            assert right or run.warnings or "cpu" in path or path in ONCE, path


def test_events_of_a_stream() -> None:
    start, interval, end = ({"event": k, "data": v} for k, v in zip(
        ("start", "interval", "end"), (TCP["start"], TCP["intervals"][0], TCP["end"]), strict=True))  # fmt: skip
    others = [
        {"event": e, "data": "text"}
        for e in ("server_output_text", "server_output_json", "error", "unheard-of")
    ]
    found: dict[str, set[str]] = {}
    for name, events in {
        "whole": [start, interval, end],
        "text": [start, interval, others[0], end],
        "json": [start, interval, others[1], end],
        "error": [start, interval, others[2]],
        "error after": [start, interval, end, others[2]],
        "unheard-of": [start, interval, others[3], end],
        "no start": [interval, end],
        "no start but an error": [interval, others[2], end],
        "no end": [start, interval],
        "key": [start, interval | {"x": 1}, end],
        "two": [start, interval, end] * 2,
    }.items():
        for separators in ((",", ":"), (", ", ": ")):
            text = "".join(json.dumps(e, separators=separators) + "\n" for e in events)
            found.setdefault(name, set()).add(statuses(text))
    assert {name for name, each in found.items() if each == {"ok"}} == {
        "whole",
        "text",
        "json",
        "two",
    }


def test_a_row_without_its_document() -> None:
    (run,) = read(json.dumps(TCP["intervals"][0]["streams"][0]))
    assert (run.status, run.intervals["stream"]) == ("partial", [5])


def test_an_exponent_that_lost_its_sign() -> None:
    text = re.sub(
        r'("bits_per_second": )([\d.]+)', lambda m: f"{m[1]}{float(m[2]):.12e}", json.dumps(TCP)
    )
    assert statuses(text.replace("e+", "e ")) == "ok"
    assert len(read(text.replace("e+", "e ")[: len(text) // 2])) == 1


def test_numbers_that_are_none() -> None:
    text = json.dumps(UDP)
    for word in ("nan", "-nan", "inf", "NaN"):
        odd = re.sub(r'"jitter_ms": [\d.e-]+', f'"jitter_ms": {word}', text)
        assert statuses(odd) != "ok"
        assert len(read(odd[: len(odd) // 2])) == 1
        assert (
            statuses(re.sub(r'"snd_cwnd": \d+', f'"snd_cwnd": {word}', json.dumps(TCP), count=1))
            == "ok"
        )


@pytest.mark.parametrize(
    "value",
    [
        [{"start": UDP["start"], "intervals": [], "end": {}, "error": "error - unable to receive"}],
        [{"end": UDP["end"]}],
        {"host": "a", "end": UDP["end"], "start": UDP["start"], "intervals": UDP["intervals"]},
        {"stderr": "iperf3: error - unable to connect to server: Connection refused"},
        {"start": 1, "end": 2, "out": json.dumps(UDP)},
        {"x": {"start": 1, "end": 2}},
        [[UDP]],
        [json.dumps(UDP)],
    ],
)
def test_documents_inside_of_others(value: object) -> None:
    for indent in (None, 1):
        runs = read(json.dumps(value, indent=indent))
        assert len(runs) <= 1
        assert bool(runs) == (value != {"x": {"start": 1, "end": 2}})


# --- the others -------------------------------------------------------------------------------------------------------

LATTE = """Protocol      UDP
SendMethod    Blocking
MsgSize(byte) 4
Iterations    4
Latency(usec) {mean}

Interval(usec)   Frequency
     10          3
     11          1
"""


@pytest.mark.parametrize(
    ("mean", "status"),
    [
        ("10.23", "failed"),
        ("10.24", "ok"),
        ("11.26", "ok"),
        ("11.27", "failed"),
        ("9.75", "failed"),
        ("11.75", "failed"),
    ],
)
def test_the_mean_of_a_histogram_is_within_its_bins(mean: str, status: str) -> None:
    assert statuses(LATTE.format(mean=mean)) == status


@pytest.mark.parametrize(
    ("values", "status"),
    [("9412.10", "ok"), ("9412,10", "failed"), ("9412.10,5", "failed"), ("1,2,3", "failed")],
)
def test_more_values_than_titles(values: str, status: str) -> None:
    banner = "MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 10.0.0.2 () port 0 AF_INET\n"
    units = f"{banner}Throughput,Throughput Units\n{values.split(',')[0]},10^6bits/s\n"
    assert statuses(units) == "ok" or "." not in values
    assert status in ("ok", "failed")
    assert "ok" not in statuses(f"{banner}Throughput\n{values}\n")


@pytest.mark.parametrize(
    "unit",
    ["Bytes/s", "KBytes/s", "MBytes/s", "GBytes/s", "10^3bits/s", "10^6bits/s", "10^9bits/s"],
)
@pytest.mark.parametrize("second", ["", "ec"])
def test_units_of_netperf(unit: str, second: str) -> None:
    banner = "MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 10.0.0.2 () port 0 AF_INET\n"
    (run,) = read(
        f"{banner}Recv   Send    Send\nSocket Socket  Message  Elapsed\nSize   Size    Size     Time     Throughput\n"
        f"bytes  bytes   bytes    secs.    {unit}{second}\n\n131072  16384  16384    10.00    12.50\n"
    )
    scale = {"": 1.0, "K": 1024.0, "M": 1024.0**2, "G": 1024.0**3}
    bits = {"10^3bits/s": 1e3, "10^6bits/s": 1e6, "10^9bits/s": 1e9}
    assert run.metrics["throughput_bps"] == 12.5 * (
        bits.get(unit) or 8 * scale[unit.partition("Bytes")[0]]
    )


def test_units_of_qperf() -> None:
    """The largest of each kind may be above 1000, as may those of ``-uu``; the others would be printed in the next."""
    odd = {}
    for name, units in {
        "latency": "ns us ms sec",
        "bw": "bytes/sec KB/sec MB/sec GB/sec TB/sec bits/sec Kb/sec Mb/sec Gb/sec Tb/sec",
        "msg_rate": "/sec K/sec M/sec G/sec T/sec",
        "send_cost": "ns/GB us/GB ms/GB sec/GB",
        "send_cpus_used": "% cpus",
        "recv_bytes": "bytes KB MB GB TB KiB MiB GiB TiB",
        "recv_msgs": " thousand million billion trillion",
    }.items():
        for unit in units.split(" ") if name == "recv_msgs" else re.split(r" (?!cpus)", units):
            for number in ("1", "1.5", "999", "1000", "1,001"):
                test = "tcp_lat" if name == "latency" else "tcp_bw"
                main = "" if name in ("latency", "bw") else "    bw              =  1 GB/sec\n"
                odd[name, unit, number] = statuses(
                    f"{test}:\n{main}    {name:14}  =  {number} {unit}".rstrip() + "\n"
                )
    assert {status for (_, _, number), status in odd.items() if number == "1.5"} == {"ok"}
    assert sum(status == "failed" for status in odd.values()) > 10


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-16-be"])
def test_bytes_that_are_no_text(encoding: str) -> None:
    data = (TAIL + CLIENT).encode(encoding) + (
        b"\xff" if encoding == "utf-8" else b"\xd8\xd8\xdc\xdc\xd8"
    )
    assert (
        len(
            read(
                CLIENT.encode(encoding)
                + TAIL.encode(encoding).removeprefix(b"\xff\xfe")
                + data[-1:]
            )
        )
        >= 1
    )


# --- a rule of each reader, from both sides ---------------------------------------------------------------------------

CSV = "20260130181857,10.0.0.1,{port},10.0.0.2,5001,{id},0.0-{end},{size},{rate}\n"
SERVED = RULE + "Server listening on TCP port 5001\n" + RULE
ACCEPTED = "[  {n}] local 10.0.0.2 port 5001 connected with 10.0.0.1 port 4292{n}\n"
MANY = ("25000000", "100000000")
SOCKPERF = """sockperf: == version #3.7-no.git ==
sockperf[CLIENT] send on:[ 0] IP = 10.0.0.2 PORT = 11111 # UDP
sockperf: Test ended
sockperf: [Total Run] RunTime=1.000 sec; Warm up time=400 msec; SentMessages={sent}; ReceivedMessages={n}
sockperf: ========= Printing statistics for Server No: 0
sockperf: [Valid Duration] RunTime=0.500 sec; SentMessages={n}; ReceivedMessages={n}
sockperf: ====> avg-latency=10.000 (std-dev=1.000)
sockperf: # dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0
sockperf: Summary: Latency is 10.000 usec
sockperf: Total {n} observations; each percentile contains 0.50 observations
sockperf: ---> <MAX> observation =   12.000
{percentiles}sockperf: ---> <MIN> observation =    9.000
"""
NETPERF = """MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 10.0.0.2 () port 0 AF_INET{note}
{titles}
{values}
"""
LAGSCOPE = """lagscope 1.0.1
---------------------------------------------------------
{one} INFO: New connection: local:25001 [socket:3] --> 10.0.0.2:6001
{two} INFO: TEST COMPLETED.
{two} INFO: Ping statistics for 10.0.0.2:
{two} INFO:    Number of successful Pings: 100
{two} INFO:    Minimum = 35.500us, Maximum = 97.250us, Average = 47.863us
{rest}"""
UPERF = "Starting 1 threads running profile:tcp_stream ...   0.00 seconds\n"
UPERF_ROW = "timestamp_ms:{:.4f} name:Txn{} nr_bytes:{} nr_ops:{}\n"


def uperf_rows(*times: float) -> str:
    middle = "".join(UPERF_ROW.format(t, 2, int(t * 1000), int(t)) for t in times)
    return (
        UPERF + UPERF_ROW.format(0, 1, 0, 1) * 2 + middle + UPERF_ROW.format(times[-1], 3, 0, 1) * 2
    )


TEXTS = {
    "csv, cut above": "20260130181857,10.0.0.1,429\n" + CSV.format(port=1, id=3, end="2.0", size=MANY[0], rate=MANY[1]),
    "csv, two": "".join(CSV.format(port=p, id=p, end="2.0", size=MANY[0], rate=MANY[1]) for p in (3, 4)),
    "csv, wrong sum": "".join(
        CSV.format(port=p, id=i, end="2.0", size=s, rate=r)
        for p, i, s, r in ((3, 3, *MANY), (4, 4, *MANY), (0, -1, "50000000", "300000000"))
    ),
    "csv, wrong stream": "".join(
        CSV.format(port=p, id=i, end="2.0", size=s, rate=r)
        for p, i, s, r in ((3, 3, "25000000", "120000000"), (4, 4, *MANY), (0, -1, "50000000", "200000000"))
    ),
    "csv, wrong stream, a little": "".join(
        CSV.format(port=p, id=i, end="2.0", size=s, rate=r)
        for p, i, s, r in ((3, 3, "25000000", "114000000"), (4, 4, *MANY), (0, -1, "50000000", "200000000"))
    ),
    **{
        f"server, {'; '.join(map(' '.join, tests))}": SERVED
        + "".join(
            ACCEPTED.format(n=n) + "".join(f"[  {n}] {r} sec  100 MBytes  {839 if r[-3] in '12' else 419} Mbits/sec\n" for r in rows)
            for n, rows in zip((4, 5, 6), tests, strict=False)
        ).replace("0.0-2.0 sec  100", "0.0-2.0 sec  200")
        for tests in (
            (("0.0-1.0", "1.0-2.0", "0.0-2.0"), ("0.0-1.0", "1.0-2.0", "0.0-2.0")),
            (("0.0-1.0", "0.0-1.0"), ("0.0-1.0", "1.0-2.0", "0.0-2.0")),
            (("0.0-2.0",), ("0.0-2.0",)),
            (("0.0-1.0",), ("0.0-1.0", "1.0-2.0")),
            (("0.0-1.0", "1.0-2.0"), ("0.0-1.0", "1.0-2.0", "0.0-2.0")),
        )
    },
    **{
        f"sockperf, {n} of {sent}, {len(points)} percentiles": SOCKPERF.format(
            n=n, sent=sent, percentiles="".join(f"sockperf: ---> percentile {p} =   11.000\n" for p in points)
        )
        for n, sent in ((3, 4), (4, 4), (5, 5), (99, 101), (100, 101), (100_000, 100_000))
        for points in (
            ("50.000",),
            ("99.000", "50.000", "25.000"),
            ("99.50", "50.00"),
            ("99.999", "99.990", "99.900", "99.000", "90.000", "75.000", "50.000", "25.000"),
        )
    },
    **{
        f"sockperf, {lines} lines lost at {at}": "\n".join(
            row
            for i, row in enumerate(SOCKPERF.format(n=50, sent=50, percentiles="").split("\n"))
            if not at <= i < at + lines
        )
        for lines in (1, 2, 3)
        for at in range(12)
    },
    **{
        f"netperf, {note}, {titles}, {values}": NETPERF.format(note=note, titles=titles, values=values)
        for note in ("", " : +/-2.500% @ 99% conf.", " : first burst 6", " : demo")
        for titles, values in (
            ("Throughput,Throughput Units,Confidence Iterations Run", "9412.10,10^6bits/s,1"),
            ("Throughput,Throughput Units,Confidence Iterations Run", "9412.10,10^6bits/s,2"),
            ("Throughput,Throughput Units,Transport MSS bytes", "9412.10,10^6bits/s,1448,7"),
            ("Throughput,Throughput Units,Unknown title", "9412.10,10^6bits/s,1448,7"),
            ("Throughput,Throughput Units,Latency of what", "9412.10,10^6bits/s,1448"),
            ("Throughput,Throughput Units", "9412.10,Trans/s"),
            ("Mean Latency Microseconds,Throughput,Throughput Units", "12.5,9412.10,10^6bits/s"),
        )
    },
    **{
        f"netperf, keys {names}": "MIGRATED TCP REQUEST/RESPONSE TEST from a () port 0 AF_INET to 10.0.0.2 () port 0\n"
        + "".join(f"{name}={value}\n" for name, value in pairs)
        for names, pairs in {
            "rate": [("THROUGHPUT", "80000.00"), ("THROUGHPUT_UNITS", "Trans/s"), ("MEAN_LATENCY", "12.40")],
            "wrong rate": [("THROUGHPUT", "30000.00"), ("THROUGHPUT_UNITS", "Trans/s"), ("MEAN_LATENCY", "12.40")],
            "too high": [("THROUGHPUT", "99000.00"), ("THROUGHPUT_UNITS", "Trans/s"), ("MEAN_LATENCY", "12.40")],
            "max": [("THROUGHPUT", "80000.00"), ("THROUGHPUT_UNITS", "Trans/s"), ("MAX_LATENCY", "1"), ("P99_LATENCY", "1")],
            "max 0": [("TRANSACTION_RATE", "80000.000"), ("MAX_LATENCY", "0"), ("MEAN_LATENCY", "0.5")],
            "order": [("TRANSACTION_RATE", "80000.000"), ("P50_LATENCY", "9"), ("P90_LATENCY", "8")],
            "twice": [("TRANSACTION_RATE", "80000.000")] * 2 + [("MEAN_LATENCY", "12.40")],
            "blocks": [("TRANSACTION_RATE", "80000.000"), ("MEAN_LATENCY", "12.40"), ("TRANSACTION_RATE", "80001.000")],
            "unmeasured": [("TRANSACTION_RATE", "-1"), ("MEAN_LATENCY", "-1")],
        }.items()
    },
    **{
        f"lagscope, {one}, {two}, {rest[:12]!r}": LAGSCOPE.format(one=one, two=two, rest=rest)
        for one, two in (("10:00:00", "10:00:05"), ("23:59:59", "00:00:04"), ("22:59:59", "00:00:04"), ("10:00:05", "10:00:00"))
        for rest in (
            "",
            "Dumping latency frequency table\n",
            "     50%         39\n",
            "Percentile       Latency(us)\n     50%         39\n     75%         38\n",
            "Percentile       Latency(us)\n     50%         39\n     75%         44",
            "Percentile       Latency(us)\n     50%         34\n",
            "Percentile       Latency(us)\n     50%         35\n     99%         97\n     99.9%         98\n",
            "Interval(usec)\t Frequency\n  47\t 60\n  48\t 40\n",
            "Interval(usec)\t Frequency\n  47\t 60\n  48\t 41\n",
            "Interval(usec)\t Frequency\n  47\t 60\n  49\t 40\n",
        )
    },
    **{
        f"lagscope, pings {rows!r}": "Index, Latency(us)\n" + rows
        for rows in ("0, 10\n1, 11\n\n", "0, 10\n1, 11\n", "0, 10\n1, 11", "0, 10\n2, 11\n\n", "\n", "0, 10\nx\n\n")
    },
    **{f"uperf, {t}": uperf_rows(*t) for t in ((0, 1000, 2000), (0, 1000, 2000, 3000, 6000), (0, 500, 2000), (0, 0, 10))},
    **{f"uperf, gap of {g}": uperf_rows(*range(0, 4000, 1000), 3000 + g) for g in (1900, 2200, 2600, 3500)},
    **{
        f"qperf, {lines}": f"{test}:\n" + "".join(f"    {line}\n" for line in lines)
        for test, lines in (
            ("udp_bw", ("send_bw         =  100 MB/sec", "recv_bw         =  100 MB/sec", "send_msgs       =  100",
                        "recv_msgs       =  111")),
            ("udp_bw", ("send_bw         =  100 MB/sec", "recv_bw         =  100 MB/sec", "send_msgs       =  100",
                        "recv_msgs       =  109")),
            ("udp_bw", ("send_bw  =  100 MB/sec", "recv_bw  =  111 MB/sec")),
            ("udp_bw", ("send_bw  =  100 MB/sec", "recv_bw  =  0 bytes/sec")),
            ("udp_bw", ("send_bw  =  100 MB/sec",)),
            ("udp_bw", ("bw\t=\t100 MB/sec", "msg_rate\t=\t1 K/sec")),
            ("tcp_bw", ("bw = 100 MB/sec", "msg_rate = 1 K/sec")),
            ("tcp_bw", ("bw              =  100 MB/sec", "msg_rate        =  1 K/sec", "loc_cpus_used   =  50 % cpus")),
            ("tcp_bw", ("bw              =  100 MB/sec", "send_cpus_used  =  50 % cpus", "rem_cpus_used   =  50 % cpus")),
            ("tcp_lat", ("latency  =  10 us", "bw       =  100 MB/sec")),
            ("tcp_lat", ("latency  =  10 us", "bw  =  100 MB/sec")),
            ("tcp_lat", ("latency   =  10 us", "msg_rate  =  91 K/sec")),
            ("tcp_lat", ("latency   =  10 us", "msg_rate  =  89 K/sec")),
            ("tcp_lat", ("latency   =  10 us", "msg_rate  =  111 K/sec")),
            ("tcp_lat", ("latency       =  10 us", "send_cpus_used  =  50 % cpus")),
            ("tcp_lat", ("qperf: interrupted",)),
            ("tcp_lat", ("the test was terminated",)),
            ("tcp_lat", ("nothing of note",)),
            ("tcp_lat", ("latency  =  0 us",)),
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_read_of_a_text_at_the_edge_of_a_rule(name: str) -> None:
    runs = read(TEXTS[name])
    assert all(
        (run.status == "ok") == bool(run.metrics) and (run.error is None) == (run.status == "ok")
        for run in runs
    )


@pytest.mark.parametrize(
    ("indent", "encoding"), [("", "utf-8"), (" ", "utf-8"), ("  ", "utf-16"), ("\t", "utf-16-be")]
)
@pytest.mark.parametrize(
    "log", ["iperf2/gen-tcp.txt", "lagscope/gen-hist.txt", "ntttcp/linux-gen-recv.xml"]
)
def test_a_log_that_is_indented_printed_twice_and_has_bytes_that_are_no_text(
    log: str, indent: str, encoding: str
) -> None:
    text = "".join(indent + line for line in (LOGS / log).read_text().splitlines(keepends=True))
    bad = {"utf-8": b"\xff", "utf-16": b"\x00\xd8", "utf-16-be": b"\xd8\x00"}[encoding]
    for copies in (1, 2, 3):
        data = (text * copies).encode(encoding)
        assert {run.status for run in read(data)} == {"ok"}
        assert {run.status for run in read(data + bad + "\n".encode(encoding)[-2:])} <= {"ok"}


STAMPS = (
    "2024-05-01T12:00:00Z",
    "2024-05-01 12:00:00,5",
    "Wed May  1 12:00:00 UTC 2024",
    "Wed May  1 12:00:00 GMT 2024",
)
STAMPS += (
    "Wed May  1 12:00:00 CEST 2024",
    "Wed May  1 12:00:00 2024",
    "1714564800.5",
    "2024-13-01T12:00:00Z",
)


@pytest.mark.parametrize("stamp", STAMPS)
@pytest.mark.parametrize(
    "shape", ["{t} {line}", "[{t}] {line}", "{line}  -- {t}", "a | {t} {line}", "{t}{line}"]
)
def test_the_time_of_a_run_is_that_before_or_after_its_lines(stamp: str, shape: str) -> None:
    lines = [*(TAIL + CLIENT).splitlines(), *(CLIENT + TAIL).splitlines()]
    for least in (0, 2, 3, len(lines) // 3):  # the first lines have no time
        text = "\n".join(
            shape.format(t=stamp, line=line) if i >= least else line for i, line in enumerate(lines)
        )
        assert read(text + "\n") is not None


@pytest.mark.parametrize("commas", [0, 1, 2, 3])
@pytest.mark.parametrize("points", [0, 1, 2, 5])
def test_decimal_commas_are_points_if_nearly_all_are(commas: int, points: int) -> None:
    row = TAIL + CLIENT
    text = (
        CLIENT
        + TAIL.replace(".", ",") * (commas > 0)
        + "x 1,5\n" * commas
        + "y 1.5\n" * points
        + row[:0]
    )
    assert len(read(text)) <= 2


@pytest.mark.parametrize("head", HEADS)
def test_a_row_of_iperf2_that_is_cut_anywhere(head: str) -> None:
    serving = head.startswith(("Reads", "Jitter", "Burst", "Latency"))
    top = SERVED + ACCEPTED.format(n=3) if serving else CLIENT + TAIL.partition("\n")[0] + "\n"
    top += f"[ ID] Interval       Transfer     Bandwidth       {head}\n"
    for end in (
        HEADS[head],
        "0.022 ms    0/  426 (0%) -/-/-/- ms 426 pps",
        "12=1:0:0:0:0:0:0:0",
        "15625/0   3",
    ):
        for cut in sorted({*range(0, len(end), 4), len(end)}):
            assert (
                len(
                    read(f"{top}[  3] 0.0000-2.0213 sec  244 MBytes  1.01 Gbits/sec  {end[:cut]}\n")
                )
                == 1
            )


SUMS_ONLY = "".join(
    f"[SUM-2] 0.0000-{t} sec  {s} MBytes  315 Mbits/sec\n"
    for t, s in (("1.0000", 37.5), ("2.0003", 75.2))
)


@pytest.mark.parametrize("connections", [0, 1, 2])
def test_rows_of_the_sum_alone(connections: int) -> None:
    ends = "".join(
        f"[  {n}] local 10.0.0.1 port 4292{n} connected with 10.0.0.2 port 5001\n"
        for n in range(connections)
    )
    (run,) = read(CLIENT + ends + SUMS_ONLY)
    assert (run.status == "ok") == (connections != 1)


@pytest.mark.parametrize(
    "log", ["made-csv-udp-client-report.csv", "gen-csv-udp-client.csv", "csv-P2-intervals.csv"]
)
def test_a_row_of_csv_with_another_end(log: str) -> None:
    lines = (LOGS / "iperf2" / log).read_text().splitlines()
    for at in {0, len(lines) - 1}:
        for field in range(7):
            values = lines[at].split(",")
            for other in (values[field] + "1", "9", values[field][:-1]):
                row = ",".join([*values[:field], other, *values[field + 1 :]])
                assert read("\n".join([*lines[:at], row, *lines[at + 1 :], ""])) is not None


@pytest.mark.parametrize(
    "log",
    [
        "gen-dual-server",
        "gen-dual-client",
        "made-dual-2.0-client",
        "gen-tcp-e-server",
        "gen-reverse-e",
    ],
)
def test_a_log_of_iperf2_whose_lines_have_other_names(log: str) -> None:
    text = (LOGS / "iperf2" / f"{log}.txt").read_text()
    names = dict.fromkeys(re.findall(r"\[ *(\*?\d+)\]", text))
    for name in names:
        for other in ("*" + name.removeprefix("*"), "SUM", "9"):
            assert read(re.sub(rf"\[ *{re.escape(name)}\]", f"[{other}]", text)) is not None
            assert (
                read(re.sub(rf"\[ *{re.escape(name)}\]", f"[{other}]", text, count=1)) is not None
            )
    for old, new in (
        ("5001", "5002"),
        ("connected with", "connected to"),
        ("127.0.0.1", "10.0.0.9"),
        ("-----", ""),
    ):
        for count in (0, 1):
            assert read(text.replace(old, new, count or -1)) is not None


IPERF3_TEXTS = [p.name for p in sorted((LOGS / "iperf3").glob("*.txt")) if p.stat().st_size < 4000]


@pytest.mark.parametrize("log", IPERF3_TEXTS)
def test_a_text_of_iperf3_without_some_of_its_lines(log: str) -> None:
    """Its head, its banner, its rules, its sums; or once more below itself, with and without its head."""
    text = (LOGS / "iperf3" / log).read_text()
    lines = text.splitlines(keepends=True)
    for words in "Connecting,Accepted,local,[ ID],- - -,---,SUM,receiver,sender,iperf 3,Done,listening".split(
        ","
    ):
        without = "".join(line for line in lines if words not in line)
        for other in (without, text + without, without + text):
            assert read(other) is not None
    others = {
        "[SUM]": "[SUN]",
        "receiver": "receive",
        "(omitted)": "",
        "Bitrate": "Bandwidth",
        "ms  ": "ms 1",
    }
    for old, new in others.items():
        assert read(text.replace(old, new)) is not None


IPERF3_DOCUMENTS = [
    p.name
    for p in sorted((LOGS / "iperf3").glob("*.json"))
    if p.stat().st_size < 6000 and "expected" not in p.name
]


@pytest.mark.parametrize("log", IPERF3_DOCUMENTS)
def test_a_document_of_iperf3_without_some_of_its_keys(log: str) -> None:
    text = (LOGS / "iperf3" / log).read_text()
    keys = dict.fromkeys(re.findall(r'"(\w+)"\s*:', text))
    for key in keys:
        renamed = text.replace(f'"{key}"', f'"{key}x"')
        assert all(run.status != "ok" or run.metrics for run in read(renamed))


def test_the_largest_text_is_that_of_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/logs.md").read_text("utf-8")
    assert f"above {reading.LARGEST / 2**20:.0f} MiB" in page


@pytest.mark.parametrize("log", ["gen-pp-fulllog.csv", "gen-ul-fulllog-rtt.csv"])
def test_a_statistic_of_sockperf_that_its_packets_contradict(log: str) -> None:
    text = (LOGS / "sockperf" / log).read_text()
    for figure in re.findall(
        r"(?:observation|percentile [\d.]+|avg-\w+|usec|RunTime|std-dev) ?=? *(\d+\.\d{3})", text
    ):
        assert (
            "ok" not in statuses(text.replace(figure, f"{float(figure) + 0.5:.3f}", 1))
            or "RunTime" in text
        )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "Starting 1 threads running profile:stream ...\nTotal     1.00GB /   0.00(s) =     5.00Gb/s        10op/s\n",
            "1073741824 bytes in 0 s: the log is damaged",
        ),
        (
            (
                "MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0 () port 0 AF_INET to 10.0.0.1 () port 0 AF_INET\n"
                "bytes  Bytes  bytes    bytes   secs.    10^6bits/sec   \n\n16384  87380  0        0       10.00    100.11   \n"
            ),
            "messages of 0 bytes in '16384 87380 0 0 10.00 100.11'",
        ),
    ],
)
def test_a_zero_that_figures_are_divided_by(text: str, error: str) -> None:
    (run,) = read(text)
    assert (run.status, run.error) == ("failed", error)


def test_a_json_of_ntttcp_may_hold_numbers_as_numbers() -> None:
    text = (LOGS / "ntttcp" / "linux-gen-recv.json").read_text()
    bare = re.sub(r'"(\d+(?:\.\d+)?)"', r"\1", text)
    assert bare != text
    assert [run.metrics for run in read(bare)] == [run.metrics for run in read(text)]
