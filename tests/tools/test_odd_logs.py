"""Logs that readers of such formats get wrong: what is left out, what contradicts itself, what only looks damaged.

Each is written for this test, after the structure of a real one.
"""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest

from netperf_lib import tools
from netperf_lib.errors import ParseError
from netperf_lib.tools.parsed import ParsedRun
from tests.tools import measure

LOGS = Path(__file__).parents[1] / "logs"
RULE = "------------------------------------------------------------\n"


def read(text: str) -> list[ParsedRun]:
    try:
        return tools.parse(text)
    except ParseError:
        return []


def only(text: str) -> ParsedRun:
    (run,) = read(text)
    return run


# --- iperf 2 ----------------------------------------------------------------------------------------------------------

DUAL_SERVER = (
    RULE
    + """Server listening on UDP port 5002
Receiving 1470 byte datagrams
"""
    + RULE
    + """[  3] local 10.0.0.2 port 5002 connected with 10.0.0.1 port 40262
"""
    + RULE
    + """Client connecting to 10.0.0.1, UDP port 5002
Sending 1470 byte datagrams
"""
    + RULE
    + """[  5] local 10.0.0.2 port 41384 connected with 10.0.0.1 port 5002
[ ID] Interval       Transfer     Bandwidth        Jitter   Lost/Total Datagrams
[  3]  0.0- 1.0 sec   612 KBytes  5010 Kbits/sec   0.022 ms    0/  426 (0%)
[  5]  0.0- 1.0 sec   613 KBytes  5022 Kbits/sec
[  3]  1.0- 2.0 sec   610 KBytes  4998 Kbits/sec   0.016 ms    0/  425 (0%)
[  3]  0.0- 2.0 sec  1222 KBytes  5005 Kbits/sec   0.018 ms    0/  851 (0%)
[  5]  1.0- 2.0 sec   610 KBytes  4998 Kbits/sec
[  5]  0.0- 2.0 sec  1222 KBytes  5005 Kbits/sec
[  5] Sent 851 datagrams
[  5] Server Report:
[  5]  0.0- 2.0 sec  1222 KBytes  5004 Kbits/sec   0.019 ms    0/  851 (0%)
"""
)


def test_the_report_that_a_dual_server_gets_is_the_other_direction() -> None:
    run = only(DUAL_SERVER)
    assert run.status == "ok"
    assert run.metrics["throughput_reverse_bps"] == 5_004_000
    assert run.metrics["jitter_reverse_us"] == pytest.approx(19)
    assert run.metrics["lost_reverse_count"] == 0


SERVER_UDP = (
    RULE
    + "Server listening on UDP port 5001 with pid 1\n"
    + RULE
    + """[  1] local 10.0.0.2%eth0 port 5001 connected with 10.0.0.1 port 56439 (peer 2.1.7)
[ ID] Interval            Transfer     Bandwidth        Jitter   Lost/Total Datagrams
[  1] 0.0000-9.9204 sec   977 KBytes   807 Kbits/sec    1.426 ms 0/10003 (0%)
"""
)


def test_a_row_of_a_later_command_leaves_the_result_alone() -> None:
    later = "\nAgain, with more.\n[  3] 0.0000-9.9365 sec  9.41 MBytes  7.94 Mbits/sec   0.085 ms 1361/100003 (1.4%)\n"
    run = only(SERVER_UDP + later)
    assert (run.status, run.metrics["packets_count"]) == ("ok", 10003)
    assert any("another test" in w for w in run.warnings)


CLIENT = (
    RULE
    + "Client connecting to 10.0.0.2, TCP port {port}\nTCP window size: 2.50 MByte (default)\n"
    + RULE
)


def test_ports_that_count_up() -> None:
    rows = "".join(
        f"[  {i}] local 10.0.0.1 port 4{i}110 connected with 10.0.0.2 port {5600 + i}\n"
        for i in (2, 1, 0, 3)
    )
    rows += "[ ID] Interval       Transfer     Bandwidth\n"
    rows += "".join(f"[  {i}] 0.0000-3.0010 sec  25.0 GBytes  71.6 Gbits/sec\n" for i in range(4))
    rows += "[SUM] 0.0000-3.0010 sec   100 GBytes   286 Gbits/sec\n"
    run = only(CLIENT.format(port=5600) + rows)
    assert (run.status, run.metrics["throughput_sent_bps"]) == ("ok", 286e9)
    assert (
        only(CLIENT.format(port=5600) + rows.replace("port 5602", "port 5702")).status == "partial"
    )


CLIENT_UDP = RULE + "Client connecting to {to}, UDP port 5001\nSending 1470 byte datagrams\n" + RULE
CONNECTED = "[  3] local 10.0.0.1 port 42928 connected with {to} port 5001\n"


def test_isochronous() -> None:
    run = only(
        (CLIENT_UDP + CONNECTED).format(to="10.0.0.2")
        + """[ ID] Interval        Transfer     Bandwidth      Write/Err  PPS  frames:tx/missed/slips
[  3] 0.00-1.00 sec  12.0 MBytes   101 Mbits/sec  8560/0     8493 pps   62/0/0
[  3] 1.00-2.00 sec  12.0 MBytes   101 Mbits/sec  8560/0     8557 pps   60/0/0
[  3] 0.00-2.00 sec  24.0 MBytes   101 Mbits/sec  17120/0     8574 pps  122/0/0
[  3] Sent 17120 datagrams
[  3] Server Report:
[  3] 0.00-2.00 sec  23.9 MBytes   100 Mbits/sec   0.009 ms  39/17120 (0.23%)
"""
    )
    assert (run.status, run.test, run.metrics["lost_count"]) == ("ok", "udp", 39)


def test_the_error_of_the_next_command_is_its_own() -> None:
    first, second = read(
        "[root@vm ~]# iperf -s\n" + RULE + "Server listening on TCP port 5001\n" + RULE
        + """[  5] local 10.0.0.1 port 5001 connected with 10.0.0.2 port 33020
[ ID] Interval       Transfer     Bandwidth
[  5]  0.0-30.0 sec  31.6 GBytes  9.05 Gbits/sec
^C
[root@vm ~]# iperf -c 10.0.0.2 -t 30
connect failed: Connection refused
"""
    )  # fmt: skip
    assert (first.status, first.metrics["throughput_bps"]) == ("ok", 9.05e9)
    assert (second.status, second.line) == ("failed", 10)


