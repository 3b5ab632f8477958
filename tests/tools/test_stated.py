"""A reader says what the log says: nothing is asserted, and no figure is lost without a word."""

from __future__ import annotations

import pytest

from netperf_lib import tools
from netperf_lib.tools.parsed import ParsedRun

IPERF3_TAIL = """\
[  5]   0.00-10.00  sec  1.10 GBytes   944 Mbits/sec    3             sender
[  5]   0.00-10.00  sec  1.10 GBytes   943 Mbits/sec                  receiver
"""
UDP_CLIENT = """\
------------------------------------------------------------
Client connecting to 10.0.0.5, UDP port 5001
Sending 1470 byte datagrams
------------------------------------------------------------
[  3] local 10.0.0.4 port 52876 connected with 10.0.0.5 port 5001
[ ID] Interval       Transfer     Bandwidth
"""
UDP_INTERVALS = """\
[  3]  0.0- 5.0 sec    612 KBytes  1.00 Mbits/sec
[  3]  5.0-10.0 sec    611 KBytes  1.00 Mbits/sec
"""
UDP_RESULT = """\
[  3]  0.0-10.0 sec  1.19 MBytes  1.00 Mbits/sec
[  3] Sent 852 datagrams
[  3] Server Report:
[  3]  0.0-6579.6 sec  1.19 MBytes  1.52 Kbits/sec  0.006 ms    0/  852 (0%)
"""
QPERF = "tcp_bw:\n    bw  =  2.32 GB/sec\ntcp_lat:\n    latency  =  20 us\n"


def only(text: str) -> ParsedRun:
    (run,) = tools.parse(text)
    return run


def test_direction_without_head_is_unknown() -> None:
    run = only(IPERF3_TAIL)

    assert run.metrics["throughput_bps"] == 943e6
    assert "direction" not in run.parameters
    assert {*run.intervals.get("direction", ())} <= {None}


@pytest.mark.parametrize(
    ("options", "direction", "streams"),
    [
        ("-R", "reverse", 1),
        ("", "forward", 1),
        ("-P 1 --reverse -t 10", "reverse", 1),
        ("-u -b 1G -R", "reverse", 1),
        ("-tR", None, 1),
    ],
)
def test_command_above_rows_tells_direction(
    options: str, direction: str | None, streams: int
) -> None:
    run = only(f"user@host:~$ iperf3 -c 10.0.0.4 {options} | tail -5\n{IPERF3_TAIL}")

    assert run.status == "ok"
    assert run.parameters.get("direction") == direction
    assert run.parameters.get("streams") == streams


def test_stepped_server_clock_takes_no_figures_of_the_client() -> None:
    run = only(UDP_CLIENT + UDP_INTERVALS + UDP_RESULT)

    assert run.status == "ok"
    assert run.metrics["throughput_sent_bps"] == 1e6
    assert run.metrics["duration_measured_s"] == 10
    assert run.metrics["packets_count"] == 852
    assert "throughput_bps" not in run.metrics
    assert any("clock" in warning for warning in run.warnings)


def test_clocks_that_nothing_decides_leave_no_rate() -> None:
    run = only(UDP_CLIENT + UDP_RESULT)

    assert run.metrics["packets_count"] == 852
    assert not {"throughput_bps", "throughput_sent_bps", "duration_measured_s"} & {*run.metrics}


@pytest.mark.parametrize("before", ["<pre>", "[sudo] password for u: ", "$ qperf h tcp_bw "])
def test_qperf_header_behind_other_text(before: str) -> None:
    runs = tools.parse(before + QPERF)

    assert [run.test for run in runs] == ["tcp_bw", "tcp_lat"]
    assert runs[0].metrics["throughput_bps"] == pytest.approx(18.56e9)
