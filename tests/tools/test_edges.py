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
        ("netperf", "establish control: are you sure there is a netserver listening on 10.0.0.2?\n"),
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
def test_the_share_that_iperf2_prints_is_that_of_its_counts(lost: int, total: int, percent: str, status: str) -> None:
    top = RULE + "Server listening on UDP port 5001\n" + RULE
    line = "[  3] local 10.0.0.2 port 5001 connected with 10.0.0.1 port 42928\n"
    row = f"[  3]  0.0- 2.0 sec  1.38 MBytes  5.80 Mbits/sec  0.022 ms {lost}/{total} ({percent}%)\n"
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
def test_the_report_that_a_client_of_iperf2_gets(length: str, sent: int, size: float, total: int, status: str) -> None:
    rates = (f"{s * 2**20 * 8 / 1e3 / float(t):.0f}" for s, t in ((1.25, length), (size, "2.5")))
    text = UDP_CLIENT.format(
        length=length, rate=next(rates), sent=sent, size=size, reported=next(rates), lost=0, total=total, percent=0
    )
    (run,) = read(text)
    assert run.status == status, run.error
    assert (run.metrics.get("duration_measured_s") in (None, float(length))) != (length in ("4.0100", "0.9900"))


def iperf2_streams(*rows: str) -> str:
    names = dict.fromkeys(re.findall(r"\[ *(\d+)\]", " ".join(rows)))
    ends = (f"[  {n}] local 10.0.0.1 port 4292{n} connected with 10.0.0.2 port 5001\n" for n in names)
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
        (("[  3] 0.0-1.0", "[  3] 1.0-2.0", "[  4] 0.0-1.0", "[  4] 0.0-2.0", "[  3] 0.0-2.0"), "ok"),
        (("[SUM] 0.0-1.0", "[SUM] 1.0-2.0", "[SUM] 0.0-2.0"), "ok"),
        (("[  3] 0.0-2.0", "", "[  5] 0.0-3.0"), "ok"),
    ],
)
@pytest.mark.parametrize("scale", [1.0, 1.02, 1.1, 3.5])
def test_rows_of_iperf2_that_are_the_result(rows: tuple[str, ...], status: str, scale: float) -> None:
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
        ("CPU Utilization: local/sender 96.6% (1.8%u/94.7%s), remote/receiver 26.4% (1.1%u/25.3%s)", False),
        ("CPU Utilization: local/sender 96.6% (1.8%u/94.6%s), remote/receiver 26.4% (1.1%u/25.5%s)", True),
        ("CPU Utilization: local/sender 96.6% (1.8%u/94.0%s), remote/receiver 26.4% (1.1%u/25.3%s)", True),
        ("CPU Utilization: local/sender 0.0% (0.0%u/0.0%s), remote/receiver 0.0% (0.0%u/0.0%s)", False),
        ("iperf3: error - unable to write to stream socket: Connection reset by peer", False),
        ("iperf3: interrupt - the client has terminated", False),
        ("iperf3: warning: this is no error", False),
        ("rcv_tcp_congestion cubic", False),
        ("snd_tcp_congestion bbr", False),
        ("Starting Test: protocol: SCTP, 1 streams, 131072 byte blocks, omitting 0 seconds, 2 second test", False),
        ("Starting Test: protocol: TCP, 1 streams, 131072 byte blocks, omitting 1 seconds, 1000 bytes to send", False),
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
    "log", [p.name for p in sorted((LOGS / "iperf3").glob("*.json")) if "_bidir_reverse" in p.read_text()]
)
def test_both_ways_under_one_name_as_some_versions_print_them(log: str) -> None:
    text = (LOGS / "iperf3" / log).read_text()
    assert [r.metrics for r in read(text.replace("_bidir_reverse", ""))] == [r.metrics for r in read(text)]


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


ONCE = {"end.streams.0.udp.out_of_order", *(path for path, _ in CHANGES if path.startswith("intervals.0.streams.0"))}


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
            right = all(abs(run.metrics[n] - whole.metrics[n]) <= 0.02 * abs(whole.metrics[n]) + 1 for n in names)
            assert right or run.warnings or "cpu" in path or path in ONCE, path


def test_events_of_a_stream() -> None:
    start, interval, end = ({"event": k, "data": v} for k, v in zip(
        ("start", "interval", "end"), (TCP["start"], TCP["intervals"][0], TCP["end"]), strict=True))  # fmt: skip
    others = [{"event": e, "data": "text"} for e in ("server_output_text", "server_output_json", "error", "unheard-of")]
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
    assert {name for name, each in found.items() if each == {"ok"}} == {"whole", "text", "json", "two"}


def test_a_row_without_its_document() -> None:
    (run,) = read(json.dumps(TCP["intervals"][0]["streams"][0]))
    assert (run.status, run.intervals["stream"]) == ("partial", [5])


def test_an_exponent_that_lost_its_sign() -> None:
    text = re.sub(r'("bits_per_second": )([\d.]+)', lambda m: f"{m[1]}{float(m[2]):.12e}", json.dumps(TCP))
    assert statuses(text.replace("e+", "e ")) == "ok"
    assert len(read(text.replace("e+", "e ")[: len(text) // 2])) == 1


def test_numbers_that_are_none() -> None:
    text = json.dumps(UDP)
    for word in ("nan", "-nan", "inf", "NaN"):
        odd = re.sub(r'"jitter_ms": [\d.e-]+', f'"jitter_ms": {word}', text)
        assert statuses(odd) != "ok"
        assert len(read(odd[: len(odd) // 2])) == 1
        assert statuses(re.sub(r'"snd_cwnd": \d+', f'"snd_cwnd": {word}', json.dumps(TCP), count=1)) == "ok"


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
    ("values", "status"), [("9412.10", "ok"), ("9412,10", "failed"), ("9412.10,5", "failed"), ("1,2,3", "failed")]
)
def test_more_values_than_titles(values: str, status: str) -> None:
    banner = "MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 10.0.0.2 () port 0 AF_INET\n"
    units = f"{banner}Throughput,Throughput Units\n{values.split(',')[0]},10^6bits/s\n"
    assert statuses(units) == "ok" or "." not in values
    assert status in ("ok", "failed")
    assert "ok" not in statuses(f"{banner}Throughput\n{values}\n")


@pytest.mark.parametrize(
    "unit", ["Bytes/s", "KBytes/s", "MBytes/s", "GBytes/s", "10^3bits/s", "10^6bits/s", "10^9bits/s"]
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
    assert run.metrics["throughput_bps"] == 12.5 * (bits.get(unit) or 8 * scale[unit.partition("Bytes")[0]])


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
                odd[name, unit, number] = statuses(f"{test}:\n{main}    {name:14}  =  {number} {unit}".rstrip() + "\n")
    assert {status for (_, _, number), status in odd.items() if number == "1.5"} == {"ok"}
    assert sum(status == "failed" for status in odd.values()) > 10


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-16-be"])
def test_bytes_that_are_no_text(encoding: str) -> None:
    data = (TAIL + CLIENT).encode(encoding) + (b"\xff" if encoding == "utf-8" else b"\xd8\xd8\xdc\xdc\xd8")
    assert len(read(CLIENT.encode(encoding) + TAIL.encode(encoding).removeprefix(b"\xff\xfe") + data[-1:])) >= 1