def test_prose_about_an_error_is_none() -> None:
    run = only(
        CLIENT.format(port=5001)
        + """[  3] local 10.0.0.1 port 28760 connected with 10.0.0.2 port 5001
[  3]  0.0-60.0 sec  65.5 GBytes  9.38 Gbits/sec

current:  5.960%, error:  6.0%, probability:  0.000%
"""
    )
    assert run.status == "ok"


LOSS_CUT = (
    (CLIENT_UDP + CONNECTED).format(to="10.0.0.2")
    + """[  3]  0.0- 1.0 sec  64.6 KBytes   529 Kbits/sec
[  3]  1.0- 2.0 sec  63.2 KBytes   517 Kbits/sec
[  3]  0.0- 2.0 sec   128 KBytes   523 Kbits/sec
[  3] Sent 890 datagrams
[  3] Server Report:
[  3]  0.0- 2.0 sec   128 KBytes   523 Kbits/sec   0.000 ms    {lost}/  {total} (0%)
"""
)


def test_a_share_that_is_cut_to_zero_costs_the_loss_only() -> None:
    run = only(LOSS_CUT.format(lost=3, total=890))
    assert (run.status, run.metrics["throughput_sent_bps"]) == ("ok", 523e3)
    assert "lost_count" not in run.metrics
    assert any("loss" in w for w in run.warnings)
    assert only(LOSS_CUT.format(lost=30, total=890)).status == "partial"


def test_more_datagrams_reported_than_sent() -> None:
    assert only(LOSS_CUT.format(lost=0, total=990)).status == "partial"
    assert only(LOSS_CUT.format(lost=0, total=890)).status == "ok"


def test_only_the_sum() -> None:
    run = only(
        CLIENT.format(port=5001)
        + """[SUM-cnt] Interval       Transfer     Bandwidth
[SUM-3] 0.0000-1.0000 sec  37.5 MBytes   315 Mbits/sec
[SUM-3] 1.0000-2.0000 sec  37.5 MBytes   315 Mbits/sec
[SUM-3] 0.0000-2.0003 sec  75.2 MBytes   315 Mbits/sec
"""
    )
    assert (run.status, run.parameters["streams"], run.metrics["throughput_sent_bps"]) == (
        "ok",
        3,
        315e6,
    )
    assert set(run.intervals["stream"]) == {-1}


def test_a_multicast_group_sends_no_report() -> None:
    text = (
        CLIENT_UDP
        + CONNECTED
        + """[  3]  0.0- 1.0 sec   129 KBytes  1.06 Mbits/sec
[  3]  1.0- 2.0 sec   128 KBytes  1.05 Mbits/sec
[  3]  0.0- 2.0 sec   257 KBytes  1.05 Mbits/sec
[  3] Sent 179 datagrams
"""
    )
    assert only(text.format(to="224.1.1.1")).metrics["throughput_sent_bps"] == 1.05e6
    assert only(text.format(to="10.0.0.2")).status == "partial"


def test_rows_with_loss_are_of_udp() -> None:
    run = only(
        """[  3] local 10.0.0.2 port 5001 connected with 10.0.0.1 port 58800
[  3]  0.0- 1.0 sec  63.2 KBytes   517 Kbits/sec   1.113 ms    0/   44 (0%)
[  3]  1.0- 2.0 sec  61.7 KBytes   506 Kbits/sec   1.466 ms    1/   44 (2.3%)
[  3]  0.0- 2.0 sec   125 KBytes   512 Kbits/sec   1.551 ms    1/   88 (1.1%)
"""
    )
    assert (run.test, run.metrics["lost_count"], run.metrics["jitter_us"]) == (
        "udp",
        1,
        pytest.approx(1551),
    )


CUT = (
    RULE
    + """Client connecting to 127.0.0.1, TCP port 5001
TCP window size: 16.0 KByte (default)
"""
    + RULE
    + """[  1] local 127.0.0.1 port 41842 connected with 127.0.0.1 port 5001 (icwnd/mss/irtt=319/32741/33)
[ ID] Interval       Transfer     Bandwidth
"""
)


@pytest.mark.parametrize(
    "row",
    [
        "[  1] 0.0000-0.1000 sec   183 MBytes  15.3 Gbits/sec",  # -i 0.1
        "[  1] 0.0000-0.0500 sec  91.5 MBytes  15.3 Gbits/sec",
        "[  1] 0.0000-0.5000 sec   915 MBytes  15.3 Gbits/sec",
        "[  1] 0.0000-2.5000 sec  4.47 GBytes  15.3 Gbits/sec",
        "[  1] 0.0000-10.0000 sec  17.8 GBytes  15.3 Gbits/sec",  # -i 10
        "[  1]  0.0- 0.5 sec   915 MBytes  15.3 Gbits/sec",
    ],
)
def test_a_log_cut_after_its_first_interval_has_no_result(row: str) -> None:
    run = only(CUT + row + "\n")
    assert (run.status, run.metrics) == ("partial", {})
    assert "the log ends before the row over the whole test" in (run.error or "")


def test_a_test_of_less_than_a_second_has_a_result() -> None:
    assert only(CUT + "[  1] 0.0000-0.2013 sec   366 MBytes  15.3 Gbits/sec\n").status == "ok"


def test_one_row_in_tenths_of_a_second_is_the_result_with_a_warning() -> None:
    """Nothing in it tells ``-t 5`` from the first interval of ``-i 5``."""
    run = only(CUT + "[  1]  0.0- 5.0 sec  8.94 GBytes  15.4 Gbits/sec\n")
    assert (run.status, run.metrics["throughput_sent_bps"]) == ("ok", 15.4e9)
    assert "first interval of a log that was cut" in run.warnings[0]


# --- iperf3 -----------------------------------------------------------------------------------------------------------

IPERF3 = """Connecting to host 10.0.0.2, port 5201
[  5] local 10.0.0.1 port 40114 connected to 10.0.0.2 port 5201
"""
HEAD = "[ ID] Interval           Transfer     Bitrate         Retr  Cwnd\n"
DASHES = "- - - - - - - - - - - - - - - - - - - - - - - - -\n"
RESULT = """[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-4.00   sec  1.16 GBytes  2.50 Gbits/sec    0             sender
[  5]   0.00-4.00   sec  1.16 GBytes  2.50 Gbits/sec                  receiver
"""


def rows(*starts: int) -> str:
    return "".join(
        f"[  5]   {s}.00-{s + 1}.00   sec   298 MBytes  2.50 Gbits/sec    0   2.27 MBytes\n"
        for s in starts
    )


