"""A reader says what the log says: nothing is asserted, and no figure is lost without a word."""

import json
from pathlib import Path

import pytest

from netperf_lib import tools

LOGS = Path(__file__).parents[1] / "logs"
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


def only(text):
    (run,) = tools.parse(text)
    return run


def test_direction_without_head_is_unknown():
    run = only(IPERF3_TAIL)

    assert run.metrics["throughput_bps"] == 943e6
    assert "direction" not in run.parameters
    assert {*run.intervals.get("direction", ())} <= {None}


@pytest.mark.parametrize(
    ("options", "direction", "streams"),
    [
        ("-R | tail -5", "reverse", 1),
        ("-R | tail -5\n", "reverse", 1),
        ("", "forward", 1),
        ("-P 1 --reverse -t 10", "reverse", 1),
        ("-u -b 1G -R", "reverse", 1),
        ("-tR", None, 1),
    ],
)
def test_command_above_rows_tells_direction(options, direction, streams):
    run = only(f"user@host:~$ iperf3 -c 10.0.0.4 {options}\n{IPERF3_TAIL}")

    assert run.status == "ok"
    assert run.parameters.get("direction") == direction
    assert run.parameters.get("streams") == streams


def test_stepped_server_clock_takes_no_figures_of_the_client():
    run = only(UDP_CLIENT + UDP_INTERVALS + UDP_RESULT)

    assert run.status == "ok"
    assert run.metrics["throughput_sent_bps"] == 1e6
    assert run.metrics["duration_measured_s"] == 10
    assert run.metrics["packets_count"] == 852
    assert "throughput_bps" not in run.metrics
    assert any("clock" in warning for warning in run.warnings)


def test_clocks_that_nothing_decides_leave_no_rate():
    run = only(UDP_CLIENT + UDP_RESULT)

    assert run.metrics["packets_count"] == 852
    assert not {"throughput_bps", "throughput_sent_bps", "duration_measured_s"} & {
        *run.metrics
    }


@pytest.mark.parametrize(
    "before", ["<pre>", "[sudo] password for u: ", "$ qperf h tcp_bw "]
)
def test_qperf_header_behind_other_text(before):
    runs = tools.parse(before + QPERF)

    assert [run.test for run in runs] == ["tcp_bw", "tcp_lat"]
    assert runs[0].metrics["throughput_bps"] == pytest.approx(18.56e9)


IPERF3_HEAD = """\
Connecting to host 10.0.0.4, port 5201
[  5] local 10.0.0.5 port 40000 connected to 10.0.0.4 port 5201
[ ID] Interval           Transfer     Bitrate         Retr  Cwnd
[  5]   0.00-10.00  sec  1.10 GBytes   944 Mbits/sec    3   1.12 MBytes
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Retr
"""


@pytest.mark.parametrize(
    "remark",
    [
        "[INFO] throughput: 943 Mbits/sec",
        r"$ grep -oP '\[SUM\].*?\K[\d.]+(?= Mbits/sec)' log",
        "# [SUM] is the sum of all; 401 Mbits/sec is what we wanted",
    ],
)
def test_remark_of_a_script_is_no_row(remark):
    run = only(f"{IPERF3_HEAD}{IPERF3_TAIL}{remark}\n")

    assert (run.status, run.metrics["throughput_bps"]) == ("ok", 943e6)


def test_interrupted_run_whose_message_comes_first_is_one():
    error = "iperf3: interrupt - the client has terminated\n"

    run = only(error + IPERF3_HEAD.partition("- - -")[0])

    assert (run.status, run.error) == ("partial", "interrupt - the client has terminated")


def test_server_without_results_of_its_client_is_one_run():
    head = IPERF3_HEAD.replace("Connecting to host 10.0.0.4, port 5201", ACCEPTED)
    receiver = IPERF3_TAIL.splitlines()[1]
    error = "iperf3: error - unable to receive results: Bad file descriptor"

    run = only(
        f"{head.replace('Retr  Cwnd', '').replace('Retr', '')}{receiver}\n{error}\n"
    )

    assert (run.status, run.metrics["throughput_bps"]) == ("ok", 943e6)
    assert any("unable to receive results" in warning for warning in run.warnings)


ACCEPTED = "Accepted connection from 10.0.0.5, port 39998"


def test_streams_of_sums_alone_are_those_of_the_command():
    run = only(
        f"$ iperf3 -c 10.0.0.4 -P 4 | grep SUM\n{IPERF3_TAIL.replace('[  5]', '[SUM]')}"
    )

    assert run.parameters["streams"] == 4


NTTTCP = (LOGS / "ntttcp" / "linux-gen-send.xml").read_text()


def test_figure_that_a_document_of_ntttcp_has_twice():
    twice = '<realtime metric="s">9.9</realtime>\n</ntttcps>'

    run = only(NTTTCP.replace("</ntttcps>", twice))

    assert run.error == "two different values of 'realtime s' in the document"


@pytest.mark.parametrize("unknown", ["NA", "-1"])
def test_length_that_a_document_of_ntttcp_does_not_tell(unknown):
    run = only(NTTTCP.replace("<run_time>2<", f"<run_time>{unknown}<"))

    assert run.status == "ok"
    assert run.parameters.get("duration_s") is None