def test_a_direction_without_a_result() -> None:
    run = only(
        """Connecting to host 10.0.0.2, port 5201
[ ID][Role] Interval           Transfer     Bitrate         Retr  Cwnd
[  5][TX-C]   0.00-1.00   sec   102 MBytes   856 Mbits/sec    0   1.50 MBytes
[  7][RX-C]   0.00-1.00   sec  87.9 MBytes   737 Mbits/sec
"""
        + DASHES
        + """[ ID][Role] Interval           Transfer     Bitrate         Retr
[  5][TX-C]   0.00-1.00   sec   102 MBytes   856 Mbits/sec    0             sender
[  5][TX-C]   0.00-1.00   sec   102 MBytes   855 Mbits/sec                  receiver
"""
    )
    assert run.status == "partial"


def test_a_server_that_stops_waiting_is_no_run() -> None:
    run = only(
        """Accepted connection from 10.0.0.2, port 50334
[  5] local 10.0.0.1 port 5201 connected to 10.0.0.2 port 50346
[ ID] Interval           Transfer     Bitrate
[  5]   0.00-1.00   sec  1.10 GBytes  9.42 Gbits/sec
[  5]   1.00-2.00   sec  1.10 GBytes  9.42 Gbits/sec
"""
        + DASHES
        + """[ ID] Interval           Transfer     Bitrate
[  5]   0.00-2.00   sec  2.20 GBytes  9.42 Gbits/sec                  receiver
-----------------------------------------------------------
Server listening on 5201 (test #2)
-----------------------------------------------------------
iperf3: the client has terminated
iperf3: exiting
"""
    )
    assert (run.status, run.metrics["throughput_bps"]) == ("ok", 9.42e9)


def test_one_stream_of_two_is_not_the_whole() -> None:
    (run,) = read(
        """[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-10.00  sec  29.6 MBytes  24.9 Mbits/sec    0             sender
[  5]   0.00-10.00  sec  29.3 MBytes  24.5 Mbits/sec                  receiver
[ ID] Interval           Transfer     Bitrate         Retr
[  7]   0.00-10.00  sec  26.9 MBytes  22.5 Mbits/sec    0             sender
[  7]   0.00-10.00  sec  26.6 MBytes  22.3 Mbits/sec                  receiver
[SUM]   0.00-10.00  sec  56.5 MBytes  47.4 Mbits/sec    0             sender
[SUM]   0.00-10.00  sec  55.9 MBytes  46.8 Mbits/sec                  receiver
"""
    )
    assert run.metrics["throughput_bps"] == 46.8e6


@pytest.mark.parametrize("starts", [(0, 1, 3), (0, 2, 1, 3)])
def test_intervals_that_are_lost_or_change_places(starts: tuple[int, ...]) -> None:
    assert not only(IPERF3 + HEAD + rows(0, 1, 2, 3) + DASHES + RESULT).warnings
    run = only(IPERF3 + HEAD + rows(*starts) + DASHES + RESULT)
    assert any("intervals" in w for w in run.warnings)
    assert "cwnd_max_bytes" not in run.metrics


def test_a_document_without_a_measurement_failed() -> None:
    text = '{ "start": { "connected": [], "version": "iperf 3.20", "system_info": "Linux" , "error": "x" and more'
    assert [r.status for r in read(text)] == ["failed"]


def test_sctp() -> None:
    command = "user@vm:~$ iperf3 -c 10.0.0.2 --sctp\n"
    text = (
        command
        + IPERF3
        + (rows(0, 1, 2, 3) + DASHES + RESULT)
        .replace("    0  ", "       ")
        .replace("2.27 MBytes", "")
    )
    assert only(text).test == "sctp"


def test_processors_of_the_verbose_text() -> None:
    cpu = (
        "CPU Utilization: local/sender 96.6% (1.8%u/94.7%s), remote/receiver 26.4% (1.1%u/25.3%s)\n"
    )
    run = only(IPERF3 + HEAD + rows(0, 1, 2, 3) + DASHES + RESULT + cpu)
    assert (run.metrics["cpu_client_ratio"], run.metrics["cpu_server_ratio"]) == (0.966, 0.264)
    run = only(IPERF3 + HEAD + rows(0, 1, 2, 3) + DASHES + RESULT + cpu.replace("96.6", "46.6"))
    assert "cpu_client_ratio" not in run.metrics
    assert run.warnings


def udp(received: int, sent: int = 57) -> str:
    return (
        IPERF3
        + f"""[ ID] Interval           Transfer     Bitrate         Total Datagrams
[  5]   0.00-1.00   sec   624 KBytes  5107 Kbits/sec  29
[  5]   1.00-2.00   sec   602 KBytes  4932 Kbits/sec  28
{DASHES}[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams
[  5]   0.00-2.00   sec  1.20 MBytes  5020 Kbits/sec  0.000 ms  0/{sent} (0%)  sender
[  5]   0.00-2.00   sec  1.20 MBytes  5020 Kbits/sec  0.046 ms  0/{received} (0%)  receiver
"""
    )


def test_datagrams_that_nobody_sent() -> None:
    assert only(udp(57)).status == "ok"
    assert only(udp(67)).status == "partial"


def test_a_total_of_nothing_is_told() -> None:
    run = only(
        """Accepted connection from 10.0.0.2, port 54516
[  6] local 10.0.0.1 port 5003 connected to 10.0.0.2 port 40595
[ ID] Interval           Transfer     Bandwidth       Jitter    Lost/Total Datagrams
[  6]   0.00-1.00   sec  3.83 MBytes  32.1 Mbits/sec  1.464 ms  0/2750 (0%)
"""
        + DASHES
        + """[ ID] Interval           Transfer     Bandwidth       Jitter    Lost/Total Datagrams
[  6]   0.00-1.04   sec  0.00 Bytes  0.00 bits/sec  1.631 ms  0/2750 (0%)
"""
    )
    assert run.status == "ok"
    assert any("0 bytes" in w for w in run.warnings)


SERVER = """Accepted connection from 10.0.0.2, port 50000
[  5] local 10.0.0.1 port 5201 connected to 10.0.0.2 port 50001
"""


def test_the_interval_after_omitted_ones_costs_no_server_its_result() -> None:
    log = (
        SERVER
        + """[ ID] Interval           Transfer     Bitrate
[  5]   0.00-1.00   sec  2.30 GBytes  19.8 Gbits/sec                  (omitted)
[  5]   0.01-0.99   sec  2.28 GBytes  19.5 Gbits/sec
[  5]   0.99-2.00   sec  2.33 GBytes  19.8 Gbits/sec
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate
[  5]   0.01-2.00   sec  4.59 GBytes  19.8 Gbits/sec                  receiver
"""
    )
    run = only(log)
    assert (run.status, run.metrics["throughput_bps"]) == ("ok", 19.8e9)
    assert "the first interval after omitted ones is left out" in run.warnings[0]
    # the row of the result must agree
    assert only(log.replace("4.59 GBytes", "4.95 GBytes")).status == "partial"


def test_more_received_than_sent_in_an_interval_costs_no_run() -> None:
    log = (
        SERVER
        + """[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams
[  5]   0.00-1.00   sec   483 MBytes  4.05 Gbits/sec  0.012 ms  120/350000 (0.034%)
[  5]   1.00-1.00   sec  2.10 MBytes  3.95 Gbits/sec  7.220 ms  18446744073709551544/174 (-41%)
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams
[  5]   0.00-1.00   sec   485 MBytes  4.07 Gbits/sec  0.012 ms  48/350174 (0.014%)  receiver
"""
    )
    run = only(log)
    assert (run.status, run.metrics["lost_count"]) == ("ok", 48)


@pytest.mark.parametrize(
    "name", ["iperf3/bidir-get-server-output.txt", "iperf3/gen-3.12-title.txt"]
)
def test_a_result_that_the_caller_prints_again_is_no_run(name: str) -> None:
    log = (LOGS / name).read_text().rstrip() + "\n"
    (truth,) = tools.parse(log)
    row = next(line for line in log.splitlines() if line.endswith("receiver"))
    runs = tools.parse((log + f"PASS: {row}\n") * 3)
    assert [(r.status, r.metrics) for r in runs] == [("ok", truth.metrics)] * 3


def test_a_result_of_pscheduler_is_no_damaged_document_of_iperf3() -> None:
    stream = '{"throughput-bits": 41800959.9, "throughput-bytes": 5225632, "start": 0, "end": 1.0}'
    assert read('{"intervals": [{"streams": [' + stream + '], "summary": ' + stream + "}]}") == []


# --- two processes in one file ----------------------------------------------------------------------------------------

RR = """TCP REQUEST/RESPONSE TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 10.0.0.2 (10.0.0.2) port 0 AF_INET
Local /Remote
Socket Size   Request  Resp.   Elapsed  Trans.
{}Send   Recv   Size     Size    Time     Rate
bytes  Bytes  bytes    bytes   secs.    per sec

16384  87380  1        1       10.00    {}
16384  87380
"""
NTTTCP = """NTTTCP for Linux 1.4.0
{0}---------------------------------------------------------
10:00:00 INFO: 64 connections tested
{1}10:01:00 INFO: #####  Totals:  #####
10:01:00 INFO: test duration    :10.00 seconds
10:01:00 INFO: total bytes      :13275000000
10:01:00 INFO:   throughput     :10.62Gbps
10:01:00 INFO:   retrans segs   :1968
"""


def test_two_netperfs_in_one_file() -> None:
    titles = "Mean Latency Microseconds,Transaction Rate Tran/s\n1.44,1.000\n"
    assert only(RR.format("", "29150.15")).status == "ok"
    assert only(RR.format(titles, "29150.15")).status == "failed"


def test_two_ntttcps_in_one_file() -> None:
    assert only(NTTTCP.format("", "")).status == "ok"
    other = NTTTCP.format("", "").partition("#####")[2].replace("10.62", "84.04")
    found = read(NTTTCP.format("NTTTCP for Linux 1.4.0\n", "10:00:59 INFO: #####" + other))
    assert {r.status for r in found} == {"failed"}


def test_two_qperfs_in_one_file() -> None:
    found = read(
        "rc_bw:\n    msg_rate    =  4.07 /sec\n    bw  =  4.67 GB/sec\n    send_bytes  =    16 MiB (16,777,216)\n"
    )
    assert [r.status for r in found] == ["failed"]


SOCKPERF = """sockperf: == version #3.7-no.git ==
sockperf: Test ended
sockperf: [Total Run] RunTime=10.000 sec; Warm up time=400 msec; SentMessages=98194; ReceivedMessages=98193
sockperf: ========= Printing statistics for Server No: 0
sockperf: [Valid Duration] RunTime=10.000 sec; SentMessages=98193; ReceivedMessages=98193
sockperf: ====> avg-latency=50.896 (std-dev=2.003)
{}sockperf: ---> percentile 99.999 = 1182.275
sockperf: ---> percentile 99.990 =  315.676
sockperf: ---> percentile 99.900 =   68.989
sockperf: ---> percentile 99.000 =   33.092
sockperf: ---> percentile 90.000 =   17.993
sockperf: ---> percentile 75.000 =   16.170
sockperf: ---> percentile 50.000 =   14.692
sockperf: ---> percentile 25.000 =   13.535
sockperf: ---> <MIN> observation =   11.666
"""


def test_two_sockperfs_in_one_file() -> None:
    assert only(SOCKPERF.format("sockperf: # dr\n")).status == "failed"


# --- the others -------------------------------------------------------------------------------------------------------

LAGSCOPE = """lagscope 1.0.1
---------------------------------------------------------
10:00:00 INFO: New connection: local:25001 [socket:3] --> 10.0.0.2:6001
10:00:05 INFO: TEST COMPLETED.
10:00:05 INFO: Ping statistics for 10.0.0.2:
10:00:05 INFO:    Number of successful Pings: 100000
10:00:05 INFO:    Minimum = 35.500us, Maximum = 6997.250us, Average = 47.863us

Percentile       Latency(us)
     50%         39
     75%         44
     90%         57
     95%         78
     99%         148
   99.9%         530
  99.99%         2813
 99.999%         5080
"""


@pytest.mark.parametrize(
    "text",
    [LAGSCOPE, LAGSCOPE.replace("\n", "\n\n"), LAGSCOPE.replace("\n", "\r\r\n"),
     "".join(f"[client] {line}\n" for line in LAGSCOPE.splitlines())],
    ids=["as printed", "blank lines", "CR CR LF", "prefix"],
)  # fmt: skip
def test_percentiles_of_lagscope(text: str) -> None:
    run = only(text)
    assert [p.latency_us for p in run.percentiles] == [39, 44, 57, 78, 148, 530, 2813, 5080]
    assert not run.warnings