def test_command_that_is_no_clients_tells_no_direction():
    run = only(f"$ iperf3 -s --bidir\n{IPERF3_TAIL}")

    assert "direction" not in run.parameters


@pytest.mark.parametrize("no_number", ["-nan", "nan", "inf"])
def test_report_that_is_no_number_takes_only_itself(no_number):
    report = UDP_RESULT.replace("1.52 Kbits", f"{no_number} bits").replace(
        "(0%)", f"({no_number}%)"
    )

    run = only(UDP_CLIENT + UDP_INTERVALS + report)

    assert run.metrics["throughput_sent_bps"] == 1e6
    assert not {"throughput_bps", "lost_count"} & {*run.metrics}
    assert any("no number" in warning for warning in run.warnings)


def test_interval_that_is_no_number_takes_only_itself():
    interval = IPERF3_HEAD.replace("944 Mbits/sec", "-nan bits/sec")

    run = only(interval + IPERF3_TAIL)

    assert (run.status, run.metrics["throughput_bps"]) == ("ok", 943e6)
    assert {*run.intervals["throughput_bps"]} == {None}


def compact(text):
    return json.dumps(json.loads(text))


@pytest.mark.parametrize(
    ("log", "again", "runs"),
    [
        ("iperf3/gen-3.12-udp.json", compact, 1),  # one cookie
        ("iperf3/gen-3.12-title.txt", str, 1),  # one port
        ("sockperf/gen-pp-burst.txt", str, 1),  # one histogram
        ("qperf/gen-v.txt", str, 2),  # three digits
    ],
)
def test_run_that_is_printed_twice_counts_once(log, again, runs):
    text = (LOGS / log).read_text()
    once = tools.parse(text)

    twice = tools.parse(f"{text}\n{again(text)}")

    assert len(twice) == runs * len(once)
    assert [run.metrics for run in twice[: len(once)]] == [run.metrics for run in once]
    assert ("printed a second time" in str(twice[0].warnings)) == (runs == 1)


def test_end_of_qperf_that_began_later_is_no_contradiction():
    """On a busy host: 2.8 GB arrived in 1.13 s, and were sent in 1.01 s."""
    run = only(
        "tcp_bw:\n"
        "    bw              =  2497962000 bytes/sec\n"
        "    send_real_time  =  1010000000 ns\n"
        "    send_bytes      =  2822800000 bytes\n"
        "    recv_real_time  =  1130000000 ns\n"
        "    recv_bytes      =  2822701056 bytes\n"
    )
    assert run.status == "ok", run.error


@pytest.mark.parametrize("end", ['"""', "}", "]"])
def test_marks_after_a_document_are_no_figures(end):
    text = (LOGS / "iperf3/gen-3.12-tcp-R.json").read_text()

    assert only(f"{text}\n{end}\n").status == "ok"


def test_row_of_sockperf_with_a_mark_needs_no_other_option():
    text = (LOGS / "sockperf/gen-pp-burst.txt").read_text()

    run = only(text.replace("<MAX> observation =", "<MAX> observation = **"))

    assert "not readable: " in str(run.error)
    assert "giga" not in str(run.error)


@pytest.mark.parametrize("first", [17.0, 27.3])
def test_two_results_of_iperf2_under_one_head_are_refused(first):
    rows = {17.0: "17.0 GBytes  14.6 Gbits/sec", 27.3: "27.3 GBytes  23.4 Gbits/sec"}
    second = next(size for size in rows if size != first)

    run = only(
        "Client connecting to 10.0.0.4, TCP port 5001\n"
        "[  1] local 10.0.0.5 port 43172 connected with 10.0.0.4 port 5001\n"
        f"[  1] 0.0000-10.0117 sec  {rows[first]}\n"
        f"[  1] 0.0000-10.0050 sec  {rows[second]}\n"
    )

    assert "contradicts" in str(run.error)


@pytest.mark.parametrize(
    "lines", ["latency   =  20 us", "latency  =  20 us\n  msg_rate  =  50 K/sec"]
)
def test_lines_of_qperf_that_are_not_aligned_are_read(lines):
    run = only(f"tcp_lat:\n  {lines}\n")

    assert run.metrics["latency_oneway_us"] == 20
    assert any("lines are missing" in warning for warning in run.warnings)


def test_udp_of_old_iperf3_is_read_without_datagrams_out_of_order():
    text = (LOGS / "iperf3/gen-3.12-udp.json").read_text()
    document = json.loads(text)
    document["start"]["version"] = "iperf 3.0.11"
    for stream in document["end"]["streams"]:
        del stream["udp"]["out_of_order"]

    run = only(json.dumps(document))

    assert run.metrics == {
        name: value
        for name, value in only(text).metrics.items()
        if name != "out_of_order_count"
    }


def test_udp_document_without_streams_is_read():
    document = json.loads((LOGS / "iperf3/gen-3.12-udp.json").read_text())
    document["end"]["streams"] = []

    assert "out_of_order_count" not in only(json.dumps(document)).metrics