def test_percentiles_that_are_cut_off_are_named() -> None:
    run = only(LAGSCOPE.partition("     95%")[0])
    assert any("rtt_p99_us" in w for w in run.warnings)


LATTE = """Protocol      UDP
SendMethod    Blocking
ReceiveMethod Blocking
SO_SNDBUF     Default
SO_RCVBUF     Default
MsgSize(byte) 4
Iterations    {iterations}
Latency(usec) {mean}
CPU(%)        1.6
CtxSwitch/sec 32869     (2.22/iteration)
SysCall/sec   69366     (4.69/iteration)
Interrupt/sec 50693     (3.43/iteration)

Interval(usec)   Frequency
      0          9999972
   1000          27
   2000          1
"""


@pytest.mark.parametrize(
    ("iterations", "mean", "status"),
    [("10000000", "67.66", "ok"), ("40000000", "67.66", "failed")],
)
def test_latte_that_contradicts_itself(iterations: str, mean: str, status: str) -> None:
    assert only(LATTE.format(iterations=iterations, mean=mean)).status == status


STREAM = """MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 10.0.0.2 () port 0 AF_INET
Recv   Send    Send
Socket Socket  Message  Elapsed
Size   Size    Size     Time     Throughput
bytes  bytes   bytes    secs.    10^6bits/sec

131072  16384  16384    10.00    9412.10
"""


def test_a_second_result_without_a_banner_is_a_second_run() -> None:
    found = read(STREAM + "131072  16384  16384    10.00    8123.40\n")
    assert [(r.line, r.metrics["throughput_bps"]) for r in found] == [
        (1, 9412.10e6),
        (2, 8123.40e6),
    ]


def test_a_banner_behind_a_prompt() -> None:
    found = read(
        "user@vm:~$ for i in 1 2; do netperf -H 10.0.0.2; done"
        + STREAM
        + STREAM.replace("9412", "9411")
    )
    assert [r.metrics["throughput_bps"] for r in found] == [9412.10e6, 9411.10e6]


def test_decimal_commas_among_commas_are_refused() -> None:
    banner = STREAM.partition("\n")[0].replace("STREAM", "REQUEST/RESPONSE")
    assert (
        only(
            f"{banner}\nMean Latency Microseconds,Transaction Rate Tran/s\n26,83,37120,25\n"
        ).status
        == "failed"
    )


def test_tables_under_a_command_without_a_banner() -> None:
    body = STREAM.partition("\n")[2]
    columns = """
Minimum      Mean         Maximum      99th         Stddev       Transaction
Latency      Latency      Latency      Percentile   Latency      Rate
Microseconds Microseconds Microseconds Latency      Microseconds Tran/s
                                       Microseconds
106          127.53       4904         159          34.88        7826.064
"""
    first, second = read(
        f"$ netperf -H vm-2 -t TCP_RR -l 30 -- -O …\n{columns}\n$ netperf -H vm-2 -l 10\n\n{body}"
    )
    assert (first.metrics["transaction_rate_per_s"], first.metrics["rtt_p99_us"]) == (7826.064, 159)
    assert (second.metrics["throughput_bps"], second.parameters["server"]) == (9412.10e6, "vm-2")


@pytest.mark.parametrize(
    "noise", ["\nTARGET_QPS=100000 AGENTS=['10']\n", "\n\n6.common mini config should be ok\n"]
)
def test_noise_after_netperf(noise: str) -> None:
    assert only(STREAM + noise).metrics["throughput_bps"] == 9412.10e6


def test_transactions_in_bits() -> None:
    run = only(
        """MIGRATED TCP REQUEST/RESPONSE TEST from vm-1 () port 0 AF_INET to vm-2 () port 0 AF_INET : first burst 6
Local /Remote
Socket Size   Request  Resp.   Elapsed
Send   Recv   Size     Size    Time     Throughput
bytes  Bytes  bytes    bytes   secs.    10^6bits/sec

16384  87380  32768    32768   10.00    1820.98
524288 524288
"""
    )
    assert run.metrics["transaction_rate_per_s"] == pytest.approx(3473.2, abs=0.1)


def test_datagrams_of_netperf_with_processors() -> None:
    run = only(
        """MIGRATED UDP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 10.0.0.2 () port 0 AF_INET : demo
Socket  Message  Elapsed      Messages                   CPU      Service
Size    Size     Time         Okay Errors   Throughput   Util     Demand
bytes   bytes    secs            #      #   10^6bits/sec % CC     us/KB

  9216    9216   30.00     3892087   2130     9565.2     13.59    0.931
 42080           30.00     3892080            9565.2     10.41    0.713
"""
    )
    assert (run.status, run.metrics["throughput_bps"], run.metrics["lost_count"]) == (
        "ok",
        9565.2e6,
        7,
    )


def test_totals_of_windows_in_one_line() -> None:
    run = only(
        """C:\\> NTttcp.exe -s -m 8,*,10.0.0.2 -l 128k -t 15
Copyright Version 5.28
Network activity progressing...
#####  Totals:  #####
   Bytes(MEG)    realtime(s) Avg Frame Size Throughput(MB/s) Throughput(Buffers/s) Cycles/Byte       Buffers
================ =========== ============== ================ ===================== =========== =============
    33959.125000      30.016       1456.355         1131.367              9050.939       2.453    271673.000

"""
    )
    assert (run.status, run.metrics["sent_bytes"]) == ("ok", 33959.125 * 2**20)


@pytest.mark.parametrize(
    "text",
    [
        "tcp_lat:\n    bw       =  1.15 GB/sec\n    latency  =  23.4 us\n",
        "tcp_lat:\n    msg_rate       =  57.7 K/sec\n    time           =    30 sec\n",
        "udp_bw:\n    send_bw         =  2.62 GB/sec\n    msg_rate        =  72.3 K/sec\n",
        "udp_bw:\n    send_bw         =  2.62 GB/sec\n    recv_bw         =   237 GB/sec\n",
        "udp_lat:\n    latency        =  17.4 us\n    msg_rate       =  64.8 K/sec\n",
    ],
    ids=["bw of a latency", "no latency", "no recv_bw", "more received than sent", "rate"],
)
def test_qperf_that_cannot_be(text: str) -> None:
    assert only(text).status == "failed"


@pytest.mark.parametrize(("moved", "status"), [(100, "ok"), (200, "failed")])
@pytest.mark.parametrize("clock", ["send_real_time", "loc_real_time"])
def test_bytes_of_qperf_are_its_rate_by_its_time(clock: str, moved: int, status: str) -> None:
    figures = {"send_bw": "100 MB/sec", "recv_bw": "100 MB/sec", clock: "1 sec"}
    figures |= {"send_bytes": f"{moved} MB", "recv_bytes": f"{moved} MB"}
    assert (
        only("udp_bw:\n" + "".join(f"    {k:14}  =  {v}\n" for k, v in figures.items())).status
        == status
    )


@pytest.mark.parametrize(("end", "counted"), [("\n", True), ("", False)])
def test_a_count_of_qperf_without_the_end_of_its_line_may_be_cut(end: str, counted: bool) -> None:
    run = only(f"rc_bi_bw:\n    bw         =  100 MB/sec\n    recv_msgs  =  12 million{end}")
    assert (run.status, "messages_count" in run.metrics) == ("ok", counted)


def test_qperf_whose_client_stopped_its_clock_late() -> None:
    run = only("""tcp_lat:
    latency          =       34078 ns
    msg_rate         =       31135 /sec
    loc_real_time    =  1130000000 ns
    loc_recv_msgs    =       16579
    rem_real_time    =  1000000000 ns
    rem_recv_msgs    =       16580
    rem_send_msgs    =       16580
""")
    assert (run.status, run.metrics["latency_oneway_us"]) == ("ok", 34.078)


OLD_SOCKPERF = """------------------------------
test was performed using the following parameters: --mps=400 --burst=1 --reply-every=1 --msg-size=64 --time=1
------------------------------
sockperf: [Total Run] RunTime=1.100 sec; SentMessages=4; ReceivedMessages=4
sockperf: ========= Printing statistics for Server No: 0
sockperf: [Valid Duration] RunTime=1.000 sec; SentMessages=3; ReceivedMessages=3
sockperf: ====> avg-lat=  1.500 (std-dev=0.500)
sockperf: # dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0
sockperf: Total 3 observations; each percentile contains 0.03 observations
sockperf: ---> <MAX> observation =    2.000
sockperf: ---> percentile  99.50 =    2.000
sockperf: ---> percentile  50.00 =    1.500
sockperf: ---> <MIN> observation =    1.000
------------------------------
txTime, rxTime
2.000000000, 2.000002000
2.500000000, 2.500003000
2.999996000, 3.000000000
"""


@pytest.mark.parametrize(
    ("word", "mode"),
    [
        ("pp", "ping-pong"),
        ("ul", "under-load"),
        ("tp", "throughput"),
        ("pb", "playback"),
        ("sr", "server"),
    ],
)
def test_modes_of_sockperf_in_two_letters(word: str, mode: str) -> None:
    assert (
        only(f"$ sockperf {word} -i 10.0.0.2\nsockperf: == version #3.10-31.git == \n").test == mode
    )


@pytest.mark.parametrize(("waiting", "mode"), [(1, "ping-pong"), (2, "under-load")])
def test_messages_that_wait_for_an_answer_tell_the_mode(waiting: int, mode: str) -> None:
    run = only(
        f"""sockperf: [Total Run] RunTime=1.000 sec; SentMessages={100 + waiting}; ReceivedMessages=100
sockperf: [Valid Duration] RunTime=0.500 sec; SentMessages=50; ReceivedMessages=50
sockperf: ====> avg-latency=10.000 (std-dev=1.000)
sockperf: # dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0
sockperf: Total 50 observations; each percentile contains 0.50 observations
sockperf: ---> <MAX> observation =   12.000
sockperf: ---> <MIN> observation =    9.000
"""
    )
    assert (run.status, run.test, run.metrics["latency_oneway_us"]) == ("ok", mode, 10)


def test_packets_in_two_columns() -> None:
    run = only(OLD_SOCKPERF)
    assert (run.status, run.samples_count, run.warnings) == ("ok", 3, ())
    (batch,) = run.samples()
    assert list(batch["latency_us"]) == pytest.approx([1.0, 1.5, 2.0])
    assert {p.percentile for p in run.percentiles} == {50.0, 99.5}
    assert any("2 of 3" in w for w in only(OLD_SOCKPERF.partition("2.999996")[0]).warnings)


def uperf(operations: int = 413601, name: str = "Txn2") -> str:
    return f"""Starting 1 threads running profile:tcp_stream ...   0.00 seconds
Txn1          0 /   1.00(s) =            0           1op/s
{name}   10.96GB /  10.00(s) =     9.41Gb/s      {operations}op/s
Txn3          0 /   0.00(s) =            0           0op/s
-------------------------------------------------------------------------------
Total  10.96GB /  12.10(s) =     7.78Gb/s      341819op/s
"""


def test_operations_of_uperf() -> None:
    assert only(uperf()).status == "ok"
    assert only(uperf(43601)).status == "failed"


def raw(*names: str) -> str:
    sizes = (i * 1_000_000 * (n not in ("Txn1", "Txn3")) for i, n in enumerate(names))
    rows = (
        (1000 * i, n, size, i * 10) for i, (n, size) in enumerate(zip(names, sizes, strict=True))
    )
    lines = ("timestamp_ms:{}.0000 name:{} nr_bytes:{} nr_ops:{}\n".format(*row) for row in rows)
    return "Starting 1 threads running profile:tcp-stream ...   0.00 seconds\n" + "".join(lines)


def test_rows_of_uperf_with_another_name() -> None:
    names: list[Any] = ["Txn1"] * 2 + ["Txn2"] * 6 + ["Txn3"] * 2
    assert only(raw(*names)).status == "ok"
    assert only(raw(*names[:5], "Txn4", *names[6:])).status == "failed"


def test_times_of_transactions_are_no_rates() -> None:
    run = only(
        raw("Txn1", "Txn1", "Txn2", "Txn2")
        + """Txn                Count         avg         cpu         max         min
-------------------------------------------------------------------------------
Txn0                   1     10.54ms      0.00ns     10.54ms     10.54ms
Txn1              647863     92.64us      0.00ns      8.14ms     85.82us


Run Statistics
Hostname            Time       Data   Throughput   Operations      Errors
-------------------------------------------------------------------------------
master            62.36s    79.08MB    10.64Mb/s      1295728        0.00
"""
    )
    assert (run.status, run.metrics["throughput_sent_bps"]) == ("ok", 10.64e6)


# --- a line that is gone is named -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("iperf3/gen-3.12-bidir-P2.json", '"max_rtt":'),
        ("iperf2/made-csv-udp-client-report.csv", ",0.0-2.0,"),
        ("lagscope/readme-0.1.2-percentile-two-runs.txt", "Percentile "),
        ("netperf/gen-omni-k.txt", "P90_LATENCY="),
        ("netperf/gen-rr-v2.txt", "    8      0       0"),
        ("ntttcp/windows-pkb-udp-receiver.xml", "<cpu "),
        ("qperf/gen-v.txt", "msg_rate "),
        ("iperf2/gen-trip-hist.txt", " connected with "),
        ("iperf3/gen-3.17.1-udp.json", '"out_of_order"'),
        ("ntttcp/linux-gen-tcp-send.txt", "retrans segs"),
        ("sockperf/gen-ul-fulllog-rtt.csv", "percentile 50.000"),
        ("sockperf/gen-ul-fulllog-rtt.csv", "percentile 25.000"),
        ("sockperf/gen-ul-fulllog-rtt.csv", "avg-rtt="),
    ],
)
def test_a_lost_line_is_named(log: str, line: str) -> None:
    lines = (LOGS / log).read_text().splitlines(keepends=True)
    at = next(i for i, x in enumerate(lines) if line in x)
    before, after = read("".join(lines)), read("".join(lines[:at] + lines[at + 1 :]))
    assert any(r.status != "ok" for r in after) or {w for r in after for w in r.warnings} - {
        w for r in before for w in r.warnings
    }


def altered(log: str, old: str, new: str) -> tuple[list[ParsedRun], list[ParsedRun]]:
    """Return the runs of a log, and those once what the pattern `old` finds in it, once, is `new`."""
    text = (LOGS / log).read_text()
    other, count = re.subn(old, new, text)
    assert count == 1
    return read(text), read(other)


@pytest.mark.parametrize(
    ("log", "old", "new"),
    [
        # a line that lost its end, and the next one behind it
        ("iperf2/gen-trip-hist.txt", r" \(trip-times\).*\n", ""),
        ("iperf2/pkb-udp-2thread-sum.txt", r"sec  1 datagrams .*\n", "se[  9] "),
        ("netperf/gen-rr-v2.txt", r"Recv    usec/Tran .*\n", ""),
        # wrapped titles that a foreign line, or a lost end, tore
        # the command asked for more than the result
        ("qperf/wsl-vvs-million.txt", r"(?s)(?<=8\.03 GB/sec\n).*", ""),
        ("qperf/gen-un-vvs.txt", r",982 \n", ""),
        (
            "iperf3/iperf3-python-3.0.11-tcp.json",
            r'"intervals":(\s+\[\{\s+)"streams":',
            r'"streams":\1"intervals":',
        ),
        ("iperf3/gen-3.12-get-server-output.txt", r"(?s)^.*(?=Server output)", ""),
    ],
)
def test_what_a_damaged_line_took_along_is_told(log: str, old: str, new: str) -> None:
    before, after = altered(log, old, new)
    told = {w for r in before for w in r.warnings}
    assert all(r.status != "ok" or set(r.warnings) - told for r in after)


@pytest.mark.parametrize(
    ("log", "old", "new"),
    [
        ("netperf/doc-udp-rr-cpu.txt", r"  16\.11 .*\n65535", " 65535"),
        (
            "netperf/pkb-udp-rr-histogram.txt",
            r"\nThroughput,",
            "\nLatency Microseconds,Throughput,",
        ),
        ("iperf2/pkb-udp-2thread-sum.txt", r"\[  3\] .* 5350/0 .*\n", ""),
        ("iperf2/made-csv-udp-client-report.csv", r",[\d.]+,5001,3,0\.0-1\.0,.*\n", ","),
        ("qperf/aks-vvs-mb.txt", "    3.11 GB", "    26.6 GB"),
        ("sockperf/gen-tp-giga.txt", r"sockperf: Summary: Message Rate .*\n", ""),
        # a row that lost its end, before the sum of both ways
        ("iperf2/gen-dual-server.txt", r"0000-2\.0980 sec .*\n", "0000-"),
        ("iperf2/gen-udp-e.txt", "127.0.0.1, UDP port", "127.0.0.1, TCP port"),
        ("netperf/pkb-tcp-stream-conf.csv", r" : \+/-2\.500% @ 99% conf\.", ""),
        # lines of another day
        ("lagscope/readme-0.1.2-csvdump.txt", r"19:38:32 (?=INFO: Ping stat)", "17:50:37 "),
        ("sockperf/gen-tp-giga.txt", "GBps", "XBps"),
        ("iperf3/gen-3.3-udp.txt", r"0/39 \(0%\)  receiver", "9/39 (0%)  receiver"),
        ("lagscope/gen-hist.txt", r"      5 \t 1952", "      5 \t 1953"),
        ("ntttcp/linux-gen-tcp-send.txt", r"throughput\t:8\.84Gbps", "throughput\t:0.00Gbps"),
        ("ntttcp/linux-gen-tcp-send.txt", r"throughput\t:8\.84Gbps", "throughput\t:8.99Gbps"),
    ],
)
def test_figures_that_the_rest_of_the_log_contradicts(log: str, old: str, new: str) -> None:
    before, after = altered(log, old, new)
    assert sum(r.status == "ok" for r in after) < sum(r.status == "ok" for r in before)


@pytest.mark.parametrize("line", ["[  5]   0.00-1.00 ", "[  5]   9.00-10.00 "])
def test_windows_of_intervals_that_are_missing_are_left_out(line: str) -> None:
    log = (LOGS / "iperf3/aks-omit-we-az2az3.txt").read_text().splitlines(keepends=True)
    run = only("".join(x for x in log if not x.startswith(line) or "omitted" in x))
    assert run.status == "ok"
    assert "cwnd_max_bytes" not in run.metrics
    assert any("interval" in w for w in run.warnings)


def test_round_trips_of_intervals_that_are_missing_are_left_out() -> None:
    log = (LOGS / "iperf2/mid_iperf2_kill.txt").read_text()
    assert "rtt_loaded_us" in only(log).metrics
    run = only("".join(x for x in log.splitlines(keepends=True) if " 1.0000-" not in x))
    assert run.status == "ok"
    assert "rtt_loaded_us" not in run.metrics
    assert any("the intervals end before the test" in w for w in run.warnings)


def test_both_ways_without_a_banner_are_told_by_the_port_of_iperf() -> None:
    log = (LOGS / "iperf2/made-dual-2.0-client.txt").read_text()
    assert only(log[log.index("[  3] local") :]).metrics == only(log).metrics


@pytest.mark.parametrize(
    ("one", "two"),
    [
        # other hosts; a direction's mark; retransmits in a server's log, or among datagrams
        ("iperf2/gen-tcp.txt", "iperf2/moler-singlerun-server.txt"),
        ("iperf2/gen-tcp-e-server.txt", "iperf2/gen-reverse-e.txt"),
        ("iperf3/gen-3.12-title.txt", "iperf3/moler-singlerun-udp-server.txt"),
        ("qperf/gen-uu-vvs.txt", "qperf/wsl-vvs-million.txt"),
        ("qperf/aks-vvs-mb.txt", "qperf/aks-vvs-gb.txt"),
        ("sockperf/gen-ul-fulllog-rtt.csv", "sockperf/gen-lowrate-few-obs.txt"),
        ("netperf/pkb-udp-rr-histogram.txt", "netperf/doc-tcp-maerts.txt"),
        ("netperf/gen-omni-k.txt", "netperf/gen-omni-k-P0.txt"),
    ],
)
def test_two_processes_that_write_by_turns(one: str, two: str) -> None:
    logs = [(LOGS / name).read_bytes() for name in (one, two)]
    truth = [r for data in logs for r in tools.parse(data)]
    found = [measure.read(measure.interleaved(*logs, random.Random(seed))) for seed in range(40)]
    assert sum(not all(measure.right(run, truth) for run in runs) for runs in found) <= 2


def test_a_damaged_log_is_right_or_not_ok_but_for_those_that_no_reader_can_tell() -> None:
    """Some lines of every golden log, and every line of those that the documentation lists."""
    untold = measure.untold()
    assert len(untold) >= 5
    wrong, tried = measure.every(seed=1, lines=5)
    assert tried.total() > 3000
    assert wrong <= untold
    listed = {p for _, name in untold for p in measure.every(seed=2, only=name)[0]}
    assert listed == untold


def test_names_of_qperf_are_as_wide_as_the_longest() -> None:
    alone, cut = (
        "tcp_bw:\n    bw  =  2.82 GB/sec\n",
        "tcp_bw:\n    bw              =    2.82 GB/sec\n",
    )
    assert only(alone).warnings == ()
    assert only(cut).warnings == ("lines are missing: the names are aligned with a longer one",)


def test_a_run_is_doubted_where_the_one_before_it_contradicts_itself() -> None:
    good = (LOGS / "iperf3/gen-3.12-title.txt").read_text().replace("flow A:  ", "")
    failed, second = read(f"iperf3: error - unable to set CPU affinity: No such process\n{good}")
    assert (failed.status, failed.contradictory, second.status, second.warnings) == (
        "failed",
        False,
        "ok",
        (),
    )
    first, second = read(
        good.replace(
            "300 Mbits/sec    0             sender", "900 Mbits/sec    0             sender"
        )
        + good
    )
    assert (first.status, first.contradictory, second.status) == ("partial", True, "ok")
    assert any("of another process" in w for w in second.warnings)


def test_one_direction_of_two_without_the_head() -> None:
    rows = """[ ID][Role] Interval           Transfer     Bitrate
[  5][TX-C]   0.00-10.00  sec  1.11 GBytes   956 Mbits/sec  sender
[  5][TX-C]   0.00-10.04  sec  1.11 GBytes   951 Mbits/sec  receiver
"""
    other = rows.partition("\n")[2].replace("  5][TX", "  7][RX")
    assert only(DASHES + rows + other).status == "ok"
    assert only(DASHES + rows).status == "partial"


@pytest.mark.parametrize(
    ("log", "old", "new"),
    [
        ("connect-only.txt", "80.339 ms", "80.339 m"),
        ("pkb-tcp-3thread-intervals.txt", "us  2.49", "us  2.4.9"),
    ],
)
def test_a_damaged_unit_or_figure_is_no_crash(log: str, old: str, new: str) -> None:
    text = (LOGS / "iperf2" / log).read_text()
    assert old in text
    assert "ok" not in {run.status for run in tools.parse(text.replace(old, new, 1))}


IPERF2_BOTH_WAYS = """\
------------------------------------------------------------
Server listening on TCP port 5001
TCP window size: 85.3 KByte (default)
------------------------------------------------------------
------------------------------------------------------------
Client connecting to 10.0.0.2, TCP port 5001
TCP window size: 85.3 KByte (default)
------------------------------------------------------------
recvack failed: Resource temporarily unavailable
[  3] local 10.0.0.1 port 51862 connected with 10.0.0.2 port 5001 (server version is old)
[  5] local 10.0.0.1 port 5001 connected with 10.0.0.2 port 48256
[ ID] Interval       Transfer     Bandwidth
"""


@pytest.mark.parametrize(("end", "status"), [(10.6, "ok"), (15.0, "partial")])
def test_a_test_of_iperf2_ends_a_little_later_than_its_intervals(end: float, status: str) -> None:
    """A server that does not say its version, and last intervals that are not printed, cost no run; a stall does."""
    steps = [
        f"[  {n}] {i / 2:4.1f}-{i / 2 + 0.5:4.1f} sec   640 KBytes  10.5 Mbits/sec\n"
        for i in range(20)
        for n in (3, 5)
    ]
    size = f"12.6 MBytes  {105.7 / end:.3g} Mbits/sec\n"
    (run,) = tools.parse(
        IPERF2_BOTH_WAYS
        + "".join(steps)
        + f"[  3]  0.0-{end} sec  {size}[  5]  0.0-{end} sec  {size}"
    )
    assert run.status == status, run.error
    if status == "ok":
        assert run.metrics["throughput_sent_bps"] == pytest.approx(105.7e6 / end, rel=0.01)
        assert run.warnings[0] == "recvack failed: Resource temporarily unavailable"
        assert (
            run.warnings[1]
            == "the last intervals are missing: they end at 10 s, and the test after 10.6 s"
        )


def test_an_interval_without_datagrams_has_no_share_of_lost_ones() -> None:
    row = "20260130181857,10.0.0.27,37566,10.0.0.1,5001,3,"
    text = f"{row}0.0-1.0,8820,70560,2.205,0,6,0.000,0\n{row}1.0-2.0,0,0,43.656,0,0,-nan,0\n"
    (run,) = tools.parse(f"{text}{row}0.0-2.0,8820,35280,2.205,0,6,0.000,0\n")
    assert (run.status, run.metrics["throughput_bps"], run.metrics["packets_count"]) == (
        "ok",
        35280,
        6,
    )
